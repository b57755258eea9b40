//! The progress line. A command that prints nothing for more than two seconds draws one line on
//! standard error, if that is a terminal.
//!
//! A thread redraws the line only while nothing is measured ([`waiting`], [`Progress::during`]).
//! Otherwise the line is drawn between measurements, and before a measurement that is expected to
//! take long.

use core::time::Duration;
use std::sync::LazyLock;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::terminal;

/// Time that a command may print nothing before the line is drawn.
const QUIET_FOR: Duration = Duration::from_secs(2);
/// Time between two drawings while nothing is measured.
const REDRAW: Duration = Duration::from_secs(1);

/// The start of the command.
static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Records the start of the command; `main` calls this first.
pub(crate) fn begin() {
    LazyLock::force(&BEGUN);
}

/// Returns whether the line must be drawn before work with this expected time.
fn is_due(elapsed: Duration, expected: Duration) -> bool {
    elapsed.saturating_add(expected) >= QUIET_FOR
}

/// Executes `work`, which measures nothing. If it takes long, the line shows `doing` and the time
/// since its start. `shown` must be true on one rank only.
pub(crate) fn waiting<R>(doing: &str, shown: bool, work: impl FnOnce() -> R) -> R {
    Progress::new(None, shown).during(0, doing, work)
}

/// A thread that draws until this value is dropped: first when the command has printed nothing for
/// [`QUIET_FOR`], then every [`REDRAW`].
pub(crate) struct Redrawer {
    done: Sender<()>,
    /// `None` if the thread could not be started: then nothing is drawn.
    thread: Option<JoinHandle<()>>,
}

impl Redrawer {
    fn start(draw: impl Fn() + Send + 'static) -> Self {
        let (done, ended) = channel();
        let redraw = move || {
            let mut wait = QUIET_FOR.saturating_sub(BEGUN.elapsed());
            while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                draw();
                wait = REDRAW;
            }
        };
        Self { done, thread: thread::Builder::new().spawn(redraw).ok() }
    }
}

impl Drop for Redrawer {
    fn drop(&mut self) {
        // Ignores errors: then the thread has ended already.
        let _ = self.done.send(());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

pub(crate) struct Progress {
    /// Hidden until the line is due.
    bar: ProgressBar,
    /// Calls of [`advance`](Self::advance).
    advanced: u64,
    shown: bool,
}

impl Progress {
    /// Creates a bar of `total` steps, or a line for steps of an unknown number. `shown` must be
    /// true on one rank only.
    pub(crate) fn new(total: impl Into<Option<u64>>, shown: bool) -> Self {
        let total = total.into();
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
        let template = match total {
            Some(_) => "{bar:40} {percent:>3}% {elapsed} {msg}",
            None => "{elapsed} {msg}",
        };
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar, advanced: 0, shown: shown && terminal::draws_progress() }
    }

    pub(crate) fn set(&mut self, done: u64, doing: &str) {
        self.expecting(done, doing, Duration::ZERO);
    }

    /// Shows as many steps as before.
    pub(crate) fn show(&mut self, doing: &str) {
        self.set(self.advanced, doing);
    }

    /// Shows one step more than before.
    pub(crate) fn advance(&mut self, doing: &str) {
        self.advanced += 1;
        self.show(doing);
    }

    pub(crate) fn expecting(&mut self, done: u64, doing: &str, expected: Duration) {
        if !self.shown {
            return;
        }
        let message = match expected {
            long if long >= QUIET_FOR => format!("{doing}, up to {} s", long.as_secs()),
            _ => doing.to_owned(),
        };
        let bar = &self.bar;
        bar.set_message(probeline_report::results::printable::line(&message).into_owned());
        bar.set_position(done);
        if !bar.is_hidden() || is_due(BEGUN.elapsed(), expected) {
            draw(bar, expected);
        }
    }

    /// Executes `work`, which measures nothing, while a thread redraws the line.
    pub(crate) fn during<R>(&mut self, done: u64, doing: &str, work: impl FnOnce() -> R) -> R {
        self.set(done, doing);
        let _redrawing = self.start_redrawing();
        work()
    }

    /// Redraws the line, as it is set last, until the returned value is dropped.
    pub(crate) fn start_redrawing(&self) -> Option<Redrawer> {
        let bar = self.bar.clone();
        self.shown.then(|| Redrawer::start(move || draw(&bar, Duration::ZERO)))
    }
}

fn draw(bar: &ProgressBar, expected: Duration) {
    if bar.is_hidden() {
        bar.set_draw_target(ProgressDrawTarget::stderr());
    }
    match expected {
        // indicatif skips a drawing soon after another one, and no thread would repeat it.
        long if long >= REDRAW => bar.force_draw(),
        _ => bar.tick(),
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::TryRecvError;

    use super::*;

    #[test]
    fn line_due_after_two_seconds() {
        let due = |elapsed, expected| {
            is_due(Duration::from_millis(elapsed), Duration::from_millis(expected))
        };
        assert!(!due(1_999, 0) && !due(0, 1_999) && !due(500, 500));
        assert!(due(2_000, 0) && due(0, 2_000) && due(1_200, 900));
        assert!(is_due(Duration::ZERO, Duration::MAX));
    }

    /// The first drawing happens at its time; the work waits for each of the next ones.
    #[test]
    fn redraws_during_long_work() {
        let (drawn, seen) = channel();
        let start_redrawing = Redrawer::start(move || drawn.send(()).unwrap());
        for _ in 0..2 {
            seen.recv_timeout(Duration::from_secs(120)).unwrap();
        }
        drop(start_redrawing);
        // The thread has ended, and with it the sender.
        while seen.try_recv() == Ok(()) {}
        assert_eq!(seen.try_recv(), Err(TryRecvError::Disconnected));
    }

    #[test]
    fn draws_nothing_without_terminal() {
        let mut progress = Progress::new(3, false);
        progress.expecting(1, "work", Duration::from_secs(60));
        assert!(progress.bar.is_hidden());
        assert_eq!(progress.during(2, "work", || 7), 7);
        assert!(progress.bar.is_hidden());
    }
}
