//! UCX over Soft-RoCE between two machines: conformance, who executes READs and atomics, and latency
//! compared with `ucx_perftest`.

use anyhow::{Context, Result, ensure};

use super::conformance::suite_passes;
use super::ranks::{Ranks, run_on_all, unused_port};
use super::{PROBELINE, TRIAL, median, min, number, positive, trial};
use crate::HANG_TIMEOUT;
use crate::case::{Bound, Case, Figure, Layer};
use crate::testbed::Testbed;

/// The GID with index 0 is the link-local IPv6 address. UCX connects by datagrams, and drops those
/// that Soft-RoCE delivers to an IPv4 address.
const OVER_RC: &str = "rc --ucx-device rxe0:1 --ucx-gid-index 0";

/// Soft-RoCE lacks some atomics that UCX requires of a device, so that the owner's CPU executes them
/// all. READs are Soft-RoCE's. UCX promises neither.
const EXECUTED_BY: [&str; 2] = ["READs are done without the owner", "atomics by the owner's CPU"];

/// The transport's latency is at most this multiple of ucx_perftest's.
const MAX_LATENCY_RATIO: f64 = 1.15;

pub(super) const CASES: &[Case] = &[
    trial(Layer::Two, "ucx_rc_conformance", |testbed| conformance(testbed, 2)),
    trial(Layer::Two, "ucx_rc_conformance_of_three", |testbed| conformance(testbed, 3)),
    Case::test(Layer::Two, "ucx_rc_bench_latency", bench_latency).needs(PROBELINE),
    trial(Layer::Two, "comparison_with_ucx_perftest_runs", |testbed| {
        compare(testbed, &SHORT).map(drop)
    }),
    Case::bench(Layer::Two, "ucx_rc_latency_vs_ucx_perftest", |testbed| compare(testbed, &FULL))
        .needs(TRIAL),
];

/// Runs the suite; prints the route and the skips.
fn conformance(testbed: &Testbed, ranks: u32) -> Result<()> {
    let output = run_on_all(testbed, ranks, &format!("conformance --ucx {OVER_RC}"))?;
    println!();
    let is_printed =
        |line: &&str| ["UCX ", "skipped ", "expected skips"].iter().any(|w| line.starts_with(w));
    output.lines().filter(is_printed).for_each(|line| println!("{line}"));
    check_route(&output)?;
    suite_passes(&output)
}

/// Checks that the engines use Soft-RoCE, and who executes operations.
fn check_route(output: &str) -> Result<()> {
    let line = output.lines().find(|line| line.contains("rc_verbs/rxe0:1"));
    let line = line.with_context(|| format!("not over Soft-RoCE: {output}"))?;
    ensure!(EXECUTED_BY.iter().all(|who| line.contains(who)), "unexpected route: {line}");
    Ok(())
}

fn bench_latency(testbed: &Testbed) -> Result<()> {
    let table = "--table-size 128KiB -C 8,64 --load-factor 0.1,0.5 --ops 200 --full";
    let arguments = format!(
        "bench-latency --transport ucx --ucx-tls {OVER_RC} {table} --allow-remote --pin none"
    );
    let report = Ranks::start(testbed, "probeline", 2, &arguments)?.finish()?;
    check_route(&report)?;
    println!();
    for name in ["READ 8 B", "READ 4096 B", "WRITE 4096 B", "CAS", "FAA", "inserted", "found"] {
        let row = report.lines().find(|line| line.trim_start().starts_with(name));
        println!("{}", row.with_context(|| format!("no row {name} in: {report}"))?);
    }
    Ok(())
}

/// The size of a comparison.
struct Effort {
    rounds: usize,
    /// Measured operations of a round.
    operations: u32,
    warm_up: u32,
}

const FULL: Effort = Effort { rounds: 5, operations: 1000, warm_up: 100 };
const SHORT: Effort = Effort { rounds: 1, operations: 20, warm_up: 1 };

/// The settings by which ucx_perftest takes the same route as [`OVER_RC`].
const PERFTEST_ENV: &str = "UCX_TLS=rc,self UCX_NET_DEVICES=rxe0:1 UCX_IB_GID_INDEX=0 \
    UCX_ATOMIC_MODE=cpu";

/// An operation that both ucx_perftest and `trial` measure.
struct Operation {
    name: &'static str,
    perftest: &'static str,
    trial: &'static str,
    /// Activities of the owner during the measurement. The bound is for the first entry, which is
    /// what ucx_perftest's responder does: for READs it sleeps between two polls, for atomics it
    /// polls.
    owners: &'static [&'static str],
}

const OPERATIONS: [Operation; 3] = [
    Operation {
        name: "READ 8 B",
        perftest: "-t ucp_get -s 8",
        trial: "latency read --bytes 8",
        owners: &["sleeps", "polls"],
    },
    Operation {
        name: "READ 64 B",
        perftest: "-t ucp_get -s 64",
        trial: "latency read --bytes 64",
        owners: &["sleeps", "polls"],
    },
    Operation {
        name: "CAS",
        perftest: "-t ucp_cswap -s 8",
        trial: "latency cas",
        owners: &["polls", "waits"],
    },
];

fn compare(testbed: &Testbed, effort: &Effort) -> Result<Vec<Figure>> {
    println!(
        "\n| rc over Soft-RoCE | owner | transport us | ucx_perftest us | ratio | of the best |"
    );
    println!("|---|---|---|---|---|---|");
    OPERATIONS.iter().map(|operation| operation.ratio(testbed, effort)).collect()
}

impl Operation {
    /// Prints a row for each activity of the owner: medians, and the median of the rounds' ratios.
    /// The figure is the ratio of the best rounds of the first row.
    fn ratio(&self, testbed: &Testbed, effort: &Effort) -> Result<Figure> {
        let (mut perftest, mut transport) = (Vec::new(), vec![Vec::new(); self.owners.len()]);
        for _ in 0..effort.rounds {
            perftest.push(positive(ucx_perftest(testbed, self.perftest, effort)?)?);
            for (owner, times) in self.owners.iter().zip(&mut transport) {
                let trial = format!("{} --owner {owner}", self.trial);
                times.push(positive(measure(testbed, &trial, effort)?)?);
            }
        }
        let mut figure = None;
        for (owner, times) in self.owners.iter().zip(transport) {
            let ratios = times.iter().zip(&perftest).map(|(ours, theirs)| ours / theirs).collect();
            let best = min(&times) / min(&perftest);
            let (name, ratio) = (self.name, median(ratios));
            let (ours, theirs) = (median(times), median(perftest.clone()));
            println!("| {name} | {owner} | {ours:.1} | {theirs:.0} | {ratio:.2} | {best:.2} |");
            figure.get_or_insert(best);
        }
        let value = figure.context("no activity of the owner")?;
        let name = format!("{} over UCX rc / ucx_perftest", self.name);
        Ok(Figure { name, value, bound: Bound::AtMost(MAX_LATENCY_RATIO) })
    }
}

/// Measures the transport's median, in us.
fn measure(testbed: &Testbed, trial: &str, effort: &Effort) -> Result<f64> {
    let Effort { operations, warm_up, .. } = effort;
    let counts = format!("--operations {operations} --warm-up {warm_up}");
    let output = run_on_all(testbed, 2, &format!("{trial} {counts} --ucx {OVER_RC}"))?;
    check_route(&output)?;
    Ok(number(&output, "median_ns")? * 1e-3)
}

/// Measures ucx_perftest's median, in us.
fn ucx_perftest(testbed: &Testbed, test: &str, effort: &Effort) -> Result<f64> {
    let port = unused_port();
    let (client, server) = (testbed.machine(1), testbed.machine(2));
    let command = format!("{PERFTEST_ENV} ucx_perftest -p {port}");
    let serving = server.start(&command, HANG_TIMEOUT)?;
    server.wait_for_listener(port)?;
    let Effort { operations, warm_up, .. } = effort;
    let counts = format!("-n {operations} -w {warm_up} -O 1 -R 50 -f -v");
    let text =
        client.output(&format!("{command} {} {test} {counts}", server.address()), HANG_TIMEOUT)?;
    serving.wait()?.success()?;
    second_column(&text).with_context(|| format!("no row of numbers: {text}"))
}

/// Returns the second column, which is the percentile of `-R`, of the only row.
fn second_column(text: &str) -> Option<f64> {
    text.lines().rev().find_map(|line| line.split(',').nth(1)?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_percentile() {
        let text = "iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr\n\
                    1000,309.000,325.1,325.1,0.19,0.19,3075\n";
        assert_eq!(second_column(text), Some(309.0));
        assert_eq!(second_column("[1.2] [node1:7] sock.c:1 UCX ERROR connect: refused\n"), None);
    }
}
