//! The report: rates, ratios with their targets, and notes; JSON for programs.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use super::plan::{LIMITS, LOADS, MAX_PEER_LOAD, Measured, Rate, What};
use super::sets::{HASHBROWN, KINDS};
use super::table::Work;
use super::{Args, Result};

/// The share of the time that other processes may have the CPUs without a note.
const MAX_PREEMPTED: f64 = 0.02;
/// Two ranks have at least this many times the rate of one, if the machine's limit does.
const SCALING: f64 = 1.6;

/// A ratio, with its target if it has one.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) threads: usize,
    pub(crate) load: f64,
    /// The least value wanted, or the largest if `is_at_most`.
    pub(crate) target: Option<f64>,
    pub(crate) is_at_most: bool,
    /// By probe order, in the order of `--probing`.
    pub(crate) ratios: Vec<Option<f64>>,
    /// Whether the first probe order meets the target; `None` without one.
    pub(crate) met: Option<bool>,
}

/// The rate by which a rate of the table is divided.
#[derive(Clone, Copy, PartialEq)]
enum By {
    /// That of the memory: batched finds by prefetched reads, batched inserts by prefetched
    /// read-then-CAS.
    Limit,
    /// Single calls.
    Blocking,
    /// Single calls of another set, in the rounds in which both took turns if there are such.
    Set(&'static str),
    /// Single calls of the fastest set that threads share.
    BestSet,
    /// One rank. Two should have as many times its rate as the limit allows, at most [`SCALING`].
    OneRank,
    /// That of dependent reads: the ratio is one of times.
    DependentReads,
}

/// A ratio: ranks, name, operation, divisor, targets at the two load factors.
type Line = (usize, &'static str, Work, By, [Option<f64>; LOADS.len()]);

const NONE: [Option<f64>; 2] = [None; 2];
const FASTER: [Option<f64>; 2] = [Some(3.0), Some(1.0)];

use Work::{FindBatch, Hit, InsertBatch};

const LINES: [Line; 15] = [
    (1, "batched finds / prefetched reads", FindBatch, By::Limit, [Some(0.75), Some(0.35)]),
    (
        1,
        "batched inserts / prefetched read-then-CAS",
        InsertBatch,
        By::Limit,
        [Some(0.6), Some(0.12)],
    ),
    (1, "batched finds / blocking finds", FindBatch, By::Blocking, [Some(2.5), None]),
    (1, "batched inserts / blocking inserts", InsertBatch, By::Blocking, [Some(2.5), None]),
    (1, "batched finds / finds of the best concurrent set", FindBatch, By::BestSet, FASTER),
    (1, "batched inserts / inserts of the best concurrent set", InsertBatch, By::BestSet, FASTER),
    (1, "batched finds / finds of hashbrown", FindBatch, By::Set(HASHBROWN), [Some(1.0), None]),
    (
        1,
        "batched inserts / inserts of hashbrown",
        InsertBatch,
        By::Set(HASHBROWN),
        [Some(1.0), None],
    ),
    (1, "time of a hit / time of a dependent read", Hit, By::DependentReads, [Some(1.3); 2]),
    (2, "batched finds / prefetched reads", FindBatch, By::Limit, NONE),
    (2, "batched inserts / prefetched read-then-CAS", InsertBatch, By::Limit, NONE),
    (2, "batched finds / finds of the best concurrent set", FindBatch, By::BestSet, FASTER),
    (2, "batched inserts / inserts of the best concurrent set", InsertBatch, By::BestSet, FASTER),
    (2, "batched finds / those of one rank", FindBatch, By::OneRank, NONE),
    (2, "batched inserts / those of one rank", InsertBatch, By::OneRank, NONE),
];

/// The rates of one system by one number of threads at one load factor.
#[derive(Clone, Copy)]
struct Point<'a> {
    measured: &'a Measured,
    system: &'static str,
    threads: usize,
    load: f64,
}

impl Point<'_> {
    fn rate(self, work: Work, beside: Option<&'static str>) -> Option<f64> {
        let Self { system, threads, load, .. } = self;
        self.measured.rate(What { system, beside, threads, load, work })
    }

    fn limit(self, work: Work) -> Option<f64> {
        let limit = if work == FindBatch { Work::PrefetchedReads } else { Work::ReadsThenSwaps };
        self.rate(limit, None)
    }

    fn ratio(self, work: Work, by: By) -> Option<f64> {
        let single = if work == FindBatch { Work::Find } else { Work::Insert };
        let rate = self.rate(work, None)?;
        let one = Point { threads: 1, ..self };
        Some(match by {
            By::Limit => rate / self.limit(work)?,
            By::Blocking => rate / self.rate(single, None)?,
            By::OneRank => rate / one.rate(work, None)?,
            By::DependentReads => self.rate(Work::DependentReads, None)? / rate,
            By::Set(set) => {
                let of_set = Point { system: set, ..self }.rate(single, None)?;
                self.rate(work, Some(set)).unwrap_or(rate) / of_set
            }
            By::BestSet => {
                let sets = KINDS.into_iter().filter(|kind| kind.is_concurrent).filter_map(|kind| {
                    Some((Point { system: kind.name, ..self }.rate(single, None)?, kind.name))
                });
                let (_, best) = sets.max_by(|one, other| one.0.total_cmp(&other.0))?;
                self.ratio(work, By::Set(best))?
            }
        })
    }

    fn figure(args: &Args, measured: &Measured, line: &Line, at: usize) -> Figure {
        let &(threads, name, work, by, targets) = line;
        let load = LOADS[at];
        let point = |system| Point { measured, system, threads, load };
        let orders = args.probing.iter().map(|order| order.0);
        let ratios: Vec<_> = orders.clone().map(|order| point(order).ratio(work, by)).collect();
        let scaling = orders.take(1).find_map(|order| {
            let one = Point { threads: 1, ..point(order) };
            Some((point(order).limit(work)? / one.limit(work)?).min(SCALING))
        });
        let target = if by == By::OneRank { scaling } else { targets[at] };
        let is_at_most = by == By::DependentReads;
        let met =
            target.map(|target| is_met(ratios.first().copied().flatten(), target, is_at_most));
        Figure { name, threads, load, target, is_at_most, ratios, met }
    }
}

fn is_met(ratio: Option<f64>, target: f64, is_at_most: bool) -> bool {
    ratio.is_some_and(|ratio| if is_at_most { ratio <= target } else { ratio >= target })
}

/// Returns all ratios that were measured.
pub(crate) fn figures(args: &Args, measured: &Measured) -> Vec<Figure> {
    let figure = |line| (0..LOADS.len()).map(move |at| Point::figure(args, measured, line, at));
    let all = LINES.iter().flat_map(figure);
    all.filter(|figure| figure.ratios.iter().any(Option::is_some)).collect()
}

#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    command: &'static str,
    version: &'static str,
    cpu: &'a str,
    table_bytes: u64,
    rounds: u32,
    seconds_each: f64,
    #[serde(flatten)]
    measured: &'a Measured,
    figures: &'a [Figure],
    notes: &'a [String],
}

/// Opens the file for the results. Its contents stay until there are results.
pub(crate) fn create(path: &Path) -> Result<File> {
    let file = File::options().write(true).create(true).truncate(false).open(path);
    file.map_err(|error| format!("cannot write {}: {error}", path.display()).into())
}

/// Writes the JSON, and returns the report as text.
pub(crate) fn publish(
    args: &Args,
    measured: &Measured,
    figures: &[Figure],
    file: Option<File>,
) -> Result<String> {
    let (cpu, notes) = (cpu(), notes(args, measured));
    if let Some(mut file) = file {
        // Fails for devices and pipes, which have nothing to truncate.
        let _ = file.set_len(0);
        let report = Report {
            schema: 1,
            command: "bench-speed",
            version: env!("CARGO_PKG_VERSION"),
            cpu: &cpu,
            table_bytes: args.table_size,
            rounds: args.rounds,
            seconds_each: args.seconds.as_secs_f64(),
            measured,
            figures,
            notes: &notes,
        };
        serde_json::to_writer_pretty(&file, &report)?;
        writeln!(file)?;
    }
    let (size, seconds) = (args.table_size >> 20, args.seconds.as_secs_f64());
    let head =
        format!("{cpu}\ntable of {size} MiB; medians of {} rounds of {seconds} s", args.rounds);
    let rates_head =
        ["set", "load", "threads", "find", "hit", "insert", "batched find", "batched insert"];
    let work = [Work::Find, Hit, Work::Insert, FindBatch, InsertBatch];
    let limits_head =
        ["windows of", "load", "threads", "dependent reads", "prefetched", "read, then CAS"];
    let of_sets = rates(&rates_head, measured, &measured.rates, &work);
    let limits = rates(&limits_head, measured, &measured.limits, &LIMITS);
    Ok([
        head + "\n" + &measured.windows.join("\n"),
        format!("Ratios\n{}", ratios(args, figures)),
        format!("Million operations a second\n{of_sets}"),
        format!("Limits of the memory, million operations a second\n{limits}"),
        notes.join("\n"),
    ]
    .join("\n\n"))
}

fn cpu() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("model name"));
    let name = line.and_then(|line| line.split_once(':')).map(|(_, name)| name.trim().to_owned());
    name.unwrap_or_else(|| "unknown CPU".to_owned())
}

fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(head.iter().copied()).add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
}

fn ratios(args: &Args, figures: &[Figure]) -> String {
    let orders = args.probing.iter().map(|order| order.0);
    let head: Vec<&str> =
        ["ratio", "ranks", "load"].into_iter().chain(orders).chain(["target", ""]).collect();
    let row = |figure: &Figure| {
        let mut row =
            vec![figure.name.to_owned(), figure.threads.to_string(), figure.load.to_string()];
        row.extend(figure.ratios.iter().map(|&ratio| number(ratio)));
        let side = if figure.is_at_most { "<=" } else { ">=" };
        row.push(figure.target.map_or_else(String::new, |target| format!("{side} {target:.2}")));
        row.push(figure.met.map_or("", |met| if met { "met" } else { "MISSED" }).to_owned());
        row
    };
    table(&head, figures.iter().map(row))
}

/// Formats `rates` of these kinds of work, a line for each system, load factor and number of
/// threads; `all` has them in the order of the first kind.
fn rates(head: &[&str], measured: &Measured, all: &[Rate], work: &[Work]) -> String {
    let first = all.iter().map(|rate| rate.what);
    let first = first.filter(|what| what.beside.is_none() && work.first() == Some(&what.work));
    let row = |what: What| {
        let row = vec![what.system.to_owned(), what.load.to_string(), what.threads.to_string()];
        let millions = |&work| measured.rate(What { work, ..what }).map(|rate| rate / 1e6);
        row.into_iter().chain(work.iter().map(|work| number(millions(work)))).collect()
    };
    table(head, first.map(row))
}

fn notes(args: &Args, measured: &Measured) -> Vec<String> {
    let mut notes = vec![
        "Keys: 63 bits, uniform, computed before the clock starts. Finds are of random keys that the \
         set holds; inserts are of new keys within 0.015 of the load factor, removed afterwards."
            .to_owned(),
        "Limits: measured on the table's own windows. Each of two ranks has half of the table."
            .to_owned(),
    ];
    if let Some(first) = args.probing.first() {
        notes.push(format!("Targets: judged by the probe order {}.", first.0));
    }
    if measured.preempted_share > MAX_PREEMPTED {
        notes.push(format!(
            "BUSY: other processes had the CPUs for {:.0} % of the time. Ratios hold better than \
             rates; repeat the run on a quiet machine.",
            measured.preempted_share * 100.0
        ));
    }
    let is_huge = |pages: &String| pages.contains("hugetlb") || pages.contains("transparent");
    if !measured.windows.iter().all(is_huge) {
        notes.push("The table has NO huge pages: `just huge-pages` provides them.".to_owned());
    }
    if measured.peers.is_empty() {
        return notes;
    }
    notes.push(format!(
        "Other sets: same hasher for all, capacity given at creation. hashbrown and dashmap double \
         at 7/8, so for load 0.9 all hold {MAX_PEER_LOAD} keys a bucket, which is in their favour."
    ));
    let table_buckets = args.table_size / args.peer_size().min(args.table_size);
    if table_buckets > 1 {
        notes.push(format!(
            "Other sets have 1/{table_buckets} of the table's buckets, which is in their favour."
        ));
    }
    notes.extend(measured.peers.iter().map(|peer| {
        let few = peer.huge_bytes < peer.private_bytes / 4;
        format!(
            "{} for load {}: {} million keys; {} MiB of private memory, {} MiB of it on huge pages{}",
            peer.system,
            peer.load,
            peer.keys / 1_000_000,
            peer.private_bytes >> 20,
            peer.huge_bytes >> 20,
            if few { ", FEW, which is in the table's favour" } else { "" }
        )
    }));
    notes
}

// Cargo sets `test` for a benchmark without a harness too, and there the tests are left out.
#[cfg(test)]
#[allow(dead_code, unused_imports)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_met_on_its_own_side_only() {
        let at_least = [Some(0.7), Some(0.75), None].map(|ratio| is_met(ratio, 0.75, false));
        assert_eq!(at_least, [false, true, false]);
        let at_most = [Some(1.2), Some(1.31), None].map(|ratio| is_met(ratio, 1.3, true));
        assert_eq!(at_most, [true, false, false]);
    }
}
