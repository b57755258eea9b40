//! Model check of find-or-put: the real operations in the real pipeline, with every order of
//! completions, with stale, torn and repeated READs, and with claims that fail and take effect
//! late.
//!
//! A bucket changes once, from 0 to its value. A word read is therefore the word at the post, the word
//! at the completion or, if words may tear, any mix of the bytes of both.
// The casts are of indices of a few buckets, clients and keys, and of the halves of a product.
#![allow(clippy::cast_possible_truncation)]

mod random;
mod scenarios;
mod subject;
mod tree;
mod wide;

use core::hash::Hash;

use probeline_pipeline::model::{MAX_CLIENTS, Verdict};
use probeline_pipeline::{Machine, Operation};

use crate::bucket::Bucket;
use crate::cache::CacheEntry;
use crate::context::Context;
use crate::direct::Direct;
use crate::layout::{Layout, Position, Probing};
use crate::outcome::Intent;
use crate::probe::Probe;
use crate::walk::Walk;
use subject::Case;

const MAX_BUCKETS: usize = 16;
/// Requests of all clients together.
const MAX_REQUESTS: usize = 8;

/// Three keys whose words can look like each other when torn.
const KEYS: [u64; 3] = [0x8000_0000_0000_0001, 0x8000_0000_0000_0101, 0x8000_0000_0000_0100];
/// The word of the buckets that a scenario fills at the start; it resembles none of the keys.
const FILLER: u64 = 0xffff_ffff_ffff_ffff;

/// The transport of a client.
type Wire = probeline_pipeline::model::Wire<MAX_BUCKETS>;

/// The words of all parts, concatenated.
type Memory = [u64; MAX_BUCKETS];

#[derive(Clone, Copy, Debug)]
struct Request {
    intent: Intent,
    key: usize,
}

type Scripts = &'static [&'static [Request]];
/// Buckets, C and M.
type Shape = (usize, usize, u32);

const fn put(key: usize) -> Request {
    Request { intent: Intent::FindOrPut, key }
}

const fn find(key: usize) -> Request {
    Request { intent: Intent::Find, key }
}

/// A rule violation that the check must detect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    None,
    /// The operation assumes that words are whole, but they may tear.
    TrustsTornWords,
    /// The operation trusts what the first READ shows of the bucket that it claims along with it.
    BelievesRead,
    /// The cache stores words as they landed, even torn ones.
    LearnsTornWords,
    /// The cache is not dropped when the table is cleared.
    KeepsCache,
    /// The completion of a claim always reports success.
    MisreportsClaims,
}

/// The configuration of one check.
#[derive(Clone, Copy, Debug)]
struct Scenario {
    /// Number of owners, and parts of the ring.
    owners: u32,
    /// Number of buckets of all parts.
    buckets: usize,
    chunk: usize,
    max_chunks: u32,
    probing: Probing,
    /// The buckets that are occupied at the start.
    filled: &'static [usize],
    /// The first bucket in each key's probe order.
    homes: [usize; KEYS.len()],
    scripts: Scripts,
    /// The number of requests that end before each client starts.
    starts: [u8; MAX_CLIENTS],
    /// The clients that claim along with the first READ.
    one_roundtrip: [bool; MAX_CLIENTS],
    /// The operations that each client's CPU may execute on the part of owner 0.
    direct: [Direct; MAX_CLIENTS],
    /// The first chunk at which the next one is read ahead.
    ahead_from: u32,
    /// Whether the requests of the first client are one batch.
    batch: bool,
    /// Number of operations that each client has storage for.
    storage: usize,
    /// Number of entries of each client's cache.
    cache_entries: usize,
    /// Whether the table is cleared after all scripts have run, and the scripts run again.
    clears: bool,
    words_tear: bool,
    /// Number of claims that fail in the whole execution.
    failures: u8,
    mutant: Mutant,
}

/// The paper's algorithm.
const PAPER: Scenario = Scenario {
    owners: 1,
    buckets: 0,
    chunk: 0,
    max_chunks: 0,
    probing: Probing::Linear,
    filled: &[],
    homes: [0; KEYS.len()],
    scripts: &[],
    starts: [0; MAX_CLIENTS],
    one_roundtrip: [false; MAX_CLIENTS],
    direct: [Direct::Off; MAX_CLIENTS],
    ahead_from: 0,
    batch: false,
    storage: 1,
    cache_entries: 0,
    clears: false,
    words_tear: false,
    failures: 0,
    mutant: Mutant::None,
};

/// Storage for the first `.1` operations.
#[derive(Clone, Hash)]
struct Storage<M: Machine>([Operation<M>; 2], usize)
where
    Operation<M>: Clone + Hash;

impl<M: Machine> AsMut<[Operation<M>]> for Storage<M>
where
    Operation<M>: Clone + Hash,
{
    fn as_mut(&mut self) -> &mut [Operation<M>] {
        &mut self.0[..self.1]
    }
}

impl Scenario {
    /// Returns the scenario in these shapes, with all placements of two homes. The ring is symmetric, so
    /// the first key's home is bucket 0. The third key shares it, which gives clusters of three. The
    /// second key's home does not matter if no script has that key.
    fn in_shapes<S: Copy>(self, subject: S, scripts: Scripts, shapes: &[Shape]) -> Vec<Case<S>> {
        let mut cases = Vec::new();
        let has_second = scripts.concat().iter().any(|request| request.key == 1);
        for &(buckets, chunk, max_chunks) in shapes {
            let placements = if has_second { buckets } else { 1 };
            for home in 0..placements {
                let homes = [0, home, 0];
                let scenario = Self { buckets, chunk, max_chunks, homes, scripts, ..self };
                cases.push(Case { scenario, subject });
            }
        }
        cases
    }

    fn layout(&self) -> Layout {
        Layout::new(self.owners, self.buckets as u64 / u64::from(self.owners), 0, self.probing)
    }

    /// Gives the searches C, M and the read-ahead of the scenario.
    fn limit<C: AsMut<[CacheEntry]>>(&self, context: &mut Context<C>) {
        context.policy.chooser.force(self.chunk as u32, self.ahead_from);
        context.probe_limit = self.chunk as u64 * u64::from(self.max_chunks);
    }

    /// Checks that a key has at most one place, and no empty bucket before it.
    fn check_place(&self, memory: &Memory, key: usize, places: Vec<usize>) -> Verdict {
        let [at] = places[..] else {
            if places.is_empty() {
                return Ok(());
            }
            return Err(format!("key {key} is in buckets {places:?}"));
        };
        let mut before = self.order(self.homes[key]).take_while(|&probe| probe != at);
        match before.find(|&probe| memory[probe] == 0) {
            Some(probe) => Err(format!("key {key} lies behind the empty bucket {probe}")),
            None => Ok(()),
        }
    }

    /// Creates the walk of an operation on a key, at the key's home.
    fn walk(&self, intent: Intent, key: usize) -> Walk {
        let (home, part) = (self.homes[key] as u64, self.buckets as u64 / u64::from(self.owners));
        let mut probe = Probe::NOWHERE;
        let (owner, index) = ((home / part) as u32, home % part);
        if self.probing == Probing::Linear {
            probe.at = Position { owner, index };
        } else {
            probe.at = Position { owner, index: index / 8 * 8 };
            probe.rotation = index as u32 % 8;
        }
        let left = self.chunk as u64 * u64::from(self.max_chunks);
        let bucket = Bucket::from_word(KEYS[key]).expect("keys are occupied buckets");
        Walk { bucket, intent, probe, passed: 0, left, lines: 0 }
    }

    fn empty_table(&self) -> Memory {
        let mut memory = [0; MAX_BUCKETS];
        for &bucket in self.filled {
            memory[bucket] = FILLER;
        }
        memory
    }

    /// Returns the buckets of the probe order that begins at `home`.
    fn order(&self, home: usize) -> impl Iterator<Item = usize> + use<> {
        let (buckets, linear) = (self.buckets, self.probing == Probing::Linear);
        (0..buckets).map(move |nth| {
            if linear { (home + nth) % buckets } else { home / 8 * 8 + (home + nth) % 8 }
        })
    }

    /// Returns the words that a READ may return for a bucket that was empty and is `now` occupied.
    fn values(&self, now: u64) -> Vec<u64> {
        if !self.words_tear {
            return vec![0, now];
        }
        // Every subset of the nonzero bytes of `now`. Without the top byte every subset is empty to
        // an operation, so 0 stands for all of them.
        let bytes = (0..8).map(|byte| now & 0xff << (8 * byte)).filter(|byte| *byte != 0);
        let (top, low): (Vec<u64>, Vec<u64>) = bytes.partition(|byte| byte >> 56 != 0);
        let mut values = vec![top[0]];
        for byte in low {
            values.extend(values.clone().iter().map(|value| value | byte));
        }
        values.push(0);
        values
    }
}
