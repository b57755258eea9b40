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
        Some(growth) => {
            Failure::new(unbounded(net, &growth, &format!("nothing was explored: {error}")))
        }
        None => error.clone().into(),
    }
}

/// Describes a net without a bound on its tokens, which ended as described.
fn unbounded(net: &Net, growth: &Growth, end: &str) -> String {
    let fired = growth.transitions.iter().take(MAX_LISTED);
    let fired: Vec<&str> = fired.filter_map(|&number| id_of(net, number)).collect();
    let more = growth.transitions.len() - fired.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let place = net.places().get(growth.place).map(Place::to_string).unwrap_or_default();
    format!(
        "the net is unbounded, it has infinitely many states: {}{more} can fire again and again, \
         each time adding tokens to place {place}; {end}",
        fired.join(", "),
    )
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
        let growth = net.growth();
        let text = match reason {
            Reason::Table { words, bytes, limit } => match growth {
                Some(growth) => {
                    unbounded(net, &growth, &format!("{found} before the table was full"))
                }
                None => format!(
                    "{}, unless the net has no bound on its tokens, which fills any table; {found}",
                    self.table_full(*states, *words, Size(*bytes), limit)
                ),
            },
            Reason::Memory { available, keeps_levels } => {
                let kept = if *keeps_levels {
                    ", or without --find-deadlock and --invariant, which keep all states found"
                } else {
                    ""
                };
                format!(
                    "only {} of memory are left for the states to expand. Start again with more \
                     memory{kept}; {found}",
                    Size(*available).rounded()
                )
            }
            Reason::State { overflow: Overflow { place, tokens, transition }, error } => {
                let place = net.places().get(*place).map(Place::to_string).unwrap_or_default();
                let fired = transition.and_then(|number| id_of(net, number)).unwrap_or_default();
                let tokens = counted(*tokens, "token");
                let found =
                    format!("{found} before transition {fired} put {tokens} in place {place}");
                let end = format!("{found}, beyond the {} bits of a state", error.available);
                growth.map_or_else(
                    || format!("{error}; {found}"),
                    |growth| unbounded(net, &growth, &end),
                )
            }
        };
        Failure::new(text).everywhere()
    }

    /// Describes a table of states of this number of words that is full and cannot grow.
    fn table_full(&self, states: u64, words: usize, size: Size, limit: &Limit) -> String {
        let job = &self.args.job;
        let config = self.exploration.buckets(words, size.0);
        let full = match words {
            1 => no_room(&config, job.ranks, states),
            _ => {
                let bytes = 8 * words;
                format!("the table is full: it has no room for another state of {bytes} bytes")
            }
        };
        let larger = Size((2 * size.0).next_power_of_two());
        let more_memory = "with more memory".to_owned();
        let (why, advice) = match limit {
            &Limit::Asked(most) => {
                (String::new(), format!("with a larger --max-table-size than {}", Size(most)))
            }
            Limit::Unbounded => (String::new(), format!("with --max-table-size {larger}")),
            &Limit::Memory(memory) => {
                let most = Size(memory).rounded();
                (
                    format!(", and the memory available allows no table of more than {most}"),
                    more_memory,
                )
            }
            Limit::Transport => {
                let over = job.transport.name();
                (format!(", and does not grow over {over}"), format!("with --table-size {larger}"))
            }
            &Limit::Trees(most) => {
                let why = format!(", and a table of trees has at most {}", Size(most));
                (why, "with --states flat".to_owned())
            }
            Limit::Failed(bytes, reason) => {
                (format!(", and could not grow to {} ({reason})", Size(*bytes)), more_memory)
            }
        };
        format!("{full}{why}. Start again {advice}{}", or_more_chunks(&config, job.ranks))
    }
}

fn id_of(net: &Net, transition: u32) -> Option<&str> {
    net.transitions().get(transition as usize).map(|Transition { id, .. }| id.as_str())
}
