//! The conformance suite over verbs or UCX, with processes as owners; and the reason for
//! a skip over verbs.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

use anyhow::{Context, Result, ensure};
use clap::Args;
use probeline_exchange::Job;
use probeline_transport::conformance::{Case, Failure, Report, Rig, Verdict, cases};
use probeline_transport::{Exchange, Owner, RemoteWord, Sizes, Token, Transport};
use probeline_ucx_shim::ucx::Progress;
use probeline_verbs::Engine;

use crate::job::{Deadline, HANG_TIMEOUT, JobArgs, close, complete};
use crate::ucx::{self, UcxArgs};

/// The skips over verbs. Soft-RoCE's atomics are not atomic with the CPU's,
/// and no specification says that a READ returns words whole.
const VERBS_SKIPS: &[&str] = &["words_are_whole_under_a_writer", "atomic_with_the_cpu"];

type CaseResult = core::result::Result<Verdict, Failure>;

#[derive(Args)]
pub(crate) struct ConformanceArgs {
    #[command(flatten)]
    ucx: UcxArgs,
    #[command(flatten)]
    job: JobArgs,
}

/// Runs all cases in one job, each case with its own engines.
pub(crate) fn run(args: &ConformanceArgs) -> Result<()> {
    let mut job = args.job.join(format!("conformance {:?}", args.ucx))?;
    if args.ucx.is_chosen() {
        args.ucx.print_route(&mut job)?;
    }
    let mut report = Report::new(args.job.ranks);
    for case in cases(args.job.ranks) {
        let own = run_case(args, case, &mut job);
        report.gather(case, own, &mut job)?;
    }
    let me = job.me();
    job.finish(HANG_TIMEOUT)?;
    if me != Owner(0) {
        return Ok(());
    }
    let skips = if args.ucx.is_chosen() { ucx::SKIPS } else { VERBS_SKIPS };
    println!("expected skips: {skips:?}");
    Ok(report.judge(skips)?)
}

/// Opens an engine for the case and runs it.
fn run_case(args: &ConformanceArgs, case: &Case, exchange: &mut Job) -> CaseResult {
    let sizes = case.sizes;
    if args.ucx.is_chosen() {
        let mut engine = args.ucx.open(sizes, Progress::Thread, exchange).map_err(not_opened)?;
        return run_on(&mut engine, case, exchange);
    }
    let builder = args.job.builder(sizes).map_err(|error| Failure(error.to_string()))?;
    let mut engine = builder.open(exchange).map_err(not_opened)?;
    run_on(&mut engine, case, exchange)
}

fn not_opened(error: impl core::error::Error) -> Failure {
    Failure(format!("{error} ({error:?})"))
}

fn run_on(engine: &mut dyn Transport, case: &Case, exchange: &mut Job) -> CaseResult {
    case.run(&mut Rig::new(engine, exchange).patience(HANG_TIMEOUT))
}

#[derive(Args)]
pub(crate) struct ContentionArgs {
    /// Fetch-and-adds of each rank but the first
    #[arg(long, default_value_t = 50_000)]
    adds: u64,
    #[command(flatten)]
    job: JobArgs,
}

/// The word to which all ranks add.
const ADDED: RemoteWord = RemoteWord { owner: Owner(0), index: 3 };
/// Counts the ranks that have finished adding.
const FINISHED: RemoteWord = RemoteWord { owner: Owner(0), index: 5 };

/// Rank 0 adds to a word by its CPU while the other ranks add through the device, whose atomics are
/// not atomic with those of the CPU. Fails unless additions are lost.
pub(crate) fn run_contention(args: &ContentionArgs) -> Result<()> {
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
