//! A tuning: its text, and what it gives.

use core::ops::{Range, RangeInclusive};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;

use probeline_table::{Config, FirstClaim, ReadAhead};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::{LoadError, ParseError};

/// Counts changes of the file that an older reader would take for something else.
pub const VERSION: u32 = 1;

/// The most of each, as the commands take them.
const MOST_CHUNK_BUCKETS: u64 = 1 << 16;
const MOST_CHUNKS: u64 = 1 << 16;
const MOST_IN_FLIGHT: u64 = 1 << 14;
const MOST_CACHE_ENTRIES: u64 = 1 << 30;
/// A thousand times a file that `tune` writes.
const MOST_BYTES: u64 = 1 << 20;
/// Beyond any rate and time.
const MOST_EXPECTED: f64 = 1e15;

/// What a table is best given, and for what that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuning {
    /// What it was found on and for, in words, one line.
    pub origin: String,
    /// C, the buckets of 8 bytes that one chunk READ brings.
    pub chunk_buckets: u32,
    /// M, the chunks that an operation looks at before it answers full.
    pub max_chunks: u32,
    /// When the next chunk is requested before the present one is scanned.
    pub read_ahead: ReadAhead,
    /// Whether the home bucket is claimed along with the first READ.
    pub first_claim: FirstClaim,
    /// Whether the CPU itself loads and claims what it reaches.
    pub direct: bool,
    /// Operations in flight of each rank; 1 is blocking calls.
    pub in_flight: u32,
    /// Entries of each rank's cache of buckets seen, a power of two; 0 is none.
    pub cache_entries: usize,
    /// What was expected of it, where that is known.
    pub expected: Option<Expected>,
}

/// The workload, and what was expected of the tuning for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// Buckets occupied, 0 to 1.
    pub load_factor: f64,
    /// Operations that insert, 0 to 1; the others find.
    pub insert_share: f64,
    /// Mean time from an operation's begin to its end, in nanoseconds.
    pub latency_ns: f64,
    /// Operations of all ranks together.
    pub ops_per_s: f64,
}

impl Default for Tuning {
    /// The library's defaults, which nobody has measured for any network.
    fn default() -> Self {
        let config = Config::new(0);
        Self {
            origin: "the library's defaults".to_owned(),
            chunk_buckets: config.chunk_buckets,
            max_chunks: config.max_chunks,
            read_ahead: config.read_ahead,
            first_claim: config.first_claim,
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
    /// It cannot be read, or is no tuning.
    pub fn load(path: &Path) -> Result<Self, LoadError> {
        let text = text(path);
        let text = text.map_err(|error| LoadError::Read(path.to_owned(), error))?;
        Self::parse(&text).map_err(|error| LoadError::Parse(path.to_owned(), error))
    }

    /// Reads a text.
    ///
    /// # Errors
    /// It is not TOML, of another version, lacks a key, or has one that no tuning has or a value
    /// that no table takes.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        Parser { text }.tuning()
    }

    /// A table of so many buckets in each owner's part, at the window's start.
    #[must_use]
    pub const fn config(&self, buckets_per_owner: u64) -> Config {
        Config {
            chunk_buckets: self.chunk_buckets,
            max_chunks: self.max_chunks,
            read_ahead: self.read_ahead,
            first_claim: self.first_claim,
            direct: self.direct,
            ..Config::new(buckets_per_owner)
        }
    }

    /// Operations that the table wants storage for: those in flight, and for blocking calls one
    /// more, whose READ ahead may still land.
    #[must_use]
    pub fn operations(&self) -> u32 {
        self.in_flight.max(2)
    }

    /// `read_ahead` as the file and the option say it.
    #[must_use]
    pub const fn read_ahead_name(&self) -> &'static str {
        match self.read_ahead {
            ReadAhead::Always => "always",
            ReadAhead::Likely => "likely",
            ReadAhead::Never => "never",
        }
    }

    /// `first_claim` as the file and the option `--one-roundtrip` say it.
    #[must_use]
    pub const fn one_roundtrip_name(&self) -> &'static str {
        match self.first_claim {
            FirstClaim::Off => "off",
            FirstClaim::On => "on",
            FirstClaim::Auto => "auto",
        }
    }

    /// The text that [`parse`](Self::parse) reads the same tuning from.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let Self { chunk_buckets, max_chunks, direct, in_flight, cache_entries, .. } = self;
        let expected = self.expected.map_or_else(String::new, |expected| expected.to_toml());
        format!(
            "# A tuning of Probeline's table: commands take it with --tuning FILE, programs by\n\
             # probeline_tuning::Tuning::load.\n\
             version = {VERSION}\n\
             # What it was found on and for.\n\
             origin = {origin}\n\
             \n\
             [table]\n\
             # C, buckets of 8 bytes that one chunk READ brings.\n\
             chunk_buckets = {chunk_buckets}\n\
             # M, chunks that an operation looks at before it answers full.\n\
             max_chunks = {max_chunks}\n\
             # When the next chunk is requested before the present one is scanned: always, likely,\n\
             # never.\n\
             read_ahead = \"{ahead}\"\n\
             # Whether the home bucket is claimed along with the first READ: off, on, auto.\n\
             one_roundtrip = \"{claim}\"\n\
             # Whether the CPU itself loads and claims what it reaches.\n\
             direct = {direct}\n\
             \n\
             [rank]\n\
             # Operations in flight of each rank; 1 is blocking calls.\n\
             in_flight = {in_flight}\n\
             # Entries of 16 bytes of each rank's cache of buckets seen, a power of two; 0 is none.\n\
             cache_entries = {cache_entries}\n\
             {expected}",
            origin = quoted(&self.origin),
            ahead = self.read_ahead_name(),
            claim = self.one_roundtrip_name(),
        )
    }
}

/// What a file holds, which is to be no pipe and no device: to open the one, or to read the other,
/// may take for ever.
fn text(path: &Path) -> io::Result<String> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is no file"));
    }
    let mut text = String::new();
    File::open(path)?.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST_BYTES {
        return Err(io::Error::new(ErrorKind::FileTooLarge, "it is longer than any tuning"));
    }
    Ok(text)
}

impl Expected {
    fn to_toml(self) -> String {
        format!(
            "\n# What the model expected for this workload; nothing reads it but people.\n\
             [expected]\n\
             # Shares, 0 to 1: of the buckets that are occupied, of the operations that insert.\n\
             load_factor = {:?}\n\
             insert_share = {:?}\n\
             # Nanoseconds from an operation's begin to its end, the mean.\n\
             latency_ns = {:?}\n\
             # Operations a second of all ranks together.\n\
             ops_per_s = {:?}\n",
            self.load_factor, self.insert_share, self.latency_ns, self.ops_per_s
        )
    }
}

/// As a basic string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

type Value<'t> = Spanned<DeValue<'t>>;

/// The keys of each table of the file; those of `[expected]` may be absent altogether.
const TABLE: [&str; 5] = ["chunk_buckets", "max_chunks", "read_ahead", "one_roundtrip", "direct"];
const RANK: [&str; 2] = ["in_flight", "cache_entries"];
const EXPECTED: [&str; 4] = ["load_factor", "insert_share", "latency_ns", "ops_per_s"];

/// Turns a text into a tuning, and offsets into lines.
struct Parser<'t> {
    text: &'t str,
}

impl<'t> Parser<'t> {
    fn error(&self, at: &Range<usize>, what: impl Into<String>) -> ParseError {
        let before = self.text.get(..at.start).unwrap_or(self.text);
        ParseError { line: 1 + before.matches('\n').count(), what: what.into() }
    }

    fn tuning(&self) -> Result<Tuning, ParseError> {
        let file = DeTable::parse(self.text).map_err(|error| {
            self.error(&error.span().unwrap_or(0..0), format!("no TOML: {}", error.message()))
        })?;
        let (at, file) = (file.span(), file.get_ref());
        // First, because all else may be another's.
        let version = self.whole(self.value(file, &at, "version")?, 0..=u64::from(u32::MAX))?;
        if version != VERSION {
            let what = format!(
                "version {version} is not {VERSION}, which this program reads: run probeline tune \
                 again"
            );
            return Err(self.error(&self.value(file, &at, "version")?.span(), what));
        }
        self.known(file, "", &["version", "origin", "table", "rank", "expected"])?;
        let mut tuning = Tuning {
            origin: self.string(self.value(file, &at, "origin")?)?.to_owned(),
            ..Tuning::default()
        };
        self.table(self.value(file, &at, "table")?, &mut tuning)?;
        self.rank(self.value(file, &at, "rank")?, &mut tuning)?;
        tuning.expected = file.get("expected").map(|value| self.expected(value)).transpose()?;
        Ok(tuning)
    }

    fn table(&self, value: &Value<'t>, tuning: &mut Tuning) -> Result<(), ParseError> {
        let (at, table) = self.section(value, "table", &TABLE)?;
        let of = |key| self.value(table, &at, key);
        let c = of("chunk_buckets")?;
        tuning.chunk_buckets = self.whole(c, 8..=MOST_CHUNK_BUCKETS)?;
        if !tuning.chunk_buckets.is_multiple_of(8) {
            return Err(self.error(&c.span(), "chunk_buckets is to be a multiple of 8"));
        }
        tuning.max_chunks = self.whole(of("max_chunks")?, 1..=MOST_CHUNKS)?;
        let ahead = [
            ("always", ReadAhead::Always),
            ("likely", ReadAhead::Likely),
            ("never", ReadAhead::Never),
        ];
        tuning.read_ahead = self.one_of(of("read_ahead")?, ahead)?;
        let claim = [("off", FirstClaim::Off), ("on", FirstClaim::On), ("auto", FirstClaim::Auto)];
        tuning.first_claim = self.one_of(of("one_roundtrip")?, claim)?;
        let direct = of("direct")?;
        tuning.direct = direct
            .get_ref()
            .as_bool()
            .ok_or_else(|| self.error(&direct.span(), "this is to be true or false"))?;
        Ok(())
    }

    fn rank(&self, value: &Value<'t>, tuning: &mut Tuning) -> Result<(), ParseError> {
        let (at, table) = self.section(value, "rank", &RANK)?;
        tuning.in_flight = self.whole(self.value(table, &at, "in_flight")?, 1..=MOST_IN_FLIGHT)?;
        let cache = self.value(table, &at, "cache_entries")?;
        let entries = self.whole(cache, 0..=MOST_CACHE_ENTRIES)?;
        if entries != 0 && !entries.is_power_of_two() {
            return Err(self.error(&cache.span(), "cache_entries is to be 0 or a power of two"));
        }
        tuning.cache_entries = entries as usize;
        Ok(())
    }

    fn expected(&self, value: &Value<'t>) -> Result<Expected, ParseError> {
        let (at, table) = self.section(value, "expected", &EXPECTED)?;
        let of = |key, most| self.number(self.value(table, &at, key)?, most);
        Ok(Expected {
            load_factor: of("load_factor", 1.0)?,
            insert_share: of("insert_share", 1.0)?,
            latency_ns: of("latency_ns", MOST_EXPECTED)?,
            ops_per_s: of("ops_per_s", MOST_EXPECTED)?,
        })
    }

    fn section<'v>(
        &self,
        value: &'v Value<'t>,
        name: &str,
        keys: &[&str],
    ) -> Result<(Range<usize>, &'v DeTable<'t>), ParseError> {
        let DeValue::Table(table) = value.get_ref() else {
            return Err(self.error(&value.span(), format!("{name} is to be a table, [{name}]")));
        };
        self.known(table, name, keys)?;
        Ok((value.span(), table))
    }

    fn known(&self, table: &DeTable<'t>, of: &str, keys: &[&str]) -> Result<(), ParseError> {
        let unknown = table.keys().find(|key| !keys.contains(&key.get_ref().as_ref()));
        let Some(key) = unknown else { return Ok(()) };
        let dot = if of.is_empty() { "" } else { "." };
        let what = format!(
            "no tuning has the key {:?}: leave it out; there are {}",
            format!("{of}{dot}{}", key.get_ref()),
            keys.join(", ")
        );
        Err(self.error(&key.span(), what))
    }

    fn value<'v>(
        &self,
        table: &'v DeTable<'t>,
        at: &Range<usize>,
        key: &str,
    ) -> Result<&'v Value<'t>, ParseError> {
        table
            .get(key)
            .ok_or_else(|| self.error(at, format!("{key} is missing: add {key} = \u{2026}")))
    }

    fn string<'v>(&self, value: &'v Value<'t>) -> Result<&'v str, ParseError> {
        let text = value.get_ref().as_str();
        text.ok_or_else(|| self.error(&value.span(), "this is to be a string"))
    }

    fn one_of<T: Copy, const N: usize>(
        &self,
        value: &Value<'t>,
        of: [(&str, T); N],
    ) -> Result<T, ParseError> {
        let text = self.string(value)?;
        let found = of.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
        found.ok_or_else(|| {
            let what = format!("{text:?} is none of {}", of.map(|(name, _)| name).join(", "));
            self.error(&value.span(), what)
        })
    }

    /// A whole number in a range that a u32 holds.
    fn whole(&self, value: &Value<'t>, range: RangeInclusive<u64>) -> Result<u32, ParseError> {
        let digits = value.get_ref().as_integer().filter(|integer| integer.radix() == 10);
        let number = digits.and_then(|integer| integer.as_str().parse::<u64>().ok());
        let number = number.filter(|number| range.contains(number));
        number.and_then(|number| u32::try_from(number).ok()).ok_or_else(|| {
            let what =
                format!("this is to be a whole number from {} to {}", range.start(), range.end());
            self.error(&value.span(), what)
        })
    }

    fn number(&self, value: &Value<'t>, most: f64) -> Result<f64, ParseError> {
        let text = value.get_ref().as_float().map(|float| float.as_str());
        let text = text.or_else(|| value.get_ref().as_integer().map(|integer| integer.as_str()));
        let number = text.and_then(|text| text.parse().ok());
        number.filter(|number| (0.0..=most).contains(number)).ok_or_else(|| {
            self.error(&value.span(), format!("this is to be a number from 0 to {most}"))
        })
    }
}
