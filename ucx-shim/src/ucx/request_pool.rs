//! The requests of UCP: their memory, allocated once, and the results that UCP reports.
//!
//! Every operation has an index. Its requests lie in memory of this crate (`request` of
//! `ucp_request_param_t`), so that posting allocates nothing, and the parameters of its calls are
//! written once too. UCP calls back only within calls on the worker, hence in the thread that uses
//! the engine; its callback writes to cells.

use core::cell::{Cell, RefCell};
use core::ffi::c_void;
use std::rc::Rc;

use probeline_transport::SetupError;
use probeline_transport::engine::{Memory, Ring};
use probeline_transport::{LINE_BYTES, LINE_WORDS, WORD_BYTES};
use probeline_ucx_sys::{
    UCP_OP_ATTR_FIELD_CALLBACK, UCP_OP_ATTR_FIELD_DATATYPE, UCP_OP_ATTR_FIELD_REPLY_BUFFER,
    UCP_OP_ATTR_FIELD_REQUEST, UCP_OP_ATTR_FIELD_USER_DATA, UCS_ERR_INVALID_PARAM, UCS_OK,
    UCS_PTR_IS_PTR, UCS_PTR_STATUS, Ucp, ucp_atomic_op_t, ucp_dt_make_contig, ucp_request_param_t,
    ucs_status_ptr_t, ucs_status_t,
};

use super::worker::Peer;

/// The result for an invalid index, for which no call was made.
const NOT_MADE: Posted =
    Err(core::ptr::without_provenance_mut((UCS_ERR_INVALID_PARAM as isize).cast_unsigned()));
/// The requests of one operation: a WRITE is a put and a flush.
const REQUESTS: usize = 2;

/// The value of an operation that completed successfully when it was posted: the old value of an
/// atomic, otherwise 0. Or what the caller passes to [`track`](RequestPool::track).
pub(super) type Posted = Result<u64, ucs_status_ptr_t>;

/// The calls of one operation.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    /// A get of this number of words.
    Get(*mut u64, usize),
    /// A put of this number of words, which completes when they can be overwritten.
    Put(*const u64, usize),
    /// As a put, and a flush, which completes when they have arrived.
    PutAndFlush(*const u64, usize),
    /// An atomic on a word. The result replaces `swap`, the desired value of a compare-and-swap.
    Atomic { code: ucp_atomic_op_t, operand: u64, swap: u64 },
}

/// The completed operations.
#[derive(Debug)]
struct Completed {
    /// The indices of those that have not been taken, in order. It has room for all operations.
    indices: RefCell<Ring<u32>>,
    /// The number of requests that UCP has not completed. The count wraps: a request may complete
    /// before the call that created it has returned.
    open_requests: Cell<u32>,
}

impl Completed {
    fn count_request(&self, change: i32) {
        self.open_requests.set(self.open_requests.get().wrapping_add_signed(change));
    }
}

/// The state of one operation, in a cache line of its own.
#[derive(Debug)]
#[repr(align(64))]
struct State {
    index: u32,
    /// The number of requests that have not completed. It is 1 while the operation is not in
    /// flight, so that an operation of one request that completes immediately does not change it.
    open: Cell<u8>,
    /// The first status that is an error.
    status: Cell<ucs_status_t>,
    /// The operand and the result of an atomic, which UCP accesses until the operation has ended.
    operand: Cell<u64>,
    result: Cell<u64>,
    /// Receives the index when the last request has completed.
    completed: Rc<Completed>,
}

impl State {
    #[inline]
    fn end_one(&self, status: ucs_status_t) {
        if status != UCS_OK && self.status.get() == UCS_OK {
            self.status.set(status);
        }
        let open = self.open.get().saturating_sub(1);
        self.open.set(open);
        if open > 0 {
            return;
        }
        match self.completed.indices.try_borrow_mut() {
            Ok(mut indices) => indices.push(self.index),
            Err(_) => debug_assert!(false, "UCP calls back within calls on the worker only"),
        }
    }

    /// Processes the result of a call: an open request, or the status of a completed one.
    #[inline]
    fn track(&self, result: ucs_status_ptr_t) {
        if UCS_PTR_IS_PTR(result) {
            self.completed.count_request(1);
        } else {
            self.end_one(UCS_PTR_STATUS(result));
        }
    }

    /// Makes both calls of a WRITE. The result is null if both have completed successfully.
    #[inline]
    fn put_and_flush(
        &self,
        put: impl FnOnce() -> ucs_status_ptr_t,
        flush: impl FnOnce() -> ucs_status_ptr_t,
    ) -> ucs_status_ptr_t {
        self.open.set(2);
        let (put, flush) = (put(), flush());
        if put.is_null() && flush.is_null() {
            self.open.set(1);
            return put;
        }
        // The caller gets the result that is not null. If both failed, the status is that of the
        // put.
        let (first, last) = if flush.is_null() { (flush, put) } else { (put, flush) };
        self.track(first);
        last
    }
}

/// Counts a completed request of an operation. UCP calls it.
unsafe extern "C" fn request_ended(
    _request: *mut c_void,
    status: ucs_status_t,
    user_data: *mut c_void,
) {
    // SAFETY: the state that `Params::new` has put into the parameters of the request. The pool
    // keeps it until the worker that calls this is destroyed.
    let state = unsafe { &*user_data.cast::<State>() };
    state.completed.count_request(-1);
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

impl Params {
    fn new(state: &State, [first, second]: [*mut c_void; REQUESTS]) -> Self {
        // SAFETY: a struct of integers, pointers and optional functions, for which zero is valid;
        // UCP reads only the fields in the mask.
        let mut copy: ucp_request_param_t = unsafe { core::mem::zeroed() };
        copy.op_attr_mask =
            UCP_OP_ATTR_FIELD_REQUEST | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
        copy.request = first;
        copy.cb.send = Some(request_ended);
        copy.user_data = (&raw const *state).cast_mut().cast();
        let mut atomic = copy;
        atomic.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER;
        atomic.datatype = ucp_dt_make_contig(WORD_BYTES as u64);
        atomic.reply_buffer = state.result.as_ptr().cast();
        let mut flush = copy;
        flush.request = second;
        Self { copy, atomic, flush }
    }
}

/// The requests of all operations that can be in flight, by index.
pub(super) struct RequestPool {
    params: Box<[Params]>,
    /// Reference-counted, so that pointers to the states stay valid when the pool moves.
    states: Rc<[State]>,
    completed: Rc<Completed>,
    _requests: Memory,
}

impl RequestPool {
    /// Creates a pool for this number of operations, whose requests have `request_bytes` bytes
    /// each.
    pub(super) fn new(operations: u32, request_bytes: usize) -> Result<Self, SetupError> {
        const NO_MEMORY: &str = "no memory for the requests: choose less depth";
        Self::allocate(operations, request_bytes).ok_or(SetupError::Sizes(NO_MEMORY))
    }

    fn allocate(operations: u32, request_bytes: usize) -> Option<Self> {
        let request_words = request_bytes.div_ceil(LINE_BYTES) * LINE_WORDS as usize;
        // A pointer to a request points to its end, hence one line more for each.
        let stride = request_words + LINE_WORDS as usize;
        let requests = Memory::new(stride.checked_mul(operations as usize * REQUESTS)?)?;
        let completed = Rc::new(Completed {
            indices: RefCell::new(Ring::new(operations)),
            open_requests: Cell::new(0),
        });
        let state = |index| State {
            index,
            open: Cell::new(1),
            status: Cell::new(UCS_OK),
            operand: Cell::new(0),
            result: Cell::new(0),
            completed: Rc::clone(&completed),
        };
        let states: Rc<[_]> = (0..operations).map(state).collect();
        let params = states.iter().map(|state| {
            let request = |number| {
                let end = (state.index as usize * REQUESTS + number) * stride + request_words;
                requests.at(end, 0).map(|end| end.as_ptr().cast())
            };
            Some(Params::new(state, [request(0)?, request(1)?]))
        });
        let params = params.collect::<Option<_>>()?;
        Some(Self { params, states, completed, _requests: requests })
    }

    /// Makes the calls of operation `index` on the words at the address `at` of `peer`.
    ///
    /// # Safety
    /// The operation is not in flight. `at` is the address of as many words of the peer as `call`
    /// has, and the peer is one of the worker that uses this pool. The words of the call stay until
    /// the operation has ended or the worker is destroyed.
    #[inline(always)]
    pub(super) unsafe fn post(
        &self,
        ucp: &Ucp,
        index: u32,
        (peer, at): (&Peer, u64),
        call: Call,
    ) -> Posted {
        let index = index as usize;
        let (Some(params), Some(state)) = (self.params.get(index), self.states.get(index)) else {
            return NOT_MADE;
        };
        let (endpoint, key) = (peer.endpoint, peer.key.handle);
        let posted = match call {
            Call::Get(into, words) => {
                let (into, bytes) = (into.cast(), words * WORD_BYTES);
                // SAFETY: a live endpoint, a key unpacked for it, and parameters of this pool. The
                // caller upholds that the operation is not in flight, that `at` is an address of
                // the peer, and that the words of the call stay.
                unsafe { (ucp.ucp_get_nbx)(endpoint, into, bytes, at, key, &raw const params.copy) }
            }
            Call::Put(from, words) => {
                let (from, bytes) = (from.cast(), words * WORD_BYTES);
                // SAFETY: the clauses of the call above.
                unsafe { (ucp.ucp_put_nbx)(endpoint, from, bytes, at, key, &raw const params.copy) }
            }
            Call::PutAndFlush(from, words) => {
                let (from, bytes, copy) = (from.cast(), words * WORD_BYTES, &raw const params.copy);
                state.put_and_flush(
                    // SAFETY: the clauses of the call above.
                    || unsafe { (ucp.ucp_put_nbx)(endpoint, from, bytes, at, key, copy) },
                    // SAFETY: the clauses of the call above.
                    || unsafe { (ucp.ucp_ep_flush_nbx)(endpoint, &raw const params.flush) },
                )
            }
            Call::Atomic { code, operand, swap } => {
                state.operand.set(operand);
                state.result.set(swap);
                let (operand, params) = (state.operand.as_ptr().cast(), &raw const params.atomic);
                // SAFETY: the clauses of the call above; the pool keeps the operand and the result.
                unsafe { (ucp.ucp_atomic_op_nbx)(endpoint, code, operand, 1, at, key, params) }
            }
        };
        if !posted.is_null() {
            return Err(posted);
        }
        Ok(if let Call::Atomic { .. } = call { state.result.get() } else { 0 })
    }

    /// Processes the result of a post that has not completed successfully.
    pub(super) fn track(&self, index: u32, result: ucs_status_ptr_t) {
        match self.states.get(index as usize) {
            Some(state) => state.track(result),
            None => debug_assert!(false, "the pool has no operation {index}"),
        }
    }

    /// Returns whether UCP has completed all requests.
    pub(super) fn is_idle(&self) -> bool {
        self.completed.open_requests.get() == 0
    }

    /// Takes the next completed operation, its status, and its value if it is an atomic.
    #[inline]
    pub(super) fn take(&self) -> Option<(u32, ucs_status_t, u64)> {
        let mut indices = self.completed.indices.try_borrow_mut().ok()?;
        let index = *indices.first()?;
        indices.pop();
        let state = self.states.get(index as usize)?;
        state.open.set(1);
        Some((index, state.status.replace(UCS_OK), state.result.get()))
    }
}

#[cfg(test)]
mod tests {
    use probeline_ucx_sys::{UCS_ERR_CANCELED, UCS_ERR_NO_MEMORY, UCS_ERR_NO_RESOURCE};

    use super::*;

    const PUT_FAILED: ucs_status_t = UCS_ERR_NO_MEMORY;
    const FLUSH_FAILED: ucs_status_t = UCS_ERR_NO_RESOURCE;

    /// The time at which open requests end: the put while the flush is called, or both later, in
    /// the order of the calls or the other way round.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum EndOrder {
        PutInFlush,
        PutFirst,
        FlushFirst,
    }

    /// The result of a call: nothing, an error, or a request and the status with which it ends.
    type Answer = Result<Option<ucs_status_t>, ucs_status_t>;

    fn answers(failed: ucs_status_t) -> [Answer; 4] {
        [Ok(None), Err(failed), Ok(Some(UCS_OK)), Ok(Some(failed))]
    }

    fn status(answer: Answer) -> ucs_status_t {
        answer.map_or_else(|status| status, |status| status.unwrap_or(UCS_OK))
    }

    /// Returns the result of the call with these parameters.
    fn pointer(answer: Answer, params: &ucp_request_param_t) -> ucs_status_ptr_t {
        match answer {
            Ok(None) => core::ptr::null_mut(),
            Err(status) => core::ptr::without_provenance_mut((status as isize).cast_unsigned()),
            Ok(Some(_)) => params.request,
        }
    }

    /// Calls back, as a call on the worker does.
    fn end(answer: Answer, params: &ucp_request_param_t) {
        if let Ok(Some(status)) = answer {
            // SAFETY: the callback, which is that of sends, and its argument are those of a live pool.
            unsafe { params.cb.send.unwrap()(params.request, status, params.user_data) };
        }
    }

    /// Returns the next completed operation, and its status.
    fn take(pool: &RequestPool) -> Option<(u32, ucs_status_t)> {
        pool.take().map(|(index, status, _)| (index, status))
    }

    /// Posts a WRITE whose calls have these results. Returns its status; `None` if it ended
    /// successfully when it was posted.
    fn write(
        pool: &RequestPool,
        put: Answer,
        flush: Answer,
        order: EndOrder,
    ) -> Option<ucs_status_t> {
        let Params { copy, flush: of_flush, .. } = &pool.params[0];
        let posted = pool.states[0].put_and_flush(
            || pointer(put, copy),
            || {
                if order == EndOrder::PutInFlush {
                    end(put, copy);
                }
                pointer(flush, of_flush)
            },
        );
        if posted.is_null() {
            assert_eq!(take(pool), None);
            return None;
        }
        pool.track(0, posted);
        let mut parts = vec![(put, copy), (flush, of_flush)];
        match order {
            EndOrder::PutInFlush => drop(parts.remove(0)),
            EndOrder::PutFirst => {}
            EndOrder::FlushFirst => parts.reverse(),
        }
        for (answer, params) in parts {
            assert!(
                !matches!(answer, Ok(Some(_))) || take(pool).is_none(),
                "ended before its requests"
            );
            end(answer, params);
        }
        let (index, status) = take(pool).expect("it does not end");
        assert_eq!((index, take(pool)), (0, None));
        Some(status)
    }

    #[test]
    fn fails_write_with_any_request() {
        let pool = RequestPool::new(1, 100).unwrap();
        for order in [EndOrder::PutInFlush, EndOrder::PutFirst, EndOrder::FlushFirst] {
            for put in answers(PUT_FAILED) {
                for flush in answers(FLUSH_FAILED) {
                    let case = format!("{put:?}, {flush:?}, {order:?}");
                    let ended = write(&pool, put, flush, order);
                    let expected = match (put, flush) {
                        (Ok(None), Ok(None)) => None,
                        // The status is that of the request that completed first.
                        _ if status(put) != UCS_OK && status(flush) != UCS_OK => {
                            assert!([PUT_FAILED, FLUSH_FAILED].contains(&ended.unwrap()), "{case}");
                            ended
                        }
                        _ if status(put) != UCS_OK => Some(status(put)),
                        _ => Some(status(flush)),
                    };
                    assert_eq!(ended, expected, "{case}");
                    assert_reset(&pool, &case);
                }
            }
        }
        let both = write(&pool, Err(PUT_FAILED), Err(FLUSH_FAILED), EndOrder::PutFirst);
        assert_eq!(both, Some(PUT_FAILED));
    }

    /// Checks that the state of an index is reset for its next operation, a READ.
    fn assert_reset(pool: &RequestPool, case: &str) {
        for status in [UCS_OK, UCS_ERR_CANCELED] {
            let (next, params) = (Ok(Some(status)), &pool.params[0].copy);
            pool.track(0, pointer(next, params));
            assert_eq!(take(pool), None, "{case}");
            assert!(!pool.is_idle(), "{case}");
            end(next, params);
            assert_eq!((take(pool), pool.is_idle()), (Some((0, status)), true), "{case}");
        }
    }
}
