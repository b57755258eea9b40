//! A row of the report: a latency or a throughput, and the paper's figure.

use probeline_profile::Shape;
use probeline_profile::paper;
use probeline_report::results::format::{fixed, text};
use probeline_report::results::{Layout, row};
use probeline_simulate::{LatencyPlan, LatencyRow, Setup, ThroughputPlan, ThroughputRow};

use super::SimulateArgs;
use crate::units::rate;

row! {
    #[derive(Default)]
    pub(crate) struct SimulateRow {
        pub(super) experiment: String = "`latency` or `throughput`",
        pub(super) workload: Option<String> = "of a throughput" => {"what", SimulateRow::what},
        pub(super) machines: u32 => {"on", SimulateRow::cluster},
        pub(super) ranks_per_machine: u32,
        chunk_buckets: u32 = "C" => ("C", text),
        load_factor: f64 = "of a latency at its end, of a throughput at its start" => ("load", fixed::<2>),
        operations: u64 = "measured",
        full: u64 = "operations of a latency that found no empty bucket in M chunks",
        pub(super) mean_latency_ns: f64 = "from an operation's start to its end" => ("mean ns", fixed::<0>),
        outgoing_roundtrips: f64 = "chunk READs that an operation posts, mean"
            => ("out", fixed::<4>, full().note()),
        effective_roundtrips: f64 = "chunk READs that an operation waits for, mean"
            => ("eff", fixed::<4>, full().note()),
        pub(super) ops_per_s: Option<f64> = "find-or-puts per second of all ranks" => ("M op/s", million, note()),
        truncated_ops_per_s: Option<f64> = "with each operation's time cut to whole microseconds"
            => ("cut M op/s", million, full()),
        pub(super) paper_mean_latency_ns: Option<f64> = "the authors' figure" => {"paper", SimulateRow::paper_cell},
        paper_outgoing_roundtrips: Option<f64> = "the authors' figure",
        pub(super) paper_ops_per_s: Option<f64> = "the authors' figure",
        pub(super) paper_runs: Option<u32> = "number of runs in the mean that is the authors' figure",
        pub(super) by_paper: Option<f64> = "the model's figure / the authors' figure"
            => ("by paper", fixed::<3>, note()),
        pub(super) roundtrips_by_paper: Option<f64> = "the same ratio of outgoing roundtrips",
        pub(super) bound_ops_per_s: Option<f64> = "highest that the profile allows; --full names the resource"
            => ("bound", million, note()),
        pub(super) bound_share: Option<f64> = "throughput / bound" => ("of bound", fixed::<2>),
        pub(super) bound: Option<String> = "the resource that sets the bound" => ("bound by", text, full()),
    }

    /// The summary quotes rows; `--full` prints all.
    fn brief(_: &[Self]) -> Layout { Layout::default() }
}

/// The rate, in operations per second, below which two decimals of millions are too coarse.
const SLOW: f64 = 1e5;

fn million(rate: &Option<f64>) -> String {
    match *rate {
        Some(rate) if rate < SLOW => format!("{:.5}", rate / 1e6),
        Some(rate) => format!("{:.2}", rate / 1e6),
        None => String::new(),
    }
}

impl SimulateRow {
    fn of(setup: &Setup, load_percent: u32) -> Self {
        Self {
            machines: setup.shape.machines,
            ranks_per_machine: setup.shape.ranks_per_machine,
            chunk_buckets: setup.table.chunk_buckets,
            load_factor: f64::from(load_percent) / 100.0,
            ..Self::default()
        }
    }

    pub(super) fn latency(plan: &LatencyPlan, row: &LatencyRow) -> Self {
        let theirs_ns: Option<fn(&paper::Latency) -> f64> = match plan.setup.shape {
            Shape { machines: 2, ranks_per_machine: 1 } => Some(|figure| figure.remote_ns),
            Shape { machines: 1, ranks_per_machine: 2 } => Some(|figure| figure.local_ns),
            _ => None,
        };
        let figure = paper::latencies().into_iter().find(|figure| {
            theirs_ns.is_some()
                && (figure.chunk_buckets, figure.load_percent)
                    == (row.chunk_buckets, row.load_percent)
        });
        let paper_ns = figure.as_ref().zip(theirs_ns).map(|(figure, theirs_ns)| theirs_ns(figure));
        let paper_out = figure.map(|figure| figure.outgoing_roundtrips);
        Self {
            experiment: "latency".to_owned(),
            operations: row.operations,
            full: row.full,
            mean_latency_ns: row.mean_ns,
            outgoing_roundtrips: row.outgoing_roundtrips,
            effective_roundtrips: row.effective_roundtrips,
            paper_mean_latency_ns: paper_ns,
            paper_outgoing_roundtrips: paper_out,
            by_paper: paper_ns.map(|paper| row.mean_ns / paper),
            roundtrips_by_paper: paper_out.map(|paper| row.outgoing_roundtrips / paper),
            ..Self::of(&plan.setup, row.load_percent)
        }
    }

    /// Creates the row of a throughput run. A run in which an operation found no room fails and has
    /// no row.
    pub(super) fn throughput(
        args: &SimulateArgs,
        plan: &ThroughputPlan,
        row: &ThroughputRow,
    ) -> Self {
        let figure = paper::throughputs().into_iter().find(|figure| {
            (figure.workload, figure.machines, figure.ranks_per_machine)
                == (row.workload, row.shape.machines, row.shape.ranks_per_machine)
        });
        let truncated = row.cut_ops_per_s.filter(|_| args.truncates());
        let paper_ops = figure.map(|figure| figure.ops_per_s);
        // Runs with several operations in flight have no truncated rate and are compared as they
        // are.
        let compared = if args.truncates() { truncated } else { Some(row.ops_per_s) };
        Self {
            experiment: "throughput".to_owned(),
            workload: Some(row.workload.name().to_owned()),
            operations: row.operations,
            mean_latency_ns: row.mean_ns,
            outgoing_roundtrips: row.outgoing_roundtrips,
            effective_roundtrips: row.effective_roundtrips,
            ops_per_s: Some(row.ops_per_s),
            truncated_ops_per_s: truncated,
            bound_ops_per_s: row.bound.as_ref().map(|bound| bound.ops_per_s),
            bound_share: row.bound_share(),
            bound: row.bound.as_ref().map(|bound| bound.name.clone()),
            paper_ops_per_s: paper_ops,
            paper_runs: figure.map(|figure| figure.runs),
            by_paper: compared.zip(paper_ops).map(|(model, paper)| model / paper),
            ..Self::of(&plan.setup, plan.load_percent)
        }
    }
}

/// The load factors of the latencies that the summary quotes if there are any: the first and the
/// last of the paper's Table 1.
const LOAD_FACTORS: [f64; 2] = [0.5, 0.9];

impl SimulateRow {
    pub(super) fn cells_name(&self) -> String {
        format!("C = {} at {:.2}", self.chunk_buckets, self.load_factor)
    }

    fn what(&self) -> String {
        self.workload.clone().unwrap_or_else(|| "latency".to_owned())
    }

    pub(super) fn cluster(&self) -> String {
        format!("{} x {}", self.machines, self.ranks_per_machine)
    }

    fn paper_cell(&self) -> String {
        match self.paper_mean_latency_ns {
            Some(ns) => format!("{ns:.0}"),
            None => million(&self.paper_ops_per_s),
        }
    }

    /// States the bound of a throughput, and its share.
    pub(super) fn verdict(&self) -> String {
        match self.bound_ops_per_s.zip(self.bound_share) {
            None => "no bound in the profile".to_owned(),
            Some((ops_per_s, share)) => format!("{share:.2} of the bound {}", rate(ops_per_s)),
        }
    }

    /// Returns whether the summary omits this latency: another one of the same C and cluster has a
    /// load factor that it quotes.
    pub(super) fn is_detail(&self, rows: &[Self]) -> bool {
        let series = |row: &Self| {
            (row.experiment.clone(), row.chunk_buckets, row.machines, row.ranks_per_machine)
        };
        let is_quoted = |row: &Self| LOAD_FACTORS.contains(&row.load_factor);
        !is_quoted(self) && rows.iter().any(|row| is_quoted(row) && series(row) == series(self))
    }

    pub(super) fn full_share(&self) -> f64 {
        self.full as f64 / self.operations.max(1) as f64
    }
}
