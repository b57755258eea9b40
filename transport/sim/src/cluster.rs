//! The simulated machines: made once, handed out an engine at a time, and watched from outside.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;

use probeline_transport::Owner;
use spin::{Mutex, MutexGuard};

use crate::fabric::{Fabric, Windows};
use crate::{Config, ConfigError, Counters, Engine, Moment, OpenError};

/// Who runs next, where several callers share one cluster's virtual time.
///
/// An engine made with one calls it in every poll, holding no lock.
pub trait Turn: Send + Sync {
    /// Returns when nobody else would act before `until_ns`, which is when `owner` goes on.
    fn yield_until(&self, owner: Owner, until_ns: u64);
}

/// A handle on a simulated cluster; its clones are the same cluster.
///
/// Used from one thread, or on the stage, everything that happens follows from the configuration
/// and the calls made, and so does [`Cluster::trace_hash`].
#[derive(Clone)]
pub struct Cluster {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    config: Config,
    windows: Windows,
    fabric: Mutex<Fabric>,
}

impl Shared {
    pub(crate) fn fabric(&self) -> MutexGuard<'_, Fabric> {
        self.fabric.lock()
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn window(&self, owner: Owner) -> &[AtomicU64] {
        &self.windows[owner.0 as usize]
    }
}

impl Cluster {
    /// Makes a cluster whose words are all 0, at time 0. All memory is allocated here, and each
    /// engine's slots when it is handed out.
    ///
    /// # Errors
    /// The first value of `config` that is out of range.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        let window = |_| (0..config.window_words).map(|_| AtomicU64::new(0)).collect();
        let windows: Windows = (0..config.owners).map(window).collect::<Vec<Box<_>>>().into();
        let fabric = Mutex::new(Fabric::new(&config, Arc::clone(&windows)));
        Ok(Self { shared: Arc::new(Shared { config, windows, fabric }) })
    }

    /// The engine of `owner`; each is handed out once. When it is dropped, the owner is lost.
    ///
    /// # Errors
    /// There is no such owner, or its engine was handed out before.
    pub fn engine(&self, owner: Owner) -> Result<Engine, OpenError> {
        self.open(owner, None)
    }

    /// As [`engine`](Self::engine); the engine lets `turn` decide, in every poll, when it goes on.
    ///
    /// # Errors
    /// As [`engine`](Self::engine).
    pub fn engine_with_turn(&self, owner: Owner, turn: Arc<dyn Turn>) -> Result<Engine, OpenError> {
        self.open(owner, Some(turn))
    }

    fn open(&self, owner: Owner, turn: Option<Arc<dyn Turn>>) -> Result<Engine, OpenError> {
        self.shared.fabric().take(owner)?;
        Engine::new(owner, Arc::clone(&self.shared), turn)
    }

    /// What the cluster was made of.
    #[must_use]
    pub fn config(&self) -> &Config {
        self.shared.config()
    }

    /// `owner` dies at its present time: its own engine is flushed and dead, and the others'
    /// engines report it as lost after what they have in flight. Does nothing for an owner that
    /// is unknown or lost already.
    pub fn kill(&self, owner: Owner) {
        self.shared.fabric().lose(owner);
    }

    /// Whose poll will report something first, and when that is: for drivers that poll several
    /// engines in the order of virtual time. None where nothing is in flight.
    #[must_use]
    pub fn next_delivery(&self) -> Option<(Owner, u64)> {
        self.shared.fabric().next_delivery()
    }

    /// The latest virtual time that any engine has polled at, in nanoseconds: all effects until
    /// then have happened.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.shared.fabric().now_ns
    }

    /// Brings every engine to `at_ns`, unless it is later already, as a barrier does: all effects
    /// until then have happened.
    pub fn meet(&self, at_ns: u64) {
        self.shared.fabric().meet(at_ns);
    }

    /// Lets every effect happen that is still to come, late ones included, and says when the last
    /// one did. Completions stay to be polled.
    pub fn settle(&self) -> u64 {
        let mut fabric = self.shared.fabric();
        fabric.settle();
        fabric.now_ns
    }

    /// What has happened so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.shared.fabric().counters
    }

    /// A hash of everything that has happened: time, owner, operation, word and value of each
    /// step. Two runs with the same hash did the same.
    #[must_use]
    pub fn trace_hash(&self) -> u64 {
        self.shared.fabric().trace.hash()
    }

    /// The last [`Config::trace_events`] steps, oldest first.
    #[must_use]
    pub fn trace(&self) -> Vec<Moment> {
        self.shared.fabric().trace.moments()
    }

    #[cfg(feature = "std")]
    pub(crate) fn clock_ns(&self, owner: Owner) -> u64 {
        self.shared.fabric().clock_ns(owner)
    }
}
