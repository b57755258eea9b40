//! Random numbers at the cost of one addition and one multiplication.

use core::hash::{BuildHasher, Hasher};
use std::hash::RandomState;

/// Odd, without a pattern of bits: the fractions of the golden ratio and of the square root of 3.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
const MIX: u64 = 0xbb67_ae85_84ca_a73b;

/// A sequence of numbers, each of which depends on the previous one by an addition only, so that
/// the CPU computes many in parallel.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Creates a sequence with a random seed. Two cores with the same sequence would fill each
    /// other's caches.
    pub(super) fn with_random_seed() -> Self {
        Self::new(RandomState::new().build_hasher().finish())
    }

    /// Returns a number that [`next`](Self::next) changes.
    #[inline(always)]
    pub(super) fn present(&self) -> u64 {
        self.0
    }

    /// Returns a number of 64 bits: the halves of a product, combined.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation)]
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let product = u128::from(self.0) * u128::from(self.0 ^ MIX);
        (product as u64) ^ (product >> 64) as u64
    }
}

/// Returns this many random numbers.
pub(super) fn numbers(count: usize) -> Vec<u64> {
    let mut random = Random::with_random_seed();
    (0..count).map(|_| random.next()).collect()
}
