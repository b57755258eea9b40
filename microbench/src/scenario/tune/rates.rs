//! Measures READs and compare-and-swaps of the transport, with all ranks at once.

use core::time::Duration;

use probeline::transport::{Exchange, Owner};
use probeline_limits::remote::{Meter, Operation, Plan};
use probeline_tune::Rates;

use super::bench::lower_quartile;
use crate::cli::{JobArgs, TransportName};
use crate::failure::Result;
use crate::progress::Progress;
use crate::scenario::gather;
use crate::timed::Timed;

/// Rounds in which all kinds of operations are measured in turn.
pub(super) const ROUNDS: u64 = 5;
/// Operations of a measurement in the simulator, which would need long for a measurement by time.
pub(super) const SIMULATED: u64 = 500;

/// Measures READs by size and compare-and-swaps, at depths 1 to `deepest`, uniformly over the
/// windows of all owners. Returns the same on all ranks. The windows must not be in use.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
pub(super) fn measure<T: Timed>(
    engine: &mut T,
    job: &JobArgs,
    deepest: u32,
    time: Duration,
    exchange: &mut dyn Exchange,
) -> Result<Rates> {
    let owners: Vec<Owner> = (0..exchange.owners()).map(Owner).collect();
    let words = 0..engine.geometry().window_words;
    let operations = if job.transport == TransportName::Sim { SIMULATED } else { u64::MAX };
    let plan = Plan { owners: &owners, words, time, operations };
    let asked = |(kind, depth): &_| *kind != Operation::Add && *depth <= deepest;
    let kinds = Meter::new(&mut *engine, T::now_ns, plan.clone(), 0)?.kinds();
    let kinds = kinds.into_iter().filter(asked);
    let mut all: Vec<(Operation, u32, Vec<f64>)> =
        kinds.map(|(operation, depth)| (operation, depth, Vec::new())).collect();
    let mut progress = Progress::new(ROUNDS * all.len() as u64, exchange.me() == Owner(0));
    let mut done = 0;
    for round in 0..ROUNDS {
        let seed = job.seed ^ round << 32 ^ u64::from(exchange.me().0) << 16;
        let mut meter = Meter::new(&mut *engine, T::now_ns, plan.clone(), seed)?;
        for (operation, depth, times) in &mut all {
            progress.expecting(done, "READs and claims without a table", time);
            exchange.barrier()?;
            // The exchange transfers whole numbers, so this is in picoseconds.
            let ps = (1e12 / meter.rate(*operation, *depth)?.per_second) as u64;
            let sum: u64 = gather(exchange, [ps])?.iter().map(|[ps]| ps).sum();
            times.push(sum as f64 / 1e3 / owners.len() as f64);
            done += 1;
        }
    }
    let mut rates = Rates::new();
    for (operation, depth, times) in all {
        match operation {
            Operation::Read { words } => rates.read(words, depth, lower_quartile(times)),
            Operation::Swap | Operation::Add => rates.swap(depth, lower_quartile(times)),
        }
    }
    Ok(rates)
}
