//! Layout of a map: the words of a bucket, and the candidates of a key.

use probeline_pipeline::{Plain, fill_words};
use probeline_transport::{LINE_WORDS, Owner, RemoteWord, Segment, WORD_BYTES};

use crate::hash::{fold, hash_of_bytes};

/// The most candidates of a key.
pub const MAX_CANDIDATES: u32 = 8;

/// The sizes of a key and a value in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryBytes {
    pub(crate) key: usize,
    pub(crate) value: usize,
}

impl EntryBytes {
    /// Returns the sizes of the types, and these where a type leaves its size open. If none does, the
    /// result is a constant.
    #[inline(always)]
    pub(crate) const fn of<K: Plain, V: Plain>(self) -> Self {
        let key = match K::SIZE {
            Some(bytes) => bytes,
            None => self.key,
        };
        let value = match V::SIZE {
            Some(bytes) => bytes,
            None => self.value,
        };
        Self { key, value }
    }

    /// Returns whether a key, and a value if there is one, have these sizes; a constant for types of
    /// a fixed size.
    #[inline(always)]
    pub(crate) fn fit<K: Plain, V: Plain>(self, key: &K, value: Option<&V>) -> bool {
        (K::SIZE.is_some() || key.bytes().len() == self.key)
            && (V::SIZE.is_some() || value.is_none_or(|value| value.bytes().len() == self.value))
    }

    /// Returns the bytes of a key and of a value in the words that begin with them; `None` if there
    /// are fewer.
    #[inline(always)]
    pub(crate) fn split(self, words: &[u64]) -> Option<(&[u8], &[u8])> {
        let bytes: &[u8] = bytemuck::cast_slice(words);
        let value = bytes.get(self.key.next_multiple_of(WORD_BYTES)..)?;
        Some((bytes.get(..self.key)?, value.get(..self.value)?))
    }

    /// Loads a key and a value from the words that begin with them.
    #[inline(always)]
    pub(crate) fn unpack<K: Plain, V: Plain>(
        self,
        words: &mut impl Iterator<Item = u64>,
    ) -> (K, V) {
        (K::from_words(words, self.key), V::from_words(words, self.value))
    }
}

/// Words of a bucket: the control word, the key, then the value, each padded to whole words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words {
    pub(crate) key: u32,
    value: u32,
}

impl Words {
    #[inline(always)]
    pub(crate) const fn new(bytes: EntryBytes) -> Self {
        Self { key: words_of(bytes.key), value: words_of(bytes.value) }
    }

    /// Returns the number of words of a bucket that a READ reads.
    #[inline(always)]
    pub(crate) const fn used(self) -> u32 {
        self.key.saturating_add(self.value).saturating_add(1)
    }

    /// Returns the number of words that a bucket takes, in whole cache lines.
    #[inline(always)]
    pub(crate) const fn bucket(self) -> u32 {
        self.used().div_ceil(LINE_WORDS).saturating_mul(LINE_WORDS)
    }
}

#[allow(clippy::cast_possible_truncation)]
const fn words_of(bytes: usize) -> u32 {
    let words = bytes.div_ceil(WORD_BYTES);
    if words > u32::MAX as usize { u32::MAX } else { words as u32 }
}

/// A bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) owner: u32,
    pub(crate) index: u64,
}

/// The arrangement of the buckets of all owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) owners: u32,
    pub(crate) buckets_per_owner: u64,
    pub(crate) first_word: u64,
    pub(crate) bytes: EntryBytes,
    pub(crate) bucket_words: u32,
    pub(crate) used_words: u32,
    pub(crate) candidates: u32,
}

impl Layout {
    /// Returns the words of a bucket: a constant unless a type leaves its size open.
    #[inline(always)]
    pub(crate) fn words<K: Plain, V: Plain>(&self) -> Words {
        Words::new(self.bytes.of::<K, V>())
    }

    /// Returns the `nth` candidate of a key of this hash. The owner and each candidate come from
    /// independent bits: each is a product of the whole hash with a number of its own.
    #[inline(always)]
    pub(crate) fn candidate(&self, hash: u64, nth: u32) -> Place {
        // A fraction of a u32.
        #[allow(clippy::cast_possible_truncation)]
        let owner = scale(fold(hash, GOLDEN), self.owners.into()) as u32;
        let moved = hash.wrapping_add((u64::from(nth) + 1).wrapping_mul(GOLDEN));
        Place { owner, index: scale(fold(moved, hash ^ STAFFORD), self.buckets_per_owner) }
    }

    /// Returns the control word of a bucket.
    #[inline]
    pub(crate) fn control(&self, at: Place) -> RemoteWord {
        let index = self.first_word + at.index * u64::from(self.bucket_words);
        RemoteWord { owner: Owner(at.owner), index }
    }

    /// Returns the used words of a bucket.
    #[inline]
    pub(crate) fn segment(&self, at: Place) -> Segment {
        Segment { start: self.control(at), words: self.used_words }
    }

    /// Returns the lock of an owner's part, which follows its buckets.
    pub(crate) fn part_lock(&self, owner: u32) -> RemoteWord {
        let index = self.first_word.saturating_add(self.part_words());
        RemoteWord { owner: Owner(owner), index }
    }

    /// Returns the key and the value words of a bucket.
    #[inline]
    pub(crate) fn body(&self, at: Place) -> Segment {
        let control = self.control(at);
        let start = RemoteWord { index: control.index + 1, ..control };
        Segment { start, words: self.used_words - 1 }
    }

    /// Returns the words of each window from the first bucket on.
    pub(crate) fn part_words(&self) -> u64 {
        self.buckets_per_owner.saturating_mul(self.bucket_words.into())
    }
}

/// 2^64 divided by the golden ratio, which spreads consecutive numbers.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
/// A multiplier that mixes well: the first of D. Stafford's "Mix13".
const STAFFORD: u64 = 0xbf58_476d_1ce4_e5b9;

/// Returns `fraction` / 2^64 of `count`.
#[inline(always)]
#[allow(clippy::cast_possible_truncation)]
fn scale(fraction: u64, count: u64) -> u64 {
    ((u128::from(fraction) * u128::from(count)) >> 64) as u64
}

/// Hashes the bytes of a key.
#[inline(always)]
pub(crate) fn hash(key: &impl Plain) -> u64 {
    hash_of_bytes(key.bytes(), 0)
}

/// Returns the seed of the hash of a value that is the check of its entry: a function of the key's hash
/// and of the bucket, so that no words of another bucket or another entry pass for it.
#[inline(always)]
pub(crate) fn check_seed(key_hash: u64, at: Place) -> u64 {
    key_hash.wrapping_add(at.index.wrapping_mul(GOLDEN)) ^ u64::from(at.owner) << 32
}

/// Returns the check of an entry in a bucket.
#[inline(always)]
pub(crate) fn check(key_hash: u64, value: &[u8], at: Place) -> u64 {
    hash_of_bytes(value, check_seed(key_hash, at))
}

/// Returns the bytes of a `P`. If the type has a size, the compiler then knows it.
#[inline(always)]
pub(crate) fn sized<P: Plain>(bytes: &[u8]) -> &[u8] {
    match P::SIZE {
        Some(size) => bytes.get(..size).unwrap_or_default(),
        None => bytes,
    }
}

/// Returns what [`sized`] does, to change the bytes.
#[inline(always)]
pub(crate) fn sized_mut<P: Plain>(bytes: &mut [u8]) -> &mut [u8] {
    match P::SIZE {
        Some(size) => bytes.get_mut(..size).unwrap_or_default(),
        None => bytes,
    }
}

/// Stores the bytes of a key and of a value as words, each padded with zeros to whole words.
#[inline(always)]
pub(crate) fn store_entry(key: &[u8], value: &[u8], into: &mut [u64]) {
    let words = key.len().div_ceil(WORD_BYTES).min(into.len());
    let (of_key, of_value) = into.split_at_mut(words);
    fill_words(key, of_key);
    fill_words(value, of_value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use probeline_pipeline::Bytes;

    #[test]
    fn buckets_are_whole_lines() {
        for ((key, value), used, bucket) in
            [((8, 8), 3, 8), ((80, 104), 24, 24), ((1, 0), 2, 8), ((8, 4096), 514, 520)]
        {
            let words = Words::new(EntryBytes { key, value });
            assert_eq!((words.used(), words.bucket()), (used, bucket), "{key} + {value}");
        }
    }

    #[test]
    fn pack_then_unpack() {
        let (key, value) =
            ([1_u8, 2, 3], core::array::from_fn::<u8, 21, _>(|i| u8::try_from(i).unwrap() + 7));
        let mut words = [u64::MAX; 4];
        store_entry(&key, &value, &mut words);
        assert_eq!(words[0].to_ne_bytes(), [1, 2, 3, 0, 0, 0, 0, 0]);
        assert_eq!(words[3].to_ne_bytes()[5..], [0; 3]);
        let unknown = EntryBytes { key: 0, value: 0 };
        assert_eq!(unknown.unpack(&mut words.iter().copied()), (key, value));
        let copy = (Bytes::<8>::new(&key).unwrap(), Bytes::<32>::new(&value).unwrap());
        let bytes = EntryBytes { key: 3, value: 21 };
        assert_eq!(bytes.split(&words), Some((&key[..], &value[..])));
        assert_eq!(bytes.split(&words[1..]), None);
        assert_eq!(bytes.unpack(&mut words.iter().copied()), copy);
        assert_eq!((hash(&copy.0), hash(&copy.1)), (hash(&key), hash(&value)));
    }

    /// Fills a map to load factors of 0.5 and 0.9 with keys of which each takes its first free
    /// candidate. Returns whether few of them found none.
    #[allow(clippy::cast_precision_loss)]
    fn loses_few(owners: u32, buckets_per_owner: u64, candidates: u32) -> bool {
        let layout = Layout {
            owners,
            buckets_per_owner,
            first_word: 0,
            bytes: EntryBytes { key: 8, value: 8 },
            bucket_words: 8,
            used_words: 3,
            candidates,
        };
        let buckets = u64::from(owners) * buckets_per_owner;
        let mut full = vec![false; usize::try_from(buckets).unwrap()];
        let (mut key, mut lost) = (0_u64, 0_u64);
        let percents = [5, 9].map(|tenths| {
            while key < buckets * tenths / 10 {
                let hash = hash(&key);
                let is_stored = (0..candidates).map(|nth| layout.candidate(hash, nth)).any(|at| {
                    let at = u64::from(at.owner) * buckets_per_owner + at.index;
                    !core::mem::replace(&mut full[usize::try_from(at).unwrap()], true)
                });
                lost += u64::from(!is_stored);
                key += 1;
            }
            100.0 * lost as f64 / key as f64
        });
        println!("{owners:4} {buckets_per_owner:10} {candidates}: {percents:.2?} % lost");
        percents[0] <= 0.3 && percents[1] <= 6.5
    }

    /// Of any size; and the default number of candidates is the smallest that loses so few.
    #[test]
    fn default_candidates_lose_few_entries() {
        let default = crate::Config::new(1).candidates;
        let sizes = [(1, 1 << 20), (2, 500_009), (7, 100_003), (128, 1 << 14), (640, 1 << 14)];
        for (owners, buckets) in sizes.into_iter().chain([(1, 1 << 27)]) {
            assert!(loses_few(owners, buckets, default), "{owners} owners of {buckets}");
        }
        for candidates in 1..=MAX_CANDIDATES {
            assert_eq!(loses_few(3, 300_007, candidates), candidates >= default);
        }
    }
}
