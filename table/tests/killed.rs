//! Processes use the same keys of a table, in every form of call, and some of them are killed in the
//! middle of inserts. The others finish theirs, and no key is lost or there twice.
//!
//! The tests kill forks of owners. A fork shares the windows of its owner and has operations, spare
//! entries and a cache of its own; its death affects only those. A kernel timer kills it with SIGKILL
//! at a random time. It records the inserts that it has started, and their results, in its owner's
//! window.
//!
//! `PROBELINE_SOAK_SECONDS` sets how long each of these tests takes. Shared memory executes posts in
//! their order; the soak on the simulator shuffles them.

mod common;

use core::ops::Range;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release};
use core::time::Duration;
use std::time::Instant;

use common::extensions::setups;
use common::kinds::{
    self, NarrowKeys, Numbered, Numbers, TreeKeys, WideKeys, run_in_form, wide_keys_in,
};
use probeline_exchange::Job;
use probeline_exchange::testing::{Plan, gather, kill_after, seed_of_job, wait_for_kill};
use probeline_shm::{Builder, Engine};
use probeline_sim::Rng;
use probeline_table::{Config, Ended, Intent};
use probeline_transport::{Exchange, Owner, Transport};

const NARROW: &str = "killed_clients_lose_and_double_nothing";
const WIDE: &str = "killed_clients_of_wide_keys_lose_and_double_nothing";
const TREE: &str = "killed_clients_of_trees_lose_and_double_nothing";

const RANKS: u32 = 3;
const VICTIMS: u64 = 2;
const CLIENTS: u64 = RANKS as u64 * (1 + VICTIMS);
const ROUNDS: u64 = 100;
const OPERATIONS: u32 = 8;
const WORDS: usize = 3;
/// Each client inserts the keys that all insert, in the same order, and as many that only it does.
const STEPS: u64 = 800;
const SHARED: u64 = STEPS / 2;
const NUMBERS: u64 = SHARED * (1 + CLIENTS);
/// More than the keys, and than the entries that clients hold.
const ENTRIES: u64 = 2_400;
/// Entries that a client holds: [`WideConfig::entries_per_owner`].
const MAX_HELD: u64 = 128 + OPERATIONS as u64;

fn main() {
    probeline_exchange::testing::run(&[
        (NARROW, Plan::Run(|| rounds::<NarrowKeys>(NARROW, 4_096, |_| Vec::new()))),
        (WIDE, Plan::Run(|| rounds::<WideKeys<WORDS>>(WIDE, 4_096, written))),
        (TREE, Plan::Run(|| rounds::<TreeKeys<WORDS>>(TREE, 16_384, |_| Vec::new()))),
    ]);
}

/// Returns the key's number that a client inserts at a step.
fn number(client: u64, step: u64) -> u64 {
    let own = step % 2;
    step / 2 + own * SHARED * (1 + client)
}

/// Traces that the victims of all ranks and rounds left.
#[derive(Debug, Default)]
struct Deaths {
    /// Keys written to an entry that no bucket refers to.
    before_claim: u64,
    /// Keys inserted, and not returned.
    after_claim: u64,
    /// Entries that clients hold at the end.
    held: u64,
}

/// Returns the numbers of the keys that are written in these words, at any place.
type Written = fn(&[AtomicU64]) -> Vec<u64>;

fn written(words: &[AtomicU64]) -> Vec<u64> {
    wide_keys_in::<WORDS>(words, NUMBERS)
}

/// Runs rounds with tables of this many buckets for each owner, on which the CPU runs operations in every
/// second one.
fn rounds<K: Numbers>(test: &str, buckets: u64, written: Written) {
    let seconds = std::env::var("PROBELINE_SOAK_SECONDS").map(|text| text.parse().unwrap());
    let duration = seconds.map(Duration::from_secs);
    let mut job = probeline_exchange::testing::start(test, RANKS);
    let (begin, seed) = (Instant::now(), seed_of_job(&mut job));
    let mut deaths = [Deaths::default(), Deaths::default()];
    let mut nth = 0;
    loop {
        let is_direct = nth % 2 == 1;
        let seed = seed.wrapping_add(nth);
        let round = Round::<K>::open(&mut job, buckets, is_direct, written, seed);
        round.run(seed, &mut deaths[usize::from(is_direct)]);
        nth += 1;
        let goes_on = duration.as_ref().map_or(nth < ROUNDS, |limit| begin.elapsed() < *limit);
        if gather(&mut job, u64::from(goes_on)).contains(&0) {
            break;
        }
    }
    if job.me() == Owner(0) {
        let victims = nth * VICTIMS * u64::from(RANKS);
        println!("{victims} killed in {:?}: posted {deaths:?} direct", begin.elapsed());
        let [posted, direct] = deaths;
        // Too rare on the direct path: the CPU claims nanoseconds after it has stored the key.
        let has_entries = K::NAME == "WideTable";
        assert!(!has_entries || posted.before_claim > 0, "no death between WRITE and claim");
        assert!(posted.after_claim > 0, "no victim died between claim and result");
        assert!(direct.after_claim > 0, "no victim died between claim and result");
    }
    probeline_exchange::testing::succeed(job);
}

/// Opens a table, with other ways to search for narrow keys on each rank, and room for the records of
/// victims after it.
fn open<K: Numbers>(job: &mut Job, buckets: u64, direct: bool, seed: u64) -> Numbered<Engine, K> {
    let sizes = Config { chunk_buckets: 32, ..Config::paper(buckets) };
    let setup = setups(seed, RANKS, sizes)[job.me().0 as usize];
    let config = K::config(Config { direct, ..setup.config }, ENTRIES);
    let mut sizes = K::sizes(&config, OPERATIONS);
    sizes.window_words += VICTIMS * STEPS;
    let engine = Builder::new(sizes).open(job).unwrap();
    kinds::open(engine, config, OPERATIONS, job)
}

/// Record of a victim's step: nothing, or one of these.
const BEGUN: u64 = 1;
const FOUND: u64 = 2;
const INSERTED: u64 = 3;

/// Knowledge of a rank about a key: how often its clients report it inserted, and flags.
const TIMES_INSERTED: u8 = 3;
/// A find-or-put of it returned.
const RETURNED: u8 = 4;
/// A victim was killed before its find-or-put of the key returned.
const PENDING: u8 = 8;
/// A bucket in this rank's part refers to it.
const HERE: u8 = 16;
/// The key is in this rank's memory.
const WRITTEN: u8 = 32;

/// A table, and what a rank sees of it.
struct Round<'j, K: Numbers> {
    job: &'j mut Job,
    table: Numbered<Engine, K>,
    is_direct: bool,
    written: Written,
    /// By the number of the key.
    seen: Vec<u8>,
}

impl<'j, K: Numbers> Round<'j, K> {
    fn open(job: &'j mut Job, buckets: u64, is_direct: bool, written: Written, seed: u64) -> Self {
        let table = open(job, buckets, is_direct, seed);
        Self { job, table, is_direct, written, seen: vec![0; usize::try_from(NUMBERS).unwrap()] }
    }

    fn run(mut self, seed: u64, deaths: &mut Deaths) {
        let first = self.client();
        let victims: Vec<_> =
            (0..VICTIMS).map(|nth| self.fork(nth, Rng::new(seed, first + 1 + nth))).collect();
        let mut rng = Rng::new(seed, first);
        for steps in batches(&mut rng) {
            let ends = insert(&mut self.table, first, steps.clone());
            for (step, ended) in steps.zip(ends) {
                self.returned(number(first, step), ended == Ended::Inserted);
            }
        }
        victims.into_iter().for_each(wait_for_kill);
        (0..VICTIMS).for_each(|nth| self.take_record(nth));
        assert_eq!(self.table.stats().total().lines > 0, self.is_direct, "the CPU runs operations");
        // No client writes any more.
        self.job.barrier().unwrap();
        self.find_own_keys();
        self.compare(deaths);
        if K::NAME == "WideTable" {
            deaths.held += self.check_entries();
        }
        self.table.clear(self.job).unwrap();
        assert_eq!(self.table.occupied(self.job), Ok(0));
        self.job.barrier().unwrap();
    }

    /// Returns the number of this rank as a client. Those of its victims follow.
    fn client(&self) -> u64 {
        u64::from(self.job.me().0) * (1 + VICTIMS)
    }

    /// Starts a victim, which inserts until the timer kills it.
    fn fork(&mut self, nth: u64, mut rng: Rng) -> libc::pid_t {
        probeline_exchange::testing::fork(|| {
            let client = self.client() + 1 + nth;
            let scale = 20_000 << rng.below(9);
            kill_after(scale + rng.below(scale));
            for steps in batches(&mut rng) {
                steps.clone().for_each(|step| self.record(nth, step, BEGUN));
                let ends = insert(&mut self.table, client, steps.clone());
                for (step, ended) in steps.zip(ends) {
                    let is_new = ended == Ended::Inserted;
                    self.record(nth, step, if is_new { INSERTED } else { FOUND });
                }
            }
        })
    }

    fn record(&self, nth: u64, step: u64, value: u64) {
        self.recorded(nth, step).store(value, Release);
    }

    /// Returns the word, after those of the table, in which a victim of this owner records a step.
    fn recorded(&self, nth: u64, step: u64) -> &AtomicU64 {
        let window = self.table.transport().window();
        &window[window.len() - usize::try_from((VICTIMS - nth) * STEPS - step).unwrap()]
    }

    fn flags(&mut self, number: u64) -> &mut u8 {
        &mut self.seen[usize::try_from(number).unwrap()]
    }

    fn returned(&mut self, number: u64, is_new: bool) {
        let flags = self.flags(number);
        *flags = (*flags | RETURNED) + u8::from(is_new);
        assert!(*flags & TIMES_INSERTED <= 1, "{number} is inserted twice");
    }

    fn take_record(&mut self, nth: u64) {
        let client = self.client() + 1 + nth;
        for step in 0..STEPS {
            let number = number(client, step);
            match self.recorded(nth, step).load(Acquire) {
                0 => {}
                BEGUN => *self.flags(number) |= PENDING,
                outcome => self.returned(number, outcome == INSERTED),
            }
        }
    }

    /// Finds out which keys are in this rank's part.
    fn find_own_keys(&mut self) {
        for number in kinds::part(&mut self.table).unwrap() {
            let flags = self.flags(number);
            assert!(*flags & HERE == 0, "{number} is twice in one part");
            *flags |= HERE;
        }
        for found in (self.written)(self.table.transport().window()) {
            *self.flags(found) |= WRITTEN;
        }
    }

    /// Compares what all ranks know with the content, and the content with finds.
    fn compare(&mut self, deaths: &mut Deaths) {
        let mut all = vec![0; self.seen.len() * RANKS as usize];
        self.job.all_gather(&self.seen, &mut all).unwrap();
        for number in 0..NUMBERS {
            let at = usize::try_from(number).unwrap();
            let flags: Vec<u8> = all.chunks(self.seen.len()).map(|seen| seen[at]).collect();
            let count = |flag| flags.iter().filter(|flags| **flags & flag > 0).count();
            let inserted: u8 = flags.iter().map(|flags| flags & TIMES_INSERTED).sum();
            let (here, inserted) = (count(HERE), usize::from(inserted));
            let (returned, pending) = (count(RETURNED) > 0, count(PENDING) > 0);
            let right = here <= 1
                && inserted <= here
                && (here == 1 || !returned)
                && (here == 0 || returned || pending)
                && (here == inserted || pending);
            assert!(right, "key {number}: here {here}, inserted {inserted}, flags {flags:?}");
            assert_eq!(kinds::find(&mut self.table, number), Some(here == 1), "{number}");
            deaths.before_claim += u64::from(pending && here == 0 && count(WRITTEN) > 0);
            deaths.after_claim += u64::from(pending && here > inserted);
        }
        self.job.barrier().unwrap();
    }

    /// Fills the table. Returns how many entries are not used because clients hold or held them:
    /// `retain` frees all of them.
    fn check_entries(&mut self) -> u64 {
        self.fill(NUMBERS);
        let entries = ENTRIES * u64::from(RANKS);
        let held = entries - self.table.len(self.job).unwrap();
        assert!(held <= CLIENTS * MAX_HELD, "{held} entries are held");
        assert_eq!(K::retain(&mut self.table, self.job, |_| true), Some(Ok(0)));
        self.fill(2 * NUMBERS);
        assert_eq!(self.table.len(self.job), Ok(entries));
        held
    }

    /// Inserts keys from `first` on until the table is full, on rank 0.
    fn fill(&mut self, first: u64) {
        let mut numbers = first..;
        let mut is_full = self.job.me() != Owner(0);
        while !is_full {
            let key = K::key(self.table.config(), numbers.next().unwrap());
            is_full = self.table.call(&key, Intent::FindOrPut).unwrap() == Ended::Full;
        }
        self.job.barrier().unwrap();
    }
}

/// Divides the steps into batches of random length.
fn batches(rng: &mut Rng) -> impl Iterator<Item = Range<u64>> {
    let mut next = 0;
    core::iter::from_fn(move || {
        let first = next;
        next = STEPS.min(first + 1 + rng.below(3 * u64::from(OPERATIONS)));
        (first < STEPS).then_some(first..next)
    })
}

/// Inserts the keys of some steps, in any form of call.
fn insert<K: Numbers>(
    table: &mut Numbered<Engine, K>,
    client: u64,
    steps: Range<u64>,
) -> Vec<Ended> {
    let config = *table.config();
    // The start is random.
    let form = [0, 1, 1, 2][usize::try_from(steps.start % 4).unwrap()];
    let keys: Vec<_> = steps.map(|step| K::key(&config, number(client, step))).collect();
    let ends = run_in_form(table, &keys, form, Intent::FindOrPut);
    let ends: Vec<Ended> = ends.into_iter().map(Result::unwrap).collect();
    assert!(ends.iter().all(|end| [Ended::Found, Ended::Inserted].contains(end)), "{ends:?}");
    ends
}
