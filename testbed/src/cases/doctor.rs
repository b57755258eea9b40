//! `probeline doctor` over Soft-RoCE: what is right is fine, and what is made wrong is found.

use core::time::Duration;

use super::trial::SECRET;
use crate::bed::Bed;
use crate::case::{Case, Failure, Layer, ensure};
use crate::patience::PATIENCE;
use crate::programs::{Build, program};

const PROBELINE: &[Build] = &[Build::Release(&["--package", "probeline-cli"])];

/// The status where nothing is broken, and where something is.
const WELL: i32 = 0;
const BROKEN: i32 = 3;

pub(super) const CASES: &[Case] = &[
    Case::new(Layer::Loopback, "the_doctor_finds_soft_roce_well", well).needs(PROBELINE),
    Case::new(Layer::Loopback, "results_have_what_the_doctor_says", in_results).needs(PROBELINE),
    Case::new(Layer::Loopback, "the_doctor_finds_what_is_wrong", wrong).needs(PROBELINE).spoils(),
    Case::new(Layer::Tearing, "the_doctor_knows_of_torn_words", |bed| {
        let torn = "; right, and good for trials; its speed is that of the kernel and says nothing \
                    of RDMA, and READs may bring torn words";
        let driver = format!("look at this  rxe0, driver: Soft-RoCE (rdma_rxe), no hardware{torn}");
        examine(bed, "", WELL, &[&driver])
    })
    .needs(PROBELINE),
    Case::new(Layer::Numa, "the_doctor_knows_the_node", |bed| {
        examine(bed, "", WELL, &["fine          rxe0, numa-node: node 1, where this process may"])?;
        let elsewhere = "look at this  rxe0, numa-node: node 1, and this process may use CPUs 0 of";
        examine(bed, "taskset -c 0", WELL, &[elsewhere, "numactl --cpunodebind=1 --membind=1"])
    })
    .needs(PROBELINE),
];

/// Runs the command behind `before`; it ends with `status` and says all of `lines`, each at the
/// start of a line or within one.
fn examine(bed: &Bed, before: &str, status: i32, lines: &[&str]) -> Result<(), Failure> {
    let command = format!("{before} {} doctor", program("probeline")?);
    let ended = bed.machine(1).run(&command, PATIENCE)?;
    ensure(ended.status == status, || format!("status {}: {}", ended.status, ended.output))?;
    said(&ended.output, lines)
}

fn said(output: &str, lines: &[&str]) -> Result<(), Failure> {
    match lines.iter().find(|line| !output.contains(**line)) {
        Some(line) => Err(Failure(format!("not said: {line}\n{output}"))),
        None => Ok(()),
    }
}

fn well(bed: &Bed) -> Result<(), Failure> {
    let index = bed.machine(1).output("echo $GID_INDEX", PATIENCE)?;
    let gid =
        format!("fine          rxe0/1, gid: RoCE v2, ::ffff:10.0.0.1, index {}", index.trim());
    let lines = [
        "fine          machine, libibverbs: loaded",
        "fine          machine, device: rxe0",
        "fine          machine, locked-memory: ",
        "look at this  rxe0, driver: Soft-RoCE (rdma_rxe), no hardware",
        "(firmware-notes/soft-roce.md)",
        "fine          rxe0, firmware: none, it is software",
        "fine          rxe0, atomics: with each other on this device (atomic_cap HCA)",
        "fine          rxe0, atomics-tried: compare-and-swap and fetch-and-add over a queue pair",
        "fine          rxe0, outstanding-reads: 128 asked, 128 answered at once",
        "fine          rxe0, numa-node: ",
        "fine          rxe0/1, link: active, Ethernet",
        "fine          rxe0/1, mtu: 4096 B",
        &gid,
        " 0 broken, ",
    ];
    examine(bed, "", WELL, &lines)?;
    examine(bed, "", WELL, &["rxe0/1, sent-again: "])?;
    let other = format!("{} doctor --device mlx5_0", program("probeline")?);
    let ended = bed.machine(1).run(&other, PATIENCE)?;
    ensure(ended.status == 1, || format!("{ended:?}"))?;
    said(&ended.output, &["no RDMA device is called mlx5_0: choose among rxe0"])
}

/// A job over verbs, and columns side by side, each by a process of its own.
fn in_results(bed: &Bed) -> Result<(), Failure> {
    let quick = "--ranks 2 --pin none --table-size 128KiB -C 8 --load-factors 0.1 --ops 100";
    let latency = format!("bench-latency --transport verbs {quick}");
    let columns = "compare --columns verbs --ranks 2 --table-size 128KiB --quick".to_owned();
    for arguments in [latency, columns] {
        let command = format!(
            "{SECRET} {} {arguments} --json $SHARE/doctor.json >$SHARE/doctor.txt 2>&1 || \
             {{ cat $SHARE/doctor.txt; exit 1; }}; tr -d '\\n ' <$SHARE/doctor.json",
            program("probeline")?
        );
        let json = bed.machine(1).output(&command, Duration::from_secs(300))?;
        let device =
            r#"{"check":"atomics-tried","subject":"rxe0","verdict":"fine","seen":"compare"#;
        let port = r#""check":"gid","subject":"rxe0/1","verdict":"fine""#;
        said(&json, &[r#""doctor":["#, device, port])?;
    }
    Ok(())
}

/// One thing after the other is made wrong, and right again unless it is the last.
fn wrong(bed: &Bed) -> Result<(), Failure> {
    let node = bed.machine(1);
    // Others than root have a limit, and may not read where root's builds are.
    let copy = format!("cp {} /run/probeline && chmod 755 /run/probeline", program("probeline")?);
    node.output(&copy, PATIENCE)?;
    let as_nobody = |kib: u32, lines: &[&str]| {
        let command = format!(
            "ulimit -l {kib} && setpriv --reuid 65534 --regid 65534 --clear-groups /run/probeline \
             doctor"
        );
        let ended = node.run(&command, PATIENCE)?;
        ensure(ended.status == BROKEN, || format!("status {}: {}", ended.status, ended.output))?;
        said(&ended.output, lines)
    };
    let limit = "broken        machine, locked-memory: 64 KiB at most; registering even a small";
    as_nobody(64, &[limit, "sudo prlimit --pid $$", "(firmware-notes/locked-memory.md)"])?;
    as_nobody(0, &["rxe0, atomics-tried: ibv_reg_mr failed with EPERM", "could be locked"])?;

    node.output("ip link set eth0 mtu 1500", PATIENCE)?;
    let mtu = "look at this  rxe0/1, mtu: 1024 B of 4096 B; ";
    examine(bed, "", WELL, &[mtu, "Do: sudo ip link set eth0 mtu 4200"])?;
    node.output("ip link set eth0 mtu 4200", PATIENCE)?;

    node.output("ip address flush dev eth0 scope global", PATIENCE)?;
    let gid = "broken        rxe0/1, gid: ";
    examine(bed, "", BROKEN, &[gid, "ip address add ADDRESS/PREFIX dev eth0"])?;

    node.output("ip link set eth0 down", PATIENCE)?;
    let link = "broken        rxe0/1, link: down, Ethernet; no packet leaves or arrives";
    let mend = "Do: sudo ip link set eth0 up (firmware-notes/link-state.md)";
    let untried = "not seen      rxe0, atomics-tried: not tried: no port is active";
    examine(bed, "", BROKEN, &[link, mend, untried])?;

    node.output("rdma link delete rxe0", PATIENCE)?;
    let none = "look at this  machine, device: no RDMA device, and no card that is known to be one";
    examine(bed, "", WELL, &[none, "rdma link add rxe0 type rxe netdev eth0"])
}
