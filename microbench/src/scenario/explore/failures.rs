//! Failures of a search that cannot go on, with the counts so far: nets without a bound on their
//! tokens, and those that are too large.

use probeline_programs::explore::{Limit, OutOfRoom, Reason};
use probeline_programs::petri::{Growth, Net, Overflow, PackingError, Place, Transition};

use super::Job;
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

impl Job {
    /// Creates the failure of a search without room for more states, which all ranks have.
    pub(super) fn out_of_room(&self, OutOfRoom { states, levels, reason }: &OutOfRoom) -> Failure {
        let found = format!(
            "{} in {} were found",
            counted(*states, "state"),
            counted(*levels, "complete level")
        );
        let net = &self.exploration.net;
        let failure = match (reason, net.growth()) {
            (Reason::Table { .. }, Some(growth)) => {
                unbounded(net, &growth, &format!("{found} before the table was full"))
            }
            (Reason::Table { words, bytes, limit }, None) => {
                let full = self.table_full(*states, *words, Size(*bytes), limit);
                let full =
                    full.or("unless the net has no bound on its tokens, which fills any table");
                Failure::new(format!("{full}; {found}"))
            }
            (Reason::Memory { available, keeps_levels }, _) => {
                let kept = match keeps_levels {
                    true => {
                        ", or without --find-deadlock and --invariant, which keep all states found"
                    }
                    false => "",
                };
                Failure::new(format!(
                    "only {} of memory are left for the states to expand. Start again with more \
                     memory{kept}; {found}",
                    Size(*available).rounded()
                ))
            }
            (Reason::State { overflow, error }, growth) => {
                let Overflow { place, tokens, transition } = *overflow;
                let place = net.places().get(place).map(Place::to_string).unwrap_or_default();
                let fired = transition.and_then(|number| id_of(net, number)).unwrap_or_default();
                let tokens = counted(tokens, "token");
                let available = error.available;
                let found =
                    format!("{found} before transition {fired} put {tokens} in place {place}");
                match growth {
                    Some(growth) => {
                        let end = format!("{found}, beyond the {available} bits of a state");
                        unbounded(net, &growth, &end)
                    }
                    None => Failure::new(format!("{error}; {found}")),
                }
            }
        };
        failure.everywhere()
    }

    /// Creates the failure of a table of states of this number of words that is full and cannot grow.
    fn table_full(&self, states: u64, words: usize, size: Size, limit: &Limit) -> Failure {
        let job = &self.args.job;
        let config = self.exploration.buckets(words, size.0);
        let full = match words {
            1 => no_room(&config, job.ranks, states),
            _ => format!(
                "the table is full: it has no room for another state of {} bytes",
                8 * words
            ),
        };
        let larger = Size((2 * size.0).next_power_of_two());
        let (why, advice) = match limit {
            &Limit::Asked(most) => {
                let most = Size(most);
                (String::new(), format!("Start again with a larger --max-table-size than {most}"))
            }
            Limit::Unbounded => {
                (String::new(), format!("Start again with --max-table-size {larger}"))
            }
            &Limit::Memory(memory) => (
                format!(
                    ", and the memory available allows no table of more than {}",
                    Size(memory).rounded()
                ),
                "Start again with more memory".to_owned(),
            ),
            Limit::Transport => (
                format!(", and does not grow over {}", job.transport.name()),
                format!("Start again with --table-size {larger}"),
            ),
            &Limit::Trees(most) => (
                format!(", and a table of trees has at most {}", Size(most)),
                "Start again with --states flat".to_owned(),
            ),
            Limit::Failed(bytes, reason) => (
                format!(", and could not grow to {} ({reason})", Size(*bytes)),
                "Start again with more memory".to_owned(),
            ),
        };
        let chunks = or_more_chunks(&config, job.ranks);
        Failure::new(format!("{full}{why}. {advice}{chunks}"))
    }
}

fn id_of(net: &Net, transition: u32) -> Option<&str> {
    net.transitions().get(transition as usize).map(|Transition { id, .. }| id.as_str())
}
