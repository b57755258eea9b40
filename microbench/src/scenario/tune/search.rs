//! The search: short runs of all candidates, of which the better half stays for runs twice as long,
//! until few are left. These alternate in rounds, and the best of them is recommended.

use probeline::transport::Exchange;
use probeline::tuning::Tuning;
use probeline_programs::Timed;

use super::bench::Bench;
use super::candidate::{candidates, complexity};
use super::{Goal, TuneArgs};
use crate::failure::{Failure, Result};

/// Candidates without a cache in the last rounds, where each that posts also has one.
const FINALISTS: usize = 8;
/// The operations of the first runs as a share of those of the last ones.
const FIRST_RUN_DIVISOR: u32 = 16;
/// Differences below this share count as noise, and the simpler candidate is chosen.
const TOLD_APART: f64 = 0.02;

/// A candidate and the time that a rank takes for each of its operations.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Timing {
    pub(super) candidate: Tuning,
    pub(super) ns: f64,
}

impl Timing {
    pub(super) fn latency_ns(&self) -> f64 {
        self.ns * f64::from(self.candidate.in_flight)
    }
}

/// The result of the search, which all ranks have.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// The candidates of the last rounds, the recommended one first and then the fastest.
    pub(super) finalists: Vec<Timing>,
    pub(super) paper: Timing,
}

impl Goal {
    /// Returns the time to minimize.
    pub(super) fn time_ns(self, timing: &Timing) -> f64 {
        match self {
            Self::Latency => timing.latency_ns(),
            Self::Throughput => timing.ns,
        }
    }

    /// Sorts the fastest first.
    fn sort(self, all: &mut [Timing]) {
        all.sort_by(|one, other| self.time_ns(one).total_cmp(&self.time_ns(other)));
    }

    /// Moves the best of sorted timings to the front: of those within noise of the fastest, the
    /// simplest, and of equally simple ones the fastest.
    fn choose(self, sorted: &mut [Timing]) {
        let near_ns = sorted.first().map_or(0.0, |first| self.time_ns(first) * (1.0 + TOLD_APART));
        let near = sorted.iter().enumerate().filter(|(_, timing)| self.time_ns(timing) <= near_ns);
        if let Some((at, _)) = near.min_by_key(|(_, timing)| complexity(&timing.candidate)) {
            sorted[..=at].rotate_right(1);
        }
    }
}

impl TuneArgs {
    /// Searches together with the other ranks.
    pub(super) fn search<T: Timed>(
        &self,
        bench: &mut Bench<'_, T>,
        exchange: &mut dyn Exchange,
    ) -> Result<Found> {
        let goal = self.goal;
        let mut left = candidates(self.probe_limit(), &self.depths(), self.direct());
        let mut operations = (self.operations() / FIRST_RUN_DIVISOR).max(1);
        while left.len() > FINALISTS {
            let doing = format!("{} candidates", left.len());
            let mut timings = bench.rounds(&left, 1, operations, &doing, exchange)?;
            goal.sort(&mut timings);
            timings.truncate((left.len() / 2).max(FINALISTS));
            left = timings.into_iter().map(|timing| timing.candidate).collect();
            operations = (2 * operations).min(self.operations());
        }
        // The CPU itself asks no cache.
        if !self.direct() {
            let cache_entries = self.cache_entries();
            let cached = |plain: &Tuning| Tuning { cache_entries, ..plain.clone() };
            left.extend(left.iter().map(cached).collect::<Vec<_>>());
        }
        left.push(self.paper());
        let doing = "the last candidates";
        let mut finalists = bench.rounds(&left, self.rounds, self.operations(), doing, exchange)?;
        let Some(paper) = finalists.pop() else { return Err(Failure::new("no run was made")) };
        goal.sort(&mut finalists);
        goal.choose(&mut finalists);
        Ok(Found { finalists, paper })
    }
}

#[cfg(test)]
mod tests {
    use super::super::candidate::plain;
    use super::*;

    /// Returns timings of candidates of these depths.
    fn timings(all: &[(u32, f64)]) -> Vec<Timing> {
        let timing = |&(depth, ns)| Timing { candidate: plain(64, 8, depth), ns };
        all.iter().map(timing).collect()
    }

    fn chosen(goal: Goal, all: &[(u32, f64)]) -> Option<u32> {
        let mut all = timings(all);
        goal.sort(&mut all);
        goal.choose(&mut all);
        all.first().map(|best| best.candidate.in_flight)
    }

    #[test]
    fn chooses_simplest_within_noise() {
        assert_eq!(chosen(Goal::Throughput, &[(16, 100.0), (8, 101.9), (4, 102.1)]), Some(8));
        assert_eq!(chosen(Goal::Latency, &[(16, 100.0), (8, 101.9), (4, 202.0)]), Some(4));
        assert_eq!(chosen(Goal::Throughput, &[]), None);
    }
}
