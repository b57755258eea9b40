//! Checks whether there is an RDMA device, and if not, what is missing.

use crate::facts::Survey;
use crate::finding::{Check, Finding};
use crate::note::Note;
use crate::root::{Root, Unseen, linux_version};

const PCI: &str = "sys/bus/pci/devices";
/// The consequence of a missing device.
const OVER_SHM: &str = "--transport verbs needs an RDMA device; --transport shm connects \
                        processes of this machine without one";
const INSTALL: &str = "sudo apt-get install libibverbs1 ibverbs-providers";

const LIBRARY: Check<'_> = Check::of_machine("libibverbs", None);
const DEVICE: Check<'_> = Check::of_machine("device", None);
const FORK: Check<'_> = Check::of_machine("fork", Some(Note::FORK));

pub(crate) fn checks(root: &Root, survey: &Survey) -> Vec<Finding> {
    let kernel = root.rdma_devices();
    let broken = |seen: String, command| LIBRARY.broken(seen, OVER_SHM, command);
    let library = match survey {
        Survey::Devices(_) => LIBRARY.fine("loaded"),
        Survey::NoLibrary(error) if kernel.is_empty() => {
            LIBRARY.look(error.to_string(), OVER_SHM, INSTALL).note(Note::NO_DEVICE)
        }
        Survey::NoLibrary(error) => {
            let seen = format!("{error}; the kernel has {}", kernel.join(", "));
            broken(seen, INSTALL).note(Note::NO_DEVICE)
        }
        Survey::NoList(failed) => broken(failed.to_string(), "ls -l /dev/infiniband"),
        Survey::Silent(timeout) => {
            let seen = format!("no answer within {} s", timeout.as_secs());
            return vec![broken(seen, "sudo dmesg | tail -50").note(Note::NO_DEVICE)];
        }
    };
    match survey {
        Survey::Devices(devices) if !devices.is_empty() => {
            let names: Vec<&str> = devices.iter().map(|device| &*device.name).collect();
            let fork = fork(root).unwrap_or_else(|unseen| FORK.not_seen(unseen));
            vec![library, DEVICE.fine(names.join(", ")), fork]
        }
        _ => vec![library, without_device(root, &kernel).note(Note::NO_DEVICE)],
    }
}

/// Returns the finding for an empty list of libibverbs.
fn without_device(root: &Root, kernel: &[String]) -> Finding {
    if !kernel.is_empty() {
        let seen = format!("the kernel has {}, but libibverbs lists none", kernel.join(", "));
        return DEVICE.broken(seen, OVER_SHM, unlisted(root));
    }
    let Some(card) = root.names(PCI).iter().find_map(|at| Card::at(root, at)) else {
        if !root.has("sys/devices") {
            let why = "libibverbs lists no RDMA device, and /sys, which lists cards, is missing";
            let finding = DEVICE.not_seen(why).consequence(OVER_SHM);
            return finding.command(trial_without_card(root));
        }
        let seen = match root.has(PCI) {
            true => "no RDMA device, and no card that is known to support RDMA",
            false => "no RDMA device, and no PCI bus",
        };
        return DEVICE.look(seen, OVER_SHM, trial_without_card(root));
    };
    let driver = card.driver.as_deref().unwrap_or("none");
    let seen = format!("no RDMA device, but a card at {} (driver {driver})", card.address);
    let command = match driver {
        "vfio-pci" => "the card is assigned to a virtual machine: run probeline doctor in that \
                       machine"
            .to_owned(),
        _ => format!("sudo modprobe {} ib_uverbs", card.module),
    };
    DEVICE.look(seen, OVER_SHM, command)
}

/// Returns the command after which libibverbs lists a device that the kernel has.
fn unlisted(root: &Root) -> String {
    if root.names("sys/class/infiniband_verbs").is_empty() {
        return "sudo modprobe ib_uverbs".to_owned();
    }
    if root.names("dev/infiniband").is_empty() {
        return "give the container access to /dev/infiniband: docker run --device=/dev/infiniband \
                --cap-add=IPC_LOCK"
            .to_owned();
    }
    format!("{INSTALL}, or the vendor's provider")
}

/// Whether the kernel has Soft-RoCE, which provides RDMA devices on network interfaces.
enum SoftRoce {
    Available,
    /// All modules of the kernel are visible, and Soft-RoCE is not among them.
    Missing,
    /// The missing folder of the kernel's modules: a container has its host's kernel without the
    /// module files.
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
            true => Self::Available,
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
        SoftRoce::Available => format!("for a trial with Soft-RoCE: {soft_roce}"),
        SoftRoce::Missing => {
            "this kernel has no Soft-RoCE; for a trial in virtual machines: just vm-test".to_owned()
        }
        SoftRoce::NotSeen(modules) => format!(
            "for a trial in virtual machines: just vm-test; or with Soft-RoCE, if the kernel has \
             it (/{modules} is missing): {soft_roce}, on the host if this is a container"
        ),
    }
}

/// A network card that supports RDMA.
struct Card {
    address: String,
    driver: Option<String>,
    /// The kernel module that provides its RDMA device.
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
fn fork(root: &Root) -> Result<Finding, Unseen> {
    let release = root.text("proc/sys/kernel/osrelease")?;
    Ok(match linux_version(&release) {
        None => FORK.not_seen(format_args!("{release:?} is not a version of Linux")),
        Some((5, 12..) | (6.., _)) => {
            FORK.fine(format!("kernel {release} keeps a parent's registered pages in place"))
        }
        Some(_) => FORK.look(
            format!("kernel {release}, older than 5.12"),
            "after fork(2) the parent may get new copies of its pages, while the device accesses \
             the old ones",
            "export RDMAV_FORK_SAFE=1",
        ),
    })
}
