//! Identifies a device's driver and checks its known problems.

use core::fmt;

use probeline_verbs::AtomicCapability;

use crate::facts::Facts;
use crate::finding::{Check, Finding, Subject};
use crate::note::Note;
use crate::root::Root;

const RXE_VENDOR: u32 = 0xff_ffff;
const SIW_VENDOR: u32 = 0x62_6d74;
/// The part number of Connect-IB, the first device of mlx5.
const CONNECT_IB: u32 = 4113;

/// The kernel's driver of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Driver {
    SoftRoce,
    SoftIwarp,
    /// The driver with this module name.
    Module(String),
    Unknown,
}

impl Driver {
    /// Identifies the driver from sysfs and from the vendor number that software devices have.
    pub(crate) fn of(root: &Root, device: &str, vendor: Option<u32>) -> Self {
        let class = format!("sys/class/infiniband/{device}");
        if let Some(module) = root.link(&format!("{class}/device/driver")) {
            return Self::Module(module);
        }
        match vendor {
            Some(RXE_VENDOR) => Self::SoftRoce,
            Some(SIW_VENDOR) => Self::SoftIwarp,
            // Before Linux 5.0 the vendor number of Soft-RoCE was 0. No other device has a network
            // interface as its parent.
            _ if root.text(&format!("{class}/parent")).is_ok() => Self::SoftRoce,
            _ => Self::Unknown,
        }
    }

    pub(crate) fn is_software(&self) -> bool {
        matches!(self, Self::SoftRoce | Self::SoftIwarp)
    }

    pub(crate) fn is_mlx5(&self) -> bool {
        matches!(self, Self::Module(name) if name == "mlx5_core")
    }

    fn is_mlx4(&self) -> bool {
        matches!(self, Self::Module(name) if name == "mlx4_core")
    }
}

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SoftRoce => f.write_str("Soft-RoCE (rdma_rxe)"),
            Self::SoftIwarp => f.write_str("Soft-iWARP (siw)"),
            Self::Module(name) => f.write_str(name),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

struct Problem {
    modules: &'static [&'static str],
    /// Whether a device with these facts has the problem.
    concerns: fn(&Facts) -> bool,
    /// The text after the name of the driver.
    seen: &'static str,
    consequence: &'static str,
    command: &'static str,
    note: Note,
}

const SOFTWARE_ATOMICS: &str =
    "probeline bench-latency --transport ucx, where the owner's CPU executes them";
/// A placeholder for the command that examines the device.
const EXAMINE: &str = "probeline doctor --device";
const ANY: fn(&Facts) -> bool = |_| true;
const WITHOUT_ATOMICS: fn(&Facts) -> bool = |facts| facts.atomics == AtomicCapability::None;

const PROBLEMS: [Problem; 7] = [
    Problem {
        modules: &["mlx5_core"],
        concerns: |facts| facts.part == CONNECT_IB,
        seen: ", Connect-IB",
        consequence: "old kernels and firmware return the old values of atomics in big-endian order: \
                      see the test of its atomics",
        command: EXAMINE,
        note: Note::ATOMIC_BYTE_ORDER,
    },
    Problem {
        modules: &["mlx4_core"],
        concerns: ANY,
        seen: ", ConnectX-3 or older",
        consequence: "its atomics are limited to about 2.7 million per second in total, and there \
                      is no newer firmware",
        command: "another card for a higher rate; probeline limits --transport verbs measures it",
        note: Note::FIRMWARE_VERSION,
    },
    Problem {
        modules: &["efa", "mana"],
        concerns: ANY,
        seen: "",
        consequence: "it supports READ and WRITE, but no atomics",
        command: SOFTWARE_ATOMICS,
        note: Note::DEVICES_WITHOUT_ATOMICS,
    },
    Problem {
        modules: &["ionic", "ionic_rdma", "pds_core"],
        concerns: ANY,
        seen: "",
        consequence: "some have reported success for atomics that changed nothing: see the test \
                      of its atomics",
        command: EXAMINE,
        note: Note::DEVICES_WITHOUT_ATOMICS,
    },
    Problem {
        modules: &["bnxt_en", "bnxt_re", "qede", "qedr"],
        concerns: WITHOUT_ATOMICS,
        seen: "",
        consequence: "it has atomics only if the PCI Express path to memory supports AtomicOps",
        command: "sudo lspci -vv | grep AtomicOps; another slot, or the firmware setup",
        note: Note::PCI_ATOMICS,
    },
    Problem {
        modules: &["erdma"],
        concerns: WITHOUT_ATOMICS,
        seen: "",
        consequence: "this device has no atomics: only the devices of some instances have them",
        command: SOFTWARE_ATOMICS,
        note: Note::DEVICES_WITHOUT_ATOMICS,
    },
    Problem {
        modules: &["ice", "irdma", "i40e"],
        concerns: WITHOUT_ATOMICS,
        seen: "",
        consequence: "older devices of this driver have no atomics; newer ones need a newer kernel",
        command: "a newer kernel; until then --transport ucx, where the owner's CPU executes \
                  atomics",
        note: Note::DEVICES_WITHOUT_ATOMICS,
    },
];

/// Checks the driver and its known problems.
pub(crate) fn check(root: &Root, driver: &Driver, subject: &Subject, facts: &Facts) -> Finding {
    let check = Check::new("driver", subject, Note::DEVICES_WITHOUT_ATOMICS);
    let name = driver.to_string();
    let module = match driver {
        Driver::Module(module) => module.as_str(),
        Driver::SoftRoce => return soft_roce(root, &check, &name),
        Driver::SoftIwarp => {
            return check.look(
                format!("{name}, no hardware"),
                "it has no atomics, which inserts need",
                "use Soft-RoCE instead: rdma link add rxe0 type rxe netdev INTERFACE",
            );
        }
        Driver::Unknown => {
            let finding = check.without_note().not_seen("sysfs does not show its driver");
            return finding.command("rdma link show; ls -l /sys/class/infiniband/*/device/driver");
        }
    };
    let concerns = |of: &&Problem| of.modules.contains(&module) && (of.concerns)(facts);
    let Some(problem) = PROBLEMS.iter().find(concerns) else {
        return check.without_note().fine(name);
    };
    let command = match problem.command {
        EXAMINE => format!("{EXAMINE} {subject}"),
        command => command.to_owned(),
    };
    let seen = format!("{name}{}", problem.seen);
    check.look(seen, problem.consequence, command).note(problem.note)
}

/// Soft-RoCE copies with the CPU, so the CPU's copy instructions determine whether words are copied
/// atomically.
fn soft_roce(root: &Root, check: &Check<'_>, name: &str) -> Finding {
    let flags = root.field("proc/cpuinfo", "flags").unwrap_or_default();
    let tears = root.is_virtual() && flags.split(' ').any(|flag| flag == "erms");
    let words = if tears { ", and READs may return torn words" } else { "" };
    check
        .look(
            format!("{name}, no hardware"),
            format!(
                "correct and suitable for trials; its speed is that of the kernel, not of RDMA \
                 hardware{words}"
            ),
            "--device NAME, if ibv_devices lists a card",
        )
        .note(Note::SOFT_ROCE)
}

/// A generation of NVIDIA's cards.
pub(crate) struct Kind {
    /// The first part of its firmware's version.
    family: u32,
    pub(crate) name: &'static str,
    /// The rest of the minimum firmware version that DPDK supports, if it names one (guides for
    /// mlx5 and mlx4).
    least: [u32; 2],
    /// The maximum rate of a port of this generation, in Gbit/s (NVIDIA's data sheets).
    pub(crate) gbit_s: u32,
}

impl Kind {
    const fn new(family: u32, name: &'static str, least: [u32; 2], gbit_s: u32) -> Self {
        Self { family, name, least, gbit_s }
    }

    /// Identifies the generation by the firmware's version, which virtual functions report too.
    pub(crate) fn of(driver: &Driver, facts: &Facts) -> Option<&'static Self> {
        let known = driver.is_mlx5() || driver.is_mlx4();
        let [family, ..] = numbers(&facts.firmware).filter(|_| known)?;
        KINDS.iter().find(|kind| kind.family == family)
    }
}

const KINDS: [Kind; 12] = [
    Kind::new(2, "ConnectX-3", [42, 5000], 56),
    Kind::new(12, "ConnectX-4", [21, 1000], 100),
    Kind::new(14, "ConnectX-4 Lx", [21, 1000], 50),
    Kind::new(16, "ConnectX-5", [21, 1000], 100),
    Kind::new(18, "BlueField", [25, 1010], 100),
    Kind::new(20, "ConnectX-6", [27, 90], 200),
    Kind::new(22, "ConnectX-6 Dx", [27, 90], 200),
    Kind::new(24, "BlueField-2", [28, 1002], 200),
    Kind::new(26, "ConnectX-6 Lx", [27, 90], 50),
    Kind::new(28, "ConnectX-7", [33, 2028], 400),
    Kind::new(32, "BlueField-3", [0, 0], 400),
    Kind::new(40, "ConnectX-8", [0, 0], 800),
];

pub(crate) fn firmware(driver: &Driver, subject: &Subject, facts: &Facts) -> Finding {
    let check = Check::new("firmware", subject, Note::FIRMWARE_VERSION);
    let version = &facts.firmware;
    if driver.is_software() {
        return check.without_note().fine("none: the device is software");
    }
    if version.is_empty() {
        return check
            .not_seen("the driver reports no version")
            .command("ethtool -i INTERFACE; cat /sys/class/infiniband/*/fw_ver");
    }
    if !driver.is_mlx5() && !driver.is_mlx4() {
        return check.fine(version);
    }
    let Some([family, rest @ ..]) = numbers(version) else {
        return check.not_seen(format_args!("{version:?} is not a version such as 20.31.1014"));
    };
    match Kind::of(driver, facts) {
        Some(Kind { name, least: least @ [minor, patch], .. }) if rest < *least => check.look(
            format!("{version}, of {name}"),
            format!(
                "older than {family}.{minor}.{patch:04}, the oldest that DPDK still supports: \
                 update it before you measure"
            ),
            "sudo mlxup, or mstflint with the card's image",
        ),
        Some(Kind { name, .. }) => check.fine(format!("{version}, of {name}")),
        None => check.fine(version),
    }
}

fn numbers(version: &str) -> Option<[u32; 3]> {
    let mut parts = version.split('.').map(|part| part.parse::<u32>());
    let mut next = || parts.next()?.ok();
    let numbers = [next()?, next()?, next()?];
    parts.next().is_none().then_some(numbers)
}

/// Reports that firmware settings are unknown, with the vendor's command that shows them to root.
pub(crate) fn settings(bus: Option<&str>, subject: &Subject) -> Finding {
    let device = bus.unwrap_or("PCI_ADDRESS");
    let names = "PCI_WR_ORDERING PCI_ATOMIC_MODE MAX_ACC_OUT_READ CQE_COMPRESSION";
    Check::new("firmware-settings", subject, Note::WRITE_ORDERING)
        .not_seen(format_args!("{names}: probeline does not read them"))
        .consequence(
            "with PCI_WR_ORDERING=1 the device reorders writes to any memory; the others change \
             rates and latencies",
        )
        .command(format!("sudo mlxconfig -d {device} query {names}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_three_numbers() {
        assert_eq!(numbers("20.27.0090"), Some([20, 27, 90]));
        for text in ["", "20", "20.27", "20.27.x", "20.27.0090.1", "20.27.99999999999"] {
            assert_eq!(numbers(text), None, "{text}");
        }
    }
}
