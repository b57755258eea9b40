//! The search through all worlds that the clients and the network can produce.

use core::hash::{Hash, Hasher};
use std::collections::HashMap;
use std::rc::Rc;

use probeline_pipeline::model::{
    Action, Effect, Explored, Posted, Stopped, combinations, fingerprint, torn,
};
use probeline_pipeline::{Error, Tag};
use probeline_transport::OpError;

use super::{
    Act, Driven, MAX_CLIENTS, MAX_REQUESTS, Memory, Scenario, Verdict, WORDS, Wire, value_of,
};
use crate::machine::Access;
use crate::map::Finished;
use crate::mode::Mode;
use crate::outcome::{Outcome, Written};

/// A set of requests, one bit each.
type Set = u8;

#[derive(Clone)]
struct World {
    memory: Memory,
    /// Clients, shared between worlds until they change.
    clients: [Option<Rc<Client>>; MAX_CLIENTS],
    /// Atomics and WRITEs reported as failed that may still take effect, in order.
    late: Vec<Effect>,
    failures: u8,
    /// Requests that have started; those that have stored or removed; those that failed; those
    /// that will never have an effect.
    started: Set,
    stored: Set,
    failed: Set,
    void: Set,
    /// Puts whose values must not be read by a get that starts now: a later put or remove of the
    /// key has ended.
    superseded: Set,
    /// Puts whose values a replacement has overwritten.
    replaced: Set,
}

impl Hash for World {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (&self.memory, &self.clients, &self.late).hash(hasher);
        let sets =
            (self.started, self.stored, self.failed, self.void, self.superseded, self.replaced);
        (self.failures, sets).hash(hasher);
    }
}

#[derive(Clone)]
struct Client {
    /// Hash of the other fields.
    fingerprint: u128,
    driven: Driven,
    /// Number of requests completed so far.
    done: u8,
    running: bool,
    /// What was superseded, and what was stored, when the request started.
    stale: Set,
    before: Set,
}

impl Hash for Client {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.fingerprint.hash(hasher);
    }
}

/// The byte at which a word of a key or a value tears.
const TORN_BYTE: u64 = 0xff << 24;

pub(super) struct Checker<'a> {
    scenario: &'a Scenario,
    keys: Vec<u64>,
    /// Number of executions from each visited world on, keyed by its fingerprint.
    paths: HashMap<u128, f64>,
    /// Moves that it may still make.
    left: usize,
}

impl<'a> Checker<'a> {
    /// Returns the number of states and executions of a scenario.
    pub(super) fn check(scenario: &'a Scenario) -> Result<Explored, Stopped> {
        Self::check_within(scenario, usize::MAX)
    }

    /// As [`check`](Self::check), with at most this number of moves.
    pub(super) fn check_within(
        scenario: &'a Scenario,
        max_moves: usize,
    ) -> Result<Explored, Stopped> {
        assert!(scenario.scripts.concat().len() <= MAX_REQUESTS);
        let client = |who| {
            (who < scenario.scripts.len()).then(|| {
                let driven = scenario.drive(who);
                let (fingerprint, running) = (fingerprint(&driven), false);
                Rc::new(Client { fingerprint, driven, done: 0, running, stale: 0, before: 0 })
            })
        };
        let start = World {
            memory: [0; WORDS],
            clients: core::array::from_fn(client),
            late: Vec::new(),
            failures: scenario.failures,
            started: 0,
            stored: 0,
            failed: 0,
            void: 0,
            superseded: 0,
            replaced: 0,
        };
        let (keys, paths) = (scenario.keys(), HashMap::new());
        let mut checker = Self { scenario, keys, paths, left: max_moves };
        let executions = checker.explore(&start)?;
        Ok((checker.paths.len(), executions))
    }

    /// Returns the number of executions from this world on; 1 if nothing more can happen.
    fn explore(&mut self, world: &World) -> Result<f64, Stopped> {
        let fingerprint = fingerprint(world);
        if let Some(&paths) = self.paths.get(&fingerprint) {
            return Ok(paths);
        }
        self.check_memory(world)?;
        let mut next = Vec::new();
        for who in 0..self.scenario.scripts.len() {
            self.moves_of(world, who, &mut next)?;
        }
        for which in 0..world.late.len() {
            let mut after = world.clone();
            let late = after.late.remove(which);
            after.apply(late);
            next.push(after);
        }
        if next.is_empty() {
            self.check_end(world)?;
        }
        // In no order, so that a search that is abandoned has not seen one kind of move only.
        let moves = next.len();
        next.rotate_left(fingerprint as usize % moves.max(1));
        self.left = self.left.checked_sub(moves).ok_or(Stopped::Bound)?;
        let mut paths = if next.is_empty() { 1.0 } else { 0.0 };
        for after in &next {
            paths += self.explore(after)?;
        }
        self.paths.insert(fingerprint, paths);
        Ok(paths)
    }

    fn moves_of(&self, world: &World, who: usize, next: &mut Vec<World>) -> Verdict {
        let Some(client) = &world.clients[who] else { return Ok(()) };
        let ended: u8 = world.clients.iter().flatten().map(|client| client.done).sum();
        let may_start = !client.running && ended >= self.scenario.starts[who];
        if may_start && usize::from(client.done) < self.scenario.scripts[who].len() {
            let mut after = world.clone();
            self.start(&mut after, who)?;
            after.seal(who);
            next.push(after);
        }
        if client.running && client.driven.transport().posted().next().is_none() {
            return Err(format!("client {who} waits for nothing"));
        }
        for (nth, posted) in client.driven.transport().posted() {
            self.moves_of_posted(world, who, nth, &posted, next)?;
        }
        Ok(())
    }

    fn moves_of_posted(
        &self,
        world: &World,
        who: usize,
        nth: usize,
        posted: &Posted,
        next: &mut Vec<World>,
    ) -> Verdict {
        // A completion makes the client poll; an atomic that only takes effect does not.
        let mut go = |completes: bool, change: &dyn Fn(&mut World)| {
            let mut after = world.clone();
            change(&mut after);
            if completes {
                self.poll(&mut after, who)?;
            }
            after.seal(who);
            next.push(after);
            Ok::<(), String>(())
        };
        let Some(client) = &world.clients[who] else { return Ok(()) };
        let is_writing = |(_, posted): (_, Posted)| matches!(posted.action, Action::Write { .. });
        let must_wait = self.scenario.ordered && client.driven.transport().posted().any(is_writing);
        let may_fail = world.failures > 0;
        match posted.action {
            Action::Read { .. } => {
                for words in self.brought(world, posted) {
                    go(true, &|after| after.wire(who).bring(nth, &words))?;
                }
            }
            Action::CompareAndSwap { at, .. } | Action::FetchAdd { at, .. } => {
                if must_wait {
                    return Ok(());
                }
                go(false, &|after| {
                    let old = after.memory[at];
                    if let Some(effect) = Effect::of(posted.action) {
                        after.apply(effect);
                    }
                    after.wire(who).set_answer(nth, old);
                })?;
                if let (true, Some(late)) = (may_fail, Effect::of(posted.action)) {
                    go(true, &|after| after.fail(who, nth, Some(late)))?;
                }
            }
            Action::Write { .. } => {
                let Some(late) = Effect::of(posted.action) else { return Ok(()) };
                go(true, &|after| {
                    after.apply(late);
                    after.wire(who).complete(nth, Ok(0));
                })?;
                if may_fail {
                    go(true, &|after| after.fail(who, nth, Some(late)))?;
                }
            }
            Action::Answer { old } => {
                go(true, &|after| after.wire(who).complete(nth, Ok(old)))?;
                if may_fail {
                    go(true, &|after| after.fail(who, nth, None))?;
                }
            }
        }
        Ok(())
    }

    /// Returns every result of a READ that is possible now.
    fn brought(&self, world: &World, posted: &Posted) -> Vec<Vec<u64>> {
        let Action::Read { from, first, .. } = posted.action else { return Vec::new() };
        let mut writes = world.late.clone();
        for client in world.clients.iter().flatten() {
            let posted = client.driven.transport().posted();
            writes.extend(posted.filter_map(|(_, posted)| Effect::of(posted.action)));
        }
        combinations((0..from.words as usize).zip(first).map(|(nth, first)| {
            let at = from.start.index as usize + nth;
            let mut values = vec![first, world.memory[at]];
            let later = posted.later.iter().filter(|(word, _)| usize::from(*word) == nth);
            values.extend(later.map(|(_, value)| *value));
            values.extend(writes.iter().filter_map(|write| write.writes(at)));
            values.sort_unstable();
            values.dedup();
            match (self.scenario.tears, nth) {
                ([], _) => values,
                (parts, 0) => torn(&values, parts),
                // No check matches a torn word of a key or a value, so one stands for all.
                (_, _) if values.len() > 1 => {
                    values.push(values[0] ^ (values[0] ^ values[1]) & TORN_BYTE);
                    values
                }
                (_, _) => values,
            }
        }))
    }

    fn number(&self, client: &Client, who: usize) -> usize {
        self.scenario.number(who, usize::from(client.done))
    }

    /// Starts a client's next request.
    fn start(&self, world: &mut World, who: usize) -> Verdict {
        let (memory, superseded, stored) = (world.memory, world.superseded, world.stored);
        let client = world.client(who);
        let number = self.number(client, who);
        let act = self.scenario.act(number);
        let mut operation = Access::new(&self.keys[act.key()], act.request(number));
        operation.progress.mutant = self.scenario.mutant;
        (client.stale, client.before, client.running) = (superseded, stored, true);
        let wire = client.driven.transport_mut();
        wire.set_memory(&memory);
        wire.request = wire.request.wrapping_add(1);
        let tag = Tag(number as u64);
        client.driven.submit(tag, operation).map_err(|error| error.to_string())?;
        world.started |= 1 << number;
        self.poll(world, who)
    }

    /// Polls a client's pipeline, which handles the completion that its transport has.
    fn poll(&self, world: &mut World, who: usize) -> Verdict {
        let memory = world.memory;
        let client = world.client(who);
        let number = self.number(client, who);
        client.driven.transport_mut().set_memory(&memory);
        let mut out = [Finished::default(); 2];
        let ended = client.driven.poll_into(&mut out).map_err(|error| error.to_string())?;
        let result = match ended {
            [] => return Ok(()),
            [end] if client.running && end.tag == Tag(number as u64) => end.result,
            _ => return Err(format!("client {who}: reported {ended:?}")),
        };
        match result {
            Ok(outcome) => self.check_outcome(world, who, number, outcome)?,
            Err(Error::Failed(_)) => world.failed |= 1 << number,
            Err(error) => return Err(format!("client {who}: {error}")),
        }
        let client = world.client(who);
        (client.running, client.stale, client.before) = (false, 0, 0);
        client.done += 1;
        self.check_stats(world, who)?;
        self.drain(world, who)?;
        world.client(who).driven.transport_mut().clear_idle_slots();
        Ok(())
    }

    /// Completes what a failed request has left in flight. Its effects may still come.
    fn drain(&self, world: &mut World, who: usize) -> Verdict {
        let posted: Vec<_> = world.client(who).driven.transport().posted().collect();
        for (nth, posted) in posted {
            if let Some(late) = Effect::of(posted.action) {
                world.come_late(late);
            }
            let client = world.client(who);
            client.driven.transport_mut().complete(nth, Ok(0));
            let ended = client.driven.poll_into(&mut []).map(<[_]>::len);
            if ended != Ok(0) {
                return Err(format!("client {who}: a late completion is reported: {ended:?}"));
            }
        }
        Ok(())
    }

    fn check_outcome(
        &self,
        world: &mut World,
        who: usize,
        number: usize,
        outcome: Outcome<u64>,
    ) -> Verdict {
        let Some(client) = &world.clients[who] else { return Ok(()) };
        // Without a lock, a key may be in two buckets.
        let may_be_stale = self.scenario.mode == Mode::Unlocked;
        let (gone, before) = (world.void | client.stale, client.before);
        let act = self.scenario.act(number);
        match outcome {
            Outcome::Hit(value) => {
                let Some(put) = (0..MAX_REQUESTS).find(|put| value_of(*put) == value) else {
                    return Err(format!("client {who}: a hit of {value:#x}, which nobody has put"));
                };
                if world.started >> put & 1 == 0 || self.key_of(put) != self.key_of(number) {
                    return Err(format!("client {who}: a hit of the value of another key, {put}"));
                }
                if !may_be_stale && gone >> put & 1 == 1 {
                    return Err(format!("client {who}: a hit of the stale value of request {put}"));
                }
                // The put has taken effect, even if it has not ended.
                let writer = world.clients.iter().enumerate().find_map(|(who, client)| {
                    let client = client.as_ref().filter(|client| client.running)?;
                    (self.number(client, who) == put).then_some(client.before)
                });
                world.superseded |= self.with_key(writer.unwrap_or_default(), number);
            }
            Outcome::Written(written) => {
                let needs_key =
                    matches!(written, Written::Present | Written::Updated | Written::Removed);
                let puts = self.with_key(world.started & !gone & !(1 << number), number);
                let is_put = |put| !matches!(self.scenario.act(put), Act::Get(_) | Act::Remove(_));
                let may_be_there = (0..MAX_REQUESTS).any(|put| puts >> put & 1 == 1 && is_put(put));
                if needs_key && !may_be_there && !may_be_stale {
                    return Err(format!("client {who}: {written:?}, but the key is not there"));
                }
                let is_removed = (0..MAX_REQUESTS).filter(|other| *other != number).any(|other| {
                    let act = Act::Remove(act.key());
                    world.started >> other & 1 == 1 && self.scenario.act(other) == act
                });
                let was_there = self.scenario.keeps && self.with_key(before, number) != 0;
                if written == Written::Absent && was_there && !is_removed {
                    return Err(format!(
                        "client {who}: absent, but the key was there all the time"
                    ));
                }
                let is_stored = matches!(
                    written,
                    Written::Inserted | Written::Updated | Written::Evicted | Written::Removed
                );
                if let Act::Replace(_, put) = act
                    && is_stored
                {
                    // A value that is gone cannot be replaced, and each one only once.
                    if !may_be_stale && (gone | world.replaced) >> put & 1 == 1 {
                        return Err(format!("client {who}: replaced the old value of {put}"));
                    }
                    world.replaced |= 1 << put;
                    world.superseded |= 1 << put;
                }
                match written {
                    Written::Inserted | Written::Updated | Written::Evicted | Written::Removed => {
                        world.superseded |= self.with_key(before, number);
                        world.stored |= 1 << number;
                    }
                    // READs beside a late WRITE may show it, and then the entry again.
                    Written::Absent if !self.scenario.has_late_writes() => {
                        world.superseded |= self.with_key(before, number);
                    }
                    Written::Absent => {}
                    Written::Present | Written::Dropped => world.void |= 1 << number,
                }
            }
            Outcome::Miss => {}
        }
        Ok(())
    }

    fn key_of(&self, number: usize) -> usize {
        self.scenario.act(number).key()
    }

    /// Returns those of these requests that have the same key as the one of this number.
    fn with_key(&self, set: Set, number: usize) -> Set {
        let same =
            |other: &usize| set >> other & 1 == 1 && self.key_of(*other) == self.key_of(number);
        (0..MAX_REQUESTS).filter(same).map(|other| 1 << other).sum()
    }

    fn check_stats(&self, world: &World, who: usize) -> Verdict {
        let Some(client) = &world.clients[who] else { return Ok(()) };
        let stats = &client.driven.shared().stats;
        let ends = stats.reads() + stats.writes() + stats.present + stats.removes + stats.absent;
        if ends + stats.failed == u64::from(client.done) {
            return Ok(());
        }
        Err(format!("client {who}: {} requests, and {stats:?}", client.done))
    }

    /// Checks that no key has two entries.
    fn check_memory(&self, world: &World) -> Verdict {
        for (key, word) in self.keys.iter().enumerate() {
            let entries = self.scenario.entries(&world.memory, *word);
            if entries.len() > 1 && self.scenario.mode != Mode::Unlocked {
                return Err(format!("key {key} has two entries: {entries:x?}"));
            }
        }
        Ok(())
    }

    fn check_end(&self, world: &World) -> Verdict {
        for (who, client) in world.clients.iter().enumerate() {
            let Some(client) = client else { continue };
            if usize::from(client.done) != self.scenario.scripts[who].len() {
                return Err(format!("client {who} is stuck"));
            }
            if client.driven.clone().quiesce().is_err() || client.driven.in_flight() > 0 {
                return Err(format!("client {who} is not at rest"));
            }
        }
        if world.failed == 0 && self.scenario.is_locked(&world.memory) {
            return Err(format!("a lock is held at the end: {:x?}", world.memory));
        }
        if !self.scenario.keeps || world.failed != 0 {
            return Ok(());
        }
        for (key, word) in self.keys.iter().enumerate() {
            let acts = (0..MAX_REQUESTS).filter(|number| world.stored >> number & 1 == 1);
            let mut acts = acts.map(|number| self.scenario.act(number));
            let is_removed = acts.clone().any(|act| act == Act::Remove(key));
            let is_put =
                acts.any(|act| matches!(act, Act::Put(of) | Act::PutIfAbsent(of) if of == key));
            if is_put && !is_removed && self.scenario.entries(&world.memory, *word).is_empty() {
                return Err(format!("key {key} was stored and is lost"));
            }
        }
        Ok(())
    }
}

impl World {
    fn client(&mut self, who: usize) -> &mut Client {
        Rc::make_mut(self.clients[who].as_mut().expect("a client with a script"))
    }

    fn wire(&mut self, who: usize) -> &mut Wire {
        self.client(who).driven.transport_mut()
    }

    /// Lets an operation take effect, and notes it for the READs in flight.
    fn apply(&mut self, effect: Effect) {
        for (at, word) in effect.stores(&self.memory) {
            self.store(at, word);
        }
    }

    fn store(&mut self, at: usize, word: u64) {
        if self.memory[at] == word {
            return;
        }
        self.memory[at] = word;
        for who in 0..MAX_CLIENTS {
            let Some(client) = &self.clients[who] else { continue };
            let is_read = |(_, posted): (_, Posted)| matches!(posted.action, Action::Read { .. });
            if client.driven.transport().posted().any(is_read) {
                self.wire(who).note(at, word);
                self.seal(who);
            }
        }
    }

    /// Completes a posted operation with an error.
    fn fail(&mut self, who: usize, nth: usize, late: Option<Effect>) {
        self.failures -= 1;
        if let Some(late) = late {
            self.come_late(late);
        }
        self.wire(who).complete(nth, Err(OpError::RetryExceeded));
    }

    fn come_late(&mut self, late: Effect) {
        self.late.push(late);
        self.late.sort_unstable();
    }

    /// Updates the hash of a client after a change.
    fn seal(&mut self, who: usize) {
        let client = self.client(who);
        let sets = (client.stale, client.before);
        let state = (&client.driven, client.done, client.running, sets);
        client.fingerprint = fingerprint(&state);
    }
}
