//! Checks a device: its driver and that driver's known problems, its firmware, the atomics that inserts
//! use, and its limits of outstanding operations.

use probeline_verbs::{AtomicCapability, OpenError, PortError};

use crate::finding::{Check, Found, broken, fine, unknown, warning};
use crate::root::Root;
use crate::survey::{Facts, NoAnswer, Trial};

const RXE_VENDOR: u32 = 0xff_ffff;
const SIW_VENDOR: u32 = 0x62_6d74;
/// The part number of Connect-IB, the first device of mlx5.
const CONNECT_IB: u32 = 4113;
/// The value of most devices, which an engine requests by default.
const USUAL_READS: u8 = 16;
/// errno(3).
const EPERM: i32 = 1;
const ENOMEM: i32 = 12;

const SOFT_ROCE: &str = "Soft-RoCE (rdma_rxe), no hardware";
const SOFT_IWARP: &str = "Soft-iWARP (siw), no hardware";
const ANOTHER: &str = "another device: probeline doctor --device ANOTHER";
const NONE_HAS_ATOMICS: &str = "devices-without-atomics.md";

/// A device, and what is known about it.
pub(crate) struct Device<'a> {
    pub(crate) root: &'a Root,
    pub(crate) name: &'a str,
    pub(crate) facts: &'a Facts,
    /// The kernel's module, or the name of a software device; `None` if sysfs does not show it.
    driver: Option<String>,
}

/// The check of a device without facts.
pub(crate) const UNANSWERED: Check<NoAnswer> = Check::new("device", Some("no-device.md"), |why| {
    let (more, command) = match why {
        NoAnswer::Silent(_) => {
            (", or not queried because an earlier device hangs", "sudo dmesg | tail -50")
        }
        _ => ("", "ls -l /dev/infiniband; groups; in a container --device=/dev/infiniband"),
    };
    Ok(broken(format!("{why}{more}"), "no engine can use it", command))
});

impl<'a> Device<'a> {
    pub(crate) const CHECKS: [Check<Self>; 10] = [
        Check::new("driver", None, Self::check_driver),
        Check::new("firmware", None, Self::firmware),
        Check::new("atomics", Some("device-atomics.md"), Self::atomics),
        Check::new("atomics-tried", Some("atomic-byte-order.md"), Self::trial)
            .shown_by("probeline doctor"),
        Check::new("pci-atomics", Some("pci-atomics.md"), Self::pci_atomics),
        Check::new("outstanding-reads", Some("outstanding-reads.md"), Self::outstanding),
        Check::new("numa-node", Some("numa-node.md"), Self::node),
        Check::new("pcie-link", Some("pcie-link.md"), Self::link).only_if(Self::has_slot),
        Check::new("read-request", Some("read-request-size.md"), Self::request_size)
            .only_if(Self::has_slot),
        Check::new("iommu", Some("iommu.md"), Self::iommu).only_if(Self::has_slot),
    ];

    /// Identifies the driver from sysfs and from the vendor number that software devices have.
    pub(crate) fn new(root: &'a Root, name: &'a str, facts: &'a Facts) -> Self {
        let class = format!("sys/class/infiniband/{name}");
        let driver = root.link(&format!("{class}/device/driver"));
        let driver = driver.or_else(|| match facts.identity.vendor {
            RXE_VENDOR => Some(SOFT_ROCE.to_owned()),
            SIW_VENDOR => Some(SOFT_IWARP.to_owned()),
            // Before Linux 5.0 the vendor number of Soft-RoCE was 0. No other device has a network
            // interface as its parent.
            _ => root.text(&format!("{class}/parent")).ok().map(|_| SOFT_ROCE.to_owned()),
        });
        Self { root, name, facts, driver }
    }

    /// Returns whether the device is hardware in a slot.
    pub(crate) fn has_slot(&self) -> bool {
        !matches!(self.driver.as_deref(), Some(SOFT_ROCE | SOFT_IWARP))
    }

    fn is_nvidia(&self) -> bool {
        matches!(self.driver.as_deref(), Some("mlx5_core" | "mlx4_core"))
    }

    /// Checks the driver and its known problems.
    fn check_driver(&self) -> Found {
        let Some(driver) = self.driver.as_deref() else {
            let command = "rdma link show; ls -l /sys/class/infiniband/*/device/driver";
            return Ok(unknown("sysfs does not show its driver").command(command));
        };
        let concerns = |of: &&Problem| of.drivers.contains(&driver) && (of.concerns)(self.facts);
        let Some(problem) = PROBLEMS.iter().find(concerns) else { return Ok(fine(driver)) };
        let command = match problem.command {
            EXAMINE => format!("{EXAMINE} {}", self.name),
            command => command.to_owned(),
        };
        let mut consequence = problem.consequence.to_owned();
        if driver == SOFT_ROCE && self.copies_bytes() {
            consequence += ", and READs may return torn words";
        }
        Ok(warning(driver, consequence, command).note(problem.note))
    }

    /// Returns whether the device copies byte by byte. Soft-RoCE copies with the CPU, so the CPU's copy
    /// instructions determine whether words are copied atomically.
    fn copies_bytes(&self) -> bool {
        self.root.is_virtual() && self.root.has_cpu_flag("erms")
    }

    fn firmware(&self) -> Found {
        let version = &self.facts.identity.firmware;
        if !self.has_slot() {
            return Ok(fine("none: the device is software"));
        }
        let found = match (numbers(version), self.kind()) {
            _ if version.is_empty() => unknown("the driver reports no version")
                .command("ethtool -i INTERFACE; cat /sys/class/infiniband/*/fw_ver"),
            (None, _) if self.is_nvidia() => {
                unknown(format!("{version:?} is not a version such as 20.31.1014"))
            }
            (Some([family, rest @ ..]), Some(Kind { name, min, .. })) if rest < *min => {
                let [minor, patch] = min;
                warning(
                    format!("{version}, of {name}"),
                    format!(
                        "older than {family}.{minor}.{patch:04}, the oldest that DPDK still \
                         supports: update it before you measure"
                    ),
                    "sudo mlxup, or mstflint with the card's image",
                )
            }
            (_, Some(Kind { name, .. })) => fine(format!("{version}, of {name}")),
            (_, None) => fine(version),
        };
        Ok(found.note("firmware-version.md"))
    }

    /// Identifies the generation of one of NVIDIA's cards by the firmware's version, which virtual
    /// functions report too.
    fn kind(&self) -> Option<&'static Kind> {
        let [family, ..] = numbers(&self.facts.identity.firmware).filter(|_| self.is_nvidia())?;
        KINDS.iter().find(|kind| kind.family == family)
    }

    fn atomics(&self) -> Found {
        Ok(match self.facts.limits.atomics {
            AtomicCapability::None => broken(
                "none (atomic_cap NONE)",
                "without a compare-and-swap nothing is inserted: engines do not open on it",
                ANOTHER,
            )
            .note(NONE_HAS_ATOMICS),
            AtomicCapability::Device => fine("with each other on this device (atomic_cap HCA)")
                .consequence("an owner claims buckets of its own part through the device as well"),
            AtomicCapability::Global => fine("with the CPU's too (atomic_cap GLOB)"),
        })
    }

    fn trial(&self) -> Found {
        let error = match &self.facts.trial {
            Trial::Passed => {
                return Ok(fine(
                    "compare-and-swap and fetch-and-add over a queue pair to itself: they take \
                     effect, and return old values in the host's byte order",
                ));
            }
            Trial::NotTried(why) => return Err(format!("not tried: {why}")),
            Trial::Failed(error) => error,
        };
        let (consequence, command, note) = match error {
            OpenError::SelfTest { source: PortError::ByteOrder { .. }, .. } => (
                "claims would compare the wrong bytes, and fail",
                format!("a newer kernel, or {ANOTHER}"),
                "atomic-byte-order.md",
            ),
            OpenError::SelfTest { source: PortError::NoEffect { .. }, .. } => (
                "inserts would report success without storing anything",
                format!("a newer driver or firmware, or {ANOTHER}"),
                NONE_HAS_ATOMICS,
            ),
            OpenError::SelfTest { .. } => (
                "results of a table over it would be unreliable",
                ANOTHER.to_owned(),
                NONE_HAS_ATOMICS,
            ),
            // Opening registers only a few pages. The kernel reports a limit of 0 as EPERM.
            OpenError::Verb(failed) if [EPERM, ENOMEM].contains(&failed.errno) => (
                "not even the few pages of the smallest engine could be locked",
                "sudo prlimit --pid $$ --memlock=unlimited:unlimited".to_owned(),
                "locked-memory.md",
            ),
            _ => (
                "no engine can be opened on it",
                "sudo dmesg | tail -50".to_owned(),
                "no-device.md",
            ),
        };
        Ok(broken(error.to_string(), consequence, command).note(note))
    }

    fn pci_atomics(&self) -> Found {
        let caps = self.facts.pci_atomics.map_err(|failed| failed.to_string())?;
        let seen = match (caps.compare_and_swap, caps.fetch_add) {
            (true, true) => "compare-and-swap and fetch-and-add of 8 bytes",
            (true, false) => "compare-and-swap of 8 bytes",
            (false, true) => "fetch-and-add of 8 bytes",
            (false, false) => "none, or not reported",
        };
        let global = self.facts.limits.atomics == AtomicCapability::Global;
        if !(global || caps.compare_and_swap) || !self.root.is_virtual() {
            return Ok(fine(seen));
        }
        Ok(warning(
            format!("{seen}, in a virtual machine"),
            "some kernels enable them although no visible root port supports them: do not rely on \
             atomics that are atomic with the CPU's",
            "probeline bench-latency --transport verbs --direct off",
        ))
    }

    fn outstanding(&self) -> Found {
        let limits = &self.facts.limits;
        let (initiator, responder) = (limits.initiator_rd_atomic, limits.responder_rd_atomic);
        let min = initiator.min(responder);
        let seen = format!("{initiator} as initiator, {responder} as responder, per queue pair");
        Ok(match min {
            0 => broken(
                seen,
                "READs and atomics that are posted never complete",
                format!("ibv_devinfo -v; a newer driver or firmware, or {ANOTHER}"),
            ),
            1..USUAL_READS => warning(
                seen,
                format!(
                    "at most {min} READs and claims to one owner execute at once, and others \
                     wait: the rate to one owner is at most {min} per roundtrip"
                ),
                "probeline tune --transport verbs, which finds the number in flight up to which \
                 throughput rises",
            ),
            _ => fine(seen),
        })
    }
}

/// A known problem of drivers.
struct Problem {
    drivers: &'static [&'static str],
    /// Whether a device with these facts has the problem.
    concerns: fn(&Facts) -> bool,
    consequence: &'static str,
    command: &'static str,
    note: &'static str,
}

const SOFTWARE_ATOMICS: &str =
    "probeline bench-latency --transport ucx, where the owner's CPU executes them";
/// A placeholder for the command that examines the device.
const EXAMINE: &str = "probeline doctor --device";
const ANY: fn(&Facts) -> bool = |_| true;
const WITHOUT_ATOMICS: fn(&Facts) -> bool = |facts| facts.limits.atomics == AtomicCapability::None;

const PROBLEMS: [Problem; 9] = [
    Problem {
        drivers: &[SOFT_ROCE],
        concerns: ANY,
        consequence: "correct and suitable for trials; its speed is that of the kernel, not of RDMA \
                      hardware",
        command: "--device NAME, if ibv_devices lists a card",
        note: "soft-roce.md",
    },
    Problem {
        drivers: &[SOFT_IWARP],
        concerns: ANY,
        consequence: "it has no atomics, which inserts need",
        command: "use Soft-RoCE instead: rdma link add rxe0 type rxe netdev INTERFACE",
        note: NONE_HAS_ATOMICS,
    },
    Problem {
        drivers: &["mlx5_core"],
        concerns: |facts| facts.identity.part == CONNECT_IB,
        consequence: "old kernels and firmware of Connect-IB return the old values of atomics in \
                      big-endian order: see the test of its atomics",
        command: EXAMINE,
        note: "atomic-byte-order.md",
    },
    Problem {
        drivers: &["mlx4_core"],
        concerns: ANY,
        consequence: "the atomics of ConnectX-3 and older are limited to about 2.7 million per second \
                      in total, and there is no newer firmware",
        command: "another card for a higher rate; probeline limits --transport verbs measures it",
        note: "firmware-version.md",
    },
    Problem {
        drivers: &["efa", "mana"],
        concerns: ANY,
        consequence: "it supports READ and WRITE, but no atomics",
        command: SOFTWARE_ATOMICS,
        note: NONE_HAS_ATOMICS,
    },
    Problem {
        drivers: &["ionic", "ionic_rdma", "pds_core"],
        concerns: ANY,
        consequence: "some have reported success for atomics that changed nothing: see the test \
                      of its atomics",
        command: EXAMINE,
        note: NONE_HAS_ATOMICS,
    },
    Problem {
        drivers: &["bnxt_en", "bnxt_re", "qede", "qedr"],
        concerns: WITHOUT_ATOMICS,
        consequence: "it has atomics only if the PCI Express path to memory supports AtomicOps",
        command: "sudo lspci -vv | grep AtomicOps; another slot, or the firmware setup",
        note: "pci-atomics.md",
    },
    Problem {
        drivers: &["erdma"],
        concerns: WITHOUT_ATOMICS,
        consequence: "this device has no atomics: only the devices of some instances have them",
        command: SOFTWARE_ATOMICS,
        note: NONE_HAS_ATOMICS,
    },
    Problem {
        drivers: &["ice", "irdma", "i40e"],
        concerns: WITHOUT_ATOMICS,
        consequence: "older devices of this driver have no atomics; newer ones need a newer kernel",
        command: "a newer kernel; until then --transport ucx, where the owner's CPU executes \
                  atomics",
        note: NONE_HAS_ATOMICS,
    },
];

/// A generation of NVIDIA's cards.
struct Kind {
    /// The first part of its firmware's version.
    family: u32,
    name: &'static str,
    /// The rest of the minimum firmware version that DPDK supports, if it names one (guides for
    /// mlx5 and mlx4).
    min: [u32; 2],
}

impl Kind {
    const fn new(family: u32, name: &'static str, min: [u32; 2]) -> Self {
        Self { family, name, min }
    }
}

const KINDS: [Kind; 12] = [
    Kind::new(2, "ConnectX-3", [42, 5000]),
    Kind::new(12, "ConnectX-4", [21, 1000]),
    Kind::new(14, "ConnectX-4 Lx", [21, 1000]),
    Kind::new(16, "ConnectX-5", [21, 1000]),
    Kind::new(18, "BlueField", [25, 1010]),
    Kind::new(20, "ConnectX-6", [27, 90]),
    Kind::new(22, "ConnectX-6 Dx", [27, 90]),
    Kind::new(24, "BlueField-2", [28, 1002]),
    Kind::new(26, "ConnectX-6 Lx", [27, 90]),
    Kind::new(28, "ConnectX-7", [33, 2028]),
    Kind::new(32, "BlueField-3", [0, 0]),
    Kind::new(40, "ConnectX-8", [0, 0]),
];

fn numbers(version: &str) -> Option<[u32; 3]> {
    let parts = version.split('.').map(|part| part.parse::<u32>().ok());
    parts.collect::<Option<Vec<_>>>()?.try_into().ok()
}
