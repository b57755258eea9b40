//! Rank 0 adds to a word by its CPU while the other ranks add through the device, whose atomics are
//! not atomic with those of the CPU: additions are lost.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

use anyhow::{Context, Result, ensure};
use clap::Args;
use probeline_transport::{Exchange, Owner, RemoteWord, Sizes, Token, Transport};
use probeline_verbs::Engine;

use crate::job::{Deadline, JobArgs, close, complete};

#[derive(Args)]
pub(crate) struct ContentionArgs {
    /// Fetch-and-adds of each rank but the first
    #[arg(long, default_value_t = 50_000)]
    adds: u64,
    #[command(flatten)]
    job: JobArgs,
}

const ADDED: RemoteWord = RemoteWord { owner: Owner(0), index: 3 };
/// Counts the ranks that have finished adding.
const FINISHED: RemoteWord = RemoteWord { owner: Owner(0), index: 5 };

/// Fails unless additions are lost.
pub(crate) fn run(args: &ContentionArgs) -> Result<()> {
    let mut job = args.job.join(args.adds.to_string())?;
    let mut engine = args.job.builder(Sizes::new(64))?.open(&mut job)?;
    job.barrier()?;
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
        for at in core::iter::repeat_n(ADDED, usize::try_from(args.adds)?).chain([FINISHED]) {
            engine.fetch_add(Token(0), at, 1)?;
            complete(&mut engine)?;
        }
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
