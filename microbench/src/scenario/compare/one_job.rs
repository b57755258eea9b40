//! All columns in one job, whose ranks may be on several machines: each rank has an engine of each
//! column, and waits in the exchange until rank 0 announces the next step.

use core::slice;
use core::time::Duration;
use std::process;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;

use probeline::pin::{Affinity, MemoryPolicy};
use probeline::transport::{Exchange, Owner};
use probeline_results::gather_values;

use super::bench::Bench;
use super::column::ColumnName;
use super::measured::{Capabilities, Column, Sample};
use super::step::{Step, steps};
use super::worker::Turn;
use super::{CompareArgs, device, take_turns};
use crate::failure::{FAILED, Failure, Result};
use crate::findings::{Findings, Machines};
use crate::pinning::{InitialAffinity, pin_rank};
use crate::progress::waiting;
use crate::scenario::of_rank_0;
use crate::timed::Timed;
use crate::{engines, job, terminal};

type Measure<'a> = Box<dyn FnMut(Step, u64, &mut dyn Exchange) -> Result<Option<Sample>> + 'a>;

struct Opened<'a> {
    measure: Measure<'a>,
    capabilities: Capabilities,
    line: String,
}

/// The sample on rank 0, or why the column has failed on one rank.
type Measured = core::result::Result<Option<Sample>, String>;

type Compared = (Vec<Column>, Findings);

/// Takes part in the job; rank 0 gets the result.
pub(super) fn compare_in_one_job(args: &CompareArgs) -> Result<Option<Compared>> {
    // Before any thread is pinned.
    let affinity = Affinity::take();
    let longest = args.step_timeout();
    if args.columns.iter().any(|column| column.is_mpi()) {
        return over_mpi(args, &affinity, longest);
    }
    let (mut job, farewell) = job::join(&args.job, Vec::new(), longest)?;
    let leads = job.me() == Owner(0);
    let compared = compare_over(args, &affinity, &mut job, open)?;
    job::leave(job, farewell, &compared.1)?;
    Ok(leads.then_some(compared))
}

#[cfg(feature = "mpi")]
fn over_mpi(
    args: &CompareArgs,
    affinity: &InitialAffinity,
    longest: Duration,
) -> Result<Option<Compared>> {
    let (_world, mut members) = crate::mpi_job::join(&args.job, Vec::new(), longest)?;
    let compared = compare_over(args, affinity, &mut members, open_among_members)?;
    members.barrier()?;
    Ok((members.me() == Owner(0)).then_some(compared))
}

#[cfg(not(feature = "mpi"))]
fn over_mpi(_: &CompareArgs, _: &InitialAffinity, _: Duration) -> Result<Option<Compared>> {
    Err(Failure::new(
        "this build has no MPI: leave out its columns, or build with --features mpi and the mpicc \
         of the library whose launcher starts the ranks",
    ))
}

fn compare_over<'a, E: Exchange>(
    args: &'a CompareArgs,
    affinity: &InitialAffinity,
    exchange: &mut E,
    open: impl Fn(&'a CompareArgs, ColumnName, MemoryPolicy, &mut E) -> Result<Opened<'a>>,
) -> Result<Compared> {
    let machines = Machines::examine(exchange, args.job.meeting.collective_limit())?;
    let is_rank_0 = exchange.me() == Owner(0);
    let mut placement = Vec::new();
    let memory = pin_rank(&args.job.place, None, affinity, exchange, &mut placement)?;
    let mut columns = args.columns();
    let mut benches = Vec::new();
    for column in &mut columns {
        let doing = format!("opening {}", column.name.name());
        let opened = waiting(&doing, is_rank_0, || open(args, column.name, memory, exchange));
        let error = first_error(&opened, exchange)?;
        benches.push(opened.ok().filter(|_| error.is_none()).map(|opened| {
            column.capabilities = Some(opened.capabilities);
            column.transport = placement.iter().cloned().chain([opened.line]).collect();
            opened.measure
        }));
        column.error = error;
    }
    let mut ranks = Ranks { benches, steps: steps(), exchange, limit: args.step_timeout() };
    if is_rank_0 {
        ranks.lead(args, &mut columns)?;
    } else {
        while ranks.turn(None)?.is_some() {}
    }
    let doctor = machines.tell(device(&columns), ranks.exchange)?;
    Ok((columns, doctor))
}

fn open<'a, E: Exchange>(
    args: &'a CompareArgs,
    column: ColumnName,
    memory: MemoryPolicy,
    exchange: &mut E,
) -> Result<Opened<'a>> {
    let sizes = args.sizes();
    match column {
        ColumnName::Shm => Ok(Opened::new(args, engines::open_shm(sizes, memory, exchange)?)),
        ColumnName::Verbs => {
            Ok(Opened::new(args, engines::open_verbs(&args.job.verbs, sizes, memory, exchange)?))
        }
        ColumnName::UcxShm | ColumnName::UcxTcp | ColumnName::UcxRc => {
            let tls = column.option("ucx-tls");
            let (engine, line) = engines::open_ucx(&args.job.ucx, tls, sizes, exchange)?;
            check(column, &line, "UCX does not use", "")?;
            Ok(Opened::new(args, (engine, line)))
        }
        _ => Err(Failure::new(format!("{}: its ranks must meet over MPI", column.name()))),
    }
}

#[cfg(feature = "mpi")]
fn open_among_members<'a>(
    args: &'a CompareArgs,
    column: ColumnName,
    memory: MemoryPolicy,
    members: &mut probeline::mpi::Members,
) -> Result<Opened<'a>> {
    let single = match column {
        ColumnName::OscUcx => Some(false),
        ColumnName::OscUcxIntrinsic => Some(true),
        _ if column.is_mpi() => None,
        _ => return open(args, column, memory, members),
    };
    let (engine, line) = engines::open_mpi(single, args.sizes(), members)?;
    let advice = ", or give the launcher the parameters for it, such as --mca osc ucx";
    check(column, &line, "the launcher did not choose", advice)?;
    Ok(Opened::new(args, (engine, line)))
}

/// Fails unless the line about a column's engine is as required.
fn check(column: ColumnName, line: &String, cause: &str, advice: &str) -> Result<()> {
    match column.lacks(slice::from_ref(line)) {
        Some(missing) => {
            Err(Failure::new(format!("{cause} {missing} ({line}): leave the column out{advice}")))
        }
        None => Ok(()),
    }
}

impl<'a> Opened<'a> {
    fn new<T: Timed + 'a>(args: &'a CompareArgs, (engine, line): (T, String)) -> Self {
        let mut bench = Bench::new(args, engine);
        let capabilities = bench.capabilities();
        let measure =
            move |step, round, exchange: &mut dyn Exchange| bench.measure(step, round, exchange);
        Self { measure: Box::new(measure), capabilities, line }
    }
}

/// Returns the error of the first rank that has failed, the same on all ranks.
fn first_error<R>(mine: &Result<R>, exchange: &mut dyn Exchange) -> Result<Option<String>> {
    let error = mine.as_ref().err().map(ToString::to_string);
    let all = (0..).zip(gather_values(exchange, &error)?);
    Ok(all.into_iter().find_map(|(rank, error): (u32, _)| Some(format!("rank {rank}: {}", error?))))
}

struct Ranks<'a, 'e> {
    /// By column; `None` for a column that has failed.
    benches: Vec<Option<Measure<'a>>>,
    steps: Vec<Step>,
    exchange: &'e mut dyn Exchange,
    limit: Duration,
}

impl Ranks<'_, '_> {
    fn lead(&mut self, args: &CompareArgs, columns: &mut [Column]) -> Result<()> {
        let mut job_error = None;
        take_turns(args, columns, |turn| {
            if let Some(error) = &job_error {
                return Err(format!("the job has failed: {error}"));
            }
            let measured = self.turn(Some(turn)).map_err(|failure| failure.to_string());
            job_error = measured.as_ref().err().cloned();
            let sample = measured?.unwrap_or(Ok(None))?;
            sample.ok_or_else(|| "rank 0 has no sample: a bug".to_owned())
        });
        match job_error {
            // The other ranks have failed too; what was measured before is reported.
            Some(_) => Ok(()),
            None => self.turn(None).map(drop),
        }
    }

    /// Takes part in the turn that rank 0 announces (`mine` of rank 0), or returns `None` at the
    /// end. A column that fails on one rank is dropped on all.
    fn turn(&mut self, mine: Option<Turn>) -> Result<Option<Measured>> {
        let Some((column, step, round)) = of_rank_0(self.exchange, &mine)? else { return Ok(None) };
        let unknown =
            || Failure::new("a column or step is unknown: use one version of probeline everywhere");
        let slot = self.benches.get_mut(column).ok_or_else(unknown)?;
        let (measure, step) = slot.as_mut().zip(self.steps.get(step)).ok_or_else(unknown)?;
        let measured = within(self.limit + GRACE, || measure(*step, round, self.exchange));
        Ok(Some(match first_error(&measured, self.exchange)? {
            None => Ok(measured?),
            Some(error) => {
                *slot = None;
                Err(error)
            }
        }))
    }
}

/// Added to the time that the engines allow themselves, so that they can report what was late.
const GRACE: Duration = Duration::from_secs(10);

/// Executes `work`. Ends this process if a library does not return within `limit`: no other process
/// of the job can.
fn within<R>(limit: Duration, work: impl FnOnce() -> R) -> R {
    let (returned, waits) = channel::<()>();
    let watch = move || {
        if waits.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            let text = "probeline: a library call has not returned within --step-timeout: leave \
                        out the column that was measured, or raise --step-timeout";
            // Ignores an error: the process ends in any case.
            let _ = terminal::stderr().line(text);
            process::exit(FAILED.into());
        }
    };
    thread::scope(|scope| {
        let watchdog = thread::Builder::new().name("watchdog".to_owned());
        if let Err(error) = watchdog.spawn_scoped(scope, watch) {
            // Ignores an error of the terminal: the measurement is more important.
            let _ = terminal::stderr()
                .line(&format!("note: --step-timeout has no effect, no thread starts: {error}"));
        }
        let result = work();
        drop(returned);
        result
    })
}
