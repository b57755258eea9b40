//! QEMU: its command line and its monitor. The README of this crate says why each option is given.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, Result, anyhow};

use crate::HANG_TIMEOUT;
use crate::case::Layer;

/// The socket of the wire between two machines. Names of files are relative to the boot's folder,
/// in which QEMU runs, since the path of a socket may have 107 bytes at most.
pub(crate) const WIRE: &str = "wire";

/// Returns the file of a guest's console.
pub(crate) fn console_log(machine: u32) -> String {
    format!("serial-{machine}.log")
}

/// Returns the file of QEMU's own messages.
pub(crate) fn qemu_log(machine: u32) -> String {
    format!("qemu-{machine}.log")
}

fn monitor_socket(machine: u32) -> String {
    format!("monitor-{machine}")
}

/// The parameters of one machine's command line.
pub(crate) struct CommandLine<'a> {
    pub(crate) layer: Layer,
    pub(crate) machine: u32,
    pub(crate) kernel: &'a Path,
    pub(crate) initrd: &'a Path,
    pub(crate) share: &'a Path,
}

impl CommandLine<'_> {
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut all = Vec::new();
        let mut add = |options: &[&str]| all.extend(options.iter().map(|&o| o.to_owned()));
        add(&["-M", "q35", "-smp", &self.layer.vcpus().to_string()]);
        add(&["-m", &self.layer.memory_mib().to_string()]);
        add(&["-cpu", if self.layer == Layer::Tearing { "max" } else { "max,-erms" }]);
        add(if self.layer == Layer::Icount {
            &["-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off,align=off"]
        } else {
            &["-accel", "tcg,thread=multi"]
        });
        add(&["-nodefaults", "-display", "none", "-no-reboot"]);
        add(&["-serial", &format!("file:{}", console_log(self.machine))]);
        add(&["-chardev", "stdio,id=agent,signal=off", "-serial", "chardev:agent"]);
        add(&["-qmp", &format!("unix:{},server=on,wait=off", monitor_socket(self.machine))]);
        add(&["-device", "isa-debug-exit,iobase=0x501,iosize=1"]);
        add(&["-kernel", &self.kernel.to_string_lossy()]);
        add(&["-initrd", &self.initrd.to_string_lossy()]);
        let line = "console=ttyS0 quiet panic=-1 mitigations=off";
        add(&["-append", &format!("{line} node={}", self.machine)]);
        add_folder(&mut add, "host", "path=/,security_model=none,readonly=on,multidevs=remap");
        // A comma would end the value unless it is doubled.
        let share = self.share.to_string_lossy().replace(',', ",,");
        add_folder(&mut add, "share", &format!("path={share},security_model=none"));
        self.add_network(&mut add);
        all
    }

    fn add_network(&self, add: &mut impl FnMut(&[&str])) {
        let mut bus = "pcie.0";
        if self.layer == Layer::Numa {
            self.add_nodes(add);
            bus = "port1";
            add(&["-netdev", "hubport,hubid=0,id=n0"]);
        } else if self.layer.machines() == 2 {
            let server = if self.machine == 1 { "on" } else { "off" };
            let wire = format!("addr.type=unix,addr.path={WIRE}");
            add(&["-netdev", &format!("stream,id=n0,server={server},{wire}")]);
        } else {
            return;
        }
        let mac = format!("mac=52:54:00:12:34:0{}", self.machine);
        add(&["-device", &format!("virtio-net-pci,netdev=n0,bus={bus},{mac},romfile=")]);
    }

    /// Adds two nodes, each with one CPU and half of the memory, and a slot for cards at the second.
    fn add_nodes(&self, add: &mut impl FnMut(&[&str])) {
        for node in 0..2 {
            let bytes = format!("size={}M", self.layer.memory_mib() / 2);
            add(&["-object", &format!("memory-backend-ram,id=m{node},{bytes}")]);
            add(&["-numa", &format!("node,nodeid={node},cpus={node},memdev=m{node}")]);
        }
        add(&["-numa", "dist,src=0,dst=1,val=21"]);
        add(&["-device", "pxb-pcie,id=bridge1,bus_nr=128,numa_node=1,bus=pcie.0"]);
        add(&["-device", "pcie-root-port,id=port1,bus=bridge1,chassis=1,slot=1"]);
    }
}

fn add_folder(add: &mut impl FnMut(&[&str]), name: &str, options: &str) {
    add(&["-fsdev", &format!("local,id={name},{options}")]);
    add(&["-device", &format!("virtio-9p-pci,bus=pcie.0,fsdev={name},mount_tag={name}")]);
}

/// Has the QEMU of `machine`, which runs in `folder`, execute a command of QMP.
pub(crate) fn execute(folder: &Path, machine: u32, command: &str) -> Result<()> {
    let socket = monitor_socket(machine);
    let failed = || format!("QEMU's {socket}: {command}");
    // A path through an open folder is short enough for a socket.
    let folder = File::open(folder).with_context(failed)?;
    let path = format!("/proc/self/fd/{}/{socket}", folder.as_raw_fd());
    let mut stream = UnixStream::connect(path).with_context(failed)?;
    stream.set_read_timeout(Some(HANG_TIMEOUT))?;
    let mut replies = BufReader::new(stream.try_clone()?).lines();
    for request in ["{\"execute\":\"qmp_capabilities\"}", command] {
        writeln!(stream, "{request}").with_context(failed)?;
        read_reply(&mut replies).with_context(failed)?;
    }
    Ok(())
}

/// Reads up to the next reply; events may come before it.
fn read_reply(lines: &mut impl Iterator<Item = io::Result<String>>) -> Result<()> {
    const MAX_EVENTS: usize = 64;
    for line in lines.take(MAX_EVENTS) {
        let line = line?;
        if line.starts_with("{\"return\"") {
            return Ok(());
        }
        if line.starts_with("{\"error\"") {
            return Err(anyhow!(line));
        }
    }
    Err(anyhow!("no reply"))
}
