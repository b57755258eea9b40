//! K-mers as numbers: two bits a base, the first base in the highest bits.

use core::fmt::Debug;

use probeline::containers::Plain;
use probeline::containers::counters::Key;

/// The letters of the bases 0 to 3. The complement of a base is 3 less it.
pub(crate) const LETTERS: [u8; 4] = *b"ACGT";
/// Codes of letters that are not a base: one that ends a run of bases, and line ends, which are skipped.
const BREAK: u8 = 4;
const SKIP: u8 = 5;
const CODES: [u8; 256] = codes();

const fn codes() -> [u8; 256] {
    let mut codes = [BREAK; 256];
    let mut base = 0_u8;
    while base < 4 {
        let letter = LETTERS[base as usize];
        codes[letter as usize] = base;
        codes[letter.to_ascii_lowercase() as usize] = base;
        base += 1;
    }
    codes[b'\n' as usize] = SKIP;
    codes[b'\r' as usize] = SKIP;
    codes
}

/// A number that holds a k-mer: `u64` up to 31 bases, `u128` up to 63.
pub trait Kmer: Key + Plain + Ord + Debug + 'static {
    /// The largest k.
    const MAX_K: u32 = Self::MAX_BITS / 2;

    #[doc(hidden)]
    fn new(k: u32) -> Roller<Self>;
    /// Appends a base, and drops the first of `k` bases.
    #[doc(hidden)]
    fn push(roller: &mut Roller<Self>, base: u8);
    /// Returns the reverse complement of a k-mer.
    #[doc(hidden)]
    fn reverse_complement(self, k: u32) -> Self;
    /// Returns the base at a place from the end.
    #[doc(hidden)]
    fn base(self, from_end: u32) -> usize;
    /// Returns a hash.
    #[doc(hidden)]
    fn hash(self) -> u64;
}

/// A k-mer and its reverse complement, which move along a sequence.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Roller<K> {
    pub(crate) forward: K,
    pub(crate) backward: K,
    /// The bits of k bases.
    mask: K,
    /// Bits below the first base.
    top: u32,
}

macro_rules! kmer {
    ($number:ty) => {
        impl Kmer for $number {
            fn new(k: u32) -> Roller<Self> {
                let mask = Self::MAX >> (Self::BITS - 2 * k);
                Roller { forward: 0, backward: 0, mask, top: 2 * (k - 1) }
            }

            #[inline(always)]
            fn push(roller: &mut Roller<Self>, base: u8) {
                roller.forward = (roller.forward << 2 | Self::from(base)) & roller.mask;
                roller.backward = roller.backward >> 2 | Self::from(3 - base) << roller.top;
            }

            #[inline(always)]
            fn reverse_complement(self, k: u32) -> Self {
                // The bits of every second base, and those of every second pair of bases.
                let (bases, pairs) = (Self::MAX / 5, Self::MAX / 17);
                let swapped = !self >> 2 & bases | (!self & bases) << 2;
                let swapped = swapped >> 4 & pairs | (swapped & pairs) << 4;
                swapped.swap_bytes() >> (Self::BITS - 2 * k)
            }

            #[inline(always)]
            fn base(self, from_end: u32) -> usize {
                (self >> (2 * from_end) & 3) as usize
            }

            #[inline(always)]
            #[allow(clippy::cast_possible_truncation, reason = "both halves are folded")]
            fn hash(self) -> u64 {
                let folded = self as u64 ^ (self >> (Self::BITS / 2)) as u64;
                (folded ^ folded >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
            }
        }
    };
}

kmer!(u64);
kmer!(u128);

/// Scans the k-mers of a sequence: of each its number or, if they are canonical, the smaller one of its own
/// and of its reverse complement's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scanner<K> {
    k: u32,
    canonical: bool,
    roller: Roller<K>,
    /// Bases since the last letter that is none, at most k.
    run: u32,
}

impl<K: Kmer> Scanner<K> {
    pub(crate) fn new(k: u32, canonical: bool) -> Self {
        Self { k, canonical, roller: K::new(k), run: 0 }
    }

    /// Begins another sequence.
    pub(crate) fn reset(&mut self) {
        self.run = 0;
    }

    /// Appends each k-mer that ends in the next piece of the sequence. Line ends are skipped; a letter other than
    /// ACGT, in any case, is in no k-mer.
    pub(crate) fn scan(&mut self, piece: &[u8], kmers: &mut Vec<K>) {
        let Self { k, canonical, mut roller, mut run } = *self;
        for letter in piece {
            let base = CODES[usize::from(*letter)];
            if base >= BREAK {
                run = if base == SKIP { run } else { 0 };
                continue;
            }
            K::push(&mut roller, base);
            run += 1;
            if run >= k {
                let Roller { forward, backward, .. } = roller;
                kmers.push(if canonical { forward.min(backward) } else { forward });
            }
        }
        (self.roller, self.run) = (roller, run.min(k));
    }
}

/// Writes the letters of a k-mer.
pub(crate) fn write_letters<K: Kmer>(kmer: K, k: u32, to: &mut Vec<u8>) {
    to.extend((0..k).rev().map(|place| LETTERS[kmer.base(place)]));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reverses_complement() {
        fn check<K: Kmer>(sequence: &[u8]) {
            let complement = |base: &u8| LETTERS[3 - usize::from(CODES[usize::from(*base)])];
            let reversed: Vec<u8> = sequence.iter().rev().map(complement).collect();
            let k = u32::try_from(sequence.len()).unwrap();
            let [kmer, reversed] = [sequence, &reversed].map(|sequence| {
                let mut found = Vec::new();
                Scanner::<K>::new(k, false).scan(sequence, &mut found);
                found[0]
            });
            assert_eq!(
                (kmer.reverse_complement(k), reversed.reverse_complement(k)),
                (reversed, kmer)
            );
        }
        let sequence = b"ACGGTTCATGCAATCGGGTACCATTTGACGATTACAGGCCATACGTGGACTTTGCAGTACCGA";
        (1..=31).for_each(|k| check::<u64>(&sequence[..k]));
        (1..=sequence.len()).for_each(|k| check::<u128>(&sequence[..k]));
    }
}
