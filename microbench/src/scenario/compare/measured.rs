//! A column of the comparison and its samples.

use probeline::transport::{AtomicScope, Transport};
use probeline_limits::remote::Operation;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::column::ColumnName;
use super::step::{OwnerDoes, Place, Step, What, steps};
use crate::cli::JobArgs;
use crate::latency::Latency;
use crate::scenario::median;

/// The result of one step over one column in one round; percentiles only if operations were timed
/// one by one.
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
    pub(super) inserted_share: Option<f64>,
    /// Whether the owner slept and most operations did not complete before it woke up.
    pub(super) waited_for_owner: bool,
    /// Whether the owner slept and at least one in a hundred operations did not complete before it
    /// woke up.
    pub(super) some_waited_for_owner: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Capabilities {
    steps: usize,
    ranks: u32,
    buckets_per_rank: u64,
    seed: u64,
    depth: u32,
    /// The transport's atomics are atomic with those of the CPU.
    cpu_atomics: bool,
    word_reads_whole: bool,
    /// Operations stall unless the owner of the words polls.
    needs_owner_progress: bool,
    /// A poll may wait for the owner of the words.
    poll_may_wait: bool,
}

impl Capabilities {
    pub(super) fn of<T: Transport>(job: &JobArgs, engine: &T) -> Self {
        let caps = engine.caps();
        Self {
            steps: steps().len(),
            ranks: job.ranks,
            buckets_per_rank: job.buckets_per_owner(),
            seed: job.seed,
            depth: caps.depth,
            cpu_atomics: caps.atomics == AtomicScope::Cpu,
            word_reads_whole: caps.word_reads_whole,
            needs_owner_progress: caps.needs_owner_progress,
            poll_may_wait: caps.poll_may_wait,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waited {
    No,
    Some,
    All,
}

impl Waited {
    /// Returns what happened in at least half of the rounds.
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
    /// Returns the time of one operation: the median if they were timed individually, otherwise the
    /// mean.
    pub(super) fn time_ns(&self) -> f64 {
        self.p50_ns.map_or(self.mean_ns, |ns| ns as f64).max(f64::MIN_POSITIVE)
    }

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

    pub(super) fn of_rate(operations: u64, ops_per_s: f64) -> Self {
        Self { operations, ops_per_s, mean_ns: 1e9 / ops_per_s, ..Self::default() }
    }
}

/// Median of the ratios of `samples` to `others`, by time, over the rounds that both have. Smaller
/// is faster.
pub(super) fn ratio(samples: &[Sample], others: &[Sample]) -> Option<f64> {
    median(samples.iter().zip(others).map(|(one, other)| one.time_ns() / other.time_ns()).collect())
}

pub(super) fn median_time_ns(samples: &[Sample]) -> Option<f64> {
    median(samples.iter().map(Sample::time_ns).collect())
}

pub(super) struct Column {
    pub(super) name: ColumnName,
    /// Whether `--columns` names it; otherwise it is measured if the machine has it.
    pub(super) requested: bool,
    pub(super) capabilities: Option<Capabilities>,
    pub(super) transport: Vec<String>,
    pub(super) error: Option<String>,
    samples: Vec<Vec<Sample>>,
}

impl Column {
    pub(super) fn new(name: ColumnName, requested: bool) -> Self {
        let samples = vec![Vec::new(); steps().len()];
        Self { name, requested, capabilities: None, transport: Vec::new(), error: None, samples }
    }

    pub(super) fn is_up(&self) -> bool {
        self.capabilities.is_some() && self.error.is_none()
    }

    /// Returns whether it was requested, or started, and has not measured everything.
    pub(super) fn has_failed(&self) -> bool {
        self.error.is_some() && (self.requested || self.capabilities.is_some())
    }

    pub(super) fn has_measured(&self) -> bool {
        self.samples.iter().any(|samples| !samples.is_empty())
    }

    /// Discards the samples, because they are of another transport.
    pub(super) fn discard(&mut self, error: String) {
        *self = Self { error: Some(error), ..Self::new(self.name, self.requested) };
    }

    pub(super) fn add(&mut self, step: usize, sample: Sample) {
        self.samples[step].push(sample);
    }

    /// Returns the samples of a step by round, until the round in which the column failed.
    pub(super) fn samples(&self, step: usize) -> &[Sample] {
        self.samples.get(step).map_or(&[], Vec::as_slice)
    }

    pub(super) fn samples_of(&self, step: Step) -> &[Sample] {
        let index = steps().iter().position(|other| *other == step);
        index.map_or(&[], |index| self.samples(index))
    }

    /// Returns whether operations waited for a sleeping owner; `None` if that was not measured.
    fn waited(&self, operation: Operation) -> Option<Waited> {
        let what = What::Latency(operation, Place::Random);
        let samples = self.samples_of(Step { what, owner: OwnerDoes::Sleep });
        (!samples.is_empty()).then(|| Waited::in_most(samples))
    }

    /// Returns the line of the report: transport, and whether operations waited for a sleeping
    /// owner; or the error.
    pub(super) fn line(&self) -> String {
        let name = self.name.name();
        if let Some(error) = &self.error {
            let state = if self.has_failed() { "failed" } else { "not here" };
            return format!("{name}: {state}: {error}");
        }
        let by = |waited: Option<Waited>, operations: &str| match waited {
            Some(Waited::All) => format!("{operations} waited for a sleeping owner"),
            Some(Waited::Some) => format!("some {operations} waited for a sleeping owner"),
            Some(Waited::No) => format!("{operations} did not wait for a sleeping owner"),
            None => format!("{operations} were not measured with a sleeping owner"),
        };
        let reads = by(self.waited(Operation::Read { words: 8 }), "READs");
        let swaps = by(self.waited(Operation::Swap), "CAS");
        format!("{name}: {}; {reads}, {swaps}", self.transport.join("; "))
    }

    pub(super) fn includes(&self) -> Option<String> {
        let (name, includes) = (self.name.name(), self.name.includes());
        self.has_measured().then(|| format!("{name} includes: {includes}"))
    }

    pub(super) fn value(&self) -> Value {
        let all = |operation| Some(self.waited(operation)? == Waited::All);
        let state = match &self.error {
            None => "measured",
            Some(_) if self.has_failed() => "failed",
            Some(_) => "absent",
        };
        json!({
            "column": self.name.name(),
            "state": state,
            "reason": self.error,
            "transport": self.transport,
            "includes": self.name.includes(),
            "engine": self.capabilities,
            "reads_wait_for_a_sleeping_owner": all(Operation::Read { words: 8 }),
            "atomics_wait_for_a_sleeping_owner": all(Operation::Swap),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_which_operations_waited_for_a_sleeping_owner() {
        let mut column = Column::new(ColumnName::OscUcx, true);
        column.transport = vec!["mpi, 2 ranks".to_owned()];
        let unmeasured = "osc-ucx: mpi, 2 ranks; READs were not measured with a sleeping owner, CAS \
                          were not measured with a sleeping owner";
        assert_eq!(column.line(), unmeasured);

        let at = |operation| {
            let what = What::Latency(operation, Place::Random);
            let step = Step { what, owner: OwnerDoes::Sleep };
            steps().iter().position(|other| *other == step).unwrap()
        };
        let waited = Sample { waited_for_owner: true, ..Sample::default() };
        let some = Sample { some_waited_for_owner: true, ..Sample::default() };
        column.add(at(Operation::Read { words: 8 }), Sample::default());
        column.add(at(Operation::Swap), waited);
        let measured = "osc-ucx: mpi, 2 ranks; READs did not wait for a sleeping owner, CAS waited for a \
             sleeping owner";
        assert_eq!(column.line(), measured);
        assert_eq!(column.value()["reads_wait_for_a_sleeping_owner"], false);
        assert_eq!(column.value()["atomics_wait_for_a_sleeping_owner"], true);

        column.add(at(Operation::Read { words: 8 }), some);
        assert!(column.line().contains("; some READs waited for a sleeping owner, "));
    }
}
