//! Operations that completed in error and took effect later, when their peer's machine resumed:
//! their outcome was unknown, and repeating them is safe.
//!
//! In each round rank 0 says that it is ready, and the test bed freezes rank 1's machine and creates
//! a file. Only then does rank 0 send claims. When all have failed the test bed thaws the machine, so
//! that everything that takes effect does so after its failure. Both ranks then open new engines over
//! the same windows, and rank 0 repeats the failed operations.

use core::sync::atomic::AtomicU64;
use core::time::Duration;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use clap::Args;
use probeline_exchange::Job;
use probeline_table::{
    Bucket, Config, Ended, Finished, Intent, Operation, OperationError, Table, Tag,
};
use probeline_transport::{Exchange, Owner, Sizes, Transport};
use probeline_verbs::Engine;

use crate::job::{Deadline, HANG_TIMEOUT, JobArgs, close};
use crate::soak::run_one;

#[derive(Args)]
pub(crate) struct UnknownArgs {
    /// Number of times that rank 1's machine is frozen
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Folder in which the file `frozen-ROUND` appears once rank 1's machine is frozen
    #[arg(long)]
    frozen_in: PathBuf,
    #[command(flatten)]
    job: JobArgs,
}

/// Buckets of each owner, enough that nearly every key has its home bucket to itself.
const BUCKETS: u64 = 4096;
/// Keys put before the freeze of each round.
const KNOWN: u64 = 20;
/// Claims sent to the frozen machine in each round. A claim whose READs complete
/// without a poll is sent too early, and succeeds.
const UNKNOWN: usize = 6;
/// Long enough for the READs of claims to land, and for late requests to take effect after a thaw.
const SETTLE_TIME: Duration = Duration::from_millis(300);

/// The window, which outlives the engines, and what rank 0 knows of the table.
struct State {
    config: Config,
    window: &'static [AtomicU64],
    keys: Vec<u64>,
    /// The keys of this round whose claims failed.
    unknown: Vec<u64>,
    late: usize,
}

/// The table with the engine of one round.
type RoundTable = Table<Engine, [Operation; UNKNOWN]>;

pub(crate) fn run(args: &UnknownArgs) -> Result<()> {
    let mut job = args.job.join(format!("unknown {}", args.rounds))?;
    let first = job.me() == Owner(0);
    let mut state = State::new();
    let mut table = state.open(args, &mut job)?;
    for round in 1..=args.rounds {
        if first {
            state.put_until_failure(args, &mut table, round)?;
        }
        // Rank 1 enters this barrier once it is thawed.
        job.barrier()?;
        sleep(SETTLE_TIME);
        drop(table);
        table = state.open(args, &mut job)?;
        if first {
            state.repeat(&mut table, round)?;
        }
        let (len, expected) = (table.len(&mut job)?, state.keys.len() as u64);
        ensure!(!first || len == expected, "the table holds {len} keys, not {expected}");
    }
    if first {
        ensure!(state.late > 0, "no claim took effect late");
        println!("{} keys, each in the table once", state.keys.len());
    }
    close(job, table.into_transport())
}

impl UnknownArgs {
    /// Waits until rank 1's machine is frozen.
    fn wait_for_freeze(&self, round: u32) -> Result<()> {
        println!("ready for round {round}");
        let (file, start) = (self.frozen_in.join(format!("frozen-{round}")), Instant::now());
        while !file.exists() {
            ensure!(start.elapsed() < HANG_TIMEOUT, "no file {}", file.display());
            sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl State {
    fn new() -> Self {
        // The paper's algorithm sends claims only when the table is polled.
        let config = Config { chunk_buckets: 8, ..Config::paper(BUCKETS) };
        // With room for the engine's control words.
        let window = (0..config.words() + 1024).map(|_| AtomicU64::new(0)).collect();
        Self { config, window: Vec::leak(window), keys: Vec::new(), unknown: Vec::new(), late: 0 }
    }

    /// Opens an engine over the window, whose content stays.
    fn open(&self, args: &UnknownArgs, job: &mut Job) -> Result<RoundTable> {
        let slots = Config::slots(u32::try_from(UNKNOWN)?);
        let builder = args.job.builder(Sizes::new(self.config.words()).with_slots(slots, 8))?;
        let engine = builder.open_in(job, |_, _| Ok(Box::new(self.window)))?;
        let table = Table::open(engine, self.config, [Operation::EMPTY; UNKNOWN], job)?;
        job.barrier()?;
        Ok(table)
    }

    /// Puts keys, some before the freeze and some after, until the latter have failed.
    fn put_until_failure(
        &mut self,
        args: &UnknownArgs,
        table: &mut RoundTable,
        round: u32,
    ) -> Result<()> {
        for _ in 0..KNOWN {
            let key = self.next_key(table)?;
            let outcome = run_one(table, key, Intent::FindOrPut)?;
            ensure!(outcome == Ended::Inserted, "key {key}: {outcome:?}");
        }
        for _ in 0..UNKNOWN {
            let key = self.next_key(table)?;
            table.submit(Tag(key), key, Intent::FindOrPut)?;
        }
        wait_for_reads(table)?;
        args.wait_for_freeze(round)?;
        self.unknown = wait_for_failed_claims(table)?;
        println!("round {round}: {} claims failed", self.unknown.len());
        Ok(())
    }

    /// Adds a key whose home bucket is rank 1's.
    fn next_key(&mut self, table: &RoundTable) -> Result<u64> {
        let mut key = self.keys.last().map_or(1, |last| last + 1);
        while table.layout().home(Bucket::new(key)?).owner != 1 {
            key += 1;
        }
        self.keys.push(key);
        Ok(key)
    }

    /// Puts the keys of failed claims again and checks that the table now holds each.
    fn repeat(&mut self, table: &mut RoundTable, round: u32) -> Result<()> {
        for &key in self.keys.iter().filter(|key| !self.unknown.contains(key)) {
            let outcome = run_one(table, key, Intent::Find)?;
            ensure!(outcome == Ended::Found, "key {key} is lost");
        }
        let mut claims = 0;
        for &key in &self.unknown {
            match run_one(table, key, Intent::FindOrPut)? {
                Ended::Found => claims += 1,
                Ended::Inserted => {}
                outcome => bail!("key {key}: {outcome:?}"),
            }
            let again = run_one(table, key, Intent::FindOrPut)?;
            ensure!(again == Ended::Found, "key {key} is not found");
        }
        let failed = self.unknown.len();
        println!("round {round}: {claims} of {failed} failed claims took effect late");
        self.late += claims;
        Ok(())
    }
}

/// Polls until a READ has completed; the next poll sends the claims that follow from it.
fn wait_for_reads(table: &mut RoundTable) -> Result<()> {
    let (start, posted) = (Instant::now(), table.transport().in_flight());
    while table.transport().in_flight() == posted {
        ensure!(start.elapsed() < HANG_TIMEOUT, "hang: no READ has completed");
        table.poll_into(&mut [])?;
        sleep(SETTLE_TIME);
    }
    Ok(())
}

/// Waits until all claims have ended, and returns the keys of the failed ones, at least one.
fn wait_for_failed_claims(table: &mut RoundTable) -> Result<Vec<u64>> {
    let (mut ends, mut deadline) = ([Finished::default(); UNKNOWN], Deadline::new("failure"));
    let (mut ended, mut failed) = (0, Vec::new());
    while ended < UNKNOWN {
        deadline.check()?;
        let polled = table.poll_into(&mut ends)?;
        ended += polled.len();
        for end in polled {
            match end.result {
                Ok(Ended::Inserted) => {}
                Err(OperationError::Failed(_)) => failed.push(end.tag.0),
                result => bail!("a claim ended with {result:?}"),
            }
        }
    }
    ensure!(!failed.is_empty(), "no claim failed");
    Ok(failed)
}
