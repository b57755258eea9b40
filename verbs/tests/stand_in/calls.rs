//! The control calls of the stand-in library.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;

use probeline_verbs_sys::*;

use super::data_path::{poll_cq, post_send};
use super::fabric::{CompletionQueue, Region};
use super::objects::{Context, Listed, boxed, zeroed};
use super::pair::Pair;
use super::{HERE, Machine};

/// Returns the address of a call. Calls that a transport does not use abort the process.
pub(super) fn symbol(name: &CStr) -> *mut c_void {
    match name.to_bytes() {
        b"ibv_get_device_list" => get_device_list as *mut c_void,
        b"ibv_free_device_list" => free_device_list as *mut c_void,
        b"ibv_get_device_name" => get_device_name as *mut c_void,
        b"ibv_open_device" => open_device as *mut c_void,
        b"ibv_close_device" => close_device as *mut c_void,
        b"ibv_query_device" => query_device as *mut c_void,
        b"ibv_query_port" => query_port as *mut c_void,
        b"_ibv_query_gid_ex" => query_gid as *mut c_void,
        b"ibv_alloc_pd" => alloc_pd as *mut c_void,
        b"ibv_dealloc_pd" => dealloc_pd as *mut c_void,
        b"ibv_reg_mr" => reg_mr as *mut c_void,
        b"ibv_dereg_mr" => dereg_mr as *mut c_void,
        b"ibv_create_cq" => create_cq as *mut c_void,
        b"ibv_destroy_cq" => destroy_cq as *mut c_void,
        b"ibv_create_qp" => create_qp as *mut c_void,
        b"ibv_modify_qp" => modify_qp as *mut c_void,
        b"ibv_destroy_qp" => destroy_qp as *mut c_void,
        _ => unexpected as *mut c_void,
    }
}

extern "C" fn unexpected() {
    std::process::abort();
}

fn set_errno(errno: c_int) {
    // SAFETY: the C library gives every thread an errno of its own.
    unsafe { *libc::__errno_location() = errno };
}

fn null<T>(errno: c_int) -> *mut T {
    set_errno(errno);
    ptr::null_mut()
}

impl Machine {
    /// Returns the errno with which this call of `name` must fail; `None` if it succeeds.
    fn broken(&self, name: &str) -> Option<c_int> {
        self.fabric.state().faults(self.me).call(name)
    }
}

/// Returns the stand-in's object for a context. Objects of the stand-in are never freed.
///
/// # Safety
/// The stand-in created the context. This also holds for the objects passed to the calls below.
pub(super) unsafe fn context<'a>(context: *mut ibv_context) -> &'a Context {
    // SAFETY: the caller passes a context that the stand-in created.
    unsafe { Context::of(context) }
}

extern "C" fn get_device_list(count: *mut c_int) -> *mut *mut ibv_device {
    let Some(here) = HERE.with_borrow(Clone::clone) else { return null(libc::EINVAL) };
    let setup = here.fabric.state().machines[here.me].0.clone();
    if let Some(errno) = setup.no_list {
        return null(errno);
    }
    let listed = setup.devices.iter().zip(0..).map(|(d, place)| Listed::list(&here, place, d.name));
    let list: Vec<_> = listed.chain([ptr::null_mut()]).collect();
    // SAFETY: the caller passes a pointer that can be written.
    unsafe { *count = c_int::try_from(setup.devices.len()).unwrap() };
    Box::leak(list.into_boxed_slice()).as_mut_ptr()
}

extern "C" fn free_device_list(_list: *mut *mut ibv_device) {}

extern "C" fn get_device_name(device: *mut ibv_device) -> *const c_char {
    // SAFETY: the stand-in created the object and never frees it.
    unsafe { (&raw const (*device).name).cast() }
}

extern "C" fn open_device(device: *mut ibv_device) -> *mut ibv_context {
    // SAFETY: the stand-in created the object and never frees it.
    let listed = unsafe { Listed::of(device) };
    if let Some(errno) = listed.machine.broken("ibv_open_device") {
        return null(errno);
    }
    let mut state = listed.machine.fabric.state();
    let handle = state.handle();
    state.contexts.insert(handle);
    let ops = ibv_context_ops { post_send: Some(post_send), poll_cq: Some(poll_cq), ..zeroed() };
    Context::open(listed, ops, handle)
}

extern "C" fn close_device(closed: *mut ibv_context) -> c_int {
    // SAFETY: the stand-in created the context and never frees it.
    let closed = unsafe { context(closed) };
    let mut state = closed.machine.fabric.state();
    let used = state.domains.values().any(|context| *context == closed.handle)
        || state.completions.values().any(|queue| queue.context == closed.handle);
    if used {
        // libibverbs does not refuse the call, and uses freed memory afterwards.
        return state.violation("a context closed before what was made on it");
    }
    if state.contexts.remove(&closed.handle) {
        0
    } else {
        state.violation("a context closed twice")
    }
}

extern "C" fn query_device(asked: *mut ibv_context, attr: *mut ibv_device_attr) -> c_int {
    // SAFETY: the stand-in created the context and never frees it.
    let asked = unsafe { context(asked) };
    if let Some(errno) = asked.machine.broken("ibv_query_device") {
        return errno;
    }
    let device = asked.machine.fabric.state().device(asked.machine.me, asked.device).clone();
    let mut fw_ver = [0; 64];
    for (to, from) in fw_ver.iter_mut().zip(device.firmware.bytes()) {
        *to = from.cast_signed();
    }
    let filled = ibv_device_attr {
        fw_ver,
        vendor_id: device.vendor,
        vendor_part_id: device.part,
        max_mr_size: device.region_bytes,
        max_qp: device.queue_pairs,
        max_qp_wr: device.work_requests,
        max_cqe: device.completions,
        max_qp_rd_atom: device.reads,
        max_qp_init_rd_atom: device.reads,
        atomic_cap: device.atomics,
        phys_port_cnt: 1,
        ..zeroed()
    };
    // SAFETY: the caller passes a pointer that can be written.
    unsafe { *attr = filled };
    0
}

extern "C" fn query_port(
    asked: *mut ibv_context,
    port: u8,
    attr: *mut _compat_ibv_port_attr,
) -> c_int {
    // SAFETY: the stand-in created the context and never frees it.
    let asked = unsafe { context(asked) };
    if port != 1 {
        return libc::EINVAL;
    }
    if let Some(errno) = asked.machine.broken("ibv_query_port") {
        return errno;
    }
    let device = asked.machine.fabric.state().device(asked.machine.me, asked.device).clone();
    let link_layer =
        if device.ethernet { IBV_LINK_LAYER_ETHERNET } else { IBV_LINK_LAYER_INFINIBAND };
    let filled = ibv_port_attr {
        state: if device.active { IBV_PORT_ACTIVE } else { IBV_PORT_DOWN },
        max_mtu: IBV_MTU_4096,
        active_mtu: device.mtu,
        active_width: device.link.0,
        active_speed: device.link.1,
        gid_tbl_len: c_int::try_from(device.gids.len()).unwrap(),
        max_msg_sz: device.message_bytes,
        lid: if device.ethernet { 0 } else { 7 },
        link_layer: u8::try_from(link_layer).unwrap(),
        ..zeroed()
    };
    // SAFETY: the caller passes a whole ibv_port_attr that can be written.
    unsafe { *attr.cast::<ibv_port_attr>() = filled };
    0
}

extern "C" fn query_gid(
    asked: *mut ibv_context,
    port: u32,
    index: u32,
    entry: *mut ibv_gid_entry,
    _flags: u32,
    _bytes: usize,
) -> c_int {
    // SAFETY: the stand-in created the context and never frees it.
    let asked = unsafe { context(asked) };
    let device = asked.machine.fabric.state().device(asked.machine.me, asked.device).clone();
    let Some((raw, gid_type)) = device.gid(index as usize) else { return libc::ENODATA };
    let gid = ibv_gid { raw };
    let filled = ibv_gid_entry { gid, gid_index: index, port_num: port, gid_type, ndev_ifindex: 0 };
    // SAFETY: the caller passes a pointer that can be written.
    unsafe { *entry = filled };
    0
}

extern "C" fn alloc_pd(of: *mut ibv_context) -> *mut ibv_pd {
    // SAFETY: the stand-in created the context and never frees it.
    let at = unsafe { context(of) };
    if let Some(errno) = at.machine.broken("ibv_alloc_pd") {
        return null(errno);
    }
    let mut state = at.machine.fabric.state();
    let handle = state.handle();
    state.domains.insert(handle, at.handle);
    boxed(ibv_pd { context: of, handle })
}

extern "C" fn dealloc_pd(pd: *mut ibv_pd) -> c_int {
    // SAFETY: the stand-in created the object and never frees it.
    let (at, handle) = unsafe { (context((*pd).context), (*pd).handle) };
    if let Some(errno) = at.machine.broken("ibv_dealloc_pd") {
        return errno;
    }
    let mut state = at.machine.fabric.state();
    let used = state.regions.values().any(|region| region.domain == handle)
        || state.pairs.values().any(|pair| pair.domain == handle);
    if used {
        return state.violation("a domain freed before what was made in it");
    }
    match state.domains.remove(&handle) {
        Some(_) => 0,
        None => state.violation("a domain freed twice"),
    }
}

extern "C" fn reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    // SAFETY: the stand-in created the object and never frees it.
    let (of, domain) = unsafe { ((*pd).context, (*pd).handle) };
    // SAFETY: the stand-in created the context and never frees it.
    let at = unsafe { context(of) };
    if let Some(errno) = at.machine.broken("ibv_reg_mr") {
        return null(errno);
    }
    let (access, remote) =
        (access.cast_unsigned(), IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
    if access & remote != 0 && access & IBV_ACCESS_LOCAL_WRITE == 0 {
        // ibv_reg_mr(3): remote write and remote atomic access require local write access.
        return null(libc::EINVAL);
    }
    let mut state = at.machine.fabric.state();
    let key = state.handle();
    let region =
        Region { domain, address: addr.expose_provenance() as u64, bytes: length as u64, access };
    state.regions.insert(key, region);
    boxed(ibv_mr { context: of, pd, addr, length, handle: key, lkey: key, rkey: key })
}

extern "C" fn dereg_mr(mr: *mut ibv_mr) -> c_int {
    // SAFETY: the stand-in created the object and never frees it.
    let (at, key) = unsafe { (context((*mr).context), (*mr).handle) };
    if let Some(errno) = at.machine.broken("ibv_dereg_mr") {
        return errno;
    }
    let mut state = at.machine.fabric.state();
    match state.regions.remove(&key) {
        Some(_) => 0,
        None => state.violation("a region deregistered twice"),
    }
}

extern "C" fn create_cq(
    of: *mut ibv_context,
    cqe: c_int,
    _cq_context: *mut c_void,
    _channel: *mut ibv_comp_channel,
    _comp_vector: c_int,
) -> *mut ibv_cq {
    // SAFETY: the stand-in created the context and never frees it.
    let at = unsafe { context(of) };
    if let Some(errno) = at.machine.broken("ibv_create_cq") {
        return null(errno);
    }
    let mut state = at.machine.fabric.state();
    if cqe < 1 || cqe > state.device(at.machine.me, at.device).completions {
        return null(libc::EINVAL);
    }
    let handle = state.handle();
    let capacity = cqe as usize;
    let queue = CompletionQueue {
        context: at.handle,
        machine: at.machine.me,
        pairs: Vec::new(),
        capacity,
        entries: std::collections::VecDeque::with_capacity(capacity),
        overrun: false,
    };
    state.completions.insert(handle, queue);
    boxed(ibv_cq { context: of, handle, cqe, ..zeroed() })
}

extern "C" fn destroy_cq(cq: *mut ibv_cq) -> c_int {
    // SAFETY: the stand-in created the object and never frees it.
    let (at, handle) = unsafe { (context((*cq).context), (*cq).handle) };
    if let Some(errno) = at.machine.broken("ibv_destroy_cq") {
        return errno;
    }
    let mut state = at.machine.fabric.state();
    match state.completions.remove(&handle) {
        None => state.violation("a completion queue destroyed twice"),
        Some(queue) if !queue.pairs.is_empty() => {
            state.violation("a completion queue destroyed before its queue pairs")
        }
        Some(_) => 0,
    }
}

extern "C" fn create_qp(pd: *mut ibv_pd, attr: *mut ibv_qp_init_attr) -> *mut ibv_qp {
    // SAFETY: the stand-in created the object and never frees it; the caller passes filled
    // attributes.
    let (of, domain, attr) = unsafe { ((*pd).context, (*pd).handle, *attr) };
    // SAFETY: the stand-in created the context and the queue and never frees them.
    let (at, completions) = unsafe { (context(of), (*attr.send_cq).handle) };
    if let Some(errno) = at.machine.broken("ibv_create_qp") {
        return null(errno);
    }
    let mut state = at.machine.fabric.state();
    let device = state.device(at.machine.me, at.device).clone();
    let fits = attr.cap.max_send_wr <= device.work_requests.cast_unsigned()
        && attr.cap.max_inline_data <= device.inline_bytes
        && attr.qp_type == IBV_QPT_RC
        && attr.cap.max_send_wr > 0;
    if !fits {
        return null(libc::EINVAL);
    }
    let number = state.handle();
    let pair = Pair {
        number,
        machine: at.machine.me,
        device: at.device,
        domain,
        completions,
        state: IBV_QPS_RESET,
        capacity: attr.cap.max_send_wr,
        inline_bytes: attr.cap.max_inline_data,
        calls: 0,
        waiting: std::collections::VecDeque::with_capacity(attr.cap.max_send_wr as usize),
        outstanding: 0,
        silent: 0,
        tries: 0,
        attr: zeroed(),
    };
    state.pairs.insert(number, pair);
    if let Some(queue) = state.completions.get_mut(&completions) {
        queue.pairs.push(number);
    }
    let (send_cq, recv_cq) = (attr.send_cq, attr.recv_cq);
    boxed(ibv_qp { context: of, pd, send_cq, recv_cq, qp_num: number, ..zeroed() })
}

extern "C" fn modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int {
    // SAFETY: the stand-in created the object and never frees it; the caller passes filled
    // attributes.
    let (at, number, attr) = unsafe { (context((*qp).context), (*qp).qp_num, &*attr) };
    if let Some(errno) = at.machine.broken("ibv_modify_qp") {
        return errno;
    }
    let mut state = at.machine.fabric.state();
    let device = state.device(at.machine.me, at.device).clone();
    let Some(pair) = state.pairs.get_mut(&number) else {
        return state.violation(&format!("queue pair {number} modified when it was gone"));
    };
    match pair.modify(&device, attr, mask.cast_unsigned()) {
        Ok(()) => 0,
        Err(what) => state.violation(&format!("queue pair {number}: {what}")),
    }
}

extern "C" fn destroy_qp(qp: *mut ibv_qp) -> c_int {
    // SAFETY: the stand-in created the object and never frees it.
    let (at, number) = unsafe { (context((*qp).context), (*qp).qp_num) };
    if let Some(errno) = at.machine.broken("ibv_destroy_qp") {
        return errno;
    }
    let mut state = at.machine.fabric.state();
    let Some(pair) = state.pairs.remove(&number) else {
        return state.violation("a queue pair destroyed twice");
    };
    if let Some(queue) = state.completions.get_mut(&pair.completions) {
        queue.pairs.retain(|other| *other != number);
        queue.entries.retain(|completion| completion.pair != number);
    }
    0
}
