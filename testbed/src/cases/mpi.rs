//! Open MPI between two machines: that osc ucx over Soft-RoCE is a transport like the others, what
//! the table takes over it and over verbs, and that ranks of one mpirun meet with no port to choose.

use core::time::Duration;
use std::fs;

use super::perftest::positive;
use super::probeline::{FMS, PHILOSOPHERS, explored};
use crate::bed::Bed;
use crate::case::{Case, Failure, Layer, ensure};
use crate::programs::{Build, open_mpi_probeline, open_mpi_tests, program, target_dir};
use crate::running::Running;
use crate::verdict::{Bound, Verdict};

/// The longest that a job may take.
const LIMIT: Duration = Duration::from_secs(1500);

/// What osc ucx needs to be taken, and to go over Soft-RoCE; with the address of link-local IPv6,
/// see `ucx.rs`.
const OVER_RC: &str = "--mca osc ucx --mca pml ucx --mca btl ^openib,uct \
    --mca opal_common_ucx_tls any --mca opal_common_ucx_devices any \
    -x UCX_TLS=rc,self -x UCX_NET_DEVICES=rxe0:1 -x UCX_IB_GID_INDEX=0";

/// Where the second machine takes the command that starts its part of a job.
const DOOR: u16 = 2222;

pub(super) const CASES: &[Case] = &[
    Case::new(Layer::Two, "osc_ucx_conformance", conformance).needs(&[Build::OpenMpiTests]),
    Case::new(Layer::Two, "verbs_and_osc_ucx_are_compared", |bed| {
        compare(bed, Build::OpenMpiProbeline, ONCE).map(drop)
    })
    .needs(&[Build::OpenMpiProbeline]),
    Case::bench(Layer::Two, "insert_over_verbs_by_that_over_osc_ucx", |bed| {
        let value = compare(bed, Build::OpenMpiProbelineRelease, SHORT)?;
        let what = "insert over verbs by osc ucx".to_owned();
        Ok(vec![Verdict { what, value, bound: Bound::AtMost(MOST) }])
    })
    .needs(&[Build::OpenMpiProbelineRelease]),
    Case::new(Layer::Two, "compare_in_full", compare_in_full)
        .needs(&[Build::OpenMpiProbelineRelease])
        .on_demand(),
    Case::new(Layer::Two, "ranks_of_mpirun_meet_between_machines", ranks_meet)
        .needs(&[Build::Release(&["--package", "probeline-cli"])]),
];

/// Which of the suite an owner that does nothing makes impossible is in the program's own list.
fn conformance(bed: &Bed) -> Result<(), Failure> {
    let sent = || bed.machine(1).counter("sent_pkts");
    let before = sent()?;
    let tests = format!("{OVER_RC} {} rank conformance 'apart'", open_mpi_tests()?);
    let output = mpirun(bed, &tests)?;
    ensure(sent()? - before > 10_000, || "not over Soft-RoCE".into())?;
    println!();
    output.lines().filter(|line| line.contains("skipped")).for_each(|line| println!("{line}"));
    ensure(output.contains("27 passed, 0 failed, 4 skipped"), || output.clone())
}

/// Enough to see that it works.
const ONCE: &str = "--rounds 1 --ops 20 --seconds-per-measurement 0.01 --sleep 0.05";
/// Enough for the one ratio that has a bound.
const SHORT: &str = "--rounds 3 --ops 50 --seconds-per-measurement 0.05 --sleep 0.1";
/// What the page in `docs/` is made with.
const FULL: &str = "--rounds 5";

/// An insert over verbs takes so much of its time over osc ucx at most, where the owner polls.
const MOST: f64 = 0.5;

/// The whole comparison, whose page is left for `docs/`.
fn compare_in_full(bed: &Bed) -> Result<(), Failure> {
    compare(bed, Build::OpenMpiProbelineRelease, FULL)?;
    let page = target_dir()?.join("compare-soft-roce.md");
    fs::copy(bed.dir().join("share/compare.md"), &page)?;
    println!("all of it: {}", page.display());
    Ok(())
}

/// Compares, by a page in the share; the time of an insert over verbs by that over osc ucx.
fn compare(bed: &Bed, build: Build, effort: &str) -> Result<f64, Failure> {
    let columns = "--columns verbs,ucx-rc,osc-ucx --ucx-gid-index 0";
    let files = "--markdown $SHARE/compare.md";
    let probeline = open_mpi_probeline(build)?;
    let command = format!("{OVER_RC} {probeline} compare {columns} {effort} {files}");
    let output = mpirun(bed, &command)?;
    let line = output.lines().find_map(|line| line.strip_prefix("inserted: verbs takes "));
    let line = line.ok_or_else(|| Failure(format!("no ratio in: {output}")))?;
    println!("\n{line}");
    let ratio = line.split(' ').next().and_then(|ratio| ratio.parse().ok());
    positive(ratio.ok_or_else(|| Failure(format!("no ratio in: {line}")))?)
}

/// Two ranks on two machines, over verbs: where to meet, and the secret, come by PMIx alone.
fn ranks_meet(bed: &Bed) -> Result<(), Failure> {
    let probeline = program("probeline")?;
    for (work, figures) in [("explore fms:2", &FMS[..]), ("explore philosophers:7", &PHILOSOPHERS)]
    {
        let sent = || bed.machine(2).counter("sent_pkts");
        let before = sent()?;
        let output =
            mpirun(bed, &format!("{probeline} {work} --transport verbs --exchange pmix --full"))?;
        let line = output.lines().find(|line| line.contains("of 2 machines"));
        let line = line.ok_or_else(|| Failure(format!("not on both machines: {output}")))?;
        println!("{line}");
        explored(&output, figures)?;
        ensure(sent()? - before > 1000, || "not over Soft-RoCE".into())?;
    }
    Ok(())
}

/// Runs a program, given with what else mpirun is told, by two ranks, one on each machine; what it
/// wrote.
fn mpirun(bed: &Bed, program: &str) -> Result<String, Failure> {
    let door = open_door(bed)?;
    let network = "--mca oob_tcp_if_include eth0 --mca orte_keep_fqdn_hostnames 1";
    let hosts = format!("--host {},{}", bed.machine(1).address(), bed.machine(2).address());
    let agent = AGENT.replace("DOOR", &DOOR.to_string());
    let command = format!(
        "{agent}
mpirun.openmpi --allow-run-as-root -n 2 {hosts} --mca plm_rsh_agent $SHARE/agent {network} \
    {program}"
    );
    let output = bed.machine(1).output(&command, LIMIT)?;
    door.signal("KILL")?;
    Ok(output)
}

/// Starts a command on a node as rsh(1) does, through [`DOOR`].
const AGENT: &str = r#"cat > $SHARE/agent <<'END'
#!/bin/sh
node=$1; shift
printf '%s\n' "$*" | busybox nc "$node" DOOR
END
chmod +x $SHARE/agent"#;

/// A shell for whoever comes; there is nobody else on the wire.
fn open_door(bed: &Bed) -> Result<Running, Failure> {
    let door = bed.machine(2).start(&format!("exec busybox nc -ll -p {DOOR} -e sh"), LIMIT)?;
    bed.machine(2).listening(DOOR)?;
    Ok(door)
}
