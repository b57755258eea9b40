//! Model check of batches: a call that polls until it is done, replayed with every sequence of
//! choices of its transport. The choices are the next completion, the result of a READ, and the
//! moment at which a rival inserts.

use core::cell::RefCell;
use std::rc::Rc;

use super::subject::{Narrow, Subject};
use super::{KEYS, Mutant, PAPER, Scenario, Wire, claim, put};
use crate::direct::Direct;
use crate::error::OperationError;
use crate::find_or_put::FindOrPut;
use crate::outcome::{Ended as Outcome, Intent};
use probeline_pipeline::model::Action;
use probeline_pipeline::{Batch, Parts, Pull};

/// The choices of one execution: those of the previous one, except that the last choice with a
/// further option takes that option.
#[derive(Default)]
pub(super) struct Choices {
    /// The option chosen, and the number of options.
    taken: Vec<(usize, usize)>,
    next: usize,
    /// Keys that a rival has not inserted yet.
    rivals: Vec<usize>,
}

impl Choices {
    fn choose(&mut self, options: usize) -> usize {
        if self.next == self.taken.len() {
            self.taken.push((0, options));
        }
        self.next += 1;
        self.taken[self.next - 1].0
    }

    /// Advances to the next execution. Returns false after the last.
    fn advance(&mut self) -> bool {
        self.next = 0;
        while let Some((choice, options)) = self.taken.pop() {
            if choice + 1 < options {
                self.taken.push((choice + 1, options));
                return true;
            }
        }
        false
    }

    /// Completes one posted operation of `wire`, after any number of inserts by the rival.
    fn step(&mut self, scenario: &Scenario, wire: &mut Wire) {
        loop {
            let posted: Vec<_> = wire.posted().collect();
            if posted.is_empty() {
                return;
            }
            let which = self.choose(posted.len() + self.rivals.len());
            if let Some(rival) = which.checked_sub(posted.len()) {
                let key = self.rivals.remove(rival);
                insert(scenario, wire, key);
                continue;
            }
            let (nth, posted) = posted[which].clone();
            match posted.action {
                Action::Read { from, first, .. } => {
                    let start = wire.index(from.start);
                    let buckets = start..start + from.words as usize;
                    let brought = scenario.brought(&wire.memory(), buckets, &first);
                    wire.bring(nth, &brought[self.choose(brought.len())]);
                }
                Action::CompareAndSwap { at, desired, .. } => {
                    let mut memory = wire.memory();
                    let old = memory[at];
                    claim(&mut memory, at, desired);
                    wire.set_memory(&memory);
                    let lies = scenario.mutant == Mutant::MisreportsClaims;
                    wire.complete(nth, Ok(if lies { 0 } else { old }));
                }
                Action::FetchAdd { at, addend } => {
                    assert_eq!(addend, 0, "confirmations change nothing");
                    let old = wire.memory()[at];
                    wire.complete(nth, Ok(old));
                }
                Action::Write { .. } => unreachable!("operations on narrow keys write nothing"),
                Action::Answer { old } => wire.complete(nth, Ok(old)),
            }
            return;
        }
    }
}

/// Executes another client's find-or-put in one step.
fn insert(scenario: &Scenario, wire: &mut Wire, key: usize) {
    let mut memory = wire.memory();
    let limit = scenario.chunk * scenario.max_chunks as usize;
    for at in scenario.order(scenario.homes[key]).take(limit) {
        if memory[at] == KEYS[key] {
            return;
        }
        if memory[at] == 0 {
            memory[at] = KEYS[key];
            return wire.set_memory(&memory);
        }
    }
}

/// Runs a batch of find-or-puts in every execution. Returns the number of executions.
fn check(scenario: Scenario, keys: &[usize], rivals: &[usize]) -> Result<u64, String> {
    let choices = Rc::new(RefCell::new(Choices::default()));
    let mut executions = 0;
    loop {
        choices.borrow_mut().rivals = rivals.to_vec();
        executions += 1;
        run(&scenario, (keys, rivals), &choices)
            .map_err(|error| format!("{error}, after the choices {:?}", choices.borrow().taken))?;
        if !choices.borrow_mut().advance() {
            return Ok(executions);
        }
    }
}

/// A batch of keys with the homes that a scenario gives them.
struct KeysOf<'s> {
    scenario: &'s Scenario,
    keys: &'s [usize],
    next: usize,
    results: Vec<Result<Outcome, OperationError>>,
}

impl<T, X> Batch<T, X, FindOrPut> for KeysOf<'_> {
    fn pull(&mut self, _: &mut Parts<'_, T, X>, into: &mut FindOrPut) -> Pull {
        let Some(&key) = self.keys.get(self.next) else { return Pull::End };
        *into = FindOrPut::starting_at(self.scenario.walk(Intent::FindOrPut, key));
        self.next += 1;
        Pull::Start(self.next - 1)
    }

    fn take(&mut self, place: usize, result: Result<Outcome, OperationError>) {
        self.results[place] = result;
    }
}

fn run(
    scenario: &Scenario,
    (keys, rivals): (&[usize], &[usize]),
    choices: &Rc<RefCell<Choices>>,
) -> Result<(), String> {
    let mut driven = Narrow.drive(scenario, 0);
    driven.transport_mut().set_memory(&scenario.empty_table());
    let (chosen, of) = (Rc::clone(choices), *scenario);
    let on_poll = move |wire: &mut Wire| chosen.borrow_mut().step(&of, wire);
    driven.transport_mut().on_poll = Some(Rc::new(on_poll));
    let results = vec![Ok(Outcome::Absent); keys.len()];
    let mut batch = KeysOf { scenario, keys, next: 0, results };
    driven.run_batch(&mut batch).map_err(|error| error.to_string())?;
    let results = batch.results;
    driven.quiesce().map_err(|error| error.to_string())?;
    let memory = driven.transport().memory();
    Narrow.check_memory(scenario, &memory)?;
    let waiting = choices.borrow().rivals.clone();
    for (key, word) in KEYS.iter().enumerate() {
        let of_key = keys.iter().zip(&results).filter(|(other, _)| **other == key);
        let outcomes: Vec<_> = of_key.map(|(_, result)| *result).collect();
        let inserted = outcomes.iter().filter(|end| **end == Ok(Outcome::Inserted)).count();
        let found = outcomes.iter().filter(|end| **end == Ok(Outcome::Found)).count();
        let is_there = memory.contains(word);
        // A key that no rival has inserted must have been inserted by the batch.
        let is_mine = !rivals.contains(&key) || waiting.contains(&key);
        if inserted + found < outcomes.len() && is_there {
            return Err(format!("key {key} ended {outcomes:?}, but is there"));
        }
        let is_wrong = inserted > 1
            || found + inserted > 0 && !is_there
            || is_there && is_mine && !outcomes.is_empty() && inserted != 1;
        if is_wrong {
            return Err(format!("key {key} ended {outcomes:?}, there: {is_there}"));
        }
    }
    Ok(())
}

/// Four buckets in two parts of a ring; all keys have their home in the first.
const RING: Scenario = Scenario {
    owners: 2,
    buckets: 4,
    chunk: 2,
    max_chunks: 2,
    scripts: &[&[put(0)]],
    storage: 2,
    ..PAPER
};

fn is_right(name: &str, scenario: Scenario, keys: &[usize], rivals: &[usize]) {
    let executions =
        check(scenario, keys, rivals).unwrap_or_else(|error| panic!("{name}: {error}"));
    println!("{name}: a batch of {keys:?} beside {rivals:?}: {executions} executions");
}

#[test]
fn batches() {
    for homes in [[0, 0, 0], [0, 1, 3], [3, 3, 0]] {
        for ahead_from in [0, u32::MAX] {
            let ring = Scenario { homes, ahead_from, ..RING };
            is_right("a ring", ring, &[0, 1], &[]);
            is_right("a ring", ring, &[0, 0], &[]);
        }
        // One chunk at a time, which limits the number of orders.
        let calm = Scenario { homes, ahead_from: u32::MAX, ..RING };
        is_right("a ring", calm, &[0, 1, 0], &[]);
        is_right("a ring", calm, &[0, 1], &[1]);
        is_right("a ring", Scenario { storage: 1, ..calm }, &[0, 1, 2], &[2, 0]);
        is_right("claims first", Scenario { one_roundtrip: [true; 3], ..calm }, &[0, 1], &[1]);
        is_right("cached", Scenario { cache_entries: 4, ..calm }, &[0, 1, 0], &[]);
    }
}

/// Two lines, of which the CPU can address only the first, which the batch or the rival fills.
#[test]
fn batches_that_leave_the_directly_addressable_part() {
    let lines = Scenario {
        buckets: 16,
        chunk: 8,
        filled: &[0, 1, 2, 3, 5, 6, 7, 9, 10, 11, 12, 13, 15],
        homes: [2, 4, 9],
        direct: [Direct::Claims, Direct::Off, Direct::Off],
        ahead_from: u32::MAX,
        ..RING
    };
    for homes in [[2, 4, 9], [5, 5, 5], [4, 9, 0]] {
        is_right("two lines", Scenario { homes, ..lines }, &[0, 1, 2], &[1]);
        is_right("two lines", Scenario { homes, ..lines }, &[1, 0, 1], &[2, 0]);
    }
}

#[test]
fn a_batch_over_a_wire_that_misreports_claims_is_detected() {
    let lying = Scenario { mutant: Mutant::MisreportsClaims, ..RING };
    let violation = check(lying, &[0, 1], &[]).unwrap_err();
    println!("as it must be: {violation}");
}
