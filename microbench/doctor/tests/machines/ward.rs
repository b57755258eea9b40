//! A simulated machine: its files and devices, and the changes that break them.

use core::time::Duration;
use std::fs;

use probeline_doctor::{Doctor, Finding, Query, Survey, survey};
use probeline_verbs_sys::IBV_MTU_4096;

use crate::stand_in::{Atomics, Fabric, Faults, Setup};
use crate::tree::{Tree, expanded};

/// Longer than any device here takes to answer, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Two sockets with four cores each, and a ConnectX-6 for RoCE on the second.
const HEALTHY: &str = "\
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
const CARD: &str = "sys/devices/pci0000:3a/0000:3b:00.0";

/// A simulated machine, and its devices behind libibverbs.
pub(crate) struct Ward {
    pub(crate) tree: Tree,
    setup: Setup,
    faults: Faults,
    /// Whether libibverbs lists the device.
    listed: bool,
}

impl Ward {
    /// Creates a machine without problems.
    pub(crate) fn healthy() -> Self {
        let ward = Self {
            tree: Tree::of(HEALTHY),
            setup: Setup::with(|device| {
                (device.name, device.mtu, device.link) = ("mlx5_0", IBV_MTU_4096, LINK_OF_200);
            }),
            faults: Faults::default(),
            listed: true,
        };
        ward.file(&format!("{CARD}/config"), [0x5a; 64])
            .change("proc/meminfo: MemTotal: 268435456 kB\\nMemAvailable: 250000000 kB\\n")
            .change("proc/self/limits: Limit\\nMax locked memory  unlimited  unlimited  bytes\\n")
            .change("proc/self/status: CapEff:\\t0000000000000000\\nCpus_allowed_list:\\t0-7\\n")
    }

    /// Changes the machine: `PATH: CONTENT` writes a file, `PATH -> TARGET` a link, and `without PATH`
    /// removes either or a folder; `CARD` is the folder of the card. Anything else is a property of the
    /// first device and its value.
    pub(crate) fn change(mut self, line: &'static str) -> Self {
        let path = |path: &str| path.replace("CARD", CARD);
        let words: Vec<&'static str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse().unwrap();
        let hexadecimal = |at: usize| u32::from_str_radix(words[at].trim_start_matches("0x"), 16);
        let device = &mut self.setup.devices[0];
        match words[..] {
            ["without", at] => return expanded(&path(at)).iter().fold(self, Self::without),
            ["no", "device"] => self.listed = false,
            ["no", "card"] => {
                self.listed = false;
                let gone = ["sys/class/infiniband", "sys/class/infiniband_verbs", "dev/infiniband"];
                return gone
                    .into_iter()
                    .map(str::to_owned)
                    .fold(self, |ward, at| ward.without(&at));
            }
            ["card", vendor, device, class] => {
                let at = "sys/bus/pci/devices/0000:65:00.0";
                let files = [("vendor", vendor), ("device", device), ("class", class)];
                let file =
                    |ward: Self, (name, content)| ward.file(&format!("{at}/{name}"), content);
                return files.into_iter().fold(self, file);
            }
            ["control", "none"] => return self.file(&format!("{CARD}/config"), [0; 256]),
            ["control", _] => {
                let control = u16::try_from(hexadecimal(1).unwrap()).unwrap();
                let mut config = [0; 256];
                (config[0x06], config[0x34], config[0x60]) = (0x10, 0x60, 0x10);
                config[0x68..0x6a].copy_from_slice(&control.to_le_bytes());
                return self.file(&format!("{CARD}/config"), config);
            }
            ["software", _] => {
                (device.vendor, device.firmware) = (hexadecimal(1).unwrap(), "");
                let class = "sys/class/infiniband/mlx5_0".to_owned();
                let ward = self.without(&format!("{class}/device"));
                return ward.file(&format!("{class}/parent"), "eth0\n");
            }
            ["device", name] => device.name = name,
            ["second", name] => {
                let mut second = device.clone();
                (second.name, second.active) = (name, true);
                self.setup.devices.push(second);
            }
            ["firmware", version] => device.firmware = version,
            ["firmware"] => device.firmware = "",
            ["atomics", _] => device.atomics = number(1),
            ["part", _] => device.part = number(1),
            ["reads", _] => device.reads = words[1].parse().unwrap(),
            ["mtu", _] => device.mtu = number(1),
            ["link", width, speed] => {
                device.link = (width.parse().unwrap(), speed.parse().unwrap());
            }
            ["down"] => device.active = false,
            ["infiniband"] => device.ethernet = false,
            ["gids"] => device.gids = Vec::new(),
            ["gids", _] => device.gids = vec![("fe80::1", number(1))],
            ["fault", "swapped"] => self.faults.atomics = Atomics::Swapped,
            ["fault", "idle"] => self.faults.atomics = Atomics::Idle,
            ["fault", "wrong"] => self.faults.atomics = Atomics::Wrong,
            ["fault", "silent"] => self.faults.poll = Some(0),
            ["fault", verb, errno] => {
                let names = ["ENOMEM", "EPERM", "EINVAL", "EACCES"];
                let numbers = [libc::ENOMEM, libc::EPERM, libc::EINVAL, libc::EACCES];
                let at = names.iter().position(|name| *name == errno).unwrap();
                self.faults.call = Some((verb, 0, numbers[at]));
            }
            _ => self.tree.add(&path(line).replace("\\n", "\n").replace("\\t", "\t")),
        }
        self
    }

    fn file(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.tree.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    fn without(self, path: &String) -> Self {
        let path = self.tree.root().join(path);
        match path.symlink_metadata().unwrap().is_dir() {
            true => fs::remove_dir_all(path).unwrap(),
            false => fs::remove_file(path).unwrap(),
        }
        self
    }

    pub(crate) fn doctor(&self) -> Doctor {
        Doctor::new(self.tree.root())
    }

    /// Returns the survey of libibverbs here.
    pub(crate) fn survey(&self) -> Survey {
        let fabric = Fabric::new();
        let mut setup = self.setup.clone();
        setup.devices.retain(|_| self.listed);
        let machine = fabric.machine(setup);
        machine.break_it(|faults| {
            (faults.atomics, faults.poll, faults.call) =
                (self.faults.atomics, self.faults.poll, self.faults.call);
        });
        let options = Query { device: None, trial: true };
        let survey = survey(move || Ok(machine.libibverbs()), &options, PATIENCE);
        fabric.judge();
        survey
    }

    pub(crate) fn findings(&self) -> Vec<Finding> {
        self.doctor().examine(&self.survey())
    }
}

/// Asserts that exactly one finding has the head of `expected`, a verdict, a subject and a check, and
/// that its line has the parts after it; none if the verdict is `absent`.
#[track_caller]
pub(crate) fn expect(findings: &[Finding], expected: &str) {
    let (head, parts) = expected.split_once(':').unwrap();
    let of_check = |finding: &&Finding| {
        let Finding { subject, check, .. } = finding;
        head.get(9..).unwrap() == format!("{subject}, {check}")
    };
    let found: Vec<String> =
        findings.iter().filter(of_check).map(|finding| finding.line()).collect();
    if head.starts_with("absent") {
        assert_eq!(found, [""; 0], "{expected}");
        return;
    }
    let [line] = &found[..] else { panic!("{expected}: {found:#?}\n{findings:#?}") };
    let mut rest = line.strip_prefix(head).unwrap_or_else(|| panic!("{expected}\n{line}"));
    for part in parts.split('*').map(str::trim) {
        let at = rest.find(part).unwrap_or_else(|| panic!("{part:?} of {expected}\n{line}"));
        rest = &rest[at + part.len()..];
    }
}
