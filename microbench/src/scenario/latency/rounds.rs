//! find-or-put at one C: rounds of measurements, each beside its floor in the same round.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use table::{Bucket, Config, Finished, Intent, Operation, Outcome, Stats, SubmitError, Table};
use transport::{Exchange, Local, RemoteWord, Segment, Token};

use super::filling::fill;
use super::raw::{after, finish, read};
use super::row::LatencyRow;
use super::{Bound, FILLING, Limits, WARM_UP_SHARE, free_slot, measure, median};
use crate::failure::{Failure, Result};
use crate::keys::nth;
use crate::latency::Recorder;
use crate::scenario::{BlockingTable, OPERATIONS, too_few_chunks};
use crate::timed::Timed;

/// A table that one rank measures, its engine between two uses, and what is in it.
pub(super) struct Rounds<'a, T> {
    engine: &'a mut T,
    config: Config,
    limits: Limits,
    rounds: u64,
    seed: u64,
    /// Data in the table: the first so many.
    held: u64,
    rng: SmallRng,
    floors: [Recorder; 2],
    round: Recorder,
}

/// An operation over all rounds.
struct Series {
    recorder: Recorder,
    floors_ns: Vec<f64>,
    multiples: Vec<f64>,
    stats: [u64; 3],
}

impl Series {
    fn new(limits: &Limits) -> Result<Self> {
        let recorder = Recorder::new(limits.clock_ns)?;
        Ok(Self { recorder, floors_ns: Vec::new(), multiples: Vec::new(), stats: [0; 3] })
    }

    /// Takes in a round of it, whose floor had this trimmed mean.
    fn add(&mut self, round: &Recorder, floor_ns: Option<f64>, stats: &Stats) -> Result<()> {
        self.recorder.add(round)?;
        if let Some((took, floor)) = round.trimmed_mean_ns().zip(floor_ns) {
            self.floors_ns.push(floor);
            // The simulator's time may stand still for a part of its own.
            self.multiples.push(took / floor.max(1.0));
        }
        let total = stats.total();
        let stats = [total.operations, total.effective_roundtrips, total.outgoing_roundtrips];
        self.stats = core::array::from_fn(|i| self.stats[i] + stats[i]);
        Ok(())
    }

    #[allow(clippy::cast_precision_loss)]
    fn row(self, operation: &str, chunk_buckets: u32, load_factor: f64) -> LatencyRow {
        let [operations, effective, outgoing] = self.stats;
        let mean = |sum: u64| Some(sum as f64 / operations.max(1) as f64);
        LatencyRow {
            chunk_buckets: Some(chunk_buckets),
            load_factor: Some(load_factor),
            effective_roundtrips: mean(effective),
            outgoing_roundtrips: mean(outgoing),
            floor_ns: median(self.floors_ns),
            times_floor: median(self.multiples),
            ..LatencyRow::new(operation, self.recorder.latency())
        }
    }
}

impl<'a, T: Timed> Rounds<'a, T> {
    /// On `engine`, whose windows hold an empty table.
    pub(super) fn new(
        engine: &'a mut T,
        config: Config,
        limits: Limits,
        rounds: u64,
        seed: u64,
    ) -> Result<Self> {
        let recorder = || Recorder::new(limits.clock_ns);
        Ok(Self {
            engine,
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

    /// Has the owners put data into the table until so many are held; all ranks call it.
    pub(super) fn prepare(&mut self, held: u64, exchange: &mut dyn Exchange) -> Result<()> {
        let numbers = self.held..held;
        self.held = held;
        fill(self.engine, self.config, self.seed, numbers, exchange)
    }

    /// As `at` on another rank.
    pub(super) fn skip(&mut self, target: u64) {
        self.held = target;
    }

    /// Puts `measured` new data into the table, up to `target`, in rounds, and finds as many old
    /// ones.
    pub(super) fn at(
        &mut self,
        load_factor: f64,
        target: u64,
        measured: u64,
    ) -> Result<[LatencyRow; 2]> {
        let (mut inserted, mut found) = (Series::new(&self.limits)?, Series::new(&self.limits)?);
        for round in 0..self.rounds {
            let end = target - measured + measured * (round + 1) / self.rounds;
            let new: Vec<u64> = (self.held..end).map(|n| nth(self.seed, n)).collect();
            let floor = self.floor(&new, true)?;
            let stats = self.insert(&new)?;
            inserted.add(&self.round, floor, &stats)?;
            self.insert_rest(end)?;

            let old = new.iter().map(|_| nth(self.seed, self.rng.random_range(0..self.held)));
            let old: Vec<u64> = old.collect();
            let floor = self.floor(&old, false)?;
            let stats = self.find(&old)?;
            found.add(&self.round, floor, &stats)?;
        }
        let c = self.config.chunk_buckets;
        Ok([inserted.row("inserted", c, load_factor), found.row("found", c, load_factor)])
    }

    /// The floors by themselves, of all load factors together.
    pub(super) fn floors(&self) -> [LatencyRow; 2] {
        let c = self.config.chunk_buckets;
        let read = format!("floor READ {} B", c * 8);
        let names = [read.clone(), format!("{read} + CAS")];
        core::array::from_fn(|i| LatencyRow {
            chunk_buckets: Some(c),
            ..LatencyRow::new(&names[i], self.floors[i].latency())
        })
    }

    /// The trimmed mean of a chunk READ by itself, with `claims` of a READ and then a CAS of its
    /// first word, which leaves the word as it is. They go to the owners where `data` is looked
    /// for, in that order, but elsewhere in their parts, so that no cache line is warm for it.
    fn floor(&mut self, data: &[u64], claims: bool) -> Result<Option<f64>> {
        let chunks = self.chunks(data)?;
        let mut last = 0;
        let into = Local { slot: free_slot(), start: 0, words: self.config.chunk_buckets };
        let operation = |engine: &mut T, chunk: &Segment| {
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
        measure(&mut self.round, chunks.iter(), bound, self.engine, operation, T::now_ns)?;
        self.floors[usize::from(claims)].add(&self.round)?;
        Ok(self.round.trimmed_mean_ns())
    }

    /// For each datum a whole chunk in the part of the owner where its search starts.
    fn chunks(&mut self, data: &[u64]) -> Result<Vec<Segment>> {
        let layout = *blocking(&mut *self.engine, self.config)?.layout();
        let words = self.config.chunk_buckets;
        let last = layout.buckets_per_owner() - u64::from(words);
        let chunk = |&data: &u64| {
            let home = layout.home(Bucket::new(data)?);
            let mirrored = layout.buckets_per_owner() - 1 - home.index;
            let start = layout.word(table::Position { index: mirrored.min(last), ..home });
            Ok(Segment { start, words })
        };
        data.iter().map(chunk).collect()
    }

    /// Inserts new data, in their order, as many as the time allows.
    fn insert(&mut self, data: &[u64]) -> Result<Stats> {
        let (config, mut held) = (self.config, self.held);
        let stats = self.operate(data, |table, data| {
            inserted(&config, table.layout().owners(), table.find_or_put(data)?, &mut held)
        })?;
        self.held = held;
        Ok(stats)
    }

    /// Finds data that is there, as many as the time allows.
    fn find(&mut self, data: &[u64]) -> Result<Stats> {
        self.operate(data, |table, data| match table.find_or_put(data)? {
            Outcome::Found => Ok(()),
            other => Err(Failure::new(format!("data {data} was lost: {other:?}"))),
        })
    }

    /// Measures `operation` on each datum; what that cost.
    fn operate(
        &mut self,
        data: &[u64],
        mut operation: impl FnMut(&mut BlockingTable<&mut T>, u64) -> Result<()>,
    ) -> Result<Stats> {
        self.round.reset();
        let bound = bound(&self.limits, data.len());
        let mut table = blocking(&mut *self.engine, self.config)?;
        let operation = |table: &mut BlockingTable<_>, &data: &u64| operation(table, data);
        let now = |table: &BlockingTable<&mut T>| table.engine().now_ns();
        measure(&mut self.round, data.iter(), bound, &mut table, operation, now)?;
        let stats = *table.stats();
        table.into_transport();
        Ok(stats)
    }

    /// Inserts until so many data are held, many at once and not measured: what the time was too
    /// short for.
    fn insert_rest(&mut self, target: u64) -> Result<()> {
        let (seed, config) = (self.seed, self.config);
        let operations = [const { Operation::EMPTY }; FILLING as usize];
        let mut table = Table::new(&mut *self.engine, config, operations)?;
        let owners = table.layout().owners();
        let mut next = self.held;
        let mut ends = [Finished::default(); FILLING as usize];
        while self.held < target {
            while next < target {
                match table.submit(0, nth(seed, next), Intent::FindOrPut) {
                    Ok(()) => next += 1,
                    Err(SubmitError::Busy) => break,
                    Err(error) => return Err(error.into()),
                }
            }
            let ended = table.poll(&mut ends)?;
            for end in &ends[..ended] {
                inserted(&config, owners, end.result?, &mut self.held)?;
            }
        }
        table.into_transport();
        Ok(())
    }
}

/// A table for blocking calls over an engine whose windows hold one.
pub(super) fn blocking<T: Timed>(engine: T, config: Config) -> Result<BlockingTable<T>> {
    Ok(Table::new(engine, config, [const { Operation::EMPTY }; OPERATIONS as usize])?)
}

/// Counts new data that was inserted.
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

/// Of a round with so many operations.
fn bound(limits: &Limits, operations: usize) -> Bound {
    Bound { warm_up: operations / WARM_UP_SHARE, limit_ns: limits.round_ns }
}
