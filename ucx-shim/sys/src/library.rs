//! The table of calls, which are looked up in the shared library at run time.

use core::ffi::{c_char, c_int, c_uint, c_void};

use libc::FILE;
use probeline_transport::dylib::SharedLibrary;

use crate::bindings::*;
use crate::declarations;

/// The shared library that [`Ucp::load`] loads. libucp loads its transports itself. It patches the
/// C library's calls that map memory, to detect registered memory that is unmapped
/// (`UCX_MEM_EVENTS`).
pub const LIBUCP: SharedLibrary = SharedLibrary {
    file: c"libucp.so.0",
    if_missing: "install libucx0 (Debian, Ubuntu) or ucx (Fedora, RHEL)",
    if_too_old: "install UCX 1.13 or newer",
};

probeline_transport::calls! {
    /// The exported calls of libucp that a user of RMA and atomics needs, and one of libucs, on
    /// which libucp depends.
    ///
    /// `ucp/api/ucp.h` documents the contract of each call and how it reports errors. One thread at
    /// a time uses a worker and its objects.
    // SAFETY: the signatures are those of the header; UCX keeps them within this major version.
    pub struct Ucp = unsafe LIBUCP, checked against declarations;

    /// Returns the version of the library, a static string.
    fn ucp_get_version_string() -> *const c_char;
    /// Reads the configuration from the environment: variables that begin with `UCX_`.
    fn ucp_config_read(
        env_prefix: *const c_char,
        filename: *const c_char,
        config_p: *mut *mut ucp_config_t,
    ) -> ucs_status_t;
    /// Sets a variable of a configuration, named without `UCX_`.
    fn ucp_config_modify(
        config: *mut ucp_config_t,
        name: *const c_char,
        value: *const c_char,
    ) -> ucs_status_t;
    /// Frees a configuration.
    fn ucp_config_release(config: *mut ucp_config_t);
    /// Opens a context; see [`ucp_init`](crate::ucp_init).
    fn ucp_init_version(
        api_major_version: c_uint,
        api_minor_version: c_uint,
        params: *const ucp_params_t,
        config: *const ucp_config_t,
        context_p: *mut ucp_context_h,
    ) -> ucs_status_t;
    /// Destroys a context that has no workers and no mapped memory.
    fn ucp_cleanup(context_p: ucp_context_h);
    /// Queries the attributes of a context.
    fn ucp_context_query(context_p: ucp_context_h, attr: *mut ucp_context_attr_t) -> ucs_status_t;
    /// Creates a worker, which progresses communication.
    fn ucp_worker_create(
        context: ucp_context_h,
        params: *const ucp_worker_params_t,
        worker_p: *mut ucp_worker_h,
    ) -> ucs_status_t;
    /// Destroys a worker and its endpoints.
    fn ucp_worker_destroy(worker: ucp_worker_h);
    /// Returns the address that endpoints connect to, which must be released.
    fn ucp_worker_get_address(
        worker: ucp_worker_h,
        address_p: *mut *mut ucp_address_t,
        address_length_p: *mut usize,
    ) -> ucs_status_t;
    /// Frees an address.
    fn ucp_worker_release_address(worker: ucp_worker_h, address: *mut ucp_address_t);
    /// Progresses all communication of a worker and calls back. Returns 0 if it made no progress.
    fn ucp_worker_progress(worker: ucp_worker_h) -> c_uint;
    /// Returns the descriptor that becomes readable when an armed worker has something to progress.
    fn ucp_worker_get_efd(worker: ucp_worker_h, fd: *mut c_int) -> ucs_status_t;
    /// Arms the descriptor. Returns `UCS_ERR_BUSY` if the worker must be progressed first.
    fn ucp_worker_arm(worker: ucp_worker_h) -> ucs_status_t;
    /// Makes the descriptor readable, from any thread.
    fn ucp_worker_signal(worker: ucp_worker_h) -> ucs_status_t;
    /// Creates an endpoint, the connection to another worker.
    fn ucp_ep_create(
        worker: ucp_worker_h,
        params: *const ucp_ep_params_t,
        ep_p: *mut ucp_ep_h,
    ) -> ucs_status_t;
    /// Prints the transports of an endpoint.
    fn ucp_ep_print_info(ep: ucp_ep_h, stream: *mut FILE);
    /// Posts a flush, which completes when all earlier operations on the endpoint have taken effect
    /// at the peer.
    fn ucp_ep_flush_nbx(ep: ucp_ep_h, param: *const ucp_request_param_t) -> ucs_status_ptr_t;
    /// Maps memory for remote access, and can allocate it.
    fn ucp_mem_map(
        context: ucp_context_h,
        params: *const ucp_mem_map_params_t,
        memh_p: *mut ucp_mem_h,
    ) -> ucs_status_t;
    /// Unmaps memory, and frees it if the mapping allocated it.
    fn ucp_mem_unmap(context: ucp_context_h, memh: ucp_mem_h) -> ucs_status_t;
    /// Queries the address and the length of a mapping.
    fn ucp_mem_query(memh: ucp_mem_h, attr: *mut ucp_mem_attr_t) -> ucs_status_t;
    /// Packs the key of a mapping for peers; the buffer must be released.
    fn ucp_rkey_pack(
        context: ucp_context_h,
        memh: ucp_mem_h,
        rkey_buffer_p: *mut *mut c_void,
        size_p: *mut usize,
    ) -> ucs_status_t;
    /// Frees a packed key.
    fn ucp_rkey_buffer_release(rkey_buffer: *mut c_void);
    /// Unpacks a key for use on one endpoint.
    fn ucp_ep_rkey_unpack(
        ep: ucp_ep_h,
        rkey_buffer: *const c_void,
        rkey_p: *mut ucp_rkey_h,
    ) -> ucs_status_t;
    /// Frees an unpacked key.
    fn ucp_rkey_destroy(rkey: ucp_rkey_h);
    /// Posts a WRITE, which completes when its buffer can be reused.
    fn ucp_put_nbx(
        ep: ucp_ep_h,
        buffer: *const c_void,
        count: usize,
        remote_addr: u64,
        rkey: ucp_rkey_h,
        param: *const ucp_request_param_t,
    ) -> ucs_status_ptr_t;
    /// Posts a READ.
    fn ucp_get_nbx(
        ep: ucp_ep_h,
        buffer: *mut c_void,
        count: usize,
        remote_addr: u64,
        rkey: ucp_rkey_h,
        param: *const ucp_request_param_t,
    ) -> ucs_status_ptr_t;
    /// Posts an atomic, which fetches the old value if there is a reply buffer.
    fn ucp_atomic_op_nbx(
        ep: ucp_ep_h,
        opcode: ucp_atomic_op_t,
        buffer: *const c_void,
        count: usize,
        remote_addr: u64,
        rkey: ucp_rkey_h,
        param: *const ucp_request_param_t,
    ) -> ucs_status_ptr_t;
    /// Returns the description of a status, a static string.
    fn ucs_status_string(status: ucs_status_t) -> *const c_char;
}
