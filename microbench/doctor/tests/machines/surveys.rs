//! The healthy machine, and answers of libibverbs that no simulated device gives.

use core::time::Duration;
use std::thread;

use probeline_doctor::Verdict::{Fine, Unknown};
use probeline_doctor::{Doctor, Facts, NoAnswer, Query, survey};
use probeline_verbs::{
    LIBIBVERBS, Library, LinkLayer, PciAtomics, PortError, PortState, SetupError, VerbFailed,
};

use crate::ward::{Ward, expect};

#[test]
fn reports_healthy_machine_as_fine() {
    let findings = Ward::healthy().findings();
    for finding in &findings {
        let expected = if finding.check == "read-request" { Unknown } else { Fine };
        // This finding depends on the machine that runs the test.
        if finding.check != "dev-shm" {
            assert_eq!(finding.verdict, expected, "{}", finding.line());
        }
    }
    for expected in [
        "fine     machine, device: mlx5_0",
        "fine     mlx5_0, driver: mlx5_core",
        "fine     mlx5_0, firmware: 20.31.1014, of ConnectX-6",
        "fine     mlx5_0, atomics: * atomic_cap HCA * notes/device-atomics.md",
        "fine     mlx5_0, atomics-tried: compare-and-swap and fetch-and-add * host's byte order",
        "fine     mlx5_0, outstanding-reads: 16 as initiator, 16 as responder",
        "fine     mlx5_0, numa-node: node 1, where this process may run",
        "fine     mlx5_0, pcie-link: x16 at 16 GT/s",
        "fine     mlx5_0, iommu: passes addresses through (identity)",
        "fine     mlx5_0/1, link: active, Ethernet",
        "fine     mlx5_0/1, rate: 200 Gbit/s over 4 lanes",
        "fine     mlx5_0/1, mtu: 4096 B",
        "fine     mlx5_0/1, gid: RoCE v2, ::ffff:10.0.0.1, index 2",
        "fine     mlx5_0/1, sent-again: none since",
    ] {
        expect(&findings, expected);
    }
}

#[test]
fn reports_unsimulated_facts() {
    let expect = |change: fn(&mut Facts), expected| {
        let ward = Ward::healthy();
        let mut devices = ward.survey().unwrap();
        change(devices[0].facts.as_mut().unwrap());
        expect(&ward.doctor().examine(&Ok(devices)), expected);
    };
    expect(
        |facts| {
            let failed = VerbFailed { verb: "ibv_query_gid_ex", errno: libc::EIO };
            facts.ports[0].gid = Err(PortError::Verb(failed));
        },
        "broken   mlx5_0/1, gid: * EIO * grep . /sys/class/infiniband/mlx5_0/ports/1/gids/",
    );
    expect(
        |facts| {
            let failed = VerbFailed { verb: "ibv_query_device_ex", errno: libc::EIO };
            facts.pci_atomics = Err(failed);
        },
        "unknown  mlx5_0, pci-atomics: * EIO",
    );
    expect(
        |facts| facts.pci_atomics = Ok(PciAtomics { compare_and_swap: true, fetch_add: true }),
        "fine     mlx5_0, pci-atomics: compare-and-swap and fetch-and-add of 8",
    );
    expect(
        |facts| {
            let port = &mut facts.ports[0].port;
            (port.active, port.state) = (false, PortState::Init);
            port.link_layer = LinkLayer::Infiniband;
        },
        "broken   mlx5_0/1, link: initialising, InfiniBand * systemctl start opensm",
    );
}

#[test]
fn reports_missing_failing_hanging_library() {
    let install = "apt-get install libibverbs1 ibverbs-providers";
    let missing = || {
        let options = Query::default();
        survey(|| Err(SetupError::Library(LIBIBVERBS)), &options, Duration::from_secs(20))
    };
    let bare = Ward::healthy().change("no card").doctor().examine(&missing());
    expect(&bare, &format!("warning  machine, libibverbs: * {install}"));
    let ward = Ward::healthy();
    let doctor = ward.doctor();
    let findings = doctor.examine(&missing());
    expect(&findings, &format!("broken   machine, libibverbs: * has mlx5_0 * {install}"));
    let failed = VerbFailed { verb: "ibv_get_device_list", errno: libc::EPERM };
    let findings = doctor.examine(&Err(NoAnswer::Failed(failed)));
    expect(&findings, "broken   machine, libibverbs: * EPERM");

    let hangs = || -> Result<Library, SetupError> {
        loop {
            thread::park();
        }
    };
    let survey = survey(hangs, &Query::default(), Duration::from_millis(50));
    assert!(matches!(survey, Err(NoAnswer::Silent(_))));
    let findings = doctor.examine(&survey);
    expect(&findings, "broken   machine, libibverbs: no answer * dmesg");
}

#[test]
fn reports_empty_root_as_unknown() {
    let ward = Ward::healthy();
    for root in ["/nowhere/at/all".into(), ward.tree.root().join("dev/shm")] {
        for finding in Doctor::new(root).machine() {
            assert_eq!(finding.verdict, Unknown, "{}", finding.line());
        }
    }
}

/// Examines the machine that runs the test.
#[test]
fn examines_real_machine() {
    for finding in Doctor::new("/").machine() {
        let seen = ["cores", "load", "memory", "huge-pages", "locked-memory", "clock"];
        let unseen = seen.contains(&finding.check) && finding.verdict == Unknown;
        assert!(!unseen, "{}", finding.line());
    }
}
