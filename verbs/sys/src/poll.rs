//! Polling of completions.

use core::ffi::c_int;

use crate::bindings::{ibv_cq, ibv_wc};

/// Takes up to `num_entries` completions: how many were written to `wc`, or a negative number
/// (ibv_poll_cq(3)). Of a completion that failed, only `wr_id`, `status`, `qp_num` and `vendor_err`
/// are valid; of all of them only what its opcode has is written.
///
/// # Safety
/// `cq` is live and not used by another thread at the same time; `wc` has room for `num_entries`.
#[inline]
pub unsafe fn ibv_poll_cq(cq: *mut ibv_cq, num_entries: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: a live completion queue points to its open context.
    let Some(poll_cq) = (unsafe { (*(*cq).context).ops.poll_cq }) else {
        return -libc::EOPNOTSUPP;
    };
    // SAFETY: the provider's function, with what the contract says of its arguments.
    unsafe { poll_cq(cq, num_entries, wc) }
}

/// Asks for one event on the queue's channel at the next completion, or the next solicited one: 0
/// or an errno (ibv_req_notify_cq(3)).
///
/// # Safety
/// `cq` is live.
#[inline]
pub unsafe fn ibv_req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    // SAFETY: a live completion queue points to its open context.
    let Some(req_notify_cq) = (unsafe { (*(*cq).context).ops.req_notify_cq }) else {
        return libc::EOPNOTSUPP;
    };
    // SAFETY: the provider's function, with what the contract says of its arguments.
    unsafe { req_notify_cq(cq, solicited_only) }
}
