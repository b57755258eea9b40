//! Checks whether this machine and its RDMA devices are set up for a hash table that uses one-sided
//! operations only. Each finding has a verdict and, if there is a problem, a command that fixes it.
//!
//! Facts come from `/proc`, `/sys` and `/dev` below a given root, and from libibverbs by
//! [`survey`]. No check needs root privileges: if only root may read a fact, the verdict is
//! *not seen*, and the finding has the command that shows it. A [`Finding`] that needs an
//! explanation names a [`Note`].
//!
//! ```
//! use probeline_doctor::{Doctor, Questions, survey};
//!
//! let questions = Questions { device: None, trial: true };
//! let survey = survey(probeline_verbs::Library::load, &questions, probeline_doctor::ANSWER);
//! let findings = Doctor::new("/").examine(&survey);
//! for finding in &findings {
//!     println!("{}", finding.line(probeline_doctor::FOLDER));
//! }
//! println!("{}", probeline_doctor::summary(&findings));
//! ```
//!
//! # Bounds
//! At most 4 MiB of each file are read. A separate thread queries libibverbs. The caller waits at
//! most [`ANSWER`] for the list and for each device, and stops at a device that hangs.
#![forbid(unsafe_code)]

mod atomics;
mod cgroup;
mod cpu;
mod driver;
mod facts;
mod finding;
mod memory;
mod note;
mod pci;
mod port;
mod presence;
mod root;
mod survey;

use std::path::PathBuf;

pub use facts::{Facts, NoFacts, PortFacts, Survey, Surveyed, Trial};
pub use finding::{Finding, Subject, Verdict, summary};
pub use note::{FOLDER, Note};
pub use survey::{ANSWER, Questions, survey};

use driver::{Driver, Kind};
use finding::Check;
use port::PortCheck;
use root::{Root, Unseen};

/// A check of files. If it cannot read one, the verdict of the finding is *not seen*.
type FileCheck = fn(&Root, &Check<'_>) -> Result<Finding, Unseen>;

/// The checks of the machine, which need no query of libibverbs.
const MACHINE: [(Check<'static>, FileCheck); 10] = [
    (Check::of_machine("cores", Some(Note::CORES)).shown_by("nproc"), cpu::cores),
    (Check::of_machine("load", Some(Note::CORES)).shown_by("uptime"), cpu::load),
    (
        Check::of_machine("governor", Some(Note::CPU_GOVERNOR))
            .shown_by("cpupower frequency-info, on the host"),
        cpu::governor,
    ),
    (Check::of_machine("clock", Some(Note::CLOCK_SOURCE)), cpu::clock),
    (Check::of_machine("numa-balancing", Some(Note::NUMA_BALANCING)), cpu::numa_balancing),
    (Check::of_machine("memory", None).shown_by("free -h"), memory::available),
    (Check::of_machine("huge-pages", Some(Note::HUGE_PAGES)), memory::huge_pages),
    (Check::of_machine("shared-memory-pages", Some(Note::HUGE_PAGES)), memory::shared_huge_pages),
    (Check::of_machine("dev-shm", Some(Note::SHARED_MEMORY)), memory::dev_shm),
    (
        Check::of_machine("locked-memory", Some(Note::LOCKED_MEMORY))
            .matters(memory::LOCKS)
            .shown_by("ulimit -l"),
        memory::locked,
    ),
];

/// Examines a machine.
#[derive(Clone, Debug)]
pub struct Doctor {
    root: Root,
}

impl Doctor {
    /// Examines the machine whose `/proc`, `/sys` and `/dev` are below `root`: `/`, except in
    /// tests.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: Root::new(root) }
    }

    /// Returns the RDMA devices that the kernel shows, independent of libibverbs.
    #[must_use]
    pub fn devices(&self) -> Vec<String> {
        self.root.rdma_devices()
    }

    /// Returns the findings that need no query of libibverbs. Only reads files.
    #[must_use]
    pub fn machine(&self) -> Vec<Finding> {
        let run = |(check, run): &(Check<'_>, FileCheck)| {
            run(&self.root, check).unwrap_or_else(|unseen| check.not_seen(unseen))
        };
        MACHINE.iter().map(run).collect()
    }

    /// Returns all findings: on the machine, on the presence of RDMA devices, and on each of them.
    #[must_use]
    pub fn examine(&self, survey: &Survey) -> Vec<Finding> {
        let devices: &[Surveyed] = match survey {
            Survey::Devices(devices) => devices,
            _ => &[],
        };
        let mut all = self.machine();
        all.extend(presence::checks(&self.root, survey));
        // A port that is down is broken only if no port is active.
        let active = devices.iter().any(has_active_port);
        for device in devices {
            all.extend(self.device(device, active));
        }
        all
    }

    /// Returns the findings on one device and its ports. `active` is whether any device has an
    /// active port.
    #[must_use]
    pub fn device(&self, surveyed: &Surveyed, active: bool) -> Vec<Finding> {
        let (root, name) = (&self.root, &*surveyed.name);
        let subject = Subject::Device(name.to_owned());
        let facts = match &surveyed.facts {
            Ok(facts) => facts,
            Err(why) => return vec![unanswered(&subject, why)],
        };
        let driver = Driver::of(root, name, Some(facts.vendor));
        let mut all = vec![
            driver::check(root, &driver, &subject, facts),
            driver::firmware(&driver, &subject, facts),
        ];
        all.extend(atomics::checks(root, &subject, facts));
        all.push(pci::node(root, &subject));
        if !driver.is_software() {
            let slot = pci::Slot::of(root, &subject);
            all.extend(slot.checks(fastest(facts)));
            if driver.is_mlx5() {
                all.push(driver::settings(slot.address.as_deref(), &subject));
            }
        }
        let kind = Kind::of(&driver, facts);
        for port in &facts.ports {
            let subject = Subject::Port(name.to_owned(), port.port.number);
            let (driver, another) = (&driver, active);
            let check =
                PortCheck { root, device: name, subject, driver, kind, facts: port, another };
            all.extend(check.checks());
        }
        all
    }
}

fn has_active_port(surveyed: &Surveyed) -> bool {
    surveyed.facts.as_ref().is_ok_and(|facts| facts.ports.iter().any(|port| port.port.active))
}

/// Returns the rate of the fastest active port, in Gbit/s.
fn fastest(facts: &Facts) -> Option<f64> {
    let active = facts.ports.iter().filter(|port| port.port.active);
    active.filter_map(|port| port.port.gbit_s()).reduce(f64::max)
}

fn unanswered(subject: &Subject, why: &NoFacts) -> Finding {
    let (seen, command) = match why {
        NoFacts::Failed(failed) => (
            failed.to_string(),
            "ls -l /dev/infiniband; groups; in a container --device=/dev/infiniband",
        ),
        NoFacts::Silent(timeout) => (
            format!(
                "no answer within {} s, or not queried because an earlier device hangs",
                timeout.as_secs()
            ),
            "sudo dmesg | tail -50",
        ),
    };
    Check::new("device", subject, Note::NO_DEVICE).broken(seen, "no engine can use it", command)
}
