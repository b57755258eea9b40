//! Errors of opening an engine.

use alloc::string::String;
use alloc::vec::Vec;

use probeline_transport::Owner;
use probeline_transport::SetupError;
use thiserror::Error;

use crate::{Gid, GidKind, LinkLayer, PortError, VerbFailed};

/// The reason why an engine could not be opened. If one owner fails, all do.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no RDMA device.
    #[error(
        "no RDMA device: load the RDMA driver of the network card; in a container, pass \
         /dev/infiniband to it. To try without a card: modprobe rdma_rxe, then rdma link add rxe0 \
         type rxe netdev INTERFACE"
    )]
    NoDevice,
    /// There is no device of this name.
    #[error("no RDMA device {name}: choose among {}", found.join(", "))]
    NoSuchDevice {
        /// The requested name.
        name: String,
        /// The names of the devices that exist.
        found: Vec<String>,
    },
    /// No port is active.
    #[error("no active port among {}: check the cable and the link", ports.join(", "))]
    NoActivePort {
        /// The ports, as `device/port`.
        ports: Vec<String>,
    },
    /// The port has no GID that can be used.
    #[error("{device}, port {port}: {source}")]
    Gid {
        /// The name of the device.
        device: String,
        /// The number of the port, counted from 1.
        port: u8,
        /// The reason why none of its GIDs can be used.
        source: PortError,
    },
    /// The device has no atomics.
    #[error(
        "{device} has no atomic operations (atomic_cap is NONE), which a table needs: choose \
         another device, or enable them in its firmware"
    )]
    NoAtomics {
        /// The name of the device.
        device: String,
    },
    /// The device's atomics do not work.
    #[error(
        "{device} failed its self-test: {source}; choose another device, or newer firmware or \
         drivers for this one"
    )]
    SelfTest {
        /// The name of the device.
        device: String,
        /// The first failure of the self-test.
        source: PortError,
    },
    /// The owners cannot open engines together.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The engine needs more of a resource than the device has.
    #[error(
        "{needed} {what} are needed, but the device has {limit} at most: ask for less, or choose \
         another device"
    )]
    Beyond {
        /// The name of the resource, such as queue pairs.
        what: &'static str,
        /// The number that the engine needs.
        needed: u64,
        /// The number that the device has.
        limit: u64,
    },
    /// A call of libibverbs failed.
    #[error("{0}")]
    Verb(#[from] VerbFailed),
    /// The memory of this owner could not be allocated.
    #[cfg(feature = "pin")]
    #[error("cannot allocate this owner's memory: {0}")]
    Memory(#[source] probeline_pin::Error),
    /// One owner is on InfiniBand, the other on Ethernet.
    #[error("{owner} is not on {mine} as this one is: choose devices on one network")]
    LinkLayers {
        /// The owner on the other network.
        owner: Owner,
        /// The link layer of this owner's port.
        mine: LinkLayer,
    },
    /// The addresses of two owners are of different kinds or subnets, so that packets cannot be
    /// routed.
    #[error(
        "{owner} has the {} address {}, this one the {} address {}: choose addresses of one kind, \
         on InfiniBand of one subnet",
        theirs.0, theirs.1, mine.0, mine.1
    )]
    Addresses {
        /// The owner that cannot be reached.
        owner: Owner,
        /// The kind and address of this owner's GID.
        mine: (GidKind, Gid),
        /// The kind and address of that owner's GID.
        theirs: (GidKind, Gid),
    },
}
