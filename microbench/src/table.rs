//! Options of the optimizations that hide latency, and the table that they configure.

use core::fmt::Debug;
use core::time::Duration;

use clap::builder::{RangedI64ValueParser, TypedValueParser};
use clap::{Args, value_parser};
use probeline::table::{
    CacheEntry, ChunkChoice, Config, OneRoundtrip, Operation, Outcome, Probing, ReadAhead,
    ReadCost, Table,
};
use probeline::transport::{Exchange, Owner, Sizes};
use probeline_programs::Timed;

use crate::cli::{JobArgs, TransportName, heading, on_off, one_of, power_of_two};
use crate::failure::{Failure, Result};
use crate::meter::{Meter, Plan};

/// Maximum operations in flight: far above any device's depth.
const MAX_IN_FLIGHT: i64 = 1 << 14;
/// Maximum operations in one call; each outcome takes 24 bytes.
const MAX_BATCH: i64 = 1 << 20;
/// The fastest of 16 to 1024 on all workloads. Compared to 64, it is 1.3 times as fast over shm in
/// 128 MiB, 1.1 times in 2 GiB, and 1.03 times in the model of the paper's cluster, because fewer
/// batches end, where few operations are in flight.
pub(crate) const DEFAULT_BATCH: u32 = 1024;
/// Maximum entries of a cache: 16 GiB.
pub(crate) const MAX_ENTRIES: u32 = 1 << 30;
/// Two operations of blocking calls, one of which may be a read-ahead of the previous call.
const MIN_DEPTH: u32 = 16;
/// The time, and the maximum number of READs, for the measurement of the cost of READs of one size.
const COST_TIME: Duration = Duration::from_millis(5);
const COST_READS: u64 = 200;

#[derive(Args, Clone, Copy, Debug)]
#[command(next_help_heading = heading::LATENCY)]
pub(crate) struct AlgorithmArgs {
    /// Use the paper's algorithm: chunks by READ, the next one always read ahead, claims only of
    /// buckets seen empty. Options below change it
    #[arg(long)]
    paper: bool,

    /// When the next chunk is requested before the present one is scanned; with --paper always
    #[arg(long, value_name = "WHEN", default_value = "likely", value_parser = read_ahead())]
    #[arg(default_value_if("paper", "true", "always"))]
    read_ahead: ReadAhead,

    /// When the home bucket is claimed along with the first READ, so that an insert takes one
    /// roundtrip; with --paper off
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = one_roundtrip())]
    #[arg(default_value_if("paper", "true", "off"))]
    one_roundtrip: OneRoundtrip,

    /// Let the CPU load and claim the words that it can address itself [default: on; off with
    /// --paper and on the simulator, whose time stands still meanwhile]
    #[arg(long, value_name = "SWITCH", value_parser = on_off())]
    direct: Option<bool>,
}

/// The options of a table: its algorithm, probe order and cache.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = heading::LATENCY)]
pub(crate) struct TableArgs {
    #[command(flatten)]
    algorithm: AlgorithmArgs,

    /// Order in which buckets are probed
    #[arg(long, value_name = "ORDER", default_value = "lines", value_parser = probing())]
    probing: Probing,

    /// Choose C for each operation, at most -C, from the measured cost of READs and what recent
    /// operations needed; without effect on words that the CPU addresses itself
    #[arg(long)]
    pub(crate) adaptive_chunks: bool,

    /// Entries of each rank's cache of occupied buckets, 16 bytes each: a power of two, or 0;
    /// without effect on words that the CPU addresses itself
    #[arg(long, value_name = "ENTRIES", default_value = "0")]
    #[arg(value_parser = power_of_two(1..=MAX_ENTRIES))]
    pub(crate) cache: u32,
}

/// The options of a table with many operations in flight.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = heading::LATENCY)]
pub(crate) struct PipelineArgs {
    #[command(flatten)]
    pub(crate) table: TableArgs,

    /// Operations in flight of each rank that use READs and claims, 2 to 16384
    #[arg(long, default_value_t = 32, value_name = "N", value_parser = in_flight(2))]
    pub(crate) in_flight: u32,
}

/// Parses the operations in flight of a rank, at least this number.
pub(crate) fn in_flight(least: i64) -> RangedI64ValueParser<u32> {
    value_parser!(u32).range(least..=MAX_IN_FLIGHT)
}

/// Parses the operations in one call.
pub(crate) fn batch() -> RangedI64ValueParser<u32> {
    value_parser!(u32).range(1..=MAX_BATCH)
}

pub(crate) fn probing() -> impl TypedValueParser<Value = Probing> {
    one_of(&[
        ("linear", "From the home bucket on, as in the paper", Probing::Linear),
        (
            "lines",
            "The home bucket's cache line, wrapping around, then the next lines",
            Probing::Lines,
        ),
        (
            "double-hash",
            "As lines, but further lines by a second hash; needs C = 8",
            Probing::DoubleHash,
        ),
    ])
}

pub(crate) fn read_ahead() -> impl TypedValueParser<Value = ReadAhead> {
    one_of(&[
        ("always", "As in the paper", ReadAhead::Always),
        (
            "likely",
            "If one operation in two needs a further chunk; one in eight with no other in flight",
            ReadAhead::Likely,
        ),
        ("never", "", ReadAhead::Never),
    ])
}

pub(crate) fn one_roundtrip() -> impl TypedValueParser<Value = OneRoundtrip> {
    one_of(&[
        ("off", "As in the paper", OneRoundtrip::Off),
        ("on", "", OneRoundtrip::On),
        ("auto", "While at least one claim in four succeeds", OneRoundtrip::Auto),
    ])
}

/// A table with a cache of buckets; its operations and cache are on the heap.
pub(crate) type CachedTable<T> = Table<T, Vec<Operation>, Vec<CacheEntry>>;

impl TableArgs {
    pub(crate) fn config(&self, job: &JobArgs, chunk_buckets: u32, max_chunks: u32) -> Config {
        let AlgorithmArgs { paper, read_ahead, one_roundtrip, direct } = self.algorithm;
        let buckets = job.buckets_per_owner();
        let base = if paper { Config::paper(buckets) } else { Config::new(buckets) };
        let simulated = job.transport == TransportName::Sim;
        Config {
            chunk_buckets,
            max_chunks,
            read_ahead,
            one_roundtrip,
            direct: direct.unwrap_or(base.direct && !simulated),
            probing: self.probing,
            ..base
        }
    }

    pub(crate) fn check(&self, chunk_buckets: &[u32]) -> Result<()> {
        if self.adaptive_chunks && chunk_buckets.contains(&8) {
            return Err(Failure::usage(
                "--adaptive-chunks has nothing to choose from with C = 8: give a larger -C, which \
                 is then the most",
            ));
        }
        match chunk_buckets.iter().find(|&&c| c != 8) {
            Some(c) if self.probing == Probing::DoubleHash => Err(Failure::usage(format!(
                "--probing double-hash goes from line to line, 8 buckets each, but C = {c}: add -C 8"
            ))),
            _ => Ok(()),
        }
    }

    pub(crate) fn open<T: Timed>(
        &self,
        mut engine: T,
        config: Config,
        operations: u32,
        exchange: &mut dyn Exchange,
    ) -> Result<CachedTable<T>> {
        let config = self.adapted(&mut engine, config, exchange)?;
        open(engine, config, operations, self.cache, exchange)
    }

    /// Returns the configuration with the measured cost of READs, if C is adaptive.
    pub(crate) fn adapted<T: Timed>(
        &self,
        engine: &mut T,
        config: Config,
        exchange: &mut dyn Exchange,
    ) -> Result<Config> {
        if !self.adaptive_chunks {
            return Ok(config);
        }
        let cost = read_cost(engine, config.chunk_buckets, exchange)?;
        Ok(Config { chunk_choice: ChunkChoice::Adaptive(cost), ..config })
    }

    pub(crate) fn parameters(&self, config: &Config) -> Vec<(&'static str, String)> {
        vec![
            ("read_ahead", name_of(config.read_ahead)),
            ("one_roundtrip", name_of(config.one_roundtrip)),
            ("direct", config.direct.to_string()),
            ("probing", name_of(config.probing)),
            ("adaptive_chunks", self.adaptive_chunks.to_string()),
            ("cache_entries", self.cache.to_string()),
        ]
    }
}

/// Opens a table together with the other ranks. All commands use the same table type, because each
/// one takes seconds to compile for each transport.
pub(crate) fn open<T: Timed>(
    engine: T,
    config: Config,
    operations: u32,
    cache_entries: u32,
    exchange: &mut dyn Exchange,
) -> Result<CachedTable<T>> {
    let (operations, cache) = storage(operations, cache_entries);
    Ok(Table::open(engine, config, operations, exchange)?.with_cache(cache))
}

/// Opens a table over an engine whose windows contain one, or are 0.
pub(crate) fn attach<T: Timed>(
    engine: T,
    config: Config,
    operations: u32,
    cache_entries: u32,
) -> Result<CachedTable<T>> {
    let (operations, cache) = storage(operations, cache_entries);
    Ok(Table::new(engine, config, operations)?.with_cache(cache))
}

fn storage(operations: u32, cache_entries: u32) -> (Vec<Operation>, Vec<CacheEntry>) {
    let operations = vec![Operation::EMPTY; operations as usize];
    (operations, vec![CacheEntry::EMPTY; cache_entries as usize])
}

/// Returns the sizes of engines for this number of operations on a table.
pub(crate) fn engine_sizes(config: &Config, operations: u32, slot_words: u32) -> Sizes {
    Sizes {
        window_words: config.words(),
        slots: Config::slots(operations),
        slot_words: slot_words.next_multiple_of(8),
        // Each operation posts a READ and a read-ahead, each split in two, or a claim.
        depth: (4 * operations).max(MIN_DEPTH),
    }
}

impl PipelineArgs {
    pub(crate) fn parameters(&self, config: &Config) -> Vec<(&'static str, String)> {
        let mut all = self.table.parameters(config);
        all.push(("in_flight", self.in_flight.to_string()));
        all
    }
}

/// Returns the name of a choice of the table as options and reports spell it, such as `double-hash`.
pub(crate) fn name_of(choice: impl Debug) -> String {
    let mut name = String::new();
    for letter in format!("{choice:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.extend(letter.to_lowercase());
    }
    name
}

/// Executes find-or-put of each key of `keys` in batches of the length of `outcomes`, or by
/// blocking calls if that is empty. Stops at the first error.
pub(crate) fn find_or_put_all<T: Timed>(
    table: &mut CachedTable<T>,
    keys: &[u64],
    outcomes: &mut [Outcome],
) -> Result<()> {
    if outcomes.is_empty() {
        for &key in keys {
            table.find_or_put(key)?;
        }
        return Ok(());
    }
    for keys in keys.chunks(outcomes.len()) {
        table.find_or_put_batch(keys, &mut outcomes[..keys.len()])?;
    }
    Ok(())
}

/// Returns storage for the outcomes of calls of `batch` operations, none for blocking calls.
pub(crate) fn outcomes(batch: usize) -> Vec<Outcome> {
    vec![Outcome::Full; if batch > 1 { batch } else { 0 }]
}

/// Measures the cost of READs from the next rank by size, on all ranks at the same time.
fn read_cost<T: Timed>(engine: &mut T, max: u32, exchange: &mut dyn Exchange) -> Result<ReadCost> {
    let (me, owners) = (exchange.me().0, exchange.owners());
    let next = Owner(if me + 1 < owners { me + 1 } else { 0 });
    exchange.barrier()?;
    let words = 0..engine.geometry().window_words;
    let plan = Plan { owner: next, words, time: COST_TIME, operations: COST_READS };
    let mut meter = Meter::new(engine, plan, 0)?;
    let measured = meter.read_times_ns(8..=max)?;
    exchange.barrier()?;
    // If only one size fits, the cost is that of this size.
    let only = measured.first().map_or(0, |&(_, ns)| ns.saturating_mul(1_000));
    let cost = ReadCost::from_measurements(&measured);
    Ok(cost.unwrap_or(ReadCost { base_ps: only.max(1), bucket_ps: 0 }))
}
