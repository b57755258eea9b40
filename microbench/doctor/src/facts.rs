//! Facts about the devices from libibverbs, as plain data.

use core::time::Duration;

use probeline_verbs::{
    AtomicCapability, Context, GidEntry, GidError, LoadError, OpenError, PciAtomics, Port,
    VerbFailed,
};

/// The devices of this machine, from libibverbs.
#[derive(Clone, Debug)]
pub enum Survey {
    /// It could not be loaded.
    NoLibrary(LoadError),
    /// It could not list devices.
    NoList(VerbFailed),
    /// It did not answer within this time.
    Silent(Duration),
    /// The devices, in its order; none where there is none.
    Devices(Vec<Surveyed>),
}

/// A device that was listed.
#[derive(Clone, Debug)]
pub struct Surveyed {
    /// Its name, such as `mlx5_0`.
    pub name: String,
    /// Its facts.
    pub facts: Result<Facts, Untold>,
}

/// Why there are no facts about a device.
#[derive(Clone, Debug)]
pub enum Untold {
    /// It could not be opened or asked.
    Failed(VerbFailed),
    /// It did not answer within this time, or one before it did not.
    Silent(Duration),
}

/// Facts about a device.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Its firmware's version; empty where it has none.
    pub firmware: String,
    /// The vendor's number.
    pub vendor: u32,
    /// The vendor's number of this kind of device.
    pub part: u32,
    /// With whom its atomics are atomic.
    pub atomics: AtomicCapability,
    /// READs and atomics of others that a queue pair works on at once.
    pub responder_rd_atomic: u8,
    /// READs and atomics that a queue pair has outstanding at once.
    pub initiator_rd_atomic: u8,
    /// Those that it does by PCI Express.
    pub pci_atomics: Result<PciAtomics, VerbFailed>,
    /// Its ports.
    pub ports: Vec<PortFacts>,
    /// What came of trying its atomics.
    pub trial: Trial,
}

/// Facts about a port.
#[derive(Clone, Debug)]
pub struct PortFacts {
    /// Its state.
    pub port: Port,
    /// The address that an engine would use.
    pub gid: Result<GidEntry, GidError>,
}

/// What came of trying a device's atomics over a queue pair to itself.
#[derive(Clone, Debug)]
pub enum Trial {
    /// They do what they should.
    Passed,
    /// They do not, or no engine could be opened to try them.
    Failed(OpenError),
    /// The atomics were not tried, and why.
    NotTried(&'static str),
}

impl Facts {
    /// Asks an open device for everything but the trial.
    pub(crate) fn ask(context: &Context) -> Result<Self, VerbFailed> {
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
            trial: Trial::NotTried("it was not asked for"),
        })
    }
}
