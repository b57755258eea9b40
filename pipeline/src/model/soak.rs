//! Operations drawn at random on several clients at once, for the tests of structures over any transport.

use core::ops::DerefMut;

use probeline_transport::Transport;

use crate::error::Error;
use crate::kind::Kind;
use crate::operation::{Finished, Tag};
use crate::structure::{OperationOf, OutcomeOf, Structure};

/// Steps before a run counts as stuck.
pub const MAX_STEPS: u64 = 1_000_000;
/// Most operations that one poll reports.
const MAX_POLLED: usize = 4;

/// An operation that has ended, with the steps of the run at which it began and ended.
#[derive(Clone, Copy, Debug)]
pub struct Past<O> {
    /// Its number, from 0 in the order of beginnings.
    pub number: u64,
    /// The step at which it began.
    pub begun: u64,
    /// The step at which it ended, below [`MAX_STEPS`].
    pub ended: u64,
    /// Its outcome.
    pub result: Result<O, Error>,
}

/// Runs `count` operations on random clients, several in flight on each, and returns them in the order in
/// which they ended. `below` draws a number below a bound, and `draw` the operation of a number on a client.
///
/// # Panics
/// If an operation is refused, a transport fails, or the run is stuck.
pub fn soak<T, S, K, C>(
    clients: &mut [C],
    count: u64,
    below: &mut dyn FnMut(u64) -> u64,
    mut draw: impl FnMut(u64, &mut C, &mut dyn FnMut(u64) -> u64) -> (K::Key, K::Action),
) -> Vec<Past<OutcomeOf<K>>>
where
    T: Transport,
    S: AsMut<[OperationOf<K>]>,
    K: Kind,
    C: DerefMut<Target = Structure<T, S, K>>,
{
    let (mut begun, mut ended) = (Vec::new(), Vec::new());
    for step in 0..MAX_STEPS {
        if ended.len() as u64 == count {
            return ended;
        }
        let client = below(clients.len() as u64) as usize;
        let client = &mut clients[client];
        let number = begun.len() as u64;
        if number < count && client.has_room() && below(2) == 0 {
            let (key, action) = draw(number, client, below);
            client.submit(Tag(number), &key, action).expect("a free operation");
            begun.push(step);
        }
        let mut out = [Finished::default(); MAX_POLLED];
        let finished = client.poll_into(&mut out).expect("a transport without a fault");
        ended.extend(finished.iter().map(|Finished { tag: Tag(number), result }| Past {
            number: *number,
            begun: begun[*number as usize],
            ended: step,
            result: *result,
        }));
    }
    panic!("stuck with {} of {count}", ended.len());
}
