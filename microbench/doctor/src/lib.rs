//! Whether this machine and its RDMA devices are set up for a hash table that is reached with
//! one-sided operations only: what is fine, what to look at, what is broken, and what mends it.
//!
//! Facts come from `/proc`, `/sys` and `/dev` below a root that is given, and from libibverbs by
//! [`survey`]. Nothing here needs root's rights: what root alone may read is told to be not seen,
//! with the command that shows it. Every [`Finding`] that leads further names a [`Note`].
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
//! Files are read up to 4 MiB each. libibverbs is asked in a thread of its own, and waited for
//! [`ANSWER`] at most for its list and for each device; a device that hangs ends that.
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

/// Looks at a machine.
#[derive(Clone, Debug)]
pub struct Doctor {
    root: Root,
}

impl Doctor {
    /// Of the machine whose `/proc`, `/sys` and `/dev` are below `root`: `/`, but for tests.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: Root::new(root) }
    }

    /// The RDMA devices that the kernel shows, whatever libibverbs says.
    #[must_use]
    pub fn devices(&self) -> Vec<String> {
        presence::devices_of_kernel(&self.root)
    }

    /// What there is to say without asking libibverbs: files are read, and nothing else.
    #[must_use]
    pub fn machine(&self) -> Vec<Finding> {
        let mut all = cpu::checks(&self.root);
        all.extend(memory::checks(&self.root));
        // Locked memory matters where there is a device to register it with.
        all.push(locked_memory::check(&self.root, !self.devices().is_empty()));
        all
    }

    /// Everything: the machine, whether there are RDMA devices, and each of them.
    #[must_use]
    pub fn examine(&self, survey: &Survey) -> Vec<Finding> {
        let devices: &[Surveyed] = match survey {
            Survey::Devices(devices) => devices,
            _ => &[],
        };
        let mut all = self.machine();
        all.extend(presence::checks(&self.root, survey));
        // A port that is down is broken only where no other could be used.
        let active = devices.iter().any(has_active_port);
        for device in devices {
            all.extend(self.device(device, active));
        }
        all
    }

    /// One device and its ports; `active`: some device has an active port.
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

/// What the fastest active port carries, in Gbit/s.
fn fastest(facts: &Facts) -> Option<f64> {
    let active = facts.ports.iter().filter(|port| port.port.active);
    active.filter_map(|port| port.port.gbit_s()).reduce(f64::max)
}

fn unanswered(subject: &Subject, untold: &Untold) -> Finding {
    const CHECK: &str = "device";
    let finding = match untold {
        Untold::Failed(failed) => Finding::broken(CHECK, subject, failed.to_string())
            .mend("ls -l /dev/infiniband; groups; in a container --device=/dev/infiniband"),
        Untold::Silent(patience) => {
            let seen =
                format!("no answer within {} s, or none since another hangs", patience.as_secs());
            Finding::broken(CHECK, subject, seen).mend("sudo dmesg | tail -50")
        }
    };
    finding.means("nothing can go over it").note(Note::NO_DEVICE)
}
