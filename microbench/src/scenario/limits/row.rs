//! A row of the report of limits.

use probeline_report::results::format::{fixed, millions, text};
use probeline_report::results::{Layout, row};

use crate::meter::Operation;
use crate::run_report::{answer, head};
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
        min_ops_per_s: f64 = "least of the rounds" => ("min", millions, full()),
        max_ops_per_s: f64 = "greatest of the rounds" => ("max", millions, full()),
        mean_ns: f64 = "the time of one rank, or of the transport, for one operation" => ("ns", fixed::<1>, note()),
    }

    /// The summary quotes rows; `--full` prints all.
    fn brief(_: &[Self]) -> Layout { Layout::default() }
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

/// The measurements of a round: rows without rates, and the rate of each.
pub(crate) type Round = Vec<(LimitsRow, f64)>;

impl LimitsRow {
    /// Creates the row of what all ranks together read at random.
    pub(super) fn memory() -> Self {
        Self { limit: "random reads".to_owned(), of: "memory".to_owned(), ..Self::default() }
    }

    /// Creates the row of an operation of the transport.
    pub(super) fn operation(limit: String, of: String, in_flight: u32) -> Self {
        Self { limit, of, in_flight: Some(in_flight), ..Self::default() }
    }

    /// Adds the rates of all rounds, which `ranks` achieve together.
    fn with_rates(&self, rates: Vec<f64>, ranks: u32) -> Option<Self> {
        let Spread { median, min, max } = Spread::new(rates)?;
        Some(Self {
            median_ops_per_s: median,
            min_ops_per_s: min,
            max_ops_per_s: max,
            mean_ns: self.in_flight.map_or(f64::from(ranks), |_| 1.0) * 1e9 / median,
            ..self.clone()
        })
    }
}

pub(super) fn rows(ranks: u32, rounds: &[Round]) -> Vec<LimitsRow> {
    let rates = |at: usize| rounds.iter().filter_map(move |round| Some(round.get(at)?.1)).collect();
    let first = rounds.first().into_iter().flatten().enumerate();
    first.filter_map(|(at, (row, _))| row.with_rates(rates(at), ranks)).collect()
}

/// The limits of the transport that the summary quotes.
const QUOTED: [&str; 3] = ["READ 64 B", "CAS random word", "FAA random word"];

/// States the limit of memory, and the transport's with one operation in flight and at the highest
/// rate.
pub(super) fn summary(transport: &str, rows: &[LimitsRow]) -> Vec<String> {
    let memory = rows.iter().filter(|row| row.in_flight.is_none()).map(|row| {
        // Accesses overlap, so that the inverse of their rate is not the time of one access.
        let [what, rate] = [format!("{}, {}", row.limit, row.of), rate(row.median_ops_per_s)];
        vec![what, "-".to_owned(), rate, String::new()]
    });
    let of_transport = QUOTED.iter().filter_map(|limit| {
        let [one, best] = one_and_best(rows, limit)?;
        let in_flight = format!("with {} in flight", best.in_flight.unwrap_or(1));
        let best = rate(best.median_ops_per_s);
        Some(vec![format!("{limit}, {transport}"), time(one.mean_ns), best, in_flight])
    });
    let head = head(["limit", "one at a time", "at best", ""]);
    let title = "limits: what memory and transport do at best".to_owned();
    answer(title, (head, memory.chain(of_transport).collect()))
}

fn one_and_best<'r>(rows: &'r [LimitsRow], limit: &str) -> Option<[&'r LimitsRow; 2]> {
    let of = rows.iter().filter(|row| row.limit == limit && row.in_flight.is_some());
    let one = of.clone().find(|row| row.in_flight == Some(1))?;
    let best = of.max_by(|one, other| one.median_ops_per_s.total_cmp(&other.median_ops_per_s))?;
    Some([one, best])
}
