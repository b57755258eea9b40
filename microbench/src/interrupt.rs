//! SIGINT and SIGTERM as a request to end with the results so far.

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

/// A second signal sooner than this is the first one once more: `timeout` sends its signal to the
/// process and then to the process's group.
const SAME_REQUEST: Duration = Duration::from_millis(200);

/// The first signal that has arrived; 0 before.
static RECEIVED: AtomicI32 = AtomicI32::new(0);

/// A signal that asks this process to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interrupt(i32);

impl Interrupt {
    /// From now on the first signal is noted, and a second one ends the process at once.
    pub(crate) fn watch() -> Result<()> {
        static WATCHED: OnceLock<core::result::Result<(), String>> = OnceLock::new();
        let watched = WATCHED.get_or_init(|| start().map_err(|error| error.to_string()));
        watched.clone().map_err(|error| Failure::new(format!("cannot watch for signals: {error}")))
    }

    /// The signal that has arrived since [`watch`](Self::watch).
    pub(crate) fn received() -> Option<Self> {
        Self::from_number(RECEIVED.load(Ordering::Relaxed).unsigned_abs().into())
    }

    /// The number of a signal, or 0 for none, as ranks tell each other.
    pub(crate) fn number(interrupt: Option<Self>) -> u64 {
        interrupt.map_or(0, |interrupt| interrupt.0.unsigned_abs().into())
    }

    /// The other way round.
    pub(crate) fn from_number(number: u64) -> Option<Self> {
        let number = i32::try_from(number).ok()?;
        [SIGINT, SIGTERM].contains(&number).then_some(Self(number))
    }

    pub(crate) fn name(self) -> &'static str {
        if self.0 == SIGINT { "SIGINT" } else { "SIGTERM" }
    }

    /// What a shell reports of a process that the signal ended: 128 and its number.
    pub(crate) fn exit_code(self) -> ExitCode {
        u8::try_from(128 + self.0).map_or(ExitCode::FAILURE, ExitCode::from)
    }
}

/// A thread that sleeps until a signal arrives: a handler alone could not tell how long ago the
/// first one was.
fn start() -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let watch = move || {
        let mut first = None;
        for signal in signals.forever() {
            let since = first.get_or_insert_with(Instant::now).elapsed();
            if RECEIVED.load(Ordering::Relaxed) == 0 {
                RECEIVED.store(signal, Ordering::Relaxed);
            } else if since >= SAME_REQUEST {
                // It ends the process; where it cannot, the process ends with the work.
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
