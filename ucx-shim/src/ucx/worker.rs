//! A worker of UCP: what progresses communication.

use core::ffi::c_int;
use core::ptr;
use core::slice;
use std::rc::Rc;

use probeline_ucx_sys::{
    UCP_WORKER_PARAM_FIELD_THREAD_MODE, UCS_ERR_BUSY, UCS_OK, UCS_THREAD_MODE_SERIALIZED, Ucp,
    ucp_worker_h, ucp_worker_params_t,
};

use super::context::Context;
use super::{CallFailed, OpenError};

/// A worker, for one thread at a time.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) context: Rc<Context>,
    pub(super) handle: ucp_worker_h,
}

impl Worker {
    pub(super) fn create(context: &Rc<Context>) -> Result<Self, CallFailed> {
        // SAFETY: a struct of integers, pointers and arrays of them, for which zero is valid; only
        // fields named in the mask are looked at.
        let mut params: ucp_worker_params_t = unsafe { core::mem::zeroed() };
        params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE.into();
        params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
        let mut handle = ptr::null_mut();
        let ucp = &context.ucp;
        // SAFETY: an open context and live pointers; the field of the mask is set.
        let status =
            unsafe { (ucp.ucp_worker_create)(context.handle, &raw const params, &raw mut handle) };
        CallFailed::check(ucp, "ucp_worker_create", status)?;
        Ok(Self { context: Rc::clone(context), handle })
    }

    /// Where endpoints connect to.
    pub(super) fn address(&self) -> Result<Vec<u8>, CallFailed> {
        let ucp = &self.context.ucp;
        let (mut address, mut bytes) = (ptr::null_mut(), 0);
        // SAFETY: a live worker and live pointers for the results.
        let status =
            unsafe { (ucp.ucp_worker_get_address)(self.handle, &raw mut address, &raw mut bytes) };
        CallFailed::check(ucp, "ucp_worker_get_address", status)?;
        // SAFETY: the address has so many bytes until it is released, below.
        let copy = unsafe { slice::from_raw_parts(address.cast::<u8>(), bytes) }.to_vec();
        // SAFETY: got from this worker, and released once.
        unsafe { (ucp.ucp_worker_release_address)(self.handle, address) };
        Ok(copy)
    }

    /// The descriptor that is readable when the armed worker has something to progress.
    pub(super) fn event_fd(&self) -> Result<c_int, CallFailed> {
        let mut fd = -1;
        // SAFETY: a live worker and a live pointer for the result.
        let status = unsafe { (self.context.ucp.ucp_worker_get_efd)(self.handle, &raw mut fd) };
        CallFailed::check(&self.context.ucp, "ucp_worker_get_efd", status)?;
        Ok(fd)
    }

    /// Progresses; whether anything has happened.
    #[inline]
    pub(super) fn progress(&self) -> bool {
        // SAFETY: a live worker, which one thread at a time uses.
        unsafe { (self.context.ucp.ucp_worker_progress)(self.handle) != 0 }
    }

    /// This worker, for another thread.
    ///
    /// # Safety
    /// What is returned is not used any more when the worker is dropped, and by one thread at a
    /// time, in turn with the worker itself.
    pub(super) unsafe fn lend(&self) -> Lent {
        Lent { ucp: self.context.ucp, handle: self.handle }
    }
}

/// A worker that another thread progresses for a while.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lent {
    ucp: Ucp,
    handle: ucp_worker_h,
}

// SAFETY: workers are created for threads that take turns, and by the contract of `lend` they do.
unsafe impl Send for Lent {}

impl Lent {
    /// As [`Worker::progress`].
    pub(super) fn progress(&self) -> bool {
        // SAFETY: the worker lives and it is this thread's turn, by the contract of `lend`.
        unsafe { (self.ucp.ucp_worker_progress)(self.handle) != 0 }
    }

    /// Arms the descriptor; `false` if there is something to progress first.
    pub(super) fn arm(&self) -> Result<bool, CallFailed> {
        // SAFETY: as in `progress`.
        match unsafe { (self.ucp.ucp_worker_arm)(self.handle) } {
            UCS_OK => Ok(true),
            UCS_ERR_BUSY => Ok(false),
            status => Err(CallFailed::of(&self.ucp, "ucp_worker_arm", status)),
        }
    }
}

impl From<CallFailed> for OpenError {
    fn from(failed: CallFailed) -> Self {
        Self::Call(failed)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // SAFETY: created above and destroyed once, with its endpoints; the engine drops its keys
        // before, and after this nothing of the worker's calls back.
        unsafe { (self.context.ucp.ucp_worker_destroy)(self.handle) };
    }
}
