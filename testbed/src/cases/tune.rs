//! `probeline tune` over Soft-RoCE between two machines: what it writes is taken by the commands
//! that it is for.

use std::fs;

use super::trial::{LIMIT, Ranks, command};
use crate::bed::Bed;
use crate::case::{Case, Failure, Layer, ensure};
use crate::programs::{Build, target_dir};

const PROBELINE: &[Build] = &[Build::Release(&["--package", "probeline-cli"])];

const OVER_VERBS: &str = "--transport verbs --allow-remote --pin none";
/// Enough to see that it works.
const SHORT: &str = "--table-size 256KiB --rounds 1 --ops 100 --in-flight 4 \
    --seconds-per-measurement 0.02";
/// What the built-in profile is made with: the table is of no account there.
const FULL: &str = "--table-size 256KiB --rounds 1 --ops 100 --in-flight 16 \
    --seconds-per-measurement 0.1";

pub(super) const CASES: &[Case] = &[
    Case::new(Layer::Two, "tune_over_soft_roce", |bed| tune(bed, SHORT).map(|_| ()))
        .needs(PROBELINE),
    Case::new(Layer::Two, "profile_of_soft_roce", |bed| {
        let profile = tune(bed, FULL)?;
        let path = target_dir()?.join("soft-roce.toml");
        fs::write(&path, profile)?;
        println!("the profile: {}", path.display());
        Ok(())
    })
    .needs(PROBELINE)
    .on_demand(),
];

/// Tunes, and has other commands take what that has written; the profile.
fn tune(bed: &Bed, effort: &str) -> Result<String, Failure> {
    let files = "--out $SHARE/tuning.toml --profile-out $SHARE/soft-roce.toml";
    let tuned = Ranks::start(bed, "probeline", 2, &format!("tune {OVER_VERBS} {effort} {files}"))?;
    let tuned = tuned.finish()?;
    let row = tuned.lines().find(|line| line.trim_start().starts_with("recommended"));
    let row = row.ok_or_else(|| Failure(format!("no recommendation in: {tuned}")))?;
    println!("\n{}", row.trim());
    measured_with(bed, row)?;
    simulated(bed)?;
    Ok(fs::read_to_string(bed.dir().join("share/soft-roce.toml"))?)
}

/// The recommendation is what `bench-latency` runs with where it is given the file.
fn measured_with(bed: &Bed, recommended: &str) -> Result<(), Failure> {
    let options = "--table-size 256KiB --load-factors 0.5 --ops 50 --rounds 1 \
        --seconds-per-measurement 0.01 --tuning $SHARE/tuning.toml --full";
    let report =
        Ranks::start(bed, "probeline", 2, &format!("bench-latency {OVER_VERBS} {options}"))?;
    let report = report.finish()?;
    // candidate, C, M, read-ahead, one-roundtrip, in flight, cache.
    let cells: Vec<_> = recommended.split_whitespace().collect();
    let [_, c, m, ahead, claim, _, cache, ..] = cells[..] else {
        return Err(Failure(format!("no recommendation: {recommended}")));
    };
    for said in [
        "tuning.toml".to_owned(),
        format!("max_chunks {m}"),
        format!("read_ahead {ahead}"),
        format!("one_roundtrip {claim}"),
        format!("cache_entries {cache}"),
    ] {
        ensure(report.contains(&said), || format!("no {said} in: {report}"))?;
    }
    for operation in ["inserted", "found"] {
        let row = report.lines().map(str::split_whitespace).map(Iterator::collect::<Vec<_>>);
        let row = row.into_iter().find(|row| row.starts_with(&[operation, c, "0.50"]));
        ensure(row.is_some(), || format!("no {operation} with C = {c} in: {report}"))?;
    }
    Ok(())
}

/// The profile is a model of two machines.
fn simulated(bed: &Bed) -> Result<(), Failure> {
    let options = "--machines 2 --ranks-per-machine 1 --experiment throughput --workload mixed";
    let simulate = format!("simulate --profile $SHARE/soft-roce.toml {options} --ops 100");
    let report = bed.machine(1).output(&command("probeline", &simulate)?, LIMIT)?;
    // Of the table, whose lines are indented, and not of the summary.
    let rows = report.lines().filter(|line| line.starts_with(" mixed "));
    ensure(rows.count() == 1, || report.clone())
}
