//! The extended part of a context, which lies in front of it.

use core::mem::offset_of;
use core::ptr;

use crate::bindings::{ibv_context, verbs_context};

/// What `abi_compat` holds in a context that is part of a [`verbs_context`]
/// (`__VERBS_ABI_IS_EXTENDED`).
const EXTENDED: usize = usize::MAX;

/// The extended context around `context`, or null if it has none.
///
/// # Safety
/// `context` is from ibv_open_device and not closed.
#[inline]
#[must_use]
pub unsafe fn verbs_get_ctx(context: *mut ibv_context) -> *mut verbs_context {
    // SAFETY: `context` is open, by the contract.
    if unsafe { (*context).abi_compat }.addr() != EXTENDED {
        return ptr::null_mut();
    }
    // SAFETY: the mark says that this context is the last field of a `verbs_context`; libibverbs
    // set it.
    unsafe { context.byte_sub(offset_of!(verbs_context, context)) }.cast()
}

/// The extended operation of a context by its field (`verbs_get_ctx_op`), as an `Option`: `None`
/// where the library is older than the field or the provider has no such operation.
///
/// To be used in an unsafe block, under the contract of [`verbs_get_ctx`].
macro_rules! extended_op {
    ($context:expr, $op:ident) => {{
        let extended = $crate::context::verbs_get_ctx($context);
        // The struct grows at its front, so a field is there if it is within the last `sz` bytes.
        const REACH: usize = size_of::<$crate::bindings::verbs_context>()
            - core::mem::offset_of!($crate::bindings::verbs_context, $op);
        if extended.is_null() || (*extended).sz < REACH { None } else { (*extended).$op }
    }};
}

pub(crate) use extended_op;
