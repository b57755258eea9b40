//! What was found: tables for people, JSON for programs.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use super::Result;
use super::batch::{self, BatchRow};
use super::cache;
use super::claims::{self, Claim, ClaimRow, JUDGED_LOAD, LOADS};
use super::job::{Mean, OWNERS};
use super::nic::Turns;
use super::plan::Measured;
use super::sweep::{AdaptiveRow, Ahead};
use super::targets::{self, Target};

/// Counts changes of the JSON's shape that a reader must know of. 2: `limits`, and `times_limit` of
/// each mean.
const SCHEMA: u32 = 2;

#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    command: &'static str,
    version: &'static str,
    model: &'static str,
    #[serde(flatten)]
    measured: &'a Measured,
    targets: &'a [Target],
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
    measured: &Measured,
    targets: &[Target],
    file: Option<File>,
) -> Result<String> {
    if let Some(mut file) = file {
        // Devices and pipes cannot be cut short and need not be.
        let _ = file.set_len(0);
        let report = Report {
            schema: SCHEMA,
            command: "bench-speed-cluster",
            version: env!("CARGO_PKG_VERSION"),
            model: "oortwijn2015",
            measured,
            targets,
        };
        serde_json::to_writer_pretty(&file, &report)?;
        writeln!(file)?;
    }
    Ok([
        head(measured),
        section("Find-or-put one at a time, C = 8, the home bucket claimed first or not, ns", {
            claims(measured, Turns::Reads)
        }),
        section(
            "The same if claims, too, took the turns of READs at the initiator's NIC, ns",
            claims(measured, Turns::ReadsAndClaims),
        ),
        section(&format!("Find-or-put by the share of inserts, load {}, ns", load(JUDGED_LOAD)), {
            mixes(measured)
        }),
        section(&zipf_title(measured), caches(measured)),
        section("Inserts with an adaptive C and with the best fixed one, ns", adaptive(measured)),
        section(
            &format!(
                "Find-or-put in batches with {} in flight and one at a time, load {}, thousand a \
                 second",
                batch::IN_FLIGHT,
                load(batch::TO)
            ),
            batches(measured),
        ),
        section("Targets, ratios of mean times", verdicts(targets)),
        otherwise(measured),
        NOTES.to_owned(),
    ]
    .join("\n\n"))
}

fn section(title: &str, table: String) -> String {
    format!("{title}\n{table}")
}

fn head(measured: &Measured) -> String {
    let scale = &measured.scale;
    format!(
        "Virtual time on the model of the paper's cluster (DAS-5, Berkeley UPC; oortwijn2015 in \
         transport/sim): {OWNERS} owners on as many nodes, one of them works; seed {}\n\
         {} buckets; a READ of n buckets takes {:.1} + {:.3} n ns on average over both parts, as \
         measured\n\
         Limits, measured without a table, mean of both parts: a READ of 8 buckets {:.0} ns, a \
         claim {:.0} ns; with many in flight {:.1} and {:.1} ns",
        scale.seed,
        scale.buckets_per_owner * OWNERS,
        measured.read_base_ps as f64 / 1e3,
        measured.read_bucket_ps as f64 / 1e3,
        scale.limits.blocking.read_ns,
        scale.limits.blocking.claim_ns,
        scale.limits.batched.read_ns,
        scale.limits.batched.claim_ns,
    )
}

fn table(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
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

/// The time, and how many times that of the limit it is.
fn ns(mean: &Mean) -> String {
    format!("{:.0} {}", mean.ns, times_limit(mean))
}

fn times_limit(mean: &Mean) -> String {
    format!("x{:.2}", mean.times_limit)
}

fn ratio(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"))
}

fn load(percent: u64) -> String {
    format!("0.{percent:02}")
}

fn claims(measured: &Measured, turns: Turns) -> String {
    let head = [
        "load",
        "insert",
        "on",
        "auto",
        "on by off",
        "auto by off",
        "eff/out",
        "on",
        "auto",
        "hit",
        "on",
        "auto",
        "on by off",
        "auto by off",
        "half each",
        "on",
        "auto",
        "auto by off",
    ];
    table(&head, LOADS.iter().filter_map(|&percent| claim_row(measured, turns, percent)))
}

fn claim_row(measured: &Measured, turns: Turns, percent: u64) -> Option<Vec<String>> {
    let all = &measured.claims;
    let of = |claim| {
        all.iter().find(|row| (row.turns, row.load_percent, row.claim) == (turns, percent, claim))
    };
    let [off, on, auto] = Claim::ALL.map(of);
    let rows = [off?, on?, auto?];
    let [_, on, auto] = rows;
    let by = |row, of: fn(&ClaimRow) -> &Mean| ratio(claims::ratio(all, row, of));
    let mut cells = vec![load(percent)];
    cells.extend(rows.map(|row| ns(&row.insert)));
    cells.extend([on, auto].map(|row| by(row, |row| &row.insert)));
    cells.extend(rows.map(|row| roundtrips(&row.insert)));
    cells.extend(rows.map(|row| ns(&row.hit)));
    cells.extend([on, auto].map(|row| by(row, |row| &row.hit)));
    cells.extend(rows.map(|row| ns(&row.mixed)));
    cells.push(by(auto, |row| &row.mixed));
    Some(cells)
}

fn roundtrips(mean: &Mean) -> String {
    format!("{:.2}/{:.2}", mean.effective_roundtrips, mean.outgoing_roundtrips)
}

fn mixes(measured: &Measured) -> String {
    let head = ["inserts", "off", "on", "auto", "on by off", "auto by off", "auto claims"];
    let rows = measured.mixes.chunks_exact(Claim::ALL.len()).filter_map(|rows| {
        let [off, on, auto] = rows else { return None };
        let mut cells = vec![format!("{} %", off.inserts_percent)];
        cells.extend([off, on, auto].map(|row| ns(&row.mean)));
        cells.extend([on, auto].map(|row| ratio(Some(row.mean.ns / off.mean.ns))));
        cells.push(format!("{:.0} %", auto.mean.first_claims * 100.0));
        Some(cells)
    });
    table(&head, rows)
}

fn zipf_title(measured: &Measured) -> String {
    let (keys, operations) =
        measured.caches.first().map_or((0, 0), |row| (row.keys, row.find.operations));
    format!(
        "Finds of {keys} keys by Zipf {}, load 0.5, C = 32: {operations} in {} tables with other \
         keys, after as many to warm up",
        cache::ZIPF_EXPONENT,
        cache::TABLES
    )
}

fn caches(measured: &Measured) -> String {
    let head = ["cache", "entries", "bytes", "hit rate", "ns", "by without", "in tables", "eff"];
    let rows = measured.caches.iter().map(|row| {
        let name = match row.keys.checked_div(row.entries) {
            None => "none".to_owned(),
            Some(share) => format!("1/{share} of the keys"),
        };
        let range = cache::range(&measured.caches, row);
        vec![
            name,
            row.entries.to_string(),
            row.bytes.to_string(),
            format!("{:.3}", row.find.cache_hit_rate),
            ns(&row.find),
            ratio(cache::ratio(&measured.caches, row)),
            range.map_or_else(String::new, |(least, most)| format!("{least:.3}-{most:.3}")),
            format!("{:.3}", row.find.effective_roundtrips),
        ]
    });
    table(&head, rows)
}

fn adaptive(measured: &Measured) -> String {
    let head = [
        "load",
        "ahead",
        "best C",
        "its ns",
        "eff",
        "out",
        "adaptive C",
        "its ns",
        "eff",
        "out",
        "ratio",
    ];
    let row = |row: &AdaptiveRow| {
        let ahead = match row.ahead {
            Ahead::Always => "always",
            Ahead::Likely => "likely",
        };
        let mut cells = vec![load(row.load_percent), ahead.to_owned(), row.best_chunk.to_string()];
        cells.extend(times(&row.best));
        cells.push(format!("{:.1}", row.adaptive.chunk_buckets));
        cells.extend(times(&row.adaptive));
        cells.push(format!("{:.4}", row.ratio()));
        cells
    };
    table(&head, measured.adaptive.iter().map(row))
}

fn times(mean: &Mean) -> [String; 3] {
    let [effective, outgoing] = [mean.effective_roundtrips, mean.outgoing_roundtrips];
    [
        format!("{:.1} {}", mean.ns, times_limit(mean)),
        format!("{effective:.3}"),
        format!("{outgoing:.3}"),
    ]
}

fn batches(measured: &Measured) -> String {
    let head = [
        "",
        "insert",
        "batched",
        "by one at a time",
        "hit",
        "batched",
        "by one at a time",
        "C batched",
    ];
    let row = |row: &BatchRow| {
        let pairs =
            [(row.blocking_insert, row.batched_insert), (row.blocking_hit, row.batched_hit)];
        let mut cells = vec![row.way.to_owned()];
        for (one, many) in pairs {
            cells.extend(
                [one, many].map(|mean| format!("{:.0} {}", 1e6 / mean.ns, times_limit(&mean))),
            );
            cells.push(format!("{:.2}", one.ns / many.ns));
        }
        cells.push(format!("{:.1}", row.batched_insert.chunk_buckets));
        cells
    };
    table(&head, measured.batches.iter().map(row))
}

fn verdicts(targets: &[Target]) -> String {
    let head = ["target", "needed", "found", "verdict"];
    let rows = targets.iter().map(|target| {
        let verdict = if target.met { "met" } else { "MISSED" };
        let needed = format!("<= {:.2}", target.at_most);
        vec![target.name.clone(), needed, ratio(target.found), verdict.to_owned()]
    });
    table(&head, rows)
}

/// What decides whether the first targets are met, and what they would be otherwise.
fn otherwise(measured: &Measured) -> String {
    let [on, auto] = [Claim::On, Claim::Auto]
        .map(|claim| ratio(targets::insert(measured, claim, Turns::ReadsAndClaims)));
    format!(
        "The model decides the first two: in it READs posted at once are 1311 ns apart, and a \
         claim beside a READ waits for nothing. The paper's latencies do not tell. If claims took \
         the turns of READs, too, the ratios would be {on} and {auto}."
    )
}

/// What the numbers mean.
const NOTES: &str = "\
Everything is the paper's algorithm (Fig. 1: read ahead always, linear probing, no loads of the \
CPU's own from the table) but for what is named; half of all operations are on the own part. One \
at a time unless said otherwise. Inserts are of new data, from 0.02 below a load factor up to it. \
eff: chunk READs waited for; out: posted. hit: a find-or-put of data that is held; a find never \
claims, and takes what a hit takes with claiming off.
x1.23: 1.23 times the time of the limit, which is a READ of 8 buckets, and for an insert a claim \
after it; in batches, with as many of them in flight as there are landing slots, the longer one of \
the two. Who claims along with the first READ, or has a cache, may take less.
A cache hit takes no virtual time: the model has the CPU's own work for free.
In batches the NIC's READs are the limit: 763 thousand a second, two operations for each, as the \
own part takes none.
The same seed gives the same numbers.";
