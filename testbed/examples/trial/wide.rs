//! A table of keys of four words: all ranks put the same keys at once, and the times of a find and
//! of an insert beside the time of a READ, by turns.

use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Args;
use probeline_exchange::Job;
use probeline_table::{Outcome, WideConfig, WideOperation, WideTable};
use probeline_transport::{
    Exchange, Local, Owner, RemoteWord, Segment, Sizes, Slot, Token, Transport,
};
use probeline_verbs::Engine;

use crate::job::{JobArgs, close, complete, gather};

#[derive(Args)]
pub(crate) struct WideArgs {
    /// Keys that all ranks put at once
    #[arg(long, default_value_t = 2000)]
    keys: u64,
    /// Finds, inserts and READs to measure
    #[arg(long, default_value_t = 300)]
    measured: u64,
    #[command(flatten)]
    job: JobArgs,
}

const OPERATIONS: u32 = 8;
/// Words of the READ to which operations are compared: as many as the table's chunks.
const READ_WORDS: u32 = 32;

type Key = [u64; 4];
type Wide = WideTable<Engine, Vec<WideOperation<4>>, 4>;

fn key(number: u64) -> Key {
    [number, !number, number << 32, 7]
}

pub(crate) fn run(args: &WideArgs) -> Result<()> {
    let mut job = args.job.join(format!("{} {}", args.keys, args.measured))?;
    let ranks = u64::from(args.job.ranks);
    // A load factor of 0.5 after all keys of `measured` inserts.
    let buckets = ((args.keys + args.measured) * 2).div_ceil(ranks).next_multiple_of(8).max(64);
    let config = WideConfig::<4>::new(buckets);
    let sizes = config.sizes(OPERATIONS);
    // One slot more for the READs.
    let sizes = Sizes { slots: sizes.slots + 1, depth: sizes.depth + 1, ..sizes };
    let engine = args.job.builder(sizes)?.open(&mut job)?;
    let storage = vec![WideOperation::EMPTY; OPERATIONS as usize];
    let mut table = WideTable::open(engine, config, storage, &mut job)?;
    let wrong = put_by_all(&mut table, &mut job, args.keys)?;
    if job.me() == Owner(0) {
        println!("{} keys, {wrong} wrong;", args.keys);
        measure(&mut table, args, Slot(sizes.slots - 1))?;
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

/// Measures finds, inserts and READs by turns, and checks their chunks and entries.
fn measure(table: &mut Wide, args: &WideArgs, slot: Slot) -> Result<()> {
    let [mut reads, mut finds, mut inserts] = [(); 3].map(|()| Vec::new());
    table.reset_stats();
    for nth in 0..args.measured {
        reads.push(timed(|| read(table, nth, slot))?);
        finds.push(timed(|| expect(table.find(&key(nth % args.keys))?, "a key is lost"))?);
        let new = key(args.keys + nth);
        inserts.push(timed(|| {
            expect(table.find_or_put(&new)? == Outcome::Inserted, "a new key was there")
        })?);
    }
    let [read_ns, find_ns, insert_ns] = [reads, finds, inserts].map(median);
    let (stats, entries) = (*table.stats(), *table.entry_stats());
    println!("median_ns READ {read_ns}, find {find_ns}, insert {insert_ns}");
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
    let max = args.measured + args.measured / 50;
    let chunks = [stats.found.effective_roundtrips, stats.inserted.effective_roundtrips];
    let rest = [entries.entry_reads, stats.inserted.claims];
    ensure!(chunks.into_iter().chain(rest).all(|count| count <= max), "more than two roundtrips");
    Ok(())
}

/// Reads from all owners in turn.
fn read(table: &mut Wide, nth: u64, slot: Slot) -> Result<()> {
    let engine = table.transport_mut()?;
    let owners = u64::from(engine.geometry().owners);
    let owner = Owner(u32::try_from(nth % owners)?);
    let from = Segment { start: RemoteWord { owner, index: 0 }, words: READ_WORDS };
    engine.read(Token(0), from, Local { slot, start: 0, words: READ_WORDS })?;
    complete(engine).map(drop)
}

fn expect(is_so: bool, else_what: &'static str) -> Result<()> {
    ensure!(is_so, else_what);
    Ok(())
}

fn timed(work: impl FnOnce() -> Result<()>) -> Result<u128> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_nanos())
}

fn median(mut times_ns: Vec<u128>) -> u128 {
    times_ns.sort_unstable();
    times_ns.get(times_ns.len() / 2).copied().unwrap_or(0)
}
