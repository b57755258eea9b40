//! Find phases: phases of a job in which no owner changes a container.
//!
//! A phase lasts as long as a closure runs on any owner. It begins and ends with collective calls, and the
//! closure gets a [`Finder`], which can only find, instead of the container. So the compiler proves that no owner
//! inserts during a phase, and a READ shows what every later one would show: no word can be torn, and none
//! needs to be confirmed.
//!
//! - If the phase fails on an owner, by an error of its collective calls or a panic in the closure, others may
//!   still be in it: the container then refuses all operations of this owner.
//! - An operation that failed before the phase may still take effect in it. If any owner had one, words are
//!   confirmed, and finds may return what the operation stores.
//! - Two structures on the same words are not told apart.

use probeline_pipeline::{
    BatchError, CollectiveError, Error, Finished, OperationOf, OutcomeOf, Tag,
};
use probeline_transport::{Exchange, Transport};

use crate::element::{Container, Each, Element};

/// A container that has an action which only finds.
pub trait Find: Element {
    /// The action that finds a key and changes nothing.
    const FIND: Self::Action;
}

/// A container in a find phase: no owner can change it as long as any owner has a finder.
pub struct Finder<'p, T, S, E: Element>(&'p mut Container<T, S, E>);

impl<T, S, E> Finder<'_, T, S, E>
where
    T: Transport,
    S: AsMut<[OperationOf<Each<E>>]>,
    E: Find,
{
    /// Finds a key. One roundtrip: a READ of its home group, and one more for each full group that the key
    /// passes, at most 63. Blocks until the operation completes; the transport bounds the wait.
    ///
    /// # Errors
    /// [`Error`]: the container cannot have such a key, or the operation failed.
    #[inline]
    pub fn find(&mut self, key: &E::Key) -> Result<OutcomeOf<Each<E>>, Error> {
        self.0.call(key, E::FIND)
    }

    /// Finds many keys, with as many operations in flight as there is storage for, and passes each outcome
    /// with the place of its key to `store`, in any order.
    ///
    /// # Errors
    /// [`BatchError`]: the operation of a key failed.
    #[inline]
    pub fn find_all(
        &mut self,
        keys: &[E::Key],
        store: impl FnMut(usize, OutcomeOf<Each<E>>),
    ) -> Result<(), BatchError> {
        self.0.run_all(keys, |_| Some(E::FIND), store)
    }

    /// Starts to find a key; [`poll_into`](Self::poll_into) reports the outcome under `tag`.
    ///
    /// # Errors
    /// As for [`Structure::submit`](probeline_pipeline::Structure::submit).
    #[inline]
    pub fn submit(&mut self, tag: Tag, key: &E::Key) -> Result<(), Error> {
        self.0.submit(tag, key, E::FIND)
    }

    /// Advances all operations and moves the results of submitted ones into `out`: see
    /// [`Structure::poll_into`](probeline_pipeline::Structure::poll_into).
    ///
    /// # Errors
    /// As for [`Structure::poll_into`](probeline_pipeline::Structure::poll_into).
    pub fn poll_into<'o>(
        &mut self,
        out: &'o mut [Finished<OutcomeOf<Each<E>>>],
    ) -> Result<&'o [Finished<OutcomeOf<Each<E>>>], Error> {
        self.0.poll_into(out)
    }

    /// Returns the container, for reading.
    #[must_use]
    pub fn container(&self) -> &Container<T, S, E> {
        self.0
    }
}

impl<T, S, E> Container<T, S, E>
where
    T: Transport,
    S: AsMut<[OperationOf<Each<E>>]>,
    E: Find,
{
    /// Runs a find phase: `find` gets a [`Finder`], and no owner can change the container before `find` has
    /// returned on all owners. Collective: it waits for all owners before and after.
    ///
    /// # Errors
    /// [`CollectiveError`]: an owner failed, or makes another call. The result of `find` is lost then, and the
    /// container refuses all further operations of this owner with [`Error::PhaseFailed`].
    pub fn find_phase<R>(
        &mut self,
        exchange: &mut (impl Exchange + ?Sized),
        find: impl FnOnce(&mut Finder<'_, T, S, E>) -> R,
    ) -> Result<R, CollectiveError> {
        let (engine, members) = (self.transport().geometry().owners, exchange.owners());
        if engine != members {
            return Err(CollectiveError::Owners { exchange: members, engine });
        }
        let mut phase = Phase { container: self, has_ended: false };
        let mut begin = phase.container.collective(exchange, "find_phase")?;
        // No operation is in flight any more.
        let has_failed = u64::from(phase.container.context().has_failed);
        let failed = begin.sum::<CollectiveError>(Ok(has_failed))?;
        phase.container.pipeline().shared_mut().is_still = failed == 0;
        let result = find(&mut Finder(&mut *phase.container));
        phase.container.collective(exchange, "end of find_phase")?;
        phase.has_ended = true;
        Ok(result)
    }
}

/// A find phase of this owner. If it does not end on all owners, the container is closed when it is dropped.
struct Phase<'p, T, S, E: Element> {
    container: &'p mut Container<T, S, E>,
    has_ended: bool,
}

impl<T, S, E: Element> Drop for Phase<'_, T, S, E> {
    fn drop(&mut self) {
        let context = self.container.pipeline().shared_mut();
        context.is_still = false;
        context.is_closed |= !self.has_ended;
        // The CPU runs operations without looking whether the container is closed.
        context.is_direct &= self.has_ended;
    }
}
