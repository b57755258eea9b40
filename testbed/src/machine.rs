//! One virtual machine: commands in its guest, and the faults that the host injects.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::time::Duration;
use std::fs::{self, DirEntry, File};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::HANG_TIMEOUT;
use crate::agent::Agent;
use crate::command::{Exit, GuestCommand};
use crate::error::{Error, tail};
use crate::limit::Limit;
use crate::qemu::{self, CommandLine};
use crate::tool::{Tool, poll, wait};

/// QEMU's exit status after a regular power-off: twice the value that the guest writes to
/// isa-debug-exit, plus one. A panic ends with 0.
const POWER_OFF_STATUS: i32 = 33;

/// A virtual machine of a test bed; killed when dropped.
#[derive(Debug)]
pub(crate) struct Machine {
    number: u32,
    /// The folder of the boot.
    dir: PathBuf,
    share: PathBuf,
    qemu: Mutex<Child>,
    agent: Arc<Agent>,
    next_command: AtomicU32,
    killed: AtomicBool,
}

/// The link state of a machine's network card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Up,
    Down,
}

impl Machine {
    /// Starts QEMU in `dir`.
    pub(crate) fn power_on(dir: &Path, command_line: &CommandLine<'_>) -> Result<Self> {
        let number = command_line.machine;
        let log = dir.join(qemu::qemu_log(number));
        let log = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let qemu = Tool::new("qemu-system-x86_64").args(command_line.arguments()).dir(dir);
        let mut qemu = qemu.start(log)?;
        let (Some(input), Some(output)) = (qemu.stdin.take(), qemu.stdout.take()) else {
            bail!("QEMU was started without pipes");
        };
        Ok(Self {
            number,
            dir: dir.to_owned(),
            share: command_line.share.to_owned(),
            qemu: Mutex::new(qemu),
            agent: Agent::new(input, output),
            next_command: AtomicU32::new(1),
            killed: AtomicBool::new(false),
        })
    }

    /// Waits until Soft-RoCE is active in the guest; returns the release of its kernel.
    pub(crate) fn wait_until_ready(&self, deadline: Instant) -> Result<String> {
        let ready = self.agent.wait(deadline, |state| {
            let failed = state.failed.as_ref().map(|why| format!("did not start: {why}"));
            let closed = state.closed.then(|| "ended while it started".to_owned());
            let failed = failed.or(closed).map(Err);
            state.ready.clone().map(Ok).or(failed)
        });
        match ready {
            Some(ready) => ready.map_err(|how| self.ended(&how)),
            None => {
                let what = format!("the start of machine {}:\n{}", self.number, self.console());
                Err(Error::Timeout { what, limit: HANG_TIMEOUT }.into())
            }
        }
    }

    /// Returns 1 or 2; the guest is `node1` or `node2`.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Returns the address of the guest's `eth0` and `rxe0`.
    pub(crate) fn address(&self) -> String {
        format!("10.0.0.{}", self.number)
    }

    /// Starts a command of sh(1) in the guest, as root, in `/`. Its environment has `NODE` (the
    /// number of the machine), `GID_INDEX` (of rxe0's RoCE v2 address), `SHARE` (a folder that all
    /// machines and the host share), `HOME` and `PATH`. Waiting for its exit or its output fails
    /// after `limit`, which does not count the time in which the host was too busy (see [`Limit`]).
    pub(crate) fn start(&self, command: &str, limit: Duration) -> Result<GuestCommand> {
        let id = self.next_command.fetch_add(1, Ordering::Relaxed);
        let path = |extension| self.share.join(format!("{}-{id}.{extension}", self.number));
        let script = path("sh");
        fs::write(&script, format!("{command}\n"))
            .with_context(|| format!("cannot write {}", script.display()))?;
        self.agent.send(&format!("start {id}"));
        Ok(GuestCommand {
            agent: Arc::clone(&self.agent),
            machine: self.number,
            id,
            command: command.to_owned(),
            output: path("out"),
            limit: Limit::start(limit),
        })
    }

    /// Runs a command until it exits, and returns its status and output.
    pub(crate) fn run(&self, command: &str, limit: Duration) -> Result<Exit> {
        self.start(command, limit)?.wait()
    }

    /// Runs a command that must exit with status 0, and returns its output.
    pub(crate) fn output(&self, command: &str, limit: Duration) -> Result<String> {
        self.run(command, limit)?.success()
    }

    /// Waits until a process of the guest listens on a TCP port of IPv4 or IPv6.
    pub(crate) fn wait_for_listener(&self, port: u16) -> Result<()> {
        let socket = format!("':{port:04X} [0-9A-F]*:0000 0A ' /proc/net/tcp /proc/net/tcp6");
        let until = format!("until grep -q {socket}; do /run/busybox sleep 0.05; done");
        self.output(&until, HANG_TIMEOUT).map(drop)
    }

    /// Reads a counter of Soft-RoCE, such as `duplicate_request` or `completer_retry_err`: packets
    /// or events since the guest started.
    pub(crate) fn counter(&self, name: &str) -> Result<u64> {
        let file = format!("/sys/class/infiniband/rxe0/ports/1/hw_counters/{name}");
        let text = self.output(&format!("read value <{file} && echo $value"), HANG_TIMEOUT)?;
        text.trim().parse().with_context(|| format!("{file} has {text}"))
    }

    /// Powers the guest off. Fails if the power-off fails, or if the guest's kernel has printed a
    /// warning.
    pub(crate) fn power_off(&self) -> Result<()> {
        if self.killed.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.agent.send("off");
        let status = wait(&mut self.qemu(), HANG_TIMEOUT).context("waiting for QEMU")?;
        let status = match status {
            Some(status) if status.code() == Some(POWER_OFF_STATUS) => return Ok(()),
            Some(status) => status.to_string(),
            None => "killed at the time limit".to_owned(),
        };
        let failure = self.agent.wait(Instant::now(), |state| state.failed.clone());
        let failure =
            failure.map_or("did not power off".to_owned(), |why| format!("failed: {why}"));
        Err(self.ended(&format!("{failure} ({status})")))
    }

    /// Disconnects or connects the link of this machine's network card, which its kernel detects.
    pub(crate) fn set_link(&self, link: Link) -> Result<()> {
        let arguments = format!("{{\"name\":\"n0\",\"up\":{}}}", link == Link::Up);
        let command = format!("{{\"execute\":\"set_link\",\"arguments\":{arguments}}}");
        qemu::execute(&self.dir, self.number, &command)
    }

    /// Stops all of QEMU's threads; the link stays up.
    pub(crate) fn freeze(&self) -> Result<()> {
        self.signal_qemu("STOP")?;
        let tasks = format!("/proc/{}/task", self.qemu().id());
        let is_stopped = |task: DirEntry| {
            // The status is empty if the thread has ended.
            let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
            status.is_empty() || status.contains("State:\tT (stopped)")
        };
        let stopped = poll(HANG_TIMEOUT, || {
            let threads = fs::read_dir(&tasks).with_context(|| format!("reading {tasks}"))?;
            Ok(threads.filter_map(Result::ok).all(is_stopped).then_some(()))
        })?;
        let what = || format!("the freeze of machine {}", self.number);
        Ok(stopped.ok_or_else(|| Error::Timeout { what: what(), limit: HANG_TIMEOUT })?)
    }

    /// Resumes a frozen machine.
    pub(crate) fn thaw(&self) -> Result<()> {
        self.signal_qemu("CONT")
    }

    /// Ends the machine like a loss of power. Its exit status is then ignored.
    pub(crate) fn kill(&self) -> Result<()> {
        self.killed.store(true, Ordering::Relaxed);
        self.kill_qemu()
    }

    /// Applies `rules` of tc-netem(8), such as `loss 1% duplicate 1%`, to the packets that the guest
    /// sends, in place of earlier rules.
    pub(crate) fn netem(&self, rules: &str) -> Result<()> {
        let command = format!("tc qdisc replace dev eth0 root netem {rules}");
        self.output(&command, HANG_TIMEOUT).map(drop)
    }

    /// Applies `rules` as [`netem`](Self::netem) does, but to no answer to a READ or an atomic: the
    /// packets of RoCE v2 over IPv4 whose operation code, behind 28 bytes of headers, is one of those.
    pub(crate) fn netem_but_answers(&self, rules: &str) -> Result<()> {
        // The second band, where the filters leave a packet that they do not match.
        let all = "1 ".repeat(16);
        let answers = ["0x0d 0xff", "0x0e 0xfe", "0x10 0xff", "0x12 0xff"];
        let filter = "tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match u8";
        let filters = answers.map(|code| format!("&& {filter} {code} at 28 flowid 1:1"));
        let command = format!(
            "tc qdisc replace dev eth0 root handle 1: prio bands 2 priomap {all} && \
             tc qdisc add dev eth0 parent 1:2 netem {rules} {}",
            filters.join(" ")
        );
        self.output(&command, HANG_TIMEOUT).map(drop)
    }

    /// Removes the rules of [`netem`](Self::netem) or [`netem_but_answers`](Self::netem_but_answers).
    pub(crate) fn netem_off(&self) -> Result<()> {
        self.output("tc qdisc del dev eth0 root", HANG_TIMEOUT).map(drop)
    }

    fn qemu(&self) -> MutexGuard<'_, Child> {
        self.qemu.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn signal_qemu(&self, name: &str) -> Result<()> {
        // QEMU is a child that was not waited for, so no other process has its process ID.
        let pid = self.qemu().id().to_string();
        Tool::new("kill").args(["-s", name, &pid]).run(HANG_TIMEOUT).map(drop)
    }

    /// Kills QEMU, if it has not ended.
    fn kill_qemu(&self) -> Result<()> {
        let mut qemu = self.qemu();
        qemu.kill().context("killing QEMU")?;
        let status = wait(&mut qemu, HANG_TIMEOUT).context("waiting for QEMU")?;
        status.map(drop).context("QEMU did not die")
    }

    /// Returns the last lines of the guest's console.
    fn console(&self) -> String {
        let text = fs::read(self.dir.join(qemu::console_log(self.number))).unwrap_or_default();
        tail(&String::from_utf8_lossy(&text))
    }

    fn ended(&self, how: &str) -> anyhow::Error {
        let log = fs::read_to_string(self.dir.join(qemu::qemu_log(self.number)));
        let how = format!("{how}\n{}\n{}", log.unwrap_or_default(), self.console());
        Error::MachineEnded { machine: self.number, how: how.trim_end().to_owned() }.into()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.kill_qemu();
    }
}
