//! One or two machines that are booted together, and the file system that they start from: the
//! kernel's modules, busybox and two scripts.

use core::time::Duration;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};

use crate::HANG_TIMEOUT;
use crate::case::Layer;
use crate::error::Error;
use crate::host::{BUSYBOX, Host, find};
use crate::kernel::{Kernel, archive};
use crate::machine::Machine;
use crate::qemu::{CommandLine, WIRE, qemu_log};
use crate::tool::poll;

/// One or two machines that are booted together.
#[derive(Debug)]
pub(crate) struct Testbed {
    machines: Vec<Machine>,
    dir: PathBuf,
    release: String,
    boot_time: Duration,
}

impl Testbed {
    /// Boots the machines of a layer, with their logs in the folder `name`, and waits until Soft-RoCE
    /// is active in all of them. The calling thread must outlive the test bed: see
    /// [`Tool`](crate::tool::Tool). The logs stay if the boot fails.
    pub(crate) fn boot(host: &Host, name: &str, layer: Layer) -> Result<Self> {
        let dir = host.dir().join(name);
        let share = dir.join("share");
        fs::create_dir_all(&share).with_context(|| format!("creating {}", share.display()))?;
        build_initrd(host.kernel(), &dir)?;
        let (kernel, initrd) = (&host.kernel().image, &dir.join("initrd"));
        let start = Instant::now();
        let mut machines = Vec::new();
        for machine in 1..=layer.machines() {
            let command_line = CommandLine { layer, machine, kernel, initrd, share: &share };
            machines.push(Machine::power_on(&dir, &command_line)?);
            if machine < layer.machines() {
                // The second QEMU connects once, without a retry.
                wait_for_wire(&dir)?;
            }
        }
        let mut release = String::new();
        for machine in &machines {
            release = machine.wait_until_ready(start + HANG_TIMEOUT)?;
        }
        Ok(Self { machines, dir, release, boot_time: start.elapsed() })
    }

    /// Returns machine 1 or 2. Panics, which fails the case, if there is no such machine.
    pub(crate) fn machine(&self, number: u32) -> &Machine {
        let found = self.machines.iter().find(|machine| machine.number() == number);
        found.unwrap_or_else(|| panic!("the test bed has no machine {number}"))
    }

    /// Returns all machines, in order.
    pub(crate) fn machines(&self) -> &[Machine] {
        &self.machines
    }

    /// Returns the release of the guests' kernel.
    pub(crate) fn release(&self) -> &str {
        &self.release
    }

    /// Returns the time from power-on until all machines were ready.
    pub(crate) fn boot_time(&self) -> Duration {
        self.boot_time
    }

    /// Returns the folder with the logs; `share` in it has all commands and their output.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Powers the machines off, and removes the logs. Fails, and keeps the logs, if a machine that was
    /// not killed did not power off regularly.
    pub(crate) fn power_off(self) -> Result<()> {
        let results: Vec<_> = self.machines.iter().map(Machine::power_off).collect();
        results.into_iter().collect::<Result<()>>()?;
        let dir = self.dir.clone();
        drop(self);
        fs::remove_dir_all(&dir).with_context(|| format!("removing {}", dir.display()))
    }
}

/// Waits until machine 1 has created its end of the wire.
fn wait_for_wire(dir: &Path) -> Result<()> {
    let wire = poll(HANG_TIMEOUT, || Ok(dir.join(WIRE).exists().then_some(())))?;
    let log = || fs::read_to_string(dir.join(qemu_log(1))).unwrap_or_default();
    let what = || format!("the wire of machine 1; messages of QEMU: {}", log());
    Ok(wire.ok_or_else(|| Error::Timeout { what: what(), limit: HANG_TIMEOUT })?)
}

const INIT: &str = include_str!("../guest/init");
const AGENT: &str = include_str!("../guest/agent");

/// Writes `initrd` in `folder`: two archives one after the other, both of which the kernel unpacks.
fn build_initrd(kernel: &Kernel, folder: &Path) -> Result<()> {
    let stage = folder.join("stage");
    for name in ["bin", "dev", "lower", "merged", "upper"] {
        fs::create_dir_all(stage.join(name)).with_context(|| format!("creating {name}"))?;
    }
    let (init, busybox) = (stage.join("init"), stage.join("bin/busybox"));
    fs::copy(find(BUSYBOX).context("no busybox")?, &busybox).context("copying busybox")?;
    fs::write(&init, INIT).context("writing init")?;
    fs::write(stage.join("agent"), AGENT).context("writing agent")?;
    for program in [&init, &busybox] {
        fs::set_permissions(program, fs::Permissions::from_mode(0o755))
            .with_context(|| format!("making {} executable", program.display()))?;
    }
    let scripts = folder.join("init.cpio");
    archive(&stage, &scripts)?;
    let mut initrd = File::create(folder.join("initrd")).context("creating initrd")?;
    for part in [&kernel.modules, &scripts] {
        let mut part = File::open(part).with_context(|| format!("opening {}", part.display()))?;
        io::copy(&mut part, &mut initrd).context("writing initrd")?;
    }
    fs::remove_dir_all(&stage).context("removing the stage")
}
