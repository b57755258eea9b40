//! The second half of `just bench-speed`: three optimizations of the table in virtual time, on the
//! latency model of the paper's cluster, each beside the paper's own algorithm.
//!
//! Two owners on as many nodes (`oortwijn2015`), of which one works; half of all operations go to its
//! own part. The same seed gives the same numbers. `probeline simulate` and `bench-latency
//! --transport sim --sim-model oortwijn2015` measure other load factors, chunks and workloads.
#![forbid(unsafe_code)]

mod nic;

use core::num::NonZero;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::io::Write;
use std::process::ExitCode;
use std::thread;

use clap::{ArgAction, Parser};
use probeline_limits::remote;
use probeline_sim::{Cluster, Engine, Model};
use probeline_table::{
    Bucket, CacheEntry, ChunkChoice, Config, MAX_KEY, OneRoundtrip, Operation, Outcome, ReadAhead,
    ReadCost, Table,
};
use probeline_transport::{Owner, RemoteWord, Transport};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand_distr::{Distribution, Zipf};

use nic::Nic;

type Result<T, E = Box<dyn core::error::Error + Send + Sync>> = core::result::Result<T, E>;

/// Measure optimizations of the table on the latency model of the paper's cluster
#[derive(Clone, Debug, Parser)]
#[command(name = "bench-cluster", version)]
pub(crate) struct Args {
    /// Seed of all keys
    #[arg(long, default_value_t = 1, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(0..1 << SEED_BITS))]
    seed: u64,

    /// Measure half of the table, and fewer load factors
    #[arg(long)]
    quick: bool,

    /// Exit with status 1 if a target is missed
    #[arg(long)]
    check: bool,

    // `cargo bench` adds it.
    #[arg(long, hide = true, action = ArgAction::SetTrue)]
    bench: bool,
}

/// Seeds are below 2 to this power.
const SEED_BITS: u32 = 20;
const OWNERS: u64 = 2;
/// The largest C.
const MAX_CHUNK: u32 = 128;
/// Buckets that an operation searches, whatever C is: a multiple of all C. No operation returns
/// `Full` at a load factor of 0.92.
const MAX_PROBED: u32 = 6_144;
/// Storage of a blocking caller: one operation, and a few whose READs ahead are still in flight.
const OPERATIONS: u32 = 4;
/// One-sided operations of each: the READs of two chunks, each split in two, and a claim.
const DEPTH: u32 = 5;
/// Load factors are in hundredths. Inserts to a load factor are measured from this much below it, as
/// in the paper (section 4.1).
const STEP: u64 = 2;

/// Inserts that claim the home bucket along with the first READ, by those of the paper's algorithm at
/// [`CLAIM_LOAD`] with C = 8.
const CLAIM_TARGET: f64 = 0.80;
const CLAIM_LOAD: u64 = 50;

/// Finds with a cache of 1/16 of the keys by those without, at load factor 0.5.
const CACHE_TARGET: f64 = 0.5;
const KEYS_PER_ENTRY: u64 = 16;
const CACHE_LOAD: u64 = 50;
/// The skew of YCSB.
const ZIPF_EXPONENT: f64 = 0.99;
/// Tables with other keys, because it matters which owner has the few most wanted ones.
const TABLES: u64 = 5;

/// Inserts with the adaptive C by those with the best fixed C, at the worst load factor.
const ADAPTIVE_TARGET: f64 = 1.02;
const CHUNKS: [u32; 8] = [8, 16, 24, 32, 48, 64, 96, MAX_CHUNK];
const ADAPTIVE_LOADS: (u64, u64) = (10, 92);

/// A ratio of mean times.
struct Figure {
    name: String,
    ratio: f64,
    target: Option<f64>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok((text, status)) => {
            // The reader may close the pipe.
            let _ = writeln!(std::io::stdout(), "{text}");
            status
        }
        Err(error) => {
            eprintln!("bench-cluster: {error}");
            ExitCode::from(2)
        }
    }
}

/// Measures everything; returns the report, and failure if a target was missed that had to be checked.
pub(crate) fn run(args: &Args) -> Result<(String, ExitCode)> {
    let scale = Scale { seed: args.seed, buckets_per_owner: 1 << if args.quick { 17 } else { 18 } };
    let step = if args.quick { 10 } else { STEP };
    let figures = [claims(scale)?, vec![cache(scale)?], adaptive(scale, step)?]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>();
    let is_missed = |figure: &Figure| figure.target.is_some_and(|target| figure.ratio > target);
    let mut lines = vec![format!(
        "Virtual time on the model of the paper's cluster (oortwijn2015): {} buckets, seed {}; \
         ratios of mean times",
        OWNERS << scale.buckets_per_owner.ilog2(),
        scale.seed
    )];
    for figure in &figures {
        let verdict = match figure.target {
            None => String::new(),
            Some(target) if is_missed(figure) => format!("target <= {target:.2}  MISSED"),
            Some(target) => format!("target <= {target:.2}  met"),
        };
        lines.push(format!("{:7.4}  {}  {verdict}", figure.ratio, figure.name).trim_end().into());
    }
    let missed = args.check && figures.iter().any(is_missed);
    Ok((lines.join("\n"), if missed { ExitCode::FAILURE } else { ExitCode::SUCCESS }))
}

/// The size of the tables, and the seed of their keys.
#[derive(Clone, Copy)]
struct Scale {
    seed: u64,
    /// A power of two.
    buckets_per_owner: u64,
}

/// The paper's algorithm with this C.
fn paper(scale: Scale, chunk_buckets: u32) -> Config {
    let max_chunks = MAX_PROBED / chunk_buckets;
    Config { chunk_buckets, max_chunks, ..Config::paper(scale.buckets_per_owner) }
}

/// Inserts with the home bucket claimed along with the first READ. In the model READs posted at once
/// are 1311 ns apart and a claim waits for nothing; the paper's latencies do not show whether claims
/// take the turns of READs too, so the ratios are given for both.
fn claims(scale: Scale) -> Result<Vec<Figure>> {
    const CLAIMS: [OneRoundtrip; 3] = [OneRoundtrip::Off, OneRoundtrip::On, OneRoundtrip::Auto];
    let all = [false, true].map(|shares_turns| CLAIMS.map(|claim| (shares_turns, claim)));
    let means = each(all.as_flattened(), |&(shares_turns, one_roundtrip)| {
        let config = Config { one_roundtrip, ..paper(scale, 8) };
        let mut job = Job::open(scale, config, 0, shares_turns)?;
        job.fill(CLAIM_LOAD - 2 * STEP)?;
        // Lets the automatic choice see the table.
        job.insert(CLAIM_LOAD - STEP)?;
        job.insert(CLAIM_LOAD)
    })?;
    let mut figures = Vec::new();
    let (means, _) = means.as_chunks::<3>();
    for (&[off, on, auto], shares_turns) in means.iter().zip([false, true]) {
        let turns = if shares_turns { ", if a claim takes a READ's turn at the NIC" } else { "" };
        figures.extend([(on, "on"), (auto, "auto")].map(|(mean, how)| Figure {
            name: format!("insert in one roundtrip ({how}) by the paper's, load 0.5, C = 8{turns}"),
            ratio: mean / off,
            target: (!shares_turns).then_some(CLAIM_TARGET),
        }));
    }
    Ok(figures)
}

/// Finds of Zipf-distributed keys with a cache of buckets.
fn cache(scale: Scale) -> Result<Figure> {
    let keys = scale.buckets_per_owner * OWNERS * CACHE_LOAD / 100;
    let entries = [0, usize::try_from(keys / KEYS_PER_ENTRY)?];
    let seeds: Vec<u64> = (0..TABLES).map(|nth| scale.seed | nth << SEED_BITS).collect();
    let means = each(&seeds, |&seed| {
        let wanted = zipf(keys, seed)?;
        let mut means = [0.0; 2];
        for (mean, &entries) in means.iter_mut().zip(&entries) {
            let scale = Scale { seed, ..scale };
            let config = Config::paper(scale.buckets_per_owner);
            let mut job = Job::open(scale, config, entries, false)?;
            job.fill(CACHE_LOAD)?;
            let wanted: Vec<u64> = wanted.iter().map(|&n| job.key(n)).collect();
            // The first half warms the cache up.
            let (first, measured) = wanted.split_at(wanted.len() / 2);
            job.find(first)?;
            *mean = job.find(measured)?;
        }
        Ok(means)
    })?;
    let sum = |at: usize| means.iter().map(|means| means[at]).sum::<f64>();
    Ok(Figure {
        name: format!(
            "find, Zipf {ZIPF_EXPONENT}, cache of 1/{KEYS_PER_ENTRY} of the keys by none, load 0.5 \
             (a hit takes no virtual time)"
        ),
        ratio: sum(1) / sum(0),
        target: Some(CACHE_TARGET),
    })
}

/// Twice as many keys, by number, as there are, a power of two.
fn zipf(keys: u64, seed: u64) -> Result<Vec<u64>> {
    /// Odd, so that it permutes a power of two of keys: the most wanted ones are not those inserted
    /// first, into empty home buckets.
    const SHUFFLE: u64 = 0x9e37_79b9_7f4a_7c15;
    let zipf = Zipf::new(keys as f64, ZIPF_EXPONENT)?;
    let mut rng = SmallRng::seed_from_u64(seed);
    let draws = (0..2 * keys).map(|_| {
        // A sample is a whole number from 1 to `keys`.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let rank = zipf.sample(&mut rng) as u64 - 1;
        rank.wrapping_mul(SHUFFLE) & (keys - 1)
    });
    Ok(draws.collect())
}

/// Inserts with an adaptive C beside each fixed C while a table fills.
fn adaptive(scale: Scale, step: u64) -> Result<Vec<Figure>> {
    let cost = read_cost(scale.seed)?;
    let (from, to) = ADAPTIVE_LOADS;
    let loads: Vec<u64> = (from..to).step_by(usize::try_from(step)?).chain([to]).collect();
    let fixed = CHUNKS.map(|chunk| paper(scale, chunk));
    let chunk_choice = ChunkChoice::Adaptive(cost);
    let chosen = Config { chunk_choice, ..paper(scale, MAX_CHUNK) };
    let mut figures = Vec::new();
    for (read_ahead, name) in [(ReadAhead::Always, "always"), (ReadAhead::Likely, "where likely")] {
        let configs: Vec<_> = fixed
            .into_iter()
            .chain([chosen])
            .map(|config| Config { read_ahead, ..config })
            .collect();
        let means = each(&configs, |&config| inserts(scale, config, &loads))?;
        let Some((adaptive, fixed)) = means.split_last() else { continue };
        let by_best = adaptive.iter().enumerate().map(|(at, adaptive)| {
            let best = fixed.iter().map(|means| means[at]).fold(f64::INFINITY, f64::min);
            adaptive / best
        });
        figures.push(Figure {
            name: format!("insert, adaptive C by the best fixed C, worst load, read ahead {name}"),
            ratio: by_best.fold(0.0, f64::max),
            target: Some(ADAPTIVE_TARGET),
        });
    }
    Ok(figures)
}

/// The mean time of inserts up to each load factor. All keys are inserted by the table, unless its
/// operations learn nothing from earlier ones.
fn inserts(scale: Scale, config: Config, loads: &[u64]) -> Result<Vec<f64>> {
    let mut job = Job::open(scale, config, 0, false)?;
    let learns =
        config.read_ahead != ReadAhead::Always || config.chunk_choice != ChunkChoice::Fixed;
    let mean = |&percent: &u64| {
        match learns {
            true => drop(job.insert(percent - STEP)?),
            false => job.fill(percent - STEP)?,
        }
        job.insert(percent)
    };
    loads.iter().map(mean).collect()
}

/// The cost of READs by size, measured; half of them of each owner's part.
fn read_cost(seed: u64) -> Result<ReadCost> {
    const READS: u64 = 64;
    const WORDS: u64 = 1 << 12;
    let (mut engine, _peer) = engines(WORDS, seed, false)?;
    let mut measured = Vec::new();
    // One owner after the other: at random one would come more often, which costs more than size.
    for owner in [Owner(0), Owner(1)] {
        let plan = remote::Plan {
            owners: &[owner],
            words: 0..WORDS,
            time: Duration::MAX,
            operations: READS,
        };
        let mut meter = remote::Meter::new(&mut engine, Nic::now_ns, plan, seed)?;
        measured.extend(meter.read_times_ns(8..=MAX_CHUNK)?);
    }
    Ok(ReadCost::from_measurements(&measured).ok_or("READs of only one size were measured")?)
}

/// Runs each of `all` on a cluster of its own, as many at a time as there are CPUs.
fn each<I: Sync, O: Send>(all: &[I], run: impl Fn(&I) -> Result<O> + Sync) -> Result<Vec<O>> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    probeline_simulate::each_at_once(all, threads, run)
}

/// A table of which one owner works, and how many keys it holds.
struct Job {
    table: Table<Nic, Vec<Operation>, Vec<CacheEntry>>,
    peer: Engine,
    held: u64,
    seed: u64,
}

impl Job {
    fn open(
        scale: Scale,
        config: Config,
        cache_entries: usize,
        shares_turns: bool,
    ) -> Result<Self> {
        let (engine, peer) = engines(config.words(), scale.seed, shares_turns)?;
        let table = Table::new(engine, config, vec![Operation::EMPTY; OPERATIONS as usize])?;
        let table = table.with_cache(vec![CacheEntry::EMPTY; cache_entries]);
        Ok(Self { table, peer, held: 0, seed: scale.seed })
    }

    /// The `n`th key; the table permutes keys by itself.
    fn key(&self, n: u64) -> u64 {
        (self.seed << 40).wrapping_add(n) & MAX_KEY
    }

    /// The keys up to a load factor that the table does not hold yet.
    fn missing(&mut self, percent: u64) -> core::ops::Range<u64> {
        let count = self.table.layout().buckets() * percent / 100;
        let missing = self.held..count.max(self.held);
        self.held = missing.end;
        missing
    }

    /// Fills up to a load factor without taking time: stores each key in the first empty bucket of
    /// its probe order.
    fn fill(&mut self, percent: u64) -> Result<()> {
        let layout = *self.table.layout();
        for n in self.missing(percent) {
            let bucket = Bucket::new(self.key(n))?;
            let mut at = layout.home(bucket);
            while self.word(layout.word(at))?.load(Relaxed) != 0 {
                at = layout.advance(at, 1);
            }
            self.word(layout.word(at))?.store(bucket.word(), Relaxed);
        }
        Ok(())
    }

    fn word(&self, at: RemoteWord) -> Result<&AtomicU64> {
        let is_own = at.owner == Owner(0);
        let window = if is_own { self.table.transport().window() } else { self.peer.window() };
        Ok(window.get(usize::try_from(at.index)?).ok_or("a bucket is beyond the window")?)
    }

    /// Inserts new keys up to a load factor, one after the other; returns their mean time in
    /// nanoseconds.
    fn insert(&mut self, percent: u64) -> Result<f64> {
        let missing = self.missing(percent);
        let (count, start_ns) = (missing.end - missing.start, self.now_ns());
        for n in missing {
            let outcome = self.table.find_or_put(self.key(n))?;
            if outcome != Outcome::Inserted {
                return Err(format!("a new key was {outcome:?}, not inserted").into());
            }
        }
        Ok((self.now_ns() - start_ns) as f64 / count.max(1) as f64)
    }

    /// Finds keys that the table holds, one after the other; returns their mean time in nanoseconds.
    fn find(&mut self, keys: &[u64]) -> Result<f64> {
        let start_ns = self.now_ns();
        for &key in keys {
            if !self.table.find(key)? {
                return Err("a key in the table was not found".into());
            }
        }
        Ok((self.now_ns() - start_ns) as f64 / keys.len().max(1) as f64)
    }

    fn now_ns(&self) -> u64 {
        self.table.transport().now_ns()
    }
}

/// The engine that works, and that of the other owner, which has to stay alive.
fn engines(words: u64, seed: u64, shares_turns: bool) -> Result<(Nic, Engine)> {
    let model = Model::oortwijn2015();
    let cluster = Cluster::new(probeline_sim::Config {
        owners: 2,
        window_words: words,
        slots: Config::slots(OPERATIONS),
        slot_words: MAX_CHUNK,
        depth: OPERATIONS * DEPTH,
        seed,
        model,
        ..probeline_sim::Config::default()
    })?;
    let turn_ns =
        if shares_turns { 1_000_000_000_u64.div_ceil(model.initiator.copies_per_s) } else { 0 };
    Ok((Nic::new(cluster.engine(Owner(0))?, turn_ns), cluster.engine(Owner(1))?))
}
