//! The breadth-first search: rounds in which ranks expand states of one level, then exchange their
//! progress.

use core::time::Duration;
use std::time::Instant;

use probeline::transport::{Exchange, Owner, Sizes};
use probeline_petri::{Overflow, Packing, Successors};
use probeline_results::gather;

use super::Exploration;
use super::counterexample::{Levels, Verdict};
use super::expansion::{Counts, Expansion, Stop};
use super::frontier::{Frontier, READS, SHARE_WORDS};
use super::property::{Findings, Property, Violation};
use super::so_far::SoFar;
use super::states::{Expand, Visited};
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::job::Scenario;
use crate::progress::Progress;
use crate::units::{rate_of, thousands};

/// Time that ranks expand states before they exchange their progress: a tenth of a second, and more
/// with many ranks, whose exchange takes longer.
const ROUND_NS: u64 = 100_000_000;
const ROUND_NS_PER_RANK: u64 = 1_000_000;

pub(super) struct Ended {
    pub(super) counts: Counts,
    pub(super) open: u64,
    pub(super) ending: Ending,
    pub(super) verdicts: Vec<Verdict>,
}

/// Why a search ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// All states were expanded.
    Complete,
    /// All properties are violated.
    Answered,
    Interrupted(Interrupt),
    /// The table or a state had no room, for the reason given, after a property was violated.
    OutOfRoom(String),
}

/// Searches all states that are reachable from the initial marking, until all properties are
/// violated. The table is empty. The inner error is the packing that the search needs instead,
/// because a marking does not fit this one; it is the same on every rank.
pub(super) fn search<V: Visited<W>, const W: usize>(
    exploration: &Exploration,
    table: &mut V,
    packing: &Packing,
    exchange: &mut dyn Exchange,
) -> Result<core::result::Result<Ended, Packing>> {
    let written = match exploration.args.expand.known_states {
        0 => Successors::All,
        _ => Successors::Needed,
    };
    let expander = V::Expander::new(&exploration.net, packing, written);
    let findings = Findings::new(&exploration.properties, packing);
    let keeps = findings.is_open();
    let mut expansion = Expansion::new(expander, exploration.args.expand, findings);
    // The last words of each window, and the last slots.
    let Sizes { window_words, slots, .. } = exploration.sizes();
    let mut frontier = Frontier::new(window_words - SHARE_WORDS, slots - READS, keeps);
    let (mut progress, start) = (Progress::new(None, exchange.me() == Owner(0)), Instant::now());
    let mut counts = Counts::default();
    if exchange.me() == Owner(0) {
        let mut state = [0; W];
        packing
            .pack_wide(&exploration.net.initial(), &mut state)
            .map_err(|error| Failure::new(format!("the initial marking does not fit: {error}")))?;
        table.find_or_put(&state)?;
        frontier.push(state);
        counts.states = 1;
        counts.find_or_puts = 1;
    }
    let round_ns = ROUND_NS + ROUND_NS_PER_RANK * u64::from(exchange.owners());
    let mut round = Round::agree(None, &frontier, exchange)?;
    // States of all levels up to the current one.
    let mut states = 0;
    let ending = loop {
        if round.open == 0 {
            states += round.found();
            frontier.spread(table, &round.found, exchange)?;
        }
        let stop = expansion.expand(table, &mut frontier, &mut counts, round_ns)?;
        round = Round::agree(stop.as_ref(), &frontier, exchange)?;
        let (held, open) = (states + round.found(), round.open + round.found());
        let levels = counts.levels;
        progress.set(0, &doing(levels + 1, held, open, start.elapsed()));
        let so_far = SoFar { states: held, levels };
        let out_of_room = match round.overflow {
            Some(overflow) => match packing.grown(&exploration.net, overflow) {
                Ok(grown) => return Ok(Err(grown)),
                Err(error) => Some(so_far.unpackable(overflow, &exploration.net, &error)),
            },
            None => round.full.then(|| so_far.table_full(exploration, packing.words())),
        };
        let stops = out_of_room.is_some() || round.interrupt.is_some();
        if stops || round.open == 0 {
            expansion.findings.agree(levels, exchange)?;
        }
        counts.levels += u64::from(round.open == 0);
        let findings = &expansion.findings;
        match (out_of_room, round.interrupt) {
            (None, _) if open == 0 => break Ending::Complete,
            _ if findings.are_complete() => break Ending::Answered,
            // A counterexample is a result, whatever ends the search.
            (Some(failure), _) if findings.has_violation() => {
                break Ending::OutOfRoom(failure.to_string());
            }
            (Some(failure), _) => return Err(failure),
            (None, Some(interrupt)) => break Ending::Interrupted(interrupt),
            (None, None) => {}
        }
    };
    let open = round.open + round.found();
    let levels = frontier.into_levels(|node| expansion.state(node));
    let violations = &expansion.findings.violations;
    let levels = Levels { net: &exploration.net, packing, states: &levels };
    let verdict = |(property, violation): (&Property, &Option<Violation>)| {
        levels.verdict(property, violation.as_ref(), ending == Ending::Complete, exchange)
    };
    let verdicts = exploration.properties.iter().zip(violations).map(verdict);
    let verdicts = verdicts.collect::<Result<_>>()?;
    Ok(Ok(Ended { counts, open, ending, verdicts }))
}

/// The progress of all ranks at the end of a round, the same on every rank.
struct Round {
    /// States of the next level that each rank has found.
    found: Vec<u64>,
    open: u64,
    full: bool,
    overflow: Option<Overflow>,
    interrupt: Option<Interrupt>,
}

impl Round {
    fn agree<const W: usize>(
        stop: Option<&Stop>,
        frontier: &Frontier<W>,
        exchange: &mut dyn Exchange,
    ) -> Result<Self> {
        /// The place of a rank without an overflow, and the transition of a marking not fired.
        const NONE: u64 = u64::MAX;
        let [full, place, tokens, transition] = match stop {
            Some(Stop::Full) => [1, NONE, 0, NONE],
            Some(Stop::Overflow(Overflow { place, tokens, transition })) => {
                [0, *place as u64, *tokens, transition.map_or(NONE, u64::from)]
            }
            None => [0, NONE, 0, NONE],
        };
        let signal = Interrupt::number(Interrupt::received());
        let mine = [frontier.found(), frontier.open(), full, place, tokens, transition, signal];
        let mut all =
            Self { found: Vec::new(), open: 0, full: false, overflow: None, interrupt: None };
        for [found, open, full, place, tokens, transition, signal] in gather(exchange, mine)? {
            all.found.push(found);
            all.open += open;
            all.full |= full != 0;
            all.interrupt = all.interrupt.or(Interrupt::from_number(signal));
            if all.overflow.is_none() && place != NONE {
                let transition = u32::try_from(transition).ok();
                all.overflow =
                    Some(Overflow { place: usize::try_from(place)?, tokens, transition });
            }
        }
        Ok(all)
    }

    fn found(&self) -> u64 {
        self.found.iter().sum()
    }
}

fn doing(level: u64, states: u64, open: u64, time: Duration) -> String {
    let per_s = rate_of("states", states as f64 / time.as_secs_f64());
    let (states, open) = (thousands(states), thousands(open));
    format!("level {level}: {states} states, {open} to expand, {per_s}")
}
