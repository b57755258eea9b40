//! Checks whether there is an RDMA device, and if not, what is missing.

use probeline_verbs::LoadError;

use crate::facts::{Survey, Surveyed};
use crate::root::Root;
use crate::{Finding, Note, Subject};

const CLASS: &str = "sys/class/infiniband";
const PCI: &str = "sys/bus/pci/devices";
/// The alternative transports without a device.
const OVER_SHM: &str = "--transport verbs has nothing to go over; shm goes between this machine's \
                        processes and needs none";
const INSTALL: &str = "sudo apt-get install libibverbs1 ibverbs-providers";

/// Returns the kernel's RDMA devices.
pub(crate) fn devices_of_kernel(root: &Root) -> Vec<String> {
    root.names(CLASS)
}

pub(crate) fn checks(root: &Root, survey: &Survey) -> Vec<Finding> {
    let kernel = devices_of_kernel(root);
    match survey {
        Survey::NoLibrary(error) => vec![no_library(error, &kernel), without_device(root, &kernel)],
        Survey::NoList(failed) => {
            let finding = broken_library(failed.to_string()).command("ls -l /dev/infiniband");
            vec![finding, without_device(root, &kernel)]
        }
        Survey::Silent(patience) => {
            let seen = format!("no answer within {} s", patience.as_secs());
            vec![broken_library(seen).command("sudo dmesg | tail -50").note(Note::NO_DEVICE)]
        }
        Survey::Devices(devices) if devices.is_empty() => {
            vec![loaded(), without_device(root, &kernel)]
        }
        Survey::Devices(devices) => vec![loaded(), found(devices), fork(root)],
    }
}

fn loaded() -> Finding {
    Finding::fine("libibverbs", &Subject::Machine, "loaded")
}

fn broken_library(seen: String) -> Finding {
    Finding::broken("libibverbs", &Subject::Machine, seen).consequence(OVER_SHM)
}

fn no_library(error: &LoadError, kernel: &[String]) -> Finding {
    const CHECK: &str = "libibverbs";
    let finding = if kernel.is_empty() {
        Finding::look(CHECK, &Subject::Machine, error.to_string())
    } else {
        let seen = format!("{error}; the kernel has {}", kernel.join(", "));
        Finding::broken(CHECK, &Subject::Machine, seen)
    };
    finding.consequence(OVER_SHM).command(INSTALL).note(Note::NO_DEVICE)
}

fn found(devices: &[Surveyed]) -> Finding {
    let names: Vec<&str> = devices.iter().map(|device| &*device.name).collect();
    Finding::fine("device", &Subject::Machine, names.join(", "))
}

/// Returns the finding for an empty list of libibverbs.
fn without_device(root: &Root, kernel: &[String]) -> Finding {
    const CHECK: &str = "device";
    let machine = &Subject::Machine;
    if !kernel.is_empty() {
        let seen = format!("the kernel has {}, libibverbs shows none", kernel.join(", "));
        return Finding::broken(CHECK, machine, seen)
            .consequence(OVER_SHM)
            .command(unlisted(root))
            .note(Note::NO_DEVICE);
    }
    let cards: Vec<Card> = root.names(PCI).iter().filter_map(|at| Card::at(root, at)).collect();
    let Some(card) = cards.first() else {
        let finding = if !root.has("sys/devices") {
            let why =
                "libibverbs shows no RDMA device, and /sys, which would show cards, is not here";
            Finding::not_seen(CHECK, machine, why)
        } else if root.has(PCI) {
            let seen = "no RDMA device, and no card that is known to be one";
            Finding::look(CHECK, machine, seen)
        } else {
            let seen = "no RDMA device, and no PCI bus to have a card on";
            Finding::look(CHECK, machine, seen)
        };
        return finding
            .consequence(OVER_SHM)
            .command(trial_without_card(root))
            .note(Note::NO_DEVICE);
    };
    let driver = card.driver.as_deref().unwrap_or("none");
    let seen = format!("no RDMA device, but a card at {} (driver {driver})", card.address);
    let mend = match driver {
        "vfio-pci" => "it is given to virtual machines: look inside the one that has it".to_owned(),
        _ => format!("sudo modprobe {} ib_uverbs", card.module),
    };
    Finding::look(CHECK, machine, seen).consequence(OVER_SHM).command(mend).note(Note::NO_DEVICE)
}

/// Returns the action that makes libibverbs list a device that the kernel has.
fn unlisted(root: &Root) -> String {
    if root.names("sys/class/infiniband_verbs").is_empty() {
        return "sudo modprobe ib_uverbs".to_owned();
    }
    if root.names("dev/infiniband").is_empty() {
        return "let the container have /dev/infiniband: docker run --device=/dev/infiniband \
                --cap-add=IPC_LOCK"
            .to_owned();
    }
    format!("{INSTALL}, or the vendor's provider")
}

/// Whether the kernel has Soft-RoCE, which makes RDMA devices of network interfaces.
enum SoftRoce {
    There,
    /// All modules of the kernel are visible, and Soft-RoCE is not among them.
    Missing,
    /// The folder where the modules should be: a container has its host's kernel without the module
    /// files.
    NotSeen(String),
}

impl SoftRoce {
    fn of(root: &Root) -> Self {
        let release = root.text("proc/sys/kernel/osrelease").unwrap_or_default();
        let modules = format!("lib/modules/{release}");
        let files = root.names(&format!("{modules}/kernel/drivers/infiniband/sw/rxe"));
        let built_in = root.text(&format!("{modules}/modules.builtin")).unwrap_or_default();
        let there = files.iter().any(|name| name.starts_with("rdma_rxe."))
            || built_in.lines().any(|path| path.ends_with("/rdma_rxe.ko"))
            || root.has("sys/module/rdma_rxe");
        match there {
            true => Self::There,
            false if release.is_empty() || !root.has(&modules) => Self::NotSeen(modules),
            false => Self::Missing,
        }
    }
}

/// Returns the commands that try verbs on a machine without a card.
fn trial_without_card(root: &Root) -> String {
    let interface = root.names("sys/class/net").into_iter().find(|name| name != "lo");
    let soft_roce = format!(
        "sudo modprobe rdma_rxe; sudo rdma link add rxe0 type rxe netdev {}",
        interface.as_deref().unwrap_or("lo")
    );
    match SoftRoce::of(root) {
        SoftRoce::There => format!("for a trial with Soft-RoCE: {soft_roce}"),
        SoftRoce::Missing => {
            "this kernel has no Soft-RoCE; for a trial in virtual machines: just vm-test".to_owned()
        }
        SoftRoce::NotSeen(modules) => format!(
            "for a trial in virtual machines: just vm-test; or with Soft-RoCE, if the kernel has it, \
             which is not seen, as /{modules} is not here: {soft_roce}, on the host of a container"
        ),
    }
}

/// A network card that supports RDMA.
struct Card {
    address: String,
    driver: Option<String>,
    /// The kernel module that makes an RDMA device of it.
    module: &'static str,
}

impl Card {
    fn at(root: &Root, address: &str) -> Option<Self> {
        let hex = |name: &str| {
            let text = root.text(&format!("{PCI}/{address}/{name}")).ok()?;
            u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
        };
        let driver = root.link(&format!("{PCI}/{address}/driver"));
        // The class is base, sub and interface: 02 is a network, 0207 an InfiniBand controller.
        let (vendor, device, class) = (hex("vendor")?, hex("device")?, hex("class")?);
        let module = match (vendor, class >> 8) {
            // ConnectX-3 and older cards have numbers below that of Connect-IB.
            (0x15b3, 0x0200 | 0x0207 | 0x0280) if device < 0x1011 => "mlx4_ib",
            (0x15b3, 0x0200 | 0x0207 | 0x0280) => "mlx5_ib",
            (0x1d0f, _) if device & 0xfff0 == 0xefa0 => "efa",
            (_, 0x0207) => "ib_core",
            _ => return None,
        };
        Some(Self { address: address.to_owned(), driver, module })
    }
}

/// Before Linux 5.12 a parent's pinned pages may move when it forks.
fn fork(root: &Root) -> Finding {
    const CHECK: &str = "fork";
    let machine = &Subject::Machine;
    let release = match root.text("proc/sys/kernel/osrelease") {
        Ok(release) => release,
        Err(unseen) => return Finding::not_seen(CHECK, machine, unseen).note(Note::FORK),
    };
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let version = numbers.next().and_then(Result::ok).zip(numbers.next().and_then(Result::ok));
    let Some(version) = version else {
        let why = format!("{release:?} is no version of Linux");
        return Finding::not_seen(CHECK, machine, why).note(Note::FORK);
    };
    if version >= (5, 12) {
        let seen = format!("kernel {release} keeps a parent's registered pages in place");
        return Finding::fine(CHECK, machine, seen).note(Note::FORK);
    }
    Finding::look(CHECK, machine, format!("kernel {release}, older than 5.12"))
        .consequence(
            "a process that forks gets new copies of pages that the device goes on writing the old \
             ones of",
        )
        .command("export RDMAV_FORK_SAFE=1")
        .note(Note::FORK)
}
