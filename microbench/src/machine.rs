//! The facts about this machine that determine latencies, as far as they can be read, and the
//! doctor's findings on it for the report of a job.

use probeline::exchange::host_name;
use probeline::pin::Topology;
use probeline_doctor::{ANSWER, Doctor, Finding, Query, Root, Trial, survey};
use serde::Serialize;

use crate::size::Size;

/// Facts about the machine; `None` for those that cannot be read. The doctor's findings have its
/// settings.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    host: Option<String>,
    cpu: Option<String>,
    cpus_online: Option<String>,
    last_level_cache_kib: Option<u64>,
    memory_mib: Option<u64>,
    kernel: Option<String>,
    virtual_machine: bool,
}

impl Machine {
    pub(crate) fn examine() -> Self {
        let root = Root::new("/");
        let cpus = "sys/devices/system/cpu";
        let line = |path: &str| root.text(path).ok();
        Self {
            host: host_name(),
            cpu: root.field("proc/cpuinfo", "model name").ok(),
            cpus_online: line(&format!("{cpus}/online")),
            last_level_cache_kib: last_level_kib(&root, &format!("{cpus}/cpu0/cache")),
            memory_mib: root.memory("MemTotal").ok().map(|bytes| bytes >> 20),
            kernel: line("proc/sys/kernel/osrelease"),
            virtual_machine: root.is_virtual(),
        }
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        let virtual_machine = if self.virtual_machine { " (a virtual machine)" } else { "" };
        let cache = self.last_level_cache_kib.map(|kib| Size(kib << 10).rounded());
        let memory = self.memory_mib.map(|mib| Size::mib(mib).rounded());
        let [cpu, cpus, kernel] = [&self.cpu, &self.cpus_online, &self.kernel].map(or_unknown);
        let [cache, memory] = [&cache, &memory].map(or_unknown);
        vec![
            format!("{cpu}, CPUs {cpus}{virtual_machine}, last-level cache {cache}"),
            format!("{memory} of memory, kernel {kernel}"),
        ]
    }
}

fn or_unknown(fact: &Option<String>) -> &str {
    fact.as_deref().unwrap_or("unknown")
}

/// Returns the bytes that the tables of several ranks can use: available memory and free huge pages,
/// which the kernel does not count as available.
pub(crate) fn memory_available() -> Option<u64> {
    let topology = Topology::from_sysfs("/sys".as_ref());
    let huge = topology.map_or(0, |topology| topology.huge_bytes_free());
    Some(probeline::pin::memory_available()? + huge)
}

/// Returns the memory that a table can use, for people, if it is less than `bytes`.
pub(crate) fn less_than(bytes: u64) -> Option<String> {
    let available = memory_available().filter(|available| *available < bytes)?;
    Some(Size(available).rounded())
}

/// Returns the size of the last-level cache in a folder of sysfs (kernel documentation:
/// Documentation/ABI/testing/sysfs-devices-system-cpu). The kernel writes K alone.
fn last_level_kib(root: &Root, folder: &str) -> Option<u64> {
    let cache = |index: &String| -> Option<(u32, u64)> {
        let fact = |name: &str| root.text(&format!("{folder}/{index}/{name}")).ok();
        Some((fact("level")?.parse().ok()?, fact("size")?.strip_suffix('K')?.parse().ok()?))
    };
    root.names(folder).iter().filter_map(cache).max().map(|(_, kib)| kib)
}

/// Examines this machine without its devices: only reads files.
pub(crate) fn examine_machine() -> Vec<Finding> {
    Doctor::new("/").machine()
}

/// Examines the device of this machine, if any, that these lines about an engine of libibverbs name.
/// The engine has tested the device's atomics.
///
/// Ranks call this after they have left the job, because a device that hangs takes up to [`ANSWER`].
pub(crate) fn examine_device_in(lines: &[String]) -> Vec<Finding> {
    let words: Vec<&str> = lines.iter().flat_map(|line| line.split([' ', ','])).collect();
    let device = Doctor::new("/").devices().into_iter().find(|name| words.contains(&&**name));
    if device.is_none() {
        return Vec::new();
    }
    let options = Query { device, trial: false };
    let surveyed = survey(probeline::verbs::Library::load, &options, ANSWER);
    let mut devices = surveyed.unwrap_or_default();
    for facts in devices.iter_mut().filter_map(|device| device.facts.as_mut().ok()) {
        facts.trial = Trial::Passed;
    }
    let doctor = Doctor::new("/");
    devices.iter().flat_map(|device| doctor.device(device, true)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn finds_last_level_cache() {
        let folder = tempfile::tempdir().unwrap();
        for (index, level, size) in
            [(0, 1, "48K"), (1, 3, "491520K"), (2, 2, "2048K"), (3, 4, "1M")]
        {
            let cache = folder.path().join(format!("cache/index{index}"));
            fs::create_dir_all(&cache).unwrap();
            fs::write(cache.join("level"), format!("{level}\n")).unwrap();
            fs::write(cache.join("size"), format!("{size}\n")).unwrap();
        }
        let root = Root::new(folder.path());
        assert_eq!(last_level_kib(&root, "cache"), Some(491_520));
        assert_eq!(last_level_kib(&root, "nonexistent"), None);
    }
}
