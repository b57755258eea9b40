//! The recommendation, by what contenders take as measured.

use transport::Exchange;
use tune::{Candidate, Goal, Model, Timing};

use super::TuneArgs;
use super::bench::Bench;
use crate::failure::{Failure, Result};
use crate::scenario::gather;
use crate::timed::Timed;

impl TuneArgs {
    /// The best as measured of the contenders, or the soonest to end where none keeps to the bound on
    /// the latency; and what they took.
    pub(super) fn choose<T: Timed>(
        &self,
        model: &Model,
        all: &[Candidate],
        bench: &mut Bench<'_, T>,
        exchange: &mut dyn Exchange,
    ) -> Result<(Candidate, Vec<Timing>)> {
        let goal = self.goal();
        let contenders = of_rank_0(&goal.contenders(&model.times(all)), all, exchange)?;
        let ns = bench.rounds(&contenders, self.rounds, "what may be best", exchange)?;
        let measured: Vec<Timing> = contenders.into_iter().zip(ns).collect();
        let best = goal.best(&measured).or_else(|| Goal::Latency.best(&measured));
        let Some(best) = best else {
            return Err(Failure::new(
                "no depth keeps to --max-latency-us, not even one operation at a time: give more",
            )
            .everywhere());
        };
        Ok((best, measured))
    }
}

/// What rank 0 has: the model of another machine may round differently.
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
