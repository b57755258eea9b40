//! Batches of operations that each act on one element. Over a transport their roundtrips overlap; where
//! the CPU runs them, their cache misses do.

use core::mem::replace;
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::{AtomicU64, fence};

use probeline_pipeline::{
    Batch as Source, BatchError, Error, Kind, Machine, Mapped, Operation, Parts, Pull, Structure,
};
use probeline_transport::{Transport, prefetch};

use crate::element::{Context, Each, Element};
use crate::placement::Distribution::{Block, Cyclic};

type OutcomeOf<E> = <<E as Element>::Machine as Machine>::Outcome;

/// Elements that the CPU accesses between two polls of the transport, which detect lost owners.
const BLOCK: usize = 4_096;
/// The number of elements ahead whose line is requested.
const AHEAD: usize = 16;

/// Runs the action of each place on its key, many in flight and in any order, and passes the outcomes to
/// `store`; ends at a place without an action. An action that is the same constant at all places is compiled
/// into the loop.
///
/// # Errors
/// [`BatchError`]: the operation of a key failed.
#[inline]
pub(crate) fn run<T: Transport, S: AsMut<[Operation<E::Machine>]>, E: Element>(
    structure: &mut Structure<T, S, Each<E>>,
    keys: &[E::Key],
    action: impl Fn(usize) -> Option<E::Action>,
    store: impl FnMut(usize, OutcomeOf<E>),
) -> Result<(), BatchError> {
    let mut batch = Batch::<E, _, _> { keys, action, store, next: 0, failed: None };
    structure.run_batch(&mut batch)?;
    // Calls that begin later see what the CPU has stored.
    fence(SeqCst);
    match batch.failed {
        Some((place, error)) => Err(BatchError::Failed { place, error }),
        None => Ok(()),
    }
}

/// A batch: the keys, the action of each place, and the receiver of the results.
struct Batch<'b, E: Element, A, F> {
    keys: &'b [E::Key],
    action: A,
    store: F,
    /// The first place not started.
    next: usize,
    /// The first place that failed, and why.
    failed: Option<(usize, Error)>,
}

impl<E: Element, A, F> Batch<'_, E, A, F> {
    /// Runs a block of places on elements that the CPU addresses. The line of each is requested [`AHEAD`]
    /// places before its turn.
    #[inline(always)]
    fn run_block<'t>(
        &mut self,
        elements: impl Fn(u64) -> Option<&'t [AtomicU64]>,
        context: &Context<E::Detail>,
    ) where
        A: Fn(usize) -> Option<E::Action>,
        F: FnMut(usize, OutcomeOf<E>),
    {
        let end = self.keys.len().min(self.next + BLOCK);
        let request = |place: usize| {
            let words = self.keys.get(place).and_then(|key| elements(E::index(key, context)));
            words.inspect(|words| prefetch(words))
        };
        let mut requested: [Option<&[AtomicU64]>; AHEAD] =
            core::array::from_fn(|nth| request(self.next + nth));
        for place in self.next..end {
            let (Some(key), Some(action)) = (self.keys.get(place), (self.action)(place)) else {
                self.next = self.keys.len();
                return;
            };
            let next = &mut requested[(place - self.next) % AHEAD];
            let words = replace(next, request(place + AHEAD));
            match words.map(|words| E::run(words, &elements, key, &action, context)) {
                Some(Ok(outcome)) => (self.store)(place, outcome),
                Some(Err(error)) => fail(&mut self.failed, place, error),
                None => fail(&mut self.failed, place, unreached::<E>(key, context)),
            }
        }
        self.next = end;
    }
}

/// Returns why the CPU has no words for a key.
#[cold]
fn unreached<E: Element>(key: &E::Key, context: &Context<E::Detail>) -> Error {
    context.placement.element(E::index(key, context)).map_or_else(|error| error, |_| Error::Window)
}

#[cold]
fn fail(failed: &mut Option<(usize, Error)>, place: usize, error: Error) {
    if failed.is_none_or(|(first, _)| place < first) {
        *failed = Some((place, error));
    }
}

impl<T, E, A, F> Source<T, Context<E::Detail>, E::Machine> for Batch<'_, E, A, F>
where
    T: Transport,
    E: Element,
    A: Fn(usize) -> Option<E::Action>,
    F: FnMut(usize, OutcomeOf<E>),
{
    #[inline(always)]
    fn pull(
        &mut self,
        parts: &mut Parts<'_, T, Context<E::Detail>>,
        into: &mut E::Machine,
    ) -> Pull {
        let Some(key) = self.keys.get(self.next) else { return Pull::End };
        let (transport, context) = (parts.transport, &*parts.shared);
        let placement = context.placement;
        if context.is_direct && !parts.is_dead {
            let (first, part) = (placement.first_word(), placement.part_words());
            let mapped = Mapped::new(transport, first, part);
            let words = |distribution, index| {
                let (owner, nth) = placement.locate_as(distribution, index)?;
                let words = placement.words();
                mapped.as_ref()?.words(owner.0, nth * u64::from(words), words as usize)
            };
            match (&mapped, placement.distribution()) {
                (None, _) => self.run_block(|at| transport.direct(placement.segment(at)?), context),
                (_, Block) => self.run_block(|index| words(Block, index), context),
                (_, Cyclic) => self.run_block(|index| words(Cyclic, index), context),
            }
            return Pull::Poll;
        }
        let Some(action) = (self.action)(self.next) else { return Pull::End };
        let place = self.next;
        self.next += 1;
        match Each::<E>::machine(key, action, context) {
            Ok(machine) => {
                into.replace_with(machine);
                Pull::Start(place)
            }
            Err(error) => {
                fail(&mut self.failed, place, error);
                Pull::Poll
            }
        }
    }

    #[inline]
    fn take(&mut self, place: usize, result: Result<OutcomeOf<E>, Error>) {
        match result {
            Ok(outcome) => (self.store)(place, outcome),
            Err(error) => fail(&mut self.failed, place, error),
        }
    }
}
