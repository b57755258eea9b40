//! A job whose ranks MPI's launcher has started, and which meet over MPI.

use core::hash::Hasher;
use core::time::Duration;
use std::hash::DefaultHasher;

use pin::Affinity;
use transport::{Exchange, Owner};
use ucx_shim::mpi::{Builder, Engine, Members, World};

use crate::cli::JobArgs;
use crate::failure::{Failure, Result};
use crate::job::{Ended, Scenario, Shape};
use crate::place::place;
use crate::scenario::gather;

/// Runs a scenario on them; `None` on every rank but 0.
pub(crate) fn run<S: Scenario>(args: &JobArgs, scenario: &S) -> Result<Option<Ended<S::Output>>> {
    // Before anything pins, MPI's own threads too.
    let affinity = Affinity::take()?;
    let (world, mut members) = join(args, &scenario.parameters(), scenario.longest_alone())?;
    let mut transport = Vec::new();
    place(&args.place, None, &affinity, &mut members, &mut transport)?;
    let (mut engine, line) = open(None, scenario.shape(), &mut members)?;
    transport.push(line);
    let output = scenario.run(&mut engine, &mut members).unwrap_or_else(|failure| {
        // The others may wait for this rank in a collective call, and would for its whole limit.
        crate::tell(&failure);
        world.abort(1)
    });
    members.barrier()?;
    Ok((members.me() == Owner(0)).then_some(Ended { output, transport, doctor: Vec::new() }))
}

/// Starts MPI, among ranks that were given `parameters` alike; one measures for `longest_alone` at
/// most while the others wait in a collective call.
pub(crate) fn join(
    args: &JobArgs,
    parameters: &str,
    longest_alone: Duration,
) -> Result<(World, Members)> {
    let limit = Duration::from_secs(args.meeting.collective_timeout) + longest_alone;
    let world = World::init(limit)?;
    let mut members = world.members()?;
    same_parameters(&format!("{parameters} pin={:?}", args.place.pin()), &mut members)?;
    Ok((world, members))
}

/// Checks that all ranks were given what rank 0 was; other exchanges do so when ranks meet.
fn same_parameters(mine: &str, members: &mut Members) -> Result<()> {
    let mut hasher = DefaultHasher::new();
    hasher.write(mine.as_bytes());
    let all = gather(members, [hasher.finish()])?;
    match (0..).zip(&all).find(|(_, hash)| **hash != all[0]) {
        Some((rank, _)) => {
            let what =
                format!("rank {rank} was given other options than rank 0: give all the same");
            Err(Failure::new(what).everywhere())
        }
        None => Ok(()),
    }
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
    let line = format!("mpi, {} ranks, {}", members.owners(), engine.facts());
    Ok((engine, line))
}
