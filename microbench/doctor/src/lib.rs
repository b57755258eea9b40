//! Checks whether this machine and its RDMA devices are set up for a hash table that uses one-sided
//! operations only. Each finding has a verdict and, if there is a problem, a command that fixes it.
//!
//! Facts come from `/proc`, `/sys` and `/dev` below a given root, and from libibverbs by
//! [`survey`]. No check needs root privileges: a finding reports what only root may read as not
//! seen, with the command that shows it. A [`Finding`] that needs an explanation names a [`Note`].
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
mod locked_memory;
mod memory;
mod note;
mod pci;
mod port;
mod presence;
mod root;
mod survey;

use std::path::PathBuf;

pub use facts::{Facts, PortFacts, Survey, Surveyed, Trial, Untold};
pub use finding::{Finding, Subject, Verdict, summary};
pub use note::{FOLDER, Note};
pub use survey::{ANSWER, Questions, survey};

use driver::{Driver, Kind};
use port::Looked;
use root::Root;

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
        presence::devices_of_kernel(&self.root)
    }

    /// Returns the findings that need no query of libibverbs. Only reads files.
    #[must_use]
    pub fn machine(&self) -> Vec<Finding> {
        let mut all = cpu::checks(&self.root);
        all.extend(memory::checks(&self.root));
        // The limit of locked memory matters only if there is a device to register memory with.
        all.push(locked_memory::check(&self.root, !self.devices().is_empty()));
        all
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
            Err(untold) => return vec![unanswered(&subject, untold)],
        };
        let driver = Driver::of(root, name, Some(facts.vendor));
        let mut all = vec![
            driver::check(root, &driver, &subject, facts),
            driver::firmware(&driver, &subject, facts),
        ];
        all.extend(atomics::checks(root, &subject, facts));
        all.push(pci::node(root, name));
        if !driver.is_software() {
            let slot = pci::Slot::of(root, name);
            all.extend(slot.checks(fastest(facts)));
            if driver.is_mlx5() {
                all.push(driver::settings(slot.address.as_deref(), &subject));
            }
        }
        let kind = Kind::of(&driver, facts);
        for port in &facts.ports {
            let looked =
                Looked { root, device: name, driver: &driver, kind, facts: port, another: active };
            all.extend(looked.checks());
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

fn unanswered(subject: &Subject, untold: &Untold) -> Finding {
    const CHECK: &str = "device";
    let finding = match untold {
        Untold::Failed(failed) => Finding::broken(CHECK, subject, failed.to_string())
            .command("ls -l /dev/infiniband; groups; in a container --device=/dev/infiniband"),
        Untold::Silent(patience) => {
            let seen =
                format!("no answer within {} s, or none since another hangs", patience.as_secs());
            Finding::broken(CHECK, subject, seen).command("sudo dmesg | tail -50")
        }
    };
    finding.consequence("nothing can go over it").note(Note::NO_DEVICE)
}
