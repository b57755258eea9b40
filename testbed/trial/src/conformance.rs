//! The conformance suite, over verbs or UCX: among threads of this machine, or between processes.

use clap::Args;
use probeline_transport::conformance::{
    Case, Failure as NotHeld, Report, Rig, Verdict, cases, on_threads,
};
use probeline_transport::{Exchange, Owner, Transport};
use probeline_ucx_shim::ucx::Progress;
use probeline_verbs::{Builder, Engine};

use crate::failure::Result;
use crate::job::JobArgs;
use crate::patience::PATIENCE;
use crate::ucx::UcxArgs;

/// Over verbs, in the suite's order. Soft-RoCE's atomics are not atomic with the CPU's, and no READ
/// is promised to bring words whole.
const SKIPS: &[&str] = &["words_are_whole_under_a_writer", "atomic_with_the_cpu"];

#[derive(Args)]
pub(crate) struct ConformanceArgs {
    /// Owners are threads of this process, each with an engine of its own
    #[arg(long, conflicts_with = "ucx")]
    threads: bool,
    #[command(flatten)]
    ucx: UcxArgs,
    #[command(flatten)]
    job: JobArgs,
}

impl ConformanceArgs {
    /// The cases that this transport cannot be held to, in the suite's order.
    fn skips(&self) -> &'static [&'static str] {
        if self.ucx.is_chosen() { self.ucx.skips() } else { SKIPS }
    }
}

pub(crate) fn run(args: &ConformanceArgs) -> Result<()> {
    if args.threads { threads(args) } else { processes(args) }
}

fn threads(args: &ConformanceArgs) -> Result<()> {
    const OWNERS: u32 = 3;
    let mut report = Report::new(OWNERS);
    for case in cases(OWNERS) {
        let members = probeline_exchange::threads(OWNERS);
        report.add(case, &on_threads(members, |mut member| try_case(args, case, &mut member)));
    }
    Ok(report.judge(SKIPS)?)
}

/// One job for all cases of as many owners, each case with engines of its own.
fn processes(args: &ConformanceArgs) -> Result<()> {
    let owners = args.job.ranks;
    let mut job = args.job.join(format!("conformance {:?}", args.ucx))?;
    if args.ucx.is_chosen() {
        args.ucx.introduce(&mut job)?;
    }
    let mut report = Report::new(owners);
    for case in cases(owners) {
        let own = try_case(args, case, &mut job);
        report.gather(case, own, &mut job)?;
    }
    let me = job.me();
    job.finish(PATIENCE)?;
    if me != Owner(0) {
        return Ok(());
    }
    println!("expected skips: {:?}", args.skips());
    Ok(report.judge(args.skips())?)
}

fn try_case<E: Exchange>(
    args: &ConformanceArgs,
    case: &Case,
    exchange: &mut E,
) -> core::result::Result<Verdict, NotHeld> {
    if args.ucx.is_chosen() {
        let engine = args.ucx.open(case.sizes, Progress::Thread, exchange);
        let mut engine = engine.map_err(unopened)?;
        return try_engine(case, &mut engine, exchange);
    }
    let mut engine = open(args, case, exchange)?;
    try_engine(case, &mut engine, exchange)
}

fn try_engine<E: Exchange>(
    case: &Case,
    engine: &mut dyn Transport,
    exchange: &mut E,
) -> core::result::Result<Verdict, NotHeld> {
    case.run(&mut Rig::new(engine, exchange).patience(PATIENCE))
}

fn open<E: Exchange>(
    args: &ConformanceArgs,
    case: &Case,
    exchange: &mut E,
) -> core::result::Result<Engine, NotHeld> {
    let sizes = case.sizes;
    let retry = args.job.retry().map_err(|failure| NotHeld(failure.0))?;
    Builder::new(sizes.window_words)
        .slots(sizes.slots, sizes.slot_words)
        .depth(sizes.depth)
        .retry(retry)
        .open(exchange)
        .map_err(unopened)
}

fn unopened(error: impl core::error::Error) -> NotHeld {
    NotHeld(format!("{error} ({error:?})"))
}
