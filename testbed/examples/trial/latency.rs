//! Latency of one operation at a time and rate of READs with several in flight, as perftest
//! measures them.

use core::sync::atomic::Ordering::Acquire;
use core::time::Duration;
use std::thread::sleep;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use probeline_exchange::Job;
use probeline_transport::conformance::{local, segment, word};
use probeline_transport::{Completion, Exchange, Owner, RemoteWord, Sizes, Token, Transport};
use probeline_ucx_shim::ucx::Progress;

use crate::job::{Deadline, JobArgs, close, complete};
use crate::ucx::UcxArgs;

#[derive(Args)]
pub(crate) struct LatencyArgs {
    /// Operation to measure
    operation: Operation,
    /// Words of a READ
    #[arg(long, default_value_t = 8)]
    words: u32,
    /// Measured operations, after a tenth as many that are not measured
    #[arg(long, default_value_t = 1000)]
    operations: usize,
    #[command(flatten)]
    ucx: UcxArgs,
    #[command(flatten)]
    job: JobArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Operation {
    Read,
    Cas,
}

/// The time that ucx_perftest's responder sleeps.
const SLEEP: Duration = Duration::from_millis(1);
/// More polls than the last answer needs to leave.
const LAST_POLLS: u32 = 1000;
/// The word of rank 1 that rank 0 reads or swaps.
const TARGET: RemoteWord = word(1, 0);
/// The word of rank 1 that rank 0 sets at the end of the measurement.
const FINISHED: RemoteWord = word(1, 1016);
const WINDOW_WORDS: u64 = 1024;

pub(crate) fn run(args: &LatencyArgs) -> Result<()> {
    let parameters = (args.operation, args.words, &args.ucx);
    let mut job = args.job.join(format!("{parameters:?}"))?;
    let slot_words = args.words.next_multiple_of(8);
    if !args.ucx.is_chosen() {
        let builder = args.job.builder(Sizes::new(WINDOW_WORDS).with_slots(1, slot_words))?;
        let engine = builder.open(&mut job)?;
        return run_on(engine, args, job);
    }
    let sizes = Sizes { window_words: WINDOW_WORDS, slots: 1, slot_words, depth: 1 };
    let engine = args.ucx.open(sizes, Progress::Caller, &mut job)?;
    if job.me() == Owner(0) {
        println!("{}", engine.info());
    }
    run_on(engine, args, job)
}

fn run_on(mut engine: impl Transport, args: &LatencyArgs, mut job: Job) -> Result<()> {
    job.barrier()?;
    match job.me() {
        Owner(0) => measure(args, &mut engine)?,
        Owner(1) if args.ucx.is_chosen() => respond(args.operation, &mut engine)?,
        _ => (),
    }
    close(job, engine)
}

fn measure(args: &LatencyArgs, engine: &mut impl Transport) -> Result<()> {
    let words = args.words;
    let mut times_ns = Vec::with_capacity(args.operations);
    let warm_up = args.operations / 10;
    for round in 0..warm_up + args.operations {
        let start = Instant::now();
        match args.operation {
            Operation::Read => engine.read(Token(0), segment(1, 0, words), local(0, 0, words))?,
            Operation::Cas => engine.compare_and_swap(Token(0), TARGET, 0, 0)?,
        }
        complete(engine)?;
        if round >= warm_up {
            times_ns.push(start.elapsed().as_nanos());
        }
    }
    engine.fetch_add(Token(0), FINISHED, 1)?;
    complete(engine)?;
    times_ns.sort_unstable();
    println!("time_ns {}", times_ns.get(args.operations / 2).context("no operations")?);
    Ok(())
}

/// Polls rank 1's engine until rank 0 has finished, as ucx_perftest's responder does: for READs it
/// sleeps between two polls.
fn respond(operation: Operation, engine: &mut impl Transport) -> Result<()> {
    let mut deadline = Deadline::new("end of the measurement");
    let mut none = [Completion::default()];
    loop {
        engine.poll(&mut none)?;
        let finished = engine.window().get(usize::try_from(FINISHED.index)?);
        if finished.context("the window is too short")?.load(Acquire) != 0 {
            break;
        }
        deadline.check()?;
        if operation == Operation::Read {
            sleep(SLEEP);
        }
    }
    // One of these polls sends the answer to rank 0's last operation.
    for _ in 0..LAST_POLLS {
        engine.poll(&mut none)?;
    }
    Ok(())
}

/// READs in flight.
const DEPTH: u32 = 16;
/// Words of a READ.
const WORDS: u32 = 8;
/// Measured READs, after a tenth as many that are not measured.
const READS: u32 = 3000;

pub(crate) fn run_rate(args: &JobArgs) -> Result<()> {
    let mut job = args.join("rate".into())?;
    let sizes = Sizes { window_words: 4096, slots: DEPTH, slot_words: WORDS, depth: DEPTH };
    let mut engine = args.builder(sizes)?.open(&mut job)?;
    job.barrier()?;
    if job.me() == Owner(0) {
        read(&mut engine, READS / 10)?;
        let start = Instant::now();
        read(&mut engine, READS)?;
        println!("time_ns {}", start.elapsed().as_nanos() / u128::from(READS));
    }
    close(job, engine)
}

/// Executes `count` READs with all slots in flight.
fn read(engine: &mut impl Transport, count: u32) -> Result<()> {
    let (mut posted, mut completed) = (0, 0);
    let mut completions = [Completion::default(); 16];
    let mut deadline = Deadline::new("completion");
    while completed < count {
        while posted < count && posted - completed < DEPTH {
            // A queue pair completes its READs in order, so that the oldest slot is free.
            engine.read(Token(0), segment(1, 0, WORDS), local(posted % DEPTH, 0, WORDS))?;
            posted += 1;
        }
        let polled = engine.poll(&mut completions)?;
        if polled == 0 {
            deadline.check()?;
            continue;
        }
        deadline.restart();
        for completion in completions.iter().take(polled) {
            completion.result?;
            completed += 1;
        }
    }
    Ok(())
}
