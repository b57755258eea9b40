//! An operation that completed in error and took effect afterwards, when its peer's machine went
//! on: its outcome was unknown, and repeating it is safe.
//!
//! Rank 1's machine is frozen and thawed by whoever runs this; both ranks then open engines anew
//! over the windows they had, and rank 0 repeats what had failed.

use core::sync::atomic::AtomicU64;
use core::time::Duration;
use std::io::{Write, stdout};
use std::time::Instant;

use clap::Args;
use exchange::Job;
use table::{Config, Operation, OperationError, Outcome, Table};
use transport::{Exchange, Owner};
use verbs::Engine;

use crate::failure::{Failure, Result, ensure};
use crate::job::{JobArgs, part};

#[derive(Args)]
pub(crate) struct UnknownArgs {
    #[command(flatten)]
    job: JobArgs,
}

/// Buckets of each owner.
const BUCKETS: u64 = 4096;
/// How long rank 0 goes on until its peer is frozen.
const FREEZE_WITHIN: Duration = Duration::from_secs(30);

type Set = Table<Engine, [Operation; 1]>;

pub(crate) fn run(args: &UnknownArgs) -> Result<()> {
    let mut job = args.job.join("unknown".into())?;
    let config = Config { chunk_buckets: 8, ..Config::new(BUCKETS) };
    let window: &'static [AtomicU64] =
        Vec::leak((0..config.words() + 1024).map(|_| AtomicU64::new(0)).collect());
    let mut table = open(args, &mut job, config, window)?;
    job.barrier()?;
    let held = if job.me() == Owner(0) { until_unknown(&mut table)? } else { vec![] };
    // Rank 1 is back when it answers here.
    job.barrier()?;
    drop(table);
    let mut table = open(args, &mut job, config, window)?;
    job.barrier()?;
    if job.me() == Owner(0) {
        repeat(&mut table, &held)?;
    }
    let len = table.len(&mut job)?;
    let expected = held.len() as u64;
    if job.me() == Owner(0) {
        ensure(len == expected, || format!("{len} in the table for {expected}"))?;
        println!("{len} data, each there once");
    }
    part(job, table.into_transport())
}

fn open(
    args: &UnknownArgs,
    job: &mut Job,
    config: Config,
    window: &'static [AtomicU64],
) -> Result<Set> {
    let builder = args.job.builder(config.words())?.slots(Config::slots(1), 8);
    // Not zeroed the second time: the table goes on with what is there.
    let engine = builder.open_in(job, |_, _| Ok(Box::new(window)))?;
    Ok(Table::open(engine, config, [Operation::EMPTY; 1], job)?)
}

/// Puts data until one operation fails; all that was put, the unknown one last.
fn until_unknown(table: &mut Set) -> Result<Vec<u64>> {
    println!("putting");
    stdout().flush()?;
    let begin = Instant::now();
    let mut held = Vec::new();
    while begin.elapsed() < FREEZE_WITHIN {
        // Over and over again, so that the table does not fill: mostly what is there.
        let datum = held.len() as u64 + 1;
        held.push(datum);
        match table.find_or_put(datum) {
            Ok(Outcome::Inserted) => {}
            Ok(outcome) => return Err(Failure(format!("{datum}: {outcome:?}"))),
            Err(OperationError::Failed(cause)) => {
                println!("{datum} is of unknown outcome: {cause}");
                stdout().flush()?;
                return Ok(held);
            }
            Err(error) => return Err(error.into()),
        }
        ensure(held.len() < 6000, || "the table is full before anything happened".into())?;
        std::thread::sleep(Duration::from_millis(2));
    }
    Err(Failure("nothing happened".into()))
}

fn repeat(table: &mut Set, held: &[u64]) -> Result<()> {
    let Some((unknown, known)) = held.split_last() else { return Ok(()) };
    for datum in known {
        ensure(table.find(*datum)?, || format!("{datum} is lost"))?;
    }
    let outcome = table.find_or_put(*unknown)?;
    println!("repeated, {unknown} was {outcome:?}");
    ensure(matches!(outcome, Outcome::Found | Outcome::Inserted), || format!("{outcome:?}"))?;
    ensure(table.find_or_put(*unknown)? == Outcome::Found, || "it is not found".into())
}
