//! Batches of operations that each act on one element. Over a transport their roundtrips overlap; where
//! the CPU runs them, their cache misses do.

use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::{AtomicU64, fence};

use probeline_pipeline::{BatchError, Error, Kind, Machine, Mapped, Operation, Structure};
use probeline_transport::line::{Compare, Narrow, Work};
use probeline_transport::{Owner, RemoteWord, Segment, Transport, prefetch};

use crate::element::{Begin, Container, Context, Direct, Element};

type OutcomeOf<E> = <<E as Element>::Machine as Machine>::Outcome;

/// Elements that the CPU accesses between two polls of the transport, which detect lost owners.
const BLOCK: usize = 4_096;
/// Places ahead of the one that is run whose keys are hashed and whose lines are requested.
const AHEAD: usize = 32;

impl<T, S, E> Container<T, S, E>
where
    T: Transport,
    S: AsMut<[Operation<E::Machine>]>,
    E: Element,
{
    /// Runs an action on each key, many in flight and in any order, and passes its outcome to `store`.
    /// `action` returns the action at the place of a key; the batch ends at the first place without
    /// one. An action that is the same constant at all places is compiled into the loop.
    ///
    /// # Errors
    /// [`BatchError`]: the operation of a key failed.
    #[inline]
    pub fn run_all(
        &mut self,
        keys: &[E::Key],
        action: impl Fn(usize) -> Option<E::Action>,
        store: impl FnMut(usize, OutcomeOf<E>),
    ) -> Result<(), BatchError> {
        if !self.context().is_direct {
            return run_posted(self, |place| Some((*keys.get(place)?, action(place)?)), store);
        }
        self.complete_claims();
        let mut batch = Batch::<E, _, _> { keys, action, store, next: 0, failed: None };
        // Each iteration runs a block.
        while batch.next < keys.len() {
            self.check_fault()?;
            let (transport, context) = self.pipeline().parts();
            batch.run_direct(transport, context);
            self.pipeline().make_progress()?;
        }
        // Calls that begin later see what the CPU has stored.
        fence(SeqCst);
        end(batch.failed)
    }

    /// Runs one action on each key, as [`run_all`](Self::run_all) does, and stores what `value` makes of its outcome
    /// at the same place of `into`, which has a name.
    #[inline(always)]
    pub(crate) fn run_into<V>(
        &mut self,
        keys: &[E::Key],
        action: impl Fn(usize) -> Option<E::Action>,
        (what, into): (&'static str, &mut [V]),
        value: impl Fn(OutcomeOf<E>) -> V,
    ) -> Result<(), BatchError> {
        BatchError::check_length(keys.len(), what, into.len())?;
        let store = |place: usize, outcome| {
            if let Some(to) = into.get_mut(place) {
                *to = value(outcome);
            }
        };
        self.run_all(keys, action, store)
    }
}

/// Runs the operation that `request` returns for each place, up to the first place without one, many in flight and in
/// any order, and passes the outcomes to `store`.
///
/// # Errors
/// [`BatchError`]: an operation failed.
pub(crate) fn run_posted<T: Transport, S: AsMut<[Operation<K::Machine>]>, K: Kind>(
    structure: &mut Structure<T, S, K>,
    request: impl FnMut(usize) -> Option<(K::Key, K::Action)>,
    mut store: impl FnMut(usize, <K::Machine as Machine>::Outcome),
) -> Result<(), BatchError> {
    let mut failed = None;
    structure.call_each(request, |place, result| match result {
        Ok(outcome) => store(place, outcome),
        Err(error) => fail(&mut failed, place, error),
    })?;
    end(failed)
}

/// Returns the first failure of a batch.
fn end(failed: Option<(usize, Error)>) -> Result<(), BatchError> {
    failed.map_or(Ok(()), |(place, error)| Err(BatchError::Failed { place, error }))
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

impl<E: Element, A, F> Batch<'_, E, A, F>
where
    A: Fn(usize) -> Option<E::Action>,
    F: FnMut(usize, OutcomeOf<E>),
{
    /// Runs a block of places by the CPU.
    #[inline(always)]
    fn run_direct(&mut self, transport: &impl Transport, context: &Context<E::Detail>) {
        let placement = context.placement;
        debug_assert!(E::DISTRIBUTION.is_none_or(|it| it == placement.distribution()));
        let mapped = Mapped::new(transport, placement.first_word(), placement.part_words());
        let Some(mapped) = &mapped else {
            // The job has more owners than `Mapped` holds: look up the owner of each element.
            let elements = |index| transport.direct(placement.segment(index)?);
            return Block { batch: self, elements, context }.run::<Narrow>();
        };
        let elements = |index| {
            // Computed inside the closure, so that it is a constant of the loop: a captured value would be loaded.
            let distribution = E::DISTRIBUTION.unwrap_or(placement.distribution());
            let (owner, nth) = placement.locate_as(distribution, index)?;
            let words = placement.words();
            mapped.words(owner.0, nth * u64::from(words), words as usize)
        };
        E::with_comparison(Block { batch: self, elements, context });
    }
}

/// The place of an element that the CPU addresses.
const ANYWHERE: Segment = Segment { start: RemoteWord { owner: Owner(0), index: 0 }, words: 0 };

/// A place of a batch: the words of its element and the home of its key.
type Requested<'t, E> = Option<(&'t [AtomicU64], (u64, <E as Element>::Home))>;

/// A block of places of a batch, on elements that the CPU addresses.
struct Block<'r, 'b, E: Element, A, F, W> {
    batch: &'r mut Batch<'b, E, A, F>,
    elements: W,
    context: &'r Context<E::Detail>,
}

impl<'t, E: Element, A, F, W> Block<'_, '_, E, A, F, W>
where
    W: Fn(u64) -> Option<&'t [AtomicU64]>,
    A: Fn(usize) -> Option<E::Action>,
    F: FnMut(usize, OutcomeOf<E>),
{
    /// Hashes the key of a place and requests its line.
    #[inline(always)]
    fn request(&self, place: usize) -> Requested<'t, E> {
        let home = E::home(self.batch.keys.get(place)?, self.context);
        let words = (self.elements)(home.0)?;
        prefetch(words);
        Some((words, home))
    }

    /// Runs the operation of a place. Returns false if it has no action.
    #[inline(always)]
    fn run_place<C: Compare>(&mut self, place: usize, requested: Requested<'t, E>) -> bool {
        let Self { batch, elements, context } = self;
        let (Some(key), Some(action)) = (batch.keys.get(place), (batch.action)(place)) else {
            return false;
        };
        let Some((words, home)) = requested else {
            fail(&mut batch.failed, place, unreached::<E>(key, context));
            return true;
        };
        let at = Segment { words: context.placement.words(), ..ANYWHERE };
        let machine = E::machine(Begin { at, key, home, action }, context);
        match machine.and_then(|machine| machine.run::<C>(words, &*elements, context)) {
            Ok(outcome) => (batch.store)(place, outcome),
            Err(error) => fail(&mut batch.failed, place, error),
        }
        true
    }
}

impl<'t, E: Element, A, F, W> Work for Block<'_, '_, E, A, F, W>
where
    W: Fn(u64) -> Option<&'t [AtomicU64]>,
    A: Fn(usize) -> Option<E::Action>,
    F: FnMut(usize, OutcomeOf<E>),
{
    type Output = ();

    #[inline(always)]
    fn run<C: Compare>(mut self) {
        let (first, len) = (self.batch.next, self.batch.keys.len());
        let end = len.min(first + BLOCK);
        let mut ring = [None; AHEAD];
        for place in first..first + AHEAD {
            ring[place % AHEAD] = self.request(place);
        }
        for place in first..end {
            let requested = ring[place % AHEAD];
            ring[place % AHEAD] = self.request(place + AHEAD);
            if !self.run_place::<C>(place, requested) {
                self.batch.next = len;
                return;
            }
        }
        self.batch.next = end;
    }
}

/// Returns why the CPU has no words for a key.
#[cold]
fn unreached<E: Element>(key: &E::Key, context: &Context<E::Detail>) -> Error {
    let index = E::home(key, context).0;
    let is_missing = context.placement.segment(index).is_none();
    if is_missing { E::missing(key, index, context) } else { Error::Window }
}

#[cold]
fn fail(failed: &mut Option<(usize, Error)>, place: usize, error: Error) {
    if failed.is_none_or(|(first, _)| place < first) {
        *failed = Some((place, error));
    }
}
