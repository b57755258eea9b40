//! A row of the report of limits.

use probeline_report::results::format::{fixed, millions, text};
use probeline_report::results::{Layout, Row, row};

use crate::cli::JobArgs;
use crate::meter::{Operation, Rate};
use crate::run_report::aligned;
use crate::series::Spread;
use crate::units::{rate, time};

row! {
    #[derive(Default)]
    pub(crate) struct LimitsRow {
        limit: String = "`random reads`, or an operation of the transport" => ("limit", text),
        of: String = "`memory`, or the transport" => ("of", text),
        in_flight: Option<u32> = "1 is a roundtrip; a result gives the address of the next operation"
            => ("in flight", text, note()),
        median_ops_per_s: f64 = "median of the rounds" => ("M ops/s", millions),
        min_ops_per_s: f64 = "least of the rounds" => ("least", millions, full()),
        max_ops_per_s: f64 = "greatest of the rounds" => ("most", millions, full()),
        mean_ns: f64 = "the time of one rank, or of the transport, for one operation" => ("ns", fixed::<1>, note()),
    }

    fn brief(rows: &[Self]) -> Layout { with_one_and_best(rows) }
}

/// Measurements of one round.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    /// Random reads of all ranks.
    pub(super) memory_per_s: Option<f64>,
    pub(super) transport: Vec<OfTransport>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct OfTransport {
    pub(super) rate: Rate,
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

pub(super) fn rows(job: &JobArgs, rounds: &[Round]) -> Vec<LimitsRow> {
    let memory = rounds.iter().filter_map(|round| round.memory_per_s).collect();
    let memory = LimitsRow::new(memory, f64::from(job.ranks)).map(|row| LimitsRow {
        limit: "random reads".to_owned(),
        of: "memory".to_owned(),
        ..row
    });
    let kinds = rounds.first().map_or(&[][..], |round| &round.transport);
    let of_transport = kinds.iter().enumerate().filter_map(|(at, first)| {
        let rates = rounds.iter().filter_map(|round| round.transport.get(at));
        Some(LimitsRow {
            limit: operation_name(first.rate.operation, first.one_word),
            of: job.transport.name().to_owned(),
            in_flight: Some(first.rate.depth),
            ..LimitsRow::new(rates.map(|one| one.rate.per_second).collect(), 1.0)?
        })
    });
    memory.into_iter().chain(of_transport).collect()
}

impl LimitsRow {
    /// Summarizes the rates of all rounds, which `ranks` achieve together.
    fn new(rates: Vec<f64>, ranks: f64) -> Option<Self> {
        let Spread { median, min, max } = Spread::new(rates)?;
        Some(Self {
            median_ops_per_s: median,
            min_ops_per_s: min,
            max_ops_per_s: max,
            mean_ns: ranks * 1e9 / median,
            ..Self::default()
        })
    }
}

/// The limits of the transport that the summary quotes.
const QUOTED: [&str; 3] = ["READ 64 B", "CAS random word", "FAA random word"];
/// Further limits of the transport in the short table.
const BRIEF: [&str; 5] = ["READ 8 B", "READ 512 B", "READ 4096 B", "CAS one word", "FAA one word"];

/// States the limit of memory, and the transport's with one operation in flight and at the highest
/// rate.
pub(super) fn summary(transport: &str, rows: &[LimitsRow]) -> Vec<String> {
    let mut lines = Vec::new();
    for row in rows.iter().filter(|row| row.in_flight.is_none()) {
        let what = format!("{}, {}", row.limit, row.of);
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

/// Keeps the limit of memory, and some operations of the transport with one in flight and at the
/// highest rate.
fn with_one_and_best(rows: &[LimitsRow]) -> Layout {
    let mut shown: Vec<LimitsRow> =
        rows.iter().filter(|row| row.in_flight.is_none()).cloned().collect();
    let mut limits: Vec<&str> = rows.iter().map(|row| &*row.limit).collect();
    limits.retain(|limit| QUOTED.contains(limit) || BRIEF.contains(limit));
    limits.dedup();
    for [one, best] in limits.into_iter().filter_map(|limit| one_and_best(rows, limit)) {
        shown.push(one.clone());
        if best.in_flight != one.in_flight {
            shown.push(best.clone());
        }
    }
    LimitsRow::lay_out_columns_that_matter(&shown)
}
