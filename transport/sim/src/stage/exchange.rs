//! The collective operations of bodies on a stage.

use std::sync::Arc;
use std::vec::Vec;

use probeline_transport::{Exchange, ExchangeError, Owner};

use super::{Schedule, Stage, State};

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
        let mut schedule = stage.lock();
        if let Some(error) = schedule.broken {
            return Err(error);
        }
        schedule.bodies[me].at_ns = stage.cluster.clock_ns(self.me);
        schedule.bodies[me].state = State::Called(call);
        stage.meet_if_all_called(&mut schedule);
        stage.hand_over(&mut schedule);
        let schedule = stage.wait(schedule, self.me);
        schedule.bodies[me].outcome?;
        take(&schedule.gathered);
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
    fn meet_if_all_called(&self, schedule: &mut Schedule) {
        let calls = schedule.bodies.iter().map(|body| match &body.state {
            State::Called(call) => Some(call),
            State::Ready | State::Ended => None,
        });
        let Some(calls) = calls.collect::<Option<Vec<_>>>() else { return };
        let latest_ns = schedule.bodies.iter().map(|body| body.at_ns).max().unwrap_or(0);
        let leave_ns = latest_ns.saturating_add(self.cluster.config().model.barrier_ns);
        self.cluster.meet(leave_ns);
        let outcome = gather(&calls).map(|gathered| schedule.gathered = gathered);
        schedule.end_calls(outcome, leave_ns);
    }
}

/// The kind and the arguments of one owner's collective call.
pub(super) struct Call {
    kind: Kind,
    /// The contribution; empty for a barrier.
    mine: Vec<u8>,
    /// The length of the result buffer, in bytes.
    room: usize,
}

/// The kinds of collective calls.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Barrier,
    AllGather,
    AllToAll,
}

/// Concatenates the contributions of all owners to a call, in the order of owners.
fn gather(calls: &[&Call]) -> Result<Vec<u8>, ExchangeError> {
    let Some(first) = calls.first() else { return Ok(Vec::new()) };
    let each = first.mine.len();
    let mut gathered = Vec::new();
    for (owner, call) in (0..).map(Owner).zip(calls) {
        if call.kind != first.kind {
            // The owners wait in different calls, so neither call can complete.
            return Err(ExchangeError::TimedOut { after_s: 0, missing: Some(owner) });
        }
        same_length(owner, call.mine.len(), each)?;
        match call.kind {
            Kind::Barrier => {}
            Kind::AllGather => same_length(owner, call.room, each * calls.len())?,
            Kind::AllToAll => {
                same_length(owner, call.room, each)?;
                same_length(owner, each, each / calls.len() * calls.len())?;
            }
        }
        gathered.extend_from_slice(&call.mine);
    }
    Ok(gathered)
}

fn same_length(owner: Owner, found: usize, expected: usize) -> Result<(), ExchangeError> {
    if found == expected {
        return Ok(());
    }
    let bytes = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
    Err(ExchangeError::LengthDiffers { owner, expected: bytes(expected), found: bytes(found) })
}
