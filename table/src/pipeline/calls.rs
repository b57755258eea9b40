//! How callers run operations: to the end, or begun and asked for, or begun and polled for.

use probeline_transport::{Completion, Fault, Transport};

use super::Pipeline;
use crate::bucket::Bucket;
use crate::cache::CacheEntry;
use crate::direct::{Direct, Look};
use crate::error::{OperationError, SubmitError};
use crate::find_or_put::{Intent, Outcome};
use crate::operation::{Operation, Report, State};
use crate::table::Finished;
use crate::walk::Walk;

/// Blocking calls that need no transport between two polls of it, which tell of lost owners: a
/// poll then costs each of them well under a nanosecond.
const CALLS_PER_POLL: u32 = 64;

impl<T, S, C> Pipeline<T, S, C>
where
    T: Transport,
    S: AsMut<[Operation]>,
    C: AsMut<[CacheEntry]>,
{
    /// Runs one operation to its end.
    #[inline]
    pub(crate) fn run(
        &mut self,
        bucket: Bucket,
        intent: Intent,
    ) -> Result<Outcome, OperationError> {
        let mut walk = Walk::new(bucket, intent, self.reach, &self.layout);
        if self.is_cached(&mut walk) {
            self.poll_sometimes();
            self.stats.count_cached();
            return Ok(Outcome::Found);
        }
        if self.direct == Direct::Claims
            && let Some(result) = self.run_directly(&mut walk)
        {
            return result;
        }
        let index = self.wait_for_storage()?;
        self.begin(index, walk, Report::Asker);
        // Ends because every one-sided operation that the transport accepted does.
        loop {
            if let Some(result) = self.take_end(index) {
                return result;
            }
            self.progress();
        }
    }

    /// `None` where the walk leaves what the CPU reaches.
    #[inline]
    fn run_directly(&mut self, walk: &mut Walk) -> Option<Result<Outcome, OperationError>> {
        self.poll_sometimes();
        if let Some(fault) = self.fault {
            self.stats.failed += 1;
            return Some(Err(fault.into()));
        }
        // Each turn passes a line of those in reach.
        loop {
            let line = walk.line(&self.transport, &self.layout)?;
            let look = self.cache.look(walk, line, &self.layout);
            if let Look::Done(outcome) = look {
                self.stats.count_direct(outcome, walk.lines);
                return Some(Ok(outcome));
            }
        }
    }

    #[inline]
    fn poll_sometimes(&mut self) {
        self.unpolled += 1;
        if self.unpolled >= CALLS_PER_POLL {
            self.unpolled = 0;
            self.progress();
        }
    }

    pub(crate) fn submit(
        &mut self,
        tag: u64,
        bucket: Bucket,
        intent: Intent,
    ) -> Result<(), SubmitError> {
        self.start(bucket, intent, Report::Poll(tag)).map(drop)
    }

    /// Begins an operation, and says in which storage.
    pub(crate) fn start(
        &mut self,
        bucket: Bucket,
        intent: Intent,
        report: Report,
    ) -> Result<u32, SubmitError> {
        let index = self.free.pop(self.operations.as_mut()).ok_or(SubmitError::Busy)?;
        let walk = Walk::new(bucket, intent, self.reach, &self.layout);
        self.begin(index, walk, report);
        Ok(index)
    }

    /// The end of an operation that was begun for an asker, whose storage is free then.
    #[inline]
    pub(crate) fn take_end(&mut self, index: u32) -> Option<Result<Outcome, OperationError>> {
        let Some(operation) = self.operation(index) else {
            return Some(Err(SubmitError::Busy.into()));
        };
        let State::Ended(result) = operation.state else { return None };
        self.release(index);
        Some(result)
    }

    /// Whether all storage is in use, and nothing is under way that would free some by itself.
    pub(crate) fn only_polls_make_room(&self) -> bool {
        self.free.is_empty() && self.active == 0 && !self.ended.is_empty()
    }

    /// The asker goes away before the end.
    pub(crate) fn abandon(&mut self, index: u32) {
        if self.take_end(index).is_none()
            && let Some(operation) = self.operation(index)
        {
            operation.report = Report::Nobody;
        }
    }

    pub(crate) fn poll(&mut self, out: &mut [Finished]) -> Result<usize, Fault> {
        self.progress();
        let mut count = 0;
        for place in out {
            let Some(index) = self.ended.pop(self.operations.as_mut()) else { break };
            let Some(operation) = self.operation(index) else { break };
            if let (State::Ended(result), Report::Poll(tag)) = (operation.state, operation.report) {
                *place = Finished { tag, result };
                count += 1;
            } else {
                debug_assert!(false, "a polled operation has not ended");
            }
            self.release(index);
        }
        match self.fault {
            Some(fault) if count == 0 && self.ended.is_empty() => Err(fault),
            _ => Ok(count),
        }
    }

    /// Polls the transport for a caller whose operations are not the pipeline's.
    pub(crate) fn poll_transport(&mut self, out: &mut [Completion]) -> Result<usize, Fault> {
        let ends = self.transport.poll(out);
        if let Err(fault) = ends {
            self.on_fault(fault);
        }
        ends
    }

    /// Polls until nothing is in flight. Operations that ended stay to be reported.
    pub(crate) fn quiesce(&mut self) -> Result<(), Fault> {
        // Ends because every one-sided operation that the transport accepted does.
        while self.active > 0 {
            self.progress();
        }
        self.fault.map_or(Ok(()), Err)
    }

    /// Free storage, once a READ ahead of need has landed if that is all there is to wait for.
    #[inline]
    fn wait_for_storage(&mut self) -> Result<u32, OperationError> {
        loop {
            if let Some(index) = self.free.pop(self.operations.as_mut()) {
                return Ok(index);
            }
            if self.active == 0 {
                return Err(SubmitError::Busy.into());
            }
            self.progress();
        }
    }
}
