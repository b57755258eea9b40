//! Sets of the same keys that a program could use within one process instead of the table.
//!
//! All have the same hasher, as fast as there is for integers, and get their capacity when created.

use std::sync::{Arc, Mutex, PoisonError};

use foldhash::fast::FixedState;

/// A set. Both methods take a slice of keys, so that a lock or a guard costs nothing.
pub(crate) trait Set: Send + Sync {
    /// Inserts keys; returns how many the set did not hold.
    fn insert(&self, keys: &[u64]) -> usize;

    /// Finds keys; returns how many the set holds.
    fn find(&self, keys: &[u64]) -> usize;
}

/// A kind of set.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// Whether threads can use it at the same time.
    pub(crate) is_concurrent: bool,
    /// Creates an empty set with room for this number of keys.
    pub(crate) create: fn(usize) -> Arc<dyn Set>,
}

pub(crate) const HASHBROWN: &str = "hashbrown";

/// All kinds, in the order of measurements.
pub(crate) const KINDS: [Kind; 5] = [
    Kind {
        name: HASHBROWN,
        is_concurrent: false,
        create: |keys| {
            let set = hashbrown::HashSet::with_capacity_and_hasher(keys, FixedState::default());
            // Locked once for each slice of keys.
            Arc::new(Calls(
                Mutex::new(set),
                |set, keys| {
                    let mut set = set.lock().unwrap_or_else(PoisonError::into_inner);
                    count(keys, |key| set.insert(key))
                },
                |set, keys| {
                    let set = set.lock().unwrap_or_else(PoisonError::into_inner);
                    count(keys, |key| set.contains(&key))
                },
            ))
        },
    },
    Kind {
        name: "dashmap",
        is_concurrent: true,
        create: |keys| {
            Arc::new(Calls(
                dashmap::DashSet::with_capacity_and_hasher(keys, FixedState::default()),
                |set, keys| count(keys, |key| set.insert(key)),
                |set, keys| count(keys, |key| set.contains(&key)),
            ))
        },
    },
    Kind {
        name: "scc HashSet",
        is_concurrent: true,
        create: |keys| {
            Arc::new(Calls(
                scc::HashSet::with_capacity_and_hasher(keys, FixedState::default()),
                |set, keys| count(keys, |key| set.insert_sync(key).is_ok()),
                |set, keys| count(keys, |key| set.contains_sync(&key)),
            ))
        },
    },
    // Reads without locks.
    Kind {
        name: "scc HashIndex",
        is_concurrent: true,
        create: |keys| {
            Arc::new(Calls(
                scc::HashIndex::with_capacity_and_hasher(keys, FixedState::default()),
                |set, keys| count(keys, |key| set.insert_sync(key, ()).is_ok()),
                |set, keys| count(keys, |key| set.contains(&key)),
            ))
        },
    },
    // Pinned once for each slice of keys, as its documentation advises.
    Kind {
        name: "papaya",
        is_concurrent: true,
        create: |keys| {
            Arc::new(Calls(
                papaya::HashSet::with_capacity_and_hasher(keys, FixedState::default()),
                |set, keys| {
                    let set = set.pin();
                    count(keys, |key| set.insert(key))
                },
                |set, keys| {
                    let set = set.pin();
                    count(keys, |key| set.contains(&key))
                },
            ))
        },
    },
];

fn count(keys: &[u64], mut holds: impl FnMut(u64) -> bool) -> usize {
    keys.iter().filter(|key| holds(**key)).count()
}

/// A set, how keys are inserted, and how they are found.
struct Calls<S>(S, fn(&S, &[u64]) -> usize, fn(&S, &[u64]) -> usize);

impl<S: Send + Sync> Set for Calls<S> {
    fn insert(&self, keys: &[u64]) -> usize {
        self.1(&self.0, keys)
    }

    fn find(&self, keys: &[u64]) -> usize {
        self.2(&self.0, keys)
    }
}
