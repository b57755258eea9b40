//! Checks the cores that ranks run on and the clock that they measure with.

use probeline_pin::CpuSet;

use crate::cgroup;
use crate::finding::{Check, Finding};
use crate::root::{Root, Unseen};

const CPUS: &str = "sys/devices/system/cpu";
const CLOCK: &str = "sys/devices/system/clocksource/clocksource0";

/// Clocks that a process reads without a system call (kernel documentation, timers/timekeeping).
const FAST_CLOCKS: [&str; 5] =
    ["tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page", "timebase"];

/// Clocks that need a system call, and some of them a device access.
const SLOW_CLOCKS: [&str; 6] = ["hpet", "acpi_pm", "xen", "pit", "jiffies", "refined-jiffies"];

/// Returns the CPUs that this process may run on.
pub(crate) fn allowed(root: &Root) -> Result<CpuSet, Unseen> {
    let path = "proc/self/status";
    root.parsed(path, &root.field(path, "Cpus_allowed_list")?)
}

pub(crate) fn cores(root: &Root, check: &Check<'_>) -> Result<Finding, Unseen> {
    let cpus = allowed(root)?;
    let count = cpus.len();
    let seen = format!("this process may use {} ({cpus})", cpus_in_words(count));
    Ok(match cgroup::cpus(root) {
        Some(quota) if quota < as_f64(count) => check.look(
            format!("{seen}, but the CPU time of {} at most", tenths(quota)),
            "the kernel stops ranks for the rest of each period when that time is used up",
            "fewer ranks, or a larger quota: docker run --cpus, cpu.max or cpu.cfs_quota_us of the \
             cgroup",
        ),
        _ if count < 2 => check.look(
            seen,
            "ranks poll continuously, so ranks that share a core run alternately, for \
             milliseconds at a time",
            "allow more CPUs: taskset, the job's --cpus-per-task, the machine's settings",
        ),
        _ => check.fine(seen),
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

pub(crate) fn load(root: &Root, check: &Check<'_>) -> Result<Finding, Unseen> {
    let path = "proc/loadavg";
    let text = root.text(path)?;
    let load: f64 = root.parsed(path, text.split(' ').next().unwrap_or_default())?;
    let cpus = allowed(root)?.len();
    let seen = format!("{load:.1} in the last minute, on {}", cpus_in_words(cpus));
    Ok(match load {
        load if !load.is_finite() => check.not_seen(format_args!("the load is {load}")),
        // The load of an idle machine of any size is below half of its CPUs.
        load if load < 0.5 * as_f64(cpus) => check.fine(seen),
        _ => check.look(
            seen,
            "other processes use the CPUs too: latencies include waits for a core",
            "top -o %CPU",
        ),
    })
}

/// Returns whether a CPU with this governor may lower its frequency. Drivers that choose frequencies
/// themselves have an energy preference.
fn slow_governor(root: &Root, cpu: &str, governor: &str) -> bool {
    let path = format!("{CPUS}/{cpu}/cpufreq/energy_performance_preference");
    let prefers_performance = || root.text(&path).is_ok_and(|word| word == "performance");
    governor != "performance" && !(governor == "powersave" && prefers_performance())
}

pub(crate) fn governor(root: &Root, check: &Check<'_>) -> Result<Finding, Unseen> {
    let number = |name: &str| name.strip_prefix("cpu").is_some_and(|id| id.parse::<u32>().is_ok());
    let cpus = root.names(CPUS).into_iter().filter(|name| number(name));
    let governor = |cpu: &str| root.text(&format!("{CPUS}/{cpu}/cpufreq/scaling_governor")).ok();
    let seen: Vec<_> = cpus.filter_map(|cpu| Some((governor(&cpu)?, cpu))).collect();
    let slow = || seen.iter().filter(|(governor, cpu)| slow_governor(root, cpu, governor));
    Ok(match (seen.first(), slow().next()) {
        (None, _) => check.not_seen(if root.is_virtual() {
            "a virtual machine: its host controls the CPU frequency"
        } else {
            "the kernel shows no frequency governor"
        }),
        (Some((governor, _)), None) => check.fine(format!("{governor} on all CPUs")),
        (_, Some((governor, _))) => check.look(
            format!("{governor} on {} of {}", slow().count(), cpus_in_words(seen.len())),
            "the frequency rises only after some time of load: latencies vary from run to run",
            "sudo cpupower frequency-set --governor performance",
        ),
    })
}

pub(crate) fn clock(root: &Root, check: &Check<'_>) -> Result<Finding, Unseen> {
    let name = root.text(&format!("{CLOCK}/current_clocksource"))?;
    if FAST_CLOCKS.contains(&&*name) {
        return Ok(check.fine(name));
    }
    if !SLOW_CLOCKS.contains(&&*name) {
        return Ok(check.not_seen(format_args!("an unknown clock: {name}")));
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
    Ok(check.look(name, consequence, command))
}

pub(crate) fn numa_balancing(root: &Root, check: &Check<'_>) -> Result<Finding, Unseen> {
    let path = "proc/sys/kernel/numa_balancing";
    if !root.has(path) && root.has("proc/sys/kernel/osrelease") {
        return Ok(check.fine("this kernel has no NUMA balancing"));
    }
    let on = root.number::<u32>(path)? != 0;
    Ok(match (on, root.nodes().len()) {
        (false, _) => check.fine("off"),
        (true, 0 | 1) => check.fine("on, but there is only one node"),
        (true, nodes) => check.look(
            format!("on, over {nodes} nodes"),
            "the kernel unmaps pages periodically to sample accesses: page faults during runs",
            "echo 0 | sudo tee /proc/sys/kernel/numa_balancing",
        ),
    })
}
