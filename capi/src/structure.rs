//! Structures behind handles of C: the engine below them, and how they are opened, used, counted, cleared and
//! closed.

use core::any::Any;
use core::ops::DerefMut;
use core::ptr;

use probeline::pipeline::{
    self, Collective, CollectiveError, Error as OperationError, Finished, Kind, Machine, Operation,
    OperationOf, OutcomeOf,
};
use probeline::transport::{Call, Exchange, Sizes, Transport, forward_transport};

use crate::call::{call, out, put};
use crate::handle::{Abandon, Handle};
use crate::job::{Members, Opened, Shared, members, probeline_job, with_shared};
use crate::operations::{Room, Submissions, Submitted, ToC};
use crate::options::{self, Options};
use crate::status::probeline_outcome::PROBELINE_ABSENT;
use crate::status::{Error, probeline_finished, probeline_status};

/// Results that one poll reports.
const POLLED: usize = 16;

/// An engine of the transport of the job: one type for all transports, so that structures are compiled once.
pub(crate) struct Engine(Box<dyn Transport>);

impl Engine {
    pub(crate) fn new(engine: impl Transport + 'static) -> Self {
        Self(Box::new(engine))
    }
}

impl Transport for Engine {
    forward_transport!(0: caps, geometry, in_flight, post, kick);
    forward_transport!(0: poll, landed, staged, window, direct);
}

/// A structure that can be closed.
pub(crate) trait Close {
    /// Waits until nothing is in flight, and returns what other ranks may use until they close it as well.
    fn quiesce(self: Box<Self>) -> Box<dyn Any>;
}

/// A structure of the library, with the sizes of what it holds chosen at run time.
pub(crate) trait Structure: Close {
    fn len(&mut self, exchange: &mut dyn Exchange) -> Result<u64, Error>;
    fn clear(&mut self, exchange: &mut dyn Exchange) -> Result<(), Error>;
    /// Returns the operations that were submitted with places for their values.
    fn submitted(&mut self) -> &mut Submissions;
    /// Makes progress, and stores operations that have ended. Returns their number.
    ///
    /// # Safety
    /// The places given with operations that were submitted are NULL or valid for writes of their values.
    unsafe fn poll(&mut self, finished: Room<'_>) -> Result<usize, OperationError>;
}

/// A structure of the library whose types have the sizes, and what its calls from C need in addition.
pub(crate) struct Typed<S, B = ()> {
    pub(crate) front: S,
    pub(crate) own: B,
    pub(crate) submitted: Submissions,
}

/// Opens an engine of these sizes and, by the function `open` of a structure, the structure over it.
pub(crate) fn open<S, C, M: Machine>(
    members: &mut Members,
    (sizes, operations): (Sizes, u32),
    config: C,
    open: impl FnOnce(
        Engine,
        C,
        Vec<Operation<M>>,
        &mut (dyn Exchange + 'static),
    ) -> Result<S, CollectiveError>,
) -> Result<S, Error> {
    let engine = members.open(sizes)?;
    let storage = vec![Operation::EMPTY; operations as usize];
    Ok(open(engine, config, storage, members.exchange())?)
}

impl<S, B> Typed<S, B> {
    pub(crate) fn new(front: S, own: B, operations: u32) -> Box<Self> {
        Box::new(Self { front, own, submitted: Submissions::new(operations) })
    }
}

/// The front of a structure of the library, to which it dereferences.
pub(crate) type Front<K> = pipeline::Structure<Engine, Vec<OperationOf<K>>, K>;

impl<S, B, K> Close for Typed<S, B>
where
    S: DerefMut<Target = Front<K>> + 'static,
    B: 'static,
    K: Kind,
{
    fn quiesce(mut self: Box<Self>) -> Box<dyn Any> {
        // A dead engine has nothing in flight.
        self.front.transport_mut().ok();
        self
    }
}

impl<S, B, K> Structure for Typed<S, B>
where
    S: DerefMut<Target = Front<K>> + 'static,
    B: 'static,
    K: Kind,
    OutcomeOf<K>: ToC,
{
    fn len(&mut self, exchange: &mut dyn Exchange) -> Result<u64, Error> {
        Ok(self.front.deref_mut().len(exchange)?)
    }

    fn clear(&mut self, exchange: &mut dyn Exchange) -> Result<(), Error> {
        Ok(self.front.clear(exchange)?)
    }

    fn submitted(&mut self) -> &mut Submissions {
        &mut self.submitted
    }

    unsafe fn poll(&mut self, finished: Room<'_>) -> Result<usize, OperationError> {
        let mut ended = [Finished::default(); POLLED];
        let capacity = finished.len().min(POLLED);
        let ended = self.front.poll_into(ended.get_mut(..capacity).unwrap_or_default())?;
        for (Finished { tag, result }, room) in ended.iter().zip(finished) {
            // The structure returns the tags that it was given.
            let Some(Submitted { tag, to }) = self.submitted.ended(*tag) else { continue };
            let (status, (outcome, value)) = match result {
                Ok(outcome) => (probeline_status::PROBELINE_OK, outcome.to_c()),
                Err(error) => (Error::from(*error).report(), (PROBELINE_ABSENT, None)),
            };
            if let (Some(value), false) = (value, to.is_null()) {
                // SAFETY: the caller keeps the places of submitted operations valid for their values
                // (# Safety); values of one structure and one kind of operation have one size.
                unsafe { ptr::copy_nonoverlapping(value.as_ptr(), to, value.len()) };
            }
            room.write(probeline_finished { tag, status, outcome });
        }
        Ok(ended.len())
    }
}

/// An open structure, the options with which it was opened, and the job that it belongs to.
pub(crate) struct Inner<P: Pointee> {
    pub(crate) structure: Box<P::Structure>,
    pub(crate) options: P::Options,
    pub(crate) opened: Opened,
}

impl<P: Pointee> Abandon for Inner<P> {
    fn abandon(self) -> Option<Self> {
        core::mem::forget(self.structure);
        self.opened.job.abandon();
        None
    }
}

impl<P: Pointee> Inner<P> {
    /// Waits for all ranks in the call of this name, and closes the structure.
    pub(crate) fn close(self, name: &str) -> Result<(), Error> {
        let used = self.structure.quiesce();
        let closed = self.opened.barrier(name);
        drop(used);
        closed
    }
}

/// Opens a structure together with the other ranks.
pub(crate) type Open<S> = Box<dyn FnOnce(&mut Members) -> Result<Box<S>, Error>>;

/// The most bytes of a block: an element of an array, a value of a queue or a message. Its size is chosen at run
/// time.
pub(crate) const MAX_BYTES: usize = 1024;

/// Evaluates an expression with a type that has room for blocks of this many bytes. That of 8 bytes is the
/// word, on which atomics act.
macro_rules! with_block {
    ($bytes:expr, $block:ident => $body:expr) => {
        match $bytes {
            8 => {
                type $block = u64;
                $body
            }
            ..=64 => {
                type $block = probeline::containers::Bytes<64>;
                $body
            }
            _ => {
                type $block = probeline::containers::Bytes<{ crate::structure::MAX_BYTES }>;
                $body
            }
        }
    };
}
pub(crate) use with_block;

/// A type of C for pointers to structures of one kind. They point to a [`Handle`] of an [`Inner`].
pub(crate) trait Pointee: Sized + 'static {
    /// The word for it in the names of its functions.
    const NAME: &'static str;
    /// The options that may differ between ranks.
    const OWN_OPTIONS: &'static [&'static str] = &["operations", "direct"];
    type Options: Options;
    type Structure: Close + ?Sized;

    /// Checks what the ranges of the options do not say, and returns what opens the structure. Allocates no
    /// memory of ranks.
    fn plan(members: &mut Members, options: &Self::Options)
    -> Result<Open<Self::Structure>, Error>;
}

fn name_of<P: Pointee>(verb: &str) -> String {
    format!("probeline_{}_{verb}", P::NAME)
}

/// Opens a structure in the call of this name, if the options are right and the same on all ranks.
pub(crate) fn open_as<P: Pointee>(
    name: &str,
    job: &Shared,
    options: Result<P::Options, Error>,
) -> Result<Inner<P>, Error> {
    let mut members = members(job)?;
    let planned = options.and_then(|options| {
        options.check()?;
        Ok((P::plan(&mut members, &options)?, options))
    });
    let owners = members.owners();
    let mut call = Collective::new(members.exchange(), Call::new(name), 0);
    let (open, options) = call.together(planned)?;
    call.agree(Ok(()), owners, options.parameters(P::OWN_OPTIONS), false)?;
    Ok(Inner { structure: open(&mut members)?, options, opened: members.opened(job) })
}

/// Opens a structure of a program and stores its handle.
///
/// # Safety
/// `job` is NULL or open, `options` is NULL or initialized, and `to` is NULL or has room for a pointer.
pub(crate) unsafe fn open_for<P: Pointee>(
    job: *mut probeline_job,
    options: *const P::Options,
    to: *mut *mut P,
) -> probeline_status {
    let body = |job: &Shared| {
        // SAFETY: the caller passes options, NULL or initialized, and `to`, NULL or a place for a handle
        // (# Safety).
        let options = unsafe {
            out(to, P::NAME).and_then(|to| {
                to.write(ptr::null_mut());
                options::read(options, &name_of::<P>("options_init"))
            })
        };
        let inner = open_as::<P>(&name_of::<P>("open"), job, options)?;
        // SAFETY: the caller passes a place for a handle, by the check (# Safety).
        unsafe { to.write(Box::into_raw(Box::new(Handle::new(inner))).cast()) };
        Ok(())
    };
    // SAFETY: the caller passes NULL or an open job (# Safety).
    call(|| unsafe { with_shared(job, body) })
}

/// Waits for all ranks, closes a structure and frees it.
///
/// # Safety
/// `structure` is NULL or open.
pub(crate) unsafe fn close<P: Pointee>(structure: *mut P) -> probeline_status {
    call(|| {
        let handle = structure.cast::<Handle<Inner<P>>>();
        // SAFETY: the caller passes NULL or an open structure (# Safety).
        let Some(open) = (unsafe { handle.as_ref() }) else { return Ok(()) };
        let inner = open.take_if(|inner| members(&inner.opened.job).map(drop))?;
        // SAFETY: a box from `open`, which the caller does not use again.
        drop(unsafe { Box::from_raw(handle) });
        inner.map_or(Ok(()), |inner| inner.close(&name_of::<P>("close")))
    })
}

/// Runs a call on a structure.
///
/// # Safety
/// `structure` is NULL or open.
pub(crate) unsafe fn with<P: Pointee>(
    structure: *mut P,
    body: impl FnOnce(&mut Inner<P>) -> Result<(), Error>,
) -> probeline_status {
    call(|| {
        // SAFETY: the caller passes NULL or an open structure (# Safety).
        let handle = unsafe { structure.cast::<Handle<Inner<P>>>().as_ref() };
        handle.ok_or_else(|| Error::invalid(format_args!("{} is NULL", P::NAME)))?.with(body)
    })
}

/// Runs a call on a structure, and stores its result, for which `to` of this name must have room.
///
/// # Safety
/// `structure` is NULL or open, and `to` is NULL or has room for a result.
pub(crate) unsafe fn result<P: Pointee, R: Copy>(
    structure: *mut P,
    (to, name): (*mut R, &str),
    body: impl FnOnce(&mut Inner<P>) -> Result<R, Error>,
) -> probeline_status {
    let body = |inner: &mut Inner<P>| {
        // SAFETY: the caller passes NULL or room for a result (# Safety).
        let to = unsafe { out(to, name) }?;
        to.write(body(inner)?);
        Ok(())
    };
    // SAFETY: the caller passes NULL or an open structure (# Safety).
    unsafe { with(structure, body) }
}

/// Stores the number of elements of the whole structure.
///
/// # Safety
/// `structure` is NULL or open, and `len` is NULL or has room for a number.
pub(crate) unsafe fn len<P: Pointee<Structure: Structure>>(
    structure: *mut P,
    len: *mut u64,
) -> probeline_status {
    let body = |Inner { structure, opened, .. }: &mut Inner<P>| {
        let count = |(), exchange: &mut dyn Exchange| structure.len(exchange);
        let count = opened.collective(&name_of::<P>("len"), Ok(()), count)?;
        // SAFETY: the caller passes NULL or a place for a number (# Safety).
        unsafe { put(len, count) };
        Ok(())
    };
    // SAFETY: the caller passes NULL or an open structure (# Safety).
    unsafe { with(structure, body) }
}

/// Removes everything from the whole structure.
///
/// # Safety
/// `structure` is NULL or open.
pub(crate) unsafe fn clear<P: Pointee<Structure: Structure>>(
    structure: *mut P,
) -> probeline_status {
    let body = |Inner { structure, opened, .. }: &mut Inner<P>| {
        let clear = |(), exchange: &mut dyn Exchange| structure.clear(exchange);
        opened.collective(&name_of::<P>("clear"), Ok(()), clear)
    };
    // SAFETY: the caller passes NULL or an open structure (# Safety).
    unsafe { with(structure, body) }
}
