//! A table at one load factor, on which the candidates are measured in turn.

use core::sync::atomic::Ordering::{Relaxed, Release};

use probeline::table::Config;
use probeline::transport::{Exchange, Owner};
use probeline_programs::Timed;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use super::candidate::Candidate;
use super::search::Timing;
use crate::failure::{Failure, Result};
use crate::keys::nth;
use crate::progress::Progress;
use crate::scenario::latency::fill;
use crate::scenario::{OPERATIONS, too_few_chunks};
use crate::table::{CachedTable, attach, find_or_put_all, outcomes};

const BATCH: usize = 1024;
/// Inserts advance the load factor in steps of this share of the table. The nominal load factor is
/// in the middle of a step.
const STEP: f64 = 0.02;
/// One warm-up find per this number of operations of a run.
const WARM_UP_SHARE: usize = 10;

pub(super) struct Bench<'e, T> {
    engine: &'e mut T,
    config: Config,
    seed: u64,
    /// Inserts / operations of each run.
    pub(super) insert_share: f64,
    ranks: u64,
    /// Keys in the table, and the window of keys that are in the table after each restore.
    held: u64,
    window: Vec<u64>,
    /// Keys inserted since then, and the maximum number of them.
    more: u64,
    most_more: u64,
    rng: SmallRng,
}

impl<'e, T: Timed> Bench<'e, T> {
    /// Fills the empty table together with the other ranks.
    #[allow(clippy::cast_possible_truncation)]
    pub(super) fn new(
        engine: &'e mut T,
        config: Config,
        seed: u64,
        load_factor: f64,
        exchange: &mut dyn Exchange,
    ) -> Result<Self> {
        let ranks = u64::from(exchange.owners());
        let buckets = config.buckets_per_owner * ranks;
        let held = ((buckets as f64 * (load_factor - STEP / 2.0)) as u64).max(1);
        let most_more = inserts_of_step(buckets, ranks) * ranks;
        fill(engine, config, seed, 0..held, exchange)?;
        exchange.barrier()?;
        let window = engine.window().iter().map(|word| word.load(Relaxed)).collect();
        let rng = SmallRng::seed_from_u64(seed ^ u64::from(exchange.me().0) << 32);
        Ok(Self {
            engine,
            config,
            seed,
            insert_share: 0.0,
            ranks,
            held,
            window,
            more: 0,
            most_more,
            rng,
        })
    }

    /// Runs `candidates` in turn, in a different order each round, because each leaves its keys in
    /// the CPU's caches for the next one. Each rank performs `operations` operations in a run, at
    /// most [`max_operations`].
    ///
    /// Returns, on all ranks, the lower quartile of the time in nanoseconds that a rank takes for
    /// an operation. Other load on the machine only adds time, sometimes in more than half of the
    /// runs. The progress line shows `doing`.
    pub(super) fn rounds(
        &mut self,
        candidates: &[Candidate],
        rounds: u32,
        operations: u32,
        doing: &str,
        exchange: &mut dyn Exchange,
    ) -> Result<Vec<Timing>> {
        let mut all = vec![Vec::new(); candidates.len()];
        let mut order: Vec<usize> = (0..candidates.len()).collect();
        let steps = u64::from(rounds) * candidates.len() as u64;
        let mut progress = Progress::new(steps, exchange.me() == Owner(0));
        for round in 0..u64::from(rounds) {
            // The seed makes the order the same on all ranks.
            order.shuffle(&mut SmallRng::seed_from_u64(self.seed ^ round << 32));
            for (nth, &at) in (0..).zip(&order) {
                progress.set(round * candidates.len() as u64 + nth, doing);
                all[at].push(self.once(&candidates[at], operations as usize, exchange)?);
            }
        }
        let timing = |(&candidate, times)| Timing { candidate, ns: lower_quartile(times) };
        Ok(candidates.iter().zip(all).map(timing).collect())
    }

    #[allow(clippy::cast_possible_truncation)]
    fn once(
        &mut self,
        candidate: &Candidate,
        operations: usize,
        exchange: &mut dyn Exchange,
    ) -> Result<f64> {
        let inserts = (operations as f64 * self.insert_share).round() as u64;
        let inserted = inserts * self.ranks;
        if self.more + inserted > self.most_more {
            self.restore(exchange)?;
        }
        let keys = self.keys(operations, inserts, u64::from(exchange.me().0));
        let finds = (operations / WARM_UP_SHARE).max(candidate.cache_entries as usize);
        let warm_up: Vec<u64> = (0..finds).map(|_| self.any_held()).collect();
        self.more += inserted;
        let mut table = self.table(candidate)?;
        let mut ends = outcomes(if candidate.depth > 1 { BATCH } else { 1 });
        find_or_put_all(&mut table, &warm_up, &mut ends)?;
        table.reset_stats();
        exchange.barrier()?;
        let start = table.transport().now_ns();
        find_or_put_all(&mut table, &keys, &mut ends)?;
        let took = table.transport().now_ns() - start;
        let stats = *table.stats();
        table.into_transport();
        if stats.full.operations > 0 {
            return Err(too_few_chunks(&self.config, exchange.owners(), self.held));
        }
        if stats.inserted.operations != inserts {
            return Err(Failure::new(
                "a key that is present was not found, or a new key was".to_owned(),
            ));
        }
        let sum = exchange.sum(took)?;
        Ok(sum as f64 / (self.ranks * keys.len().max(1) as u64) as f64)
    }

    fn table(&mut self, candidate: &Candidate) -> Result<CachedTable<&mut T>> {
        let config = Config {
            chunk_buckets: candidate.chunk_buckets,
            max_chunks: candidate.max_chunks,
            read_ahead: candidate.read_ahead,
            one_roundtrip: candidate.one_roundtrip,
            direct: candidate.direct,
            ..self.config
        };
        attach(&mut *self.engine, config, candidate.depth.max(OPERATIONS), candidate.cache_entries)
    }

    fn keys(&mut self, operations: usize, inserts: u64, me: u64) -> Vec<u64> {
        let first = self.held + self.more + me;
        let ranks = self.ranks;
        let new = (0..inserts).map(|n| nth(self.seed, first + n * ranks));
        let mut keys: Vec<u64> = new.collect();
        let finds = operations.saturating_sub(keys.len());
        keys.extend((0..finds).map(|_| self.any_held()));
        keys.shuffle(&mut self.rng);
        keys
    }

    fn any_held(&mut self) -> u64 {
        nth(self.seed, self.rng.random_range(0..self.held))
    }

    /// Removes the keys that were inserted since the table was filled.
    fn restore(&mut self, exchange: &mut dyn Exchange) -> Result<()> {
        exchange.barrier()?;
        for (word, was) in self.engine.window().iter().zip(&self.window) {
            word.store(*was, Release);
        }
        self.more = 0;
        exchange.barrier()?;
        Ok(())
    }
}

/// Returns the maximum operations of each rank in a run, so that its inserts fit in one step.
#[allow(clippy::cast_possible_truncation)]
pub(super) fn max_operations(buckets: u64, ranks: u32, insert_share: f64) -> u32 {
    if insert_share <= 0.0 {
        return u32::MAX;
    }
    // The conversion saturates.
    (inserts_of_step(buckets, ranks.into()) as f64 / insert_share) as u32
}

#[allow(clippy::cast_possible_truncation)]
fn inserts_of_step(buckets: u64, ranks: u64) -> u64 {
    (buckets as f64 * STEP) as u64 / ranks
}

/// Returns the lower quartile: the minimum of up to three values, or 0 for no values.
fn lower_quartile(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 4).copied().unwrap_or(0.0)
}
