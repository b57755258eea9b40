//! The inline verbs of the data path pass arguments and results unchanged to and from the
//! provider's functions.

#[allow(dead_code, reason = "shared with the other tests")]
mod stand_in;

use core::ptr;

use probeline_verbs_sys::*;
use stand_in::{Call, StandIn, answer, calls, zeroed};

#[test]
fn a_post_calls_the_provider_and_returns_its_error() {
    let mut stand_in = StandIn::new();
    stand_in.extended().context.ops.post_send = Some(stand_in::post_send);
    let mut send: [ibv_send_wr; 2] = zeroed();
    let (send, mut bad_send) = (send.as_mut_ptr(), ptr::null_mut());
    let qp = stand_in.qp();
    answer(libc::ENOMEM);
    // SAFETY: the queue pair, its context and the requests are live.
    assert_eq!(unsafe { ibv_post_send(qp, send, &raw mut bad_send) }, libc::ENOMEM);
    assert_eq!(bad_send, send.wrapping_add(1));
    assert_eq!(calls(), [Call::PostSend { qp: qp.addr(), wr: send.addr() }]);
}

#[test]
fn a_poll_calls_the_provider_and_returns_its_count() {
    let mut stand_in = StandIn::new();
    stand_in.extended().context.ops.poll_cq = Some(stand_in::poll_cq);
    let mut wc: [ibv_wc; 4] = zeroed();
    let (wc, cq) = (wc.as_mut_ptr(), stand_in.cq());
    for result in [3, 0, -1] {
        answer(result);
        // SAFETY: the completion queue, its context and four completions are live.
        assert_eq!(unsafe { ibv_poll_cq(cq, 4, wc) }, result);
        assert_eq!(calls(), [Call::PollCq { cq: cq.addr(), num_entries: 4, wc: wc.addr() }]);
    }
}

#[test]
fn a_missing_provider_function_is_an_error_and_bad_wr_is_the_first_request() {
    let stand_in = StandIn::new();
    let (mut send, mut wc) = (zeroed::<ibv_send_wr>(), zeroed::<ibv_wc>());
    let mut bad_send = ptr::null_mut();
    // SAFETY: all pointers passed are to live objects.
    unsafe {
        let (qp, cq) = (stand_in.qp(), stand_in.cq());
        assert_eq!(ibv_post_send(qp, &raw mut send, &raw mut bad_send), libc::EOPNOTSUPP);
        assert_eq!(ibv_poll_cq(cq, 1, &raw mut wc), -libc::EOPNOTSUPP);
    }
    assert_eq!(bad_send, &raw mut send);
    assert_eq!(calls(), []);
}
