//! The search: short runs of all candidates, of which the better half stays for runs twice as long,
//! until few are left. These alternate in rounds, and the best of them is recommended.

use probeline::transport::Exchange;
use probeline::tuning::Tuning;
use probeline_programs::Timed;

use super::TuneArgs;
use super::bench::Bench;
use super::candidate::{candidates, complexity};
use crate::failure::{Failure, Result};

/// Candidates without a cache in the last rounds, where each also has one.
const FINALISTS: usize = 8;
/// The operations of the first runs as a share of those of the last ones.
const SHORTEST: u32 = 16;
/// Differences below this share count as noise, and the simpler candidate is chosen.
const TOLD_APART: f64 = 0.02;

/// The quantity to optimize.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Goal {
    /// Whether it is the mean time of an operation from start to completion, not the operations per
    /// second.
    pub(super) is_latency: bool,
    /// The bound on the mean latency; infinite for none.
    pub(super) max_latency_ns: f64,
}

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
    /// All candidates without a cache, each with the time of its last short run.
    pub(super) searched: Vec<Timing>,
}

impl Goal {
    /// Returns the time to minimize.
    pub(super) fn time_ns(self, timing: &Timing) -> f64 {
        if self.is_latency { timing.latency_ns() } else { timing.ns }
    }

    fn is_late(self, timing: &Timing) -> bool {
        timing.latency_ns() > self.max_latency_ns
    }

    /// Sorts the fastest first. Those beyond the bound on the latency are last, the soonest to end
    /// first.
    fn sort(self, all: &mut [Timing]) {
        let key = |timing: &Timing| match self.is_late(timing) {
            true => (true, timing.latency_ns()),
            false => (false, self.time_ns(timing)),
        };
        all.sort_by(|one, other| {
            let (one, other) = (key(one), key(other));
            one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
        });
    }

    /// Moves the best of sorted timings to the front: of those within noise of the fastest, the
    /// simplest, and of equally simple ones the fastest. Returns false if all are beyond the bound.
    fn choose(self, sorted: &mut [Timing]) -> bool {
        let Some(fastest) = sorted.first().filter(|first| !self.is_late(first)) else {
            return false;
        };
        let near_ns = self.time_ns(fastest) * (1.0 + TOLD_APART);
        let near = |timing: &Timing| !self.is_late(timing) && self.time_ns(timing) <= near_ns;
        let near = sorted.iter().enumerate().filter(|(_, timing)| near(timing));
        if let Some((at, _)) = near.min_by_key(|(_, timing)| complexity(&timing.candidate)) {
            sorted[..=at].rotate_right(1);
        }
        true
    }
}

impl TuneArgs {
    /// Searches together with the other ranks.
    pub(super) fn search<T: Timed>(
        &self,
        bench: &mut Bench<'_, T>,
        exchange: &mut dyn Exchange,
    ) -> Result<Found> {
        let goal = self.goal();
        let mut searched: Vec<Timing> = Vec::new();
        let mut left = candidates(self.probe_limit(), &self.depths(), self.direct());
        let mut operations = (self.operations() / SHORTEST).max(1);
        while left.len() > FINALISTS {
            let doing = format!("{} candidates", left.len());
            let mut timings = bench.rounds(&left, 1, operations, &doing, exchange)?;
            goal.sort(&mut timings);
            searched.retain(|timing| !left.contains(&timing.candidate));
            searched.extend(timings.iter().cloned());
            timings.truncate((left.len() / 2).max(FINALISTS));
            left = timings.into_iter().map(|timing| timing.candidate).collect();
            operations = (2 * operations).min(self.operations());
        }
        // All that are left may turn out to be beyond a bound on the latency.
        if self.max_latency_us.is_some() {
            let by_latency =
                |one: &&Timing, other: &&Timing| one.latency_ns().total_cmp(&other.latency_ns());
            let soonest = searched.iter().min_by(by_latency).map(|timing| timing.candidate.clone());
            left.extend(soonest.filter(|soonest| !left.contains(soonest)));
        }
        let cache_entries = self.cache_entries();
        let cached = |plain: &Tuning| Tuning { cache_entries, ..plain.clone() };
        left.extend(left.iter().map(cached).collect::<Vec<_>>());
        left.push(self.paper());
        let doing = "the last candidates";
        let mut finalists = bench.rounds(&left, self.rounds, self.operations(), doing, exchange)?;
        let Some(paper) = finalists.pop() else { return Err(Failure::new("no run was made")) };
        goal.sort(&mut finalists);
        match goal.choose(&mut finalists) {
            true => Ok(Found { finalists, paper, searched }),
            false => Err(too_late(&finalists).everywhere()),
        }
    }
}

fn too_late(sorted: &[Timing]) -> Failure {
    Failure::new(format!(
        "an operation takes {:.3} us where it is soonest to end, which is beyond --max-latency-us: \
         give more",
        sorted.first().map_or(0.0, Timing::latency_ns) / 1e3
    ))
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
        goal.choose(&mut all).then(|| all[0].candidate.in_flight)
    }

    #[test]
    fn chooses_simplest_within_noise() {
        let unbounded = Goal { is_latency: false, max_latency_ns: f64::INFINITY };
        let latency = Goal { is_latency: true, ..unbounded };
        assert_eq!(chosen(unbounded, &[(16, 100.0), (8, 101.9), (4, 102.1)]), Some(8));
        assert_eq!(chosen(latency, &[(16, 100.0), (8, 101.9), (4, 202.0)]), Some(4));
        assert_eq!(chosen(unbounded, &[]), None);
    }

    #[test]
    fn keeps_latency_bound() {
        let bounded = |max_latency_ns| Goal { is_latency: false, max_latency_ns };
        let all = [(16, 100.0), (8, 110.0), (1, 600.0)];
        assert_eq!(chosen(bounded(900.0), &all), Some(8));
        assert_eq!(chosen(bounded(600.0), &all), Some(1));
        assert_eq!(chosen(bounded(599.0), &all), None);
        let mut late = timings(&all);
        bounded(599.0).sort(&mut late);
        assert!(too_late(&late).to_string().contains("takes 0.600 us"));
    }
}
