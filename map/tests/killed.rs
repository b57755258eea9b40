//! Clients of a map are killed in the middle of writes, and the others go on: they read no wrong
//! value, take the claims of the dead over, and every key can be written again.
//!
//! Each rank forks a victim, which shares the windows of its owner. Its death affects only the bucket
//! that it has claimed. A kernel timer kills it with SIGKILL at a random time.

mod common;

use std::collections::HashSet;
use std::time::Instant;

use common::{Key, Value, key, value};
use probeline_exchange::Job;
use probeline_exchange::testing::{Plan, kill_after, wait_for_kill};
use probeline_map::{Config, Map, Operation, Stats, Written};
use probeline_shm::{Builder, Engine};
use probeline_sim::Rng;
use probeline_transport::{Exchange, Owner};

const DIRECT: &str = "killed_clients_of_the_direct_path_make_no_value_wrong";
const POSTED: &str = "killed_clients_of_the_posted_path_make_no_value_wrong";

const RANKS: u32 = 2;
const ROUNDS: u64 = 100;
const OPERATIONS: u32 = 8;
const STEPS: u64 = 2_000;
/// Fewer than the buckets, so that most claims are of buckets that all clients want.
const KEYS: u64 = 24;
const BUCKETS: u64 = 16;

type Client = Map<Engine, Vec<Operation<Key, Value>>, Key, Value>;

fn main() {
    probeline_exchange::testing::run(&[
        (DIRECT, Plan::Run(|| rounds(DIRECT, true))),
        (POSTED, Plan::Run(|| rounds(POSTED, false))),
    ]);
}

fn check(number: u64, found: &Value) {
    assert_eq!(*found, value(number, found[0]), "a wrong value of key {number}");
}

fn rounds(test: &str, direct: bool) {
    let mut job = probeline_exchange::testing::start(test, RANKS);
    let begin = Instant::now();
    let seed = probeline_exchange::testing::seed_of_job(&mut job);
    let (mut stats, mut claims) = (Stats::default(), 0);
    for nth in 0..ROUNDS {
        let (of_round, left) = round(&mut job, direct, seed.wrapping_add(nth));
        stats = stats.plus(&of_round);
        claims += left;
    }
    if job.me() == Owner(0) {
        println!("{claims} claims of the dead in {:?}: {stats:?}", begin.elapsed());
        assert!(claims > 0, "no victim died with a claim");
    }
    probeline_exchange::testing::succeed(job);
}

/// Returns the counters of this rank, and the number of claims that the victims have left.
fn round(job: &mut Job, direct: bool, seed: u64) -> (Stats, u64) {
    let config = Config { direct, claim_ticks: 2, ..Config::new(BUCKETS) };
    let engine = Builder::new(config.sizes::<Key, Value>(OPERATIONS)).open(job).unwrap();
    let mut map =
        Map::open(engine, config, vec![Operation::EMPTY; OPERATIONS as usize], job).unwrap();
    assert_eq!(map.is_direct(), direct);
    let me = u64::from(job.me().0);
    let victim = fork(&mut map, Rng::new(seed, 2 * me + 1));
    let mut rng = Rng::new(seed, 2 * me);
    for _ in 0..STEPS / OPERATIONS_AT_ONCE as u64 {
        step(&mut map, &mut rng);
    }
    wait_for_kill(victim);
    let stats = *map.stats();
    job.barrier().unwrap();
    let left = if me == 0 { check_left(&mut map) } else { 0 };
    job.barrier().unwrap();
    let mut there = HashSet::new();
    map.for_each_local(|key, found| {
        check(key[0], found);
        assert!(there.insert(*key), "{key:?} is there twice");
    })
    .unwrap();
    job.barrier().unwrap();
    (stats, left)
}

/// Writes every key, alone, until no claim of the dead is left. Returns the number of puts that
/// found one.
fn check_left(map: &mut Client) -> u64 {
    let mut dropped = 0;
    for number in 0..KEYS {
        let new = value(number, 1 << 40 | number);
        if map.put(&key(number), &new) == Ok(Written::Dropped) {
            dropped += 1;
        }
    }
    // The clocks of the dead may have been ahead of this one.
    for number in 0..KEYS {
        let new = value(number, 1 << 41 | number);
        let mut ticks = 0;
        while map.put(&key(number), &new) == Ok(Written::Dropped) {
            assert!(ticks < MAX_TICKS, "key {number}");
            map.advance_age();
            ticks += 1;
        }
        assert_eq!(map.get(&key(number)), Ok(Some(new)));
    }
    dropped
}

/// Ticks within which every claim of the dead looks old: one that looks ahead, by at most 31, is not old
/// before.
const MAX_TICKS: u32 = 40;

const OPERATIONS_AT_ONCE: usize = 4;

/// Makes some requests of each kind.
fn step(map: &mut Client, rng: &mut Rng) {
    let numbers: [u64; OPERATIONS_AT_ONCE] = core::array::from_fn(|_| rng.below(KEYS));
    let (keys, put) = (numbers.map(key), rng.bits() >> 8);
    let values = numbers.map(|number| value(number, put));
    let mut written = [Written::Absent; OPERATIONS_AT_ONCE];
    match rng.below(8) {
        0..3 => map.put_batch(&keys, &values, &mut written).unwrap(),
        3 => map.put_if_absent_batch(&keys, &values, &mut written).unwrap(),
        4 => map.remove_batch(&keys, &mut written).unwrap(),
        _ => {
            let mut found = [None; OPERATIONS_AT_ONCE];
            map.get_batch(&keys, &mut found).unwrap();
            for (number, found) in numbers.into_iter().zip(found) {
                found.iter().for_each(|found| check(number, found));
            }
        }
    }
}

/// Starts a victim, which writes until the timer kills it.
fn fork(map: &mut Client, mut rng: Rng) -> libc::pid_t {
    probeline_exchange::testing::fork(|| {
        let scale = 20_000 << rng.below(7);
        kill_after(scale + rng.below(scale));
        loop {
            step(map, &mut rng);
        }
    })
}
