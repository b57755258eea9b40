//! Batches: many operations in one call.
//!
//! The CPU runs the operations whose lines it can address, several at a time so that their cache
//! misses overlap. The pipeline runs the others, so that their roundtrips overlap.

use core::mem::replace;

use probeline_pipeline::{Parts, Pull};
use probeline_transport::Transport;

use crate::block::{Block, Lines, NarrowKeys, Undecided};
use crate::bucket::Bucket;
use crate::cache::CacheEntry;
use crate::context::Context;
use crate::direct::Direct;
use crate::error::{BatchError, OperationError, SubmitError};
use crate::find_or_put::FindOrPut;
use crate::line::with_widest;
use crate::outcome::{Answer, Ended};
use crate::results::{BatchResult, Results};

/// Keys in a block. The transport is polled after each block, because only a poll detects lost
/// owners.
pub(crate) const BLOCK: usize = 4096;

/// A batch in progress.
pub(crate) struct Batch<'b, R> {
    keys: &'b [u64],
    results: Results<'b, R>,
    /// The first key of the block, and the first key not started.
    block: usize,
    next: usize,
    /// Keys of the block that are left to the pipeline.
    remote: Undecided,
    /// Whether to poll the transport before the next block.
    poll: bool,
}

impl<'b, R: BatchResult> Batch<'b, R> {
    /// Creates a batch of as many keys as results.
    pub(crate) fn new(keys: &'b [u64], results: &'b mut [R]) -> Self {
        let remote = Undecided::default();
        let results = Results::new(results);
        Self { keys, results, block: 0, next: 0, remote, poll: false }
    }

    /// Returns the error of the first key whose error the results have no place for.
    pub(crate) fn error(&self) -> Option<BatchError> {
        self.results.error()
    }

    /// Writes the operation of the next key, whether or not the CPU can address its line.
    #[inline]
    fn pull_any<C: AsMut<[CacheEntry]>>(
        &mut self,
        context: &Context<C>,
        into: &mut FindOrPut,
    ) -> Pull {
        while self.next < self.keys.len() {
            self.next += 1;
            if let Some(start) = self.start(self.next - 1, context, into) {
                return start;
            }
        }
        Pull::End
    }

    /// Writes the operation of the key at `place`, or stores the error of a key beyond 63 bits.
    #[inline(always)]
    fn start<C: AsMut<[CacheEntry]>>(
        &mut self,
        place: usize,
        context: &Context<C>,
        into: &mut FindOrPut,
    ) -> Option<Pull> {
        match Bucket::new(*self.keys.get(place)?) {
            Ok(bucket) => {
                *into = FindOrPut::new(bucket, R::Answer::INTENT, context);
                Some(Pull::Start(place))
            }
            Err(refused) => {
                self.results.put(place, Err(SubmitError::Key(refused).into()));
                None
            }
        }
    }

    /// Runs the next block of keys, as far as the CPU can address their lines.
    // Not inlined, to leave the registers to the loop over operations of the pipeline.
    #[inline(never)]
    fn run_block<C>(&mut self, transport: &impl Transport, context: &mut Context<C>) {
        self.block = self.next;
        let end = self.keys.len().min(self.next + BLOCK);
        let lines = Lines::new(transport, &context.layout);
        let block = Block {
            keys: NarrowKeys {
                keys: self.keys.get(self.next..end).unwrap_or_default(),
                stats: &mut context.stats,
            },
            results: self.results.block(self.next..end),
            probe_limit: context.probe_limit,
            layout: context.layout,
            lines: &lines,
            undecided: &mut self.remote,
        };
        self.next += with_widest(block);
    }
}

impl<T, C, R> probeline_pipeline::Batch<T, Context<C>, FindOrPut> for Batch<'_, R>
where
    T: Transport,
    C: AsMut<[CacheEntry]>,
    R: BatchResult,
{
    #[inline]
    fn pull(&mut self, parts: &mut Parts<'_, T, Context<C>>, into: &mut FindOrPut) -> Pull {
        if parts.shared.direct != Direct::Claims {
            return self.pull_any(parts.shared, into);
        }
        loop {
            if let Some(key) = self.remote.pop() {
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
