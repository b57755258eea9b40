//! What a terminal shows while a command says nothing for more than two seconds: one line on
//! standard error, and none where that is not a terminal.
//!
//! A thread redraws the line only while nothing is measured ([`waiting`], [`Progress::during`]).
//! While a rank measures, the line is drawn between measurements alone, and before one that is
//! expected to take long.

use core::time::Duration;
use std::sync::OnceLock;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::terminal;

/// How long a command may show nothing.
const QUIET_FOR: Duration = Duration::from_secs(2);
/// Between two drawings of a line while nothing is measured.
const REDRAW: Duration = Duration::from_secs(1);

static BEGUN: OnceLock<Instant> = OnceLock::new();

/// Notes when the command began; `main` calls it first.
pub(crate) fn begin() {
    BEGUN.get_or_init(Instant::now);
}

fn elapsed() -> Duration {
    BEGUN.get_or_init(Instant::now).elapsed()
}

/// Whether a line is to be drawn before work that is expected to take this long.
fn is_due(elapsed: Duration, expected: Duration) -> bool {
    elapsed.saturating_add(expected) >= QUIET_FOR
}

/// Does `work`, in which nothing is measured; if that takes long, shows `doing` and the time it has
/// taken. `shown` is for one rank only.
pub(crate) fn waiting<R>(doing: &str, shown: bool, work: impl FnOnce() -> R) -> R {
    if !is_shown(shown) {
        return work();
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{elapsed} {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    let draw = || {
        bar.set_message(printable::line(doing).into_owned());
        bar.tick();
    };
    let result = redrawing(draw, work);
    bar.finish_and_clear();
    result
}

/// Does `work` while a thread draws: first when the command has been silent for long, then once a
/// second.
pub(crate) fn redrawing<R>(mut draw: impl FnMut() + Send, work: impl FnOnce() -> R) -> R {
    let (done, ended) = channel::<()>();
    thread::scope(|scope| {
        let redraw = move || {
            let mut wait = QUIET_FOR.saturating_sub(elapsed());
            while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                draw();
                wait = REDRAW;
            }
        };
        // Without a thread nothing is drawn, and the work is done all the same.
        let _ = thread::Builder::new().spawn_scoped(scope, redraw);
        let result = work();
        drop(done);
        result
    })
}

fn is_shown(asked: bool) -> bool {
    asked && terminal::draws_progress()
}

/// A bar of known length.
pub(crate) struct Progress {
    total: u64,
    bar: Option<ProgressBar>,
    shown: bool,
}

impl Progress {
    /// Of `total` steps; `shown` is for one rank only.
    pub(crate) fn new(total: u64, shown: bool) -> Self {
        Self { total, bar: None, shown: is_shown(shown) }
    }

    /// A step begins, of which it is not known how long it takes.
    pub(crate) fn set(&mut self, done: u64, doing: &str) {
        self.expecting(done, doing, Duration::ZERO);
    }

    /// A step begins that takes `expected` or less.
    pub(crate) fn expecting(&mut self, done: u64, doing: &str, expected: Duration) {
        if !self.shown || (self.bar.is_none() && !is_due(elapsed(), expected)) {
            return;
        }
        let message = match expected {
            long if long >= QUIET_FOR => format!("{doing}, up to {} s", long.as_secs()),
            _ => doing.to_owned(),
        };
        let bar = self.bar();
        bar.set_message(printable::line(&message).into_owned());
        bar.set_position(done);
        match expected {
            // Nothing draws what indicatif would put off because it has just drawn.
            long if long >= REDRAW => bar.force_draw(),
            _ => bar.tick(),
        }
    }

    /// A step in which nothing is measured.
    pub(crate) fn during<R>(&mut self, done: u64, doing: &str, work: impl FnOnce() -> R) -> R {
        if !self.shown {
            return work();
        }
        redrawing(|| self.expecting(done, doing, Duration::ZERO), work)
    }

    fn bar(&mut self) -> &ProgressBar {
        self.bar.get_or_insert_with(|| {
            let target = ProgressDrawTarget::stderr();
            let bar = ProgressBar::with_draw_target(Some(self.total), target);
            let style = ProgressStyle::with_template("{bar:40} {percent:>3}% {elapsed} {msg}");
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        })
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_due_after_two_seconds_or_before_what_takes_longer() {
        let due = |elapsed, expected| {
            is_due(Duration::from_millis(elapsed), Duration::from_millis(expected))
        };
        assert!(!due(1_999, 0) && !due(0, 1_999) && !due(500, 500));
        assert!(due(2_000, 0) && due(0, 2_000) && due(1_200, 900));
        assert!(is_due(Duration::ZERO, Duration::MAX));
    }

    /// The first drawing waits for its time; each of the next ones is an event that the work awaits.
    #[test]
    fn work_that_takes_long_is_drawn_again_and_again() {
        let (drawn, seen) = channel();
        let draw = move || drawn.send(()).unwrap();
        let result = redrawing(draw, || {
            for _ in 0..2 {
                seen.recv_timeout(Duration::from_secs(120)).unwrap();
            }
            7
        });
        assert_eq!(result, 7);
    }

    #[test]
    fn where_no_terminal_is_nothing_is_drawn() {
        let mut progress = Progress::new(3, false);
        progress.expecting(1, "work", Duration::from_secs(60));
        assert!(progress.bar.is_none());
        assert_eq!(progress.during(2, "work", || 7), 7);
        assert!(progress.bar.is_none());
    }
}
