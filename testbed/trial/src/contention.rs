//! Many queue pairs, from all ranks, on one word: no fetch-and-add and no compare-and-swap is lost
//! or done twice.

use core::sync::atomic::Ordering::{Acquire, Relaxed};

use clap::Args;
use probeline_exchange::Job;
use probeline_transport::{Completion, Exchange, Owner, RemoteWord, Token, Transport};
use probeline_verbs::Engine;

use crate::failure::{Failure, Result, ensure};
use crate::job::{JobArgs, finish, gather, part};
use crate::patience::Patience;

#[derive(Args)]
pub(crate) struct ContentionArgs {
    /// Fetch-and-adds of each rank
    #[arg(long, default_value_t = 2000)]
    adds: u64,
    /// Compare-and-swaps of each rank that must succeed
    #[arg(long, default_value_t = 300)]
    swaps: u64,
    /// Fetch-and-adds in flight
    #[arg(long, default_value_t = 8)]
    depth: u32,
    /// The CPU of rank 0 adds to the word too, which the device's atomics know nothing of; ends
    /// well only if additions were lost
    #[arg(long)]
    against_cpu: bool,
    #[command(flatten)]
    job: JobArgs,
}

/// The words, all of owner 0.
const ADDED: RemoteWord = RemoteWord { owner: Owner(0), index: 3 };
const SWAPPED: RemoteWord = RemoteWord { owner: Owner(0), index: 4 };
/// How many ranks have ended.
const DONE: RemoteWord = RemoteWord { owner: Owner(0), index: 5 };

pub(crate) fn run(args: &ContentionArgs) -> Result<()> {
    let mut job = args.job.join(format!("{} {} {}", args.adds, args.swaps, args.depth))?;
    let mut engine = args.job.builder(64)?.depth(args.depth).open(&mut job)?;
    job.barrier()?;
    if args.against_cpu {
        return against_cpu(args, job, engine);
    }
    let addend = u64::from(job.me().0) + 1;
    add(&mut engine, args, addend)?;
    let tries = swap(&mut engine, args.swaps)?;
    job.barrier()?;

    let ranks = u64::from(job.owners());
    let expected = args.adds * ranks * (ranks + 1) / 2;
    engine.fetch_add(Token(0), ADDED, 0)?;
    let sum = finish(&mut engine)?;
    ensure(sum == expected, || format!("fetch-and-add: {sum} for {expected}"))?;
    engine.fetch_add(Token(0), SWAPPED, 0)?;
    let (count, expected) = (finish(&mut engine)?, args.swaps * ranks);
    ensure(count == expected, || format!("compare-and-swap: {count} for {expected}"))?;
    let tries: u64 = gather(&mut job, tries)?.iter().sum();
    if job.me() == Owner(0) {
        println!("sum {sum}, {count} of {tries} swaps succeeded, by {ranks} ranks: exact");
    }
    part(job, engine)
}

/// Rank 0 adds by its CPU, for as long as the others do so by the device.
fn against_cpu(args: &ContentionArgs, mut job: Job, mut engine: Engine) -> Result<()> {
    let others = u64::from(job.owners()) - 1;
    if job.me() != Owner(0) {
        add(&mut engine, args, 1)?;
        engine.fetch_add(Token(0), DONE, 1)?;
        finish(&mut engine)?;
    }
    let mut by_cpu = 0;
    if job.me() == Owner(0) {
        let mut patience = Patience::new("end of the others");
        let word = |at: RemoteWord| engine.window().get(usize::try_from(at.index).ok()?);
        let (Some(added), Some(done)) = (word(ADDED), word(DONE)) else {
            return Err(Failure("the window is too short".into()));
        };
        while done.load(Acquire) < others {
            patience.turn()?;
            added.fetch_add(1, Relaxed);
            by_cpu += 1;
        }
    }
    job.barrier()?;
    let expected = by_cpu + others * args.adds;
    let found = engine.window().get(usize::try_from(ADDED.index)?).map_or(0, |w| w.load(Acquire));
    let lost = expected.saturating_sub(found);
    if job.me() == Owner(0) {
        println!("{lost} of {expected} additions were lost, {by_cpu} of them the CPU's");
        ensure(lost > 0, || "none was lost: are these atomics the CPU's too?".into())?;
    }
    part(job, engine)
}

/// Adds `addend` so often, several in flight; the values that come back never fall.
fn add(engine: &mut Engine, args: &ContentionArgs, addend: u64) -> Result<()> {
    let (mut posted, mut ended) = (0, 0);
    let (mut last, mut patience) = (None, Patience::new("completion"));
    while ended < args.adds {
        while posted < args.adds && engine.in_flight() < args.depth {
            engine.fetch_add(Token(posted), ADDED, addend)?;
            posted += 1;
        }
        let mut ends = [Completion::default(); 16];
        let found = engine.poll(&mut ends)?;
        patience.turn()?;
        for end in ends.iter().take(found) {
            let value = end.result?;
            // One queue pair does its atomics in order (InfiniBand specification, 9.5).
            let in_order = args.against_cpu || Some(value) > last;
            ensure(in_order, || format!("{value} came back after {last:?}"))?;
            last = Some(value);
            ended += 1;
            patience.renew();
        }
    }
    Ok(())
}

/// Swaps the word for one more until it has succeeded so often; how often it has tried.
fn swap(engine: &mut Engine, swaps: u64) -> Result<u64> {
    let (mut expected, mut succeeded, mut tries) = (0, 0, 0);
    let mut patience = Patience::new("successful compare-and-swap");
    while succeeded < swaps {
        engine.compare_and_swap(Token(0), SWAPPED, expected, expected + 1)?;
        let found = finish(engine)?;
        tries += 1;
        if found == expected {
            succeeded += 1;
            expected += 1;
            patience.renew();
        } else {
            expected = found;
            patience.turn()?;
        }
    }
    Ok(tries)
}
