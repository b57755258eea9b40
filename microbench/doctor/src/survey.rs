//! Queries libibverbs for the devices, with a timeout for each answer.

use core::sync::atomic::AtomicU64;
use core::time::Duration;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;

use probeline_transport::{Alone, Sizes};
use probeline_verbs::{
    AtomicCapability, Builder, Context, Device, DeviceIdentity, DeviceLimits, DeviceList, GidEntry,
    Library, OpenError, PciAtomics, Port, PortError, Retry, SetupError, VerbFailed,
};

/// The maximum time to wait for the list, and for each device. A healthy device replies within a
/// second. The test of a device that accepts requests and never completes them takes 7 s. The
/// driver of hardware that hangs cancels its commands only after a minute.
pub const ANSWER: Duration = Duration::from_secs(20);

/// 67 ms and three retries: the peer is the device itself.
const RETRY: Option<Retry> = match Retry::new(14, 3) {
    Ok(retry) => Some(retry),
    Err(_) => None,
};

/// The devices to query, and whether to test their atomics.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Query only this device.
    pub device: Option<String>,
    /// Whether to test its atomics.
    pub trial: bool,
}

/// The result of querying libibverbs for the devices of this machine.
#[derive(Clone, Debug)]
pub enum Survey {
    /// libibverbs could not be loaded.
    NoLibrary(SetupError),
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

impl Surveyed {
    pub(crate) fn has_active_port(&self) -> bool {
        self.facts.as_ref().is_ok_and(|facts| facts.ports.iter().any(|port| port.port.active))
    }
}

/// The reason why there are no facts about a device.
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

enum Reply {
    Ended(Survey),
    Listed(Vec<String>),
    Device(Surveyed),
}

/// Queries the library that `load` returns in a separate thread. A device that hangs blocks that
/// thread and not the caller, who waits for each answer at most `timeout`.
pub fn survey<L>(load: L, options: &Query, timeout: Duration) -> Survey
where
    L: FnOnce() -> Result<Library, SetupError> + Send + 'static,
{
    let (send, replies) = channel();
    let options = options.clone();
    thread::spawn(move || {
        if let Some(survey) = query(load, &options, &send) {
            // Ignores an error: the receiver may be gone.
            let _ = send.send(Reply::Ended(survey));
        }
    });
    collect(&replies, timeout)
}

/// Returns a survey that ended early; devices are sent one by one.
fn query<L>(load: L, options: &Query, send: &Sender<Reply>) -> Option<Survey>
where
    L: FnOnce() -> Result<Library, SetupError>,
{
    let library = match load() {
        Ok(library) => library,
        Err(error) => return Some(Survey::NoLibrary(error)),
    };
    let list = match DeviceList::new(library) {
        Ok(list) => list,
        Err(failed) => return Some(Survey::NoList(failed)),
    };
    let wanted = |name: &str| options.device.as_deref().is_none_or(|wanted| wanted == name);
    let devices: Vec<Device<'_>> = list.iter().filter(|device| wanted(&device.name())).collect();
    let names = devices.iter().map(Device::name).collect();
    send.send(Reply::Listed(names)).ok()?;
    for device in devices {
        let facts = facts(library, &device, options.trial).map_err(NoFacts::Failed);
        send.send(Reply::Device(Surveyed { name: device.name(), facts })).ok()?;
    }
    None
}

fn facts(library: Library, device: &Device<'_>, trial: bool) -> Result<Facts, VerbFailed> {
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
        ports: (1..=limits.ports).map(port).collect::<Result<_, _>>()?,
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
        .retry(RETRY.unwrap_or_default());
    let zeroes = |words| (0..words).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
    match builder.open_in(&mut Alone, |_, words| Ok(Box::new(zeroes(words)))) {
        Ok(_) => Trial::Passed,
        Err(error) => Trial::Failed(error),
    }
}

fn collect(replies: &Receiver<Reply>, timeout: Duration) -> Survey {
    let names = match replies.recv_timeout(timeout) {
        Ok(Reply::Listed(names)) => names,
        Ok(Reply::Ended(survey)) => return survey,
        // The list is sent first. A thread that has terminated sends nothing more.
        Ok(Reply::Device(_)) | Err(_) => return Survey::Silent(timeout),
    };
    let mut received = Vec::with_capacity(names.len());
    let mut hangs = false;
    for name in names {
        let answer =
            if hangs { Err(RecvTimeoutError::Timeout) } else { replies.recv_timeout(timeout) };
        match answer {
            Ok(Reply::Device(surveyed)) => received.push(surveyed),
            _ => {
                // The devices after it are not queried.
                hangs = true;
                received.push(Surveyed { name, facts: Err(NoFacts::Silent(timeout)) });
            }
        }
    }
    Survey::Devices(received)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Doctor, Subject, Verdict};

    const MOMENT: Duration = Duration::from_millis(20);

    fn silent(survey: &Survey) -> Vec<(&str, bool)> {
        let Survey::Devices(devices) = survey else { panic!("{survey:?}") };
        let is_silent = |facts: &Result<Facts, NoFacts>| matches!(facts, Err(NoFacts::Silent(_)));
        devices.iter().map(|device| (device.name.as_str(), is_silent(&device.facts))).collect()
    }

    /// The querying thread lives as long as `send`.
    #[test]
    fn gives_up_at_hanging_device() {
        let (send, replies) = channel();
        let names = ["mlx5_0", "mlx5_1"].map(str::to_owned).to_vec();
        send.send(Reply::Listed(names)).unwrap();
        let survey = collect(&replies, MOMENT);
        assert_eq!(silent(&survey), [("mlx5_0", true), ("mlx5_1", true)]);
        let findings = Doctor::new("/nowhere/at/all").examine(&survey);
        for name in ["mlx5_0", "mlx5_1"] {
            let of_device = findings
                .iter()
                .find(|finding| finding.check == "device" && finding.subject.to_string() == name);
            let line = of_device.unwrap().line("notes");
            assert_eq!(of_device.unwrap().verdict, Verdict::Broken, "{line}");
            assert!(line.contains("no answer within 0 s") && line.contains("dmesg"), "{line}");
        }
        assert!(findings.iter().any(|finding| finding.subject == Subject::Machine));
        drop(send);
    }

    #[test]
    fn reports_devices_before_hanging_one() {
        let (send, replies) = channel();
        let names = ["mlx5_0", "mlx5_1", "mlx5_2"].map(str::to_owned).to_vec();
        send.send(Reply::Listed(names)).unwrap();
        let failed = VerbFailed { verb: "ibv_open_device", errno: 13 };
        let received = Surveyed { name: "mlx5_0".to_owned(), facts: Err(NoFacts::Failed(failed)) };
        send.send(Reply::Device(received)).unwrap();
        let survey = collect(&replies, MOMENT);
        assert_eq!(silent(&survey), [("mlx5_0", false), ("mlx5_1", true), ("mlx5_2", true)]);
    }

    #[test]
    fn missing_list_is_silent() {
        let (_send, replies) = channel();
        assert!(matches!(collect(&replies, MOMENT), Survey::Silent(MOMENT)));
    }
}
