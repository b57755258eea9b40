//! Checks whether there is an RDMA device, and if not, what is missing.

use crate::finding::{Check, Finding, Found, Subject, broken, examine, fine, unknown, warning};
use crate::machine::RELEASE;
use crate::root::{Root, linux_version};
use crate::survey::Survey;

const PCI: &str = "sys/bus/pci/devices";
const NO_DEVICE: &str = "no-device.md";
/// The consequence of a missing device.
const OVER_SHM: &str = "--transport verbs needs an RDMA device; --transport shm connects \
                        processes of this machine without one";
const INSTALL: &str = "sudo apt-get install libibverbs1 ibverbs-providers";

type Facts<'a> = (&'a Root, &'a Survey);

/// Returns the findings on the library, and on devices unless the library hangs.
pub(crate) fn findings(root: &Root, survey: &Survey) -> Vec<Finding> {
    let checks = [
        Check::new("libibverbs", None, library),
        Check::new("device", None, device),
        Check::new("fork", Some("fork.md"), |(root, _): &Facts<'_>| fork(root)),
    ];
    let count = match survey {
        Survey::Silent(_) => 1,
        Survey::Devices(devices) if !devices.is_empty() => 3,
        _ => 2,
    };
    examine(&(root, survey), &Subject::Machine, &checks[..count])
}

fn library((root, survey): &Facts<'_>) -> Found {
    let kernel = root.rdma_devices();
    Ok(match survey {
        Survey::Devices(_) => fine("loaded"),
        Survey::NoLibrary(error) if kernel.is_empty() => {
            warning(error.to_string(), OVER_SHM, INSTALL).note(NO_DEVICE)
        }
        Survey::NoLibrary(error) => {
            let seen = format!("{error}; the kernel has {}", kernel.join(", "));
            broken(seen, OVER_SHM, INSTALL).note(NO_DEVICE)
        }
        Survey::NoList(failed) => broken(failed.to_string(), OVER_SHM, "ls -l /dev/infiniband"),
        Survey::Silent(timeout) => {
            let seen = format!("no answer within {} s", timeout.as_secs());
            broken(seen, OVER_SHM, "sudo dmesg | tail -50").note(NO_DEVICE)
        }
    })
}

fn device((root, survey): &Facts<'_>) -> Found {
    match survey {
        Survey::Devices(devices) if !devices.is_empty() => {
            let names: Vec<&str> = devices.iter().map(|device| &*device.name).collect();
            Ok(fine(names.join(", ")))
        }
        _ => Ok(without_device(root).note(NO_DEVICE)),
    }
}

/// Returns the finding for an empty list of libibverbs.
fn without_device(root: &Root) -> Finding {
    let kernel = root.rdma_devices();
    if !kernel.is_empty() {
        let seen = format!("the kernel has {}, but libibverbs lists none", kernel.join(", "));
        return broken(seen, OVER_SHM, unlisted(root));
    }
    let Some(card) = root.names(PCI).iter().find_map(|at| Card::at(root, at)) else {
        let trial = trial_without_card(root);
        return if root.has(PCI) {
            warning("no RDMA device, and no card that is known to support RDMA", OVER_SHM, trial)
        } else if root.has("sys/devices") {
            warning("no RDMA device, and no PCI bus", OVER_SHM, trial)
        } else {
            unknown("libibverbs lists no RDMA device, and /sys, which lists cards, is missing")
                .consequence(OVER_SHM)
                .command(trial)
        };
    };
    let driver = card.driver.as_deref().unwrap_or("none");
    let seen = format!("no RDMA device, but a card at {} (driver {driver})", card.address);
    let command = match driver {
        "vfio-pci" => "the card is assigned to a virtual machine: run probeline doctor in that \
                       machine"
            .to_owned(),
        _ => format!("sudo modprobe {} ib_uverbs", card.module),
    };
    warning(seen, OVER_SHM, command)
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

/// Returns the commands that try verbs on a machine without a card: with Soft-RoCE, which provides RDMA
/// devices on network interfaces, if the kernel has it.
fn trial_without_card(root: &Root) -> String {
    let interface = root.names("sys/class/net").into_iter().find(|name| name != "lo");
    let soft_roce = format!(
        "sudo modprobe rdma_rxe; sudo rdma link add rxe0 type rxe netdev {}",
        interface.as_deref().unwrap_or("lo")
    );
    let release = root.text(RELEASE).unwrap_or_default();
    let modules = format!("lib/modules/{release}");
    let files = root.names(&format!("{modules}/kernel/drivers/infiniband/sw/rxe"));
    let built_in = root.text(&format!("{modules}/modules.builtin")).unwrap_or_default();
    let available = files.iter().any(|name| name.starts_with("rdma_rxe."))
        || built_in.lines().any(|path| path.ends_with("/rdma_rxe.ko"))
        || root.has("sys/module/rdma_rxe");
    if available {
        return format!("for a trial with Soft-RoCE: {soft_roce}");
    }
    // A container has its host's kernel without the module files.
    if release.is_empty() || !root.has(&modules) {
        return format!(
            "for a trial in virtual machines: just vm-test; or with Soft-RoCE, if the kernel has \
             it (/{modules} is missing): {soft_roce}, on the host if this is a container"
        );
    }
    "this kernel has no Soft-RoCE; for a trial in virtual machines: just vm-test".to_owned()
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

/// Checks the kernel's release: before Linux 5.12 a parent's pinned pages may move when it forks.
fn fork(root: &Root) -> Found {
    let release = root.text(RELEASE)?;
    Ok(match linux_version(&release) {
        None => unknown(format!("{release:?} is not a version of Linux")),
        Some((5, 12..) | (6.., _)) => {
            fine(format!("kernel {release} keeps a parent's registered pages in place"))
        }
        Some(_) => warning(
            format!("kernel {release}, older than 5.12"),
            "after fork(2) the parent may get new copies of its pages, while the device accesses \
             the old ones",
            "export RDMAV_FORK_SAFE=1",
        ),
    })
}
