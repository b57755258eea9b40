//! One line of the report of limits.

use limits::memory::{Ahead, Memory};
use limits::remote::{Operation, Rate};
use serde::Serialize;

use crate::cli::JobArgs;
use crate::report::Row;

#[derive(Clone, Debug, Serialize)]
pub(crate) struct LimitsRow {
    limit: String,
    of: String,
    cores: Option<u32>,
    in_flight: Option<u32>,
    median_ops_per_s: f64,
    least_ops_per_s: f64,
    most_ops_per_s: f64,
    mean_ns: f64,
    prefetch: Option<String>,
}

/// A limit of the memory, and with which prefetches it was reached.
type Limit = (&'static str, fn(&Memory) -> f64, Option<fn(&Memory) -> Ahead>);

const LIMITS: [Limit; 6] = [
    ("index", |memory| memory.indexes, None),
    ("dependent reads", |memory| memory.dependent_reads, None),
    ("independent reads", |memory| memory.independent_reads, None),
    (
        "prefetched reads",
        |memory| memory.prefetched_reads,
        Some(|memory| memory.prefetched_reads_by),
    ),
    ("prefetched CAS", |memory| memory.swaps, Some(|memory| memory.swaps_by)),
    (
        "prefetched read, CAS",
        |memory| memory.reads_then_swaps,
        Some(|memory| memory.reads_then_swaps_by),
    ),
];

/// The rows of memory `of` some kind, from what each core measured in each round.
pub(super) fn of_memory(of: &str, rounds: &[Vec<Memory>]) -> Vec<LimitsRow> {
    let row = |&(limit, rate, by): &Limit| {
        let mut all: Vec<(f64, &[Memory])> =
            rounds.iter().map(|cores| (cores.iter().map(rate).sum(), &cores[..])).collect();
        all.sort_by(|one, other| one.0.total_cmp(&other.0));
        let cores = all.get(all.len() / 2).map_or(&[][..], |middle| middle.1);
        let count = u32::try_from(cores.len()).unwrap_or(u32::MAX);
        LimitsRow {
            limit: limit.to_owned(),
            of: of.to_owned(),
            cores: Some(count),
            prefetch: by.zip(cores.first()).map(|(by, first)| by(first).to_string()),
            ..LimitsRow::new(all.iter().map(|round| round.0), f64::from(count))
        }
    };
    LIMITS.iter().map(row).collect()
}

/// A rate, and whether all operations went to one word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OfTransport {
    pub(super) rate: Rate,
    pub(super) one_word: bool,
}

impl OfTransport {
    /// As `bench-latency` calls it.
    fn name(&self) -> String {
        let place = if self.one_word { "one word" } else { "random word" };
        match self.rate.operation {
            Operation::Read { words } => format!("READ {} B", words * 8),
            Operation::Swap => format!("CAS {place}"),
            Operation::Add => format!("FAA {place}"),
        }
    }
}

/// The rows of the transport, each round having measured the same.
pub(super) fn of_transport(job: &JobArgs, rounds: &[Vec<OfTransport>]) -> Vec<LimitsRow> {
    let Some(first) = rounds.first() else { return Vec::new() };
    let row = |(at, of_first): (usize, &OfTransport)| {
        let rates = rounds.iter().filter_map(|round| round.get(at));
        let mut all: Vec<f64> = rates.map(|one| one.rate.per_second).collect();
        all.sort_by(f64::total_cmp);
        LimitsRow {
            limit: of_first.name(),
            of: job.transport.name().to_owned(),
            in_flight: Some(of_first.rate.depth),
            ..LimitsRow::new(all.into_iter(), 1.0)
        }
    };
    first.iter().enumerate().map(row).collect()
}

impl LimitsRow {
    /// Of the rates of all rounds, rising, that `cores` reach together.
    fn new(rising: impl ExactSizeIterator<Item = f64>, cores: f64) -> Self {
        let rates: Vec<f64> = rising.collect();
        let at = |place: usize| rates.get(place).copied().unwrap_or(0.0);
        let median = at(rates.len() / 2);
        Self {
            limit: String::new(),
            of: String::new(),
            cores: None,
            in_flight: None,
            median_ops_per_s: median,
            least_ops_per_s: at(0),
            most_ops_per_s: at(rates.len().saturating_sub(1)),
            mean_ns: cores * 1e9 / median,
            prefetch: None,
        }
    }
}

impl Row for LimitsRow {
    const HEAD: &'static [&'static str] =
        &["limit", "of", "cores", "in flight", "M ops/s", "least", "most", "ns", "prefetch"];

    fn cells(&self) -> Vec<String> {
        let number = |value: Option<u32>| value.map_or_else(String::new, |value| value.to_string());
        vec![
            self.limit.clone(),
            self.of.clone(),
            number(self.cores),
            number(self.in_flight),
            format!("{:.3}", self.median_ops_per_s / 1e6),
            format!("{:.3}", self.least_ops_per_s / 1e6),
            format!("{:.3}", self.most_ops_per_s / 1e6),
            format!("{:.1}", self.mean_ns),
            self.prefetch.clone().unwrap_or_default(),
        ]
    }
}
