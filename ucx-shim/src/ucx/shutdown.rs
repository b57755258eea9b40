//! Closes an engine in the order that UCX requires.

use core::mem::ManuallyDrop;
use std::thread;

use probeline_transport::engine::Deadline;

use super::Engine;
use super::engine::{DRAIN_TIMEOUT, Parts};

/// A key must be destroyed after all operations that use it have completed, and before its
/// endpoint, which is destroyed with its worker (ucp.h, `ucp_rkey_destroy`). If an operation does
/// not complete in time, all objects that it uses stay open until the process exits. The objects of
/// an engine that is still connecting stay open too: UCX (1.13.1) would abort the process if its
/// worker were destroyed then.
impl Drop for Engine {
    fn drop(&mut self) {
        if self.connected {
            self.drain();
        }
        // SAFETY: this is the only place that takes the parts, and nothing uses them afterwards.
        let parts = unsafe { ManuallyDrop::take(&mut self.parts) };
        if self.connected && parts.pool.is_idle() { drop(parts) } else { parts.leak() }
    }
}

impl Engine {
    /// Progresses until all requests have completed, or until the time limit.
    fn drain(&mut self) {
        let deadline = Deadline::after(DRAIN_TIMEOUT);
        while !self.parts.pool.is_idle() && !deadline.has_passed() {
            self.parts.worker.calls.progress();
            // The owner that this loop waits for may need this CPU.
            thread::yield_now();
        }
    }
}

impl Parts {
    /// Stops the thread, and leaks the workers with everything that they use.
    pub(super) fn leak(mut self) {
        self.progress_thread = None;
        core::mem::forget(self);
    }
}

#[cfg(test)]
mod tests {
    use core::cell::{Cell, RefCell};
    use core::sync::atomic::AtomicBool;
    use core::sync::atomic::Ordering::{Acquire, Release};
    use std::sync::Barrier;

    use probeline_transport::{
        Completion, Exchange, Owner, RemoteWord, Segment, Sizes, Slot, SlotRange, Token, Transport,
    };
    use probeline_ucx_sys::ucp_rkey_h;

    use super::*;
    use crate::ucx::{Builder, Progress};

    /// The number of READs that are queued when the engine is dropped.
    const QUEUED: u32 = 8;

    /// The number of attempts, in one of which the other owner must get CPU time within 1.5 s.
    const TRIES: u32 = 20;

    type Destroy = unsafe extern "C" fn(ucp_rkey_h);

    thread_local! {
        /// The library's function that destroys keys, and the number of keys that [`note`]
        /// destroyed.
        static DESTROY: RefCell<Option<Destroy>> = const { RefCell::new(None) };
        static DESTROYED: Cell<u32> = const { Cell::new(0) };
    }

    unsafe extern "C" fn note(key: ucp_rkey_h) {
        DESTROYED.set(DESTROYED.get() + 1);
        let destroy = DESTROY.with_borrow(|destroy| destroy.unwrap());
        // SAFETY: calls the library's own function with the argument of the library's caller.
        unsafe { destroy(key) };
    }

    /// Drops the engine of owner 0 while READs of owner 1's window are queued. Over tcp owner 1
    /// answers them only when it polls. Returns the number of destroyed keys.
    fn drop_busy(answers: bool) -> u32 {
        let dropped = &AtomicBool::new(false);
        // An owner that still opens its engine answers READs, even if it never polls afterwards.
        let both_open = &Barrier::new(2);
        let owner = |mut member: probeline_exchange::Thread| {
            let builder =
                Builder::new(Sizes::new(64).with_slots(1, 8).with_depth(QUEUED)).tls(Some("tcp"));
            let mut engine = builder.progress(Progress::Caller).open(&mut member).unwrap();
            both_open.wait();
            if member.me() == Owner(0) {
                let destroyed = drop_with_reads(engine);
                dropped.store(true, Release);
                return destroyed;
            }
            while !dropped.load(Acquire) {
                if answers {
                    let _ = engine.poll(&mut [Completion::default()]);
                }
                thread::yield_now();
            }
            0
        };
        let [one, other]: [_; 2] = probeline_exchange::threads(2).try_into().ok().unwrap();
        thread::scope(|scope| {
            scope.spawn(move || owner(other));
            scope.spawn(move || owner(one)).join().unwrap()
        })
    }

    fn drop_with_reads(mut engine: Engine) -> u32 {
        let from = Segment { start: RemoteWord { owner: Owner(1), index: 0 }, words: 8 };
        let into = SlotRange { slot: Slot(0), start: 0, words: 8 };
        for token in 0..QUEUED {
            engine.read(Token(token.into()), from, into).unwrap();
        }
        assert!(!engine.parts.pool.is_idle(), "nothing is queued");
        for peer in &mut engine.parts.peers {
            DESTROY.set(Some(peer.key.destroy));
            peer.key.destroy = note;
        }
        DESTROYED.set(0);
        drop(engine);
        DESTROYED.get()
    }

    /// UCX may still use the keys: their memory stays registered too.
    #[test]
    fn keeps_keys_in_use() {
        assert_eq!(drop_busy(false), 0);
    }

    /// Either all keys are destroyed or, if the other owner got no CPU in time, none.
    #[test]
    fn completes_operations_before_destroying_keys() {
        let destroyed = (0..TRIES).map(|_| drop_busy(true)).find(|&destroyed| destroyed != 0);
        assert_eq!(destroyed, Some(2));
    }
}
