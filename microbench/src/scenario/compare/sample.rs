//! What one step gave over one column in one round.

use serde::{Deserialize, Serialize};

use crate::latency::Latency;

/// A summary of one measurement; latencies only where operations were timed one by one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Sample {
    pub(super) operations: u64,
    pub(super) ops_per_s: f64,
    pub(super) mean_ns: f64,
    pub(super) min_ns: Option<u64>,
    pub(super) p50_ns: Option<u64>,
    pub(super) p90_ns: Option<u64>,
    pub(super) p99_ns: Option<u64>,
    pub(super) p99_9_ns: Option<u64>,
    pub(super) max_ns: Option<u64>,
    /// The share of find-or-puts that inserted.
    pub(super) inserted_share: Option<f64>,
    /// The owner slept, and operations did not end before it woke.
    pub(super) waited_for_owner: bool,
    /// One in a hundred operations or more did not, at least.
    pub(super) some_waited_for_owner: bool,
}

/// Whether operations waited for an owner that slept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waited {
    No,
    Some,
    All,
}

impl Waited {
    /// In half of the rounds or more.
    pub(super) fn in_most(samples: &[Sample]) -> Self {
        let most = |waited: fn(&Sample) -> bool| {
            2 * samples.iter().filter(|sample| waited(sample)).count() >= samples.len()
        };
        match samples {
            [] => Self::No,
            _ if most(|sample| sample.waited_for_owner) => Self::All,
            _ if most(|sample| sample.some_waited_for_owner) => Self::Some,
            _ => Self::No,
        }
    }
}

impl Sample {
    /// Of operations timed one by one.
    pub(super) fn of_latency(latency: &Latency) -> Self {
        Self {
            operations: latency.operations,
            ops_per_s: 1e9 / latency.mean_ns.max(1.0),
            mean_ns: latency.mean_ns,
            min_ns: Some(latency.min_ns),
            p50_ns: Some(latency.p50_ns),
            p90_ns: Some(latency.p90_ns),
            p99_ns: Some(latency.p99_ns),
            p99_9_ns: Some(latency.p99_9_ns),
            max_ns: Some(latency.max_ns),
            ..Self::default()
        }
    }

    /// Of so many operations a second, with `operations` at a time.
    pub(super) fn of_rate(operations: u64, ops_per_s: f64) -> Self {
        Self { operations, ops_per_s, mean_ns: 1e9 / ops_per_s, ..Self::default() }
    }
}
