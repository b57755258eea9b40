//! Facts about the devices, as libibverbs reports them.

use core::time::Duration;

use probeline_verbs::{
    AtomicCapability, Context, GidEntry, GidError, LoadError, OpenError, PciAtomics, Port,
    VerbFailed,
};

/// The result of querying libibverbs for the devices of this machine.
#[derive(Clone, Debug)]
pub enum Survey {
    /// libibverbs could not be loaded.
    NoLibrary(LoadError),
    /// libibverbs could not list devices.
    NoList(VerbFailed),
    /// libibverbs did not answer within this time.
    Silent(Duration),
    /// The devices in libibverbs' order; empty if the machine has none.
    Devices(Vec<Surveyed>),
}

/// A device that libibverbs listed.
#[derive(Clone, Debug)]
pub struct Surveyed {
    /// Its name, such as `mlx5_0`.
    pub name: String,
    /// Its facts, or why there are none.
    pub facts: Result<Facts, NoFacts>,
}

/// Why there are no facts about a device.
#[derive(Clone, Debug)]
pub enum NoFacts {
    /// The device could not be opened or queried.
    Failed(VerbFailed),
    /// The device, or one before it, did not answer within this time.
    Silent(Duration),
}

/// Facts about a device.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The version of its firmware; empty if it has none.
    pub firmware: String,
    /// The vendor number.
    pub vendor: u32,
    /// The vendor's part number of this type of device.
    pub part: u32,
    /// The operations with respect to which its atomics are atomic.
    pub atomics: AtomicCapability,
    /// Maximum READs and atomics outstanding at a queue pair as responder.
    pub responder_rd_atomic: u8,
    /// Maximum READs and atomics outstanding at a queue pair as initiator.
    pub initiator_rd_atomic: u8,
    /// The atomics that it executes as PCI Express atomics.
    pub pci_atomics: Result<PciAtomics, VerbFailed>,
    /// Its ports.
    pub ports: Vec<PortFacts>,
    /// The result of the test of its atomics.
    pub trial: Trial,
}

/// Facts about a port.
#[derive(Clone, Debug)]
pub struct PortFacts {
    /// Its state.
    pub port: Port,
    /// The GID that an engine would use.
    pub gid: Result<GidEntry, GidError>,
}

/// The result of testing a device's atomics over a queue pair connected to itself.
#[derive(Clone, Debug)]
pub enum Trial {
    /// The atomics work.
    Passed,
    /// The atomics do not work, or the engine for the test could not be opened.
    Failed(OpenError),
    /// The atomics were not tested, and why.
    NotTried(&'static str),
}

impl Facts {
    /// Queries an open device for everything except the test of its atomics.
    pub(crate) fn query(context: &Context) -> Result<Self, VerbFailed> {
        let (identity, limits) = (context.identity()?, context.limits()?);
        let port = |number| {
            let port = context.port(number)?;
            Ok(PortFacts { gid: context.choose_gid(&port, None), port })
        };
        Ok(Self {
            firmware: identity.firmware,
            vendor: identity.vendor,
            part: identity.part,
            atomics: limits.atomics,
            responder_rd_atomic: limits.responder_rd_atomic,
            initiator_rd_atomic: limits.initiator_rd_atomic,
            pci_atomics: context.pci_atomics(),
            ports: (1..=limits.ports).map(port).collect::<Result<_, _>>()?,
            trial: Trial::NotTried("it was not requested"),
        })
    }
}
