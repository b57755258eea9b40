//! The control calls, which are looked up in the shared library at run time.

use core::ffi::{c_char, c_int, c_void};

use probeline_transport::dylib::SharedLibrary;

use crate::bindings::*;
use crate::declarations;

/// The shared library that [`Verbs::load`] loads. libibverbs loads its providers itself.
pub const LIBIBVERBS: SharedLibrary = SharedLibrary {
    file: c"libibverbs.so.1",
    if_missing: "install libibverbs1 and ibverbs-providers (Debian, Ubuntu) or libibverbs (Fedora, \
                 RHEL)",
    if_too_old: "install rdma-core 32 or newer",
};

probeline_transport::calls! {
    /// The exported calls of libibverbs that a user of RC queue pairs needs.
    ///
    /// They block, allocate and make system calls, so none of them belongs on a data path. The
    /// manual page of each call states its contract and how it reports errors.
    // SAFETY: the signatures are those of the header; libibverbs keeps them within this major
    // version.
    pub struct Verbs = unsafe LIBIBVERBS, checked against declarations;

    /// Returns a null-terminated list of devices, to be freed with `ibv_free_device_list`. Returns
    /// null with errno `ENOSYS` if the kernel has no RDMA support; callers treat that as an empty
    /// list.
    fn ibv_get_device_list(num_devices: *mut c_int) -> *mut *mut ibv_device;
    /// Frees a device list. Pointers to its devices become invalid unless the device was opened.
    fn ibv_free_device_list(list: *mut *mut ibv_device);
    /// Returns the kernel's name of a device, which is valid as long as the device.
    fn ibv_get_device_name(device: *mut ibv_device) -> *const c_char;
    /// Opens a device. On failure, returns null and sets errno.
    fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context;
    /// Closes a device. All objects created on it must be destroyed before.
    fn ibv_close_device(context: *mut ibv_context) -> c_int;
    /// Queries the attributes of a device.
    fn ibv_query_device(context: *mut ibv_context, device_attr: *mut ibv_device_attr) -> c_int;
    /// Queries the attributes of a port, without `port_cap_flags2` and later fields of
    /// [`ibv_port_attr`]. C programs that use this name call an inline function, which asks for
    /// those too.
    fn ibv_query_port(
        context: *mut ibv_context,
        port_num: u8,
        port_attr: *mut _compat_ibv_port_attr,
    ) -> c_int;
    /// Queries an entry of a port's GID table with its type; see
    /// [`ibv_query_gid_ex`](crate::ibv_query_gid_ex).
    fn _ibv_query_gid_ex(
        context: *mut ibv_context,
        port_num: u32,
        gid_index: u32,
        entry: *mut ibv_gid_entry,
        flags: u32,
        entry_size: usize,
    ) -> c_int;
    /// Allocates a protection domain. On failure, returns null and sets errno.
    fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd;
    /// Frees a protection domain that nothing uses.
    fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int;
    /// Registers memory under its own address, without optional access bits, for which C programs
    /// that use this name call another function. On failure, returns null and sets errno.
    fn ibv_reg_mr(
        pd: *mut ibv_pd,
        addr: *mut c_void,
        length: usize,
        access: c_int,
    ) -> *mut ibv_mr;
    /// Deregisters a memory region.
    fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int;
    /// Creates a completion queue of at least `cqe` entries. On failure, returns null and sets
    /// errno.
    fn ibv_create_cq(
        context: *mut ibv_context,
        cqe: c_int,
        cq_context: *mut c_void,
        channel: *mut ibv_comp_channel,
        comp_vector: c_int,
    ) -> *mut ibv_cq;
    /// Destroys a completion queue that no queue pair uses.
    fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int;
    /// Creates a queue pair. On failure, returns null and sets errno.
    fn ibv_create_qp(pd: *mut ibv_pd, qp_init_attr: *mut ibv_qp_init_attr) -> *mut ibv_qp;
    /// Modifies the attributes of a queue pair that `attr_mask` selects, its state included.
    fn ibv_modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, attr_mask: c_int) -> c_int;
    /// Destroys a queue pair.
    fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int;
}
