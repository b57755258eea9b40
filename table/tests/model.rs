//! find-or-put, model-checked: the real state machine under every order of completions, stale,
//! torn and repeated READs, and claims that fail and take effect late.
//!
//! A READ's word may show any value that it had between post and completion; since a bucket
//! changes once, from 0 to its value, that is the word at the post, the word at the completion,
//! or where words tear any mix of the bytes of both. Sampling times need no events of their own
//! then, and a READ that the network executes twice is covered. Visited states are kept, and
//! the number of executions is the number of paths through them.

use core::hash::{Hash, Hasher};
use std::collections::HashMap;
use std::hash::DefaultHasher;

use table::{Bucket, Intent, Outcome, Search, Step};

const MOST_CLIENTS: usize = 3;
const MOST_BUCKETS: usize = 4;
const MOST_CHUNK: usize = 2;

/// Three buckets of which each can look like the others when torn.
const KEYS: [u64; 3] = [0x8000_0000_0000_0001, 0x8000_0000_0000_0101, 0x8000_0000_0000_0100];

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

/// What a check runs.
struct Scenario {
    buckets: usize,
    chunk: usize,
    max_chunks: u32,
    /// The first bucket in each key's probe order.
    homes: [usize; KEYS.len()],
    scripts: &'static [&'static [Request]],
    words_tear: bool,
    /// Whether the state machine is told that words may tear.
    protected: bool,
    /// Claims that end in error, in the whole execution.
    failures: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Atomic {
    None,
    Posted { at: u8, claim: bool },
    Done { old: u64, claim: bool },
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Client {
    /// Requests ended so far.
    done: u8,
    search: Option<Search>,
    /// The words at the post of the READ in each landing slot.
    reading: [Option<[u64; MOST_CHUNK]>; 2],
    /// The words that landed in each slot.
    landed: [Option<[u64; MOST_CHUNK]>; 2],
    atomic: Atomic,
    /// Whether the key was in the table when the request began.
    present: bool,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct World {
    memory: [u64; MOST_BUCKETS],
    clients: [Client; MOST_CLIENTS],
    /// A claim that was reported failed and may still take effect.
    late: Option<(u8, u64)>,
    failures: u8,
    inserted: [u8; KEYS.len()],
}

type Verdict = Result<(), String>;

struct Checker<'a> {
    scenario: &'a Scenario,
    /// Executions from each visited world on, by a 128-bit hash: among ten million worlds two
    /// share one with a probability below 10^-24.
    paths: HashMap<u128, f64>,
}

fn fingerprint(world: &World) -> u128 {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        salt.hash(&mut hasher);
        world.hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(1) << 64 | half(2)
}

impl Checker<'_> {
    fn start(scenario: &Scenario) -> Result<World, String> {
        let client = Client {
            done: 0,
            search: None,
            reading: [None; 2],
            landed: [None; 2],
            atomic: Atomic::None,
            present: false,
        };
        Ok(World {
            memory: [0; MOST_BUCKETS],
            clients: [client.clone(), client.clone(), client],
            late: None,
            failures: scenario.failures,
            inserted: [0; KEYS.len()],
        })
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
        if let Some((at, word)) = world.late {
            let mut after = world.clone();
            after.late = None;
            claim(&mut after.memory, at, word);
            next.push(after);
        }
        let mut paths = 0.0;
        for after in &next {
            paths += self.explore(after)?;
        }
        if next.is_empty() {
            self.check_end(world)?;
            paths = 1.0;
        }
        self.paths.insert(fingerprint, paths);
        Ok(paths)
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
            if let Some(before) = client.reading[slot] {
                self.deliveries(world, who, slot, before, next)?;
            }
        }
        match client.atomic {
            Atomic::None => {}
            Atomic::Posted { at, claim: is_claim } => {
                let mut after = world.clone();
                let word = KEYS[self.request(client, who).key];
                let old = world.memory[usize::from(at)];
                if is_claim {
                    claim(&mut after.memory, at, word);
                }
                after.clients[who].atomic = Atomic::Done { old, claim: is_claim };
                next.push(after);
                if is_claim && world.failures > 0 {
                    let mut after = world.clone();
                    after.late = Some((at, word));
                    self.fail(&mut after, who)?;
                    next.push(after);
                }
            }
            Atomic::Done { old, claim: is_claim } => {
                let mut after = world.clone();
                after.clients[who].atomic = Atomic::None;
                let search = after.clients[who].search.as_mut().ok_or("no search")?;
                let step = if is_claim { search.on_claim(old) } else { search.on_confirm(old) };
                self.take(&mut after, who, step)?;
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

    /// Every set of words that the READ in `slot` may bring now.
    fn deliveries(
        &self,
        world: &World,
        who: usize,
        slot: usize,
        before: [u64; MOST_CHUNK],
        next: &mut Vec<World>,
    ) -> Verdict {
        let client = &world.clients[who];
        let chunk = chunk_in(client.search.as_ref().ok_or("no search")?, slot);
        let mut brought = vec![[0; MOST_CHUNK]];
        for word in 0..self.scenario.chunk {
            let now = world.memory[self.bucket_at(client, who, chunk, word)];
            let mut more = Vec::new();
            for value in self.values(before[word], now) {
                for words in &brought {
                    let mut words = *words;
                    words[word] = value;
                    more.push(words);
                }
            }
            brought = more;
        }
        for words in brought {
            let mut after = world.clone();
            after.clients[who].reading[slot] = None;
            after.clients[who].landed[slot] = Some(words);
            if after.clients[who].atomic == Atomic::None {
                self.advance(&mut after, who)?;
            }
            next.push(after);
        }
        Ok(())
    }

    fn values(&self, before: u64, now: u64) -> Vec<u64> {
        if before == now {
            return vec![now];
        }
        if !self.scenario.words_tear {
            return vec![before, now];
        }
        // `before` is 0: every subset of the bytes of `now` that are not 0. Those without the
        // top one are all empty to a search, so one stands for them.
        let mut values = vec![now & 0xff << 56];
        for byte in 0..7 {
            let part = now & (0xff << (8 * byte));
            if part != 0 {
                values.extend(values.clone().iter().map(|value| value | part));
            }
        }
        values.push(0);
        values
    }

    fn request(&self, client: &Client, who: usize) -> Request {
        self.scenario.scripts[who][usize::from(client.done)]
    }

    fn bucket_at(&self, client: &Client, who: usize, chunk: u32, word: usize) -> usize {
        let home = self.scenario.homes[self.request(client, who).key];
        (home + chunk as usize * self.scenario.chunk + word) % self.scenario.buckets
    }

    fn begin(&self, world: &mut World, who: usize) -> Verdict {
        let request = self.request(&world.clients[who], who);
        let word = KEYS[request.key];
        let present = world.memory.contains(&word);
        let bucket = Bucket::from_word(word).ok_or("keys are occupied buckets")?;
        let client = &mut world.clients[who];
        client.present = present;
        client.search = Some(Search::new(bucket, request.intent, self.scenario.max_chunks));
        self.advance(world, who)
    }

    /// Posts what is due and scans the chunk that is waited for, as the pipeline does.
    fn advance(&self, world: &mut World, who: usize) -> Verdict {
        loop {
            let client = &world.clients[who];
            let Some(search) = &client.search else { return Ok(()) };
            if let Some(chunk) = search.request() {
                let mut words = [0; MOST_CHUNK];
                for (word, value) in words.iter_mut().take(self.scenario.chunk).enumerate() {
                    *value = world.memory[self.bucket_at(client, who, chunk, word)];
                }
                let client = &mut world.clients[who];
                client.reading[chunk as usize % 2] = Some(words);
                client.landed[chunk as usize % 2] = None;
                client.search.as_mut().ok_or("no search")?.requested();
                continue;
            }
            let slot = search.chunk() as usize % 2;
            let Some(words) = client.landed[slot] else { return Ok(()) };
            let client = &mut world.clients[who];
            let search = client.search.as_mut().ok_or("no search")?;
            let whole = !self.scenario.protected;
            let step = search.scan(&words[..self.scenario.chunk], whole);
            if step != Step::Await {
                return self.take(world, who, step);
            }
        }
    }

    fn take(&self, world: &mut World, who: usize, step: Step) -> Verdict {
        let client = &world.clients[who];
        let search = client.search.as_ref().ok_or("no search")?;
        let at = |offset: u32| {
            let bucket = self.bucket_at(client, who, search.chunk(), offset as usize);
            u8::try_from(bucket).unwrap()
        };
        match step {
            Step::Await | Step::Rescan => return self.advance(world, who),
            Step::Claim { offset } => {
                world.clients[who].atomic = Atomic::Posted { at: at(offset), claim: true };
            }
            Step::Confirm { offset } => {
                world.clients[who].atomic = Atomic::Posted { at: at(offset), claim: false };
            }
            Step::Done(outcome) => {
                self.check_outcome(world, who, outcome)?;
                self.finish(world, who, 1);
            }
        }
        Ok(())
    }

    /// The request ends; READs ahead of need are left to land nowhere.
    fn finish(&self, world: &mut World, who: usize, done: u8) {
        let client = &mut world.clients[who];
        client.done += done;
        client.search = None;
        client.reading = [None; 2];
        client.landed = [None; 2];
        client.atomic = Atomic::None;
        client.present = false;
    }

    /// The claim is reported failed; the client tries the same request again.
    fn fail(&self, world: &mut World, who: usize) -> Verdict {
        world.failures -= 1;
        self.finish(world, who, 0);
        self.begin(world, who)
    }

    fn check_outcome(&self, world: &mut World, who: usize, outcome: Outcome) -> Verdict {
        let client = &world.clients[who];
        let key = self.request(client, who).key;
        let is_there = world.memory.contains(&KEYS[key]);
        let right = match outcome {
            // Present when it ends: linearizes there.
            Outcome::Found => is_there,
            // Absent when it began: linearizes there.
            Outcome::Full | Outcome::Absent => !client.present,
            // Its own claim put it there since it began.
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

    fn check_memory(&self, world: &World) -> Verdict {
        for (key, &word) in KEYS.iter().enumerate() {
            let places: Vec<usize> =
                (0..MOST_BUCKETS).filter(|&at| world.memory[at] == word).collect();
            let [at] = places[..] else {
                if places.is_empty() {
                    continue;
                }
                return Err(format!("key {key} is in buckets {places:?}"));
            };
            let mut probe = self.scenario.homes[key];
            while probe != at {
                if world.memory[probe] == 0 {
                    return Err(format!("key {key} lies behind the empty bucket {probe}"));
                }
                probe = (probe + 1) % self.scenario.buckets;
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
            if count > 0 && !world.memory.contains(&KEYS[key]) {
                return Err(format!("key {key} was inserted and is lost"));
            }
        }
        Ok(())
    }
}

fn claim(memory: &mut [u64; MOST_BUCKETS], at: u8, word: u64) {
    let bucket = &mut memory[usize::from(at)];
    if *bucket == 0 {
        *bucket = word;
    }
}

/// The chunk that lands in `slot`: the one waited for, or the one after it.
fn chunk_in(search: &Search, slot: usize) -> u32 {
    let chunk = search.chunk();
    if chunk as usize % 2 == slot { chunk } else { chunk + 1 }
}

/// States and executions over several shapes and all placements of two homes; the ring is
/// symmetric, so the first key's home is bucket 0. The third key shares it: clusters of three.
fn check(
    (scripts, shapes): (Scripts, &[Shape]),
    words_tear: bool,
    protected: bool,
    failures: u8,
) -> Result<(usize, f64), String> {
    let (mut states, mut executions) = (0, 0.0);
    for &(buckets, chunk, max_chunks) in shapes {
        for home in 0..buckets {
            let scenario = Scenario {
                buckets,
                chunk,
                max_chunks,
                homes: [0, home, 0],
                scripts,
                words_tear,
                protected,
                failures,
            };
            let mut checker = Checker { scenario: &scenario, paths: HashMap::new() };
            executions += checker.explore(&Checker::start(&scenario)?)?;
            states += checker.paths.len();
        }
    }
    Ok((states, executions))
}

type Scripts = &'static [&'static [Request]];
/// Buckets, C and M.
type Shape = (usize, usize, u32);

const SHAPES: &[Shape] = &[(2, 2, 1), (3, 1, 3), (3, 2, 2), (4, 2, 2)];
/// For three clients, whose worlds are many more.
const SMALL_SHAPES: &[Shape] = &[(2, 2, 1), (2, 1, 2), (3, 1, 3)];

const THREE_KEYS: (Scripts, &[Shape]) = (&[&[put(0)], &[put(1)], &[put(2)]], SMALL_SHAPES);

const ALL: [(&str, (Scripts, &[Shape])); 5] = [
    ("two keys crossed", (&[&[put(0), put(1)], &[put(1), put(0)]], SHAPES)),
    ("one key, three clients", (&[&[put(0)], &[put(0)], &[find(0)]], SMALL_SHAPES)),
    ("finds among puts", (&[&[put(0), find(1)], &[put(1), find(0)]], SHAPES)),
    ("three keys", THREE_KEYS),
    ("more keys than room", (&[&[put(0), put(1)], &[put(2)]], SHAPES)),
];

fn check_all(words_tear: bool, failures: u8) {
    for (name, scenario) in ALL {
        match check(scenario, words_tear, true, failures) {
            Ok((states, executions)) => println!(
                "{name}: {states} states, {executions:.3e} executions \
                 (torn words: {words_tear}, failing claims: {failures})"
            ),
            Err(violation) => panic!("{name}: {violation}"),
        }
    }
}

#[test]
fn whole_words() {
    check_all(false, 0);
}

#[test]
fn torn_words() {
    check_all(true, 0);
}

#[test]
fn torn_words_and_a_failing_claim_with_a_late_effect() {
    check_all(true, 1);
}

#[test]
fn without_protection_torn_words_are_found_out() {
    let violation = check(THREE_KEYS, true, false, 0).unwrap_err();
    println!("as it must be: {violation}");
}

#[test]
fn whole_words_need_no_protection() {
    for (name, scenario) in ALL {
        let (states, executions) = check(scenario, false, false, 1).unwrap();
        println!("{name}: {states} states, {executions:.3e} executions, no protection");
    }
}
