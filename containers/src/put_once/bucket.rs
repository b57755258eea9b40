//! The words of a bucket: a key and its value, in seven bits of each byte. The eighth bit says that the byte
//! was written.

use probeline_pipeline::Plain;
use probeline_transport::LINE_WORDS;

use crate::hash;

/// The most bytes of a key and its value together.
pub(super) const MAX_BYTES: usize = 440;
/// Bytes of data in a word.
const DATA_BYTES: usize = 7;
const DATA: u64 = (1 << 56) - 1;
/// The bits of a word that its writer sets.
const WRITTEN: u64 = 0x8080_8080_8080_8080;

/// The shape of buckets: their sizes, and the groups of buckets that are read together.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Shape {
    pub(super) key_bytes: usize,
    pub(super) value_bytes: usize,
    /// Words of a bucket.
    pub(super) words: u32,
    /// Words of a group: whole lines.
    pub(super) group_words: u32,
    /// The bits of the first word that hold the key.
    key_bits: u64,
}

impl Shape {
    pub(super) fn new(key_bytes: usize, value_bytes: usize) -> Self {
        let bytes = key_bytes.saturating_add(value_bytes).clamp(1, MAX_BYTES);
        let words = u32::try_from(bytes.div_ceil(DATA_BYTES)).unwrap_or(u32::MAX);
        // The fewest lines that waste at most an eighth.
        let lines = (1..=4).map(|lines| lines * LINE_WORDS);
        let wastes_little = |group: &u32| group % words <= group / 8 && *group >= words;
        let group_words =
            lines.into_iter().find(wastes_little).unwrap_or(words.next_multiple_of(LINE_WORDS));
        let key_bits = spread(DATA >> (8 * (DATA_BYTES - key_bytes.min(DATA_BYTES))));
        Self { key_bytes, value_bytes, words, group_words, key_bits }
    }

    /// Returns the number of buckets of a group.
    pub(super) fn buckets(&self) -> u32 {
        self.group_words / self.words.max(1)
    }

    /// Returns the buckets of whole groups.
    #[inline(always)]
    pub(super) fn split<'w, W>(
        &self,
        groups: &'w [W],
    ) -> impl Iterator<Item = &'w [W]> + use<'w, W> {
        let (group, bucket) = (self.group_words as usize, self.words as usize);
        let groups = groups.chunks_exact(group.max(1));
        groups.flat_map(move |group| group.chunks_exact(bucket.max(1)))
    }

    /// Returns the home group of a key, and its first word with a value of zeros.
    #[inline(always)]
    pub(super) fn home(&self, key: &impl Plain, groups: u64) -> (u64, u64) {
        let (first, hash) = first_data(key.bytes());
        let place = u128::from(hash::mix(first ^ hash.rotate_left(32))) * u128::from(groups);
        ((place >> 64) as u64, spread(first ^ hash & DATA))
    }

    /// Returns whether a word is the first one of the key.
    #[inline(always)]
    pub(super) fn matches(&self, word: u64, home: u64) -> bool {
        is_written(word) && (word ^ home) & self.key_bits == 0
    }

    /// Returns the bytes of a key and of a value: constants, if their types have sizes.
    #[inline(always)]
    fn bytes<K: Plain, V: Plain>(&self) -> (usize, usize) {
        (K::SIZE.unwrap_or(self.key_bytes), V::SIZE.unwrap_or(self.value_bytes))
    }

    /// Stores the words of a bucket.
    #[inline(always)]
    pub(super) fn encode<K: Plain, V: Plain>(&self, key: &K, value: &V, words: &mut [u64]) {
        let (mut bytes, (len, _)) = ([0; MAX_BYTES + 8], self.bytes::<K, V>());
        for (at, part) in [(0, key.bytes()), (len, value.bytes())] {
            if let Some(to) = bytes.get_mut(at..at + part.len()) {
                to.copy_from_slice(part);
            }
        }
        for (nth, word) in words.iter_mut().enumerate() {
            let data = bytes.get(nth * DATA_BYTES..).and_then(<[u8]>::first_chunk);
            *word = spread(u64::from_le_bytes(*data.unwrap_or(&[0; 8])) & DATA);
        }
        if let Some(word) = words.first_mut() {
            *word ^= spread(first_data(key.bytes()).1 & DATA) & !WRITTEN;
        }
    }

    /// Returns the key and the value of a bucket; `None` if not all of its words are written.
    #[inline(always)]
    pub(super) fn decode<K: Plain, V: Plain>(
        &self,
        words: impl Iterator<Item = u64>,
    ) -> Option<(K, V)> {
        let (mut bytes, (key_bytes, value_bytes)) = ([0; MAX_BYTES + 8], self.bytes::<K, V>());
        for (nth, word) in words.enumerate() {
            if !is_written(word) {
                return None;
            }
            *bytes.get_mut(nth * DATA_BYTES..)?.first_chunk_mut()? = gather(word).to_le_bytes();
        }
        let (first, hash) = first_data(bytes.get(..key_bytes)?);
        let first = (first ^ hash & DATA).to_le_bytes();
        let (first, mixed) = (first.get(..key_bytes.min(DATA_BYTES))?, &mut bytes);
        mixed.get_mut(..first.len())?.copy_from_slice(first);
        let (key, value) = bytes.split_at_checked(key_bytes)?;
        Some((K::from_bytes(key.get(..key_bytes)?), V::from_bytes(value.get(..value_bytes)?)))
    }

    /// Returns whether a first word that is written in part may be one of the key: its written bytes equal those of a
    /// claim.
    #[inline(always)]
    pub(super) fn may_match(&self, word: u64, home: u64) -> bool {
        let written = (word & WRITTEN) >> 7;
        (word ^ home) & self.key_bits & written.wrapping_mul(0xff) == 0
    }
}

/// Returns whether all bytes of a word are written.
pub(super) fn is_written(word: u64) -> bool {
    word & WRITTEN == WRITTEN
}

/// Returns the data of a key's first word, and a hash of the rest, of which the first word holds the sum: so
/// the first words of keys that begin alike differ. The hash of no rest is 0.
#[inline(always)]
fn first_data(key: &[u8]) -> (u64, u64) {
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word.iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte);
        u64::from_le_bytes(word)
    };
    let (first, rest) = key.split_at_checked(DATA_BYTES).unwrap_or((key, &[]));
    if rest.is_empty() {
        return (word(first), 0);
    }
    let (whole, last) = rest.as_chunks::<8>();
    let last = (!last.is_empty()).then(|| word(last));
    let words = whole.iter().map(|bytes| u64::from_le_bytes(*bytes)).chain(last);
    (word(first), hash::hash_words(0, words))
}

/// Spreads 56 bits over the bytes of a word, and marks each as written.
#[inline(always)]
fn spread(data: u64) -> u64 {
    let data = data & 0x0fff_ffff | (data & 0x00ff_ffff_f000_0000) << 4;
    let data = data & 0x0000_3fff_0000_3fff | (data & 0x0fff_c000_0fff_c000) << 2;
    data & 0x007f_007f_007f_007f | (data & 0x3f80_3f80_3f80_3f80) << 1 | WRITTEN
}

/// Returns the 56 bits of a word.
#[inline(always)]
fn gather(word: u64) -> u64 {
    let data = word & 0x007f_007f_007f_007f | (word & 0x7f00_7f00_7f00_7f00) >> 1;
    let data = data & 0x0000_3fff_0000_3fff | (data & 0x3fff_0000_3fff_0000) >> 2;
    data & 0x0fff_ffff | (data & 0x0fff_ffff_0000_0000) >> 4
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::entries::{Action, Outcome, Query};
    use super::*;
    use crate::probe::{Buckets, Decision};

    fn encode_and_decode<const K: usize, const V: usize>(key: [u8; K], value: [u8; V]) {
        let shape = Shape::new(K, V);
        let mut words = vec![0; shape.words as usize];
        shape.encode(&key, &value, &mut words);
        let (group, home) = shape.home(&key, 100);
        assert!(group < 100 && shape.matches(words[0], home));
        assert_eq!(shape.decode(words.iter().copied()), Some((key, value)));
        let query = Query { key, home, action: Action::<[u8; V]>::Find };
        let decide = |words: &[u64]| shape.decide(&query, 0, words.iter().copied(), false);
        let found = decide(&words);
        assert!(matches!(found, Decision::Done(Outcome::Found(found)) if found == value));
        // Each byte alone is missed.
        for nth in 0..8 * words.len() {
            let mut torn = words.clone();
            torn[nth / 8] &= !(0xff << (nth % 8 * 8));
            assert!(shape.decode::<[u8; K], [u8; V]>(torn.iter().copied()).is_none());
            let seen = decide(&torn);
            let is_unseen = matches!(seen, Decision::Done(Outcome::Absent) | Decision::Wait(_));
            assert!(is_unseen, "{nth}: {seen:?}");
        }
    }

    proptest! {
        #[test]
        fn encode_then_decode(bytes: [u8; 32], value: [u8; 16]) {
            encode_and_decode([bytes[0]], [value[0]]);
            encode_and_decode([bytes[0]; 4], [value[0]; 3]);
            encode_and_decode::<7, 7>(bytes[..7].try_into().unwrap(), value[..7].try_into().unwrap());
            encode_and_decode::<8, 0>(bytes[..8].try_into().unwrap(), []);
            encode_and_decode(bytes, value);
        }
    }
}
