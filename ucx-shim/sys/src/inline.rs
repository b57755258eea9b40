//! Macros and inline functions of the headers.

use crate::Ucp;
use crate::bindings::{
    UCP_API_MAJOR, UCP_API_MINOR, UCP_DATATYPE_CONTIG, UCP_DATATYPE_SHIFT, UCS_ERR_LAST,
    UCS_INPROGRESS, ucp_config_t, ucp_context_h, ucp_datatype_t, ucp_params_t, ucs_status_ptr_t,
    ucs_status_t,
};

/// The lowest address of a pointer that is a negative status.
const FIRST_ERROR: usize = (UCS_ERR_LAST as isize).cast_unsigned();

/// Returns whether the result of a call that returns a request or a status is a request.
#[allow(non_snake_case, reason = "the name of the macro")]
#[inline]
#[must_use]
pub fn UCS_PTR_IS_PTR(pointer: ucs_status_ptr_t) -> bool {
    pointer.addr().wrapping_sub(1) < FIRST_ERROR - 1
}

/// Returns the status in the result of a call, `UCS_INPROGRESS` for a request.
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

/// Returns the datatype of contiguous elements of `element_bytes` bytes.
#[inline]
#[must_use]
pub const fn ucp_dt_make_contig(element_bytes: u64) -> ucp_datatype_t {
    (element_bytes << UCP_DATATYPE_SHIFT) | UCP_DATATYPE_CONTIG as u64
}

/// Opens a context for a program that uses the version of these bindings.
///
/// # Safety
/// As for `ucp_init_version`: live pointers, and the fields in the mask of `params` are set.
pub unsafe fn ucp_init(
    ucp: &Ucp,
    params: *const ucp_params_t,
    config: *const ucp_config_t,
    context: *mut ucp_context_h,
) -> ucs_status_t {
    // SAFETY: the caller passes live pointers, and fields of `params` that are set.
    unsafe { (ucp.ucp_init_version)(UCP_API_MAJOR, UCP_API_MINOR, params, config, context) }
}

#[cfg(test)]
mod tests {
    use core::ptr;

    use super::*;
    use crate::bindings::{UCS_ERR_CANCELED, UCS_ERR_NO_MESSAGE, UCS_OK};

    #[test]
    fn distinguishes_requests_from_statuses() {
        let status = |status: isize| ptr::without_provenance_mut(status.cast_unsigned());
        for (pointer, is_ptr, found) in [
            (status(0), false, UCS_OK),
            (status(-1), false, UCS_ERR_NO_MESSAGE),
            (status(-16), false, UCS_ERR_CANCELED),
            (status(-100), false, UCS_ERR_LAST),
            (status(-101), true, UCS_INPROGRESS),
            (status(0x7f00_1234_5670), true, UCS_INPROGRESS),
        ] {
            assert_eq!(UCS_PTR_IS_PTR(pointer), is_ptr, "{pointer:?}");
            assert_eq!(UCS_PTR_STATUS(pointer), found, "{pointer:?}");
        }
    }

    #[test]
    fn encodes_size_of_datatype() {
        assert_eq!(ucp_dt_make_contig(8), 64);
    }
}
