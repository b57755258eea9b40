//! Operations that completed in error and took effect later, when their peer's machine resumed:
//! their outcome was unknown, and repeating them is safe.
//!
//! In each round rank 0 says that it is ready, and the test bed freezes rank 1's machine and creates
//! a file. Only then does rank 0 send claims and additions. When all have failed the test bed thaws
//! the machine, so that everything that takes effect does so after its failure. Both ranks then open
//! new engines over the same windows, and rank 0 repeats the failed operations.

use core::sync::atomic::AtomicU64;
use core::time::Duration;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use probeline_exchange::Job;
use probeline_table::{
    Bucket, Config, Ended, Finished, Intent, Operation, OperationError, Table, Tag,
};
use probeline_transport::{
    Completion, Exchange, OpError, Owner, RemoteWord, Sizes, Token, Transport,
};
use probeline_verbs::{Context, Engine, OpenError};

use crate::job::{Deadline, HANG_TIMEOUT, JobArgs, close, complete};
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
/// Keys put and additions made before the freeze of each round.
const KNOWN: u64 = 20;
/// Claims, and additions, sent to the frozen machine in each round. A claim whose READs complete
/// without a poll is sent too early, and succeeds.
const UNKNOWN: usize = 6;
/// Long enough for the READs of claims to land, and for late requests to take effect after a thaw.
const SETTLE_TIME: Duration = Duration::from_millis(300);
const ADDED: RemoteWord = RemoteWord { owner: Owner(1), index: 0 };

type Window = &'static [AtomicU64];
type GivenMemory = core::result::Result<Box<dyn probeline_verbs::Memory + Send>, OpenError>;

/// The windows, which outlive the engines, and what rank 0 knows of their content.
struct State {
    config: Config,
    /// Of the table's engine and of the adding engine.
    windows: [Window; 2],
    keys: Vec<u64>,
    /// The keys of this round whose claims failed.
    unknown: Vec<u64>,
    /// The least value that the added word can have.
    sum: u64,
    late_claims: usize,
    late_additions: u64,
}

/// The engines of one round.
struct Engines {
    table: Table<Engine, [Operation; UNKNOWN]>,
    adder: Engine,
}

pub(crate) fn run(args: &UnknownArgs) -> Result<()> {
    let mut job = args.job.join(format!("unknown {}", args.rounds))?;
    let first = job.me() == Owner(0);
    let mut state = State::new();
    let mut engines = state.open(args, &mut job)?;
    for round in 1..=args.rounds {
        if first {
            state.operate_until_failure(args, &mut engines, round)?;
        }
        // Rank 1 enters this barrier once it is thawed.
        job.barrier()?;
        sleep(SETTLE_TIME);
        drop(engines);
        engines = state.open(args, &mut job)?;
        if first {
            state.repeat(&mut engines, round)?;
        }
        let (len, expected) = (engines.table.len(&mut job)?, state.keys.len() as u64);
        ensure!(!first || len == expected, "the table holds {len} keys, not {expected}");
    }
    if first {
        let late = (state.late_claims, state.late_additions);
        ensure!(late.0 > 0 && late.1 > 0, "no operation took effect late: {late:?}");
        println!("{} keys, each in the table once", state.keys.len());
    }
    job.barrier()?;
    drop(engines.adder);
    close(job, engines.table.into_transport())
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
        let window = || (0..config.words() + 1024).map(|_| AtomicU64::new(0)).collect();
        Self {
            config,
            windows: [Vec::leak(window()), Vec::leak(window())],
            keys: Vec::new(),
            unknown: Vec::new(),
            sum: 0,
            late_claims: 0,
            late_additions: 0,
        }
    }

    /// Opens engines over the windows, whose content stays.
    fn open(&self, args: &UnknownArgs, job: &mut Job) -> Result<Engines> {
        let [table, adder] = self.windows;
        let slots = Config::slots(u32::try_from(UNKNOWN)?);
        let builder = args.job.builder(Sizes::new(self.config.words()).with_slots(slots, 8))?;
        let engine = builder.open_in(job, memory(table))?;
        let table = Table::open(engine, self.config, [Operation::EMPTY; UNKNOWN], job)?;
        let adder = builder.open_in(job, memory(adder))?;
        job.barrier()?;
        Ok(Engines { table, adder })
    }

    /// Puts and adds, some before the freeze and some after, until the latter have failed.
    fn operate_until_failure(
        &mut self,
        args: &UnknownArgs,
        engines: &mut Engines,
        round: u32,
    ) -> Result<()> {
        for _ in 0..KNOWN {
            let key = self.next_key(engines)?;
            let outcome = run_one(&mut engines.table, key, Intent::FindOrPut)?;
            ensure!(outcome == Ended::Inserted, "key {key}: {outcome:?}");
            engines.adder.fetch_add(Token(0), ADDED, 1)?;
            complete(&mut engines.adder)?;
        }
        self.sum += KNOWN;
        for _ in 0..UNKNOWN {
            let key = self.next_key(engines)?;
            engines.table.submit(Tag(key), key, Intent::FindOrPut)?;
        }
        engines.wait_for_reads()?;
        args.wait_for_freeze(round)?;
        for _ in 0..UNKNOWN {
            engines.adder.fetch_add(Token(0), ADDED, 1)?;
        }
        engines.adder.kick();
        self.unknown = engines.wait_for_failed_claims()?;
        let cause = engines.wait_for_failed_additions()?;
        println!(
            "round {round}: {} claims and {UNKNOWN} additions failed: {cause}",
            self.unknown.len()
        );
        Ok(())
    }

    /// Adds a key whose home bucket is rank 1's.
    fn next_key(&mut self, engines: &Engines) -> Result<u64> {
        let mut key = self.keys.last().map_or(1, |last| last + 1);
        while engines.table.layout().home(Bucket::new(key)?).owner != 1 {
            key += 1;
        }
        self.keys.push(key);
        Ok(key)
    }

    /// Puts the keys of failed claims again and checks that the table now holds each.
    fn repeat(&mut self, engines: &mut Engines, round: u32) -> Result<()> {
        let table = &mut engines.table;
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
        engines.adder.fetch_add(Token(0), ADDED, 0)?;
        let (sum, known) = (complete(&mut engines.adder)?, self.sum);
        let posted = known + UNKNOWN as u64;
        ensure!((known..=posted).contains(&sum), "the sum {sum} is not in {known} to {posted}");
        println!(
            "round {round} took effect late: {claims} of {} failed claims, {} of {UNKNOWN} failed \
             additions",
            self.unknown.len(),
            sum - known
        );
        self.late_claims += claims;
        self.late_additions += sum - known;
        self.sum = sum;
        Ok(())
    }
}

/// Gives an engine this window.
fn memory(window: Window) -> impl FnOnce(&Context, usize) -> GivenMemory {
    move |_, _| Ok(Box::new(window))
}

impl Engines {
    /// Polls until a READ has completed; the next poll sends the claims that follow from it.
    fn wait_for_reads(&mut self) -> Result<()> {
        let (start, posted) = (Instant::now(), self.table.transport().in_flight());
        while self.table.transport().in_flight() == posted {
            ensure!(start.elapsed() < HANG_TIMEOUT, "hang: no READ has completed");
            self.table.poll_into(&mut [])?;
            sleep(SETTLE_TIME);
        }
        Ok(())
    }

    /// Waits until all claims have ended, and returns the keys of the failed ones, at least one.
    fn wait_for_failed_claims(&mut self) -> Result<Vec<u64>> {
        let (mut ends, mut deadline) = ([Finished::default(); UNKNOWN], Deadline::new("failure"));
        let (mut ended, mut failed) = (0, Vec::new());
        while ended < UNKNOWN {
            deadline.check()?;
            let polled = self.table.poll_into(&mut ends)?;
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

    /// Waits until all additions have failed, and returns the first one's error.
    fn wait_for_failed_additions(&mut self) -> Result<OpError> {
        let mut completions = [Completion::default(); UNKNOWN];
        let mut deadline = Deadline::new("failure");
        let mut causes = Vec::new();
        while causes.len() < UNKNOWN {
            deadline.check()?;
            let polled = self.adder.poll(&mut completions)?;
            for completion in completions.iter().take(polled) {
                let Err(cause) = completion.result else {
                    bail!("an addition succeeded while rank 1 was frozen");
                };
                causes.push(cause);
            }
        }
        causes.first().copied().context("no addition was posted")
    }
}
