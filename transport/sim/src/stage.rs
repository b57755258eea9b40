//! Runs blocking code on simulated owners: one thread for each owner, of which one runs at a time.
//!
//! Virtual time alone decides which thread runs. In every poll, and while it waits for the others,
//! an owner's thread hands over to the owner with the earliest time (of two with the same time, to
//! the one that has waited longer). So threads add no randomness: the same cluster and bodies
//! repeat a run step by step. A body must not wait for another body in a way that the stage does
//! not see.

mod call;
mod exchange;

use core::error::Error;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::io;
use std::panic::resume_unwind;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::vec::Vec;

use probeline_transport::{ExchangeError, Owner};

use crate::stage::call::Call;
use crate::{Cluster, Engine, OpenError, Turn};

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
pub fn run<R, F>(cluster: &Cluster, body: F) -> Result<Vec<R>, StageError>
where
    R: Send,
    F: Fn(Engine, StageExchange) -> R + Sync,
{
    let stage = Arc::new(Stage::new(cluster.clone()));
    let mut engines = Vec::new();
    for owner in (0..cluster.config().owners).map(Owner) {
        engines.push((owner, cluster.engine_with_turn(owner, stage.clone())?));
    }
    let (stage, body) = (&stage, &body);
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for (owner, engine) in engines {
            let registration = Registration { stage: Arc::clone(stage), owner };
            let act = move || {
                let exchange =
                    StageExchange::new(Arc::clone(&registration.stage), registration.owner);
                registration.stage.wait_for_turn(registration.owner).then(|| body(engine, exchange))
            };
            match thread::Builder::new().spawn_scoped(scope, act) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    stage.cancel();
                    return Err(StageError::Thread(error));
                }
            }
        }
        stage.begin();
        let joined: Vec<_> = threads.into_iter().map(thread::ScopedJoinHandle::join).collect();
        let results =
            joined.into_iter().map(|result| result.unwrap_or_else(|panic| resume_unwind(panic)));
        Ok(results.flatten().collect())
    })
}

/// Why [`run`] did not run any body.
#[derive(Debug)]
pub enum StageError {
    /// An engine cannot be opened.
    Open(OpenError),
    /// The operating system cannot start a thread.
    Thread(io::Error),
}

impl fmt::Display for StageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(error) => error.fmt(f),
            Self::Thread(error) => write!(f, "no thread for an owner: {error}; use fewer owners"),
        }
    }
}

impl Error for StageError {}

impl From<OpenError> for StageError {
    fn from(error: OpenError) -> Self {
        Self::Open(error)
    }
}

/// The scheduler of the bodies: their states, and which one runs.
struct Stage {
    cluster: Cluster,
    /// The earliest time of the waiting owners; the running owner need not hand over before it.
    horizon_ns: AtomicU64,
    cast: Mutex<Cast>,
    /// One condition variable for each owner, so that a hand-over wakes one thread.
    turns: Vec<Condvar>,
}

/// The scheduling state of all owners.
struct Cast {
    actors: Vec<Actor>,
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
struct Actor {
    /// The time at which it can continue.
    at_ns: u64,
    /// The number of its last turn.
    last_turn: u64,
    place: Place,
    /// The result of its last collective call. Each owner keeps its own, because a faster owner may
    /// have left the stage before this one takes the result.
    outcome: Result<(), ExchangeError>,
}

/// What an owner does, as far as scheduling is concerned.
enum Place {
    Ready,
    /// In a collective call that not all owners have made yet.
    Called(Call),
    Ended,
}

impl Stage {
    fn new(cluster: Cluster) -> Self {
        let owners = cluster.config().owners;
        let actor = |owner| Actor {
            at_ns: cluster.clock_ns(Owner(owner)),
            last_turn: 0,
            place: Place::Ready,
            outcome: Ok(()),
        };
        let cast = Cast {
            actors: (0..owners).map(actor).collect(),
            running: None,
            cancelled: false,
            given: 0,
            gathered: Vec::new(),
            broken: None,
        };
        Self {
            cluster,
            horizon_ns: AtomicU64::new(0),
            cast: Mutex::new(cast),
            turns: (0..owners).map(|_| Condvar::new()).collect(),
        }
    }

    /// Locks the cast. Bodies hold no lock while they run, so a panic leaves no partial state.
    fn cast(&self) -> MutexGuard<'_, Cast> {
        self.cast.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) {
        self.hand_over(&mut self.cast());
    }

    fn cancel(&self) {
        self.cast().cancelled = true;
        self.turns.iter().for_each(Condvar::notify_one);
    }

    /// Waits for the first turn of `owner`; returns whether its body may run.
    fn wait_for_turn(&self, owner: Owner) -> bool {
        !self.wait(self.cast(), owner).cancelled
    }

    fn wait<'a>(&self, mut cast: MutexGuard<'a, Cast>, owner: Owner) -> MutexGuard<'a, Cast> {
        let me = owner.0 as usize;
        while cast.running != Some(me) && !cast.cancelled {
            cast = self.turns[me].wait(cast).unwrap_or_else(PoisonError::into_inner);
        }
        cast
    }

    /// Gives the turn to the earliest owner that is ready, if there is one.
    fn hand_over(&self, cast: &mut Cast) {
        let before = cast.running;
        cast.running = cast.earliest(None);
        let Some(next) = cast.running else { return };
        cast.given += 1;
        cast.actors[next].last_turn = cast.given;
        let horizon_ns = cast.earliest(Some(next)).map_or(u64::MAX, |i| cast.actors[i].at_ns);
        self.horizon_ns.store(horizon_ns, Relaxed);
        if before != Some(next) {
            self.turns[next].notify_one();
        }
    }

    /// Marks the body of `owner` as returned: collective calls of the other owners now fail.
    fn leave(&self, owner: Owner) {
        let mut cast = self.cast();
        let me = owner.0 as usize;
        cast.actors[me].place = Place::Ended;
        let at_ns = self.cluster.clock_ns(owner);
        cast.end_calls(Err(ExchangeError::OwnerLost(owner)), at_ns);
        if cast.running == Some(me) {
            self.hand_over(&mut cast);
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
        let mut cast = self.cast();
        // An engine that outlived its body is polled outside the stage, without turns.
        if cast.running != Some(me) {
            return;
        }
        cast.actors[me].at_ns = until_ns;
        self.hand_over(&mut cast);
        drop(self.wait(cast, owner));
    }
}

impl Cast {
    fn earliest(&self, but: Option<usize>) -> Option<usize> {
        let actors = self.actors.iter().enumerate();
        actors
            .filter(|(i, actor)| matches!(actor.place, Place::Ready) && Some(*i) != but)
            .min_by_key(|(_, actor)| (actor.at_ns, actor.last_turn))
            .map(|(i, _)| i)
    }

    /// Completes the collective calls of all owners with `outcome`, at `at_ns` or later.
    fn end_calls(&mut self, outcome: Result<(), ExchangeError>, at_ns: u64) {
        if let (None, Err(error)) = (self.broken, outcome) {
            self.broken = Some(error);
        }
        for actor in &mut self.actors {
            if let Place::Called(_) = actor.place {
                actor.place = Place::Ready;
                actor.at_ns = actor.at_ns.max(at_ns);
                actor.outcome = outcome;
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
