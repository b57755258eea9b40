//! Sets of the same keys that a program could use within one process instead of the table.
//!
//! All have the same hasher, as fast as there is for integers, and get their capacity when created.

use std::sync::{Arc, Mutex, PoisonError};

use foldhash::fast::FixedState;

use super::keys::Key;

/// A set that inserts keys, or finds them; returns how many it did not hold, or holds. It gets many
/// keys at once, so that a lock or a guard costs nothing.
pub(crate) type Set<K> = Arc<dyn Fn(Do, &[K]) -> usize + Send + Sync>;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Do {
    Insert,
    Find,
}

/// A kind of set.
pub(crate) struct Peer<K> {
    pub(crate) name: &'static str,
    /// Whether threads can use it at the same time.
    pub(crate) is_concurrent: bool,
    /// Creates an empty set with room for this number of keys.
    pub(crate) create: fn(usize) -> Set<K>,
}

/// Returns all kinds, in the order of measurements.
pub(crate) fn peers<K: Key>() -> [Peer<K>; 5] {
    [
        Peer { name: "hashbrown", is_concurrent: false, create: hashbrown },
        Peer { name: "dashmap", is_concurrent: true, create: dashmap },
        Peer { name: "scc HashSet", is_concurrent: true, create: scc_set },
        Peer { name: "scc HashIndex", is_concurrent: true, create: scc_index },
        Peer { name: "papaya", is_concurrent: true, create: papaya },
    ]
}

fn count<K: Key>(keys: &[K], mut holds: impl FnMut(K) -> bool) -> usize {
    keys.iter().filter(|key| holds(**key)).count()
}

/// Creates a set that is locked once for each slice of keys.
fn hashbrown<K: Key>(keys: usize) -> Set<K> {
    let set = hashbrown::HashSet::with_capacity_and_hasher(keys, FixedState::default());
    let set = Mutex::new(set);
    Arc::new(move |what, keys: &[K]| {
        let mut set = set.lock().unwrap_or_else(PoisonError::into_inner);
        match what {
            Do::Insert => count(keys, |key| set.insert(key)),
            Do::Find => count(keys, |key| set.contains(&key)),
        }
    })
}

fn dashmap<K: Key>(keys: usize) -> Set<K> {
    let set = dashmap::DashSet::with_capacity_and_hasher(keys, FixedState::default());
    Arc::new(move |what, keys: &[K]| match what {
        Do::Insert => count(keys, |key| set.insert(key)),
        Do::Find => count(keys, |key| set.contains(&key)),
    })
}

fn scc_set<K: Key>(keys: usize) -> Set<K> {
    let set = scc::HashSet::with_capacity_and_hasher(keys, FixedState::default());
    Arc::new(move |what, keys: &[K]| match what {
        Do::Insert => count(keys, |key| set.insert_sync(key).is_ok()),
        Do::Find => count(keys, |key| set.contains_sync(&key)),
    })
}

/// Reads without locks.
fn scc_index<K: Key>(keys: usize) -> Set<K> {
    let set = scc::HashIndex::with_capacity_and_hasher(keys, FixedState::default());
    Arc::new(move |what, keys: &[K]| match what {
        Do::Insert => count(keys, |key| set.insert_sync(key, ()).is_ok()),
        Do::Find => count(keys, |key| set.contains(&key)),
    })
}

/// Creates a set that is pinned once for each slice of keys, as its documentation advises.
fn papaya<K: Key>(keys: usize) -> Set<K> {
    let set = papaya::HashSet::with_capacity_and_hasher(keys, FixedState::default());
    Arc::new(move |what, keys: &[K]| {
        let set = set.pin();
        match what {
            Do::Insert => count(keys, |key| set.insert(key)),
            Do::Find => count(keys, |key| set.contains(&key)),
        }
    })
}
