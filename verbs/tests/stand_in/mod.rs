//! Stand-in RDMA devices behind libibverbs' function table, which behave as the specification and
//! the kernel define.
//!
//! A [`Fabric`] connects the [`Machine`]s of one test, each used by one thread. Its devices check
//! keys, ranges, access rights, states, limits and the order of destruction, as real ones do. They
//! record violations of the interface, which make [`Fabric::judge`] fail.

mod calls;
mod data_path;
mod fabric;
mod objects;
mod pair;
mod setup;

use core::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fabric::State;
pub(crate) use pair::Seen;
use probeline_verbs::{Context, DeviceList, Library};
use probeline_verbs_sys::Verbs;
#[allow(unused_imports, reason = "not every test names them all")]
pub(crate) use setup::{Atomics, Device, Faults, Gid, Setup};

/// The number of polls after which a request without a responder fails.
const TRIES: u32 = 50;

/// The network of the machines of a test.
#[derive(Clone, Default)]
pub(crate) struct Fabric(Arc<Mutex<State>>);

/// One machine of a fabric, with its own devices.
#[derive(Clone)]
pub(crate) struct Machine {
    fabric: Fabric,
    me: usize,
}

thread_local! {
    /// The machine whose devices the library lists in this thread.
    static HERE: RefCell<Option<Machine>> = const { RefCell::new(None) };
}

impl Fabric {
    /// Creates a fabric that executes requests when they are posted.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Returns a fabric that executes requests during polls, in an order and number that `seed`
    /// determines. The requests of one queue pair stay in order.
    pub(crate) fn lazy(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State { random: Some(seed), ..State::default() })))
    }

    /// Adds a machine.
    pub(crate) fn machine(&self, setup: Setup) -> Machine {
        let mut state = self.state();
        state.machines.push((setup, Faults::default()));
        Machine { fabric: self.clone(), me: state.machines.len() - 1 }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the numbers of objects that exist: contexts, domains, regions, completion queues and
    /// queue pairs.
    pub(crate) fn alive(&self) -> [usize; 5] {
        self.state().alive()
    }

    /// Returns the number of objects that were created.
    pub(crate) fn created(&self) -> u32 {
        self.state().created
    }

    /// Panics if the interface was violated.
    pub(crate) fn judge(&self) {
        let state = self.state();
        assert!(state.violations.is_empty(), "{:#?}", state.violations);
    }

    /// Panics if the interface was violated or an object exists.
    pub(crate) fn judge_empty(&self) {
        self.judge();
        assert_eq!(self.alive(), [0; 5], "contexts, domains, regions, completion queues, pairs");
    }

    /// Records every request from now on.
    pub(crate) fn watch(&self) {
        self.state().seen = Some(Vec::new());
    }

    /// Returns the requests recorded since the last call.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.state().seen.as_mut().map(core::mem::take).unwrap_or_default()
    }
}

impl Machine {
    /// Returns the library, which lists the devices of this machine in this thread from now on.
    pub(crate) fn libibverbs(&self) -> Library {
        HERE.set(Some(self.clone()));
        // SAFETY: `symbol` returns functions that have the signatures of their names and behave as
        // their manual pages specify.
        unsafe { Library::from_verbs(Verbs::from_symbols(calls::symbol).unwrap()) }
    }

    /// Opens the first device.
    pub(crate) fn open_device(&self) -> Context {
        DeviceList::new(self.libibverbs()).unwrap().iter().next().unwrap().open().unwrap()
    }

    /// Changes the faults of this machine.
    pub(crate) fn break_it(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.fabric.state().machines[self.me].1);
    }
}
