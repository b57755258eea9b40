//! The shared state of all owners: their clocks, the operations in flight and the event queue.

use alloc::boxed::Box;
use alloc::collections::BinaryHeap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::sync::atomic::AtomicU64;

use probeline_transport::engine::{CpuMemory, InFlight, Slots};
use probeline_transport::{
    Completion, Fault, OpError, Owner, PostError, RemoteWord, Request, Segment, SetupError, Token,
};

use crate::faults::{DEATH_STATUS, DrawnFaults, Ending, FaultInjector};
use crate::network::{Network, Start};
use crate::record::Record;
use crate::rng::streams;
use crate::trace::{EventKind, add_event, digest};
use crate::{Config, Counters, Kind, Order, Rng};

/// The windows of all owners.
pub(crate) type Windows = Arc<[Box<[AtomicU64]>]>;

/// An entry of a queue: the next step of an operation, which is its effect or a sampling step of a
/// READ, or its completion. Each operation has at most one entry in each queue, so no queue grows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    /// The time in nanoseconds and a random number, or only one of them.
    at: (u64, u64),
    /// Entries at one position keep the order in which they were added.
    sequence: u64,
    record: u32,
}

/// The fabric's state for one owner's engine.
#[derive(Default)]
pub(crate) struct Member {
    now_ns: u64,
    taken: bool,
    fault: Option<Fault>,
    /// The owner was killed, or its engine was dropped.
    gone: bool,
    posted: u64,
    /// Ordered as the engine reports them.
    in_flight: BinaryHeap<Reverse<Entry>>,
    free: Vec<u32>,
    /// The number of records with a late effect, completed or not, that has not happened yet.
    late: u32,
}

/// The shared state of all owners, behind the one lock of the cluster.
pub(crate) struct Fabric {
    windows: Windows,
    members: Box<[Member]>,
    records: Box<[Record]>,
    events: BinaryHeap<Reverse<Entry>>,
    network: Network,
    injector: FaultInjector,
    chance: Rng,
    config: Config,
    sequence: u64,
    /// The first owner lost and the time of the loss.
    lost: Option<(Owner, u64)>,
    pub(crate) now_ns: u64,
    pub(crate) counters: Counters,
    /// The hash of all events.
    pub(crate) trace_hash: u64,
}

impl Fabric {
    pub(crate) fn new(config: &Config, windows: Windows) -> Self {
        let each = config.records();
        let all = each * config.owners;
        let rng = |stream| Rng::new(config.seed, stream);
        let member = |owner: u32| Member {
            in_flight: BinaryHeap::with_capacity(config.depth as usize),
            free: (owner * each..(owner + 1) * each).rev().collect(),
            ..Member::default()
        };
        Self {
            windows,
            members: (0..config.owners).map(member).collect(),
            records: (0..all).map(|_| Record::new(config)).collect(),
            events: BinaryHeap::with_capacity(all as usize),
            network: Network::new(config.model, config.owners, rng(streams::NETWORK)),
            injector: FaultInjector::new(config.faults, config.tears(), rng(streams::FAULTS)),
            chance: rng(streams::ORDER),
            config: *config,
            sequence: 0,
            lost: None,
            now_ns: 0,
            counters: Counters::default(),
            trace_hash: 0,
        }
    }

    pub(crate) fn take(&mut self, owner: Owner) -> Result<(), SetupError> {
        let Some(member) = self.members.get_mut(owner.0 as usize) else {
            return Err(SetupError::NoOwner(owner));
        };
        if core::mem::replace(&mut member.taken, true) {
            return Err(SetupError::Taken(owner));
        }
        Ok(())
    }

    fn member(&mut self, owner: Owner) -> &mut Member {
        &mut self.members[owner.0 as usize]
    }

    pub(crate) fn clock_ns(&self, owner: Owner) -> u64 {
        self.members[owner.0 as usize].now_ns
    }

    pub(crate) fn spend(&mut self, owner: Owner, ns: u64) {
        let member = self.member(owner);
        member.now_ns = member.now_ns.saturating_add(ns);
    }

    pub(crate) fn advance_to(&mut self, at_ns: u64) {
        self.run_until(at_ns);
        for member in &mut self.members {
            member.now_ns = member.now_ns.max(at_ns);
        }
    }

    /// Returns whether the engine of `me` refuses posts.
    pub(crate) fn is_closed(&self, me: Owner) -> bool {
        self.lost.is_some() || self.members[me.0 as usize].fault.is_some()
    }

    /// Accepts a checked post; `payload` holds the words of a WRITE.
    pub(crate) fn accept(
        &mut self,
        me: Owner,
        (token, request): (Token, Request),
        payload: &[u64],
    ) -> Result<(), PostError> {
        let kind = Kind::from_request(&request);
        let member = &mut self.members[me.0 as usize];
        // A record is free: at most `depth` are in flight and at most `depth` are late.
        let Some(index) = member.free.pop() else { return Err(PostError::Full) };
        member.posted += 1;
        let Segment { start: to, words } = request.remote();
        let by_cpu = self.network.model().is_by_cpu(me, to.owner);
        let post_ns = if by_cpu { 0 } else { self.network.model().post_ns };
        member.now_ns = member.now_ns.saturating_add(post_ns);
        let now_ns = member.now_ns;
        self.note(now_ns, me, EventKind::Posted(kind), to, token.0);

        let drawn = self.draw(me, kind);
        let owner_idle = self.member(to.owner).in_flight.is_empty();
        let factor = drawn.factor;
        let start = Start { kind, words, from: me, to, now_ns, factor, owner_idle };
        let times = self.network.schedule(start);
        let behind = self.last_write(me, kind, to.owner);
        let effect_ns = times.effect_ns.max(behind.0);
        let mut done_ns = times.done_ns.max(effect_ns);
        if drawn.repeated {
            done_ns = done_ns.saturating_add(self.injector.repeated_after_ns(done_ns - now_ns));
        }
        self.records[index as usize].start(me, (token, request), done_ns, payload);
        self.plan(index, drawn, now_ns, effect_ns, behind);
        let at = match self.config.order {
            Order::ByTime => (done_ns, 0),
            Order::Shuffled => (self.chance.bits(), 0),
        };
        let entry = self.entry(at, index);
        self.member(me).in_flight.push(entry);
        self.die_if_due(me);
        Ok(())
    }

    /// Returns the position of the last WRITE of `me` to `owner` in the order of events, if an
    /// operation of this kind has to follow it.
    fn last_write(&self, me: Owner, kind: Kind, owner: Owner) -> (u64, u64) {
        if !self.config.write_then_atomic || !kind.is_atomic() {
            return (0, 0);
        }
        let each = self.records.len() / self.members.len();
        let mine = &self.records[me.0 as usize * each..][..each];
        let succeeds = |record: &&Record| record.scheduled && record.error.is_none();
        let writes = mine.iter().filter(succeeds);
        let writes =
            writes.filter(|record| record.kind() == Kind::Write && record.word().owner == owner);
        writes.map(|write| write.due).max().unwrap_or_default()
    }

    /// Draws the faults of an operation and counts them.
    fn draw(&mut self, me: Owner, kind: Kind) -> DrawnFaults {
        let mut drawn = self.injector.draw(kind);
        let member = &mut self.members[me.0 as usize];
        if drawn.ending == Ending::ErrorLate {
            if member.late == self.config.depth {
                drawn.ending = Ending::ErrorUndone;
            } else {
                member.late += 1;
            }
        }
        let counters = &mut self.counters;
        counters.posted += 1;
        counters.slow += u64::from(drawn.factor > 1);
        counters.repeated_reads += u64::from(drawn.repeated);
        match drawn.ending {
            Ending::Fine => {}
            Ending::ErrorDone => counters.errors_done += 1,
            Ending::ErrorUndone => counters.errors_undone += 1,
            Ending::ErrorLate => counters.errors_late += 1,
        }
        drawn
    }

    /// Schedules the first event of a record, if it has any, no earlier than `behind`.
    fn plan(
        &mut self,
        index: u32,
        drawn: DrawnFaults,
        now_ns: u64,
        effect_ns: u64,
        behind: (u64, u64),
    ) {
        let record = &mut self.records[index as usize];
        let read = record.kind() == Kind::Read;
        record.late = drawn.ending == Ending::ErrorLate;
        if drawn.ending != Ending::Fine {
            record.error = Some(OpError::RetryExceeded);
        }
        let at_ns = match drawn.ending {
            Ending::Fine if read => {
                record.plan_samples(drawn.repeated, drawn.torn);
                if self.config.scatter_reads {
                    record.next_sample_ns(now_ns, &mut self.chance)
                } else {
                    effect_ns
                }
            }
            Ending::Fine => effect_ns,
            Ending::ErrorDone if !read => effect_ns,
            Ending::ErrorDone | Ending::ErrorUndone => return,
            Ending::ErrorLate => record.done_ns.saturating_add(self.injector.late_by_ns()),
        };
        let due = (at_ns, self.tie()).max(behind);
        let record = &mut self.records[index as usize];
        (record.scheduled, record.due) = (true, due);
        self.schedule(due, index);
    }

    fn schedule(&mut self, at: (u64, u64), record: u32) {
        let entry = self.entry(at, record);
        self.events.push(entry);
    }

    fn entry(&mut self, at: (u64, u64), record: u32) -> Reverse<Entry> {
        self.sequence += 1;
        Reverse(Entry { at, sequence: self.sequence, record })
    }

    /// Orders events at one instant.
    fn tie(&mut self) -> u64 {
        match self.config.order {
            Order::ByTime => 0,
            Order::Shuffled => self.chance.bits(),
        }
    }

    /// Returns the time to which a poll advances its engine: now, or the time of the next
    /// completion.
    pub(crate) fn poll_until_ns(&self, me: Owner) -> u64 {
        let member = &self.members[me.0 as usize];
        match member.in_flight.peek() {
            Some(Reverse(due)) => member.now_ns.max(self.records[due.record as usize].done_ns),
            None => member.now_ns.saturating_add(self.network.model().idle_poll_ns.max(1)),
        }
    }

    /// Returns the engine that reports a completion first, and the time of that completion.
    pub(crate) fn next_delivery(&self) -> Option<(Owner, u64)> {
        let owners = (0..).map(Owner).zip(&self.members);
        owners
            .filter(|(_, member)| !member.in_flight.is_empty())
            .map(|(owner, _)| (owner, self.poll_until_ns(owner)))
            .min_by_key(|&(owner, at_ns)| (at_ns, owner))
    }

    /// Executes all events up to `until_ns`, in the order of time.
    pub(crate) fn run_until(&mut self, until_ns: u64) {
        while let Some(&Reverse(event)) = self.events.peek()
            && event.at.0 <= until_ns
        {
            self.events.pop();
            self.happen(event);
        }
        self.now_ns = self.now_ns.max(until_ns);
    }

    /// Returns the times at which operations in flight will change windows, and their owners.
    #[cfg(feature = "std")]
    pub(crate) fn effects(&self) -> impl Iterator<Item = (Owner, u64)> {
        let records = self
            .events
            .iter()
            .map(|Reverse(event)| (&self.records[event.record as usize], event.at.0));
        let effects = records.filter(|(record, _)| record.kind() != Kind::Read);
        effects.map(|(record, at_ns)| (record.word().owner, at_ns))
    }

    /// Executes all events.
    pub(crate) fn apply_outstanding(&mut self) {
        while let Some(Reverse(event)) = self.events.pop() {
            self.now_ns = self.now_ns.max(event.at.0);
            self.happen(event);
        }
    }

    fn happen(&mut self, event: Entry) {
        let (at_ns, _) = event.at;
        let record = &mut self.records[event.record as usize];
        let owner = record.owner;
        if !record.cancelled {
            let word = record.word();
            let window = &self.windows[word.owner.0 as usize];
            if record.kind() == Kind::Read {
                let (word, value) = record.sample(window, &mut self.chance);
                let next_ns = record.next_sample_ns(at_ns, &mut self.chance);
                let more = record.samples_left > 0;
                self.note(at_ns, owner, EventKind::Sampled, word, value);
                if more {
                    let tie = self.tie();
                    self.schedule((next_ns, tie), event.record);
                    return;
                }
            } else {
                let kind = record.kind();
                let old = record.apply(window);
                self.counters.late_effects += u64::from(!record.unreported);
                self.note(at_ns, owner, EventKind::Applied(kind), word, old);
            }
        }
        let record = &mut self.records[event.record as usize];
        record.scheduled = false;
        self.members[owner.0 as usize].late -= u32::from(record.late);
        self.free_if_over(event.record);
    }

    fn free_if_over(&mut self, index: u32) {
        let record = &self.records[index as usize];
        if record.unreported || record.scheduled {
            return;
        }
        let member = &mut self.members[record.owner.0 as usize];
        member.free.push(index);
    }

    /// Reports to `me` the completions due at `at_ns`, after advancing its clock to that time.
    pub(crate) fn deliver(
        &mut self,
        me: Owner,
        at_ns: u64,
        slots: &mut Slots<CpuMemory, InFlight>,
        out: &mut [Completion],
    ) -> usize {
        self.member(me).now_ns = at_ns;
        let mut polled = 0;
        // Completions that cost CPU time: those of the NIC, not those of the CPU's own accesses.
        let mut over_nic = 0_u64;
        for into in out {
            let Some(&Reverse(due)) = self.member(me).in_flight.peek() else { break };
            if self.records[due.record as usize].done_ns > at_ns {
                break;
            }
            self.member(me).in_flight.pop();
            over_nic += u64::from(self.count_kind(due.record));
            *into = self.report(due.record, at_ns, slots);
            polled += 1;
        }
        self.counters.completed += polled as u64;
        let cpu_ns = self.network.model().completion_ns.saturating_mul(over_nic);
        self.spend(me, cpu_ns);
        polled
    }

    /// Counts a completion by its kind; returns whether it came from a NIC.
    fn count_kind(&mut self, record: u32) -> bool {
        let record = &self.records[record as usize];
        let remote = record.request.remote();
        if self.network.model().is_by_cpu(record.owner, remote.start.owner) {
            self.counters.by_cpu += 1;
            return false;
        }
        match record.kind() {
            Kind::Read => self.counters.reads += 1,
            Kind::Write => self.counters.writes += 1,
            Kind::CompareAndSwap | Kind::FetchAdd => self.counters.atomics += 1,
        }
        self.counters.words += u64::from(remote.words);
        true
    }

    /// Creates the completion of one operation; the words of a READ land.
    fn report(
        &mut self,
        index: u32,
        at_ns: u64,
        slots: &mut Slots<CpuMemory, InFlight>,
    ) -> Completion {
        let record = &mut self.records[index as usize];
        let (token, request, kind) = (record.token, record.request, record.kind());
        let result = record.result();
        let mut value = result.unwrap_or(0);
        if result.is_ok() && kind == Kind::Read {
            self.counters.torn_words += record.tear(&mut self.injector);
            let landing = request.local().and_then(|into| slots.words_mut(into));
            debug_assert!(landing.is_some(), "the post was checked");
            landing.into_iter().for_each(|landing| landing.copy_from_slice(record.words()));
            value = digest(record.words());
        }
        if let Some(local) = request.local() {
            slots.release(local.slot);
        }
        record.unreported = false;
        let owner = record.owner;
        self.network.release(owner, request.owner());
        let event =
            if result.is_ok() { EventKind::Completed(kind) } else { EventKind::Failed(kind) };
        self.note(at_ns, owner, event, request.remote().start, value);
        self.free_if_over(index);
        Completion { token, result }
    }

    /// Returns why `me` is dead, once everything it accepted has been reported.
    pub(crate) fn fault(&mut self, me: Owner) -> Option<Fault> {
        let lost = self.lost;
        let member = self.member(me);
        if !member.in_flight.is_empty() {
            return None;
        }
        if let (None, Some((owner, at_ns))) = (member.fault, lost) {
            member.fault = Some(Fault::OwnerLost(owner));
            member.now_ns = member.now_ns.max(at_ns);
        }
        member.fault
    }

    fn die_if_due(&mut self, me: Owner) {
        let Some(death) = self.injector.faults().death else { return };
        let owners = u64::try_from(self.members.len()).unwrap_or(u64::MAX);
        let dying = u64::from(death.owner.0) % owners == u64::from(me.0);
        if dying && self.member(me).posted == death.after_ops {
            self.counters.deaths += 1;
            self.end(me, Fault::Device { code: DEATH_STATUS });
        }
    }

    /// Kills the engine of `me`: what is not done by now is flushed.
    fn end(&mut self, me: Owner, fault: Fault) {
        let member = &mut self.members[me.0 as usize];
        member.fault.get_or_insert(fault);
        let now_ns = member.now_ns;
        for Reverse(due) in &member.in_flight {
            let record = &mut self.records[due.record as usize];
            if record.done_ns <= now_ns {
                continue;
            }
            record.error = Some(OpError::Flushed);
            record.done_ns = now_ns;
            record.cancelled = record.kind() == Kind::Read || self.injector.flushed_undone();
            self.counters.flushed += 1;
        }
        self.note(now_ns, me, EventKind::Ended, RemoteWord { owner: me, index: 0 }, 0);
    }

    /// Loses the owner: its own engine, if still open, dies, and every other engine reports the
    /// loss.
    pub(crate) fn lose(&mut self, owner: Owner) {
        let Some(member) = self.members.get_mut(owner.0 as usize) else { return };
        if core::mem::replace(&mut member.gone, true) {
            return;
        }
        let at_ns = member.now_ns;
        self.end(owner, Fault::OwnerLost(owner));
        self.lost.get_or_insert((owner, at_ns));
        self.counters.lost_owners += 1;
    }

    /// Closes the engine that the owner drops; nothing is reported to it any more.
    pub(crate) fn close(&mut self, owner: Owner) {
        self.lose(owner);
        while let Some(Reverse(due)) = self.member(owner).in_flight.pop() {
            let record = &mut self.records[due.record as usize];
            record.unreported = false;
            self.network.release(owner, record.word().owner);
            self.free_if_over(due.record);
        }
    }

    #[inline]
    fn note(&mut self, at_ns: u64, owner: Owner, kind: EventKind, word: RemoteWord, value: u64) {
        self.trace_hash = add_event(self.trace_hash, at_ns, owner, kind, word, value);
    }
}
