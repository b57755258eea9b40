//! Model check of the map: the real machine in the real pipeline, with every order of effects and
//! completions, with stale, torn and repeated READs, and with claims and WRITEs that fail and take
//! effect late.
//!
//! Scenarios are those of a list, and [`random`] ones.
// The casts are of indices of a few buckets, clients and requests.
#![allow(clippy::cast_possible_truncation)]

mod random;
mod rules;
mod scenarios;

use probeline_pipeline::model::MAX_CLIENTS;
use probeline_pipeline::{Operation, Pipeline};

use crate::config::Config;
use crate::context::Context;
use crate::control::State;
use crate::layout::{Layout, Place, check, hash};
use crate::machine::{Access, Mutant};
use crate::mode::Mode;
use crate::outcome::{Request, ValueHash};

/// Buckets of the memory, and words of each. The word behind them is the lock of the part.
const BUCKETS: usize = 3;
const BUCKET_WORDS: usize = 8;
const WORDS: usize = BUCKETS * BUCKET_WORDS + 1;
/// Attempts to lock a part or a bucket.
const LOCK_ATTEMPTS: u32 = 2;
/// Requests of all clients together.
const MAX_REQUESTS: usize = 8;

type Memory = [u64; WORDS];
type Wire = probeline_pipeline::model::Wire<WORDS>;
type Storage = [Operation<Access<u64, u64>>; 1];
type Driven = Pipeline<Wire, Storage, Context, Access<u64, u64>>;

/// An action of a client on the key of this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Get(usize),
    Put(usize),
    PutIfAbsent(usize),
    Remove(usize),
    /// Replace the value that the request of this number puts.
    Replace(usize, usize),
}

impl Act {
    fn key(self) -> usize {
        match self {
            Self::Get(key) | Self::Put(key) | Self::PutIfAbsent(key) | Self::Remove(key) => key,
            Self::Replace(key, _) => key,
        }
    }

    /// Returns the request. The value tells which request has put it.
    fn request(self, number: usize) -> Request<u64> {
        match self {
            Self::Get(_) => Request::Get,
            Self::Put(_) => Request::Put(value_of(number)),
            Self::PutIfAbsent(_) => Request::PutIfAbsent(value_of(number)),
            Self::Remove(_) => Request::Remove,
            Self::Replace(_, put) => {
                Request::Replace(value_of(number), ValueHash::from_value(&value_of(put)))
            }
        }
    }
}

/// An odd constant without structure.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the value that the request of this number puts. Values differ in each byte.
fn value_of(number: usize) -> u64 {
    u64::from_ne_bytes([number as u8 + 1; 8])
}

/// The parts of a word that tears between its highest byte and the others.
const TOP: &[u64] = &[0xff << 56, !(0xff << 56)];
/// The parts of a word that tears at the borders of its lowest and its highest byte.
const ENDS: &[u64] = &[0xff, !(0xff << 56 | 0xff), 0xff << 56];

/// The candidates of each key, in order.
type Orders = &'static [&'static [u64]];
type Scripts = &'static [&'static [Act]];

/// The configuration of one check.
#[derive(Clone, Copy, Debug)]
struct Scenario {
    buckets: u64,
    orders: Orders,
    scripts: Scripts,
    /// The clients that start only after this number of requests have ended.
    starts: [u8; MAX_CLIENTS],
    /// The age that each client gives to its first entry.
    ages: [u8; MAX_CLIENTS],
    claims_with_read: bool,
    /// The parts of a word at whose borders READs may tear it; none if words are whole.
    tears: &'static [u64],
    /// Whether atomics take effect after earlier WRITEs.
    ordered: bool,
    /// The clients that take every claim for that of a dead client.
    steals: [bool; MAX_CLIENTS],
    /// The clients whose requests are blocking calls.
    blocks: [bool; MAX_CLIENTS],
    /// Number of atomics and WRITEs that fail in the whole execution.
    failures: u8,
    /// Whether no entry may be lost: there is room for all keys.
    keeps: bool,
    mode: Mode,
    mutant: Mutant,
}

const PLAIN: Scenario = Scenario {
    buckets: 2,
    orders: &[&[0, 1], &[1, 0], &[0, 1]],
    scripts: &[],
    starts: [0; MAX_CLIENTS],
    ages: [0; MAX_CLIENTS],
    claims_with_read: false,
    tears: &[],
    ordered: false,
    steals: [false; MAX_CLIENTS],
    blocks: [false; MAX_CLIENTS],
    failures: 0,
    keeps: false,
    mode: Mode::Claims,
    mutant: Mutant::None,
};

impl Scenario {
    fn layout(&self) -> Layout {
        self.config().layout::<u64, u64>(1)
    }

    fn config(&self) -> Config {
        Config {
            candidates: self.orders[0].len() as u32,
            claims_with_read: self.claims_with_read,
            direct: false,
            mode: self.mode,
            lock_attempts: LOCK_ATTEMPTS,
            ..Config::new(self.buckets)
        }
    }

    /// Returns keys with the candidates of the scenario.
    fn keys(&self) -> Vec<u64> {
        let layout = self.layout();
        // Keys differ in each byte.
        let (mut keys, mut next) = (Vec::new(), (1_u64..).map(|key| key.wrapping_mul(FACTOR)));
        for order in self.orders {
            let has_order = |key: &u64| {
                let candidate = |nth| layout.candidate(hash(key), nth).index;
                (0..).zip(*order).all(|(nth, index)| candidate(nth) == *index)
            };
            keys.extend(next.find(has_order));
        }
        keys
    }

    fn drive(&self, who: usize) -> Driven {
        let wire = Wire::new(1, WORDS, 2, 0, self.tears.is_empty());
        let wire = if self.ordered { wire.with_ordered_writes() } else { wire };
        let mut context = Context::new::<u64, u64>(&wire, &self.config());
        // All wires are those of owner 0; tickets and locks tell clients apart.
        context.me = who as u32;
        if self.steals[who] {
            context.claim_ticks = 0;
        }
        (0..self.ages[who]).for_each(|_| context.clock.advance());
        Pipeline::new(wire, context, [Operation::EMPTY]).expect("sizes that fit")
    }

    fn act(&self, number: usize) -> Act {
        *self.scripts.iter().copied().flatten().nth(number).expect("a request")
    }

    /// Returns the value of the entry in a bucket for this key, if its check matches.
    fn entry(&self, memory: &Memory, bucket: usize, key: u64) -> Option<u64> {
        let [control, there, value] = *memory[bucket * BUCKET_WORDS..].first_chunk()?;
        let control = self.mode.control(control);
        let place = Place { owner: 0, index: bucket as u64 };
        let is_entry = control.state() == State::Full
            && there == key
            && control
                .has_check(check(hash(&key), &value.to_ne_bytes(), place) & self.mode.counts());
        is_entry.then_some(value)
    }

    /// Returns whether a client has a lock.
    fn is_locked(&self, memory: &Memory) -> bool {
        let buckets = self.buckets as usize;
        let has_readers = |word: u64| self.mode.control(word).0 != word;
        let is_claimed = |word: u64| self.mode.control(word).state() == State::Claimed;
        let controls = memory.iter().step_by(BUCKET_WORDS).take(buckets);
        let part_lock = memory.get(buckets * BUCKET_WORDS);
        match self.mode {
            Mode::PartLocks => part_lock != Some(&0),
            Mode::BucketLocks => {
                controls.clone().any(|word| has_readers(*word) || is_claimed(*word))
            }
            Mode::Claims | Mode::Unlocked => false,
        }
    }

    /// Returns whether a WRITE may reach a bucket that its client no longer has.
    fn has_late_writes(&self) -> bool {
        self.failures > 0 || self.steals != PLAIN.steals || self.mode == Mode::Unlocked
    }

    /// Returns the values of the entries of a key.
    fn entries(&self, memory: &Memory, key: u64) -> Vec<u64> {
        (0..self.buckets as usize).filter_map(|at| self.entry(memory, at, key)).collect()
    }
}
