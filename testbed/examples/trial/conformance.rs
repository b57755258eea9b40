//! The conformance suite over verbs or UCX, with threads or processes as owners.

use anyhow::Result;
use clap::Args;
use probeline_transport::conformance::{Case, Failure, Report, Rig, Verdict, cases, on_threads};
use probeline_transport::{Exchange, Owner, Transport};
use probeline_ucx_shim::ucx::Progress;

use crate::job::{HANG_TIMEOUT, JobArgs};
use crate::ucx::{self, UcxArgs};

/// The skips over verbs. Soft-RoCE's atomics are not atomic with the CPU's,
/// and no specification says that a READ returns words whole.
const VERBS_SKIPS: &[&str] = &["words_are_whole_under_a_writer", "atomic_with_the_cpu"];

type CaseResult = core::result::Result<Verdict, Failure>;

#[derive(Args)]
pub(crate) struct ConformanceArgs {
    /// Run all owners as threads of this process, each with its own engine
    #[arg(long, conflicts_with = "ucx")]
    threads: bool,
    #[command(flatten)]
    ucx: UcxArgs,
    #[command(flatten)]
    job: JobArgs,
}

pub(crate) fn run(args: &ConformanceArgs) -> Result<()> {
    if args.threads { threads(args) } else { processes(args) }
}

fn threads(args: &ConformanceArgs) -> Result<()> {
    const OWNERS: u32 = 3;
    let mut report = Report::new(OWNERS);
    for case in cases(OWNERS) {
        let exchanges = probeline_exchange::threads(OWNERS);
        report
            .add(case, &on_threads(exchanges, |mut exchange| run_case(args, case, &mut exchange)));
    }
    Ok(report.judge(VERBS_SKIPS)?)
}

/// Runs all cases in one job, each case with its own engines.
fn processes(args: &ConformanceArgs) -> Result<()> {
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
fn run_case<E: Exchange>(args: &ConformanceArgs, case: &Case, exchange: &mut E) -> CaseResult {
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

fn run_on(engine: &mut dyn Transport, case: &Case, exchange: &mut dyn Exchange) -> CaseResult {
    case.run(&mut Rig::new(engine, exchange).patience(HANG_TIMEOUT))
}
