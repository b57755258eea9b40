//! The extended context (`verbs_context`), which contains an `ibv_context` as its last field.

use core::mem::offset_of;
use core::ptr;

use crate::bindings::{ibv_context, verbs_context};

/// The value of `abi_compat` in a context that is part of a [`verbs_context`]
/// (`__VERBS_ABI_IS_EXTENDED`).
const EXTENDED: usize = usize::MAX;

/// Returns the extended context that contains `context`, or null if there is none.
///
/// # Safety
/// ibv_open_device returned `context`, which is not closed.
#[inline]
#[must_use]
pub unsafe fn verbs_get_ctx(context: *mut ibv_context) -> *mut verbs_context {
    // SAFETY: `context` is open, by the contract.
    if unsafe { (*context).abi_compat }.addr() != EXTENDED {
        return ptr::null_mut();
    }
    // SAFETY: libibverbs sets this mark only in a context that is the last field of a
    // `verbs_context`.
    unsafe { context.byte_sub(offset_of!(verbs_context, context)) }.cast()
}

/// Returns the extended operation in the field `$op` of a context (`verbs_get_ctx_op`): `None` if
/// the library is older than the field or the provider has no such operation.
///
/// Callers need an unsafe block and uphold the contract of [`verbs_get_ctx`].
macro_rules! extended_op {
    ($context:expr, $op:ident) => {{
        let extended = $crate::context::verbs_get_ctx($context);
        // New fields are added at the front of the struct, so a field exists if it lies within
        // the last `sz` bytes.
        const BYTES_FROM_END: usize = size_of::<$crate::bindings::verbs_context>()
            - core::mem::offset_of!($crate::bindings::verbs_context, $op);
        if extended.is_null() || (*extended).sz < BYTES_FROM_END { None } else { (*extended).$op }
    }};
}

pub(crate) use extended_op;
