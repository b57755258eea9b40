//! A row of the report: a latency or a throughput, and the paper's figure.

use probeline_profile::Shape;
use probeline_profile::paper;
use probeline_results::format::{fixed, text};
use probeline_results::{Layout, Row, row};
use probeline_simulate::{LatencyPlan, LatencyRow, Limit, Setup, ThroughputPlan, ThroughputRow};

use super::SimulateArgs;
use crate::units::rate;

row! {
    #[derive(Default)]
    pub(crate) struct SimulateRow {
        pub(super) experiment: String,
        pub(super) workload: Option<String> => {"what", SimulateRow::what},
        pub(super) machines: u32 => {"on", SimulateRow::cluster},
        pub(super) ranks_per_machine: u32,
        way: String => ("way", text, full()),
        /// C; beyond the paper the maximum, up to which each operation chooses its own C.
        chunk_buckets: u32 => {"C", SimulateRow::chunk_cell},
        /// The mean number of buckets that a READ transfers; throughputs only.
        mean_chunk_buckets: Option<f64> =>
            ("mean C", fixed::<1>, full().note("buckets per READ, a mean")),
        load_factor: f64 => ("load", fixed::<2>),
        operations: u64,
        full: u64,
        pub(super) mean_latency_ns: f64 => ("mean ns", fixed::<0>),
        outgoing_roundtrips: f64 => ("out", fixed::<4>, full()),
        effective_roundtrips: f64 => ("eff", fixed::<4>, full()),
        pub(super) ops_per_s: Option<f64> =>
            ("M op/s", million, note("find-or-puts per second of all ranks")),
        /// The throughput if each operation's time is truncated to whole microseconds.
        truncated_ops_per_s: Option<f64> => ("cut M op/s", million, full()),
        pub(super) paper_mean_latency_ns: Option<f64> => {"paper", SimulateRow::paper_cell},
        paper_outgoing_roundtrips: Option<f64>,
        pub(super) paper_ops_per_s: Option<f64>,
        pub(super) paper_runs: Option<u32>,
        pub(super) by_paper: Option<f64> =>
            ("by paper", fixed::<3>, note("the model's figure / the authors' figure")),
        pub(super) roundtrips_by_paper: Option<f64>,
        /// The highest throughput that the profile allows for the least work of the operations.
        pub(super) bound_ops_per_s: Option<f64> =>
            ("bound", million, note("highest that the profile allows; --full names the resource")),
        pub(super) bound_share: Option<f64> => ("of bound", fixed::<2>),
        /// The resource that sets the bound.
        pub(super) bound: Option<String> => ("bound by", text, full()),
        /// The limit that a throughput is at. Without one, operations wait for roundtrips only.
        limit: Option<String> => {
            "limit",
            SimulateRow::limit_cell,
            note("resource of the profile used to 90 % or more; in brackets the most used one")
        },
        /// The limit with the highest utilization, whether the throughput is at it or not.
        nearest_limit: Option<String>,
        limit_used: Option<f64>,
        pub(super) nic_reads_per_s: Option<f64>,
        pub(super) nic_atomics_per_s: Option<f64>,
        /// Whether `--one-roundtrip auto` did not claim along with first READs.
        #[serde(skip)]
        pub(super) spares_claims: bool,
        /// Whether `--read-ahead likely` did not read ahead.
        #[serde(skip)]
        pub(super) spares_reads: bool,
    }
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
    fn of(args: &SimulateArgs, setup: &Setup, load_percent: u32) -> Self {
        Self {
            way: args.way().to_owned(),
            machines: setup.shape.machines,
            ranks_per_machine: setup.shape.ranks_per_machine,
            chunk_buckets: setup.table.chunk_buckets,
            load_factor: f64::from(load_percent) / 100.0,
            ..Self::default()
        }
    }

    pub(super) fn latency(args: &SimulateArgs, plan: &LatencyPlan, row: &LatencyRow) -> Self {
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
            ..Self::of(args, &plan.setup, row.load_percent)
        }
    }

    /// A throughput run in which an operation found no room fails and has no row.
    pub(super) fn throughput(
        args: &SimulateArgs,
        plan: &ThroughputPlan,
        row: &ThroughputRow,
    ) -> Self {
        let figure = paper::throughputs().into_iter().find(|figure| {
            (figure.workload, figure.machines, figure.ranks_per_machine)
                == (row.workload, row.shape.machines, row.shape.ranks_per_machine)
        });
        let (given, loaded) = (plan.setup.table, plan.setup.under_load().table);
        let truncated = row.cut_ops_per_s.filter(|_| args.truncates());
        let paper_ops = figure.map(|figure| figure.ops_per_s);
        let (limit, name) = (row.limit.as_ref(), |limit: &Limit| limit.name.clone());
        // Runs with several operations in flight have no truncated rate and are compared as they
        // are.
        let compared = if args.truncates() { truncated } else { Some(row.ops_per_s) };
        Self {
            experiment: "throughput".to_owned(),
            workload: Some(row.workload.name().to_owned()),
            mean_chunk_buckets: row.mean_chunk_buckets,
            operations: row.operations,
            mean_latency_ns: row.mean_ns,
            outgoing_roundtrips: row.outgoing_roundtrips,
            effective_roundtrips: row.effective_roundtrips,
            ops_per_s: Some(row.ops_per_s),
            truncated_ops_per_s: truncated,
            bound_ops_per_s: row.bound.as_ref().map(|bound| bound.ops_per_s),
            bound_share: row.bound_share(),
            bound: row.bound.as_ref().map(|bound| bound.name.clone()),
            limit: limit.filter(|limit| limit.is_met()).map(name),
            nearest_limit: limit.map(name),
            limit_used: limit.map(|limit| limit.used),
            nic_reads_per_s: Some(row.load.reads_per_s),
            nic_atomics_per_s: Some(row.load.atomics_per_s),
            paper_ops_per_s: paper_ops,
            paper_runs: figure.map(|figure| figure.runs),
            by_paper: compared.zip(paper_ops).map(|(model, paper)| model / paper),
            spares_claims: loaded.one_roundtrip != given.one_roundtrip,
            spares_reads: loaded.read_ahead != given.read_ahead,
            ..Self::of(args, &plan.setup, plan.load_percent)
        }
    }
}

/// The number of rows above which the short table omits details, and the load factors of the
/// latencies that it keeps.
const MOST_BRIEF: usize = 30;
const LOAD_FACTORS: [f64; 2] = [0.5, 0.9];

impl SimulateRow {
    pub(super) fn cells_name(&self) -> String {
        let is = if self.is_adaptive() { "up to" } else { "=" };
        format!("C {is} {} at {:.2}", self.chunk_buckets, self.load_factor)
    }

    fn is_adaptive(&self) -> bool {
        self.way == "beyond"
    }

    fn chunk_cell(&self) -> String {
        let most = if self.is_adaptive() { "up to " } else { "" };
        format!("{most}{}", self.chunk_buckets)
    }

    /// Returns whether this latency equals that of `other`, which has a smaller maximum C. Then no
    /// operation chose a larger C. The paper's figures must be the same as well.
    fn repeats(&self, other: &Self) -> bool {
        let found = |row: &Self| {
            let cluster = (row.machines, row.ranks_per_machine, row.operations, row.full);
            let means = [row.load_factor, row.mean_latency_ns, row.outgoing_roundtrips];
            // The paper's figures belong to this C, whichever C operations choose here.
            let papers = (row.paper_mean_latency_ns, row.paper_outgoing_roundtrips);
            (row.workload.clone(), cluster, means, row.effective_roundtrips, papers)
        };
        let latency = self.workload.is_none() && self.is_adaptive();
        latency && other.chunk_buckets < self.chunk_buckets && found(self) == found(other)
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
        let bound = self.bound.as_deref().zip(self.bound_ops_per_s).zip(self.bound_share);
        match bound {
            None => "no bound in the profile".to_owned(),
            Some(((name, ops_per_s), share)) => {
                format!("{share:.2} of the bound {}, {name}", rate(ops_per_s))
            }
        }
    }

    fn limit_cell(&self) -> String {
        match self.nearest() {
            None if self.workload.is_some() => "none".to_owned(),
            None => String::new(),
            Some((name, used)) if self.limit.is_some() => format!("{name} {used}"),
            Some((name, used)) => format!("({name} {used})"),
        }
    }

    /// Returns whether the short table of a long report omits this row: latencies at load factors
    /// other than the first and last ones of the paper's Table 1, and throughputs for which another
    /// row has more machines.
    pub(super) fn is_detail(&self, rows: &[Self]) -> bool {
        match self.workload {
            None => !LOAD_FACTORS.contains(&self.load_factor),
            Some(_) => rows
                .iter()
                .any(|other| other.workload == self.workload && other.machines > self.machines),
        }
    }

    /// Returns the limit with the highest utilization, and the utilization in whole percent. It is
    /// rounded down, so that 90 % appears only for a limit that counts as met.
    fn nearest(&self) -> Option<(&str, String)> {
        let (name, used) = self.nearest_limit.as_deref().zip(self.limit_used)?;
        let percent = (used * 100.0).floor();
        let used = if percent < 1.0 { "under 1 %".to_owned() } else { format!("{percent:.0} %") };
        Some((name, used))
    }

    pub(super) fn full_share(&self) -> f64 {
        self.full as f64 / self.operations.max(1) as f64
    }
}

fn distinct(rows: &[SimulateRow]) -> Vec<SimulateRow> {
    let repeats = |row: &SimulateRow| rows.iter().any(|other| row.repeats(other));
    rows.iter().filter(|row| !repeats(row)).cloned().collect()
}

impl Row for SimulateRow {
    /// Omits latencies that equal those of a smaller maximum C, because operations choose no larger
    /// one.
    fn full(rows: &[Self]) -> Layout {
        Self::of_all_columns(&distinct(rows))
    }

    fn brief(rows: &[Self]) -> Layout {
        let mut shown = distinct(rows);
        if shown.len() > MOST_BRIEF {
            shown.retain(|row| !row.is_detail(rows));
        }
        Self::of_columns_that_matter(&shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_is_in_brackets_unless_it_is_met() {
        let cell = |limit: Option<(f64, bool)>| {
            let name = || "NIC READ rate".to_owned();
            let row = SimulateRow {
                workload: Some("mixed".to_owned()),
                limit: limit.filter(|(_, met)| *met).map(|_| name()),
                nearest_limit: limit.map(|_| name()),
                limit_used: limit.map(|(used, _)| used),
                ..SimulateRow::default()
            };
            row.limit_cell()
        };
        assert_eq!(cell(Some((0.999, true))), "NIC READ rate 99 %");
        assert_eq!(cell(Some((0.005, false))), "(NIC READ rate under 1 %)");
        assert_eq!(cell(None), "none");
    }
}
