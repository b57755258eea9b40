//! A model check of any kind of structure against a sequential model: its operations must be
//! linearizable, whatever order they take effect in.

use core::fmt::Debug;
use core::hash::Hash;
use core::marker::PhantomData;

use probeline_transport::Owner;

use super::checker::check;
use super::effects::torn;
use super::random::{Explored, Stopped};
use super::scenario::{Driven, MAX_CLIENTS, Plan, Scenario, Turn, Verdict};
use super::wire::Wire;
use crate::error::Error;
use crate::kind::{Kind, Open};
use crate::machine::Machine;
use crate::operation::Operation;
use crate::pipeline::Pipeline;
use crate::sink::ResultOf;
use crate::structure::OutcomeOf;

/// The sequential specification of a kind.
pub trait Sequential<K: Kind>: Clone + Default {
    /// Runs an operation, and returns its outcome.
    fn run(&mut self, key: &K::Key, action: K::Action) -> OutcomeOf<K>;

    /// Runs an operation, and returns whether it may have had this outcome. A specification that leaves
    /// outcomes open implements it.
    fn explains(&mut self, key: &K::Key, action: K::Action, outcome: &OutcomeOf<K>) -> bool
    where
        OutcomeOf<K>: PartialEq,
    {
        self.run(key, action) == *outcome
    }
}

/// The operations of each client, in order.
pub type Scripts<K> = &'static [&'static [(<K as Kind>::Key, <K as Kind>::Action)]];

/// The owners of a check, and the faults of their network.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    /// Owners, with an equal part of the words each.
    pub owners: u32,
    /// WRITEs and atomics that may fail.
    pub failures: u8,
    /// The parts of a word at whose borders READs tear it, disjoint and 64 bits together; none if words are
    /// whole.
    pub tears: &'static [u64],
}

impl Network {
    /// One owner without faults.
    pub const ONE: Self = Self { owners: 1, failures: 0, tears: &[] };
}

/// Visits all worlds that clients with these scripts can produce on a structure in the windows of
/// `network`, of `N` words together. A memory of zeros is the empty structure.
///
/// There are at most [`MAX_CLIENTS`] clients, client `n` at owner `n` modulo the owners, each with one
/// operation in flight, of at most 4 slots, READs and WRITEs of 8 words. All operations are posted.
///
/// # Errors
/// A history that no sequential order explains, or another violated rule.
///
/// # Panics
/// If [`Network::tears`] are not disjoint, or not a whole word together.
pub fn check_linear<K, M, const N: usize>(
    config: K::Config,
    network: Network,
    scripts: Scripts<K>,
) -> Result<Explored, Stopped>
where
    K: Open<
            Context: Clone + Hash,
            Machine: Machine<Outcome: Debug + Hash + PartialEq> + Clone + Hash,
        >,
    M: Sequential<K>,
{
    let model = PhantomData::<M>;
    check::<N, _>(&Linear::<K, M> { config, network, scripts, model })
}

struct Linear<K: Kind, M> {
    config: K::Config,
    network: Network,
    scripts: Scripts<K>,
    model: PhantomData<M>,
}

/// An operation in a history.
#[derive(Clone, Debug, Hash)]
struct Past<O> {
    turn: (usize, usize),
    /// The number of the event with which it began.
    begun: usize,
    /// The event with which it ended, and its outcome; `None` if both are unknown.
    ended: Option<(usize, O)>,
}

/// The operations so far, in the order in which they began, and the number of their events.
#[derive(Clone, Debug, Hash)]
struct History<O> {
    operations: Vec<Past<O>>,
    events: usize,
}

impl<O> Default for History<O> {
    fn default() -> Self {
        Self { operations: Vec::new(), events: 0 }
    }
}

impl<K, M> Linear<K, M>
where
    K: Kind<Machine: Machine<Outcome: PartialEq>>,
    M: Sequential<K>,
{
    /// Returns whether some order of these operations returns their outcomes. One that ended before
    /// another began comes first; one of unknown outcome may come at any later time, or never.
    fn has_order(&self, left: &[&Past<OutcomeOf<K>>], model: &M) -> bool {
        let ends = left.iter().filter_map(|past| Some(past.ended.as_ref()?.0));
        let Some(first_end) = ends.min() else { return true };
        let mut may_be_next = left.iter().enumerate().filter(|(_, past)| past.begun < first_end);
        may_be_next.any(|(nth, past)| {
            let mut model = model.clone();
            let (key, action) = &self.scripts[past.turn.0][past.turn.1];
            let is_right = match &past.ended {
                Some((_, outcome)) => model.explains(key, *action, outcome),
                None => {
                    model.run(key, *action);
                    true
                }
            };
            let mut others = left.to_vec();
            others.remove(nth);
            is_right && self.has_order(&others, &model)
        })
    }
}

impl<K, M, const N: usize> Scenario<N> for Linear<K, M>
where
    K: Open<
            Context: Clone + Hash,
            Machine: Machine<Outcome: Debug + Hash + PartialEq> + Clone + Hash,
        >,
    M: Sequential<K>,
{
    type Request = (K::Key, K::Action);
    type Context = K::Context;
    type Machine = K::Machine;
    type Storage = [Operation<K::Machine>; 1];
    type History = History<OutcomeOf<K>>;

    fn plan(&self) -> Plan<Self::Request> {
        let Self { scripts, network: Network { failures, .. }, .. } = *self;
        Plan { scripts, starts: [0; MAX_CLIENTS], failures }
    }

    fn torn(&self, _: usize, values: Vec<u64>) -> Vec<u64> {
        if self.network.tears.is_empty() { values } else { torn(&values, self.network.tears) }
    }

    fn memory(&self) -> [u64; N] {
        [0; N]
    }

    fn client(&self, who: usize) -> Driven<Self, N> {
        let part = N / self.network.owners as usize;
        assert!(part * self.network.owners as usize == N, "{N} words cannot be divided equally");
        let wire = Wire::new(
            self.network.owners,
            part,
            K::Machine::SLOTS,
            0,
            self.network.tears.is_empty(),
        );
        let wire = wire.at_owner(Owner(who as u32 % self.network.owners));
        let context = K::context(&self.config, &wire);
        Pipeline::new(wire, context, [Operation::EMPTY]).expect("the wire has the slots")
    }

    fn machine(&self, turn: Turn<Self::Request>, context: &K::Context) -> K::Machine {
        let (key, action) = turn.request;
        K::machine(&key, action, context).expect("a valid request")
    }

    fn begin(&self, turn: Turn<Self::Request>, _: &[u64; N], history: &mut Self::History) {
        let begun = history.events;
        history.events += 1;
        history.operations.push(Past { turn: (turn.who, turn.nth), begun, ended: None });
    }

    fn end(
        &self,
        turn: Turn<Self::Request>,
        result: ResultOf<K::Machine>,
        _: &K::Context,
        _: &[u64; N],
        history: &mut Self::History,
    ) -> Result<bool, String> {
        let is_this = |past: &Past<_>| past.turn == (turn.who, turn.nth);
        let this = history.operations.iter().position(is_this);
        let this = this.ok_or("an end without a beginning")?;
        let (before, rest) = history.operations.split_at_mut(this);
        let (past, after) = rest.split_first_mut().ok_or("an end without a beginning")?;
        let has_ended =
            |other: &Past<_>| other.ended.as_ref().is_some_and(|(at, _)| *at < past.begun);
        let is_alone = after.is_empty() && before.iter().all(has_ended);
        if let (Err(error), 0, true) = (&result, self.network.failures, is_alone) {
            return Err(format!("fails alone, after all others have succeeded: {error}"));
        }
        match result {
            Ok(outcome) => past.ended = Some((history.events, outcome)),
            // It may have taken effect, or take effect later.
            Err(Error::Failed(_) | Error::Unfinished { .. }) => {}
            // It has changed nothing.
            Err(Error::Contended { .. }) => drop(history.operations.remove(this)),
            Err(error) => return Err(format!("the request {:?} fails: {error}", turn.number)),
        }
        history.events += 1;
        Ok(true)
    }

    fn check_end(&self, _: &[u64; N], history: &Self::History, _: bool) -> Verdict {
        let all: Vec<_> = history.operations.iter().collect();
        match self.has_order(&all, &M::default()) {
            true => Ok(()),
            false => Err(format!("no order explains {:?}", history.operations)),
        }
    }
}
