//! Latency of one operation at a time, as perftest measures it: from the post to the completion.

use core::sync::atomic::Ordering::Acquire;
use core::time::Duration;
use std::thread::sleep;
use std::time::Instant;

use clap::{Args, ValueEnum};
use probeline_exchange::Job;
use probeline_transport::Sizes;
use probeline_transport::{
    Completion, Exchange, Local, Owner, RemoteWord, Segment, Slot, Token, Transport,
};
use probeline_ucx_shim::ucx::Progress;

use crate::failure::{Failure, Result};
use crate::job::{JobArgs, finish, part};
use crate::patience::Patience;
use crate::ucx::UcxArgs;
use crate::words::words;

#[derive(Args)]
pub(crate) struct LatencyArgs {
    /// What is measured
    operation: Operation,
    /// Bytes of a READ, a multiple of 8
    #[arg(long = "bytes", value_name = "BYTES", default_value = "64", value_parser = words)]
    words: u32,
    /// Operations that count
    #[arg(long, default_value_t = 1000)]
    operations: usize,
    /// Operations before them
    #[arg(long, default_value_t = 100)]
    warm_up: usize,
    /// What rank 1 does meanwhile
    #[arg(long, value_enum, value_name = "WHAT", default_value = "waits")]
    owner: Meanwhile,
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
enum Meanwhile {
    /// Waits in a barrier; where UCX needs its CPU, a thread of its engine's acts
    Waits,
    /// Polls
    Polls,
    /// Polls, and sleeps for a millisecond between two looks, as ucx_perftest's responder does
    Naps,
}

impl Meanwhile {
    fn progress(self) -> Progress {
        if self == Self::Waits { Progress::Thread } else { Progress::Caller }
    }
}

/// What ucx_perftest's responder sleeps for.
const NAP: Duration = Duration::from_millis(1);
/// More than an answer needs to leave.
const LAST_POLLS: u32 = 1000;
/// The words of rank 1 at which rank 0 works, and in which it says that it is through.
const AT: RemoteWord = RemoteWord { owner: Owner(1), index: 0 };
const THROUGH: RemoteWord = RemoteWord { owner: Owner(1), index: 1016 };
const WINDOW_WORDS: u64 = 1024;

pub(crate) fn run(args: &LatencyArgs) -> Result<()> {
    let parameters = (args.operation, args.words, args.owner, &args.ucx);
    let mut job = args.job.join(format!("{parameters:?}"))?;
    let slot_words = args.words.next_multiple_of(8);
    if !args.ucx.is_chosen() {
        let builder = args.job.builder(WINDOW_WORDS)?.slots(1, slot_words);
        let engine = builder.open(&mut job)?;
        return between(args, job, engine);
    }
    let sizes = Sizes { window_words: WINDOW_WORDS, slots: 1, slot_words, depth: 1 };
    let engine = args.ucx.open(sizes, args.owner.progress(), &mut job)?;
    if job.me() == Owner(0) {
        println!("{}", engine.info());
    }
    between(args, job, engine)
}

fn between(args: &LatencyArgs, mut job: Job, mut engine: impl Transport) -> Result<()> {
    job.barrier()?;
    match job.me() {
        Owner(0) => measure(args, &mut engine)?,
        Owner(1) if args.owner != Meanwhile::Waits => attend(args.owner, &mut engine)?,
        _ => (),
    }
    part(job, engine)
}

fn measure(args: &LatencyArgs, engine: &mut impl Transport) -> Result<()> {
    let words = args.words;
    let into = Local { slot: Slot(0), start: 0, words };
    let mut times = Vec::with_capacity(args.operations);
    for turn in 0..args.warm_up + args.operations {
        let begin = Instant::now();
        match args.operation {
            Operation::Read => engine.read(Token(0), Segment { start: AT, words }, into)?,
            Operation::Cas => engine.compare_and_swap(Token(0), AT, 0, 0)?,
        }
        finish(engine)?;
        if turn >= args.warm_up {
            times.push(begin.elapsed().as_nanos());
        }
    }
    engine.fetch_add(Token(0), THROUGH, 1)?;
    finish(engine)?;
    times.sort_unstable();
    let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or(0);
    println!("median_ns {}", at(50));
    println!("p99_ns {}", at(99));
    Ok(())
}

/// Rank 1, until rank 0 is through.
fn attend(how: Meanwhile, engine: &mut impl Transport) -> Result<()> {
    let mut patience = Patience::new("end of the measurement");
    let mut none = [Completion::default()];
    loop {
        engine.poll(&mut none)?;
        let through = engine.window().get(usize::try_from(THROUGH.index)?);
        let through = through.ok_or_else(|| Failure("the window is too short".into()))?;
        if through.load(Acquire) != 0 {
            break;
        }
        patience.turn()?;
        if how == Meanwhile::Naps {
            sleep(NAP);
        }
    }
    // What answers rank 0 leaves with one of these.
    for _ in 0..LAST_POLLS {
        engine.poll(&mut none)?;
    }
    Ok(())
}
