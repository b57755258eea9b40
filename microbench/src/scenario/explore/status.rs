//! The progress line of an exploration.

use core::time::Duration;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::terminal;
use crate::units::{rate_of, thousands};

/// The line appears after this time.
const QUIET_FOR: Duration = Duration::from_secs(2);
/// Time between two updates.
const INTERVAL: Duration = Duration::from_millis(100);

/// The line on standard error, if that is a terminal: level, states, frontier and rate.
pub(super) struct Status {
    start: Instant,
    /// When the next update is due; `None` if the line is not shown.
    due: Option<Instant>,
    line: Option<ProgressBar>,
}

impl Status {
    /// `shown` must be true on one rank only.
    pub(super) fn new(shown: bool) -> Self {
        let start = Instant::now();
        let shown = shown && terminal::draws_progress();
        Self { start, due: shown.then_some(start + QUIET_FOR), line: None }
    }

    /// Updates the line: all ranks have found `states`, have not expanded `open` of them, and are
    /// at `level`.
    pub(super) fn set(&mut self, level: u64, states: u64, open: u64) {
        let now = Instant::now();
        if self.due.is_none_or(|due| now < due) {
            return;
        }
        self.due = Some(now + INTERVAL);
        let line = self.line.get_or_insert_with(|| {
            let line = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{elapsed} {msg}");
            line.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
                .with_elapsed(now - self.start)
        });
        let per_s = rate_of("states", rate(states, now - self.start));
        let (states, open) = (thousands(states), thousands(open));
        line.set_message(format!("level {level}: {states} states, {open} to expand, {per_s}"));
        line.tick();
    }
}

#[allow(clippy::cast_precision_loss)]
fn rate(states: u64, time: Duration) -> f64 {
    states as f64 / time.as_secs_f64()
}

impl Drop for Status {
    fn drop(&mut self) {
        if let Some(line) = &self.line {
            line.finish_and_clear();
        }
    }
}
