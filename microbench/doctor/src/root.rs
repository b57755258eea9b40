//! The root of the file system from which facts are read: `/`, except in tests.

use core::fmt;
use core::str::FromStr;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The maximum number of bytes to read of a file: `/proc/cpuinfo` of a thousand CPUs has 1.5 MiB.
const MAX_BYTES: u64 = 4 << 20;

/// The folder that contains `/proc`, `/sys` and `/dev`.
#[derive(Clone, Debug)]
pub struct Root(PathBuf);

/// Says that a file could not be read, and why.
fn unseen(path: &str, why: impl fmt::Display) -> String {
    format!("/{path} could not be read: {why}")
}

/// Returns the first two numbers of a release of Linux, such as `6.1.0-21-amd64`.
pub(crate) fn linux_version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    numbers.next()?.ok().zip(numbers.next()?.ok())
}

impl Root {
    /// Reads below this folder.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    pub(crate) fn bytes(&self, path: &str) -> Result<Vec<u8>, String> {
        let whole = self.path(path);
        let failed = |error| unseen(path, error);
        // Opening a FIFO would block until it has a writer.
        if !fs::metadata(&whole).map_err(failed)?.is_file() {
            return Err(unseen(path, "it is not a regular file"));
        }
        let mut bytes = Vec::new();
        let file = File::open(&whole).map_err(failed)?;
        file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(failed)?;
        Ok(bytes)
    }

    /// Returns the content of a text file without surrounding white space.
    ///
    /// # Errors
    /// Why the file cannot be read; it may be empty.
    pub fn text(&self, path: &str) -> Result<String, String> {
        let text = String::from_utf8(self.bytes(path)?);
        let text = text.map_err(|_| unseen(path, "it is not UTF-8 text"))?;
        match text.trim() {
            "" => Err(unseen(path, "it is empty")),
            text => Ok(text.to_owned()),
        }
    }

    /// Parses the content of a file as a number.
    pub(crate) fn number<T: FromStr>(&self, path: &str) -> Result<T, String> {
        self.parsed(path, &self.text(path)?)
    }

    /// Parses `word` of the file `path` as a number.
    pub(crate) fn parsed<T: FromStr>(&self, path: &str, word: &str) -> Result<T, String> {
        word.parse().map_err(|_| unseen(path, "it contains no number where one is expected"))
    }

    /// Returns the text after `name:` in the lines of a file.
    ///
    /// # Errors
    /// Why the file has no such line.
    pub fn field(&self, path: &str, name: &str) -> Result<String, String> {
        let text = self.text(path)?;
        let line = text.lines().filter_map(|line| line.split_once(':'));
        let found = line.into_iter().find(|(its, _)| its.trim() == name);
        let missing = || unseen(path, format_args!("it has no {name}"));
        found.map(|(_, value)| value.trim().to_owned()).ok_or_else(missing)
    }

    /// Returns the bracketed word of a choice such as `always [madvise] never`.
    pub(crate) fn chosen(&self, path: &str) -> Result<String, String> {
        let text = self.text(path)?;
        let inside = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        inside.map(|(word, _)| word.to_owned()).ok_or_else(|| unseen(path, "no choice is selected"))
    }

    /// Returns the names in a directory, sorted; empty if it does not exist.
    #[must_use]
    pub fn names(&self, path: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(path)) else { return Vec::new() };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        names
    }

    pub(crate) fn rdma_devices(&self) -> Vec<String> {
        self.names("sys/class/infiniband")
    }

    /// Returns the folders of the NUMA nodes, empty on a kernel without NUMA, or those of the CPUs.
    pub(crate) fn numbered(&self, kind: &str) -> Vec<String> {
        let dir = format!("sys/devices/system/{kind}");
        let number =
            |name: &String| name.strip_prefix(kind).is_some_and(|id| id.parse::<u32>().is_ok());
        self.names(&dir).into_iter().filter(number).map(|name| format!("{dir}/{name}")).collect()
    }

    /// Returns the last component of the target of a link.
    pub(crate) fn link(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.path(path)).ok()?;
        Some(Path::new(&target).file_name()?.to_str()?.to_owned())
    }

    /// Returns whether this is a virtual machine, as far as the CPU reports it.
    #[must_use]
    pub fn is_virtual(&self) -> bool {
        self.has_cpu_flag("hypervisor")
    }

    pub(crate) fn has_cpu_flag(&self, flag: &str) -> bool {
        let flags = self.field("proc/cpuinfo", "flags").unwrap_or_default();
        flags.split(' ').any(|its| its == flag)
    }

    /// Returns a size of `/proc/meminfo`, in bytes.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn memory(&self, name: &str) -> Result<u64, String> {
        let path = "proc/meminfo";
        let size = self.field(path, name)?;
        let kib = size.strip_suffix("kB").and_then(|kib| kib.trim().parse::<u64>().ok());
        let bytes = kib.and_then(|kib| kib.checked_mul(1024));
        bytes.ok_or_else(|| unseen(path, format_args!("{name} is not a size")))
    }
}

/// Formats a size in whole units, rounded down.
pub(crate) fn size(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.into_iter().find(|(shift, _)| bytes >> shift > 0);
    unit.map_or_else(|| format!("{bytes} B"), |(shift, name)| format!("{} {name}", bytes >> shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_sizes_down() {
        let all = [(0, "0 B"), (1023, "1023 B"), (65_536, "64 KiB"), (8 << 20, "8 MiB")];
        for (bytes, text) in all.into_iter().chain([((5 << 30) + 7, "5 GiB")]) {
            assert_eq!(size(bytes), text);
        }
    }
}
