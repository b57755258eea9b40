//! Polling of completions.

use core::ffi::c_int;

use crate::bindings::{ibv_cq, ibv_wc};

/// Polls up to `num_entries` completions (ibv_poll_cq(3)). Returns the number of completions
/// written to `wc`, or a negative number on failure.
///
/// A completion with an error has only `wr_id`, `status`, `qp_num` and `vendor_err`. A successful
/// completion has only the fields that its opcode defines.
///
/// # Safety
/// `cq` is live, and no other thread uses it at the same time. `wc` has room for `num_entries`.
#[inline]
pub unsafe fn ibv_poll_cq(cq: *mut ibv_cq, num_entries: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: a live completion queue points to its open context.
    let Some(poll_cq) = (unsafe { (*(*cq).context).ops.poll_cq }) else {
        return -libc::EOPNOTSUPP;
    };
    // SAFETY: the caller upholds the contract for these arguments, which is that of the provider's
    // function.
    unsafe { poll_cq(cq, num_entries, wc) }
}

/// Requests one event on the queue's channel for the next completion, or the next solicited one if
/// `solicited_only` is not 0 (ibv_req_notify_cq(3)). Returns 0 or an errno.
///
/// # Safety
/// `cq` is live.
#[inline]
pub unsafe fn ibv_req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    // SAFETY: a live completion queue points to its open context.
    let Some(req_notify_cq) = (unsafe { (*(*cq).context).ops.req_notify_cq }) else {
        return libc::EOPNOTSUPP;
    };
    // SAFETY: the caller upholds the contract for these arguments, which is that of the provider's
    // function.
    unsafe { req_notify_cq(cq, solicited_only) }
}
