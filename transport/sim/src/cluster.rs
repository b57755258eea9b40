//! The handle on the simulated machines: it opens engines and observes the whole cluster.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;

use probeline_transport::{Owner, SetupError};
use spin::Mutex;

use crate::fabric::{Fabric, Windows};
use crate::rng::mix;
use crate::{Config, Counters, Engine};

/// Decides which of several callers that share one cluster's virtual time runs next.
///
/// An engine opened with a `Turn` calls it in every poll, and holds no lock meanwhile.
pub(crate) trait Turn: Send + Sync {
    /// Blocks until no other owner would act before `until_ns`, the time at which `owner`
    /// continues.
    fn yield_until(&self, owner: Owner, until_ns: u64);

    /// Yields as [`yield_until`](Self::yield_until), but no longer than until an operation changes the window
    /// of `owner`. Returns the time at which it continues.
    fn watch_until(&self, owner: Owner, until_ns: u64) -> u64;
}

/// A handle on a simulated cluster; its clones share the same cluster.
///
/// A run is deterministic if one thread makes all calls, or if it runs on the stage. The
/// configuration and the calls then determine every event, and so [`Cluster::trace_hash`].
#[derive(Clone)]
pub struct Cluster {
    shared: Arc<Shared>,
}

/// The state that the handles and engines of a cluster share.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) windows: Windows,
    pub(crate) fabric: Mutex<Fabric>,
}

impl Cluster {
    /// Creates a cluster at time 0 whose words are all 0. It allocates all memory except the slots
    /// of an engine, which are allocated when the engine is opened.
    ///
    /// # Errors
    /// Returns an error for the first value of `config` that is out of range.
    pub fn new(config: Config) -> Result<Self, SetupError> {
        config.check()?;
        let window = |_| (0..config.window_words).map(|_| AtomicU64::new(0)).collect();
        let windows: Windows = (0..config.owners).map(window).collect::<Vec<Box<_>>>().into();
        let fabric = Mutex::new(Fabric::new(&config, Arc::clone(&windows)));
        Ok(Self { shared: Arc::new(Shared { config, windows, fabric }) })
    }

    /// Opens the engine of `owner`, once for each owner. Dropping the engine loses the owner.
    ///
    /// # Errors
    /// Returns an error if there is no such owner or its engine was opened before.
    pub fn engine(&self, owner: Owner) -> Result<Engine, SetupError> {
        self.open(owner, None)
    }

    /// Opens an engine as [`engine`](Self::engine) does; `turn` decides in every poll when it
    /// continues.
    pub(crate) fn open(
        &self,
        owner: Owner,
        turn: Option<Arc<dyn Turn>>,
    ) -> Result<Engine, SetupError> {
        self.shared.fabric.lock().take(owner)?;
        Engine::new(owner, Arc::clone(&self.shared), turn)
    }

    /// Returns the configuration that the cluster was created with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// Kills `owner` at its present time: its own engine is flushed and dead, and the other engines
    /// report it as lost after what they have in flight. Does nothing if the owner is unknown or
    /// already lost.
    pub fn kill(&self, owner: Owner) {
        self.shared.fabric.lock().lose(owner);
    }

    /// Returns the owner whose poll reports something first, and the virtual time of that poll.
    /// Returns `None` if nothing is in flight. Drivers that poll several engines use it to keep the
    /// order of virtual time.
    #[must_use]
    pub fn next_delivery(&self) -> Option<(Owner, u64)> {
        self.shared.fabric.lock().next_delivery()
    }

    /// Returns the latest virtual time at which any engine has polled, in nanoseconds. All effects
    /// up to that time have happened.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.shared.fabric.lock().now_ns
    }

    /// Advances every engine to `at_ns`, unless it is later already, as a barrier does. All effects
    /// up to that time have happened.
    pub fn advance_to(&self, at_ns: u64) {
        self.shared.fabric.lock().advance_to(at_ns);
    }

    /// Applies every outstanding effect, late ones included, and returns the time of the last one
    /// in nanoseconds. Completions remain to be polled.
    pub fn apply_outstanding(&self) -> u64 {
        let mut fabric = self.shared.fabric.lock();
        fabric.apply_outstanding();
        fabric.now_ns
    }

    /// Returns the counts of all events so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.shared.fabric.lock().counters
    }

    /// Returns a hash of every event so far: its time, owner, operation, word and value. Two runs
    /// with the same hash did the same.
    #[must_use]
    pub fn trace_hash(&self) -> u64 {
        mix(self.shared.fabric.lock().trace_hash)
    }

    #[cfg(feature = "std")]
    pub(crate) fn clock_ns(&self, owner: Owner) -> u64 {
        self.shared.fabric.lock().clock_ns(owner)
    }

    /// Visits the times at which operations in flight will change windows, and their owners.
    #[cfg(feature = "std")]
    pub(crate) fn for_each_effect(&self, visit: impl FnMut((Owner, u64))) {
        self.shared.fabric.lock().effects().for_each(visit);
    }
}
