//! Sets of the same keys that a program could use within one process instead of the table.
//!
//! All have the same hasher, as fast as there is for integers, and get their capacity when created.

use core::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

/// A folded multiplication: the halves of the product with an odd number, combined. The fastest
/// hashers of integers do this; it mixes all bits, of which these sets use the highest and the
/// lowest.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fold(u64);

/// Odd, without a pattern of bits: the fraction of the golden ratio.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for Fold {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "takes the halves")]
    fn write_u64(&mut self, number: u64) {
        let product = u128::from(number ^ self.0) * u128::from(FACTOR);
        self.0 = (product as u64) ^ (product >> 64) as u64;
    }
}

type Hash = BuildHasherDefault<Fold>;

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
    kind(HASHBROWN, false, |keys| {
        Arc::new(Mutex::new(Hashbrown::with_capacity_and_hasher(keys, Hash::default())))
    }),
    kind("dashmap", true, |keys| {
        Arc::new(Dashmap::with_capacity_and_hasher(keys, Hash::default()))
    }),
    kind("scc HashSet", true, |keys| {
        Arc::new(Scc::with_capacity_and_hasher(keys, Hash::default()))
    }),
    kind("scc HashIndex", true, |keys| {
        Arc::new(SccIndex::with_capacity_and_hasher(keys, Hash::default()))
    }),
    kind("papaya", true, |keys| Arc::new(Papaya::with_capacity_and_hasher(keys, Hash::default()))),
];

const fn kind(name: &'static str, is_concurrent: bool, create: fn(usize) -> Arc<dyn Set>) -> Kind {
    Kind { name, is_concurrent, create }
}

type Hashbrown = hashbrown::HashSet<u64, Hash>;
type Dashmap = dashmap::DashSet<u64, Hash>;
type Scc = scc::HashSet<u64, Hash>;
/// Reads without locks.
type SccIndex = scc::HashIndex<u64, (), Hash>;
type Papaya = papaya::HashSet<u64, Hash>;

/// Locked once for each slice of keys.
impl Set for Mutex<Hashbrown> {
    fn insert(&self, keys: &[u64]) -> usize {
        let mut set = self.lock().unwrap_or_else(PoisonError::into_inner);
        keys.iter().filter(|key| set.insert(**key)).count()
    }

    fn find(&self, keys: &[u64]) -> usize {
        let set = self.lock().unwrap_or_else(PoisonError::into_inner);
        keys.iter().filter(|key| set.contains(*key)).count()
    }
}

impl Set for Dashmap {
    fn insert(&self, keys: &[u64]) -> usize {
        keys.iter().filter(|key| Dashmap::insert(self, **key)).count()
    }

    fn find(&self, keys: &[u64]) -> usize {
        keys.iter().filter(|key| self.contains(*key)).count()
    }
}

impl Set for Scc {
    fn insert(&self, keys: &[u64]) -> usize {
        keys.iter().filter(|key| self.insert_sync(**key).is_ok()).count()
    }

    fn find(&self, keys: &[u64]) -> usize {
        keys.iter().filter(|key| self.contains_sync(*key)).count()
    }
}

impl Set for SccIndex {
    fn insert(&self, keys: &[u64]) -> usize {
        keys.iter().filter(|key| self.insert_sync(**key, ()).is_ok()).count()
    }

    fn find(&self, keys: &[u64]) -> usize {
        keys.iter().filter(|key| self.contains(*key)).count()
    }
}

/// Pinned once for each slice of keys, as its documentation advises.
impl Set for Papaya {
    fn insert(&self, keys: &[u64]) -> usize {
        let set = self.pin();
        keys.iter().filter(|key| set.insert(**key)).count()
    }

    fn find(&self, keys: &[u64]) -> usize {
        let set = self.pin();
        keys.iter().filter(|key| set.contains(*key)).count()
    }
}
