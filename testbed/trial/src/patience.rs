//! The bound of loops that poll.

use core::time::Duration;
use std::time::Instant;

use crate::failure::{Failure, Result};

/// The longest wait for the other ranks, and for one operation: only what hangs takes as long, on a
/// host with ten programs for each CPU too.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// The clock is looked at every so many turns, so that it is no part of what is measured: at a
/// microsecond for a turn of an emulated machine, every few milliseconds.
const TURNS: u32 = 1 << 12;

/// A wait for one thing, from the first look at the clock on.
#[derive(Debug)]
pub(crate) struct Patience {
    what: &'static str,
    bound: Duration,
    turns: u32,
    begin: Option<Instant>,
}

impl Patience {
    /// A wait for `what`, of [`PATIENCE`] at most.
    pub(crate) fn new(what: &'static str) -> Self {
        Self { what, bound: PATIENCE, turns: 0, begin: None }
    }

    /// Another turn of the loop; fails when the bound has passed.
    #[inline]
    pub(crate) fn turn(&mut self) -> Result<()> {
        self.turns = self.turns.wrapping_add(1);
        if self.turns.is_multiple_of(TURNS) { self.look() } else { Ok(()) }
    }

    /// What was waited for has come: the next wait begins.
    #[inline]
    pub(crate) fn renew(&mut self) {
        self.begin = None;
    }

    #[cold]
    fn look(&mut self) -> Result<()> {
        let Self { what, bound, .. } = *self;
        if self.begin.get_or_insert_with(Instant::now).elapsed() < bound {
            return Ok(());
        }
        Err(Failure(format!("it hangs: no {what} within {bound:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_that_waits_in_vain_ends() {
        let mut patience = Patience { bound: Duration::from_millis(1), ..Patience::new("end") };
        let begin = Instant::now();
        while patience.turn().is_ok() {
            assert!(begin.elapsed() < PATIENCE);
        }
        assert_eq!(patience.look().unwrap_err().0, "it hangs: no end within 1ms");
        patience.renew();
        assert!(patience.look().is_ok());
    }
}
