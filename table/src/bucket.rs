//! A bucket: one 64-bit word that is empty or holds a 63-bit key, and is written once.
//!
//! Paper section 3.1: the top bit marks an occupied bucket, the other bits are the key. The key is
//! stored after mixing by a bijection on 63 bits. The stored word is therefore its own hash, and
//! the words of structured keys have few zero bytes, which make torn words ambiguous.

use probeline_pipeline::Error;

/// Bits of a key.
const KEY_BITS: u32 = 63;
/// The largest key.
pub const MAX_KEY: u64 = (1 << KEY_BITS) - 1;

pub(crate) const OCCUPIED: u64 = 1 << KEY_BITS;
/// Added before mixing, so that key 0 does not mix to 0.
const OFFSET: u64 = 0x2545_f491_4f6c_dd1d;
/// Multipliers of MurmurHash3's 64-bit finalizer. They are odd, hence invertible modulo 2^63.
const FACTOR_1: u64 = 0xff51_afd7_ed55_8ccd;
const FACTOR_2: u64 = 0xc4ce_b9fe_1a85_ec53;
const INVERSE_1: u64 = inverse(FACTOR_1);
const INVERSE_2: u64 = inverse(FACTOR_2);
/// Shift of the xor folds: at least half of 63, so that a second fold undoes the first.
const FOLD: u32 = 32;

/// An occupied bucket, as its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bucket(u64);

/// Content of a bucket with regard to the wanted key, as a word that was read shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// The bucket looked empty. The word may be stale, so only a claim decides.
    Empty,
    /// The bucket holds the wanted key.
    Wanted,
    /// The bucket holds another key, permanently.
    Other,
    /// The word may be torn and may be either key. Only an atomic decides.
    Unclear,
}

/// The key or tag that a search compares with the words of buckets. It also has the word that
/// claims an empty bucket.
pub trait Wanted: Copy + PartialEq + core::hash::Hash + core::fmt::Debug {
    /// The part of a matching word that an operation keeps.
    type Seen: Copy + core::hash::Hash + core::fmt::Debug;
    /// The value kept before a word matches.
    const UNSEEN: Self::Seen;
    /// Whether a match is one of tags only, so that the key itself is compared elsewhere.
    const TAGGED: bool;
    /// An arbitrary value that initializes storage.
    const ANY: Self;

    /// Returns the hash that determines the home, in the low 63 bits; the top bit has no meaning.
    fn hashed(self) -> u64;
    /// Returns the word that claims a bucket.
    fn word(self) -> u64;
    /// Returns the bits of a word that are compared: all of them, unless [`TAGGED`](Self::TAGGED).
    fn mask(self) -> u64;
    /// Returns what these bits are compared with.
    fn compared(self) -> u64;
    /// Returns whether a whole, occupied word matches.
    #[inline(always)]
    fn matches(self, seen: u64) -> bool {
        seen & self.mask() == self.compared()
    }
    /// Returns what to keep of a word that matches.
    fn see(seen: u64) -> Self::Seen;
    /// Compares with a word `seen` that cannot be torn.
    fn sight(self, seen: u64) -> Sight;
    /// Compares with a word `seen` that may be torn.
    fn sight_torn(self, seen: u64) -> Sight;
}

impl Bucket {
    /// Returns the bucket that holds `key`.
    ///
    /// # Errors
    /// [`Error::Key`] if `key` exceeds [`MAX_KEY`].
    #[inline]
    pub fn new(key: u64) -> Result<Self, Error> {
        if key > MAX_KEY {
            return Err(Error::Key { bits: u64::BITS, max: KEY_BITS });
        }
        Ok(Self(OCCUPIED | mix(key)))
    }

    /// Returns the bucket that holds a pair, which has at most 63 bits.
    #[inline(always)]
    pub(crate) fn from_pair(pair: u64) -> Self {
        debug_assert!(pair <= MAX_KEY, "a pair has 63 bits");
        Self(OCCUPIED | mix(pair))
    }

    /// Returns the occupied bucket of a word of the table, or `None` if it is empty.
    #[inline]
    #[must_use]
    pub fn from_word(word: u64) -> Option<Self> {
        (word & OCCUPIED != 0).then_some(Self(word))
    }

    /// Returns the word stored in the table.
    #[inline]
    #[must_use]
    pub fn word(self) -> u64 {
        self.0
    }

    /// Returns the hash that determines the bucket's home: 63 bits, distributed uniformly for any
    /// keys.
    #[inline]
    #[must_use]
    pub fn hash(self) -> u64 {
        self.0 & MAX_KEY
    }

    /// Returns the key.
    #[inline]
    #[must_use]
    pub fn key(self) -> u64 {
        unmix(self.hash())
    }
}

impl Wanted for Bucket {
    type Seen = ();
    const UNSEEN: () = ();
    const TAGGED: bool = false;
    const ANY: Self = Self(OCCUPIED);

    #[inline(always)]
    fn hashed(self) -> u64 {
        self.0
    }

    #[inline(always)]
    fn word(self) -> u64 {
        self.0
    }

    #[inline(always)]
    fn mask(self) -> u64 {
        u64::MAX
    }

    #[inline(always)]
    fn compared(self) -> u64 {
        self.0
    }

    #[inline(always)]
    fn see(_: u64) -> Self::Seen {}

    #[inline]
    fn sight(self, seen: u64) -> Sight {
        if seen == self.0 {
            Sight::Wanted
        } else if seen & OCCUPIED == 0 {
            Sight::Empty
        } else {
            Sight::Other
        }
    }

    /// Compares with a word `seen` by a READ that may mix the bytes of 0 with those of the bucket's
    /// only value.
    ///
    /// Each byte seen is then 0 or the byte of the occupant. A byte that is neither 0 nor the
    /// wanted one proves another key. A word equal to the wanted one proves a match only if no
    /// wanted byte is 0.
    #[inline]
    fn sight_torn(self, seen: u64) -> Sight {
        if seen & OCCUPIED == 0 {
            return Sight::Empty;
        }
        let mut zero_byte = false;
        for (mine, seen) in self.0.to_le_bytes().into_iter().zip(seen.to_le_bytes()) {
            if seen != 0 && seen != mine {
                return Sight::Other;
            }
            zero_byte |= mine == 0;
        }
        if seen == self.0 && !zero_byte { Sight::Wanted } else { Sight::Unclear }
    }
}

const fn mix(key: u64) -> u64 {
    let mut x = key.wrapping_add(OFFSET) & MAX_KEY;
    x ^= x >> FOLD;
    x = x.wrapping_mul(FACTOR_1) & MAX_KEY;
    x ^= x >> FOLD;
    x = x.wrapping_mul(FACTOR_2) & MAX_KEY;
    x ^ (x >> FOLD)
}

const fn unmix(mixed: u64) -> u64 {
    let mut x = mixed ^ (mixed >> FOLD);
    x = x.wrapping_mul(INVERSE_2) & MAX_KEY;
    x ^= x >> FOLD;
    x = x.wrapping_mul(INVERSE_1) & MAX_KEY;
    x ^= x >> FOLD;
    x.wrapping_sub(OFFSET) & MAX_KEY
}

/// Computes the inverse of an odd number modulo 2^64 (and so modulo 2^63) by Newton's iteration.
/// Each step doubles the number of correct low bits. An odd number is its own inverse modulo 2^3.
const fn inverse(odd: u64) -> u64 {
    let mut x = odd;
    let mut correct_bits = 3;
    while correct_bits < 64 {
        x = x.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(x)));
        correct_bits *= 2;
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn returns_its_key(key in 0..=MAX_KEY) {
            let bucket = Bucket::new(key).unwrap();
            prop_assert_eq!(bucket.key(), key);
            prop_assert_eq!(Bucket::from_word(bucket.word()), Some(bucket));
        }

        #[test]
        fn each_key_bit_avalanches(key in 0..=MAX_KEY, bit in 0..KEY_BITS) {
            let hash = |key| Bucket::new(key).unwrap().hash();
            let flipped = (hash(key) ^ hash(key ^ 1 << bit)).count_ones();
            // Expected 31.5 bits, standard deviation 4; the test allows six of them on each side.
            prop_assert!((8..=55).contains(&flipped), "{} bits", flipped);
        }

        #[test]
        fn never_misreads_torn_word(
            value: u64, wanted: Option<u64>, zeros: u8, kept: u8,
        ) {
            // Half of the wanted words are the value with some bytes set to 0, as a torn READ may
            // show it.
            let value = Bucket(value | OCCUPIED);
            let wanted = Bucket(wanted.unwrap_or(tear(value.word(), zeros | 0x80)) | OCCUPIED);
            let seen = tear(value.word(), kept);
            match wanted.sight_torn(seen) {
                Sight::Wanted => prop_assert_eq!(wanted, value),
                Sight::Other => prop_assert_ne!(wanted, value),
                Sight::Empty => prop_assert_eq!(seen >> 63, 0),
                Sight::Unclear => {}
            }
        }
    }

    fn tear(word: u64, kept: u8) -> u64 {
        let bytes = word.to_le_bytes();
        u64::from_le_bytes(core::array::from_fn(|i| bytes[i] * (kept >> i & 1)))
    }

    #[test]
    fn refuses_key_beyond_63_bits() {
        assert_eq!(Bucket::new(MAX_KEY).unwrap().key(), MAX_KEY);
        const TOO_LARGE: Result<Bucket, Error> = Err(Error::Key { bits: 64, max: 63 });
        assert_eq!(Bucket::new(1 << 63), TOO_LARGE);
        assert_eq!(Bucket::new(u64::MAX), TOO_LARGE);
    }

    #[test]
    fn consecutive_keys_spread_evenly() {
        let mut counts = [0_u32; 256];
        for key in 0..256 * 1024 {
            counts[usize::try_from(Bucket::new(key).unwrap().hash() >> 55).unwrap()] += 1;
        }
        // Chi-squared with 255 degrees of freedom: expected 255, standard deviation 22.6.
        let chi: f64 = counts.iter().map(|&c| (f64::from(c) - 1024.0).powi(2) / 1024.0).sum();
        assert!((130.0..400.0).contains(&chi), "chi-squared {chi}");
    }
}
