//! Queries that are inline functions in C.

use core::ffi::c_int;

use crate::bindings::{
    IB_UVERBS_QPF_GRH_REQUIRED, ib_uverbs_query_port_flags, ibv_context, ibv_device_attr_ex,
    ibv_gid_entry, ibv_port_attr, ibv_query_device_ex_input,
};
use crate::context::extended_op;
use crate::library::Verbs;

/// The bit of `ibv_port_attr.flags` that states that packets need a global route header, so that an
/// address handle must contain a GID.
pub const IBV_QPF_GRH_REQUIRED: ib_uverbs_query_port_flags = IB_UVERBS_QPF_GRH_REQUIRED;

/// Queries the attributes of a port, counted from 1 (ibv_query_port(3)). Returns 0 or an errno.
///
/// If the library has only the older, shorter attributes, `port_cap_flags2` is 0.
///
/// # Safety
/// `context` is open; `port_attr` can be written.
#[inline]
pub unsafe fn ibv_query_port(
    verbs: &Verbs,
    context: *mut ibv_context,
    port_num: u8,
    port_attr: *mut ibv_port_attr,
) -> c_int {
    // SAFETY: `context` is open, by the contract.
    if let Some(query_port) = unsafe { extended_op!(context, query_port) } {
        // SAFETY: the library writes no more than the size it is given.
        return unsafe { query_port(context, port_num, port_attr, size_of::<ibv_port_attr>()) };
    }
    // SAFETY: `port_attr` can be written, and zero is valid for its integers. The exported call
    // writes only the older attributes, which are a prefix of it.
    unsafe {
        port_attr.write_bytes(0, 1);
        (verbs.ibv_query_port)(context, port_num, port_attr.cast())
    }
}

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
/// `context` is open; `input` is null or can be read; `attr` can be written.
#[inline]
pub unsafe fn ibv_query_device_ex(
    verbs: &Verbs,
    context: *mut ibv_context,
    input: *const ibv_query_device_ex_input,
    attr: *mut ibv_device_attr_ex,
) -> c_int {
    // SAFETY: `input` can be read unless null, by the contract.
    if !input.is_null() && unsafe { (*input).comp_mask } != 0 {
        return libc::EINVAL;
    }
    // SAFETY: `context` is open, by the contract.
    if let Some(query_device_ex) = unsafe { extended_op!(context, query_device_ex) } {
        // SAFETY: the library writes no more than the size it is given.
        let error =
            unsafe { query_device_ex(context, input, attr, size_of::<ibv_device_attr_ex>()) };
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
