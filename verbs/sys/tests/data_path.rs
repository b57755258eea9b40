//! The inline verbs of the data path pass arguments and results unchanged to and from the
//! provider's functions.

#[allow(dead_code, reason = "shared with the other tests")]
mod stand_in;

use core::ffi::c_int;
use core::ptr;

use probeline_verbs_sys::*;
use stand_in::{Call, StandIn, answer, calls, zeroed};

#[test]
fn a_post_calls_the_provider_and_returns_its_error() {
    let mut stand_in = StandIn::new();
    stand_in.extended().context.ops.post_send = Some(stand_in::post_send);
    stand_in.extended().context.ops.post_recv = Some(stand_in::post_recv);
    let mut send: [ibv_send_wr; 2] = zeroed();
    let mut recv: [ibv_recv_wr; 2] = zeroed();
    let (send, recv) = (send.as_mut_ptr(), recv.as_mut_ptr());
    let (mut bad_send, mut bad_recv) = (ptr::null_mut(), ptr::null_mut());
    let qp = stand_in.qp();
    answer(libc::ENOMEM);
    // SAFETY: the queue pair, its context and the requests are live; so below.
    unsafe {
        assert_eq!(ibv_post_send(qp, send, &raw mut bad_send), libc::ENOMEM);
        assert_eq!(ibv_post_recv(qp, recv, &raw mut bad_recv), libc::ENOMEM);
    }
    assert_eq!(bad_send, send.wrapping_add(1));
    assert_eq!(bad_recv, recv.wrapping_add(1));
    let qp = qp.addr();
    assert_eq!(
        calls(),
        [Call::PostSend { qp, wr: send.addr() }, Call::PostRecv { qp, wr: recv.addr() }]
    );
}

#[test]
fn a_poll_calls_the_provider_and_returns_its_count() {
    let mut stand_in = StandIn::new();
    stand_in.extended().context.ops.poll_cq = Some(stand_in::poll_cq);
    stand_in.extended().context.ops.req_notify_cq = Some(stand_in::req_notify_cq);
    let mut wc: [ibv_wc; 4] = zeroed();
    let (wc, cq) = (wc.as_mut_ptr(), stand_in.cq());
    for result in [3, 0, -1] {
        answer(result);
        // SAFETY: the completion queue, its context and four completions are live.
        unsafe {
            assert_eq!(ibv_poll_cq(cq, 4, wc), result);
            assert_eq!(ibv_req_notify_cq(cq, 1), result);
        }
        let cq = cq.addr();
        let expected = [
            Call::PollCq { cq, num_entries: 4, wc: wc.addr() },
            Call::ReqNotifyCq { cq, solicited_only: 1 },
        ];
        assert_eq!(calls(), expected);
    }
}

#[test]
fn a_missing_provider_function_is_an_error_and_bad_wr_is_the_first_request() {
    let stand_in = StandIn::new();
    let (mut send, mut recv) = (zeroed::<ibv_send_wr>(), zeroed::<ibv_recv_wr>());
    let mut wc: ibv_wc = zeroed();
    let (mut bad_send, mut bad_recv) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: all pointers passed are to live objects.
    unsafe {
        let (qp, cq) = (stand_in.qp(), stand_in.cq());
        assert_eq!(ibv_post_send(qp, &raw mut send, &raw mut bad_send), libc::EOPNOTSUPP);
        assert_eq!(ibv_post_recv(qp, &raw mut recv, &raw mut bad_recv), libc::EOPNOTSUPP);
        assert_eq!(ibv_poll_cq(cq, 1, &raw mut wc), -libc::EOPNOTSUPP);
        assert_eq!(ibv_req_notify_cq(cq, 0), libc::EOPNOTSUPP);
    }
    assert_eq!(bad_send, &raw mut send);
    assert_eq!(bad_recv, &raw mut recv);
    assert_eq!(calls(), []);
}

/// Makes every call of a batch once, each argument with a different value, and returns the results.
fn batch(qp: *mut ibv_qp_ex) -> Vec<c_int> {
    let data = ptr::without_provenance_mut(0x90);
    // SAFETY: the queue pair is live; the stand-in reads nothing.
    unsafe {
        vec![
            ibv_wr_start(qp),
            ibv_wr_rdma_read(qp, 1, 2),
            ibv_wr_rdma_write(qp, 3, 4),
            ibv_wr_atomic_cmp_swp(qp, 5, 6, 7, 8),
            ibv_wr_atomic_fetch_add(qp, 9, 10, 11),
            ibv_wr_set_sge(qp, 12, 13, 14),
            ibv_wr_set_inline_data(qp, data, 15),
            ibv_wr_complete(qp),
            ibv_wr_abort(qp),
        ]
    }
}

#[test]
fn each_call_of_a_batch_calls_its_own_function() {
    let mut stand_in = StandIn::new();
    let qp = stand_in.qp_ex();
    qp.wr_start = Some(stand_in::wr_start);
    qp.wr_rdma_read = Some(stand_in::wr_rdma_read);
    qp.wr_rdma_write = Some(stand_in::wr_rdma_write);
    qp.wr_atomic_cmp_swp = Some(stand_in::wr_atomic_cmp_swp);
    qp.wr_atomic_fetch_add = Some(stand_in::wr_atomic_fetch_add);
    qp.wr_set_sge = Some(stand_in::wr_set_sge);
    qp.wr_set_inline_data = Some(stand_in::wr_set_inline_data);
    qp.wr_complete = Some(stand_in::wr_complete);
    qp.wr_abort = Some(stand_in::wr_abort);
    answer(libc::EINVAL);
    let qp = stand_in.qp_ex_pointer();
    assert_eq!(batch(qp), [0, 0, 0, 0, 0, 0, 0, libc::EINVAL, 0]);
    let wr = |op, arguments: &[u64]| Call::Wr { qp: qp.addr(), op, arguments: arguments.to_vec() };
    let expected = [
        wr("start", &[]),
        wr("rdma_read", &[1, 2]),
        wr("rdma_write", &[3, 4]),
        wr("atomic_cmp_swp", &[5, 6, 7, 8]),
        wr("atomic_fetch_add", &[9, 10, 11]),
        wr("set_sge", &[12, 13, 14]),
        wr("set_inline_data", &[0x90, 15]),
        wr("complete", &[]),
        wr("abort", &[]),
    ];
    assert_eq!(calls(), expected);
}

#[test]
fn a_queue_pair_without_an_operation_returns_eopnotsupp() {
    let stand_in = StandIn::new();
    assert_eq!(batch(stand_in.qp_ex_pointer()), [libc::EOPNOTSUPP; 9]);
    assert_eq!(calls(), []);
}
