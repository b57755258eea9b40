//! The connection to one owner: an endpoint, and the key of the owner's memory.

use core::ptr;

use probeline_transport::WORD_BYTES;
use probeline_ucx_sys::{
    UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE, UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
    UCP_ERR_HANDLING_MODE_NONE, ucp_ep_h, ucp_ep_params_t, ucp_rkey_h,
};

use super::OpenError;
use super::connection_info::ConnectionInfo;
use super::error::check;
use super::worker::Worker;

/// A connection to one owner. Its endpoint is destroyed with the worker.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) endpoint: ucp_ep_h,
    pub(super) key: Key,
    /// The address of the owner's window.
    address: u64,
}

impl Peer {
    /// Creates an endpoint of `worker`, before which the result is dropped.
    pub(super) fn connect(worker: &Worker, info: &ConnectionInfo) -> Result<Self, OpenError> {
        let endpoint = create_endpoint(worker, &info.worker)?;
        let ucp = worker.context.ucp;
        let mut handle = ptr::null_mut();
        // SAFETY: a live endpoint, a live pointer, and a key that its owner packed, whole: a key
        // contains its own length.
        let status = unsafe {
            (ucp.ucp_ep_rkey_unpack)(endpoint, info.key.as_ptr().cast(), &raw mut handle)
        };
        check(&ucp, "ucp_ep_rkey_unpack", status)?;
        let key = Key { destroy: ucp.ucp_rkey_destroy, handle };
        Ok(Self { endpoint, key, address: info.address })
    }

    /// Returns the address of word `index` of the owner's window; the caller has checked the index.
    #[inline]
    pub(super) fn word(&self, index: u64) -> u64 {
        self.address.wrapping_add(index.wrapping_mul(WORD_BYTES as u64))
    }
}

fn create_endpoint(worker: &Worker, address: &[u8]) -> Result<ucp_ep_h, OpenError> {
    // SAFETY: a struct of integers, pointers and optional functions, for which zero is valid; UCP
    // reads only the fields in the mask.
    let mut params: ucp_ep_params_t = unsafe { core::mem::zeroed() };
    params.field_mask =
        (UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE).into();
    params.address = address.as_ptr().cast();
    params.err_mode = UCP_ERR_HANDLING_MODE_NONE;
    let mut endpoint = ptr::null_mut();
    let ucp = &worker.context.ucp;
    // SAFETY: a live worker, the address of another one, and live pointers.
    let status =
        unsafe { (ucp.ucp_ep_create)(worker.calls.handle, &raw const params, &raw mut endpoint) };
    check(ucp, "ucp_ep_create", status)?;
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
