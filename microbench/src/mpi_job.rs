//! A job whose ranks MPI's launcher has started, and which meet over MPI.

use core::time::Duration;

use probeline_pin::Affinity;
use probeline_transport::{Exchange, Owner};
use probeline_ucx_shim::mpi::{Builder, Engine, Members, World, library_version};

use crate::agreement::{Agreement, Input};
use crate::checkup::Machines;
use crate::cli::JobArgs;
use crate::failure::{Failure, Result};
use crate::job::{Ended, Scenario, Shape};
use crate::place::place;

/// Runs a scenario on them; `None` on every rank but 0.
pub(crate) fn run<S: Scenario>(args: &JobArgs, scenario: &S) -> Result<Option<Ended<S::Output>>> {
    // Before anything pins, MPI's own threads too.
    let affinity = Affinity::take();
    let (world, mut members) = join(args, scenario.inputs(), scenario.longest_alone())?;
    let machines = Machines::look(&mut members, args.meeting.collective_limit())?;
    let mut transport = Vec::new();
    place(&args.place, None, &affinity, &mut members, &mut transport)?;
    let (mut engine, line) = open(None, scenario.shape(), &mut members)?;
    transport.push(line);
    let output = scenario.run(&mut engine, &mut members).unwrap_or_else(|failure| {
        // The others may wait for this rank in a collective call, and would for its whole limit.
        crate::tell(&failure);
        world.abort(1)
    });
    let doctor = machines.tell(None, &mut members)?;
    members.barrier()?;
    Ok((members.me() == Owner(0)).then_some(Ended { output, transport, doctor }))
}

/// Starts MPI among ranks that have the same options and `inputs`; one rank measures for
/// `longest_alone` at most while the others wait in a collective call.
pub(crate) fn join(
    args: &JobArgs,
    inputs: Vec<Input>,
    longest_alone: Duration,
) -> Result<(World, Members)> {
    let limit = args.meeting.collective_limit() + longest_alone;
    let world = World::init(limit)?;
    let mut members = world.members()?;
    Agreement::of_job(args, inputs).compare(&mut members)?;
    // After that, so that all ranks are refused or none.
    same_ranks(args.ranks, members.owners(), &library_version())?;
    Ok((world, members))
}

/// Checks that MPI has as many ranks as the work is shared out to. Another library's launcher
/// starts as many processes, each of which is alone to this one.
fn same_ranks(ranks: u32, members: u32, version: &str) -> Result<()> {
    let first = version.split([',', '\n']).next().unwrap_or_default();
    let library = first.split_whitespace().collect::<Vec<_>>().join(" ");
    let advice = match members {
        _ if members == ranks => return Ok(()),
        _ if members > ranks => format!("give --ranks {members}"),
        _ => format!("start it with that library's own `mpirun -n {ranks}`"),
    };
    let s = if members == 1 { "" } else { "s" };
    let what = format!("MPI ({library}) has started {members} rank{s}, not {ranks}: {advice}");
    Err(Failure::new(what).everywhere())
}

/// An engine of MPI, with "acc_single_intrinsic" if that is asked for, and a line about it.
pub(crate) fn open(
    single: Option<bool>,
    shape: Shape,
    members: &mut Members,
) -> Result<(Engine, String)> {
    let engine = Builder::new(shape.window_words)
        .slots(shape.slots, shape.slot_words)
        .depth(shape.depth)
        .acc_single_intrinsic(single)
        .open(members)?;
    let line = format!("mpi, {} ranks, {}", members.owners(), engine.info());
    Ok((engine, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(ranks: u32, members: u32, version: &str) -> Option<String> {
        same_ranks(ranks, members, version).err().map(|failure| failure.to_string())
    }

    #[test]
    fn ranks_that_mpi_does_not_have_are_refused() {
        let open = "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4, May 26, 2022";
        let mpich = "MPICH Version:\t4.0.2\nMPICH Release date:\tThu\nMPICH Device:\tch4:ucx";
        assert_eq!(refused(2, 2, open), None);
        let alone = "MPI (Open MPI v4.1.4) has started 1 rank, not 2: start it with that library's \
                     own `mpirun -n 2`";
        assert_eq!(refused(2, 1, open).as_deref(), Some(alone));
        let more = "MPI (MPICH Version: 4.0.2) has started 4 ranks, not 2: give --ranks 4";
        assert_eq!(refused(2, 4, mpich).as_deref(), Some(more));
    }
}
