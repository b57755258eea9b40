//! The inline verbs choose between provider and library as their C originals do.

use core::cell::{Cell, RefCell};
use core::ffi::{CStr, c_int, c_void};
use core::mem::{MaybeUninit, offset_of};
use core::ptr;

use probeline_verbs_sys::*;

/// A called function, and the size that it was given.
type Call = (&'static str, usize);

thread_local! {
    /// The calls of this thread.
    static CALLS: RefCell<Vec<Call>> = const { RefCell::new(Vec::new()) };
    /// The value that the provider and the GID query return.
    static ANSWER: Cell<c_int> = const { Cell::new(0) };
}

fn note(call: Call) -> c_int {
    CALLS.with_borrow_mut(|calls| calls.push(call));
    ANSWER.get()
}

extern "C" fn provider_query_device(
    _context: *mut ibv_context,
    input: *const ibv_query_device_ex_input,
    _attr: *mut ibv_device_attr_ex,
    bytes: usize,
) -> c_int {
    assert!(input.is_null());
    note(("provider", bytes))
}

extern "C" fn query_device(_context: *mut ibv_context, attr: *mut ibv_device_attr) -> c_int {
    // SAFETY: the tests pass a place that can be written.
    unsafe { (*attr).max_qp = 7 };
    note(("library", 0));
    0
}

extern "C" fn query_gid(
    _context: *mut ibv_context,
    _port_num: u32,
    _gid_index: u32,
    _entry: *mut ibv_gid_entry,
    _flags: u32,
    bytes: usize,
) -> c_int {
    note(("GID", bytes))
}

extern "C" fn unexpected() {
    std::process::abort();
}

/// Returns the function table of a library that records its calls.
fn verbs() -> Verbs {
    let symbol = |name: &CStr| match name.to_bytes() {
        b"ibv_query_device" => query_device as *mut c_void,
        b"_ibv_query_gid_ex" => query_gid as *mut c_void,
        _ => unexpected as *mut c_void,
    };
    // SAFETY: the functions have the signatures of their fields. `unexpected` reads no arguments
    // and does not return, so it aborts whatever signature it is called with.
    unsafe { Verbs::from_symbols(symbol) }.unwrap()
}

/// Returns a value of all zero bytes, which is valid for every type that this is used for.
fn zeroed<T>() -> T {
    // SAFETY: used for C structs of integers, pointers and optional functions only.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

#[test]
fn device_query_falls_back() {
    let (provider, library) = (("provider", size_of::<ibv_device_attr_ex>()), ("library", 0));
    let (whole, extended) = (size_of::<verbs_context>(), usize::MAX);
    // New fields are added at the front.
    let older = whole - offset_of!(verbs_context, query_device_ex) - 1;
    // The size and the mark of the context, whether the provider has the function, and its answer;
    // the result, and the calls.
    for (sz, mark, has, answer, error, calls) in [
        (whole, extended, true, 0, 0, &[provider][..]),
        (whole, extended, true, libc::EIO, libc::EIO, &[provider]),
        (whole, extended, true, libc::EOPNOTSUPP, 0, &[provider, library]),
        (whole, extended, true, libc::ENOSYS, 0, &[provider, library]),
        (older + 1, extended, true, 0, 0, &[provider]),
        (older, extended, true, 0, 0, &[library]),
        (whole, 0, true, 0, 0, &[library]),
        (whole, extended, false, 0, 0, &[library]),
    ] {
        ANSWER.set(answer);
        let mut context: verbs_context = zeroed();
        context.sz = sz;
        context.context.abi_compat = ptr::without_provenance_mut(mark);
        context.query_device_ex = has.then_some(provider_query_device);
        let mut attr: ibv_device_attr_ex = zeroed();
        attr.phys_port_cnt_ex = 9;
        let context = &raw mut context;
        // SAFETY: the context and the attributes are live.
        let found =
            unsafe { ibv_query_device_ex(&verbs(), &raw mut (*context).context, &raw mut attr) };
        assert_eq!((found, CALLS.take()), (error, calls.to_vec()));
        let filled = if calls.contains(&library) { (7, 0) } else { (0, 9) };
        assert_eq!((attr.orig_attr.max_qp, attr.phys_port_cnt_ex), filled);
    }
}

#[test]
fn gid_query_passes_entry_size() {
    let (mut context, mut entry) = (zeroed::<ibv_context>(), zeroed());
    ANSWER.set(libc::ENODATA);
    // SAFETY: the context and the entry are live.
    let error = unsafe { ibv_query_gid_ex(&verbs(), &raw mut context, 1, 5, &raw mut entry, 0) };
    assert_eq!((error, CALLS.take()), (libc::ENODATA, vec![("GID", 32)]));
}

#[test]
fn refuses_calls_without_provider() {
    let mut context: ibv_context = zeroed();
    let (mut qp, mut cq) = (zeroed::<ibv_qp>(), zeroed::<ibv_cq>());
    (qp.context, cq.context) = (&raw mut context, &raw mut context);
    let (mut send, mut wc) = (zeroed::<ibv_send_wr>(), zeroed::<ibv_wc>());
    let mut bad_send = ptr::null_mut();
    // SAFETY: all pointers passed are to live objects.
    unsafe {
        let posted = ibv_post_send(&raw mut qp, &raw mut send, &raw mut bad_send);
        assert_eq!(posted, libc::EOPNOTSUPP);
        assert_eq!(ibv_poll_cq(&raw mut cq, 1, &raw mut wc), -libc::EOPNOTSUPP);
    }
    assert_eq!(bad_send, &raw mut send);
}
