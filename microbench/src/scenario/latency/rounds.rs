//! Measures find-or-put at one C in rounds. Each round measures the floor as well.

use core::time::Duration;

use probeline::table::{Bucket, Config, Layout, Outcome, Position, Stats};
use probeline::transport::{Exchange, Owner, RemoteWord, Segment, Token};
use probeline_programs::Timed;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::filling::fill;
use super::recorder::Recorder;
use super::row::LatencyRow;
use super::{BATCH, FILLING, LatencyArgs, free_slot};
use crate::failure::{Failure, Result};
use crate::keys::nth;
use crate::meter::{after, read, wait};
use crate::progress::Progress;
use crate::scenario::{OPERATIONS, too_few_chunks};
use crate::series::median;
use crate::table::{CachedTable, attach, find_or_put_all, outcomes};

const MIN_CHUNK: u32 = 8;
/// Finds of random keys per cache entry before a measurement. With two, one entry in seven stays
/// unused.
const FINDS_PER_ENTRY: usize = 2;
/// Series at a load factor: inserts, finds, and the floor of each.
const SERIES: u32 = 4;

pub(super) struct Rounds<'a> {
    args: &'a LatencyArgs,
    config: Config,
    clock_ns: u64,
    held: u64,
    rng: SmallRng,
    floors: [Recorder; 2],
}

struct Series {
    recorder: Recorder,
    floors_ns: Vec<f64>,
    multiples: Vec<f64>,
    stats: Stats,
}

impl Series {
    fn new() -> Result<Self> {
        let recorder = Recorder::new(0)?;
        Ok(Self { recorder, floors_ns: Vec::new(), multiples: Vec::new(), stats: Stats::default() })
    }

    /// Adds a round. `floor_ns` is the trimmed mean of its floor.
    fn add(&mut self, round: &Recorder, floor_ns: Option<f64>, stats: &Stats) -> Result<()> {
        self.recorder.add(round)?;
        if let Some((took, floor)) = round.trimmed_mean_ns().zip(floor_ns) {
            self.floors_ns.push(floor);
            // In the simulator the floor may be 0, since virtual time does not advance for owned
            // words.
            self.multiples.push(took / floor.max(1.0));
        }
        self.stats = [self.stats, *stats].into_iter().sum();
        Ok(())
    }

    fn row(self, operation: &str, chunk_buckets: u32, load_factor: f64) -> LatencyRow {
        let total = self.stats.total();
        let mean = |sum: u64| Some(sum as f64 / total.operations.max(1) as f64);
        LatencyRow {
            chunk_buckets: Some(chunk_buckets),
            load_factor: Some(load_factor),
            effective_roundtrips: mean(total.effective_roundtrips),
            outgoing_roundtrips: mean(total.outgoing_roundtrips),
            cache_hit_share: mean(total.cache_hits),
            floor_ns: median(self.floors_ns),
            times_floor: median(self.multiples),
            ..self.recorder.row(operation)
        }
    }
}

impl<'a> Rounds<'a> {
    pub(super) fn new(args: &'a LatencyArgs, config: Config, clock_ns: u64) -> Result<Self> {
        let floors = [Recorder::new(0)?, Recorder::new(0)?];
        let rng = SmallRng::seed_from_u64(args.job.seed);
        Ok(Self { args, config, clock_ns, held: 0, rng, floors })
    }

    /// Fills the table from one load factor to the next. Rank 0 measures at each, and the progress
    /// has reached `done` before.
    pub(super) fn rows<T: Timed>(
        mut self,
        engine: &mut T,
        done: u64,
        progress: &mut Progress,
        exchange: &mut dyn Exchange,
    ) -> Result<Vec<LatencyRow>> {
        let (config, seed) = (self.config, self.args.job.seed);
        let buckets = config.buckets_per_owner * u64::from(exchange.owners());
        let mut rows = Vec::new();
        for (done, (alpha, target, measured)) in (done..).zip(self.args.steps(buckets)) {
            let doing = format!("find-or-put, C {}, load factor {alpha}", config.chunk_buckets);
            let numbers = self.held..target - measured;
            self.held = numbers.end;
            progress.during(done, &format!("filling the table for {doing}"), || {
                fill(engine, config, seed, numbers, exchange)
            })?;
            if exchange.me() == Owner(0) {
                let longest = SERIES * Duration::from_nanos(self.args.measurement_ns());
                progress.expecting(done, &doing, longest);
                rows.extend(self.at(engine, alpha, target, measured)?);
            }
            self.held = target;
        }
        exchange.barrier()?;
        rows.splice(0..0, self.floors());
        Ok(rows)
    }

    /// Inserts `measured` new keys in rounds, until the table has `target`, and finds as many old
    /// ones.
    fn at<T: Timed>(
        &mut self,
        engine: &mut T,
        load_factor: f64,
        target: u64,
        measured: u64,
    ) -> Result<[LatencyRow; 2]> {
        // A new table for each load factor, so that its adaptive estimates start there.
        let mut table = attach(engine, self.config, OPERATIONS, self.args.table.cache)?;
        self.fill_cache(&mut table)?;
        let (mut inserted, mut found) = (Series::new()?, Series::new()?);
        let rounds = u64::from(self.args.rounds);
        for round in 0..rounds {
            let end = target - measured + measured * (round + 1) / rounds;
            let new: Vec<u64> = (self.held..end).map(|n| nth(self.args.job.seed, n)).collect();
            self.round(&mut table, &new, Outcome::Inserted, &mut inserted)?;
            self.insert_rest(&mut table, end)?;
            let old: Vec<u64> = new.iter().map(|_| self.any_held()).collect();
            self.round(&mut table, &old, Outcome::Found, &mut found)?;
        }
        table.into_transport();
        let c = self.config.chunk_buckets;
        Ok([found.row("found", c, load_factor), inserted.row("inserted", c, load_factor)])
    }

    fn any_held(&mut self) -> u64 {
        nth(self.args.job.seed, self.rng.random_range(0..self.held))
    }

    /// Finds enough keys to fill most of the cache, for at most the time of a measurement.
    fn fill_cache<T: Timed>(&mut self, table: &mut CachedTable<&mut T>) -> Result<()> {
        let finds =
            if self.held == 0 { 0 } else { FINDS_PER_ENTRY * self.args.table.cache as usize };
        let start_ns = table.transport().now_ns();
        for _ in 0..finds {
            table.find(self.any_held())?;
            if table.transport().now_ns() - start_ns >= self.args.measurement_ns() {
                break;
            }
        }
        Ok(())
    }

    fn floors(&self) -> [LatencyRow; 2] {
        let c = self.config.chunk_buckets;
        let read = format!("floor READ {} B", self.floor_words() * 8);
        let names = [read.clone(), format!("{read} + CAS")];
        core::array::from_fn(|i| LatencyRow {
            chunk_buckets: Some(c),
            ..self.floors[i].row(&names[i])
        })
    }

    fn floor_words(&self) -> u32 {
        if self.args.table.adaptive_chunks { MIN_CHUNK } else { self.config.chunk_buckets }
    }

    /// Returns the trimmed mean time in nanoseconds of a chunk READ without a table, or, with
    /// `claims`, of a READ and then a CAS of its first word that leaves the word unchanged. The
    /// accesses go to the owners where the search for `keys` starts, in that order, but to other
    /// words, so that the CPU's caches do not hold them.
    fn floor<T: Timed>(
        &mut self,
        table: &mut CachedTable<&mut T>,
        keys: &[u64],
        claims: bool,
    ) -> Result<Option<f64>> {
        let words = self.floor_words();
        let chunks = chunks(table.layout(), words, keys)?;
        let mut last = 0;
        let operation = |engine: &mut &mut T, chunk: &Segment| {
            let index = after(last, chunk.start.index);
            let start = RemoteWord { index, ..chunk.start };
            last = read(engine, Segment { start, ..*chunk }, free_slot())?;
            if claims {
                engine.compare_and_swap(Token(0), start, last, last)?;
                last = wait(engine)?;
            }
            Ok(())
        };
        let now = |engine: &&mut T| engine.now_ns();
        let (limit_ns, engine) = (self.round_ns(), table.transport_mut()?);
        let round =
            Recorder::run_warm(self.clock_ns, chunks.iter(), limit_ns, engine, operation, now)?;
        self.floors[usize::from(claims)].add(&round)?;
        Ok(round.trimmed_mean_ns())
    }

    /// Measures the floor and then find-or-puts of `keys`, which all end as `expected`.
    fn round<T: Timed>(
        &mut self,
        table: &mut CachedTable<&mut T>,
        keys: &[u64],
        expected: Outcome,
        series: &mut Series,
    ) -> Result<()> {
        let floor_ns = self.floor(table, keys, expected == Outcome::Inserted)?;
        table.reset_stats();
        let (config, owners, held) = (self.config, table.layout().owners(), self.held);
        let operation =
            |table: &mut CachedTable<&mut T>, &key: &u64| match table.find_or_put(key)? {
                outcome if outcome == expected => Ok(()),
                Outcome::Full => Err(too_few_chunks(&config, owners, held)),
                other => Err(Failure::new(format!("key {key} was {other:?}, not {expected:?}"))),
            };
        let now = |table: &CachedTable<&mut T>| table.transport().now_ns();
        let limit_ns = self.round_ns();
        let round =
            Recorder::run_warm(self.clock_ns, keys.iter(), limit_ns, table, operation, now)?;
        self.held += table.stats().inserted.operations;
        series.add(&round, floor_ns, table.stats())
    }

    fn round_ns(&self) -> u64 {
        self.args.measurement_ns() / u64::from(self.args.rounds)
    }

    /// Inserts keys in batches until the table has `target`, without measuring: those for which the
    /// time of the rounds was too short.
    fn insert_rest<T: Timed>(
        &mut self,
        table: &mut CachedTable<&mut T>,
        target: u64,
    ) -> Result<()> {
        let owners = table.layout().owners();
        let keys: Vec<u64> = (self.held..target).map(|n| nth(self.args.job.seed, n)).collect();
        let mut many = attach(&mut **table.transport_mut()?, self.config, FILLING, 0)?;
        find_or_put_all(&mut many, &keys, &mut outcomes(BATCH))?;
        let stats = *many.stats();
        many.into_transport();
        self.held = target;
        match (stats.full.operations, stats.found.operations) {
            (0, 0) => Ok(()),
            (0, _) => Err(Failure::new(format!("a new key below {target} was found"))),
            _ => Err(too_few_chunks(&self.config, owners, target)),
        }
    }
}

/// Returns for each key a whole chunk of the owner where its search starts.
fn chunks(layout: &Layout, words: u32, keys: &[u64]) -> Result<Vec<Segment>> {
    let last = layout.buckets_per_owner() - u64::from(words);
    let chunk = |&key: &u64| {
        let home = layout.home(Bucket::new(key)?);
        let mirrored = layout.buckets_per_owner() - 1 - home.index;
        let start = layout.word(Position { index: mirrored.min(last), ..home });
        Ok(Segment { start, words })
    };
    keys.iter().map(chunk).collect()
}
