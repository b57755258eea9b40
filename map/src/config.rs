//! The parameters of a map and their validation against a transport.

use probeline_pipeline::{ConfigError, Plain};
use probeline_transport::{Caps, Geometry, LINE_WORDS, Sizes};

use crate::control::MAX_CLAIM_TICKS;
use crate::layout::{EntryBytes, Layout, MAX_CANDIDATES, Words};
use crate::mode::Mode;

/// Slots of an operation: where a bucket lands, and from where an entry is written.
const SLOTS_PER_OPERATION: u32 = 2;
/// One-sided operations that an operation usually has in flight: a READ and a claim, or a WRITE and
/// the compare-and-swap that publishes it.
const POSTS_PER_OPERATION: u32 = 2;
/// The fewest writes after which the age of new entries advances.
const MIN_WRITES_PER_TICK: u64 = 1_024;
/// Ticks in as many writes as a part has buckets, unless [`MIN_WRITES_PER_TICK`] makes them fewer.
/// A client knows the age of entries that are up to 55 ticks old.
const TICKS_PER_PART: u64 = 8;

/// The parameters of a map.
///
/// All owners give the same first word, buckets, candidates, mode, format, and types of key and value.
/// The other parameters may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The map's first word in each window, a multiple of 8.
    pub first_word: u64,
    /// Buckets in each owner's part, at least 1.
    pub buckets_per_owner: u64,
    /// Buckets in which a key may be, 1 to 8, all of one owner. With more, a full map loses fewer
    /// entries, and an operation on an absent key reads more buckets.
    ///
    /// Entries lost while the map is filled to a load factor, with 6 candidates: 0.2 % at 0.5, 6 % at
    /// 0.9, whatever the number of owners and buckets (the unit tests of `layout` print a table).
    pub candidates: u32,
    /// Whether a put claims the first candidate along with the first READ, as if it were empty. An
    /// insert then takes a roundtrip less; a put of a key that is present posts one
    /// compare-and-swap more.
    pub claims_with_read: bool,
    /// Ticks after which other clients take over a claim: its client seems to have died. A tick is a
    /// number of writes of one client: an eighth of the buckets of a part, but at least 1,024.
    /// Taking over the claim of a client that lives costs entries, but makes no value wrong. 1 to
    /// 24.
    pub claim_ticks: u8,
    /// Whether the CPU itself loads and stores the words, if the CPUs of all owners reach all of
    /// them coherently with the transport's atomics.
    pub direct: bool,
    /// Synchronization of clients that access the same bucket.
    pub mode: Mode,
    /// Attempts to lock a part or a bucket before a request gives up, at least 1, in the modes with
    /// locks. The default takes seconds over a NIC.
    pub lock_attempts: u32,
    /// A number for what the bytes of keys and values mean, chosen by the user. The owners compare
    /// it, and so does the file of a saved map, because sizes do not tell a key of two integers from
    /// one of two floating-point numbers.
    pub format: u64,
    /// Bytes of a key, if its type is [`Bytes`](crate::Bytes); other types ignore it.
    pub key_bytes: usize,
    /// Bytes of a value, if its type is [`Bytes`](crate::Bytes); other types ignore it.
    pub value_bytes: usize,
}

impl Config {
    /// Returns the configuration of a map at the start of the window.
    #[must_use]
    pub const fn new(buckets_per_owner: u64) -> Self {
        Self {
            first_word: 0,
            buckets_per_owner,
            candidates: 6,
            claims_with_read: true,
            claim_ticks: 8,
            direct: true,
            mode: Mode::Claims,
            lock_attempts: 1 << 20,
            format: 0,
            key_bytes: 0,
            value_bytes: 0,
        }
    }

    /// Returns a configuration with room for `entries` entries on `owners` owners at a load factor
    /// of 1/2, at which 0.2 % of the entries are evicted.
    #[must_use]
    pub const fn for_entries(entries: u64, owners: u32) -> Self {
        let owners = if owners == 0 { 1 } else { owners as u64 };
        let buckets = entries.saturating_mul(2).div_ceil(owners);
        Self::new(if buckets == 0 { 1 } else { buckets })
    }

    /// Returns the words of each window that a map of keys `K` and values `V` uses.
    #[must_use]
    pub const fn words<K: Plain, V: Plain>(&self) -> u64 {
        let buckets = self.buckets_per_owner.saturating_mul(self.bucket::<K, V>().bucket() as u64);
        buckets.saturating_add(self.lock_words())
    }

    /// Returns the words of each window behind the buckets: the line of the part's lock, if there is one.
    const fn lock_words(&self) -> u64 {
        if matches!(self.mode, Mode::PartLocks) { LINE_WORDS as u64 } else { 0 }
    }

    /// Returns the engine sizes for a map of keys `K` and values `V` with `operations` operations in
    /// flight. A builder of an engine accepts them.
    #[must_use]
    pub const fn sizes<K: Plain, V: Plain>(&self, operations: u32) -> Sizes {
        let depth = operations.saturating_mul(POSTS_PER_OPERATION);
        let min = self.min_depth(operations);
        Sizes {
            window_words: self.first_word.saturating_add(self.words::<K, V>()),
            slots: operations.saturating_mul(SLOTS_PER_OPERATION),
            slot_words: self.bucket::<K, V>().bucket(),
            depth: if depth < min { min } else { depth },
        }
    }

    /// Returns the minimum depth of the transport. An eviction posts the WRITE of its entry and the
    /// comparisons of all candidates at once. With locks, each operation that waits has a post in
    /// flight, and the operation that holds the lock must still be able to post.
    const fn min_depth(&self, operations: u32) -> u32 {
        let of_eviction = self.candidates.saturating_add(1);
        if matches!(self.mode, Mode::BucketLocks) {
            of_eviction.saturating_add(operations)
        } else {
            of_eviction
        }
    }

    pub(crate) fn writes_per_tick(&self) -> u64 {
        (self.buckets_per_owner / TICKS_PER_PART).max(MIN_WRITES_PER_TICK)
    }

    const fn bytes<K: Plain, V: Plain>(&self) -> EntryBytes {
        EntryBytes { key: self.key_bytes, value: self.value_bytes }.of::<K, V>()
    }

    const fn bucket<K: Plain, V: Plain>(&self) -> Words {
        Words::new(self.bytes::<K, V>())
    }

    pub(crate) fn layout<K: Plain, V: Plain>(&self, owners: u32) -> Layout {
        let words = self.bucket::<K, V>();
        Layout {
            owners,
            buckets_per_owner: self.buckets_per_owner,
            first_word: self.first_word,
            bytes: self.bytes::<K, V>(),
            bucket_words: words.bucket(),
            used_words: words.used(),
            candidates: self.candidates,
        }
    }

    /// Checks all parameters against the limits of the transport.
    pub(crate) fn check<K: Plain, V: Plain>(
        &self,
        caps: &Caps,
        geometry: &Geometry,
        operations: usize,
    ) -> Result<(), ConfigError> {
        ConfigError::check_multiple("first_word", self.first_word, LINE_WORDS.into())?;
        let ranges = [
            ("candidates", self.candidates.into(), MAX_CANDIDATES.into()),
            ("claim_ticks", self.claim_ticks.into(), MAX_CLAIM_TICKS.into()),
            ("lock_attempts", self.lock_attempts.into(), u32::MAX.into()),
        ];
        for (what, found, max) in ranges {
            ConfigError::check_range(what, found, 1, max)?;
        }
        let EntryBytes { key, value } = self.bytes::<K, V>();
        for (what, found, max) in [
            ("key_bytes, within the type of keys,", key, K::CAPACITY),
            ("value_bytes, within the type of values,", value, V::CAPACITY),
        ] {
            ConfigError::check_range(what, found as u64, 0, max as u64)?;
        }
        let bucket = self.bucket::<K, V>();
        let (words, most) = (bucket.bucket(), geometry.slot_words.min(caps.words_per_op));
        if bucket.used() > caps.words_per_op || words > geometry.slot_words {
            return Err(ConfigError::Slot { needed: words.into(), found: most.into() });
        }
        let used = self.first_word.saturating_add(self.lock_words());
        let room = geometry.window_words.saturating_sub(used);
        let what = "buckets_per_owner";
        ConfigError::check_room(what, self.buckets_per_owner, words.into(), room)?;
        let min = self.min_depth(u32::try_from(operations).unwrap_or(u32::MAX));
        if caps.depth < min {
            return Err(ConfigError::Depth { found: caps.depth, min });
        }
        Ok(())
    }
}
