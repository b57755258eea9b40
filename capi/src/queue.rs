//! Queues: a ring of values on each rank.

use core::ffi::c_void;
use core::ptr;

use probeline::containers::queue::{self, Action, Config, Operation, Outcome};
use probeline::containers::{BatchError, OperationError, Plain};
use probeline::pipeline::Tag;
use probeline::transport::Owner;

use crate::call::{call, product, room, slice};
use crate::job::{Members, probeline_job};
use crate::operations::{Keyed, Place, Sizes, Started, Submit, ToC, copy, poll, submit};
use crate::options::Allowed::Range;
use crate::options::{self, Extensible, MAX_KEYS, MAX_OPERATIONS, Options, options};
use crate::status::{Error, probeline_finished, probeline_outcome, probeline_status};
use crate::structure::{self, Engine, Inner, MAX_BYTES, Open, Pointee, Typed, result, with_block};

/// Values that are copied at once.
const BLOCK: usize = 256;

/// Options of a queue. All ranks give the same.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct probeline_queue_options {
    /// The size of this structure, which probeline_queue_options_init() stores.
    pub size: usize,
    /// Bytes of a value, 1 to 1024. [no default]
    pub value_bytes: usize,
    /// Values that the ring of each rank holds before it is full, 1 to 2^48. [default: 1024]
    pub capacity: u64,
    /// Values of a batch that travel together, 1 to 65,536; over verbs at most 16,384. A device may have less.
    /// Each ring has two further slots for each of them and each rank. [default: 64]
    pub operations: u32,
}

// SAFETY: repr(C); numbers, of which the first is the size.
unsafe impl Extensible for probeline_queue_options {}

options!(probeline_queue_options |_|
    value_bytes = 0, Range(1, MAX_BYTES as u64);
    capacity = 1024, Range(1, MAX_KEYS);
    operations = 64, Range(1, MAX_OPERATIONS);
);

/// A queue with a ring on each rank.
pub struct probeline_queue(());

impl Inner<probeline_queue> {
    /// Returns the owner of a ring.
    fn host(&self, host: u32) -> Result<Owner, Error> {
        options::check_rank("host", host, self.opened.ranks)
    }
}

impl Pointee for probeline_queue {
    const NAME: &'static str = "queue";
    const OWN_OPTIONS: &'static [&'static str] = &[];
    type Options = probeline_queue_options;
    type Structure = dyn Queue;

    fn plan(members: &mut Members, options: &Self::Options) -> Result<Open<dyn Queue>, Error> {
        let &probeline_queue_options { value_bytes, capacity, operations, .. } = options;
        members.check_depth(operations, operations)?;
        let config = Config { in_flight: operations, value_bytes, ..Config::new(capacity) };
        Ok(Box::new(move |members| {
            with_block!(value_bytes, V => {
                let sizes = (config.sizes::<V>(members.owners(), operations), operations);
                let queue = structure::open(members, sizes, config, Opened::<V>::open)?;
                let own = Own { values: Vec::with_capacity(BLOCK), unfinished: None };
                Ok(Typed::new(queue, own, operations))
            })
        }))
    }
}

/// An operation that is submitted.
#[derive(Clone, Copy)]
pub(crate) enum Request {
    Push,
    Pop,
}

impl Keyed for probeline_queue {
    const VALUE: &'static str = "the value";
    type Request = Request;
    /// The host.
    type Word = u32;

    fn sizes(options: &Self::Options, request: Request) -> Result<Sizes, Error> {
        let (key, bytes, is_optional) = (1, options.value_bytes, false);
        Ok(match request {
            Request::Push => Sizes { key, operand: bytes, result: 0, is_optional },
            Request::Pop => Sizes { key, operand: 0, result: bytes, is_optional },
        })
    }

    fn check(inner: &Inner<probeline_queue>, hosts: &[u32]) -> Result<(), Error> {
        hosts.iter().try_for_each(|host| inner.host(*host).map(drop))
    }
}

/// A queue whose values have a size that is known at run time only. Callers pass exactly this size.
pub(crate) trait Queue: Submit<probeline_queue> {
    /// Pushes values in order, and returns how many the ring had room for.
    fn push(&mut self, host: Owner, values: &[u8]) -> Result<usize, Error>;
    /// Pops values, as many as there is room for, and returns how many there were.
    fn pop(&mut self, host: Owner, values: Place<'_>) -> Result<usize, Error>;
    /// Passes the ticket that the last pop found unfinished. Returns false if the ring is not there.
    fn skip(&mut self, host: Owner) -> Result<bool, Error>;
}

struct Own<V> {
    /// Values of a batch.
    values: Vec<V>,
    /// The ring and the ticket that the last pop found unfinished.
    unfinished: Option<(Owner, u64)>,
}

type Opened<V> = queue::Queue<Engine, Vec<Operation<V>>, V>;

impl<V: Plain> Submit<probeline_queue> for Typed<Opened<V>, Own<V>> {
    fn submit(&mut self, tag: Tag, request: Request, host: &[u32], value: &[u8]) -> Started {
        let action = match request {
            Request::Push => Action::Push(V::from_bytes(value)),
            Request::Pop => Action::Pop,
        };
        self.front.submit(tag, &Owner(host[0]), action)
    }
}

impl<V: Plain> Queue for Typed<Opened<V>, Own<V>> {
    fn push(&mut self, host: Owner, values: &[u8]) -> Result<usize, Error> {
        let (bytes, own) = (self.front.config().value_bytes, &mut self.own);
        let mut pushed = 0;
        for values in values.chunks(BLOCK * bytes) {
            own.values.clear();
            own.values.extend(values.chunks_exact(bytes).map(V::from_bytes));
            let count = self.front.push_batch(host, &own.values)?;
            pushed += count;
            if count < own.values.len() {
                break;
            }
        }
        Ok(pushed)
    }

    fn pop(&mut self, host: Owner, values: Place<'_>) -> Result<usize, Error> {
        let (bytes, own) = (self.front.config().value_bytes, &mut self.own);
        let mut popped = 0;
        own.unfinished = None;
        for room in values.chunks_mut(BLOCK * bytes) {
            let count = room.len() / bytes;
            own.values.clear();
            own.values.resize(count, V::zeroed(bytes));
            let found = match self.front.pop_batch(host, &mut own.values) {
                Ok(found) => found,
                Err(error) if popped > 0 && error.is_found_again() => break,
                Err(error) => {
                    if let BatchError::Operation(OperationError::Unfinished { ticket }) = error {
                        own.unfinished = Some((host, ticket));
                    }
                    return Err(error.into());
                }
            };
            let places = room.chunks_exact_mut(bytes);
            own.values.iter().zip(places).take(found).for_each(|(v, to)| copy(v.bytes(), to));
            popped += found;
            if found < count {
                break;
            }
        }
        Ok(popped)
    }

    fn skip(&mut self, host: Owner) -> Result<bool, Error> {
        let Some((_, ticket)) = self.own.unfinished.filter(|(at, _)| *at == host) else {
            let text = "the last pop did not return PROBELINE_ERROR_UNFINISHED from this rank";
            return Err(Error::invalid(text));
        };
        Ok(self.front.skip(host, ticket)?)
    }
}

impl<V: Plain> ToC for Outcome<V> {
    fn to_c(&self) -> (probeline_outcome, Option<&[u8]>) {
        match self {
            Self::Pushed(_) => (probeline_outcome::PROBELINE_INSERTED, None),
            Self::Full => (probeline_outcome::PROBELINE_FULL, None),
            Self::Popped(value) => (probeline_outcome::PROBELINE_FOUND, Some(value.bytes())),
            Self::Empty => (probeline_outcome::PROBELINE_ABSENT, None),
        }
    }
}

/// Stores the default options and `size`, which is sizeof(probeline_queue_options).
/// Never waits; any thread.
///
/// # Safety
/// `options` is NULL or has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_queue_options_init(
    options: *mut probeline_queue_options,
    size: usize,
) -> probeline_status {
    // SAFETY: the program passes NULL or `size` bytes (# Safety).
    call(|| unsafe { options::write(options, size, &probeline_queue_options::DEFAULT) })
}

/// Opens a queue of empty rings and stores its handle at `queue`. The options must have a size of values.
/// Collective.
///
/// # Safety
/// `job` is NULL or open, `options` is NULL or initialized, and `queue` is NULL or has room for a
/// pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_queue_open(
    job: *mut probeline_job,
    options: *const probeline_queue_options,
    queue: *mut *mut probeline_queue,
) -> probeline_status {
    // SAFETY: the program passes what this asks for (# Safety).
    unsafe { structure::open_for(job, options, queue) }
}

/// Waits for all ranks, closes the queue and frees it with the values in its rings; `queue` may be NULL.
/// Collective.
///
/// # Safety
/// `queue` is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_queue_close(queue: *mut probeline_queue) -> probeline_status {
    // SAFETY: the program passes NULL or an open queue (# Safety).
    unsafe { structure::close(queue) }
}

/// Pushes a value to the ring of the rank `host`, and stores at `pushed` 1, or 0 if the ring is full. If it fails,
/// the value may be in the ring. Waits for its operation.
///
/// # Safety
/// `queue` is NULL or open, `value` is NULL or a value, and `pushed` is NULL or has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_queue_push(
    queue: *mut probeline_queue,
    host: u32,
    value: *const c_void,
    pushed: *mut usize,
) -> probeline_status {
    // SAFETY: the program passes NULL or an open queue, a value, and a place for a number (# Safety).
    unsafe { probeline_queue_push_batch(queue, host, value, 1, pushed) }
}

/// Pops the oldest value from the ring of the rank `host`, and stores at `popped` 1, or 0 if the ring is empty,
/// which leaves `value` as it is. Returns PROBELINE_ERROR_UNFINISHED if the push of the oldest value has not
/// ended, and PROBELINE_ERROR_CONTENDED if other pops were faster 64 times. Waits for its operation.
///
/// # Safety
/// `queue` is NULL or open, and `value` and `popped` are NULL or have room for a value and a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_queue_pop(
    queue: *mut probeline_queue,
    host: u32,
    value: *mut c_void,
    popped: *mut usize,
) -> probeline_status {
    // SAFETY: the program passes NULL or an open queue, and room for a value and a number (# Safety).
    unsafe { probeline_queue_pop_batch(queue, host, value, 1, popped) }
}

/// Pushes `count` values, one after another in `values`, to the ring of the rank `host` in this order, and
/// stores at `pushed` how many it had room for. If it fails, some of them may be in the ring. Waits for its
/// operations.
///
/// # Safety
/// `queue` is NULL or open, `values` is NULL or has `count` values, and `pushed` is NULL or has room for a
/// number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_queue_push_batch(
    queue: *mut probeline_queue,
    host: u32,
    values: *const c_void,
    count: usize,
    pushed: *mut usize,
) -> probeline_status {
    let push = |inner: &mut Inner<probeline_queue>| {
        let (host, bytes) = (inner.host(host)?, product(count, inner.options.value_bytes)?);
        // SAFETY: the program passes NULL or `count` values (# Safety).
        let values = unsafe { slice(values.cast::<u8>(), bytes, "the value") }?;
        inner.structure.push(host, values)
    };
    // SAFETY: the program passes NULL or an open queue, and a place for a number (# Safety).
    unsafe { result(queue, (pushed, "pushed"), push) }
}

/// Pops the oldest values, at most `capacity`, from the ring of the rank `host`, stores them one after
/// another in `values`, and their number at `popped`. Fails as probeline_queue_pop(), if it has popped
/// none. Waits for its operations.
///
/// # Safety
/// `queue` is NULL or open, `values` is NULL or has room for `capacity` values, and `popped` is NULL or has
/// room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_queue_pop_batch(
    queue: *mut probeline_queue,
    host: u32,
    values: *mut c_void,
    capacity: usize,
    popped: *mut usize,
) -> probeline_status {
    let pop = |inner: &mut Inner<probeline_queue>| {
        let (host, bytes) = (inner.host(host)?, product(capacity, inner.options.value_bytes)?);
        // SAFETY: the program passes NULL or room for `capacity` values (# Safety).
        let values = unsafe { room(values.cast::<u8>(), bytes, "the value") }?;
        inner.structure.pop(host, values)
    };
    // SAFETY: the program passes NULL or an open queue, and a place for a number (# Safety).
    unsafe { result(queue, (popped, "popped"), pop) }
}

/// Starts to push a value, which is copied, to the ring of the rank `host`. Values that are in flight together get
/// into the ring in any order. Returns PROBELINE_ERROR_BUSY while as many operations are in flight as the options
/// say. Never waits.
///
/// # Safety
/// `queue` is NULL or open, and `value` is NULL or a value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_queue_submit_push(
    queue: *mut probeline_queue,
    tag: u64,
    host: u32,
    value: *const c_void,
) -> probeline_status {
    let pointers = (&raw const host, value, ptr::null_mut());
    // SAFETY: the program passes NULL or an open queue, and a value (# Safety).
    unsafe { submit(queue, tag, Ok(Request::Push), pointers) }
}

/// Starts to pop the oldest value from the ring of the rank `host`, which a poll stores at `value`. The memory there
/// must stay valid until probeline_queue_poll() has reported `tag`. Returns PROBELINE_ERROR_BUSY as
/// probeline_queue_submit_push() does. Never waits.
///
/// # Safety
/// `queue` is NULL or open, and `value` is NULL or has room for a value until the operation has ended or the queue is
/// closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_queue_submit_pop(
    queue: *mut probeline_queue,
    tag: u64,
    host: u32,
    value: *mut c_void,
) -> probeline_status {
    let pointers = (&raw const host, ptr::null(), value);
    // SAFETY: the program passes NULL or an open queue, and room for a value (# Safety).
    unsafe { submit(queue, tag, Ok(Request::Pop), pointers) }
}

/// Makes progress, and stores at most `capacity` operations that have ended, and their number. The outcome of a push
/// is PROBELINE_INSERTED or PROBELINE_FULL, that of a pop PROBELINE_FOUND or PROBELINE_ABSENT; errors are those of
/// probeline_queue_push() and probeline_queue_pop(). Never waits.
///
/// # Safety
/// `queue` is NULL or open, `finished` is NULL or has room for `capacity` items, `count` is NULL or has room for a
/// number, and the places given with submitted pops are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_queue_poll(
    queue: *mut probeline_queue,
    finished: *mut probeline_finished,
    capacity: usize,
    count: *mut usize,
) -> probeline_status {
    // SAFETY: the program passes what this asks for (# Safety).
    unsafe { poll(queue, finished, capacity, count) }
}

/// Passes the value whose push the last probeline_queue_pop() or probeline_queue_pop_batch() of this handle has found
/// unfinished, in the ring of the rank `host`. Stores at `skipped` 1, or 0 if it is no longer the oldest. Call it only if the rank of the push is
/// lost: a value that arrives later could destroy a newer one. Waits for its operation.
///
/// # Safety
/// `queue` is NULL or open, and `skipped` is NULL or has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_queue_skip(
    queue: *mut probeline_queue,
    host: u32,
    skipped: *mut usize,
) -> probeline_status {
    let skip =
        |inner: &mut Inner<probeline_queue>| Ok(inner.structure.skip(inner.host(host)?)?.into());
    // SAFETY: the program passes NULL or an open queue, and a place for a number (# Safety).
    unsafe { result(queue, (skipped, "skipped"), skip) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::MaybeUninit;
    use probeline::shm::Builder;
    use probeline::transport::Alone;

    /// A push took its ticket, and its rank was lost before it stored the value.
    #[test]
    fn skips_unfinished_push() {
        let config = Config { in_flight: 4, value_bytes: 8, ..Config::new(8) };
        let engine = Builder::new(config.sizes::<u64>(1, 4)).open(&mut Alone).unwrap();
        let storage = vec![Operation::EMPTY; 4];
        let queue = queue::Queue::open(Engine::new(engine), config, storage, &mut Alone).unwrap();
        let own = Own::<u64> { values: Vec::new(), unfinished: None };
        let mut queue = Typed::new(queue, own, 4);
        let (host, mut value) = (Owner(0), [MaybeUninit::uninit(); 8]);
        queue.front.call(&host, Action::Take(1)).unwrap();
        assert_eq!(queue.push(host, &[7; 8]).unwrap(), 1);
        let refused = queue.skip(host).unwrap_err();
        assert_eq!(refused.status, probeline_status::PROBELINE_ERROR_INVALID);
        let error = queue.pop(host, &mut value).unwrap_err();
        assert_eq!(error.status, probeline_status::PROBELINE_ERROR_UNFINISHED);
        assert!(queue.skip(host).unwrap());
        assert!(!queue.skip(host).unwrap());
        assert_eq!(queue.pop(host, &mut value).unwrap(), 1);
    }
}
