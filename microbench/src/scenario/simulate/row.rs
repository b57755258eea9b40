//! A row of the report: a latency or a throughput, beside the paper's.

use probeline_profile::Shape;
use probeline_profile::paper;
use probeline_results::format::{fixed, text};
use probeline_results::{Layout, Row, row};
use probeline_simulate::{LatencyPlan, LatencyRow, Limit, ThroughputPlan, ThroughputRow, Way};

row! {
    /// A latency or a throughput, beside the paper's.
    pub(crate) struct SimulateRow {
        pub(super) experiment: String,
        /// Of a throughput.
        pub(super) workload: Option<String> => {"what", SimulateRow::what},
        pub(super) machines: u32 => {"on", SimulateRow::cluster},
        pub(super) ranks_per_machine: u32,
        way: String => ("way", text, full()),
        /// C; beyond the paper the most, of which each operation chooses its own.
        chunk_buckets: u32 => {"C", SimulateRow::chunk_cell},
        /// Of a throughput: what a READ brought.
        mean_chunk_buckets: Option<f64> => (
            "mean C",
            fixed::<1>,
            full().note("buckets per READ, a mean")
        ),
        load_factor: f64 => ("load", fixed::<2>),
        operations: u64,
        /// Of them, those of a latency that found no room within M chunks.
        full: u64,
        pub(super) mean_latency_ns: f64 => ("mean ns", fixed::<0>),
        outgoing_roundtrips: f64 => ("out", fixed::<4>, full()),
        effective_roundtrips: f64 => ("eff", fixed::<4>, full()),
        pub(super) ops_per_s: Option<f64> => (
            "M op/s",
            million,
            note("find-or-puts per second of all ranks")
        ),
        /// With each operation cut to whole microseconds.
        truncated_ops_per_s: Option<f64> => ("cut M op/s", million, full()),
        pub(super) paper_mean_latency_ns: Option<f64> => {"paper", SimulateRow::paper_cell},
        paper_outgoing_roundtrips: Option<f64>,
        pub(super) paper_ops_per_s: Option<f64>,
        /// How many runs the paper's figure is the mean of.
        pub(super) paper_runs: Option<u32>,
        /// Of the latency, or of the throughput: the model's by the paper's.
        pub(super) by_paper: Option<f64> => (
            "by paper",
            fixed::<3>,
            note("the model's figure / the authors' figure")
        ),
        /// Of outgoing roundtrips.
        pub(super) roundtrips_by_paper: Option<f64>,
        /// Of a throughput: the limit that is met; where none is, roundtrips are what is waited
        /// for.
        limit: Option<String> => {
            "limit",
            SimulateRow::limit_cell,
            note("resource of the profile used to 90 % or more; in brackets the most used one")
        },
        /// The limit that is used most, met or not, and how much of it.
        nearest_limit: Option<String>,
        limit_used: Option<f64>,
        /// A machine's READs and atomics a second.
        pub(super) nic_reads_per_s: Option<f64>,
        pub(super) nic_atomics_per_s: Option<f64>,
        /// Whether `--one-roundtrip auto` has claimed nothing along with first READs.
        #[serde(skip)]
        pub(super) spares_claims: bool,
    }
}

/// Operations a second that two digits of millions cannot show.
const SLOW: f64 = 1e5;

fn million(rate: &Option<f64>) -> String {
    match *rate {
        Some(rate) if rate < SLOW => format!("{:.5}", rate / 1e6),
        Some(rate) => format!("{:.2}", rate / 1e6),
        None => String::new(),
    }
}

impl SimulateRow {
    pub(super) fn latency(plan: &LatencyPlan, row: &LatencyRow) -> Self {
        let theirs_ns: Option<fn(&paper::Latency) -> f64> = match plan.shape {
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
            way: plan.way.name().to_owned(),
            machines: plan.shape.machines,
            ranks_per_machine: plan.shape.ranks_per_machine,
            workload: None,
            chunk_buckets: row.chunk_buckets,
            mean_chunk_buckets: None,
            load_factor: f64::from(row.load_percent) / 100.0,
            operations: row.operations,
            full: row.full,
            mean_latency_ns: row.mean_ns,
            outgoing_roundtrips: row.outgoing_roundtrips,
            effective_roundtrips: row.effective_roundtrips,
            ops_per_s: None,
            truncated_ops_per_s: None,
            limit: None,
            nearest_limit: None,
            limit_used: None,
            nic_reads_per_s: None,
            nic_atomics_per_s: None,
            paper_mean_latency_ns: paper_ns,
            paper_outgoing_roundtrips: paper_out,
            paper_ops_per_s: None,
            paper_runs: None,
            by_paper: paper_ns.map(|paper| row.mean_ns / paper),
            roundtrips_by_paper: paper_out.map(|paper| row.outgoing_roundtrips / paper),
            spares_claims: false,
        }
    }

    pub(super) fn throughput(plan: &ThroughputPlan, row: &ThroughputRow, truncates: bool) -> Self {
        let figure = paper::throughputs().into_iter().find(|figure| {
            (figure.workload, figure.machines, figure.ranks_per_machine)
                == (row.workload, row.shape.machines, row.shape.ranks_per_machine)
        });
        let truncated = row.cut_ops_per_s.filter(|_| truncates);
        let paper_ops = figure.map(|figure| figure.ops_per_s);
        let (limit, name) = (row.limit.as_ref(), |limit: &Limit| limit.name.clone());
        // Several in flight are compared as they are: nothing of theirs is cut.
        let compared =
            if truncates && plan.way == Way::Paper { truncated } else { Some(row.ops_per_s) };
        Self {
            experiment: "throughput".to_owned(),
            way: plan.way.name().to_owned(),
            machines: row.shape.machines,
            ranks_per_machine: row.shape.ranks_per_machine,
            workload: Some(row.workload.name().to_owned()),
            chunk_buckets: plan.chunk_buckets,
            mean_chunk_buckets: row.mean_chunk_buckets,
            load_factor: f64::from(plan.load_percent) / 100.0,
            operations: row.operations,
            // A throughput with one has no row.
            full: 0,
            mean_latency_ns: row.mean_ns,
            outgoing_roundtrips: row.outgoing_roundtrips,
            effective_roundtrips: row.effective_roundtrips,
            ops_per_s: Some(row.ops_per_s),
            truncated_ops_per_s: truncated,
            limit: limit.filter(|limit| limit.is_met()).map(name),
            nearest_limit: limit.map(name),
            limit_used: limit.map(|limit| limit.used),
            nic_reads_per_s: Some(row.load.reads_per_s),
            nic_atomics_per_s: Some(row.load.atomics_per_s),
            paper_mean_latency_ns: None,
            paper_outgoing_roundtrips: None,
            paper_ops_per_s: paper_ops,
            paper_runs: figure.map(|figure| figure.runs),
            by_paper: compared.zip(paper_ops).map(|(model, paper)| model / paper),
            roundtrips_by_paper: None,
            spares_claims: plan.way.under_load(&plan.model) != plan.way,
        }
    }
}

/// The number of rows above which the short table omits details, and the load factors of the
/// latencies that remain.
const MOST_BRIEF: usize = 30;
const LOAD_FACTORS: [f64; 2] = [0.5, 0.9];

impl SimulateRow {
    /// C and load factor of a latency.
    pub(super) fn cells_name(&self) -> String {
        let is = if self.is_adaptive() { "up to" } else { "=" };
        format!("C {is} {} at {:.2}", self.chunk_buckets, self.load_factor)
    }

    /// Whether operations choose their C.
    fn is_adaptive(&self) -> bool {
        self.way == "beyond"
    }

    fn chunk_cell(&self) -> String {
        let most = if self.is_adaptive() { "up to " } else { "" };
        format!("{most}{}", self.chunk_buckets)
    }

    /// Whether it is a latency that is the other's too, with a C that its operations need no more
    /// of, and beside the same figures of the paper.
    fn repeats(&self, other: &Self) -> bool {
        let found = |row: &Self| {
            let cluster = (row.machines, row.ranks_per_machine, row.operations, row.full);
            let means = [row.load_factor, row.mean_latency_ns, row.outgoing_roundtrips];
            // The paper's are of its C, whatever operations choose here.
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

    /// The limit that is reached, or the nearest one, in words.
    pub(super) fn verdict(&self) -> String {
        match self.nearest() {
            None => "no limit in the profile".to_owned(),
            Some((name, used)) if self.limit.is_some() => format!("at its limit: {name}, {used}"),
            Some((name, used)) => format!("nearest limit: {name}, {used}"),
        }
    }

    /// The limit that is met, or the nearest one in brackets.
    fn limit_cell(&self) -> String {
        match self.nearest() {
            None if self.workload.is_some() => "none".to_owned(),
            None => String::new(),
            Some((name, used)) if self.limit.is_some() => format!("{name} {used}"),
            Some((name, used)) => format!("({name} {used})"),
        }
    }

    /// Whether a long report omits this row from the short table: latencies at other load factors
    /// than the first and last ones of the paper's Table 1, and throughputs of fewer machines than
    /// another row's.
    pub(super) fn is_detail(&self, rows: &[Self]) -> bool {
        match self.workload {
            None => !LOAD_FACTORS.contains(&self.load_factor),
            Some(_) => rows
                .iter()
                .any(|other| other.workload == self.workload && other.machines > self.machines),
        }
    }

    /// The limit that is used most, and how much of it in whole hundredths. These are cut, so that
    /// none that is not met has 90 of them.
    fn nearest(&self) -> Option<(&str, String)> {
        let (name, used) = self.nearest_limit.as_deref().zip(self.limit_used)?;
        let percent = (used * 100.0).floor();
        let used = if percent < 1.0 { "under 1 %".to_owned() } else { format!("{percent:.0} %") };
        Some((name, used))
    }

    /// How many of the operations found no room, 0 to 1.
    pub(super) fn full_share(&self) -> f64 {
        self.full as f64 / self.operations.max(1) as f64
    }
}

/// Omits latencies that repeat those of another row.
fn distinct(rows: &[SimulateRow]) -> Vec<SimulateRow> {
    let repeats = |row: &SimulateRow| rows.iter().any(|other| row.repeats(other));
    rows.iter().filter(|row| !repeats(row)).cloned().collect()
}

impl Row for SimulateRow {
    /// Without latencies that a smaller C has as well, operations choosing no larger one, beside
    /// the same figures.
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
