//! For any missing, truncated or random files and any device facts, each check returns a verdict or
//! reports that there is none, and nothing panics.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use probeline_doctor::{Doctor, Facts, Finding, PortFacts, Surveyed, Verdict};
use probeline_verbs::{
    AtomicCapability, LinkLayer, Mtu, PciAtomics, Port, PortError, PortState, VerbFailed,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::ward::Ward;

/// The change to a file.
#[derive(Clone, Debug)]
enum Fate {
    Kept,
    Gone,
    Holds(Vec<u8>),
    Folder,
    Pipe,
}

fn fate() -> impl Strategy<Value = Fate> {
    let text = "[-0-9a-z:.\\[\\]/ \n\t]{0,40}".prop_map(|text| Fate::Holds(text.into_bytes()));
    let bytes = vec(any::<u8>(), 0..300).prop_map(Fate::Holds);
    let number = any::<i128>().prop_map(|number| Fate::Holds(format!("{number}\n").into_bytes()));
    prop_oneof![
        8 => Just(Fate::Kept),
        2 => Just(Fate::Gone),
        3 => text,
        2 => bytes,
        2 => number,
        1 => Just(Fate::Folder),
        1 => Just(Fate::Pipe),
    ]
}

/// Collects the files below `root` without following links.
fn files(root: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> =
        fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        match path.symlink_metadata().unwrap().is_dir() {
            true => files(&path, found),
            false => found.push(path),
        }
    }
}

fn befall(path: &Path, fate: &Fate) {
    if matches!(fate, Fate::Kept) {
        return;
    }
    fs::remove_file(path).unwrap();
    match fate {
        Fate::Holds(bytes) => fs::write(path, bytes).unwrap(),
        Fate::Folder => fs::create_dir(path).unwrap(),
        // Others read only the topology there, and would open a FIFO as a device's file.
        Fate::Pipe if path.to_string_lossy().contains("/sys/devices/") => {}
        Fate::Pipe => {
            let made = std::process::Command::new("mkfifo").arg(path).status();
            assert!(made.unwrap().success());
        }
        Fate::Kept | Fate::Gone => {}
    }
}

fn facts() -> impl Strategy<Value = Facts> {
    let atomics = prop_oneof![
        Just(AtomicCapability::None),
        Just(AtomicCapability::Device),
        Just(AtomicCapability::Global),
    ];
    let states = (0_u32..7).prop_map(|code| match code {
        1 => PortState::Down,
        2 => PortState::Init,
        3 => PortState::Armed,
        4 => PortState::Active,
        5 => PortState::ActiveDeferred,
        code => PortState::Unknown(code),
    });
    let gid = prop_oneof![
        Just(PortError::NoGid),
        Just(PortError::NoRoceV2),
        Just(PortError::OnlyLinkLocal),
        any::<u8>().prop_map(PortError::NoSuchIndex),
        any::<i32>().prop_map(|errno| PortError::Verb(VerbFailed { verb: "x", errno })),
    ];
    let port = (any::<(bool, bool, Option<u8>, Option<u16>)>(), states, 0_u32..7, 0_u32..7, gid);
    let port = port.prop_map(|((active, ethernet, lanes, lane_rate), state, mtu, most, gid)| {
        let link_layer = if ethernet { LinkLayer::Ethernet } else { LinkLayer::Infiniband };
        let port = Port {
            number: 1,
            active,
            state,
            mtu: Mtu::of(mtu),
            max_mtu: Mtu::of(most),
            lanes,
            lane_rate,
            link_layer,
            lid: 0,
            gids: 0,
            message_bytes: 0,
            global: false,
        };
        PortFacts { port, gid: Err(gid) }
    });
    let numbers = any::<(u8, u8, Result<bool, i32>)>();
    let vendors = prop_oneof![Just(0xff_ffff), Just(0x62_6d74), Just(0), any::<u32>()];
    let devices = Ward::healthy().survey().unwrap();
    let healthy = devices[0].facts.clone().unwrap();
    (any::<String>(), vendors, any::<u32>(), atomics, numbers, vec(port, 0..3)).prop_map(
        move |(firmware, vendor, part, atomics, (responder, initiator, pci), ports)| {
            let pci_atomics = pci
                .map(|all| PciAtomics { compare_and_swap: all, fetch_add: all })
                .map_err(|errno| VerbFailed { verb: "ibv_query_device_ex", errno });
            let mut facts = Facts { pci_atomics, ports, ..healthy.clone() };
            let Facts { identity, limits, .. } = &mut facts;
            (identity.firmware, identity.vendor, identity.part) = (firmware, vendor, part);
            limits.atomics = atomics;
            (limits.responder_rd_atomic, limits.initiator_rd_atomic) = (responder, initiator);
            facts
        },
    )
}

/// Checks that every check has a finding, in one line.
fn check(doctor: &Doctor, facts: Facts) -> Result<(), TestCaseError> {
    static HEALTHY: OnceLock<Vec<Finding>> = OnceLock::new();
    let active = facts.ports.iter().filter(|port| port.port.active).count();
    let device = Surveyed { name: "mlx5_0".to_owned(), facts: Ok(facts) };
    let findings = doctor.examine(&Ok(vec![device]));
    for Finding { check, subject, .. } in HEALTHY.get_or_init(|| Ward::healthy().findings()) {
        let count = findings.iter().filter(|finding| finding.check == *check).count();
        match *check {
            // The device may be software without a slot, and its ports may be of InfiniBand or down.
            "pcie-link" | "read-request" | "iommu" | "link" => {}
            _ if subject.contains('/') => prop_assert_eq!(count, active, "{}", check),
            _ => prop_assert_eq!(count, 1, "{}", check),
        }
    }
    for finding in &findings {
        let line = finding.line();
        prop_assert!(!line.chars().any(char::is_control), "{:?}", line);
        prop_assert!(!finding.seen.is_empty(), "{:?}", finding);
        let wrong = matches!(finding.verdict, Verdict::Broken | Verdict::Warning);
        prop_assert!(!wrong || finding.consequence.is_some(), "{:?}", finding);
        prop_assert!(!wrong || finding.command.is_some(), "{:?}", finding);
    }
    Ok(())
}

proptest! {
    #[test]
    fn survives_missing_and_random_files(
        fates in vec(fate(), 90),
        facts in facts(),
    ) {
        let ward = Ward::healthy();
        let mut paths = Vec::new();
        files(ward.tree.root(), &mut paths);
        for (path, fate) in paths.iter().zip(fates.iter().cycle()) {
            befall(path, fate);
        }
        check(&ward.doctor(), facts)?;
    }
}
