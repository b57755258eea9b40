//! Many operations in flight over one engine, in storage that the caller supplies.
//!
//! An operation whose home the CPU reaches walks the lines itself, a line a turn, the next one
//! asked for in between. Any other has two landing slots, for the chunk it scans and the one read
//! ahead. When it ends while the READ ahead is still in flight it is reported at once, and its
//! storage is free again when that has landed: nobody waits for a chunk that nobody needs.

mod batch;
mod calls;
mod posting;

use probeline_transport::{Completion, Fault, Token, Transport};

use crate::bucket::Bucket;
use crate::cache::{Cache, CacheEntry};
use crate::config::Config;
use crate::direct::{Direct, Look, reaches_any};
use crate::error::OperationError;
use crate::find_or_put::{Outcome, Step};
use crate::layout::Layout;
use crate::operation::{Name, Operation, Part, Queue, Report, State};
use crate::policy::Policy;
use crate::stats::Stats;
use crate::walk::Walk;

/// Completions taken from the transport in one poll: as many as a cache-friendly array holds;
/// what is left comes with the next.
const POLL_BATCH: usize = 16;

pub(crate) struct Pipeline<T, S, C> {
    pub(crate) transport: T,
    pub(crate) layout: Layout,
    pub(crate) stats: Stats,
    pub(crate) cache: Cache<C>,
    pub(crate) policy: Policy,
    operations: S,
    /// Buckets that an operation looks at before it gives up.
    reach: u64,
    direct: Direct,
    words_whole: bool,
    free: Queue,
    /// Operations that walk lines which the CPU reaches.
    walking: Queue,
    /// Operations that have something to post and found the transport full.
    waiting: Queue,
    /// Operations that have ended and were not reported yet.
    ended: Queue,
    /// The same, of a batch under way.
    ended_of_batch: Queue,
    /// Operations that a completion or a walk can still change.
    active: u32,
    unpolled: u32,
    fault: Option<Fault>,
    completions: [Completion; POLL_BATCH],
}

impl<T, S, C> Pipeline<T, S, C>
where
    T: Transport,
    S: AsMut<[Operation]>,
    C: AsMut<[CacheEntry]>,
{
    /// A pipeline for tables of this configuration, which has been checked.
    pub(crate) fn new(
        transport: T,
        layout: Layout,
        config: &Config,
        mut operations: S,
        cache: C,
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
            direct: Direct::allowed(
                config.direct && reaches_any(&transport, &layout),
                transport.caps(),
            ),
            reach: config.reach(layout.owners()),
            policy: Policy::new(config),
            cache: Cache::new(cache),
            transport,
            layout,
            stats: Stats::default(),
            operations,
            free,
            walking: Queue::EMPTY,
            waiting: Queue::EMPTY,
            ended: Queue::EMPTY,
            ended_of_batch: Queue::EMPTY,
            active: 0,
            unpolled: 0,
            fault: None,
            completions: [Completion { token: Token(0), result: Ok(0) }; POLL_BATCH],
        }
    }

    /// The same, at rest, with another cache, which is empty.
    pub(crate) fn with_cache<D: AsMut<[CacheEntry]>>(self, cache: D) -> Pipeline<T, S, D> {
        Pipeline {
            cache: Cache::new(cache),
            transport: self.transport,
            layout: self.layout,
            stats: self.stats,
            policy: self.policy,
            operations: self.operations,
            reach: self.reach,
            direct: self.direct,
            words_whole: self.words_whole,
            free: self.free,
            walking: self.walking,
            waiting: self.waiting,
            ended: self.ended,
            ended_of_batch: self.ended_of_batch,
            active: self.active,
            unpolled: self.unpolled,
            fault: self.fault,
            completions: self.completions,
        }
    }

    /// The operation in storage `index`. The index comes from a queue or a caller and is always
    /// valid.
    #[inline]
    fn operation(&mut self, index: u32) -> Option<&mut Operation> {
        let operation = self.operations.as_mut().get_mut(index as usize);
        debug_assert!(operation.is_some(), "the storage has no operation {index}");
        operation
    }

    /// Buckets have changed, or may: what was learnt of them is worth nothing any more.
    pub(crate) fn forget(&mut self, config: &Config) {
        self.cache.forget();
        self.policy = Policy::new(config);
    }

    /// Takes the walk past what the cache knows; true if it knows the end.
    #[inline]
    fn is_cached(&mut self, walk: &mut Walk) -> bool {
        self.cache.is_on() && self.cache.follow(walk, &self.layout)
    }

    /// Begins an operation in free storage, at `walk`.
    #[inline]
    fn begin(&mut self, index: u32, mut walk: Walk, report: Report) {
        let cached = self.is_cached(&mut walk);
        let Some(operation) = self.operation(index) else { return };
        operation.begin(walk, report);
        self.active += 1;
        if cached {
            self.stats.count_cached();
            return self.finish(index, Ok(Outcome::Found));
        }
        if self.direct == Direct::Claims && walk.line(&self.transport, &self.layout).is_some() {
            return self.walking.push(self.operations.as_mut(), index);
        }
        self.search(index);
    }

    /// Begins an operation that goes by READs and claims from the start.
    fn begin_by_read(&mut self, index: u32, walk: Walk, report: Report) {
        let Some(operation) = self.operation(index) else { return };
        operation.begin(walk, report);
        self.active += 1;
        self.search(index);
    }

    /// Goes on by READs.
    #[inline]
    fn search(&mut self, index: u32) {
        let Some(operation) = self.operations.as_mut().get_mut(index as usize) else { return };
        let mut plan = self.policy.plan(&operation.walk);
        // What the CPU loads it sees at once: a claim beside that gains nothing.
        plan.claim_first &= self.direct == Direct::Off
            || operation.walk.line(&self.transport, &self.layout).is_none();
        operation.search(plan);
        // Behind those that wait for room: a steady stream of new operations would starve them.
        if self.waiting.is_empty() { self.advance(index) } else { self.wait(index) }
    }

    /// One poll of the transport, and what follows from it; one line of each walk.
    #[inline]
    pub(crate) fn progress(&mut self) {
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
                if !self.walking.is_empty() {
                    self.walk_on();
                }
            }
            Err(fault) => self.on_fault(fault),
        }
    }

    /// Each walk looks at one line, asked for a turn ago, and asks for the next.
    fn walk_on(&mut self) {
        let last = self.walking.last();
        while let Some(index) = self.walking.pop(self.operations.as_mut()) {
            self.walk_line(index);
            if index == last {
                return;
            }
        }
    }

    fn walk_line(&mut self, index: u32) {
        let Some(operation) = self.operations.as_mut().get_mut(index as usize) else { return };
        let Some(line) = operation.walk.line(&self.transport, &self.layout) else {
            return self.search(index);
        };
        match self.cache.look(&mut operation.walk, line, &self.layout) {
            Look::Done(outcome) => self.end(index, Ok(outcome)),
            Look::Passed => {
                operation.walk.line(&self.transport, &self.layout);
                self.walking.push(self.operations.as_mut(), index);
            }
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
        self.walking = Queue::EMPTY;
        for index in (0..).take(self.operations.as_mut().len()) {
            let Some(operation) = self.operation(index) else { return };
            operation.queued = false;
            if operation.is_running() {
                operation.in_flight = 0;
                let decided = match operation.state {
                    State::Over(result) => result,
                    _ => Err(OperationError::Fault(fault)),
                };
                self.end(index, decided);
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
        // Left over on the transport from before the table was made, or from nobody.
        let Some(operation) = self.operations.as_mut().get_mut(index as usize) else { return };
        if operation.generation != name.generation || operation.in_flight == 0 {
            return;
        }
        operation.in_flight -= 1;
        if !operation.is_running() {
            if operation.in_flight == 0 {
                self.settle(index);
            }
            return;
        }
        // How it ends is decided: what it had posted besides only has to come in.
        if matches!(operation.state, State::Over(_)) {
            return;
        }
        let word = match completion.result {
            Ok(word) => word,
            Err(error) => return self.end(index, Err(OperationError::Failed(error))),
        };
        match name.part {
            Part::Chunk(parity) => operation.landed(parity),
            part => self.on_answer(index, part, word),
        }
        self.advance(index);
    }

    /// The word that an atomic found.
    #[inline]
    fn on_answer(&mut self, index: u32, part: Part, word: u64) {
        let Some(operation) = self.operations.as_mut().get_mut(index as usize) else { return };
        let search = &operation.search;
        let (offset, parity) = (search.offset(search.cursor()), parity(search.chunk()));
        let step = match part {
            Part::FirstClaim => operation.search.on_first_claim(word),
            Part::Claim => Some(operation.search.on_claim(word)),
            Part::Confirm | Part::Chunk(_) => Some(operation.search.on_confirm(word)),
        };
        // What the READ showed has been acted upon already.
        let Some(step) = step else { return };
        if self.cache.is_on()
            && let Some(&start) = operation.start.get(parity)
        {
            let at = self.layout.advance(start, u64::from(offset));
            let inserted =
                (step == Step::Done(Outcome::Inserted)).then(|| operation.search.bucket());
            if let Some(bucket) = Bucket::from_word(word).or(inserted) {
                self.cache.learn(at, bucket, &self.layout);
            }
        }
        self.take(index, step);
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
                State::First => {
                    if !self.post_first_claim(index) {
                        return;
                    }
                }
                State::Chunk => match self.scan(index) {
                    Some(Step::AwaitClaim) | None => return,
                    Some(step) => self.take(index, step),
                },
                State::Claim(offset) => return self.post_answered(index, offset, Part::Claim),
                State::Confirm(offset) => return self.post_answered(index, offset, Part::Confirm),
                State::Over(result) => return self.end(index, result),
                State::Answer | State::Walk | State::Free | State::Ended(_) | State::Draining => {
                    return;
                }
            }
        }
    }

    #[inline]
    fn take(&mut self, index: u32, step: Step) {
        let Some(operation) = self.operation(index) else { return };
        operation.state = match step {
            Step::Await | Step::AwaitClaim | Step::Rescan => State::Chunk,
            Step::Claim { offset } => State::Claim(offset),
            Step::Confirm { offset } => State::Confirm(offset),
            Step::Done(outcome) => return self.end(index, Ok(outcome)),
        };
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

    /// The operation has its result, though one-sided operations of it that do not matter any
    /// more may be in flight.
    #[inline]
    fn end(&mut self, index: u32, result: Result<Outcome, OperationError>) {
        let reach = self.reach;
        let Some(operation) = self.operations.as_mut().get_mut(index as usize) else { return };
        if operation.queued {
            operation.state = State::Over(result);
            return;
        }
        match result {
            Ok(outcome) if operation.state == State::Walk => {
                self.stats.count_direct(outcome, operation.walk.lines);
            }
            Ok(outcome) => {
                let search = &operation.search;
                self.stats.count(outcome, search, operation.walk.lines, operation.copied);
                let at_home = search.reach() == reach && search.buckets() == 1;
                self.policy.ended(outcome, search, at_home);
            }
            Err(_) => self.stats.failed += 1,
        }
        self.finish(index, result);
    }

    /// As `end`, counted already.
    #[inline]
    fn finish(&mut self, index: u32, result: Result<Outcome, OperationError>) {
        let Some(operation) = self.operations.as_mut().get_mut(index as usize) else { return };
        operation.state = State::Ended(result);
        let report = operation.report;
        if operation.in_flight == 0 {
            self.active -= 1;
        }
        match report {
            Report::Asker => {}
            Report::Poll(_) => self.ended.push(self.operations.as_mut(), index),
            Report::Batch(_) => self.ended_of_batch.push(self.operations.as_mut(), index),
            Report::Nobody => self.release(index),
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

#[cfg(test)]
mod tests;
