//! Batches of keys of a tree table: many operations in one call.

use arrayvec::ArrayVec;
use probeline_pipeline::{Batch, Machine, Parts, Pull};
use probeline_transport::Transport;

use super::cache::PairCacheLine;
use super::context::TreeContext;
use super::machine::TreeFindOrPut;
use crate::batch::BLOCK;
use crate::error::{BatchError, OperationError, SubmitError};
use crate::outcome::{Answer, Ended};
use crate::results::{BatchResult, Results};

/// Keys whose nodes the CPU looks up side by side.
const GROUP: usize = 32;

/// A batch in progress.
pub(crate) struct TreeBatch<'b, R, const W: usize> {
    keys: &'b [[u64; W]],
    results: Results<'b, R>,
    /// The first key not started.
    next: usize,
    /// Keys of the last group that are left to the pipeline.
    undecided: ArrayVec<usize, GROUP>,
    /// Keys that the CPU may run before the transport is polled, because only a poll detects lost
    /// owners.
    left: usize,
}

impl<'b, R: BatchResult, const W: usize> TreeBatch<'b, R, W> {
    /// Creates a batch of as many keys as results.
    pub(crate) fn new(keys: &'b [[u64; W]], results: &'b mut [R]) -> Self {
        let (results, undecided) = (Results::new(results), ArrayVec::new());
        Self { keys, results, next: 0, undecided, left: BLOCK }
    }

    /// Returns the error of the first key whose error the results have no place for.
    pub(crate) fn error(&self) -> Option<BatchError> {
        self.results.error()
    }

    /// Runs the next group of keys as far as the CPU can. The keys that it does not decide become
    /// undecided, in order.
    fn run_group<C: AsMut<[PairCacheLine]>>(
        &mut self,
        parts: &mut Parts<'_, impl Transport, TreeContext<C>>,
    ) {
        let context = &mut *parts.shared;
        let first = self.next;
        let rest = self.keys.get(first..).unwrap_or_default();
        // A group ends before a key that does not fit.
        let fitting = rest.iter().take(GROUP).take_while(|key| context.shape.fits(key)).count();
        let keys = rest.get(..fitting).unwrap_or_default();
        self.next += fitting;
        self.left = self.left.saturating_sub(GROUP);
        let outcomes: [_; GROUP] = match parts.is_dead {
            true => [None; GROUP],
            false => context.run_group_by_cpu(parts.transport, keys, R::Answer::INTENT),
        };
        for (place, outcome) in (first..self.next).zip(outcomes) {
            match outcome {
                Some(outcome) => self.results.put(place, Ok(outcome)),
                None => {
                    let is_room = self.undecided.try_push(place).is_ok();
                    debug_assert!(is_room, "a group starts after the last one is decided");
                }
            }
        }
        self.undecided.reverse();
        if fitting == 0 {
            let refused = SubmitError::KeyBits { most: context.shape.key_bits() };
            self.results.put(self.next, Err(refused.into()));
            self.next += 1;
        }
    }
}

impl<T, C, R, const W: usize> Batch<T, TreeContext<C>, TreeFindOrPut<W>> for TreeBatch<'_, R, W>
where
    T: Transport,
    C: AsMut<[PairCacheLine]>,
    R: BatchResult,
{
    fn pull(
        &mut self,
        parts: &mut Parts<'_, T, TreeContext<C>>,
        into: &mut TreeFindOrPut<W>,
    ) -> Pull {
        // Each iteration starts the operation of a key, or takes keys of the batch.
        loop {
            if let Some(place) = self.undecided.pop()
                && let Some(key) = self.keys.get(place)
            {
                into.replace_with(TreeFindOrPut::new(key, R::Answer::INTENT, parts.shared));
                return Pull::Start(place);
            }
            if self.next >= self.keys.len() {
                return Pull::End;
            }
            if self.left == 0 {
                self.left = BLOCK;
                return Pull::Poll;
            }
            self.run_group(parts);
        }
    }

    fn take(&mut self, place: usize, result: Result<Ended, OperationError>) {
        self.results.put(place, result);
    }
}
