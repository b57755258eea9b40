//! The connection parameters of an engine.

use alloc::string::String;
use core::fmt;

use crate::{AtomicCapability, GidEntry, LinkLayer, Path};

/// The connection parameters of this owner: the options of its builder, and the values that the
/// owners have negotiated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The name of the device.
    pub device: String,
    /// The link layer of the port.
    pub link_layer: LinkLayer,
    /// The address of the port.
    pub gid: GidEntry,
    /// The index of the partition key in the port's table.
    pub pkey_index: u16,
    /// The parameters of all connections: the options, and the lowest MTU and number of outstanding
    /// READs and atomics of all owners.
    pub path: Path,
    /// The scope of the device's atomics.
    pub atomics: AtomicCapability,
    /// The maximum number of words that a WRITE carries inline.
    pub inline_words: u32,
    /// The number of queue pairs of this owner.
    pub queue_pairs: u32,
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GidEntry { index, gid, kind } = self.gid;
        write!(
            f,
            "{}, port {}, {}, GID {index} {gid}",
            self.device, self.path.port, self.link_layer
        )?;
        if self.link_layer == LinkLayer::Ethernet {
            write!(f, " ({kind})")?;
        }
        let extras = [
            ("partition key", u32::from(self.pkey_index)),
            ("service level", self.path.service_level.into()),
            ("traffic class", self.path.traffic_class.into()),
        ];
        for (what, value) in extras.into_iter().filter(|(_, value)| *value != 0) {
            write!(f, ", {what} {value}")?;
        }
        write!(
            f,
            ", MTU {}, {} READs or atomics outstanding on each of {} queue pairs, {}, WRITE \
             inline up to {} B, atomics with {}",
            self.path.mtu,
            self.path.rd_atomic,
            self.queue_pairs,
            self.path.retry,
            self.inline_words * 8,
            match self.atomics {
                AtomicCapability::Global => "the CPU too",
                AtomicCapability::Device | AtomicCapability::None => "this device's own only",
            }
        )
    }
}
