//! The inline verbs choose between provider and library as their C originals do.

mod stand_in;

use core::ptr;

use probeline_verbs_sys::*;
use stand_in::{Call, StandIn, answer, calls, verbs, zeroed};

/// Returns port attributes with all bits set, so that zeroed fields are detected.
fn port_attr() -> ibv_port_attr {
    let mut attr: ibv_port_attr = zeroed();
    attr.port_cap_flags2 = u16::MAX;
    attr.lid = u16::MAX;
    attr
}

#[test]
fn port_query_calls_extended_provider() {
    let mut stand_in = StandIn::new();
    stand_in.extended().query_port = Some(stand_in::provider_query_port);
    answer(libc::EIO);
    let (context, mut attr) = (stand_in.context(), port_attr());
    // SAFETY: the context and the attributes are live; so below.
    let error = unsafe { ibv_query_port(&verbs(), context, 3, &raw mut attr) };
    assert_eq!(error, libc::EIO);
    let bytes = size_of::<ibv_port_attr>();
    let expected = Call::ProviderQueryPort { context: context.addr(), port_num: 3, bytes };
    assert_eq!(calls(), [expected]);
    assert_eq!(attr.lid, u16::MAX, "left to the provider");
}

#[test]
fn port_query_falls_back() {
    let no_extension = |extended: &mut verbs_context| {
        extended.context.abi_compat = ptr::null_mut();
        extended.query_port = Some(stand_in::provider_query_port);
    };
    // The field is the first, so a struct one byte shorter does not contain it.
    let older = |extended: &mut verbs_context| {
        extended.sz -= 1;
        extended.query_port = Some(stand_in::provider_query_port);
    };
    let no_function = |_: &mut verbs_context| {};
    let cases: [&dyn Fn(&mut verbs_context); 3] = [&no_extension, &older, &no_function];
    for prepare in cases {
        let mut stand_in = StandIn::new();
        prepare(stand_in.extended());
        answer(libc::EINVAL);
        let (context, mut attr) = (stand_in.context(), port_attr());
        // SAFETY: the context and the attributes are live.
        let error = unsafe { ibv_query_port(&verbs(), context, 2, &raw mut attr) };
        assert_eq!(error, libc::EINVAL);
        assert_eq!(calls(), [Call::LibraryQueryPort { context: context.addr(), port_num: 2 }]);
        assert_eq!((attr.lid, attr.port_cap_flags2), (0, 0), "zeroed before");
    }
}

#[test]
fn device_query_falls_back() {
    let mut stand_in = StandIn::new();
    stand_in.extended().query_device_ex = Some(stand_in::provider_query_device);
    let context = stand_in.context();
    let bytes = size_of::<ibv_device_attr_ex>();
    let provider = Call::ProviderQueryDevice { context: context.addr(), input: 0, bytes };
    let library = Call::LibraryQueryDevice { context: context.addr() };
    let query = || {
        let mut attr: ibv_device_attr_ex = zeroed();
        attr.phys_port_cnt_ex = 9;
        // SAFETY: the context and the attributes are live.
        let error = unsafe { ibv_query_device_ex(&verbs(), context, ptr::null(), &raw mut attr) };
        (error, attr.orig_attr.max_qp, attr.phys_port_cnt_ex, calls())
    };
    for error in [0, libc::EIO] {
        answer(error);
        assert_eq!(query(), (error, 0, 9, vec![provider.clone()]));
    }
    for error in [libc::EOPNOTSUPP, libc::ENOSYS] {
        answer(error);
        assert_eq!(query(), (0, 7, 0, vec![provider.clone(), library.clone()]));
    }
    stand_in.extended().query_device_ex = None;
    assert_eq!(query(), (0, 7, 0, vec![library]));
}

#[test]
fn refuses_unknown_device_query_input() {
    let stand_in = StandIn::new();
    let input = ibv_query_device_ex_input { comp_mask: 1 };
    let mut attr: ibv_device_attr_ex = zeroed();
    // SAFETY: all pointers passed are to live objects.
    let error = unsafe {
        ibv_query_device_ex(&verbs(), stand_in.context(), &raw const input, &raw mut attr)
    };
    assert_eq!(error, libc::EINVAL);
    assert_eq!(calls(), []);
}

#[test]
fn gid_query_passes_entry_size() {
    let stand_in = StandIn::new();
    let (context, mut entry) = (stand_in.context(), zeroed());
    answer(libc::ENODATA);
    // SAFETY: the context and the entry are live.
    let error = unsafe { ibv_query_gid_ex(&verbs(), context, 1, 5, &raw mut entry, 0) };
    assert_eq!(error, libc::ENODATA);
    let expected =
        Call::QueryGid { context: context.addr(), port_num: 1, gid_index: 5, flags: 0, bytes: 32 };
    assert_eq!(calls(), [expected]);
}

#[test]
fn refuses_calls_without_provider() {
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
