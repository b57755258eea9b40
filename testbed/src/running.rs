//! A command that runs in a guest.

use core::time::Duration;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use crate::channel::{Channel, Said};
use crate::error::{Error, tail};
use crate::patience::PATIENCE;

/// How often output that is waited for is looked at; on the host, where it costs the guest nothing.
const GLANCE: Duration = Duration::from_millis(5);

/// A command that runs in a guest; killed, with all it has started, when this is dropped.
#[derive(Debug)]
pub struct Running {
    pub(crate) channel: Arc<Channel>,
    pub(crate) machine: u32,
    pub(crate) id: u32,
    pub(crate) command: String,
    pub(crate) output: PathBuf,
    pub(crate) deadline: Instant,
    pub(crate) limit: Duration,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The command.
    pub command: String,
    /// Its status; 128 and the signal's number if a signal ended it.
    pub status: i32,
    /// What it wrote, to standard output and error together.
    pub output: String,
}

impl Ended {
    /// The output, if the command ended with status 0.
    ///
    /// # Errors
    /// [`Error::Command`].
    pub fn good(self) -> Result<String, Error> {
        if self.status == 0 {
            return Ok(self.output);
        }
        let output = tail(&self.output);
        Err(Error::Command { command: self.command, status: self.status, output })
    }
}

impl Running {
    /// What it has written so far.
    #[must_use]
    pub fn output(&self) -> String {
        // Before the agent has made the file, nothing was written.
        String::from_utf8_lossy(&fs::read(&self.output).unwrap_or_default()).into_owned()
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// [`Error::Late`] at the limit it was started with, and then it is killed; [`Error::Ended`]
    /// if the machine ended before it.
    pub fn wait(self) -> Result<Ended, Error> {
        match self.status(self.deadline) {
            Some(status) => {
                let (command, output) = (self.command.clone(), self.output());
                Ok(Ended { command, status: status?, output })
            }
            None => {
                let what = format!("the end of `{}`, so far:\n{}\n", self.command, self.tail());
                Err(Error::Late { what, limit: self.limit })
            }
        }
    }

    /// Waits until a line of its output contains `marker`, and returns the line.
    ///
    /// # Errors
    /// As for [`wait_until`](Self::wait_until).
    pub fn wait_for(&self, marker: &str) -> Result<String, Error> {
        self.wait_until(marker, |output| {
            output.lines().find(|line| line.contains(marker)).map(str::to_owned)
        })
    }

    /// Waits until `find` finds something in the whole lines of its output; errors call that `what`.
    ///
    /// # Errors
    /// [`Error::Unsaid`] if it ended without, [`Error::Late`] at its limit, [`Error::Ended`] if the
    /// machine ended.
    pub fn wait_until<T>(&self, what: &str, find: impl Fn(&str) -> Option<T>) -> Result<T, Error> {
        loop {
            // First the end, then the output: all that was said before an end is seen.
            let ended = self.status(Instant::now()).transpose();
            let output = self.output();
            let lines = output.rsplit_once('\n').map_or("", |(lines, _)| lines);
            if let Some(found) = find(lines) {
                return Ok(found);
            }
            let command = self.command.clone();
            if ended?.is_some() {
                let marker = what.to_owned();
                return Err(Error::Unsaid { command, marker, output: tail(&output) });
            }
            if Instant::now() >= self.deadline {
                let what = format!("\"{what}\" of `{command}`, so far:\n{}\n", tail(&output));
                return Err(Error::Late { what, limit: self.limit });
            }
            thread::sleep(GLANCE);
        }
    }

    /// The number of the command's process, which is also that of its group.
    ///
    /// # Errors
    /// [`Error::Late`] if it never starts, [`Error::Ended`] if the machine ended.
    pub fn pid(&self) -> Result<u32, Error> {
        let began = self.channel.wait(Instant::now() + PATIENCE, |said| {
            let gone = said.closed.then(|| Err(self.gone()));
            said.began.get(&self.id).map(|&pid| Ok(pid)).or(gone)
        });
        let what = format!("the start of `{}`", self.command);
        began.unwrap_or(Err(Error::Late { what, limit: PATIENCE }))
    }

    /// Sends a signal, such as `KILL`, to the command and all it has started.
    ///
    /// # Errors
    /// As for [`pid`](Self::pid).
    pub fn signal(&self, name: &str) -> Result<(), Error> {
        let pid = self.pid()?;
        self.channel.tell(&format!("signal {name} {pid}"));
        Ok(())
    }

    /// Its status, or that the machine has gone; `None` at the deadline.
    fn status(&self, deadline: Instant) -> Option<Result<i32, Error>> {
        self.channel.wait(deadline, |said| {
            let gone = said.closed.then(|| Err(self.gone()));
            said.ended.get(&self.id).map(|&status| Ok(status)).or(gone)
        })
    }

    fn gone(&self) -> Error {
        let how = format!("ended while `{}` ran, so far:\n{}", self.command, self.tail());
        Error::Ended { machine: self.machine, how }
    }

    fn tail(&self) -> String {
        tail(&self.output())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let over = |said: &Said| (said.closed || said.ended.contains_key(&self.id)).then_some(());
        let began = |said: &Said| {
            let gone = over(said).map(|()| None);
            said.began.get(&self.id).map(|&pid| Some(pid)).filter(|_| gone.is_none()).or(gone)
        };
        if let Some(Some(pid)) = self.channel.wait(Instant::now() + PATIENCE, began) {
            self.channel.tell(&format!("signal KILL {pid}"));
            // So that whoever comes next finds its ports free.
            let _ = self.channel.wait(Instant::now() + PATIENCE, over);
        }
    }
}
