//! Archives that the kernel unpacks into its first file system.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, Result};

use crate::HANG_TIMEOUT;
use crate::tool::Tool;

/// Writes an archive of all files in `folder`, owned by root.
pub(crate) fn archive(folder: &Path, into: &Path) -> Result<()> {
    let list = into.with_extension("list");
    let written = || format!("archiving {}", folder.display());
    let names = Tool::new("find").args([".", "-mindepth", "1"]).dir(folder).run(HANG_TIMEOUT)?;
    fs::write(&list, names).with_context(written)?;
    let names = File::open(&list).with_context(written)?;
    let output = File::create(into).with_context(written)?;
    let cpio = Tool::new("cpio").args(["--create", "--format=newc", "--owner=0:0", "--quiet"]);
    cpio.dir(folder).stdin(names).stdout(output).run(HANG_TIMEOUT)?;
    fs::remove_file(&list).with_context(written)
}
