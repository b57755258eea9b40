//! Plots latency and roundtrips against the load factor, by C (paper Fig. 2).

use super::{Chapter, of, rows};
use crate::fields::Fields;
use crate::origin::{Origins, transport};
use crate::plot::{Axis, Form, Plot, Series, Table, all, chunk_name, sort_by_x};
use crate::run::Run;

const LOAD_FACTOR: &str = "load factor";
/// Parameters of `simulate` that affect throughputs only: a latency is that of blocking calls.
const IDLE: [&str; 4] = ["truncate_us", "throughput_chunk_buckets", "in_flight", "filled"];

/// The two kinds of roundtrips.
#[derive(Clone, Copy)]
pub(super) enum Roundtrips {
    /// Chunk READs waited for.
    Effective,
    /// Chunk READs posted.
    Outgoing,
}

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
    /// The two clusters on which the paper's latencies were measured.
    pub(super) const PAPERS: [Self; 2] = [Self::PapersOne, Self::PapersTwo];

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
    let mut chapter = Chapter {
        id: "latency",
        title: "Latency and roundtrips by load factor",
        lead: "How long one find-or-put takes, and how many chunk READs it needs, as the table fills. \
               C is the number of buckets that one READ brings."
            .to_owned(),
        plots: Vec::new(),
        missing: Vec::new(),
    };
    let measured = [
        ("inserted", "latency-inserted", "Mean latency of an insert"),
        ("found", "latency-found", "Mean latency of a find-or-put that finds"),
    ];
    for (operation, id, title) in measured {
        let series = latency(runs, operation, Clusters::All);
        chapter.plots.extend(latency_plot(id, title, operation, series));
    }
    if chapter.plots.is_empty() {
        chapter.missing.push(
            "Latency by load factor: no run of bench-latency is here. \
             `probeline bench-latency --json FILE` makes one."
                .to_owned(),
        );
    }
    let kinds = [
        (Roundtrips::Effective, "roundtrips-effective", "Roundtrips that an insert waits for"),
        (Roundtrips::Outgoing, "roundtrips-outgoing", "Chunk READs that an insert posts"),
    ];
    for (kind, id, title) in kinds {
        chapter.plots.extend(roundtrips_plot(
            id,
            title,
            kind,
            roundtrips(runs, kind, Clusters::All),
        ));
    }
    chapter.missing.extend(no_roundtrips(runs));
    chapter
}

/// Returns mean latencies of `operation`, a series for each run and C. Simulated ones are of
/// inserts.
pub(super) fn latency(runs: &[Run], operation: &str, clusters: Clusters) -> Vec<Series> {
    let runs = of(runs, &["bench-latency", "simulate"]);
    by_chunk(&runs, |run, row| {
        let (this, name) = match run.command.as_str() {
            "bench-latency" => (row.text("operation")? == operation, "mean_ns"),
            // A simulated row with a given C and load factor may also be a throughput.
            _ => (operation == "inserted" && row.text("workload").is_none(), "mean_latency_ns"),
        };
        let shown = this && clusters.have(run, row);
        shown.then(|| row.number(name)).flatten()
    })
}

/// Returns the chunk READs of an insert. A table whose CPU accesses all buckets itself has none.
pub(super) fn roundtrips(runs: &[Run], kind: Roundtrips, clusters: Clusters) -> Vec<Series> {
    let name = match kind {
        Roundtrips::Effective => "effective_roundtrips",
        Roundtrips::Outgoing => "outgoing_roundtrips",
    };
    let runs = of(runs, &["roundtrips", "bench-latency", "simulate"]);
    by_chunk(&runs, |run, row| {
        let insert = row.text("operation").unwrap_or("inserted") == "inserted";
        let counted = row.number(name).filter(|count| *count > 0.0);
        let shown = insert && row.text("workload").is_none() && clusters.have(run, row);
        shown.then_some(counted).flatten()
    })
}

/// Returns a series for each run and C with the `value` of each row.
fn by_chunk(runs: &[&Run], value: impl Fn(&Run, &Fields) -> Option<f64>) -> Vec<Series> {
    let used: Vec<&Run> = runs
        .iter()
        .copied()
        .filter(|run| run.rows.iter().any(|row| value(run, row).is_some()))
        .collect();
    let origins = Origins::unique(&used, &IDLE);
    let mut series: Vec<Series> = Vec::new();
    for (run, row) in rows(&used) {
        let point = (|| Some([row.number("load_factor")?, value(run, row)?]))();
        let (Some(point), Some(chunk_buckets)) = (point, run.chunk_buckets(row)) else { continue };
        let line = match cluster(row) {
            Some([machines, ranks]) => format!("{}, {machines} x {ranks}", origins.name(run)),
            None => origins.name(run),
        };
        let one = Series {
            hue: chunk_name(chunk_buckets),
            line,
            transport: transport(run),
            chunk_buckets: Some(chunk_buckets),
            points: vec![point],
        };
        one.join(&mut series);
    }
    // Sorted by C, so that a colour means the same in every plot.
    series.sort_by_key(|series| series.chunk_buckets);
    sort_by_x(&mut series);
    series
}

fn latency_plot(id: &str, title: &str, operation: &str, series: Vec<Series>) -> Option<Plot> {
    let included = match operation {
        "inserted" => "new data, from 0.02 below the load factor up to it",
        _ => "data that is there",
    };
    Plot {
        id: id.to_owned(),
        title: title.to_owned(),
        caption: format!(
            "Nanoseconds from the call of one find-or-put to its result, one at a time, seen by \
             rank 0; {included}. It goes to all owners alike, the own part included. Means of whole \
             batches; of a simulated run, of virtual time."
        ),
        form: Form::Lines,
        x: Axis::between(LOAD_FACTOR, all(&series, 0)),
        y: Axis::fitting("mean, ns", all(&series, 1)),
        table: Table::by_x(LOAD_FACTOR, &series),
        guide: None,
        series,
    }
    .within_axes()
}

fn roundtrips_plot(id: &str, title: &str, kind: Roundtrips, series: Vec<Series>) -> Option<Plot> {
    let caption = match kind {
        Roundtrips::Effective => {
            "Chunk READs that an insert waits for before it finds its bucket (the paper's \
             roundtrips), mean of the inserts from 0.02 below the load factor up to it. The claim is \
             one more."
        }
        Roundtrips::Outgoing => {
            "Chunk READs posted, those read ahead and not waited for included, mean of the same \
             inserts."
        }
    };
    Plot {
        id: id.to_owned(),
        title: title.to_owned(),
        caption: caption.to_owned(),
        form: Form::Lines,
        x: Axis::between(LOAD_FACTOR, all(&series, 0)),
        y: Axis::from_zero("READs per insert", all(&series, 1)),
        table: Table::by_x(LOAD_FACTOR, &series),
        guide: None,
        series,
    }
    .within_axes()
}

/// Names the runs that have no READs to count, and states why.
fn no_roundtrips(runs: &[Run]) -> Option<String> {
    let counts = |run: &&Run| {
        run.rows.iter().any(|row| row.number("effective_roundtrips").is_some_and(|n| n > 0.0))
    };
    let (with, without): (Vec<&Run>, Vec<&Run>) =
        of(runs, &["bench-latency", "roundtrips", "simulate"]).into_iter().partition(counts);
    if with.is_empty() && without.is_empty() {
        let text = "Roundtrips by load factor: no run of roundtrips or bench-latency is here. \
                    `probeline roundtrips --json FILE` makes one.";
        return Some(text.to_owned());
    }
    let direct: Vec<String> = without
        .iter()
        .filter(|run| run.parameters.text("direct") == Some("true"))
        .map(|run| run.number.to_string())
        .collect();
    (!direct.is_empty()).then(|| {
        format!(
            "Roundtrips of run {}: its CPU reaches the whole table itself, so that no chunk READ is \
             posted. `--direct off` or `--paper` has them.",
            direct.join(", ")
        )
    })
}
