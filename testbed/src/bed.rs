//! One or two machines that have been booted together.

use core::time::Duration;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use crate::error::Error;
use crate::initrd;
use crate::machine::Machine;
use crate::options::{Parts, WIRE};
use crate::patience::PATIENCE;
use crate::plan::Plan;
use crate::site::Site;

const GLANCE: Duration = Duration::from_millis(2);

/// One or two machines that have been booted together.
#[derive(Debug)]
pub struct Bed {
    // First, for machines end before their folder goes.
    machines: Vec<Machine>,
    dir: PathBuf,
    release: String,
    boot_time: Duration,
}

impl Bed {
    /// Boots the machines of `plan`, with their logs under `name`; returns when Soft-RoCE is active
    /// in all of them. Must be called by a thread that outlives the bed: see [`Tool`](crate::Tool).
    ///
    /// # Errors
    /// A plan that cannot be, or how the boot failed. The logs stay.
    pub fn boot(site: &Site, name: &str, plan: Plan) -> Result<Self, Error> {
        plan.check()?;
        let dir = site.dir().join(name);
        let share = dir.join("share");
        fs::create_dir_all(&share).map_err(Error::io(format!("creating {}", share.display())))?;
        initrd::build(site.kernel(), &dir)?;
        let initrd = dir.join("initrd");
        let start = Instant::now();
        let mut machines = Vec::new();
        for machine in 1..=plan.machines {
            let kernel = &site.kernel().image;
            let parts = Parts { plan: &plan, machine, kernel, initrd: &initrd, share: &share };
            machines.push(Machine::start_up(&dir, &parts)?);
            if machine < plan.machines {
                // The other end of the wire does not try twice.
                wired(&dir)?;
            }
        }
        let mut release = String::new();
        for machine in &machines {
            release = machine.ready(start + PATIENCE, PATIENCE)?;
        }
        Ok(Self { machines, dir, release, boot_time: start.elapsed() })
    }

    /// Machine 1 or 2.
    ///
    /// # Panics
    /// If the plan had no such machine.
    #[must_use]
    pub fn machine(&self, number: u32) -> &Machine {
        let found = self.machines.iter().find(|machine| machine.number() == number);
        found.unwrap_or_else(|| panic!("this bed has no machine {number}"))
    }

    /// All machines, in order.
    #[must_use]
    pub fn machines(&self) -> &[Machine] {
        &self.machines
    }

    /// The release of the kernel that runs, as the guests say.
    #[must_use]
    pub fn release(&self) -> &str {
        &self.release
    }

    /// From power-on until all machines were ready.
    #[must_use]
    pub fn boot_time(&self) -> Duration {
        self.boot_time
    }

    /// The folder with the logs, and in `share` all commands and what they wrote.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Powers the machines off, and removes the logs unless `keep`.
    ///
    /// # Errors
    /// [`Error::Ended`] if one that was not killed did not power off as it should, or its kernel
    /// has warned of something. The logs stay.
    pub fn end(self, keep: bool) -> Result<(), Error> {
        let ends: Vec<_> = self.machines.iter().map(Machine::power_off).collect();
        ends.into_iter().collect::<Result<Vec<()>, _>>()?;
        let dir = self.dir.clone();
        drop(self);
        if keep {
            return Ok(());
        }
        fs::remove_dir_all(&dir).map_err(Error::io(format!("removing {}", dir.display())))
    }
}

fn wired(dir: &Path) -> Result<(), Error> {
    let deadline = Instant::now() + PATIENCE;
    while !dir.join(WIRE).exists() {
        if Instant::now() >= deadline {
            let log = fs::read_to_string(dir.join("qemu-1.log")).unwrap_or_default();
            let what = format!("the wire of machine 1; QEMU said: {log}");
            return Err(Error::Late { what, limit: PATIENCE });
        }
        thread::sleep(GLANCE);
    }
    Ok(())
}
