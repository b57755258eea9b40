//! The control calls of the stand-in library.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;
use std::collections::VecDeque;

use probeline_verbs_sys::*;

use super::HERE;
use super::data_path::{poll_cq, post_send};
use super::fabric::{CompletionQueue, Region, State};
use super::objects::{Context, Object, boxed, zeroed};
use super::pair::Pair;

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

fn chars<const N: usize>(text: &str) -> [c_char; N] {
    core::array::from_fn(|at| text.as_bytes().get(at).map_or(0, |byte| byte.cast_signed()))
}

/// Runs `body` as call `name` on a context, unless the call must fail. Returns the errno of a failure.
fn call<R>(
    of: *mut ibv_context,
    name: &str,
    body: impl FnOnce(&Context, &mut State) -> Result<R, c_int>,
) -> Result<R, c_int> {
    // SAFETY: the stand-in created the context and never frees it.
    let at = unsafe { Context::of(of) };
    let mut state = at.machine.fabric.state();
    state.faults(at.machine.me).call(name).map_or(Ok(()), Err)?;
    body(at, &mut state)
}

fn status(ended: Result<(), c_int>) -> c_int {
    ended.err().unwrap_or(0)
}

fn pointer<T>(ended: Result<*mut T, c_int>) -> *mut T {
    ended.unwrap_or_else(|errno| {
        // SAFETY: the C library gives every thread an errno of its own.
        unsafe { *libc::__errno_location() = errno };
        ptr::null_mut()
    })
}

extern "C" fn get_device_list(count: *mut c_int) -> *mut *mut ibv_device {
    let listed = HERE.with_borrow(Clone::clone).ok_or(libc::EINVAL).and_then(|machine| {
        let mut state = machine.fabric.state();
        state.faults(machine.me).call("ibv_get_device_list").map_or(Ok(()), Err)?;
        let devices =
            state.machines[machine.me].0.devices.iter().zip(0..).map(|(device, place)| {
                let base = ibv_device { name: chars(device.name), ..zeroed() };
                Object::create(base, &machine, place, 0)
            });
        let list: Vec<_> = devices.chain([ptr::null_mut()]).collect();
        // SAFETY: the caller passes a pointer that can be written.
        unsafe { *count = c_int::try_from(list.len() - 1).unwrap() };
        Ok(Box::leak(list.into_boxed_slice()).as_mut_ptr())
    });
    pointer(listed)
}

extern "C" fn free_device_list(_list: *mut *mut ibv_device) {}

extern "C" fn get_device_name(device: *mut ibv_device) -> *const c_char {
    // SAFETY: the stand-in created the object and never frees it.
    unsafe { (&raw const (*device).name).cast() }
}

extern "C" fn open_device(device: *mut ibv_device) -> *mut ibv_context {
    // SAFETY: the stand-in created the object and never frees it.
    let Object { machine, device, .. } = unsafe { Object::of(device) };
    let mut state = machine.fabric.state();
    if let Some(errno) = state.faults(machine.me).call("ibv_open_device") {
        return pointer(Err(errno));
    }
    let handle = state.handle();
    state.contexts.insert(handle);
    let ops = ibv_context_ops { post_send: Some(post_send), poll_cq: Some(poll_cq), ..zeroed() };
    Object::create(ibv_context { ops, ..zeroed() }, machine, *device, handle)
}

extern "C" fn close_device(closed: *mut ibv_context) -> c_int {
    status(call(closed, "ibv_close_device", |closed, state| {
        let used = state.domains.values().any(|context| *context == closed.handle)
            || state.completions.values().any(|queue| queue.context == closed.handle);
        // libibverbs does not refuse the call, and uses freed memory afterwards.
        state.check(!used, "a context closed before what was made on it")?;
        let is_open = state.contexts.remove(&closed.handle);
        state.check(is_open, "a context closed twice")
    }))
}

extern "C" fn query_device(asked: *mut ibv_context, attr: *mut ibv_device_attr) -> c_int {
    status(call(asked, "ibv_query_device", |at, state| {
        let device = state.device(at);
        let filled = ibv_device_attr {
            fw_ver: chars(device.firmware),
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
        Ok(())
    }))
}

extern "C" fn query_port(
    asked: *mut ibv_context,
    port: u8,
    attr: *mut _compat_ibv_port_attr,
) -> c_int {
    if port != 1 {
        return libc::EINVAL;
    }
    status(call(asked, "ibv_query_port", |at, state| {
        let device = state.device(at);
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
        Ok(())
    }))
}

extern "C" fn query_gid(
    asked: *mut ibv_context,
    port_num: u32,
    gid_index: u32,
    entry: *mut ibv_gid_entry,
    _flags: u32,
    _bytes: usize,
) -> c_int {
    status(call(asked, "ibv_query_gid_ex", |at, state| {
        let (raw, gid_type) = state.device(at).gid(gid_index as usize).ok_or(libc::ENODATA)?;
        let gid = ibv_gid { raw };
        // SAFETY: the caller passes a pointer that can be written.
        unsafe { *entry = ibv_gid_entry { gid, gid_index, port_num, gid_type, ndev_ifindex: 0 } };
        Ok(())
    }))
}

extern "C" fn alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    pointer(call(context, "ibv_alloc_pd", |at, state| {
        let handle = state.handle();
        state.domains.insert(handle, at.handle);
        Ok(boxed(ibv_pd { context, handle }))
    }))
}

extern "C" fn dealloc_pd(pd: *mut ibv_pd) -> c_int {
    // SAFETY: the stand-in created the object and never frees it.
    let ibv_pd { context, handle } = unsafe { *pd };
    status(call(context, "ibv_dealloc_pd", |_, state| {
        let used = state.regions.values().any(|region| region.domain == handle)
            || state.pairs.values().any(|pair| pair.domain == handle);
        state.check(!used, "a domain freed before what was made in it")?;
        let freed = state.domains.remove(&handle);
        state.check(freed.is_some(), "a domain freed twice")
    }))
}

extern "C" fn reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    // SAFETY: the stand-in created the object and never frees it.
    let ibv_pd { context, handle: domain } = unsafe { *pd };
    pointer(call(context, "ibv_reg_mr", |_, state| {
        let access = access.cast_unsigned();
        let remote = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
        if access & remote != 0 && access & IBV_ACCESS_LOCAL_WRITE == 0 {
            // ibv_reg_mr(3): remote write and remote atomic access require local write access.
            return Err(libc::EINVAL);
        }
        let (key, address) = (state.handle(), addr.expose_provenance() as u64);
        state.regions.insert(key, Region { domain, address, bytes: length as u64, access });
        Ok(boxed(ibv_mr { context, pd, addr, length, handle: key, lkey: key, rkey: key }))
    }))
}

extern "C" fn dereg_mr(mr: *mut ibv_mr) -> c_int {
    // SAFETY: the stand-in created the object and never frees it.
    let (context, key) = unsafe { ((*mr).context, (*mr).handle) };
    status(call(context, "ibv_dereg_mr", |_, state| {
        let region = state.regions.remove(&key);
        state.check(region.is_some(), "a region deregistered twice")
    }))
}

extern "C" fn create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    _cq_context: *mut c_void,
    _channel: *mut ibv_comp_channel,
    _comp_vector: c_int,
) -> *mut ibv_cq {
    pointer(call(context, "ibv_create_cq", |at, state| {
        if cqe < 1 || cqe > state.device(at).completions {
            return Err(libc::EINVAL);
        }
        let (handle, capacity) = (state.handle(), cqe as usize);
        let queue = CompletionQueue {
            context: at.handle,
            machine: at.machine.me,
            capacity,
            entries: VecDeque::with_capacity(capacity),
            overrun: false,
        };
        state.completions.insert(handle, queue);
        Ok(boxed(ibv_cq { context, handle, cqe, ..zeroed() }))
    }))
}

extern "C" fn destroy_cq(cq: *mut ibv_cq) -> c_int {
    // SAFETY: the stand-in created the object and never frees it.
    let (context, handle) = unsafe { ((*cq).context, (*cq).handle) };
    status(call(context, "ibv_destroy_cq", |_, state| {
        let used = state.pairs_of(handle).next().is_some();
        state.check(!used, "a completion queue destroyed before its queue pairs")?;
        let queue = state.completions.remove(&handle);
        state.check(queue.is_some(), "a completion queue destroyed twice")
    }))
}

extern "C" fn create_qp(pd: *mut ibv_pd, attr: *mut ibv_qp_init_attr) -> *mut ibv_qp {
    // SAFETY: the stand-in created the objects and never frees them; the caller passes filled
    // attributes.
    let (ibv_pd { context, handle: domain }, attr, completions) =
        unsafe { (*pd, *attr, (*(*attr).send_cq).handle) };
    pointer(call(context, "ibv_create_qp", |at, state| {
        let device = state.device(at);
        let fits = attr.cap.max_send_wr <= device.work_requests.cast_unsigned()
            && attr.cap.max_inline_data <= device.inline_bytes
            && attr.qp_type == IBV_QPT_RC
            && attr.cap.max_send_wr > 0;
        if !fits {
            return Err(libc::EINVAL);
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
            waiting: VecDeque::with_capacity(attr.cap.max_send_wr as usize),
            outstanding: 0,
            silent: 0,
            tries: 0,
            attr: zeroed(),
        };
        state.pairs.insert(number, pair);
        let (send_cq, recv_cq) = (attr.send_cq, attr.recv_cq);
        Ok(boxed(ibv_qp { context, pd, send_cq, recv_cq, qp_num: number, ..zeroed() }))
    }))
}

extern "C" fn modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int {
    // SAFETY: the stand-in created the object and never frees it; the caller passes filled
    // attributes.
    let (context, number, attr) = unsafe { ((*qp).context, (*qp).qp_num, &*attr) };
    status(call(context, "ibv_modify_qp", |at, state| {
        let device = state.device(at).clone();
        let pair = state.pairs.get_mut(&number).ok_or("is gone".to_owned());
        let modified = pair.and_then(|pair| pair.modify(&device, attr, mask.cast_unsigned()));
        modified.or_else(|what| state.violation(&format!("queue pair {number}: {what}")))
    }))
}

extern "C" fn destroy_qp(qp: *mut ibv_qp) -> c_int {
    // SAFETY: the stand-in created the object and never frees it.
    let (context, number) = unsafe { ((*qp).context, (*qp).qp_num) };
    status(call(context, "ibv_destroy_qp", |_, state| {
        let pair = state.pairs.remove(&number);
        for queue in state.completions.values_mut() {
            queue.entries.retain(|completion| completion.pair != number);
        }
        state.check(pair.is_some(), "a queue pair destroyed twice")
    }))
}
