//! Handles: who may use them, and when.

use core::cell::RefCell;
use core::panic::AssertUnwindSafe;
use std::panic::{catch_unwind, resume_unwind};

use crate::status::{Error, probeline_status};

thread_local! {
    /// Its address tells threads apart.
    static HERE: u8 = const { 0 };
}

fn here() -> usize {
    HERE.with(|here| core::ptr::from_ref(here).addr())
}

/// What a pointer of C refers to: a value that one call of one thread uses at a time.
pub(crate) struct Handle<T> {
    /// The thread that opened it.
    thread: usize,
    /// `None` after a panic.
    value: RefCell<Option<T>>,
}

impl<T> Handle<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { thread: here(), value: RefCell::new(Some(value)) }
    }

    /// Uses the value. After a panic it is leaked, because it may be half changed.
    pub(crate) fn with<R>(
        &self,
        body: impl FnOnce(&mut T) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.check_thread()?;
        let Ok(mut value) = self.value.try_borrow_mut() else { return Err(in_use()) };
        let Some(used) = value.as_mut() else { return Err(broken()) };
        let result = catch_unwind(AssertUnwindSafe(|| body(used)));
        result.unwrap_or_else(|payload| {
            core::mem::forget(value.take());
            resume_unwind(payload)
        })
    }

    /// Takes the value out, to close it; `None` after a panic.
    pub(crate) fn take(&self) -> Result<Option<T>, Error> {
        self.check_thread()?;
        self.value.try_borrow_mut().map(|mut value| value.take()).map_err(|_| in_use())
    }

    fn check_thread(&self) -> Result<(), Error> {
        if self.thread == here() {
            return Ok(());
        }
        let text = "the handle belongs to the thread that opened it: call from that thread";
        Err(Error::new(probeline_status::PROBELINE_ERROR_THREAD, text))
    }
}

fn in_use() -> Error {
    let text = "the handle is in use by the call that called this function: wait until it returns";
    Error::new(probeline_status::PROBELINE_ERROR_IN_USE, text)
}

fn broken() -> Error {
    let text = "an earlier call met a defect of the library: the handle can only be closed";
    Error::new(probeline_status::PROBELINE_ERROR_PANIC, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::call;
    use probeline_status::{
        PROBELINE_ERROR_IN_USE as IN_USE, PROBELINE_ERROR_PANIC as PANIC,
        PROBELINE_ERROR_THREAD as THREAD, PROBELINE_OK as OK,
    };

    #[test]
    fn one_call_of_one_thread_uses_it_at_a_time() {
        let handle = Handle::new(1);
        let nested = call(|| handle.with(|_| handle.with(|_| Ok(()))));
        assert_eq!(nested, IN_USE);
        /// A pointer for another thread.
        struct Elsewhere(*const Handle<i32>);
        // SAFETY: the handle outlives the thread, which is joined; a refused call changes nothing.
        unsafe impl Send for Elsewhere {}
        let elsewhere = Elsewhere(&raw const handle);
        let other = std::thread::spawn(move || {
            let elsewhere = elsewhere;
            // SAFETY: as above.
            let handle = unsafe { &*elsewhere.0 };
            call(|| handle.with(|_| Ok(())))
        });
        assert_eq!(other.join().unwrap(), THREAD);
        assert_eq!(call(|| handle.with(|_| Ok(()))), OK);
    }

    #[test]
    fn a_panic_becomes_a_status() {
        let handle = Handle::new(1);
        assert_eq!(call(|| handle.with(|_| -> Result<(), Error> { panic!("a test") })), PANIC);
        let text = crate::status::probeline_last_error();
        // SAFETY: a text of this thread, and no call fails before it is used.
        let text = unsafe { core::ffi::CStr::from_ptr(text) }.to_string_lossy();
        assert!(text.ends_with("a test"), "{text}");
        assert_eq!(call(|| handle.with(|_| Ok(()))), PANIC);
        assert!(handle.take().unwrap().is_none());
    }
}
