//! Wide keys and their entries: the hash, the tag and the reference that a bucket's word holds.

use probeline_transport::{Owner, RemoteWord, Segment};

use crate::bucket::{OCCUPIED, Sight, Wanted};

/// Fewest bits of a tag: a READ of another key's entry then happens once in a million buckets that
/// an operation passes.
pub(crate) const MIN_TAG_BITS: u32 = 20;
/// Bits that the tag and the reference share.
const SHARED_BITS: u32 = 63;
/// 2^64 divided by the golden ratio, and the fractional parts of the square roots of 2 and 3: odd
/// constants without structure.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
const SEED: u64 = 0x6a09_e667_f3bc_c909;
const FACTOR: u64 = 0xbb67_ae85_84ca_a73b;

/// Returns the hash of a key: one folded 128-bit product a word, and one to finish, as in wyhash.
///
/// The low 63 bits are used. The highest of them choose the home, the lowest are the tag. A table
/// of n references has tags of 63 - log2(n) bits, so that home and tag share few bits or none.
#[inline]
pub(crate) fn hash<const W: usize>(key: &[u64; W]) -> u64 {
    let mut state = SEED;
    for word in key {
        state = fold(state ^ word, FACTOR);
    }
    fold(state ^ GOLDEN, SEED | 1)
}

#[inline(always)]
fn fold(value: u64, factor: u64) -> u64 {
    let product = u128::from(value) * u128::from(factor);
    // The two halves of the product.
    #[allow(clippy::cast_possible_truncation)]
    let folded = product as u64 ^ (product >> 64) as u64;
    folded.wrapping_add(GOLDEN)
}

/// A reference to an entry: its owner above its index in that owner's part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Entry(pub(crate) u64);

/// The data array: entries of a fixed number of words in every owner's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entries {
    /// Entries in each owner's part.
    pub(crate) per_owner: u64,
    /// Words of an entry.
    pub(crate) words: u32,
    /// The word of each window that holds the part's first entry.
    pub(crate) first_word: u64,
    index_bits: u32,
    reference_bits: u32,
}

impl Entries {
    pub(crate) fn new(owners: u32, per_owner: u64, words: u32, first_word: u64) -> Self {
        let index_bits = bits(per_owner.saturating_sub(1)).max(1);
        let reference_bits = index_bits + bits(u64::from(owners.saturating_sub(1)));
        Self { per_owner, words, first_word, index_bits, reference_bits }
    }

    /// Returns the bits that the reference leaves to the tag.
    pub(crate) fn tag_bits(&self) -> u32 {
        SHARED_BITS.saturating_sub(self.reference_bits)
    }

    #[inline]
    pub(crate) fn entry(&self, owner: u32, index: u64) -> Entry {
        Entry(u64::from(owner) << self.index_bits | index)
    }

    /// Returns the owner and the index of an entry.
    #[inline]
    pub(crate) fn place(&self, Entry(entry): Entry) -> (u32, u64) {
        // At most the bits of an owner, which is a u32.
        #[allow(clippy::cast_possible_truncation)]
        let owner = (entry >> self.index_bits) as u32;
        (owner, entry & ((1 << self.index_bits) - 1))
    }

    /// Returns how many entries a fetch of `count` took after `before` others.
    pub(crate) fn taken(&self, before: u64, count: u64) -> u64 {
        count.min(self.per_owner.saturating_sub(before))
    }

    /// Returns the words of an entry.
    #[inline]
    pub(crate) fn segment(&self, entry: Entry) -> Segment {
        let (owner, index) = self.place(entry);
        let index = self.first_word + index * u64::from(self.words);
        Segment { start: RemoteWord { owner: Owner(owner), index }, words: self.words }
    }

    /// Returns the bits of a bucket's word other than the reference.
    #[inline]
    fn mask(&self) -> u64 {
        u64::MAX << self.reference_bits
    }

    /// Returns the wanted bucket of a key with this hash, without a reference.
    #[inline]
    pub(crate) fn tagged(&self, hash: u64) -> Tagged {
        let tag = hash << self.reference_bits & !OCCUPIED;
        Tagged { hash, word: OCCUPIED | tag, mask: self.mask() }
    }

    /// Returns the entry to which an occupied bucket's word refers.
    #[inline]
    pub(crate) fn entry_of(&self, word: u64) -> Entry {
        let mask = self.mask();
        Entry((word ^ self.scramble(word & mask)) & !mask)
    }

    /// Returns `tagged` with a reference to `entry`.
    #[inline]
    pub(crate) fn refer(&self, tagged: Tagged, entry: Entry) -> Tagged {
        Tagged { word: self.with_entry(tagged.word, entry), ..tagged }
    }

    /// Returns an occupied bucket's word with a reference to `entry` in place of its own.
    #[inline]
    pub(crate) fn with_entry(&self, word: u64, entry: Entry) -> u64 {
        let tag = word & self.mask();
        tag | (entry.0 ^ self.scramble(tag)) & !self.mask()
    }

    /// Returns bits that hide the reference. Low indices have zero bytes, in which a tear cannot be
    /// told from the occupant's byte; hidden, a byte is 0 once in 256.
    #[inline]
    fn scramble(&self, tag: u64) -> u64 {
        tag.wrapping_mul(GOLDEN) >> (64 - self.reference_bits)
    }
}

fn bits(value: u64) -> u32 {
    u64::BITS - value.leading_zeros()
}

/// A wide key as an operation looks for it in buckets: its hash, and the word with its tag. Before
/// a claim the word gets the reference to the key's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tagged {
    hash: u64,
    word: u64,
    /// The bits that are compared: the occupied bit and the tag.
    mask: u64,
}

impl Wanted for Tagged {
    /// The word, with its reference.
    type Seen = u64;
    const UNSEEN: u64 = 0;
    const TAGGED: bool = true;
    const ANY: Self = Self { hash: 0, word: OCCUPIED, mask: OCCUPIED };

    #[inline(always)]
    fn hashed(self) -> u64 {
        self.hash
    }

    #[inline(always)]
    fn word(self) -> u64 {
        self.word
    }

    #[inline(always)]
    fn mask(self) -> u64 {
        self.mask
    }

    #[inline(always)]
    fn compared(self) -> u64 {
        self.word & self.mask
    }

    #[inline(always)]
    fn see(seen: u64) -> u64 {
        seen
    }

    #[inline]
    fn sight(self, seen: u64) -> Sight {
        if seen & OCCUPIED == 0 {
            Sight::Empty
        } else if self.matches(seen) {
            Sight::Wanted
        } else {
            Sight::Other
        }
    }

    /// Compares with a word `seen` by a READ that may mix the bytes of 0 with those of the bucket's
    /// only value.
    ///
    /// A byte other than 0 is the occupant's, and proves another tag if its compared bits differ. A
    /// word without a zero byte is whole. A match with a zero byte proves nothing: the reference
    /// may be torn, and lead to an entry that was written and not claimed.
    #[inline]
    fn sight_torn(self, seen: u64) -> Sight {
        if seen & OCCUPIED == 0 {
            return Sight::Empty;
        }
        let mut has_zero = false;
        let differs = ((seen ^ self.word) & self.mask).to_le_bytes();
        for (seen, differs) in seen.to_le_bytes().into_iter().zip(differs) {
            if seen == 0 {
                has_zero = true;
            } else if differs != 0 {
                return Sight::Other;
            }
        }
        if has_zero { Sight::Unclear } else { Sight::Wanted }
    }
}

/// Returns the state of the hash after a first word.
#[cfg(test)]
pub(super) fn next_state(word: u64) -> u64 {
    fold(SEED ^ word, FACTOR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tear(word: u64, kept: u8) -> u64 {
        let bytes = word.to_le_bytes();
        u64::from_le_bytes(core::array::from_fn(|i| bytes[i] * (kept >> i & 1)))
    }

    proptest! {
        #[test]
        fn word_keeps_entry_and_tag(
            owners in 1_u32..5_000, per_owner in 1_u64..1 << 30, hash: u64, other: u64,
            owner: u32, index: u64,
        ) {
            let entries = Entries::new(owners, per_owner, 4, 8);
            let (owner, index) = (owner % owners, index % per_owner);
            let entry = entries.entry(owner, index);
            prop_assert_eq!(entries.place(entry), (owner, index));
            let wanted = entries.tagged(hash);
            let word = entries.refer(wanted, entry).word();
            prop_assert_eq!(entries.entry_of(word), entry);
            prop_assert!(wanted.matches(word) && word >> 63 == 1);
            let moved = entries.with_entry(word, entries.entry(0, 0));
            prop_assert_eq!(entries.entry_of(moved), entries.entry(0, 0));
            prop_assert!(wanted.matches(moved));
            let mask = (1 << entries.tag_bits()) - 1;
            prop_assert_eq!(entries.tagged(other).matches(word), (hash ^ other) & mask == 0);
        }

        #[test]
        fn never_misreads_torn_word(
            hash: u64, other: Option<u64>, index in 0_u64..1 << 30, kept: u8,
        ) {
            let entries = Entries::new(4, 1 << 30, 4, 8);
            let held = entries.refer(entries.tagged(hash), entries.entry(3, index));
            let wanted = entries.tagged(other.unwrap_or(hash));
            let seen = tear(held.word(), kept);
            match wanted.sight_torn(seen) {
                Sight::Wanted => {
                    prop_assert!(wanted.matches(held.word()));
                    prop_assert_eq!(seen, held.word());
                }
                Sight::Other => prop_assert!(!wanted.matches(held.word())),
                Sight::Empty => prop_assert_eq!(seen >> 63, 0),
                Sight::Unclear => prop_assert!(seen != held.word()
                    || seen.to_le_bytes().contains(&0)),
            }
        }

        #[test]
        fn each_key_bit_avalanches(
            key in prop::array::uniform4(any::<u64>()), bit in 0_usize..256,
        ) {
            let mut other = key;
            other[bit / 64] ^= 1 << (bit % 64);
            let flipped = (hash(&key) ^ hash(&other)).count_ones();
            // Expected 32 bits, standard deviation 4; the test allows six of them on each side.
            prop_assert!((8..=56).contains(&flipped), "{} bits", flipped);
        }
    }

    /// Consecutive numbers in any word of the key, and keys of few bits as packed states have.
    #[test]
    fn structured_keys_spread_evenly() {
        let chi = |shift: u32, key: &dyn Fn(u64) -> [u64; 4]| {
            let mut counts = [0_u32; 256];
            for nth in 0..256 * 1024 {
                counts[(hash(&key(nth)) >> shift & 255) as usize] += 1;
            }
            counts.iter().map(|&c| (f64::from(c) - 1024.0).powi(2) / 1024.0).sum::<f64>()
        };
        let mut squares: Vec<f64> = Vec::new();
        for shift in [0, 20, 55] {
            for word in 0..4 {
                squares.push(chi(shift, &|nth| {
                    core::array::from_fn(|at| if at == word { nth } else { 0 })
                }));
            }
            squares.push(chi(shift, &|nth| core::array::from_fn(|at| nth >> (5 * at) & 31)));
        }
        // Chi-squared with 255 degrees of freedom: expected 255, standard deviation 22.6.
        assert!(squares.iter().all(|chi| (130.0..400.0).contains(chi)), "{squares:?}");
    }
}
