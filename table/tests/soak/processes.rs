//! Four processes on shared memory that use the same keys, for a configurable time.
//!
//! Copies of this test program run the same test. Each process records what it saw of every key,
//! and all processes compare their records after each round.

use core::time::Duration;
use std::collections::HashMap;
use std::env;
use std::process;
use std::thread;
use std::time::Instant;

use probeline_exchange::{Job, Limits, Options, Start, join};
use probeline_sim::Rng;
use probeline_table::{Config, Ended, Finished, Intent, OperationError, Table, Tag};
use probeline_transport::{Exchange, Owner, RemoteWord, Segment, Sizes, Transport};

use crate::common::account::ends;
use crate::common::extensions::{Setup, setups};
use crate::common::{CachedTable, cache, content, key, storage};

const TEST: &str = "processes::slow_soak_between_processes";
const RANKS: u32 = 4;
/// Limit of a collective call: longer than any call here takes on a busy machine, so that a hanging
/// test fails with its name.
const PATIENCE: Duration = Duration::from_secs(120);
/// Duration of a round: short, so that keys are new, and contended, again and again.
const ROUND: Duration = Duration::from_millis(80);
const OPERATIONS: u32 = 16;
/// The table. With a probe limit of 128 buckets some keys find no empty bucket when it is nearly
/// full.
const TABLE: Config = Config { chunk_buckets: 32, max_chunks: 4, ..Config::paper(1_024) };
/// Maximum number of keys: a quarter more than the buckets.
const MOST_KEYS: usize = 5_120;

/// Number of rounds between two clears. After a clear the table is empty and is opened again with
/// another configuration.
const ROUNDS: u64 = 3;

type ShmTable = CachedTable<probeline_shm::Engine>;

/// Flags for what a rank saw of a key in one round.
const SEEN: u8 = 1;
const INSERTED: u8 = 2;
const FULL: u8 = 4;
const TRIED: u8 = 8;
/// The key is in this rank's part.
const HERE: u8 = 16;

#[test]
fn slow_soak_between_processes() {
    let seconds = env::var("PROBELINE_SOAK_SECONDS").map_or(60, |text| text.parse().unwrap());
    let arguments = [TEST, "--exact", "--nocapture", "--quiet"].map(Into::into).to_vec();
    let mut job = join(Options {
        start: Start::Spawn { ranks: RANKS, arguments: Some(arguments) },
        parameters: format!("seconds={seconds}"),
        limits: Limits { rendezvous: PATIENCE, collective: PATIENCE },
        ..Options::default()
    })
    .unwrap();
    let engine = probeline_shm::Builder::new(
        Sizes::new(TABLE.words())
            .with_slots(Config::slots(OPERATIONS), TABLE.chunk_buckets)
            .with_depth(24),
    )
    .open(&mut job)
    .unwrap();
    let table = open(engine, Setup::paper(TABLE), &mut job);
    let rank = Rank {
        numbers: (0..MOST_KEYS).map(|number| (key(number as u64), number)).collect(),
        rng: Rng::new(job.me().0.into(), 300),
        job,
        table,
        lost: 0,
        lines: 0,
        cache_hits: 0,
        flags: vec![0; MOST_KEYS],
        before: vec![false; MOST_KEYS],
        operations: 0,
    };
    let Rank { mut job, table, .. } = rank.soak(Duration::from_secs(seconds));

    job.barrier().unwrap();
    drop(table);
    if job.me() != Owner(0) {
        // Exits without output: rank 0 reports for all.
        drop(job);
        process::exit(0);
    }
    job.finish(PATIENCE).unwrap();
}

fn open(engine: probeline_shm::Engine, setup: Setup, job: &mut Job) -> ShmTable {
    let table = Table::open(engine, setup.config, storage(OPERATIONS), job).unwrap();
    table.with_cache(cache(setup.cache_entries))
}

/// One process's view of the run.
struct Rank {
    job: Job,
    table: ShmTable,
    /// Counters summed over all tables so far.
    lost: u64,
    lines: u64,
    cache_hits: u64,
    rng: Rng,
    /// The number of each key.
    numbers: HashMap<u64, usize>,
    /// The flags of each key in this round.
    flags: Vec<u8>,
    /// Whether each key was in the table before this round.
    before: Vec<bool>,
    operations: u64,
}

impl Rank {
    fn soak(mut self, duration: Duration) -> Self {
        let begin = Instant::now();
        // The same stream in all ranks.
        let mut plan = Rng::new(0, 301);
        let (mut rounds, mut removed, mut full) = (0_u64, 0, 0);
        loop {
            let keys = 400 + usize::try_from(plan.below(MOST_KEYS as u64 - 399)).unwrap();
            self.round(keys);
            let (there, without_room) = self.compare();
            full += without_room;
            rounds += 1;
            if rounds.is_multiple_of(ROUNDS) {
                removed += self.clear(there);
                self = self.reopen(&setups(plan.bits(), RANKS, TABLE));
            } else {
                removed += self.retain(rounds);
            }
            if self.gather(u64::from(begin.elapsed() < duration)).contains(&0) {
                break;
            }
        }
        let operations: u64 = self.gather(self.operations).iter().sum();
        self.count();
        let lost: u64 = self.gather(self.lost).iter().sum();
        let direct: u64 = self.gather(self.lines).iter().sum();
        let cached: u64 = self.gather(self.cache_hits).iter().sum();
        if self.job.me() == Owner(0) {
            println!(
                "{RANKS} ranks, {:.1} s: {operations} operations in {rounds} rounds, {lost} \
                 claims lost, {direct} lines looked at, {cached} answers of caches; {removed} keys \
                 removed by {} clears and {} retains; {full} found no room",
                begin.elapsed().as_secs_f64(),
                rounds / ROUNDS,
                rounds - rounds / ROUNDS,
            );
        }
        self
    }

    /// Opens the empty table again, with another configuration on the same engine.
    fn reopen(mut self, setups: &[Setup]) -> Self {
        self.count();
        let Self { table, mut job, .. } = self;
        let setup = setups[job.me().0 as usize];
        let table = open(table.into_transport(), setup, &mut job);
        Self { table, job, ..self }
    }

    /// Adds the table's counters to the sums.
    fn count(&mut self) {
        let total = self.table.stats().total();
        self.lost += total.claims_lost;
        self.lines += total.lines;
        self.cache_hits += total.cache_hits;
        self.table.reset_stats();
    }

    /// Runs random operations on the first `keys` keys; all ranks try new keys at the same time.
    fn round(&mut self, keys: usize) {
        let begin = Instant::now();
        let mut running = 0;
        self.job.barrier().unwrap();
        while begin.elapsed() < ROUND {
            let share = begin.elapsed().as_secs_f64() / ROUND.as_secs_f64();
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let fresh = (share * keys as f64) as u64;
            // Sometimes wait between READ and claim, so that other ranks claim in between.
            let wait = self.rng.chance(400_000);
            // Reading the clock takes longer than an operation, so it is read once per batch of
            // operations.
            for _ in 0..2 * OPERATIONS {
                let near = fresh + self.rng.below(8);
                let any = self.rng.below(keys as u64);
                let number = if self.rng.chance(700_000) { near } else { any };
                let number = usize::try_from(number).unwrap().min(keys - 1);
                let find = self.rng.chance(300_000);
                let intent = if find { Intent::Find } else { Intent::FindOrPut };
                let blocks = !wait && self.rng.chance(300_000);
                running += usize::from(self.begin(number, intent, blocks));
                if !wait {
                    running -= self.poll();
                }
            }
            if wait {
                thread::sleep(Duration::from_micros(1));
            }
            running -= self.poll();
        }
        while running > 0 {
            running -= self.poll();
        }
    }

    /// Submits an operation, or runs it as a blocking call. Returns whether it is in flight.
    fn begin(&mut self, number: usize, intent: Intent, blocks: bool) -> bool {
        self.flags[number] |= if intent == Intent::FindOrPut { TRIED } else { 0 };
        let is_known = self.before[number] || self.flags[number] & SEEN > 0;
        let tag = number << 1 | usize::from(is_known);
        let key = key(number as u64);
        if !blocks {
            return self.table.submit(Tag(tag as u64), key, intent).is_ok();
        }
        if self.rng.chance(50_000) {
            self.batch(number, intent);
        }
        match self.table.call(&key, intent) {
            Err(OperationError::Busy) => {}
            end => self.end(tag, end.unwrap()),
        }
        false
    }

    /// Runs a batch of the keys from `number` on, each of them twice.
    fn batch(&mut self, number: usize, intent: Intent) {
        let last = (number + 20).min(MOST_KEYS);
        let numbers: Vec<usize> = (number..last).chain(number..last).collect();
        let keys: Vec<u64> = numbers.iter().map(|&number| key(number as u64)).collect();
        let table = &mut self.table;
        let results = match intent {
            Intent::FindOrPut => ends(keys.len(), |ends| table.find_or_put_batch(&keys, ends)),
            Intent::Find => ends(keys.len(), |ends| table.find_batch(&keys, ends)),
        };
        for (number, end) in numbers.into_iter().zip(results.unwrap()) {
            self.flags[number] |= if intent == Intent::FindOrPut { TRIED } else { 0 };
            match end {
                Err(OperationError::Busy) => {}
                end => self.end(number << 1 | usize::from(self.before[number]), end.unwrap()),
            }
        }
    }

    fn poll(&mut self) -> usize {
        let mut out = [Finished::default(); 4];
        let ended = self.table.poll_into(&mut out).unwrap();
        for end in ended {
            self.end(usize::try_from(end.tag.0).unwrap(), end.result.unwrap());
        }
        ended.len()
    }

    fn end(&mut self, tag: usize, outcome: Ended) {
        let (number, was_known) = (tag >> 1, tag & 1 == 1);
        assert!(
            outcome == Ended::Found || !was_known,
            "{} was there and is {outcome:?}",
            key(number as u64)
        );
        self.operations += 1;
        self.flags[number] |= match outcome {
            Ended::Found => SEEN,
            Ended::Inserted => {
                assert!(self.flags[number] & INSERTED == 0, "{number} inserted twice here");
                SEEN | INSERTED
            }
            Ended::Full => FULL,
            Ended::Absent => 0,
        };
    }

    /// Compares the records of all ranks with the content of the table. Returns the number of keys
    /// in the table and the number of keys that found no empty bucket.
    fn compare(&mut self) -> (u64, u64) {
        let len = self.table.len(&mut self.job).unwrap();
        for key in self.table.local() {
            let number = self.numbers[&key];
            assert!(self.flags[number] & HERE == 0, "{key} is twice in one part");
            self.flags[number] |= HERE;
        }
        self.check_order(len);
        let mut all = vec![0; MOST_KEYS * RANKS as usize];
        self.job.all_gather(&self.flags, &mut all).unwrap();
        let (mut there, mut without_room) = (0, 0);
        for (number, before) in self.before.iter_mut().enumerate() {
            let flags: Vec<u8> = all.chunks(MOST_KEYS).map(|flags| flags[number]).collect();
            let count = |flag| flags.iter().filter(|flags| **flags & flag > 0).count();
            let (inserted, here) = (count(INSERTED), count(HERE));
            let right = here == inserted + usize::from(*before)
                && here <= 1
                && (here == 1 || count(SEEN) == 0)
                && (here == 0 || count(FULL) == 0)
                && (inserted == 0 || count(TRIED) > 0);
            assert!(right, "key {number}, there before: {before}, flags by rank: {flags:?}");
            *before = here == 1;
            there += here as u64;
            without_room += u64::from(count(FULL) > 0);
        }
        assert_eq!(len, there);
        self.flags.fill(0);
        (there, without_room)
    }

    /// Checks on rank 0 that no key lies behind an empty bucket of its probe order.
    fn check_order(&mut self, len: u64) {
        if self.job.me() == Owner(0) {
            let mut ring = Vec::new();
            for owner in (0..RANKS).map(Owner) {
                let start = RemoteWord { owner, index: self.table.layout().first_word() };
                let words = u32::try_from(TABLE.buckets_per_owner).unwrap();
                let words = self.table.transport().direct(Segment { start, words }).unwrap();
                ring.extend(words.iter().map(|w| w.load(core::sync::atomic::Ordering::Acquire)));
            }
            let set = content(self.table.layout(), &ring).unwrap();
            assert_eq!(set.len() as u64, len);
        }
        self.job.barrier().unwrap();
    }

    fn clear(&mut self, there: u64) -> u64 {
        self.table.clear(&mut self.job).unwrap();
        assert_eq!(self.table.len(&mut self.job), Ok(0));
        self.before.fill(false);
        there
    }

    /// Removes about a third of the keys.
    fn retain(&mut self, round: u64) -> u64 {
        let keep = |key: u64| Rng::new(key, round).below(3) > 0;
        let removed = self.table.retain(&mut self.job, keep).unwrap();
        let mut expected = 0;
        for (number, before) in self.before.iter_mut().enumerate() {
            let removed = *before && !keep(key(number as u64));
            expected += u64::from(removed);
            *before &= !removed;
        }
        assert_eq!(removed, expected);
        let left = self.before.iter().filter(|before| **before).count() as u64;
        assert_eq!(self.table.len(&mut self.job), Ok(left));
        self.check_order(left);
        removed
    }

    /// Gathers a number of each rank, by rank.
    fn gather(&mut self, mine: u64) -> Vec<u64> {
        let mut all = vec![0; 8 * RANKS as usize];
        self.job.all_gather(&mine.to_ne_bytes(), &mut all).unwrap();
        all.as_chunks().0.iter().map(|bytes| u64::from_ne_bytes(*bytes)).collect()
    }
}
