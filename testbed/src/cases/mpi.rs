//! Open MPI between two machines: conformance of osc ucx over Soft-RoCE, the table over it compared
//! with verbs, and a job that meets by PMIx.

use core::time::Duration;

use anyhow::{Context, Result, ensure};

use super::PROBELINE;
use super::conformance::suite_passes;
use super::perftest::compare;
use super::probeline::{FMS_2, PHILOSOPHERS_7, check_exploration};
use crate::case::{Bound, Case, Layer, Mode};
use crate::command::GuestCommand;
use crate::programs::{Build, C_EXAMPLE, open_mpi_probeline, open_mpi_tests, program};
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

pub(super) const CASES: &[Case] = &[
    Case::test(Layer::Two, "osc_ucx_conformance", conformance).needs(&[Build::OpenMpiTests]),
    Case::figures(Layer::Two, "insert_over_verbs_vs_osc_ucx", |testbed, mode| {
        let verbs = || insert_us(testbed, mode, "--transport verbs --exchange pmix");
        let osc_ucx = || insert_us(testbed, mode, "--transport mpi");
        let name = "insert over verbs / osc ucx";
        Ok(vec![compare(name, mode.rounds(), Bound::AtMost(MAX_INSERT_RATIO), verbs, osc_ucx)?])
    })
    .needs(&[Build::OpenMpiProbeline]),
    Case::test(Layer::Two, "explore_on_two_machines_under_mpirun", explore).needs(PROBELINE),
    Case::test(Layer::Two, "c_example_on_two_machines", in_c).needs(&[Build::CExample]),
];

/// Runs the suite over osc ucx. The test program itself leaves out the cases that need an owner that
/// does nothing.
fn conformance(testbed: &Testbed) -> Result<()> {
    let tests = format!("{OVER_RC} {} rank conformance 'apart'", open_mpi_tests()?);
    let output = over_soft_roce(testbed, &tests)?;
    println!();
    output.lines().filter(|line| line.contains("skipped")).for_each(|line| println!("{line}"));
    suite_passes(&output)
}

/// Returns the median time of an insert.
fn insert_us(testbed: &Testbed, mode: Mode, transport: &str) -> Result<f64> {
    let probeline = open_mpi_probeline(mode)?;
    let output = mpirun(testbed, &format!("{OVER_RC} {probeline} {BENCH} {transport}"))?;
    // Columns: operation, C, load factor, operations, min, mean, p50.
    let mut rows = output.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let row = rows.find(|row| row.starts_with(&["inserted", "8", "0.10"]));
    let p50: Option<f64> = row.and_then(|row| row.get(6)?.parse().ok());
    Ok(p50.with_context(|| format!("no insert in: {output}"))? * 1e-3)
}

/// Explores with two ranks on two machines over verbs. PMIx alone tells them the address and the secret.
fn explore(testbed: &Testbed) -> Result<()> {
    let probeline = program("probeline")?;
    for (model, figures) in [("fms:2", &FMS_2[..]), ("philosophers:7", &PHILOSOPHERS_7)] {
        let explore = format!("explore {model} --transport verbs --exchange pmix --full");
        let output = over_soft_roce(testbed, &format!("{probeline} {explore}"))?;
        let line = output.lines().find(|line| line.contains("of 2 machines"));
        println!("{}", line.with_context(|| format!("not on both machines: {output}"))?);
        check_exploration(&output, figures)?;
    }
    Ok(())
}

/// Runs the example in C on two machines over verbs: tables, a map, and a file of it on the shared disk.
fn in_c(testbed: &Testbed) -> Result<()> {
    let over_verbs = "-x PROBELINE_TRANSPORT=verbs -wdir $SHARE";
    let output = over_soft_roce(testbed, &format!("{over_verbs} {}", program(C_EXAMPLE)?))?;
    ensure!(output.contains("all is well with 2 ranks"), "{output}");
    Ok(())
}

/// Runs a program under mpirun, and checks that it has used Soft-RoCE.
fn over_soft_roce(testbed: &Testbed, program: &str) -> Result<String> {
    let before = testbed.machine(2).counter("sent_pkts")?;
    let output = mpirun(testbed, program)?;
    let sent = testbed.machine(2).counter("sent_pkts")? - before;
    ensure!(sent > 1000, "not over Soft-RoCE, which sent {sent} packets");
    Ok(output)
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
