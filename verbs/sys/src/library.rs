//! The control calls, looked up in the shared library at run time.

use core::ffi::{c_char, c_int, c_uint, c_void};

use probeline_dylib::SharedLibrary;

use crate::bindings::*;
use crate::declarations;

/// libibverbs, as [`Verbs::load`] loads it. Its providers are libraries that it loads in turn.
pub const LIBIBVERBS: SharedLibrary = SharedLibrary {
    file: c"libibverbs.so.1",
    if_missing: "install libibverbs1 and ibverbs-providers (Debian, Ubuntu) or libibverbs (Fedora, \
                 RHEL)",
    if_too_old: "install rdma-core 32 or newer",
};

probeline_dylib::calls! {
    /// The exported calls of libibverbs that a user of RC queue pairs makes.
    ///
    /// They block, allocate and make system calls: none of them belongs in a data path. The manual
    /// page of each name says what it promises and how it reports errors.
    // SAFETY: the signatures are those of the header; libibverbs keeps them under this major
    // version.
    pub struct Verbs = unsafe LIBIBVERBS, checked against declarations;

    /// Devices, ended by null; free with `ibv_free_device_list`. Null with errno `ENOSYS` means
    /// that the kernel has no RDMA support: to a caller, no devices.
    fn ibv_get_device_list(num_devices: *mut c_int) -> *mut *mut ibv_device;
    /// Frees a list. Devices in it that were not opened are gone.
    fn ibv_free_device_list(list: *mut *mut ibv_device);
    /// The kernel's name of a device, valid as long as the device.
    fn ibv_get_device_name(device: *mut ibv_device) -> *const c_char;
    /// The GUID of the node, in network byte order.
    fn ibv_get_device_guid(device: *mut ibv_device) -> __be64;
    /// Opens a device; null and errno.
    fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context;
    /// Closes a device; whatever was made on it must be destroyed before.
    fn ibv_close_device(context: *mut ibv_context) -> c_int;
    /// Makes registered memory safe for fork(2). Before any other call.
    fn ibv_fork_init() -> c_int;
    /// What a device can do.
    fn ibv_query_device(context: *mut ibv_context, device_attr: *mut ibv_device_attr) -> c_int;
    /// The older, shorter port attributes. [`ibv_query_port`](crate::ibv_query_port) is what C
    /// programs call by this name.
    fn ibv_query_port(
        context: *mut ibv_context,
        port_num: u8,
        port_attr: *mut _compat_ibv_port_attr,
    ) -> c_int;
    /// An entry of a port's GID table.
    fn ibv_query_gid(
        context: *mut ibv_context,
        port_num: u8,
        index: c_int,
        gid: *mut ibv_gid,
    ) -> c_int;
    /// An entry of a port's GID table, with its type; see
    /// [`ibv_query_gid_ex`](crate::ibv_query_gid_ex).
    fn _ibv_query_gid_ex(
        context: *mut ibv_context,
        port_num: u32,
        gid_index: u32,
        entry: *mut ibv_gid_entry,
        flags: u32,
        entry_size: usize,
    ) -> c_int;
    /// A protection domain; null and errno.
    fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd;
    /// Frees a protection domain that nothing uses.
    fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int;
    /// Registers memory, without optional access bits. [`ibv_reg_mr`](crate::ibv_reg_mr) is what
    /// C programs call by this name.
    fn ibv_reg_mr(
        pd: *mut ibv_pd,
        addr: *mut c_void,
        length: usize,
        access: c_int,
    ) -> *mut ibv_mr;
    /// Registers memory under the remote address `iova`; drops optional access bits that the
    /// kernel does not know.
    fn ibv_reg_mr_iova2(
        pd: *mut ibv_pd,
        addr: *mut c_void,
        length: usize,
        iova: u64,
        access: c_uint,
    ) -> *mut ibv_mr;
    /// Ends a registration.
    fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int;
    /// A channel for completion events; null and errno.
    fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel;
    /// Destroys a channel that no completion queue uses.
    fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int;
    /// Waits for the next event of a channel, as read(2) on its file descriptor would.
    fn ibv_get_cq_event(
        channel: *mut ibv_comp_channel,
        cq: *mut *mut ibv_cq,
        cq_context: *mut *mut c_void,
    ) -> c_int;
    /// Acknowledges events; the queue's destruction waits for this.
    fn ibv_ack_cq_events(cq: *mut ibv_cq, nevents: c_uint);
    /// A completion queue of at least `cqe` entries; null and errno.
    fn ibv_create_cq(
        context: *mut ibv_context,
        cqe: c_int,
        cq_context: *mut c_void,
        channel: *mut ibv_comp_channel,
        comp_vector: c_int,
    ) -> *mut ibv_cq;
    /// Destroys a completion queue that no queue pair uses.
    fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int;
    /// A queue pair; null and errno.
    fn ibv_create_qp(pd: *mut ibv_pd, qp_init_attr: *mut ibv_qp_init_attr) -> *mut ibv_qp;
    /// The extended interface of a queue pair made with `send_ops_flags`, else null.
    fn ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex;
    /// Changes a queue pair's state and the attributes in `attr_mask`.
    fn ibv_modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, attr_mask: c_int) -> c_int;
    /// A queue pair's attributes.
    fn ibv_query_qp(
        qp: *mut ibv_qp,
        attr: *mut ibv_qp_attr,
        attr_mask: c_int,
        init_attr: *mut ibv_qp_init_attr,
    ) -> c_int;
    /// Destroys a queue pair.
    fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int;
    /// Waits for the next asynchronous event of a device, unless its `async_fd` is non-blocking.
    fn ibv_get_async_event(context: *mut ibv_context, event: *mut ibv_async_event) -> c_int;
    /// Acknowledges an event; destruction of what it is about waits for this.
    fn ibv_ack_async_event(event: *mut ibv_async_event);
    /// A completion status in words, static.
    fn ibv_wc_status_str(status: ibv_wc_status) -> *const c_char;
    /// An asynchronous event's type in words, static.
    fn ibv_event_type_str(event: ibv_event_type) -> *const c_char;
}
