//! Posting of work requests.

use core::ffi::c_int;

use crate::bindings::{ibv_qp, ibv_recv_wr, ibv_send_wr};

/// Posts a list of send work requests: 0, or an errno with `*bad_wr` at the first request that was
/// not posted (ibv_post_send(3)).
///
/// # Safety
/// `qp` is live and not used by another thread at the same time. `wr` is the head of a list, ended
/// by null, of requests whose scatter/gather lists are as long as they say; memory they name stays
/// registered until they complete, or until this returns where `IBV_SEND_INLINE` is set. `bad_wr`
/// can be written.
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
    // SAFETY: the provider's function, with what the contract says of its arguments.
    unsafe { post_send(qp, wr, bad_wr) }
}

/// Posts a list of receive work requests: 0, or an errno with `*bad_wr` at the first request that
/// was not posted (ibv_post_recv(3)).
///
/// # Safety
/// As for [`ibv_post_send`]; nothing is inline, memory stays registered until completion.
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
    // SAFETY: the provider's function, with what the contract says of its arguments.
    unsafe { post_recv(qp, wr, bad_wr) }
}
