//! The connection to one owner: an endpoint, and the key of the owner's memory.

use core::cell::Cell;
use core::ffi::c_void;
use core::ptr;
use std::rc::Rc;

use probeline_engine::PAGE_WORDS;
use probeline_transport::WORD_BYTES;
use probeline_ucx_sys::{
    UCP_EP_PARAM_FIELD_ERR_HANDLER, UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
    UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, UCP_ERR_HANDLING_MODE_NONE, UCP_ERR_HANDLING_MODE_PEER,
    ucp_ep_h, ucp_ep_params_t, ucp_err_handler_t, ucp_rkey_h, ucs_status_t,
};

use super::CallFailed;
use super::connection_info::ConnectionInfo;
use super::worker::Worker;

/// The number of control words before a window: a page, so that the window starts on another page.
pub(super) const CONTROL_WORDS: usize = PAGE_WORDS;

/// Whether the endpoint of one owner has failed. UCX's error handler has a pointer to it.
#[derive(Debug)]
pub(super) struct EndpointState {
    pub(super) failed: Cell<bool>,
    /// Shared by all endpoints: one of them has failed.
    any_failed: Rc<Cell<bool>>,
}

impl EndpointState {
    /// The states of `owners` endpoints, none of which has failed.
    pub(super) fn of_all(owners: u32, any_failed: &Rc<Cell<bool>>) -> Rc<[Self]> {
        let state = || Self { failed: Cell::new(false), any_failed: Rc::clone(any_failed) };
        (0..owners).map(|_| state()).collect()
    }
}

/// UCX's error handler. UCX itself completes the operations in flight on the endpoint, and the
/// endpoint is destroyed with its worker.
unsafe extern "C" fn endpoint_failed(arg: *mut c_void, _endpoint: ucp_ep_h, _status: ucs_status_t) {
    // SAFETY: the state that `create_endpoint` registered, which outlives the worker that calls
    // this.
    let state = unsafe { &*arg.cast::<EndpointState>() };
    state.failed.set(true);
    state.any_failed.set(true);
}

/// A connection to one owner. Its endpoint is destroyed with the worker.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) endpoint: ucp_ep_h,
    pub(super) key: Key,
    /// The address of the owner's control words, which its window follows.
    address: u64,
}

impl Peer {
    /// Creates an endpoint of `worker`. If UCX reports the loss of this owner, which it does not
    /// over shared memory, `state` receives it.
    ///
    /// # Safety
    /// `state` is dropped after `worker`, and the result before.
    pub(super) unsafe fn connect(
        worker: &Worker,
        info: &ConnectionInfo,
        state: Option<&EndpointState>,
    ) -> Result<Self, CallFailed> {
        // SAFETY: the contract above.
        let endpoint = unsafe { create_endpoint(worker, &info.worker, state) }?;
        let ucp = worker.context.ucp;
        let mut handle = ptr::null_mut();
        // SAFETY: a live endpoint, a live pointer, and a key that its owner packed, whole: a key
        // contains its own length.
        let status = unsafe {
            (ucp.ucp_ep_rkey_unpack)(endpoint, info.key.as_ptr().cast(), &raw mut handle)
        };
        CallFailed::check(&ucp, "ucp_ep_rkey_unpack", status)?;
        let key = Key { destroy: ucp.ucp_rkey_destroy, handle };
        Ok(Self { endpoint, key, address: info.address })
    }

    /// The address of word `index` of the owner's window; the caller has checked the index.
    #[inline]
    pub(super) fn word(&self, index: u64) -> u64 {
        let index = index.wrapping_add(CONTROL_WORDS as u64);
        self.address.wrapping_add(index.wrapping_mul(WORD_BYTES as u64))
    }

    /// The address of a control word of the owner.
    pub(super) fn control_word(&self, index: usize) -> u64 {
        self.address + (index.min(CONTROL_WORDS - 1) * WORD_BYTES) as u64
    }
}

/// # Safety
/// As for [`Peer::connect`].
unsafe fn create_endpoint(
    worker: &Worker,
    address: &[u8],
    state: Option<&EndpointState>,
) -> Result<ucp_ep_h, CallFailed> {
    // SAFETY: a struct of integers, pointers and optional functions, for which zero is valid; UCP
    // reads only the fields in the mask.
    let mut params: ucp_ep_params_t = unsafe { core::mem::zeroed() };
    params.field_mask =
        (UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE).into();
    params.address = address.as_ptr().cast();
    params.err_mode = UCP_ERR_HANDLING_MODE_NONE;
    if let Some(state) = state {
        params.field_mask |= u64::from(UCP_EP_PARAM_FIELD_ERR_HANDLER);
        params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
        let arg = (&raw const *state).cast_mut().cast();
        params.err_handler = ucp_err_handler_t { cb: Some(endpoint_failed), arg };
    }
    let mut endpoint = ptr::null_mut();
    let ucp = &worker.context.ucp;
    // SAFETY: a live worker, the address of another one, and live pointers. The state outlives the
    // endpoint, by the contract above.
    let status =
        unsafe { (ucp.ucp_ep_create)(worker.calls.handle, &raw const params, &raw mut endpoint) };
    CallFailed::check(ucp, "ucp_ep_create", status)?;
    Ok(endpoint)
}

/// An unpacked key.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) destroy: unsafe extern "C" fn(ucp_rkey_h),
    pub(super) handle: ucp_rkey_h,
}

impl Drop for Key {
    fn drop(&mut self) {
        // SAFETY: unpacked once and destroyed once, before the worker of its endpoint and after all
        // operations that use it (see `shutdown`).
        unsafe { (self.destroy)(self.handle) };
    }
}
