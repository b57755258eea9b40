//! Selects the best of some candidates, and those that may be the best.

use std::collections::BTreeSet;

use crate::Candidate;

/// What to optimize.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// The mean time of an operation from start to completion.
    Latency,
    /// Operations per second, with a bound on the mean latency.
    Throughput {
        /// The maximum mean latency in nanoseconds; infinite for no bound.
        most_latency_ns: f64,
    },
}

/// A candidate, and the time in nanoseconds that a rank takes for each of its operations, predicted
/// or measured.
pub type Timing = (Candidate, f64);

/// Differences below this share count as noise, and the simpler candidate is chosen.
const TOLD_APART: f64 = 0.02;

/// The dimensions of candidates. M is not one of them, because it follows from C.
const DIMENSIONS: [fn(&Candidate) -> u32; 5] = [
    |candidate| candidate.chunk_buckets,
    |candidate| candidate.depth,
    |candidate| candidate.read_ahead as u32,
    |candidate| candidate.one_roundtrip as u32,
    |candidate| candidate.cache_entries,
];

impl Goal {
    /// Returns the best of `all`, or `None` if all exceed the bound on the latency.
    ///
    /// Of the candidates that are within noise of the best one, this takes the simplest, which
    /// comes first in `all`, and of equally simple ones the fastest. C and read-ahead do not count
    /// for simplicity.
    #[must_use]
    pub fn best(self, all: &[Timing]) -> Option<Candidate> {
        let costs = all.iter().filter_map(|one| Some((one.0, self.cost(one)?)));
        let costs: Vec<(Candidate, f64)> = costs.collect();
        let least = costs.iter().map(|(_, cost)| *cost).reduce(f64::min)?;
        let near = || costs.iter().filter(|(_, cost)| *cost <= least * (1.0 + TOLD_APART));
        let (first, _) = near().next()?;
        let plain = |candidate: &Candidate| {
            (candidate.cache_entries, candidate.depth, candidate.one_roundtrip)
                == (first.cache_entries, first.depth, first.one_roundtrip)
        };
        let alike = near().filter(|(candidate, _)| plain(candidate));
        let best = alike.min_by(|(_, one), (_, other)| one.total_cmp(other));
        best.map(|(candidate, _)| *candidate)
    }

    /// Returns those of `all`, in their order, that may be the best if predictions are wrong in one
    /// dimension: for each value of each dimension, the best candidate with that value.
    #[must_use]
    pub fn contenders(self, all: &[Timing]) -> Vec<Candidate> {
        let mut contenders = Vec::new();
        for of in DIMENSIONS {
            let values: BTreeSet<u32> = all.iter().map(|(candidate, _)| of(candidate)).collect();
            for value in values {
                let with = all.iter().copied().filter(|(candidate, _)| of(candidate) == value);
                contenders.extend(self.best(&with.collect::<Vec<_>>()));
            }
        }
        let candidates = all.iter().map(|(candidate, _)| *candidate);
        candidates.filter(|candidate| contenders.contains(candidate)).collect()
    }

    /// Returns the cost to minimize, or `None` beyond the bound.
    #[must_use]
    pub fn cost(self, (candidate, ns): &Timing) -> Option<f64> {
        let latency_ns = ns * f64::from(candidate.depth.max(1));
        match self {
            Self::Latency => Some(latency_ns),
            Self::Throughput { most_latency_ns } => (latency_ns <= most_latency_ns).then_some(*ns),
        }
    }
}
