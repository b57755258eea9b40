//! A map of few keys and fewer buckets: all ranks put, remove and get the same keys at once. Every
//! value that a get returns is one that was put for its key.

use std::collections::HashSet;

use anyhow::{Result, ensure};
use clap::Args;
use probeline_exchange::Job;
use probeline_map::{Config, Map, Operation, Written};
use probeline_transport::{Exchange, Owner};
use probeline_verbs::Engine;

use crate::job::{JobArgs, close};

#[derive(Args)]
pub(crate) struct MapArgs {
    /// Batches of each rank
    #[arg(long, default_value_t = 500)]
    batches: u64,
    #[command(flatten)]
    job: JobArgs,
}

/// Number of keys; the map has a ninth fewer buckets.
const KEYS: u64 = 36;
const OPERATIONS: u32 = 8;
/// Keys in a batch.
const BATCH: usize = 8;

type Key = [u64; 10];
type Value = [u64; 13];
type Cache = Map<Engine, Vec<Operation<Key, Value>>, Key, Value>;

fn key(number: u64) -> Key {
    core::array::from_fn(|at| number.wrapping_mul(at as u64 + 1))
}

/// Returns a value whose words depend on the key, on the put, and on their place.
fn value(number: u64, put: u64) -> Value {
    core::array::from_fn(|at| (put + at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number)
}

/// Returns whether some put of the key has this value.
fn is_right(key: &Key, found: &Value) -> bool {
    let [number, ..] = *key;
    let [first, ..] = *found;
    // The inverse of the factor of `value`.
    let put = (first ^ number).wrapping_mul(0xf1de_83e1_9937_733d);
    *found == value(number, put)
}

pub(crate) fn run(args: &MapArgs) -> Result<()> {
    let mut job = args.job.join(args.batches.to_string())?;
    let buckets = (KEYS * 8 / 9).div_ceil(u64::from(args.job.ranks));
    let config = Config::new(buckets);
    let engine = args.job.builder(config.sizes::<Key, Value>(OPERATIONS))?.open(&mut job)?;
    let mut map = Map::open(engine, config, vec![Operation::EMPTY; OPERATIONS as usize], &mut job)?;
    job.barrier()?;
    let wrong = run_batches(&mut map, &job, args)?;
    job.barrier()?;
    let wrong = wrong + check_part(&map, &mut job)?;
    let all = job.sum(wrong)?;
    if job.me() == Owner(0) {
        println!("{} keys, {all} wrong; {:?}", KEYS, map.stats());
    }
    close(job, map.into_transport())?;
    ensure!(all == 0, "{all} values are wrong");
    Ok(())
}

/// Runs batches of requests of all kinds. Returns the number of wrong values.
fn run_batches(map: &mut Cache, job: &Job, args: &MapArgs) -> Result<u64> {
    let mut random = u64::from(job.me().0) + 1;
    let mut wrong = 0;
    for batch in 0..args.batches {
        let numbers: [u64; BATCH] = core::array::from_fn(|_| below(&mut random, KEYS));
        let keys = numbers.map(key);
        let put = batch << 8 | u64::from(job.me().0);
        let values = numbers.map(|number| value(number, put));
        let mut written = [Written::Absent; BATCH];
        match below(&mut random, 8) {
            0..3 => map.put_batch(&keys, &values, &mut written)?,
            3 => map.put_if_absent_batch(&keys, &values, &mut written)?,
            4 => map.remove_batch(&keys, &mut written)?,
            _ => {
                let mut found = [None; BATCH];
                map.get_batch(&keys, &mut found)?;
                let found =
                    keys.iter().zip(&found).filter_map(|(key, found)| Some((key, (*found)?)));
                wrong += found.filter(|(key, found)| !is_right(key, found)).count() as u64;
            }
        }
    }
    Ok(wrong)
}

/// Counts the wrong values in this rank's part, and the keys that are present more than once.
fn check_part(map: &Cache, job: &mut Job) -> Result<u64> {
    let (mut there, mut wrong) = (HashSet::new(), 0);
    let destroyed = map.for_each_local(|key, found| {
        wrong += u64::from(!is_right(key, found) || !there.insert(*key));
    })?;
    job.barrier()?;
    Ok(wrong + destroyed)
}

fn below(random: &mut u64, max: u64) -> u64 {
    *random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
    ((u128::from(*random) * u128::from(max)) >> 64) as u64
}
