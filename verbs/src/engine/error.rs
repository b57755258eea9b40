//! Errors of opening an engine.

use alloc::string::String;
use alloc::vec::Vec;
use core::error::Error;
use core::fmt;

use probeline_engine::SetupError;
use probeline_transport::Owner;

use super::self_test::SelfTestFailed;
use crate::{Gid, GidError, GidKind, LinkLayer, LoadError, VerbFailed};

/// The reason why an engine could not be opened. If one owner fails, all do.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// libibverbs could not be loaded.
    Library(LoadError),
    /// There is no RDMA device.
    NoDevice,
    /// There is no device of this name.
    NoSuchDevice {
        /// The requested name.
        name: String,
        /// The names of the devices.
        found: Vec<String>,
    },
    /// No port is active.
    NoActivePort {
        /// The ports, as `device/port`.
        ports: Vec<String>,
    },
    /// The port has no GID that can be used.
    Gid {
        /// The device.
        device: String,
        /// The port.
        port: u8,
        /// The reason.
        source: GidError,
    },
    /// The device has no atomics.
    NoAtomics {
        /// The device.
        device: String,
    },
    /// The device's atomics do not work.
    SelfTest {
        /// The device.
        device: String,
        /// The failure.
        source: SelfTestFailed,
    },
    /// The owners cannot open engines together.
    Setup(SetupError),
    /// The engine needs more of a resource than the device has.
    Beyond {
        /// The resource.
        what: &'static str,
        /// The number that the engine needs.
        needed: u64,
        /// The number that the device has.
        limit: u64,
    },
    /// A verb failed.
    Verb(VerbFailed),
    /// The memory of this owner could not be allocated.
    #[cfg(feature = "pin")]
    Memory(probeline_pin::MappingError),
    /// One owner is on InfiniBand, the other on Ethernet.
    LinkLayers {
        /// The other owner.
        owner: Owner,
        /// This owner's value.
        mine: LinkLayer,
    },
    /// The addresses of two owners are of different kinds or subnets, so that packets cannot be
    /// routed.
    Addresses {
        /// The other owner.
        owner: Owner,
        /// This owner's value.
        mine: (GidKind, Gid),
        /// The other owner's value.
        theirs: (GidKind, Gid),
    },
}

impl From<SetupError> for OpenError {
    fn from(error: SetupError) -> Self {
        Self::Setup(error)
    }
}

impl From<VerbFailed> for OpenError {
    fn from(failed: VerbFailed) -> Self {
        Self::Verb(failed)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Library(error) => error.fmt(f),
            Self::NoDevice => f.write_str(
                "no RDMA device: load the RDMA driver of the network card; in a container, pass \
                 /dev/infiniband to it. To try without a card: modprobe rdma_rxe, then rdma link \
                 add rxe0 type rxe netdev INTERFACE",
            ),
            Self::NoSuchDevice { name, found } => {
                write!(f, "no RDMA device {name}: choose among {}", found.join(", "))
            }
            Self::NoActivePort { ports } => {
                write!(f, "no active port among {}: check the cable and the link", ports.join(", "))
            }
            Self::Gid { device, port, source } => write!(f, "{device}, port {port}: {source}"),
            Self::NoAtomics { device } => write!(
                f,
                "{device} has no atomic operations (atomic_cap is NONE), which a table needs: \
                 choose another device, or enable them in its firmware"
            ),
            Self::SelfTest { device, source } => {
                write!(
                    f,
                    "{device} failed its self-test: {source}; choose another device, or newer \
                     firmware or drivers for this one"
                )
            }
            Self::Setup(error) => error.fmt(f),
            Self::Beyond { what, needed, limit } => {
                write!(
                    f,
                    "{needed} {what} are needed, but the device has {limit} at most: ask for less, \
                     or choose another device"
                )
            }
            Self::Verb(failed) => failed.fmt(f),
            #[cfg(feature = "pin")]
            Self::Memory(source) => write!(f, "cannot allocate this owner's memory: {source}"),
            Self::LinkLayers { owner, mine } => {
                write!(f, "{owner} is not on {mine} as this one is: choose devices on one network")
            }
            Self::Addresses { owner, mine, theirs } => write!(
                f,
                "{owner} has the {} address {}, this one the {} address {}: choose addresses of one \
                 kind, on InfiniBand of one subnet",
                theirs.0, theirs.1, mine.0, mine.1
            ),
        }
    }
}

impl Error for OpenError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            #[cfg(feature = "pin")]
            Self::Memory(source) => Some(source),
            Self::Setup(source) => source.source(),
            Self::Library(source) => Some(source),
            Self::Gid { source, .. } => Some(source),
            Self::SelfTest { source, .. } => Some(source),
            Self::Verb(source) => Some(source),
            _ => None,
        }
    }
}
