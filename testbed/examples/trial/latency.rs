//! Latency of one operation at a time and rate of READs with several in flight, as perftest
//! measures them.

use core::sync::atomic::Ordering::Acquire;
use core::time::Duration;
use std::thread::sleep;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use probeline_exchange::Job;
use probeline_transport::{
    Completion, Exchange, Local, Owner, RemoteWord, Segment, Sizes, Slot, Token, Transport,
    WORD_BYTES,
};
use probeline_ucx_shim::ucx::Progress;

use crate::job::{Deadline, JobArgs, close, complete};
use crate::ucx::UcxArgs;

#[derive(Args)]
pub(crate) struct LatencyArgs {
    /// Operation to measure
    operation: Operation,
    /// Bytes of a READ, a multiple of 8
    #[arg(long = "bytes", value_name = "BYTES", default_value = "64", value_parser = parse_words)]
    words: u32,
    /// Measured operations
    #[arg(long, default_value_t = 1000)]
    operations: usize,
    /// Operations before the measured ones
    #[arg(long, default_value_t = 100)]
    warm_up: usize,
    /// Activity of rank 1 during the measurement
    #[arg(long, value_enum, default_value = "waits")]
    owner: OwnerActivity,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OwnerActivity {
    /// Waits in a barrier; where UCX needs the owner's CPU, a progress thread of the engine runs
    Waits,
    /// Polls
    Polls,
    /// Polls, and sleeps for a millisecond after each poll, like ucx_perftest's responder
    Sleeps,
}

/// The time that ucx_perftest's responder sleeps.
const SLEEP: Duration = Duration::from_millis(1);
/// More polls than the last answer needs to leave.
const LAST_POLLS: u32 = 1000;
/// The word of rank 1 that rank 0 reads or swaps.
const TARGET: RemoteWord = RemoteWord { owner: Owner(1), index: 0 };
/// The word of rank 1 that rank 0 sets at the end of the measurement.
const FINISHED: RemoteWord = RemoteWord { owner: Owner(1), index: 1016 };
const WINDOW_WORDS: u64 = 1024;

pub(crate) fn run(args: &LatencyArgs) -> Result<()> {
    let parameters = (args.operation, args.words, args.owner, &args.ucx);
    let mut job = args.job.join(format!("{parameters:?}"))?;
    let slot_words = args.words.next_multiple_of(8);
    if !args.ucx.is_chosen() {
        let builder = args.job.builder(Sizes::new(WINDOW_WORDS).with_slots(1, slot_words))?;
        let engine = builder.open(&mut job)?;
        return run_on(engine, args, job);
    }
    let sizes = Sizes { window_words: WINDOW_WORDS, slots: 1, slot_words, depth: 1 };
    let waits = args.owner == OwnerActivity::Waits;
    let progress = if waits { Progress::Thread } else { Progress::Caller };
    let engine = args.ucx.open(sizes, progress, &mut job)?;
    if job.me() == Owner(0) {
        println!("{}", engine.info());
    }
    run_on(engine, args, job)
}

fn run_on(mut engine: impl Transport, args: &LatencyArgs, mut job: Job) -> Result<()> {
    job.barrier()?;
    match job.me() {
        Owner(0) => measure(args, &mut engine)?,
        Owner(1) if args.owner != OwnerActivity::Waits => respond(args.owner, &mut engine)?,
        _ => (),
    }
    close(job, engine)
}

fn measure(args: &LatencyArgs, engine: &mut impl Transport) -> Result<()> {
    let words = args.words;
    let into = Local { slot: Slot(0), start: 0, words };
    let mut times_ns = Vec::with_capacity(args.operations);
    for round in 0..args.warm_up + args.operations {
        let start = Instant::now();
        match args.operation {
            Operation::Read => engine.read(Token(0), Segment { start: TARGET, words }, into)?,
            Operation::Cas => engine.compare_and_swap(Token(0), TARGET, 0, 0)?,
        }
        complete(engine)?;
        if round >= args.warm_up {
            times_ns.push(start.elapsed().as_nanos());
        }
    }
    engine.fetch_add(Token(0), FINISHED, 1)?;
    complete(engine)?;
    times_ns.sort_unstable();
    let percentile = |p: usize| times_ns.get(times_ns.len() * p / 100).copied().unwrap_or(0);
    println!("median_ns {}", percentile(50));
    println!("p99_ns {}", percentile(99));
    Ok(())
}

/// Polls rank 1's engine until rank 0 has finished.
fn respond(activity: OwnerActivity, engine: &mut impl Transport) -> Result<()> {
    let mut deadline = Deadline::new("end of the measurement");
    let mut none = [Completion::default()];
    loop {
        engine.poll(&mut none)?;
        let finished = engine.window().get(usize::try_from(FINISHED.index)?);
        if finished.context("the window is too short")?.load(Acquire) != 0 {
            break;
        }
        deadline.check()?;
        if activity == OwnerActivity::Sleeps {
            sleep(SLEEP);
        }
    }
    // One of these polls sends the answer to rank 0's last operation.
    for _ in 0..LAST_POLLS {
        engine.poll(&mut none)?;
    }
    Ok(())
}

#[derive(Args)]
pub(crate) struct RateArgs {
    /// Bytes of a READ, a multiple of 8
    #[arg(long = "bytes", value_name = "BYTES", default_value = "64", value_parser = parse_words)]
    words: u32,
    /// READs in flight
    #[arg(long, default_value_t = 16)]
    depth: u32,
    /// Measured READs
    #[arg(long, default_value_t = 5000)]
    operations: u64,
    #[command(flatten)]
    job: JobArgs,
}

pub(crate) fn run_rate(args: &RateArgs) -> Result<()> {
    let mut job = args.job.join(format!("{} {}", args.words, args.depth))?;
    let slot_words = args.words.next_multiple_of(8);
    let sizes = Sizes { window_words: 4096, slots: args.depth, slot_words, depth: args.depth };
    let mut engine = args.job.builder(sizes)?.open(&mut job)?;
    job.barrier()?;
    if job.me() == Owner(0) {
        let warm_up = args.operations / 10;
        read(&mut engine, args, warm_up)?;
        let start = Instant::now();
        read(&mut engine, args, args.operations)?;
        #[allow(clippy::cast_precision_loss)]
        let rate = args.operations as f64 / start.elapsed().as_secs_f64();
        println!("reads_per_s {rate:.1}");
    }
    close(job, engine)
}

/// Executes `count` READs, `args.depth` in flight.
fn read<T: Transport>(engine: &mut T, args: &RateArgs, count: u64) -> Result<()> {
    let words = args.words;
    let post = |engine: &mut T, slot| {
        let into = Local { slot: Slot(slot), start: 0, words };
        engine.read(Token(slot.into()), Segment { start: TARGET, words }, into)
    };
    let (mut posted, mut completed) = (0, 0);
    while posted < count.min(args.depth.into()) {
        post(engine, u32::try_from(posted)?)?;
        posted += 1;
    }
    let mut completions = [Completion::default(); 16];
    let mut deadline = Deadline::new("completion");
    while completed < count {
        let polled = engine.poll(&mut completions)?;
        if polled == 0 {
            deadline.check()?;
            continue;
        }
        deadline.restart();
        for completion in completions.iter().take(polled) {
            completion.result?;
            completed += 1;
            if posted < count {
                post(engine, u32::try_from(completion.token.0)?)?;
                posted += 1;
            }
        }
    }
    Ok(())
}

/// Reads a number of bytes from the command line as words.
fn parse_words(bytes: &str) -> Result<u32, String> {
    match bytes.parse::<usize>() {
        Ok(bytes) if bytes > 0 && bytes.is_multiple_of(WORD_BYTES) => {
            u32::try_from(bytes / WORD_BYTES).map_err(|error| error.to_string())
        }
        Ok(_) => Err(format!("give a positive multiple of {WORD_BYTES} bytes")),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_partial_words() {
        assert_eq!(parse_words("8"), Ok(1));
        assert_eq!(parse_words("4096"), Ok(512));
        for bytes in ["0", "12", "-8", "8B", ""] {
            assert!(parse_words(bytes).is_err(), "{bytes}");
        }
    }
}
