//! The provider's functions for posting and polling.

use core::ffi::c_int;
use core::ptr;

use probeline_verbs_sys::*;

use super::Seen;
use super::objects::Context;
use super::pair::{INLINE_WORDS, Request};

pub(super) extern "C" fn post_send(
    qp: *mut ibv_qp,
    mut wr: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: the stand-in created the object and never frees it.
    let (at, number) = unsafe { (Context::of((*qp).context), (*qp).qp_num) };
    let mut state = at.machine.fabric.state();
    let (call, inline_bytes) = state.pairs.get_mut(&number).map_or((0, 0), |pair| {
        pair.calls += 1;
        (pair.calls, pair.inline_bytes)
    });
    while !wr.is_null() {
        // SAFETY: the caller passes a null-terminated list of filled requests with their ranges.
        let posted = unsafe { request(&*wr, number, call, inline_bytes) };
        if let Err(errno) = posted.and_then(|request| state.post(number, request)) {
            // SAFETY: the caller passes a pointer that can be written.
            unsafe { *bad_wr = wr };
            return errno;
        }
        // SAFETY: the caller passes a null-terminated list of filled requests.
        wr = unsafe { (*wr).next };
    }
    let doorbell = state.machines[at.machine.me].1.doorbell;
    // SAFETY: the caller passes a pointer that can be written.
    doorbell.inspect(|_| unsafe { *bad_wr = ptr::null_mut() });
    doorbell.unwrap_or(0)
}

/// Copies a work request and its inline data.
///
/// # Safety
/// `wr` is filled for its opcode, and its inline data can be read.
unsafe fn request(
    wr: &ibv_send_wr,
    queue_pair: u32,
    call: u64,
    inline_bytes: u32,
) -> Result<Request, c_int> {
    if wr.num_sge != 1 {
        return Err(libc::EINVAL);
    }
    // SAFETY: the scatter/gather list has one entry, by the check above.
    let sge = unsafe { *wr.sg_list };
    // SAFETY: the opcode determines the field of the union that the caller has filled.
    let (remote, operands) = unsafe {
        match wr.opcode {
            IBV_WR_RDMA_READ | IBV_WR_RDMA_WRITE => {
                ((wr.wr.rdma.remote_addr, wr.wr.rdma.rkey), (0, 0))
            }
            IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD => {
                let atomic = wr.wr.atomic;
                let swap = if wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP { atomic.swap } else { 0 };
                ((atomic.remote_addr, atomic.rkey), (atomic.compare_add, swap))
            }
            _ => return Err(libc::EINVAL),
        }
    };
    let mut carried = None;
    if wr.send_flags & IBV_SEND_INLINE != 0 {
        if wr.opcode != IBV_WR_RDMA_WRITE || sge.length > inline_bytes {
            return Err(libc::EINVAL);
        }
        let mut words = [0; INLINE_WORDS];
        let from: *const u64 = ptr::with_exposed_provenance(usize::try_from(sge.addr).unwrap());
        for (index, word) in words.iter_mut().take(sge.length as usize / 8).enumerate() {
            // SAFETY: the caller of ibv_post_send(3) passes `sge.length` readable bytes of inline
            // data.
            *word = unsafe { *from.add(index) };
        }
        carried = Some(words);
    }
    let seen = Seen {
        queue_pair,
        call,
        id: wr.wr_id,
        opcode: wr.opcode,
        flags: wr.send_flags,
        local: (sge.addr, sge.length, sge.lkey),
        remote,
        operands,
    };
    Ok(Request { seen, carried })
}

pub(super) extern "C" fn poll_cq(cq: *mut ibv_cq, room: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: the stand-in created the object and never frees it.
    let (at, handle) = unsafe { (Context::of((*cq).context), (*cq).handle) };
    let mut state = at.machine.fabric.state();
    if let Some(returned) = state.faults(at.machine.me).poll {
        return returned;
    }
    match state.completions.get(&handle) {
        None => {
            let what = "a poll of a completion queue that is gone";
            return state.violation(what).map_or_else(|errno| -errno, |()| 0);
        }
        Some(queue) if queue.overrun || queue.machine != at.machine.me => return -1,
        Some(_) => state.work(handle),
    }
    let mut found = 0;
    while found < room {
        let Some(completion) = state.take_completion(handle) else { break };
        // SAFETY: the caller passes room for `room` completions. A completion with an error has
        // only these fields.
        unsafe {
            let wc = wc.add(found as usize);
            (*wc).wr_id = completion.id;
            (*wc).status = completion.status;
            (*wc).qp_num = completion.pair;
            (*wc).vendor_err = if completion.status == IBV_WC_SUCCESS { 0 } else { 0x81 };
        }
        found += 1;
    }
    found
}
