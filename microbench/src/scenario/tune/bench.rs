//! A table at one load factor, on which the candidates are measured in turn.

use core::sync::atomic::Ordering::{Relaxed, Release};

use probeline::table::Config;
use probeline::transport::{Exchange, Owner};
use probeline::tuning::Tuning;
use probeline_programs::Timed;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use super::TuneArgs;
use super::search::Timing;
use crate::failure::{Failure, Result};
use crate::keys::nth;
use crate::progress::Progress;
use crate::scenario::latency::fill;
use crate::scenario::too_few_chunks;
use crate::series::Run;
use crate::table::{CachedTable, attach, find_or_put_all, outcomes};

const BATCH: usize = 1024;
/// Inserts advance the load factor in steps of this share of the table. The nominal load factor is
/// in the middle of a step.
pub(super) const STEP: f64 = 0.02;
/// One warm-up find per this number of operations of a run.
const WARM_UP_SHARE: usize = 10;

pub(super) struct Bench<'e, T> {
    args: &'e TuneArgs,
    engine: &'e mut T,
    /// Keys in the table, and the window of keys that are in the table after each restore.
    held: u64,
    window: Vec<u64>,
    /// Keys inserted since then.
    more: u64,
    rng: SmallRng,
}

impl<'e, T: Timed> Bench<'e, T> {
    /// Fills the empty table together with the other ranks.
    #[allow(clippy::cast_possible_truncation)]
    pub(super) fn new(
        args: &'e TuneArgs,
        engine: &'e mut T,
        exchange: &mut dyn Exchange,
    ) -> Result<Self> {
        let seed = args.job.seed;
        let held = ((args.buckets() as f64 * (args.load_factor - STEP / 2.0)) as u64).max(1);
        fill(engine, args.config(), seed, 0..held, exchange)?;
        exchange.barrier()?;
        let window = engine.window().iter().map(|word| word.load(Relaxed)).collect();
        let rng = SmallRng::seed_from_u64(seed ^ u64::from(exchange.me().0) << 32);
        Ok(Self { args, engine, held, window, more: 0, rng })
    }

    /// Runs `candidates` in turn, in a different order each round, because each leaves its keys in
    /// the CPU's caches for the next one. Each rank performs `operations` operations in a run, at
    /// most [`TuneArgs::operations`].
    ///
    /// Returns, on all ranks, the lower quartile of the time in nanoseconds that a rank takes for
    /// an operation. Other load on the machine only adds time, sometimes in more than half of the
    /// runs. The progress line shows `doing`.
    pub(super) fn rounds(
        &mut self,
        candidates: &[Tuning],
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
            order.shuffle(&mut SmallRng::seed_from_u64(self.args.job.seed ^ round << 32));
            for (nth, &at) in (0..).zip(&order) {
                progress.set(round * candidates.len() as u64 + nth, doing);
                all[at].push(self.once(&candidates[at], operations as usize, exchange)?);
            }
        }
        let timing = |(candidate, times): (&Tuning, _)| Timing {
            candidate: candidate.clone(),
            ns: lower_quartile(times),
        };
        Ok(candidates.iter().zip(all).map(timing).collect())
    }

    #[allow(clippy::cast_possible_truncation)]
    fn once(
        &mut self,
        candidate: &Tuning,
        operations: usize,
        exchange: &mut dyn Exchange,
    ) -> Result<f64> {
        let ranks = u64::from(exchange.owners());
        let inserts = (operations as f64 * self.args.insert_share).round() as u64;
        if self.more + inserts * ranks > self.args.inserts_of_step() * ranks {
            self.restore(exchange)?;
        }
        let keys = self.keys(operations, inserts, exchange);
        let finds = (operations / WARM_UP_SHARE).max(candidate.cache_entries);
        let warm_up: Vec<u64> = (0..finds).map(|_| self.any_held()).collect();
        self.more += inserts * ranks;
        let mut table = self.table(candidate)?;
        let mut ends = outcomes(if candidate.in_flight > 1 { BATCH } else { 1 });
        find_or_put_all(&mut table, &warm_up, &mut ends)?;
        let run = Run::find_or_puts(&mut table, &keys, &mut ends, exchange)?;
        table.into_transport();
        if run.stats.full.operations > 0 {
            return Err(
                too_few_chunks(&self.args.config(), exchange.owners(), self.held).everywhere()
            );
        }
        if run.stats.inserted.operations != inserts * ranks {
            let wrong = "a key that is present was not found, or a new key was";
            return Err(Failure::new(wrong).everywhere());
        }
        Ok(run.rank_ns as f64 / (ranks * keys.len().max(1) as u64) as f64)
    }

    fn table(&mut self, candidate: &Tuning) -> Result<CachedTable<&mut T>> {
        let Config { probing, buckets_per_owner, .. } = self.args.config();
        let config = Config { probing, ..candidate.config(buckets_per_owner) };
        let entries = u32::try_from(candidate.cache_entries)?;
        attach(&mut *self.engine, config, candidate.operations(), entries)
    }

    fn keys(&mut self, operations: usize, inserts: u64, exchange: &dyn Exchange) -> Vec<u64> {
        let first = self.held + self.more + u64::from(exchange.me().0);
        let ranks = u64::from(exchange.owners());
        let new = (0..inserts).map(|n| nth(self.args.job.seed, first + n * ranks));
        let mut keys: Vec<u64> = new.collect();
        let finds = operations.saturating_sub(keys.len());
        keys.extend((0..finds).map(|_| self.any_held()));
        keys.shuffle(&mut self.rng);
        keys
    }

    fn any_held(&mut self) -> u64 {
        nth(self.args.job.seed, self.rng.random_range(0..self.held))
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

/// Returns the lower quartile: the minimum of up to three values, or 0 for no values.
fn lower_quartile(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 4).copied().unwrap_or(0.0)
}
