//! Many queue pairs of all ranks operate on one word: no fetch-and-add and no compare-and-swap is
//! lost or executed twice.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

use anyhow::{Context, Result, ensure};
use clap::Args;
use probeline_exchange::Job;
use probeline_transport::{Completion, Exchange, Owner, RemoteWord, Sizes, Token, Transport};
use probeline_verbs::Engine;

use crate::job::{Deadline, JobArgs, close, complete, gather};

#[derive(Args)]
pub(crate) struct ContentionArgs {
    /// Fetch-and-adds of each rank
    #[arg(long, default_value_t = 2000)]
    adds: u64,
    /// Successful compare-and-swaps of each rank
    #[arg(long, default_value_t = 300)]
    swaps: u64,
    /// Fetch-and-adds in flight
    #[arg(long, default_value_t = 8)]
    depth: u32,
    /// Add to the word by rank 0's CPU too, against the device's atomics; fail unless additions are
    /// lost
    #[arg(long)]
    against_cpu: bool,
    #[command(flatten)]
    job: JobArgs,
}

const ADDED: RemoteWord = RemoteWord { owner: Owner(0), index: 3 };
const SWAPPED: RemoteWord = RemoteWord { owner: Owner(0), index: 4 };
/// Counts the ranks that have finished adding.
const FINISHED: RemoteWord = RemoteWord { owner: Owner(0), index: 5 };

pub(crate) fn run(args: &ContentionArgs) -> Result<()> {
    let mut job = args.job.join(format!("{} {} {}", args.adds, args.swaps, args.depth))?;
    let mut engine = args.job.builder(Sizes::new(64).with_depth(args.depth))?.open(&mut job)?;
    job.barrier()?;
    if args.against_cpu {
        return against_cpu(args, job, engine);
    }
    let addend = u64::from(job.me().0) + 1;
    add(&mut engine, args, addend)?;
    let attempts = swap(&mut engine, args.swaps)?;
    job.barrier()?;

    let ranks = u64::from(job.owners());
    let expected = args.adds * ranks * (ranks + 1) / 2;
    engine.fetch_add(Token(0), ADDED, 0)?;
    let sum = complete(&mut engine)?;
    ensure!(sum == expected, "fetch-and-adds: the sum is {sum}, not {expected}");
    engine.fetch_add(Token(0), SWAPPED, 0)?;
    let (count, expected) = (complete(&mut engine)?, args.swaps * ranks);
    ensure!(count == expected, "compare-and-swaps: {count} succeeded, not {expected}");
    let attempts: u64 = gather(&mut job, attempts)?.iter().sum();
    if job.me() == Owner(0) {
        println!("sum {sum}, {count} of {attempts} swaps succeeded, by {ranks} ranks: exact");
    }
    close(job, engine)
}

/// Rank 0 adds by its CPU while the other ranks add through the device.
fn against_cpu(args: &ContentionArgs, mut job: Job, mut engine: Engine) -> Result<()> {
    let others = u64::from(job.owners()) - 1;
    let mut by_cpu = 0;
    if job.me() == Owner(0) {
        let mut deadline = Deadline::new("end of the other ranks");
        let (added, finished) = (own_word(&engine, ADDED)?, own_word(&engine, FINISHED)?);
        while finished.load(Acquire) < others {
            deadline.check()?;
            added.fetch_add(1, Relaxed);
            by_cpu += 1;
        }
    } else {
        add(&mut engine, args, 1)?;
        engine.fetch_add(Token(0), FINISHED, 1)?;
        complete(&mut engine)?;
    }
    job.barrier()?;
    if job.me() == Owner(0) {
        let expected = by_cpu + others * args.adds;
        let lost = expected.saturating_sub(own_word(&engine, ADDED)?.load(Acquire));
        println!("lost {lost} of {expected} additions; the CPU made {by_cpu} of them");
        ensure!(lost > 0, "no addition was lost; is the device atomic with the CPU?");
    }
    close(job, engine)
}

fn own_word(engine: &Engine, at: RemoteWord) -> Result<&AtomicU64> {
    engine.window().get(usize::try_from(at.index)?).context("the window is too short")
}

/// Adds `addend` `args.adds` times, `args.depth` in flight, and checks that the values that return
/// increase.
fn add(engine: &mut Engine, args: &ContentionArgs, addend: u64) -> Result<()> {
    let (mut posted, mut completed) = (0, 0);
    let (mut last, mut deadline) = (None, Deadline::new("completion"));
    while completed < args.adds {
        while posted < args.adds && engine.in_flight() < args.depth {
            engine.fetch_add(Token(posted), ADDED, addend)?;
            posted += 1;
        }
        let mut completions = [Completion::default(); 16];
        let count = engine.poll(&mut completions)?;
        deadline.check()?;
        for completion in completions.iter().take(count) {
            let value = completion.result?;
            // A queue pair executes its atomics in order (InfiniBand specification, 9.5).
            let in_order = args.against_cpu || Some(value) > last;
            ensure!(in_order, "a fetch-and-add returned {value} after {last:?}");
            last = Some(value);
            completed += 1;
            deadline.restart();
        }
    }
    Ok(())
}

/// Increments the word by compare-and-swap until `swaps` have succeeded; returns the attempts.
fn swap(engine: &mut Engine, swaps: u64) -> Result<u64> {
    let (mut expected, mut succeeded, mut attempts) = (0, 0, 0);
    let mut deadline = Deadline::new("successful compare-and-swap");
    while succeeded < swaps {
        engine.compare_and_swap(Token(0), SWAPPED, expected, expected + 1)?;
        let old = complete(engine)?;
        attempts += 1;
        if old == expected {
            succeeded += 1;
            expected += 1;
            deadline.restart();
        } else {
            expected = old;
            deadline.check()?;
        }
    }
    Ok(attempts)
}
