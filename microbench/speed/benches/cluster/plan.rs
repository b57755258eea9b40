//! What is measured: independent runs, as many at a time as there are CPUs.

use core::num::NonZero;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use probeline_table::ReadCost;
use serde::Serialize;

use super::Result;
use super::args::Args;
use super::batch::{self, BatchRow};
use super::cache::{self, CacheRow};
use super::claims::{self, ClaimRow, MixRow};
use super::job::read_cost;
use super::limit::Limits;
use super::sweep::{self, AdaptiveRow};

/// How large everything is.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Scale {
    pub(crate) seed: u64,
    /// Of each owner, a power of two. An adaptive C goes by the last thousands of operations, which
    /// must not be a large share of the table.
    pub(crate) buckets_per_owner: u64,
    /// Hundredths from one load factor of the adaptive C to the next.
    pub(crate) adaptive_step: u64,
    pub(crate) limits: Limits,
}

impl Scale {
    fn of(args: &Args) -> Result<Self> {
        let (bits, adaptive_step) = if args.quick { (17, 10) } else { (18, 2) };
        let limits = Limits::measure(args.seed)?;
        Ok(Self { seed: args.seed, buckets_per_owner: 1 << bits, adaptive_step, limits })
    }
}

/// All that a run gave.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Measured {
    #[serde(flatten)]
    pub(crate) scale: Scale,
    /// What the adaptive C goes by, in picoseconds.
    pub(crate) read_base_ps: u64,
    pub(crate) read_bucket_ps: u64,
    pub(crate) claims: Vec<ClaimRow>,
    pub(crate) mixes: Vec<MixRow>,
    pub(crate) caches: Vec<CacheRow>,
    pub(crate) adaptive: Vec<AdaptiveRow>,
    pub(crate) batches: Vec<BatchRow>,
}

/// Measures everything.
pub(crate) fn run(args: &Args) -> Result<Measured> {
    let scale = Scale::of(args)?;
    let cost = read_cost(scale.seed)?;
    let ReadCost { base_ps, bucket_ps } = cost;
    Ok(Measured {
        scale,
        read_base_ps: base_ps,
        read_bucket_ps: bucket_ps,
        claims: claims::run(&scale)?,
        mixes: claims::run_mixes(&scale)?,
        caches: cache::run(&scale)?,
        adaptive: sweep::run(&scale, cost)?,
        batches: batch::run(&scale, cost)?,
    })
}

/// Runs each of `all`, and gives what they gave in their order; each has a cluster of its own, so
/// that it does not matter which run at the same time.
pub(crate) fn each<I: Sync, O: Send>(
    all: &[I],
    run: impl Fn(&I) -> Result<O> + Sync,
) -> Result<Vec<O>> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some((at, one)) = take(all, &next) {
            done.push((at, run(one)?));
        }
        Ok(done)
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(all.len());
    let mut done: Vec<(usize, O)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let ends = threads.into_iter().map(|thread| thread.join().unwrap_or_else(resume));
        ends.collect::<Result<Vec<_>>>().map(|ends| ends.into_iter().flatten().collect())
    })?;
    done.sort_by_key(|(at, _)| *at);
    Ok(done.into_iter().map(|(_, one)| one).collect())
}

fn take<'a, I>(all: &'a [I], next: &AtomicUsize) -> Option<(usize, &'a I)> {
    let at = next.fetch_add(1, Relaxed);
    Some((at, all.get(at)?))
}

fn resume<T>(panic: Box<dyn core::any::Any + Send>) -> T {
    std::panic::resume_unwind(panic)
}
