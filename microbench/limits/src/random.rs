//! Random numbers that cost next to nothing: a counter and one multiplication.

use core::hash::{BuildHasher, Hasher};
use std::hash::RandomState;

/// Odd, with bits in no pattern: the fractions of the golden ratio and of the square root of 3.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
const MIX: u64 = 0xbb67_ae85_84ca_a73b;

/// A sequence in which no number depends on the one before but by an addition, so that the CPU
/// computes many at once.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Another one each time: two cores with the same one would help each other's caches.
    pub(crate) fn of_its_own() -> Self {
        Self::new(RandomState::new().build_hasher().finish())
    }

    /// 64 bits: both halves of a product, folded.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation)]
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let product = u128::from(self.0) * u128::from(self.0 ^ MIX);
        (product as u64) ^ (product >> 64) as u64
    }
}
