//! Batches: an action on each of many elements. Over a transport their roundtrips overlap; where the
//! CPU runs them, their cache misses do.

use core::mem::replace;
use core::sync::atomic::AtomicU64;

use probeline_pipeline::{
    Batch as PipelineBatch, BatchError, Error, Kind, Machine, Mapped, Parts, Plain, Pull,
};
use probeline_transport::{Transport, prefetch};

use super::access::{Access, Action};
use super::direct;
use super::elements::{Context, Elements};

/// Elements that the CPU accesses between two polls of the transport, which detect lost owners.
const BLOCK: usize = 4_096;
/// The number of elements ahead whose line is requested.
const AHEAD: usize = 16;

/// A batch: the indices, the action of each place, and the receiver of the results.
pub(crate) struct Batch<'b, A, F> {
    indices: &'b [u64],
    action: A,
    store: F,
    /// The first place not started.
    next: usize,
    /// The first place that failed, and why.
    failed: Option<(usize, Error)>,
}

impl<'b, A, F> Batch<'b, A, F> {
    pub(crate) fn new(indices: &'b [u64], action: A, store: F) -> Self {
        Self { indices, action, store, next: 0, failed: None }
    }

    /// Returns the error of the first place that failed.
    pub(crate) fn error(self) -> Result<(), BatchError> {
        match self.failed {
            Some((place, error)) => Err(BatchError::Failed { place, error }),
            None => Ok(()),
        }
    }

    /// Runs a block of places on elements that the CPU addresses. The line of each is requested [`AHEAD`]
    /// places before its turn.
    #[inline(always)]
    fn run_block<'t, V: Plain>(
        &mut self,
        element: impl Fn(u64) -> Option<&'t [AtomicU64]>,
        context: &Context,
    ) where
        A: Fn(usize) -> Option<Action<V>>,
        F: FnMut(usize, V),
    {
        let end = self.indices.len().min(self.next + BLOCK);
        let request = |place: usize| {
            let words = self.indices.get(place).and_then(|&index| element(index));
            words.inspect(|words| prefetch(words))
        };
        let mut requested: [Option<&[AtomicU64]>; AHEAD] =
            core::array::from_fn(|nth| request(self.next + nth));
        for place in self.next..end {
            let Some(action) = (self.action)(place) else {
                self.next = self.indices.len();
                return;
            };
            let next = &mut requested[(place - self.next) % AHEAD];
            let words = replace(next, request(place + AHEAD));
            match words.map(|words| direct::run(words, &action, context.bytes)) {
                Some(Ok(value)) => (self.store)(place, value),
                Some(Err(error)) => fail(&mut self.failed, place, error),
                None => {
                    let error = self.unreached(place, context);
                    fail(&mut self.failed, place, error);
                }
            }
        }
        self.next = end;
    }

    /// Returns why the CPU has no words for a place.
    #[cold]
    fn unreached(&self, place: usize, context: &Context) -> Error {
        let (index, len) = (self.indices.get(place).copied(), context.placement.len());
        index
            .filter(|&index| index >= len)
            .map_or(Error::Window, |index| Error::Index { index, len })
    }
}

#[cold]
fn fail(failed: &mut Option<(usize, Error)>, place: usize, error: Error) {
    if failed.is_none_or(|(first, _)| place < first) {
        *failed = Some((place, error));
    }
}

impl<T, V, A, F> PipelineBatch<T, Context, Access<V>> for Batch<'_, A, F>
where
    T: Transport,
    V: Plain,
    A: Fn(usize) -> Option<Action<V>>,
    F: FnMut(usize, V),
{
    #[inline(always)]
    fn pull(&mut self, parts: &mut Parts<'_, T, Context>, into: &mut Access<V>) -> Pull {
        let Some(index) = self.indices.get(self.next) else { return Pull::End };
        let (transport, context) = (parts.transport, &*parts.shared);
        let placement = context.placement;
        if context.is_direct && !parts.is_dead {
            let (first, part) = (placement.first_word(), placement.part_words());
            match Mapped::new(transport, first, part) {
                Some(mapped) => self.run_block(
                    |index| {
                        let (owner, nth) = placement.locate(index)?;
                        let words = u64::from(placement.words());
                        mapped.words(owner.0, nth * words, placement.words() as usize)
                    },
                    context,
                ),
                None => {
                    self.run_block(|index| transport.direct(placement.segment(index)?), context)
                }
            }
            return Pull::Poll;
        }
        let Some(action) = (self.action)(self.next) else { return Pull::End };
        let place = self.next;
        self.next += 1;
        match Elements::machine(index, action, context) {
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
    fn take(&mut self, place: usize, result: Result<V, Error>) {
        match result {
            Ok(value) => (self.store)(place, value),
            Err(error) => fail(&mut self.failed, place, error),
        }
    }
}
