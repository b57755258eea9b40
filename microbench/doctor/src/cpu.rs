//! Checks the cores that ranks run on and the clock that they measure with.

use probeline_pin::CpuSet;

use crate::cgroup;
use crate::root::{Root, Unseen};
use crate::{Finding, Note, Subject};

const CPUS: &str = "sys/devices/system/cpu";
const CLOCK: &str = "sys/devices/system/clocksource/clocksource0";

/// Clocks that a process reads without a system call (kernel documentation, timers/timekeeping).
const QUICK_CLOCKS: [&str; 5] =
    ["tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page", "timebase"];

/// Clocks that need a system call, and some of them a device access.
const SLOW_CLOCKS: [&str; 6] = ["hpet", "acpi_pm", "xen", "pit", "jiffies", "refined-jiffies"];

pub(crate) fn checks(root: &Root) -> Vec<Finding> {
    vec![cores(root), load(root), governor(root), clock(root), numa_balancing(root)]
}

/// Returns the CPUs that this process may run on.
pub(crate) fn allowed(root: &Root) -> Result<CpuSet, Unseen> {
    let path = "proc/self/status";
    root.parsed(path, &root.field(path, "Cpus_allowed_list")?)
}

fn cores(root: &Root) -> Finding {
    const CHECK: &str = "cores";
    let machine = &Subject::Machine;
    let cpus = match allowed(root) {
        Ok(cpus) => cpus,
        Err(unseen) => {
            return Finding::not_seen(CHECK, machine, unseen).command("nproc").note(Note::CORES);
        }
    };
    let count = cpus.len();
    let seen = format!("this process may use {} ({cpus})", cpus_in_words(count));
    let turns = "a rank polls without pause, so that ranks which share a core take turns in slices \
                 of milliseconds";
    let finding = match cgroup::cpus(root) {
        Some(quota) if quota < as_f64(count) => {
            let seen = format!("{seen}, and the time of {} at most", tenths(quota));
            Finding::look(CHECK, machine, seen)
                .consequence("ranks are stopped for the rest of each period once that is used up")
                .command(
                    "fewer ranks, or a larger quota: docker run --cpus, cpu.max or \
                     cpu.cfs_quota_us of the cgroup",
                )
        }
        _ if count < 2 => Finding::look(CHECK, machine, seen)
            .consequence(turns)
            .command("ask for more: taskset, the job's --cpus-per-task, the machine's settings"),
        _ => Finding::fine(CHECK, machine, seen),
    };
    finding.note(Note::CORES)
}

/// Formats a number of CPUs.
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

fn load(root: &Root) -> Finding {
    const CHECK: &str = "load";
    let machine = &Subject::Machine;
    let path = "proc/loadavg";
    let first = |text: String| text.split(' ').next().unwrap_or_default().to_owned();
    let load = root.text(path).and_then(|text| root.parsed::<f64>(path, &first(text)));
    let (load, cpus) = match (load, allowed(root)) {
        (Ok(load), Ok(cpus)) if load.is_finite() => (load, cpus.len()),
        (Ok(load), Ok(_)) => {
            let why = format!("the load is {load}");
            return Finding::not_seen(CHECK, machine, why).note(Note::CORES);
        }
        (Err(unseen), _) | (_, Err(unseen)) => {
            return Finding::not_seen(CHECK, machine, unseen).command("uptime").note(Note::CORES);
        }
    };
    let seen = format!("{load:.1} in the last minute, on {}", cpus_in_words(cpus));
    // A quiet machine of any size has a load below half of its CPUs.
    if load < 0.5 * as_f64(cpus) {
        return Finding::fine(CHECK, machine, seen).note(Note::CORES);
    }
    Finding::look(CHECK, machine, seen)
        .consequence("others want the CPUs too: latencies contain waits for a core")
        .command("top -o %CPU")
        .note(Note::CORES)
}

/// The frequency scaling of a CPU.
struct Scaling {
    governor: String,
    /// The energy preference of drivers that choose the frequency themselves.
    preference: Option<String>,
}

impl Scaling {
    fn of(root: &Root, cpu: &str) -> Result<Self, Unseen> {
        let path = |name| format!("{CPUS}/{cpu}/cpufreq/{name}");
        let governor = root.text(&path("scaling_governor"))?;
        Ok(Self { governor, preference: root.text(&path("energy_performance_preference")).ok() })
    }

    fn is_quick(&self) -> bool {
        let preference = self.preference.as_deref();
        self.governor == "performance"
            || (self.governor == "powersave" && preference == Some("performance"))
    }
}

fn governor(root: &Root) -> Finding {
    const CHECK: &str = "governor";
    let machine = &Subject::Machine;
    let number = |name: &str| name.strip_prefix("cpu").is_some_and(|id| id.parse::<u32>().is_ok());
    let cpus = root.names(CPUS).into_iter().filter(|name| number(name));
    let seen: Vec<_> = cpus.filter_map(|cpu| Scaling::of(root, &cpu).ok()).collect();
    let Some(first) = seen.first() else {
        let why = if root.is_virtual() {
            "a virtual machine, whose host decides how fast its CPUs run"
        } else {
            "the kernel scales no frequencies, or does not show how"
        };
        return Finding::not_seen(CHECK, machine, why)
            .command("cpupower frequency-info, on the host")
            .note(Note::CPU_GOVERNOR);
    };
    let slow: Vec<_> = seen.iter().filter(|scaling| !scaling.is_quick()).collect();
    let Some(example) = slow.first() else {
        let seen = format!("{} on all CPUs", first.governor);
        return Finding::fine(CHECK, machine, seen).note(Note::CPU_GOVERNOR);
    };
    let all = cpus_in_words(seen.len());
    let words = format!("{} on {} of {all}", example.governor, slow.len());
    Finding::look(CHECK, machine, words)
        .consequence("clocks rise only after a while of work: latencies vary from run to run")
        .command("sudo cpupower frequency-set --governor performance")
        .note(Note::CPU_GOVERNOR)
}

fn clock(root: &Root) -> Finding {
    const CHECK: &str = "clock";
    let machine = &Subject::Machine;
    let name = match root.text(&format!("{CLOCK}/current_clocksource")) {
        Ok(name) => name,
        Err(unseen) => {
            return Finding::not_seen(CHECK, machine, unseen).note(Note::CLOCK_SOURCE);
        }
    };
    if QUICK_CLOCKS.contains(&&*name) {
        return Finding::fine(CHECK, machine, name).note(Note::CLOCK_SOURCE);
    }
    if !SLOW_CLOCKS.contains(&&*name) {
        let why = format!("a clock not known here: {name}");
        return Finding::not_seen(CHECK, machine, why).note(Note::CLOCK_SOURCE);
    }
    let others = root.text(&format!("{CLOCK}/available_clocksource")).unwrap_or_default();
    let better = others.split_whitespace().find(|name| QUICK_CLOCKS.contains(name));
    let finding = Finding::look(CHECK, machine, name)
        .consequence("each reading is a system call, and each latency contains two of them")
        .note(Note::CLOCK_SOURCE);
    match better {
        Some(better) => {
            finding.command(format!("echo {better} | sudo tee /{CLOCK}/current_clocksource"))
        }
        // The kernel has rejected the fast clock, or a boot option has.
        None => finding.command(
            "sudo dmesg | grep -i -e tsc -e clocksource, which says why there is no quicker one; \
             clocksource=tsc tsc=reliable on the kernel's command line where that was a mistake",
        ),
    }
}

fn numa_balancing(root: &Root) -> Finding {
    const CHECK: &str = "numa-balancing";
    let path = "proc/sys/kernel/numa_balancing";
    let machine = &Subject::Machine;
    if !root.has(path) && root.has("proc/sys/kernel/osrelease") {
        let seen = "this kernel has none";
        return Finding::fine(CHECK, machine, seen).note(Note::NUMA_BALANCING);
    }
    let on = match root.number::<u32>(path) {
        Ok(on) => on != 0,
        Err(unseen) => {
            return Finding::not_seen(CHECK, machine, unseen).note(Note::NUMA_BALANCING);
        }
    };
    let nodes = root.nodes().len();
    let finding = match (on, nodes) {
        (false, _) => Finding::fine(CHECK, machine, "off"),
        (true, 0 | 1) => Finding::fine(CHECK, machine, "on, and there is one node only"),
        (true, nodes) => Finding::look(CHECK, machine, format!("on, over {nodes} nodes"))
            .consequence(
                "the kernel unmaps pages now and then to see who uses them: page faults in runs",
            )
            .command("echo 0 | sudo tee /proc/sys/kernel/numa_balancing"),
    };
    finding.note(Note::NUMA_BALANCING)
}
