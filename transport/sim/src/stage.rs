//! Runs blocking code on simulated owners: one thread for each owner, of which one runs at a time.
//!
//! Virtual time alone decides which thread runs. In every poll, and while it waits for the others,
//! an owner's thread hands over to the owner with the earliest time (of two with the same time, to
//! the one that has waited longer). So threads add no randomness: the same cluster and bodies
//! repeat a run step by step. A body must not wait for another body in a way that the stage does
//! not see.
//!
//! ```
//! use probeline_sim::{Cluster, Config, stage};
//! use probeline_transport::{Exchange, Transport};
//!
//! let cluster = Cluster::new(Config { owners: 2, ..Config::default() })?;
//! let owners = stage::run(&cluster, |engine, mut exchange| {
//!     exchange.barrier()?;
//!     Ok::<_, probeline_transport::ExchangeError>(engine.geometry().owners)
//! })?;
//! assert_eq!(owners, [Ok(2), Ok(2)]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod exchange;

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::panic::resume_unwind;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::vec::Vec;

use probeline_transport::{ExchangeError, Owner, SetupError};

use crate::cluster::Turn;
use crate::{Cluster, Engine};

use exchange::Contribution;
pub use exchange::StageExchange;

/// Runs `body` once for each owner of `cluster`, with its engine and its exchange, and returns the
/// results in the order of owners.
///
/// A body that returns early drops its engine: the others' barriers and polls then report that its
/// owner is lost. A body that panics does the same, and `run` resumes the panic after all bodies
/// have returned.
///
/// # Errors
/// Returns an error if an engine was opened before or a thread cannot be started. No body has run
/// then, but engines were opened: create a new cluster.
pub fn run<R, F>(cluster: &Cluster, body: F) -> Result<Vec<R>, SetupError>
where
    R: Send,
    F: Fn(Engine, StageExchange) -> R + Sync,
{
    let stage = Arc::new(Stage::new(cluster.clone()));
    let mut engines = Vec::new();
    for owner in (0..cluster.config().owners).map(Owner) {
        engines.push((owner, cluster.open(owner, Some(stage.clone()))?));
    }
    let (stage, body) = (&stage, &body);
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for (owner, engine) in engines {
            let registration = Registration { stage: Arc::clone(stage), owner };
            let act = move || {
                let Registration { stage, owner } = &registration;
                let exchange = StageExchange::new(Arc::clone(stage), *owner);
                let may_run = !stage.wait(stage.lock(), *owner).cancelled;
                may_run.then(|| body(engine, exchange))
            };
            match thread::Builder::new().spawn_scoped(scope, act) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    stage.cancel();
                    let (errno, advice) = (error.raw_os_error().unwrap_or(0), "use fewer owners");
                    return Err(SetupError::System { call: "starting a thread", errno, advice });
                }
            }
        }
        stage.hand_over(&mut stage.lock());
        let joined: Vec<_> = threads.into_iter().map(thread::ScopedJoinHandle::join).collect();
        let results =
            joined.into_iter().map(|result| result.unwrap_or_else(|panic| resume_unwind(panic)));
        Ok(results.flatten().collect())
    })
}

/// The scheduler of the bodies: their states, and which one runs.
struct Stage {
    cluster: Cluster,
    /// The earliest time of the waiting owners, or 0 while one of them watches its window; the running owner need not hand over before it.
    horizon_ns: AtomicU64,
    schedule: Mutex<Schedule>,
    /// One condition variable for each owner, so that a hand-over wakes one thread.
    turns: Vec<Condvar>,
}

/// The scheduling state of all owners.
struct Schedule {
    bodies: Vec<Body>,
    /// The owner that runs; none before the first body and after the last.
    running: Option<usize>,
    /// No body may run.
    cancelled: bool,
    /// The number of turns given so far.
    given: u64,
    /// The result of the last all-gather.
    gathered: Vec<u8>,
    /// The error of all further collective calls, after one has failed.
    broken: Option<ExchangeError>,
}

/// The scheduling state of one owner.
struct Body {
    /// The time at which it can continue.
    at_ns: u64,
    /// The number of its last turn.
    last_turn: u64,
    /// It continues earlier if its window changes.
    watches: bool,
    /// The time since which it watches.
    since_ns: u64,
    state: State,
    /// The result of its last collective call. Each owner keeps its own, because a faster owner may
    /// have left the stage before this one takes the result.
    outcome: Result<(), ExchangeError>,
}

enum State {
    Ready,
    /// The owner is in a collective call that not all owners have made yet.
    Called(Contribution),
    Ended,
}

impl Stage {
    fn new(cluster: Cluster) -> Self {
        let owners = cluster.config().owners;
        let body = |owner| Body {
            at_ns: cluster.clock_ns(Owner(owner)),
            last_turn: 0,
            watches: false,
            since_ns: 0,
            state: State::Ready,
            outcome: Ok(()),
        };
        let schedule = Schedule {
            bodies: (0..owners).map(body).collect(),
            running: None,
            cancelled: false,
            given: 0,
            gathered: Vec::new(),
            broken: None,
        };
        Self {
            cluster,
            horizon_ns: AtomicU64::new(0),
            schedule: Mutex::new(schedule),
            turns: (0..owners).map(|_| Condvar::new()).collect(),
        }
    }

    /// Locks the schedule. Bodies hold no lock while they run, so a panic leaves no partial state.
    fn lock(&self) -> MutexGuard<'_, Schedule> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cancel(&self) {
        self.lock().cancelled = true;
        self.turns.iter().for_each(Condvar::notify_one);
    }

    /// Waits for the next turn of `owner`, or until the stage is cancelled.
    fn wait<'a>(
        &self,
        schedule: MutexGuard<'a, Schedule>,
        owner: Owner,
    ) -> MutexGuard<'a, Schedule> {
        let me = owner.0 as usize;
        let waits = |schedule: &mut Schedule| schedule.running != Some(me) && !schedule.cancelled;
        self.turns[me].wait_while(schedule, waits).unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the turn to the earliest owner that is ready, if there is one.
    fn hand_over(&self, schedule: &mut Schedule) {
        let before = schedule.running;
        let has_watchers = schedule.bodies.iter().any(|body| body.watches);
        if has_watchers {
            self.cluster.for_each_effect(|(owner, at_ns)| {
                let body = &mut schedule.bodies[owner.0 as usize];
                if body.watches {
                    body.at_ns = body.at_ns.min(at_ns.max(body.since_ns));
                }
            });
        }
        schedule.running = schedule.earliest(None);
        let Some(next) = schedule.running else { return };
        schedule.given += 1;
        schedule.bodies[next].last_turn = schedule.given;
        let second = schedule.earliest(Some(next));
        let horizon_ns = second.map_or(u64::MAX, |second| schedule.bodies[second].at_ns);
        // What the owner posts may wake another one before the present horizon.
        self.horizon_ns.store(if has_watchers { 0 } else { horizon_ns }, Relaxed);
        if before != Some(next) {
            self.turns[next].notify_one();
        }
    }

    /// Marks the body of `owner` as returned: collective calls of the other owners now fail.
    fn leave(&self, owner: Owner) {
        let mut schedule = self.lock();
        let me = owner.0 as usize;
        schedule.bodies[me].state = State::Ended;
        let at_ns = self.cluster.clock_ns(owner);
        schedule.end_calls(Err(ExchangeError::OwnerLost(owner)), at_ns);
        if schedule.running == Some(me) {
            self.hand_over(&mut schedule);
        }
    }
}

impl Turn for Stage {
    fn yield_until(&self, owner: Owner, until_ns: u64) {
        // The hand-over that started this thread set the horizon; no other thread has run since.
        if until_ns < self.horizon_ns.load(Relaxed) {
            return;
        }
        let me = owner.0 as usize;
        let mut schedule = self.lock();
        // An engine that outlived its body is polled outside the stage, without turns.
        if schedule.running == Some(me) {
            schedule.bodies[me].at_ns = until_ns;
            self.hand_over(&mut schedule);
            drop(self.wait(schedule, owner));
        }
    }

    fn watch_until(&self, owner: Owner, until_ns: u64) -> u64 {
        let me = owner.0 as usize;
        let mut schedule = self.lock();
        if schedule.running != Some(me) {
            return until_ns;
        }
        let since_ns = self.cluster.clock_ns(owner);
        let body = &mut schedule.bodies[me];
        (body.at_ns, body.since_ns, body.watches) = (until_ns, since_ns, true);
        self.hand_over(&mut schedule);
        let mut schedule = self.wait(schedule, owner);
        schedule.bodies[me].watches = false;
        schedule.bodies[me].at_ns
    }
}

impl Schedule {
    fn earliest(&self, but: Option<usize>) -> Option<usize> {
        let ready = self
            .bodies
            .iter()
            .enumerate()
            .filter(|(owner, body)| matches!(body.state, State::Ready) && Some(*owner) != but);
        ready.min_by_key(|(_, body)| (body.at_ns, body.last_turn)).map(|(owner, _)| owner)
    }

    /// Completes the collective calls of all owners with `outcome`, at `at_ns` or later.
    fn end_calls(&mut self, outcome: Result<(), ExchangeError>, at_ns: u64) {
        self.broken = self.broken.or(outcome.err());
        for body in &mut self.bodies {
            if let State::Called(_) = body.state {
                body.state = State::Ready;
                body.at_ns = body.at_ns.max(at_ns);
                body.outcome = outcome;
            }
        }
    }
}

/// An owner's registration on the stage, removed when its body returns or panics.
struct Registration {
    stage: Arc<Stage>,
    owner: Owner,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.stage.leave(self.owner);
    }
}
