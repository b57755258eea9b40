//! find-or-put, model-checked: the real state machine and the real cache under every order of
//! completions, stale, torn and repeated READs, and claims that fail and take effect late.
//!
//! A READ's word may show any value that it had between post and completion; since a bucket
//! changes once, from 0 to its value, that is the word at the post, the word at the completion,
//! or where words tear any mix of the bytes of both. Sampling times need no events of their own
//! then, and a READ that the network executes twice is covered, after a claim that was posted
//! along with it too. Visited states are kept, and the number of executions is the number of paths
//! through them.
// Indices of a few buckets, clients and keys, and the halves of a product.
#![allow(clippy::cast_possible_truncation)]

mod client;
mod scenarios;

use core::hash::{Hash, Hasher};
use std::collections::HashMap;

use crate::find_or_put::{Intent, Outcome};
use crate::layout::Layout;
use crate::probe::Probing;
use client::{Atomic, Client, First};

const MOST_CLIENTS: usize = 3;
const MOST_BUCKETS: usize = 8;

/// Three buckets of which each can look like the others when torn.
const KEYS: [u64; 3] = [0x8000_0000_0000_0001, 0x8000_0000_0000_0101, 0x8000_0000_0000_0100];
/// What stands in a bucket from the start, where a scenario says so: like none of the keys.
const FILLER: u64 = 0xffff_ffff_ffff_ffff;

/// The content of a bucket: nothing, a key counted from 1, or the filler.
type Content = u8;
const EMPTY: Content = 0;
const FILLED: Content = KEYS.len() as Content + 1;

fn content_of(key: usize) -> Content {
    key as Content + 1
}

fn word_of(content: Content) -> u64 {
    match content {
        EMPTY => 0,
        FILLED => FILLER,
        key => KEYS[usize::from(key) - 1],
    }
}

#[derive(Clone, Copy)]
struct Request {
    intent: Intent,
    key: usize,
}

const fn put(key: usize) -> Request {
    Request { intent: Intent::FindOrPut, key }
}

const fn find(key: usize) -> Request {
    Request { intent: Intent::Find, key }
}

/// A driver that breaks a rule, to see that the check finds it out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mutant {
    None,
    /// The state machine is not told that words may tear.
    TrustsTornWords,
    /// It takes what the READ shows of the bucket that it claims along with it.
    BelievesRead,
    /// The cache takes words as they landed, torn or not.
    LearnsTornWords,
    /// The cache is kept when the table is cleared.
    KeepsCache,
}

/// What a check runs.
#[derive(Clone, Copy)]
struct Scenario {
    buckets: usize,
    chunk: usize,
    max_chunks: u32,
    probing: Probing,
    /// The buckets that are filled from the start.
    filled: &'static [usize],
    /// The first bucket in each key's probe order.
    homes: [usize; KEYS.len()],
    scripts: &'static [&'static [Request]],
    /// Which clients claim along with the first READ.
    claim_first: [bool; MOST_CLIENTS],
    /// From which chunk on the next is read ahead.
    ahead_from: u32,
    /// Entries of each client's cache.
    cache_entries: usize,
    /// The table is cleared when all scripts have ended, and they run again.
    clears: bool,
    words_tear: bool,
    /// Claims that end in error, in the whole execution.
    failures: u8,
    mutant: Mutant,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct World {
    memory: [Content; MOST_BUCKETS],
    clients: [Client; MOST_CLIENTS],
    /// Claims of nobody any more that may still take effect, in order.
    late: Vec<(u8, Content)>,
    failures: u8,
    inserted: [u8; KEYS.len()],
    cleared: bool,
}

type Verdict = Result<(), String>;

struct Checker<'a> {
    scenario: &'a Scenario,
    layout: Layout,
    /// Executions from each visited world on, by a 128-bit hash: among ten million worlds two
    /// share one with a probability below 10^-24.
    paths: HashMap<u128, f64>,
}

/// Two hashes at once, each folding a product of 128 bits as wyhash does.
struct Fingerprint([u64; 2]);

impl Hasher for Fingerprint {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        let [first, second] = self.0;
        self.0 =
            [fold(first ^ value, FACTORS[0]), fold(second.rotate_left(23) ^ value, FACTORS[1])];
    }

    fn finish(&self) -> u64 {
        self.0[0]
    }
}

/// Odd, and without a pattern: the fractions of the square roots of 2 and of 3.
const FACTORS: [u64; 2] = [0x6a09_e667_f3bc_c909, 0xbb67_ae85_84ca_a73b];

fn fold(value: u64, factor: u64) -> u64 {
    let product = u128::from(value) * u128::from(factor);
    (product as u64 ^ (product >> 64) as u64).wrapping_add(factor)
}

fn fingerprint(world: &World) -> u128 {
    let mut hasher = Fingerprint(FACTORS);
    world.hash(&mut hasher);
    let [first, second] = hasher.0;
    u128::from(first) << 64 | u128::from(second)
}

impl<'a> Checker<'a> {
    /// States and executions of a scenario.
    fn check(scenario: &'a Scenario) -> Result<(usize, f64), String> {
        let layout = Layout::new(1, scenario.buckets as u64, 0, scenario.probing);
        let mut checker = Self { scenario, layout, paths: HashMap::new() };
        let client = Client::new(scenario.cache_entries);
        let start = World {
            memory: checker.empty_table(),
            clients: [client.clone(), client.clone(), client],
            late: Vec::new(),
            failures: scenario.failures,
            inserted: [0; KEYS.len()],
            cleared: false,
        };
        let executions = checker.explore(&start)?;
        Ok((checker.paths.len(), executions))
    }

    fn empty_table(&self) -> [Content; MOST_BUCKETS] {
        let mut memory = [EMPTY; MOST_BUCKETS];
        for &bucket in self.scenario.filled {
            memory[bucket] = FILLED;
        }
        memory
    }

    /// The number of executions from here on; 1 where nothing can happen any more.
    fn explore(&mut self, world: &World) -> Result<f64, String> {
        let fingerprint = fingerprint(world);
        if let Some(&paths) = self.paths.get(&fingerprint) {
            return Ok(paths);
        }
        self.check_memory(world)?;
        let mut next = Vec::new();
        for who in 0..self.scenario.scripts.len() {
            self.moves_of(world, who, &mut next)?;
        }
        for which in 0..world.late.len() {
            let mut after = world.clone();
            let (at, content) = after.late.remove(which);
            claim(&mut after.memory, at, content);
            next.push(after);
        }
        if next.is_empty() {
            self.check_end(world)?;
            if self.scenario.clears && !world.cleared {
                next.push(self.clear(world));
            }
        }
        let mut paths = if next.is_empty() { 1.0 } else { 0.0 };
        for after in &next {
            paths += self.explore(after)?;
        }
        self.paths.insert(fingerprint, paths);
        Ok(paths)
    }

    /// What all do together between two barriers.
    fn clear(&self, world: &World) -> World {
        let mut after = world.clone();
        after.memory = self.empty_table();
        after.inserted = [0; KEYS.len()];
        after.cleared = true;
        for client in &mut after.clients {
            client.done = 0;
            if self.scenario.mutant != Mutant::KeepsCache {
                client.cache.forget();
            }
        }
        after
    }

    fn moves_of(&self, world: &World, who: usize, next: &mut Vec<World>) -> Verdict {
        let client = &world.clients[who];
        if client.search.is_none() {
            if usize::from(client.done) < self.scenario.scripts[who].len() {
                let mut after = world.clone();
                self.begin(&mut after, who)?;
                next.push(after);
            }
            return Ok(());
        }
        for slot in 0..2 {
            if let Some(occupied) = client.reading[slot] {
                self.deliveries(world, who, slot, occupied, next)?;
            }
        }
        self.first_claim(world, who, next)?;
        let mine = content_of(self.request(client, who).key);
        match client.atomic {
            Atomic::None => {}
            Atomic::Posted { at, claim: is_claim } => {
                let mut after = world.clone();
                let old = world.memory[usize::from(at)];
                if is_claim {
                    claim(&mut after.memory, at, mine);
                }
                after.clients[who].atomic = Atomic::Done { old, claim: is_claim };
                next.push(after);
                if is_claim && world.failures > 0 {
                    let mut after = world.clone();
                    after.come_late(at, mine);
                    self.fail(&mut after, who)?;
                    next.push(after);
                }
            }
            Atomic::Done { old, claim: is_claim } => {
                let mut after = world.clone();
                self.answer(&mut after, who, old, is_claim)?;
                next.push(after);
                if is_claim && world.failures > 0 {
                    let mut after = world.clone();
                    self.fail(&mut after, who)?;
                    next.push(after);
                }
            }
        }
        Ok(())
    }

    /// The claim posted along with the first READ takes effect, is answered, or fails before or
    /// after it took effect.
    fn first_claim(&self, world: &World, who: usize, next: &mut Vec<World>) -> Verdict {
        let client = &world.clients[who];
        let mine = content_of(self.request(client, who).key);
        let (mut after, mut failed) = (world.clone(), world.clone());
        match client.first {
            First::None => return Ok(()),
            First::Posted { at } => {
                let old = world.memory[usize::from(at)];
                claim(&mut after.memory, at, mine);
                after.clients[who].first = First::Done { old };
                failed.come_late(at, mine);
                failed.clients[who].first = First::None;
            }
            First::Done { old } => {
                after.clients[who].first = First::None;
                self.answer_first(&mut after, who, old)?;
            }
        }
        next.push(after);
        if world.failures > 0 {
            self.fail(&mut failed, who)?;
            next.push(failed);
        }
        Ok(())
    }

    fn request(&self, client: &Client, who: usize) -> Request {
        self.scenario.scripts[who][usize::from(client.done)]
    }

    /// The buckets in the probe order that begins at `home`.
    fn order(&self, home: usize) -> impl Iterator<Item = usize> + use<> {
        let (buckets, linear) = (self.scenario.buckets, self.scenario.probing == Probing::Linear);
        (0..buckets).map(move |nth| {
            if linear { (home + nth) % buckets } else { home / 8 * 8 + (home + nth) % 8 }
        })
    }

    fn check_outcome(&self, world: &mut World, who: usize, outcome: Outcome) -> Verdict {
        let client = &world.clients[who];
        let key = self.request(client, who).key;
        let is_there = world.memory.contains(&content_of(key));
        let right = match outcome {
            // Present when it ends: linearizes there.
            Outcome::Found => is_there,
            // Absent when it began: linearizes there.
            Outcome::Full | Outcome::Absent => !client.present,
            // Its own claim put it there since it began.
            Outcome::Inserted => is_there && !client.present,
        };
        if !right {
            return Err(format!("client {who}: key {key} {outcome:?}, memory {:?}", world.memory));
        }
        if outcome == Outcome::Inserted {
            world.inserted[key] += 1;
            if world.inserted[key] > 1 {
                return Err(format!("key {key} was inserted twice"));
            }
        }
        Ok(())
    }

    fn check_memory(&self, world: &World) -> Verdict {
        for key in 0..KEYS.len() {
            let places: Vec<usize> =
                (0..MOST_BUCKETS).filter(|&at| world.memory[at] == content_of(key)).collect();
            let [at] = places[..] else {
                if places.is_empty() {
                    continue;
                }
                return Err(format!("key {key} is in buckets {places:?}"));
            };
            let mut before = self.order(self.scenario.homes[key]).take_while(|&probe| probe != at);
            if let Some(probe) = before.find(|&probe| world.memory[probe] == EMPTY) {
                return Err(format!("key {key} lies behind the empty bucket {probe}"));
            }
        }
        Ok(())
    }

    fn check_end(&self, world: &World) -> Verdict {
        for (who, client) in world.clients.iter().enumerate() {
            let script = self.scenario.scripts.get(who).map_or(0, |script| script.len());
            if usize::from(client.done) != script {
                return Err(format!("client {who} is stuck"));
            }
        }
        for (key, &count) in world.inserted.iter().enumerate() {
            let is_there = world.memory.contains(&content_of(key));
            if count > 0 && !is_there {
                return Err(format!("key {key} was inserted and is lost"));
            }
            // Who failed may have inserted it.
            if is_there && count == 0 && world.failures == self.scenario.failures {
                return Err(format!("key {key} is there, and nobody was told"));
            }
        }
        Ok(())
    }
}

impl World {
    /// A claim that its client does not wait for any more.
    fn come_late(&mut self, at: u8, content: Content) {
        self.late.push((at, content));
        self.late.sort_unstable();
    }
}

fn claim(memory: &mut [Content; MOST_BUCKETS], at: u8, content: Content) {
    let bucket = &mut memory[usize::from(at)];
    if *bucket == EMPTY {
        *bucket = content;
    }
}
