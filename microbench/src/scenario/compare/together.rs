//! All columns in one job, for ranks of several machines: each rank has an engine of each column,
//! and sleeps in the exchange until rank 0 says whose turn it is.

use core::slice;
use core::time::Duration;

use probeline_pin::{Affinity, MemoryPolicy};
use probeline_transport::{Exchange, Owner};

use super::bench::Bench;
use super::column::ColumnName;
use super::crew::ability;
use super::director::take_turns;
use super::order::Ability;
use super::plan::{Step, steps};
use super::sample::Sample;
use super::standing::Standing;
use super::watchdog::Watchdog;
use super::{CompareArgs, device};
use crate::checkup::{Checkup, Machines};
use crate::failure::{Failure, Result};
use crate::job;
use crate::place::{Given, place};
use crate::progress::waiting;
use crate::scenario::gather;
use crate::timed::Timed;

/// What rank 0 says where there is nothing more to do.
const END: u64 = u64::MAX;
/// What is told of a failure to all ranks.
const REASON_BYTES: usize = 512;

/// An engine of any kind with its part in the steps.
trait Column {
    fn ability(&self) -> Ability;

    fn measure(
        &mut self,
        step: Step,
        round: u64,
        exchange: &mut dyn Exchange,
    ) -> Result<Option<Sample>>;
}

impl<T: Timed> Column for (Bench<'_, T>, &CompareArgs) {
    fn ability(&self) -> Ability {
        ability(self.1, self.0.engine())
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

/// An engine of a column, with a line about it.
type Opened<'a> = (Box<dyn Column + 'a>, String);

/// This rank's engines, those that have not failed.
struct Together<'a, 'e> {
    columns: Vec<Option<Box<dyn Column + 'a>>>,
    exchange: &'e mut dyn Exchange,
    watchdog: Watchdog,
    limit: Duration,
}

/// What rank 0 has in the end: the columns, and what the doctor says of each machine.
type Compared = (Vec<Standing>, Checkup);

/// Takes part in the job; what rank 0 has in the end.
pub(super) fn compare_together(args: &CompareArgs) -> Result<Option<Compared>> {
    // Before anything pins.
    let affinity = Affinity::take();
    let longest = args.step_timeout();
    if args.columns.iter().any(|column| column.is_mpi()) {
        return over_mpi(args, &affinity, longest);
    }
    let (mut job, farewell) = job::join(&args.job, Vec::new(), longest)?;
    let standings = compare_over(args, &affinity, &mut job, open)?;
    match &standings {
        Some((_, doctor)) if doctor.is_of_a_loss() => job::leave_behind(job),
        _ => job::leave(job, farewell)?,
    }
    Ok(standings)
}

/// The same where MPI is among the columns: then its ranks meet over MPI.
#[cfg(feature = "mpi")]
fn over_mpi(args: &CompareArgs, affinity: &Given, longest: Duration) -> Result<Option<Compared>> {
    let (_world, mut members) = crate::mpi_job::join(&args.job, Vec::new(), longest)?;
    let standings = compare_over(args, affinity, &mut members, open_among_members)?;
    members.barrier()?;
    Ok(standings)
}

#[cfg(not(feature = "mpi"))]
fn over_mpi(_: &CompareArgs, _: &Given, _: Duration) -> Result<Option<Compared>> {
    Err(Failure::new(
        "this build has no MPI: leave out its columns, or build with --features mpi and the mpicc \
         of the library whose launcher starts the ranks",
    ))
}

/// Opens the columns' engines, one after the other, and has them take turns.
fn compare_over<'a, E: Exchange>(
    args: &'a CompareArgs,
    affinity: &Given,
    exchange: &mut E,
    open: impl Fn(&'a CompareArgs, ColumnName, MemoryPolicy, &mut E) -> Result<Opened<'a>>,
) -> Result<Option<Compared>> {
    let machines = Machines::look(exchange, args.job.meeting.collective_limit())?;
    let mut said = Vec::new();
    let memory = place(&args.job.place, None, affinity, exchange, &mut said)?;
    let mut standings = args.standings();
    let mut columns = Vec::new();
    for standing in &mut standings {
        let (name, leads) = (standing.name, exchange.me() == Owner(0));
        let doing = format!("opening {}", name.name());
        let opened = waiting(&doing, leads, || open(args, name, memory, exchange));
        columns.push(agree(opened, &said, standing, exchange)?);
    }
    let leads = exchange.me() == Owner(0);
    let mut together =
        Together { columns, exchange, watchdog: Watchdog::start()?, limit: args.step_timeout() };
    match leads {
        true => together.lead(args, &mut standings)?,
        false => together.follow()?,
    }
    let doctor = machines.tell(device(&standings), together.exchange)?;
    Ok(leads.then_some((standings, doctor)))
}

/// An engine of a column, with a line about it.
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
                    "UCX goes otherwise than over {missing} ({line}): leave the column out"
                ))),
                None => Ok(boxed(args, (engine, line))),
            }
        }
        _ => Err(Failure::new(format!("{}: its ranks have to meet over MPI", column.name()))),
    }
}

/// The same among ranks that meet over MPI.
#[cfg(feature = "mpi")]
fn open_among_members<'a>(
    args: &'a CompareArgs,
    column: ColumnName,
    memory: MemoryPolicy,
    members: &mut probeline_ucx_shim::mpi::Members,
) -> Result<Opened<'a>> {
    let single = match column {
        ColumnName::OscUcx => Some(false),
        ColumnName::OscUcxIntrinsic => Some(true),
        _ if column.is_mpi() => None,
        _ => return open(args, column, memory, members),
    };
    let (engine, line) = crate::mpi_job::open(single, args.shape(), members)?;
    match column.lacks(slice::from_ref(&line)) {
        Some(missing) => Err(Failure::new(format!(
            "the launcher chose otherwise than {missing} ({line}): leave the column out, or give \
             the launcher the parameters for it, as in --mca osc ucx"
        ))),
        None => Ok(boxed(args, (engine, line))),
    }
}

fn boxed<'a, T: Timed + 'a>(args: &'a CompareArgs, (engine, line): (T, String)) -> Opened<'a> {
    (Box::new((Bench::new(args, engine), args)), line)
}

/// Keeps an engine that all ranks have opened; notes why it is not to be had otherwise.
fn agree<'a>(
    opened: Result<Opened<'a>>,
    said: &[String],
    standing: &mut Standing,
    exchange: &mut dyn Exchange,
) -> Result<Option<Box<dyn Column + 'a>>> {
    let reason = opened.as_ref().err().map(ToString::to_string);
    if let Some(reason) = first_reason(reason, exchange)? {
        standing.reason = Some(reason);
        return Ok(None);
    }
    let (column, line) = opened?;
    standing.ability = Some(column.ability());
    standing.about = said.iter().cloned().chain([line]).collect();
    Ok(Some(column))
}

/// Why a rank has failed, the first of those that have.
fn first_reason(mine: Option<String>, exchange: &mut dyn Exchange) -> Result<Option<String>> {
    let mut text = [0_u8; REASON_BYTES];
    let reason = mine.unwrap_or_default();
    let length = reason.len().min(REASON_BYTES);
    text[..length].copy_from_slice(&reason.as_bytes()[..length]);
    let mut all = vec![0; REASON_BYTES * exchange.owners() as usize];
    exchange.all_gather(&text, &mut all)?;
    let failed = (0..).zip(all.chunks_exact(REASON_BYTES)).find(|(_, text)| text[0] != 0);
    Ok(failed.map(|(rank, text)| {
        let text = String::from_utf8_lossy(text);
        format!("rank {rank}: {}", text.trim_end_matches('\0'))
    }))
}

impl Together<'_, '_> {
    /// Rank 0's part: says whose turn it is.
    fn lead(&mut self, args: &CompareArgs, standings: &mut [Standing]) -> Result<()> {
        let steps = steps();
        let mut lost = None;
        take_turns(args, standings, |column, step, round| {
            if let Some(reason) = &lost {
                return Err(format!("the job is over: {reason}"));
            }
            let told = gather(self.exchange, [column as u64, step as u64, round]);
            let measured = told
                .map_err(Failure::from)
                .and_then(|_| self.turn(column, steps.get(step).copied(), round));
            match measured {
                Ok(Ok(sample)) => sample.ok_or_else(|| "rank 0 has measured nothing".to_owned()),
                Ok(Err(reason)) => Err(reason),
                Err(failure) => {
                    lost = Some(failure.to_string());
                    Err(failure.to_string())
                }
            }
        });
        match lost {
            // What was measured until then is reported; the others know.
            Some(_) => Ok(()),
            None => Ok(gather(self.exchange, [END, 0, 0]).map(drop)?),
        }
    }

    /// The other ranks' part.
    fn follow(&mut self) -> Result<()> {
        let steps = steps();
        loop {
            let told = gather(self.exchange, [0, 0, 0])?;
            let Some([column, step, round]) = told.first().copied() else { return Ok(()) };
            if column == END {
                return Ok(());
            }
            let [column, step] = [column, step].map(|at| usize::try_from(at).unwrap_or(usize::MAX));
            // Why a column has failed is told by rank 0.
            let _ = self.turn(column, steps.get(step).copied(), round)?;
        }
    }

    /// All ranks' part in a step of a column, which is dropped where it fails.
    fn turn(
        &mut self,
        at: usize,
        step: Option<Step>,
        round: u64,
    ) -> Result<core::result::Result<Option<Sample>, String>> {
        let missing = || Failure::new("this rank does not know of it: use one version everywhere");
        let place = self.columns.get_mut(at).ok_or_else(missing)?;
        let (column, step) = place.as_mut().zip(step).ok_or_else(missing)?;
        let guard = self.watchdog.guard(self.limit);
        let measured = column.measure(step, round, self.exchange);
        drop(guard);
        let reason = measured.as_ref().err().map(ToString::to_string);
        match first_reason(reason, self.exchange)? {
            None => Ok(Ok(measured?)),
            Some(reason) => {
                *place = None;
                Ok(Err(reason))
            }
        }
    }
}
