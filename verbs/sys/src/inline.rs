//! The calls that are inline functions in C.

use core::ffi::c_int;
use core::mem::offset_of;

use crate::bindings::*;
use crate::library::Verbs;

/// The bit of `ibv_port_attr.flags` that states that packets need a global route header, so that an
/// address handle must contain a GID.
pub const IBV_QPF_GRH_REQUIRED: ib_uverbs_query_port_flags = IB_UVERBS_QPF_GRH_REQUIRED;

/// The value of `abi_compat` in a context that is the last field of a [`verbs_context`]
/// (`__VERBS_ABI_IS_EXTENDED`).
const EXTENDED: usize = usize::MAX;

/// Queries an entry of a port's GID table with its type and network device (ibv_query_gid_ex(3)).
/// Returns 0 or an errno, `ENODATA` if the entry is empty. `flags` must be 0.
///
/// # Safety
/// `context` is open; `entry` can be written.
#[inline]
pub unsafe fn ibv_query_gid_ex(
    verbs: &Verbs,
    context: *mut ibv_context,
    port_num: u32,
    gid_index: u32,
    entry: *mut ibv_gid_entry,
    flags: u32,
) -> c_int {
    let entry_bytes = size_of::<ibv_gid_entry>();
    // SAFETY: the library writes no more than the size it is given.
    unsafe { (verbs._ibv_query_gid_ex)(context, port_num, gid_index, entry, flags, entry_bytes) }
}

/// Queries the extended attributes of a device (ibv_query_device_ex(3)). Returns 0 or an errno. If
/// the library or the provider has only the plain attributes, the others are 0.
///
/// # Safety
/// `context` is open; `attr` can be written.
#[inline]
pub unsafe fn ibv_query_device_ex(
    verbs: &Verbs,
    context: *mut ibv_context,
    attr: *mut ibv_device_attr_ex,
) -> c_int {
    // SAFETY: the caller passes an open `context`, which ibv_open_device returned.
    if let Some(query_device_ex) = unsafe { query_device_ex_op(context) } {
        let bytes = size_of::<ibv_device_attr_ex>();
        // SAFETY: the library writes no more than the size it is given, and needs no input.
        let error = unsafe { query_device_ex(context, core::ptr::null(), attr, bytes) };
        if error != libc::EOPNOTSUPP && error != libc::ENOSYS {
            return error;
        }
    }
    // SAFETY: `attr` can be written, and zero is valid for its fields, all of which are integers
    // here.
    unsafe {
        attr.write_bytes(0, 1);
        (verbs.ibv_query_device)(context, &raw mut (*attr).orig_attr)
    }
}

type QueryDeviceEx = unsafe extern "C" fn(
    *mut ibv_context,
    *const ibv_query_device_ex_input,
    *mut ibv_device_attr_ex,
    usize,
) -> c_int;

/// Returns this operation of the [`verbs_context`] that contains a context (`verbs_get_ctx_op`):
/// `None` if the library is older than the field or the provider has no such operation.
///
/// # Safety
/// `context` is open, and ibv_open_device returned it.
unsafe fn query_device_ex_op(context: *mut ibv_context) -> Option<QueryDeviceEx> {
    // SAFETY: the caller passes an open `context`.
    if unsafe { (*context).abi_compat }.addr() != EXTENDED {
        return None;
    }
    // New fields are added at the front of the struct, so a field exists if it lies within the last
    // `sz` bytes.
    let bytes_from_end = size_of::<verbs_context>() - offset_of!(verbs_context, query_device_ex);
    // SAFETY: an extended context is the last field of a verbs_context, of which the library has
    // allocated the last `sz` bytes.
    unsafe {
        let extended = context.byte_sub(offset_of!(verbs_context, context));
        let extended = extended.cast::<verbs_context>();
        if (*extended).sz < bytes_from_end { None } else { (*extended).query_device_ex }
    }
}

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
        // SAFETY: the caller passes a `bad_wr` that can be written.
        unsafe { *bad_wr = wr };
        return libc::EOPNOTSUPP;
    };
    // SAFETY: the caller upholds the conditions of ibv_post_send(3) for `qp`, `wr` and `bad_wr`,
    // which are those of the provider's function.
    unsafe { post_send(qp, wr, bad_wr) }
}

/// Polls up to `num_entries` completions (ibv_poll_cq(3)). Returns the number of completions
/// written to `wc`, or a negative number on failure.
///
/// A completion with an error has only `wr_id`, `status`, `qp_num` and `vendor_err`. A successful
/// completion has only the fields that its opcode defines.
///
/// # Safety
/// `cq` is live, and no other thread uses it at the same time. `wc` has room for `num_entries`.
#[inline]
pub unsafe fn ibv_poll_cq(cq: *mut ibv_cq, num_entries: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: a live completion queue points to its open context.
    let Some(poll_cq) = (unsafe { (*(*cq).context).ops.poll_cq }) else {
        return -libc::EOPNOTSUPP;
    };
    // SAFETY: as in `ibv_post_send`.
    unsafe { poll_cq(cq, num_entries, wc) }
}
