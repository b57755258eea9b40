//! Plots latency and roundtrips against the load factor, by C (paper Fig. 2).

use super::{Chapter, Sample, of, series};
use crate::origin::{Origins, transport};
use crate::plot::{Guide, Kind, Series, Spec};
use crate::run::{Fields, Run};

pub(super) const LOAD_FACTOR: (&str, Kind) = ("load factor", Kind::Between);
/// Parameters of `simulate` that affect throughputs only: a latency is that of blocking calls.
const IDLE: [&str; 4] = ["truncate_us", "throughput_chunk_buckets", "in_flight", "filled"];

/// A kind of roundtrips: the field of a row, and the texts of its plot.
pub(super) struct Roundtrips {
    field: &'static str,
    id: &'static str,
    title: &'static str,
    caption: &'static str,
}

pub(super) const EFFECTIVE: Roundtrips = Roundtrips {
    field: "effective_roundtrips",
    id: "roundtrips-effective",
    title: "Roundtrips that an insert waits for",
    caption: "Chunk READs that an insert waits for before it finds its bucket (the paper's \
              roundtrips), mean of the inserts from 0.02 below the load factor up to it. The claim \
              is one more.",
};
const OUTGOING: Roundtrips = Roundtrips {
    field: "outgoing_roundtrips",
    id: "roundtrips-outgoing",
    title: "Chunk READs that an insert posts",
    caption: "Chunk READs posted, including those read ahead and not waited for, mean of the same \
              inserts.",
};

/// The simulated clusters that a plot includes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Clusters {
    All,
    /// One machine of two ranks, and measurements over shared memory.
    PapersOne,
    /// Two machines of one rank, and measurements over other transports.
    PapersTwo,
}

impl Clusters {
    fn have(self, run: &Run, row: &Fields) -> bool {
        let one = match cluster(row) {
            Some([1, 2]) => true,
            Some([2, 1]) => false,
            Some(_) => return self == Self::All,
            None => transport(run) == "shm",
        };
        match self {
            Self::All => true,
            Self::PapersOne => one,
            Self::PapersTwo => !one,
        }
    }
}

/// Returns the machines and the ranks on each; `None` for a row that was not simulated.
fn cluster(row: &Fields) -> Option<[u64; 2]> {
    Some([row.count("machines")?, row.count("ranks_per_machine")?])
}

pub(super) fn chapter(runs: &[Run]) -> Chapter {
    let latency_plot = |(operation, id, title): (&str, &str, &str)| {
        latency_spec(id, title, operation).plot(latency(runs, operation, Clusters::All))
    };
    let latencies = [
        ("inserted", "latency-inserted", "Mean latency of an insert"),
        ("found", "latency-found", "Mean latency of a find-or-put that finds its key"),
    ];
    let mut chapter = Chapter::new(
        [
            "latency",
            "Latency and roundtrips by load factor",
            "The latency of one find-or-put, and the number of its chunk READs, by load factor. C \
             is the number of buckets that one READ transfers.",
        ],
        latencies.into_iter().filter_map(latency_plot),
        "Latency by load factor: no run of bench-latency was given. `probeline bench-latency \
         --json FILE` writes one.",
    );
    let plots =
        [EFFECTIVE, OUTGOING].map(|kind| kind.spec().plot(roundtrips(runs, &kind, Clusters::All)));
    chapter.plots.extend(plots.into_iter().flatten());
    chapter.missing.extend(no_roundtrips(runs));
    chapter
}

/// Returns mean latencies of `operation`, a series for each run and C. Simulated ones are of
/// inserts.
pub(super) fn latency(runs: &[Run], operation: &str, clusters: Clusters) -> Vec<Series> {
    by_chunk(runs, &["bench-latency", "simulate"], clusters, |run, row| {
        let (this, name) = match run.command.as_str() {
            "bench-latency" => (row.text("operation")? == operation, "mean_ns"),
            // A simulated row with a given C and load factor may also be a throughput.
            _ => (operation == "inserted" && row.text("workload").is_none(), "mean_latency_ns"),
        };
        this.then(|| row.number(name)).flatten()
    })
}

/// Returns the chunk READs of an insert. A table whose CPU accesses all buckets itself has none.
pub(super) fn roundtrips(runs: &[Run], kind: &Roundtrips, clusters: Clusters) -> Vec<Series> {
    by_chunk(runs, &["roundtrips", "bench-latency", "simulate"], clusters, |_, row| {
        let insert = row.text("operation").unwrap_or("inserted") == "inserted";
        let counted = row.number(kind.field).filter(|count| *count > 0.0);
        counted.filter(|_| insert && row.text("workload").is_none())
    })
}

/// Returns a series for each run, cluster and C with the `value` of each row.
fn by_chunk(
    runs: &[Run],
    commands: &[&str],
    clusters: Clusters,
    value: impl Fn(&Run, &Fields) -> Option<f64>,
) -> Vec<Series> {
    series(
        runs,
        commands,
        |used| Origins::unique(used, &IDLE),
        |run, row| {
            let value = value(run, row).filter(|_| clusters.have(run, row))?;
            let sample = Sample::of_chunk(run, row, [row.number("load_factor")?, value])?;
            let of_line = cluster(row).map(|[machines, ranks]| format!(", {machines} x {ranks}"));
            Some(Sample { of_line: of_line.unwrap_or_default(), ..sample })
        },
    )
}

fn latency_spec(id: &str, title: &str, operation: &str) -> Spec {
    let included = match operation {
        "inserted" => "new keys, from 0.02 below the load factor up to it",
        _ => "keys that the table contains",
    };
    Spec {
        id: id.to_owned(),
        title: title.to_owned(),
        caption: format!(
            "Nanoseconds from the call of one find-or-put to its result, one at a time, measured by \
             rank 0; {included}. They access the parts of all owners uniformly, this rank's own \
             part included. Means of whole batches; simulated runs have virtual time."
        ),
        x: LOAD_FACTOR,
        y: ("mean, ns", Kind::Fitting),
        guide: Guide::None,
    }
}

impl Roundtrips {
    fn spec(&self) -> Spec {
        let [id, title, caption] = [self.id, self.title, self.caption].map(str::to_owned);
        let (x, y) = (LOAD_FACTOR, ("READs per insert", Kind::FromZero));
        Spec { id, title, caption, x, y, guide: Guide::None }
    }
}

/// Names the runs that have no READs to count, and states why.
fn no_roundtrips(runs: &[Run]) -> Option<String> {
    let counts = |run: &&Run| {
        run.rows.iter().any(|row| row.number("effective_roundtrips").is_some_and(|n| n > 0.0))
    };
    let (with, without): (Vec<&Run>, Vec<&Run>) =
        of(runs, &["bench-latency", "roundtrips", "simulate"]).into_iter().partition(counts);
    if with.is_empty() && without.is_empty() {
        let text = "Roundtrips by load factor: no run of roundtrips or bench-latency was given. \
                    `probeline roundtrips --json FILE` writes one.";
        return Some(text.to_owned());
    }
    let direct: Vec<String> = without
        .iter()
        .filter(|run| run.parameters.text("direct") == Some("true"))
        .map(|run| run.number.to_string())
        .collect();
    (!direct.is_empty()).then(|| {
        format!(
            "Roundtrips of run {}: its CPU accesses the whole table itself, so that it posts no \
             chunk READ. Runs with `--direct off` or `--paper` post them.",
            direct.join(", ")
        )
    })
}
