//! A state of a check: the memory, the clients with their pipelines, and what may still take effect.

use core::cell::{Cell, RefCell};
use core::hash::{Hash, Hasher};
use core::mem;
use std::rc::Rc;

use probeline_transport::OpError;

use super::effects::Effect;
use super::fingerprint::fingerprint;
use super::scenario::{Driven, MAX_CLIENTS, Scenario};
use super::wire::Wire;

pub(super) struct World<S: Scenario<N> + ?Sized, const N: usize> {
    pub(super) memory: [u64; N],
    /// Clients, shared between worlds until they change.
    pub(super) clients: [Option<Rc<Client<S, N>>>; MAX_CLIENTS],
    /// WRITEs and atomics reported as failed that may still take effect, in order.
    pub(super) late: Vec<Effect>,
    pub(super) failures: u8,
    pub(super) history: S::History,
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

pub(super) struct Client<S: Scenario<N> + ?Sized, const N: usize> {
    /// Hash of the other fields.
    pub(super) fingerprint: u128,
    /// The pipeline, as it was before the blocking call in progress.
    pub(super) driven: Driven<S, N>,
    /// The blocking call in progress.
    pub(super) call: Option<Call<N>>,
    /// Number of requests completed so far.
    pub(super) done: u8,
    pub(super) running: bool,
}

impl<S: Scenario<N>, const N: usize> Clone for Client<S, N> {
    fn clone(&self) -> Self {
        Self { driven: self.driven.clone(), call: self.call.clone(), ..*self }
    }
}

/// A blocking call that polls for the next completion. It is a function of what its polls have seen:
/// to go on, it runs again from its beginning.
#[derive(Clone)]
pub(super) struct Call<const N: usize> {
    /// The transport that it polls.
    pub(super) wire: Wire<N>,
    /// The transport at each of the polls before, and a hash of what they have seen.
    pub(super) polls: Vec<Rc<Wire<N>>>,
    pub(super) seen: u128,
}

impl<const N: usize> Call<N> {
    /// Answers the next poll with what the transport has now, and this memory.
    pub(super) fn answer(&mut self, memory: &[u64; N]) {
        self.wire.set_memory(memory);
        self.seen = fingerprint(&(self.seen, &self.wire, self.wire.reached()));
        self.polls.push(Rc::new(self.wire.clone()));
    }

    /// Replays all polls on a transport; the one after them stops the call with a fault, and leaves
    /// the transport that it polls here.
    pub(super) fn replay(&self, wire: &mut Wire<N>) -> Rc<RefCell<Option<Wire<N>>>> {
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
    pub(super) fn wire(&self) -> &Wire<N> {
        self.call.as_ref().map_or(self.driven.transport(), |call| &call.wire)
    }
}

impl<S: Scenario<N>, const N: usize> World<S, N> {
    pub(super) fn client(&mut self, who: usize) -> &mut Client<S, N> {
        Rc::make_mut(self.clients[who].as_mut().expect("a client with a script"))
    }

    pub(super) fn wire(&mut self, who: usize) -> &mut Wire<N> {
        let client = self.client(who);
        match &mut client.call {
            Some(call) => &mut call.wire,
            None => client.driven.transport_mut(),
        }
    }

    /// Returns the WRITEs and atomics in flight, and those that may take effect late.
    pub(super) fn writes(&self) -> Vec<Effect> {
        let posted = self.clients.iter().flatten();
        let posted = posted.flat_map(|client| client.wire().posted());
        let posted = posted.filter_map(|(_, posted)| Effect::from_action(posted.action));
        self.late.iter().copied().chain(posted).collect()
    }

    /// Lets an operation take effect, and notes it for the READs in flight.
    pub(super) fn apply(&mut self, effect: Effect) {
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
    pub(super) fn fail(&mut self, who: usize, nth: usize, late: Option<Effect>) {
        self.failures -= 1;
        self.come_late(late);
        self.wire(who).complete(nth, Err(OpError::RetryExceeded));
    }

    pub(super) fn come_late(&mut self, late: Option<Effect>) {
        self.late.extend(late);
        self.late.sort_unstable();
    }

    /// Updates the hash of a client after a change.
    pub(super) fn seal(&mut self, who: usize) {
        let client = self.client(who);
        let call = client.call.as_ref().map(|call| (&call.wire, call.seen));
        client.fingerprint = fingerprint(&(&client.driven, call, client.done, client.running));
    }
}
