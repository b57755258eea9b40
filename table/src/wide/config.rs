//! The parameters of a wide table and their validation against a transport.

use probeline_pipeline::ConfigError;
use probeline_transport::{Caps, Fingerprint, Geometry, LINE_WORDS, Sizes};

use super::key::{Entries, MIN_TAG_BITS, hash};
use crate::bucket::Wanted as _;
use crate::config::Config;
use crate::fingerprint::with_word;
use crate::options::OneRoundtrip;

/// Entries beyond the buckets of a part that [`WideConfig::new`] adds: those that a client holds and
/// has not used, two runs of 64 and one entry for each of 128 operations.
const SPARE_ENTRIES: u64 = 256;
/// Words before the buckets: the counter of the entries taken, on a cache line of its own.
const COUNTER_WORDS: u64 = LINE_WORDS as u64;
/// Slots of an operation: two chunks, the key to write, and the entry to compare.
const SLOTS_PER_OPERATION: u32 = 4;
/// The reason why a claim cannot accompany the first READ.
const ONE_ROUNDTRIP: &str =
    "one_roundtrip must be Off for wide keys: a bucket is claimed only after the key was written";
/// References to this many entries leave fewer than [`MIN_TAG_BITS`] bits to the tag.
const TAG: &str = "entries_per_owner is too large: references to them leave too few bits \
                   of a bucket's word to the tag; lower entries_per_owner";
/// One-sided operations that a find-or-put usually has in flight: those of the search, the WRITE of
/// the key, and a fetch-and-add that takes entries.
const POSTS_PER_OPERATION: u32 = 4;
const WORD_BITS: u64 = 64;

/// The parameters of a table of keys of `W` words.
///
/// All owners give the same values, except for those of [`Config`] that may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WideConfig<const W: usize> {
    /// The buckets, whose first word is the table's. A bucket is claimed only after the key was
    /// written to an entry, so [`Config::one_roundtrip`] is [`OneRoundtrip::Off`].
    pub buckets: Config,
    /// Entries in each owner's part, one for each key that the table can hold. Clients hold some
    /// that they have not used: one for each operation, and up to 128 more until a part is nearly
    /// exhausted. Entries that a client holds when it dies are lost until
    /// [`retain`](super::WideTable::retain) or [`clear`](probeline_pipeline::Structure::clear).
    pub entries_per_owner: u64,
}

impl<const W: usize> WideConfig<W> {
    /// Words of an entry.
    // No engine has longer operations than a u32 counts.
    #[allow(clippy::cast_possible_truncation)]
    const WORDS: u32 = if W > u32::MAX as usize { u32::MAX } else { W as u32 };

    /// Returns the configuration of a table at the start of the window, with an entry for every
    /// bucket and 256 more in each part. The buckets are those of [`Config::new`].
    #[must_use]
    pub const fn new(buckets_per_owner: u64) -> Self {
        let buckets = Config { one_roundtrip: OneRoundtrip::Off, ..Config::new(buckets_per_owner) };
        Self { buckets, entries_per_owner: buckets_per_owner.saturating_add(SPARE_ENTRIES) }
    }

    /// Returns a configuration for `total_keys` keys on `owners` owners: buckets at a load factor
    /// of 3/4 with all keys inserted, and entries for the keys and 256 more in each part. These
    /// suffice for one client of up to 128 operations for each owner; raise
    /// [`entries_per_owner`](Self::entries_per_owner) by one for each operation beyond them.
    #[must_use]
    pub const fn for_keys(total_keys: u64, owners: u32) -> Self {
        let buckets = Config::for_keys(total_keys, owners).buckets_per_owner;
        let owners = if owners == 0 { 1 } else { owners as u64 };
        let entries = total_keys.div_ceil(owners).saturating_add(SPARE_ENTRIES);
        Self { entries_per_owner: entries, ..Self::new(buckets) }
    }

    /// Returns the words of each window that the table uses: its counter, the buckets,
    /// the entries, and a bit for each entry.
    #[must_use]
    pub const fn words(&self) -> u64 {
        let entries = self.entries_per_owner.saturating_mul(Self::WORDS as u64);
        let marks = self.entries_per_owner.div_ceil(WORD_BITS);
        let words = self.buckets.words().saturating_add(COUNTER_WORDS);
        let words = words.saturating_add(entries).saturating_add(marks);
        words.div_ceil(LINE_WORDS as u64).saturating_mul(LINE_WORDS as u64)
    }

    /// Returns the engine sizes for this table with `operations` operations in flight.
    #[must_use]
    pub const fn sizes(&self, operations: u32) -> Sizes {
        let search = self.buckets.sizes(operations);
        let entry = Self::WORDS.div_ceil(LINE_WORDS).saturating_mul(LINE_WORDS);
        Sizes {
            window_words: self.buckets.first_word.saturating_add(self.words()),
            slots: operations.saturating_mul(SLOTS_PER_OPERATION),
            slot_words: if entry > search.slot_words { entry } else { search.slot_words },
            depth: operations.saturating_mul(POSTS_PER_OPERATION),
        }
    }

    /// Checks all parameters against the limits of the transport.
    pub(crate) fn check(&self, caps: &Caps, geometry: &Geometry) -> Result<(), ConfigError> {
        self.buckets.check(caps, geometry)?;
        if self.buckets.one_roundtrip != OneRoundtrip::Off {
            return Err(ConfigError::Invalid(ONE_ROUNDTRIP));
        }
        let max = geometry.slot_words.min(caps.words_per_op);
        ConfigError::check_range("the number of words of a key (W)", W as u64, 1, u64::MAX)?;
        if Self::WORDS > max {
            return Err(ConfigError::Slot { needed: Self::WORDS.into(), found: max.into() });
        }
        ConfigError::check_range("entries_per_owner", self.entries_per_owner, 1, u64::MAX)?;
        let entries = self.entries(geometry.owners);
        if self.entries_per_owner > 1 << 62 || entries.tag_bits() < MIN_TAG_BITS {
            return Err(ConfigError::Invalid(TAG));
        }
        let needed = self.buckets.first_word.saturating_add(self.words());
        if needed > geometry.window_words {
            return Err(ConfigError::Window { needed, found: geometry.window_words });
        }
        Ok(())
    }

    /// Returns the word of each window that counts the entries taken from the owner's part.
    pub(crate) const fn counter(&self) -> u64 {
        self.buckets.first_word
    }

    pub(crate) const fn first_bucket(&self) -> u64 {
        self.counter() + COUNTER_WORDS
    }

    pub(crate) fn entries(&self, owners: u32) -> Entries {
        let first = self.first_bucket() + self.buckets.buckets_per_owner;
        Entries::new(owners, self.entries_per_owner, Self::WORDS, first)
    }

    /// Returns the word of each window that holds the first marks of entries in use, one bit each.
    pub(crate) fn first_mark(&self) -> u64 {
        let entries = self.entries_per_owner * u64::from(Self::WORDS);
        self.first_bucket() + self.buckets.buckets_per_owner + entries
    }
}

/// Adds the words and places that a few keys get to the fingerprint of the build.
pub(crate) fn fingerprint(all: Fingerprint) -> Fingerprint {
    const KEYS: [[u64; 2]; 3] = [[0, 0], [1, 2], [u64::MAX, 3]];
    let buckets = Config { first_word: 8, ..Config::new(24) };
    let config = WideConfig::<2> { buckets, entries_per_owner: 48 };
    let entries = config.entries(3);
    let all = all.with_all(&[config.counter(), config.first_bucket(), config.first_mark()]);
    (0..).zip(KEYS).fold(all, |all, (owner, key)| {
        let entry = entries.entry(owner, 40);
        let word = entries.refer(entries.tagged(hash(&key)), entry).word();
        with_word(all.with(word), entries.segment(entry).start)
    })
}
