//! Batches: many operations in one call.
//!
//! The CPU runs the operations whose lines it can address, several at a time so that their cache
//! misses overlap. The pipeline runs the others, so that their roundtrips overlap.

use core::mem::replace;

use probeline_pipeline::{Batch, Machine, Parts, Pull};
use probeline_transport::Transport;

use crate::block::Undecided;
use crate::outcome::{Answer, Ended};
use crate::results::{BatchResult, Results};
use crate::set::Keys;
use crate::{BatchError, OperationError};

/// Keys in a block. The transport is polled after each block, because only a poll detects lost
/// owners.
pub(crate) const BLOCK: usize = 4096;

/// A batch in progress.
pub(crate) struct KeyBatch<'b, K: Keys, R> {
    keys: &'b [K::Key],
    results: Results<'b, R>,
    /// The first key of the block, and the first key not started.
    block: usize,
    next: usize,
    /// Keys of the block that are left to the pipeline.
    undecided: Undecided,
    /// Whether to poll the transport before the next block.
    poll: bool,
}

impl<'b, K: Keys, R: BatchResult> KeyBatch<'b, K, R> {
    /// Creates a batch of as many keys as results.
    pub(crate) fn new(keys: &'b [K::Key], results: &'b mut [R]) -> Self {
        let undecided = Undecided::default();
        Self { keys, results: Results::new(results), block: 0, next: 0, undecided, poll: false }
    }

    /// Returns the error of the first key whose error the results have no place for.
    pub(crate) fn error(&self) -> Option<BatchError> {
        self.results.error()
    }

    /// Writes the operation of the next key, whether or not the CPU can run it.
    #[inline]
    fn pull_any(&mut self, context: &K::Context, into: &mut K::Machine) -> Pull {
        while self.next < self.keys.len() {
            self.next += 1;
            if let Some(start) = self.start(self.next - 1, context, into) {
                return start;
            }
        }
        Pull::End
    }

    /// Writes the operation of the key at `place`, or stores the error of a key that no table of this
    /// kind has.
    #[inline(always)]
    fn start(&mut self, place: usize, context: &K::Context, into: &mut K::Machine) -> Option<Pull> {
        match K::machine(self.keys.get(place)?, R::Answer::INTENT, context) {
            Ok(machine) => {
                into.replace_with(machine);
                Some(Pull::Start(place))
            }
            Err(refused) => {
                self.results.put(place, Err(refused));
                None
            }
        }
    }

    /// Runs the next block of keys, as far as the CPU can.
    // Not inlined, to leave the registers to the loop over operations of the pipeline.
    #[inline(never)]
    fn run_block(&mut self, transport: &impl Transport, context: &mut K::Context) {
        self.block = self.next;
        let end = self.keys.len().min(self.next + BLOCK);
        let keys = self.keys.get(self.next..end).unwrap_or_default();
        let results = self.results.block(self.next..end);
        self.next += K::run_block(keys, results, transport, context, &mut self.undecided);
    }
}

impl<T, K, R> Batch<T, K::Context, K::Machine> for KeyBatch<'_, K, R>
where
    T: Transport,
    K: Keys,
    R: BatchResult,
{
    #[inline]
    fn pull(&mut self, parts: &mut Parts<'_, T, K::Context>, into: &mut K::Machine) -> Pull {
        if !K::is_direct(parts.shared) {
            return self.pull_any(parts.shared, into);
        }
        // Each iteration takes keys of the batch, or ends.
        loop {
            if let Some(key) = self.undecided.pop() {
                if let Some(start) = self.start(self.block + key, parts.shared, into) {
                    return start;
                }
            } else if replace(&mut self.poll, false) {
                return Pull::Poll;
            } else if parts.is_dead {
                return self.pull_any(parts.shared, into);
            } else if self.next >= self.keys.len() {
                return Pull::End;
            } else {
                self.run_block(parts.transport, parts.shared);
                self.poll = true;
            }
        }
    }

    #[inline]
    fn take(&mut self, place: usize, result: Result<Ended, OperationError>) {
        self.results.put(place, result);
    }
}
