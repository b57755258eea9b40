//! Chooses the recommendation by measuring the candidates that the model ranks best.

use probeline::transport::Exchange;
use probeline_tune::{Candidate, Goal, Model, Timing};

use super::TuneArgs;
use super::bench::Bench;
use crate::failure::{Failure, Result};
use crate::scenario::gather;
use crate::timed::Timed;

impl TuneArgs {
    /// Returns the best contender by measurement, and the measured times of all contenders.
    pub(super) fn choose<T: Timed>(
        &self,
        model: &Model,
        all: &[Candidate],
        bench: &mut Bench<'_, T>,
        exchange: &mut dyn Exchange,
    ) -> Result<(Candidate, Vec<Timing>)> {
        let goal = self.goal();
        let expected = model.times(all);
        let mut contenders = goal.contenders(&expected);
        if contenders.is_empty() {
            // Predictions may be wrong, and the latency bound applies to measured values.
            contenders.extend(Goal::Latency.best(&expected));
        }
        let contenders = of_rank_0(&contenders, all, exchange)?;
        let ns = bench.rounds(&contenders, self.rounds, "what may be best", exchange)?;
        let measured: Vec<Timing> = contenders.into_iter().zip(ns).collect();
        match goal.best(&measured) {
            Some(best) => Ok((best, measured)),
            None => Err(too_late(&measured).everywhere()),
        }
    }
}

fn too_late(measured: &[Timing]) -> Failure {
    let latencies = measured.iter().map(|(at, ns)| ns * f64::from(at.depth));
    Failure::new(format!(
        "an operation takes {:.3} us where it is soonest to end, which is beyond --max-latency-us: \
         give more",
        latencies.reduce(f64::min).unwrap_or(0.0) / 1e3
    ))
}

/// Returns the candidates of rank 0. The model on another machine may round differently.
fn of_rank_0(
    mine: &[Candidate],
    all: &[Candidate],
    exchange: &mut dyn Exchange,
) -> Result<Vec<Candidate>> {
    let mut first = |mine: usize| -> Result<usize> {
        let [first] = gather(exchange, [mine as u64])?.first().copied().unwrap_or_default();
        Ok(usize::try_from(first).unwrap_or(usize::MAX))
    };
    let mut agreed = Vec::new();
    for nth in 0..first(mine.len())? {
        let at = all.iter().position(|candidate| Some(candidate) == mine.get(nth));
        agreed.extend(all.get(first(at.unwrap_or(usize::MAX))?));
    }
    Ok(agreed)
}
