//! Checks the machine without its RDMA devices: the cores that ranks run on, the clock that they measure
//! with, the memory for a table and its pages, and how much of it this process may lock.

use probeline_pin::CpuSet;

use crate::cgroup;
use crate::finding::{Check, Found, broken, fine, unknown, warning};
use crate::root::{Root, linux_version, size};

const CLOCK: &str = "sys/devices/system/clocksource/clocksource0";
const TRANSPARENT: &str = "sys/kernel/mm/transparent_hugepage";
const LIMITS: &str = "proc/self/limits";
pub(crate) const RELEASE: &str = "proc/sys/kernel/osrelease";

/// Clocks that a process reads without a system call (kernel documentation, timers/timekeeping).
const FAST_CLOCKS: [&str; 5] =
    ["tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page", "timebase"];
/// Clocks that need a system call, and some of them a device access.
const SLOW_CLOCKS: [&str; 6] = ["hpet", "acpi_pm", "xen", "pit", "jiffies", "refined-jiffies"];
/// Pages of 2 MiB that hold the default table of most commands.
const ENOUGH_PAGES: u64 = 64;
/// The default of container runtimes is 64 MiB; a few ranks of MPI or UCX take more.
const MIN_DEV_SHM: u64 = 1 << 30;
/// The default table of most commands has 128 MiB, and each rank needs some more memory.
const MIN_AVAILABLE: u64 = 512 << 20;
/// The default table over verbs needs to lock more than this, with everything else that is
/// registered.
const MIN_LOCKED: u64 = 2 << 20;
/// The bit of CAP_IPC_LOCK, which lifts the limit (capabilities(7)).
const CAP_IPC_LOCK: u32 = 14;

const LOCKS: &str = "a device's window and slots are locked in RAM; shared memory locks nothing";

pub(crate) const CHECKS: [Check<Root>; 10] = [
    Check::new("cores", Some("cores.md"), cores).shown_by("nproc"),
    Check::new("load", Some("cores.md"), load).shown_by("uptime"),
    Check::new("governor", Some("cpu-governor.md"), governor)
        .shown_by("cpupower frequency-info, on the host"),
    Check::new("clock", Some("clock-source.md"), clock),
    Check::new("numa-balancing", Some("numa-balancing.md"), numa_balancing),
    Check::new("memory", None, memory).shown_by("free -h"),
    Check::new("huge-pages", Some("huge-pages.md"), huge_pages),
    Check::new("shared-memory-pages", Some("huge-pages.md"), shared_huge_pages),
    Check::new("dev-shm", Some("shared-memory.md"), dev_shm),
    Check::new("locked-memory", Some("locked-memory.md"), |root| {
        Ok(locked(root).unwrap_or_else(|why| unknown(why).consequence(LOCKS)))
    })
    .shown_by("ulimit -l"),
];

/// Returns the CPUs that this process may run on.
pub(crate) fn allowed(root: &Root) -> Result<CpuSet, String> {
    let path = "proc/self/status";
    root.parsed(path, &root.field(path, "Cpus_allowed_list")?)
}

fn cores(root: &Root) -> Found {
    let cpus = allowed(root)?;
    let count = cpus.len();
    let seen = format!("this process may use {} ({cpus})", cpus_in_words(count));
    Ok(match cgroup::cpus(root) {
        Some(quota) if quota < as_f64(count) => warning(
            format!("{seen}, but the CPU time of {} at most", tenths(quota)),
            "the kernel stops ranks for the rest of each period when that time is used up",
            "fewer ranks, or a larger quota: docker run --cpus, cpu.max or cpu.cfs_quota_us of the \
             cgroup",
        ),
        _ if count < 2 => warning(
            seen,
            "ranks poll continuously, so ranks that share a core run alternately, for \
             milliseconds at a time",
            "allow more CPUs: taskset, the job's --cpus-per-task, the machine's settings",
        ),
        _ => fine(seen),
    })
}

fn cpus_in_words(count: usize) -> String {
    format!("{count} CPU{}", if count == 1 { "" } else { "s" })
}

fn as_f64(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Formats CPUs in tenths, rounded down.
fn tenths(cpus: f64) -> String {
    match (cpus * 10.0).floor() / 10.0 {
        0.0 => "less than 0.1".to_owned(),
        tenths => tenths.to_string(),
    }
}

fn load(root: &Root) -> Found {
    let path = "proc/loadavg";
    let text = root.text(path)?;
    let load: f64 = root.parsed(path, text.split(' ').next().unwrap_or_default())?;
    let cpus = allowed(root)?.len();
    let seen = format!("{load:.1} in the last minute, on {}", cpus_in_words(cpus));
    Ok(match load {
        load if !load.is_finite() => unknown(format!("the load is {load}")),
        // The load of an idle machine of any size is below half of its CPUs.
        load if load < 0.5 * as_f64(cpus) => fine(seen),
        _ => warning(
            seen,
            "other processes use the CPUs too: latencies include waits for a core",
            "top -o %CPU",
        ),
    })
}

/// Returns whether a CPU with this governor may lower its frequency. Drivers that choose frequencies
/// themselves have an energy preference.
fn slow_governor(root: &Root, cpu: &str, governor: &str) -> bool {
    let path = format!("{cpu}/cpufreq/energy_performance_preference");
    let prefers_performance = || root.text(&path).is_ok_and(|word| word == "performance");
    governor != "performance" && !(governor == "powersave" && prefers_performance())
}

fn governor(root: &Root) -> Found {
    let governor = |cpu: &str| root.text(&format!("{cpu}/cpufreq/scaling_governor")).ok();
    let cpus = root.numbered("cpu").into_iter();
    let seen: Vec<_> = cpus.filter_map(|cpu| Some((governor(&cpu)?, cpu))).collect();
    let slow = || seen.iter().filter(|(governor, cpu)| slow_governor(root, cpu, governor));
    Ok(match (seen.first(), slow().next()) {
        (None, _) if root.is_virtual() => {
            unknown("a virtual machine: its host controls the CPU frequency")
        }
        (None, _) => unknown("the kernel shows no frequency governor"),
        (Some((governor, _)), None) => fine(format!("{governor} on all CPUs")),
        (_, Some((governor, _))) => warning(
            format!("{governor} on {} of {}", slow().count(), cpus_in_words(seen.len())),
            "the frequency rises only after some time of load: latencies vary from run to run",
            "sudo cpupower frequency-set --governor performance",
        ),
    })
}

fn clock(root: &Root) -> Found {
    let name = root.text(&format!("{CLOCK}/current_clocksource"))?;
    if FAST_CLOCKS.contains(&&*name) {
        return Ok(fine(name));
    }
    if !SLOW_CLOCKS.contains(&&*name) {
        return Ok(unknown(format!("an unknown clock: {name}")));
    }
    let others = root.text(&format!("{CLOCK}/available_clocksource")).unwrap_or_default();
    let better = others.split_whitespace().find(|name| FAST_CLOCKS.contains(name));
    let command = match better {
        Some(better) => format!("echo {better} | sudo tee /{CLOCK}/current_clocksource"),
        // The kernel has rejected the fast clock, or a boot option has.
        None => {
            "sudo dmesg | grep -i -e tsc -e clocksource, which shows why there is no faster one; \
             if the kernel is wrong: clocksource=tsc tsc=reliable on its command line"
                .to_owned()
        }
    };
    let consequence = "each reading is a system call, and each latency contains two of them";
    Ok(warning(name, consequence, command))
}

fn numa_balancing(root: &Root) -> Found {
    let path = "proc/sys/kernel/numa_balancing";
    if !root.has(path) && root.has(RELEASE) {
        return Ok(fine("this kernel has no NUMA balancing"));
    }
    let on = root.number::<u32>(path)? != 0;
    Ok(match (on, root.numbered("node").len()) {
        (false, _) => fine("off"),
        (true, 0 | 1) => fine("on, but there is only one node"),
        (true, nodes) => warning(
            format!("on, over {nodes} nodes"),
            "the kernel unmaps pages periodically to sample accesses: page faults during runs",
            "echo 0 | sudo tee /proc/sys/kernel/numa_balancing",
        ),
    })
}

fn memory(root: &Root) -> Found {
    let available = root.memory("MemAvailable")?;
    let limit = cgroup::memory(root).filter(|limit| *limit < available);
    let mut seen = format!("{} available", size(available));
    if let Some(limit) = limit {
        seen += &format!(", but this container is limited to {}", size(limit));
    }
    if limit.unwrap_or(available) >= MIN_AVAILABLE {
        return Ok(fine(seen));
    }
    Ok(warning(
        seen,
        "too little for the default table of most commands; a swapped table is unusably slow",
        "a smaller table by --table-size",
    ))
}

/// Returns the free huge pages of 2 MiB in all pools.
fn free_pages(root: &Root) -> Result<u64, String> {
    let path = "hugepages/hugepages-2048kB/free_hugepages";
    let of_node = |node: String| root.number::<u64>(&format!("{node}/{path}")).ok();
    let pools: Vec<u64> = root.numbered("node").into_iter().filter_map(of_node).collect();
    if pools.is_empty() {
        return root.number(&format!("sys/kernel/mm/{path}"));
    }
    Ok(pools.into_iter().fold(0, u64::saturating_add))
}

/// Checks the pages of private memory and of memory that a device registers.
fn huge_pages(root: &Root) -> Found {
    let small = "with 4 KiB pages a device has more translations than fit its cache, and a miss of \
                 the CPU walks the page table too";
    pages(root, ["enabled", "madvise", small], &["always", "madvise"])
}

/// Checks the pages of windows that several processes share.
fn shared_huge_pages(root: &Root) -> Found {
    let small = "over shm, with 4 KiB pages, a miss walks the page table too: random reads at about \
                 half the rate";
    let given = ["always", "within_size", "advise", "force"];
    pages(root, ["shmem_enabled", "advise", small], &given)
}

/// Checks whether memory gets huge pages: from a pool, because the setting is one of `given`, or
/// because the kernel makes them on request.
fn pages(root: &Root, [setting, recommended, consequence]: [&str; 3], given: &[&str]) -> Found {
    let path = format!("{TRANSPARENT}/{setting}");
    let free = free_pages(root).unwrap_or(0);
    let seen = format!("{free} huge pages of 2 MiB free in pools");
    let command = format!("echo {recommended} | sudo tee /{path}");
    let word = match root.chosen(&path) {
        Ok(word) => word,
        Err(_) if free >= ENOUGH_PAGES => return Ok(fine(seen)),
        Err(why) => return Ok(unknown(why).consequence(consequence).command(command)),
    };
    let seen = format!("{seen}, transparent huge pages: {word}");
    // MADV_COLLAPSE of Linux 6.1 regards only the setting `deny` (madvise(2)).
    let collapses = linux_version(&root.text(RELEASE).unwrap_or_default()) >= Some((6, 1));
    Ok(match &*word {
        word if free >= ENOUGH_PAGES || given.contains(&word) => fine(seen),
        "never" if collapses => fine(format!("{seen}, but made on request")),
        _ => warning(seen, consequence, command),
    })
}

fn dev_shm(root: &Root) -> Found {
    let seen = rustix::fs::statvfs(root.path("dev/shm"));
    let seen = seen.map_err(|error| format!("the size of /dev/shm is unknown: {error}"))?;
    let bytes = seen.f_bavail.saturating_mul(seen.f_frsize);
    let free = format!("{} free", size(bytes));
    if bytes >= MIN_DEV_SHM {
        return Ok(fine(free));
    }
    Ok(warning(
        free,
        "shm does not use it, but UCX and MPI do, and crash with a bus error when it is full",
        "sudo mount -o remount,size=50% /dev/shm, or docker run --shm-size=4g",
    ))
}

/// Checks the limit of locked memory, which matters only if there is a device to register memory
/// with.
fn locked(root: &Root) -> Found {
    let limit = locked_limit(root)?;
    let words = limit.map_or_else(|| "no limit".to_owned(), |b| format!("{} at most", size(b)));
    if root.rdma_devices().is_empty() {
        let seen = format!("{words}, and no device to register memory with");
        return Ok(fine(seen).consequence(LOCKS));
    }
    let command = "sudo prlimit --pid $$ --memlock=unlimited:unlimited, in the shell that starts the \
                   ranks";
    Ok(match (limit, root.memory("MemTotal")) {
        (None, _) => fine(words),
        _ if may_exceed(root) => {
            fine(format!("{words}, which does not bind a process with CAP_IPC_LOCK"))
        }
        (Some(bytes), _) if bytes < MIN_LOCKED => {
            broken(words, "registering even a small table's memory fails with ENOMEM", command)
        }
        // A table rarely uses more than half of the memory.
        (Some(bytes), Ok(memory)) if bytes >= memory / 2 => fine(words),
        _ => warning(
            words,
            "a larger table than that cannot be registered: opening it fails with ENOMEM",
            command,
        ),
    })
}

/// Returns the bytes that may be locked; `None` without a limit.
fn locked_limit(root: &Root) -> Result<Option<u64>, String> {
    let text = root.text(LIMITS)?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max locked memory"));
    match line.and_then(|line| line.split_whitespace().next()) {
        Some("unlimited") => Ok(None),
        // The parser rejects a missing or malformed number, with an error that names the file.
        word => root.parsed(LIMITS, word.unwrap_or_default()).map(Some),
    }
}

fn may_exceed(root: &Root) -> bool {
    let effective = root.field("proc/self/status", "CapEff").unwrap_or_default();
    u64::from_str_radix(&effective, 16).is_ok_and(|bits| bits >> CAP_IPC_LOCK & 1 == 1)
}
