//! The rules of the map.

use probeline_pipeline::Error;
use probeline_pipeline::model::{self, Explored, Plan, Stopped, Verdict, torn};

use super::{Act, BUCKET_WORDS, Driven, MAX_REQUESTS, Memory, Scenario, Storage, WORDS, value_of};
use crate::alone::Blocking;
use crate::context::Context;
use crate::layout::{Place, hash};
use crate::machine::Access;
use crate::mode::Mode;
use crate::outcome::{Outcome, Written};

/// A set of requests, one bit each.
type Set = u8;

/// Events of an execution so far.
#[derive(Clone, Default, Hash)]
pub(super) struct History {
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
    /// Values superseded, and values stored, when each request in progress started.
    stale: [Set; MAX_REQUESTS],
    before: [Set; MAX_REQUESTS],
}

/// The byte at which a word of a key or a value tears.
const TORN_BYTE: u64 = 0xff << 24;

type Turn = model::Turn<Act>;

/// A scenario and its keys.
struct Case<'s> {
    scenario: &'s Scenario,
    keys: Vec<u64>,
}

/// Returns the number of states and executions of a scenario, with at most this number of moves.
pub(super) fn check_within(scenario: &Scenario, max_moves: usize) -> Result<Explored, Stopped> {
    model::check_within(&Case { scenario, keys: scenario.keys() }, max_moves)
}

impl model::Scenario<WORDS> for Case<'_> {
    type Request = Act;
    type Context = Context;
    type Machine = Access<u64, u64>;
    type Storage = Storage;
    type History = History;

    fn plan(&self) -> Plan<Act> {
        let Scenario { scripts, starts, failures, .. } = *self.scenario;
        Plan { scripts, starts, failures }
    }

    fn memory(&self) -> Memory {
        assert!(self.scenario.scripts.concat().len() <= MAX_REQUESTS, "a bit for each request");
        [0; WORDS]
    }

    fn client(&self, who: usize) -> Driven {
        self.scenario.drive(who)
    }

    fn machine(&self, turn: Turn, _: &Context) -> Access<u64, u64> {
        let key = self.keys[turn.request.key()];
        let mut machine = Access::new(&key, turn.request.request(turn.number));
        machine.progress.mutant = self.scenario.mutant;
        machine
    }

    fn in_call(&self, turn: Turn) -> usize {
        usize::from(self.scenario.blocks[turn.who])
    }

    /// Runs a request as the blocking calls of the map do.
    fn call(&self, turn: Turn, driven: &mut Driven) -> Option<Vec<Result<Outcome<u64>, Error>>> {
        let (key, value) = (self.keys[turn.request.key()], value_of(turn.number).to_ne_bytes());
        let request = turn.request.request(turn.number).map(|_| value.as_slice());
        let (key, hash, mut room) = (&key.to_ne_bytes(), hash(&key), [0; 8]);
        let alone = driven.alone().expect("nothing else in flight");
        let mut blocking = Blocking { alone, key, hash, present: Place::default() };
        let outcome = blocking.run(request, &mut room).transpose()?;
        Some(vec![outcome.map(|outcome| outcome.map(|()| u64::from_ne_bytes(room)))])
    }

    fn begin(&self, turn: Turn, _: &Memory, history: &mut History) {
        history.started |= 1 << turn.number;
        history.stale[turn.number] = history.superseded;
        history.before[turn.number] = history.stored;
    }

    fn end(
        &self,
        turn: Turn,
        result: Result<Outcome<u64>, Error>,
        context: &Context,
        _: &Memory,
        history: &mut History,
    ) -> Result<bool, String> {
        match result {
            Ok(outcome) => self.check_outcome(turn, outcome, history)?,
            Err(Error::Failed(_)) => history.failed |= 1 << turn.number,
            Err(error) => return Err(error.to_string()),
        }
        (history.stale[turn.number], history.before[turn.number]) = (0, 0);
        let stats = &context.stats;
        let ends = stats.reads() + stats.writes() + stats.present + stats.removes + stats.absent;
        let requests = turn.nth as u64 + 1;
        if ends + stats.failed == requests {
            return Ok(true);
        }
        Err(format!("{requests} requests, and {stats:?}"))
    }

    /// Checks that no key has two entries.
    fn check_memory(&self, memory: &Memory) -> Verdict {
        for (key, word) in self.keys.iter().enumerate() {
            let entries = self.scenario.entries(memory, *word);
            if entries.len() > 1 && self.scenario.mode != Mode::Unlocked {
                return Err(format!("key {key} has two entries: {entries:x?}"));
            }
        }
        Ok(())
    }

    fn check_end(&self, memory: &Memory, history: &History, _: bool) -> Verdict {
        if history.failed == 0 && self.scenario.is_locked(memory) {
            return Err(format!("a lock is held at the end: {memory:x?}"));
        }
        if !self.scenario.keeps || history.failed != 0 {
            return Ok(());
        }
        for (key, word) in self.keys.iter().enumerate() {
            let acts = (0..MAX_REQUESTS).filter(|number| history.stored >> number & 1 == 1);
            let mut acts = acts.map(|number| self.scenario.act(number));
            let is_removed = acts.clone().any(|act| act == Act::Remove(key));
            let is_put =
                acts.any(|act| matches!(act, Act::Put(of) | Act::PutIfAbsent(of) if of == key));
            if is_put && !is_removed && self.scenario.entries(memory, *word).is_empty() {
                return Err(format!("key {key} was stored and is lost"));
            }
        }
        Ok(())
    }

    fn torn(&self, at: usize, mut values: Vec<u64>) -> Vec<u64> {
        if self.scenario.tears.is_empty() {
            return values;
        }
        if at.is_multiple_of(BUCKET_WORDS) {
            return torn(&values, self.scenario.tears);
        }
        // No check matches a torn word of a key or a value, so one stands for all.
        if let [first, second, ..] = values[..] {
            values.push(first ^ (first ^ second) & TORN_BYTE);
        }
        values
    }
}

impl Case<'_> {
    fn check_outcome(
        &self,
        Turn { number, request: act, .. }: Turn,
        outcome: Outcome<u64>,
        history: &mut History,
    ) -> Verdict {
        // Without a lock, a key may be in two buckets.
        let may_be_stale = self.scenario.mode == Mode::Unlocked;
        let gone = history.void | history.stale[number];
        let before = history.before[number];
        match outcome {
            Outcome::Hit(value) => {
                let Some(put) = (0..MAX_REQUESTS).find(|put| value_of(*put) == value) else {
                    return Err(format!("a hit of {value:#x}, which no request has put"));
                };
                if history.started >> put & 1 == 0 || self.key_of(put) != self.key_of(number) {
                    return Err(format!("a hit of the value of another key, {put}"));
                }
                if !may_be_stale && gone >> put & 1 == 1 {
                    return Err(format!("a hit of the stale value of request {put}"));
                }
                // The put has taken effect, even if it has not ended.
                history.superseded |= self.with_key(history.before[put], number);
            }
            Outcome::Written(written) => {
                let needs_key =
                    matches!(written, Written::Present | Written::Updated | Written::Removed);
                let puts = self.with_key(history.started & !gone & !(1 << number), number);
                let is_put = |put| !matches!(self.scenario.act(put), Act::Get(_) | Act::Remove(_));
                let may_be_there = (0..MAX_REQUESTS).any(|put| puts >> put & 1 == 1 && is_put(put));
                if needs_key && !may_be_there && !may_be_stale {
                    return Err(format!("{written:?}, but the key is not there"));
                }
                let is_removed = (0..MAX_REQUESTS).filter(|other| *other != number).any(|other| {
                    let is_started = history.started >> other & 1 == 1;
                    is_started && self.scenario.act(other) == Act::Remove(act.key())
                });
                let was_there = self.scenario.keeps && self.with_key(before, number) != 0;
                if written == Written::Absent && was_there && !is_removed {
                    return Err("absent, but the key was there all the time".into());
                }
                let is_stored = matches!(
                    written,
                    Written::Inserted | Written::Updated | Written::Evicted | Written::Removed
                );
                if let Act::Replace(_, put) = act
                    && is_stored
                {
                    // A value that is gone cannot be replaced, and each one only once.
                    if !may_be_stale && (gone | history.replaced) >> put & 1 == 1 {
                        return Err(format!("replaced the old value of {put}"));
                    }
                    history.replaced |= 1 << put;
                    history.superseded |= 1 << put;
                }
                match written {
                    Written::Inserted | Written::Updated | Written::Evicted | Written::Removed => {
                        history.superseded |= self.with_key(before, number);
                        history.stored |= 1 << number;
                    }
                    // READs beside a late WRITE may show it, and then the entry again.
                    Written::Absent if !self.scenario.has_late_writes() => {
                        history.superseded |= self.with_key(before, number);
                    }
                    Written::Absent => {}
                    Written::Present | Written::Dropped => history.void |= 1 << number,
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
}
