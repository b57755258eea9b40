//! Runs of operations by all ranks at once, and their rates.

use probeline::table::{Outcome, Stats};
use probeline::transport::Exchange;
use probeline_programs::Timed;
use probeline_programs::gather_values;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::failure::Result;
use crate::table::{CachedTable, find_or_put_all};

/// One run of all ranks, with the counters `S`.
#[derive(Clone, Copy)]
pub(crate) struct Run<S> {
    pub(crate) took_ns: u64,
    /// The sum of the times of all ranks, in nanoseconds.
    pub(crate) rank_ns: u64,
    /// The counters of all ranks.
    pub(crate) stats: S,
}

impl<S: Copy + Serialize + DeserializeOwned> Run<S> {
    /// Gathers a run that this rank started at `start_ns` and has just ended, with the counters
    /// `mine`. Ranks leave a barrier at different times: with one clock a run takes from the first
    /// start to the last end, otherwise as long as the slowest rank.
    pub(crate) fn gather<T: Timed>(
        engine: &T,
        start_ns: u64,
        mine: S,
        plus: impl Fn(S, S) -> S,
        exchange: &mut dyn Exchange,
    ) -> Result<Self> {
        let mine = (start_ns, engine.now_ns(), mine);
        let ranks = gather_values(exchange, &mine)?;
        let first_ns = ranks.iter().map(|rank| rank.0).min().unwrap_or(0);
        let last_ns = ranks.iter().map(|rank| rank.1).max().unwrap_or(0);
        let times_ns = || ranks.iter().map(|rank| rank.1 - rank.0);
        let slowest_ns = times_ns().max().unwrap_or(0);
        let took_ns =
            if engine.has_one_clock() { last_ns.saturating_sub(first_ns) } else { slowest_ns };
        let rank_ns = times_ns().sum();
        let stats = ranks.into_iter().map(|rank| rank.2).reduce(plus).unwrap_or(mine.2);
        Ok(Self { took_ns, rank_ns, stats })
    }
}

impl Run<Stats> {
    /// Executes find-or-puts of these keys by each rank, in batches of the length of `outcomes`.
    pub(crate) fn find_or_puts<T: Timed>(
        table: &mut CachedTable<T>,
        keys: &[u64],
        outcomes: &mut [Outcome],
        exchange: &mut dyn Exchange,
    ) -> Result<Self> {
        table.reset_stats();
        exchange.barrier()?;
        let start_ns = table.transport().now_ns();
        find_or_put_all(table, keys, outcomes)?;
        let plus = |one, other| [one, other].into_iter().sum();
        Self::gather(table.transport(), start_ns, *table.stats(), plus, exchange)
    }
}

/// The median, the least and the greatest of values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// Returns the spread of these values; `None` without values.
    pub(crate) fn new(mut values: Vec<f64>) -> Option<Self> {
        values.sort_unstable_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = [values.len() / 2, (values.len() - 1) / 2].map(|at| values[at]);
        Some(Self { median: f64::midpoint(middle[0], middle[1]), min, max })
    }
}

/// Returns the median of these values; `None` without values.
pub(crate) fn median(values: Vec<f64>) -> Option<f64> {
    Spread::new(values).map(|spread| spread.median)
}

/// The median run, and the median, the least and the greatest rate of all runs in operations per
/// second.
pub(crate) struct Series<S> {
    pub(crate) median: Run<S>,
    pub(crate) rates: [f64; 3],
}

impl<S: Copy> Series<S> {
    /// Returns the series of these runs with this number of operations; `None` without runs.
    pub(crate) fn new(mut runs: Vec<Run<S>>, operations: impl Fn(&S) -> u64) -> Option<Self> {
        runs.sort_by_key(|run| run.took_ns);
        let rate = |run: &Run<S>| operations(&run.stats) as f64 * 1e9 / run.took_ns.max(1) as f64;
        let median = *runs.get(runs.len() / 2)?;
        let rates = [rate(&median), rate(runs.last()?), rate(runs.first()?)];
        Some(Self { median, rates })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computes_median() {
        let median = |values: &[f64]| median(values.to_vec());
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 9.0, 2.0]), Some(3.0));
        let spread = Spread { median: 2.0, min: 1.0, max: 9.0 };
        assert_eq!(Spread::new(vec![9.0, 1.0, 2.0]), Some(spread));
    }
}
