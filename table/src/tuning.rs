//! The configuration of a table for one network, as a small file.
//!
//! `probeline tune` measures and writes the file. Commands that use a table accept it with
//! `--tuning FILE`; a program loads it:
//!
//! ```
//! use probeline_table::{CacheEntry, Config, Operation};
//! use probeline_table::tuning::Tuning;
//!
//! # let path = std::env::temp_dir().join(format!("tuning-{}.toml", std::process::id()));
//! # std::fs::write(&path, Tuning::default().to_toml())?;
//! let tuning = Tuning::load(&path)?;
//! # std::fs::remove_file(&path)?;
//! let config = tuning.config(1 << 20);
//! assert_eq!(config.buckets_per_owner, 1 << 20);
//!
//! // Storage for the operations, and slots of the transport for their chunks.
//! let operations = vec![Operation::EMPTY; tuning.operations() as usize];
//! let slots = Config::slots(tuning.operations());
//! let cache = vec![CacheEntry::EMPTY; tuning.cache_entries];
//! # assert_eq!((operations.len(), slots, cache.len()), (32, 64, 0));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

pub mod settings;
#[cfg(test)]
mod tests;

use core::fmt::Display;
use core::ops::RangeInclusive;
use std::io;
use std::path::Path;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use settings::quoted;

use crate::{Config, OneRoundtrip, ReadAhead};

/// Version of the file's format.
const VERSION: u32 = 1;

/// The version of the file's format that this library reads and writes: only that one is accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Version;

/// A table's configuration, and the workload for which it was chosen.
///
/// The upper limits of a file equal those of the command line.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tuning {
    /// Version of the file's format.
    pub version: Version,
    /// Network, machine and workload of the measurement, on one line.
    pub origin: String,
    /// C, the buckets of 8 bytes that one chunk READ transfers.
    #[serde(deserialize_with = "chunk_buckets")]
    pub chunk_buckets: u32,
    /// M, the chunks that an operation searches before it returns `Full`.
    #[serde(deserialize_with = "max_chunks")]
    pub max_chunks: u32,
    /// When to request the next chunk before the present one is scanned.
    pub read_ahead: ReadAhead,
    /// Whether to claim the home bucket along with the first READ.
    pub one_roundtrip: OneRoundtrip,
    /// Whether the CPU loads and claims the buckets that it can address.
    pub direct: bool,
    /// Number of operations in flight of each rank; 1 selects blocking calls.
    #[serde(deserialize_with = "in_flight")]
    pub in_flight: u32,
    /// Number of entries of each rank's cache of occupied buckets, a power of two; 0 disables the
    /// cache.
    #[serde(deserialize_with = "cache_entries")]
    pub cache_entries: usize,
    /// The workload and the performance that was measured with it, if known.
    pub expected: Option<Expected>,
}

/// A workload, and the performance that was measured with it.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// Load factor, 0 to 1.
    #[serde(deserialize_with = "share")]
    pub load_factor: f64,
    /// Fraction of operations that insert, 0 to 1; the others find.
    #[serde(deserialize_with = "share")]
    pub insert_share: f64,
    /// Mean latency of an operation, in nanoseconds.
    #[serde(deserialize_with = "amount")]
    pub latency_ns: f64,
    /// Operations per second of all ranks together.
    #[serde(deserialize_with = "amount")]
    pub ops_per_s: f64,
}

impl Default for Tuning {
    /// Returns the library's defaults, which come from no measurement.
    fn default() -> Self {
        let config = Config::new(0);
        Self {
            version: Version,
            origin: "the library's defaults".to_owned(),
            chunk_buckets: config.chunk_buckets,
            max_chunks: config.max_chunks,
            read_ahead: config.read_ahead,
            one_roundtrip: config.one_roundtrip,
            direct: config.direct,
            in_flight: 32,
            cache_entries: 0,
            expected: None,
        }
    }
}

impl Tuning {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, or [`parse`](Self::parse) fails.
    pub fn load(path: &Path) -> io::Result<Self> {
        settings::load(path, Self::parse)
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`], whose text names the line: the text is not TOML, has another
    /// version, lacks a key, has an unknown key, or has a value out of range.
    pub fn parse(text: &str) -> io::Result<Self> {
        // The version first: the keys of another version may differ.
        settings::parse::<Header>(text)?;
        settings::parse(text)
    }

    /// Returns the configuration of a table with `buckets_per_owner` buckets in each part, at the
    /// start of the window.
    #[must_use]
    pub const fn config(&self, buckets_per_owner: u64) -> Config {
        Config {
            chunk_buckets: self.chunk_buckets,
            max_chunks: self.max_chunks,
            read_ahead: self.read_ahead,
            one_roundtrip: self.one_roundtrip,
            direct: self.direct,
            ..Config::new(buckets_per_owner)
        }
    }

    /// Returns the number of operations that the table needs storage for: those in flight. Blocking
    /// calls need one more, because the READ ahead of one call may still be in flight when the next
    /// begins.
    #[must_use]
    pub fn operations(&self) -> u32 {
        self.in_flight.max(2)
    }

    /// Returns `read_ahead` as the file and the option `--read-ahead` spell it.
    #[must_use]
    pub const fn read_ahead_name(&self) -> &'static str {
        match self.read_ahead {
            ReadAhead::Always => "always",
            ReadAhead::Likely => "likely",
            ReadAhead::Never => "never",
        }
    }

    /// Returns `one_roundtrip` as the file and the option `--one-roundtrip` spell it.
    #[must_use]
    pub const fn one_roundtrip_name(&self) -> &'static str {
        match self.one_roundtrip {
            OneRoundtrip::Off => "off",
            OneRoundtrip::On => "on",
            OneRoundtrip::Auto => "auto",
        }
    }

    /// Returns the text from which [`parse`](Self::parse) reads the same tuning.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let Self { chunk_buckets, max_chunks, direct, in_flight, cache_entries, .. } = self;
        let expected = self.expected.map_or_else(String::new, Expected::to_toml);
        format!(
            "# A tuning of Probeline's table: commands take it with --tuning FILE, programs with\n\
             # probeline::tuning::Tuning::load (feature `tuning`).\n\
             version = {VERSION}\n\
             # Network, machine and workload of the measurement.\n\
             origin = {origin}\n\
             # C, buckets of 8 bytes that one chunk READ brings.\n\
             chunk_buckets = {chunk_buckets}\n\
             # M, chunks that an operation searches before it returns Full.\n\
             max_chunks = {max_chunks}\n\
             # When the next chunk is requested before the present one is scanned: always, likely,\n\
             # never.\n\
             read_ahead = \"{ahead}\"\n\
             # Whether the home bucket is claimed along with the first READ: off, on, auto.\n\
             one_roundtrip = \"{claim}\"\n\
             # Whether the CPU loads and claims the buckets that it can address.\n\
             direct = {direct}\n\
             # Operations in flight of each rank; 1 is blocking calls.\n\
             in_flight = {in_flight}\n\
             # Entries of 16 bytes of each rank's cache of occupied buckets, a power of two; 0\n\
             # disables the cache.\n\
             cache_entries = {cache_entries}\n\
             {expected}",
            origin = quoted(&self.origin),
            ahead = self.read_ahead_name(),
            claim = self.one_roundtrip_name(),
        )
    }
}

impl Expected {
    fn to_toml(self) -> String {
        let Self { load_factor, insert_share, latency_ns, ops_per_s } = self;
        format!(
            "\n# What was measured with this workload; for people, commands ignore it.\n\
             [expected]\n\
             # Shares, 0 to 1: of buckets that are occupied, of operations that insert.\n\
             load_factor = {load_factor:?}\n\
             insert_share = {insert_share:?}\n\
             # Mean latency of an operation, in nanoseconds.\n\
             latency_ns = {latency_ns:?}\n\
             # Operations per second of all ranks together.\n\
             ops_per_s = {ops_per_s:?}\n"
        )
    }
}

#[derive(Deserialize)]
struct Header {
    #[serde(rename = "version")]
    _version: Version,
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let found = u32::deserialize(from)?;
        if found == VERSION {
            return Ok(Self);
        }
        Err(D::Error::custom(format!(
            "version {found}, but this program reads version {VERSION}; run probeline tune again"
        )))
    }
}

fn chunk_buckets<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let buckets: u32 = in_range(from, 8..=1 << 16)?;
    if buckets.is_multiple_of(8) {
        return Ok(buckets);
    }
    Err(D::Error::custom(format!("{buckets} is not a multiple of 8")))
}

fn max_chunks<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    in_range(from, 1..=1 << 16)
}

fn in_flight<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    in_range(from, 1..=1 << 14)
}

fn cache_entries<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
    let entries: usize = in_range(from, 0..=1 << 30)?;
    if entries == 0 || entries.is_power_of_two() {
        return Ok(entries);
    }
    Err(D::Error::custom(format!("{entries} is neither 0 nor a power of two")))
}

fn share<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    in_range(from, 0.0..=1.0)
}

/// Reads a rate or a time; the upper limit exceeds every realistic value.
fn amount<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    in_range(from, 0.0..=1e15)
}

fn in_range<'de, D: Deserializer<'de>, N>(from: D, range: RangeInclusive<N>) -> Result<N, D::Error>
where
    N: Deserialize<'de> + PartialOrd + Display,
{
    let number = N::deserialize(from)?;
    if range.contains(&number) {
        return Ok(number);
    }
    let (start, end) = range.into_inner();
    Err(D::Error::custom(format!("{number} is not between {start} and {end}")))
}
