//! Posting of work requests.

use core::ffi::c_int;

use crate::bindings::{ibv_qp, ibv_recv_wr, ibv_send_wr};

/// Posts a list of send work requests (ibv_post_send(3)). Returns 0, or an errno with `*bad_wr`
/// pointing to the first request that was not posted.
///
/// # Safety
/// `qp` is live, and no other thread uses it at the same time. `wr` is the head of a
/// null-terminated list. The scatter/gather list of each request has `num_sge` entries, whose
/// memory stays registered until the request completes. With `IBV_SEND_INLINE` the memory needs to
/// be readable only until this call returns. `bad_wr` can be written.
#[inline]
pub unsafe fn ibv_post_send(
    qp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: a live queue pair points to its open context.
    let Some(post_send) = (unsafe { (*(*qp).context).ops.post_send }) else {
        // SAFETY: `bad_wr` can be written, by the contract.
        unsafe { *bad_wr = wr };
        return libc::EOPNOTSUPP;
    };
    // SAFETY: the caller upholds the contract for these arguments, which is that of the provider's
    // function.
    unsafe { post_send(qp, wr, bad_wr) }
}

/// Posts a list of receive work requests (ibv_post_recv(3)). Returns 0, or an errno with `*bad_wr`
/// pointing to the first request that was not posted.
///
/// # Safety
/// As for [`ibv_post_send`], but no request is inline: memory stays registered until completion.
#[inline]
pub unsafe fn ibv_post_recv(
    qp: *mut ibv_qp,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: a live queue pair points to its open context.
    let Some(post_recv) = (unsafe { (*(*qp).context).ops.post_recv }) else {
        // SAFETY: `bad_wr` can be written, by the contract.
        unsafe { *bad_wr = wr };
        return libc::EOPNOTSUPP;
    };
    // SAFETY: the caller upholds the contract for these arguments, which is that of the provider's
    // function.
    unsafe { post_recv(qp, wr, bad_wr) }
}
