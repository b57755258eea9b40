//! Many operations by one call: those that the CPU does itself interleaved, so that their cache
//! misses overlap; the others through the pipeline, so that their roundtrips do.

mod walks;

use probeline_transport::Transport;

use super::Pipeline;
use crate::bucket::Bucket;
use crate::cache::CacheEntry;
use crate::direct::Direct;
use crate::error::{OperationError, SubmitError};
use crate::find_or_put::{Intent, Outcome};
use crate::operation::{Operation, Report, State};
use crate::walk::Walk;
use walks::{Late, WALKS, Walks};

/// The end of an operation.
type End = Result<Outcome, OperationError>;

/// A batch under way: the data, where their ends go, and what was not begun yet.
struct Batch<'b> {
    data: &'b [u64],
    ends: &'b mut [End],
    intent: Intent,
    reach: u64,
    /// The first datum not begun.
    next: usize,
    /// Operations in the pipeline.
    running: usize,
    /// Walks that need storage in the pipeline, by their places.
    stuck: [Option<(usize, Walk)>; STUCK],
    /// How many those are.
    stuck_walks: usize,
    late: Late,
}

/// Walks that need the pipeline before no more data are begun: as many as are worth a doorbell.
const FULL: usize = 64;
/// Those, and all that take turns then: each may leave what the CPU reaches.
const STUCK: usize = FULL + WALKS;

impl<T, S, C> Pipeline<T, S, C>
where
    T: Transport,
    S: AsMut<[Operation]>,
    C: AsMut<[CacheEntry]>,
{
    /// Runs an operation on each of `data` and leaves its end at the same place of `ends`, which
    /// is as long.
    pub(crate) fn run_batch(&mut self, data: &[u64], intent: Intent, ends: &mut [End]) {
        let (reach, stuck) = (self.reach, [None; STUCK]);
        let mut batch = Batch {
            data,
            ends,
            intent,
            reach,
            next: 0,
            running: 0,
            stuck,
            stuck_walks: 0,
            late: Late::NONE,
        };
        // Ends because each walk has an end within reach, and because every one-sided operation
        // that the transport accepted ends.
        while batch.is_begun_in_part() || batch.running > 0 || batch.is_stuck() {
            let begins = !batch.is_stuck() && batch.is_begun_in_part();
            match (self.fault, self.direct) {
                (Some(fault), _) => self.stats.failed += batch.refuse_rest(fault.into()),
                (None, Direct::Claims) if begins => {
                    let (transport, cache) = (&self.transport, &mut self.cache);
                    let walks = Walks::new(&mut batch, transport, self.layout, cache);
                    self.stats.add(&walks.run());
                }
                (None, _) => self.begin_by_reads(&mut batch),
            }
            // One doorbell for all that could be begun.
            self.unstick(&mut batch);
            self.progress();
            self.unstick(&mut batch);
        }
    }

    /// Begins as many operations in the pipeline as there is storage for.
    fn begin_by_reads(&mut self, batch: &mut Batch<'_>) {
        while !batch.is_stuck()
            && let Some((place, bucket)) = batch.take_next()
        {
            let mut walk = Walk::new(bucket, batch.intent, self.reach, &self.layout);
            if self.is_cached(&mut walk) {
                self.stats.count_cached();
                batch.set(place, Ok(Outcome::Found));
            } else if self.begin_of_batch(place, walk) {
                batch.running += 1;
            } else {
                batch.stick(place, walk);
            }
        }
    }

    fn begin_of_batch(&mut self, place: usize, walk: Walk) -> bool {
        let Some(index) = self.free.pop(self.operations.as_mut()) else { return false };
        self.begin_by_read(index, walk, Report::Batch(place));
        true
    }

    /// Finds storage for what has none, what has ended having made room first. Where only the
    /// caller can free some, it is refused.
    fn unstick(&mut self, batch: &mut Batch<'_>) {
        self.collect(batch);
        if !batch.is_stuck() {
            return;
        }
        for at in 0..STUCK {
            let Some(Some((place, walk))) = batch.stuck.get(at).copied() else { continue };
            if self.begin_of_batch(place, walk) {
                batch.running += 1;
            } else if self.active > 0 {
                return;
            } else {
                batch.set(place, Err(SubmitError::Busy.into()));
            }
            if let Some(stuck) = batch.stuck.get_mut(at) {
                *stuck = None;
                batch.stuck_walks -= 1;
            }
        }
    }

    /// Takes the ends that the pipeline has for the batch.
    fn collect(&mut self, batch: &mut Batch<'_>) {
        while let Some(index) = self.ended_of_batch.pop(self.operations.as_mut()) {
            let Some(operation) = self.operation(index) else { return };
            if let (State::Ended(end), Report::Batch(place)) = (operation.state, operation.report) {
                batch.set(place, end);
                batch.running -= 1;
            } else {
                debug_assert!(false, "an operation of the batch has not ended");
            }
            self.release(index);
        }
    }
}

impl Batch<'_> {
    #[inline]
    fn set(&mut self, place: usize, end: End) {
        match self.ends.get_mut(place) {
            Some(place) => *place = end,
            None => debug_assert!(false, "the batch has no place {place}"),
        }
    }

    /// Whether there are data that neither have ended nor are in the pipeline.
    fn is_begun_in_part(&self) -> bool {
        self.next < self.data.len() || !self.late.is_empty()
    }

    fn is_stuck(&self) -> bool {
        self.stuck_walks > 0
    }

    /// Whether enough are stuck that no more are to be begun.
    #[inline]
    fn is_full(&self) -> bool {
        self.stuck_walks >= FULL
    }

    /// There is room for all that are under way.
    fn stick(&mut self, place: usize, walk: Walk) {
        match self.stuck.iter_mut().find(|stuck| stuck.is_none()) {
            Some(free) => {
                *free = Some((place, walk));
                self.stuck_walks += 1;
            }
            None => self.set(place, Err(SubmitError::Busy.into())),
        }
    }

    /// The next datum that a bucket holds, and its place.
    #[inline]
    fn take_next(&mut self) -> Option<(usize, Bucket)> {
        while let Some(&data) = self.data.get(self.next) {
            let place = self.next;
            self.next += 1;
            match Bucket::new(data) {
                Ok(bucket) => return Some((place, bucket)),
                Err(refused) => self.set(place, Err(SubmitError::Data(refused).into())),
            }
        }
        None
    }

    /// The transport is dead: what was not begun ends so. Gives how many there are.
    fn refuse_rest(&mut self, error: OperationError) -> u64 {
        let mut refused = 0;
        while let Some(place) = self.late.pop() {
            self.set(place, Err(error));
            refused += 1;
        }
        while let Some((place, _)) = self.take_next() {
            self.set(place, Err(error));
            refused += 1;
        }
        for at in 0..STUCK {
            if let Some((place, _)) = self.stuck.get_mut(at).and_then(Option::take) {
                self.set(place, Err(error));
                self.stuck_walks -= 1;
                refused += 1;
            }
        }
        refused
    }
}
