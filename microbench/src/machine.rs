//! The facts about this machine that determine latencies, as far as they can be read.

use probeline::exchange::host_name;
use probeline::pin::Topology;
use probeline_doctor::Root;
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
            last_level_cache_kib: last_level_kib(&caches(&root, &format!("{cpus}/cpu0/cache"))),
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

/// Returns level and size of the caches in a folder of sysfs (kernel documentation:
/// Documentation/ABI/testing/sysfs-devices-system-cpu).
fn caches(root: &Root, folder: &str) -> Vec<(String, String)> {
    let fact = |index: &str, name: &str| root.text(&format!("{folder}/{index}/{name}")).ok();
    let cache = |index: &String| Some((fact(index, "level")?, fact(index, "size")?));
    root.names(folder).iter().filter_map(cache).collect()
}

fn last_level_kib(caches: &[(String, String)]) -> Option<u64> {
    let numbers = caches.iter().filter_map(|(level, size)| {
        let level: u32 = level.trim().parse().ok()?;
        Some((level, size.trim().strip_suffix('K')?.parse().ok()?))
    });
    numbers.max().map(|(_, kib)| kib)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_last_level_cache() {
        let mut found = [("1\n", "48K\n"), ("3\n", "491520K\n"), ("2\n", "2048K\n")]
            .map(|(level, size)| (level.to_owned(), size.to_owned()));
        assert_eq!(last_level_kib(&found), Some(491_520));
        found[1].1 = "480M\n".to_owned();
        assert_eq!(last_level_kib(&found), Some(2048), "the kernel writes K alone");
        assert_eq!(last_level_kib(&[]), None);
        assert_eq!(caches(&Root::new("/"), "nonexistent"), []);
    }
}
