//! The collective operations of bodies on a stage.

use std::sync::Arc;
use std::vec::Vec;

use probeline_transport::{Exchange, ExchangeError, Owner};

use super::call::{Call, Kind, gather};
use super::{Cast, Place, Stage};

/// The exchange of one owner on a stage.
///
/// All owners leave a call at the time of the last one's arrival plus the model's `barrier_ns`. A
/// call fails with [`ExchangeError::OwnerLost`] once a body has returned, and with
/// [`ExchangeError::TimedOut`] if not all owners make the same call. All owners receive the error,
/// and all later calls fail too.
pub struct StageExchange {
    stage: Arc<Stage>,
    me: Owner,
}

impl StageExchange {
    pub(super) fn new(stage: Arc<Stage>, me: Owner) -> Self {
        Self { stage, me }
    }

    /// Makes a call, waits for the other owners, and passes the gathered bytes to `take`.
    fn call(&self, call: Call, take: impl FnOnce(&[u8])) -> Result<(), ExchangeError> {
        let stage = &self.stage;
        let me = self.me.0 as usize;
        let mut cast = stage.cast();
        if let Some(error) = cast.broken {
            return Err(error);
        }
        cast.actors[me].at_ns = stage.cluster.clock_ns(self.me);
        cast.actors[me].place = Place::Called(call);
        stage.meet_if_all_called(&mut cast);
        stage.hand_over(&mut cast);
        let cast = stage.wait(cast, self.me);
        cast.actors[me].outcome?;
        take(&cast.gathered);
        Ok(())
    }
}

impl Exchange for StageExchange {
    fn me(&self) -> Owner {
        self.me
    }

    fn owners(&self) -> u32 {
        self.stage.cluster.config().owners
    }

    fn all_gather(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), ExchangeError> {
        let call = Call { kind: Kind::AllGather, mine: mine.to_vec(), room: all.len() };
        self.call(call, |gathered| all.copy_from_slice(gathered))
    }

    fn all_to_all(&mut self, mine: &[u8], theirs: &mut [u8]) -> Result<(), ExchangeError> {
        let call = Call { kind: Kind::AllToAll, mine: mine.to_vec(), room: theirs.len() };
        let (bytes, each) = (mine.len(), mine.len() / self.owners() as usize);
        let start = self.me.0 as usize * each;
        self.call(call, |gathered| {
            let given = gathered.chunks_exact(bytes.max(1));
            for (place, given) in theirs.chunks_exact_mut(each.max(1)).zip(given) {
                place.copy_from_slice(&given[start..start + each]);
            }
        })
    }

    fn barrier(&mut self) -> Result<(), ExchangeError> {
        self.call(Call { kind: Kind::Barrier, mine: Vec::new(), room: 0 }, |_| {})
    }
}

impl Stage {
    /// Completes the call for all owners once the last one has made it.
    fn meet_if_all_called(&self, cast: &mut Cast) {
        let latest_ns = cast.actors.iter().map(|actor| actor.at_ns).max().unwrap_or(0);
        let calls: Vec<&Call> = cast.actors.iter().filter_map(|actor| actor.place.call()).collect();
        if calls.len() < cast.actors.len() {
            return;
        }
        let leave_ns = latest_ns.saturating_add(self.cluster.config().model.barrier_ns);
        self.cluster.meet(leave_ns);
        let outcome = gather(&calls).map(|gathered| cast.gathered = gathered);
        cast.end_calls(outcome, leave_ns);
    }
}

impl Place {
    fn call(&self) -> Option<&Call> {
        match self {
            Self::Called(call) => Some(call),
            Self::Ready | Self::Ended => None,
        }
    }
}
