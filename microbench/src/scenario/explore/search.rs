//! The breadth-first search: rounds in which ranks expand states of one level, then exchange their
//! progress.

use core::time::Duration;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use probeline::table::Config;
use probeline::transport::{Exchange, Owner};
use probeline_petri::{FiringRule, Overflow, Packing};
use probeline_results::gather;

use super::Exploration;
use super::expansion::{Counts, Expansion, Stop};
use super::frontier::Frontier;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::means::MeansTable;
use crate::scenario::full;
use crate::terminal;
use crate::timed::Timed;
use crate::units::{rate_of, thousands};

/// Time that ranks expand states before they exchange their progress: a tenth of a second, and more
/// with many ranks, whose exchange takes longer.
const ROUND_NS: u64 = 100_000_000;
const ROUND_NS_PER_RANK: u64 = 1_000_000;

/// How a search ended.
pub(super) enum Searched {
    Ended(Ended),
    /// A marking did not fit the packing; the same one on every rank.
    Overflowed(Overflow),
}

/// The result of a search.
pub(super) struct Ended {
    /// The counts of this rank.
    pub(super) counts: Counts,
    /// States that no rank has expanded.
    pub(super) open: u64,
    /// The signal that stopped the search; `None` if all states were expanded.
    pub(super) stopped_by: Option<Interrupt>,
}

/// Searches all states that are reachable from the initial marking. The table is empty.
pub(super) fn search<T: Timed>(
    exploration: &Exploration,
    table: &mut MeansTable<T>,
    packing: &Packing,
    exchange: &mut dyn Exchange,
) -> Result<Searched> {
    let rule = FiringRule::new(&exploration.net, packing);
    let mut expansion = Expansion::new(rule, &exploration.args.expand());
    let first_word = table.config().words();
    let mut frontier = Frontier::new(first_word, Config::slots(exploration.args.means.in_flight));
    let mut progress = ProgressLine::new(exchange.me() == Owner(0));
    let mut counts = Counts::default();
    if exchange.me() == Owner(0) {
        match packing.pack(&exploration.net.initial()) {
            Ok(state) => {
                table.find_or_put(state)?;
                frontier.push(state);
                counts.states = 1;
                counts.find_or_puts = 1;
            }
            Err(overflow) => {
                return Err(Failure::new(format!(
                    "the initial marking does not fit its packing: {overflow}"
                )));
            }
        }
    }
    let round_ns = ROUND_NS + ROUND_NS_PER_RANK * u64::from(exchange.owners());
    let mut round = Round::agree(None, &frontier, exchange)?;
    // States of all levels up to the current one.
    let mut states = 0;
    loop {
        if round.open == 0 {
            states += round.found();
            frontier.spread(table, &round.found, exchange)?;
        }
        let stop = expansion.expand(table, &mut frontier, &mut counts, round_ns)?;
        round = Round::agree(stop.as_ref(), &frontier, exchange)?;
        let (found, open) = (round.found(), round.open + round.found());
        progress.set(counts.levels + 1, states + found, open);
        counts.levels += u64::from(round.open == 0);
        if round.full {
            let held = states + found;
            return Err(full(table.config(), table.layout().owners(), held)
                .or("unless the net has no bound on its tokens, which fills any table")
                .everywhere());
        }
        if let Some(overflow) = round.overflow {
            return Ok(Searched::Overflowed(overflow));
        }
        if open == 0 || round.interrupt.is_some() {
            let stopped_by = round.interrupt.filter(|_| open > 0);
            return Ok(Searched::Ended(Ended { counts, open, stopped_by }));
        }
    }
}

/// The progress of all ranks at the end of a round, the same on every rank.
struct Round {
    /// States of the next level that each rank has found.
    found: Vec<u64>,
    /// States of this level that no rank has expanded.
    open: u64,
    full: bool,
    overflow: Option<Overflow>,
    /// The signal that one of the ranks has received.
    interrupt: Option<Interrupt>,
}

impl Round {
    /// Exchanges the progress; all ranks call it.
    fn agree(
        stop: Option<&Stop>,
        frontier: &Frontier,
        exchange: &mut dyn Exchange,
    ) -> Result<Self> {
        /// The place of a rank without an overflow.
        const NO_PLACE: u64 = u64::MAX;
        let (full, place, tokens) = match stop {
            Some(Stop::Full) => (1, NO_PLACE, 0),
            Some(Stop::Overflow(overflow)) => (0, overflow.place as u64, overflow.tokens),
            None => (0, NO_PLACE, 0),
        };
        let signal = Interrupt::number(Interrupt::received());
        let mine = [frontier.found(), frontier.open(), full, place, tokens, signal];
        let mut all =
            Self { found: Vec::new(), open: 0, full: false, overflow: None, interrupt: None };
        for [found, open, full, place, tokens, signal] in gather(exchange, mine)? {
            all.found.push(found);
            all.open += open;
            all.full |= full != 0;
            all.interrupt = all.interrupt.or(Interrupt::from_number(signal));
            if all.overflow.is_none() && place != NO_PLACE {
                all.overflow = Some(Overflow { place: usize::try_from(place)?, tokens });
            }
        }
        Ok(all)
    }

    fn found(&self) -> u64 {
        self.found.iter().sum()
    }
}

/// Time before the progress line appears.
const QUIET_FOR: Duration = Duration::from_secs(2);
/// Time between two updates of the progress line.
const UPDATE_INTERVAL: Duration = Duration::from_millis(100);

/// The progress line on standard error, if that is a terminal: level, states, frontier and rate.
struct ProgressLine {
    start: Instant,
    /// When the next update is due; `None` if the line is not shown.
    due: Option<Instant>,
    line: Option<ProgressBar>,
}

impl ProgressLine {
    /// `shown` is true on one rank only.
    fn new(shown: bool) -> Self {
        let start = Instant::now();
        let shown = shown && terminal::draws_progress();
        Self { start, due: shown.then_some(start + QUIET_FOR), line: None }
    }

    /// Updates the line: the ranks are at `level`, have found `states`, and have not expanded
    /// `open` of them.
    fn set(&mut self, level: u64, states: u64, open: u64) {
        let now = Instant::now();
        if self.due.is_none_or(|due| now < due) {
            return;
        }
        self.due = Some(now + UPDATE_INTERVAL);
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

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if let Some(line) = &self.line {
            line.finish_and_clear();
        }
    }
}
