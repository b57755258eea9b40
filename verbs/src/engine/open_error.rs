//! Why an engine could not be opened, and what to do about it.

use alloc::string::String;
use alloc::vec::Vec;
use core::error::Error;
use core::fmt;

use probeline_transport::{ExchangeError, Owner};

use super::self_test::SelfTestFailed;
use crate::{Gid, GidError, GidKind, LinkLayer, LoadError, VerbFailed};

/// Why an engine could not be opened. When one owner fails, all do.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// libibverbs could not be loaded.
    Library(LoadError),
    /// There is no RDMA device.
    NoDevice,
    /// There is no device of this name.
    NoSuchDevice {
        /// What was asked for.
        name: String,
        /// What there is.
        found: Vec<String>,
    },
    /// No port is active; those that were looked at.
    NoActivePort {
        /// As `device/port`.
        ports: Vec<String>,
    },
    /// The port has no address to use.
    Gid {
        /// The device.
        device: String,
        /// The port.
        port: u8,
        /// Why.
        source: GidError,
    },
    /// The device has no atomics.
    NoAtomics {
        /// The device.
        device: String,
    },
    /// The device's atomics do not do what they should.
    SelfTest {
        /// The device.
        device: String,
        /// What was seen.
        source: SelfTestFailed,
    },
    /// The builder's sizes are impossible, and how.
    Sizes(&'static str),
    /// The builder asks for more than the device has.
    Beyond {
        /// Of what.
        what: &'static str,
        /// How much is needed.
        needed: u64,
        /// How much there is.
        limit: u64,
    },
    /// A verb failed.
    Verb(VerbFailed),
    /// This owner's window could not be obtained.
    #[cfg(feature = "pin")]
    Memory(probeline_pin::MappingError),
    /// No random number.
    Random {
        /// The error of getrandom(2).
        errno: i32,
    },
    /// The exchange failed.
    Exchange(ExchangeError),
    /// An owner was opened with other sizes, or another version, than this one.
    Differs {
        /// Whose.
        owner: Owner,
        /// What differs.
        what: &'static str,
        /// This owner's value.
        mine: u64,
        /// The other's.
        theirs: u64,
    },
    /// One owner is on InfiniBand, the other on Ethernet.
    LinkLayers {
        /// Whose.
        owner: Owner,
        /// This owner's.
        mine: LinkLayer,
    },
    /// Packets would not find their way between two addresses.
    Addresses {
        /// Whose.
        owner: Owner,
        /// This owner's.
        mine: (GidKind, Gid),
        /// The other's.
        theirs: (GidKind, Gid),
    },
    /// Another owner could not open its engine; its own error says why.
    PeerFailed(Owner),
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
                "no RDMA device: load the network card's RDMA driver, and see that the container, \
                 if this is one, has /dev/infiniband; for a trial without a card: modprobe \
                 rdma_rxe, then rdma link add rxe0 type rxe netdev INTERFACE",
            ),
            Self::NoSuchDevice { name, found } => {
                write!(f, "no RDMA device {name}: choose among {}", found.join(", "))
            }
            Self::NoActivePort { ports } => write!(
                f,
                "no active port among {}: see that the cable is in and the link is up",
                ports.join(", ")
            ),
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
            Self::Sizes(what) => f.write_str(what),
            Self::Beyond { what, needed, limit } => {
                write!(
                    f,
                    "{needed} {what} are needed, but the device has {limit} at most: ask for less, \
                     or choose another device"
                )
            }
            Self::Verb(failed) => failed.fmt(f),
            #[cfg(feature = "pin")]
            Self::Memory(_) => f.write_str("cannot obtain this owner's window"),
            Self::Random { errno } => {
                write!(f, "getrandom failed with errno {errno}: is it filtered out here?")
            }
            Self::Exchange(_) => f.write_str("cannot agree with the other owners"),
            Self::Differs { owner, what, mine, theirs } => write!(
                f,
                "{owner} was opened with {theirs} {what}, this one with {mine}: \
                 start every owner with the same sizes and the same build"
            ),
            Self::LinkLayers { owner, mine } => {
                write!(f, "{owner} is not on {mine} as this one is: choose devices on one network")
            }
            Self::Addresses { owner, mine, theirs } => write!(
                f,
                "{owner} has the {} address {}, this one the {} address {}: choose addresses of one \
                 kind, on InfiniBand of one subnet",
                theirs.0, theirs.1, mine.0, mine.1
            ),
            Self::PeerFailed(owner) => {
                write!(f, "{owner} could not open its engine: see its own message")
            }
        }
    }
}

impl Error for OpenError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            #[cfg(feature = "pin")]
            Self::Memory(source) => Some(source),
            Self::Exchange(source) => Some(source),
            _ => None,
        }
    }
}
