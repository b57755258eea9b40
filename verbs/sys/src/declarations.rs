//! Calls of infiniband/verbs.h, written by the script `generate`.
use crate::bindings::*;

unsafe extern "C" {
    pub fn ibv_get_device_list(num_devices: *mut core::ffi::c_int) -> *mut *mut ibv_device;
}
unsafe extern "C" {
    pub fn ibv_free_device_list(list: *mut *mut ibv_device);
}
unsafe extern "C" {
    pub fn ibv_get_device_name(device: *mut ibv_device) -> *const core::ffi::c_char;
}
unsafe extern "C" {
    pub fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context;
}
unsafe extern "C" {
    pub fn ibv_close_device(context: *mut ibv_context) -> core::ffi::c_int;
}
unsafe extern "C" {
    pub fn ibv_query_device(
        context: *mut ibv_context,
        device_attr: *mut ibv_device_attr,
    ) -> core::ffi::c_int;
}
unsafe extern "C" {
    pub fn ibv_query_port(
        context: *mut ibv_context,
        port_num: u8,
        port_attr: *mut _compat_ibv_port_attr,
    ) -> core::ffi::c_int;
}
unsafe extern "C" {
    pub fn _ibv_query_gid_ex(
        context: *mut ibv_context,
        port_num: u32,
        gid_index: u32,
        entry: *mut ibv_gid_entry,
        flags: u32,
        entry_size: usize,
    ) -> core::ffi::c_int;
}
unsafe extern "C" {
    pub fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd;
}
unsafe extern "C" {
    pub fn ibv_dealloc_pd(pd: *mut ibv_pd) -> core::ffi::c_int;
}
unsafe extern "C" {
    pub fn ibv_reg_mr(
        pd: *mut ibv_pd,
        addr: *mut core::ffi::c_void,
        length: usize,
        access: core::ffi::c_int,
    ) -> *mut ibv_mr;
}
unsafe extern "C" {
    pub fn ibv_dereg_mr(mr: *mut ibv_mr) -> core::ffi::c_int;
}
unsafe extern "C" {
    pub fn ibv_create_cq(
        context: *mut ibv_context,
        cqe: core::ffi::c_int,
        cq_context: *mut core::ffi::c_void,
        channel: *mut ibv_comp_channel,
        comp_vector: core::ffi::c_int,
    ) -> *mut ibv_cq;
}
unsafe extern "C" {
    pub fn ibv_destroy_cq(cq: *mut ibv_cq) -> core::ffi::c_int;
}
unsafe extern "C" {
    pub fn ibv_create_qp(pd: *mut ibv_pd, qp_init_attr: *mut ibv_qp_init_attr) -> *mut ibv_qp;
}
unsafe extern "C" {
    pub fn ibv_modify_qp(
        qp: *mut ibv_qp,
        attr: *mut ibv_qp_attr,
        attr_mask: core::ffi::c_int,
    ) -> core::ffi::c_int;
}
unsafe extern "C" {
    pub fn ibv_destroy_qp(qp: *mut ibv_qp) -> core::ffi::c_int;
}
