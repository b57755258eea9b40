//! A simulated machine: its files and devices, and the changes that break them.

use core::time::Duration;
use std::fs;

use probeline_doctor::{Doctor, Finding, Questions, Survey, Verdict, survey};
use probeline_verbs_sys::IBV_MTU_4096;

use crate::stand_in::{Device, Fabric, Faults, Setup};
use crate::tree::Tree;

/// Longer than any device here takes to answer, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Two sockets with four cores each, and a ConnectX-6 for RoCE on the second.
pub(crate) const HEALTHY: &str = "\
    proc/loadavg: 0.10 0.05 0.01 1/500 1000
    proc/cmdline: BOOT_IMAGE=/vmlinuz quiet
    proc/cpuinfo: flags : fpu erms
    proc/sys/kernel/osrelease: 6.1.0-21-amd64
    proc/sys/kernel/numa_balancing: 0
    sys/devices/system/node/node0/cpulist: 0-3
    sys/devices/system/node/node1/cpulist: 4-7
    sys/devices/system/node/node{0-1}/distance: 10 21
    sys/devices/system/node/node{0-1}/hugepages/hugepages-2048kB/nr_hugepages: 512
    sys/devices/system/node/node{0-1}/hugepages/hugepages-2048kB/free_hugepages: 512
    sys/devices/system/cpu/cpu{0-7}/cpufreq/scaling_governor: performance
    sys/devices/system/clocksource/clocksource0/current_clocksource: tsc
    sys/devices/system/clocksource/clocksource0/available_clocksource: tsc hpet acpi_pm
    sys/kernel/mm/transparent_hugepage/enabled: always [madvise] never
    sys/kernel/mm/transparent_hugepage/shmem_enabled: always within_size [advise] never deny force
    sys/fs/cgroup/memory.max: max
    sys/fs/cgroup/cpu.max: max 100000
    dev/shm/kept:
    dev/infiniband/uverbs0:
    sys/class/infiniband_verbs/uverbs0/ibdev: mlx5_0
    sys/class/infiniband/mlx5_0/device -> ../../../devices/pci0000:3a/0000:3b:00.0
    sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0: ens1
    sys/class/infiniband/mlx5_0/ports/1/hw_counters/local_ack_timeout_err: 0
    sys/class/infiniband/mlx5_0/ports/1/hw_counters/packet_seq_err: 0
    sys/devices/pci0000:3a/0000:3b:00.0/uevent: PCI_SLOT_NAME=0000:3b:00.0
    sys/devices/pci0000:3a/0000:3b:00.0/driver -> ../../../bus/pci/drivers/mlx5_core
    sys/devices/pci0000:3a/0000:3b:00.0/iommu_group -> ../../../kernel/iommu_groups/7
    sys/kernel/iommu_groups/7/type: identity
    sys/devices/pci0000:3a/0000:3b:00.0/numa_node: 1
    sys/devices/pci0000:3a/0000:3b:00.0/current_link_speed: 16.0 GT/s PCIe
    sys/devices/pci0000:3a/0000:3b:00.0/max_link_speed: 16.0 GT/s PCIe
    sys/devices/pci0000:3a/0000:3b:00.0/current_link_width: 16
    sys/devices/pci0000:3a/0000:3b:00.0/max_link_width: 16
    sys/devices/pci0000:3a/0000:3b:00.0/net/ens1/mtu: 4200
    ";

/// Link width and speed of four lanes of HDR (InfiniBand specification, PortInfo).
const LINK_OF_200: (u8, u8) = (2, 64);

/// The PCI folder of the card.
pub(crate) const CARD: &str = "sys/devices/pci0000:3a/0000:3b:00.0";

/// A simulated machine, and its devices behind libibverbs.
pub(crate) struct Ward {
    tree: Tree,
    setup: Setup,
    break_it: fn(&mut Faults),
}

impl Ward {
    /// Creates a machine without problems.
    pub(crate) fn healthy() -> Self {
        Self::of(HEALTHY)
    }

    /// Creates a machine with these files and with the files of `/proc` that have several lines.
    pub(crate) fn of(files: &str) -> Self {
        let ward = Self {
            tree: Tree::of(files),
            setup: Setup::with(|device| {
                (device.name, device.mtu, device.link) = ("mlx5_0", IBV_MTU_4096, LINK_OF_200);
            }),
            break_it: |_| {},
        };
        ward.file("proc/meminfo", "MemTotal: 268435456 kB\nMemAvailable: 250000000 kB\n")
            .file("proc/self/limits", "Limit\nMax locked memory  unlimited  unlimited  bytes\n")
            .file("proc/self/status", "CapEff:\t0000000000000000\nCpus_allowed_list:\t0-7\n")
            .file(&format!("{CARD}/config"), [0x5a; 64])
    }

    /// Replaces the content of a file.
    pub(crate) fn file(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.tree.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    /// Removes a file, a link or a folder.
    pub(crate) fn without(self, path: &str) -> Self {
        let path = self.tree.root().join(path);
        if path.symlink_metadata().unwrap().is_dir() {
            fs::remove_dir_all(path).unwrap();
        } else {
            fs::remove_file(path).unwrap();
        }
        self
    }

    /// Replaces the driver of the card.
    pub(crate) fn driver(self, module: &str) -> Self {
        let link = format!("{CARD}/driver");
        let ward = self.without(&link);
        let target = format!("../../../bus/pci/drivers/{module}");
        std::os::unix::fs::symlink(target, ward.tree.root().join(link)).unwrap();
        ward
    }

    /// Changes the first device.
    pub(crate) fn device(mut self, change: impl FnOnce(&mut Device)) -> Self {
        change(&mut self.setup.devices[0]);
        self
    }

    /// Adds a second device: a changed copy of the first.
    pub(crate) fn second(mut self, change: impl FnOnce(&mut Device)) -> Self {
        let mut second = self.setup.devices[0].clone();
        change(&mut second);
        self.setup.devices.push(second);
        self
    }

    /// Removes the devices behind libibverbs.
    pub(crate) fn unlisted(mut self) -> Self {
        self.setup.devices.clear();
        self
    }

    /// Injects faults into the devices.
    pub(crate) fn broken(mut self, break_it: fn(&mut Faults)) -> Self {
        self.break_it = break_it;
        self
    }

    pub(crate) fn doctor(&self) -> Doctor {
        Doctor::new(self.tree.root())
    }

    /// Returns the survey of libibverbs here.
    pub(crate) fn survey(&self) -> Survey {
        self.survey_within(PATIENCE)
    }

    fn survey_within(&self, patience: Duration) -> Survey {
        let fabric = Fabric::new();
        let machine = fabric.machine(self.setup.clone());
        machine.break_it(self.break_it);
        let questions = Questions { device: None, trial: true };
        let survey = survey(move || Ok(machine.libibverbs()), &questions, patience);
        fabric.judge();
        survey
    }

    pub(crate) fn findings(&self) -> Vec<Finding> {
        self.doctor().examine(&self.survey())
    }

    /// Asserts the verdict of `check` of `subject`, and parts of its line.
    #[track_caller]
    pub(crate) fn says(&self, subject: &str, check: &str, verdict: Verdict, parts: &[&str]) {
        expect(&self.findings(), subject, check, verdict, parts);
    }
}

/// Asserts that there is exactly one such finding, with this verdict and these parts in its line.
#[track_caller]
pub(crate) fn expect(
    findings: &[Finding],
    subject: &str,
    check: &str,
    verdict: Verdict,
    parts: &[&str],
) {
    let is_it =
        |finding: &&Finding| finding.check == check && finding.subject.to_string() == subject;
    let found: Vec<_> = findings.iter().filter(is_it).collect();
    let [finding] = &found[..] else { panic!("{subject}, {check}: {found:#?}\n{findings:#?}") };
    assert_eq!(finding.verdict, verdict, "{}", finding.line(""));
    let line = finding.line("notes");
    for part in parts {
        assert!(line.contains(part), "{line:?} lacks {part:?}");
    }
    let wrong = matches!(verdict, Verdict::Broken | Verdict::LookAtThis);
    assert!(!wrong || finding.consequence.is_some(), "no consequence: {line}");
    assert!(!wrong || finding.command.is_some(), "no way on: {line}");
}
