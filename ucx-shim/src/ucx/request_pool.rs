//! The requests of UCP: their memory, allocated once, and the results that UCP reports.
//!
//! Every operation has an index. Its requests lie in memory of this crate (`request` of
//! `ucp_request_param_t`), so that posting allocates nothing, and the parameters of its calls are
//! written once too. UCP calls back only within calls on the worker, hence in the thread that uses
//! the engine; its callback writes to cells.

use core::cell::Cell;
use core::ffi::c_void;
use core::ptr::NonNull;
use std::rc::Rc;

use probeline_engine::{Memory, SetupError};
use probeline_transport::{LINE_BYTES, LINE_WORDS, WORD_BYTES};
use probeline_ucx_sys::{
    UCP_OP_ATTR_FIELD_CALLBACK, UCP_OP_ATTR_FIELD_DATATYPE, UCP_OP_ATTR_FIELD_REPLY_BUFFER,
    UCP_OP_ATTR_FIELD_REQUEST, UCP_OP_ATTR_FIELD_USER_DATA, UCS_ERR_INVALID_PARAM, UCS_OK,
    UCS_PTR_IS_PTR, UCS_PTR_STATUS, ucp_dt_make_contig, ucp_request_param_t, ucs_status_ptr_t,
    ucs_status_t,
};

/// The result for an invalid index, for which no call was made.
const NOT_MADE: ucs_status_ptr_t =
    core::ptr::without_provenance_mut((UCS_ERR_INVALID_PARAM as isize).cast_unsigned());
/// The requests of one operation: a WRITE is a put and a flush.
const REQUESTS: usize = 2;
/// The words of one operation, a cache line: the operand and the result of an atomic, and the word
/// of a control operation.
const OWN_WORDS: usize = LINE_WORDS as usize;
const OPERAND: usize = 0;
const RESULT: usize = 1;
const SCRATCH: usize = 2;

/// The indices of the operations that have completed and have not been taken, in order.
#[derive(Debug)]
struct Ended {
    /// The length is a power of two and covers all operations, each of which is in it at most once.
    ring: Box<[Cell<u32>]>,
    pushed: Cell<u32>,
    taken: Cell<u32>,
    /// The number of requests that UCP has not completed. The count wraps: a request may complete
    /// before the call that created it has returned.
    open_requests: Cell<u32>,
}

impl Ended {
    fn new(operations: u32) -> Self {
        let ring = vec![Cell::new(0); operations.next_power_of_two() as usize].into();
        let [pushed, taken, open_requests] = [const { Cell::new(0) }; 3];
        Self { ring, pushed, taken, open_requests }
    }

    #[inline]
    fn push(&self, index: u32) {
        let pushed = self.pushed.get();
        match self.ring.get(pushed as usize & (self.ring.len() - 1)) {
            Some(place) => {
                place.set(index);
                self.pushed.set(pushed.wrapping_add(1));
            }
            None => debug_assert!(false, "the mask leaves a place of the ring"),
        }
    }

    #[inline]
    fn pop(&self) -> Option<u32> {
        let taken = self.taken.get();
        if taken == self.pushed.get() {
            return None;
        }
        let index = self.ring.get(taken as usize & (self.ring.len() - 1))?.get();
        self.taken.set(taken.wrapping_add(1));
        Some(index)
    }

    fn count_request(&self, change: i32) {
        self.open_requests.set(self.open_requests.get().wrapping_add_signed(change));
    }
}

/// The state of the requests of one operation.
#[derive(Debug)]
struct RequestState {
    index: u32,
    /// The number of requests that have not completed. It is 1 while the operation is not in
    /// flight, so that an operation of one request that completes immediately does not change it.
    open: Cell<u8>,
    /// The first status that is an error.
    status: Cell<ucs_status_t>,
    /// Receives the index when the last request has completed.
    ended: Rc<Ended>,
}

impl RequestState {
    #[inline]
    fn end_one(&self, status: ucs_status_t) {
        if status != UCS_OK && self.status.get() == UCS_OK {
            self.status.set(status);
        }
        let open = self.open.get().saturating_sub(1);
        self.open.set(open);
        if open == 0 {
            self.ended.push(self.index);
        }
    }

    /// Returns the status and resets the state for the next operation of this index.
    #[inline]
    fn take(&self) -> ucs_status_t {
        self.open.set(1);
        self.status.replace(UCS_OK)
    }
}

/// UCP's callback for a completed request.
unsafe extern "C" fn request_ended(
    _request: *mut c_void,
    status: ucs_status_t,
    user_data: *mut c_void,
) {
    // SAFETY: the state that `params` has put into the parameters of the request. The pool keeps it
    // until the worker that calls this is destroyed.
    let state = unsafe { &*user_data.cast::<RequestState>() };
    state.ended.count_request(-1);
    state.end_one(status);
}

/// The parameters of the calls of one operation.
struct Params {
    /// READ and WRITE, of bytes.
    copy: ucp_request_param_t,
    /// An atomic on a word.
    atomic: ucp_request_param_t,
    /// The flush of a WRITE.
    flush: ucp_request_param_t,
}

/// The requests of all operations that can be in flight, by index.
pub(super) struct RequestPool {
    params: Box<[Params]>,
    /// Reference-counted, so that pointers to the states stay valid when the pool moves.
    states: Rc<[RequestState]>,
    ended: Rc<Ended>,
    _requests: Memory,
    /// The words of each operation.
    words: Memory,
}

impl RequestPool {
    /// A pool for this number of operations, whose requests have `request_bytes` bytes each.
    pub(super) fn new(operations: u32, request_bytes: usize) -> Result<Self, SetupError> {
        const NO_MEMORY: &str = "no memory for the requests: choose less depth";
        Self::allocate(operations, request_bytes).ok_or(SetupError::Sizes(NO_MEMORY))
    }

    fn allocate(operations: u32, request_bytes: usize) -> Option<Self> {
        let count = operations as usize;
        let request_words = request_bytes.div_ceil(LINE_BYTES) * LINE_WORDS as usize;
        // A pointer to a request points to its end, hence one line more for each.
        let stride = request_words + LINE_WORDS as usize;
        let requests = Memory::new(stride.checked_mul(count * REQUESTS)?)?;
        let words = Memory::new(OWN_WORDS * count)?;
        let ended = Rc::new(Ended::new(operations));
        let states: Rc<[_]> = (0..operations)
            .map(|index| {
                let (open, status) = (Cell::new(1), Cell::new(UCS_OK));
                RequestState { index, open, status, ended: Rc::clone(&ended) }
            })
            .collect();
        let params_of = |state: &RequestState| {
            let index = state.index as usize;
            let request = |number: usize| {
                let end = (index * REQUESTS + number) * stride + request_words;
                requests.at(end, 0).map(|end| end.as_ptr().cast())
            };
            let result = words.at(index * OWN_WORDS + RESULT, 1)?;
            Some(params(state, [request(0)?, request(1)?], result))
        };
        let params = states.iter().map(params_of).collect::<Option<_>>()?;
        Some(Self { params, states, ended, _requests: requests, words })
    }

    /// Calls `call` for a READ. Its result is null if the operation has completed successfully;
    /// otherwise the caller passes it to [`track`](Self::track).
    #[inline]
    pub(super) fn copy(
        &self,
        index: u32,
        call: impl FnOnce(*const ucp_request_param_t) -> ucs_status_ptr_t,
    ) -> ucs_status_ptr_t {
        let Some(params) = self.params.get(index as usize) else { return NOT_MADE };
        call(&raw const params.copy)
    }

    /// Calls `put` and `flush` for a WRITE. The result is as that of [`copy`](Self::copy).
    #[inline]
    pub(super) fn copy_and_flush(
        &self,
        index: u32,
        put: impl FnOnce(*const ucp_request_param_t) -> ucs_status_ptr_t,
        flush: impl FnOnce(*const ucp_request_param_t) -> ucs_status_ptr_t,
    ) -> ucs_status_ptr_t {
        let (Some(params), Some(state)) =
            (self.params.get(index as usize), self.states.get(index as usize))
        else {
            return NOT_MADE;
        };
        state.open.set(2);
        let put = put(&raw const params.copy);
        let flush = flush(&raw const params.flush);
        if put.is_null() && flush.is_null() {
            state.open.set(1);
            return put;
        }
        // Null would state that both have completed successfully, so the caller gets a result that
        // is not null. If both failed, the status is that of the put.
        let (first, last) = if flush.is_null() { (flush, put) } else { (put, flush) };
        self.track(index, first);
        last
    }

    /// Calls `call` for an atomic with a pointer to `operand`. `swap` is the desired value of a
    /// compare-and-swap, which the result replaces. The result is as that of [`copy`](Self::copy).
    #[inline]
    pub(super) fn atomic(
        &self,
        index: u32,
        operand: u64,
        swap: u64,
        call: impl FnOnce(*const c_void, *const ucp_request_param_t) -> ucs_status_ptr_t,
    ) -> ucs_status_ptr_t {
        let Some(params) = self.params.get(index as usize) else { return NOT_MADE };
        let Some(words) = self.words.at(index as usize * OWN_WORDS, 2) else { return NOT_MADE };
        // SAFETY: two words of this operation, which is not in flight yet.
        unsafe {
            words.add(OPERAND).write(operand);
            words.add(RESULT).write(swap);
        }
        call(words.as_ptr().cast(), &raw const params.atomic)
    }

    /// Processes the result of a call: an open request, or the status of a completed one.
    pub(super) fn track(&self, index: u32, result: ucs_status_ptr_t) {
        match self.states.get(index as usize) {
            Some(state) if UCS_PTR_IS_PTR(result) => state.ended.count_request(1),
            Some(state) => state.end_one(UCS_PTR_STATUS(result)),
            None => debug_assert!(false, "the pool has no operation {index}"),
        }
    }

    /// Whether UCP has completed all requests.
    pub(super) fn is_idle(&self) -> bool {
        self.ended.open_requests.get() == 0
    }

    /// Takes the next completed operation, and its status.
    #[inline]
    pub(super) fn take(&self) -> Option<(u32, ucs_status_t)> {
        let index = self.ended.pop()?;
        Some((index, self.states.get(index as usize)?.take()))
    }

    /// The word of a control operation.
    pub(super) fn scratch(&self, index: u32) -> Option<NonNull<u64>> {
        self.words.at(index as usize * OWN_WORDS + SCRATCH, 1)
    }

    /// The result of a completed atomic; `None` if there is no such operation.
    #[inline]
    pub(super) fn result(&self, index: u32) -> Option<u64> {
        let result = self.words.at(index as usize * OWN_WORDS + RESULT, 1)?;
        // SAFETY: the operation has completed, so UCP does not access its words.
        Some(unsafe { result.read() })
    }
}

fn params(
    state: &RequestState,
    [first, second]: [*mut c_void; REQUESTS],
    result: NonNull<u64>,
) -> Params {
    // SAFETY: a struct of integers, pointers and optional functions, for which zero is valid; UCP
    // reads only the fields in the mask.
    let mut copy: ucp_request_param_t = unsafe { core::mem::zeroed() };
    copy.op_attr_mask =
        UCP_OP_ATTR_FIELD_REQUEST | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    copy.request = first;
    copy.cb.send = Some(request_ended);
    copy.user_data = (&raw const *state).cast_mut().cast();
    let mut atomic = copy;
    atomic.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER;
    atomic.datatype = ucp_dt_make_contig(WORD_BYTES as u64);
    atomic.reply_buffer = result.as_ptr().cast();
    let mut flush = copy;
    flush.request = second;
    Params { copy, atomic, flush }
}

#[cfg(test)]
mod tests {
    use probeline_ucx_sys::{UCS_ERR_CANCELED, UCS_ERR_NO_MEMORY, UCS_ERR_NO_RESOURCE};

    use super::*;

    const PUT_FAILED: ucs_status_t = UCS_ERR_NO_MEMORY;
    const FLUSH_FAILED: ucs_status_t = UCS_ERR_NO_RESOURCE;

    /// When open requests end: the put while the flush is called, or both later, in the order of
    /// the calls or the other way round.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum EndOrder {
        PutInFlush,
        PutFirst,
        FlushFirst,
    }

    /// The result of a call, and the status with which its request ends if it is open.
    #[derive(Clone, Copy, Debug)]
    enum Posted {
        Null,
        Error(ucs_status_t),
        Request(ucs_status_t),
    }

    impl Posted {
        fn all(failed: ucs_status_t) -> [Self; 4] {
            [Self::Null, Self::Error(failed), Self::Request(UCS_OK), Self::Request(failed)]
        }

        fn pointer(self, request: &Request) -> ucs_status_ptr_t {
            match self {
                Self::Null => core::ptr::null_mut(),
                Self::Error(status) => {
                    core::ptr::without_provenance_mut((status as isize).cast_unsigned())
                }
                Self::Request(_) => request.handle,
            }
        }

        fn status(self) -> ucs_status_t {
            match self {
                Self::Null => UCS_OK,
                Self::Error(status) | Self::Request(status) => status,
            }
        }

        /// Calls back, as a call on the worker does.
        fn end(self, request: &Request) {
            if let Self::Request(status) = self {
                // SAFETY: the callback and its argument are those of a live pool.
                unsafe { (request.callback)(request.handle, status, request.user_data) };
            }
        }
    }

    /// The fields of a call's parameters that UCP uses.
    #[derive(Clone, Copy)]
    struct Request {
        handle: *mut c_void,
        callback: unsafe extern "C" fn(*mut c_void, ucs_status_t, *mut c_void),
        user_data: *mut c_void,
    }

    impl Request {
        fn of(params: *const ucp_request_param_t) -> Self {
            // SAFETY: the parameters of a live pool, whose callback is that of sends.
            let (params, callback) = unsafe { (&*params, (*params).cb.send.unwrap()) };
            Self { handle: params.request, callback, user_data: params.user_data }
        }
    }

    /// Posts a WRITE whose calls have these results. Returns its status; `None` if it ended
    /// successfully when it was posted.
    fn write(
        pool: &RequestPool,
        put: Posted,
        flush: Posted,
        order: EndOrder,
    ) -> Option<ucs_status_t> {
        let (put_request, flush_request) = (Cell::new(None), Cell::new(None));
        let answer = pool.copy_and_flush(
            0,
            |params| {
                let request = Request::of(params);
                put_request.set(Some(request));
                put.pointer(&request)
            },
            |params| {
                let request = Request::of(params);
                flush_request.set(Some(request));
                if order == EndOrder::PutInFlush {
                    put.end(&put_request.get().unwrap());
                }
                flush.pointer(&request)
            },
        );
        if answer.is_null() {
            assert_eq!(pool.take(), None);
            return None;
        }
        pool.track(0, answer);
        let mut parts = [(put, put_request), (flush, flush_request)];
        match order {
            EndOrder::PutInFlush => parts[0].0 = Posted::Null,
            EndOrder::PutFirst => {}
            EndOrder::FlushFirst => parts.reverse(),
        }
        for (part, request) in parts {
            if let Posted::Request(_) = part {
                assert_eq!(pool.take(), None, "it ended before its requests");
            }
            part.end(&request.get().unwrap());
        }
        let (index, status) = pool.take().expect("it does not end");
        assert_eq!((index, pool.take()), (0, None));
        Some(status)
    }

    #[test]
    fn a_write_completes_once_and_fails_if_a_request_fails() {
        let pool = RequestPool::new(1, 100).unwrap();
        for order in [EndOrder::PutInFlush, EndOrder::PutFirst, EndOrder::FlushFirst] {
            for put in Posted::all(PUT_FAILED) {
                for flush in Posted::all(FLUSH_FAILED) {
                    let case = format!("{put:?}, {flush:?}, {order:?}");
                    let ended = write(&pool, put, flush, order);
                    let expected = match (put, flush) {
                        (Posted::Null, Posted::Null) => None,
                        // The status is that of the request that completed first.
                        _ if put.status() != UCS_OK && flush.status() != UCS_OK => {
                            assert!([PUT_FAILED, FLUSH_FAILED].contains(&ended.unwrap()), "{case}");
                            ended
                        }
                        _ if put.status() != UCS_OK => Some(put.status()),
                        _ => Some(flush.status()),
                    };
                    assert_eq!(ended, expected, "{case}");
                    assert_reset(&pool, &case);
                }
            }
        }
        let both = write(
            &pool,
            Posted::Error(PUT_FAILED),
            Posted::Error(FLUSH_FAILED),
            EndOrder::PutFirst,
        );
        assert_eq!(both, Some(PUT_FAILED));
    }

    /// Checks that the state of an index is reset for its next operation, a READ.
    fn assert_reset(pool: &RequestPool, case: &str) {
        for status in [UCS_OK, UCS_ERR_CANCELED] {
            let next = Posted::Request(status);
            let request = Cell::new(None);
            let answer = pool.copy(0, |params| {
                request.set(Some(Request::of(params)));
                next.pointer(&Request::of(params))
            });
            pool.track(0, answer);
            assert_eq!(pool.take(), None, "{case}");
            assert!(!pool.is_idle(), "{case}");
            next.end(&request.get().unwrap());
            assert_eq!((pool.take(), pool.is_idle()), (Some((0, status)), true), "{case}");
        }
    }
}
