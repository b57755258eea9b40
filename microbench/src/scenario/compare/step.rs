//! The steps: the measurements over every column.

use probeline_limits::remote::Operation;

use crate::cli;
use crate::scenario::throughput::Workload;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Step {
    pub(super) what: What,
    pub(super) owner: OwnerDoes,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum What {
    Latency(Operation, Place),
    /// [`DEPTH`] of them in flight.
    Rate(Operation, Place),
    /// find-or-put of keys in the table, one at a time.
    Found,
    /// find-or-put of new keys, one at a time.
    Inserted,
    /// find-or-puts of all ranks at the same time, by blocking calls or in batches.
    Workload {
        workload: Workload,
        batched: bool,
    },
}

/// The words of the owner's window that operations access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Hot,
    /// All words of the table, at random.
    Random,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnerDoes {
    Poll,
    /// Sleeps outside of any library, for `--sleep`.
    Sleep,
    /// Does the same as rank 0.
    Work,
}

impl OwnerDoes {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Poll => "polls",
            Self::Sleep => "sleeps",
            Self::Work => "works",
        }
    }
}

/// One-sided operations in flight when their rate is measured.
pub(super) const DEPTH: u32 = 32;

pub(super) fn steps() -> Vec<Step> {
    let single = [Operation::Read { words: 1 }, Operation::Swap, Operation::Add];
    let longer = [8, 64, 512].map(|words| Operation::Read { words });
    let random = [&single[..1], &longer, &single[1..]].concat();
    let random = random.into_iter().map(|operation| (operation, Place::Random));
    let primitives = random.chain(single.map(|operation| (operation, Place::Hot)));
    let mut steps = Vec::new();
    let idle = [OwnerDoes::Poll, OwnerDoes::Sleep];
    for owner in idle {
        for what in [What::Latency, What::Rate] {
            let step = |(operation, place)| Step { what: what(operation, place), owner };
            steps.extend(primitives.clone().map(step));
        }
    }
    for owner in idle {
        steps.extend([What::Found, What::Inserted].map(|what| Step { what, owner }));
    }
    for batched in [false, true] {
        for workload in [Workload::Mixed, Workload::ReadIntensive, Workload::WriteIntensive] {
            let what = What::Workload { workload, batched };
            steps.push(Step { what, owner: OwnerDoes::Work });
        }
    }
    steps
}

impl Step {
    pub(super) fn name(self) -> String {
        match self.what {
            What::Latency(operation, place) | What::Rate(operation, place) => {
                let operation = match operation {
                    Operation::Read { words } => format!("READ {} B", words * 8),
                    Operation::Swap => "CAS".to_owned(),
                    Operation::Add => "FAA".to_owned(),
                };
                let random = place == Place::Random;
                format!("{operation}, {}", if random { "random" } else { "one word" })
            }
            What::Found => "found".to_owned(),
            What::Inserted => "inserted".to_owned(),
            What::Workload { workload, batched } => {
                format!(
                    "{}, {}",
                    cli::name(workload),
                    if batched { "pipelined" } else { "blocking" }
                )
            }
        }
    }

    /// Returns whether the result is the time of one operation; otherwise it is a rate.
    pub(super) fn is_latency(self) -> bool {
        matches!(self.what, What::Latency(..) | What::Found | What::Inserted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_different() {
        let steps = steps();
        for (at, step) in steps.iter().enumerate() {
            let key = |other: &Step| (other.name(), other.owner.name(), other.is_latency());
            assert!(steps[..at].iter().all(|other| key(other) != key(step)), "{step:?}");
        }
        let sizes = steps.iter().filter(|step| step.name().starts_with("READ")).count();
        assert_eq!((steps.len(), sizes), (2 * 2 * 9 + 4 + 6, 2 * 2 * 5));
    }
}
