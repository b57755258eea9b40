//! A progress bar on a terminal, for what takes longer than two seconds.

use core::time::Duration;
use std::io::IsTerminal;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const QUIET_FOR: Duration = Duration::from_secs(2);

/// A line with the time that has passed, while this process waits; only on a terminal, on standard
/// error.
pub(crate) struct Waiting(ProgressBar);

impl Waiting {
    pub(crate) fn new(for_what: &str) -> Self {
        let bar = ProgressBar::new_spinner();
        let shown = std::io::stderr().is_terminal();
        bar.set_draw_target(if shown {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        });
        let style = ProgressStyle::with_template("{elapsed} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        bar.set_message(for_what.to_owned());
        bar.enable_steady_tick(Duration::from_secs(1));
        Self(bar)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Drawn on standard error, only between measurements, and only if that is a terminal.
pub(crate) struct Progress {
    start: Instant,
    total: u64,
    bar: Option<ProgressBar>,
    shown: bool,
}

impl Progress {
    /// Of `total` steps; `shown` is for one rank only.
    pub(crate) fn new(total: u64, shown: bool) -> Self {
        let shown = shown && std::io::stderr().is_terminal();
        Self { start: Instant::now(), total, bar: None, shown }
    }

    pub(crate) fn set(&mut self, done: u64, doing: &str) {
        if !self.shown || self.start.elapsed() < QUIET_FOR {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let target = ProgressDrawTarget::stderr();
            let bar = ProgressBar::with_draw_target(Some(self.total), target);
            let style = ProgressStyle::with_template("{bar:40} {percent:>3}% {msg}");
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        bar.set_message(doing.to_owned());
        bar.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
