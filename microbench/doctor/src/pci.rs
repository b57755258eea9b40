//! Checks the PCI slot of a device: its link, its requests, its NUMA node, and the IOMMU.

use probeline_pin::Topology;

use crate::device::Device;
use crate::finding::{Found, fine, unknown, warning};
use crate::machine::allowed;

/// The bytes of configuration space that unprivileged users may read.
const UNPRIVILEGED_BYTES: usize = 64;
/// The maximum number of capabilities to follow: each takes at least 4 of the 192 bytes.
const MAX_CAPABILITIES: u32 = 48;
/// The ID of the PCI Express capability (PCI code and ID assignment specification).
const PCI_EXPRESS: u8 = 0x10;
/// The memory read of a chunk READ with C = 64, in bytes.
const MIN_REQUEST_BYTES: u32 = 512;

impl Device<'_> {
    /// Returns the path of a file of the slot in sysfs.
    fn file(&self, name: &str) -> String {
        format!("sys/class/infiniband/{}/device/{name}", self.name)
    }

    /// Returns the address on the bus, such as `0000:3b:00.0`, or a placeholder if it is unknown.
    fn address(&self) -> String {
        let uevent = self.root.text(&self.file("uevent")).unwrap_or_default();
        let address = uevent.lines().find_map(|line| line.strip_prefix("PCI_SLOT_NAME="));
        let is_address =
            |text: &&str| text.chars().all(|c| c.is_ascii_hexdigit() || ":.".contains(c));
        address.filter(is_address).unwrap_or("PCI_ADDRESS").to_owned()
    }

    pub(crate) fn link(&self) -> Found {
        let Some((now, max)) = self.lanes("current").zip(self.lanes("max")) else {
            let command = format!("sudo lspci -vvs {} | grep LnkSta", self.address());
            return Ok(unknown("sysfs shows no PCI Express link").command(command));
        };
        let seen = format!("x{} at {} GT/s", now.width, now.gigatransfers);
        let active = self.facts.ports.iter().filter(|port| port.port.active);
        let fastest = active.filter_map(|port| port.port.gbit_s()).reduce(f64::max);
        Ok(match fastest {
            _ if now.width < max.width || now.gigatransfers < max.gigatransfers => warning(
                format!("{seen}, of x{} at {} GT/s", max.width, max.gigatransfers),
                format!("{:.0} Gbit/s at most, and more time for each READ", now.gbit_s()),
                "another slot, or the slot's settings in the firmware setup (bifurcation)",
            ),
            Some(port) if now.gbit_s() < port => warning(
                format!("{seen}, {:.0} Gbit/s", now.gbit_s()),
                format!("the port supports {port} Gbit/s, more than this slot"),
                "a slot of a later generation or with more lanes",
            ),
            _ => fine(seen),
        })
    }

    fn lanes(&self, which: &str) -> Option<Link> {
        let speed = self.root.text(&self.file(&format!("{which}_link_speed"))).ok()?;
        // The format is `8.0 GT/s PCIe`; kernels before 5.8 omit PCIe.
        let gigatransfers: f64 = speed.split(' ').next()?.parse().ok()?;
        let width = self.root.number(&self.file(&format!("{which}_link_width"))).ok()?;
        // A width of 0 or 255 means that the link is unknown.
        let known = gigatransfers.is_finite() && gigatransfers > 0.0 && (1..=32).contains(&width);
        known.then_some(Link { gigatransfers, width })
    }

    /// Returns the command that shows the device control register.
    fn show_control(&self) -> String {
        format!("sudo lspci -vvs {} | grep -A2 DevCtl:", self.address())
    }

    fn device_control(&self) -> Result<u16, String> {
        let config = self.root.bytes(&self.file("config"))?;
        if config.len() <= UNPRIVILEGED_BYTES {
            return Err("only root may read it".to_owned());
        }
        device_control(&config).ok_or_else(|| "it has no PCI Express capability".to_owned())
    }

    pub(crate) fn request_size(&self) -> Found {
        // Bits 14 to 12 of the device control register; 6 and 7 are reserved.
        let bytes = match self.device_control().map(|control| control >> 12 & 7) {
            Ok(code @ 0..=5) => 128_u32 << code,
            Ok(_) => return Err("a reserved code".to_owned()),
            Err(why) => return Ok(unknown(why).command(self.show_control())),
        };
        if bytes >= MIN_REQUEST_BYTES {
            return Ok(fine(format!("{bytes} B")));
        }
        Ok(warning(
            format!("{bytes} B"),
            "the device splits the memory read of a longer chunk into several requests",
            format!("sudo setpci -s {} CAP_EXP+8.w=5000:7000", self.address()),
        ))
    }

    pub(crate) fn iommu(&self) -> Found {
        let root = self.root;
        if !root.has(&self.file("uevent")) {
            return Err("sysfs does not show its PCI slot".to_owned());
        }
        if !root.has(&self.file("iommu_group")) {
            let host = if root.is_virtual() { "; the host may have one" } else { "" };
            return Ok(fine(format!("no IOMMU translates its addresses{host}")));
        }
        let kind = root.text(&self.file("iommu_group/type"));
        let command_line = root.text("proc/cmdline").unwrap_or_default();
        Ok(match kind.as_deref() {
            Ok("identity") => fine("passes addresses through (identity)"),
            Ok(kind @ ("DMA" | "DMA-FQ")) => warning(
                format!("translates addresses ({kind})"),
                "accesses to random buckets miss the IOTLB, which delays every READ",
                "iommu=pt in GRUB_CMDLINE_LINUX of /etc/default/grub, then sudo update-grub and a \
                 reboot",
            ),
            Ok(kind) => unknown(format!("an unknown type: {kind}")),
            Err(_) if command_line.split(' ').any(|word| word == "iommu=pt") => {
                fine("iommu=pt at boot")
            }
            Err(why) => unknown(why).command("cat /proc/cmdline"),
        })
    }

    /// Checks the NUMA node of the device against the CPUs of this process.
    pub(crate) fn node(&self) -> Found {
        let sys = self.root.path("sys");
        let device = probeline_pin::device_node(&sys, self.name);
        let device = device.map_err(|error| error.to_string())?;
        let topology = Topology::from_sysfs(&sys).map_err(|error| error.to_string())?;
        let Some(node) = device else {
            return Ok(match topology.nodes().len() {
                1 => fine("there is only one node"),
                _ => {
                    unknown("the machine does not report it").command("lstopo; numactl --hardware")
                }
            });
        };
        let its = topology.node(node).ok_or_else(|| format!("{node}, which is not online"))?;
        let allowed = allowed(self.root)?;
        if !its.cpus.intersection(&allowed).is_empty() {
            return Ok(fine(format!("{node}, where this process may run")));
        }
        Ok(warning(
            format!("{node}, but this process may use only CPUs {allowed} of other nodes"),
            "each operation crosses the link between sockets twice",
            format!("numactl --cpunodebind={0} --membind={0} probeline ...", node.0),
        ))
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

    /// A configuration space with a power capability followed by PCI Express; then the list is a
    /// circle, truncated, or all ones.
    #[test]
    fn finds_device_control_register() {
        let mut config = vec![0; 256];
        (config[0x06], config[0x34]) = (0x10, 0x40);
        (config[0x40], config[0x41]) = (0x01, 0x60);
        config[0x60] = PCI_EXPRESS;
        config[0x68..0x6a].copy_from_slice(&0x5936_u16.to_le_bytes());
        assert_eq!(device_control(&config), Some(0x5936));
        for len in 0..256 {
            let _ = device_control(&config[..len]);
        }
        (config[0x60], config[0x61]) = (0x05, 0x40);
        assert_eq!(device_control(&config), None);
        assert_eq!(device_control(&config[..0x61]), None);
        assert_eq!(device_control(&[0xff; 256]), None);
    }

    #[test]
    fn computes_slot_rates() {
        let carries = |gigatransfers, width| Link { gigatransfers, width }.gbit_s().round();
        assert_eq!((carries(2.5, 4), carries(8.0, 8), carries(16.0, 16)), (8.0, 63.0, 252.0));
    }
}
