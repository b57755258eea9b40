//! SIGINT and SIGTERM as requests to stop and report the results so far.

use core::sync::atomic::{AtomicI32, Ordering};
use core::time::Duration;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::thread;
use std::time::Instant;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::failure::{Failure, Result};

/// A second signal within this time counts as the first one: `timeout` sends its signal to the
/// process and then to its process group.
const SAME_REQUEST: Duration = Duration::from_millis(200);

/// The number of the first signal received; 0 before.
static RECEIVED: AtomicI32 = AtomicI32::new(0);

/// A signal that asks this process to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interrupt(i32);

impl Interrupt {
    /// Starts to watch: the first signal is recorded, and a second one ends the process
    /// immediately.
    pub(crate) fn watch() -> Result<()> {
        static WATCHED: OnceLock<core::result::Result<(), String>> = OnceLock::new();
        let watched = WATCHED.get_or_init(|| start().map_err(|error| error.to_string()));
        watched.clone().map_err(|error| Failure::new(format!("cannot watch for signals: {error}")))
    }

    /// The first signal since [`watch`](Self::watch).
    pub(crate) fn received() -> Option<Self> {
        Self::from_number(RECEIVED.load(Ordering::Relaxed).unsigned_abs().into())
    }

    /// The number of a signal, or 0 for none; ranks exchange it.
    pub(crate) fn number(interrupt: Option<Self>) -> u64 {
        interrupt.map_or(0, |interrupt| interrupt.0.unsigned_abs().into())
    }

    /// The inverse of [`number`](Self::number).
    pub(crate) fn from_number(number: u64) -> Option<Self> {
        let number = i32::try_from(number).ok()?;
        [SIGINT, SIGTERM].contains(&number).then_some(Self(number))
    }

    pub(crate) fn name(self) -> &'static str {
        if self.0 == SIGINT { "SIGINT" } else { "SIGTERM" }
    }

    /// The status that a shell reports for a process that the signal ended: 128 + its number.
    pub(crate) fn exit_code(self) -> ExitCode {
        u8::try_from(128 + self.0).map_or(ExitCode::FAILURE, ExitCode::from)
    }
}

/// Starts a thread that sleeps until a signal arrives. A signal handler alone could not measure the
/// time since the first signal.
fn start() -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let watch = move || {
        let mut first = None;
        for signal in signals.forever() {
            let since = first.get_or_insert_with(Instant::now).elapsed();
            if RECEIVED.load(Ordering::Relaxed) == 0 {
                RECEIVED.store(signal, Ordering::Relaxed);
            } else if since >= SAME_REQUEST {
                // This ends the process. If it fails, the process ends after its work.
                let _ = emulate_default_handler(signal);
            }
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(watch).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_numbers_and_names() {
        let interrupt = |number| Interrupt::from_number(number);
        assert_eq!(interrupt(0), None);
        assert_eq!(interrupt(9), None);
        for (number, name) in [(2, "SIGINT"), (15, "SIGTERM")] {
            let signal = interrupt(number).unwrap();
            assert_eq!((signal.name(), Interrupt::number(Some(signal))), (name, number));
        }
        assert_eq!(Interrupt::number(None), 0);
    }
}
