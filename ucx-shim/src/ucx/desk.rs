//! Requests at the library: their memory, made once, and where the library says that they ended.
//!
//! Every operation has an index. Its requests lie in memory of this crate's (`request` of
//! `ucp_request_param_t`), so that posting allocates nothing, and the parameters of its calls are
//! written once too. The library calls back in calls on the worker alone, hence in the thread that
//! uses the engine: what it tells goes through cells.

use core::cell::Cell;
use core::ffi::c_void;
use core::ptr::NonNull;
use std::rc::Rc;

use probeline_transport::{LINE_BYTES, LINE_WORDS, WORD_BYTES};
use probeline_ucx_sys::{
    UCP_OP_ATTR_FIELD_CALLBACK, UCP_OP_ATTR_FIELD_DATATYPE, UCP_OP_ATTR_FIELD_REPLY_BUFFER,
    UCP_OP_ATTR_FIELD_REQUEST, UCP_OP_ATTR_FIELD_USER_DATA, UCS_ERR_INVALID_PARAM, UCS_OK,
    UCS_PTR_IS_PTR, UCS_PTR_STATUS, ucp_dt_make_contig, ucp_request_param_t, ucs_status_ptr_t,
    ucs_status_t,
};

use super::OpenError;
use super::memory::Memory;

/// The answer of a call that was not made, for want of an index that there is.
const NOT_MADE: ucs_status_ptr_t =
    core::ptr::without_provenance_mut((UCS_ERR_INVALID_PARAM as isize).cast_unsigned());
/// Requests of one operation: a WRITE is a put and the flush behind it.
const PARTS: usize = 2;

/// Operations that have ended, in that order, and are not yet taken.
#[derive(Debug)]
struct Ended {
    /// A power of two long, so that counters that wrap stay consecutive.
    ring: Box<[Cell<u32>]>,
    pushed: Cell<u32>,
    taken: Cell<u32>,
    /// Requests that the library holds and has not completed. The count wraps: a request may
    /// complete before the call that made it has returned.
    under_way: Cell<u32>,
}

impl Ended {
    #[inline]
    fn push(&self, index: u32) {
        let pushed = self.pushed.get();
        // Each operation is in it once at most, and there is a place for each.
        match self.ring.get(pushed as usize & (self.ring.len() - 1)) {
            Some(place) => {
                place.set(index);
                self.pushed.set(pushed.wrapping_add(1));
            }
            None => debug_assert!(false, "the mask leaves a place of the ring"),
        }
    }

    fn count(&self, more: u32) {
        self.under_way.set(self.under_way.get().wrapping_add(more));
    }
}

/// What the library tells of one operation.
#[derive(Debug)]
struct Told {
    index: u32,
    /// Requests that have not ended; 1 where nothing is under way, so that what is one request and
    /// ends at once touches nothing here.
    open: Cell<u8>,
    /// The first that was not good.
    status: Cell<ucs_status_t>,
    /// Where its end is entered.
    ended: Rc<Ended>,
}

impl Told {
    /// How it has ended, and makes it ready for the next operation of this index.
    #[inline]
    fn taken(&self) -> ucs_status_t {
        self.open.set(1);
        self.status.replace(UCS_OK)
    }

    #[inline]
    fn part_ended(&self, status: ucs_status_t) {
        if status != UCS_OK && self.status.get() == UCS_OK {
            self.status.set(status);
        }
        let open = self.open.get().saturating_sub(1);
        self.open.set(open);
        if open == 0 {
            self.ended.push(self.index);
        }
    }
}

/// The library's word that a request has ended.
unsafe extern "C" fn request_ended(
    _request: *mut c_void,
    status: ucs_status_t,
    user_data: *mut c_void,
) {
    // SAFETY: what `Desk::new` has put into the parameters of the request, which the desk keeps
    // until the worker is gone that calls this.
    let told = unsafe { &*user_data.cast::<Told>() };
    told.ended.count(u32::MAX);
    told.part_ended(status);
}

/// The parameters of the calls of one operation.
struct Params {
    /// READ and WRITE: bytes.
    copy: ucp_request_param_t,
    /// An atomic on a word, whose old value lands in the operation's result.
    atomic: ucp_request_param_t,
    /// The flush behind a WRITE.
    flush: ucp_request_param_t,
}

/// All operations that can be at the library at once, by index.
pub(super) struct Desk {
    params: Box<[Params]>,
    /// Shared and not owned, so that pointers to what is in it stay good when the desk moves.
    told: Rc<[Told]>,
    ended: Rc<Ended>,
    _requests: Memory,
    /// Of each operation the words that atomics take and give: the operand, the result.
    words: Memory,
}

/// Words that each operation has for atomics: a line, so that none shares one with another.
const OWN_WORDS: usize = LINE_WORDS as usize;

impl Desk {
    /// A desk for so many operations, whose requests take `request_bytes` each.
    pub(super) fn new(operations: u32, request_bytes: usize) -> Result<Self, OpenError> {
        let lacking = OpenError::Sizes("no memory for the requests: choose less depth");
        let count = operations as usize;
        let request_words = request_bytes.div_ceil(LINE_BYTES) * LINE_WORDS as usize;
        // A line more each, as a request is named by its end.
        let stride = request_words + LINE_WORDS as usize;
        let requests = stride.checked_mul(count * PARTS).and_then(Memory::new);
        let words = Memory::new(OWN_WORDS * count);
        let (Some(requests), Some(words)) = (requests, words) else { return Err(lacking) };
        let places = operations.next_power_of_two() as usize;
        let ended = Rc::new(Ended {
            ring: vec![Cell::new(0); places].into(),
            pushed: Cell::new(0),
            taken: Cell::new(0),
            under_way: Cell::new(0),
        });
        let told: Rc<[Told]> = (0..operations)
            .map(|index| Told {
                index,
                open: Cell::new(1),
                status: Cell::new(UCS_OK),
                ended: Rc::clone(&ended),
            })
            .collect();
        let of_one = |told: &Told| {
            let index = told.index as usize;
            let request = |part: usize| {
                let end = (index * PARTS + part) * stride + request_words;
                requests.at(end, 0).map(|end| end.as_ptr().cast())
            };
            let result = words.at(index * OWN_WORDS + 1, 1)?;
            Some(params(told, [request(0)?, request(1)?], result))
        };
        let params: Option<_> = told.iter().map(of_one).collect();
        let Some(params) = params else { return Err(lacking) };
        Ok(Self { params, told, ended, _requests: requests, words })
    }

    /// Makes the call of a READ: what it answers, for [`go_on`](Self::go_on) unless it is null, that
    /// is, the operation has ended well.
    #[inline]
    pub(super) fn copy(
        &self,
        index: u32,
        call: impl FnOnce(*const ucp_request_param_t) -> ucs_status_ptr_t,
    ) -> ucs_status_ptr_t {
        let Some(params) = self.params.get(index as usize) else { return NOT_MADE };
        call(&raw const params.copy)
    }

    /// Makes the two calls of a WRITE, the put and its flush: null if both have ended well. Else it
    /// goes on already, or has ended badly.
    #[inline]
    pub(super) fn copy_and_flush(
        &self,
        index: u32,
        put: impl FnOnce(*const ucp_request_param_t) -> ucs_status_ptr_t,
        flush: impl FnOnce(*const ucp_request_param_t) -> ucs_status_ptr_t,
    ) -> ucs_status_ptr_t {
        let (Some(params), Some(told)) =
            (self.params.get(index as usize), self.told.get(index as usize))
        else {
            return NOT_MADE;
        };
        told.open.set(2);
        let put = put(&raw const params.copy);
        let flush = flush(&raw const params.flush);
        if put.is_null() && flush.is_null() {
            told.open.set(1);
            return put;
        }
        // What is left to be taken is not null, which would say that both have ended well; where both
        // have failed, it is the put that tells why.
        let (first, last) = if flush.is_null() { (flush, put) } else { (put, flush) };
        self.go_on(index, first);
        last
    }

    /// Makes the call of an atomic with its operand, and `swap` where the result will land.
    #[inline]
    pub(super) fn atomic(
        &self,
        index: u32,
        operand: u64,
        swap: u64,
        call: impl FnOnce(*const c_void, *const ucp_request_param_t) -> ucs_status_ptr_t,
    ) -> ucs_status_ptr_t {
        let Some(params) = self.params.get(index as usize) else { return NOT_MADE };
        let Some(own) = self.words.at(index as usize * OWN_WORDS, 2) else { return NOT_MADE };
        // SAFETY: two words of this operation's own, which is not under way yet.
        unsafe {
            own.write(operand);
            own.add(1).write(swap);
        }
        call(own.as_ptr().cast(), &raw const params.atomic)
    }

    /// Takes what a call has answered: a request that goes on, or an end, which is then among those
    /// to be taken.
    pub(super) fn go_on(&self, index: u32, answer: ucs_status_ptr_t) {
        match self.told.get(index as usize) {
            Some(told) if UCS_PTR_IS_PTR(answer) => told.ended.count(1),
            Some(told) => told.part_ended(UCS_PTR_STATUS(answer)),
            None => debug_assert!(false, "the requests have no operation {index}"),
        }
    }

    /// Whether the library has completed every request.
    pub(super) fn is_idle(&self) -> bool {
        self.ended.under_way.get() == 0
    }

    /// The next operation that has ended, and how.
    #[inline]
    pub(super) fn take(&self) -> Option<(u32, ucs_status_t)> {
        let taken = self.ended.taken.get();
        if taken == self.ended.pushed.get() {
            return None;
        }
        let index = self.ended.ring.get(taken as usize & (self.ended.ring.len() - 1))?.get();
        self.ended.taken.set(taken.wrapping_add(1));
        Some((index, self.told.get(index as usize)?.taken()))
    }

    /// A word for READs and WRITEs of the engine's own.
    pub(super) fn scratch(&self, index: u32) -> Option<NonNull<u64>> {
        self.words.at(index as usize * OWN_WORDS + 2, 1)
    }

    /// The result of a completed atomic; `None` if there is no such operation.
    #[inline]
    pub(super) fn result(&self, index: u32) -> Option<u64> {
        let result = self.words.at(index as usize * OWN_WORDS + 1, 1)?;
        // SAFETY: the operation has ended, so that the library does not touch its words.
        Some(unsafe { result.read() })
    }
}

fn params(told: &Told, requests: [*mut c_void; PARTS], result: NonNull<u64>) -> Params {
    // SAFETY: a struct of integers, pointers and optional functions, for which zero is valid; only
    // fields named in the mask are looked at.
    let mut basic: ucp_request_param_t = unsafe { core::mem::zeroed() };
    let [first, second] = requests;
    basic.op_attr_mask =
        UCP_OP_ATTR_FIELD_REQUEST | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    basic.request = first;
    basic.cb.send = Some(request_ended);
    basic.user_data = (&raw const *told).cast_mut().cast();
    let mut atomic = basic;
    atomic.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER;
    atomic.datatype = ucp_dt_make_contig(WORD_BYTES as u64);
    atomic.reply_buffer = result.as_ptr().cast();
    let mut flush = basic;
    flush.request = second;
    Params { copy: basic, atomic, flush }
}

#[cfg(test)]
mod tests {
    use probeline_ucx_sys::{UCS_ERR_CANCELED, UCS_ERR_NO_MEMORY, UCS_ERR_NO_RESOURCE};

    use super::*;

    const PUT_FAILED: ucs_status_t = UCS_ERR_NO_MEMORY;
    const FLUSH_FAILED: ucs_status_t = UCS_ERR_NO_RESOURCE;

    /// When a request that goes on is told of: the put's while its flush is called, or later and
    /// in the order of the calls, or the other way round.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Times {
        PutInFlush,
        PutFirst,
        FlushFirst,
    }

    /// What a call answers, and how its request ends if it is one.
    #[derive(Clone, Copy, Debug)]
    enum Answer {
        Null,
        Error(ucs_status_t),
        Request(ucs_status_t),
    }

    impl Answer {
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

        /// Tells of the end, as a call on the worker does.
        fn end(self, request: &Request) {
            if let Self::Request(status) = self {
                // SAFETY: the callback and what it takes, of a desk that lives.
                unsafe { (request.tell)(request.handle, status, request.user_data) };
            }
        }
    }

    /// What the library reads out of the parameters of a call.
    #[derive(Clone, Copy)]
    struct Request {
        handle: *mut c_void,
        tell: unsafe extern "C" fn(*mut c_void, ucs_status_t, *mut c_void),
        user_data: *mut c_void,
    }

    impl Request {
        fn of(params: *const ucp_request_param_t) -> Self {
            // SAFETY: the parameters of a desk that lives, with the callback of sends.
            let (params, tell) = unsafe { (&*params, (*params).cb.send.unwrap()) };
            Self { handle: params.request, tell, user_data: params.user_data }
        }
    }

    /// A WRITE whose calls give these answers: what it has come to, `None` if it had ended well when
    /// it was posted.
    fn write(desk: &Desk, put: Answer, flush: Answer, times: Times) -> Option<ucs_status_t> {
        let (put_request, flush_request) = (Cell::new(None), Cell::new(None));
        let answer = desk.copy_and_flush(
            0,
            |params| {
                let request = Request::of(params);
                put_request.set(Some(request));
                put.pointer(&request)
            },
            |params| {
                let request = Request::of(params);
                flush_request.set(Some(request));
                if times == Times::PutInFlush {
                    put.end(&put_request.get().unwrap());
                }
                flush.pointer(&request)
            },
        );
        if answer.is_null() {
            assert_eq!(desk.take(), None);
            return None;
        }
        desk.go_on(0, answer);
        let mut parts = [(put, put_request), (flush, flush_request)];
        match times {
            Times::PutInFlush => parts[0].0 = Answer::Null,
            Times::PutFirst => {}
            Times::FlushFirst => parts.reverse(),
        }
        for (part, request) in parts {
            if let Answer::Request(_) = part {
                assert_eq!(desk.take(), None, "it has ended before all of it has");
            }
            part.end(&request.get().unwrap());
        }
        let (index, status) = desk.take().expect("it never ends");
        assert_eq!((index, desk.take()), (0, None));
        Some(status)
    }

    #[test]
    fn a_write_ends_once_and_badly_if_any_of_it_does() {
        let desk = Desk::new(1, 100).unwrap();
        for times in [Times::PutInFlush, Times::PutFirst, Times::FlushFirst] {
            for put in Answer::all(PUT_FAILED) {
                for flush in Answer::all(FLUSH_FAILED) {
                    let case = format!("{put:?}, {flush:?}, {times:?}");
                    let ended = write(&desk, put, flush, times);
                    let expected = match (put, flush) {
                        (Answer::Null, Answer::Null) => None,
                        // Whichever was told of first.
                        _ if put.status() != UCS_OK && flush.status() != UCS_OK => {
                            assert!([PUT_FAILED, FLUSH_FAILED].contains(&ended.unwrap()), "{case}");
                            ended
                        }
                        _ if put.status() != UCS_OK => Some(put.status()),
                        _ => Some(flush.status()),
                    };
                    assert_eq!(ended, expected, "{case}");
                    assert_next_is_its_own(&desk, &case);
                }
            }
        }
        let both =
            write(&desk, Answer::Error(PUT_FAILED), Answer::Error(FLUSH_FAILED), Times::PutFirst);
        assert_eq!(both, Some(PUT_FAILED));
    }

    /// Nothing of the last operation of an index is left to the next one, of one request.
    fn assert_next_is_its_own(desk: &Desk, case: &str) {
        for status in [UCS_OK, UCS_ERR_CANCELED] {
            let next = Answer::Request(status);
            let request = Cell::new(None);
            let answer = desk.copy(0, |params| {
                request.set(Some(Request::of(params)));
                next.pointer(&Request::of(params))
            });
            desk.go_on(0, answer);
            assert_eq!(desk.take(), None, "{case}");
            assert!(!desk.is_idle(), "{case}");
            next.end(&request.get().unwrap());
            assert_eq!((desk.take(), desk.is_idle()), (Some((0, status)), true), "{case}");
        }
    }
}
