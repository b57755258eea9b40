//! Sets of the same keys that a program could use within one process instead of the table.
//!
//! All have the same hasher, as fast as there is for integers, and get their capacity when created.

use core::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// A folded multiplication: the halves of the product with an odd number, combined. The fastest
/// hashers of integers do this; it mixes all bits, of which these sets use the highest and the lowest.
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

/// A handle of one thread to a set. Both methods return how many keys had the expected outcome.
pub(crate) trait Set: Sized + Send + 'static {
    const NAME: &str;

    /// An empty set with room for `capacity` keys.
    fn with_capacity(capacity: usize) -> Self;

    /// A handle to the same set for another thread; `None` if threads cannot share it.
    fn share(&self) -> Option<Self>;

    /// Inserts keys; the expected outcome is that the set did not hold them.
    fn insert(&mut self, keys: &[u64]) -> usize;

    /// Finds keys; the expected outcome is that the set holds them.
    fn find(&mut self, keys: &[u64]) -> usize;
}

/// Names of the sets that threads can share.
pub(crate) const CONCURRENT: [&str; 4] = [Dashmap::NAME, Papaya::NAME, Scc::NAME, SccIndex::NAME];

pub(crate) struct Hashbrown(hashbrown::HashSet<u64, Hash>);

impl Set for Hashbrown {
    const NAME: &str = "hashbrown";

    fn with_capacity(capacity: usize) -> Self {
        Self(hashbrown::HashSet::with_capacity_and_hasher(capacity, Hash::default()))
    }

    fn share(&self) -> Option<Self> {
        None
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

/// A set behind an `Arc`. `$pin` prepares the handle of the set for one slice of keys.
macro_rules! concurrent_set {
    ($name:ident, $text:literal, $set:ty, $pin:ident, $insert:expr, $find:expr) => {
        pub(crate) struct $name(Arc<$set>);

        impl Set for $name {
            const NAME: &str = $text;

            fn with_capacity(capacity: usize) -> Self {
                Self(Arc::new(<$set>::with_capacity_and_hasher(capacity, Hash::default())))
            }

            fn share(&self) -> Option<Self> {
                Some(Self(Arc::clone(&self.0)))
            }

            #[inline]
            fn insert(&mut self, keys: &[u64]) -> usize {
                let set = self.0.$pin();
                keys.iter().filter(|key| $insert(&set, **key)).count()
            }

            #[inline]
            fn find(&mut self, keys: &[u64]) -> usize {
                let set = self.0.$pin();
                keys.iter().filter(|key| $find(&set, *key)).count()
            }
        }
    };
}

type PapayaPinned<'a> = papaya::HashSetRef<'a, u64, Hash, papaya::LocalGuard<'a>>;

concurrent_set!(
    Dashmap, "dashmap", dashmap::DashSet<u64, Hash>, as_ref,
    |set: &&dashmap::DashSet<u64, Hash>, key| set.insert(key),
    |set: &&dashmap::DashSet<u64, Hash>, key| set.contains(key)
);
// Pinned once for each slice of keys, as its documentation advises.
concurrent_set!(
    Papaya, "papaya", papaya::HashSet<u64, Hash>, pin,
    |set: &PapayaPinned<'_>, key| set.insert(key),
    |set: &PapayaPinned<'_>, key| set.contains(key)
);
concurrent_set!(
    Scc, "scc HashSet", scc::HashSet<u64, Hash>, as_ref,
    |set: &&scc::HashSet<u64, Hash>, key| set.insert_sync(key).is_ok(),
    |set: &&scc::HashSet<u64, Hash>, key| set.contains_sync(key)
);
// Reads without locks.
concurrent_set!(
    SccIndex, "scc HashIndex", scc::HashIndex<u64, (), Hash>, as_ref,
    |set: &&scc::HashIndex<u64, (), Hash>, key| set.insert_sync(key, ()).is_ok(),
    |set: &&scc::HashIndex<u64, (), Hash>, key| set.contains(key)
);

// Cargo sets `test` for a benchmark without a harness too, and there the tests are left out.
#[cfg(test)]
#[allow(dead_code, unused_imports)]
mod tests {
    use core::hash::BuildHasher;

    use super::super::keys::nth;
    use super::*;

    fn is_a_set<S: Set>() {
        let mut set = S::with_capacity(1000);
        let keys: Vec<u64> = (0..1000).map(nth).collect();
        assert_eq!(set.insert(&keys[..600]), 600);
        assert_eq!(set.insert(&keys), 400);
        assert_eq!(set.find(&keys), 1000);
        assert_eq!(set.find(&[nth(1000), nth(0)]), 1);
        assert_eq!(set.share().is_some(), CONCURRENT.contains(&S::NAME));
        if let Some(mut other) = set.share() {
            assert_eq!(other.find(&keys), 1000);
        }
    }

    #[test]
    fn all_of_them_are_sets() {
        is_a_set::<Hashbrown>();
        is_a_set::<Dashmap>();
        is_a_set::<Papaya>();
        is_a_set::<Scc>();
        is_a_set::<SccIndex>();
    }

    /// Each bit of the hashes is 1 in half of them.
    #[test]
    fn the_hasher_mixes_all_bits() {
        let hashes: Vec<u64> = (0..100_000).map(|n| Hash::default().hash_one(nth(n))).collect();
        for bit in 0..64 {
            let ones = hashes.iter().filter(|hash| *hash >> bit & 1 == 1).count();
            assert!((49_000..51_000).contains(&ones), "bit {bit}: {ones}");
        }
    }
}
