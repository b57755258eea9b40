//! Findings on the machine itself.

use probeline_doctor::Verdict::{Broken, Fine, LookAtThis, NotSeen};
use probeline_doctor::{Doctor, Verdict};

use crate::ward::{HEALTHY, Ward};

const STATUS: &str = "proc/self/status";
const TRANSPARENT: &str = "sys/kernel/mm/transparent_hugepage";

#[track_caller]
fn machine(ward: Ward, check: &str, verdict: Verdict, parts: &[&str]) {
    ward.says("machine", check, verdict, parts);
}

#[test]
fn a_healthy_machine_has_only_fine_findings() {
    let findings = Ward::healthy().findings();
    for finding in &findings {
        let unseen = ["firmware-settings", "lossless", "read-request", "relaxed-ordering"];
        let expected = if unseen.contains(&finding.check) { NotSeen } else { Fine };
        // This finding depends on the machine that runs the test.
        if finding.check != "dev-shm" {
            assert_eq!(finding.verdict, expected, "{}", finding.line(""));
        }
    }
    // Each check occurs once for each subject.
    for (place, finding) in findings.iter().enumerate() {
        let same = |other: &&probeline_doctor::Finding| {
            (other.check, &other.subject) == (finding.check, &finding.subject)
        };
        assert_eq!(findings[..place].iter().find(same), None);
    }
    assert!(findings.len() > 25, "{}", findings.len());
}

#[test]
fn the_limit_of_locked_memory_matters_with_a_device() {
    let limits = |soft: &str| format!("Max locked memory         {soft}      {soft}     bytes\n");
    let with = |soft: &str| Ward::healthy().file("proc/self/limits", limits(soft));
    let check = "locked-memory";
    let fix = "prlimit --pid $$ --memlock=unlimited";
    machine(with("65536"), check, Broken, &["64 KiB at most", "ENOMEM", fix]);
    machine(with("8388608"), check, LookAtThis, &["8 MiB at most", fix, "notes/locked-memory.md"]);
    machine(with("unlimited"), check, Fine, &["no limit"]);
    // Half of the memory is enough.
    machine(with("140000000000"), check, Fine, &["130 GiB"]);
    let capable = "CapEff:\t0000000000004000\nCpus_allowed_list:\t0-7\n";
    machine(with("65536").file(STATUS, capable), check, Fine, &["CAP_IPC_LOCK"]);
    machine(with("some"), check, NotSeen, &["/proc/self/limits", "no number"]);
    machine(with("-1"), check, NotSeen, &["no number"]);
    let none = with("65536").without("sys/class/infiniband").unlisted();
    machine(none, check, Fine, &["64 KiB at most, and no device", "shared memory locks nothing"]);
}

#[test]
fn few_or_limited_cores_are_reported() {
    let allowed = |list: &str| format!("CapEff:\t0\nCpus_allowed_list:\t{list}\n");
    let with = |list: &str| Ward::healthy().file(STATUS, allowed(list));
    machine(with("4-7"), "cores", Fine, &["4 CPUs (4-7)"]);
    machine(with("5"), "cores", LookAtThis, &["may use 1 CPU (5)", "run alternately"]);
    machine(with("all"), "cores", NotSeen, &["/proc/self/status"]);
    let quota = Ward::healthy().file("sys/fs/cgroup/cpu.max", "200000 100000\n");
    machine(quota, "cores", LookAtThis, &["the CPU time of 2 at most", "docker run --cpus"]);
    let roomy = Ward::healthy().file("sys/fs/cgroup/cpu.max", "900000 100000\n");
    machine(roomy, "cores", Fine, &[]);
    let odd = Ward::healthy().file("sys/fs/cgroup/cpu.max", "900000 0\n");
    machine(odd, "cores", Fine, &[]);
    let tenths = |quota| Ward::healthy().file("sys/fs/cgroup/cpu.max", format!("{quota} 100000\n"));
    machine(tenths(150_000), "cores", LookAtThis, &["the CPU time of 1.5 at most"]);
    machine(tenths(59_999), "cores", LookAtThis, &["the CPU time of 0.5 at most"]);
    machine(tenths(5000), "cores", LookAtThis, &["the CPU time of less than 0.1 at most"]);
}

/// The smallest limit of all groups that contain the process applies, in versions 2 and 1.
#[test]
fn limits_of_nested_groups_are_reported() {
    const OF_THIS_PROCESS: &str = "proc/self/cgroup";
    let v2 = |groups: &str| Ward::healthy().file(OF_THIS_PROCESS, groups);
    let job = |ward: Ward| ward.file("sys/fs/cgroup/slurm/job_7/cpu.max", "300000 100000\n");
    let nested = job(v2("0::/slurm/job_7/step_0\n"));
    machine(nested, "cores", LookAtThis, &["the CPU time of 3 at most"]);
    let tighter = job(v2("0::/slurm/job_7/step_0\n"));
    let tighter = tighter.file("sys/fs/cgroup/slurm/cpu.max", "50000 100000\n");
    machine(tighter, "cores", LookAtThis, &["the CPU time of 0.5 at most"]);
    machine(job(v2("0::/slurm/job_8\n")), "cores", Fine, &[]);
    let little = v2("0::/a/b\n").file("sys/fs/cgroup/a/memory.max", "268435456\n");
    machine(little, "memory", LookAtThis, &["this container is limited to 256 MiB"]);

    let groups = "4:memory:/jobs/7\n3:cpu,cpuacct:/jobs/7\n1:name=systemd:/\n0::/\n";
    let v1 = |path: &str, content: &str| {
        let dir = "sys/fs/cgroup/cpu,cpuacct/jobs";
        v2(groups)
            .file(&format!("{dir}/cpu.cfs_period_us"), "100000\n")
            .file(&format!("{dir}/7/cpu.cfs_period_us"), "100000\n")
            .file(&format!("{dir}/7/cpu.cfs_quota_us"), "-1\n")
            .file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
            .file(&format!("sys/fs/cgroup/{path}"), content)
    };
    machine(v1("cpu,cpuacct/jobs/cpu.cfs_quota_us", "50000\n"), "cores", LookAtThis, &["of 0.5"]);
    machine(v1("cpu,cpuacct/jobs/cpu.cfs_quota_us", "-1\n"), "cores", Fine, &[]);
    let limit = "memory/jobs/7/memory.limit_in_bytes";
    machine(v1(limit, "209715200\n"), "memory", LookAtThis, &["limited to 200 MiB"]);
    machine(v1(limit, "9223372036854771712\n"), "memory", Fine, &["238 GiB available"]);
    // In a container of version 1, the root of the mount is its own group, whatever its path
    // outside.
    let outside = v2("3:cpu,cpuacct:/docker/0123\n")
        .file("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n")
        .file("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    machine(outside, "cores", LookAtThis, &["the CPU time of 1.5 at most"]);
}

#[test]
fn other_load_is_reported() {
    let load = |text| Ward::healthy().file("proc/loadavg", text);
    machine(load("3.9 1 1 1/1 1\n"), "load", Fine, &["3.9 in the last minute, on 8 CPUs"]);
    machine(load("4.1 1 1 1/1 1\n"), "load", LookAtThis, &["top -o %CPU"]);
    machine(load("NaN\n"), "load", NotSeen, &[]);
    machine(load(""), "load", NotSeen, &["it is empty"]);
}

#[test]
fn power_saving_governors_are_reported() {
    let slow = |cpus| {
        format!("{HEALTHY}\nsys/devices/system/cpu/{cpus}/cpufreq/scaling_governor: powersave")
    };
    let ward = Ward::of(&slow("cpu{2-4}"));
    machine(ward, "governor", LookAtThis, &["powersave on 3 of 8 CPUs", "cpupower frequency-set"]);
    // Drivers that choose the frequency themselves report powersave, whatever their energy
    // preference.
    let preferred =
        "\nsys/devices/system/cpu/cpu{0-7}/cpufreq/energy_performance_preference: performance";
    let ward = Ward::of(&(slow("cpu{0-7}") + preferred));
    machine(ward, "governor", Fine, &["powersave on all"]);
    let none = || {
        (0..8).fold(Ward::healthy(), |ward, cpu| {
            ward.without(&format!("sys/devices/system/cpu/cpu{cpu}/cpufreq"))
        })
    };
    machine(none(), "governor", NotSeen, &["no frequency governor"]);
    let guest = none().file("proc/cpuinfo", "flags\t\t: fpu hypervisor\n");
    machine(guest, "governor", NotSeen, &["host controls"]);
}

#[test]
fn slow_clocks_are_reported() {
    let clock = "sys/devices/system/clocksource/clocksource0/current_clocksource";
    let fix = "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current";
    machine(Ward::healthy().file(clock, "hpet\n"), "clock", LookAtThis, &["hpet", fix]);
    let gone = "sys/devices/system/clocksource/clocksource0/available_clocksource";
    let none = Ward::healthy().file(clock, "hpet\n").file(gone, "hpet acpi_pm\n");
    machine(none, "clock", LookAtThis, &["Do: sudo dmesg | grep -i -e tsc", "clocksource=tsc"]);
    machine(Ward::healthy().file(clock, "kvm-clock\n"), "clock", Fine, &[]);
    machine(Ward::healthy().file(clock, "sundial\n"), "clock", NotSeen, &["sundial"]);
    machine(Ward::healthy().file(clock, " \n"), "clock", NotSeen, &["it is empty"]);
    machine(Ward::healthy().without(clock), "clock", NotSeen, &["could not be read"]);
}

#[test]
fn numa_balancing_is_reported() {
    let path = "proc/sys/kernel/numa_balancing";
    let on = Ward::healthy().file(path, "1\n");
    machine(on, "numa-balancing", LookAtThis, &["on, over 2 nodes", "echo 0 | sudo tee"]);
    let one = Ward::healthy().file(path, "1\n").without("sys/devices/system/node/node1");
    let one = one.file("sys/devices/system/node/node0/distance", "10\n");
    machine(one, "numa-balancing", Fine, &["only one node"]);
    machine(Ward::healthy().without(path), "numa-balancing", Fine, &["no NUMA balancing"]);
}

#[test]
fn pages_are_checked_for_devices_and_for_shared_memory() {
    let old = HEALTHY.replace("osrelease: 6.1", "osrelease: 6.0");
    let empty = old.replace("hugepages: 512", "hugepages: 0");
    let transparent = |name: &str, choice: &str| {
        Ward::of(&empty).file(&format!("{TRANSPARENT}/{name}"), format!("{choice}\n"))
    };
    let never = transparent("enabled", "always madvise [never]");
    machine(
        never,
        "huge-pages",
        LookAtThis,
        &["transparent huge pages: never", "echo madvise | sudo"],
    );
    let never = transparent("shmem_enabled", "always within_size advise [never] deny force");
    let fix = "echo advise | sudo tee /sys/kernel/mm/transparent_hugepage/shmem_enabled";
    machine(never, "shared-memory-pages", LookAtThis, &[fix, "over shm"]);
    let few = old.replace("hugepages: 512", "hugepages: 7");
    let never = Ward::of(&few).file(&format!("{TRANSPARENT}/enabled"), "[never]\n");
    machine(never, "huge-pages", LookAtThis, &["14 huge pages of 2 MiB free"]);
    // Since Linux 6.1 the kernel makes huge pages on request, unless the setting denies them.
    for (check, setting) in [("huge-pages", "enabled"), ("shared-memory-pages", "shmem_enabled")] {
        let new = || Ward::of(&HEALTHY.replace("hugepages: 512", "hugepages: 0"));
        let chosen = |choice| new().file(&format!("{TRANSPARENT}/{setting}"), choice);
        machine(chosen("always [never]\n"), check, Fine, &["never, but made on request"]);
        machine(chosen("never [deny]\n"), check, LookAtThis, &["deny", "sudo tee"]);
    }
    // A pool that holds a table is enough.
    let pool = Ward::healthy().file(&format!("{TRANSPARENT}/enabled"), "always madvise [never]\n");
    machine(pool, "huge-pages", Fine, &["1024 huge pages of 2 MiB free"]);
    machine(transparent("enabled", "unknown"), "huge-pages", NotSeen, &["no choice is selected"]);
}

#[test]
fn low_memory_is_reported() {
    let little = Ward::healthy().file("proc/meminfo", "MemAvailable: 200000 kB\n");
    machine(little, "memory", LookAtThis, &["195 MiB available", "--table-size"]);
    let contained = Ward::healthy().file("sys/fs/cgroup/memory.max", "268435456\n");
    machine(contained, "memory", LookAtThis, &["this container is limited to 256 MiB"]);
    machine(Ward::healthy().without("proc/meminfo"), "memory", NotSeen, &["/proc/meminfo"]);
    machine(Ward::healthy().without("dev/shm"), "dev-shm", NotSeen, &["/dev/shm"]);
}

#[test]
fn old_kernels_move_pages_when_they_fork() {
    let kernel = |release| Ward::healthy().file("proc/sys/kernel/osrelease", release);
    machine(kernel("5.4.0-150-generic\n"), "fork", LookAtThis, &["RDMAV_FORK_SAFE=1"]);
    machine(kernel("5.12.0\n"), "fork", Fine, &[]);
    machine(kernel("7.0\n"), "fork", Fine, &[]);
    machine(kernel("GNU\n"), "fork", NotSeen, &["not a version"]);
}

/// Examines the machine that runs the test.
#[test]
fn a_real_machine_is_examined() {
    let findings = Doctor::new("/").machine();
    for check in ["cores", "load", "memory", "huge-pages", "locked-memory", "clock"] {
        let finding = findings.iter().find(|finding| finding.check == check).unwrap();
        assert_ne!(finding.verdict, NotSeen, "{}", finding.line(""));
    }
}
