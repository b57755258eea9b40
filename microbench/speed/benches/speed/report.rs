//! The report: rates, ratios with their targets, and notes; JSON for programs.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use super::plan::{LOADS, Limits, MAX_PEER_LOAD, Measured, What, Work, median};
use super::sets::{CONCURRENT, Hashbrown, Set};
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

/// The rates of one probe order by one number of ranks at one load factor.
#[derive(Clone, Copy)]
struct Point<'a> {
    measured: &'a Measured,
    order: &'static str,
    threads: usize,
    load: f64,
}

impl Point<'_> {
    fn rate(&self, work: Work) -> Option<f64> {
        let Self { order: system, threads, load, .. } = *self;
        self.measured.rate(What { system, beside: None, threads, load, work })
    }

    fn limit(&self, of: fn(&Limits) -> &Vec<f64>) -> Option<f64> {
        median(of(self.measured.limits(self.order, self.threads, self.load)?))
    }

    /// Batched finds by prefetched reads, or batched inserts by prefetched read-then-CAS.
    fn by_limit(&self, work: Work) -> Option<f64> {
        let limit = match work {
            Work::FindBatch => self.limit(|limits| &limits.prefetched_reads)?,
            _ => self.limit(|limits| &limits.reads_then_swaps)?,
        };
        Some(self.rate(work)? / limit)
    }

    fn by_blocking(&self, work: Work) -> Option<f64> {
        Some(self.rate(work)? / self.rate(one_at_a_time(work))?)
    }

    /// Batched by another set, in the rounds in which both took turns if there are such.
    fn by_set(&self, set: &'static str, work: Work) -> Option<f64> {
        let Self { order: system, threads, load, .. } = *self;
        let what = What { system, beside: Some(set), threads, load, work };
        let rate = self.measured.rate(what).or_else(|| self.rate(work))?;
        Some(rate / Point { order: set, ..*self }.rate(one_at_a_time(work))?)
    }

    /// Batched by the fastest set that threads share.
    fn by_best_set(&self, work: Work) -> Option<f64> {
        let rate = |set| Point { order: set, ..*self }.rate(one_at_a_time(work));
        let sets = CONCURRENT.into_iter().filter_map(|set| Some((rate(set)?, set)));
        let (_, best) = sets.max_by(|one, other| one.0.total_cmp(&other.0))?;
        self.by_set(best, work)
    }

    /// Dependent memory accesses that take as long as one operation.
    fn accesses(&self, work: Work) -> Option<f64> {
        Some(self.limit(|limits| &limits.dependent_reads)? / self.rate(work)?)
    }

    /// Two ranks by one.
    fn scaling(&self, work: Work) -> Option<f64> {
        Some(self.rate(work)? / Point { threads: 1, ..*self }.rate(work)?)
    }

    /// What two ranks by one should be: as the machine's limit scales, and [`SCALING`] at most.
    fn scaling_target(&self, work: Work) -> Option<f64> {
        let one = Point { threads: 1, ..*self };
        let limit = |point: &Point<'_>| Some(point.rate(work)? / point.by_limit(work)?);
        Some((limit(self)? / limit(&one)?).min(SCALING))
    }
}

/// The work in single calls.
fn one_at_a_time(work: Work) -> Work {
    match work {
        Work::FindBatch => Work::Find,
        Work::InsertBatch => Work::Insert,
        work => work,
    }
}

/// What a ratio should be.
#[derive(Clone, Copy)]
enum Target {
    None,
    AtLeast(f64),
    AtMost(f64),
    /// What two ranks can be by one on this machine.
    Scaling(Work),
}

impl Target {
    fn value(self, point: &Point<'_>) -> Option<f64> {
        match self {
            Self::None => None,
            Self::AtLeast(value) | Self::AtMost(value) => Some(value),
            Self::Scaling(work) => point.scaling_target(work),
        }
    }
}

/// A ratio: ranks, name, targets at the two load factors, value.
type Line = (usize, &'static str, [Target; LOADS.len()], fn(&Point<'_>) -> Option<f64>);

use Target::{AtLeast, AtMost, Scaling};
use Work::{FindBatch, Hit, InsertBatch};

const LINES: [Line; 15] = [
    (1, "batched finds / prefetched reads", [AtLeast(0.75), AtLeast(0.35)], |at| {
        at.by_limit(FindBatch)
    }),
    (1, "batched inserts / prefetched read-then-CAS", [AtLeast(0.6), AtLeast(0.12)], |at| {
        at.by_limit(InsertBatch)
    }),
    (1, "batched finds / blocking finds", [AtLeast(2.5), Target::None], |at| {
        at.by_blocking(FindBatch)
    }),
    (1, "batched inserts / blocking inserts", [AtLeast(2.5), Target::None], |at| {
        at.by_blocking(InsertBatch)
    }),
    (1, "batched finds / finds of the best concurrent set", [AtLeast(3.0), AtLeast(1.0)], |at| {
        at.by_best_set(FindBatch)
    }),
    (
        1,
        "batched inserts / inserts of the best concurrent set",
        [AtLeast(3.0), AtLeast(1.0)],
        |at| at.by_best_set(InsertBatch),
    ),
    (1, "batched finds / finds of hashbrown", [AtLeast(1.0), Target::None], |at| {
        at.by_set(Hashbrown::NAME, FindBatch)
    }),
    (1, "batched inserts / inserts of hashbrown", [AtLeast(1.0), Target::None], |at| {
        at.by_set(Hashbrown::NAME, InsertBatch)
    }),
    (1, "time of a hit / time of a dependent read", [AtMost(1.3), AtMost(1.3)], |at| {
        at.accesses(Hit)
    }),
    (2, "batched finds / prefetched reads", [Target::None; 2], |at| at.by_limit(FindBatch)),
    (2, "batched inserts / prefetched read-then-CAS", [Target::None; 2], |at| {
        at.by_limit(InsertBatch)
    }),
    (2, "batched finds / finds of the best concurrent set", [AtLeast(3.0), AtLeast(1.0)], |at| {
        at.by_best_set(FindBatch)
    }),
    (
        2,
        "batched inserts / inserts of the best concurrent set",
        [AtLeast(3.0), AtLeast(1.0)],
        |at| at.by_best_set(InsertBatch),
    ),
    (2, "batched finds / those of one rank", [Scaling(FindBatch); 2], |at| at.scaling(FindBatch)),
    (2, "batched inserts / those of one rank", [Scaling(InsertBatch); 2], |at| {
        at.scaling(InsertBatch)
    }),
];

/// All ratios that were measured.
pub(crate) fn figures(args: &Args, measured: &Measured) -> Vec<Figure> {
    let at_loads = |line: &Line| {
        let &(threads, name, targets, ratio) = line;
        LOADS.into_iter().zip(targets).map(move |(load, target)| {
            let point = |order| Point { measured, order, threads, load };
            let orders = args.probing.iter().map(|order| point(order.name));
            let ratios: Vec<_> = orders.map(|point| ratio(&point)).collect();
            let is_at_most = matches!(target, AtMost(_));
            let target = args.probing.first().and_then(|order| target.value(&point(order.name)));
            let met = target.map(|target| is_met(ratios[0], target, is_at_most));
            Figure { name, threads, load, target, is_at_most, ratios, met }
        })
    };
    let all = LINES.iter().flat_map(at_loads);
    all.filter(|figure| figure.ratios.iter().any(Option::is_some)).collect()
}

fn is_met(ratio: Option<f64>, target: f64, is_at_most: bool) -> bool {
    ratio.is_some_and(|ratio| if is_at_most { ratio <= target } else { ratio >= target })
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
    Ok([
        head + "\n" + &measured.windows.join("\n"),
        format!("Ratios\n{}", ratios(args, figures)),
        format!("Million operations a second\n{}", rates(measured)),
        format!("Limits of the memory, million operations a second\n{}", limits(measured)),
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

fn millions(value: Option<f64>) -> String {
    number(value.map(|value| value / 1e6))
}

fn ratios(args: &Args, figures: &[Figure]) -> String {
    let orders = args.probing.iter().map(|order| order.name);
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

fn rates(measured: &Measured) -> String {
    const WORK: [Work; 5] = [Work::Find, Hit, Work::Insert, FindBatch, InsertBatch];
    let head =
        ["set", "load", "threads", "find", "hit", "insert", "batched find", "batched insert"];
    let finds = measured.rates.iter().map(|rate| rate.what);
    let finds = finds.filter(|what| what.work == Work::Find && what.beside.is_none());
    let row = |what: What| {
        let row = vec![what.system.to_owned(), what.load.to_string(), what.threads.to_string()];
        let rates = WORK.map(|work| millions(measured.rate(What { work, ..what })));
        row.into_iter().chain(rates).collect()
    };
    table(&head, finds.map(row))
}

fn limits(measured: &Measured) -> String {
    let row = |limits: &Limits| {
        let mut row =
            vec![limits.system.to_owned(), limits.load.to_string(), limits.threads.to_string()];
        let all = [&limits.dependent_reads, &limits.prefetched_reads, &limits.reads_then_swaps];
        row.extend(all.map(|rates| millions(median(rates))));
        row
    };
    let head = ["windows of", "load", "threads", "dependent reads", "prefetched", "read, then CAS"];
    table(&head, measured.limits.iter().map(row))
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
        notes.push(format!("Targets: judged by the probe order {}.", first.name));
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
    for peer in &measured.peers {
        let few = peer.huge_bytes < peer.private_bytes / 4;
        notes.push(format!(
            "{} for load {}: {} million keys; {} MiB of private memory, {} MiB of it on huge pages{}",
            peer.system,
            peer.load,
            peer.keys / 1_000_000,
            peer.private_bytes >> 20,
            peer.huge_bytes >> 20,
            if few { ", FEW, which is in the table's favour" } else { "" }
        ));
    }
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
