//! Prints a profile of a network from the JSON of `bench-latency`, and of `limits` for its rates:
//!
//! ```sh
//! probeline bench-latency --two-nodes --json latency.json
//! probeline limits --two-nodes --json limits.json
//! cargo run --package probeline-profile --example measured -- NAME latency.json limits.json
//! ```

use std::{env, error, fs};

use probeline_profile::{Given, Kind, Profile};
use serde_json::Value;

type Result<T> = core::result::Result<T, Box<dyn error::Error>>;

fn main() -> Result<()> {
    let mut arguments = env::args().skip(1);
    let name = arguments.next().ok_or("usage: measured NAME FILE...: files of --json")?;
    let reports = arguments.map(|path| report(&path)).collect::<Result<Vec<_>>>()?;
    print!("{}", profile(&name, &reports)?.to_toml());
    Ok(())
}

fn report(path: &str) -> Result<Value> {
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))?;
    Ok(serde_json::from_str(&text).map_err(|error| format!("{path} is not JSON: {error}"))?)
}

fn profile(name: &str, reports: &[Value]) -> Result<Profile> {
    let mut profile = Profile::new(name, &format!("{name}: measured by probeline"));
    for report in reports {
        let command = report["command"].as_str().unwrap_or_default();
        let transport = report["parameters"]["transport"].as_str().unwrap_or_default();
        let machine = &report["machine"];
        let from = format!(
            "probeline {command} --transport {transport}, {}, Linux {}",
            machine["cpu"].as_str().unwrap_or("unknown CPU"),
            machine["kernel"].as_str().unwrap_or("unknown")
        );
        let found = match (command, transport) {
            ("bench-latency", "shm") => latencies("local", report)?,
            ("bench-latency", _) => latencies("remote", report)?,
            // Words that the CPU accesses itself do not queue at a NIC.
            ("limits", "shm") => Vec::new(),
            ("limits", _) => rates(report),
            _ => return Err(format!("{command}: give files of bench-latency and limits").into()),
        };
        for (quantity, value, how) in found {
            let source = format!("{from}: {how}");
            profile.set(&quantity, Given { value, kind: Kind::Measured, source })?;
        }
    }
    Ok(profile)
}

/// A quantity, its value, and how it was measured.
type Found = (String, u64, &'static str);

/// Fits the line through the times of READs by size.
fn latencies(section: &str, report: &Value) -> Result<Vec<Found>> {
    let mut reads = Vec::new();
    let mut atomic_ns = None;
    for row in report["rows"].as_array().into_iter().flatten() {
        let (Some(operation), Some(ns)) = (row["operation"].as_str(), row["p50_ns"].as_f64())
        else {
            continue;
        };
        let bytes = operation.strip_prefix("READ ").and_then(|rest| rest.strip_suffix(" B"));
        if let Some(bytes) = bytes {
            reads.push((bytes.parse::<f64>()? / 8.0, ns));
        }
        atomic_ns = atomic_ns.or((operation == "CAS random word").then_some(ns));
    }
    let (base_ns, word_ns) = line(&reads).ok_or("no READs of two lengths among the rows")?;
    let line = "the line through the p50 of READs by size, one at a time";
    let mut found = vec![
        (format!("{section}.read_base_ns"), whole(base_ns.max(1.0)), line),
        (format!("{section}.read_word_ps"), whole(1e3 * word_ns), line),
    ];
    let atomic = |ns| (format!("{section}.atomic_ns"), whole(ns), "p50 of a CAS, one at a time");
    found.extend(atomic_ns.map(atomic));
    Ok(found)
}

/// Returns the rates of one rank at the best depth. Long READs by one rank fill a NIC's link.
fn rates(report: &Value) -> Vec<Found> {
    let best = |limit: &str| {
        let rows = report["rows"].as_array().into_iter().flatten();
        let rows = rows.filter(|row| row["limit"] == limit);
        rows.filter_map(|row| row["median_ops_per_s"].as_f64()).reduce(f64::max)
    };
    let rates = [
        ("rank.reads_per_s", best("READ 8 B")),
        ("rank.atomics_per_s", best("CAS random word")),
        ("nic.bytes_per_s", best("READ 4096 B").map(|rate| 4096.0 * rate)),
    ];
    let found = |(name, rate): (&str, Option<f64>)| {
        Some((name.to_owned(), whole(rate?), "rank 0 alone, the best depth"))
    };
    rates.into_iter().filter_map(found).collect()
}

/// Returns the value at 0 and the slope of the line of least squares.
fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (mean_x, mean_y) = (mean(|point| point.0), mean(|point| point.1));
    let squares: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let products: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    (squares > 0.0).then(|| (mean_y - products / squares * mean_x, products / squares))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn whole(value: f64) -> u64 {
    value.round().max(0.0) as u64
}
