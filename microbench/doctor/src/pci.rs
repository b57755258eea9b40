//! Checks the PCI slot of a device: its link, its requests, its NUMA node, and the IOMMU.

use probeline_pin::Topology;

use crate::cpu;
use crate::finding::{Check, Finding, Subject};
use crate::note::Note;
use crate::root::Root;

/// The bytes of configuration space that unprivileged users may read.
const UNPRIVILEGED_BYTES: usize = 64;
/// The maximum number of capabilities to follow: each takes at least 4 of the 192 bytes.
const MAX_CAPABILITIES: u32 = 48;
/// The ID of the PCI Express capability (PCI code and ID assignment specification).
const PCI_EXPRESS: u8 = 0x10;
/// The memory read of a chunk READ with C = 64, in bytes.
const MIN_REQUEST_BYTES: u32 = 512;

pub(crate) struct Slot<'a> {
    root: &'a Root,
    subject: &'a Subject,
    /// Its directory in sysfs.
    path: String,
    /// Its address on the bus, such as `0000:3b:00.0`.
    pub(crate) address: Option<String>,
}

impl<'a> Slot<'a> {
    /// `subject` is the device.
    pub(crate) fn of(root: &'a Root, subject: &'a Subject) -> Self {
        let path = format!("sys/class/infiniband/{subject}/device");
        let uevent = root.text(&format!("{path}/uevent")).unwrap_or_default();
        let address = uevent.lines().find_map(|line| line.strip_prefix("PCI_SLOT_NAME="));
        let is_address =
            |text: &&str| text.chars().all(|c| c.is_ascii_hexdigit() || ":.".contains(c));
        let address = address.filter(is_address).map(str::to_owned);
        Self { root, subject, path, address }
    }

    /// Checks the slot. `gbit_s` is the rate of the fastest active port.
    pub(crate) fn checks(&self, gbit_s: Option<f64>) -> [Finding; 4] {
        let control = self.device_control();
        let control = control.as_ref().copied().map_err(String::as_str);
        [self.link(gbit_s), self.request_size(control), self.order(control), self.iommu()]
    }

    fn address(&self) -> &str {
        self.address.as_deref().unwrap_or("PCI_ADDRESS")
    }

    fn link(&self, gbit_s: Option<f64>) -> Finding {
        let check = Check::new("pcie-link", self.subject, Note::PCIE_LINK);
        let Some((now, most)) = self.lanes("current").zip(self.lanes("max")) else {
            return check
                .not_seen("sysfs shows no PCI Express link")
                .command(format!("sudo lspci -vvs {} | grep LnkSta", self.address()));
        };
        let seen = format!("x{} at {} GT/s", now.width, now.gigatransfers);
        match gbit_s {
            _ if now.width < most.width || now.gigatransfers < most.gigatransfers => check.look(
                format!("{seen}, of x{} at {} GT/s", most.width, most.gigatransfers),
                format!("{:.0} Gbit/s at most, and more time for each READ", now.gbit_s()),
                "another slot, or the slot's settings in the firmware setup (bifurcation)",
            ),
            Some(port) if now.gbit_s() < port => check.look(
                format!("{seen}, {:.0} Gbit/s", now.gbit_s()),
                format!("the port supports {port} Gbit/s, more than this slot"),
                "a slot of a later generation or with more lanes",
            ),
            _ => check.fine(seen),
        }
    }

    fn lanes(&self, which: &str) -> Option<Link> {
        let speed = self.root.text(&format!("{}/{which}_link_speed", self.path)).ok()?;
        // The format is `8.0 GT/s PCIe`; kernels before 5.8 omit PCIe.
        let gigatransfers: f64 = speed.split(' ').next()?.parse().ok()?;
        let width = self.root.number(&format!("{}/{which}_link_width", self.path)).ok()?;
        // A width of 0 or 255 means that the link is unknown.
        let known = gigatransfers.is_finite() && gigatransfers > 0.0 && (1..=32).contains(&width);
        known.then_some(Link { gigatransfers, width })
    }

    /// Returns the command that shows the device control register.
    fn show_control(&self) -> String {
        format!("sudo lspci -vvs {} | grep -A2 DevCtl:", self.address())
    }

    fn request_size(&self, control: Result<u16, &str>) -> Finding {
        let check = Check::new("read-request", self.subject, Note::READ_REQUEST_SIZE);
        // Bits 14 to 12 of the device control register; 6 and 7 are reserved.
        let bytes = match control.map(|control| control >> 12 & 7) {
            Ok(code @ 0..=5) => 128_u32 << code,
            Ok(_) => return check.not_seen("a reserved code"),
            Err(why) => return check.not_seen(why).command(self.show_control()),
        };
        if bytes >= MIN_REQUEST_BYTES {
            return check.fine(format!("{bytes} B"));
        }
        check.look(
            format!("{bytes} B"),
            "the device splits the memory read of a longer chunk into several requests",
            format!("sudo setpci -s {} CAP_EXP+8.w=5000:7000", self.address()),
        )
    }

    /// Checks whether the bus allows relaxed ordering, and whether the CPU gains from it.
    fn order(&self, control: Result<u16, &str>) -> Finding {
        let check = Check::new("relaxed-ordering", self.subject, Note::WRITE_ORDERING);
        let gains = self.root.gains_from_relaxed_ordering();
        let relaxed = match control {
            Ok(control) => control >> 4 & 1 == 1,
            Err(why) => {
                let consequence = gains.map(|gains| format!("{gains} bandwidth from it"));
                return Finding { consequence, ..check.not_seen(why) }.command(self.show_control());
            }
        };
        let seen = if relaxed { "allowed on the bus" } else { "not allowed on the bus" };
        match (gains, relaxed) {
            (Some(gains), true) => check.fine(seen).consequence(format!(
                "{gains} bandwidth from it, but regions are registered without it: only \
                 PCI_WR_ORDERING=1 enables it"
            )),
            (Some(gains), false) => check.look(
                seen,
                format!("{gains} bandwidth from it: READs of long chunks are slower"),
                format!("sudo setpci -s {} CAP_EXP+8.w=0010:0010", self.address()),
            ),
            (None, _) => check
                .fine(seen)
                .consequence("regions are registered without it, and it would not speed up claims"),
        }
    }

    fn device_control(&self) -> Result<u16, String> {
        let path = format!("{}/config", self.path);
        let config = self.root.bytes(&path).map_err(|unseen| unseen.to_string())?;
        if config.len() <= UNPRIVILEGED_BYTES {
            return Err("only root may read it".to_owned());
        }
        device_control(&config).ok_or_else(|| "it has no PCI Express capability".to_owned())
    }

    fn iommu(&self) -> Finding {
        let check = Check::new("iommu", self.subject, Note::IOMMU);
        let root = self.root;
        if !root.has(&format!("{}/uevent", self.path)) {
            return check.not_seen("sysfs does not show its PCI slot");
        }
        if !root.has(&format!("{}/iommu_group", self.path)) {
            let host = if root.is_virtual() { "; the host may have one" } else { "" };
            return check.fine(format!("no IOMMU translates its addresses{host}"));
        }
        let kind = root.text(&format!("{}/iommu_group/type", self.path));
        let command_line = root.text("proc/cmdline").unwrap_or_default();
        match kind.as_deref() {
            Ok("identity") => check.fine("passes addresses through (identity)"),
            Ok(kind @ ("DMA" | "DMA-FQ")) => check.look(
                format!("translates addresses ({kind})"),
                "accesses to random buckets miss the IOTLB, which delays every READ",
                "iommu=pt in GRUB_CMDLINE_LINUX of /etc/default/grub, then sudo update-grub and a \
                 reboot",
            ),
            Ok(kind) => check.not_seen(format_args!("an unknown type: {kind}")),
            Err(_) if command_line.split(' ').any(|word| word == "iommu=pt") => {
                check.fine("iommu=pt at boot")
            }
            Err(unseen) => check.not_seen(unseen).command("cat /proc/cmdline"),
        }
    }
}

/// Checks the NUMA node of a device against the CPUs of this process.
pub(crate) fn node(root: &Root, subject: &Subject) -> Finding {
    let check = Check::new("numa-node", subject, Note::NUMA_NODE);
    let device = probeline_pin::device_node(&root.sys(), &subject.to_string());
    let (topology, node) = match (Topology::from_sysfs(&root.sys()), device) {
        (_, Err(error)) | (Err(error), _) => return check.not_seen(error),
        (Ok(topology), Ok(None)) if topology.nodes().len() == 1 => {
            return check.fine("there is only one node");
        }
        (Ok(_), Ok(None)) => {
            let finding = check.not_seen("the machine does not report it");
            return finding.command("lstopo; numactl --hardware");
        }
        (Ok(topology), Ok(Some(node))) => (topology, node),
    };
    match (topology.node(node), cpu::allowed(root)) {
        (None, _) => check.not_seen(format_args!("{node}, which is not online")),
        (_, Err(unseen)) => check.not_seen(unseen),
        (Some(its), Ok(allowed)) if its.cpus.intersection(&allowed).is_empty() => check.look(
            format!("{node}, but this process may use only CPUs {allowed} of other nodes"),
            "each operation crosses the link between sockets twice",
            format!("numactl --cpunodebind={0} --membind={0} probeline ...", node.0),
        ),
        _ => check.fine(format!("{node}, where this process may run")),
    }
}

#[derive(Clone, Copy)]
struct Link {
    gigatransfers: f64,
    width: u32,
}

impl Link {
    /// Returns its data rate after line coding: 8 of 10 bits up to 5 GT/s, 128 of 130 above.
    fn gbit_s(self) -> f64 {
        let code = if self.gigatransfers > 5.0 { 128.0 / 130.0 } else { 0.8 };
        self.gigatransfers * f64::from(self.width) * code
    }
}

/// Follows the list of capabilities to that of PCI Express (PCI Express base specification, 7.5).
fn device_control(config: &[u8]) -> Option<u16> {
    let byte = |at: usize| config.get(at).copied();
    // Bit 4 of the status register: there is a list.
    if byte(0x06)? & 0x10 == 0 {
        return None;
    }
    let mut at = usize::from(byte(0x34)? & 0xfc);
    for _ in 0..MAX_CAPABILITIES {
        if at < UNPRIVILEGED_BYTES {
            return None;
        }
        if byte(at)? == PCI_EXPRESS {
            return Some(u16::from_le_bytes([byte(at + 8)?, byte(at + 9)?]));
        }
        at = usize::from(byte(at + 1)? & 0xfc);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a configuration space with a power capability followed by PCI Express.
    fn config(control: u16) -> Vec<u8> {
        let mut config = vec![0; 256];
        (config[0x06], config[0x34]) = (0x10, 0x40);
        (config[0x40], config[0x41]) = (0x01, 0x60);
        config[0x60] = PCI_EXPRESS;
        config[0x68..0x6a].copy_from_slice(&control.to_le_bytes());
        config
    }

    #[test]
    fn the_register_is_found_after_other_capabilities() {
        assert_eq!(device_control(&config(0x5936)), Some(0x5936));
    }

    #[test]
    fn broken_capability_lists_have_no_register() {
        let mut circle = config(0);
        (circle[0x60], circle[0x61]) = (0x05, 0x40);
        assert_eq!(device_control(&circle), None);
        assert_eq!(device_control(&circle[..0x61]), None);
        for len in 0..256 {
            let _ = device_control(&config(7)[..len]);
        }
        assert_eq!(device_control(&[0xff; 256]), None);
    }

    #[test]
    fn slot_rates_are_those_of_their_generation() {
        let carries = |gigatransfers, width| Link { gigatransfers, width }.gbit_s().round();
        assert_eq!((carries(2.5, 4), carries(8.0, 8), carries(16.0, 16)), (8.0, 63.0, 252.0));
    }
}
