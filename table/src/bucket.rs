//! A bucket: one 64-bit word, empty or occupied by 63 bits of data, written once.
//!
//! Paper section 3.1: the top bit says occupied, the rest is the data. Data is stored mixed by a
//! bijection on 63 bits, so that the stored word is its own hash, and so that structured data is
//! not full of zero bytes, on which telling a torn word from a whole one depends.

use crate::error::DataOutOfRange;

/// Bits of data in a bucket.
pub const DATA_BITS: u32 = 63;
/// The largest data a bucket holds.
pub const MAX_DATA: u64 = (1 << DATA_BITS) - 1;

const OCCUPIED: u64 = 1 << DATA_BITS;
/// So that data 0 does not mix to 0.
const OFFSET: u64 = 0x2545_f491_4f6c_dd1d;
/// Odd, hence invertible modulo 2^63; the multipliers of MurmurHash3's 64-bit finaliser.
const FACTOR_1: u64 = 0xff51_afd7_ed55_8ccd;
const FACTOR_2: u64 = 0xc4ce_b9fe_1a85_ec53;
const INVERSE_1: u64 = inverse(FACTOR_1);
const INVERSE_2: u64 = inverse(FACTOR_2);
/// At least half of 63, so that a second fold undoes the first.
const FOLD: u32 = 32;

/// The word of an occupied bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bucket(u64);

/// What a word that a READ brought says about a wanted bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// Nothing certain is here yet: only a claim can tell.
    Empty,
    /// The wanted data.
    Wanted,
    /// Other data, for ever.
    Other,
    /// A torn word that could be either: only an atomic can tell.
    Unclear,
}

impl Bucket {
    /// Some bucket, where one is needed before there is any.
    pub(crate) const ANY: Self = Self(OCCUPIED);

    /// The bucket that holds `data`.
    ///
    /// # Errors
    /// [`DataOutOfRange`] beyond [`MAX_DATA`].
    #[inline]
    pub fn new(data: u64) -> Result<Self, DataOutOfRange> {
        if data > MAX_DATA {
            return Err(DataOutOfRange::new(data));
        }
        Ok(Self(OCCUPIED | mix(data)))
    }

    /// The occupied bucket that a word of the table is, or `None` where it is empty.
    #[inline]
    #[must_use]
    pub fn from_word(word: u64) -> Option<Self> {
        (word & OCCUPIED != 0).then_some(Self(word))
    }

    /// The word as it stands in the table.
    #[inline]
    #[must_use]
    pub fn word(self) -> u64 {
        self.0
    }

    /// 63 bits, uniform for any data: where the bucket's home is.
    #[inline]
    #[must_use]
    pub fn hash(self) -> u64 {
        self.0 & MAX_DATA
    }

    /// The data it was made of.
    #[inline]
    #[must_use]
    pub fn data(self) -> u64 {
        unmix(self.hash())
    }

    /// What `seen` says, when words arrive whole.
    #[inline]
    pub(crate) fn sight(self, seen: u64) -> Sight {
        if seen == self.0 {
            Sight::Wanted
        } else if seen & OCCUPIED == 0 {
            Sight::Empty
        } else {
            Sight::Other
        }
    }

    /// What `seen` says, when a READ may mix the bytes of 0 with those of a bucket's one value.
    ///
    /// Each byte seen is then 0 or the true one. A byte that is neither 0 nor ours proves other
    /// data; a word equal to ours proves ours only if none of our bytes is 0.
    #[inline]
    pub(crate) fn sight_torn(self, seen: u64) -> Sight {
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

const fn mix(data: u64) -> u64 {
    let mut x = data.wrapping_add(OFFSET) & MAX_DATA;
    x ^= x >> FOLD;
    x = x.wrapping_mul(FACTOR_1) & MAX_DATA;
    x ^= x >> FOLD;
    x = x.wrapping_mul(FACTOR_2) & MAX_DATA;
    x ^ (x >> FOLD)
}

const fn unmix(mixed: u64) -> u64 {
    let mut x = mixed ^ (mixed >> FOLD);
    x = x.wrapping_mul(INVERSE_2) & MAX_DATA;
    x ^= x >> FOLD;
    x = x.wrapping_mul(INVERSE_1) & MAX_DATA;
    x ^= x >> FOLD;
    x.wrapping_sub(OFFSET) & MAX_DATA
}

/// The inverse of an odd number modulo 2^64 (and so modulo 2^63), by Newton's iteration: each
/// step doubles the correct low bits, of which an odd number is its own inverse in three.
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
        fn data_comes_back(data in 0..=MAX_DATA) {
            let bucket = Bucket::new(data).unwrap();
            prop_assert_eq!(bucket.data(), data);
            prop_assert_eq!(Bucket::from_word(bucket.word()), Some(bucket));
        }

        #[test]
        fn every_data_bit_moves_about_half_of_the_hash(data in 0..=MAX_DATA, bit in 0..DATA_BITS) {
            let hash = |data| Bucket::new(data).unwrap().hash();
            let flipped = (hash(data) ^ hash(data ^ 1 << bit)).count_ones();
            // 31.5 expected, 4 the standard deviation; six of them on each side.
            prop_assert!((8..=55).contains(&flipped), "{} bits", flipped);
        }

        #[test]
        fn a_tear_is_never_taken_for_what_it_is_not(
            value: u64, wanted: Option<u64>, zeros: u8, kept: u8,
        ) {
            // Half of the wanted words are the value with some bytes 0: what a tear can look like.
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
    fn data_beyond_63_bits_is_refused() {
        assert_eq!(Bucket::new(MAX_DATA).unwrap().data(), MAX_DATA);
        assert_eq!(Bucket::new(1 << 63), Err(DataOutOfRange::new(1 << 63)));
        assert_eq!(Bucket::new(u64::MAX), Err(DataOutOfRange::new(u64::MAX)));
    }

    #[test]
    fn consecutive_data_spreads_evenly() {
        let mut counts = [0_u32; 256];
        for data in 0..256 * 1024 {
            counts[usize::try_from(Bucket::new(data).unwrap().hash() >> 55).unwrap()] += 1;
        }
        // Chi-squared with 255 degrees of freedom: 255 expected, 22.6 the standard deviation.
        let chi: f64 = counts.iter().map(|&c| (f64::from(c) - 1024.0).powi(2) / 1024.0).sum();
        assert!((130.0..400.0).contains(&chi), "chi-squared {chi}");
    }
}
