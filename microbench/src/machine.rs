//! The facts about this machine that determine latencies, as far as they can be read.

use std::fs;
use std::path::Path;

use probeline::exchange::host_name;
use probeline::pin::Topology;
use serde::Serialize;

use crate::size::Size;

/// Facts about the machine; `None` for those that cannot be read.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    host: Option<String>,
    cpu: Option<String>,
    cpus_online: Option<String>,
    last_level_cache_kib: Option<u64>,
    memory_mib: Option<u64>,
    kernel: Option<String>,
    governor: Option<String>,
    transparent_huge_pages: Option<String>,
    shmem_huge_pages: Option<String>,
    huge_pages_2mib_free: Option<u64>,
    virtual_machine: bool,
    load_average: Option<String>,
}

impl Machine {
    pub(crate) fn look() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let thp = "/sys/kernel/mm/transparent_hugepage";
        Self {
            host: host_name(),
            cpu: field(&cpuinfo, "model name").map(str::to_owned),
            cpus_online: line("/sys/devices/system/cpu/online"),
            last_level_cache_kib: last_level_kib(&caches("/sys/devices/system/cpu/cpu0/cache")),
            memory_mib: kib(&meminfo, "MemTotal").map(|kib| kib / 1024),
            kernel: line("/proc/sys/kernel/osrelease"),
            governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            transparent_huge_pages: chosen(&format!("{thp}/enabled")),
            shmem_huge_pages: chosen(&format!("{thp}/shmem_enabled")),
            huge_pages_2mib_free: line("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages")
                .and_then(|count| count.parse().ok()),
            virtual_machine: field(&cpuinfo, "flags")
                .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
            load_average: line("/proc/loadavg")
                .and_then(|load| load.split(' ').next().map(str::to_owned)),
        }
    }

    pub(crate) fn short(&self) -> String {
        let or = |fact: &Option<String>| fact.clone().unwrap_or_else(|| "unknown".to_owned());
        let virtual_machine = if self.virtual_machine { " of a virtual machine" } else { "" };
        format!(
            "{}, CPUs {}{virtual_machine}, Linux {}",
            or(&self.cpu),
            or(&self.cpus_online),
            or(&self.kernel)
        )
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        let or = |fact: &Option<String>| fact.clone().unwrap_or_else(|| "unknown".to_owned());
        let virtual_machine = if self.virtual_machine { " (a virtual machine)" } else { "" };
        vec![
            format!(
                "{}, CPUs {}{virtual_machine}, last-level cache {}",
                or(&self.cpu),
                or(&self.cpus_online),
                self.last_level_cache_kib
                    .map_or_else(|| "unknown".to_owned(), |kib| Size(kib << 10).rounded()),
            ),
            format!(
                "{} of memory, kernel {}, governor {}, load {}",
                self.memory_mib
                    .map_or_else(|| "unknown".to_owned(), |mib| Size::mib(mib).rounded()),
                or(&self.kernel),
                or(&self.governor),
                or(&self.load_average),
            ),
            format!(
                "huge pages: {} of 2 MiB free, transparent {}, for shared memory {}",
                self.huge_pages_2mib_free.unwrap_or(0),
                or(&self.transparent_huge_pages),
                or(&self.shmem_huge_pages),
            ),
        ]
    }
}

/// Returns the bytes that the tables of several ranks can use: available memory and free huge pages,
/// which the kernel does not count as available.
pub(crate) fn memory_available() -> Option<u64> {
    Some(probeline::pin::memory_available()? + huge_pages_free())
}

/// Returns the bytes of available memory, or those of free huge pages if they are more.
pub(crate) fn largest_pool() -> Option<u64> {
    Some(probeline::pin::memory_available()?.max(huge_pages_free()))
}

fn huge_pages_free() -> u64 {
    let topology = Topology::from_sysfs("/sys".as_ref()).ok();
    let nodes = topology.iter().flat_map(Topology::nodes);
    let pools = nodes.flat_map(|node| &node.huge_pages);
    pools.map(|pool| pool.free * pool.page_bytes).sum()
}

/// Returns the memory that a table can use, for people, if it is less than `bytes`.
pub(crate) fn less_than(bytes: u64) -> Option<String> {
    let available = memory_available().filter(|available| *available < bytes)?;
    Some(Size(available).rounded())
}

fn line(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// Returns level and size of the caches in a folder of sysfs (kernel documentation:
/// Documentation/ABI/testing/sysfs-devices-system-cpu).
fn caches(folder: &str) -> Vec<(String, String)> {
    let Ok(folder) = fs::read_dir(folder) else { return Vec::new() };
    let of = |index: &Path, name: &str| fs::read_to_string(index.join(name)).ok();
    let cache = |index: &Path| Some((of(index, "level")?, of(index, "size")?));
    folder.flatten().filter_map(|index| cache(&index.path())).collect()
}

fn last_level_kib(caches: &[(String, String)]) -> Option<u64> {
    let numbers = caches.iter().filter_map(|(level, size)| {
        let level: u32 = level.trim().parse().ok()?;
        Some((level, size.trim().strip_suffix('K')?.parse().ok()?))
    });
    numbers.max().map(|(_, kib)| kib)
}

/// Returns the bracketed word of a sysfs choice such as `always [madvise] never`.
fn chosen(path: &str) -> Option<String> {
    let choice = line(path)?;
    let (_, rest) = choice.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim())
}

fn kib(text: &str, name: &str) -> Option<u64> {
    field(text, name)?.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_level_cache_has_the_highest_level() {
        let mut found = [("1\n", "48K\n"), ("3\n", "491520K\n"), ("2\n", "2048K\n")]
            .map(|(level, size)| (level.to_owned(), size.to_owned()));
        assert_eq!(last_level_kib(&found), Some(491_520));
        found[1].1 = "480M\n".to_owned();
        assert_eq!(last_level_kib(&found), Some(2048), "the kernel writes K alone");
        assert_eq!(last_level_kib(&[]), None);
        assert_eq!(caches("/nonexistent"), []);
    }
}
