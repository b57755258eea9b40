//! The file system a guest starts from: busybox and two scripts, after the kernel's modules.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::error::Error;
use crate::kernel::Kernel;
use crate::patience::PATIENCE;
use crate::site::{BUSYBOX, find};
use crate::tool::Tool;

const INIT: &str = include_str!("../guest/init");
const AGENT: &str = include_str!("../guest/agent");

/// Writes `initrd` in `folder`: two archives one after the other, of which the kernel unpacks both.
pub(crate) fn build(kernel: &Kernel, folder: &Path) -> Result<(), Error> {
    let stage = folder.join("stage");
    for name in ["bin", "dev", "lower", "merged", "upper"] {
        fs::create_dir_all(stage.join(name)).map_err(Error::io(format!("creating {name}")))?;
    }
    let busybox = stage.join("bin/busybox");
    let found = find(BUSYBOX.0).ok_or(Error::Missing { programs: vec![BUSYBOX] })?;
    fs::copy(found, &busybox).map_err(Error::io("copying busybox"))?;
    let init = stage.join("init");
    fs::write(&init, INIT).map_err(Error::io("writing init"))?;
    fs::write(stage.join("agent"), AGENT).map_err(Error::io("writing agent"))?;
    for program in [&init, &busybox] {
        let runs = fs::Permissions::from_mode(0o755);
        fs::set_permissions(program, runs).map_err(Error::io("making init a program"))?;
    }
    let ours = folder.join("init.cpio");
    archive(&stage, &ours)?;
    join(&[&kernel.modules, &ours], &folder.join("initrd"))?;
    fs::remove_dir_all(&stage).map_err(Error::io("removing the stage"))
}

/// An archive of all that is in `folder`, as belonging to root.
pub(crate) fn archive(folder: &Path, into: &Path) -> Result<(), Error> {
    let list = into.with_extension("list");
    let names = Tool::new("find").args([".", "-mindepth", "1"]).dir(folder).run(PATIENCE)?;
    fs::write(&list, names).map_err(Error::io(format!("writing {}", list.display())))?;
    let names = File::open(&list).map_err(Error::io(format!("opening {}", list.display())))?;
    let output = File::create(into).map_err(Error::io(format!("writing {}", into.display())))?;
    let cpio = Tool::new("cpio").args(["--create", "--format=newc", "--owner=0:0", "--quiet"]);
    cpio.dir(folder).from_file(names).into_file(output).run(PATIENCE)?;
    fs::remove_file(&list).map_err(Error::io(format!("removing {}", list.display())))
}

fn join(parts: &[&Path], into: &Path) -> Result<(), Error> {
    let mut whole = File::create(into).map_err(Error::io(format!("writing {}", into.display())))?;
    for part in parts {
        let mut part =
            File::open(part).map_err(Error::io(format!("opening {}", part.display())))?;
        io::copy(&mut part, &mut whole)
            .map_err(Error::io(format!("writing {}", into.display())))?;
    }
    Ok(())
}
