//! The command line of one QEMU. Why each option: see the README beside this crate.

use std::path::Path;

use crate::plan::{Cpu, Plan};

/// Files that a machine has in the folder of its bed, in which QEMU runs: short relative names,
/// for a socket's may have no more than 107 bytes.
pub(crate) const WIRE: &str = "wire";

pub(crate) fn monitor(machine: u32) -> String {
    format!("monitor-{machine}")
}

pub(crate) fn serial(machine: u32) -> String {
    format!("serial-{machine}.log")
}

/// What one machine is made from.
pub(crate) struct Parts<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) machine: u32,
    pub(crate) kernel: &'a Path,
    pub(crate) initrd: &'a Path,
    pub(crate) share: &'a Path,
}

impl Parts<'_> {
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut all = Vec::new();
        let mut add = |options: &[&str]| all.extend(options.iter().map(|&o| o.to_owned()));
        add(&["-M", "q35", "-smp", &self.plan.vcpus.to_string()]);
        add(&["-m", &self.plan.memory_mib.to_string()]);
        add(match self.plan.cpu {
            Cpu::Whole => &["-cpu", "max,-erms"],
            Cpu::Tearing => &["-cpu", "max"],
        });
        add(if self.plan.icount {
            &["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off,align=off"]
        } else {
            &["-accel", "tcg,thread=multi"]
        });
        add(&["-nodefaults", "-display", "none", "-no-reboot"]);
        add(&["-serial", &format!("file:{}", serial(self.machine))]);
        add(&["-chardev", "stdio,id=agent,signal=off", "-serial", "chardev:agent"]);
        add(&["-qmp", &format!("unix:{},server=on,wait=off", monitor(self.machine))]);
        add(&["-device", "isa-debug-exit,iobase=0x501,iosize=1"]);
        add(&["-kernel", &self.kernel.to_string_lossy()]);
        add(&["-initrd", &self.initrd.to_string_lossy()]);
        let line = "console=ttyS0 quiet panic=-1 mitigations=off";
        add(&["-append", &format!("{line} node={}", self.machine)]);
        self.add_folder(&mut add, "host", "path=/,security_model=none,readonly=on,multidevs=remap");
        let share = escaped(&self.share.to_string_lossy());
        self.add_folder(&mut add, "share", &format!("path={share},security_model=none"));
        self.add_network(&mut add);
        all
    }

    fn add_folder(&self, add: &mut impl FnMut(&[&str]), name: &str, options: &str) {
        add(&["-fsdev", &format!("local,id={name},{options}")]);
        add(&["-device", &format!("virtio-9p-pci,bus=pcie.0,fsdev={name},mount_tag={name}")]);
    }

    fn add_network(&self, add: &mut impl FnMut(&[&str])) {
        let mut bus = "pcie.0";
        if self.plan.numa {
            self.add_nodes(add);
            bus = "port1";
            add(&["-netdev", "hubport,hubid=0,id=n0"]);
        } else if self.plan.machines == 2 {
            let server = if self.machine == 1 { "on" } else { "off" };
            let wire = format!("addr.type=unix,addr.path={WIRE}");
            add(&["-netdev", &format!("stream,id=n0,server={server},{wire}")]);
        } else {
            return;
        }
        let mac = format!("mac=52:54:00:12:34:0{}", self.machine);
        add(&["-device", &format!("virtio-net-pci,netdev=n0,bus={bus},{mac},romfile=")]);
    }

    /// Two nodes of one CPU and half the memory each, and a slot for cards at the second.
    fn add_nodes(&self, add: &mut impl FnMut(&[&str])) {
        for node in 0..2 {
            let bytes = format!("size={}M", self.plan.memory_mib / 2);
            add(&["-object", &format!("memory-backend-ram,id=m{node},{bytes}")]);
            add(&["-numa", &format!("node,nodeid={node},cpus={node},memdev=m{node}")]);
        }
        add(&["-numa", "dist,src=0,dst=1,val=21"]);
        add(&["-device", "pxb-pcie,id=bridge1,bus_nr=128,numa_node=1,bus=pcie.0"]);
        add(&["-device", "pcie-root-port,id=port1,bus=bridge1,chassis=1,slot=1"]);
    }
}

/// A value among QEMU's options, where a comma ends it unless doubled.
fn escaped(value: &str) -> String {
    value.replace(',', ",,")
}
