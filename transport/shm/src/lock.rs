//! A lock that the thread of an engine holds while the engine is open. Peers only try it: if it is
//! held, the owner is alive. It is a robust mutex, which the kernel marks however that thread ends.
//! See pthread_mutexattr_setrobust(3) and the kernel's Documentation/locking/robust-futexes.rst.

use core::mem::MaybeUninit;
use core::sync::atomic::AtomicU64;

use libc::{pthread_mutex_t, pthread_mutexattr_t};

/// The number of words of a lock.
pub(crate) const LOCK_WORDS: usize = size_of::<pthread_mutex_t>().div_ceil(size_of::<AtomicU64>());

const _: () = assert!(align_of::<pthread_mutex_t>() <= align_of::<AtomicU64>());

/// The lock, stored in words that processes share.
pub(crate) struct Lock<'a>(pub(crate) &'a [AtomicU64; LOCK_WORDS]);

impl Lock<'_> {
    /// Creates the lock in zeroed memory that no other code uses yet, and acquires it.
    ///
    /// # Errors
    /// Returns the error of the failed pthread call; no lock exists then.
    ///
    /// # Safety
    /// The memory stays mapped at this address until this same thread has called
    /// [`release`](Self::release) or has exited: the C library links the lock into a list of the
    /// thread.
    pub(crate) unsafe fn create_held(&self) -> Result<(), i32> {
        let mut attributes = MaybeUninit::<pthread_mutexattr_t>::uninit();
        let attributes = attributes.as_mut_ptr();
        // SAFETY: `attributes` points to room for one, which is initialised, used, then destroyed.
        unsafe {
            check(libc::pthread_mutexattr_init(attributes))?;
            let made = self.create(attributes);
            libc::pthread_mutexattr_destroy(attributes);
            made?;
        }
        // SAFETY: initialised above; the caller keeps it mapped until it is released (# Safety).
        check(unsafe { libc::pthread_mutex_lock(self.mutex()) })
    }

    /// Initialises the mutex as robust and shared between processes.
    ///
    /// # Safety
    /// `attributes` is initialised; no other code uses the memory yet.
    unsafe fn create(&self, attributes: *mut pthread_mutexattr_t) -> Result<(), i32> {
        const SHARED: i32 = libc::PTHREAD_PROCESS_SHARED;
        const ROBUST: i32 = libc::PTHREAD_MUTEX_ROBUST;
        // SAFETY: the caller passes initialised attributes, and the mutex is unused (# Safety).
        unsafe {
            check(libc::pthread_mutexattr_setpshared(attributes, SHARED))?;
            check(libc::pthread_mutexattr_setrobust(attributes, ROBUST))?;
            check(libc::pthread_mutex_init(self.mutex(), attributes))
        }
    }

    /// Releases the lock.
    ///
    /// # Safety
    /// This thread acquired it by [`create_held`](Self::create_held).
    pub(crate) unsafe fn release(&self) {
        // SAFETY: the caller's thread acquired it by `create_held` (# Safety), which initialised it.
        let _ = unsafe { libc::pthread_mutex_unlock(self.mutex()) };
    }

    /// Returns whether the thread that created the lock holds it. It makes no system call; if the
    /// lock is held, it costs one failed compare-and-swap.
    ///
    /// # Safety
    /// The lock was created by [`create_held`](Self::create_held), in this or another process.
    pub(crate) unsafe fn is_held(&self) -> bool {
        // SAFETY: the mutex is initialised: `create_held` created the lock (# Safety). If the call
        // fails with EBUSY, the lock is in no list of this thread.
        match unsafe { libc::pthread_mutex_trylock(self.mutex()) } {
            libc::EBUSY => true,
            // The holder released it or died. This thread holds it now, and releases it at once so
            // that the next caller also detects the loss. A caller between these two calls sees it
            // held, and detects the loss on its next try.
            errno @ (0 | libc::EOWNERDEAD) => {
                // SAFETY: this thread holds the lock since the line above.
                unsafe { self.give_back(errno) };
                false
            }
            _ => false,
        }
    }

    /// Unlocks the lock, for which trylock returned `errno`. If its holder died, the lock is made
    /// consistent first: otherwise the next trylock would leave it locked (glibc 2.36), and it
    /// would appear held forever.
    ///
    /// # Safety
    /// This thread holds the lock.
    unsafe fn give_back(&self, errno: i32) {
        // SAFETY: the caller's thread holds the lock (# Safety).
        unsafe {
            if errno == libc::EOWNERDEAD {
                let _ = libc::pthread_mutex_consistent(self.mutex());
            }
            let _ = libc::pthread_mutex_unlock(self.mutex());
        }
    }

    fn mutex(&self) -> *mut pthread_mutex_t {
        // Atomics may be modified through a shared reference, also by the C library.
        self.0.as_ptr().cast_mut().cast()
    }
}

fn check(errno: i32) -> Result<(), i32> {
    if errno == 0 { Ok(()) } else { Err(errno) }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Instant;

    use super::*;

    /// A wait longer than a busy machine needs.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// Leaks memory, because a lock must outlive its holder, which may just be exiting.
    fn words() -> &'static [AtomicU64; LOCK_WORDS] {
        Box::leak(Box::new([const { AtomicU64::new(0) }; LOCK_WORDS]))
    }

    fn is_held(words: &[AtomicU64; LOCK_WORDS]) -> bool {
        // SAFETY: the tests call this after the lock was created.
        unsafe { Lock(words).is_held() }
    }

    #[test]
    fn held_until_released() {
        let words = words();
        // SAFETY: leaked memory, released by this thread.
        unsafe { Lock(words).create_held().unwrap() };
        assert!((0..1000).all(|_| is_held(words)));
        // SAFETY: acquired above.
        unsafe { Lock(words).release() };
        assert!((0..1000).all(|_| !is_held(words)));
    }

    #[test]
    fn all_threads_detect_holder_exit() {
        let words = words();
        let (made, wait_made) = channel();
        let (end, wait_end) = channel::<()>();
        let holder = thread::spawn(move || {
            // SAFETY: leaked memory.
            unsafe { Lock(words).create_held().unwrap() };
            made.send(()).unwrap();
            let _ = wait_end.recv();
        });
        wait_made.recv().unwrap();
        assert!((0..1000).all(|_| is_held(words)));
        drop(end);
        holder.join().unwrap();
        // `is_held` acquires the lock for a moment, so another caller may see it held, but not
        // forever.
        thread::scope(|scope| {
            let ask = || {
                let start = Instant::now();
                while is_held(words) {
                    assert!(start.elapsed() < PATIENCE, "still held");
                    thread::yield_now();
                }
            };
            (0..4).for_each(|_| drop(scope.spawn(ask)));
        });
        assert!(!is_held(words));
    }

    /// Trying other locks must not corrupt this thread's list of held locks.
    #[test]
    fn own_locks_survive_trying_others() {
        let (own, others) = (words(), [words(), words(), words()]);
        let holder = |words: &'static [AtomicU64; LOCK_WORDS]| {
            // SAFETY: leaked memory.
            unsafe { Lock(words).create_held().unwrap() };
        };
        for dead in others {
            thread::spawn(move || holder(dead)).join().unwrap();
        }
        thread::spawn(move || {
            holder(own);
            assert!(others.iter().all(|other| !is_held(other)));
            assert!(is_held(own));
        })
        .join()
        .unwrap();
        assert!(!is_held(own));
    }
}
