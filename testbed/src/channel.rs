//! The line to a guest's agent: the guest's second serial port, which is QEMU's standard input and
//! output. A pipe has no name that could be too long and nobody else can connect to it; the serial
//! port needs no module; and the agent sleeps in a read of it, so that it costs the guest's only
//! CPU nothing while there is nothing to do.

use core::time::Duration;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

/// What the agent has said so far.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// The release of the kernel, when the guest is ready.
    pub(crate) ready: Option<String>,
    /// Why it cannot be.
    pub(crate) failed: Option<String>,
    /// The process group of each command.
    pub(crate) began: HashMap<u32, u32>,
    /// The status of each command.
    pub(crate) ended: HashMap<u32, i32>,
    /// Whether QEMU has ended.
    pub(crate) closed: bool,
}

#[derive(Debug)]
pub(crate) struct Channel {
    input: Mutex<ChildStdin>,
    heard: Arc<Heard>,
}

#[derive(Debug, Default)]
struct Heard {
    said: Mutex<Said>,
    changed: Condvar,
}

impl Channel {
    pub(crate) fn new(input: ChildStdin, output: ChildStdout) -> Self {
        let heard = Arc::new(Heard::default());
        let ears = Arc::clone(&heard);
        // Ends with QEMU.
        thread::spawn(move || ears.listen(output));
        Self { input: Mutex::new(input), heard }
    }

    /// Sends a line. Lines are so few and short that the pipe never fills, also while the machine
    /// is frozen; if QEMU is gone, whoever waits for the answer learns of it.
    pub(crate) fn tell(&self, line: &str) {
        let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = input.write_all(format!("{line}\n").as_bytes());
    }

    /// Waits until `find` finds something in what was said; `None` at the deadline.
    pub(crate) fn wait<T>(
        &self,
        deadline: Instant,
        mut find: impl FnMut(&Said) -> Option<T>,
    ) -> Option<T> {
        let mut said = self.heard.lock();
        loop {
            if let Some(found) = find(&said) {
                return Some(found);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return None;
            }
            let waited = self.heard.changed.wait_timeout(said, left);
            said = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Heard {
    fn lock(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listen(&self, output: ChildStdout) {
        for line in BufReader::new(output).split(b'\n') {
            let Ok(line) = line else { break };
            self.lock().hear(&String::from_utf8_lossy(&line));
            self.changed.notify_all();
        }
        self.lock().closed = true;
        self.changed.notify_all();
    }
}

impl Said {
    /// Takes in one line; what is no word of the agent's is left out.
    fn hear(&mut self, line: &str) {
        let (word, rest) = line.trim().split_once(' ').unwrap_or((line, ""));
        let numbers = rest
            .split_once(' ')
            .and_then(|(id, number)| Some((id.parse::<u32>().ok()?, number.parse::<u32>().ok()?)));
        match (word, numbers) {
            ("ready", _) => self.ready = Some(rest.to_owned()),
            ("failed", _) => self.failed = Some(rest.to_owned()),
            ("began", Some((id, group))) => {
                self.began.insert(id, group);
            }
            ("ended", Some((id, status))) => {
                self.ended.insert(id, i32::try_from(status).unwrap_or(i32::MAX));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood_and_noise_is_not() {
        let mut said = Said::default();
        for line in ["ready 6.1.0\r", "began 3 117", "ended 3 137", "ended x 1", "\u{0}", ""] {
            said.hear(line);
        }
        assert_eq!(said.ready.as_deref(), Some("6.1.0"));
        assert_eq!((said.began[&3], said.ended[&3]), (117, 137));
        assert_eq!((said.ended.len(), said.failed), (1, None));
    }
}
