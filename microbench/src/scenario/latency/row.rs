//! A row of `bench-latency`, its summary, and its short table of find-or-puts.

use probeline_profile::paper::{self, Latency as Figure};
use probeline_results::format::{fixed, text};
use probeline_results::{Layout, Row, one_line, row};

use super::LatencyArgs;
use crate::cli::TransportName;
use crate::latency::Latency;
use crate::run_report::{aligned, some_of};
use crate::units::time;

row! {
    #[derive(Default)]
    pub(crate) struct LatencyRow {
        pub(super) operation: String => ("operation", text),
        pub(super) chunk_buckets: Option<u32> => ("C", text),
        pub(super) load_factor: Option<f64> => ("load", fixed::<2>),
        pub(super) operations: u64 => ("ops", text),
        pub(super) min_ns: u64 => ("min", text),
        pub(super) mean_ns: f64 => ("mean", fixed::<1>),
        pub(super) p50_ns: u64 => ("p50", text),
        pub(super) p90_ns: u64 => ("p90", text),
        pub(super) p99_ns: u64 => ("p99", text),
        pub(super) p99_9_ns: u64 => ("p99.9", text),
        pub(super) max_ns: u64 => ("max ns", text),
        pub(super) floor_ns: Option<f64> => ("floor", fixed::<1>),
        pub(super) times_floor: Option<f64> => ("x floor", fixed::<3>),
        pub(super) effective_roundtrips: Option<f64> => ("eff", fixed::<2>),
        pub(super) outgoing_roundtrips: Option<f64> => ("out", fixed::<2>),
        pub(super) cache_hit_share: Option<f64> =>
            ("cached", fixed::<3>, note("the share of operations that the cache answered")),
        /// Latencies in nanoseconds in ascending order, each with its number of operations.
        #[serde(serialize_with = "one_line")]
        pub(super) histogram: Vec<[u64; 2]>,
        /// Whether the time limit expired before the last operation.
        #[serde(skip)]
        pub(super) cut: bool,
    }
}

impl LatencyRow {
    pub(super) fn new(operation: &str, latency: Latency) -> Self {
        Self {
            operation: operation.to_owned(),
            operations: latency.operations,
            min_ns: latency.min_ns,
            mean_ns: latency.mean_ns,
            p50_ns: latency.p50_ns,
            p90_ns: latency.p90_ns,
            p99_ns: latency.p99_ns,
            p99_9_ns: latency.p99_9_ns,
            max_ns: latency.max_ns,
            histogram: latency.histogram,
            cut: latency.cut,
            ..Self::default()
        }
    }
}

/// Rows that the summary quotes, if they were measured.
const OPERATIONS: [&str; 2] = ["READ 64 B", "CAS random word"];
const LOAD_FACTORS: [f64; 2] = [0.5, 0.9];
const CHUNK_BUCKETS: [u32; 2] = [8, 32];
/// The maximum number of load factors and of Cs in the short table, which must fit a terminal.
const MOST_LOAD_FACTORS: usize = 5;
const MOST_CHUNK_BUCKETS: usize = 8;

const NONE: &str = "-";

/// The measurements of the paper's authors to which a run is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paper {
    OneMachine,
    TwoMachines,
}

impl Paper {
    /// Returns the authors' mean time of an insert at the C and load factor of `row`, in
    /// nanoseconds.
    pub(super) fn ns(self, row: &LatencyRow) -> Option<f64> {
        let (c, load_factor) = row.chunk_buckets.zip(row.load_factor)?;
        let same = |figure: &Figure| {
            figure.chunk_buckets == c
                && (f64::from(figure.load_percent) / 100.0 - load_factor).abs() < 1e-9
        };
        let figure = paper::latencies().into_iter().find(same)?;
        (row.operation == "inserted").then_some(match self {
            Self::OneMachine => figure.local_ns,
            Self::TwoMachines => figure.remote_ns,
        })
    }

    pub(super) fn note(self) -> &'static str {
        match self {
            Self::OneMachine => {
                "paper: the authors' mean insert, both processes on one machine of DAS-5 (PPAM 2015)"
            }
            Self::TwoMachines => {
                "paper: the authors' mean insert between two machines of DAS-5, FDR InfiniBand (PPAM 2015)"
            }
        }
    }
}

impl LatencyArgs {
    /// Returns the paper's measurements that are comparable to this run on `machines`, if any.
    pub(super) fn paper(&self, machines: usize) -> Option<Paper> {
        let two_machines = match self.job.transport {
            TransportName::Shm => false,
            TransportName::Sim if self.job.sim.is_papers_cluster() => true,
            TransportName::Sim => return None,
            _ if machines == 2 => true,
            _ => return None,
        };
        let comparable = self.job.ranks == 2 && !self.table.adaptive_chunks;
        comparable.then_some(if two_machines { Paper::TwoMachines } else { Paper::OneMachine })
    }

    pub(super) fn summary(&self, rows: &[LatencyRow], paper: Option<Paper>) -> Vec<String> {
        let title = format!(
            "bench-latency: {}, {} ranks, one operation at a time{}",
            self.job.transport.name(),
            self.job.ranks,
            if self.config(8).direct { "; find-or-put by the CPU's own loads" } else { "" }
        );
        let head = ["operation", "p50", "p99", "mean", "floor", "x floor", "paper"];
        let columns = if paper.is_some() { head.len() } else { head.len() - 1 };
        let lines = quoted(rows).into_iter().map(|row| {
            let mut line = line(row, paper);
            line.truncate(columns);
            line
        });
        let lines = aligned(&head[..columns], lines.collect());
        [title].into_iter().chain(lines).collect()
    }
}

fn line(row: &LatencyRow, paper: Option<Paper>) -> Vec<String> {
    let cell = |value: Option<f64>| value.map_or_else(|| NONE.to_owned(), time);
    let name = match row.chunk_buckets.zip(row.load_factor) {
        Some((c, load_factor)) => {
            format!("find-or-put {:<8}  C {c:<3}  load {load_factor}", row.operation)
        }
        None => row.operation.clone(),
    };
    vec![
        name,
        time(row.p50_ns as f64),
        time(row.p99_ns as f64),
        time(row.mean_ns),
        cell(row.floor_ns),
        row.times_floor.map_or_else(|| NONE.to_owned(), |times| format!("{times:.2}")),
        cell(paper.and_then(|paper| paper.ns(row))),
    ]
}

fn quoted(rows: &[LatencyRow]) -> Vec<&LatencyRow> {
    let of = |name: &&str| rows.iter().find(|row| row.operation == *name);
    let mut all: Vec<&LatencyRow> = OPERATIONS.iter().filter_map(of).collect();
    let chunks = wanted(&chunk_buckets(rows), &CHUNK_BUCKETS);
    for c in chunks {
        for load_factor in wanted(&load_factors(rows), &LOAD_FACTORS) {
            all.extend(["found", "inserted"].iter().filter_map(|name| {
                rows.iter().find(|row| is_of(row, name, c) && row.load_factor == Some(load_factor))
            }));
        }
    }
    all
}

fn is_of(row: &LatencyRow, operation: &str, chunk_buckets: u32) -> bool {
    row.operation == operation && row.chunk_buckets == Some(chunk_buckets)
}

/// Returns `wanted` if `all` contains it, otherwise as many elements that are spread over `all`.
fn wanted<T: Copy + PartialEq>(all: &[T], wanted: &[T]) -> Vec<T> {
    match wanted.iter().all(|value| all.contains(value)) {
        true => wanted.to_vec(),
        false => some_of(all, wanted.len()),
    }
}

fn chunk_buckets(rows: &[LatencyRow]) -> Vec<u32> {
    distinct(rows.iter().filter_map(|row| row.chunk_buckets))
}

fn load_factors(rows: &[LatencyRow]) -> Vec<f64> {
    distinct(rows.iter().filter_map(|row| row.load_factor))
}

fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    all.for_each(|value| {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    });
    distinct
}

impl Row for LatencyRow {
    /// Lays out the find-or-puts by C and load factor: p50 and its ratio to the floor.
    fn brief(rows: &[Self]) -> Layout {
        let load_factors = some_of(&load_factors(rows), MOST_LOAD_FACTORS);
        let at = load_factors.iter().map(|load_factor| format!("load {load_factor}"));
        let head = ["p50, x floor", "C"].map(str::to_owned).into_iter().chain(at).collect();
        let mut lines = Vec::new();
        for operation in ["found", "inserted"] {
            for c in some_of(&chunk_buckets(rows), MOST_CHUNK_BUCKETS) {
                let cell = |load_factor: &f64| {
                    let mut of = rows.iter().filter(|row| is_of(row, operation, c));
                    let row = of.find(|row| row.load_factor == Some(*load_factor));
                    row.map_or_else(String::new, LatencyRow::brief_cell)
                };
                let name = [operation.to_owned(), c.to_string()];
                lines.push(name.into_iter().chain(load_factors.iter().map(cell)).collect());
            }
        }
        (head, lines)
    }
}

impl LatencyRow {
    fn brief_cell(&self) -> String {
        let times = self.times_floor.map_or_else(String::new, |times| format!(" x{times:.2}"));
        format!("{}{times}", time(self.p50_ns as f64))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::latency::Recorder;
    use crate::size::Size;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        latency: LatencyArgs,
    }

    fn args(options: &[&str]) -> LatencyArgs {
        let all = ["bench-latency"].iter().chain(options);
        let mut args = Command::try_parse_from(all).unwrap().latency;
        args.job.settle(Size::mib(32), Size::mib(1), &[8]).unwrap();
        args
    }

    fn row(operation: &str, chunk_buckets: Option<u32>, load_factor: Option<f64>) -> LatencyRow {
        let latency = Recorder::new(0).unwrap().latency();
        let times_floor = load_factor.map(|_| 1.25);
        LatencyRow {
            chunk_buckets,
            load_factor,
            times_floor,
            ..LatencyRow::new(operation, latency)
        }
    }

    fn rows(chunk_buckets: &[u32], load_factors: &[f64]) -> Vec<LatencyRow> {
        let mut rows = vec![row("READ 64 B", None, None), row("CAS random word", None, None)];
        for &c in chunk_buckets {
            for &load_factor in load_factors {
                let of = |name| row(name, Some(c), Some(load_factor));
                rows.extend(["inserted", "found"].map(of));
            }
        }
        rows
    }

    #[test]
    fn only_comparable_runs_have_the_papers_figure() {
        let paper = |options: &[&str], machines| args(options).paper(machines);
        let das5 = ["--transport", "sim", "--sim-model", "oortwijn2015"];
        assert_eq!(paper(&[], 1), Some(Paper::OneMachine));
        assert_eq!(paper(&["--ranks", "3"], 1), None);
        assert_eq!(paper(&["--adaptive-chunks"], 1), None);
        assert_eq!(paper(&["--transport", "verbs"], 1), None);
        assert_eq!(paper(&["--transport", "verbs"], 2), Some(Paper::TwoMachines));
        assert_eq!(paper(&["--transport", "sim"], 1), None);
        assert_eq!(paper(&das5, 1), Some(Paper::TwoMachines));
        let profile = ["--transport", "sim", "--sim-profile"];
        assert_eq!(paper(&[&profile[..], &["das5-fdr"]].concat(), 1), Some(Paper::TwoMachines));
        assert_eq!(paper(&[&profile[..], &["soft-roce"]].concat(), 1), None);
        let one = ["das5-fdr", "--sim-ranks-per-machine", "2"];
        assert_eq!(paper(&[&profile[..], &one].concat(), 1), None);
    }

    /// The authors' result files have 286.67 ns on one machine and 3686 ns between two machines.
    #[test]
    fn the_papers_figure_is_that_of_the_row() {
        let insert = row("inserted", Some(8), Some(0.5));
        assert_eq!(Paper::OneMachine.ns(&insert), Some(286.67));
        assert_eq!(Paper::TwoMachines.ns(&insert), Some(3686.0));
        assert_eq!(Paper::OneMachine.ns(&row("found", Some(8), Some(0.5))), None);
        assert_eq!(Paper::OneMachine.ns(&row("inserted", Some(24), Some(0.5))), None);
        assert_eq!(Paper::OneMachine.ns(&row("inserted", Some(8), Some(0.55))), None);
    }

    #[test]
    fn the_summary_and_every_table_fit_a_terminal() {
        let many: Vec<f64> = (1..40).map(|step| f64::from(step) * 0.02).collect();
        let chunks: Vec<u32> = (1..40).map(|c| c * 8).collect();
        for (chunks, load_factors) in [
            (&[8, 16, 32, 64, 128][..], &[0.1, 0.3, 0.5, 0.7, 0.8, 0.9][..]),
            (&chunks[..], &many[..]),
            (&[24], &[0.3]),
        ] {
            let rows = rows(chunks, load_factors);
            let summary = args(&[]).summary(&rows, Some(Paper::OneMachine));
            assert!((5..=12).contains(&summary.len()), "{summary:#?}");
            let (head, lines) = LatencyRow::brief(&rows);
            assert!((2..=16).contains(&lines.len()) && head.len() <= 7, "{head:?} {lines:?}");
            assert!(lines.iter().flatten().all(|cell| !cell.is_empty()), "{lines:?}");
        }
        let quoted = rows(&[8, 16, 32, 64, 128], &[0.1, 0.5, 0.9]);
        let summary = args(&[]).summary(&quoted, None).join("\n");
        for place in ["C 8    load 0.5", "C 8    load 0.9", "C 32   load 0.5", "C 32   load 0.9"] {
            assert_eq!(summary.matches(place).count(), 2, "{place}: {summary}");
        }
        assert!(!summary.contains("paper"), "{summary}");
    }

    #[test]
    fn lines_have_the_numbers_of_their_rows() {
        let row = LatencyRow {
            p50_ns: 120,
            p99_ns: 1_500,
            mean_ns: 140.0,
            floor_ns: Some(110.0),
            ..row("inserted", Some(8), Some(0.5))
        };
        let name = "find-or-put inserted  C 8    load 0.5";
        let figures = ["120 ns", "1.50 us", "140 ns", "110 ns", "1.25", "287 ns"];
        assert_eq!(line(&row, Some(Paper::OneMachine)), [&[name][..], &figures].concat());
    }
}
