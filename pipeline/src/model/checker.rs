//! The search through all worlds that clients and a network can produce.
//!
//! An operation takes effect at any time between its post and its completion, and one reported as
//! failed takes effect later or never. A word of a READ may have any value that the word had between
//! post and completion, and any that a WRITE in flight or a late one gives it; if words may tear, also
//! mixtures of them. This covers READs that the network repeats, so that the time at which a READ
//! samples a word needs no event of its own. The checker stores visited worlds; the number of
//! executions is the number of paths through them.

use core::cell::{Cell, RefCell};
use core::fmt::Debug;
use core::hash::{Hash, Hasher};
use core::mem;
use std::collections::HashMap;
use std::rc::Rc;

use probeline_transport::{OpError, Transport};

use super::effects::{Effect, combinations};
use super::fingerprint::fingerprint;
use super::random::{Explored, Stopped};
use super::wire::{Action, Posted, Wire};
use crate::machine::{Machine, Run};
use crate::operation::{Finished, Operation, Tag};
use crate::pipeline::Pipeline;
use crate::sink::ResultOf;

/// The largest number of clients.
pub const MAX_CLIENTS: usize = 3;

/// The most polls of a blocking call.
const MAX_POLLS: usize = 200;

/// An error describes the violated rule.
pub type Verdict = Result<(), String>;

/// The pipeline of one client.
pub type Driven<S, const N: usize> = Pipeline<
    Wire<N>,
    <S as Scenario<N>>::Storage,
    <S as Scenario<N>>::Context,
    <S as Scenario<N>>::Machine,
>;

/// A request of a client's script.
#[derive(Clone, Copy, Debug)]
pub struct Turn<R> {
    /// The client.
    pub who: usize,
    /// Number of the client's requests before this one.
    pub nth: usize,
    /// The number of the request among those of all clients.
    pub number: usize,
    /// The request.
    pub request: R,
}

/// A structure in a memory of `N` words, what its clients do, and the rules that must hold.
pub trait Scenario<const N: usize> {
    /// Requests that a client may make.
    type Request: Copy + 'static;
    /// State that the requests of a client share.
    type Context: Clone + Hash;
    /// A request in progress.
    type Machine: Run<Self::Context, Outcome: Debug> + Clone;
    /// Storage for the requests of a client.
    type Storage: AsMut<[Operation<Self::Machine>]> + Clone + Hash;
    /// The sequential model: what the rules need to know of the past.
    type History: Clone + Hash + Default;

    /// Returns the requests of each client, in order.
    fn scripts(&self) -> &'static [&'static [Self::Request]];

    /// Returns after how many requests of all clients each client starts.
    fn starts(&self) -> [u8; MAX_CLIENTS];

    /// Returns the number of WRITEs and atomics that may fail.
    fn failures(&self) -> u8;

    /// Returns the memory before the first request.
    fn memory(&self) -> [u64; N];

    /// Creates the pipeline of a client.
    fn client(&self, who: usize) -> Driven<Self, N>;

    /// Creates the machine of a request.
    fn machine(&self, turn: Turn<Self::Request>, context: &Self::Context) -> Self::Machine;

    /// Returns the number of requests, from this one on, that the client runs as one blocking call, or
    /// 0 if it submits this one and polls.
    fn in_call(&self, _: Turn<Self::Request>) -> usize {
        0
    }

    /// Runs the blocking call that begins with this request, and returns the results of its requests,
    /// or `None` if the client submits this one instead.
    fn call(
        &self,
        _: Turn<Self::Request>,
        _: &mut Driven<Self, N>,
    ) -> Option<Vec<ResultOf<Self::Machine>>> {
        None
    }

    /// Notes that a request starts.
    fn begin(&self, turn: Turn<Self::Request>, memory: &[u64; N], history: &mut Self::History);

    /// Checks the result of a request. Returns false if the client repeats it.
    ///
    /// # Errors
    /// The violated rule.
    fn end(
        &self,
        turn: Turn<Self::Request>,
        result: ResultOf<Self::Machine>,
        context: &Self::Context,
        memory: &[u64; N],
        history: &mut Self::History,
    ) -> Result<bool, String>;

    /// Checks the memory of each world.
    ///
    /// # Errors
    /// The violated rule.
    fn check_memory(&self, memory: &[u64; N]) -> Verdict;

    /// Checks a world in which nothing more can happen. `has_failed` says whether an operation did.
    ///
    /// # Errors
    /// The violated rule.
    fn check_end(&self, memory: &[u64; N], history: &Self::History, has_failed: bool) -> Verdict;

    /// Checks an operation in flight.
    ///
    /// # Errors
    /// The violated rule.
    fn check_posted(&self, _: Action) -> Verdict {
        Ok(())
    }

    /// Returns what a READ may return of a word that had these values, at least one, in order.
    fn torn(&self, _at: usize, values: Vec<u64>) -> Vec<u64> {
        values
    }

    /// Returns what the completion of an atomic reports that has found this word.
    fn answer(&self, old: u64) -> u64 {
        old
    }

    /// Returns what the model knows after a collective call with which all scripts start again from
    /// the first memory, or `None` if there is no such call.
    fn again(&self, _: &Self::History) -> Option<Self::History> {
        None
    }

    /// Changes the context of a client in the collective call.
    fn forget(&self, _: &mut Self::Context) {}
}

struct World<S: Scenario<N> + ?Sized, const N: usize> {
    memory: [u64; N],
    /// Clients, shared between worlds until they change.
    clients: [Option<Rc<Client<S, N>>>; MAX_CLIENTS],
    /// WRITEs and atomics reported as failed that may still take effect, in order.
    late: Vec<Effect>,
    failures: u8,
    history: S::History,
}

impl<S: Scenario<N>, const N: usize> Clone for World<S, N> {
    fn clone(&self) -> Self {
        let (clients, late, history) =
            (self.clients.clone(), self.late.clone(), self.history.clone());
        Self { clients, late, history, ..*self }
    }
}

impl<S: Scenario<N>, const N: usize> Hash for World<S, N> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let clients = self.clients.iter().flatten().map(|client| client.fingerprint);
        clients.for_each(|client| client.hash(hasher));
        (&self.memory, &self.late, self.failures, &self.history).hash(hasher);
    }
}

struct Client<S: Scenario<N> + ?Sized, const N: usize> {
    /// Hash of the other fields.
    fingerprint: u128,
    /// The pipeline, as it was before the blocking call in progress.
    driven: Driven<S, N>,
    /// The blocking call in progress.
    call: Option<Call<N>>,
    /// Number of requests completed so far.
    done: u8,
    running: bool,
}

impl<S: Scenario<N>, const N: usize> Clone for Client<S, N> {
    fn clone(&self) -> Self {
        Self { driven: self.driven.clone(), call: self.call.clone(), ..*self }
    }
}

/// A blocking call that polls for the next completion. It is a function of what its polls have seen:
/// to go on, it runs again from its beginning.
#[derive(Clone)]
struct Call<const N: usize> {
    /// The transport that it polls.
    wire: Wire<N>,
    /// The transport at each of the polls before, and a hash of what they have seen.
    polls: Vec<Rc<Wire<N>>>,
    seen: u128,
}

impl<const N: usize> Call<N> {
    /// Answers the next poll with what the transport has now, and this memory.
    fn answer(&mut self, memory: &[u64; N]) {
        self.wire.set_memory(memory);
        self.seen = fingerprint(&(self.seen, &self.wire, self.wire.reached()));
        self.polls.push(Rc::new(self.wire.clone()));
    }

    /// Replays all polls on a transport; the one after them stops the call with a fault, and leaves
    /// the transport that it polls here.
    fn replay(&self, wire: &mut Wire<N>) -> Rc<RefCell<Option<Wire<N>>>> {
        let stopped = Rc::new(RefCell::new(None));
        let (polls, left, next) = (self.polls.clone(), Rc::clone(&stopped), Cell::new(0));
        wire.on_poll = Some(Rc::new(move |wire| {
            let on_poll = wire.on_poll.take();
            match polls.get(next.replace(next.get() + 1)) {
                Some(poll) => *wire = Wire::clone(poll),
                None => {
                    left.borrow_mut().get_or_insert_with(|| wire.clone());
                    wire.is_stopped = true;
                }
            }
            wire.on_poll = on_poll;
        }));
        stopped
    }
}

impl<S: Scenario<N>, const N: usize> Client<S, N> {
    fn wire(&self) -> &Wire<N> {
        self.call.as_ref().map_or(self.driven.transport(), |call| &call.wire)
    }
}

struct Checker<'a, S, const N: usize> {
    scenario: &'a S,
    /// Number of executions from each visited world on, keyed by its fingerprint.
    paths: HashMap<u128, f64>,
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

/// As [`check`], with at most this number of moves.
///
/// # Errors
/// The violated rule, or [`Stopped::Bound`].
pub fn check_within<const N: usize, S: Scenario<N>>(
    scenario: &S,
    max_moves: usize,
) -> Result<Explored, Stopped> {
    assert!(
        scenario.scripts().len() <= MAX_CLIENTS,
        "a scenario has at most {MAX_CLIENTS} clients"
    );
    let client = |who| {
        (who < scenario.scripts().len()).then(|| {
            let driven = scenario.client(who);
            Rc::new(Client { fingerprint: 0, driven, call: None, done: 0, running: false })
        })
    };
    let mut start = World {
        memory: scenario.memory(),
        clients: core::array::from_fn(client),
        late: Vec::new(),
        failures: scenario.failures(),
        history: S::History::default(),
    };
    (0..scenario.scripts().len()).for_each(|who| start.seal(who));
    let mut checker = Checker { scenario, paths: HashMap::new(), left: max_moves };
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
        let mut next = Vec::new();
        for who in 0..self.scenario.scripts().len() {
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
        for who in 0..self.scenario.scripts().len() {
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
        let may_start = !client.running && ended >= self.scenario.starts()[who];
        let has_more = usize::from(client.done) < self.scenario.scripts()[who].len();
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
        let effect = Effect::of(posted.action);
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
        let scripts = self.scenario.scripts();
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
        let posted: Vec<_> = posted.map(|(nth, posted)| (nth, Effect::of(posted.action))).collect();
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
            if usize::from(client.done) != self.scenario.scripts()[who].len() {
                return Err(format!("client {who} is stuck"));
            }
            if client.driven.clone().quiesce().is_err() || client.driven.in_flight() > 0 {
                return Err(format!("client {who} is not at rest"));
            }
        }
        let has_failed = world.failures < self.scenario.failures();
        self.scenario.check_end(&world.memory, &world.history, has_failed)
    }
}

impl<S: Scenario<N>, const N: usize> World<S, N> {
    fn client(&mut self, who: usize) -> &mut Client<S, N> {
        Rc::make_mut(self.clients[who].as_mut().expect("a client with a script"))
    }

    fn wire(&mut self, who: usize) -> &mut Wire<N> {
        let client = self.client(who);
        match &mut client.call {
            Some(call) => &mut call.wire,
            None => client.driven.transport_mut(),
        }
    }

    /// Returns the WRITEs and atomics in flight, and those that may take effect late.
    fn writes(&self) -> Vec<Effect> {
        let posted = self.clients.iter().flatten();
        let posted = posted.flat_map(|client| client.wire().posted());
        let posted = posted.filter_map(|(_, posted)| Effect::of(posted.action));
        self.late.iter().copied().chain(posted).collect()
    }

    /// Lets an operation take effect, and notes it for the READs in flight.
    fn apply(&mut self, effect: Effect) {
        for (at, word) in effect.stores(&self.memory) {
            let old = mem::replace(&mut self.memory[at], word);
            for who in 0..MAX_CLIENTS {
                let Some(client) = &self.clients[who] else { continue };
                if client.wire().must_note(at, old, word) {
                    self.wire(who).note(at, old, word);
                    self.seal(who);
                }
            }
        }
    }

    /// Completes a posted operation with an error.
    fn fail(&mut self, who: usize, nth: usize, late: Option<Effect>) {
        self.failures -= 1;
        self.come_late(late);
        self.wire(who).complete(nth, Err(OpError::RetryExceeded));
    }

    fn come_late(&mut self, late: Option<Effect>) {
        self.late.extend(late);
        self.late.sort_unstable();
    }

    /// Updates the hash of a client after a change.
    fn seal(&mut self, who: usize) {
        let client = self.client(who);
        let call = client.call.as_ref().map(|call| (&call.wire, call.seen));
        client.fingerprint = fingerprint(&(&client.driven, call, client.done, client.running));
    }
}
