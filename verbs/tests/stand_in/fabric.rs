//! The state of a fabric, and the execution of requests.

use core::ptr;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use probeline_verbs_sys::*;

use super::objects::Context;
use super::pair::{INLINE_WORDS, Pair, Request};
use super::{Atomics, Device, Faults, Seen, Setup, TRIES};

pub(super) struct Region {
    pub(super) domain: u32,
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) access: u32,
}

pub(super) struct CompletionQueue {
    pub(super) context: u32,
    pub(super) machine: usize,
    pub(super) capacity: usize,
    pub(super) entries: VecDeque<Completion>,
    pub(super) overrun: bool,
}

/// A completion that has not been polled, and the number of send queue entries that it frees.
#[derive(Clone, Copy)]
pub(super) struct Completion {
    pub(super) id: u64,
    pub(super) status: ibv_wc_status,
    pub(super) pair: u32,
    places: u32,
}

// SAFETY: the pointers refer to registered words, which are atomics that any thread may use.
unsafe impl Send for State {}

#[derive(Default)]
pub(super) struct State {
    pub(super) machines: Vec<(Setup, Faults)>,
    pub(super) contexts: BTreeSet<u32>,
    /// The contexts of protection domains.
    pub(super) domains: BTreeMap<u32, u32>,
    pub(super) regions: BTreeMap<u32, Region>,
    pub(super) completions: BTreeMap<u32, CompletionQueue>,
    pub(super) pairs: BTreeMap<u32, Pair>,
    pub(super) created: u32,
    pub(super) violations: Vec<String>,
    pub(super) seen: Option<Vec<Seen>>,
    /// Words that the device of a machine writes back before its next completion.
    pub(super) written_back: Vec<(usize, *const AtomicU64, u64)>,
    /// The state of the random numbers that decide when requests execute; `None` if they execute
    /// when posted.
    pub(super) random: Option<u64>,
}

impl State {
    pub(super) fn alive(&self) -> [usize; 5] {
        let (regions, queues) = (self.regions.len(), self.completions.len());
        [self.contexts.len(), self.domains.len(), regions, queues, self.pairs.len()]
    }

    /// Returns a number that no object has had.
    pub(super) fn handle(&mut self) -> u32 {
        self.created += 1;
        // Large numbers, so that no index is a valid key or handle by accident.
        0x1000 + self.created
    }

    /// Returns the device of a context.
    pub(super) fn device(&self, at: &Context) -> &Device {
        &self.machines[at.machine.me].0.devices[at.device]
    }

    /// Returns the queue pairs of a completion queue.
    pub(super) fn pairs_of(&self, queue: u32) -> impl Iterator<Item = u32> {
        let pairs = self.pairs.iter().filter(move |(_, pair)| pair.completions == queue);
        pairs.map(|(number, _)| *number)
    }

    pub(super) fn faults(&mut self, machine: usize) -> &mut Faults {
        &mut self.machines[machine].1
    }

    pub(super) fn violation<T>(&mut self, what: &str) -> Result<T, i32> {
        self.violations.push(what.into());
        Err(libc::EINVAL)
    }

    /// Records the violation `what` unless `is_right`.
    pub(super) fn check(&mut self, is_right: bool, what: &str) -> Result<(), i32> {
        if is_right { Ok(()) } else { self.violation(what) }
    }

    fn random(&mut self) -> Option<u64> {
        let state = self.random.as_mut()?;
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        Some(*state >> 33)
    }

    /// Adds a request to the send queue of queue pair `number`.
    pub(super) fn post(&mut self, number: u32, request: Request) -> Result<(), i32> {
        let Some(pair) = self.pairs.get(&number) else {
            return self.violation(&format!("post to queue pair {number}, which is gone"));
        };
        let (state, machine) = (pair.state, pair.machine);
        let full = pair.outstanding == pair.capacity;
        if !matches!(state, IBV_QPS_RTS | IBV_QPS_ERR) {
            return self.violation(&format!("post to queue pair {number} in state {state}"));
        }
        if let Some(errno) = self.faults(machine).post() {
            return Err(errno);
        }
        if full {
            return Err(libc::ENOMEM);
        }
        if let Some(seen) = &mut self.seen {
            seen.push(request.seen);
        }
        if let Some(pair) = self.pairs.get_mut(&number) {
            pair.outstanding += 1;
            pair.waiting.push_back(request);
        }
        if self.random.is_none() {
            self.advance(number, false);
        }
        Ok(())
    }

    /// Executes requests of a completion queue's queue pairs before a poll.
    pub(super) fn work(&mut self, queue: u32) {
        let count = self.pairs_of(queue).count();
        for turn in 0..count {
            let place = match self.random() {
                Some(dice) if dice.is_multiple_of(4) => continue,
                Some(dice) => usize::try_from(dice / 4).unwrap_or(0) % count,
                None => turn,
            };
            let pair = self.pairs_of(queue).nth(place);
            pair.into_iter().for_each(|number| self.advance(number, true));
        }
    }

    /// Executes the waiting requests of a queue pair; on a lazy fabric, a random number of them.
    fn advance(&mut self, number: u32, polled: bool) {
        loop {
            if self.random().is_some_and(|dice| dice.is_multiple_of(3)) {
                return;
            }
            let Some(pair) = self.pairs.get(&number) else { return };
            let Some(&request) = pair.waiting.front() else { return };
            let flushed = pair.state == IBV_QPS_ERR;
            let done = match flushed {
                true => Err(IBV_WC_WR_FLUSH_ERR),
                false if !self.peer_answers(number) => match self.try_again(number, polled) {
                    true => return,
                    false => Err(IBV_WC_RETRY_EXC_ERR),
                },
                false => self.carry_out(number, &request),
            };
            self.complete(number, &request, done);
        }
    }

    fn peer_answers(&self, number: u32) -> bool {
        let Some(pair) = self.pairs.get(&number) else { return false };
        let Some(peer) = self.pairs.get(&pair.attr.dest_qp_num) else { return false };
        let cut_off = self.machines[peer.machine].1.cut_off;
        !cut_off && pair.reaches(peer, &self.machines[peer.machine].0.devices[peer.device])
    }

    fn try_again(&mut self, number: u32, polled: bool) -> bool {
        let Some(pair) = self.pairs.get_mut(&number) else { return false };
        pair.tries += u32::from(polled);
        pair.tries < TRIES
    }

    /// Completes the oldest request of a queue pair.
    fn complete(&mut self, number: u32, request: &Request, done: Result<(), ibv_wc_status>) {
        let Some(pair) = self.pairs.get_mut(&number) else { return };
        pair.waiting.pop_front();
        pair.tries = 0;
        pair.silent += 1;
        if done.is_err() {
            pair.state = IBV_QPS_ERR;
        }
        if done.is_ok() && request.seen.flags & IBV_SEND_SIGNALED == 0 {
            return;
        }
        let places = core::mem::take(&mut pair.silent);
        let status = done.err().unwrap_or(IBV_WC_SUCCESS);
        let completion = Completion { id: request.seen.id, status, pair: number, places };
        let queue = pair.completions;
        let Some(queue) = self.completions.get_mut(&queue) else { return };
        if queue.entries.len() == queue.capacity {
            queue.overrun = true;
            self.violations.push(format!("completion queue of pair {number} overrun"));
            return;
        }
        queue.entries.push_back(completion);
    }

    /// Removes the oldest completion of a completion queue and returns it.
    pub(super) fn take_completion(&mut self, queue: u32) -> Option<Completion> {
        let queue = self.completions.get_mut(&queue)?;
        let machine = &mut self.machines[queue.machine].1;
        if machine.twice && !queue.entries.is_empty() {
            machine.twice = false;
            return queue.entries.front().copied();
        }
        let completion = queue.entries.pop_front()?;
        let of_this = |(machine, ..): &mut (usize, _, _)| *machine == queue.machine;
        for (_, at, old) in self.written_back.extract_if(.., of_this) {
            put(at, old);
        }
        if let Some(pair) = self.pairs.get_mut(&completion.pair) {
            pair.outstanding -= completion.places;
        }
        Some(completion)
    }

    fn carry_out(&mut self, number: u32, request: &Request) -> Result<(), ibv_wc_status> {
        let Some(pair) = self.pairs.get(&number) else { return Err(IBV_WC_GENERAL_ERR) };
        let (machine, domain, answers) = (pair.machine, pair.domain, pair.attr.dest_qp_num);
        let asked = pair.attr.max_rd_atomic;
        if let Some(status) = self.faults(machine).status() {
            return Err(status);
        }
        let seen = &request.seen;
        let (address, bytes, key) = seen.local;
        let words = usize::try_from(bytes / 8).unwrap_or(0);
        let (landing, from_us, right) = match seen.opcode {
            IBV_WR_RDMA_READ => (true, false, IBV_ACCESS_REMOTE_READ),
            IBV_WR_RDMA_WRITE => (false, true, IBV_ACCESS_REMOTE_WRITE),
            _ => (true, false, IBV_ACCESS_REMOTE_ATOMIC),
        };
        let access = if landing { IBV_ACCESS_LOCAL_WRITE } else { 0 };
        let local = match request.carried {
            Some(_) => None,
            None => {
                let range = self.range(key, domain, address, bytes.into(), access);
                Some(range.ok_or(IBV_WC_LOC_PROT_ERR)?)
            }
        };
        let atomic = right == IBV_ACCESS_REMOTE_ATOMIC;
        if atomic && (bytes != 8 || !seen.remote.0.is_multiple_of(8)) {
            return Err(IBV_WC_REM_INV_REQ_ERR);
        }
        let remote = self.remote(answers, seen, right);
        let fits = |pair: &Pair| from_us || asked <= pair.attr.max_dest_rd_atomic;
        if !self.pairs.get(&answers).is_some_and(fits) {
            return Err(IBV_WC_REM_INV_REQ_ERR);
        }
        let Some(remote) = remote else {
            // The queue pair of a responder that refuses an access enters the error state too
            // (InfiniBand specification, 9.9.3).
            if let Some(pair) = self.pairs.get_mut(&answers) {
                pair.state = IBV_QPS_ERR;
            }
            return Err(IBV_WC_REM_ACCESS_ERR);
        };
        match local {
            None => write_carried(request, remote, words),
            Some(local) if seen.opcode == IBV_WR_RDMA_READ => copy(remote, local, words),
            Some(local) if from_us => copy(local, remote, words),
            Some(local) => {
                let kind = self.faults(machine).atomics;
                let old = atomic_of(kind, remote, seen);
                put(local, old);
                let failed = seen.opcode == IBV_WR_ATOMIC_CMP_AND_SWP && old != seen.operands.0;
                if kind == Atomics::WriteBack && failed {
                    self.written_back.push((machine, remote, old));
                }
            }
        }
        Ok(())
    }

    /// Returns the remote range of a request; `None` if queue pair `answers` or the region does not
    /// permit the access `right`.
    fn remote(&self, answers: u32, seen: &Seen, right: u32) -> Option<*const AtomicU64> {
        let pair = self.pairs.get(&answers)?;
        if pair.attr.qp_access_flags & right == 0 {
            return None;
        }
        let (address, key) = seen.remote;
        self.range(key, pair.domain, address, seen.local.1.into(), right)
    }

    /// Returns the words of a registered range. They stay registered while the lock is held.
    fn range(
        &self,
        key: u32,
        domain: u32,
        address: u64,
        bytes: u64,
        access: u32,
    ) -> Option<*const AtomicU64> {
        let region = self.regions.get(&key)?;
        let end = address.checked_add(bytes)?;
        let inside = region.address <= address && end <= region.address + region.bytes;
        let open = region.access & access == access && domain == region.domain;
        if !inside || !open || !address.is_multiple_of(8) {
            return None;
        }
        Some(ptr::with_exposed_provenance(usize::try_from(address).ok()?))
    }
}

fn word(base: *const AtomicU64, index: usize) -> &'static AtomicU64 {
    // SAFETY: `range` returned `base`, and callers stay within its range. Registered words are
    // atomics that stay mapped until they are deregistered, which takes the lock.
    unsafe { &*base.add(index) }
}

fn put(to: *const AtomicU64, value: u64) {
    word(to, 0).store(value, Release);
}

fn copy(from: *const AtomicU64, to: *const AtomicU64, words: usize) {
    for index in 0..words {
        word(to, index).store(word(from, index).load(Acquire), Release);
    }
}

fn write_carried(request: &Request, to: *const AtomicU64, words: usize) {
    let carried = request.carried.unwrap_or([0; INLINE_WORDS]);
    for (index, value) in carried.into_iter().take(words).enumerate() {
        word(to, index).store(value, Release);
    }
}

/// Executes an atomic on a word, and returns the old value.
fn atomic_of(kind: Atomics, at: *const AtomicU64, seen: &Seen) -> u64 {
    let word = word(at, 0);
    let (first, second) = seen.operands;
    let add = seen.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    let turn = |value: u64| if kind == Atomics::Swapped { value.swap_bytes() } else { value };
    let change = |old: u64| match kind {
        Atomics::Idle => None,
        Atomics::Wrong if add => Some(old.wrapping_add(first).wrapping_add(1)),
        _ if add => Some(turn(turn(old).wrapping_add(first))),
        _ => (turn(old) == first).then(|| turn(second)),
    };
    let old = word.fetch_update(AcqRel, Acquire, change);
    turn(old.unwrap_or_else(|old| old))
}
