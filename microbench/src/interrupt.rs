//! SIGINT and SIGTERM as requests to stop and report the results so far.

use core::sync::atomic::{AtomicI32, Ordering};
use core::time::Duration;
use std::fs;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::thread;
use std::time::Instant;

use probeline::transport::{Exchange, Owner};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::failure::{Failure, Result};

/// A second signal within this time counts as the first one: `timeout` sends its signal to the
/// process and then to its process group.
const SAME_REQUEST: Duration = Duration::from_millis(200);

/// The number of the first signal received, or one of the two states below.
static RECEIVED: AtomicI32 = AtomicI32::new(NONE);
const NONE: i32 = 0;
/// No signal has been received, and the next one takes its default action.
const DEFAULT_ACTION: i32 = -1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interrupt(i32);

impl Interrupt {
    /// Starts to watch for signals. The first signal is recorded, and a second one ends the process
    /// immediately. All ranks call this.
    ///
    /// Rank 0 starts last: while a signal to all ranks still ends some of them, it must end rank 0
    /// too, which would otherwise report a lost rank.
    pub(crate) fn watch(exchange: &mut dyn Exchange) -> Result<()> {
        in_turn(exchange, |me| me != Owner(0), start_once)
    }

    /// Stops watching: the next signal takes its default action. If a signal was recorded, the next
    /// one already does so. All ranks call this; rank 0 stops first, for the reason given at
    /// [`watch`](Self::watch).
    pub(crate) fn stop_watching(exchange: &mut dyn Exchange) -> Result<()> {
        in_turn(
            exchange,
            |me| me == Owner(0),
            || {
                record(DEFAULT_ACTION);
                Ok(())
            },
        )
    }

    /// Returns the first signal since [`watch`](Self::watch).
    pub(crate) fn received() -> Option<Self> {
        u64::try_from(RECEIVED.load(Ordering::Relaxed)).ok().and_then(Self::from_number)
    }

    /// Returns whether no signal was received.
    pub(crate) fn is_awaited() -> bool {
        Self::received().is_none()
    }

    /// Returns the number of a signal, or 0 for none. Ranks exchange it.
    pub(crate) fn number(interrupt: Option<Self>) -> u64 {
        interrupt.map_or(0, |interrupt| interrupt.0.unsigned_abs().into())
    }

    pub(crate) fn from_number(number: u64) -> Option<Self> {
        let number = i32::try_from(number).ok()?;
        [SIGINT, SIGTERM].contains(&number).then_some(Self(number))
    }

    pub(crate) fn name(self) -> &'static str {
        if self.0 == SIGINT { "SIGINT" } else { "SIGTERM" }
    }

    /// Returns the status that a shell reports for a process that the signal ended: 128 + its
    /// number.
    pub(crate) fn exit_code(self) -> ExitCode {
        u8::try_from(128 + self.0).map_or(ExitCode::FAILURE, ExitCode::from)
    }
}

/// Calls `act` on all ranks: on those that are `first` before a barrier, on the others after it.
fn in_turn(
    exchange: &mut dyn Exchange,
    first: impl Fn(Owner) -> bool,
    act: impl FnOnce() -> Result<()>,
) -> Result<()> {
    if first(exchange.me()) {
        act()?;
        return Ok(exchange.barrier()?);
    }
    exchange.barrier()?;
    act()
}

/// Starts the thread that watches, unless this process has started it.
fn start_once() -> Result<()> {
    static STARTED: OnceLock<core::result::Result<(), String>> = OnceLock::new();
    let started = STARTED.get_or_init(|| start().map_err(|error| error.to_string()));
    started.clone().map_err(|error| Failure::new(format!("cannot watch for signals: {error}")))
}

/// Starts a thread that sleeps until a signal arrives. A signal handler alone could not measure the
/// time since the first signal. A signal that the process was started to ignore stays ignored:
/// shells ignore SIGINT in the background jobs of a script.
fn start() -> std::io::Result<()> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut signals =
        Signals::new([SIGINT, SIGTERM].into_iter().filter(|&signal| !ignores(&status, signal)))?;
    let watch = move || {
        let mut first = None;
        for signal in signals.forever() {
            let since = first.get_or_insert_with(Instant::now).elapsed();
            let ends = match record(signal) {
                NONE => false,
                DEFAULT_ACTION => true,
                _ => since >= SAME_REQUEST,
            };
            if ends {
                // This ends the process. If it fails, the process ends after its work.
                let _ = emulate_default_handler(signal);
            }
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(watch).map(drop)
}

/// Replaces `NONE` by `new`. Returns the previous value.
fn record(new: i32) -> i32 {
    let before = RECEIVED.compare_exchange(NONE, new, Ordering::Relaxed, Ordering::Relaxed);
    before.unwrap_or_else(|before| before)
}

/// Returns whether a process with this text in `/proc/PID/status` ignores the signal; false if the
/// text has no such field.
fn ignores(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    // Bit 0 is signal 1.
    mask >> (signal - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use probeline::transport::{Alone, ExchangeError};

    use super::*;

    /// A rank that records the state of signals at its last barrier.
    struct Rank {
        me: Owner,
        at_barrier: Option<(bool, i32)>,
    }

    impl Exchange for Rank {
        fn me(&self) -> Owner {
            self.me
        }

        fn owners(&self) -> u32 {
            2
        }

        fn all_gather(
            &mut self,
            mine: &[u8],
            all: &mut [u8],
        ) -> core::result::Result<(), ExchangeError> {
            Alone.all_gather(mine, all)
        }

        fn all_to_all(
            &mut self,
            mine: &[u8],
            theirs: &mut [u8],
        ) -> core::result::Result<(), ExchangeError> {
            Alone.all_to_all(mine, theirs)
        }

        fn barrier(&mut self) -> core::result::Result<(), ExchangeError> {
            self.at_barrier = Some((catches_sigterm(), RECEIVED.load(Ordering::Relaxed)));
            Ok(())
        }
    }

    fn catches_sigterm() -> bool {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(mask.trim(), 16).unwrap() >> (SIGTERM - 1) & 1 == 1
    }

    #[test]
    fn rank_0_watches_last_stops_first() {
        let [mut first, mut second] = [0, 1].map(|me| Rank { me: Owner(me), at_barrier: None });
        Interrupt::watch(&mut first).unwrap();
        assert_eq!(first.at_barrier, Some((false, NONE)));
        assert!(catches_sigterm());
        Interrupt::stop_watching(&mut second).unwrap();
        assert_eq!(second.at_barrier, Some((true, NONE)));
        assert_eq!(RECEIVED.swap(NONE, Ordering::Relaxed), DEFAULT_ACTION);
        Interrupt::stop_watching(&mut first).unwrap();
        assert_eq!(first.at_barrier, Some((true, DEFAULT_ACTION)));
    }
}
