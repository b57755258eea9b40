//! Arrays as a kind of structure.

use core::marker::PhantomData;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicU64, fence};

use probeline_pipeline::{
    Collective, CollectiveError, Error, Kind, Open, Parameter, Plain, Started, words,
};
use probeline_transport::{AtomicScope, Exchange, Owner, Segment, Transport};

use super::access::{Access, Action};
use super::{Config, direct};
use crate::error::ConfigError;
use crate::placement::Placement;

/// The kind of an [`Array`](super::Array) of `V`.
pub struct Elements<V>(PhantomData<V>);

/// The state that all operations of an array share.
#[derive(Clone, Debug, Hash)]
pub struct Context {
    pub(crate) placement: Placement,
    /// Bytes of an element.
    pub(crate) bytes: usize,
    /// Whether the CPUs of all owners run operations.
    pub(crate) is_direct: bool,
    me: Owner,
}

impl Context {
    /// Returns the words of an element for an action.
    ///
    /// # Errors
    /// [`Error::Index`]; [`Error::Key`] for an atomic on an element of several words.
    #[inline(always)]
    pub(crate) fn element<V>(&self, index: u64, action: &Action<V>) -> Result<Segment, Error> {
        let len = self.placement.len();
        let at = self.placement.segment(index).ok_or(Error::Index { index, len })?;
        action.check(at.words).map(|()| at)
    }
}

impl<V: Plain> Kind for Elements<V> {
    type Config = Config;
    type Context = Context;
    type Key = u64;
    type Action = Action<V>;
    type Machine = Access<V>;
    type Stats = ();
    const NAME: &'static str = "Array";

    fn parameters(config: &Config, context: &Context) -> impl Iterator<Item = Parameter> + Clone {
        [
            ("number of elements", config.len),
            ("distribution (0 block, 1 cyclic)", config.distribution as u64),
            ("first_word", config.first_word),
            ("bytes of an element", context.bytes as u64),
        ]
        .into_iter()
    }

    #[inline(always)]
    fn machine(index: &u64, action: Action<V>, context: &Context) -> Result<Access<V>, Error> {
        Ok(Access::new(context.element(*index, &action)?, action))
    }

    #[inline(always)]
    fn start(
        index: &u64,
        action: Action<V>,
        transport: &impl Transport,
        context: &mut Context,
    ) -> Result<Started<Access<V>>, Error> {
        let at = context.element(*index, &action)?;
        if !context.is_direct {
            return Ok(Started::Pending(Access::new(at, action)));
        }
        let words = transport.direct(at).ok_or(Error::Window)?;
        let old = direct::run(words, &action, context.bytes)?;
        // A put is visible to operations that begin after it has ended.
        if matches!(action, Action::Put(_)) {
            fence(SeqCst);
        }
        Ok(Started::Done(old))
    }

    fn can_be_direct(config: &Config, context: &Context, transport: &impl Transport) -> bool {
        let reaches = |owner| {
            let ends = context.placement.ends(owner);
            ends.into_iter().flatten().all(|end| transport.direct(end).is_some())
        };
        config.direct
            && transport.caps().atomics == AtomicScope::Cpu
            && (0..transport.geometry().owners).map(Owner).all(reaches)
    }

    fn on_opened(
        context: &mut Context,
        is_direct: bool,
        _: &mut Collective<'_, impl Exchange + ?Sized>,
    ) -> Result<(), CollectiveError> {
        context.is_direct = is_direct;
        Ok(())
    }

    fn stats(_: &Context) -> &() {
        &()
    }

    fn reset_stats(_: &mut Context) {}

    fn count(_: &Config, context: &Context, _: &[AtomicU64]) -> Result<u64, Error> {
        Ok(context.placement.count(context.me))
    }

    fn empty(_: &Config, context: &Context, window: &[AtomicU64]) -> Result<(), Error> {
        let part = words(window, context.placement.first_word(), context.placement.part_words())?;
        part.iter().for_each(|word| word.store(0, Relaxed));
        Ok(())
    }
}

impl<V: Plain> Open for Elements<V> {
    type ConfigError = ConfigError;

    fn check(config: &Config, transport: &impl Transport, _: usize) -> Result<(), ConfigError> {
        let bytes = config.bytes::<V>();
        if bytes == 0 || bytes > V::CAPACITY {
            let (found, max) = (bytes as u64, V::CAPACITY as u64);
            return Err(ConfigError::Range { what: "the bytes of an element", found, min: 1, max });
        }
        let (geometry, caps) = (transport.geometry(), transport.caps());
        config.placement::<V>(geometry.owners).check(geometry, caps.words_per_op)
    }

    fn context(config: &Config, transport: &impl Transport) -> Context {
        let geometry = transport.geometry();
        let placement = config.placement::<V>(geometry.owners);
        Context { placement, bytes: config.bytes::<V>(), is_direct: false, me: geometry.me }
    }
}
