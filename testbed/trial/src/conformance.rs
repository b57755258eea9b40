//! The conformance suite, over verbs or UCX: among threads of this machine, or between processes.

use std::thread;

use clap::Args;
use probeline_exchange::Job;
use probeline_transport::conformance::{Case, Failure as NotHeld, Report, Rig, Verdict, cases};
use probeline_transport::{Exchange, Owner, Transport};
use probeline_ucx_shim::ucx::Progress;
use probeline_verbs::{Builder, Engine};

use crate::allocations;
use crate::failure::{Result, ensure};
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
    let mut report = Report::new();
    for case in cases() {
        let members = probeline_exchange::threads(case.shape.owners);
        let verdicts: Vec<_> = thread::scope(|scope| {
            let owners: Vec<_> = members
                .into_iter()
                .map(|mut member| scope.spawn(move || try_case(args, case, &mut member)))
                .collect();
            owners.into_iter().map(joined).collect()
        });
        report.add(case, &verdicts);
    }
    Ok(report.judge(SKIPS)?)
}

fn joined(
    owner: thread::ScopedJoinHandle<'_, core::result::Result<Verdict, NotHeld>>,
) -> core::result::Result<Verdict, NotHeld> {
    owner.join().unwrap_or_else(|_| Err(NotHeld("it panicked".into())))
}

/// One job for all cases of as many owners, each case with engines of its own.
fn processes(args: &ConformanceArgs) -> Result<()> {
    let owners = args.job.ranks;
    let mut job = args.job.join(format!("conformance {:?}", args.ucx))?;
    if args.ucx.is_chosen() {
        args.ucx.introduce(&mut job)?;
    }
    let mut report = Report::new();
    let cases: Vec<_> = cases().filter(|case| case.shape.owners == owners).collect();
    ensure(!cases.is_empty(), || format!("there is no case for {owners} owners"))?;
    for &case in &cases {
        let mine = try_case(args, case, &mut job);
        let verdicts = everybodys(mine, &mut job)?;
        if job.me() == Owner(0) {
            report.add(case, &verdicts);
        }
    }
    let me = job.me();
    for (rank, status) in job.finish(PATIENCE) {
        ensure(status.is_some_and(|status| status.success()), || format!("rank {rank} failed"))?;
    }
    if me != Owner(0) {
        return Ok(());
    }
    let names = cases.iter().map(|case| case.name);
    let skips: Vec<_> = names.filter(|name| args.skips().contains(name)).collect();
    println!("the list of skips: {skips:?}");
    Ok(report.judge(&skips)?)
}

fn try_case<E: Exchange>(
    args: &ConformanceArgs,
    case: &Case,
    exchange: &mut E,
) -> core::result::Result<Verdict, NotHeld> {
    if args.ucx.is_chosen() {
        let engine = args.ucx.open(case.shape, Progress::Thread, exchange);
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
    let mut rig = Rig::new(engine, exchange);
    rig.patience = PATIENCE;
    rig.allocations = Some(allocations::so_far);
    case.run(&mut rig)
}

fn open<E: Exchange>(
    args: &ConformanceArgs,
    case: &Case,
    exchange: &mut E,
) -> core::result::Result<Engine, NotHeld> {
    let shape = case.shape;
    let retry = args.job.retry().map_err(|failure| NotHeld(failure.0))?;
    Builder::new(shape.window_words)
        .slots(shape.slots, shape.slot_words)
        .depth(shape.depth)
        .retry(retry)
        .open(exchange)
        .map_err(unopened)
}

fn unopened(error: impl core::error::Error) -> NotHeld {
    NotHeld(format!("{error} ({error:?})"))
}

/// The verdicts of all owners; what went wrong elsewhere is on the other process's output.
fn everybodys(
    mine: core::result::Result<Verdict, NotHeld>,
    job: &mut Job,
) -> Result<Vec<core::result::Result<Verdict, NotHeld>>> {
    if let (Err(failure), true) = (&mine, job.me() != Owner(0)) {
        eprintln!("{}: {failure}", job.me());
    }
    let mut passed = vec![0; job.owners() as usize];
    job.all_gather(&[u8::from(mine.is_ok())], &mut passed)?;
    let me = job.me().0;
    let verdict = |(owner, passed): (u32, u8)| match passed {
        // A skip depends on the capabilities, which are the same for all.
        1 => mine.clone().or(Ok(Verdict::Passed)),
        _ if owner == me => mine.clone(),
        _ => Err(NotHeld("see what it printed itself".into())),
    };
    Ok((0..).zip(passed).map(verdict).collect())
}
