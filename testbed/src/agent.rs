//! The connection to a guest's agent: the guest's second serial port, which is QEMU's standard input
//! and output.

use core::time::Duration;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

/// Reports of the agent so far.
#[derive(Debug, Default)]
pub(crate) struct AgentState {
    /// The kernel's release, once the guest is ready.
    pub(crate) ready: Option<String>,
    /// The reason why the guest failed.
    pub(crate) failed: Option<String>,
    /// The process group of each started command.
    pub(crate) started: HashMap<u32, u32>,
    /// The exit status of each ended command.
    pub(crate) exited: HashMap<u32, i32>,
    /// Whether QEMU has ended.
    pub(crate) closed: bool,
}

#[derive(Debug)]
pub(crate) struct Agent {
    input: Mutex<ChildStdin>,
    state: Mutex<AgentState>,
    changed: Condvar,
}

impl Agent {
    pub(crate) fn new(input: ChildStdin, output: ChildStdout) -> Arc<Self> {
        let (input, changed) = (Mutex::new(input), Condvar::new());
        let agent = Arc::new(Self { input, state: Mutex::default(), changed });
        let reader = Arc::clone(&agent);
        // The thread ends with QEMU.
        thread::spawn(move || reader.read(output));
        agent
    }

    /// Sends a line. Lines are few and short, so that the pipe does not fill even while the machine
    /// is frozen. If QEMU has ended, [`wait`](Self::wait) shows it.
    pub(crate) fn send(&self, line: &str) {
        let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = input.write_all(format!("{line}\n").as_bytes());
    }

    /// Waits until `find` returns a value; `None` at the deadline.
    pub(crate) fn wait<T>(
        &self,
        deadline: Instant,
        mut find: impl FnMut(&AgentState) -> Option<T>,
    ) -> Option<T> {
        let mut state = self.lock();
        loop {
            if let Some(found) = find(&state) {
                return Some(found);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return None;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, AgentState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, output: ChildStdout) {
        for line in BufReader::new(output).split(b'\n') {
            let Ok(line) = line else { break };
            self.lock().update(&String::from_utf8_lossy(&line));
            self.changed.notify_all();
        }
        self.lock().closed = true;
        self.changed.notify_all();
    }
}

impl AgentState {
    /// Applies one line; lines that are not the agent's are ignored.
    fn update(&mut self, line: &str) {
        let (word, rest) = line.trim().split_once(' ').unwrap_or((line, ""));
        let numbers = rest
            .split_once(' ')
            .and_then(|(id, number)| Some((id.parse::<u32>().ok()?, number.parse::<u32>().ok()?)));
        match (word, numbers) {
            ("ready", _) => self.ready = Some(rest.to_owned()),
            ("failed", _) => self.failed = Some(rest.to_owned()),
            ("started", Some((id, group))) => {
                self.started.insert(id, group);
            }
            ("exited", Some((id, status))) => {
                self.exited.insert(id, i32::try_from(status).unwrap_or(i32::MAX));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_lines_ignores_noise() {
        let mut state = AgentState::default();
        for line in ["ready 6.1.0\r", "started 3 117", "exited 3 137", "exited x 1", "\u{0}", ""] {
            state.update(line);
        }
        assert_eq!(state.ready.as_deref(), Some("6.1.0"));
        assert_eq!((state.started[&3], state.exited[&3]), (117, 137));
        assert_eq!((state.exited.len(), state.failed), (1, None));
    }
}
