//! UCX over Soft-RoCE between two machines: that it is a transport like the others, and who does
//! what.

use super::trial::{Ranks, TRIAL, together};
use crate::bed::Bed;
use crate::case::{Case, Failure, Layer, ensure};
use crate::programs::Build;

const PROBELINE: &[Build] = &[Build::Release(&["--package", "probeline-cli"])];

/// The address of link-local IPv6, which is always the first: with one of IPv4 UCX drops what
/// Soft-RoCE hands to the datagrams by which it connects.
pub(super) const OVER_RC: &str = "rc --ucx-device rxe0:1 --ucx-gid-index 0";

pub(super) const CASES: &[Case] = &[
    Case::new(Layer::Two, "ucx_rc_conformance", |bed| {
        suite(&together(bed, 2, &format!("conformance --ucx {OVER_RC}"))?, 29, 2)
    })
    .needs(TRIAL),
    Case::new(Layer::Two, "ucx_rc_conformance_of_three", |bed| {
        suite(&together(bed, 3, &format!("conformance --ucx {OVER_RC}"))?, 29, 2)
    })
    .needs(TRIAL),
    Case::new(Layer::Two, "ucx_rc_bench_latency", bench_latency).needs(PROBELINE),
];

/// Soft-RoCE lacks some of the atomics that UCX would have from a device, so that the owner's CPU
/// does them all; READs are Soft-RoCE's. That is no promise of UCX's, and so it is tried.
const WHO: [&str; 2] = ["READs are done without the owner", "atomics by the owner's CPU"];

/// Prints who acts and what was skipped; so many cases passed, and so many were skipped.
fn suite(output: &str, passed: u32, skipped: u32) -> Result<(), Failure> {
    println!();
    let said =
        |line: &&str| ["UCX ", "skipped ", "expected skips"].iter().any(|w| line.starts_with(w));
    output.lines().filter(said).for_each(|line| println!("{line}"));
    introduced(output)?;
    let sum = format!("{passed} passed, 0 failed, {skipped} skipped");
    ensure(output.contains(&sum), || output.to_owned())
}

/// The engines have gone over Soft-RoCE, and it was found out who acts.
pub(super) fn introduced(output: &str) -> Result<(), Failure> {
    let line = output.lines().find(|line| line.contains("rc_verbs/rxe0:1"));
    let line = line.ok_or_else(|| Failure(format!("not over Soft-RoCE: {output}")))?;
    ensure(WHO.iter().all(|who| line.contains(who)), || format!("others act: {line}"))
}

/// The measuring command as users start it.
fn bench_latency(bed: &Bed) -> Result<(), Failure> {
    let table = "--table-size 128KiB -C 8,64 --load-factors 0.1,0.5 --ops 200 --full";
    let arguments = format!(
        "bench-latency --transport ucx --ucx-tls {OVER_RC} {table} --allow-remote --pin none"
    );
    let report = Ranks::start(bed, "probeline", 2, &arguments)?.finish()?;
    introduced(&report)?;
    println!();
    let rows = ["READ 8 B", "READ 4096 B", "WRITE 4096 B", "CAS", "FAA", "inserted", "found"];
    for row in rows {
        let row = report.lines().find(|line| line.trim_start().starts_with(row));
        println!("{}", row.ok_or_else(|| Failure(format!("a row is missing in: {report}")))?);
    }
    Ok(())
}
