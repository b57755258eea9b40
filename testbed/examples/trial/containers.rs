//! Containers that all ranks change at once: an array, counters, a put-once map, a small map, a table of
//! wide keys and aggregated messages, with every result checked; and a queue to which rank 1 pushes until
//! it is killed.

use anyhow::{Result, ensure};
use clap::Args;
use probeline_containers::{
    Aggregator, Array, BatchError, Counters, OperationError, PutOnce, Queue, SmallMap, aggregator,
    array, counters, put_once, queue, small_map,
};
use probeline_exchange::Job;
use probeline_table::{Outcome, WideConfig, WideOperation, WideTable};
use probeline_transport::{Exchange, Fault, Owner, Sizes};
use probeline_verbs::Engine;

use crate::job::{Deadline, JobArgs, close, gather};

#[derive(Args)]
pub(crate) struct ContainersArgs {
    /// Number of keys, each changed by every rank
    #[arg(long, default_value_t = 300)]
    keys: u64,
    #[command(flatten)]
    job: JobArgs,
}

#[derive(Args)]
pub(crate) struct QueueArgs {
    #[command(flatten)]
    job: JobArgs,
}

const OPERATIONS: u32 = 8;
/// Pops between two reports of rank 0.
const REPORT_INTERVAL: u64 = 500;

/// Returns a key of two words that begins like all others.
fn wide(key: &u64) -> [u64; 2] {
    [7, *key]
}

/// Returns 1, and says so, if a result is not what it has to be.
fn wrong_if_unequal(what: &str, found: u64, expected: u64) -> u64 {
    if found != expected {
        println!("{what}: {found}, and {expected} expected");
    }
    u64::from(found != expected)
}

pub(crate) fn run(args: &ContainersArgs) -> Result<()> {
    let mut job = args.job.join(args.keys.to_string())?;
    let keys: Vec<u64> = (0..args.keys).collect();
    let open =
        |sizes: Sizes, job: &mut Job| -> Result<Engine> { Ok(args.job.builder(sizes)?.open(job)?) };
    let ranks = u64::from(args.job.ranks);

    // All ranks add to each of a few words, many times in flight.
    let config = array::Config { direct: false, ..array::Config::new(4) };
    let engine = open(config.sizes::<u64>(args.job.ranks, OPERATIONS), &mut job)?;
    let operations = vec![array::Operation::EMPTY; OPERATIONS as usize];
    let mut sums = Array::open(engine, config, operations, &mut job)?;
    let places: Vec<_> = keys.iter().map(|key| key % 4).collect();
    sums.add_batch(&places, &vec![1_u64; keys.len()])?;
    job.barrier()?;
    let mut wrong = wrong_if_unequal("sum of an array", sums.sum(&mut job)?, ranks * args.keys);
    drop(sums);

    let config = counters::Config::for_keys(args.keys, 40);
    let engine = open(config.sizes(args.job.ranks, OPERATIONS), &mut job)?;
    let operations = vec![counters::Operation::EMPTY; OPERATIONS as usize];
    let mut counts = Counters::open(engine, config, operations, &mut job)?;
    ensure!(counts.add_batch(&keys)? == 0, "the counters are full");
    counts.find_phase(&mut job, |finder| {
        finder.find_all(&keys, |_, found| wrong += wrong_if_unequal("count", found.count(), ranks))
    })??;
    job.barrier()?;
    drop(counts);

    let config = small_map::Config::for_keys(args.keys, 40);
    let engine = open(config.sizes(args.job.ranks, OPERATIONS), &mut job)?;
    let operations = vec![small_map::Operation::EMPTY; OPERATIONS as usize];
    let mut values = SmallMap::open(engine, config, operations, &mut job)?;
    for key in &keys {
        // Other ranks may be faster 64 times, but not for ever.
        let mut deadline = Deadline::new("update");
        while let Err(error) = values.update(*key, |value| value.unwrap_or(0) + key + 1) {
            ensure!(matches!(error, OperationError::Contended { .. }), "{error}");
            deadline.check()?;
        }
    }
    values.find_phase(&mut job, |finder| {
        finder.find_all(&keys, |place, found| {
            let value = found.number().unwrap_or_default();
            wrong += wrong_if_unequal("value of a small map", value, ranks * (place as u64 + 1));
        })
    })??;
    job.barrier()?;
    drop(values);

    let config = put_once::Config::for_keys(args.keys);
    let engine = open(config.sizes::<[u64; 2], u64>(args.job.ranks, OPERATIONS), &mut job)?;
    let operations = vec![put_once::Operation::EMPTY; OPERATIONS as usize];
    let mut map = PutOnce::<_, _, [u64; 2], u64>::open(engine, config, operations, &mut job)?;
    let me = u64::from(job.me().0);
    let wide_keys: Vec<_> = keys.iter().map(wide).collect();
    let mut inserted = 0;
    let insert = |place: usize| Some(put_once::Action::Insert(place as u64 * ranks + me));
    map.run_all(&wide_keys, insert, |place, outcome| match outcome {
        put_once::Outcome::Inserted => inserted += 1,
        put_once::Outcome::Found(value) => {
            wrong += wrong_if_unequal("value found by an insert", value / ranks, place as u64);
        }
        put_once::Outcome::Unfinished => {}
        put_once::Outcome::Absent | put_once::Outcome::Full => {
            wrong += wrong_if_unequal("room in a put-once map", 0, 1);
        }
    })?;
    let inserted: u64 = gather(&mut job, inserted)?.iter().sum();
    wrong += wrong_if_unequal("keys in a put-once map", inserted, args.keys);
    map.find_phase(&mut job, |finder| {
        finder.find_all(&wide_keys, |place, outcome| {
            let value = outcome.found().map_or(u64::MAX, |value| value / ranks);
            wrong += wrong_if_unequal("value of a put-once map", value, place as u64);
        })
    })??;
    job.barrier()?;
    drop(map);

    // A load factor of 0.5.
    let config = WideConfig::<2>::new((2 * args.keys).div_ceil(ranks).next_multiple_of(8).max(64));
    let engine = open(config.sizes(OPERATIONS), &mut job)?;
    let operations = vec![WideOperation::EMPTY; OPERATIONS as usize];
    let mut table = WideTable::open(engine, config, operations, &mut job)?;
    let mut outcomes = vec![Outcome::Full; keys.len()];
    table.find_or_put_batch(&wide_keys, &mut outcomes)?;
    let inserted = outcomes.iter().filter(|outcome| **outcome == Outcome::Inserted).count();
    let inserted: u64 = gather(&mut job, inserted as u64)?.iter().sum();
    let mut found = vec![false; keys.len()];
    table.find_batch(&wide_keys, &mut found)?;
    let found = found.iter().filter(|found| **found).count() as u64;
    wrong += wrong_if_unequal("wide keys inserted", inserted, args.keys)
        + wrong_if_unequal("wide keys in the table", table.len(&mut job)?, args.keys)
        + wrong_if_unequal("wide keys found", found, args.keys);
    job.barrier()?;
    drop(table);

    let config = aggregator::Config { block: 16, blocks: 4, ..aggregator::Config::default() };
    let engine = open(config.sizes::<u64>(args.job.ranks, OPERATIONS), &mut job)?;
    let operations = vec![aggregator::Operation::EMPTY; OPERATIONS as usize];
    let mut messages = Aggregator::open(engine, config, operations, &mut job)?;
    let mut sum = 0;
    for (key, to) in keys.iter().flat_map(|key| (0..args.job.ranks).map(move |to| (key, to))) {
        let mut deadline = Deadline::new("room in a lane");
        while !messages.send(Owner(to), key)? {
            messages.progress(|_, key| sum += key)?;
            deadline.check()?;
        }
    }
    messages.flush(&mut job, |_, key| sum += key)?;
    wrong += wrong_if_unequal("sum of messages", sum, ranks * keys.iter().sum::<u64>());

    let all: u64 = gather(&mut job, wrong)?.iter().sum();
    if job.me() == Owner(0) {
        println!("{} keys, {all} wrong; {ranks} ranks changed each", args.keys);
    }
    close(job, messages.into_transport())?;
    ensure!(all == 0, "{all} results are wrong");
    Ok(())
}

/// Pops on rank 0 what rank 1 pushes to its ring until rank 1 is lost. All values arrive once, and in order.
pub(crate) fn run_queue(args: &QueueArgs) -> Result<()> {
    let mut job = args.job.join(String::new())?;
    let config = queue::Config { in_flight: OPERATIONS, ..queue::Config::new(100) };
    let engine = args.job.builder(config.sizes::<[u64; 3]>(2, OPERATIONS))?.open(&mut job)?;
    let operations = vec![queue::Operation::EMPTY; OPERATIONS as usize];
    let mut ring = Queue::open(engine, config, operations, &mut job)?;
    let value = |number: u64| [number, !number, number << 8];
    let host = Owner(0);
    let mut number = 0;
    if job.me() != host {
        loop {
            let values: [_; 5] = core::array::from_fn(|nth| value(number + nth as u64));
            number += ring.push_batch(host, &values)? as u64;
        }
    }
    let mut deadline = Deadline::new("value");
    loop {
        let mut values = [[0; 3]; 8];
        match ring.pop_batch(host, &mut values) {
            Ok(0) => deadline.check()?,
            Ok(count) => {
                for found in &values[..count] {
                    ensure!(*found == value(number), "{found:?} is popped as value {number}");
                    number += 1;
                    if number.is_multiple_of(REPORT_INTERVAL) {
                        println!("{number} pops have completed");
                    }
                }
                deadline.restart();
            }
            Err(BatchError::Operation(error) | BatchError::Failed { error, .. }) => match error {
                OperationError::Fault(fault) => {
                    ensure!(fault == Fault::OwnerLost(Owner(1)), "{fault:?}");
                    println!("{number} values in order, then {fault:?}");
                    return Ok(());
                }
                // The push of the oldest ticket is slow, or its rank is lost.
                OperationError::Unfinished { .. } => deadline.check()?,
                error => return Err(error.into()),
            },
            Err(error) => return Err(error.into()),
        }
    }
}
