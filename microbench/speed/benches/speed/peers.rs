//! What a user would take instead: sets of the same keys in one process.
//!
//! All have the same hasher, as fast as there is for integers; all are given their capacity when
//! they are made.

use core::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use dashmap::DashSet;

/// A folded multiplication: both halves of the product with an odd number. It is what the fastest
/// hashers of integers do, and mixes all bits, of which these sets use the highest and the lowest.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fold(u64);

/// Odd, with bits in no pattern: the fraction of the golden ratio.
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
    #[expect(clippy::cast_possible_truncation, reason = "each half by itself")]
    fn write_u64(&mut self, number: u64) {
        let product = u128::from(number ^ self.0) * u128::from(FACTOR);
        self.0 = (product as u64) ^ (product >> 64) as u64;
    }
}

type Hash = BuildHasherDefault<Fold>;

/// A set as one thread has it.
pub(crate) trait Peer: Sized + Send + 'static {
    const NAME: &str;
    /// Threads that can share one.
    const THREADS: usize;

    /// An empty one with room for `capacity` keys.
    fn with_capacity(capacity: usize) -> Self;

    /// The same one for another thread; `None` where it cannot be shared.
    fn share(&self) -> Option<Self>;

    /// About how many bytes it takes, given `capacity` and full.
    fn bytes(capacity: u64) -> u64;

    /// Puts keys; how many were not there before.
    fn insert(&mut self, keys: &[u64]) -> usize;

    /// How many of the keys are there.
    fn find(&mut self, keys: &[u64]) -> usize;
}

/// A key and a control byte for each bucket, 7/8 of which are used; powers of two.
fn swiss_bytes(capacity: u64) -> u64 {
    (capacity * 8 / 7).next_power_of_two() * 9
}

pub(crate) struct Hashbrown(hashbrown::HashSet<u64, Hash>);

impl Peer for Hashbrown {
    const NAME: &str = "hashbrown";
    const THREADS: usize = 1;

    fn with_capacity(capacity: usize) -> Self {
        Self(hashbrown::HashSet::with_capacity_and_hasher(capacity, Hash::default()))
    }

    fn share(&self) -> Option<Self> {
        None
    }

    fn bytes(capacity: u64) -> u64 {
        swiss_bytes(capacity)
    }

    #[inline]
    fn insert(&mut self, keys: &[u64]) -> usize {
        keys.iter().filter(|key| self.0.insert(**key)).count()
    }

    #[inline]
    fn find(&mut self, keys: &[u64]) -> usize {
        keys.iter().filter(|key| self.0.contains(*key)).count()
    }
}

pub(crate) struct Dashmap(Arc<DashSet<u64, Hash>>);

impl Peer for Dashmap {
    const NAME: &str = "dashmap";
    const THREADS: usize = 2;

    fn with_capacity(capacity: usize) -> Self {
        Self(Arc::new(DashSet::with_capacity_and_hasher(capacity, Hash::default())))
    }

    fn share(&self) -> Option<Self> {
        Some(Self(Arc::clone(&self.0)))
    }

    fn bytes(capacity: u64) -> u64 {
        swiss_bytes(capacity)
    }

    #[inline]
    fn insert(&mut self, keys: &[u64]) -> usize {
        keys.iter().filter(|key| self.0.insert(**key)).count()
    }

    #[inline]
    fn find(&mut self, keys: &[u64]) -> usize {
        keys.iter().filter(|key| self.0.contains(*key)).count()
    }
}

/// Pinned once for each step of keys, as its documentation advises.
pub(crate) struct Papaya(Arc<papaya::HashSet<u64, Hash>>);

impl Peer for Papaya {
    const NAME: &str = "papaya";
    const THREADS: usize = 2;

    fn with_capacity(capacity: usize) -> Self {
        Self(Arc::new(papaya::HashSet::with_capacity_and_hasher(capacity, Hash::default())))
    }

    fn share(&self) -> Option<Self> {
        Some(Self(Arc::clone(&self.0)))
    }

    /// A pointer and a byte for each entry, 6/8 of which are used, and memory of its own, 32 bytes
    /// at least, for each key.
    fn bytes(capacity: u64) -> u64 {
        (capacity * 8 / 6).next_power_of_two() * 9 + capacity * 32
    }

    #[inline]
    fn insert(&mut self, keys: &[u64]) -> usize {
        let set = self.0.pin();
        keys.iter().filter(|key| set.insert(**key)).count()
    }

    #[inline]
    fn find(&mut self, keys: &[u64]) -> usize {
        let set = self.0.pin();
        keys.iter().filter(|key| set.contains(*key)).count()
    }
}

pub(crate) struct Scc(Arc<scc::HashSet<u64, Hash>>);

impl Peer for Scc {
    const NAME: &str = "scc HashSet";
    const THREADS: usize = 2;

    fn with_capacity(capacity: usize) -> Self {
        Self(Arc::new(scc::HashSet::with_capacity_and_hasher(capacity, Hash::default())))
    }

    fn share(&self) -> Option<Self> {
        Some(Self(Arc::clone(&self.0)))
    }

    /// Buckets of 32 keys with a byte for each and a header; powers of two.
    fn bytes(capacity: u64) -> u64 {
        capacity.next_power_of_two() * 12
    }

    #[inline]
    fn insert(&mut self, keys: &[u64]) -> usize {
        keys.iter().filter(|key| self.0.insert_sync(**key).is_ok()).count()
    }

    #[inline]
    fn find(&mut self, keys: &[u64]) -> usize {
        keys.iter().filter(|key| self.0.contains_sync(*key)).count()
    }
}

/// Read without locks.
pub(crate) struct SccIndex(Arc<scc::HashIndex<u64, (), Hash>>);

impl Peer for SccIndex {
    const NAME: &str = "scc HashIndex";
    const THREADS: usize = 2;

    fn with_capacity(capacity: usize) -> Self {
        Self(Arc::new(scc::HashIndex::with_capacity_and_hasher(capacity, Hash::default())))
    }

    fn share(&self) -> Option<Self> {
        Some(Self(Arc::clone(&self.0)))
    }

    fn bytes(capacity: u64) -> u64 {
        Scc::bytes(capacity)
    }

    #[inline]
    fn insert(&mut self, keys: &[u64]) -> usize {
        keys.iter().filter(|key| self.0.insert_sync(**key, ()).is_ok()).count()
    }

    #[inline]
    fn find(&mut self, keys: &[u64]) -> usize {
        keys.iter().filter(|key| self.0.contains(*key)).count()
    }
}

// Cargo sets `test` for a benchmark without a harness too, and there the tests are left out.
#[cfg(test)]
#[allow(dead_code, unused_imports)]
mod tests {
    use core::hash::BuildHasher;

    use super::super::keys::nth;
    use super::*;

    fn is_a_set<P: Peer>() {
        let mut set = P::with_capacity(1000);
        let keys: Vec<u64> = (0..1000).map(nth).collect();
        assert_eq!(set.insert(&keys[..600]), 600);
        assert_eq!(set.insert(&keys), 400);
        assert_eq!(set.find(&keys), 1000);
        assert_eq!(set.find(&[nth(1000), nth(0)]), 1);
        assert_eq!(set.share().is_some(), P::THREADS > 1);
        if let Some(mut other) = set.share() {
            assert_eq!(other.find(&keys), 1000);
        }
    }

    #[test]
    fn all_peers_are_sets() {
        is_a_set::<Hashbrown>();
        is_a_set::<Dashmap>();
        is_a_set::<Papaya>();
        is_a_set::<Scc>();
        is_a_set::<SccIndex>();
    }

    /// The highest seven bits, the next ones and the lowest ones: all of them vary.
    #[test]
    fn the_hasher_mixes_all_bits() {
        let hashes: Vec<u64> = (0..100_000).map(|n| Hash::default().hash_one(nth(n))).collect();
        for bit in 0..64 {
            let ones = hashes.iter().filter(|hash| *hash >> bit & 1 == 1).count();
            assert!((49_000..51_000).contains(&ones), "bit {bit}: {ones}");
        }
    }
}
