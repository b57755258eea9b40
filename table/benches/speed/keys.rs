//! The keys of a benchmark, by number. The first ones are in a set, so that no array records which.

use core::hash::Hash;
use core::ops::Range;
use core::time::Duration;

use probeline_table::{Bucket, MAX_KEY};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Operations between two readings of the clock, and of one batch. The end of a batch, with fewer
/// and fewer operations in flight, takes the time of some tens of operations, about 1 %.
pub(crate) const BLOCK: usize = 2048;
/// Words of keys drawn for each second of a measurement. A measurement that uses its keys faster,
/// in cache or with wide keys, ends when they are used up.
const WORDS_PER_S: f64 = 60e6;
/// 128 MiB of keys; a measurement ends with them.
const MAX_WORDS: usize = 1 << 24;

/// A type of keys, in sets of its own.
pub(crate) trait Key: Copy + Eq + Hash + Send + Sync + 'static {
    const WORDS: usize;
    /// Returns the nth key.
    fn nth(n: u64) -> Self;
}

impl Key for u64 {
    const WORDS: usize = 1;

    fn nth(n: u64) -> Self {
        key(n)
    }
}

/// The first word is the narrow key of the same number.
impl<const W: usize> Key for [u64; W] {
    const WORDS: usize = W;

    fn nth(n: u64) -> Self {
        let (mut word, first) = (0_u64, key(n));
        [(); W].map(|()| {
            word = word.rotate_left(1) ^ first;
            word
        })
    }
}

/// Returns the nth key, a uniform number of 63 bits. The table's own permutation of keys makes it;
/// all are different.
pub(crate) fn key(n: u64) -> u64 {
    Bucket::new(n & MAX_KEY).map_or(0, Bucket::hash)
}

/// Returns the n of a key.
pub(crate) fn number(key: u64) -> u64 {
    Bucket::from_word(key | !MAX_KEY).map_or(0, Bucket::key)
}

/// The keys of a measurement.
#[derive(Clone, Debug)]
pub(crate) enum Keys {
    /// All with these numbers in this order, divided between the threads.
    Run(Range<u64>),
    /// At random below this number.
    Random(u64),
}

impl Keys {
    /// Draws the keys of one of `parts` threads, enough for `time`.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded")]
    pub(crate) fn draw<K: Key>(
        &self,
        part: usize,
        parts: usize,
        time: Duration,
        seed: u64,
    ) -> Vec<K> {
        match self {
            Self::Run(all) => {
                let cut = |part| all.start + (all.end - all.start) * part as u64 / parts as u64;
                (cut(part)..cut(part + 1)).map(K::nth).collect()
            }
            Self::Random(below) => {
                let mut rng = SmallRng::seed_from_u64(seed);
                let words = ((time.as_secs_f64() * WORDS_PER_S) as usize).min(MAX_WORDS);
                let count = (words / K::WORDS).max(BLOCK);
                (0..count).map(|_| K::nth(rng.random_range(0..*below))).collect()
            }
        }
    }
}
