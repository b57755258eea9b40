//! All columns in one job, whose ranks may be on several machines: each rank has an engine of each
//! column, and waits in the exchange until rank 0 announces the next step.

use core::slice;
use core::time::Duration;
use std::process;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;

use probeline::pin::{Affinity, MemoryPolicy};
use probeline::transport::{Exchange, Owner};

use super::bench::Bench;
use super::column::ColumnName;
use super::measured::{Column, Sample};
use super::step::{Step, steps};
use super::worker::Capabilities;
use super::{CompareArgs, device, take_turns};
use crate::checkup::{Checkup, Machines};
use crate::failure::{Failure, Result};
use crate::place::{Given, place};
use crate::progress::waiting;
use crate::scenario::gather;
use crate::timed::Timed;
use crate::{exit, job, terminal};

/// The column by which rank 0 announces the end.
const FINISH: u64 = u64::MAX;
/// Length of the errors that ranks exchange.
const ERROR_BYTES: usize = 512;

/// A [`Bench`] on an engine of any kind.
trait AnyBench {
    fn capabilities(&self) -> Capabilities;

    fn measure(
        &mut self,
        step: Step,
        round: u64,
        exchange: &mut dyn Exchange,
    ) -> Result<Option<Sample>>;
}

impl<T: Timed> AnyBench for (Bench<'_, T>, &CompareArgs) {
    fn capabilities(&self) -> Capabilities {
        Capabilities::of(self.1, self.0.engine())
    }

    fn measure(
        &mut self,
        step: Step,
        round: u64,
        exchange: &mut dyn Exchange,
    ) -> Result<Option<Sample>> {
        Bench::measure(&mut self.0, step, round, exchange)
    }
}

/// The bench of a column, and a line about its transport.
type Opened<'a> = (Box<dyn AnyBench + 'a>, String);

/// The columns, and the doctor's findings on each machine.
type Compared = (Vec<Column>, Checkup);

/// Takes part in the job; rank 0 gets the result.
pub(super) fn compare_in_one_job(args: &CompareArgs) -> Result<Option<Compared>> {
    // Before any thread is pinned.
    let affinity = Affinity::take();
    let longest = args.step_timeout();
    if args.columns.iter().any(|column| column.is_mpi()) {
        return over_mpi(args, &affinity, longest);
    }
    let (mut job, farewell) = job::join(&args.job, Vec::new(), longest)?;
    let compared = compare_over(args, &affinity, &mut job, open)?;
    match &compared {
        Some((_, doctor)) if doctor.lost_a_rank() => job::leave_behind(job),
        _ => job::leave(job, farewell)?,
    }
    Ok(compared)
}

/// Takes part in a job with columns of MPI, whose ranks meet over MPI.
#[cfg(feature = "mpi")]
fn over_mpi(args: &CompareArgs, affinity: &Given, longest: Duration) -> Result<Option<Compared>> {
    let (_world, mut members) = crate::mpi_job::join(&args.job, Vec::new(), longest)?;
    let compared = compare_over(args, affinity, &mut members, open_among_members)?;
    members.barrier()?;
    Ok(compared)
}

#[cfg(not(feature = "mpi"))]
fn over_mpi(_: &CompareArgs, _: &Given, _: Duration) -> Result<Option<Compared>> {
    Err(Failure::new(
        "this build has no MPI: leave out its columns, or build with --features mpi and the mpicc \
         of the library whose launcher starts the ranks",
    ))
}

/// Opens the columns' engines, one after the other, and measures all steps.
fn compare_over<'a, E: Exchange>(
    args: &'a CompareArgs,
    affinity: &Given,
    exchange: &mut E,
    open: impl Fn(&'a CompareArgs, ColumnName, MemoryPolicy, &mut E) -> Result<Opened<'a>>,
) -> Result<Option<Compared>> {
    let machines = Machines::look(exchange, args.job.meeting.collective_limit())?;
    let is_rank_0 = exchange.me() == Owner(0);
    let mut placement = Vec::new();
    let memory = place(&args.job.place, None, affinity, exchange, &mut placement)?;
    let mut columns = args.columns();
    let mut benches = Vec::new();
    for column in &mut columns {
        let doing = format!("opening {}", column.name.name());
        let opened = waiting(&doing, is_rank_0, || open(args, column.name, memory, exchange));
        benches.push(agree(opened, &placement, column, exchange)?);
    }
    let (watchdog, limit) = (Watchdog::start()?, args.step_timeout());
    let mut ranks = Ranks { benches, exchange, watchdog, limit };
    match is_rank_0 {
        true => ranks.lead(args, &mut columns)?,
        false => ranks.follow()?,
    }
    let doctor = machines.tell(device(&columns), ranks.exchange)?;
    Ok(is_rank_0.then_some((columns, doctor)))
}

/// Opens the engine of a column.
fn open<'a, E: Exchange>(
    args: &'a CompareArgs,
    column: ColumnName,
    memory: MemoryPolicy,
    exchange: &mut E,
) -> Result<Opened<'a>> {
    let shape = args.shape();
    match column {
        ColumnName::Shm => Ok(boxed(args, job::open_shm(shape, memory, exchange)?)),
        ColumnName::Verbs => {
            Ok(boxed(args, job::open_verbs(&args.job.verbs, shape, memory, exchange)?))
        }
        ColumnName::UcxShm | ColumnName::UcxTcp | ColumnName::UcxRc => {
            let tls = column.options().last().copied();
            let (engine, line) = job::open_ucx(&args.job.ucx, tls, shape, exchange)?;
            match column.lacks(slice::from_ref(&line)) {
                Some(missing) => Err(Failure::new(format!(
                    "UCX does not use {missing} ({line}): leave the column out"
                ))),
                None => Ok(boxed(args, (engine, line))),
            }
        }
        _ => Err(Failure::new(format!("{}: its ranks must meet over MPI", column.name()))),
    }
}

/// Opens the engine of a column among ranks that meet over MPI.
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
    let (engine, line) = crate::engines::open_mpi(single, args.shape(), members)?;
    match column.lacks(slice::from_ref(&line)) {
        Some(missing) => Err(Failure::new(format!(
            "the launcher did not choose {missing} ({line}): leave the column out, or give the \
             launcher the parameters for it, such as --mca osc ucx"
        ))),
        None => Ok(boxed(args, (engine, line))),
    }
}

fn boxed<'a, T: Timed + 'a>(args: &'a CompareArgs, (engine, line): (T, String)) -> Opened<'a> {
    (Box::new((Bench::new(args, engine), args)), line)
}

/// Keeps a bench if all ranks have opened theirs; otherwise records the error in the column.
fn agree<'a>(
    opened: Result<Opened<'a>>,
    placement: &[String],
    column: &mut Column,
    exchange: &mut dyn Exchange,
) -> Result<Option<Box<dyn AnyBench + 'a>>> {
    let error = opened.as_ref().err().map(ToString::to_string);
    if let Some(error) = first_error(error, exchange)? {
        column.error = Some(error);
        return Ok(None);
    }
    let (bench, line) = opened?;
    column.capabilities = Some(bench.capabilities());
    column.transport = placement.iter().cloned().chain([line]).collect();
    Ok(Some(bench))
}

/// Returns the error of the first rank that has failed, the same on all ranks.
fn first_error(mine: Option<String>, exchange: &mut dyn Exchange) -> Result<Option<String>> {
    let mut text = [0_u8; ERROR_BYTES];
    let error = mine.unwrap_or_default();
    let length = error.len().min(ERROR_BYTES);
    text[..length].copy_from_slice(&error.as_bytes()[..length]);
    let mut all = vec![0; ERROR_BYTES * exchange.owners() as usize];
    exchange.all_gather(&text, &mut all)?;
    let failed = (0..).zip(all.chunks_exact(ERROR_BYTES)).find(|(_, text)| text[0] != 0);
    Ok(failed.map(|(rank, text)| {
        let text = String::from_utf8_lossy(text);
        format!("rank {rank}: {}", text.trim_end_matches('\0'))
    }))
}

/// The state with which a rank takes part in the steps.
struct Ranks<'a, 'e> {
    /// The bench of each column; `None` for a column that has failed.
    benches: Vec<Option<Box<dyn AnyBench + 'a>>>,
    exchange: &'e mut dyn Exchange,
    watchdog: Watchdog,
    /// The longest time of a step.
    limit: Duration,
}

impl Ranks<'_, '_> {
    /// Announces each step and takes part in it, on rank 0.
    fn lead(&mut self, args: &CompareArgs, columns: &mut [Column]) -> Result<()> {
        let steps = steps();
        let mut job_error = None;
        take_turns(args, columns, |column, step, round| {
            if let Some(error) = &job_error {
                return Err(format!("the job has failed: {error}"));
            }
            let announced = gather(self.exchange, [column as u64, step as u64, round]);
            let measured = announced
                .map_err(Failure::from)
                .and_then(|_| self.measure(column, steps.get(step).copied(), round));
            match measured {
                Ok(Ok(sample)) => sample.ok_or_else(|| "rank 0 has no sample: a bug".to_owned()),
                Ok(Err(error)) => Err(error),
                Err(failure) => {
                    job_error = Some(failure.to_string());
                    Err(failure.to_string())
                }
            }
        });
        match job_error {
            // The other ranks have failed too; what was measured before is reported.
            Some(_) => Ok(()),
            None => Ok(gather(self.exchange, [FINISH, 0, 0]).map(drop)?),
        }
    }

    /// Takes part in each step that rank 0 announces, on the other ranks.
    fn follow(&mut self) -> Result<()> {
        let steps = steps();
        loop {
            let announced = gather(self.exchange, [0, 0, 0])?;
            let Some([column, step, round]) = announced.first().copied() else { return Ok(()) };
            if column == FINISH {
                return Ok(());
            }
            let [column, step] = [column, step].map(|at| usize::try_from(at).unwrap_or(usize::MAX));
            // Rank 0 reports the error of a column.
            let _ = self.measure(column, steps.get(step).copied(), round)?;
        }
    }

    /// Takes part in a step of a column. A column that fails on one rank is dropped on all; its
    /// error is the inner one.
    fn measure(
        &mut self,
        column: usize,
        step: Option<Step>,
        round: u64,
    ) -> Result<core::result::Result<Option<Sample>, String>> {
        let unknown =
            || Failure::new("a column or step is unknown: use one version of probeline everywhere");
        let slot = self.benches.get_mut(column).ok_or_else(unknown)?;
        let (bench, step) = slot.as_mut().zip(step).ok_or_else(unknown)?;
        let guard = self.watchdog.guard(self.limit);
        let measured = bench.measure(step, round, self.exchange);
        drop(guard);
        let error = measured.as_ref().err().map(ToString::to_string);
        match first_error(error, self.exchange)? {
            None => Ok(Ok(measured?)),
            Some(error) => {
                *slot = None;
                Ok(Err(error))
            }
        }
    }
}

/// Added to the time that the engines allow themselves, so that they can report what was late.
const GRACE: Duration = Duration::from_secs(10);

/// A thread that ends this process if a library does not return: no other process of the job can.
struct Watchdog(Sender<Option<Duration>>);

/// Must be dropped in time.
struct Guard<'a>(&'a Watchdog);

impl Watchdog {
    fn start() -> Result<Self> {
        let (sender, limits) = channel();
        thread::Builder::new().name("watchdog".to_owned()).spawn(move || watch(&limits))?;
        Ok(Self(sender))
    }

    /// Ends the process unless the guard is dropped within `limit` and [`GRACE`].
    fn guard(&self, limit: Duration) -> Guard<'_> {
        // The thread receives as long as this lives.
        let _ = self.0.send(Some(limit + GRACE));
        Guard(self)
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let _ = self.0.0.send(None);
    }
}

fn watch(limits: &Receiver<Option<Duration>>) {
    let mut limit = None;
    loop {
        let next = match limit {
            None => limits.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(limit) => limits.recv_timeout(limit),
        };
        match next {
            Ok(next) => limit = next,
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => break,
        }
    }
    let text = "probeline: a library call has not returned within --step-timeout: leave out the \
                column that was measured, or raise --step-timeout";
    let _ = terminal::stderr().line(text);
    process::exit(exit::FAILED.into());
}
