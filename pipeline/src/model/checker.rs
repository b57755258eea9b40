//! The search through all worlds that clients and a network can produce.
//!
//! An operation takes effect at any time between its post and its completion, and one reported as
//! failed takes effect later or never. A word of a READ may have any value that the word had between
//! post and completion, and any that a WRITE in flight or a late one gives it; if words may tear, also
//! mixtures of them. This covers READs that the network repeats, so that the time at which a READ
//! samples a word needs no event of its own. The checker stores visited worlds; the number of
//! executions is the number of paths through them.

use core::hash::BuildHasherDefault;
use std::collections::HashMap;
use std::rc::Rc;

use probeline_transport::Transport;

use super::effects::{Effect, combinations};
use super::fingerprint::{Fingerprint, fingerprint};
use super::random::{Explored, Stopped};
use super::scenario::{MAX_CLIENTS, Scenario, Turn, Verdict};
use super::wire::{Action, Posted, Wire};
use super::world::{Call, Client, World};
use crate::machine::Machine;
use crate::operation::{Finished, Tag};
use crate::sink::ResultOf;

/// The most polls of a blocking call.
const MAX_POLLS: usize = 200;
/// The room for moves from a world. Most worlds have fewer.
const USUAL_MOVES: usize = 16;

struct Checker<'a, S, const N: usize> {
    scenario: &'a S,
    /// Number of executions from each visited world on, keyed by its fingerprint.
    paths: HashMap<u128, f64, BuildHasherDefault<Fingerprint>>,
    /// Moves that it may still make.
    left: usize,
}

/// Visits all worlds of a scenario.
///
/// # Errors
/// The violated rule.
pub fn check<const N: usize, S: Scenario<N>>(scenario: &S) -> Result<Explored, Stopped> {
    check_within(scenario, usize::MAX)
}

/// Checks as [`check`], with at most this number of moves.
///
/// # Errors
/// The violated rule, or [`Stopped::Bound`].
pub fn check_within<const N: usize, S: Scenario<N>>(
    scenario: &S,
    max_moves: usize,
) -> Result<Explored, Stopped> {
    assert!(
        scenario.plan().scripts.len() <= MAX_CLIENTS,
        "a scenario has at most {MAX_CLIENTS} clients"
    );
    let client = |who| {
        (who < scenario.plan().scripts.len()).then(|| {
            let driven = scenario.client(who);
            Rc::new(Client { fingerprint: 0, driven, call: None, done: 0, running: false })
        })
    };
    let mut start = World {
        memory: scenario.memory(),
        clients: core::array::from_fn(client),
        late: Vec::new(),
        failures: scenario.plan().failures,
        history: S::History::default(),
    };
    (0..scenario.plan().scripts.len()).for_each(|who| start.seal(who));
    let mut checker = Checker { scenario, paths: HashMap::default(), left: max_moves };
    let executions = checker.explore(&start)?;
    Ok((checker.paths.len(), executions))
}

impl<S: Scenario<N>, const N: usize> Checker<'_, S, N> {
    /// Returns the number of executions from this world on; 1 if nothing more can happen.
    fn explore(&mut self, world: &World<S, N>) -> Result<f64, Stopped> {
        let fingerprint = fingerprint(world);
        if let Some(&paths) = self.paths.get(&fingerprint) {
            return Ok(paths);
        }
        self.scenario.check_memory(&world.memory)?;
        let mut next = Vec::with_capacity(USUAL_MOVES);
        for who in 0..self.scenario.plan().scripts.len() {
            self.moves_of(world, who, &mut next)
                .map_err(|violation| format!("client {who}: {violation}"))?;
        }
        for which in 0..world.late.len() {
            let mut after = world.clone();
            let late = after.late.remove(which);
            after.apply(late);
            next.push(after);
        }
        if next.is_empty() {
            self.check_end(world)?;
            next.extend(self.scenario.again(&world.history).map(|new| self.restart(world, new)));
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

    /// Runs the collective call after which all scripts start again.
    fn restart(&self, world: &World<S, N>, history: S::History) -> World<S, N> {
        let mut after = World { memory: self.scenario.memory(), history, ..world.clone() };
        for who in 0..self.scenario.plan().scripts.len() {
            let client = after.client(who);
            client.done = 0;
            self.scenario.forget(client.driven.shared_mut());
            after.seal(who);
        }
        after
    }

    fn moves_of(&self, world: &World<S, N>, who: usize, next: &mut Vec<World<S, N>>) -> Verdict {
        let Some(client) = &world.clients[who] else { return Ok(()) };
        let ended: u8 = world.clients.iter().flatten().map(|client| client.done).sum();
        let may_start = !client.running && ended >= self.scenario.plan().starts[who];
        let has_more = usize::from(client.done) < self.scenario.plan().scripts[who].len();
        // Without room, what the request before has left in flight must complete first.
        if may_start && has_more && client.driven.has_room() {
            let mut after = world.clone();
            self.start(&mut after, who)?;
            after.seal(who);
            next.push(after);
        }
        // A walk along words that the CPU can address waits for no completion.
        if client.running && client.wire().posted().next().is_none() {
            let mut after = world.clone();
            self.poll(&mut after, who)?;
            after.seal(who);
            if fingerprint(&after) == fingerprint(world) {
                return Err("waits for nothing".into());
            }
            next.push(after);
        }
        for (nth, posted) in client.wire().posted() {
            self.moves_of_posted(world, (who, nth), posted, next)?;
        }
        Ok(())
    }

    fn moves_of_posted(
        &self,
        world: &World<S, N>,
        (who, nth): (usize, usize),
        posted: &Posted,
        next: &mut Vec<World<S, N>>,
    ) -> Verdict {
        let Some(client) = &world.clients[who] else { return Ok(()) };
        self.scenario.check_posted(posted.action)?;
        // A completion makes the client poll; an atomic that only takes effect does not.
        let mut go = |completes: bool, change: &dyn Fn(&mut World<S, N>)| {
            let mut after = world.clone();
            change(&mut after);
            if completes {
                self.poll(&mut after, who)?;
            }
            after.seal(who);
            next.push(after);
            Ok::<(), String>(())
        };
        let wire = client.wire();
        let is_wanted = client.running && wire.request == posted.request;
        let effect = Effect::from_action(posted.action);
        match posted.action {
            Action::Read { from, .. } if !is_wanted => {
                // The request has ended, so no code reads these words.
                go(true, &|after| after.wire(who).bring(nth, &vec![0; from.words as usize]))?;
            }
            Action::Read { .. } => {
                for words in self.brought(world, wire, posted) {
                    go(true, &|after| after.wire(who).bring(nth, &words))?;
                }
            }
            Action::CompareAndSwap { at, .. } | Action::FetchAdd { at, .. } => {
                let is_write =
                    |(_, posted): (_, &Posted)| matches!(posted.action, Action::Write { .. });
                if wire.caps().write_then_atomic && wire.posted().any(is_write) {
                    return Ok(());
                }
                // In a blocking call it is reported when it takes effect.
                let in_call = client.call.is_some();
                go(in_call, &|after| {
                    let old = after.memory[at];
                    effect.into_iter().for_each(|effect| after.apply(effect));
                    match in_call {
                        true => after.wire(who).complete(nth, Ok(self.scenario.answer(old))),
                        false => after.wire(who).set_answer(nth, old),
                    }
                })?;
            }
            Action::Write { .. } => go(true, &|after| {
                effect.into_iter().for_each(|effect| after.apply(effect));
                after.wire(who).complete(nth, Ok(0));
            })?,
            Action::Answer { old } => {
                let old = self.scenario.answer(old);
                go(true, &|after| after.wire(who).complete(nth, Ok(old)))?;
            }
        }
        // An atomic without an effect may fail when it has its answer.
        let may_fail = effect.is_some() || matches!(posted.action, Action::Answer { .. });
        if is_wanted && may_fail && world.failures > 0 {
            go(true, &|after| after.fail(who, nth, effect))?;
        }
        Ok(())
    }

    /// Returns every result of a READ that is possible now.
    fn brought(&self, world: &World<S, N>, wire: &Wire<N>, posted: &Posted) -> Vec<Vec<u64>> {
        let Action::Read { from, first, .. } = posted.action else { return Vec::new() };
        let start = wire.index(from.start);
        let writes = world.writes();
        combinations((0..from.words as usize).zip(first).map(|(nth, first)| {
            let mut values = vec![first, world.memory[start + nth]];
            let later = posted.later.iter().filter(|(word, _)| usize::from(*word) == nth);
            values.extend(later.map(|(_, value)| *value));
            values.extend(writes.iter().filter_map(|write| write.writes(start + nth)));
            values.sort_unstable();
            values.dedup();
            self.scenario.torn(start + nth, values)
        }))
    }

    /// Returns the request of a client with this number of requests before it.
    fn turn(&self, who: usize, nth: usize) -> Turn<S::Request> {
        let scripts = self.scenario.plan().scripts;
        let before: usize = scripts[..who].iter().map(|script| script.len()).sum();
        Turn { who, nth, number: before + nth, request: scripts[who][nth] }
    }

    /// Starts a client's next request, or its next requests as one blocking call.
    fn start(&self, world: &mut World<S, N>, who: usize) -> Verdict {
        let memory = world.memory;
        let client = world.client(who);
        let turn = self.turn(who, client.done.into());
        let wire = client.driven.transport_mut();
        wire.set_memory(&memory);
        wire.request = wire.request.wrapping_add(1);
        client.running = true;
        let in_call = self.scenario.in_call(turn);
        for nth in turn.nth..turn.nth + in_call.max(1) {
            self.scenario.begin(self.turn(who, nth), &memory, &mut world.history);
        }
        if in_call == 0 {
            return self.submit(world, who);
        }
        let client = world.client(who);
        let wire = client.driven.transport().clone();
        let seen = fingerprint(&wire.reached());
        client.call = Some(Call { wire, polls: Vec::new(), seen });
        self.proceed(world, who)
    }

    fn submit(&self, world: &mut World<S, N>, who: usize) -> Verdict {
        let client = world.client(who);
        let turn = self.turn(who, client.done.into());
        let machine = self.scenario.machine(turn, client.driven.shared());
        let tag = Tag(turn.number as u64);
        client.driven.submit(tag, machine).map_err(|error| error.to_string())?;
        world.memory = client.driven.transport().memory();
        self.poll(world, who)
    }

    /// Polls a client's transport, which may have a completion.
    fn poll(&self, world: &mut World<S, N>, who: usize) -> Verdict {
        let memory = world.memory;
        let client = world.client(who);
        if let Some(call) = &mut client.call {
            call.answer(&memory);
            if call.polls.len() > MAX_POLLS {
                return Err("a call polls without end".into());
            }
            return self.proceed(world, who);
        }
        client.driven.transport_mut().set_memory(&memory);
        let mut out = [Finished::default(); 2];
        let ended = client.driven.poll_into(&mut out).map_err(|error| error.to_string())?;
        let tag = |done: u8| Tag(self.turn(who, done.into()).number as u64);
        let results = match ended {
            [] => Vec::new(),
            [end] if client.running && end.tag == tag(client.done) => vec![end.result],
            _ => return Err(format!("reported {ended:?}")),
        };
        // What the CPU has stored. READs of a word that it stores to see the word change once.
        world.memory = client.driven.transport().memory();
        if results.is_empty() { Ok(()) } else { self.end(world, who, &results) }
    }

    /// Runs a client's blocking call until it polls for the next completion, or has ended.
    fn proceed(&self, world: &mut World<S, N>, who: usize) -> Verdict {
        let client = world.client(who);
        let Some(call) = &mut client.call else { return Ok(()) };
        let mut driven = client.driven.clone();
        let stopped = call.replay(driven.transport_mut());
        let results = self.scenario.call(self.turn(who, client.done.into()), &mut driven);
        let stopped = stopped.borrow_mut().take();
        if let Some(wire) = stopped {
            call.wire = wire;
            world.memory = call.wire.memory();
            return Ok(());
        }
        driven.transport_mut().on_poll = None;
        (client.driven, client.call) = (driven, None);
        world.memory = client.driven.transport().memory();
        match results {
            Some(results) => self.end(world, who, &results),
            None => self.submit(world, who),
        }
    }

    /// Checks the results of requests.
    fn end(
        &self,
        world: &mut World<S, N>,
        who: usize,
        results: &[ResultOf<S::Machine>],
    ) -> Verdict {
        let World { memory, clients, history, .. } = world;
        let Some(client) = &clients[who] else { return Ok(()) };
        let (mut done, shared) = (client.done, client.driven.shared());
        for result in results {
            let turn = self.turn(who, done.into());
            done += u8::from(self.scenario.end(turn, *result, shared, memory, history)?);
        }
        let client = world.client(who);
        (client.done, client.running) = (done, false);
        if client.driven.slots() == S::Machine::SLOTS {
            Self::drain(world, who)?;
        }
        world.wire(who).clear_idle_slots();
        Ok(())
    }

    /// Completes at once everything that a request has left in flight. Only the next request of the
    /// same client could observe it, and the checker chooses when that request starts. Its effects
    /// may still come.
    fn drain(world: &mut World<S, N>, who: usize) -> Verdict {
        let posted = world.wire(who).posted();
        let posted: Vec<_> =
            posted.map(|(nth, posted)| (nth, Effect::from_action(posted.action))).collect();
        for (nth, effect) in posted {
            world.come_late(effect);
            let client = world.client(who);
            client.driven.transport_mut().complete(nth, Ok(0));
            let ended = client.driven.poll_into(&mut []).map(<[_]>::len);
            if !matches!(ended, Ok(0)) {
                return Err(format!("a late completion is reported: {ended:?}"));
            }
        }
        Ok(())
    }

    fn check_end(&self, world: &World<S, N>) -> Verdict {
        for (who, client) in world.clients.iter().flatten().enumerate() {
            if usize::from(client.done) != self.scenario.plan().scripts[who].len() {
                return Err(format!("client {who} is stuck"));
            }
            if client.driven.clone().quiesce().is_err() || client.driven.in_flight() > 0 {
                return Err(format!("client {who} is not at rest"));
            }
        }
        let has_failed = world.failures < self.scenario.plan().failures;
        self.scenario.check_end(&world.memory, &world.history, has_failed)
    }
}
