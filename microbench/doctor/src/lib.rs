//! Checks whether this machine and its RDMA devices are set up for a hash table that uses one-sided
//! operations only. Each finding has a verdict and, if there is a problem, a command that fixes it.
//!
//! Facts come from `/proc`, `/sys` and `/dev` below a given root, and from libibverbs by
//! [`survey`]. Each check is a row of a table: of the machine, of a device, of its slot, of a port.
//! No check needs root privileges: if only root may read a fact, the verdict is *unknown*, and the
//! finding has the command that shows it.
//!
//! ```
//! use probeline_doctor::{Doctor, Query, survey};
//!
//! let options = Query { device: None, trial: true };
//! let survey = survey(probeline_verbs::Library::load, &options, probeline_doctor::ANSWER);
//! let findings = Doctor::new("/").examine(&survey);
//! for finding in &findings {
//!     println!("{}", finding.line());
//! }
//! println!("{}", probeline_doctor::summary(&findings));
//! ```
//!
//! # Bounds
//! At most 4 MiB of each file are read. A separate thread queries libibverbs. The caller waits at
//! most [`ANSWER`] for the list and for each device, and stops at a device that hangs.
#![forbid(unsafe_code)]

mod cgroup;
mod device;
mod finding;
mod machine;
mod pci;
mod port;
mod presence;
mod root;
mod survey;

use std::path::PathBuf;

pub use finding::{FOLDER, Finding, Verdict, summary};
pub use root::Root;
pub use survey::{ANSWER, Facts, NoAnswer, PortFacts, Query, Survey, Surveyed, Trial, survey};

use device::Device;
use finding::examine;
use port::Port;
use presence::Presence;

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
        examine(&self.root, "machine", &machine::CHECKS)
    }

    /// Returns all findings: on the machine, on the presence of RDMA devices, and on each of them.
    #[must_use]
    pub fn examine(&self, survey: &Survey) -> Vec<Finding> {
        let devices = survey.as_deref().unwrap_or_default();
        let mut all = self.machine();
        all.extend(examine(&Presence(&self.root, survey), "machine", &Presence::CHECKS));
        let active = devices.iter().any(Surveyed::has_active_port);
        all.extend(devices.iter().flat_map(|device| self.device(device, active)));
        all
    }

    /// Returns the findings on one device and its ports. `active` is whether any device has an active
    /// port: a port that is down is broken only if none is.
    #[must_use]
    pub fn device(&self, surveyed: &Surveyed, active: bool) -> Vec<Finding> {
        let name = &*surveyed.name;
        let facts = match &surveyed.facts {
            Ok(facts) => facts,
            Err(why) => return examine(why, name, &[device::UNANSWERED]),
        };
        let device = Device::new(&self.root, name, facts);
        let mut all = examine(&device, name, &Device::CHECKS);
        for facts in &facts.ports {
            let port = Port { device: &device, facts, another: active };
            all.extend(examine(&port, &format!("{name}/{}", facts.port.number), &Port::CHECKS));
        }
        all
    }
}
