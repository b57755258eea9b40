//! A provider and a library that only record their calls.

use core::cell::RefCell;
use core::ffi::{CStr, c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr;

use probeline_verbs_sys::*;

/// A recorded call: the function and its arguments, pointers as addresses.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Call {
    ProviderQueryPort { context: usize, port_num: u8, bytes: usize },
    LibraryQueryPort { context: usize, port_num: u8 },
    ProviderQueryDevice { context: usize, input: usize, bytes: usize },
    LibraryQueryDevice { context: usize },
    QueryGid { context: usize, port_num: u32, gid_index: u32, flags: u32, bytes: usize },
}

thread_local! {
    static CALLS: RefCell<Vec<Call>> = const { RefCell::new(Vec::new()) };
    /// The value that the provider's fallible functions return.
    static ANSWER: RefCell<c_int> = const { RefCell::new(0) };
}

/// Returns the calls that this thread has made since the last call of this function.
pub(crate) fn calls() -> Vec<Call> {
    CALLS.take()
}

/// Makes the provider return `answer` from now on, in this thread.
pub(crate) fn answer(answer: c_int) {
    ANSWER.set(answer);
}

fn note(call: Call) -> c_int {
    CALLS.with_borrow_mut(|calls| calls.push(call));
    ANSWER.with_borrow(|answer| *answer)
}

/// A queue pair and a completion queue on a context, extended or not. They are never freed.
pub(crate) struct StandIn {
    extended: *mut verbs_context,
    qp: *mut ibv_qp,
    cq: *mut ibv_cq,
}

/// Returns a value of all zero bytes, which is valid for every type that this is used for.
pub(crate) fn zeroed<T>() -> T {
    // SAFETY: used for C structs of integers, pointers and optional functions only.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

fn boxed<T>() -> *mut T {
    Box::into_raw(Box::new(zeroed()))
}

impl StandIn {
    /// Creates a context that is marked as extended and has no functions.
    pub(crate) fn new() -> Self {
        let stand_in = Self { extended: boxed(), qp: boxed(), cq: boxed() };
        let context = stand_in.context();
        // SAFETY: all three objects were created above, and no other code has pointers to them.
        unsafe {
            (*stand_in.extended).sz = size_of::<verbs_context>();
            (*context).abi_compat = ptr::without_provenance_mut(usize::MAX);
            (*stand_in.qp).context = context;
            (*stand_in.cq).context = context;
        }
        stand_in
    }

    pub(crate) fn extended(&mut self) -> &mut verbs_context {
        // SAFETY: created in `new`, never freed, and borrowed as long as `self`.
        unsafe { &mut *self.extended }
    }

    pub(crate) fn context(&self) -> *mut ibv_context {
        // SAFETY: created in `new`, and never freed.
        unsafe { &raw mut (*self.extended).context }
    }

    pub(crate) fn qp(&self) -> *mut ibv_qp {
        self.qp
    }

    pub(crate) fn cq(&self) -> *mut ibv_cq {
        self.cq
    }
}

/// Returns the function table of a library that records its calls. Functions without a stand-in
/// abort.
pub(crate) fn verbs() -> Verbs {
    // SAFETY: the stand-ins have the signatures of their fields. `unexpected` reads no arguments
    // and does not return, so it aborts whatever signature it is called with.
    unsafe { Verbs::from_symbols(symbol) }.unwrap()
}

/// Returns the address of the stand-in for `name`.
pub(crate) fn symbol(name: &CStr) -> *mut c_void {
    match name.to_bytes() {
        b"ibv_query_port" => library_query_port as *mut c_void,
        b"ibv_query_device" => library_query_device as *mut c_void,
        b"_ibv_query_gid_ex" => query_gid as *mut c_void,
        _ => unexpected as *mut c_void,
    }
}

extern "C" fn unexpected() {
    std::process::abort();
}

pub(crate) extern "C" fn provider_query_port(
    context: *mut ibv_context,
    port_num: u8,
    _port_attr: *mut ibv_port_attr,
    bytes: usize,
) -> c_int {
    note(Call::ProviderQueryPort { context: context.addr(), port_num, bytes })
}

extern "C" fn library_query_port(
    context: *mut ibv_context,
    port_num: u8,
    _port_attr: *mut _compat_ibv_port_attr,
) -> c_int {
    note(Call::LibraryQueryPort { context: context.addr(), port_num })
}

pub(crate) extern "C" fn provider_query_device(
    context: *mut ibv_context,
    input: *const ibv_query_device_ex_input,
    _attr: *mut ibv_device_attr_ex,
    bytes: usize,
) -> c_int {
    note(Call::ProviderQueryDevice { context: context.addr(), input: input.addr(), bytes })
}

/// Succeeds regardless of [`answer`].
extern "C" fn library_query_device(
    context: *mut ibv_context,
    device_attr: *mut ibv_device_attr,
) -> c_int {
    // SAFETY: the tests pass a place that can be written.
    unsafe { (*device_attr).max_qp = 7 };
    note(Call::LibraryQueryDevice { context: context.addr() });
    0
}

extern "C" fn query_gid(
    context: *mut ibv_context,
    port_num: u32,
    gid_index: u32,
    _entry: *mut ibv_gid_entry,
    flags: u32,
    bytes: usize,
) -> c_int {
    note(Call::QueryGid { context: context.addr(), port_num, gid_index, flags, bytes })
}
