//! Registration of memory.

use core::ffi::{c_uint, c_void};

use crate::bindings::{IB_UVERBS_ACCESS_OPTIONAL_RANGE, ib_uverbs_access_flags, ibv_mr, ibv_pd};
use crate::library::Verbs;

/// Access bits that a kernel may ignore, `IBV_ACCESS_RELAXED_ORDERING` among them.
pub const IBV_ACCESS_OPTIONAL_RANGE: ib_uverbs_access_flags = IB_UVERBS_ACCESS_OPTIONAL_RANGE;

/// Registers memory under its own address: null and errno on failure (ibv_reg_mr(3)).
///
/// Optional access bits go to `ibv_reg_mr_iova2`, which drops those that the kernel does not know;
/// the exported `ibv_reg_mr` would hand them to a kernel that refuses them.
///
/// # Safety
/// `pd` is live. The range stays mapped until the region is deregistered, and whatever local or
/// remote access it allows is part of how this program treats the memory.
#[inline]
pub unsafe fn ibv_reg_mr(
    verbs: &Verbs,
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_uint,
) -> *mut ibv_mr {
    if access & IBV_ACCESS_OPTIONAL_RANGE == 0 {
        // SAFETY: the contract is that of the call.
        return unsafe { (verbs.ibv_reg_mr)(pd, addr, length, access.cast_signed()) };
    }
    let iova = addr.expose_provenance() as u64;
    // SAFETY: the contract is that of the call.
    unsafe { (verbs.ibv_reg_mr_iova2)(pd, addr, length, iova, access) }
}
