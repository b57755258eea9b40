//! Many operations in flight over one engine, in storage that the caller supplies.
//!
//! Each operation has two landing slots, for the chunk it scans and the one read ahead. When it
//! ends while the READ ahead is still in flight it is reported at once, and its storage is free
//! again when that has landed: nobody waits for a chunk that nobody needs.

use transport::{Completion, Fault, Local, PostError, Segment, Slot, Token, Transport};

use crate::bucket::Bucket;
use crate::error::{OperationError, SubmitError};
use crate::find_or_put::{Intent, Outcome, Search, Step};
use crate::layout::Layout;
use crate::operation::{Name, Operation, Part, Queue, State};
use crate::stats::Stats;
use crate::table::Finished;

/// Completions taken from the transport in one poll: as many as a cache-friendly array holds;
/// what is left comes with the next.
const POLL_BATCH: usize = 16;

pub(crate) struct Pipeline<T, S> {
    pub(crate) transport: T,
    pub(crate) layout: Layout,
    pub(crate) stats: Stats,
    operations: S,
    chunk_buckets: u32,
    max_chunks: u32,
    words_whole: bool,
    free: Queue,
    /// Operations that have something to post and found the transport full.
    waiting: Queue,
    /// Operations that have ended and were not reported yet.
    ended: Queue,
    /// Operations that a completion can still change.
    active: u32,
    fault: Option<Fault>,
    completions: [Completion; POLL_BATCH],
}

impl<T: Transport, S: AsMut<[Operation]>> Pipeline<T, S> {
    pub(crate) fn new(
        transport: T,
        layout: Layout,
        chunk_buckets: u32,
        max_chunks: u32,
        mut operations: S,
    ) -> Self {
        let mut free = Queue::EMPTY;
        let slice = operations.as_mut();
        for index in (0..).take(slice.len()) {
            if let Some(operation) = slice.get_mut(index as usize) {
                *operation = Operation::EMPTY;
            }
            free.push(slice, index);
        }
        Self {
            words_whole: transport.caps().word_reads_whole,
            transport,
            layout,
            stats: Stats::default(),
            operations,
            chunk_buckets,
            max_chunks,
            free,
            waiting: Queue::EMPTY,
            ended: Queue::EMPTY,
            active: 0,
            fault: None,
            completions: [Completion { token: Token(0), result: Ok(0) }; POLL_BATCH],
        }
    }

    #[inline]
    fn operation(&mut self, index: u32) -> Option<&mut Operation> {
        self.operations.as_mut().get_mut(index as usize)
    }

    /// Runs one operation to its end.
    #[inline]
    pub(crate) fn run(
        &mut self,
        bucket: Bucket,
        intent: Intent,
    ) -> Result<Outcome, OperationError> {
        let index = self.wait_for_storage()?;
        self.begin(index, bucket, intent, None);
        // Ends because every one-sided operation that the transport accepted does.
        loop {
            match self.operation(index).map(|operation| operation.state) {
                Some(State::Ended(result)) => {
                    self.release(index);
                    return result;
                }
                Some(_) => self.progress(),
                None => return Err(SubmitError::Busy.into()),
            }
        }
    }

    pub(crate) fn submit(
        &mut self,
        tag: u64,
        bucket: Bucket,
        intent: Intent,
    ) -> Result<(), SubmitError> {
        let index = self.free.pop(self.operations.as_mut()).ok_or(SubmitError::Busy)?;
        self.begin(index, bucket, intent, Some(tag));
        Ok(())
    }

    pub(crate) fn poll(&mut self, out: &mut [Finished]) -> Result<usize, Fault> {
        self.progress();
        let mut count = 0;
        for place in out {
            let Some(index) = self.ended.pop(self.operations.as_mut()) else { break };
            let Some(operation) = self.operation(index) else { break };
            if let (State::Ended(result), Some(tag)) = (operation.state, operation.tag) {
                *place = Finished { tag, result };
                count += 1;
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

    #[inline]
    fn begin(&mut self, index: u32, bucket: Bucket, intent: Intent, tag: Option<u64>) {
        let (home, max_chunks) = (self.layout.home(bucket), self.max_chunks);
        if let Some(operation) = self.operation(index) {
            operation.begin(Search::new(bucket, intent, max_chunks), home, tag);
            self.active += 1;
        }
        // Behind those that wait for room: a steady stream of new operations would starve them.
        if self.waiting.is_empty() { self.advance(index) } else { self.wait(index) }
    }

    /// One poll of the transport, and what follows from it.
    #[inline]
    fn progress(&mut self) {
        match self.transport.poll(&mut self.completions) {
            Ok(count) => {
                for at in 0..count {
                    if let Some(&completion) = self.completions.get(at) {
                        self.on_completion(completion);
                    }
                }
                if !self.waiting.is_empty() {
                    self.serve_waiting();
                }
            }
            Err(fault) => self.on_fault(fault),
        }
    }

    /// Lets operations post that found the transport full, in order, while there is room.
    fn serve_waiting(&mut self) {
        while self.has_room(2) {
            let Some(index) = self.waiting.pop(self.operations.as_mut()) else { return };
            if let Some(operation) = self.operation(index) {
                operation.queued = false;
                self.advance(index);
            }
        }
    }

    /// The transport is dead and has reported everything: nothing more can end by itself.
    #[cold]
    fn on_fault(&mut self, fault: Fault) {
        self.fault = Some(fault);
        self.waiting = Queue::EMPTY;
        for index in (0..).take(self.operations.as_mut().len()) {
            let Some(operation) = self.operation(index) else { return };
            operation.queued = false;
            if operation.is_running() {
                operation.in_flight = 0;
                self.end(index, Err(OperationError::Fault(fault)));
            } else if operation.in_flight > 0 {
                operation.in_flight = 0;
                self.settle(index);
            }
        }
    }

    #[inline]
    fn on_completion(&mut self, completion: Completion) {
        let name = Name::from_token(completion.token);
        let index = name.operation;
        let Some(operation) = self.operation(index) else { return };
        if operation.generation != name.generation {
            return;
        }
        operation.in_flight = operation.in_flight.saturating_sub(1);
        if !operation.is_running() {
            if operation.in_flight == 0 {
                self.settle(index);
            }
            return;
        }
        let step = match (completion.result, name.part) {
            (Err(error), _) => return self.fail(index, OperationError::Failed(error)),
            (Ok(_), Part::Chunk(parity)) => {
                operation.landed(parity);
                return self.advance(index);
            }
            (Ok(old), Part::Claim) => operation.search.on_claim(old),
            (Ok(word), Part::Confirm) => operation.search.on_confirm(word),
        };
        self.take(index, step);
        self.advance(index);
    }

    /// Does what the operation can do now. Each turn moves it on through its at most M chunks
    /// of C buckets, so the loop ends.
    #[inline]
    fn advance(&mut self, index: u32) {
        loop {
            let Some(operation) = self.operation(index) else { return };
            if operation.queued {
                return;
            }
            match operation.state {
                State::Chunk => match self.scan(index) {
                    Some(step) => self.take(index, step),
                    None => return,
                },
                State::Claim(offset) => return self.post_atomic(index, offset, Part::Claim),
                State::Confirm(offset) => return self.post_atomic(index, offset, Part::Confirm),
                State::Failed(error) => return self.end(index, Err(error)),
                State::Answer | State::Free | State::Ended(_) | State::Draining => return,
            }
        }
    }

    #[inline]
    fn take(&mut self, index: u32, step: Step) {
        let Some(operation) = self.operation(index) else { return };
        operation.state = match step {
            Step::Await | Step::Rescan => State::Chunk,
            Step::Claim { offset } => State::Claim(offset),
            Step::Confirm { offset } => State::Confirm(offset),
            Step::Done(outcome) => return self.end(index, Ok(outcome)),
        };
    }

    /// Asks for the chunks that are due, then scans the present one if it has landed.
    #[inline]
    fn scan(&mut self, index: u32) -> Option<Step> {
        while let Some(chunk) = self.operation(index)?.search.request() {
            if !self.request(index, chunk) {
                return None;
            }
        }
        let operation = self.operations.as_mut().get_mut(index as usize)?;
        let parity = parity(operation.search.chunk());
        if operation.landing.get(parity).is_none_or(|&landing| landing > 0) {
            return None;
        }
        let words = Local { slot: slot(index, parity), start: 0, words: self.chunk_buckets };
        match self.transport.landed(words) {
            Ok(words) => Some(operation.search.scan(words, self.words_whole)),
            Err(_) => {
                self.fail(index, OperationError::Post(PostError::OutOfRange));
                None
            }
        }
    }

    /// Posts the READs of a chunk, both or none of them. False if there was no room.
    #[inline]
    fn request(&mut self, index: u32, chunk: u32) -> bool {
        let (layout, buckets) = (self.layout, self.chunk_buckets);
        let Some(operation) = self.operation(index) else { return false };
        let parity = parity(chunk);
        let [even, odd] = operation.start;
        let start = match (chunk, parity) {
            (0, _) => even,
            (_, 0) => layout.advance(odd, u64::from(buckets)),
            _ => layout.advance(even, u64::from(buckets)),
        };
        let (first, second) = layout.chunk(start, buckets);
        if !self.has_room(1 + u32::from(second.is_some())) {
            self.wait(index);
            return false;
        }
        let posted = self.post_read(index, parity, first, 0)
            && second.is_none_or(|second| self.post_read(index, parity, second, first.words));
        if posted && let Some(operation) = self.operation(index) {
            operation.start = if parity == 0 { [start, odd] } else { [even, start] };
            operation.search.requested();
        }
        posted
    }

    #[inline]
    fn post_read(&mut self, index: u32, parity: usize, from: Segment, start: u32) -> bool {
        let Some(operation) = self.operations.as_mut().get_mut(index as usize) else {
            return false;
        };
        let token =
            Name { operation: index, part: Part::Chunk(parity), generation: operation.generation }
                .token();
        let into = Local { slot: slot(index, parity), start, words: from.words };
        match self.transport.read(token, from, into) {
            Ok(()) => {
                operation.posted(parity);
                true
            }
            Err(refused) => {
                self.on_refusal(index, refused);
                false
            }
        }
    }

    #[inline]
    fn post_atomic(&mut self, index: u32, offset: u32, part: Part) {
        if !self.has_room(1) {
            return self.wait(index);
        }
        let layout = self.layout;
        let Some(operation) = self.operations.as_mut().get_mut(index as usize) else { return };
        let parity = parity(operation.search.chunk());
        let Some(&start) = operation.start.get(parity) else { return };
        let at = layout.word(layout.advance(start, u64::from(offset)));
        let token = Name { operation: index, part, generation: operation.generation }.token();
        let posted = match part {
            Part::Claim => {
                let desired = operation.search.bucket().word();
                self.transport.compare_and_swap(token, at, 0, desired)
            }
            _ => self.transport.fetch_add(token, at, 0),
        };
        match posted {
            Ok(()) => {
                operation.in_flight += 1;
                operation.state = State::Answer;
            }
            Err(refused) => self.on_refusal(index, refused),
        }
    }

    #[cold]
    fn on_refusal(&mut self, index: u32, refused: PostError) {
        match refused {
            // The next poll says why, and ends the operation.
            PostError::Closed => {}
            other => self.fail(index, OperationError::Post(other)),
        }
    }

    #[inline]
    fn has_room(&self, posts: u32) -> bool {
        self.transport.in_flight() + posts <= self.transport.caps().depth
    }

    /// Queues the operation for room in the transport.
    fn wait(&mut self, index: u32) {
        if let Some(operation) = self.operation(index) {
            operation.queued = true;
            self.waiting.push(self.operations.as_mut(), index);
        }
    }

    #[cold]
    fn fail(&mut self, index: u32, error: OperationError) {
        let Some(operation) = self.operation(index) else { return };
        if operation.queued {
            operation.state = State::Failed(error);
        } else {
            self.end(index, Err(error));
        }
    }

    /// The operation has its result, though READs ahead of need may still be in flight.
    #[inline]
    fn end(&mut self, index: u32, result: Result<Outcome, OperationError>) {
        let Some(operation) = self.operations.as_mut().get_mut(index as usize) else { return };
        match result {
            Ok(outcome) => self.stats.count(outcome, &operation.search),
            Err(_) => self.stats.failed += 1,
        }
        operation.state = State::Ended(result);
        let (reported, settled) = (operation.tag.is_some(), operation.in_flight == 0);
        if settled {
            self.active -= 1;
        }
        if reported {
            self.ended.push(self.operations.as_mut(), index);
        }
    }

    /// The end was told to the caller.
    #[inline]
    fn release(&mut self, index: u32) {
        let Some(operation) = self.operation(index) else { return };
        if operation.in_flight > 0 {
            operation.state = State::Draining;
        } else {
            operation.state = State::Free;
            self.free.push(self.operations.as_mut(), index);
        }
    }

    /// The last READ of an operation that has ended is in.
    #[inline]
    fn settle(&mut self, index: u32) {
        self.active -= 1;
        let Some(operation) = self.operation(index) else { return };
        if operation.state == State::Draining {
            self.release(index);
        }
    }
}

/// Chunks land in the two slots of an operation in turn.
#[inline]
fn parity(chunk: u32) -> usize {
    chunk as usize & 1
}

#[inline]
fn slot(index: u32, parity: usize) -> Slot {
    Slot(index << 1 | u32::from(parity == 1))
}

#[cfg(test)]
mod tests;
