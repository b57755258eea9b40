//! What this process takes of the machine's memory.

use core::time::Duration;
use std::fs;

/// Memory that can still be taken, in bytes; `None` where it cannot be read.
pub(crate) fn available_bytes() -> Option<u64> {
    kib(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:").map(|kib| kib << 10)
}

/// Private memory of this process in bytes, and how much of it is in huge pages: what sets other
/// than the table have, whose windows are shared memory.
pub(crate) fn private_bytes() -> Option<(u64, u64)> {
    let rollup = fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    Some((kib(&rollup, "Anonymous:")? << 10, kib(&rollup, "AnonHugePages:")? << 10))
}

/// The most that this process has had of the machine's memory at a time, in bytes.
pub(crate) fn peak_bytes() -> Option<u64> {
    kib(&fs::read_to_string("/proc/self/status").ok()?, "VmHWM:").map(|kib| kib << 10)
}

/// How long the calling thread has waited for a CPU that others had, since it began; `None` where
/// the kernel does not tell. See Documentation/scheduler/sched-stats.rst of the kernel.
pub(crate) fn waited() -> Option<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

/// A line such as `VmHWM:    1234 kB`.
fn kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

// Cargo sets `test` for a benchmark without a harness too, and there the tests are left out.
#[cfg(test)]
#[allow(dead_code, unused_imports)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_memory_in_kib() {
        let status = "VmPeak:\t 100 kB\nVmHWM:\t  2048 kB\n";
        assert_eq!(kib(status, "VmHWM:"), Some(2048));
        assert_eq!(kib(status, "VmRSS:"), None);
        assert!(available_bytes().unwrap() > 0);
        let (private, huge) = private_bytes().unwrap();
        assert!(private > 0 && huge <= private);
        assert!(peak_bytes().unwrap() > 0);
        assert!(waited().is_some());
    }
}
