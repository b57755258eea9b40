//! Fits the profile `das5-fdr` to the paper's figures; prints the constants and the residuals.
//!
//! `cargo run --release -p probeline-simulate --example fit [ROUNDS [latency|throughput]]` runs
//! ROUNDS rounds of both fits or of one; 0 prints the residuals only. Both fits use the simulation
//! of `probeline simulate`:
//!
//! - The latencies of two machines, all C and load factors, determine `remote.read_base_ns`,
//!   `remote.read_word_ps`, `remote.long_read_ns`, `remote.atomic_ns` and `rank.reads_per_s`; those
//!   of one machine determine the quantities of `local`.
//! - The throughputs of the mixed workload on 2 to 48 machines, means of three runs, determine
//!   `remote.idle_owner_ns`, `remote.jitter_mean_ns`, `remote.neighbour_ns`,
//!   `remote.socket_neighbour_ns` and `switch.further_ns`. The costs of an idle owner and of jitter
//!   are subtracted from the roundtrips of the first fit, so that latencies stay the same.
//!
//! The quantities of `local` in the file minimise the largest deviation; a round moves them by less
//! than 3 %.
//!
//! Both fits minimise the sum of the sixth powers of ln(model / paper), which approximates the
//! largest deviation. The other workloads and the figures of single runs are in neither fit.

use core::error::Error;
use std::env;

use probeline_profile::paper::{self, Workload};
use probeline_profile::{Given, Kind, Profile, Shape};
use probeline_simulate::{LatencyPlan, MAX_AT_ONCE, ThroughputPlan, latency, run_all, throughput};

type Result<T> = core::result::Result<T, Box<dyn Error + Send + Sync>>;

const CHUNKS: [u32; 5] = [8, 16, 32, 64, 128];
const NAME: &str = "das5-fdr";
const LATENCY: [&str; 5] = [
    "remote.read_base_ns",
    "remote.read_word_ps",
    "remote.long_read_ns",
    "remote.atomic_ns",
    "rank.reads_per_s",
];
const LOCAL: [&str; 4] =
    ["local.read_base_ns", "local.read_word_ps", "local.prefetched_word_ps", "local.atomic_ns"];
const THROUGHPUT: [&str; 5] = [
    "remote.idle_owner_ns",
    "remote.jitter_mean_ns",
    "remote.neighbour_ns",
    "remote.socket_neighbour_ns",
    "switch.further_ns",
];
/// Quantities that add to a roundtrip to an idle owner.
const IN_BASE: [&str; 2] = ["remote.idle_owner_ns", "remote.jitter_mean_ns"];
/// Operations of a rank in the fit. Results of different seeds are within 1 %.
const OPERATIONS: u32 = 200;
const POWER: f64 = 6.0;

fn main() -> Result<()> {
    let rounds: u32 = env::args().nth(1).map_or(Ok(0), |rounds| rounds.parse())?;
    let which = env::args().nth(2);
    let fits = |fit: &str| which.as_deref().is_none_or(|which| which == fit);
    let mut profile = Profile::built_in(NAME).ok_or("the profile is not built in")?;
    print_all(&profile)?;
    for round in 1..=rounds {
        if fits("latency") {
            improve(&mut profile, &LOCAL, |profile| latencies(profile, 1))?;
            improve(&mut profile, &LATENCY, |profile| latencies(profile, 2))?;
        }
        if fits("throughput") {
            improve(&mut profile, &THROUGHPUT, throughputs)?;
        }
        println!("after round {round}:");
        print_all(&profile)?;
    }
    println!("{}", profile.to_toml());
    Ok(())
}

fn print_all(profile: &Profile) -> Result<()> {
    for name in LOCAL.iter().chain(&LATENCY).chain(&THROUGHPUT) {
        println!("  {name} = {}", profile.value(name).unwrap_or(0));
    }
    print_residuals("latency, one machine", &latencies(profile, 1)?);
    print_residuals("latency, two machines", &latencies(profile, 2)?);
    print_residuals("throughput, mixed", &throughputs(profile)?);
    Ok(())
}

/// Returns ln(model / paper) at each C and load factor.
fn latencies(profile: &Profile, machines: u32) -> Result<Vec<f64>> {
    let shape = Shape { machines, ranks_per_machine: 2 / machines };
    let rows = run_all(&CHUNKS, MAX_AT_ONCE, |&chunk| {
        let mut plan = LatencyPlan::paper(profile, shape, chunk)?;
        // With this size the roundtrips of different seeds are within 1 %.
        plan.setup.table.buckets_per_owner = 1 << 21;
        plan.one_in = 4;
        Ok::<_, Box<dyn Error + Send + Sync>>(latency(&plan, &|_| {})?)
    })?;
    let figures = paper::latencies();
    let of = |figure: &paper::Latency| {
        if machines == 1 { figure.local_ns } else { figure.remote_ns }
    };
    Ok(rows
        .iter()
        .flatten()
        .zip(&figures)
        .map(|(row, figure)| (row.mean_ns / of(figure)).ln())
        .collect())
}

/// Returns ln(model / paper) for each number of machines and ranks.
fn throughputs(profile: &Profile) -> Result<Vec<f64>> {
    let mut figures = paper::throughputs();
    figures.retain(|figure| {
        figure.workload == Workload::Mixed && figure.machines <= 48 && figure.runs > 1
    });
    run_all(&figures, MAX_AT_ONCE, |figure| {
        let shape =
            Shape { machines: figure.machines, ranks_per_machine: figure.ranks_per_machine };
        let mut plan = ThroughputPlan::paper(profile, shape, Workload::Mixed)?;
        plan.operations = OPERATIONS;
        let row = throughput(&plan, &|_| {})?;
        let ops_per_s = row.cut_ops_per_s.ok_or("no operation took a microsecond")?;
        Ok((ops_per_s / figure.ops_per_s).ln())
    })
}

/// Takes one Gauss-Newton step with each residual weighted by its fourth power. Halves the step up
/// to three times until it reduces the loss.
fn improve(
    profile: &mut Profile,
    names: &[&str],
    residuals: impl Fn(&Profile) -> Result<Vec<f64>>,
) -> Result<()> {
    let now = residuals(profile)?;
    let mut slopes = Vec::new();
    for name in names {
        let step = (value(profile, name) * 0.05).max(5.0);
        let mut other = profile.clone();
        change(&mut other, name, step)?;
        let moved = residuals(&other)?;
        slopes.push(now.iter().zip(moved).map(|(now, moved)| (moved - now) / step).collect());
    }
    let weights: Vec<f64> = now.iter().map(|r: &f64| (r.abs() + 0.01).powf(POWER - 2.0)).collect();
    let steps = solve(&slopes, &now, &weights);
    for share in [1.0, 0.5, 0.25, 0.125] {
        let mut other = profile.clone();
        for (name, step) in names.iter().zip(&steps) {
            change(&mut other, name, -share * step)?;
        }
        if loss(&residuals(&other)?) < loss(&now) {
            *profile = other;
            return Ok(());
        }
    }
    Ok(())
}

fn loss(residuals: &[f64]) -> f64 {
    residuals.iter().map(|r| r.abs().powf(POWER)).sum()
}

fn value(profile: &Profile, name: &str) -> f64 {
    profile.value(name).unwrap_or(0) as f64
}

/// Changes a quantity. If it is part of the roundtrips, subtracts the change from them.
fn change(profile: &mut Profile, name: &str, by: f64) -> Result<()> {
    let before = value(profile, name);
    put(profile, name, before + by)?;
    if IN_BASE.contains(&name) {
        let by = value(profile, name) - before;
        for base in ["remote.read_base_ns", "remote.atomic_ns"] {
            let other = value(profile, base) - by;
            put(profile, base, other)?;
        }
    }
    Ok(())
}

fn put(profile: &mut Profile, name: &str, value: f64) -> Result<()> {
    let Given { kind, source, .. } = profile.get(name).cloned().unwrap_or(Given {
        value: 0,
        kind: Kind::Fitted,
        source: "fit".to_owned(),
    });
    // The value is positive and far below 2^53.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let value = value.max(0.0).round() as u64;
    Ok(profile.set(name, Given { value, kind, source })?)
}

/// Solves weighted least squares: the normal equations by Gauss-Jordan elimination. A larger
/// diagonal keeps quantities without effect unchanged.
fn solve(slopes: &[Vec<f64>], residuals: &[f64], weights: &[f64]) -> Vec<f64> {
    let n = slopes.len();
    let dot = |a: &[f64], b: &[f64]| -> f64 {
        a.iter().zip(b).zip(weights).map(|((a, b), w)| a * b * w).sum()
    };
    let mut rows: Vec<Vec<f64>> = slopes
        .iter()
        .map(|a| {
            let mut row: Vec<f64> = slopes.iter().map(|b| dot(a, b)).collect();
            row.push(dot(a, residuals));
            row
        })
        .collect();
    for (i, row) in rows.iter_mut().enumerate() {
        row[i] = row[i] * 1.001 + f64::MIN_POSITIVE;
    }
    for i in 0..n {
        let pivot = rows[i][i];
        rows[i].iter_mut().for_each(|cell| *cell /= pivot);
        let row = rows[i].clone();
        for other in (0..n).filter(|&other| other != i) {
            let factor = rows[other][i];
            rows[other].iter_mut().zip(&row).for_each(|(cell, of)| *cell -= factor * of);
        }
    }
    rows.iter().map(|row| row[n]).collect()
}

fn print_residuals(what: &str, residuals: &[f64]) {
    let n = residuals.len().max(1) as f64;
    let percent = |log: f64| (log.exp() - 1.0) * 100.0;
    let min = residuals.iter().copied().fold(f64::INFINITY, f64::min);
    let max = residuals.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let square = (residuals.iter().map(|r| r * r).sum::<f64>() / n).sqrt();
    println!(
        "  {what}: {n} figures, model / paper {:+.1} % to {:+.1} %, root mean square {:.1} %",
        percent(min),
        percent(max),
        square * 100.0
    );
}
