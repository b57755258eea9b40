//! What the headers have as macros and inline functions.

use crate::Ucp;
use crate::bindings::{
    UCP_API_MAJOR, UCP_API_MINOR, UCP_DATATYPE_CONTIG, UCP_DATATYPE_SHIFT, UCS_ERR_LAST,
    UCS_INPROGRESS, ucp_config_t, ucp_context_h, ucp_datatype_t, ucp_params_t, ucs_status_ptr_t,
    ucs_status_t,
};

/// The address from which on pointers are negative statuses.
const FIRST_ERROR: usize = (UCS_ERR_LAST as isize).cast_unsigned();

/// Whether a call that gives a request or a status gave a status other than `UCS_OK`.
#[allow(non_snake_case, reason = "the name of the macro")]
#[inline]
#[must_use]
pub fn UCS_PTR_IS_ERR(pointer: ucs_status_ptr_t) -> bool {
    pointer.addr() >= FIRST_ERROR
}

/// Whether a call that gives a request or a status gave a request.
#[allow(non_snake_case, reason = "the name of the macro")]
#[inline]
#[must_use]
pub fn UCS_PTR_IS_PTR(pointer: ucs_status_ptr_t) -> bool {
    pointer.addr().wrapping_sub(1) < FIRST_ERROR - 1
}

/// The status that a call gave, `UCS_INPROGRESS` for a request.
#[allow(non_snake_case, reason = "the name of the macro")]
#[inline]
#[must_use]
pub fn UCS_PTR_STATUS(pointer: ucs_status_ptr_t) -> ucs_status_t {
    if UCS_PTR_IS_PTR(pointer) {
        return UCS_INPROGRESS;
    }
    // The low byte, as C casts it.
    let [status, ..] = pointer.addr().to_le_bytes();
    status.cast_signed()
}

/// The datatype of elements of so many bytes, one behind the other.
#[inline]
#[must_use]
pub const fn ucp_dt_make_contig(element_bytes: u64) -> ucp_datatype_t {
    (element_bytes << UCP_DATATYPE_SHIFT) | UCP_DATATYPE_CONTIG as u64
}

/// A context, for a program that was built for the version of these bindings (`ucp_init`).
///
/// # Safety
/// As for `ucp_init_version`: live pointers, and fields of `params` that its mask names are set.
pub unsafe fn ucp_init(
    ucp: &Ucp,
    params: *const ucp_params_t,
    config: *const ucp_config_t,
    context: *mut ucp_context_h,
) -> ucs_status_t {
    // SAFETY: the caller's promise.
    unsafe { (ucp.ucp_init_version)(UCP_API_MAJOR, UCP_API_MINOR, params, config, context) }
}

#[cfg(test)]
mod tests {
    use core::ptr;

    use super::*;
    use crate::bindings::{UCS_ERR_CANCELED, UCS_ERR_NO_MESSAGE, UCS_OK};

    #[test]
    fn requests_and_statuses_are_told_apart() {
        let status = |status: isize| ptr::without_provenance_mut(status.cast_unsigned());
        for (pointer, is_err, is_ptr, found) in [
            (status(0), false, false, UCS_OK),
            (status(-1), true, false, UCS_ERR_NO_MESSAGE),
            (status(-16), true, false, UCS_ERR_CANCELED),
            (status(-100), true, false, UCS_ERR_LAST),
            (status(-101), false, true, UCS_INPROGRESS),
            (status(0x7f00_1234_5670), false, true, UCS_INPROGRESS),
        ] {
            assert_eq!(UCS_PTR_IS_ERR(pointer), is_err, "{pointer:?}");
            assert_eq!(UCS_PTR_IS_PTR(pointer), is_ptr, "{pointer:?}");
            assert_eq!(UCS_PTR_STATUS(pointer), found, "{pointer:?}");
        }
    }

    #[test]
    fn a_datatype_has_its_size_above_its_class() {
        assert_eq!(ucp_dt_make_contig(8), 64);
    }
}
