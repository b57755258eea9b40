//! The parameters of a table and their validation against a transport.

use probeline_pipeline::ConfigError;
use probeline_transport::{Caps, Geometry, Sizes};

use crate::layout::{LINE_BUCKETS, Layout, Probing};
use crate::options::{ChunkChoice, OneRoundtrip, ReadAhead};

/// The largest M. Even with C = 8 it allows probing half a million buckets, far more than a table
/// with reasonable response times needs.
const MAX_CHUNKS: u32 = 1 << 16;

/// C in the paper's measurements (section 4.2).
const PAPER_CHUNK: u32 = 32;
/// Maximum one-sided operations that one table operation usually has in flight: a claim, the chunk
/// that it scans and the chunk read ahead. A chunk that straddles two owners needs one more.
const POSTS_PER_OPERATION: u32 = 3;

/// The parameters of a table.
///
/// All owners give the same sizes, probe limit (C times M) and probe order. The other parameters
/// may differ between owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The table's first word in each window, a multiple of 8.
    pub first_word: u64,
    /// Buckets in each owner's part, a multiple of 8.
    pub buckets_per_owner: u64,
    /// C, the buckets that one chunk READ transfers: a multiple of 8, at most one part. With
    /// adaptive C this is the maximum.
    pub chunk_buckets: u32,
    /// M, the maximum number of chunks of `chunk_buckets` that an operation examines, at least 1. A
    /// find-or-put that finds no empty bucket in them completes as full.
    pub max_chunks: u32,
    /// The order in which an operation examines buckets.
    pub probing: Probing,
    /// Whether C is always `chunk_buckets` or adaptive.
    pub chunk_choice: ChunkChoice,
    /// When to request the next chunk before the present one is scanned.
    pub read_ahead: ReadAhead,
    /// Whether a find-or-put claims the home bucket along with the first READ.
    pub one_roundtrip: OneRoundtrip,
    /// Whether the CPU itself loads the words that it can address, and claims buckets there if the
    /// transport's atomics are atomic with the CPU's.
    pub direct: bool,
}

impl Config {
    /// Returns the configuration of a table at the start of the window, with the paper's C = 32 and
    /// M = 32 (section 4.2), and with every optimization that needs no measurement.
    ///
    /// The probe order is [`Probing::Lines`]: with READs it costs what the paper's order costs, and
    /// where the CPU examines lines it needs fewer of them.
    #[must_use]
    pub const fn new(buckets_per_owner: u64) -> Self {
        Self {
            probing: Probing::Lines,
            read_ahead: ReadAhead::Likely,
            one_roundtrip: OneRoundtrip::Auto,
            direct: true,
            ..Self::paper(buckets_per_owner)
        }
    }

    /// Returns the configuration of the paper's algorithm (Fig. 1), the baseline for all
    /// comparisons.
    ///
    /// It reads every chunk with READs, always reads the next chunk ahead, and claims only buckets
    /// that it has seen empty.
    #[must_use]
    pub const fn paper(buckets_per_owner: u64) -> Self {
        Self {
            first_word: 0,
            buckets_per_owner,
            chunk_buckets: PAPER_CHUNK,
            max_chunks: 32,
            probing: Probing::Linear,
            chunk_choice: ChunkChoice::Fixed,
            read_ahead: ReadAhead::Always,
            one_roundtrip: OneRoundtrip::Off,
            direct: false,
        }
    }

    /// Returns the words of each window that the table uses: its buckets.
    #[must_use]
    pub const fn words(&self) -> u64 {
        self.buckets_per_owner
    }

    /// Returns a configuration for `total_keys` keys on `owners` owners, with the defaults of
    /// [`new`](Self::new).
    ///
    /// The load factor is 3/4 with all keys inserted; inserts still find an empty bucket then.
    #[must_use]
    pub const fn for_keys(total_keys: u64, owners: u32) -> Self {
        let owners = if owners == 0 { 1 } else { owners as u64 };
        let buckets = total_keys.saturating_add(total_keys.div_ceil(3)).div_ceil(owners);
        // A part has at least one chunk of the default C.
        let buckets = if buckets < PAPER_CHUNK as u64 { PAPER_CHUNK as u64 } else { buckets };
        let lines = buckets.div_ceil(LINE_BUCKETS as u64);
        Self::new(lines.saturating_mul(LINE_BUCKETS as u64))
    }

    /// Returns the engine sizes for this table with `operations` operations in flight. A builder of
    /// an engine takes them: `Builder::new(config.sizes(operations))`.
    #[must_use]
    pub const fn sizes(&self, operations: u32) -> Sizes {
        Sizes {
            window_words: self.first_word.saturating_add(self.words()),
            slots: Self::slots(operations),
            // The engine accepts whole lines only; the table itself reports a C that is none.
            slot_words: self.chunk_buckets.div_ceil(LINE_BUCKETS).saturating_mul(LINE_BUCKETS),
            depth: operations.saturating_mul(POSTS_PER_OPERATION),
        }
    }

    /// Returns the transport slots, each of at least C words, for `operations` operations in
    /// flight.
    #[must_use]
    pub const fn slots(operations: u32) -> u32 {
        operations.saturating_mul(2)
    }

    /// Checks all parameters that depend on no transport, so that nobody allocates memory for an invalid
    /// configuration. Opening a table checks them as well.
    ///
    /// # Errors
    /// [`ConfigError`], with the allowed range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.check_place(u64::MAX)?;
        self.check_chunk(u32::MAX)?;
        if self.probing == Probing::DoubleHash {
            let (what, found) =
                ("chunk_buckets (C), with Probing::DoubleHash,", self.chunk_buckets);
            ConfigError::check_range(what, found.into(), LINE_BUCKETS.into(), LINE_BUCKETS.into())?;
        }
        ConfigError::check_range("max_chunks (M)", self.max_chunks.into(), 1, MAX_CHUNKS.into())
    }

    /// Checks all parameters against the limits of the transport.
    pub(crate) fn check(&self, caps: &Caps, geometry: &Geometry) -> Result<(), ConfigError> {
        self.check_place(geometry.window_words)?;
        // Checked first: for a C that is not a multiple, the maximum is that of the part, as slots were sized
        // for it.
        self.validate()?;
        self.check_chunk(geometry.slot_words.min(caps.words_per_op))?;
        if caps.depth < 2 {
            // The two READs of a chunk that straddles two parts.
            return Err(ConfigError::Depth { found: caps.depth, min: 2 });
        }
        Ok(())
    }

    /// Checks C against a part and the words of a slot and a READ.
    fn check_chunk(&self, words: u32) -> Result<(), ConfigError> {
        let part = u32::try_from(self.buckets_per_owner).unwrap_or(u32::MAX);
        let most = part.min(words) / LINE_BUCKETS * LINE_BUCKETS;
        let (found, line) = (self.chunk_buckets.into(), LINE_BUCKETS.into());
        ConfigError::check_multiple("chunk_buckets (C)", found, line)?;
        let what = "chunk_buckets (C), with these parts, slots and READs,";
        ConfigError::check_range(what, found, line, most.into())
    }

    fn check_place(&self, window_words: u64) -> Result<(), ConfigError> {
        let (what, found) = ("buckets_per_owner", self.buckets_per_owner);
        ConfigError::check_multiple("first_word", self.first_word, LINE_BUCKETS.into())?;
        ConfigError::check_multiple(what, found, LINE_BUCKETS.into())?;
        let room = window_words.saturating_sub(self.first_word);
        let line = u64::from(LINE_BUCKETS);
        ConfigError::check_room(what, found, 1, room / line * line)
    }

    /// Returns the ring of buckets of this number of owners.
    pub(crate) fn layout(&self, owners: u32) -> Layout {
        Layout::new(owners, self.buckets_per_owner, self.first_word, self.probing)
    }

    /// Returns the probe limit in buckets: C times M, or the whole table if that is smaller.
    pub(crate) fn probe_limit(&self, owners: u32) -> u64 {
        let buckets = self.buckets_per_owner.saturating_mul(u64::from(owners));
        (u64::from(self.chunk_buckets) * u64::from(self.max_chunks)).min(buckets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use probeline_transport::{AtomicScope, Owner};

    const CAPS: Caps = Caps {
        depth: 2,
        atomics: AtomicScope::Cpu,
        words_per_op: u32::MAX,
        word_reads_whole: true,
        write_then_atomic: false,
        names_lost_owners: true,
        needs_owner_progress: false,
        poll_may_wait: false,
    };
    /// Windows of 18 lines and 3 words, and slots of 48 words.
    const GEOMETRY: Geometry =
        Geometry { me: Owner(0), owners: 2, window_words: 147, slots: 7, slot_words: 48 };
    const CONFIG: Config =
        Config { first_word: 8, chunk_buckets: 48, max_chunks: 1, ..Config::paper(136) };
    const C: &str = "chunk_buckets (C), with these parts, slots and READs,";

    fn first(first_word: u64) -> Config {
        Config { first_word, ..CONFIG }
    }

    fn part(buckets_per_owner: u64) -> Config {
        Config { buckets_per_owner, chunk_buckets: 8, ..CONFIG }
    }

    fn chunk(chunk_buckets: u32) -> Config {
        Config { chunk_buckets, ..CONFIG }
    }

    fn small(chunk_buckets: u32) -> Config {
        Config { buckets_per_owner: 24, ..chunk(chunk_buckets) }
    }

    fn double_hash(chunk_buckets: u32) -> Config {
        Config { probing: Probing::DoubleHash, ..chunk(chunk_buckets) }
    }

    fn limit(max_chunks: u32) -> Config {
        Config { max_chunks, ..CONFIG }
    }

    #[test]
    fn accepts_values_at_limits() {
        let firsts = [0, 8].map(first).into_iter().chain([8, 16, 128, 136].map(part));
        let chunks = [8, 16, 40, 48].map(chunk).into_iter().chain([8, 16, 24].map(small));
        let limits = [1, 2, 65_535, 65_536].map(limit).into_iter().chain([double_hash(8)]);
        for config in firsts.chain(chunks).chain(limits) {
            assert_eq!(config.check(&CAPS, &GEOMETRY), Ok(()), "{config:?}");
        }
    }

    #[test]
    fn refuses_values_beyond_limits() {
        let odd = |what, found| ConfigError::Multiple { what, found, of: 8 };
        let range = |what, found, min, max| ConfigError::Range { what, found, min, max };
        let room =
            |found, max| ConfigError::Room { what: "buckets_per_owner", found, max, words: 1 };
        let nowhere = |first_word| Config { first_word, ..part(8) };
        let (m, double_hashes) = ("max_chunks (M)", "chunk_buckets (C), with Probing::DoubleHash,");
        for (config, refused) in [
            (first(1), odd("first_word", 1)),
            (first(7), odd("first_word", 7)),
            (first(9), odd("first_word", 9)),
            (first(u64::MAX), odd("first_word", u64::MAX)),
            (part(0), range("buckets_per_owner", 0, 1, u64::MAX)),
            (part(4), odd("buckets_per_owner", 4)),
            (part(132), odd("buckets_per_owner", 132)),
            (part(144), room(144, 136)),
            (part(u64::MAX - 7), room(u64::MAX - 7, 136)),
            (nowhere(144), room(8, 0)),
            (nowhere(u64::MAX - 7), room(8, 0)),
            (chunk(0), range(C, 0, 8, 136)),
            (chunk(56), range(C, 56, 8, 48)),
            (chunk(136), range(C, 136, 8, 48)),
            (chunk(144), range(C, 144, 8, 136)),
            (small(0), range(C, 0, 8, 24)),
            (small(32), range(C, 32, 8, 24)),
            (chunk(1), odd("chunk_buckets (C)", 1)),
            (chunk(12), odd("chunk_buckets (C)", 12)),
            (chunk(u32::MAX), odd("chunk_buckets (C)", u32::MAX.into())),
            (double_hash(16), range(double_hashes, 16, 8, 8)),
            (limit(0), range(m, 0, 1, 65_536)),
            (limit(65_537), range(m, 65_537, 1, 65_536)),
            (limit(u32::MAX), range(m, u32::MAX.into(), 1, 65_536)),
        ] {
            assert_eq!(config.check(&CAPS, &GEOMETRY), Err(refused));
        }
        let shallow = ConfigError::Depth { found: 1, min: 2 };
        assert_eq!(CONFIG.check(&Caps { depth: 1, ..CAPS }, &GEOMETRY), Err(shallow));
        for (found, nearest) in [(4, "8"), (132, "128 or 136"), (1_001, "1000 or 1008")] {
            let text = odd("buckets_per_owner", found).to_string();
            let expected = "a multiple of 8, such as";
            assert!(text.ends_with(&format!("{expected} {nearest}")), "{text}");
        }
    }

    /// Covers limits that no transport of this repository has.
    #[test]
    fn checks_odd_transport_limits() {
        for (words_per_op, allowed) in [(24, true), (31, true), (32, true), (23, false)] {
            let caps = Caps { words_per_op, ..CAPS };
            let refused = ConfigError::Range { what: C, found: 24, min: 8, max: 16 };
            let expected = if allowed { Ok(()) } else { Err(refused) };
            assert_eq!(chunk(24).check(&caps, &GEOMETRY), expected, "{words_per_op}");
        }
    }

    #[test]
    fn sizes_fit_table() {
        for (keys, owners) in [(0, 1), (1, 3), (1_000, 2), (1 << 20, 1), (12_345, 7)] {
            let config = Config { first_word: 8, ..Config::for_keys(keys, owners) };
            assert!(config.buckets_per_owner * u64::from(owners) * 3 >= keys * 4);
            let Sizes { window_words, slots, slot_words, depth } = config.sizes(4);
            let geometry = Geometry { owners, window_words, slots, slot_words, ..GEOMETRY };
            assert_eq!(config.check(&Caps { depth, ..CAPS }, &geometry), Ok(()), "{keys}");
            let less = Geometry { window_words: window_words - 8, ..geometry };
            assert!(config.check(&Caps { depth, ..CAPS }, &less).is_err());
        }
        assert_eq!((Config::new(1_000).words(), Config::slots(5)), (1_000, 10));
        assert_eq!(chunk(12).sizes(4).slot_words, 16, "an engine takes whole lines only");
    }

    #[test]
    fn table_size_caps_probe_limit() {
        let config = Config { chunk_buckets: 16, max_chunks: 5, ..Config::new(24) };
        assert_eq!([1, 2, 3, 4].map(|owners| config.probe_limit(owners)), [24, 48, 72, 80]);
        assert_eq!(Config::new(u64::MAX / 8 * 8).probe_limit(u32::MAX), 32 * 32);
    }
}
