//! `probeline doctor` over Soft-RoCE: it accepts a working device, and finds faults that are made.

use anyhow::{Result, ensure};

use super::PROBELINE;
use super::ranks::{JOB_TIMEOUT, command};
use crate::HANG_TIMEOUT;
use crate::case::{Case, Layer};
use crate::programs::program;
use crate::testbed::Testbed;

/// The exit status of the doctor, without a finding `broken` and with one.
const WELL: i32 = 0;
const BROKEN: i32 = 3;

pub(super) const CASES: &[Case] = &[
    Case::test(Layer::Loopback, "doctor_accepts_soft_roce", accepts).needs(PROBELINE),
    Case::test(Layer::Loopback, "results_have_the_findings_of_doctor", findings_in_results)
        .needs(PROBELINE),
    Case::test(Layer::Loopback, "doctor_finds_faults", finds_faults).needs(PROBELINE).destructive(),
    Case::test(Layer::Tearing, "doctor_reports_torn_words", |testbed| {
        let torn = "; correct and suitable for trials; its speed is that of the kernel, not of \
                    RDMA hardware, and READs may return torn words";
        let driver = format!("warning  rxe0, driver: Soft-RoCE (rdma_rxe), no hardware{torn}");
        examine(testbed, "", WELL, &[&driver])
    })
    .needs(PROBELINE),
    Case::test(Layer::Numa, "doctor_reports_the_numa_node", |testbed| {
        let near = "fine     rxe0, numa-node: node 1, where this process may";
        examine(testbed, "", WELL, &[near])?;
        let elsewhere = "warning  rxe0, numa-node: node 1, but this process may use only CPUs 0 of";
        examine(testbed, "taskset -c 0", WELL, &[elsewhere, "numactl --cpunodebind=1 --membind=1"])
    })
    .needs(PROBELINE),
];

/// Runs the doctor behind the command `before`, and checks its exit status and that it prints all of
/// `lines`, which may be parts of lines.
fn examine(testbed: &Testbed, before: &str, status: i32, lines: &[&str]) -> Result<()> {
    let command = format!("{before} {} doctor", program("probeline")?);
    let exit = testbed.machine(1).run(&command, HANG_TIMEOUT)?;
    ensure!(exit.status == status, "{exit:?}");
    prints(&exit.output, lines)
}

fn prints(output: &str, lines: &[&str]) -> Result<()> {
    // A finding goes on in indented lines.
    let output = output.replace("\n    ", " ");
    for line in lines {
        ensure!(output.contains(line), "not printed: {line}\n{output}");
    }
    Ok(())
}

fn accepts(testbed: &Testbed) -> Result<()> {
    let index = testbed.machine(1).output("echo $GID_INDEX", HANG_TIMEOUT)?;
    let gid = format!("fine     rxe0/1, gid: RoCE v2, ::ffff:10.0.0.1, index {}", index.trim());
    let lines = [
        "fine     machine, libibverbs: loaded",
        "fine     machine, device: rxe0",
        "fine     machine, locked-memory: ",
        "warning  rxe0, driver: Soft-RoCE (rdma_rxe), no hardware",
        "(firmware-notes/soft-roce.md)",
        "fine     rxe0, firmware: none: the device is software",
        "fine     rxe0, atomics: with each other on this device (atomic_cap HCA)",
        "fine     rxe0, atomics-tried: compare-and-swap and fetch-and-add over a queue pair",
        "fine     rxe0, outstanding-reads: 128 as initiator, 128 as responder",
        "fine     rxe0, numa-node: ",
        "fine     rxe0/1, link: active, Ethernet",
        "fine     rxe0/1, mtu: 4096 B",
        &gid,
        " 0 broken, ",
    ];
    examine(testbed, "", WELL, &lines)?;
    examine(testbed, "", WELL, &["rxe0/1, sent-again: "])?;
    let other = format!("{} doctor --device mlx5_0", program("probeline")?);
    let exit = testbed.machine(1).run(&other, HANG_TIMEOUT)?;
    ensure!(exit.status == 1, "{exit:?}");
    prints(&exit.output, &["no RDMA device is called mlx5_0: choose among rxe0"])
}

/// Checks the findings in the JSON of a comparison over verbs, whose columns are jobs of their own.
fn findings_in_results(testbed: &Testbed) -> Result<()> {
    let few = "--rounds 1 --ops 200 --seconds-per-measurement 0.002 --table-size 128KiB";
    let arguments = format!("compare --transports verbs --ranks 2 {few} --json $SHARE/doctor.json");
    let json = format!("{}; tr -d '\\n ' <$SHARE/doctor.json", command("probeline", &arguments)?);
    let json = testbed.machine(1).output(&format!("set -e; {json}"), JOB_TIMEOUT)?;
    let device = r#"{"check":"atomics-tried","subject":"rxe0","verdict":"fine","seen":"compare"#;
    let port = r#""check":"gid","subject":"rxe0/1","verdict":"fine""#;
    prints(&json, &[r#""doctor":["#, device, port])
}

/// Makes one fault after the other.
fn finds_faults(testbed: &Testbed) -> Result<()> {
    let node = testbed.machine(1);
    // Only users other than root have a limit of locked memory. They may not read root's builds.
    let copy = format!("cp {} /run/probeline && chmod 755 /run/probeline", program("probeline")?);
    node.output(&copy, HANG_TIMEOUT)?;
    let as_nobody = |kib: u32, lines: &[&str]| {
        let command = format!(
            "ulimit -l {kib} && setpriv --reuid 65534 --regid 65534 --clear-groups /run/probeline \
             doctor"
        );
        let exit = node.run(&command, HANG_TIMEOUT)?;
        ensure!(exit.status == BROKEN, "{exit:?}");
        prints(&exit.output, lines)
    };
    let limit = "broken   machine, locked-memory: 64 KiB at most; registering even a small";
    as_nobody(64, &[limit, "sudo prlimit --pid $$", "(firmware-notes/locked-memory.md)"])?;
    as_nobody(0, &["rxe0, atomics-tried: ibv_reg_mr failed with EPERM", "could be locked"])?;

    node.output("ip link set eth0 mtu 1500", HANG_TIMEOUT)?;
    let mtu = "warning  rxe0/1, mtu: 1024 B of 4096 B; ";
    examine(testbed, "", WELL, &[mtu, "Do: sudo ip link set eth0 mtu 4200"])?;
    node.output("ip link set eth0 mtu 4200", HANG_TIMEOUT)?;

    node.output("ip address flush dev eth0 scope global", HANG_TIMEOUT)?;
    let gid = "broken   rxe0/1, gid: ";
    examine(testbed, "", BROKEN, &[gid, "ip address add ADDRESS/PREFIX dev eth0"])?;

    node.output("ip link set eth0 down", HANG_TIMEOUT)?;
    let link = "broken   rxe0/1, link: down, Ethernet; the port cannot send or receive packets";
    let fix = "Do: sudo ip link set eth0 up (firmware-notes/link-state.md)";
    let untried = "unknown  rxe0, atomics-tried: not tried: no port is active";
    examine(testbed, "", BROKEN, &[link, fix, untried])?;

    node.output("rdma link delete rxe0", HANG_TIMEOUT)?;
    let none =
        "warning  machine, device: no RDMA device, and no card that is known to support RDMA";
    examine(testbed, "", WELL, &[none, "rdma link add rxe0 type rxe netdev eth0"])
}
