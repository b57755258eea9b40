//! Measures find-or-put at one C in rounds. Each round measures the floor as well.

use core::time::Duration;

use probeline::table::{Bucket, Config, Layout, Operation, Outcome, Position, Stats, Table};
use probeline::transport::{Exchange, Local, RemoteWord, Segment, Token};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::filling::fill;
use super::raw::{after, finish, read};
use super::row::LatencyRow;
use super::{BATCH, Bound, FILLING, Limits, WARM_UP_SHARE, free_slot, measure, median};
use crate::failure::{Failure, Result};
use crate::keys::nth;
use crate::latency::Recorder;
use crate::means::{MeansTable, TableArgs};
use crate::scenario::{OPERATIONS, too_few_chunks};
use crate::timed::Timed;

/// The minimum C.
const LEAST_CHUNK: u32 = 8;
/// Finds of random keys per cache entry before a measurement. With two, one entry in seven stays
/// unused.
const FINDS_PER_ENTRY: usize = 2;
/// Series at a load factor: inserts, finds, and the floor of each.
const SERIES: u32 = 4;

/// A table that one rank measures, and its contents.
pub(super) struct Rounds<'a> {
    args: &'a TableArgs,
    config: Config,
    limits: Limits,
    rounds: u32,
    seed: u64,
    /// The number of keys in the table.
    held: u64,
    rng: SmallRng,
    floors: [Recorder; 2],
    round: Recorder,
}

/// The measurements of one operation over all rounds.
struct Series {
    recorder: Recorder,
    floors_ns: Vec<f64>,
    multiples: Vec<f64>,
    stats: [u64; 4],
}

impl Series {
    fn new(limits: &Limits) -> Result<Self> {
        let recorder = Recorder::new(limits.clock_ns)?;
        Ok(Self { recorder, floors_ns: Vec::new(), multiples: Vec::new(), stats: [0; 4] })
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
        let total = stats.total();
        let stats = [
            total.operations,
            total.effective_roundtrips,
            total.outgoing_roundtrips,
            total.cache_hits,
        ];
        self.stats = core::array::from_fn(|i| self.stats[i] + stats[i]);
        Ok(())
    }

    #[allow(clippy::cast_precision_loss)]
    fn row(self, operation: &str, chunk_buckets: u32, load_factor: f64) -> LatencyRow {
        let [operations, effective, outgoing, cached] = self.stats;
        let mean = |sum: u64| Some(sum as f64 / operations.max(1) as f64);
        LatencyRow {
            chunk_buckets: Some(chunk_buckets),
            load_factor: Some(load_factor),
            effective_roundtrips: mean(effective),
            outgoing_roundtrips: mean(outgoing),
            cache_hit_share: mean(cached),
            floor_ns: median(self.floors_ns),
            times_floor: median(self.multiples),
            ..LatencyRow::new(operation, self.recorder.latency())
        }
    }
}

impl<'a> Rounds<'a> {
    /// Creates the state for an empty table of this configuration.
    pub(super) fn new(
        args: &'a TableArgs,
        config: Config,
        limits: Limits,
        rounds: u32,
        seed: u64,
    ) -> Result<Self> {
        let recorder = || Recorder::new(limits.clock_ns);
        Ok(Self {
            args,
            config,
            limits,
            rounds,
            seed,
            held: 0,
            rng: SmallRng::seed_from_u64(seed),
            floors: [recorder()?, recorder()?],
            round: recorder()?,
        })
    }

    pub(super) fn chunk_buckets(&self) -> u32 {
        self.config.chunk_buckets
    }

    /// Has the owners fill the table up to `held` keys. All ranks call this.
    pub(super) fn prepare<T: Timed>(
        &mut self,
        engine: &mut T,
        held: u64,
        exchange: &mut dyn Exchange,
    ) -> Result<()> {
        let numbers = self.held..held;
        self.held = held;
        fill(engine, self.config, self.seed, numbers, exchange)
    }

    /// Returns the longest time that `at` measures.
    pub(super) fn longest(&self) -> Duration {
        SERIES * Duration::from_nanos(self.limits.measurement_ns)
    }

    /// Updates the state as `at` on the measuring rank does.
    pub(super) fn skip(&mut self, target: u64) {
        self.held = target;
    }

    /// Inserts `measured` new keys in rounds, until the table has `target`, and finds as many old
    /// ones.
    pub(super) fn at<T: Timed>(
        &mut self,
        engine: &mut T,
        load_factor: f64,
        target: u64,
        measured: u64,
    ) -> Result<[LatencyRow; 2]> {
        // A new table for each load factor, so that its adaptive estimates start there.
        let mut table = self.args.again(engine, self.config, OPERATIONS)?;
        self.fill_cache(&mut table)?;
        let (mut inserted, mut found) = (Series::new(&self.limits)?, Series::new(&self.limits)?);
        let rounds = u64::from(self.rounds);
        for round in 0..rounds {
            let end = target - measured + measured * (round + 1) / rounds;
            let new: Vec<u64> = (self.held..end).map(|n| nth(self.seed, n)).collect();
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
        nth(self.seed, self.rng.random_range(0..self.held))
    }

    /// Finds enough keys to fill most of the cache, for at most the time of a measurement.
    fn fill_cache<T: Timed>(&mut self, table: &mut MeansTable<&mut T>) -> Result<()> {
        let finds = if self.held == 0 { 0 } else { FINDS_PER_ENTRY * self.args.cache };
        let start_ns = table.transport().now_ns();
        for _ in 0..finds {
            table.find(self.any_held())?;
            if table.transport().now_ns() - start_ns >= self.limits.measurement_ns {
                break;
            }
        }
        Ok(())
    }

    /// Returns the floors, combined over all load factors.
    pub(super) fn floors(&self) -> [LatencyRow; 2] {
        let c = self.config.chunk_buckets;
        let read = format!("floor READ {} B", self.floor_words() * 8);
        let names = [read.clone(), format!("{read} + CAS")];
        core::array::from_fn(|i| LatencyRow {
            chunk_buckets: Some(c),
            ..LatencyRow::new(&names[i], self.floors[i].latency())
        })
    }

    /// Returns the minimum words that the READ of an operation transfers.
    fn floor_words(&self) -> u32 {
        if self.args.adaptive_chunks { LEAST_CHUNK } else { self.config.chunk_buckets }
    }

    /// Returns the trimmed mean time in nanoseconds of a chunk READ without a table, or, with
    /// `claims`, of a READ and then a CAS of its first word that leaves the word unchanged. The
    /// accesses go to the owners where the search for `data` starts, in that order, but to other
    /// words, so that the CPU's caches do not hold them.
    fn floor<T: Timed>(
        &mut self,
        table: &mut MeansTable<&mut T>,
        data: &[u64],
        claims: bool,
    ) -> Result<Option<f64>> {
        let words = self.floor_words();
        let chunks = chunks(table.layout(), words, data)?;
        let mut last = 0;
        let into = Local { slot: free_slot(), start: 0, words };
        let operation = |engine: &mut &mut T, chunk: &Segment| {
            let index = after(last, chunk.start.index);
            let start = RemoteWord { index, ..chunk.start };
            read(engine, Segment { start, ..*chunk })?;
            last = engine.landed(into)?.first().copied().unwrap_or(0);
            if claims {
                engine.compare_and_swap(Token(0), start, last, last)?;
                last = finish(engine)?;
            }
            Ok(())
        };
        self.round.reset();
        let bound = bound(&self.limits, data.len());
        let now = |engine: &&mut T| engine.now_ns();
        measure(&mut self.round, chunks.iter(), bound, table.transport_mut()?, operation, now)?;
        self.floors[usize::from(claims)].add(&self.round)?;
        Ok(self.round.trimmed_mean_ns())
    }

    /// Inserts new keys in order, as many as the time permits.
    fn insert<T: Timed>(&mut self, table: &mut MeansTable<&mut T>, data: &[u64]) -> Result<Stats> {
        let (config, mut held) = (self.config, self.held);
        let stats = self.operate(table, data, |table, data| {
            inserted(&config, table.layout().owners(), table.find_or_put(data)?, &mut held)
        })?;
        self.held = held;
        Ok(stats)
    }

    /// Finds keys in the table, as many as the time permits.
    fn find<T: Timed>(&mut self, table: &mut MeansTable<&mut T>, data: &[u64]) -> Result<Stats> {
        self.operate(table, data, |table, data| match table.find_or_put(data)? {
            Outcome::Found => Ok(()),
            other => Err(Failure::new(format!("data {data} was lost: {other:?}"))),
        })
    }

    /// Measures `operation` on each key. Returns the table's statistics.
    fn operate<T: Timed>(
        &mut self,
        table: &mut MeansTable<&mut T>,
        data: &[u64],
        mut operation: impl FnMut(&mut MeansTable<&mut T>, u64) -> Result<()>,
    ) -> Result<Stats> {
        self.round.reset();
        table.reset_stats();
        let bound = bound(&self.limits, data.len());
        let operation = |table: &mut MeansTable<_>, &data: &u64| operation(table, data);
        let now = |table: &MeansTable<&mut T>| table.transport().now_ns();
        measure(&mut self.round, data.iter(), bound, table, operation, now)?;
        Ok(*table.stats())
    }

    /// Inserts keys in batches until the table has `target`, without measuring: those for which the
    /// time of the rounds was too short.
    fn insert_rest<T: Timed>(&mut self, table: &mut MeansTable<&mut T>, target: u64) -> Result<()> {
        let owners = table.layout().owners();
        let mut many = batching(&mut **table.transport_mut()?, self.config)?;
        let mut ends = vec![Ok(Outcome::Absent); BATCH];
        while self.held < target {
            let next = self.held..target.min(self.held + BATCH as u64);
            let data: Vec<u64> = next.map(|n| nth(self.seed, n)).collect();
            let ends = &mut ends[..data.len()];
            many.find_or_put_batch(&data, ends)?;
            for end in ends {
                inserted(&self.config, owners, (*end)?, &mut self.held)?;
            }
        }
        many.into_transport();
        Ok(())
    }
}

/// Returns for each key a whole chunk of the owner where its search starts.
fn chunks(layout: &Layout, words: u32, data: &[u64]) -> Result<Vec<Segment>> {
    let last = layout.buckets_per_owner() - u64::from(words);
    let chunk = |&data: &u64| {
        let home = layout.home(Bucket::new(data)?);
        let mirrored = layout.buckets_per_owner() - 1 - home.index;
        let start = layout.word(Position { index: mirrored.min(last), ..home });
        Ok(Segment { start, words })
    };
    data.iter().map(chunk).collect()
}

/// Opens a table for batches over an engine whose windows already contain one.
pub(super) fn batching<T: Timed>(engine: T, config: Config) -> Result<MeansTable<T>> {
    let storage = vec![Operation::EMPTY; FILLING as usize];
    Ok(Table::new(engine, config, storage)?.with_cache(Vec::new()))
}

/// Counts an inserted key.
fn inserted(config: &Config, owners: u32, outcome: Outcome, held: &mut u64) -> Result<()> {
    match outcome {
        Outcome::Inserted => {
            *held += 1;
            Ok(())
        }
        Outcome::Full => Err(too_few_chunks(config, owners, *held)),
        other => Err(Failure::new(format!("new data {held} was {other:?}"))),
    }
}

/// Returns the bound of a round with this many operations.
fn bound(limits: &Limits, operations: usize) -> Bound {
    Bound { warm_up: operations / WARM_UP_SHARE, limit_ns: limits.round_ns }
}
