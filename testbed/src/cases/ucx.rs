//! UCX over Soft-RoCE between two machines: conformance, who executes READs and atomics, and latency
//! compared with `ucx_perftest`.

use anyhow::{Context, Result, ensure};

use super::conformance::suite_passes;
use super::perftest::compare;
use super::probeline::has_operations;
use super::ranks::{Ranks, run_on_all, unused_port};
use super::{PROBELINE, TRIAL, number, trial};
use crate::HANG_TIMEOUT;
use crate::case::{Bound, Case, Layer, Mode};
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
    trial(Layer::Two, "ucx_rc_conformance", conformance),
    Case::test(Layer::Two, "ucx_rc_bench_latency", bench_latency).needs(PROBELINE),
    Case::figures(Layer::Two, "ucx_rc_latency_vs_ucx_perftest", |testbed, mode| {
        let measure = |&(name, perftest, trial): &(&str, &str, &str)| {
            let transport = || transport_us(testbed, trial, mode);
            let perftest = || ucx_perftest_us(testbed, perftest, mode);
            compare(name, mode.rounds(), Bound::AtMost(MAX_LATENCY_RATIO), transport, perftest)
        };
        OPERATIONS.iter().map(measure).collect()
    })
    .needs(TRIAL),
];

/// Runs the suite; prints the route and the skips. Of three ranks two are on one machine, and the suite has
/// every case of two ranks.
fn conformance(testbed: &Testbed) -> Result<()> {
    let output = run_on_all(testbed, 3, &format!("conformance --ucx {OVER_RC}"))?;
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
    has_operations(&report)
}

/// Returns the measured operations of a round.
const fn operations(mode: Mode) -> u32 {
    match mode {
        Mode::Test => 20,
        Mode::Bench => 1000,
    }
}

/// The settings by which ucx_perftest takes the same route as [`OVER_RC`].
const PERFTEST_ENV: &str = "UCX_TLS=rc,self UCX_NET_DEVICES=rxe0:1 UCX_IB_GID_INDEX=0 \
    UCX_ATOMIC_MODE=cpu";

/// Operations that both measure: the figure, and the arguments of ucx_perftest and of `trial`.
const OPERATIONS: [(&str, &str, &str); 3] = [
    ("READ 8 B over UCX rc / ucx_perftest", "-t ucp_get -s 8", "latency read --words 1"),
    ("READ 64 B over UCX rc / ucx_perftest", "-t ucp_get -s 64", "latency read --words 8"),
    ("CAS over UCX rc / ucx_perftest", "-t ucp_cswap -s 8", "latency cas"),
];

/// Measures the transport's median, in us.
fn transport_us(testbed: &Testbed, trial: &str, mode: Mode) -> Result<f64> {
    let trial = format!("{trial} --operations {} --ucx {OVER_RC}", operations(mode));
    let output = run_on_all(testbed, 2, &trial)?;
    check_route(&output)?;
    Ok(number(&output, "time_ns")? * 1e-3)
}

/// Measures ucx_perftest's median, in us.
fn ucx_perftest_us(testbed: &Testbed, test: &str, mode: Mode) -> Result<f64> {
    let port = unused_port();
    let (client, server) = (testbed.machine(1), testbed.machine(2));
    let command = format!("{PERFTEST_ENV} ucx_perftest -p {port}");
    let serving = server.start(&command, HANG_TIMEOUT)?;
    server.wait_for_listener(port)?;
    let counts = format!("-n {0} -w {1} -O 1 -R 50 -f -v", operations(mode), operations(mode) / 10);
    let text =
        client.output(&format!("{command} {} {test} {counts}", server.address()), HANG_TIMEOUT)?;
    serving.wait()?.success()?;
    // The second column of the only row is the percentile of `-R`.
    let column = |line: &str| line.split(',').nth(1)?.trim().parse().ok();
    text.lines().rev().find_map(column).with_context(|| format!("no row of numbers: {text}"))
}
