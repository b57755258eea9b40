//! The steps: the measurements over every column.

use probeline_limits::remote::Operation;

use crate::scenario::throughput::Workload;

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
    /// One operation at a time.
    Latency { operation: Operation, place: Place, owner: OwnerDoes },
    /// [`DEPTH`] of them in flight.
    Rate { operation: Operation, place: Place, owner: OwnerDoes },
    /// find-or-put of keys in the table, one at a time.
    Found { owner: OwnerDoes },
    /// find-or-put of new keys, one at a time.
    Inserted { owner: OwnerDoes },
    /// find-or-puts of all ranks at the same time, by blocking calls or in batches.
    Workload { workload: Workload, batched: bool },
}

/// The words of the owner's window that operations access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// One word.
    Hot,
    /// All words of the table, at random.
    Random,
}

/// What the owner of the words does during the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnerDoes {
    /// Polls its engine.
    Poll,
    /// Sleeps outside of any library, for `--sleep`.
    Sleep,
}

impl OwnerDoes {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Poll => "polls",
            Self::Sleep => "sleeps",
        }
    }
}

/// One-sided operations in flight when their rate is measured.
pub(super) const DEPTH: u32 = 32;

/// Sizes of READs: 8 B to 4 KiB.
const WORDS: [u32; 4] = [1, 8, 64, 512];

/// Operations and their words: single words hot and random, longer READs at random.
fn primitives() -> Vec<(Operation, Place)> {
    let single = [Operation::Read { words: 1 }, Operation::Swap, Operation::Add];
    let hot = single.map(|operation| (operation, Place::Hot));
    let reads = WORDS.map(|words| (Operation::Read { words }, Place::Random));
    let atomics = [Operation::Swap, Operation::Add].map(|atomic| (atomic, Place::Random));
    reads.into_iter().chain(atomics).chain(hot).collect()
}

/// Returns all steps, in the order of the report.
pub(super) fn steps() -> Vec<Step> {
    let mut steps = Vec::new();
    for owner in [OwnerDoes::Poll, OwnerDoes::Sleep] {
        let latency = |(operation, place)| Step::Latency { operation, place, owner };
        steps.extend(primitives().into_iter().map(latency));
        let rate = |(operation, place)| Step::Rate { operation, place, owner };
        steps.extend(primitives().into_iter().map(rate));
    }
    for owner in [OwnerDoes::Poll, OwnerDoes::Sleep] {
        steps.extend([Step::Found { owner }, Step::Inserted { owner }]);
    }
    for batched in [false, true] {
        for workload in [Workload::Mixed, Workload::ReadIntensive, Workload::WriteIntensive] {
            steps.push(Step::Workload { workload, batched });
        }
    }
    steps
}

impl Step {
    /// Returns the number by which processes refer to this step.
    pub(super) fn index(self) -> Option<usize> {
        steps().iter().position(|step| *step == self)
    }

    /// Returns the name of the measurement in the report.
    pub(super) fn name(self) -> String {
        match self {
            Self::Latency { operation, place, .. } | Self::Rate { operation, place, .. } => {
                let place = match place {
                    Place::Hot => "one word",
                    Place::Random => "random",
                };
                format!("{}, {place}", operation_name(operation))
            }
            Self::Found { .. } => "found".to_owned(),
            Self::Inserted { .. } => "inserted".to_owned(),
            Self::Workload { workload, batched } => {
                format!("{}, {}", workload.name(), if batched { "pipelined" } else { "blocking" })
            }
        }
    }

    /// Returns what the owner does, for the report; in a workload all ranks work.
    pub(super) fn owner(self) -> &'static str {
        match self {
            Self::Latency { owner, .. }
            | Self::Rate { owner, .. }
            | Self::Found { owner }
            | Self::Inserted { owner } => owner.name(),
            Self::Workload { .. } => "works",
        }
    }

    /// Returns whether the result is the time of one operation; otherwise it is a rate.
    pub(super) fn is_latency(self) -> bool {
        matches!(self, Self::Latency { .. } | Self::Found { .. } | Self::Inserted { .. })
    }
}

fn operation_name(operation: Operation) -> String {
    match operation {
        Operation::Read { words } => format!("READ {} B", words * 8),
        Operation::Swap => "CAS".to_owned(),
        Operation::Add => "FAA".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_different() {
        let steps = steps();
        for (at, step) in steps.iter().enumerate() {
            let key = |other: &Step| (other.name(), other.owner(), other.is_latency());
            assert!(steps[..at].iter().all(|other| key(other) != key(step)), "{step:?}");
        }
        let sizes = steps.iter().filter(|step| step.name().starts_with("READ")).count();
        assert_eq!((steps.len(), sizes), (2 * 2 * 9 + 4 + 6, 2 * 2 * 5));
    }
}
