//! Hashes of words.

#[cfg(test)]
use crate::model::{self, Mutant};

/// Set in every check.
const CHECKED: u64 = 1 << 63;

/// Mixes the bits of a word, one to one: the finalizer of D. Stafford's "Mix13".
#[inline(always)]
pub(crate) fn mix(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// Returns a hash of words, with a seed.
#[inline(always)]
pub(crate) fn hash_words(seed: u64, words: impl Iterator<Item = u64>) -> u64 {
    words.fold(mix(seed), |hash, word| mix(hash.rotate_left(5) ^ word).wrapping_add(hash))
}

/// Returns the check of words with a number: a hash, which no slot or block of zeros has.
#[inline(always)]
pub(crate) fn check(number: u64, words: impl Iterator<Item = u64>) -> u64 {
    #[cfg(test)]
    let words = words.filter(|_| !model::has(Mutant::ReadyBeforeData));
    hash_words(number, words) | CHECKED
}
