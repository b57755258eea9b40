//! Extended queue pairs (ibv_wr_post(3)): a batch of work requests is built by function calls
//! between [`ibv_wr_start`] and [`ibv_wr_complete`].

use core::ffi::{c_int, c_void};
use core::ptr;

use crate::bindings::{IBV_QP_INIT_ATTR_PD, ibv_context, ibv_qp, ibv_qp_ex, ibv_qp_init_attr_ex};
use crate::context::extended_op;
use crate::library::Verbs;

/// Creates a queue pair with extended attributes (ibv_create_qp_ex(3)). On failure, returns null
/// and sets errno.
///
/// A queue pair created with `send_ops_flags` has the extended interface if `ibv_qp_to_qp_ex` does
/// not return null.
///
/// # Safety
/// `context` is open. `attr` can be read and written. The objects that it points to are live and
/// belong to that context.
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
        // SAFETY: the C library returns a valid pointer to this thread's errno.
        unsafe { *libc::__errno_location() = libc::EOPNOTSUPP };
        return ptr::null_mut();
    };
    // SAFETY: the caller upholds the contract for these arguments, which is that of the provider's
    // function.
    unsafe { create_qp_ex(context, attr) }
}

/// Defines the calls that build a batch. In C they return nothing. Here they return 0, or
/// `EOPNOTSUPP` if the provider has no such function.
macro_rules! work_requests {
    ($(
        $(#[$doc:meta])*
        fn $name:ident => $op:ident($($argument:ident: $type:ty),*);
    )*) => {$(
        $(#[$doc])*
        ///
        /// Returns 0, or `EOPNOTSUPP` if the queue pair was created without this operation. In that
        /// case nothing was built, and the caller must abort the batch with [`ibv_wr_abort`]
        /// (ibv_wr_post(3)).
        ///
        /// # Safety
        /// `ibv_qp_to_qp_ex` returned `qp`, its queue pair is live, and no other thread is building
        /// a batch on it. The caller makes the calls in the order that ibv_wr_post(3) requires, and
        /// the memory that they name meets the contract of
        /// [`ibv_post_send`](crate::ibv_post_send).
        #[inline]
        #[must_use = "a work request that was not built does not complete"]
        pub unsafe fn $name(qp: *mut ibv_qp_ex, $($argument: $type),*) -> c_int {
            // SAFETY: `qp` is live, by the contract.
            let Some($op) = (unsafe { (*qp).$op }) else {
                return libc::EOPNOTSUPP;
            };
            // SAFETY: the caller upholds the contract for these arguments, which is that of the
            // provider's function.
            unsafe { $op(qp, $($argument),*) };
            0
        }
    )*};
}

work_requests! {
    /// Begins a batch.
    fn ibv_wr_start => wr_start();
    /// Begins a READ with the `wr_id` and `wr_flags` set in the queue pair.
    fn ibv_wr_rdma_read => wr_rdma_read(rkey: u32, remote_addr: u64);
    /// Begins a WRITE with the `wr_id` and `wr_flags` set in the queue pair.
    fn ibv_wr_rdma_write => wr_rdma_write(rkey: u32, remote_addr: u64);
    /// Begins an 8-byte compare-and-swap with the `wr_id` and `wr_flags` set in the queue pair.
    fn ibv_wr_atomic_cmp_swp
        => wr_atomic_cmp_swp(rkey: u32, remote_addr: u64, compare: u64, swap: u64);
    /// Begins an 8-byte fetch-and-add with the `wr_id` and `wr_flags` set in the queue pair.
    fn ibv_wr_atomic_fetch_add => wr_atomic_fetch_add(rkey: u32, remote_addr: u64, add: u64);
    /// Sets the single scatter/gather entry of the request begun last.
    fn ibv_wr_set_sge => wr_set_sge(lkey: u32, addr: u64, length: u32);
    /// Copies `length` bytes from `addr` into the request begun last. `wr_flags` must contain
    /// `IBV_SEND_INLINE` when the request begins: otherwise Soft-RoCE does not send the bytes.
    fn ibv_wr_set_inline_data => wr_set_inline_data(addr: *mut c_void, length: usize);
    /// Discards the batch.
    fn ibv_wr_abort => wr_abort();
}

/// Posts the batch (ibv_wr_post(3)). Returns 0, or an errno, in which case none of its requests was
/// posted.
///
/// # Safety
/// `ibv_qp_to_qp_ex` returned `qp`, its queue pair is live, and this thread began the batch with
/// [`ibv_wr_start`].
#[inline]
#[must_use = "on an error nothing was posted"]
pub unsafe fn ibv_wr_complete(qp: *mut ibv_qp_ex) -> c_int {
    // SAFETY: `qp` is live, by the contract.
    let Some(wr_complete) = (unsafe { (*qp).wr_complete }) else {
        return libc::EOPNOTSUPP;
    };
    // SAFETY: this thread began the batch, by the contract, which is that of the provider's
    // function.
    unsafe { wr_complete(qp) }
}
