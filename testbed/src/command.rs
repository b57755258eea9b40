//! A command in a guest.

use core::time::Duration;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use anyhow::{Result, ensure};

use crate::HANG_TIMEOUT;
use crate::agent::{Agent, AgentState};
use crate::error::{Error, tail};
use crate::limit::Limit;

/// The time between two reads of the output file, on the host, where they cost the guest nothing.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A command that runs in a guest. Dropping it kills the command and all processes it started.
#[derive(Debug)]
pub(crate) struct GuestCommand {
    pub(crate) agent: Arc<Agent>,
    pub(crate) machine: u32,
    pub(crate) id: u32,
    pub(crate) command: String,
    pub(crate) output: PathBuf,
    pub(crate) limit: Limit,
}

/// The end of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exit {
    pub(crate) command: String,
    /// The exit status, or 128 plus the number of the signal that ended it.
    pub(crate) status: i32,
    /// Standard output and standard error together.
    pub(crate) output: String,
}

impl Exit {
    /// Returns the output if the status is 0.
    pub(crate) fn success(self) -> Result<String> {
        let Self { command, status, output } = self;
        ensure!(status == 0, "`{command}` exited with status {status}:\n{}", tail(&output));
        Ok(output)
    }
}

impl GuestCommand {
    /// Returns the output so far.
    pub(crate) fn output(&self) -> String {
        // The agent creates the file when it starts the command.
        String::from_utf8_lossy(&fs::read(&self.output).unwrap_or_default()).into_owned()
    }

    /// Waits for the end of the command, at most until its time limit.
    pub(crate) fn wait(self) -> Result<Exit> {
        loop {
            // The limit may end later than it appeared before: the host was busy meanwhile.
            let left = self.limit.left();
            if let Some(status) = self.status(Instant::now() + left)? {
                let output = self.output();
                return Ok(Exit { command: self.command.clone(), status, output });
            }
            if left == Duration::ZERO {
                return Err(self.timeout("the end"));
            }
        }
    }

    /// Waits until a line of the output contains `marker`, and returns the line.
    pub(crate) fn wait_for_line(&self, marker: &str) -> Result<String> {
        self.wait_for_output(marker, |output| {
            output.lines().find(|line| line.contains(marker)).map(str::to_owned)
        })
    }

    /// Waits until `find` returns a value for the complete lines of the output; `wanted` describes
    /// the value in errors.
    pub(crate) fn wait_for_output<T>(
        &self,
        wanted: &str,
        find: impl Fn(&str) -> Option<T>,
    ) -> Result<T> {
        loop {
            // The status is read before the output, so that no output before the end is missed.
            let status = self.status(Instant::now());
            let output = self.output();
            let lines = output.rsplit_once('\n').map_or("", |(lines, _)| lines);
            if let Some(found) = find(lines) {
                return Ok(found);
            }
            if status?.is_some() {
                let (command, wanted) = (self.command.clone(), wanted.to_owned());
                return Err(Error::NoOutput { command, wanted, output: tail(&output) }.into());
            }
            if self.limit.left() == Duration::ZERO {
                return Err(self.timeout(&format!("\"{wanted}\"")));
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Waits until the command has started; the number of its process and of its process group.
    pub(crate) fn pid(&self) -> Result<u32> {
        let started = self.agent.wait(Instant::now() + HANG_TIMEOUT, |state| {
            let closed = state.closed.then(|| Err(self.machine_ended()));
            state.started.get(&self.id).map(|&pid| Ok(pid)).or(closed)
        });
        started.unwrap_or_else(|| Err(self.timeout("the start")))
    }

    /// Sends a signal, such as `KILL`, to the command and all processes it started.
    pub(crate) fn signal(&self, name: &str) -> Result<()> {
        let pid = self.pid()?;
        self.agent.send(&format!("signal {name} {pid}"));
        Ok(())
    }

    /// Returns the exit status; `None` at the deadline.
    fn status(&self, deadline: Instant) -> Result<Option<i32>> {
        let status = self.agent.wait(deadline, |state| {
            let closed = state.closed.then(|| Err(self.machine_ended()));
            state.exited.get(&self.id).map(|&status| Ok(status)).or(closed)
        });
        status.transpose()
    }

    fn machine_ended(&self) -> anyhow::Error {
        let how = format!("ended while `{}` ran:\n{}", self.command, tail(&self.output()));
        Error::MachineEnded { machine: self.machine, how }.into()
    }

    fn timeout(&self, event: &str) -> anyhow::Error {
        let output = tail(&self.output());
        let what = format!("waiting for {event} of `{}`:\n{output}", self.command);
        Error::Timeout { what, limit: self.limit.length() }.into()
    }
}

impl Drop for GuestCommand {
    fn drop(&mut self) {
        let over = |state: &AgentState| {
            (state.closed || state.exited.contains_key(&self.id)).then_some(())
        };
        let pid = self.agent.wait(Instant::now() + HANG_TIMEOUT, |state| match over(state) {
            Some(()) => Some(None),
            None => state.started.get(&self.id).map(|&pid| Some(pid)),
        });
        if let Some(Some(pid)) = pid {
            self.agent.send(&format!("signal KILL {pid}"));
            // The next command may use the same ports.
            let _ = self.agent.wait(Instant::now() + HANG_TIMEOUT, over);
        }
    }
}
