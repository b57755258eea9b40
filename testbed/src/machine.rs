//! One QEMU and the guest in it.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::time::Duration;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::channel::Channel;
use crate::error::{Error, tail};
use crate::options::{Parts, monitor, serial};
use crate::patience::PATIENCE;
use crate::running::{Ended, Running};
use crate::tool::{Tool, ended};

/// What QEMU ends with when the guest powers off as it should: twice the value written, and one.
const GOOD_END: i32 = 33;

/// One machine of a bed; killed when this is dropped.
#[derive(Debug)]
pub struct Machine {
    pub(crate) number: u32,
    /// The folder of its bed.
    pub(crate) dir: PathBuf,
    share: PathBuf,
    qemu: Mutex<Child>,
    channel: Arc<Channel>,
    next: AtomicU32,
    pub(crate) killed: AtomicBool,
}

impl Machine {
    pub(crate) fn start_up(dir: &Path, parts: &Parts<'_>) -> Result<Self, Error> {
        let number = parts.machine;
        let log = dir.join(format!("qemu-{number}.log"));
        let log = File::create(&log).map_err(Error::io(format!("writing {}", log.display())))?;
        let qemu = Tool::new("qemu-system-x86_64").args(parts.arguments()).dir(dir);
        let mut qemu = qemu.start(log)?;
        let (Some(input), Some(output)) = (qemu.stdin.take(), qemu.stdout.take()) else {
            return Err(Error::Plan("QEMU was started without pipes"));
        };
        Ok(Self {
            number,
            dir: dir.to_owned(),
            share: parts.share.to_owned(),
            qemu: Mutex::new(qemu),
            channel: Arc::new(Channel::new(input, output)),
            next: AtomicU32::new(1),
            killed: AtomicBool::new(false),
        })
    }

    /// Waits until the guest's Soft-RoCE is active; the release of its kernel.
    pub(crate) fn ready(&self, deadline: Instant, limit: Duration) -> Result<String, Error> {
        let ready = self.channel.wait(deadline, |said| {
            let failed = said.failed.as_ref().map(|why| format!("did not start: {why}"));
            let closed = said.closed.then(|| "ended while it started".to_owned());
            let failed = failed.or(closed).map(Err);
            said.ready.clone().map(Ok).or(failed)
        });
        match ready {
            Some(ready) => ready.map_err(|how| self.ended(&how)),
            None => {
                let serial = self.serial();
                let what = format!("machine {} being ready, so far:\n{serial}\n", self.number);
                Err(Error::Late { what, limit })
            }
        }
    }

    /// Its number, 1 or 2: the guest is `node1` or `node2`, of the address 10.0.0.1 or 10.0.0.2.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The address of its `eth0` and `rxe0`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("10.0.0.{}", self.number)
    }

    /// Starts a command of sh(1) in the guest, as root, in `/`, with these in its environment:
    /// `NODE` (this machine's number), `GID_INDEX` (the RoCE v2 address of rxe0), `SHARE` (a folder
    /// that all machines and the host share), `HOME`, `PATH`. It is killed `limit` from now.
    ///
    /// # Errors
    /// The command could not be written down.
    pub fn start(&self, command: &str, limit: Duration) -> Result<Running, Error> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let path = |ending| self.share.join(format!("{}-{id}.{ending}", self.number));
        let script = path("sh");
        fs::write(&script, format!("{command}\n"))
            .map_err(Error::io(format!("writing {}", script.display())))?;
        self.channel.tell(&format!("start {id}"));
        Ok(Running {
            channel: Arc::clone(&self.channel),
            machine: self.number,
            id,
            command: command.to_owned(),
            output: path("out"),
            deadline: Instant::now() + limit,
            limit,
        })
    }

    /// Runs a command to its end, good or bad.
    ///
    /// # Errors
    /// As for [`start`](Self::start) and [`Running::wait`].
    pub fn run(&self, command: &str, limit: Duration) -> Result<Ended, Error> {
        self.start(command, limit)?.wait()
    }

    /// Runs a command that has to end with status 0, and returns what it wrote.
    ///
    /// # Errors
    /// As for [`run`](Self::run), and [`Error::Command`].
    pub fn output(&self, command: &str, limit: Duration) -> Result<String, Error> {
        self.run(command, limit)?.good()
    }

    /// Waits until something in the guest listens on a TCP port of IPv4 or IPv6.
    ///
    /// # Errors
    /// [`Error::Late`] if nothing ever does.
    pub fn listening(&self, port: u16) -> Result<(), Error> {
        let socket = format!("':{port:04X} [0-9A-F]*:0000 0A ' /proc/net/tcp /proc/net/tcp6");
        let until = format!("until grep -q {socket}; do /run/busybox sleep 0.05; done");
        self.output(&until, PATIENCE).map(|_| ())
    }

    /// The last lines of the guest's console.
    #[must_use]
    pub fn serial(&self) -> String {
        let text = fs::read(self.dir.join(serial(self.number))).unwrap_or_default();
        tail(&String::from_utf8_lossy(&text))
    }

    /// Has the guest power off, and tells whether it did so as it should.
    pub(crate) fn power_off(&self) -> Result<(), Error> {
        if self.killed.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.channel.tell("off");
        let status = ended(&mut self.qemu(), PATIENCE);
        let status = status.map_err(Error::io("waiting for QEMU"))?;
        match status.map(|status| status.code()) {
            Some(Some(GOOD_END)) => Ok(()),
            _ => {
                let why = self.channel.wait(Instant::now(), |said| said.failed.clone());
                let how = why.map_or("did not power off".to_owned(), |why| {
                    format!("did not end well: {why}")
                });
                let status = status.map_or("killed at last".to_owned(), |end| end.to_string());
                Err(self.ended(&format!("{how} ({status})")))
            }
        }
    }

    /// Has QEMU's monitor execute a command.
    pub(crate) fn execute(&self, command: &str) -> Result<(), Error> {
        crate::monitor::execute(&self.dir, &monitor(self.number), command)
    }

    pub(crate) fn qemu(&self) -> MutexGuard<'_, Child> {
        self.qemu.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kills QEMU; nothing if it has ended.
    pub(crate) fn end_now(&self) -> Result<(), Error> {
        let mut qemu = self.qemu();
        qemu.kill().map_err(Error::io("killing QEMU"))?;
        let died = ended(&mut qemu, PATIENCE).map_err(Error::io("waiting for QEMU"))?;
        died.map(|_| ())
            .ok_or(Error::Late { what: "the death of QEMU".to_owned(), limit: PATIENCE })
    }

    fn ended(&self, how: &str) -> Error {
        let log = fs::read_to_string(self.dir.join(format!("qemu-{}.log", self.number)));
        let how = format!("{how}\n{}\n{}", log.unwrap_or_default(), self.serial());
        Error::Ended { machine: self.number, how: how.trim_end().to_owned() }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.end_now();
    }
}
