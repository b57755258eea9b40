//! What the owners of a job have settled on.

use alloc::string::String;
use core::fmt;

use crate::{AtomicCapability, Gid, LinkLayer, Mtu, Retry};

/// How this owner is connected, as negotiated and chosen when the engine was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The device.
    pub device: String,
    /// Its port.
    pub port: u8,
    /// What carries it.
    pub link_layer: LinkLayer,
    /// This port's address and its index, on Ethernet.
    pub gid: Option<(u8, Gid)>,
    /// The payload of a packet: the least of all owners' ports.
    pub mtu: Mtu,
    /// READs and atomics that a queue pair has outstanding at once: the least of all owners.
    pub reads: u8,
    /// How long a request tries to reach its owner.
    pub retry: Retry,
    /// With whom the device's atomics are atomic.
    pub atomics: AtomicCapability,
    /// Words that a WRITE carries inline.
    pub inline_words: u32,
    /// Queue pairs of this owner.
    pub queue_pairs: u32,
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, port {}, {:?}", self.device, self.port, self.link_layer)?;
        if let Some((index, gid)) = self.gid {
            write!(f, ", GID {index} {gid}")?;
        }
        write!(
            f,
            ", MTU {}, {} READs or atomics outstanding on each of {} queue pairs, {}, WRITE \
             inline up to {} B, atomics with {}",
            self.mtu,
            self.reads,
            self.queue_pairs,
            self.retry,
            self.inline_words * 8,
            match self.atomics {
                AtomicCapability::Global => "the CPU too",
                AtomicCapability::Device | AtomicCapability::None => "this device's own only",
            }
        )
    }
}
