//! Handles: who may use them, and when.

use core::cell::{Cell, RefCell};
use core::panic::AssertUnwindSafe;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use std::panic::catch_unwind;

use crate::status::{Error, probeline_status};

/// The number of threads that have used a handle.
static THREADS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// This thread's number. No other thread of the process ever has it, unlike an address or an identifier of
    /// the system, which a new thread inherits from one that has ended.
    static NUMBER: u64 = THREADS.fetch_add(1, Relaxed);
}

fn this_thread() -> u64 {
    NUMBER.with(|number| *number)
}

/// A value that a panic may leave half changed.
pub(crate) trait Abandon: Sized {
    /// Releases the other ranks, which would wait for this one in vain, and returns what can still be
    /// closed. Neither uses nor drops the rest.
    fn abandon(self) -> Option<Self>;
}

/// Target of a pointer of C: a value that one call of one thread uses at a time.
pub(crate) struct Handle<T> {
    /// The number of the thread that opened it.
    thread: u64,
    /// `None` if a panic has left nothing to close.
    value: RefCell<Option<T>>,
    /// Whether a call has panicked.
    is_broken: Cell<bool>,
}

impl<T: Abandon> Handle<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            thread: this_thread(),
            value: RefCell::new(Some(value)),
            is_broken: Cell::new(false),
        }
    }

    /// Uses the value. A panic abandons it.
    #[inline]
    pub(crate) fn with<R>(
        &self,
        body: impl FnOnce(&mut T) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.check_thread()?;
        // Dropped by a panic only, and after the borrow: less work than to catch the panic, which
        // `call` does.
        let panicked = Panicked(self);
        let result = match self.value.try_borrow_mut() {
            Ok(mut value) => match value.as_mut() {
                Some(value) if !self.is_broken.get() => body(value),
                _ => Err(broken()),
            },
            Err(_) => Err(in_use()),
        };
        core::mem::forget(panicked);
        result
    }

    /// Takes the value out, to close it, unless `may` refuses it; `None` if a panic has left nothing.
    pub(crate) fn take_if(
        &self,
        may: impl FnOnce(&T) -> Result<(), Error>,
    ) -> Result<Option<T>, Error> {
        self.check_thread()?;
        let mut value = self.value.try_borrow_mut().map_err(|_| in_use())?;
        value.as_ref().map_or(Ok(()), may)?;
        Ok(value.take())
    }

    fn check_thread(&self) -> Result<(), Error> {
        if self.thread == this_thread() {
            return Ok(());
        }
        let text = "the handle belongs to the thread that opened it: call from that thread";
        Err(Error::new(probeline_status::PROBELINE_ERROR_THREAD, text))
    }
}

/// Abandons the value of the handle when it is dropped.
struct Panicked<'h, T: Abandon>(&'h Handle<T>);

impl<T: Abandon> Drop for Panicked<'_, T> {
    #[cold]
    fn drop(&mut self) {
        self.0.is_broken.set(true);
        // No second panic may leave this, because that would end the process.
        let abandon = || self.0.value.take().and_then(Abandon::abandon);
        let left = catch_unwind(AssertUnwindSafe(abandon)).unwrap_or(None);
        self.0.value.replace(left);
    }
}

#[cold]
pub(crate) fn in_use() -> Error {
    let text = "the handle is in use by the call that called this function: wait until it returns";
    Error::new(probeline_status::PROBELINE_ERROR_IN_USE, text)
}

#[cold]
fn broken() -> Error {
    let text = "an earlier call met a defect of the library: the handle can only be closed";
    Error::new(probeline_status::PROBELINE_ERROR_PANIC, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::call;
    use core::ffi::CStr;
    use probeline_status::{
        PROBELINE_ERROR_IN_USE as IN_USE, PROBELINE_ERROR_PANIC as PANIC,
        PROBELINE_ERROR_THREAD as THREAD, PROBELINE_OK as OK,
    };

    /// Records that it was abandoned.
    struct Value<'a>(&'a Cell<bool>);

    impl Abandon for Value<'_> {
        fn abandon(self) -> Option<Self> {
            self.0.set(true);
            None
        }
    }

    impl Abandon for () {
        fn abandon(self) -> Option<Self> {
            None
        }
    }

    /// A handle in another thread.
    struct Elsewhere(Handle<()>);

    // SAFETY: one thread at a time has the handle, whose value is nothing.
    unsafe impl Send for Elsewhere {}

    impl Elsewhere {
        fn call(&self) -> probeline_status {
            call(|| self.0.with(|()| Ok(())))
        }
    }

    #[test]
    fn refuses_nested_and_foreign_calls() {
        let handle = Handle::new(());
        let nested = call(|| handle.with(|()| handle.with(|()| Ok(()))));
        assert_eq!(nested, IN_USE);
        let elsewhere = Elsewhere(handle);
        assert_eq!(elsewhere.call(), OK);
        let other = std::thread::spawn(move || (elsewhere.call(), elsewhere));
        let (status, elsewhere) = other.join().unwrap();
        assert_eq!((status, elsewhere.call()), (THREAD, OK));
    }

    /// A new thread has the stack and the thread-local variables of one that has ended, at the same
    /// addresses.
    #[test]
    fn refuses_threads_reusing_owner_stack() {
        let open = || Elsewhere(Handle::new(()));
        let mut elsewhere = std::thread::spawn(open).join().unwrap();
        for _ in 0..16 {
            let next = std::thread::spawn(move || (elsewhere.call(), elsewhere));
            let status;
            (status, elsewhere) = next.join().unwrap();
            assert_eq!(status, THREAD);
        }
    }

    #[test]
    fn panic_becomes_status() {
        let abandoned = Cell::new(false);
        let handle = Handle::new(Value(&abandoned));
        assert_eq!(call(|| handle.with(|_| -> Result<(), Error> { panic!("a test") })), PANIC);
        assert!(abandoned.get());
        let text = crate::status::probeline_last_error();
        // SAFETY: a text of this thread, and no call fails before it is used.
        let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
        assert!(text.ends_with("a test"), "{text}");
        assert_eq!(call(|| handle.with(|_| Ok(()))), PANIC);
        assert!(handle.take_if(|_| Ok(())).unwrap().is_none());
    }
}
