//! Structures behind handles of C: the engine below them, and how they are opened, used, counted, cleared and
//! closed.

use core::ptr;

use probeline::pipeline::Parameter;
use probeline::transport::{Exchange, Transport, forward_transport};

use crate::call::{call, out, put};
use crate::handle::{Abandon, Handle};
use crate::job::{Members, Opened, Shared, members, probeline_job, with_shared};
use crate::options::{self, Options};
use crate::status::{Error, probeline_status};
use crate::submitted::Submissions;

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

/// A structure of the library, with the sizes of what it holds chosen at run time.
pub(crate) trait Structure {
    fn len(&mut self, exchange: &mut dyn Exchange) -> Result<u64, Error>;
    fn clear(&mut self, exchange: &mut dyn Exchange) -> Result<(), Error>;
    fn into_engine(self: Box<Self>) -> Engine;
}

/// Implements [`Structure`] for a type that has a structure of the library in this field. The last argument
/// counts the elements of one that has another `len`.
macro_rules! structure {
    ($name:ty [$($generics:tt)*], $field:ident) => {
        structure!($name [$($generics)*], $field, |field, exchange| field.len(exchange));
    };
    ($name:ty [$($generics:tt)*], $field:ident, |$place:ident, $exchange:ident| $len:expr) => {
        impl<$($generics)*> crate::structure::Structure for $name {
            fn len(&mut self, $exchange: &mut dyn Exchange) -> Result<u64, Error> {
                let $place = &mut self.$field;
                Ok($len?)
            }

            fn clear(&mut self, exchange: &mut dyn Exchange) -> Result<(), Error> {
                Ok(self.$field.clear(exchange)?)
            }

            fn into_engine(self: Box<Self>) -> Engine {
                self.$field.into_transport()
            }
        }
    };
}
pub(crate) use structure;

/// An open structure, what the interface knows of it, and the job that it belongs to.
pub(crate) struct Inner<S: ?Sized, D> {
    pub(crate) structure: Box<S>,
    pub(crate) detail: D,
    /// Operations that were submitted with places for their values.
    pub(crate) submitted: Submissions,
    pub(crate) opened: Opened,
}

impl<S: ?Sized, D> Abandon for Inner<S, D> {
    fn abandon(self) -> Option<Self> {
        core::mem::forget(self.structure);
        self.opened.job.abandon();
        None
    }
}

impl<S: Structure + ?Sized, D> Inner<S, D> {
    /// Waits for all ranks in the call of this name, and closes the structure.
    pub(crate) fn close(self, name: &str) -> Result<(), Error> {
        let engine = self.structure.into_engine();
        let closed = self.opened.barrier(name);
        drop(engine);
        closed
    }
}

/// A structure that can be opened: its options were checked, and no memory of ranks was allocated.
pub(crate) struct Plan<S: ?Sized, D> {
    /// Parameters that all ranks must give equal, beside those that the structure itself compares.
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) detail: D,
    /// Operations in flight that are submitted with places for their values.
    pub(crate) submitted: u32,
    pub(crate) open: Open<S>,
}

/// Opens a structure together with the other ranks.
type Open<S> = Box<dyn FnOnce(&mut Members) -> Result<Box<S>, Error>>;

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

/// Opens a container of this type, whose sizes this method of its configuration computes.
macro_rules! open_container {
    ($container:ty, $members:ident, $operations:ident, $config:ident.$($sizes:tt)+) => {{
        let sizes = $config.$($sizes)+($members.owners(), $operations);
        let engine = $members.open(sizes)?;
        let storage = vec![Operation::EMPTY; $operations as usize];
        <$container>::open(engine, $config, storage, $members.exchange())?
    }};
}
pub(crate) use open_container;

/// A type of C to which handles of one kind of structure point.
pub(crate) trait Pointee: Sized {
    /// The word for it in the names of its functions.
    const NAME: &'static str;
    type Options: Options;
    type Structure: Structure + ?Sized;
    type Detail;

    /// Checks what the ranges of the options do not say.
    fn plan(members: &mut Members, options: &Self::Options) -> Result<PlanOf<Self>, Error>;
    fn new(handle: Handle<InnerOf<Self>>) -> Self;
    fn handle(&self) -> &Handle<InnerOf<Self>>;
}

/// The functions of a [`Pointee`] that is a tuple of its handle.
macro_rules! tuple_of_handle {
    () => {
        fn new(handle: Handle<crate::structure::InnerOf<Self>>) -> Self {
            Self(handle)
        }

        fn handle(&self) -> &Handle<crate::structure::InnerOf<Self>> {
            &self.0
        }
    };
}
pub(crate) use tuple_of_handle;

pub(crate) type InnerOf<P> = Inner<<P as Pointee>::Structure, <P as Pointee>::Detail>;
pub(crate) type PlanOf<P> = Plan<<P as Pointee>::Structure, <P as Pointee>::Detail>;

fn name_of<P: Pointee>(verb: &str) -> String {
    format!("probeline_{}_{verb}", P::NAME)
}

/// Opens a structure in the call of this name, if the arguments, among them its options, are right on
/// all ranks.
pub(crate) fn open_as<P: Pointee, A>(
    name: &str,
    job: &Shared,
    arguments: Result<(A, P::Options), Error>,
) -> Result<(A, InnerOf<P>), Error> {
    let mut members = members(job)?;
    let plan = arguments.and_then(|(arguments, options)| {
        options.check()?;
        Ok((arguments, P::plan(&mut members, &options)?))
    });
    let parameters = |(_, plan): &(A, PlanOf<P>)| plan.parameters.clone();
    let (arguments, plan) = members.agree(name, plan, parameters)?;
    let structure = (plan.open)(&mut members)?;
    let opened = members.opened(job);
    let submitted = Submissions::new(plan.submitted);
    Ok((arguments, Inner { structure, detail: plan.detail, submitted, opened }))
}

/// Opens a structure and stores its handle.
///
/// # Safety
/// `job` is NULL or open, `options` is NULL or initialized, and `to` is NULL or has room for a pointer.
pub(crate) unsafe fn open<P: Pointee>(
    job: *mut probeline_job,
    options: *const P::Options,
    to: *mut *mut P,
) -> probeline_status {
    let body = |job: &Shared| {
        // SAFETY: the caller passes options, NULL or initialized, and `to`, NULL or a place for a handle
        // (# Safety).
        let (to, options) =
            unsafe { (out(to, P::NAME), options::read(options, &name_of::<P>("options_init"))) };
        let arguments = to.map(|to| to.write(ptr::null_mut())).and_then(|to| Ok((to, options?)));
        let (to, inner) = open_as::<P, _>(&name_of::<P>("open"), job, arguments)?;
        *to = Box::into_raw(Box::new(P::new(Handle::new(inner))));
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
        // SAFETY: the caller passes NULL or an open structure (# Safety).
        let Some(pointee) = (unsafe { structure.as_ref() }) else { return Ok(()) };
        let inner = pointee.handle().take_if(|inner| members(&inner.opened.job).map(drop))?;
        // SAFETY: a box from `open`, which the caller does not use again.
        drop(unsafe { Box::from_raw(structure) });
        inner.map_or(Ok(()), |inner| inner.close(&name_of::<P>("close")))
    })
}

/// Runs a call on a structure.
///
/// # Safety
/// `structure` is NULL or open.
pub(crate) unsafe fn with<P: Pointee>(
    structure: *mut P,
    body: impl FnOnce(&mut InnerOf<P>) -> Result<(), Error>,
) -> probeline_status {
    call(|| {
        // SAFETY: the caller passes NULL or an open structure (# Safety).
        let pointee = unsafe { structure.as_ref() };
        let null = || Error::invalid(format_args!("{} is NULL", P::NAME));
        pointee.ok_or_else(null)?.handle().with(body)
    })
}

/// Stores the number of elements of the whole structure.
///
/// # Safety
/// `structure` is NULL or open, and `len` is NULL or has room for a number.
pub(crate) unsafe fn len<P: Pointee>(structure: *mut P, len: *mut u64) -> probeline_status {
    let body = |Inner { structure, opened, .. }: &mut InnerOf<P>| {
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
pub(crate) unsafe fn clear<P: Pointee>(structure: *mut P) -> probeline_status {
    let body = |Inner { structure, opened, .. }: &mut InnerOf<P>| {
        let clear = |(), exchange: &mut dyn Exchange| structure.clear(exchange);
        opened.collective(&name_of::<P>("clear"), Ok(()), clear)
    };
    // SAFETY: the caller passes NULL or an open structure (# Safety).
    unsafe { with(structure, body) }
}
