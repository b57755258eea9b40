//! A row of the report of limits.

use probeline_limits::memory::Rate;
use probeline_limits::remote::{self, Operation};
use probeline_results::format::{fixed, millions, text};
use probeline_results::{Layout, Row, row};

use crate::cli::JobArgs;
use crate::run_report::aligned;
use crate::units::{rate, time};

row! {
    #[derive(Default)]
    pub(crate) struct LimitsRow {
        limit: String => ("limit", text),
        of: String => ("of", text),
        cores: Option<u32> => ("cores", text),
        in_flight: Option<u32> => (
            "in flight",
            text,
            note("1 is a roundtrip; a result gives the address of the next operation")
        ),
        median_ops_per_s: f64 => ("M ops/s", millions),
        least_ops_per_s: f64 => ("least", millions, full()),
        most_ops_per_s: f64 => ("most", millions, full()),
        mean_ns: f64 => (
            "ns",
            fixed::<1>,
            note("the time of one core, or of the transport, for one operation")
        ),
        prefetch: Option<String> => (
            "prefetch",
            text,
            full().note("how many operations ahead lines are prefetched, and into which cache")
        ),
    }
}

/// The limits of memory: those of batched finds and inserts.
const OF_MEMORY: [&str; 2] = ["prefetched reads", "prefetched read, CAS"];

/// Returns the rows of memory with `pages`, from the rates of each core in each round.
pub(super) fn of_memory(pages: &str, rounds: &[Vec<[Rate; 2]>]) -> Vec<LimitsRow> {
    let row = |(at, &limit): (usize, &&str)| {
        let of_round = |cores: &Vec<[Rate; 2]>| cores.iter().map(|core| core[at].per_second).sum();
        let mut all: Vec<f64> = rounds.iter().map(of_round).collect();
        all.sort_by(f64::total_cmp);
        let cores = u32::try_from(rounds.first().map_or(0, Vec::len)).unwrap_or(u32::MAX);
        let fastest = rounds.last().and_then(|cores| cores.first()?[at].by);
        LimitsRow {
            limit: limit.to_owned(),
            of: pages.to_owned(),
            cores: Some(cores),
            prefetch: fastest.map(|ahead| ahead.to_string()),
            ..LimitsRow::new(all.into_iter(), f64::from(cores))
        }
    };
    OF_MEMORY.iter().enumerate().map(row).collect()
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct OfTransport {
    pub(super) rate: remote::Rate,
    pub(super) one_word: bool,
}

/// Returns the name of an operation, as in `bench-latency`.
pub(crate) fn operation_name(operation: Operation, one_word: bool) -> String {
    let place = if one_word { "one word" } else { "random word" };
    match operation {
        Operation::Read { words } => format!("READ {} B", words * 8),
        Operation::Write { words } => format!("WRITE {} B", words * 8),
        Operation::Swap => format!("CAS {place}"),
        Operation::Add => format!("FAA {place}"),
    }
}

pub(super) fn of_transport(job: &JobArgs, rounds: &[Vec<OfTransport>]) -> Vec<LimitsRow> {
    let Some(first) = rounds.first() else { return Vec::new() };
    let row = |(at, of_first): (usize, &OfTransport)| {
        let rates = rounds.iter().filter_map(|round| round.get(at));
        let mut all: Vec<f64> = rates.map(|one| one.rate.per_second).collect();
        all.sort_by(f64::total_cmp);
        LimitsRow {
            limit: operation_name(of_first.rate.operation, of_first.one_word),
            of: job.transport.name().to_owned(),
            in_flight: Some(of_first.rate.depth),
            ..LimitsRow::new(all.into_iter(), 1.0)
        }
    };
    first.iter().enumerate().map(row).collect()
}

impl LimitsRow {
    /// Summarizes the rates of all rounds, in ascending order, that `cores` achieve together.
    fn new(rising: impl ExactSizeIterator<Item = f64>, cores: f64) -> Self {
        let rates: Vec<f64> = rising.collect();
        let at = |place: usize| rates.get(place).copied().unwrap_or(0.0);
        let median = at(rates.len() / 2);
        Self {
            median_ops_per_s: median,
            least_ops_per_s: at(0),
            most_ops_per_s: at(rates.len().saturating_sub(1)),
            mean_ns: cores * 1e9 / median,
            ..Self::default()
        }
    }
}

/// The limits of the transport that the summary quotes.
const QUOTED: [&str; 3] = ["READ 64 B", "CAS random word", "FAA random word"];
/// Further limits of the transport in the short table.
const BRIEF: [&str; 5] = ["READ 8 B", "READ 512 B", "READ 4096 B", "CAS one word", "FAA one word"];

/// States the memory limits, and the transport's with one operation in flight and at the highest
/// rate.
pub(super) fn summary(transport: &str, rows: &[LimitsRow]) -> Vec<String> {
    let mut lines = Vec::new();
    for row in rows.iter().filter(|row| row.cores.is_some()) {
        let what = format!("{}, {}, cores: {}", row.limit, row.of, row.cores.unwrap_or(1));
        // Accesses overlap, so that the inverse of their rate is not the time of one access.
        lines.push(vec![what, "-".to_owned(), rate(row.median_ops_per_s), String::new()]);
    }
    for limit in QUOTED {
        let Some([one, best]) = one_and_best(rows, limit) else { continue };
        let in_flight = format!("with {} in flight", best.in_flight.unwrap_or(1));
        lines.push(vec![
            format!("{limit}, {transport}"),
            time(one.mean_ns),
            rate(best.median_ops_per_s),
            in_flight,
        ]);
    }
    let lines = aligned(&["limit", "one at a time", "at best", ""], lines);
    ["limits: what memory and transport do at best".to_owned()].into_iter().chain(lines).collect()
}

fn one_and_best<'r>(rows: &'r [LimitsRow], limit: &str) -> Option<[&'r LimitsRow; 2]> {
    let of = rows.iter().filter(|row| row.limit == limit && row.in_flight.is_some());
    let one = of.clone().find(|row| row.in_flight == Some(1))?;
    let best = of.max_by(|one, other| one.median_ops_per_s.total_cmp(&other.median_ops_per_s))?;
    Some([one, best])
}

impl Row for LimitsRow {
    /// Keeps all memory limits, and some operations of the transport with one in flight and at the
    /// highest rate.
    fn brief(rows: &[Self]) -> Layout {
        let mut shown: Vec<Self> = rows.iter().filter(|row| row.cores.is_some()).cloned().collect();
        let mut limits: Vec<&str> = rows.iter().map(|row| &*row.limit).collect();
        limits.retain(|limit| QUOTED.contains(limit) || BRIEF.contains(limit));
        limits.dedup();
        for [one, best] in limits.into_iter().filter_map(|limit| one_and_best(rows, limit)) {
            shown.push(one.clone());
            if best.in_flight != one.in_flight {
                shown.push(best.clone());
            }
        }
        Self::of_columns_that_matter(&shown)
    }
}
