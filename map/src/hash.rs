//! The hash of keys and values: one pass loads each word of a bucket, hashes it and copies it.
//!
//! It is built like wyhash: a step multiplies two words to 128 bits and adds both halves without
//! carry. Two lanes take turns, so that the processor overlaps their products.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, Release};

use probeline_transport::WORD_BYTES;

/// The first 256 bits of the fractional part of pi.
const SECRETS: [u64; 4] =
    [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344, 0xa409_3822_299f_31d0, 0x082e_fa98_ec4e_6c89];
/// Words of a step of both lanes.
const STEP: usize = 4;

/// Returns both halves of the product of two words, added without carry.
#[inline(always)]
#[allow(clippy::cast_possible_truncation)]
pub(crate) fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    product as u64 ^ (product >> 64) as u64
}

/// Returns the hash of bytes.
#[inline(always)]
pub(crate) fn hash_of_bytes(bytes: &[u8], seed: u64) -> u64 {
    hash(bytes.as_chunks().0, padded(bytes), (bytes.len(), seed), ())
}

/// Returns the hash of as many bytes as these words begin with, as [`hash_of_bytes`].
#[inline(always)]
pub(crate) fn hash_of_words(words: &[AtomicU64], bytes: usize, seed: u64) -> u64 {
    let (words, last) = whole(words, bytes);
    hash(words, last, (bytes, seed), ())
}

/// Loads as many bytes as `into` has from words, and returns their hash.
#[inline(always)]
pub(crate) fn load_and_hash(words: &[AtomicU64], into: &mut [u8], seed: u64) -> u64 {
    let bytes = into.len();
    let (words, last) = whole(words, bytes);
    let (to, rest) = into.as_chunks_mut();
    if let Some(last) = last {
        for (to, byte) in rest.iter_mut().zip(last.to_ne_bytes()) {
            *to = byte;
        }
    }
    hash(words, last, (bytes, seed), to)
}

/// Stores bytes to words, the last one padded with zeros, and returns their hash.
#[inline(always)]
pub(crate) fn store_and_hash(bytes: &[u8], words: &[AtomicU64], seed: u64) -> u64 {
    hash(bytes.as_chunks().0, padded(bytes), (bytes.len(), seed), words)
}

/// Returns the bytes after the last whole word, padded with zeros, if there are any.
#[inline(always)]
fn padded(bytes: &[u8]) -> Option<u64> {
    let (_, rest) = bytes.as_chunks::<WORD_BYTES>();
    if rest.is_empty() {
        return None;
    }
    let mut last = [0; WORD_BYTES];
    for (to, byte) in last.iter_mut().zip(rest) {
        *to = *byte;
    }
    Some(u64::from_ne_bytes(last))
}

/// Splits the words of `bytes` bytes into the full ones and the partial last one.
#[inline(always)]
fn whole(words: &[AtomicU64], bytes: usize) -> (&[AtomicU64], Option<u64>) {
    let (words, rest) = words.split_at_checked(bytes / WORD_BYTES).unwrap_or((words, &[]));
    let last = if bytes.is_multiple_of(WORD_BYTES) { None } else { rest.first() };
    (words, last.map(Word::load))
}

/// Hashes words, the whole ones of `bytes` bytes and the last one, and stores them in `sink`.
#[inline(always)]
fn hash<W: Word>(
    words: &[W],
    last: Option<u64>,
    (bytes, seed): (usize, u64),
    sink: impl Sink,
) -> u64 {
    let (steps, rest) = words.as_chunks::<STEP>();
    // A lane that is zero would hide the other factor of its step.
    let lanes = (seed ^ SECRETS[2], SECRETS[3]);
    let mut hash = Hash { lanes, words: 0, sink };
    // Loops, because closures that several callers have are not inlined.
    for [a, b, c, d] in steps {
        hash.add([a.load(), b.load(), c.load(), d.load()]);
    }
    match rest {
        [a, b, c] => hash.add([a.load(), b.load(), c.load()]),
        [a, b] => hash.add([a.load(), b.load()]),
        [a] => hash.add([a.load()]),
        _ => {}
    }
    if let Some(last) = last {
        hash.add([last]);
    }
    fold(hash.lanes.0 ^ SECRETS[1], hash.lanes.1 ^ SECRETS[0] ^ bytes as u64)
}

/// A hash in progress.
struct Hash<S> {
    lanes: (u64, u64),
    /// Words hashed.
    words: usize,
    sink: S,
}

impl<S: Sink> Hash<S> {
    /// Adds at most as many words as a step has; the others count as 0.
    #[inline(always)]
    fn add<const N: usize>(&mut self, words: [u64; N]) {
        self.sink.store(self.words, words);
        self.words += N;
        let mut step = [0; STEP];
        for (to, word) in step.iter_mut().zip(words) {
            *to = word;
        }
        let [a, b, c, d] = step;
        self.lanes.0 = fold(a ^ SECRETS[0], b ^ self.lanes.0);
        if N > 2 {
            self.lanes.1 = fold(c ^ SECRETS[1], d ^ self.lanes.1);
        }
    }
}

/// A word of a key or a value.
trait Word {
    fn load(&self) -> u64;
}

impl Word for [u8; WORD_BYTES] {
    #[inline(always)]
    fn load(&self) -> u64 {
        u64::from_ne_bytes(*self)
    }
}

impl Word for AtomicU64 {
    #[inline(always)]
    fn load(&self) -> u64 {
        self.load(Relaxed)
    }
}

/// The destination of hashed words.
trait Sink {
    /// Stores words from the place `at` on, as far as there is room for all of them.
    fn store<const N: usize>(&mut self, at: usize, words: [u64; N]);
}

impl Sink for () {
    #[inline(always)]
    fn store<const N: usize>(&mut self, _: usize, _: [u64; N]) {}
}

impl Sink for &mut [[u8; WORD_BYTES]] {
    #[inline(always)]
    fn store<const N: usize>(&mut self, at: usize, words: [u64; N]) {
        if let Some(to) = self.get_mut(at..at + N) {
            for (to, word) in to.iter_mut().zip(words) {
                *to = word.to_ne_bytes();
            }
        }
    }
}

impl Sink for &[AtomicU64] {
    #[inline(always)]
    fn store<const N: usize>(&mut self, at: usize, words: [u64; N]) {
        if let Some(to) = self.get(at..at + N) {
            for (to, word) in to.iter().zip(words) {
                to.store(word, Release);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Returns bytes that look random, from a number.
    fn noise(number: u64, bytes: usize) -> Vec<u8> {
        let mut state = number;
        let words = core::iter::repeat_with(|| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb)
        });
        words.flat_map(|word| (word ^ word >> 31).to_le_bytes()).take(bytes).collect()
    }

    #[test]
    fn words_hash_like_bytes() {
        for bytes in 0..100 {
            let given = noise(7, bytes);
            let words: Vec<_> = (0..14).map(|_| AtomicU64::new(u64::MAX)).collect();
            let hash = hash_of_bytes(&given, 3);
            assert_eq!(store_and_hash(&given, &words, 3), hash, "{bytes}");
            assert_eq!(hash_of_words(&words, bytes, 3), hash, "{bytes}");
            let mut loaded = vec![0; bytes];
            assert_eq!(load_and_hash(&words, &mut loaded, 3), hash, "{bytes}");
            assert_eq!(loaded, given);
            let stored = bytes.div_ceil(WORD_BYTES);
            assert!(words[stored..].iter().all(|word| word.load(Relaxed) == u64::MAX));
        }
    }

    /// Each bit of the input and of the seed changes each bit of the hash in half of all cases, even
    /// of input with few bits.
    #[test]
    fn each_bit_avalanches() {
        const INPUTS: u64 = 1_000;
        for bytes in [1, 8, 12, 24, 40, 104] {
            for bit in 0..bytes * 8 + 64 {
                let mut changed = [0_u64; 64];
                for number in 0..INPUTS {
                    let mut input =
                        if number % 2 == 0 { vec![0; bytes] } else { noise(number, bytes) };
                    let (mut seed, at) = (number, bit / 8);
                    let before = hash_of_bytes(&input, seed);
                    match input.get_mut(at) {
                        Some(byte) => *byte ^= 1 << (bit % 8),
                        None => seed ^= 1 << (bit - bytes * 8),
                    }
                    let differs = before ^ hash_of_bytes(&input, seed);
                    (0..64).for_each(|nth| changed[nth] += differs >> nth & 1);
                }
                // More than six standard deviations, of 16.
                let odd = changed.iter().position(|times| times.abs_diff(INPUTS / 2) > 110);
                assert_eq!(odd, None, "bit {bit} of {bytes} bytes: {changed:?}");
            }
        }
    }

    /// Input of zeros and one or two other words, and that of other lengths, have different hashes.
    #[test]
    fn sparse_input_differs() {
        let mut seen = HashSet::new();
        let mut count = 0;
        for words in 1..=13 {
            for (first, second) in (0..words).flat_map(|at| (at..words).map(move |to| (at, to))) {
                for (one, other) in (1..20_u64).flat_map(|one| (1..20).map(move |two| (one, two))) {
                    let mut input = vec![0_u64; words];
                    (input[first], input[second]) = (one, other);
                    if first != second || one == other {
                        let bytes: Vec<_> =
                            input.iter().flat_map(|word| word.to_ne_bytes()).collect();
                        seen.insert(hash_of_bytes(&bytes, 0));
                        count += 1;
                    }
                }
            }
        }
        assert_eq!(seen.len(), count);
    }

    /// Mixtures of two entries, word by word and byte by byte, all have different hashes.
    #[test]
    fn mixtures_differ() {
        for similar in [false, true] {
            let (one, mut other) = (noise(1, 104), noise(2, 104));
            if similar {
                other = one.iter().map(|byte| byte ^ 1).collect();
            }
            let mut seen = HashSet::new();
            for mixture in 0_u64..1 << 16 {
                // Thirteen words, or the bytes of two.
                for bytewise in [false, true] {
                    let place = |at: usize| if bytewise { at % 16 } else { at / 8 };
                    let chosen = |at: usize| {
                        let words = bytewise || at / 8 < 13;
                        words && mixture >> place(at) & 1 == 1 && (!bytewise || at >= 88)
                    };
                    let mixed: Vec<_> =
                        (0..104).map(|at| if chosen(at) { other[at] } else { one[at] }).collect();
                    if bytewise || mixture < 1 << 13 {
                        // 40 bits, as in buckets with locks.
                        seen.insert((mixed.clone(), hash_of_bytes(&mixed, 5) >> 24));
                    }
                }
            }
            let hashes: HashSet<_> = seen.iter().map(|(_, hash)| hash).collect();
            let inputs: HashSet<_> = seen.iter().map(|(input, _)| input).collect();
            assert_eq!(hashes.len(), inputs.len());
        }
    }
}
