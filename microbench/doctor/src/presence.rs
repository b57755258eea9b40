//! Checks whether there is an RDMA device, and if not, what is missing.

use crate::finding::{Check, Finding, Found, broken, fine, unknown, warning};
use crate::machine::RELEASE;
use crate::root::{Root, linux_version};
use crate::survey::{NoAnswer, Survey};

const PCI: &str = "sys/bus/pci/devices";
const NO_DEVICE: &str = "no-device.md";
/// The consequence of a missing device.
const OVER_SHM: &str = "--transport verbs needs an RDMA device; --transport shm connects \
                        processes of this machine without one";
const INSTALL: &str = "sudo apt-get install libibverbs1 ibverbs-providers";

/// The answer of libibverbs on a machine.
pub(crate) struct Presence<'a>(pub(crate) &'a Root, pub(crate) &'a Survey);

impl Presence<'_> {
    pub(crate) const CHECKS: [Check<Self>; 3] = [
        Check::new("libibverbs", None, Self::library),
        Check::new("device", None, Self::device)
            .only_if(|Self(_, survey)| !matches!(survey, Err(NoAnswer::Silent(_)))),
        Check::new("fork", Some("fork.md"), |Self(root, _)| fork(root))
            .only_if(|Self(_, survey)| survey.as_ref().is_ok_and(|devices| !devices.is_empty())),
    ];

    fn library(&self) -> Found {
        let Err(why) = self.1 else { return Ok(fine("loaded")) };
        let kernel = self.0.rdma_devices();
        let (seen, command) = match why {
            NoAnswer::NoLibrary(error) if kernel.is_empty() => {
                return Ok(warning(error.to_string(), OVER_SHM, INSTALL).note(NO_DEVICE));
            }
            NoAnswer::NoLibrary(_) => {
                (format!("{why}; the kernel has {}", kernel.join(", ")), INSTALL)
            }
            NoAnswer::Failed(_) => (why.to_string(), "ls -l /dev/infiniband"),
            NoAnswer::Silent(_) => (why.to_string(), "sudo dmesg | tail -50"),
        };
        Ok(broken(seen, OVER_SHM, command).note(NO_DEVICE))
    }

    fn device(&self) -> Found {
        let devices = self.1.as_deref().unwrap_or_default();
        let names: Vec<&str> = devices.iter().map(|device| &*device.name).collect();
        Ok(match names.is_empty() {
            false => fine(names.join(", ")),
            true => without_device(self.0).note(NO_DEVICE),
        })
    }
}

/// Returns the finding for an empty list of libibverbs.
fn without_device(root: &Root) -> Finding {
    let kernel = root.rdma_devices();
    if !kernel.is_empty() {
        let seen = format!("the kernel has {}, but libibverbs lists none", kernel.join(", "));
        return broken(seen, OVER_SHM, unlisted(root));
    }
    let card = root.names(PCI).into_iter().find_map(|at| Some((rdma_module(root, &at)?, at)));
    let Some((module, address)) = card else {
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
    let driver = root.link(&format!("{PCI}/{address}/driver")).unwrap_or("none".to_owned());
    let seen = format!("no RDMA device, but a card at {address} (driver {driver})");
    let command = match &*driver {
        "vfio-pci" => "the card is assigned to a virtual machine: run probeline doctor in that \
                       machine"
            .to_owned(),
        _ => format!("sudo modprobe {module} ib_uverbs"),
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
/// devices on network interfaces.
fn trial_without_card(root: &Root) -> String {
    let interface = root.names("sys/class/net").into_iter().find(|name| name != "lo");
    format!(
        "for a trial with Soft-RoCE, if the kernel has it: sudo modprobe rdma_rxe; sudo rdma link add \
         rxe0 type rxe netdev {}, on the host if this is a container; or just vm-test",
        interface.as_deref().unwrap_or("lo")
    )
}

/// Returns the kernel module that provides the RDMA device of a network card, if the card has one.
fn rdma_module(root: &Root, address: &str) -> Option<&'static str> {
    let hex = |name: &str| {
        let text = root.text(&format!("{PCI}/{address}/{name}")).ok()?;
        u32::from_str_radix(text.strip_prefix("0x")?, 16).ok()
    };
    // The class is base, sub and interface: 02 is a network, 0207 an InfiniBand controller.
    let (vendor, device, class) = (hex("vendor")?, hex("device")?, hex("class")?);
    match (vendor, class >> 8) {
        // ConnectX-3 and older cards have numbers below that of Connect-IB.
        (0x15b3, 0x0200 | 0x0207 | 0x0280) if device < 0x1011 => Some("mlx4_ib"),
        (0x15b3, 0x0200 | 0x0207 | 0x0280) => Some("mlx5_ib"),
        (0x1d0f, _) if device & 0xfff0 == 0xefa0 => Some("efa"),
        (_, 0x0207) => Some("ib_core"),
        _ => None,
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
