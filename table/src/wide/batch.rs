//! Batches of wide keys: many operations in one call.

use probeline_pipeline::{Batch, Machine, Parts, Pull};
use probeline_transport::Transport;

use super::context::WideContext;
use super::machine::WideFindOrPut;
use crate::batch::{BatchResult, Results};
use crate::error::{BatchError, OperationError};
use crate::outcome::{Intent, Outcome};

/// A batch in progress.
pub(crate) struct WideBatch<'b, R, const W: usize> {
    keys: &'b [[u64; W]],
    results: Results<'b, R>,
    intent: Intent,
    /// The first key not started.
    next: usize,
}

impl<'b, R: BatchResult, const W: usize> WideBatch<'b, R, W> {
    /// Creates a batch of as many keys as results.
    pub(crate) fn new(keys: &'b [[u64; W]], intent: Intent, results: &'b mut [R]) -> Self {
        Self { keys, results: Results::new(results), intent, next: 0 }
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
        let Some(key) = self.keys.get(self.next) else { return Pull::End };
        into.succeed(WideFindOrPut::new(key, self.intent, parts.shared));
        self.next += 1;
        Pull::Start(self.next - 1)
    }

    fn take(&mut self, place: usize, result: Result<Outcome, OperationError>) {
        self.results.put(place, result);
    }
}
