//! Queues: a ring of values on each rank.

use core::ffi::c_void;
use core::ptr;

use probeline::containers::queue::{self, Action, Config, Operation, Outcome};
use probeline::containers::{BatchError, OperationError, Plain};
use probeline::pipeline::Tag;
use probeline::transport::{Exchange, Owner};

use crate::cache::{Place, copy};
use crate::call::{call, out, product, room, slice};
use crate::handle::Handle;
use crate::job::{Members, probeline_job};
use crate::options::Allowed::Range;
use crate::options::{self, Extensible, MAX_KEYS, MAX_OPERATIONS, Options, options};
use crate::status::{Error, probeline_finished, probeline_outcome, probeline_status};
use crate::structure::{
    self, Engine, InnerOf, MAX_BYTES, Plan, PlanOf, Pointee, Structure, open_container, structure,
    tuple_of_handle, with, with_block,
};
use crate::submitted::{self, Poll, Started, Submitted, implement_poll};

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
pub struct probeline_queue(Handle<QueueInner>);

type QueueInner = InnerOf<probeline_queue>;

pub(crate) struct Detail {
    value_bytes: usize,
    ranks: u32,
}

impl Detail {
    /// Returns the owner of a ring.
    fn host(&self, host: u32) -> Result<Owner, Error> {
        options::check_rank("host", host, self.ranks)
    }
}

impl Pointee for probeline_queue {
    const NAME: &'static str = "queue";
    type Options = probeline_queue_options;
    type Structure = dyn Queue;
    type Detail = Detail;

    fn plan(members: &mut Members, options: &Self::Options) -> Result<PlanOf<Self>, Error> {
        let &probeline_queue_options { value_bytes, capacity, operations, .. } = options;
        members.check_depth(operations, operations)?;
        let config = Config { in_flight: operations, value_bytes, ..Config::new(capacity) };
        Ok(Plan {
            parameters: vec![
                ("value_bytes", value_bytes as u64),
                ("operations", operations.into()),
                ("capacity", capacity),
            ],
            detail: Detail { value_bytes, ranks: members.owners() },
            submitted: operations,
            open: Box::new(move |members| {
                with_block!(value_bytes, V => {
                    let queue = open_container!(Opened<V>, members, operations, config.sizes::<V>);
                    let values = Vec::with_capacity(BLOCK);
                    Ok(Box::new(Typed { queue, bytes: value_bytes, values, unfinished: None }))
                })
            }),
        })
    }

    tuple_of_handle!();
}

/// A queue whose values have a size that is known at run time only. Callers pass exactly this size.
pub(crate) trait Queue: Structure + Poll {
    /// Pushes values in order, and returns how many the ring had room for.
    fn push(&mut self, host: Owner, values: &[u8]) -> Result<usize, Error>;
    /// Pops values, as many as there is room for, and returns how many there were.
    fn pop(&mut self, host: Owner, values: Place<'_>) -> Result<usize, Error>;
    /// Starts to push a value, or to pop one.
    fn submit(&mut self, tag: Tag, host: Owner, value: Option<&[u8]>) -> Started;
    /// Passes the ticket that the last pop found unfinished. Returns false if the ring is not there.
    fn skip(&mut self, host: Owner) -> Result<bool, Error>;
}

struct Typed<V: Plain> {
    queue: Opened<V>,
    bytes: usize,
    /// Values of a batch.
    values: Vec<V>,
    /// The ring and the ticket that the last pop found unfinished.
    unfinished: Option<(Owner, u64)>,
}

type Opened<V> = queue::Queue<Engine, Vec<Operation<V>>, V>;

structure!(Typed<V> [V: Plain], queue);

impl<V: Plain> Queue for Typed<V> {
    fn push(&mut self, host: Owner, values: &[u8]) -> Result<usize, Error> {
        let mut pushed = 0;
        for values in values.chunks(BLOCK * self.bytes) {
            self.values.clear();
            self.values.extend(values.chunks_exact(self.bytes).map(V::from_bytes));
            let count = self.queue.push_batch(host, &self.values)?;
            pushed += count;
            if count < self.values.len() {
                break;
            }
        }
        Ok(pushed)
    }

    fn pop(&mut self, host: Owner, values: Place<'_>) -> Result<usize, Error> {
        let mut popped = 0;
        self.unfinished = None;
        for room in values.chunks_mut(BLOCK * self.bytes) {
            let count = room.len() / self.bytes;
            self.values.clear();
            self.values.resize(count, V::zeroed(self.bytes));
            let found = match self.queue.pop_batch(host, &mut self.values) {
                Ok(found) => found,
                Err(error) if popped > 0 && error.is_found_again() => break,
                Err(BatchError::Operation(error)) => {
                    if let OperationError::Unfinished { ticket } = error {
                        self.unfinished = Some((host, ticket));
                    }
                    return Err(error.into());
                }
                Err(error) => return Err(error.into()),
            };
            let places = room.chunks_exact_mut(self.bytes);
            self.values.iter().zip(places).take(found).for_each(|(v, to)| copy(v.bytes(), to));
            popped += found;
            if found < count {
                break;
            }
        }
        Ok(popped)
    }

    fn submit(&mut self, tag: Tag, host: Owner, value: Option<&[u8]>) -> Started {
        let push = |value| Action::Push(V::from_bytes(value));
        self.queue.submit(tag, &host, value.map_or(Action::Pop, push))
    }

    fn skip(&mut self, host: Owner) -> Result<bool, Error> {
        let Some((_, ticket)) = self.unfinished.filter(|(at, _)| *at == host) else {
            let text = "the last pop did not return PROBELINE_ERROR_UNFINISHED from this rank";
            return Err(Error::invalid(text));
        };
        Ok(self.queue.skip(host, ticket)?)
    }
}

implement_poll!(Typed<V> [V: Plain], queue, {
    Outcome::Pushed(_) => (probeline_outcome::PROBELINE_INSERTED, None),
    Outcome::Full => (probeline_outcome::PROBELINE_FULL, None),
    Outcome::Popped(value) => (probeline_outcome::PROBELINE_FOUND, Some(value.bytes())),
    Outcome::Empty => (probeline_outcome::PROBELINE_ABSENT, None),
});

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
    unsafe { structure::open(job, options, queue) }
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
    let body = |QueueInner { structure, detail, .. }: &mut QueueInner| {
        let bytes = product(count, detail.value_bytes)?;
        // SAFETY: the program passes NULL or `count` values, and a place for a number (# Safety).
        let (values, pushed) =
            unsafe { (slice(values.cast::<u8>(), bytes, "the value")?, out(pushed, "pushed")?) };
        pushed.write(structure.push(detail.host(host)?, values)?);
        Ok(())
    };
    // SAFETY: the program passes NULL or an open queue (# Safety).
    unsafe { with(queue, body) }
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
    let body = |QueueInner { structure, detail, .. }: &mut QueueInner| {
        let bytes = product(capacity, detail.value_bytes)?;
        // SAFETY: the program passes NULL or room for `capacity` values, and a place for a number
        // (# Safety).
        let (values, popped) =
            unsafe { (room(values.cast::<u8>(), bytes, "the value")?, out(popped, "popped")?) };
        popped.write(structure.pop(detail.host(host)?, values)?);
        Ok(())
    };
    // SAFETY: the program passes NULL or an open queue (# Safety).
    unsafe { with(queue, body) }
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
    let body = |QueueInner { structure, detail, submitted, .. }: &mut QueueInner| {
        // SAFETY: the program passes NULL or a value (# Safety).
        let value = unsafe { slice(value.cast::<u8>(), detail.value_bytes, "the value") }?;
        let (host, mine) = (detail.host(host)?, Submitted { tag, to: ptr::null_mut() });
        submitted.submit(mine, |tag| structure.submit(tag, host, Some(value)))
    };
    // SAFETY: the program passes NULL or an open queue (# Safety).
    unsafe { with(queue, body) }
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
    let body = |QueueInner { structure, detail, submitted, .. }: &mut QueueInner| {
        // SAFETY: nothing is written through it.
        unsafe { room(value.cast::<u8>(), detail.value_bytes, "the value") }?;
        let (host, mine) = (detail.host(host)?, Submitted { tag, to: value.cast() });
        submitted.submit(mine, |tag| structure.submit(tag, host, None))
    };
    // SAFETY: the program passes NULL or an open queue (# Safety).
    unsafe { with(queue, body) }
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
    unsafe { submitted::poll(queue, finished, capacity, count) }
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
    let body = |QueueInner { structure, detail, .. }: &mut QueueInner| {
        // SAFETY: the program passes NULL or a place for a number (# Safety).
        let skipped = unsafe { out(skipped, "skipped") }?;
        skipped.write(structure.skip(detail.host(host)?)?.into());
        Ok(())
    };
    // SAFETY: the program passes NULL or an open queue (# Safety).
    unsafe { with(queue, body) }
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
        let config = Config { in_flight: 4, ..Config::new(8) };
        let engine = Builder::new(config.sizes::<u64>(1, 4)).open(&mut Alone).unwrap();
        let storage = vec![Operation::EMPTY; 4];
        let queue = queue::Queue::open(Engine::new(engine), config, storage, &mut Alone).unwrap();
        let mut queue = Typed::<u64> { queue, bytes: 8, values: Vec::new(), unfinished: None };
        let (host, mut value) = (Owner(0), [MaybeUninit::uninit(); 8]);
        queue.queue.call(&host, Action::Take(1)).unwrap();
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
