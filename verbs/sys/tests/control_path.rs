//! The inline verbs of the control path choose between provider and library as their C originals
//! do.

#[allow(dead_code, reason = "shared with the other tests")]
mod stand_in;

use core::mem::offset_of;
use core::ptr;
use std::io;

use probeline_verbs_sys::*;
use stand_in::{Call, StandIn, answer, calls, verbs, zeroed};

/// Port attributes with all bits set, so that zeroed fields are detected.
fn port_attr() -> ibv_port_attr {
    let mut attr: ibv_port_attr = zeroed();
    attr.port_cap_flags2 = u16::MAX;
    attr.lid = u16::MAX;
    attr
}

#[test]
fn a_port_query_calls_the_provider_of_an_extended_context() {
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
fn a_port_query_calls_the_library_if_the_provider_has_no_such_operation() {
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
fn the_extended_context_is_found_from_its_last_field_if_abi_compat_marks_it() {
    let mut stand_in = StandIn::new();
    // SAFETY: the context is live.
    assert_eq!(unsafe { verbs_get_ctx(stand_in.context()) }, stand_in.extended_pointer());
    for mark in [0, 1, usize::MAX - 1] {
        stand_in.extended().context.abi_compat = ptr::without_provenance_mut(mark);
        // SAFETY: the context is live.
        assert!(unsafe { verbs_get_ctx(stand_in.context()) }.is_null());
    }
}

#[test]
fn an_operation_exists_if_the_struct_size_includes_it() {
    let mut stand_in = StandIn::new();
    stand_in.extended().create_qp_ex = Some(stand_in::provider_create_qp);
    let reach = size_of::<verbs_context>() - offset_of!(verbs_context, create_qp_ex);
    let mut attr: ibv_qp_init_attr_ex = zeroed();
    for (sz, there) in [(reach, true), (reach - 1, false)] {
        stand_in.extended().sz = sz;
        // SAFETY: the context and the attributes are live.
        let qp = unsafe { ibv_create_qp_ex(&verbs(), stand_in.context(), &raw mut attr) };
        assert_eq!(!qp.is_null(), there);
    }
}

#[test]
fn memory_with_optional_access_is_registered_with_reg_mr_iova2() {
    let pd = ptr::without_provenance_mut(0x10);
    let addr = ptr::without_provenance_mut(0x2000);
    let plain = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    let register = |access| {
        // SAFETY: the stand-in accesses neither the domain nor the memory.
        let mr = unsafe { ibv_reg_mr(&verbs(), pd, addr, 96, access) };
        assert!(mr.is_null());
        calls()
    };
    let access = plain.cast_signed();
    assert_eq!(register(plain), [Call::RegMr { pd: 0x10, addr: 0x2000, length: 96, access }]);
    // The optional bits are 20 to 29 (IB_UVERBS_ACCESS_OPTIONAL_FIRST and _LAST).
    assert_eq!(IBV_ACCESS_RELAXED_ORDERING, 1 << 20);
    for bit in 0..32 {
        let access = plain | 1 << bit;
        let optional = (20..=29).contains(&bit);
        let call = register(access).pop().unwrap();
        let iova2 = Call::RegMrIova2 { pd: 0x10, addr: 0x2000, length: 96, iova: 0x2000, access };
        assert_eq!(call == iova2, optional, "bit {bit}: {call:?}");
    }
}

#[test]
fn a_device_query_calls_the_provider_or_else_the_library() {
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
fn a_device_query_with_an_unknown_input_is_refused() {
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
fn a_gid_query_passes_the_size_of_an_entry() {
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
fn a_queue_pair_is_created_by_the_library_unless_it_has_extended_attributes() {
    let mut stand_in = StandIn::new();
    stand_in.extended().create_qp_ex = Some(stand_in::provider_create_qp);
    let context = stand_in.context();
    let mut attr: ibv_qp_init_attr_ex = zeroed();
    attr.pd = ptr::without_provenance_mut(0x40);
    let create = |comp_mask| {
        let mut attr = attr;
        attr.comp_mask = comp_mask;
        // SAFETY: the context and the attributes are live; the stand-ins read neither.
        let qp = unsafe { ibv_create_qp_ex(&verbs(), context, &raw mut attr) };
        let at = (&raw const attr).addr();
        (qp.addr(), calls(), at)
    };
    let (qp, made, attr_at) = create(IBV_QP_INIT_ATTR_PD);
    assert_eq!((qp, made), (0x200, vec![Call::LibraryCreateQp { pd: 0x40, attr: attr_at }]));
    let (qp, made, attr_at) = create(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS);
    let expected = Call::ProviderCreateQp { context: context.addr(), attr: attr_at };
    assert_eq!((qp, made), (0x100, vec![expected]));

    stand_in.extended().create_qp_ex = None;
    let (qp, made, _) = create(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS);
    assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::EOPNOTSUPP));
    assert_eq!((qp, made), (0, vec![]));
}

#[test]
fn plain_attributes_of_a_queue_pair_are_a_prefix_of_the_extended_ones() {
    macro_rules! same_offset {
        ($($field:ident),*) => {$(
            assert_eq!(
                offset_of!(ibv_qp_init_attr, $field),
                offset_of!(ibv_qp_init_attr_ex, $field)
            );
        )*};
    }
    same_offset!(qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all);
}
