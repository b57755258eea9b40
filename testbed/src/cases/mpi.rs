//! Open MPI between two machines: conformance of osc ucx over Soft-RoCE, the table over it compared
//! with verbs, and a job that meets by PMIx.

use core::time::Duration;

use anyhow::{Context, Result, ensure};

use super::conformance::suite_passes;
use super::probeline::{FMS_2, PHILOSOPHERS_7, check_exploration};
use super::{PROBELINE, median, positive};
use crate::case::{Bound, Case, Figure, Layer};
use crate::command::GuestCommand;
use crate::programs::{Build, c_example, open_mpi_probeline, open_mpi_tests, program};
use crate::testbed::Testbed;

/// Bounds a job of mpirun.
const MPIRUN_TIMEOUT: Duration = Duration::from_secs(1500);

/// Selects osc ucx over Soft-RoCE, with the link-local IPv6 address: see `ucx.rs`.
const OVER_RC: &str = "--mca osc ucx --mca pml ucx --mca btl ^openib,uct \
    --mca opal_common_ucx_tls any --mca opal_common_ucx_devices any \
    -x UCX_TLS=rc,self -x UCX_NET_DEVICES=rxe0:1 -x UCX_IB_GID_INDEX=0";

/// The port at which a shell on machine 2 accepts mpirun's command.
const SHELL_PORT: u16 = 2222;

/// The time of an insert over verbs is at most this multiple of that over osc ucx whose owner polls.
const MAX_INSERT_RATIO: f64 = 0.5;

/// Measures few inserts, and few operations of the other rows.
const BENCH: &str = "bench-latency -C 8 --load-factor 0.1 --rounds 1 --ops 50 \
    --seconds-per-measurement 0.05 --table-size 128KiB --full";

/// Rounds in which both transports take turns.
const ROUNDS: u32 = 5;

pub(super) const CASES: &[Case] = &[
    Case::test(Layer::Two, "osc_ucx_conformance", conformance).needs(&[Build::OpenMpiTests]),
    Case::test(Layer::Two, "comparison_with_osc_ucx_runs", |testbed| {
        compare(testbed, Build::OpenMpiProbeline, 1).map(drop)
    })
    .needs(&[Build::OpenMpiProbeline]),
    Case::bench(Layer::Two, "insert_over_verbs_vs_osc_ucx", |testbed| {
        let value = compare(testbed, Build::OpenMpiProbelineRelease, ROUNDS)?;
        let name = "insert over verbs / osc ucx".to_owned();
        Ok(vec![Figure { name, value, bound: Bound::AtMost(MAX_INSERT_RATIO) }])
    })
    .needs(&[Build::OpenMpiProbelineRelease]),
    Case::test(Layer::Two, "explore_on_two_machines_under_mpirun", explore).needs(PROBELINE),
    Case::test(Layer::Two, "c_example_on_two_machines", in_c).needs(&[Build::CExample]),
];

/// Runs the suite over osc ucx. The test program itself leaves out the cases that need an owner that
/// does nothing.
fn conformance(testbed: &Testbed) -> Result<()> {
    let before = testbed.machine(1).counter("sent_pkts")?;
    let tests = format!("{OVER_RC} {} rank conformance 'apart'", open_mpi_tests()?);
    let output = mpirun(testbed, &tests)?;
    let sent = testbed.machine(1).counter("sent_pkts")? - before;
    ensure!(sent > 10_000, "not over Soft-RoCE, which sent {sent} packets");
    println!();
    output.lines().filter(|line| line.contains("skipped")).for_each(|line| println!("{line}"));
    suite_passes(&output)
}

/// Runs `bench-latency` over verbs and over osc ucx by turns. Returns the time of an insert over verbs
/// divided by that over osc ucx, the median of the rounds.
fn compare(testbed: &Testbed, build: Build, rounds: u32) -> Result<f64> {
    let ratio = |_| -> Result<f64> {
        let verbs = insert_ns(testbed, build, "--transport verbs --exchange pmix")?;
        let osc_ucx = insert_ns(testbed, build, "--transport mpi")?;
        println!("\ninsert: {verbs} ns over verbs, {osc_ucx} ns over osc ucx");
        Ok(verbs / osc_ucx)
    };
    positive(median((0..rounds).map(ratio).collect::<Result<_>>()?))
}

/// Returns the median time of an insert.
fn insert_ns(testbed: &Testbed, build: Build, transport: &str) -> Result<f64> {
    let probeline = open_mpi_probeline(build)?;
    let output = mpirun(testbed, &format!("{OVER_RC} {probeline} {BENCH} {transport}"))?;
    // Columns: operation, C, load factor, operations, min, mean, p50.
    let mut rows = output.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let row = rows.find(|row| row.starts_with(&["inserted", "8", "0.10"]));
    let p50 = row.and_then(|row| row.get(6)?.parse().ok());
    positive(p50.with_context(|| format!("no insert in: {output}"))?)
}

/// Two ranks on two machines explore over verbs. PMIx alone tells them the address and the secret.
fn explore(testbed: &Testbed) -> Result<()> {
    let probeline = program("probeline")?;
    for (model, figures) in [("fms:2", &FMS_2[..]), ("philosophers:7", &PHILOSOPHERS_7)] {
        let before = testbed.machine(2).counter("sent_pkts")?;
        let explore = format!("explore {model} --transport verbs --exchange pmix --full");
        let output = mpirun(testbed, &format!("{probeline} {explore}"))?;
        let line = output.lines().find(|line| line.contains("of 2 machines"));
        println!("{}", line.with_context(|| format!("not on both machines: {output}"))?);
        check_exploration(&output, figures)?;
        let sent = testbed.machine(2).counter("sent_pkts")? - before;
        ensure!(sent > 1000, "not over Soft-RoCE, which sent {sent} packets");
    }
    Ok(())
}

/// The example in C on two machines over verbs: tables, a map, and a file of it on the shared disk.
fn in_c(testbed: &Testbed) -> Result<()> {
    let before = testbed.machine(2).counter("sent_pkts")?;
    let over_verbs = "-x PROBELINE_TRANSPORT=verbs -wdir $SHARE";
    let output = mpirun(testbed, &format!("{over_verbs} {}", c_example()?))?;
    ensure!(output.contains("all is well with 2 ranks"), "{output}");
    let sent = testbed.machine(2).counter("sent_pkts")? - before;
    ensure!(sent > 1000, "not over Soft-RoCE, which sent {sent} packets");
    println!("{sent} packets");
    Ok(())
}

/// A program for mpirun that starts a command on a node as rsh(1) does, by [`SHELL_PORT`].
const RSH: &str = r#"cat > $SHARE/rsh <<'END'
#!/bin/sh
node=$1; shift
printf '%s\n' "$*" | busybox nc "$node" SHELL_PORT
END
chmod +x $SHARE/rsh"#;

/// Runs a program with two ranks, one on each machine; options of mpirun may precede it. Returns the
/// output.
fn mpirun(testbed: &Testbed, program: &str) -> Result<String> {
    let shell = start_shell(testbed)?;
    let network = "--mca oob_tcp_if_include eth0 --mca orte_keep_fqdn_hostnames 1";
    let hosts = format!("--host {},{}", testbed.machine(1).address(), testbed.machine(2).address());
    let rsh = RSH.replace("SHELL_PORT", &SHELL_PORT.to_string());
    let command = format!(
        "{rsh}
mpirun.openmpi --allow-run-as-root -n 2 {hosts} --mca plm_rsh_agent $SHARE/rsh {network} {program}"
    );
    let output = testbed.machine(1).output(&command, MPIRUN_TIMEOUT)?;
    shell.signal("KILL")?;
    Ok(output)
}

/// Starts a shell on machine 2 for each connection. No other machine is on the wire.
fn start_shell(testbed: &Testbed) -> Result<GuestCommand> {
    let node = testbed.machine(2);
    let listen = format!("exec busybox nc -ll -p {SHELL_PORT} -e sh");
    let shell = node.start(&listen, MPIRUN_TIMEOUT)?;
    node.wait_for_listener(SHELL_PORT)?;
    Ok(shell)
}
