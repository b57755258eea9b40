//! Extended queue pairs: work requests built by calls, between start and complete.

use core::ffi::{c_int, c_void};
use core::ptr;

use crate::bindings::{IBV_QP_INIT_ATTR_PD, ibv_context, ibv_qp, ibv_qp_ex, ibv_qp_init_attr_ex};
use crate::context::extended_op;
use crate::library::Verbs;

/// A queue pair with extended attributes: null and errno on failure (ibv_create_qp_ex(3)). With
/// `send_ops_flags` it has the extended interface, if `ibv_qp_to_qp_ex` says so.
///
/// # Safety
/// `context` is open; `attr` can be read and written, and what it points to is live and of that
/// context.
#[inline]
pub unsafe fn ibv_create_qp_ex(
    verbs: &Verbs,
    context: *mut ibv_context,
    attr: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    // SAFETY: `attr` can be read, by the contract.
    let (mask, pd) = unsafe { ((*attr).comp_mask, (*attr).pd) };
    if mask == IBV_QP_INIT_ATTR_PD {
        // SAFETY: the plain attributes are a prefix of the extended ones.
        return unsafe { (verbs.ibv_create_qp)(pd, attr.cast()) };
    }
    // SAFETY: `context` is open, by the contract.
    let Some(create_qp_ex) = (unsafe { extended_op!(context, create_qp_ex) }) else {
        // SAFETY: this thread's errno.
        unsafe { *libc::__errno_location() = libc::EOPNOTSUPP };
        return ptr::null_mut();
    };
    // SAFETY: the provider's function, with what the contract says of its arguments.
    unsafe { create_qp_ex(context, attr) }
}

/// The calls of an extended queue pair. C has no result where the provider's function has none;
/// here it is 0, or `EOPNOTSUPP` where the provider has no such function.
macro_rules! work_requests {
    ($(
        $(#[$doc:meta])*
        fn $name:ident => $op:ident($($argument:ident: $type:ty),*);
    )*) => {$(
        $(#[$doc])*
        ///
        /// 0, or `EOPNOTSUPP` if the queue pair was made without this operation: then nothing was
        /// built, and the batch is to be ended with [`ibv_wr_abort`] (ibv_wr_post(3)).
        ///
        /// # Safety
        /// `qp` is from `ibv_qp_to_qp_ex`, its queue pair is live, and no other thread is between
        /// [`ibv_wr_start`] and the end of its batch. Calls come in the order of ibv_wr_post(3),
        /// and memory they name is treated as [`ibv_post_send`](crate::ibv_post_send) wants.
        #[inline]
        #[must_use = "a work request that was not built does not complete"]
        pub unsafe fn $name(qp: *mut ibv_qp_ex, $($argument: $type),*) -> c_int {
            // SAFETY: `qp` is live, by the contract.
            let Some($op) = (unsafe { (*qp).$op }) else {
                return libc::EOPNOTSUPP;
            };
            // SAFETY: the provider's function, with what the contract says of its arguments.
            unsafe { $op(qp, $($argument),*) };
            0
        }
    )*};
}

work_requests! {
    /// Begins a batch.
    fn ibv_wr_start => wr_start();
    /// Begins a READ, under `wr_id` and `wr_flags` of the queue pair.
    fn ibv_wr_rdma_read => wr_rdma_read(rkey: u32, remote_addr: u64);
    /// Begins a WRITE, under `wr_id` and `wr_flags` of the queue pair.
    fn ibv_wr_rdma_write => wr_rdma_write(rkey: u32, remote_addr: u64);
    /// Begins a compare-and-swap of 8 bytes, under `wr_id` and `wr_flags` of the queue pair.
    fn ibv_wr_atomic_cmp_swp
        => wr_atomic_cmp_swp(rkey: u32, remote_addr: u64, compare: u64, swap: u64);
    /// Begins a fetch-and-add of 8 bytes, under `wr_id` and `wr_flags` of the queue pair.
    fn ibv_wr_atomic_fetch_add => wr_atomic_fetch_add(rkey: u32, remote_addr: u64, add: u64);
    /// Gives the request begun last its one local range.
    fn ibv_wr_set_sge => wr_set_sge(lkey: u32, addr: u64, length: u32);
    /// Gives the request begun last a copy of `length` bytes from `addr`. `wr_flags` must have had
    /// `IBV_SEND_INLINE` when it was begun: Soft-RoCE sends nothing of them otherwise.
    fn ibv_wr_set_inline_data => wr_set_inline_data(addr: *mut c_void, length: usize);
    /// Drops the batch.
    fn ibv_wr_abort => wr_abort();
}

/// Ends a batch and posts it: 0, or an errno, and then nothing of it was posted (ibv_wr_post(3)).
///
/// # Safety
/// `qp` is from `ibv_qp_to_qp_ex`, its queue pair is live, and this thread began the batch with
/// [`ibv_wr_start`].
#[inline]
#[must_use = "on an error nothing was posted"]
pub unsafe fn ibv_wr_complete(qp: *mut ibv_qp_ex) -> c_int {
    // SAFETY: `qp` is live, by the contract.
    let Some(wr_complete) = (unsafe { (*qp).wr_complete }) else {
        return libc::EOPNOTSUPP;
    };
    // SAFETY: the provider's function, in the batch that this thread began.
    unsafe { wr_complete(qp) }
}
