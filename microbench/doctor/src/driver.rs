//! Identifies a device's driver and checks its known problems.

use core::fmt;

use probeline_verbs::AtomicCapability;

use crate::facts::Facts;
use crate::root::Root;
use crate::{Finding, Note, Subject};

const RXE_VENDOR: u32 = 0xff_ffff;
const SIW_VENDOR: u32 = 0x62_6d74;
/// The part number of Connect-IB, the first device of mlx5.
const CONNECT_IB: u32 = 4113;
const SOFTWARE_ATOMICS: &str =
    "probeline bench-latency --transport ucx, where the owner's CPU does them";

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

    /// Returns whether the device is software.
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

/// Checks the driver and its known problems.
pub(crate) fn check(root: &Root, driver: &Driver, subject: &Subject, facts: &Facts) -> Finding {
    const CHECK: &str = "driver";
    let name = driver.to_string();
    let look = |seen: String| Finding::look(CHECK, subject, seen);
    let Driver::Module(module) = driver else {
        return match driver {
            Driver::SoftRoce => soft_roce(root, look(format!("{name}, no hardware"))),
            Driver::SoftIwarp => look(format!("{name}, no hardware"))
                .consequence("it has no atomics, without which nothing is inserted")
                .command("rdma link add rxe0 type rxe netdev INTERFACE, Soft-RoCE in its place")
                .note(Note::DEVICES_WITHOUT_ATOMICS),
            _ => Finding::not_seen(CHECK, subject, "sysfs does not show its driver")
                .command("rdma link show; ls -l /sys/class/infiniband/*/device/driver"),
        };
    };
    match module.as_str() {
        "mlx5_core" if facts.part == CONNECT_IB => look(format!("{name}, Connect-IB"))
            .consequence(
                "old kernels and firmware return the old values of atomics in big-endian order: \
                 see what its trial says",
            )
            .command(format!("probeline doctor --device {subject}"))
            .note(Note::ATOMIC_BYTE_ORDER),
        "mlx4_core" => look(format!("{name}, ConnectX-3 or older"))
            .consequence(
                "all of its atomics together are limited to some 2.7 million a second, and it has \
                 no newer firmware to come",
            )
            .command("another card for more; probeline limits --transport verbs shows how many")
            .note(Note::FIRMWARE_VERSION),
        "efa" | "mana" => look(name)
            .consequence("it does READs and WRITEs and no atomics")
            .command(SOFTWARE_ATOMICS)
            .note(Note::DEVICES_WITHOUT_ATOMICS),
        "ionic" | "ionic_rdma" | "pds_core" => look(name)
            .consequence("some have reported atomics as done that changed nothing: see its trial")
            .command(format!("probeline doctor --device {subject}"))
            .note(Note::DEVICES_WITHOUT_ATOMICS),
        "bnxt_en" | "bnxt_re" | "qede" | "qedr" if facts.atomics == AtomicCapability::None => {
            look(name)
                .consequence(
                    "it has atomics only where the PCI Express path to memory takes AtomicOps",
                )
                .command("sudo lspci -vv | grep AtomicOps; another slot, or the firmware setup")
                .note(Note::PCI_ATOMICS)
        }
        "erdma" if facts.atomics == AtomicCapability::None => look(name)
            .consequence("this one has no atomics: they are a capability of the instance's device")
            .command(SOFTWARE_ATOMICS)
            .note(Note::DEVICES_WITHOUT_ATOMICS),
        "ice" | "irdma" | "i40e" if facts.atomics == AtomicCapability::None => look(name)
            .consequence("old ones of these have no atomics, newer ones with a newer kernel")
            .command(format!("a newer kernel; until then {SOFTWARE_ATOMICS}"))
            .note(Note::DEVICES_WITHOUT_ATOMICS),
        _ => Finding::fine(CHECK, subject, name),
    }
}

/// Soft-RoCE copies with the CPU, so the CPU's copy instructions determine whether words are copied
/// atomically.
fn soft_roce(root: &Root, finding: Finding) -> Finding {
    let flags = root.field("proc/cpuinfo", "flags").unwrap_or_default();
    let tears = root.is_virtual() && flags.split(' ').any(|flag| flag == "erms");
    let words = if tears { ", and READs may bring torn words" } else { "" };
    finding
        .consequence(format!(
            "right, and good for trials; its speed is that of the kernel and says nothing of \
             RDMA{words}"
        ))
        .command("ibv_devices, and --device NAME where it shows a card")
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

/// Checks the version of the firmware.
pub(crate) fn firmware(driver: &Driver, subject: &Subject, facts: &Facts) -> Finding {
    const CHECK: &str = "firmware";
    let version = &facts.firmware;
    if driver.is_software() {
        return Finding::fine(CHECK, subject, "none, it is software");
    }
    if version.is_empty() {
        return Finding::not_seen(CHECK, subject, "the driver names no version")
            .command("ethtool -i INTERFACE; cat /sys/class/infiniband/*/fw_ver")
            .note(Note::FIRMWARE_VERSION);
    }
    let fine = || Finding::fine(CHECK, subject, version).note(Note::FIRMWARE_VERSION);
    if !driver.is_mlx5() && !driver.is_mlx4() {
        return fine();
    }
    let Some(numbers) = numbers(version) else {
        let why = format!("{version:?} is no version such as 20.31.1014");
        return Finding::not_seen(CHECK, subject, why).note(Note::FIRMWARE_VERSION);
    };
    let [family, rest @ ..] = numbers;
    match Kind::of(driver, facts) {
        Some(Kind { name, least, .. }) if rest < *least => {
            let [minor, patch] = least;
            Finding::look(CHECK, subject, format!("{version}, of {name}"))
                .consequence(format!(
                    "older than {family}.{minor}.{patch:04}, the oldest that DPDK still supports: \
                     measure nothing before it is renewed"
                ))
                .command("sudo mlxup, or mstflint with the card's image")
                .note(Note::FIRMWARE_VERSION)
        }
        Some(Kind { name, .. }) => {
            let seen = format!("{version}, of {name}");
            Finding::fine(CHECK, subject, seen).note(Note::FIRMWARE_VERSION)
        }
        None => fine(),
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
    Finding::not_seen(
        "firmware-settings",
        subject,
        format!("{names}: probeline does not read them"),
    )
    .consequence(
        "with PCI_WR_ORDERING=1 the device reorders writes to any memory; the others change \
             rates and latencies",
    )
    .command(format!("sudo mlxconfig -d {device} query {names}"))
    .note(Note::WRITE_ORDERING)
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
