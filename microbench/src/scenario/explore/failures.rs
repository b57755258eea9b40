//! Failures of a search that cannot go on, with the counts so far: nets without a bound on their
//! tokens, and those that are too large.

use probeline_petri::{Growth, Net, Overflow, PackingError, Place, Transition};

use super::table_size::Limit;
use super::{Exploration, ExploreArgs};
use crate::failure::Failure;
use crate::scenario::{no_room, or_more_chunks};
use crate::size::Size;
use crate::units::counted;

/// Maximum number of transitions that an error lists.
const MAX_LISTED: usize = 8;

/// Creates the failure of a net whose markings do not fit a state, before any search.
pub(super) fn unpacked(net: &Net, error: &PackingError) -> Failure {
    match net.growth() {
        Some(growth) => unbounded(net, &growth, &format!("nothing was explored: {error}")),
        None => error.clone().into(),
    }
}

/// Creates the failure of a net without a bound on its tokens, which ended as described.
fn unbounded(net: &Net, growth: &Growth, end: &str) -> Failure {
    let fired = growth.transitions.iter().take(MAX_LISTED);
    let fired: Vec<&str> = fired.filter_map(|&number| id_of(net, number)).collect();
    let more = growth.transitions.len() - fired.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let place = net.places().get(growth.place).map(Place::to_string).unwrap_or_default();
    Failure::new(format!(
        "the net is unbounded, it has infinitely many states: {}{more} can fire again and again, \
         each time adding tokens to place {place}; {end}",
        fired.join(", "),
    ))
}

/// What a search has found before it failed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reached {
    pub(super) states: u64,
    /// Levels of which all states were expanded.
    pub(super) levels: u64,
}

impl Reached {
    /// Creates the failure of a table of states of this number of words that is full and cannot grow.
    pub(super) fn table_full(
        self,
        exploration: &Exploration,
        words: usize,
        size: Size,
        limit: &Limit,
    ) -> Failure {
        let Exploration { net, args: ExploreArgs { job, .. }, .. } = exploration;
        if let Some(growth) = net.growth() {
            let end = format!("{self} were found before the table was full");
            return unbounded(net, &growth, &end).everywhere();
        }
        let (config, _) = exploration.sizes_of_words(words, size);
        let full = match words {
            1 => no_room(&config, job.ranks, self.states),
            _ => format!(
                "the table is full: it has no room for another state of {} bytes",
                8 * words
            ),
        };
        let larger = Size((2 * size.0).next_power_of_two());
        let (why, advice) = match limit {
            Limit::Asked(most) => {
                (String::new(), format!("Start again with a larger --max-table-size than {most}"))
            }
            Limit::Unbounded => {
                (String::new(), format!("Start again with --max-table-size {larger}"))
            }
            Limit::Memory(memory) => (
                format!(
                    ", and the memory available allows no table of more than {}",
                    memory.rounded()
                ),
                "Start again with more memory".to_owned(),
            ),
            Limit::Transport(transport) => (
                format!(", and does not grow over {}", transport.name()),
                format!("Start again with --table-size {larger}"),
            ),
            Limit::Trees(most) => (
                format!(", and a table of trees has at most {most}"),
                "Start again with --states flat".to_owned(),
            ),
            Limit::Failed(size, reason) => (
                format!(", and could not grow to {size} ({reason})"),
                "Start again with more memory".to_owned(),
            ),
        };
        let chunks = or_more_chunks(&config, job.ranks);
        let full = Failure::new(format!("{full}{why}. {advice}{chunks}"));
        let full = full.or("unless the net has no bound on its tokens, which fills any table");
        Failure::new(format!("{full}; {self} were found")).everywhere()
    }

    /// Creates the failure of a rank with this many bytes of memory left, which its states fill.
    pub(super) fn out_of_memory(self, available: u64, keeps_levels: bool) -> Failure {
        let kept = match keeps_levels {
            true => ", or without --find-deadlock and --invariant, which keep all states found",
            false => "",
        };
        Failure::new(format!(
            "only {} of memory are left for the states to expand. Start again with more memory{kept}; \
             {self} were found",
            Size(available).rounded()
        ))
        .everywhere()
    }

    /// Creates the failure of a marking that no packing holds, for the reason `error`.
    pub(super) fn unpackable(self, overflow: Overflow, net: &Net, error: &PackingError) -> Failure {
        let Overflow { place, tokens, transition } = overflow;
        let place = net.places().get(place).map(Place::to_string).unwrap_or_default();
        let fired = transition.and_then(|number| id_of(net, number)).unwrap_or_default();
        let tokens = counted(tokens, "token");
        let available = error.available;
        let found =
            format!("{self} were found before transition {fired} put {tokens} in place {place}");
        let failure = match net.growth() {
            Some(growth) => {
                let end = format!("{found}, beyond the {available} bits of a state");
                unbounded(net, &growth, &end)
            }
            None => Failure::new(format!("{error}; {found}")),
        };
        failure.everywhere()
    }
}

impl core::fmt::Display for Reached {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let [states, levels] =
            [(self.states, "state"), (self.levels, "complete level")].map(|(n, of)| counted(n, of));
        write!(f, "{states} in {levels}")
    }
}

fn id_of(net: &Net, transition: u32) -> Option<&str> {
    net.transitions().get(transition as usize).map(|Transition { id, .. }| id.as_str())
}
