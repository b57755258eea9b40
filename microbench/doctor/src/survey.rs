//! Queries libibverbs for the devices, with a timeout for each answer.

use core::sync::atomic::AtomicU64;
use core::time::Duration;
use std::sync::mpsc::channel;
use std::thread;

use probeline_transport::{Alone, Sizes};
use probeline_verbs::{
    AtomicCapability, Builder, Context, DeviceIdentity, DeviceLimits, DeviceList, GidEntry,
    Library, OpenError, PciAtomics, Port, PortError, Retry, SetupError, VerbFailed,
};

/// The maximum time to wait for the list, and for each device. A healthy device replies within a
/// second. The test of a device that accepts requests and never completes them takes 7 s. The
/// driver of hardware that hangs cancels its commands only after a minute.
pub const ANSWER: Duration = Duration::from_secs(20);

/// errno(3).
const ENODEV: i32 = 19;

/// The devices to query, and whether to test their atomics.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Query only this device.
    pub device: Option<String>,
    /// Whether to test its atomics.
    pub trial: bool,
}

/// The devices in libibverbs' order, empty if the machine has none, or why libibverbs listed none.
pub type Survey = Result<Vec<Surveyed>, NoAnswer>;

/// A device that libibverbs listed.
#[derive(Clone, Debug)]
pub struct Surveyed {
    /// Its name, such as `mlx5_0`.
    pub name: String,
    /// Its facts, or why there are none.
    pub facts: Result<Facts, NoAnswer>,
}

impl Surveyed {
    pub(crate) fn has_active_port(&self) -> bool {
        self.facts.as_ref().is_ok_and(|facts| facts.ports.iter().any(|port| port.port.active))
    }
}

/// The reason why libibverbs did not answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NoAnswer {
    /// libibverbs could not be loaded.
    #[error(transparent)]
    NoLibrary(#[from] SetupError),
    /// The devices could not be listed, or a device could not be opened or queried.
    #[error(transparent)]
    Failed(#[from] VerbFailed),
    /// libibverbs, the device or one before it did not answer within this time.
    #[error("no answer within {} s", .0.as_secs())]
    Silent(Duration),
}

/// Facts about a device.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Its model and firmware.
    pub identity: DeviceIdentity,
    /// The limits of its resources.
    pub limits: DeviceLimits,
    /// The atomics that it executes as PCI Express atomics.
    pub pci_atomics: Result<PciAtomics, VerbFailed>,
    /// Facts about its ports, in the order of their numbers.
    pub ports: Vec<PortFacts>,
    /// The result of the test of its atomics.
    pub trial: Trial,
}

/// Facts about a port.
#[derive(Clone, Debug)]
pub struct PortFacts {
    /// The attributes of the port.
    pub port: Port,
    /// The GID that an engine would use.
    pub gid: Result<GidEntry, PortError>,
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

/// Queries the library that `load` returns in separate threads. A device that hangs blocks its thread
/// and not the caller, who waits for each answer at most `timeout`.
///
/// # Errors
/// [`NoAnswer`]: libibverbs listed no devices.
pub fn survey<L>(load: L, options: &Query, timeout: Duration) -> Survey
where
    L: Fn() -> Result<Library, SetupError> + Clone + Send + 'static,
{
    let Query { device: wanted, trial } = options.clone();
    let list = load.clone();
    let names = within(timeout, move || {
        let names = DeviceList::new(list()?)?.iter().map(|device| device.name()).collect();
        Ok::<Vec<String>, NoAnswer>(names)
    })?;
    let names = names.into_iter().filter(|name| wanted.as_ref().is_none_or(|its| its == name));
    Ok(one_by_one(names, timeout, move |name| facts(load()?, name, trial)))
}

/// Waits for what `work` returns in a thread of its own.
fn within<T: Send + 'static>(
    timeout: Duration,
    work: impl FnOnce() -> Result<T, NoAnswer> + Send + 'static,
) -> Result<T, NoAnswer> {
    let (send, answer) = channel();
    // Ignores an error: the receiver may be gone.
    thread::spawn(move || send.send(work()));
    answer.recv_timeout(timeout).unwrap_or(Err(NoAnswer::Silent(timeout)))
}

/// Queries the devices up to one that hangs, and none after it.
fn one_by_one(
    names: impl Iterator<Item = String>,
    timeout: Duration,
    facts: impl Fn(&str) -> Result<Facts, NoAnswer> + Clone + Send + 'static,
) -> Vec<Surveyed> {
    let mut hangs = false;
    let query = |name: String| {
        let (facts, device) = (facts.clone(), name.clone());
        let facts = match hangs {
            true => Err(NoAnswer::Silent(timeout)),
            false => within(timeout, move || facts(&device)),
        };
        hangs = matches!(facts, Err(NoAnswer::Silent(_)));
        Surveyed { name, facts }
    };
    names.map(query).collect()
}

fn facts(library: Library, name: &str, trial: bool) -> Result<Facts, NoAnswer> {
    let list = DeviceList::new(library)?;
    let gone = VerbFailed { verb: "ibv_get_device_list", errno: ENODEV };
    let device = list.iter().find(|device| device.name() == name).ok_or(gone)?;
    let context = device.open()?;
    let limits = context.limits()?;
    let port = |number| {
        let port = context.port(number)?;
        Ok(PortFacts { gid: context.choose_gid(&port, None), port })
    };
    let mut facts = Facts {
        identity: context.identity()?,
        limits,
        pci_atomics: context.pci_atomics(),
        ports: (1..=limits.ports).map(port).collect::<Result<_, VerbFailed>>()?,
        trial: Trial::NotTried("it was not requested"),
    };
    if trial {
        facts.trial = try_atomics(library, &context, &facts);
    }
    Ok(facts)
}

/// Opens an engine with itself as its only peer, which executes each operation on its own window
/// and checks the result.
fn try_atomics(library: Library, context: &Context, facts: &Facts) -> Trial {
    if facts.limits.atomics == AtomicCapability::None {
        return Trial::NotTried("the device reports none");
    }
    if facts.limits.initiator_rd_atomic.min(facts.limits.responder_rd_atomic) == 0 {
        return Trial::NotTried("it supports no outstanding READ or atomic");
    }
    let Some(port) = facts.ports.iter().find(|port| port.port.active) else {
        return Trial::NotTried("no port is active");
    };
    // An address that other machines cannot use is sufficient for a connection to oneself.
    let index = port.gid.is_err().then_some(0);
    let builder = Builder::new(Sizes::new(8).with_slots(1, 8).with_depth(4))
        .libibverbs(library)
        .device(Some(context.name()))
        .port(Some(port.port.number))
        .gid_index(index)
        // 67 ms and three retries: the peer is the device itself.
        .retry(Retry::new(14, 3).unwrap_or_default());
    let zeroes = |words| (0..words).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
    match builder.open_in(&mut Alone, |_, words| Ok(Box::new(zeroes(words)))) {
        Ok(_) => Trial::Passed,
        Err(error) => Trial::Failed(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Doctor, Verdict};

    const MOMENT: Duration = Duration::from_millis(20);

    fn hang<T>() -> T {
        loop {
            thread::park();
        }
    }

    #[test]
    fn stops_at_hanging_device() {
        let names = ["mlx5_0", "mlx5_1", "mlx5_2"];
        let failed = VerbFailed { verb: "ibv_open_device", errno: 13 };
        let facts = move |name: &str| match name {
            "mlx5_0" => Err(failed.into()),
            "mlx5_1" => hang(),
            _ => panic!("{name} is queried"),
        };
        let devices = one_by_one(names.into_iter().map(str::to_owned), MOMENT, facts);
        let findings = Doctor::new("/nowhere/at/all").examine(&Ok(devices));
        let hint = ["ibv_open_device failed", "no answer within 0 s", "no answer within 0 s"];
        for (name, hint) in names.into_iter().zip(hint) {
            let of_device = |finding: &&crate::Finding| finding.subject == name;
            let [finding] = &findings.iter().filter(of_device).collect::<Vec<_>>()[..] else {
                panic!("{findings:?}")
            };
            let line = finding.line();
            assert_eq!((finding.check, finding.verdict), ("device", Verdict::Broken), "{line}");
            assert!(line.contains(hint), "{line}");
            assert_eq!(line.contains("dmesg"), name != "mlx5_0", "{line}");
        }
        assert!(findings.iter().any(|finding| finding.subject == "machine"));
    }
}
