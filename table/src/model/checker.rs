//! The search through all worlds that the clients and the network can produce.

use core::hash::{Hash, Hasher};
use std::collections::HashMap;
use std::rc::Rc;

use probeline_pipeline::Tag;
use probeline_pipeline::model::{
    Action, Effect, Explored, Posted, Stopped, combinations, fingerprint, torn,
};
use probeline_transport::OpError;

use super::subject::{Driven, Narrow, Subject};
use super::{KEYS, MOST_CLIENTS, Memory, Mutant, Request, Scenario, Verdict, Wire};
use crate::error::OperationError;
use crate::outcome::Ended as Outcome;
use crate::set::Finished;

#[derive(Clone)]
struct World<S: Subject> {
    memory: Memory,
    /// Clients, shared between worlds until they change.
    clients: [Option<Rc<Client<S>>>; MOST_CLIENTS],
    /// Claims and WRITEs reported as failed that may still take effect, in order.
    late: Vec<Effect>,
    failures: u8,
    inserted: [u8; KEYS.len()],
    cleared: bool,
}

impl<S: Subject> Hash for World<S> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (&self.memory, &self.clients, &self.late).hash(hasher);
        (self.failures, self.inserted, self.cleared).hash(hasher);
    }
}

#[derive(Clone)]
struct Client<S: Subject> {
    /// Hash of the other fields.
    fingerprint: u128,
    driven: Driven<S>,
    /// Number of requests completed so far.
    done: u8,
    running: bool,
    /// Whether the key was in the table when the request started.
    present: bool,
}

impl<S: Subject> Hash for Client<S> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.fingerprint.hash(hasher);
    }
}

pub(super) struct Checker<'a, S> {
    scenario: &'a Scenario,
    subject: S,
    /// Number of executions from each visited world on, keyed by its fingerprint.
    paths: HashMap<u128, f64>,
    /// Moves that it may still make.
    left: usize,
}

impl<'a> Checker<'a, Narrow> {
    /// Returns the number of states and executions of a scenario with narrow keys.
    pub(super) fn check(scenario: &'a Scenario) -> Result<Explored, Stopped> {
        Self::check_subject(scenario, Narrow)
    }
}

impl<'a, S: Subject> Checker<'a, S> {
    /// Returns the number of states and executions of a scenario.
    pub(super) fn check_subject(scenario: &'a Scenario, subject: S) -> Result<Explored, Stopped> {
        Self::check_within(scenario, subject, usize::MAX)
    }

    /// As [`check_subject`](Self::check_subject), with at most this number of moves.
    pub(super) fn check_within(
        scenario: &'a Scenario,
        subject: S,
        max_moves: usize,
    ) -> Result<Explored, Stopped> {
        let client = |who| {
            (who < scenario.scripts.len()).then(|| {
                let driven = subject.drive(scenario, who);
                let fingerprint = fingerprint(&driven);
                Rc::new(Client { fingerprint, driven, done: 0, running: false, present: false })
            })
        };
        let start = World {
            memory: scenario.empty_table(),
            clients: core::array::from_fn(client),
            late: Vec::new(),
            failures: scenario.failures,
            inserted: [0; KEYS.len()],
            cleared: false,
        };
        let mut checker = Self { scenario, subject, paths: HashMap::new(), left: max_moves };
        let executions = checker.explore(&start)?;
        Ok((checker.paths.len(), executions))
    }

    /// Returns the number of executions from this world on; 1 if nothing more can happen.
    fn explore(&mut self, world: &World<S>) -> Result<f64, Stopped> {
        let fingerprint = fingerprint(world);
        if let Some(&paths) = self.paths.get(&fingerprint) {
            return Ok(paths);
        }
        self.subject.check_memory(self.scenario, &world.memory)?;
        let mut next = Vec::new();
        for who in 0..self.scenario.scripts.len() {
            self.moves_of(world, who, &mut next)?;
        }
        for which in 0..world.late.len() {
            let mut after = world.clone();
            after.late.remove(which).apply(&mut after.memory);
            next.push(after);
        }
        if next.is_empty() {
            self.check_end(world)?;
            if self.scenario.clears && !world.cleared {
                next.push(self.clear(world));
            }
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

    /// Clears the table, as all clients do between two barriers.
    fn clear(&self, world: &World<S>) -> World<S> {
        let mut after = world.clone();
        after.memory = self.scenario.empty_table();
        after.inserted = [0; KEYS.len()];
        after.cleared = true;
        for who in 0..self.scenario.scripts.len() {
            let client = after.client(who);
            client.done = 0;
            if self.scenario.mutant != Mutant::KeepsCache {
                self.subject.forget(client.driven.shared_mut());
            }
            after.seal(who);
        }
        after
    }

    fn moves_of(&self, world: &World<S>, who: usize, next: &mut Vec<World<S>>) -> Verdict {
        let Some(client) = &world.clients[who] else { return Ok(()) };
        let ended: u8 = world.clients.iter().flatten().map(|client| client.done).sum();
        let may_start = !client.running && ended >= self.scenario.starts[who];
        if may_start && usize::from(client.done) < self.scenario.scripts[who].len() {
            let mut after = world.clone();
            if self.start(&mut after, who)? {
                after.seal(who);
                next.push(after);
            }
        }
        // A walk along lines that the CPU can address waits for no completion.
        if client.running && client.driven.transport().posted().next().is_none() {
            let mut after = world.clone();
            self.poll(&mut after, who)?;
            after.seal(who);
            if fingerprint(&after) == fingerprint(world) {
                return Err(format!("client {who} waits for nothing"));
            }
            next.push(after);
        }
        for (nth, posted) in client.driven.transport().posted() {
            self.moves_of_posted(world, who, nth, posted, next)?;
        }
        Ok(())
    }

    fn moves_of_posted(
        &self,
        world: &World<S>,
        who: usize,
        nth: usize,
        Posted { action, request, .. }: Posted,
        next: &mut Vec<World<S>>,
    ) -> Verdict {
        // A completion makes the client poll; an atomic that only takes effect does not.
        let mut go = |completes: bool, change: &dyn Fn(&mut World<S>)| {
            let mut after = world.clone();
            change(&mut after);
            if completes {
                self.poll(&mut after, who)?;
            }
            after.seal(who);
            next.push(after);
            Ok(())
        };
        let Some(client) = &world.clients[who] else { return Ok(()) };
        let wire = client.driven.transport();
        let wanted = client.running && wire.request == request;
        let may_fail = wanted && world.failures > 0;
        match action {
            Action::Read { from, first, .. } => {
                let start = wire.index(from.start);
                let buckets = start..start + from.words as usize;
                let all = if wanted && start >= self.scenario.buckets {
                    self.brought_of_entry(world, buckets, &first)
                } else if wanted {
                    self.scenario.brought(&world.memory, buckets, &first)
                } else {
                    // The operation is done, so no code reads these words.
                    vec![vec![0; from.words as usize]]
                };
                all.iter()
                    .try_for_each(|words| go(true, &|after| after.wire(who).bring(nth, words)))
            }
            Action::CompareAndSwap { at, .. } | Action::FetchAdd { at, .. } => {
                let is_claim = matches!(action, Action::CompareAndSwap { expected: 0, .. });
                assert!(is_claim || matches!(action, Action::FetchAdd { .. }), "an atomic");
                let effect = Effect::of(action);
                go(false, &|after| {
                    let old = after.memory[at];
                    if let Some(effect) = effect {
                        effect.apply(&mut after.memory);
                    }
                    after.wire(who).set_answer(nth, old);
                })?;
                if may_fail {
                    go(true, &|after| after.fail(who, nth, effect))?;
                }
                Ok(())
            }
            Action::Write { .. } => {
                let Some(write) = Effect::of(action) else { return Ok(()) };
                go(true, &|after| {
                    write.apply(&mut after.memory);
                    after.wire(who).complete(nth, Ok(0));
                })?;
                if may_fail {
                    go(true, &|after| after.fail(who, nth, Some(write)))?;
                }
                Ok(())
            }
            Action::Answer { old } => {
                let lies = self.scenario.mutant == Mutant::MisreportsClaims;
                let old = if lies { 0 } else { old };
                go(true, &|after| after.wire(who).complete(nth, Ok(old)))?;
                if may_fail {
                    go(true, &|after| after.fail(who, nth, None))?;
                }
                Ok(())
            }
        }
    }

    /// Returns every result of a READ of an entry's words that is possible now; `first` are their
    /// values at the post.
    fn brought_of_entry(
        &self,
        world: &World<S>,
        words: core::ops::Range<usize>,
        first: &[u64],
    ) -> Vec<Vec<u64>> {
        let mut writes: Vec<Effect> = world.late.clone();
        for client in world.clients.iter().flatten() {
            let posted = client.driven.transport().posted();
            writes.extend(posted.filter_map(|(_, posted)| Effect::of(posted.action)));
        }
        combinations(words.zip(first).map(|(at, first)| {
            let mut values = vec![*first, world.memory[at]];
            values.extend(writes.iter().filter_map(|write| write.writes(at)));
            if self.scenario.words_tear {
                return torn(&values, &[0xff, !0xff]);
            }
            values.sort_unstable();
            values.dedup();
            values
        }))
    }

    fn request(&self, client: &Client<S>, who: usize) -> Request {
        self.scenario.scripts[who][usize::from(client.done)]
    }

    /// Starts a client's next request. Returns false while its storage drains.
    fn start(&self, world: &mut World<S>, who: usize) -> Result<bool, String> {
        let memory = world.memory;
        let client = world.client(who);
        let request = self.scenario.scripts[who][usize::from(client.done)];
        let shared = client.driven.shared();
        let operation = self.subject.operation(self.scenario, who, request, shared);
        let wire = client.driven.transport_mut();
        wire.set_memory(&memory);
        wire.request = wire.request.wrapping_add(1);
        match client.driven.submit(Tag(u64::from(client.done)), operation) {
            Ok(()) => {}
            Err(OperationError::Busy) => return Ok(false),
            Err(error) => return Err(error.to_string()),
        }
        client.running = true;
        client.present = self.subject.is_there(self.scenario, &memory, request.key);
        self.poll(world, who)?;
        Ok(true)
    }

    /// Polls a client's pipeline, which handles the completion that its transport has.
    fn poll(&self, world: &mut World<S>, who: usize) -> Verdict {
        let memory = world.memory;
        let client = world.client(who);
        client.driven.transport_mut().set_memory(&memory);
        let mut out = [Finished::default(); 2];
        let ended = client.driven.poll_into(&mut out).map_err(|error| error.to_string())?;
        let ended = match ended {
            [] => None,
            [end] if client.running && end.tag == Tag(u64::from(client.done)) => Some(end.result),
            _ => return Err(format!("client {who}: reported {ended:?}")),
        };
        world.memory = client.driven.transport().memory();
        let Some(result) = ended else { return Ok(()) };
        match result {
            Ok(outcome) => {
                self.check_outcome(world, who, outcome)?;
                world.client(who).done += 1;
            }
            // The client repeats the request.
            Err(OperationError::Failed(_)) => {}
            Err(error) => return Err(format!("client {who}: {error}")),
        }
        let client = world.client(who);
        (client.running, client.present) = (false, false);
        if self.scenario.storage == 1 {
            self.drain(world, who)?;
        }
        world.client(who).driven.transport_mut().clear_idle_slots();
        Ok(())
    }

    /// Completes at once everything that an operation has left in flight. Only the next request of
    /// the same client could observe it, and the checker chooses when that request starts. A claim
    /// may still take effect later.
    fn drain(&self, world: &mut World<S>, who: usize) -> Verdict {
        let client = world.client(who);
        let posted: Vec<_> = client.driven.transport().posted().collect();
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

    fn check_outcome(&self, world: &mut World<S>, who: usize, outcome: Outcome) -> Verdict {
        let Some(client) = &world.clients[who] else { return Ok(()) };
        let key = self.request(client, who).key;
        let is_there = self.subject.is_there(self.scenario, &world.memory, key);
        let right = match outcome {
            // The key is present at the completion: the linearization point.
            Outcome::Found => is_there,
            // The key is absent at the start: the linearization point.
            Outcome::Full | Outcome::Absent => !client.present,
            // Its own claim inserted the key after the start.
            Outcome::Inserted => is_there && !client.present,
        };
        if !right {
            return Err(format!("client {who}: key {key} {outcome:?}, memory {:x?}", world.memory));
        }
        if outcome == Outcome::Inserted {
            world.inserted[key] += 1;
            if world.inserted[key] > 1 {
                return Err(format!("key {key} was inserted twice"));
            }
        }
        Ok(())
    }

    fn check_end(&self, world: &World<S>) -> Verdict {
        for (who, client) in world.clients.iter().enumerate() {
            let Some(client) = client else { continue };
            if usize::from(client.done) != self.scenario.scripts[who].len() {
                return Err(format!("client {who} is stuck"));
            }
            if client.driven.clone().quiesce().is_err() || client.driven.in_flight() > 0 {
                return Err(format!("client {who} is not at rest"));
            }
        }
        for (key, &count) in world.inserted.iter().enumerate() {
            let is_there = self.subject.is_there(self.scenario, &world.memory, key);
            if count > 0 && !is_there {
                return Err(format!("key {key} was inserted and is lost"));
            }
            // A failed operation may have inserted it.
            if is_there && count == 0 && world.failures == self.scenario.failures {
                return Err(format!("key {key} is there, and no client reported it"));
            }
        }
        Ok(())
    }
}

impl<S: Subject> World<S> {
    fn client(&mut self, who: usize) -> &mut Client<S> {
        Rc::make_mut(self.clients[who].as_mut().expect("a client with a script"))
    }

    fn wire(&mut self, who: usize) -> &mut Wire {
        self.client(who).driven.transport_mut()
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
        let state = (&client.driven, client.done, client.running, client.present);
        client.fingerprint = fingerprint(&state);
    }
}
