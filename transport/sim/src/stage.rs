//! Blocking bodies on simulated owners: a thread for each, of which one runs at a time.
//!
//! Who runs is decided by virtual time alone: in every poll, and while it waits for the others,
//! an owner's thread hands over to the owner whose time is earliest (of two at one time, to the
//! one that has waited longer). So threads change nothing: the same cluster and bodies do the
//! same, step by step. A body must not wait for another in any way that the stage does not see.

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

/// Runs `body` once for each owner of `cluster`, with its engine and its exchange, and gives
/// what they returned, in the order of owners.
///
/// A body that returns early drops its engine: the others' barriers and polls then say that its
/// owner is lost. A body that panics does the same, and the panic goes on here once all bodies
/// have ended.
///
/// # Errors
/// An engine was taken before, or a thread cannot be started. No body has run then, but engines
/// were handed out: make a new cluster.
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
            let seat = Seat { stage: Arc::clone(stage), owner };
            let act = move || {
                let exchange = StageExchange::new(Arc::clone(&seat.stage), seat.owner);
                seat.stage.wait_for_turn(seat.owner).then(|| body(engine, exchange))
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
        let ends: Vec<_> = threads.into_iter().map(thread::ScopedJoinHandle::join).collect();
        let results = ends.into_iter().map(|end| end.unwrap_or_else(|panic| resume_unwind(panic)));
        Ok(results.flatten().collect())
    })
}

/// Why nothing was run.
#[derive(Debug)]
pub enum StageError {
    /// An engine cannot be had.
    Open(OpenError),
    /// The operating system gave no thread.
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

/// Who is where, and whose turn it is.
struct Stage {
    cluster: Cluster,
    /// The earliest time of those who do not run: before it, the one who runs need not ask.
    horizon_ns: AtomicU64,
    cast: Mutex<Cast>,
    /// One for each owner, so that a hand-over wakes one thread.
    turns: Vec<Condvar>,
}

struct Cast {
    actors: Vec<Actor>,
    /// Whose turn it is; nobody's before the first and after the last.
    running: Option<usize>,
    /// No body is to run.
    cancelled: bool,
    /// Turns given so far.
    given: u64,
    /// What an all-gather has gathered.
    gathered: Vec<u8>,
    /// Why there can be no more collective calls.
    broken: Option<ExchangeError>,
}

struct Actor {
    /// When it can go on.
    at_ns: u64,
    /// The number of its last turn.
    last_turn: u64,
    place: Place,
    /// How its last collective call ended. Kept for each: before a slow one has taken it, a quick
    /// one may have left for good.
    outcome: Result<(), ExchangeError>,
}

enum Place {
    Ready,
    /// In a collective call, which not everybody has made yet.
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

    /// No lock is held while a body runs, so a panic leaves nothing half done.
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

    /// Whether the body is to run at all; if so, it is its turn.
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

    /// Gives the turn to the earliest of those who can go on, if any.
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

    /// The body of `owner` is over: those who wait for it wait in vain.
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
        // Set by the hand-over that gave this thread its turn; nobody else has run since.
        if until_ns < self.horizon_ns.load(Relaxed) {
            return;
        }
        let me = owner.0 as usize;
        let mut cast = self.cast();
        // An engine that outlived its body is polled from outside, where nobody takes turns.
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

    /// Everybody in a collective call leaves it with `outcome`, at `at_ns` or later.
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

/// An owner's place on the stage, left when its body ends, by a panic too.
struct Seat {
    stage: Arc<Stage>,
    owner: Owner,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.stage.leave(self.owner);
    }
}
