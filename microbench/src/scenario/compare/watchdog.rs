//! Ends a process that a library does not come back to: in a job of its own ranks nobody else can.

use core::time::Duration;
use std::process;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;

use crate::failure::Result;
use crate::{exit, terminal};

/// Beyond what the engines allow themselves, so that they say what was late.
const GRACE: Duration = Duration::from_secs(10);

/// A thread that sleeps until a guard is late.
pub(super) struct Watchdog(Sender<Option<Duration>>);

/// While it lives the time runs.
pub(super) struct Guard<'a>(&'a Watchdog);

impl Watchdog {
    pub(super) fn start() -> Result<Self> {
        let (tell, told) = channel();
        thread::Builder::new().name("watchdog".to_owned()).spawn(move || watch(&told))?;
        Ok(Self(tell))
    }

    /// Ends the process unless the guard is dropped within `limit` and a little more.
    pub(super) fn guard(&self, limit: Duration) -> Guard<'_> {
        // It listens as long as this lives.
        let _ = self.0.send(Some(limit + GRACE));
        Guard(self)
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let _ = self.0.0.send(None);
    }
}

fn watch(told: &Receiver<Option<Duration>>) {
    let mut limit = None;
    loop {
        let next = match limit {
            None => told.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(limit) => told.recv_timeout(limit),
        };
        match next {
            Ok(next) => limit = next,
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => break,
        }
    }
    let text = "probeline: a library call has not returned within --step-timeout: leave out the column that was measured, or raise --step-timeout";
    let _ = terminal::stderr().line(text);
    process::exit(exit::FAILED.into());
}
