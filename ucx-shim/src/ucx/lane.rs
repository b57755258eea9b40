//! The way to one owner: an endpoint, and the key to its window.

use core::cell::Cell;
use core::ffi::c_void;
use core::ptr;
use std::rc::Rc;

use probeline_transport::WORD_BYTES;
use probeline_ucx_sys::{
    UCP_EP_PARAM_FIELD_ERR_HANDLER, UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
    UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, UCP_ERR_HANDLING_MODE_NONE, UCP_ERR_HANDLING_MODE_PEER,
    ucp_ep_h, ucp_ep_params_t, ucp_err_handler_t, ucp_rkey_h, ucs_status_t,
};

use super::CallFailed;
use super::control::CONTROL_WORDS;
use super::worker::Worker;

/// What the library's handler of errors has told of one endpoint.
#[derive(Debug)]
pub(super) struct Alarm {
    /// Some endpoint has failed.
    rung: Rc<Cell<bool>>,
    /// This one has.
    failed: Cell<bool>,
}

impl Alarm {
    /// Rings `rung` too when it rings.
    pub(super) fn new(rung: &Rc<Cell<bool>>) -> Rc<Self> {
        Rc::new(Self { rung: Rc::clone(rung), failed: Cell::new(false) })
    }
}

/// An endpoint to one owner. It goes with its worker.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) endpoint: ucp_ep_h,
    pub(super) key: Key,
    alarm: Rc<Alarm>,
    /// Where the owner's control words are, and behind them its window.
    address: u64,
}

/// What an owner has told of itself that a lane needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer<'a> {
    /// Its worker.
    pub(super) worker: &'a [u8],
    /// The key of its memory.
    pub(super) key: &'a [u8],
    pub(super) address: u64,
    /// Whether the library can tell that it is lost; where memory is shared it cannot.
    pub(super) handled: bool,
}

impl Lane {
    /// Makes an endpoint of `worker`, which rings `alarm` when it fails.
    ///
    /// # Safety
    /// `alarm` is dropped after `worker`, and the lane before.
    pub(super) unsafe fn create(
        worker: &Worker,
        peer: Peer<'_>,
        alarm: &Rc<Alarm>,
    ) -> Result<Self, CallFailed> {
        // SAFETY: the contract above.
        let endpoint = unsafe { create_endpoint(worker, peer, alarm) }?;
        let ucp = worker.context.ucp;
        let mut handle = ptr::null_mut();
        // SAFETY: a live endpoint, a key that was packed by its owner, and a live pointer. A key
        // is not looked at beyond what it says itself, hence the whole of it is handed on.
        let status = unsafe {
            (ucp.ucp_ep_rkey_unpack)(endpoint, peer.key.as_ptr().cast(), &raw mut handle)
        };
        CallFailed::check(&ucp, "ucp_ep_rkey_unpack", status)?;
        let key = Key { destroy: ucp.ucp_rkey_destroy, handle };
        Ok(Self { endpoint, key, alarm: Rc::clone(alarm), address: peer.address })
    }

    /// Where the owner's window begins.
    pub(super) fn window(&self) -> u64 {
        self.address + (CONTROL_WORDS * WORD_BYTES) as u64
    }

    /// A control word of the owner.
    pub(super) fn control(&self, index: usize) -> u64 {
        self.address + (index.min(CONTROL_WORDS - 1) * WORD_BYTES) as u64
    }

    /// Whether the endpoint has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.alarm.failed.get()
    }
}

/// The library's word that an endpoint has failed. It ends what is under way there by itself, and
/// the endpoint goes with its worker.
unsafe extern "C" fn endpoint_failed(arg: *mut c_void, _endpoint: ucp_ep_h, _status: ucs_status_t) {
    // SAFETY: what `create_endpoint` has registered, which outlives the worker that calls this.
    let alarm = unsafe { &*arg.cast::<Alarm>() };
    alarm.failed.set(true);
    alarm.rung.set(true);
}

/// # Safety
/// As for [`Lane::create`].
unsafe fn create_endpoint(
    worker: &Worker,
    peer: Peer<'_>,
    alarm: &Rc<Alarm>,
) -> Result<ucp_ep_h, CallFailed> {
    // SAFETY: a struct of integers, pointers and optional functions, for which zero is valid; only
    // fields named in the mask are looked at.
    let mut params: ucp_ep_params_t = unsafe { core::mem::zeroed() };
    params.field_mask =
        (UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE).into();
    params.address = peer.worker.as_ptr().cast();
    params.err_mode = UCP_ERR_HANDLING_MODE_NONE;
    if peer.handled {
        params.field_mask |= u64::from(UCP_EP_PARAM_FIELD_ERR_HANDLER);
        params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
        let arg = Rc::as_ptr(alarm).cast_mut().cast();
        params.err_handler = ucp_err_handler_t { cb: Some(endpoint_failed), arg };
    }
    let mut endpoint = ptr::null_mut();
    let ucp = &worker.context.ucp;
    // SAFETY: a live worker, an address that was got from another one, and live pointers. The
    // alarm outlives the endpoint, which goes with its worker.
    let status =
        unsafe { (ucp.ucp_ep_create)(worker.handle, &raw const params, &raw mut endpoint) };
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
        // SAFETY: unpacked once and destroyed once, before the worker of its endpoint.
        unsafe { (self.destroy)(self.handle) };
    }
}
