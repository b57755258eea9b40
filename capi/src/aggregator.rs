//! Aggregators: small messages to any rank, which travel in blocks.

use core::any::Any;
use core::ffi::c_void;

use probeline::containers::aggregator::{self, Config, MAX_RANKS, Operation};
use probeline::containers::{CollectiveError, OperationError, Plain};
use probeline::transport::{Exchange, Owner};

use crate::call::{call, slice};
use crate::job::{Members, members, probeline_job};
use crate::options::Allowed::Range;
use crate::options::{self, Extensible, MAX_OPERATIONS, Options, options};
use crate::status::{Error, probeline_status};
use crate::structure::{self, Close, Engine, Inner, MAX_BYTES, Open, Pointee, with, with_block};

/// Options of an aggregator. `operations` may differ between ranks.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct probeline_aggregator_options {
    /// The size of this structure, which probeline_aggregator_options_init() stores.
    pub size: usize,
    /// Bytes of a message, 1 to 1024. [no default]
    pub message_bytes: usize,
    /// Messages that travel together, 1 to 65,536. [default: 254]
    pub block: u32,
    /// Blocks that may be on their way from one rank to another, 1 to 64. Each rank stores this number and 2
    /// more for each rank, in a job of more than 64 for some twice the square root of their number. [default: 4]
    pub blocks: u32,
    /// Operations in flight at once, 1 to 65,536; over verbs at most 16,384. A device may have less. Two for
    /// each rank are enough. [default: 16]
    pub operations: u32,
}

// SAFETY: repr(C); numbers, of which the first is the size.
unsafe impl Extensible for probeline_aggregator_options {}

options!(probeline_aggregator_options |_|
    message_bytes = 0, Range(1, MAX_BYTES as u64);
    block = 254, Range(1, 1 << 16);
    blocks = 4, Range(1, 64);
    operations = 16, Range(1, MAX_OPERATIONS);
);

/// An aggregator of messages between all ranks.
pub struct probeline_aggregator(());

impl Pointee for probeline_aggregator {
    const NAME: &'static str = "aggregator";
    type Options = probeline_aggregator_options;
    type Structure = dyn Messages;

    fn plan(members: &mut Members, options: &Self::Options) -> Result<Open<dyn Messages>, Error> {
        let &probeline_aggregator_options { message_bytes, block, blocks, operations, .. } =
            options;
        members.check_depth(operations, operations)?;
        let ranks = members.owners();
        if ranks > MAX_RANKS {
            return Err(Error::invalid(format_args!(
                "the job has {ranks} ranks: an aggregator serves at most {MAX_RANKS}"
            )));
        }
        let config = Config { block, blocks, message_bytes, ..Config::default() };
        Ok(Box::new(move |members| {
            with_block!(message_bytes, V => {
                let sizes = (config.sizes::<V>(ranks, operations), operations);
                let messages = structure::open(members, sizes, config, Opened::<V>::open)?;
                Ok(Box::new(Typed { messages, is_pending: false }))
            })
        }))
    }
}

/// Receives the rank that has sent a message, and the message.
type Deliver<'d> = dyn FnMut(Owner, &[u8]) + 'd;

/// An aggregator whose messages have a size that is known at run time only. Callers pass exactly this
/// size.
pub(crate) trait Messages: Close {
    /// Returns whether messages were sent that no flush has delivered, and no error has reported as lost.
    fn is_pending(&self) -> bool;
    /// Returns false if the lane is full.
    fn send(&mut self, to: Owner, message: &[u8]) -> Result<bool, OperationError>;
    fn progress(&mut self, deliver: &mut Deliver<'_>) -> Result<(), OperationError>;
    fn flush(
        &mut self,
        exchange: &mut dyn Exchange,
        deliver: &mut Deliver<'_>,
    ) -> Result<(), CollectiveError>;
}

struct Typed<V: Plain> {
    messages: Opened<V>,
    is_pending: bool,
}

type Opened<V> = aggregator::Aggregator<Engine, Vec<Operation>, V>;

impl<V: Plain> Close for Typed<V> {
    fn quiesce(self: Box<Self>) -> Box<dyn Any> {
        Box::new(self.messages.into_transport())
    }
}

impl<V: Plain> Messages for Typed<V> {
    fn is_pending(&self) -> bool {
        self.is_pending
    }

    fn send(&mut self, to: Owner, message: &[u8]) -> Result<bool, OperationError> {
        let sent = self.messages.send(to, &V::from_bytes(message));
        self.is_pending = sent.is_ok_and(|is_sent| is_sent || self.is_pending);
        sent
    }

    fn progress(&mut self, deliver: &mut Deliver<'_>) -> Result<(), OperationError> {
        let progressed = self.messages.progress(|from, message| deliver(from, message.bytes()));
        self.is_pending &= progressed.is_ok();
        progressed
    }

    fn flush(
        &mut self,
        exchange: &mut dyn Exchange,
        deliver: &mut Deliver<'_>,
    ) -> Result<(), CollectiveError> {
        self.is_pending = false;
        self.messages.flush(exchange, |from, message| deliver(from, message.bytes()))
    }
}

/// Stores the default options and `size`, which is sizeof(probeline_aggregator_options).
/// Never waits; any thread.
///
/// # Safety
/// `options` is NULL or has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_aggregator_options_init(
    options: *mut probeline_aggregator_options,
    size: usize,
) -> probeline_status {
    // SAFETY: the program passes NULL or `size` bytes (# Safety).
    call(|| unsafe { options::write(options, size, &probeline_aggregator_options::DEFAULT) })
}

/// Opens an aggregator, in a job of at most 1,024 ranks, and stores its handle at `aggregator`. The options
/// must have a size of messages. In a job of more than 64 ranks, messages pass another rank on their way.
/// Collective.
///
/// # Safety
/// `job` is NULL or open, `options` is NULL or initialized, and `aggregator` is NULL or has room for a
/// pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_aggregator_open(
    job: *mut probeline_job,
    options: *const probeline_aggregator_options,
    aggregator: *mut *mut probeline_aggregator,
) -> probeline_status {
    // SAFETY: the program passes what this asks for (# Safety).
    unsafe { structure::open_for(job, options, aggregator) }
}

/// Waits for all ranks, closes the aggregator and frees it; `aggregator` may be NULL. It delivers nothing: flush
/// before. If a rank has sent messages after its last flush, nothing is closed on any rank: that rank gets
/// PROBELINE_ERROR_INVALID, the others PROBELINE_ERROR_OTHER_RANK. Collective.
///
/// # Safety
/// `aggregator` is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_aggregator_close(
    aggregator: *mut probeline_aggregator,
) -> probeline_status {
    use probeline_status::{PROBELINE_ERROR_INVALID, PROBELINE_ERROR_OTHER_RANK, PROBELINE_OK};
    if aggregator.is_null() {
        return PROBELINE_OK;
    }
    let body = |Inner { structure, opened, .. }: &mut Inner<probeline_aggregator>| {
        let text = "messages that were sent after the last flush are not delivered: flush first";
        let flushed = if structure.is_pending() { Err(Error::invalid(text)) } else { Ok(()) };
        opened.collective("probeline_aggregator_close", flushed, |(), _| Ok(()))
    };
    // SAFETY: the program passes an open aggregator (# Safety).
    match unsafe { with(aggregator, body) } {
        refused @ (PROBELINE_ERROR_INVALID | PROBELINE_ERROR_OTHER_RANK) => refused,
        // SAFETY: the program passes an open aggregator and does not use it again (# Safety).
        _ => unsafe { structure::close(aggregator) },
    }
}

/// Sends a message to the rank `to`, which may be this one. Returns PROBELINE_ERROR_BUSY if the message was
/// not taken, because as many blocks as the options say are on their way to that rank: call
/// probeline_aggregator_progress(), and send it again. Never waits.
///
/// # Safety
/// `aggregator` is NULL or open, and `message` is NULL or a message.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_aggregator_send(
    aggregator: *mut probeline_aggregator,
    to: u32,
    message: *const c_void,
) -> probeline_status {
    let body = |Inner { structure, options, opened }: &mut Inner<probeline_aggregator>| {
        // SAFETY: the program passes NULL or a message (# Safety).
        let message = unsafe { slice(message.cast::<u8>(), options.message_bytes, "message") }?;
        let to = options::check_rank("to", to, opened.ranks)?;
        let full =
            "too many blocks are on their way: call probeline_aggregator_progress, then send again";
        let full = || Error::new(probeline_status::PROBELINE_ERROR_BUSY, full);
        structure.send(to, message)?.then_some(()).ok_or_else(full)
    };
    // SAFETY: the program passes NULL or an open aggregator (# Safety).
    unsafe { with(aggregator, body) }
}

/// Receives the rank that has sent a message, the message, aligned to 8 bytes, and the pointer given with the
/// function. It must return: no longjmp, no exception. It may call other structures, but not this one, and
/// in a flush make no collective call: those fail with PROBELINE_ERROR_IN_USE.
pub type probeline_aggregator_deliver =
    Option<unsafe extern "C" fn(from: u32, message: *const c_void, context: *mut c_void)>;

/// Returns what calls the program's function.
///
/// # Safety
/// `deliver` is NULL or may be called with messages and `context` while the result is used.
unsafe fn caller(
    deliver: probeline_aggregator_deliver,
    context: *mut c_void,
) -> Result<impl FnMut(Owner, &[u8]), Error> {
    let deliver = deliver.ok_or_else(|| Error::invalid("deliver is NULL"))?;
    Ok(move |Owner(from): Owner, message: &[u8]| {
        // SAFETY: the caller passes a function that may be called with messages and `context` (# Safety).
        unsafe { deliver(from, message.as_ptr().cast(), context) };
    })
}

/// Sends full blocks, and calls `deliver`, in this thread, with each message that has arrived, in the order
/// of each sender. Call it even when nothing is to be sent: a rank that does not call it takes no blocks, and
/// others cannot send to it any more. Never waits.
///
/// # Safety
/// `aggregator` is NULL or open, and `deliver` is NULL or may be called with messages and `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_aggregator_progress(
    aggregator: *mut probeline_aggregator,
    deliver: probeline_aggregator_deliver,
    context: *mut c_void,
) -> probeline_status {
    let body = |inner: &mut Inner<probeline_aggregator>| {
        // SAFETY: the program passes a function that may be called (# Safety).
        let mut deliver = unsafe { caller(deliver, context) }?;
        Ok(inner.structure.progress(&mut deliver)?)
    };
    // SAFETY: the program passes NULL or an open aggregator (# Safety).
    unsafe { with(aggregator, body) }
}

/// Sends all messages, and delivers those of all ranks as probeline_aggregator_progress() does, until none is
/// left: the numbers sent and delivered are compared. If it fails, messages may be lost, and every later call but
/// closing fails; it fails on ranks that wait for another one for some minutes. If `deliver` is NULL on one rank,
/// only that one fails, and the others wait until it flushes. Collective.
///
/// # Safety
/// As for `probeline_aggregator_progress`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn probeline_aggregator_flush(
    aggregator: *mut probeline_aggregator,
    deliver: probeline_aggregator_deliver,
    context: *mut c_void,
) -> probeline_status {
    let body = |Inner { structure, opened, .. }: &mut Inner<probeline_aggregator>| {
        // SAFETY: the program passes a function that may be called (# Safety).
        let mut deliver = unsafe { caller(deliver, context) }?;
        // No check of the call comes before: other ranks wait for this one to deliver, also before they flush.
        let mut members = members(&opened.job)?;
        Ok(structure.flush(members.exchange(), &mut deliver)?)
    };
    // SAFETY: the program passes NULL or an open aggregator (# Safety).
    unsafe { with(aggregator, body) }
}
