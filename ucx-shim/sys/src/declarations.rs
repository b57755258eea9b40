//! Calls of ucp/api/ucp.h, written by the script `generate`.
use crate::bindings::*;
use libc::FILE;

unsafe extern "C" {
    pub fn ucs_status_string(status: ucs_status_t) -> *const core::ffi::c_char;
}
unsafe extern "C" {
    pub fn ucp_config_read(
        env_prefix: *const core::ffi::c_char,
        filename: *const core::ffi::c_char,
        config_p: *mut *mut ucp_config_t,
    ) -> ucs_status_t;
}
unsafe extern "C" {
    pub fn ucp_config_release(config: *mut ucp_config_t);
}
unsafe extern "C" {
    pub fn ucp_config_modify(
        config: *mut ucp_config_t,
        name: *const core::ffi::c_char,
        value: *const core::ffi::c_char,
    ) -> ucs_status_t;
}
unsafe extern "C" {
    pub fn ucp_get_version_string() -> *const core::ffi::c_char;
}
unsafe extern "C" {
    pub fn ucp_init_version(
        api_major_version: core::ffi::c_uint,
        api_minor_version: core::ffi::c_uint,
        params: *const ucp_params_t,
        config: *const ucp_config_t,
        context_p: *mut ucp_context_h,
    ) -> ucs_status_t;
}
unsafe extern "C" {
    pub fn ucp_cleanup(context_p: ucp_context_h);
}
unsafe extern "C" {
    pub fn ucp_context_query(
        context_p: ucp_context_h,
        attr: *mut ucp_context_attr_t,
    ) -> ucs_status_t;
}
unsafe extern "C" {
    pub fn ucp_worker_create(
        context: ucp_context_h,
        params: *const ucp_worker_params_t,
        worker_p: *mut ucp_worker_h,
    ) -> ucs_status_t;
}
unsafe extern "C" {
    pub fn ucp_worker_destroy(worker: ucp_worker_h);
}
unsafe extern "C" {
    pub fn ucp_worker_get_address(
        worker: ucp_worker_h,
        address_p: *mut *mut ucp_address_t,
        address_length_p: *mut usize,
    ) -> ucs_status_t;
}
unsafe extern "C" {
    pub fn ucp_worker_release_address(worker: ucp_worker_h, address: *mut ucp_address_t);
}
unsafe extern "C" {
    pub fn ucp_worker_progress(worker: ucp_worker_h) -> core::ffi::c_uint;
}
unsafe extern "C" {
    pub fn ucp_worker_get_efd(worker: ucp_worker_h, fd: *mut core::ffi::c_int) -> ucs_status_t;
}
unsafe extern "C" {
    pub fn ucp_worker_arm(worker: ucp_worker_h) -> ucs_status_t;
}
unsafe extern "C" {
    pub fn ucp_worker_signal(worker: ucp_worker_h) -> ucs_status_t;
}
unsafe extern "C" {
    pub fn ucp_ep_create(
        worker: ucp_worker_h,
        params: *const ucp_ep_params_t,
        ep_p: *mut ucp_ep_h,
    ) -> ucs_status_t;
}
unsafe extern "C" {
    pub fn ucp_ep_print_info(ep: ucp_ep_h, stream: *mut FILE);
}
unsafe extern "C" {
    pub fn ucp_ep_flush_nbx(ep: ucp_ep_h, param: *const ucp_request_param_t) -> ucs_status_ptr_t;
}
unsafe extern "C" {
    pub fn ucp_mem_map(
        context: ucp_context_h,
        params: *const ucp_mem_map_params_t,
        memh_p: *mut ucp_mem_h,
    ) -> ucs_status_t;
}
unsafe extern "C" {
    pub fn ucp_mem_unmap(context: ucp_context_h, memh: ucp_mem_h) -> ucs_status_t;
}
unsafe extern "C" {
    pub fn ucp_mem_query(memh: ucp_mem_h, attr: *mut ucp_mem_attr_t) -> ucs_status_t;
}
unsafe extern "C" {
    pub fn ucp_rkey_pack(
        context: ucp_context_h,
        memh: ucp_mem_h,
        rkey_buffer_p: *mut *mut core::ffi::c_void,
        size_p: *mut usize,
    ) -> ucs_status_t;
}
unsafe extern "C" {
    pub fn ucp_rkey_buffer_release(rkey_buffer: *mut core::ffi::c_void);
}
unsafe extern "C" {
    pub fn ucp_ep_rkey_unpack(
        ep: ucp_ep_h,
        rkey_buffer: *const core::ffi::c_void,
        rkey_p: *mut ucp_rkey_h,
    ) -> ucs_status_t;
}
unsafe extern "C" {
    pub fn ucp_rkey_destroy(rkey: ucp_rkey_h);
}
unsafe extern "C" {
    pub fn ucp_put_nbx(
        ep: ucp_ep_h,
        buffer: *const core::ffi::c_void,
        count: usize,
        remote_addr: u64,
        rkey: ucp_rkey_h,
        param: *const ucp_request_param_t,
    ) -> ucs_status_ptr_t;
}
unsafe extern "C" {
    pub fn ucp_get_nbx(
        ep: ucp_ep_h,
        buffer: *mut core::ffi::c_void,
        count: usize,
        remote_addr: u64,
        rkey: ucp_rkey_h,
        param: *const ucp_request_param_t,
    ) -> ucs_status_ptr_t;
}
unsafe extern "C" {
    pub fn ucp_atomic_op_nbx(
        ep: ucp_ep_h,
        opcode: ucp_atomic_op_t,
        buffer: *const core::ffi::c_void,
        count: usize,
        remote_addr: u64,
        rkey: ucp_rkey_h,
        param: *const ucp_request_param_t,
    ) -> ucs_status_ptr_t;
}
