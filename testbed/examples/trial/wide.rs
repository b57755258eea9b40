//! A table of keys of four words: all ranks put the same keys at once, and finds and inserts take two
//! roundtrips each.

use anyhow::{Result, ensure};
use clap::Args;
use probeline_exchange::Job;
use probeline_table::{Outcome, WideConfig, WideOperation, WideTable};
use probeline_transport::{Exchange, Owner};
use probeline_verbs::Engine;

use crate::job::{JobArgs, close, gather};

#[derive(Args)]
pub(crate) struct WideArgs {
    /// Keys that all ranks put at once
    #[arg(long, default_value_t = 2000)]
    keys: u64,
    /// Finds and inserts whose roundtrips are counted
    #[arg(long, default_value_t = 300)]
    counted: u64,
    #[command(flatten)]
    job: JobArgs,
}

const OPERATIONS: u32 = 8;

type Key = [u64; 4];
type Wide = WideTable<Engine, Vec<WideOperation<4>>, 4>;

fn key(number: u64) -> Key {
    [number, !number, number << 32, 7]
}

pub(crate) fn run(args: &WideArgs) -> Result<()> {
    let mut job = args.job.join(format!("{} {}", args.keys, args.counted))?;
    let ranks = u64::from(args.job.ranks);
    // A load factor of 0.5 after all keys of `counted` inserts.
    let buckets = ((args.keys + args.counted) * 2).div_ceil(ranks).next_multiple_of(8).max(64);
    let config = WideConfig::<4>::new(buckets);
    let engine = args.job.builder(config.sizes(OPERATIONS))?.open(&mut job)?;
    let storage = vec![WideOperation::EMPTY; OPERATIONS as usize];
    let mut table = WideTable::open(engine, config, storage, &mut job)?;
    let wrong = put_by_all(&mut table, &mut job, args.keys)?;
    if job.me() == Owner(0) {
        println!("{} keys, {wrong} wrong;", args.keys);
        count_roundtrips(&mut table, args)?;
    }
    close(job, table.into_transport())?;
    ensure!(wrong == 0, "{wrong} keys are wrong");
    Ok(())
}

/// Puts the same keys as all other ranks and finds them. Returns the number of wrong results.
fn put_by_all(table: &mut Wide, job: &mut Job, keys: u64) -> Result<u64> {
    let all: Vec<Key> = (0..keys).map(key).collect();
    let mut outcomes = vec![Outcome::Full; all.len()];
    job.barrier()?;
    table.find_or_put_batch(&all, &mut outcomes)?;
    let inserted = outcomes.iter().filter(|outcome| **outcome == Outcome::Inserted).count() as u64;
    let inserted: u64 = gather(job, inserted)?.iter().sum();
    let mut found = vec![false; all.len()];
    table.find_batch(&all, &mut found)?;
    let lost = found.iter().filter(|found| !**found).count() as u64;
    let surplus = table.len(job)?.abs_diff(keys);
    println!("inserted {inserted} of {keys}, not found {lost}, surplus {surplus}");
    Ok(inserted.abs_diff(keys) + lost + surplus)
}

/// Finds and inserts, and checks their chunks and entries.
fn count_roundtrips(table: &mut Wide, args: &WideArgs) -> Result<()> {
    table.reset_stats();
    for nth in 0..args.counted {
        ensure!(table.find(&key(nth % args.keys))?, "a key is lost");
        let inserted = table.find_or_put(&key(args.keys + nth))?;
        ensure!(inserted == Outcome::Inserted, "a new key was there");
    }
    let (stats, entries) = (*table.stats(), *table.entry_stats());
    println!(
        "roundtrips: {} finds waited for {} chunks and {} entries, {} of them of other keys; {} \
         inserts for {} chunks and {} claims",
        stats.found.operations,
        stats.found.effective_roundtrips,
        entries.entry_reads,
        entries.false_entry_reads,
        stats.inserted.operations,
        stats.inserted.effective_roundtrips,
        stats.inserted.claims,
    );
    // A chunk of 32 buckets is full at a load factor of 0.5 less than once in a thousand times.
    let max = args.counted + args.counted / 50;
    let chunks = [stats.found.effective_roundtrips, stats.inserted.effective_roundtrips];
    let rest = [entries.entry_reads, stats.inserted.claims];
    ensure!(chunks.into_iter().chain(rest).all(|count| count <= max), "more than two roundtrips");
    Ok(())
}
