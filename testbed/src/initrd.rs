//! The file system that a guest starts from: the kernel's modules, busybox and two scripts.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};

use crate::archive::archive;
use crate::host::{BUSYBOX, find};
use crate::kernel::Kernel;

const INIT: &str = include_str!("../guest/init");
const AGENT: &str = include_str!("../guest/agent");

/// Writes `initrd` in `folder`: two archives one after the other, both of which the kernel unpacks.
pub(crate) fn build(kernel: &Kernel, folder: &Path) -> Result<()> {
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
