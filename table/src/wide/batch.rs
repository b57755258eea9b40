//! Batches of wide keys: many operations in one call.

use probeline_pipeline::{Batch, Machine, Parts, Pull};
use probeline_transport::Transport;

use super::block::{Candidates, WideKeys};
use super::context::WideContext;
use super::direct::{Mapped, run};
use super::key::hash;
use super::machine::WideFindOrPut;
use crate::batch::BLOCK;
use crate::block::Block;
use crate::block::Undecided;
use crate::error::{BatchError, OperationError};
use crate::line::{Narrow, with_widest};
use crate::outcome::{Answer, Ended};
use crate::results::{BatchResult, Results};

/// A batch in progress.
pub(crate) struct WideBatch<'b, R, const W: usize> {
    keys: &'b [[u64; W]],
    results: Results<'b, R>,
    /// The first key not started.
    next: usize,
}

impl<'b, R: BatchResult, const W: usize> WideBatch<'b, R, W> {
    /// Creates a batch of as many keys as results.
    pub(crate) fn new(keys: &'b [[u64; W]], results: &'b mut [R]) -> Self {
        Self { keys, results: Results::new(results), next: 0 }
    }

    /// Runs the next block of keys by the CPU.
    fn run_block(&mut self, mapped: &Mapped<'_, W>, context: &mut WideContext) {
        let first = self.next;
        let end = self.keys.len().min(first + BLOCK);
        let keys = self.keys.get(first..end).unwrap_or_default();
        let mut undecided = Undecided::default();
        self.next += with_widest(Block {
            results: self.results.block(first..end),
            probe_limit: context.table.probe_limit,
            layout: context.table.layout,
            lines: mapped.lines(),
            undecided: &mut undecided,
            keys: WideKeys { keys, mapped, context, candidates: Candidates::NONE },
        });
        while let Some(place) = undecided.pop() {
            let Some(key) = keys.get(place) else { continue };
            let tagged = context.entries.tagged(hash(key));
            let outcome = run::<Narrow, W>(&mapped, context, key, tagged, R::Answer::INTENT);
            self.results.put(first + place, outcome.ok_or(OperationError::Window));
        }
    }

    /// Returns the error of the first key whose error the results have no place for.
    pub(crate) fn error(&self) -> Option<BatchError> {
        self.results.error()
    }
}

impl<T, R, const W: usize> Batch<T, WideContext, WideFindOrPut<W>> for WideBatch<'_, R, W>
where
    T: Transport,
    R: BatchResult,
{
    fn pull(&mut self, parts: &mut Parts<'_, T, WideContext>, into: &mut WideFindOrPut<W>) -> Pull {
        if parts.shared.is_direct && !parts.is_dead {
            if self.next >= self.keys.len() {
                return Pull::End;
            }
            if let Some(mapped) = Mapped::new(parts.transport, parts.shared) {
                // A poll follows each block, because only a poll detects lost owners.
                self.run_block(&mapped, parts.shared);
                return Pull::Poll;
            }
        }
        let Some(key) = self.keys.get(self.next) else { return Pull::End };
        into.replace_with(WideFindOrPut::new(key, R::Answer::INTENT, parts.shared));
        self.next += 1;
        Pull::Start(self.next - 1)
    }

    fn take(&mut self, place: usize, result: Result<Ended, OperationError>) {
        self.results.put(place, result);
    }
}
