//! Checks where a device is plugged in: the link of its slot, its PCI requests, its node, and the
//! IOMMU.

use crate::cpu;
use crate::root::Root;
use crate::{Finding, Note, Subject};

use probeline_pin::Topology;

/// Bytes of configuration space that every user may read.
const FOR_EVERYBODY: usize = 64;
/// Maximum capabilities to follow: each takes at least 4 of the 192 bytes.
const MOST_CAPABILITIES: u32 = 48;
/// The ID of the PCI Express capability (PCI code and ID assignment specification).
const PCI_EXPRESS: u8 = 0x10;
/// The memory read of a chunk READ with C = 64, in bytes.
const LEAST_REQUEST: u32 = 512;

/// A device's place on the bus.
pub(crate) struct Slot<'a> {
    root: &'a Root,
    device: &'a str,
    /// Its directory in sysfs.
    path: String,
    /// Its address on the bus, such as `0000:3b:00.0`.
    pub(crate) address: Option<String>,
}

impl<'a> Slot<'a> {
    pub(crate) fn of(root: &'a Root, device: &'a str) -> Self {
        let path = format!("sys/class/infiniband/{device}/device");
        let uevent = root.text(&format!("{path}/uevent")).unwrap_or_default();
        let address = uevent.lines().find_map(|line| line.strip_prefix("PCI_SLOT_NAME="));
        let is_address =
            |text: &&str| text.chars().all(|c| c.is_ascii_hexdigit() || ":.".contains(c));
        let address = address.filter(is_address).map(str::to_owned);
        Self { root, device, path, address }
    }

    /// Checks the slot. `gbit_s` is the rate of the fastest active port.
    pub(crate) fn checks(&self, gbit_s: Option<f64>) -> Vec<Finding> {
        let mut all = vec![self.link(gbit_s)];
        all.extend(self.requests());
        all.push(self.iommu());
        all
    }

    fn subject(&self) -> Subject {
        Subject::Device(self.device.to_owned())
    }

    fn address(&self) -> &str {
        self.address.as_deref().unwrap_or("PCI_ADDRESS")
    }

    fn link(&self, gbit_s: Option<f64>) -> Finding {
        const CHECK: &str = "pcie-link";
        let subject = self.subject();
        let Some((now, most)) = self.lanes("current").zip(self.lanes("max")) else {
            return Finding::not_seen(CHECK, &subject, "sysfs shows no link of it")
                .command(format!("sudo lspci -vvs {} | grep LnkSta", self.address()))
                .note(Note::PCIE_LINK);
        };
        let seen = format!("x{} at {} GT/s", now.width, now.gigatransfers);
        let finding = match gbit_s {
            _ if now.width < most.width || now.gigatransfers < most.gigatransfers => {
                let seen = format!("{seen} of x{} at {}", most.width, most.gigatransfers);
                Finding::look(CHECK, &subject, seen)
                    .consequence(format!(
                        "{:.0} Gbit/s at most, and more time for each READ",
                        now.gbit_s()
                    ))
                    .command(
                        "another slot, or the slot's settings in the firmware setup (bifurcation)",
                    )
            }
            Some(port) if now.gbit_s() < port => {
                let slot = format!("{seen}, {:.0} Gbit/s", now.gbit_s());
                Finding::look(CHECK, &subject, slot)
                    .consequence(format!(
                        "the port carries {port} Gbit/s, which this slot does not"
                    ))
                    .command("a slot of a later generation or with more lanes")
            }
            _ => Finding::fine(CHECK, &subject, seen),
        };
        finding.note(Note::PCIE_LINK)
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

    /// Checks the maximum read request size and relaxed ordering.
    fn requests(&self) -> [Finding; 2] {
        let (size, ordering) = ("read-request", "relaxed-ordering");
        let subject = self.subject();
        let control = match self.device_control() {
            Ok(control) => control,
            Err(why) => {
                let show = format!("sudo lspci -vvs {} | grep -A2 DevCtl:", self.address());
                let not_seen = |check| Finding::not_seen(check, &subject, &why).command(&show);
                let order = match self.root.owing_to_order() {
                    Some(owing) => not_seen(ordering).consequence(format!("{owing} it bandwidth")),
                    None => not_seen(ordering),
                };
                return [
                    not_seen(size).note(Note::READ_REQUEST_SIZE),
                    order.note(Note::WRITE_ORDERING),
                ];
            }
        };
        // Bits 14 to 12 of the device control register; 6 and 7 are reserved.
        let bytes = match control >> 12 & 7 {
            code @ 0..=5 => Some(128_u32 << code),
            _ => None,
        };
        let request = match bytes {
            None => Finding::not_seen(size, &subject, "a reserved code"),
            Some(bytes @ LEAST_REQUEST..) => Finding::fine(size, &subject, format!("{bytes} B")),
            Some(bytes) => Finding::look(size, &subject, format!("{bytes} B"))
                .consequence(
                    "to answer a READ of a longer chunk the device asks the memory several times",
                )
                .command(format!("sudo setpci -s {} CAP_EXP+8.w=5000:7000", self.address())),
        };
        let order = self.order(control >> 4 & 1 == 1);
        [request.note(Note::READ_REQUEST_SIZE), order.note(Note::WRITE_ORDERING)]
    }

    /// Checks whether the card may use relaxed ordering, given the CPU.
    fn order(&self, relaxed: bool) -> Finding {
        const CHECK: &str = "relaxed-ordering";
        let seen = if relaxed { "allowed on the bus" } else { "not allowed on the bus" };
        let fine = || Finding::fine(CHECK, &self.subject(), seen);
        match (self.root.owing_to_order(), relaxed) {
            (Some(owing), true) => fine().consequence(format!(
                "{owing} it bandwidth, and regions are registered without it: it takes \
                 PCI_WR_ORDERING=1"
            )),
            (Some(owing), false) => Finding::look(CHECK, &self.subject(), seen)
                .consequence(format!(
                    "{owing} it bandwidth: what READs of long chunks bring is slower"
                ))
                .command(format!("sudo setpci -s {} CAP_EXP+8.w=0010:0010", self.address())),
            (None, _) => fine().consequence(
                "regions are registered without it, and a claim waits for nothing it could pass",
            ),
        }
    }

    /// Reads the device control register of the PCI Express capability.
    fn device_control(&self) -> Result<u16, String> {
        let path = format!("{}/config", self.path);
        let config = self.root.bytes(&path).map_err(|unseen| unseen.to_string())?;
        if config.len() <= FOR_EVERYBODY {
            return Err("root alone may read it".to_owned());
        }
        device_control(&config).ok_or_else(|| "it has no PCI Express capability".to_owned())
    }

    fn iommu(&self) -> Finding {
        const CHECK: &str = "iommu";
        let (subject, root) = (self.subject(), self.root);
        let pass = "iommu=pt in GRUB_CMDLINE_LINUX of /etc/default/grub, then sudo update-grub and \
                    a reboot";
        if !root.has(&format!("{}/iommu_group", self.path)) {
            let finding = if root.has(&format!("{}/uevent", self.path)) {
                let host = if root.is_virtual() { "; what the host has is not seen" } else { "" };
                Finding::fine(CHECK, &subject, format!("none before it{host}"))
            } else {
                Finding::not_seen(CHECK, &subject, "sysfs does not show where it is plugged in")
            };
            return finding.note(Note::IOMMU);
        }
        let kind = root.text(&format!("{}/iommu_group/type", self.path));
        let command_line = root.text("proc/cmdline").unwrap_or_default();
        let passed = || command_line.split(' ').any(|word| word == "iommu=pt");
        let finding = match kind.as_deref() {
            Ok("identity") => Finding::fine(CHECK, &subject, "passes addresses through (identity)"),
            Ok(kind @ ("DMA" | "DMA-FQ")) => {
                Finding::look(CHECK, &subject, format!("translates addresses ({kind})"))
                    .consequence(
                        "random buckets miss its cache of translations: time for every READ",
                    )
                    .command(pass)
            }
            Ok(kind) => {
                Finding::not_seen(CHECK, &subject, format!("a type not known here: {kind}"))
            }
            Err(_) if passed() => Finding::fine(CHECK, &subject, "iommu=pt at boot"),
            Err(unseen) => Finding::not_seen(CHECK, &subject, unseen).command("cat /proc/cmdline"),
        };
        finding.note(Note::IOMMU)
    }
}

/// Checks the NUMA node of a device against the CPUs of this process.
pub(crate) fn node(root: &Root, device: &str) -> Finding {
    const CHECK: &str = "numa-node";
    let subject = Subject::Device(device.to_owned());
    let topology = Topology::from_sysfs(&root.sys());
    let node = probeline_pin::device_node(&root.sys(), device);
    let nodes = topology.as_ref().map_or(0, |topology| topology.nodes().len());
    let finding = match (node, topology) {
        (Err(error), _) | (_, Err(error)) => Finding::not_seen(CHECK, &subject, error),
        (Ok(None), Ok(_)) if nodes == 1 => Finding::fine(CHECK, &subject, "there is one node only"),
        (Ok(None), Ok(_)) => Finding::not_seen(CHECK, &subject, "the machine does not say")
            .command("lstopo; numactl --hardware"),
        (Ok(Some(node)), Ok(topology)) => match (topology.node(node), cpu::allowed(root)) {
            (None, _) => Finding::not_seen(CHECK, &subject, format!("{node}, which is not online")),
            (_, Err(unseen)) => Finding::not_seen(CHECK, &subject, unseen),
            (Some(its), Ok(allowed)) if its.cpus.intersection(&allowed).is_empty() => {
                let seen = format!("{node}, and this process may use CPUs {allowed} of others");
                Finding::look(CHECK, &subject, seen)
                    .consequence(
                        "each operation goes over the link between sockets, there and back",
                    )
                    .command(format!(
                        "numactl --cpunodebind={0} --membind={0} probeline ...",
                        node.0
                    ))
            }
            _ => Finding::fine(CHECK, &subject, format!("{node}, where this process may run")),
        },
    };
    finding.note(Note::NUMA_NODE)
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
    for _ in 0..MOST_CAPABILITIES {
        if at < FOR_EVERYBODY {
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
