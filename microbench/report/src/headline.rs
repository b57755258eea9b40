//! Summarizes each run in one sentence.

use crate::number::{bytes, ranks_name, rate, significant, time};
use crate::origin::transport;
use crate::run::{Fields, Run};
use crate::simulated;

pub(crate) fn headline(run: &Run) -> String {
    let finding = match run.command.as_str() {
        "bench-latency" => latency(run),
        "bench-throughput" => throughput(run),
        "roundtrips" => roundtrips(run),
        "explore" => explore(run),
        "limits" => limits(run),
        "compare" => compare(run),
        "simulate" => simulated::finding(run),
        "tune" => tune(run),
        "surrogate" => surrogate(run),
        "doctor" => doctor(run),
        _ => None,
    };
    let (what, finding) = (subject(run), finding.unwrap_or_else(|| tally(run)));
    format!("{what}: {finding}.")
}

fn subject(run: &Run) -> String {
    let mut what = run.command.clone();
    if run.transport().is_some() {
        what.push_str(&format!(" over {}", transport(run)));
    }
    if let Some(ranks) = run.ranks() {
        what.push_str(&format!(", {}", ranks_name(ranks)));
    }
    if let Some(table) = run.parameters.count("table_bytes") {
        what.push_str(&format!(", {}", bytes(table)));
    }
    what
}

/// Summarizes a run of a command that this crate does not know.
fn tally(run: &Run) -> String {
    match run.rows.len() {
        0 => "its numbers are below".to_owned(),
        1 => "its one row is below".to_owned(),
        rows => format!("its {rows} rows are below"),
    }
}

/// Returns the row with the largest value.
fn most<'r>(
    rows: impl Iterator<Item = &'r Fields>,
    value: impl Fn(&Fields) -> f64,
) -> Option<&'r Fields> {
    rows.max_by(|one, other| value(one).total_cmp(&value(other)))
}

fn latency(run: &Run) -> Option<String> {
    let of = |operation: &str| {
        let rows = run.rows.iter().filter(|row| row.text("operation") == Some(operation));
        Fields::nearest_to_papers(rows)
    };
    let inserted = of("inserted")?;
    let mean = time(inserted.number("mean_ns")?);
    let floor = inserted
        .number("times_floor")
        .map_or_else(String::new, |times| format!(", {} times its floor", significant(times)));
    let found = of("found")
        .and_then(|row| row.number("mean_ns"))
        .map_or_else(String::new, |ns| format!(", one that finds {}", time(ns)));
    Some(format!(
        "at load factor {} and C = {} an insert takes {mean} in the mean{floor}{found}",
        inserted.number("load_factor")?,
        inserted.chunk_buckets()?
    ))
}

fn throughput(run: &Run) -> Option<String> {
    let best = most(run.rows.iter(), |row| row.number("median_ops_per_s").unwrap_or(0.0))?;
    let mixed = run.rows.iter().find(|row| row.text("workload") == Some("mixed"));
    let row = mixed.unwrap_or(best);
    let share = row
        .number("limit_share")
        .map_or_else(String::new, |share| format!(", {} of its limit", significant(share)));
    Some(format!(
        "find-or-put on the {} workload at {}{share}",
        row.text("workload")?,
        rate(row.number("median_ops_per_s")?)
    ))
}

fn roundtrips(run: &Run) -> Option<String> {
    let least = run.rows.iter().filter_map(Fields::chunk_buckets).min()?;
    let rows = run.rows.iter().filter(|row| row.chunk_buckets() == Some(least));
    let last = most(rows, |row| row.number("load_factor").unwrap_or(0.0))?;
    Some(format!(
        "at load factor {} an insert waits for {} READs of C = {least}",
        last.number("load_factor")?,
        significant(last.number("effective_roundtrips")?)
    ))
}

fn explore(run: &Run) -> Option<String> {
    let row = run.rows.first()?;
    Some(format!(
        "{} has {} states, found at {}",
        row.text("model")?,
        row.count("states")?,
        rate(row.number("states_per_s")?)
    ))
}

fn surrogate(run: &Run) -> Option<String> {
    let cached = || run.rows.iter().filter(|row| row.number("digits").is_some());
    // Enough for most purposes, if the run has it.
    let row = cached().find(|row| row.count("digits") == Some(4)).or_else(|| cached().next())?;
    Some(format!(
        "with a cache of the chemistry at {} digits it runs {} times as fast, with an error of {:.1e}",
        row.count("digits")?,
        significant(row.number("times_faster")?),
        row.number("rms_error")?
    ))
}

fn limits(run: &Run) -> Option<String> {
    let alone = run
        .rows
        .iter()
        .find(|row| row.text("limit") == Some("READ 8 B") && row.count("in_flight") == Some(1))?;
    let many = run.rows.iter().filter(|row| row.text("limit") == Some("READ 8 B"));
    let most = many.filter_map(|row| row.number("median_ops_per_s")).fold(0.0, f64::max);
    Some(format!(
        "a READ of 8 bytes takes {} with one in flight; many in flight reach {}",
        time(alone.number("mean_ns")?),
        rate(most)
    ))
}

fn compare(run: &Run) -> Option<String> {
    let columns = run.more.get("columns")?.as_array()?;
    let measured = columns.iter().filter(|column| column["state"] == "measured");
    let names: Vec<&str> = measured.filter_map(|column| column["column"].as_str()).collect();
    (!names.is_empty()).then(|| format!("{}, measured by turns", names.join(", ")))
}

fn tune(run: &Run) -> Option<String> {
    let row = run.rows.iter().find(|row| row.text("candidate") == Some("recommended"))?;
    let by = match row.get("direct")?.as_bool()? {
        true => "the CPU itself".to_owned(),
        false => format!("C = {} and M = {}", row.chunk_buckets()?, row.count("max_chunks")?),
    };
    Some(format!(
        "recommends {by} with {} in flight, which did {}, each in {}",
        row.count("in_flight")?,
        rate(row.number("ops_per_s")?),
        time(row.number("latency_ns")?)
    ))
}

fn doctor(run: &Run) -> Option<String> {
    let findings = run.doctor.as_ref()?;
    let count = |verdict: &str| {
        findings.iter().filter(|finding| finding.text("verdict") == Some(verdict)).count()
    };
    Some(format!(
        "{} fine, {} to look at, {} broken, {} not seen",
        count("fine"),
        count("look at this"),
        count("broken"),
        count("not seen")
    ))
}
