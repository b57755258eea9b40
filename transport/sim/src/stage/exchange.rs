//! The collective operations of bodies on a stage.

use std::sync::Arc;
use std::vec::Vec;

use probeline_transport::{Call, Exchange, ExchangeError, Owner, Term};

use super::{Schedule, Stage, State};

/// The exchange of one owner on a stage.
///
/// All owners leave a call at the time of the last one's arrival plus the model's `barrier_ns`. A
/// call fails with [`ExchangeError::OwnerLost`] once a body has returned, and with
/// [`ExchangeError::CallsDiffer`] if not all owners make the same call. All owners receive the error,
/// and all later calls fail too.
pub struct StageExchange {
    stage: Arc<Stage>,
    me: Owner,
    /// The number of calls that this owner has begun.
    calls: u64,
}

impl StageExchange {
    pub(super) fn new(stage: Arc<Stage>, me: Owner) -> Self {
        Self { stage, me, calls: 0 }
    }

    /// Makes a call, waits for the other owners, and passes the gathered bytes to `take`.
    fn call(
        &mut self,
        call: Call,
        mine: &[u8],
        room: Option<usize>,
        take: impl FnOnce(&[u8]),
    ) -> Result<(), ExchangeError> {
        self.calls += 1;
        let call = call.numbered(self.calls);
        let contribution = Contribution { call, mine: mine.to_vec(), room };
        let stage = &self.stage;
        let me = self.me.0 as usize;
        let mut schedule = stage.lock();
        if let Some(error) = schedule.broken {
            return Err(error);
        }
        schedule.bodies[me].at_ns = stage.cluster.clock_ns(self.me);
        schedule.bodies[me].state = State::Called(contribution);
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

    fn calls(&self) -> u64 {
        self.calls
    }

    fn all_gather(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), ExchangeError> {
        let (call, room) = (const { Call::new("all_gather") }, Some(all.len()));
        self.call(call, mine, room, |gathered| all.copy_from_slice(gathered))
    }

    fn barrier(&mut self) -> Result<(), ExchangeError> {
        self.call(const { Call::new("barrier") }, &[], None, |_| {})
    }

    fn reduce(&mut self, call: Call, terms: &mut [Term]) -> Result<(), ExchangeError> {
        let me = self.me.0 as usize;
        let mine: Vec<u8> = terms.iter().flat_map(|term| term.to_bytes()).collect();
        self.call(call, &mine, None, |gathered| {
            let others = gathered.chunks_exact(mine.len().max(1)).enumerate();
            for (_, theirs) in others.filter(|(owner, _)| *owner != me) {
                Term::add_all(terms, theirs);
            }
        })
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
        self.cluster.advance_to(leave_ns);
        let outcome = gather(&calls).map(|gathered| schedule.gathered = gathered);
        schedule.end_calls(outcome, leave_ns);
    }
}

/// The contribution of an owner to a collective call.
pub(super) struct Contribution {
    call: Call,
    mine: Vec<u8>,
    /// The room for the contributions of all owners, if they are gathered.
    room: Option<usize>,
}

/// Concatenates the contributions of all owners to a call, in the order of owners.
fn gather(contributions: &[&Contribution]) -> Result<Vec<u8>, ExchangeError> {
    let Some(first) = contributions.first() else { return Ok(Vec::new()) };
    let (each, owners) = (first.mine.len(), contributions.len());
    let mut gathered = Vec::new();
    for (owner, contribution) in (0..).map(Owner).zip(contributions) {
        let (expected, found) = (first.call, contribution.call);
        if found != expected {
            return Err(ExchangeError::CallsDiffer { owner, expected, found });
        }
        ExchangeError::check_length(owner, contribution.mine.len(), each)?;
        if let Some(room) = contribution.room {
            ExchangeError::check_length(owner, room, each * owners)?;
        }
        gathered.extend_from_slice(&contribution.mine);
    }
    Ok(gathered)
}
