//! The subject of the check: the machine, its context, the meaning of the words of the memory, and
//! the rules of find-or-put.

use core::fmt::Debug;
use core::hash::Hash;

use probeline_pipeline::model::{self, Action, Explored, Plan, Stopped, Verdict, torn};
use probeline_pipeline::{Batch, Machine, Operation, Parts, Pipeline, Pull, Run};

use super::{KEYS, MAX_BUCKETS, MAX_REQUESTS, Memory, Mutant, Request, Scenario, Storage, Wire};
use crate::OperationError;
use crate::cache::CacheEntry;
use crate::config::Config;
use crate::context::Context;
use crate::direct::Direct;
use crate::find_or_put::FindOrPut;
use crate::options::OneRoundtrip;
use crate::outcome::Ended as Outcome;

pub(super) type Driven<S> = model::Driven<Case<S>, MAX_BUCKETS>;

pub(super) trait Subject: Copy + Debug {
    type Context: Clone + Hash;
    type Machine: Run<Self::Context> + Machine<Outcome = Outcome> + Clone + Hash;

    /// Creates the pipeline of one client.
    fn drive(&self, scenario: &Scenario, who: usize) -> Driven<Self>;
    /// Creates the operation of a client's request.
    fn operation(
        &self,
        scenario: &Scenario,
        who: usize,
        request: Request,
        context: &Self::Context,
    ) -> Self::Machine;
    /// Returns whether a key is in the table.
    fn is_there(&self, scenario: &Scenario, memory: &Memory, key: usize) -> bool;
    /// Checks that each key is in at most one bucket, and that no bucket before it is empty.
    fn check_memory(&self, scenario: &Scenario, memory: &Memory) -> Verdict;
    /// Returns whether a key has no place left.
    fn is_full(&self, _: &Scenario, _: &Memory, _key: usize) -> bool {
        true
    }
    /// Drops what a client knows of the table before it is cleared.
    fn forget(&self, context: &mut Self::Context);
}

/// A scenario of one kind of keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case<S> {
    pub(super) scenario: Scenario,
    pub(super) subject: S,
}

/// Events of an execution so far.
#[derive(Clone, Default, Hash)]
pub(super) struct History {
    /// Number of inserts of each key.
    inserted: [u8; KEYS.len()],
    /// Whether the key of each request was in the table when the request started.
    present: [bool; MAX_REQUESTS],
    cleared: bool,
}

/// Checks all cases, and prints the number of their states and executions together.
pub(super) fn report<S: Subject>(name: &str, cases: &[Case<S>]) {
    let (states, executions) = check(cases).unwrap_or_else(|stopped| panic!("{name}: {stopped:?}"));
    let (count, first) = (cases.len(), cases[0]);
    println!("{name}: {states} states, {executions:.3e} executions in {count} cases: {first:?}");
}

/// Returns the number of states and executions of all cases together.
fn check<S: Subject>(cases: &[Case<S>]) -> Result<Explored, Stopped> {
    cases.iter().try_fold((0, 0.0), |(states, executions), case| {
        let (more_states, more_executions) = model::check(case)?;
        Ok((states + more_states, executions + more_executions))
    })
}

/// Checks that a mutant is detected, and that the same cases pass without it.
pub(super) fn is_detected<S: Subject>(mutants: &[Case<S>], right: &[Case<S>]) {
    println!("as it must be: {:?}", check(mutants).unwrap_err());
    check(right).unwrap();
}

impl<S: Subject> model::Scenario<MAX_BUCKETS> for Case<S> {
    type Request = Request;
    type Context = S::Context;
    type Machine = S::Machine;
    type Storage = Storage<S::Machine>;
    type History = History;

    fn plan(&self) -> Plan<Request> {
        let Scenario { scripts, starts, failures, .. } = self.scenario;
        Plan { scripts, starts, failures }
    }

    fn memory(&self) -> Memory {
        self.scenario.empty_table()
    }

    fn client(&self, who: usize) -> Driven<S> {
        self.subject.drive(&self.scenario, who)
    }

    fn machine(&self, turn: Turn, context: &S::Context) -> S::Machine {
        self.subject.operation(&self.scenario, turn.who, turn.request, context)
    }

    fn in_call(&self, turn: Turn) -> usize {
        let is_batch = self.scenario.batch && turn.who == 0;
        if is_batch { self.scenario.scripts[0].len() } else { 0 }
    }

    fn call(
        &self,
        turn: Turn,
        driven: &mut Driven<S>,
    ) -> Option<Vec<Result<Outcome, OperationError>>> {
        let requests = self.scenario.scripts[turn.who];
        let results = vec![Ok(Outcome::Absent); requests.len()];
        let mut batch = Requests { case: self, turn, requests, results };
        match driven.run_batch(&mut batch) {
            Ok(()) => Some(batch.results),
            Err(error) => Some(vec![Err(error)]),
        }
    }

    fn begin(&self, turn: Turn, memory: &Memory, history: &mut History) {
        let is_there = self.subject.is_there(&self.scenario, memory, turn.request.key);
        history.present[turn.number] = is_there;
    }

    fn end(
        &self,
        turn: Turn,
        result: Result<Outcome, OperationError>,
        _: &S::Context,
        memory: &Memory,
        history: &mut History,
    ) -> Result<bool, String> {
        let was_there = core::mem::take(&mut history.present[turn.number]);
        let outcome = match result {
            Ok(outcome) => outcome,
            // The client repeats the request.
            Err(OperationError::Failed(_)) => return Ok(false),
            Err(error) => return Err(error.to_string()),
        };
        let key = turn.request.key;
        let is_there = self.subject.is_there(&self.scenario, memory, key);
        let is_right = match outcome {
            // The key is present at the completion: the linearization point.
            Outcome::Found => is_there,
            // The key is absent at the start: the linearization point.
            Outcome::Absent => !was_there,
            Outcome::Full => !was_there && self.subject.is_full(&self.scenario, memory, key),
            // Its own claim inserted the key after the start.
            Outcome::Inserted => is_there && !was_there,
        };
        if !is_right {
            return Err(format!("key {key} {outcome:?}, memory {memory:x?}"));
        }
        history.inserted[key] += u8::from(outcome == Outcome::Inserted);
        match history.inserted[key] {
            0 | 1 => Ok(true),
            _ => Err(format!("key {key} was inserted twice")),
        }
    }

    fn check_memory(&self, memory: &Memory) -> Verdict {
        self.subject.check_memory(&self.scenario, memory)
    }

    fn check_end(&self, memory: &Memory, history: &History, has_failed: bool) -> Verdict {
        for (key, &count) in history.inserted.iter().enumerate() {
            let is_there = self.subject.is_there(&self.scenario, memory, key);
            if count > 0 && !is_there {
                return Err(format!("key {key} was inserted and is lost"));
            }
            // A failed operation may have inserted it.
            if is_there && count == 0 && !has_failed {
                return Err(format!("key {key} is present, and no client reported it"));
            }
        }
        Ok(())
    }

    /// Buckets change once, by a claim; behind them are the counter of entries and the entries.
    fn check_posted(&self, action: Action) -> Verdict {
        let is_bucket = |at| at < self.scenario.buckets;
        let is_right = match action {
            Action::CompareAndSwap { at, expected, .. } => is_bucket(at) && expected == 0,
            Action::FetchAdd { at, addend } => !is_bucket(at) || addend == 0,
            Action::Write { at, .. } => !is_bucket(at),
            Action::Read { .. } | Action::Answer { .. } => true,
        };
        if is_right { Ok(()) } else { Err(format!("{action:x?}")) }
    }

    fn torn(&self, at: usize, values: Vec<u64>) -> Vec<u64> {
        match values[..] {
            [0, now] if at < self.scenario.buckets => self.scenario.values(now),
            [_, _, ..] if self.scenario.words_tear => torn(&values, &[0xff, !0xff]),
            _ => values,
        }
    }

    fn answer(&self, old: u64) -> u64 {
        if self.scenario.mutant == Mutant::MisreportsClaims { 0 } else { old }
    }

    /// Clears the table, as all clients do between two barriers.
    fn again(&self, history: &History) -> Option<History> {
        let clears = self.scenario.clears && !history.cleared;
        clears.then(|| History { cleared: true, ..History::default() })
    }

    fn forget(&self, context: &mut S::Context) {
        if self.scenario.mutant != Mutant::KeepsCache {
            self.subject.forget(context);
        }
    }
}

type Turn = model::Turn<Request>;

/// A batch: the rest of a client's script.
struct Requests<'c, S> {
    case: &'c Case<S>,
    turn: Turn,
    requests: &'static [Request],
    results: Vec<Result<Outcome, OperationError>>,
}

impl<S: Subject> Batch<Wire, S::Context, S::Machine> for Requests<'_, S> {
    fn pull(&mut self, parts: &mut Parts<'_, Wire, S::Context>, into: &mut S::Machine) -> Pull {
        let [request, rest @ ..] = self.requests else { return Pull::End };
        let Case { scenario, subject } = self.case;
        into.replace_with(subject.operation(scenario, self.turn.who, *request, parts.shared));
        self.requests = rest;
        Pull::Start(self.results.len() - rest.len() - 1)
    }

    fn take(&mut self, place: usize, result: Result<Outcome, OperationError>) {
        self.results[place] = result;
    }
}

/// Narrow keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Narrow;

#[derive(Clone, Debug, Hash)]
pub(super) struct CacheEntries([CacheEntry; 8], usize);

impl AsMut<[CacheEntry]> for CacheEntries {
    fn as_mut(&mut self) -> &mut [CacheEntry] {
        &mut self.0[..self.1]
    }
}

impl Subject for Narrow {
    type Context = Context<CacheEntries>;
    type Machine = FindOrPut;

    fn drive(&self, scenario: &Scenario, who: usize) -> Driven<Self> {
        let part = scenario.buckets / scenario.owners as usize;
        let trusts = !scenario.words_tear || scenario.mutant == Mutant::TrustsTornWords;
        let reaches = u32::from(scenario.direct[who] != Direct::Off);
        let slots = 2 * scenario.storage as u32;
        let wire = Wire::new(scenario.owners, part, slots, reaches, trusts);
        let one_roundtrip =
            if scenario.one_roundtrip[who] { OneRoundtrip::On } else { OneRoundtrip::Off };
        let config = Config { one_roundtrip, ..Config::paper(part as u64) };
        let entries = CacheEntries([CacheEntry::EMPTY; 8], scenario.cache_entries);
        let mut context = Context::new(&wire, scenario.layout(), &config, entries);
        scenario.limit(&mut context);
        context.direct = scenario.direct[who];
        context.learns_torn_words = scenario.mutant == Mutant::LearnsTornWords;
        let storage = Storage([Operation::EMPTY; 2], scenario.storage);
        Pipeline::new(wire, context, storage).expect("sizes that fit")
    }

    fn operation(
        &self,
        scenario: &Scenario,
        who: usize,
        Request { intent, key }: Request,
        context: &Self::Context,
    ) -> FindOrPut {
        let operation = FindOrPut::starting_at(scenario.walk(intent, key));
        if scenario.mutant == Mutant::BelievesRead && scenario.one_roundtrip[who] {
            return operation.believing_its_read(context);
        }
        operation
    }

    fn is_there(&self, _: &Scenario, memory: &Memory, key: usize) -> bool {
        memory.contains(&KEYS[key])
    }

    fn check_memory(&self, scenario: &Scenario, memory: &Memory) -> Verdict {
        for (key, word) in KEYS.iter().enumerate() {
            let places = (0..MAX_BUCKETS).filter(|&at| memory[at] == *word).collect();
            scenario.check_place(memory, key, places)?;
        }
        Ok(())
    }

    /// Returns whether no bucket within the probe limit of `key` is empty. An occupied bucket stays
    /// occupied.
    fn is_full(&self, scenario: &Scenario, memory: &Memory, key: usize) -> bool {
        let limit = scenario.chunk * scenario.max_chunks as usize;
        scenario.order(scenario.homes[key]).take(limit).all(|at| memory[at] != 0)
    }

    fn forget(&self, context: &mut Self::Context) {
        context.cache.forget();
    }
}
