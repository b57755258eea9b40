//! Model check of find-or-put: the real operations in the real pipeline, with every order of
//! completions, with stale, torn and repeated READs, and with claims that fail and take effect
//! late.
//!
//! A READ may return any value that a word had between post and completion. A bucket changes once,
//! from 0 to its value. A word read is therefore the word at the post, the word at the completion
//! or, if words may tear, any mix of the bytes of both. The time at which a READ samples a word
//! therefore needs no event of its own. This also covers a READ that the network executes twice,
//! even after a claim posted along with it. The checker stores visited states; the number of
//! executions is the number of paths through them.
//!
//! Batches are calls that poll until they are done; [`batches`] replays them from choices.
// The casts are of indices of a few buckets, clients and keys, and of the halves of a product.
#![allow(clippy::cast_possible_truncation)]

mod batches;
mod scenarios;
mod wire;

use core::hash::{Hash, Hasher};
use std::collections::HashMap;
use std::rc::Rc;

use probeline_pipeline::{Pipeline, Tag};
use probeline_transport::OpError;

use crate::bucket::Bucket;
use crate::cache::CacheEntry;
use crate::config::Config;
use crate::context::Context;
use crate::direct::Direct;
use crate::error::{OperationError, SubmitError};
use crate::find_or_put::FindOrPut;
use crate::layout::{Layout, Position};
use crate::outcome::{Intent, Outcome};
use crate::policy::OneRoundtrip;
use crate::probe::{Probe, Probing};
use crate::table::{Finished, Operation};
use crate::walk::Walk;
use wire::{Action, Posted, Wire};

const MOST_CLIENTS: usize = 3;
const MOST_BUCKETS: usize = 16;

/// Three keys whose words can look like each other when torn.
const KEYS: [u64; 3] = [0x8000_0000_0000_0001, 0x8000_0000_0000_0101, 0x8000_0000_0000_0100];
/// The word of the buckets that a scenario fills at the start; it resembles none of the keys.
const FILLER: u64 = 0xffff_ffff_ffff_ffff;

/// The words of all parts, concatenated.
type Memory = [u64; MOST_BUCKETS];

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

/// A rule violation that the check must detect.
#[derive(Clone, Copy, PartialEq, Eq)]
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
#[derive(Clone, Copy)]
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
    scripts: &'static [&'static [Request]],
    /// The clients that claim along with the first READ.
    one_roundtrip: [bool; MOST_CLIENTS],
    /// What each client's CPU may do with the part of owner 0.
    direct: [Direct; MOST_CLIENTS],
    /// The first chunk at which the next one is read ahead.
    ahead_from: u32,
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

type Driven = Pipeline<Wire, Storage, Context<Entries>, FindOrPut>;

/// Storage for the first `.1` operations.
#[derive(Clone, Hash)]
struct Storage([Operation; 2], usize);

impl AsMut<[Operation]> for Storage {
    fn as_mut(&mut self) -> &mut [Operation] {
        &mut self.0[..self.1]
    }
}

#[derive(Clone, Debug, Hash)]
struct Entries([CacheEntry; 8], usize);

impl AsMut<[CacheEntry]> for Entries {
    fn as_mut(&mut self) -> &mut [CacheEntry] {
        &mut self.0[..self.1]
    }
}

#[derive(Clone, Hash)]
struct World {
    memory: Memory,
    /// Clients, shared between worlds until they change.
    clients: [Option<Rc<Client>>; MOST_CLIENTS],
    /// Claims reported as failed that may still take effect, in order.
    late: Vec<(usize, u64)>,
    failures: u8,
    inserted: [u8; KEYS.len()],
    cleared: bool,
}

#[derive(Clone)]
struct Client {
    /// Hash of the other fields.
    fingerprint: u128,
    driven: Driven,
    /// Number of requests completed so far.
    done: u8,
    running: bool,
    /// Whether the key was in the table when the request started.
    present: bool,
}

impl Hash for Client {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.fingerprint.hash(hasher);
    }
}

type Verdict = Result<(), String>;

struct Checker<'a> {
    scenario: &'a Scenario,
    /// Number of executions from each visited world on, keyed by a 128-bit hash. Among ten million
    /// worlds, the probability that two share a hash is below 10^-24.
    paths: HashMap<u128, f64>,
}

impl Scenario {
    fn layout(&self) -> Layout {
        Layout::new(self.owners, self.buckets as u64 / u64::from(self.owners), 0, self.probing)
    }

    /// Creates the pipeline of one client.
    fn drive(&self, who: usize) -> Driven {
        let part = self.buckets / self.owners as usize;
        let trusts = !self.words_tear || self.mutant == Mutant::TrustsTornWords;
        let reaches = u32::from(self.direct[who] != Direct::Off);
        let wire = Wire::new(self.owners, part, 2 * self.storage as u32, reaches, trusts);
        let one_roundtrip =
            if self.one_roundtrip[who] { OneRoundtrip::On } else { OneRoundtrip::Off };
        let config = Config { one_roundtrip, ..Config::paper(part as u64) };
        let entries = Entries([CacheEntry::EMPTY; 8], self.cache_entries);
        let mut context = Context::new(&wire, self.layout(), &config, entries);
        context.policy.force(self.chunk as u32, self.ahead_from);
        context.probe_limit = self.chunk as u64 * u64::from(self.max_chunks);
        context.direct = self.direct[who];
        context.learns_torn_words = self.mutant == Mutant::LearnsTornWords;
        let storage = Storage([Operation::EMPTY; 2], self.storage);
        Pipeline::new(wire, context, storage).expect("sizes that fit")
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
        let mut memory = [0; MOST_BUCKETS];
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

    /// Checks that each key is in at most one bucket, and that no bucket before it is empty.
    fn check_memory(&self, memory: &Memory) -> Verdict {
        for (key, word) in KEYS.iter().enumerate() {
            let places: Vec<usize> = (0..MOST_BUCKETS).filter(|&at| memory[at] == *word).collect();
            let [at] = places[..] else {
                if places.is_empty() {
                    continue;
                }
                return Err(format!("key {key} is in buckets {places:?}"));
            };
            let mut before = self.order(self.homes[key]).take_while(|&probe| probe != at);
            if let Some(probe) = before.find(|&probe| memory[probe] == 0) {
                return Err(format!("key {key} lies behind the empty bucket {probe}"));
            }
        }
        Ok(())
    }

    /// Returns every result of a READ of these buckets that is possible now; `occupied` has a bit
    /// for each bucket that was occupied at the post.
    fn brought(
        &self,
        memory: &Memory,
        buckets: core::ops::Range<usize>,
        occupied: u16,
    ) -> Vec<Vec<u64>> {
        let mut brought = vec![Vec::new()];
        for at in buckets {
            let values = self.values(occupied >> at & 1 == 1, memory[at]);
            let with = |value: &u64| {
                let value = *value;
                brought.clone().into_iter().map(move |mut words: Vec<u64>| {
                    words.push(value);
                    words
                })
            };
            brought = values.iter().flat_map(with).collect();
        }
        brought
    }

    /// Returns the words that a READ may return for a bucket.
    fn values(&self, was_occupied: bool, now: u64) -> Vec<u64> {
        if was_occupied || now == 0 {
            return vec![now];
        }
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

/// Two hashes, each folding a 128-bit product as wyhash does.
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

/// Odd constants without structure: the fractional parts of the square roots of 2 and 3.
const FACTORS: [u64; 2] = [0x6a09_e667_f3bc_c909, 0xbb67_ae85_84ca_a73b];

fn fold(value: u64, factor: u64) -> u64 {
    let product = u128::from(value) * u128::from(factor);
    (product as u64 ^ (product >> 64) as u64).wrapping_add(factor)
}

fn fingerprint(world: &impl Hash) -> u128 {
    let mut hasher = Fingerprint(FACTORS);
    world.hash(&mut hasher);
    let [first, second] = hasher.0;
    u128::from(first) << 64 | u128::from(second)
}

impl<'a> Checker<'a> {
    /// Returns the number of states and executions of a scenario.
    fn check(scenario: &'a Scenario) -> Result<(usize, f64), String> {
        let client = |who| {
            (who < scenario.scripts.len()).then(|| {
                let driven = scenario.drive(who);
                let fingerprint = fingerprint(&driven);
                Rc::new(Client { fingerprint, driven, done: 0, running: false, present: false })
            })
        };
        let start = World {
            memory: scenario.empty_table(),
            clients: core::array::from_fn(client),
            late: Vec::new(),
            failures: scenario.failures,
            inserted: [0; KEYS.len()],
            cleared: false,
        };
        let mut checker = Self { scenario, paths: HashMap::new() };
        let executions = checker.explore(&start)?;
        Ok((checker.paths.len(), executions))
    }

    /// Returns the number of executions from this world on; 1 if nothing more can happen.
    fn explore(&mut self, world: &World) -> Result<f64, String> {
        let fingerprint = fingerprint(world);
        if let Some(&paths) = self.paths.get(&fingerprint) {
            return Ok(paths);
        }
        self.scenario.check_memory(&world.memory)?;
        let mut next = Vec::new();
        for who in 0..self.scenario.scripts.len() {
            self.moves_of(world, who, &mut next)?;
        }
        for which in 0..world.late.len() {
            let mut after = world.clone();
            let (at, word) = after.late.remove(which);
            claim(&mut after.memory, at, word);
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

    /// Clears the table, as all clients do between two barriers.
    fn clear(&self, world: &World) -> World {
        let mut after = world.clone();
        after.memory = self.scenario.empty_table();
        after.inserted = [0; KEYS.len()];
        after.cleared = true;
        for who in 0..self.scenario.scripts.len() {
            let client = after.client(who);
            client.done = 0;
            if self.scenario.mutant != Mutant::KeepsCache {
                client.driven.shared_mut().cache.forget();
            }
            after.seal(who);
        }
        after
    }

    fn moves_of(&self, world: &World, who: usize, next: &mut Vec<World>) -> Verdict {
        let Some(client) = &world.clients[who] else { return Ok(()) };
        if !client.running && usize::from(client.done) < self.scenario.scripts[who].len() {
            let mut after = world.clone();
            if self.start(&mut after, who)? {
                after.seal(who);
                next.push(after);
            }
        }
        // A walk along lines that the CPU can address waits for no completion.
        if client.running && client.driven.transport().posted().next().is_none() {
            let mut after = world.clone();
            self.poll(&mut after, who)?;
            after.seal(who);
            if fingerprint(&after) == fingerprint(world) {
                return Err(format!("client {who} waits for nothing"));
            }
            next.push(after);
        }
        for (nth, posted) in client.driven.transport().posted() {
            self.moves_of_posted(world, who, nth, posted, next)?;
        }
        Ok(())
    }

    fn moves_of_posted(
        &self,
        world: &World,
        who: usize,
        nth: usize,
        Posted { action, request, .. }: Posted,
        next: &mut Vec<World>,
    ) -> Verdict {
        let mut go = |change: &dyn Fn(&mut World) -> &mut Wire, completes: bool| {
            let mut after = world.clone();
            change(&mut after);
            if completes {
                self.poll(&mut after, who)?;
            }
            after.seal(who);
            next.push(after);
            Ok(())
        };
        let client = world.clients[who].as_ref();
        let wire = |world: &World| -> bool {
            world.clients[who].as_ref().is_some_and(|client| {
                client.running && client.driven.transport().request == request
            })
        };
        let wanted = client.is_some() && wire(world);
        let may_fail = wanted && world.failures > 0;
        match action {
            Action::Read { from, occupied, .. } => {
                let start = client.map_or(0, |client| client.driven.transport().index(from.start));
                let buckets = start..start + from.words as usize;
                let all = if wanted {
                    self.scenario.brought(&world.memory, buckets, occupied)
                } else {
                    // The operation is done, so no code reads these words.
                    vec![vec![0; from.words as usize]]
                };
                for words in all {
                    go(
                        &|after| {
                            let wire = after.wire(who);
                            wire.bring(nth, &words);
                            wire
                        },
                        true,
                    )?;
                }
                Ok(())
            }
            Action::CompareAndSwap { at, desired } => {
                go(
                    &|after| {
                        let old = after.memory[at];
                        claim(&mut after.memory, at, desired);
                        let wire = after.wire(who);
                        wire.set_answer(nth, old);
                        wire
                    },
                    false,
                )?;
                if may_fail {
                    go(
                        &|after| {
                            after.failures -= 1;
                            after.come_late(at, desired);
                            let wire = after.wire(who);
                            wire.complete(nth, Err(OpError::RetryExceeded));
                            wire
                        },
                        true,
                    )?;
                }
                Ok(())
            }
            Action::FetchAdd { at } => go(
                &|after| {
                    let old = after.memory[at];
                    let wire = after.wire(who);
                    wire.set_answer(nth, old);
                    wire
                },
                false,
            ),
            Action::Answer { old } => {
                let lies = self.scenario.mutant == Mutant::MisreportsClaims;
                go(
                    &|after| {
                        let wire = after.wire(who);
                        wire.complete(nth, Ok(if lies { 0 } else { old }));
                        wire
                    },
                    true,
                )?;
                if may_fail {
                    go(
                        &|after| {
                            after.failures -= 1;
                            let wire = after.wire(who);
                            wire.complete(nth, Err(OpError::RetryExceeded));
                            wire
                        },
                        true,
                    )?;
                }
                Ok(())
            }
        }
    }

    fn request(&self, client: &Client, who: usize) -> Request {
        self.scenario.scripts[who][usize::from(client.done)]
    }

    /// Starts a client's next request. Returns false while its storage drains.
    fn start(&self, world: &mut World, who: usize) -> Result<bool, String> {
        let memory = world.memory;
        let client = world.client(who);
        let Request { intent, key } = self.scenario.scripts[who][usize::from(client.done)];
        let mut operation = FindOrPut::starting_at(self.scenario.walk(intent, key));
        if self.scenario.mutant == Mutant::BelievesRead && self.scenario.one_roundtrip[who] {
            operation = operation.believing_its_read(client.driven.shared());
        }
        let wire = client.driven.transport_mut();
        wire.set_memory(&memory);
        wire.request = wire.request.wrapping_add(1);
        match client.driven.submit(Tag(u64::from(client.done)), operation) {
            Ok(()) => {}
            Err(OperationError::Refused(SubmitError::Busy)) => return Ok(false),
            Err(error) => return Err(error.to_string()),
        }
        client.running = true;
        client.present = memory.contains(&KEYS[key]);
        self.poll(world, who)?;
        Ok(true)
    }

    /// Polls a client's pipeline, which handles the completion that its transport has.
    fn poll(&self, world: &mut World, who: usize) -> Verdict {
        let memory = world.memory;
        let client = world.client(who);
        client.driven.transport_mut().set_memory(&memory);
        let mut out = [Finished::default(); 2];
        let ended = client.driven.poll_into(&mut out).map_err(|error| error.to_string())?;
        let ended = match ended {
            [] => None,
            [end] if client.running && end.tag == Tag(u64::from(client.done)) => Some(end.result),
            _ => return Err(format!("client {who}: reported {ended:?}")),
        };
        world.memory = client.driven.transport().memory();
        let Some(result) = ended else { return Ok(()) };
        match result {
            Ok(outcome) => {
                self.check_outcome(world, who, outcome)?;
                world.client(who).done += 1;
            }
            // The client repeats the request.
            Err(OperationError::Failed(_)) => {}
            Err(error) => return Err(format!("client {who}: {error}")),
        }
        let client = world.client(who);
        (client.running, client.present) = (false, false);
        if self.scenario.storage == 1 {
            self.drain(world, who)?;
        }
        world.client(who).driven.transport_mut().clear_idle_slots();
        Ok(())
    }

    /// Completes at once everything that an operation has left in flight. Only the next request of
    /// the same client could observe it, and the checker chooses when that request starts. A claim
    /// may still take effect later.
    fn drain(&self, world: &mut World, who: usize) -> Verdict {
        let client = world.client(who);
        let posted: Vec<_> = client.driven.transport().posted().collect();
        for (nth, posted) in posted {
            if let Action::CompareAndSwap { at, desired } = posted.action {
                world.come_late(at, desired);
            }
            let client = world.client(who);
            client.driven.transport_mut().complete(nth, Ok(0));
            let ended = client.driven.poll_into(&mut []).map(<[_]>::len);
            if ended != Ok(0) {
                return Err(format!("client {who}: a late completion is reported: {ended:?}"));
            }
        }
        Ok(())
    }

    fn check_outcome(&self, world: &mut World, who: usize, outcome: Outcome) -> Verdict {
        let Some(client) = &world.clients[who] else { return Ok(()) };
        let key = self.request(client, who).key;
        let is_there = world.memory.contains(&KEYS[key]);
        let right = match outcome {
            // The key is present at the completion: the linearization point.
            Outcome::Found => is_there,
            // The key is absent at the start: the linearization point.
            Outcome::Full | Outcome::Absent => !client.present,
            // Its own claim inserted the key after the start.
            Outcome::Inserted => is_there && !client.present,
        };
        if !right {
            return Err(format!("client {who}: key {key} {outcome:?}, memory {:x?}", world.memory));
        }
        if outcome == Outcome::Inserted {
            world.inserted[key] += 1;
            if world.inserted[key] > 1 {
                return Err(format!("key {key} was inserted twice"));
            }
        }
        Ok(())
    }

    fn check_end(&self, world: &World) -> Verdict {
        for (who, client) in world.clients.iter().enumerate() {
            let Some(client) = client else { continue };
            if usize::from(client.done) != self.scenario.scripts[who].len() {
                return Err(format!("client {who} is stuck"));
            }
            if client.driven.clone().quiesce().is_err() || client.driven.in_flight() > 0 {
                return Err(format!("client {who} is not at rest"));
            }
        }
        for (key, &count) in world.inserted.iter().enumerate() {
            let is_there = world.memory.contains(&KEYS[key]);
            if count > 0 && !is_there {
                return Err(format!("key {key} was inserted and is lost"));
            }
            // A failed operation may have inserted it.
            if is_there && count == 0 && world.failures == self.scenario.failures {
                return Err(format!("key {key} is there, and no client was told"));
            }
        }
        Ok(())
    }
}

impl World {
    fn client(&mut self, who: usize) -> &mut Client {
        Rc::make_mut(self.clients[who].as_mut().expect("a client with a script"))
    }

    fn wire(&mut self, who: usize) -> &mut Wire {
        self.client(who).driven.transport_mut()
    }

    fn come_late(&mut self, at: usize, word: u64) {
        self.late.push((at, word));
        self.late.sort_unstable();
    }

    /// Updates the hash of a client after a change.
    fn seal(&mut self, who: usize) {
        let client = self.client(who);
        let state = (&client.driven, client.done, client.running, client.present);
        client.fingerprint = fingerprint(&state);
    }
}

fn claim(memory: &mut Memory, at: usize, word: u64) {
    if memory[at] == 0 {
        memory[at] = word;
    }
}
