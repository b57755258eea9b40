//! All ranks put the same keys at once. Exactly one rank inserts each key, and the table holds it
//! once.

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use probeline_exchange::Job;
use probeline_table::{Config, Ended, Finished, Intent, Operation, OperationError, Table, Tag};
use probeline_transport::{Exchange, Owner, Sizes};
use probeline_verbs::Engine;

use crate::job::{Deadline, JobArgs, close};

#[derive(Args)]
pub(crate) struct SoakArgs {
    /// Number of keys
    #[arg(long, default_value_t = 4000)]
    keys: u64,
    /// Put the keys in the same order in all ranks, one at a time, so that ranks compete for every
    /// bucket
    #[arg(long)]
    in_step: bool,
    /// Declare that READs return words whole, which turns the table's protection off; fail unless the
    /// table is wrong
    #[arg(long)]
    trust_words: bool,
    #[command(flatten)]
    job: JobArgs,
}

/// Operations of each rank in flight.
const OPERATIONS: u32 = 8;

type SoakTable = Table<Engine, Vec<Operation>>;

pub(crate) fn run(args: &SoakArgs) -> Result<()> {
    let mut job = args.job.join(args.keys.to_string())?;
    let buckets = (args.keys * 2 / u64::from(args.job.ranks)).next_multiple_of(8).max(1024);
    let config = Config { chunk_buckets: 32, ..Config::new(buckets) };
    let sizes = Sizes::new(config.words()).with_slots(Config::slots(OPERATIONS), 32);
    let engine = args.job.builder(sizes)?.word_reads_whole(args.trust_words).open(&mut job)?;
    let operations = vec![Operation::EMPTY; OPERATIONS as usize];
    let mut table = Table::open(engine, config, operations, &mut job)?;
    job.barrier()?;
    let inserted = if args.in_step {
        put_in_step(&mut table, args.keys)?
    } else {
        put_concurrently(&mut table, &job, args.keys)?
    };
    job.barrier()?;
    let wrong = count_wrong(&mut table, &mut job, &inserted)?;
    if job.me() == Owner(0) {
        let stats = table.stats();
        let confirmed = stats.total().confirms;
        println!("{} keys, {wrong} wrong; confirmed {confirmed} words; {stats:?}", args.keys);
    }
    close(job, table.into_transport())?;
    ensure!((wrong > 0) == args.trust_words, "{wrong} keys are wrong");
    Ok(())
}

/// Runs one operation to its end. No other operation may be in flight.
pub(crate) fn run_one<S: AsMut<[Operation]>>(
    table: &mut Table<Engine, S>,
    key: u64,
    intent: Intent,
) -> Result<Ended> {
    let (mut end, mut deadline) = ([Finished::default()], Deadline::new("end of an operation"));
    // The table is busy while the storage of an ended operation waits for its speculative READs.
    while let Err(refused) = table.submit(Tag(key), key, intent) {
        ensure!(refused == OperationError::Busy, refused);
        table.poll_into(&mut [])?;
        deadline.check()?;
    }
    while table.poll_into(&mut end)?.is_empty() {
        deadline.check()?;
    }
    let [end] = end;
    ensure!(end.tag == Tag(key), "the operation with {:?} ended, not {key}", end.tag);
    Ok(end.result?)
}

/// Returns key number `number`, with bytes of all values.
fn key(number: u64) -> u64 {
    number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1
}

/// Puts the keys in order, one at a time; for each key, 1 if this rank inserted it.
fn put_in_step(table: &mut SoakTable, keys: u64) -> Result<Vec<u8>> {
    (0..keys).map(|number| inserted(run_one(table, key(number), Intent::FindOrPut)?)).collect()
}

/// Puts the keys with many operations in flight, each rank from another start; the same result.
fn put_concurrently(table: &mut SoakTable, job: &Job, keys: u64) -> Result<Vec<u8>> {
    let mut insertions = vec![0; usize::try_from(keys)?];
    let first = keys * u64::from(job.me().0) / u64::from(job.owners()) / 2;
    let mut waiting = (0..keys).map(|number| (first + number) % keys).peekable();
    let (mut in_flight, mut ends) = (0, [Finished::default(); 16]);
    let mut deadline = Deadline::new("end of an operation");
    while waiting.peek().is_some() || in_flight > 0 {
        while let Some(&number) = waiting.peek() {
            match table.submit(Tag(number), key(number), Intent::FindOrPut) {
                Ok(()) => in_flight += 1,
                Err(OperationError::Busy) => break,
                Err(error) => return Err(error.into()),
            }
            waiting.next();
        }
        let polled = table.poll_into(&mut ends)?;
        if polled.is_empty() {
            deadline.check()?;
            continue;
        }
        deadline.restart();
        for end in polled {
            let count = insertions.get_mut(usize::try_from(end.tag.0)?);
            *count.with_context(|| format!("unknown {:?}", end.tag))? += inserted(end.result?)?;
            in_flight -= 1;
        }
    }
    Ok(insertions)
}

fn inserted(outcome: Ended) -> Result<u8> {
    match outcome {
        Ended::Inserted => Ok(1),
        Ended::Found => Ok(0),
        outcome => bail!("unexpected outcome {outcome:?}"),
    }
}

/// Counts the keys that were not inserted exactly once, the keys that are not found, and the
/// difference of the table's length from the number of keys.
fn count_wrong(table: &mut SoakTable, job: &mut Job, insertions: &[u8]) -> Result<usize> {
    let keys = insertions.len();
    let mut all = vec![0; keys * job.owners() as usize];
    job.all_gather(insertions, &mut all)?;
    let of_all_ranks = |number: usize| all.iter().skip(number).step_by(keys).sum::<u8>();
    let not_once = (0..keys).filter(|&number| of_all_ranks(number) != 1).count();
    let mut lost = 0;
    for number in 0..keys as u64 {
        lost += usize::from(run_one(table, key(number), Intent::Find)? != Ended::Found);
    }
    let surplus = table.len(job)?.abs_diff(keys as u64);
    println!("not inserted once {not_once}, not found {lost}, surplus {surplus}");
    Ok(not_once + lost + usize::try_from(surplus)?)
}
