//! What was found: tables for people, JSON for programs.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use super::Result;
use super::args::Args;
use super::plan::{LOADS, Measured, PEER_LOAD, PeerSize};
use super::process::peak_bytes;
use super::ratios::Ratios;
use super::samples::{Doing, Form, Limits, What, median};
use super::targets::Target;

/// Counts changes of the JSON's shape that a reader must know of.
const SCHEMA: u32 = 1;

/// The share of the time that others may have the CPUs without a word about it.
const BUSY: f64 = 0.02;

#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    command: &'static str,
    version: &'static str,
    cpu: &'a str,
    table_bytes: u64,
    rounds: u32,
    seconds_each: f64,
    peak_bytes: Option<u64>,
    #[serde(flatten)]
    measured: &'a Measured,
    targets: &'a [Target],
    notes: &'a [String],
}

/// The file for results, opened before the run so that nothing is measured in vain. What it held
/// before stays until there are results.
pub(crate) fn open(path: Option<&Path>) -> Result<Option<File>> {
    let Some(path) = path else { return Ok(None) };
    let file = File::options().write(true).create(true).truncate(false).open(path);
    Ok(Some(file.map_err(|error| format!("{} cannot be written: {error}", path.display()))?))
}

/// Writes the file, if there is one, and gives everything as text.
pub(crate) fn publish(
    args: &Args,
    measured: &Measured,
    targets: &[Target],
    file: Option<File>,
) -> Result<String> {
    let cpu = cpu();
    let notes = notes(args, measured);
    if let Some(mut file) = file {
        // Devices and pipes cannot be cut short and need not be.
        let _ = file.set_len(0);
        let report = Report {
            schema: SCHEMA,
            command: "bench-speed",
            version: env!("CARGO_PKG_VERSION"),
            cpu: &cpu,
            table_bytes: args.table_size,
            rounds: args.rounds,
            seconds_each: args.seconds.as_secs_f64(),
            peak_bytes: peak_bytes(),
            measured,
            targets,
            notes: &notes,
        };
        serde_json::to_writer_pretty(&file, &report)?;
        writeln!(file)?;
    }
    let mut text = vec![head(args, measured, &cpu)];
    text.push(format!("The machine, million operations a second\n{}", limits(measured)));
    text.push(format!("Million operations a second\n{}", rates(args, measured)));
    text.push(format!("Ratios\n{}", ratios(args, measured)));
    text.push(format!("Targets\n{}", verdicts(targets)));
    text.push(notes.join("\n"));
    Ok(text.join("\n\n"))
}

fn cpu() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("model name"));
    let name = line.and_then(|line| line.split_once(':')).map(|(_, name)| name.trim().to_owned());
    name.unwrap_or_else(|| "unknown CPU".to_owned())
}

fn head(args: &Args, measured: &Measured, cpu: &str) -> String {
    let mut lines = vec![
        cpu.to_owned(),
        format!(
            "table {} MiB, {} buckets; {} rounds, {} s each",
            args.table_size >> 20,
            measured.buckets,
            args.rounds,
            args.seconds.as_secs_f64()
        ),
    ];
    lines.extend(measured.windows.iter().cloned());
    let peak = peak_bytes()
        .map_or_else(String::new, |bytes| format!(", {} MiB of memory at most", bytes >> 20));
    lines.push(format!("{:.0} s in all{peak}", measured.seconds));
    lines.join("\n")
}

fn table(head: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(head.iter().copied());
    for row in rows {
        table.add_row(row);
    }
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

fn limits(measured: &Measured) -> String {
    let row = |limits: &Limits| {
        let mut row =
            vec![limits.system.to_owned(), limits.load.to_string(), limits.threads.to_string()];
        let all = [
            &limits.dependent_reads,
            &limits.independent_reads,
            &limits.prefetched_reads,
            &limits.swaps,
            &limits.reads_then_swaps,
        ];
        row.extend(all.map(|rates| millions(median(rates))));
        row
    };
    let head = [
        "windows of",
        "load",
        "threads",
        "dependent reads",
        "independent",
        "prefetched",
        "CAS",
        "read, then CAS",
    ];
    table(&head, measured.samples.limits.iter().map(row).collect())
}

fn rates(args: &Args, measured: &Measured) -> String {
    let head =
        ["set", "load", "threads", "find", "hit", "insert", "batched find", "batched insert"];
    let orders = args.probing.iter().map(|order| order.name);
    let mut systems: Vec<&'static str> = orders.collect();
    for peer in &measured.peers {
        if !systems.contains(&peer.system) {
            systems.push(peer.system);
        }
    }
    let mut rows = Vec::new();
    for load in LOADS {
        for &system in &systems {
            rows.extend([1, 2].into_iter().filter_map(|threads| {
                rate_row(
                    measured,
                    What { system, threads, load, doing: Doing::Find, form: Form::Blocking },
                )
            }));
        }
    }
    table(&head, rows)
}

/// The row of a system, if it was measured at all; `find` is its blocking find.
fn rate_row(measured: &Measured, find: What) -> Option<Vec<String>> {
    let samples = &measured.samples;
    samples.rate(find)?;
    let rate = |doing, form| millions(samples.rate(What { doing, form, ..find }));
    Some(vec![
        find.system.to_owned(),
        find.load.to_string(),
        find.threads.to_string(),
        rate(Doing::Find, Form::Blocking),
        rate(Doing::Hit, Form::Blocking),
        rate(Doing::Insert, Form::Blocking),
        rate(Doing::Find, Form::Batched),
        rate(Doing::Insert, Form::Batched),
    ])
}

/// Lines of ratios, a column for each order and load factor.
fn ratios(args: &Args, measured: &Measured) -> String {
    let mut columns = Vec::new();
    for order in &args.probing {
        for load in LOADS {
            columns.push(Ratios { samples: &measured.samples, order: order.name, load });
        }
    }
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut row = |name: String, ratio: &dyn Fn(&Ratios<'_>) -> Option<f64>| {
        let cells = columns.iter().map(|column| number(ratio(column)));
        rows.push(core::iter::once(name).chain(cells).collect());
    };
    for threads in [1, 2] {
        for (doing, name) in [(Doing::Find, "find"), (Doing::Insert, "insert")] {
            let batched = Form::Batched;
            let limit = format!("{threads}: batched {name} by its limit");
            row(limit, &|r| r.of_limit(threads, doing, batched));
            let blocking = format!("{threads}: batched {name} by blocking");
            row(blocking, &|r| r.batched_by_blocking(threads, doing));
            let peer = format!("{threads}: batched {name} by the best concurrent peer");
            row(peer, &|r| Some(r.by_best_peer(threads, doing)?.0));
        }
        for (doing, name) in [(Doing::Find, "find"), (Doing::Hit, "find-or-put")] {
            let accesses = format!("{threads}: dependent accesses of a {name} that hits");
            row(accesses, &|r| r.accesses(threads, doing));
        }
    }
    for (doing, name) in [(Doing::Find, "find"), (Doing::Insert, "insert")] {
        row(format!("1: batched {name} by hashbrown"), &|r| r.by_hashbrown(doing));
        row(format!("2 by 1: batched {name}"), &|r| Some(r.scaling(doing, Form::Batched)?.0));
        row(format!("2 by 1: the limit of {name}s"), &|r| Some(r.scaling(doing, Form::Batched)?.1));
    }
    let names: Vec<String> =
        columns.iter().map(|column| format!("{} {}", column.order, column.load)).collect();
    let head: Vec<&str> =
        core::iter::once("threads").chain(names.iter().map(String::as_str)).collect();
    table(&head, rows)
}

fn verdicts(targets: &[Target]) -> String {
    let orders = targets.first().map_or(&[][..], |target| &target.found);
    let head = ["target", "needed", "found", "verdict"].into_iter();
    let head: Vec<&str> = head.chain(orders.iter().skip(1).map(|found| found.order)).collect();
    let rows = targets.iter().filter_map(|target| {
        let (first, others) = target.found.split_first()?;
        let side = if target.at_most { "<=" } else { ">=" };
        let needed = format!("{side} {:.2}", first.needed);
        let verdict = if first.met { "met" } else { "MISSED" };
        let mut row = vec![target.name.clone(), needed, number(first.ratio), verdict.to_owned()];
        row.extend(others.iter().map(|found| {
            format!("{}{}", number(found.ratio), if found.met { "" } else { " missed" })
        }));
        Some(row)
    });
    table(&head, rows.collect())
}

/// What the numbers mean.
fn notes(args: &Args, measured: &Measured) -> Vec<String> {
    let mut notes = vec![format!(
        "Medians of {} rounds. Keys: 63 bits, uniform, made before the clock runs. Finds are of \
         random keys that are there, inserts of new ones within 0.015 of the load factor, which \
         are taken out again. Limits are measured on the table's own windows. \
         Two ranks have half of the table each.",
        args.rounds
    )];
    if let Some(first) = args.probing.first() {
        notes.push(format!("Targets are judged by {}.", first.name));
    }
    let busy = measured.waited_s / measured.spent_s.max(1e-9);
    if busy > BUSY {
        notes.push(format!(
            "The machine was BUSY: others had the CPUs for {:.0} % of the time of measurements. \
             Ratios of what took turns hold better than figures do; run it again when it is quiet.",
            busy * 100.0
        ));
    }
    let huge = |windows: &String| windows.contains("hugetlb") || windows.contains("transparent");
    if !measured.windows.iter().all(huge) {
        notes.push(
            "The table has NO huge pages: what they are worth is missing. Provide some, as root: \
             sysctl vm.nr_hugepages=N for N of 2 MiB, or write `advise` to \
             /sys/kernel/mm/transparent_hugepage/shmem_enabled."
                .to_owned(),
        );
    }
    if measured.peers.is_empty() {
        return notes;
    }
    let orders: Vec<&str> = args.probing.iter().map(|order| order.name).collect();
    notes.push(format!(
        "Other sets: one folded multiplication as the hasher of all; capacity given when made. \
         hashbrown and dashmap double at 7/8, so at 0.9 all other sets hold {PEER_LOAD} keys a \
         bucket, which is in their favour. They took turns with {}.",
        orders[0]
    ));
    if measured.peers.iter().any(PeerSize::lacks_huge_pages) {
        notes.push(
            "A set has few huge pages, which flatters the table if it has them: it allocates each \
             element by itself, or /sys/kernel/mm/transparent_hugepage/enabled says `never`."
                .to_owned(),
        );
    }
    notes.extend(measured.peers.iter().map(|peer| peer_note(peer, measured.buckets)));
    notes
}

fn peer_note(peer: &PeerSize, table_buckets: u64) -> String {
    let mib = |bytes: Option<u64>| {
        bytes.map_or_else(|| "?".to_owned(), |bytes| (bytes >> 20).to_string())
    };
    let fewer = match table_buckets / peer.buckets.max(1) {
        0 | 1 => String::new(),
        times => format!("; a table {times} times SMALLER than ours, which is in its favour"),
    };
    format!(
        "{} for load {}: {:.1} million keys; {} MiB of private memory in all, {} MiB of it in huge \
         pages{fewer}",
        peer.system,
        peer.load,
        millions_of(peer.keys),
        mib(peer.private_bytes),
        mib(peer.huge_bytes)
    )
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn millions_of(count: u64) -> f64 {
    count as f64 / 1e6
}
