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
use super::{BATCH, FILLING, LatencyArgs, Limits, free_slot};
use crate::failure::{Failure, Result};
use crate::keys::nth;
use crate::one_sided::{after, read, wait};
use crate::progress::Progress;
use crate::scenario::{OPERATIONS, too_few_chunks};
use crate::series::Spread;
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
    limits: Limits,
    held: u64,
    rng: SmallRng,
    floors: [Recorder; 2],
    round: Recorder,
}

struct Series {
    recorder: Recorder,
    floors_ns: Vec<f64>,
    multiples: Vec<f64>,
    stats: Stats,
}

impl Series {
    fn new(limits: &Limits) -> Result<Self> {
        let recorder = Recorder::new(limits.clock_ns)?;
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
        let median = |values| Spread::new(values).map(|spread| spread.median);
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
    pub(super) fn new(args: &'a LatencyArgs, config: Config, limits: Limits) -> Result<Self> {
        let recorder = || Recorder::new(limits.clock_ns);
        let (floors, round) = ([recorder()?, recorder()?], recorder()?);
        let rng = SmallRng::seed_from_u64(args.job.seed);
        Ok(Self { args, config, limits, held: 0, rng, floors, round })
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
                let longest = SERIES * Duration::from_nanos(self.limits.measurement_ns);
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
        let (mut inserted, mut found) = (Series::new(&self.limits)?, Series::new(&self.limits)?);
        let rounds = u64::from(self.args.rounds);
        for round in 0..rounds {
            let end = target - measured + measured * (round + 1) / rounds;
            let new: Vec<u64> = (self.held..end).map(|n| nth(self.args.job.seed, n)).collect();
            let floor = self.floor(&mut table, &new, true)?;
            let stats = self.insert(&mut table, &new)?;
            inserted.add(&self.round, floor, &stats)?;
            self.insert_rest(&mut table, end)?;

            let old: Vec<u64> = new.iter().map(|_| self.any_held()).collect();
            let floor = self.floor(&mut table, &old, false)?;
            let stats = self.find(&mut table, &old)?;
            found.add(&self.round, floor, &stats)?;
        }
        table.into_transport();
        let c = self.config.chunk_buckets;
        Ok([inserted.row("inserted", c, load_factor), found.row("found", c, load_factor)])
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
            if table.transport().now_ns() - start_ns >= self.limits.measurement_ns {
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
        let limit_ns = self.limits.round_ns;
        let now = |engine: &&mut T| engine.now_ns();
        let engine = table.transport_mut()?;
        self.round.run_warm(chunks.iter(), limit_ns, engine, operation, now)?;
        self.floors[usize::from(claims)].add(&self.round)?;
        Ok(self.round.trimmed_mean_ns())
    }

    fn insert<T: Timed>(&mut self, table: &mut CachedTable<&mut T>, keys: &[u64]) -> Result<Stats> {
        let (config, mut held) = (self.config, self.held);
        let stats = self.operate(table, keys, |table, key| {
            inserted(&config, table.layout().owners(), table.find_or_put(key)?, &mut held)
        })?;
        self.held = held;
        Ok(stats)
    }

    fn find<T: Timed>(&mut self, table: &mut CachedTable<&mut T>, keys: &[u64]) -> Result<Stats> {
        self.operate(table, keys, |table, key| match table.find_or_put(key)? {
            Outcome::Found => Ok(()),
            other => Err(Failure::new(format!("key {key} was lost: {other:?}"))),
        })
    }

    fn operate<T: Timed>(
        &mut self,
        table: &mut CachedTable<&mut T>,
        keys: &[u64],
        mut operation: impl FnMut(&mut CachedTable<&mut T>, u64) -> Result<()>,
    ) -> Result<Stats> {
        table.reset_stats();
        let limit_ns = self.limits.round_ns;
        let operation = |table: &mut CachedTable<_>, &key: &u64| operation(table, key);
        let now = |table: &CachedTable<&mut T>| table.transport().now_ns();
        self.round.run_warm(keys.iter(), limit_ns, table, operation, now)?;
        Ok(*table.stats())
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

fn inserted(config: &Config, owners: u32, outcome: Outcome, held: &mut u64) -> Result<()> {
    match outcome {
        Outcome::Inserted => {
            *held += 1;
            Ok(())
        }
        Outcome::Full => Err(too_few_chunks(config, owners, *held)),
        other => Err(Failure::new(format!("new key {held} was {other:?}"))),
    }
}
