//! Registration of memory.

use core::ffi::{c_uint, c_void};

use crate::bindings::{IB_UVERBS_ACCESS_OPTIONAL_RANGE, ib_uverbs_access_flags, ibv_mr, ibv_pd};
use crate::library::Verbs;

/// The access bits that a kernel may ignore, such as `IBV_ACCESS_RELAXED_ORDERING`.
pub const IBV_ACCESS_OPTIONAL_RANGE: ib_uverbs_access_flags = IB_UVERBS_ACCESS_OPTIONAL_RANGE;

/// Registers memory under its own address (ibv_reg_mr(3)). On failure, returns null and sets errno.
///
/// Registrations with optional access bits use `ibv_reg_mr_iova2`, which removes the bits that the
/// kernel does not support. The exported `ibv_reg_mr` would pass them to a kernel that refuses
/// them.
///
/// # Safety
/// `pd` is live. The range stays mapped until the region is deregistered. The program's own
/// accesses to the memory allow for the local and remote accesses that `access` permits.
#[inline]
pub unsafe fn ibv_reg_mr(
    verbs: &Verbs,
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_uint,
) -> *mut ibv_mr {
    if access & IBV_ACCESS_OPTIONAL_RANGE == 0 {
        // SAFETY: the caller upholds this function's contract, which is that of the exported call.
        return unsafe { (verbs.ibv_reg_mr)(pd, addr, length, access.cast_signed()) };
    }
    let iova = addr.expose_provenance() as u64;
    // SAFETY: the caller upholds this function's contract, which is that of the exported call.
    unsafe { (verbs.ibv_reg_mr_iova2)(pd, addr, length, iova, access) }
}
