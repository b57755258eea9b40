//! Containers whose operations each begin at one element, as one kind of structure.

use core::fmt::Debug;
use core::hash::Hash;
use core::marker::PhantomData;
use core::ops::RangeInclusive;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicU64, fence};

use probeline_pipeline::{
    Collective, CollectiveError, ConfigError, Distribution, Error, Kind, Open, Parameter,
    Placement, Plain, Run, Started, Structure, words,
};
use probeline_transport::line::{Compare, Narrow, Work};
use probeline_transport::{AtomicScope, Exchange, Owner, Segment, Sizes, Transport};

/// Compare-and-swaps of one operation on one word.
pub(crate) const MAX_ATTEMPTS: u32 = 64;

/// The name, the value and the range of a parameter.
pub type Bounded = (&'static str, u64, RangeInclusive<u64>);

/// A container whose operations each begin at one element: a run of words of one owner.
pub trait Element: Sized {
    /// The parameters.
    type Config: Copy;
    /// The key of an operation.
    type Key: Copy + 'static;
    /// The part of the hash of a key that operations need beside the index of its element.
    type Home: Copy;
    /// The action of an operation on its key.
    type Action: Copy + 'static;
    /// The state machine of an operation.
    type Machine: Direct<Self::Detail>;
    /// Parameters that operations need of the configuration.
    type Detail: Copy + Debug + Hash;

    /// The name of the container, which its collective calls begin with.
    const NAME: &'static str;
    /// The distribution of the elements; `None` if the configuration chooses it.
    const DISTRIBUTION: Option<Distribution> = Some(Distribution::Block);

    /// Returns the state that operations share in a job of this many owners: the places of the elements, what
    /// operations need of the configuration, and whether this owner's CPU may run them.
    fn context(config: &Self::Config, owners: u32) -> Context<Self::Detail>;

    /// Returns the parameters that all owners have in common beside those of the placement, each with its
    /// range.
    fn parameters(config: &Self::Config) -> impl Iterator<Item = Bounded> + Clone;

    /// Checks what concerns the transport or the number of operations in flight.
    ///
    /// # Errors
    /// [`ConfigError`]: a parameter is out of its range, or the elements do not fit the window or a slot.
    fn check(
        _config: &Self::Config,
        _transport: &impl Transport,
        _operations: usize,
    ) -> Result<(), ConfigError> {
        Ok(())
    }

    /// Returns the words of a slot that an operation needs, at least those of an element unless the element
    /// is not read as a whole.
    fn slot_words(context: &Context<Self::Detail>) -> u32 {
        context.placement.words()
    }

    /// Returns the index of the element that operations on a key begin at, and what else they need of its hash.
    fn home(key: &Self::Key, context: &Context<Self::Detail>) -> (u64, Self::Home);

    /// Creates the machine of an operation.
    ///
    /// # Errors
    /// [`Error`]: the element has no such operation.
    fn machine(
        begin: Begin<'_, Self>,
        context: &Context<Self::Detail>,
    ) -> Result<Self::Machine, Error>;

    /// Returns the error of a key whose element, of this index, does not exist.
    fn missing(_key: &Self::Key, index: u64, _context: &Context<Self::Detail>) -> Error {
        Error::Index { index }
    }

    /// Runs the work of a batch with the widest comparison of lines that its operations need. The work is compiled
    /// for each comparison; the default, for operations that compare no lines, has only one.
    #[inline(always)]
    fn with_comparison<W: Work>(work: W) -> W::Output {
        work.run::<Narrow>()
    }

    /// Returns the number of elements in an owner's words, as [`Structure::len`] sums them.
    ///
    /// [`Structure::len`]: probeline_pipeline::Structure::len
    fn count(part: &[AtomicU64], context: &Context<Self::Detail>) -> u64;

    /// Drops cached knowledge of the content.
    fn forget(_context: &mut Context<Self::Detail>) {}
}

/// An operation that begins.
pub struct Begin<'k, E: Element> {
    /// The words of its element; if the CPU runs it, only their number.
    pub(crate) at: Segment,
    pub(crate) key: &'k E::Key,
    pub(crate) home: (u64, E::Home),
    pub(crate) action: E::Action,
}

/// A machine whose operation the CPU may run instead.
pub trait Direct<D>: Run<Context<D>> {
    /// Runs the operation by the CPU, on the words of its element. `elements` returns the words of other elements.
    /// Lines are compared by `C`. The default is of containers whose operations are always posted.
    ///
    /// # Errors
    /// [`Error::Contended`] or [`Error::Window`].
    fn run<'t, C: Compare>(
        &self,
        _element: &'t [AtomicU64],
        _elements: impl Fn(u64) -> Option<&'t [AtomicU64]>,
        _context: &Context<D>,
    ) -> Result<Self::Outcome, Error> {
        Err(Error::Window)
    }
}

/// The state that all operations of a container share.
#[derive(Clone, Debug, Hash)]
pub struct Context<D> {
    pub(crate) placement: Placement,
    pub(crate) detail: D,
    /// Whether the configuration lets the CPU of this owner run operations.
    may_be_direct: bool,
    /// Whether all owners have agreed that their CPUs run operations.
    pub(crate) is_direct: bool,
    /// Whether no owner changes the container now.
    pub(crate) is_still: bool,
    /// Whether an operation has failed: it may still take effect, even in a find phase.
    pub(crate) has_failed: bool,
    /// Whether a find phase has failed, in which other owners may still be.
    pub(crate) is_closed: bool,
    pub(crate) me: Owner,
}

impl<D> Context<D> {
    pub(crate) fn new(placement: Placement, detail: D, may_be_direct: bool) -> Self {
        Self {
            placement,
            detail,
            may_be_direct,
            is_direct: false,
            is_still: false,
            has_failed: false,
            is_closed: false,
            me: Owner(0),
        }
    }
}

/// A container whose operations each begin at one element, over an engine `T`, with storage `S` for operations in
/// flight: see [`Array`](crate::Array), [`Counters`](crate::Counters) and the others, which are names of it.
pub struct Container<T, S, E: Element>(Structure<T, S, Each<E>>);

probeline_pipeline::front!([E: Element] Container<E>, Each<E>);

impl<T: Transport, S, E: Element> Container<T, S, E> {
    /// Returns the words of this owner's part.
    pub(crate) fn own_words(&self) -> &[AtomicU64] {
        part(self.context(), self.transport().window()).unwrap_or_default()
    }
}

/// The kind of a container whose operations each begin at one element.
pub struct Each<E>(PhantomData<E>);

impl<E: Element> Kind for Each<E> {
    type Config = E::Config;
    type Context = Context<E::Detail>;
    type Key = E::Key;
    type Action = E::Action;
    type Machine = E::Machine;
    type Stats = ();
    const NAME: &'static str = E::NAME;

    fn parameters(
        config: &E::Config,
        context: &Self::Context,
    ) -> impl Iterator<Item = Parameter> + Clone {
        let own = E::parameters(config).map(|(name, value, _)| (name, value));
        own.chain(context.placement.parameters())
    }

    #[inline(always)]
    fn machine(
        key: &E::Key,
        action: E::Action,
        context: &Self::Context,
    ) -> Result<E::Machine, Error> {
        if context.is_closed {
            return Err(Error::PhaseFailed);
        }
        Ok(machine_at::<E>(key, action, context)?.1)
    }

    #[inline(always)]
    fn start(
        key: &E::Key,
        action: E::Action,
        transport: &impl Transport,
        context: &mut Self::Context,
    ) -> Result<Started<E::Machine>, Error> {
        if !context.is_direct {
            return Self::machine(key, action, context).map(Started::Pending);
        }
        let (at, machine) = machine_at::<E>(key, action, context)?;
        let words = transport.direct(at).ok_or(Error::Window)?;
        let elements = |index| transport.direct(context.placement.segment(index)?);
        let outcome = machine.run::<Narrow>(words, elements, context)?;
        // Operations that begin after this one has ended see what it stored.
        fence(SeqCst);
        Ok(Started::Done(outcome))
    }

    #[inline(always)]
    fn may_wait(context: &Self::Context) -> bool {
        context.is_direct
    }

    fn can_be_direct(_: &E::Config, context: &Self::Context, transport: &impl Transport) -> bool {
        let reaches = |owner| {
            let ends = context.placement.ends(owner);
            ends.into_iter().flatten().all(|end| transport.direct(end).is_some())
        };
        context.may_be_direct
            && !context.is_closed
            && transport.caps().atomics == AtomicScope::Cpu
            && (0..transport.geometry().owners).map(Owner).all(reaches)
    }

    fn on_opened(
        context: &mut Self::Context,
        is_direct: bool,
        _: &mut Collective<'_, impl Exchange + ?Sized>,
    ) -> Result<(), CollectiveError> {
        context.is_direct = is_direct;
        Ok(())
    }

    fn stats(_: &Self::Context) -> &() {
        &()
    }

    fn reset_stats(_: &mut Self::Context) {}

    fn forget(_: &E::Config, context: &mut Self::Context) {
        E::forget(context);
    }

    fn count(_: &E::Config, context: &Self::Context, window: &[AtomicU64]) -> Result<u64, Error> {
        Ok(E::count(part(context, window)?, context))
    }

    fn empty(_: &E::Config, context: &Self::Context, window: &[AtomicU64]) -> Result<(), Error> {
        part(context, window)?.iter().for_each(|word| word.store(0, Relaxed));
        Ok(())
    }
}

/// Returns the words of the element of a key, and the machine of an operation there.
#[inline(always)]
fn machine_at<E: Element>(
    key: &E::Key,
    action: E::Action,
    context: &Context<E::Detail>,
) -> Result<(Segment, E::Machine), Error> {
    let home = E::home(key, context);
    let at = context.placement.segment(home.0).ok_or_else(|| E::missing(key, home.0, context))?;
    Ok((at, E::machine(Begin { at, key, home, action }, context)?))
}

/// Checks that a value has `bytes` bytes, unless its type fixes the size.
#[inline(always)]
pub(crate) fn check_value<V: Plain>(value: &V, bytes: usize) -> Result<(), Error> {
    let found = value.bytes().len();
    if V::SIZE.is_some() || found == bytes {
        return Ok(());
    }
    Err(Error::Value { bits: bits(found), max: bits(bytes) })
}

/// Converts a number of bytes to bits; saturates.
pub(crate) fn bits(bytes: usize) -> u32 {
    u32::try_from(bytes.saturating_mul(8)).unwrap_or(u32::MAX)
}

fn part<'w, D>(context: &Context<D>, window: &'w [AtomicU64]) -> Result<&'w [AtomicU64], Error> {
    words(window, context.placement.first_word(), context.placement.part_words())
}

/// Returns the sizes of an engine for a container in a job of this many owners, with as many operations in flight.
pub(crate) fn sizes<E: Element>(config: &E::Config, owners: u32, operations: u32) -> Sizes {
    let context = E::context(config, owners);
    context.placement.sizes(E::slot_words(&context), operations)
}

impl<E: Element> Open for Each<E> {
    fn check(
        config: &E::Config,
        transport: &impl Transport,
        operations: usize,
    ) -> Result<(), ConfigError> {
        for (name, value, range) in E::parameters(config) {
            ConfigError::check_range(name, value, *range.start(), *range.end())?;
        }
        E::check(config, transport, operations)?;
        let context = E::context(config, transport.geometry().owners);
        context.placement.check(transport, E::slot_words(&context))
    }

    fn context(config: &E::Config, transport: &impl Transport) -> Self::Context {
        let geometry = transport.geometry();
        Context { me: geometry.me, ..E::context(config, geometry.owners) }
    }
}
