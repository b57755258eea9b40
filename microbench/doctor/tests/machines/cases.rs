//! Machines with a problem each, and the findings on them.

use crate::ward::{Ward, expect};

/// Changes of the healthy machine at the margin, which [`Ward::change`] explains. Below them are the
/// findings on it: the start of a line, and parts after it that follow each other. If a change has a `?`, each
/// line below is a machine of its own: what to put there, and the finding.
const CASES: &str = r#"
proc/self/limits: Max locked memory  ?
    65536  65536  bytes | broken   machine, locked-memory: 64 KiB at most * ENOMEM * prlimit --pid $$ --memlock=unlimited
    8388608  8388608  bytes | warning  machine, locked-memory: 8 MiB at most * prlimit --pid $$ * notes/locked-memory.md
    140000000000  140000000000  bytes | fine     machine, locked-memory: 130 GiB
    some | unknown  machine, locked-memory: /proc/self/limits * no number * shared memory locks nothing * ulimit -l
    -1  -1  bytes | unknown  machine, locked-memory: /proc/self/limits * no number
proc/self/limits: Max locked memory  65536  65536  bytes
proc/self/status: CapEff:\t0000000000004000\nCpus_allowed_list:\t0-7
    fine     machine, locked-memory: 64 KiB at most * CAP_IPC_LOCK

proc/self/status: CapEff:\t0\nCpus_allowed_list:\t?
    5 | warning  machine, cores: this process may use 1 CPU (5) * run alternately
    all | unknown  machine, cores: /proc/self/status * nproc
sys/fs/cgroup/cpu.max: ?
    200000 100000 | warning  machine, cores: this * the CPU time of 2 at most * docker run --cpus
    900000 100000 | fine     machine, cores: this
    900000 0 | fine     machine, cores: this
    59999 100000 | warning  machine, cores: this * the CPU time of 0.5 at most
    5000 100000 | warning  machine, cores: this * the CPU time of less than 0.1 at most

# The smallest limit of all groups that contain the process applies, in versions 2 and 1.
proc/self/cgroup: 0::/slurm/job_7/step_0
sys/fs/cgroup/slurm/job_7/cpu.max: 300000 100000
    warning  machine, cores: this * the CPU time of 3 at most
proc/self/cgroup: 0::/slurm/job_7/step_0
sys/fs/cgroup/slurm/job_7/cpu.max: 300000 100000
sys/fs/cgroup/slurm/cpu.max: 50000 100000
    warning  machine, cores: this * the CPU time of 0.5 at most
proc/self/cgroup: 0::/slurm/job_8
sys/fs/cgroup/slurm/job_7/cpu.max: 300000 100000
    fine     machine, cores: this
proc/self/cgroup: 0::/a/b
sys/fs/cgroup/a/memory.max: 268435456
    warning  machine, memory: 238 GiB available, but this container is limited to 256 MiB
proc/self/cgroup: 4:memory:/jobs/7\n3:cpu,cpuacct:/jobs/7\n1:name=systemd:/\n0::/
sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_period_us: 100000
sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_quota_us: 50000
sys/fs/cgroup/cpu,cpuacct/jobs/7/cpu.cfs_period_us: 100000
sys/fs/cgroup/cpu,cpuacct/jobs/7/cpu.cfs_quota_us: -1
sys/fs/cgroup/memory/memory.limit_in_bytes: 9223372036854771712
sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes: 209715200
    warning  machine, cores: this * the CPU time of 0.5 at most
    warning  machine, memory: 238 GiB available, but this container is limited to 200 MiB
proc/self/cgroup: 4:memory:/jobs/7\n3:cpu,cpuacct:/jobs/7\n1:name=systemd:/\n0::/
sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_period_us: 100000
sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_quota_us: -1
sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes: 9223372036854771712
    fine     machine, cores: this
    fine     machine, memory: 238 GiB available
# In a container of version 1, the root of the mount is its own group, whatever its path outside.
proc/self/cgroup: 3:cpu,cpuacct:/docker/0123
sys/fs/cgroup/cpu/cpu.cfs_quota_us: 150000
sys/fs/cgroup/cpu/cpu.cfs_period_us: 100000
    warning  machine, cores: this * the CPU time of 1.5 at most

proc/loadavg: ?
    3.9 1 1 1/1 1 | fine     machine, load: 3.9 in the last minute, on 8 CPUs
    4.1 1 1 1/1 1 | warning  machine, load: 4.1 in the last minute * top -o %CPU
    NaN | unknown  machine, load: the load is NaN
proc/loadavg:
    unknown  machine, load: /proc/loadavg could not be read: it is empty * uptime

sys/devices/system/cpu/cpu{2-4}/cpufreq/scaling_governor: powersave
    warning  machine, governor: powersave on 3 of 8 CPUs * cpupower frequency-set
# Drivers that choose the frequency themselves report powersave, whatever their energy preference.
sys/devices/system/cpu/cpu{0-7}/cpufreq/scaling_governor: powersave
sys/devices/system/cpu/cpu{0-7}/cpufreq/energy_performance_preference: performance
    fine     machine, governor: powersave on all
without sys/devices/system/cpu/cpu{0-7}/cpufreq
    unknown  machine, governor: the kernel shows no frequency governor
without sys/devices/system/cpu/cpu{0-7}/cpufreq
proc/cpuinfo: flags\t\t: fpu hypervisor
    unknown  machine, governor: a virtual machine: its host controls

sys/devices/system/clocksource/clocksource0/current_clocksource: ?
    hpet | warning  machine, clock: hpet * echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current
    kvm-clock | fine     machine, clock: kvm-clock
    sundial | unknown  machine, clock: an unknown clock: sundial
sys/devices/system/clocksource/clocksource0/current_clocksource: hpet
sys/devices/system/clocksource/clocksource0/available_clocksource: hpet acpi_pm
    warning  machine, clock: hpet * Do: sudo dmesg | grep -i -e tsc * clocksource=tsc
without sys/devices/system/clocksource/clocksource0/current_clocksource
    unknown  machine, clock: /sys * could not be read

proc/sys/kernel/numa_balancing: 1
    warning  machine, numa-balancing: on, over 2 nodes * echo 0 | sudo tee
proc/sys/kernel/numa_balancing: 1
without sys/devices/system/node/node1
sys/devices/system/node/node0/distance: 10
    fine     machine, numa-balancing: on, but there is only one node
without proc/sys/kernel/numa_balancing
    fine     machine, numa-balancing: this kernel has no NUMA balancing

proc/sys/kernel/osrelease: 6.0
sys/devices/system/node/node{0-1}/hugepages/hugepages-2048kB/free_hugepages: 0
sys/kernel/mm/transparent_hugepage/enabled: always madvise [never]
sys/kernel/mm/transparent_hugepage/shmem_enabled: always within_size advise [never] deny force
    warning  machine, huge-pages: 0 huge * transparent huge pages: never * echo madvise | sudo
    warning  machine, shared-memory-pages: 0 * over shm * echo advise | sudo tee /sys/kernel/mm/transparent_hugepage/shmem_enabled
proc/sys/kernel/osrelease: 6.0
sys/devices/system/node/node{0-1}/hugepages/hugepages-2048kB/free_hugepages: 7
sys/kernel/mm/transparent_hugepage/enabled: [never]
    warning  machine, huge-pages: 14 huge pages of 2 MiB free
# Since Linux 6.1 the kernel makes huge pages on request, unless the setting denies them.
sys/devices/system/node/node{0-1}/hugepages/hugepages-2048kB/free_hugepages: 0
sys/kernel/mm/transparent_hugepage/enabled: always [never]
sys/kernel/mm/transparent_hugepage/shmem_enabled: never [deny]
    fine     machine, huge-pages: 0 huge * never, but made on request
    warning  machine, shared-memory-pages: 0 * deny * sudo tee
# A pool that holds a table is enough.
sys/kernel/mm/transparent_hugepage/enabled: always madvise [never]
    fine     machine, huge-pages: 1024 huge pages of 2 MiB free
sys/devices/system/node/node{0-1}/hugepages/hugepages-2048kB/free_hugepages: 0
sys/kernel/mm/transparent_hugepage/enabled: unknown
    unknown  machine, huge-pages: /sys * no choice is selected * echo madvise

proc/meminfo: MemAvailable: 200000 kB
    warning  machine, memory: 195 MiB available * --table-size
without ?
    proc/meminfo | unknown  machine, memory: /proc/meminfo * free -h
    dev/shm | unknown  machine, dev-shm: the size of /dev/shm is unknown

proc/sys/kernel/osrelease: ?
    5.4.0-150-generic | warning  machine, fork: kernel 5.4.0-150-generic, older than 5.12 * RDMAV_FORK_SAFE=1
    5.12.0 | fine     machine, fork: kernel 5.12.0
    GNU | unknown  machine, fork: "GNU" is not a version

# Machines on which libibverbs lists no device. Each reason applies only if the previous ones do not.
no device
    broken   machine, device: the kernel has mlx5_0 * apt-get install libibverbs1 ibverbs-providers, or
no device
without ?
    dev/infiniband | broken   machine, device: the kernel has mlx5_0 * docker run --device=/dev/infiniband
    sys/class/infiniband_verbs | broken   machine, device: the kernel has mlx5_0 * sudo modprobe ib_uverbs
no card
sys/bus/pci/devices/0000:00:00.0/class: 0x060000
proc/self/limits: Max locked memory  65536  65536  bytes
    warning  machine, device: no RDMA device, and no card * --transport shm connects * just vm-test
    fine     machine, libibverbs: loaded
    fine     machine, locked-memory: 64 KiB at most, and no device * shared memory locks nothing
no card
sys/class/net/lo/mtu: 1
sys/class/net/ens5/mtu: 1
    warning  machine, device: no RDMA device, and no PCI bus * modprobe rdma_rxe; sudo rdma link add rxe0 type rxe netdev ens5
no card
without sys
    unknown  machine, device: libibverbs * /sys, which lists cards, is missing
no card
card ?
    0x15b3 0x101b 0x020700 | warning  machine, device: no RDMA device, but a card at 0000:65:00.0 (driver none)
    0x15b3 0x101b 0x020000 | warning  machine, device: no RDMA * sudo modprobe mlx5_ib ib_uverbs
    0x15b3 0x1007 0x020000 | warning  machine, device: no RDMA * sudo modprobe mlx4_ib ib_uverbs
    0x1d0f 0xefa1 0x020000 | warning  machine, device: no RDMA * sudo modprobe efa ib_uverbs
    # Many network cards have no RDMA.
    0x8086 0x1521 0x020000 | warning  machine, device: no RDMA device, and no card that is known to support RDMA
    0x15b3 what 0x020000 | warning  machine, device: no RDMA device, and no card that is known to support RDMA
no card
card 0x15b3 0x101b 0x020700
sys/bus/pci/devices/0000:65:00.0/driver -> ../../drivers/vfio-pci
    warning  machine, device: no RDMA * assigned to a virtual machine

proc/self/status: CapEff:\t0\nCpus_allowed_list:\t?
    0-3 | warning  mlx5_0, numa-node: node 1 * CPUs 0-3 of other nodes * numactl --cpunodebind=1 --membind=1
    3-4 | fine     mlx5_0, numa-node: node 1, where
CARD/numa_node: ?
    -1 | unknown  mlx5_0, numa-node: the machine does not report it * lstopo
    9 | unknown  mlx5_0, numa-node: node 9, which is not online
    near | unknown  mlx5_0, numa-node: * numa_node does not contain a number
CARD/numa_node: -1
without sys/devices/system/node/node1
sys/devices/system/node/node0/distance: 10
    fine     mlx5_0, numa-node: there is only one node

CARD/current_link_width: ?
    8 | warning  mlx5_0, pcie-link: x8 at 16 GT/s, of x16 * 126 Gbit/s at most
    0 | unknown  mlx5_0, pcie-link: * lspci -vvs 0000:3b:00.0
CARD/current_link_speed: 8.0 GT/s
    warning  mlx5_0, pcie-link: x16 at 8 GT/s, of x16 at 16
CARD/current_link_speed: 8.0 GT/s PCIe
CARD/current_link_width: 8
CARD/max_link_speed: 8.0 GT/s PCIe
CARD/max_link_width: 8
    warning  mlx5_0, pcie-link: x8 * 63 Gbit/s * the port supports 200 Gbit/s
CARD/max_link_speed: Unknown
    unknown  mlx5_0, pcie-link: * lspci -vvs 0000:3b:00.0

# Of the configuration space, root alone may read the device control register.
device mlx5_0
    unknown  mlx5_0, read-request: only root * sudo lspci -vvs 0000:3b:00
control ?
    2910 | fine     mlx5_0, read-request: 512 B
    5000 | fine     mlx5_0, read-request: 4096 B
    0000 | warning  mlx5_0, read-request: 128 B * sudo setpci -s 0000:3b:00.0 CAP_EXP+8.w=5000:7000
    7000 | unknown  mlx5_0, read-request: a reserved code
    none | unknown  mlx5_0, read-request: it has no PCI Express capability

sys/kernel/iommu_groups/7/type: ?
    DMA-FQ | warning  mlx5_0, iommu: translates addresses (DMA-FQ) * iommu=pt
    DMA | warning  mlx5_0, iommu: translates addresses (DMA)
    blocked | unknown  mlx5_0, iommu: an unknown type: blocked
without ?
    sys/kernel/iommu_groups/7/type | unknown  mlx5_0, iommu: * cat /proc/cmdline
    CARD/iommu_group | fine     mlx5_0, iommu: no IOMMU
without sys/kernel/iommu_groups/7/type
proc/cmdline: quiet iommu=pt
    fine     mlx5_0, iommu: iommu=pt at boot

firmware ?
    20.24.1000 | warning  mlx5_0, firmware: 20.24.1000, of ConnectX-6; older than 20.27.0090 * mlxup
    12.18.2000 | warning  mlx5_0, firmware: 12.18.2000, of ConnectX-4;
    99.1.1 | fine     mlx5_0, firmware: 99.1.1
    20.27.99999999999 | unknown  mlx5_0, firmware: "20.27.99999999999" is not a version
    20.27.90.1 | unknown  mlx5_0, firmware: "20.27.90.1" is not a version
firmware
    unknown  mlx5_0, firmware: the driver reports no version * ethtool -i
firmware 1.2
CARD/driver -> ../../../bus/pci/drivers/bnxt_en
    fine     mlx5_0, firmware: 1.2

atomics 0
CARD/driver -> ../../../bus/pci/drivers/efa
    warning  mlx5_0, driver: efa * no atomics * notes/devices-without-atomics.md
    broken   mlx5_0, atomics: none (atomic_cap NONE) * notes/devices-without-atomics.md
    unknown  mlx5_0, atomics-tried: not tried: the device reports none
atomics 0
CARD/driver -> ../../../bus/pci/drivers/?
    irdma | warning  mlx5_0, driver: irdma * newer kernel
    bnxt_en | warning  mlx5_0, driver: bnxt_en * AtomicOps * notes/pci-atomics.md
    erdma | warning  mlx5_0, driver: erdma * no atomics * --transport ucx
CARD/driver -> ../../../bus/pci/drivers/?
    bnxt_en | fine     mlx5_0, driver: bnxt_en
    mlx4_core | warning  mlx5_0, driver: mlx4_core; the atomics of ConnectX-3 and older * 2.7 million
    erdma | fine     mlx5_0, driver: erdma
    ionic | warning  mlx5_0, driver: ionic * changed nothing * probeline doctor --device mlx5_0
part 4113
    warning  mlx5_0, driver: mlx5_core; old kernels and firmware of Connect-IB * notes/atomic-byte-order.md
without CARD/driver
    unknown  mlx5_0, driver: sysfs does not show its driver * rdma link show

# Software devices have no slot. Kernels before 5.0 have no vendor number for Soft-RoCE.
software 0xffffff
    warning  mlx5_0, driver: Soft-RoCE (rdma_rxe), no hardware * notes/soft-roce.md
    fine     mlx5_0, firmware: none: the device is software
    absent   mlx5_0, pcie-link:
software ?
    0x0 | warning  mlx5_0, driver: Soft-RoCE * notes/soft-roce.md
    0x626d74 | warning  mlx5_0, driver: Soft-iWARP (siw), no hardware; it has no atomics
software 0xffffff
proc/cpuinfo: flags : erms hypervisor
    warning  mlx5_0, driver: Soft-RoCE * torn words

fault ?
    swapped | broken   mlx5_0, atomics-tried: * big-endian order * notes/atomic-byte-order.md
    idle | broken   mlx5_0, atomics-tried: * without changing the word * notes/devices-without-atomics.md
    wrong | broken   mlx5_0, atomics-tried: * instead of * notes/devices-without-atomics.md
    ibv_reg_mr ENOMEM | broken   mlx5_0, atomics-tried: ibv_reg_mr failed * notes/locked-memory.md
    ibv_reg_mr EPERM | broken   mlx5_0, atomics-tried: ibv_reg_mr failed * notes/locked-memory.md
    ibv_create_cq EINVAL | broken   mlx5_0, atomics-tried: ibv_create_cq failed with EINVAL
    ibv_open_device EACCES | broken   mlx5_0, device: * EACCES * /dev/infiniband * notes/no-device.md
    # A device whose requests never complete.
    silent | broken   mlx5_0, atomics-tried: * never completed

atomics 2
    fine     mlx5_0, atomics: with the CPU's too (atomic_cap GLOB)
    fine     mlx5_0, pci-atomics: none, or not reported
atomics 2
proc/cpuinfo: flags : hypervisor
    warning  mlx5_0, pci-atomics: * in a virtual machine * notes/pci-atomics.md
reads ?
    4 | warning  mlx5_0, outstanding-reads: 4 as initiator * at most 4 per roundtrip
    0 | broken   mlx5_0, outstanding-reads: 0 * never complete

down
    broken   mlx5_0/1, link: down, Ethernet * sudo ip link set ens1 up
    unknown  mlx5_0, atomics-tried: * no port is active
    absent   mlx5_0/1, mtu:
down
second mlx5_1
    warning  mlx5_0/1, link: * another port is active
    fine     mlx5_1/1, link: active
down
infiniband
    broken   mlx5_0/1, link: down, InfiniBand * the cable is plugged in
mtu 3
    warning  mlx5_0/1, mtu: 1024 B of 4096 B * C is more than 128 * ip link set ens1 mtu 4200
infiniband
mtu 4
    warning  mlx5_0/1, mtu: 2048 B of 4096 B * partitions.conf
infiniband
link ?
    1 32 | warning  mlx5_0/1, rate: 25 Gbit/s over 1 lane; * have failed
    77 32 | unknown  mlx5_0/1, rate: * cat /sys/class/infiniband/mlx5_0/ports/1/rate
link 2 1
    fine     mlx5_0/1, rate: 10 Gbit/s over 4 lanes

gids 1
    broken   mlx5_0/1, gid: * RoCE v1 is not routed * --gid-index * notes/gids.md
    fine     mlx5_0, atomics-tried: compare-and-swap
gids 2
    broken   mlx5_0/1, gid: * ip address add ADDRESS/PREFIX dev ens1
gids
    broken   mlx5_0/1, gid: * no GID
infiniband
gids 0
    fine     mlx5_0/1, gid: InfiniBand, fe80::1, index 0
sys/class/infiniband/mlx5_0/ports/1/hw_counters/packet_seq_err: 17
    warning  mlx5_0/1, sent-again: packet_seq_err 17 * notes/lossy-ethernet.md
without sys/class/infiniband/mlx5_0/ports/1/hw_counters
    unknown  mlx5_0/1, sent-again: * ls /sys/class/infiniband/mlx5_0/ports/1/hw_counters
"#;

#[test]
fn cases_yield_expected_findings() {
    let (mut changes, mut findings) = (Vec::new(), None);
    let mut seen = 0;
    let is_comment = |line: &&str| line.trim_start().starts_with('#');
    for line in CASES.lines().filter(|line| !line.is_empty() && !is_comment(line)) {
        let Some(expected) = line.strip_prefix("    ") else {
            // The first change after a finding starts a new machine.
            if findings.take().is_some() {
                changes.clear();
            }
            changes.push(line);
            continue;
        };
        let (value, expected) = match changes.iter().any(|change| change.contains('?')) {
            true => expected.split_once(" | ").unwrap(),
            false => ("", expected),
        };
        let machine = changes.iter().map(|change| &*change.replace('?', value).leak());
        let examined = || machine.fold(Ward::healthy(), Ward::change).findings();
        match value {
            "" => expect(findings.get_or_insert_with(examined), expected),
            _ => expect(findings.insert(examined()), expected),
        }
        seen += 1;
    }
    assert!(seen > 130, "{seen}");
}
