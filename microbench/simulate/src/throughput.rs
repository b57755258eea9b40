//! Simulates the throughput of all ranks: Table 1, right, and Fig. 3 of the paper.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use probeline_profile::paper::Workload;
use probeline_profile::{Profile, ProfileError, Shape};
use probeline_table::{Config, Ended, Finished, Intent, OperationError, OutcomeStats, Tag};
use probeline_transport::Owner;

use crate::Error;
use crate::bound::{Bound, Task, Work};
use crate::cluster::Keys;
use crate::cluster::{Rank, Ranks, Setup};

/// The experiment: all ranks at once.
#[derive(Clone, Debug)]
pub struct ThroughputPlan {
    /// The cluster and the table.
    pub setup: Setup,
    /// The mix of operations.
    pub workload: Workload,
    /// The load factor of the table when ranks start, in percent.
    pub load_percent: u32,
    /// Measured operations of each rank.
    pub operations: u32,
}

impl ThroughputPlan {
    /// Returns the paper's experiment: C = 32, on an almost empty table. In the paper, a rank puts
    /// about 10^6 keys in 2^27 buckets.
    ///
    /// # Errors
    /// The profile lacks a quantity.
    pub fn paper(
        profile: &Profile,
        shape: Shape,
        workload: Workload,
    ) -> Result<Self, ProfileError> {
        let setup = Setup::paper(profile, shape, 32, 1 << 13)?;
        Ok(Self { setup, workload, load_percent: 1, operations: 400 })
    }

    /// Returns the number of warm-up operations of each rank: its inserts are four times the
    /// operations in flight. Completions then no longer come in one burst. If inserts are slower
    /// than finds, most operations in flight are inserts by then.
    fn warm(&self) -> u32 {
        let of_inserts = 400 / self.workload.inserts_percent().max(1);
        WARM.max(self.setup.in_flight.saturating_mul(of_inserts))
    }

    /// Returns the operations that each rank starts until its measured ones are complete.
    #[must_use]
    pub fn begun(&self) -> u64 {
        let in_flight = u64::from(self.setup.in_flight);
        u64::from(self.warm()) + u64::from(self.operations) + in_flight
    }
}

/// The result of all ranks.
#[derive(Clone, Debug, PartialEq)]
pub struct ThroughputRow {
    /// The machines and their ranks.
    pub shape: Shape,
    /// The mix of operations.
    pub workload: Workload,
    /// The number of measured operations of all ranks.
    pub operations: u64,
    /// The share of these that inserted, 0 to 1.
    pub inserted: f64,
    /// The sum of the throughputs of all ranks, in operations per second.
    pub ops_per_s: f64,
    /// The same with each operation truncated to whole microseconds, as in the program of the
    /// paper's authors. `None` if a rank has several in flight, whose times overlap, or if no
    /// operation takes 1 us.
    pub cut_ops_per_s: Option<f64>,
    /// The mean time of an operation from start to completion, in nanoseconds.
    pub mean_ns: f64,
    /// The mean number of chunk READs that an operation posts.
    pub outgoing_roundtrips: f64,
    /// The mean number of chunk READs that an operation waits for.
    pub effective_roundtrips: f64,
    /// The highest throughput that the model allows for the least work of these operations; `None`
    /// if the model limits nothing.
    pub bound: Option<Bound>,
}

impl ThroughputRow {
    /// Returns the throughput divided by its bound.
    #[must_use]
    pub fn bound_share(&self) -> Option<f64> {
        self.bound.as_ref().map(|bound| self.ops_per_s / bound.ops_per_s)
    }
}

/// Minimum warm-up operations of each rank.
const WARM: u32 = 32;
/// Twice a roundtrip: ranks that start simultaneously would stay synchronized for long.
const SPREAD_NS: u64 = 8_000;
const NS_PER_US: u64 = 1_000;
/// The maximum operations of all ranks whose least work is computed.
const MAX_EXAMINED: u32 = 1 << 18;

/// Runs the experiment.
///
/// # Errors
/// [`Error`], for example if an operation finds no room within M chunks.
pub fn throughput(plan: &ThroughputPlan) -> Result<ThroughputRow, Error> {
    let mut ranks = Ranks::open(&plan.setup, SPREAD_NS)?;
    ranks.fill(ranks.layout.buckets() * u64::from(plan.load_percent) / 100)?;
    let mut workers: Vec<Worker> = (0..)
        .zip(&ranks.ranks)
        .map(|(rank, table)| Worker::new(plan, rank, ranks.filled(), table))
        .collect();
    run(plan, &mut ranks, &mut workers)?;
    Ok(row(plan, &ranks, &workers))
}

/// Steps the rank that is due first until each has completed its measured operations. Ranks that
/// have continue, so that the last ranks do not have the network for themselves.
fn run(plan: &ThroughputPlan, ranks: &mut Ranks, workers: &mut [Worker]) -> Result<(), Error> {
    let mut due = BinaryHeap::with_capacity(workers.len());
    for (at, (worker, table)) in workers.iter_mut().zip(&mut ranks.ranks).enumerate() {
        worker.begin(table)?;
        due.push(Reverse((table.transport().next_poll_ns(), at)));
    }
    let mut unfinished = workers.len();
    while unfinished > 0
        && let Some(Reverse((_, at))) = due.pop()
        && let (Some(worker), Some(table)) = (workers.get_mut(at), ranks.ranks.get_mut(at))
    {
        let was_done = worker.is_done();
        worker.step(plan, table)?;
        unfinished -= usize::from(worker.is_done() && !was_done);
        due.push(Reverse((table.transport().next_poll_ns(), at)));
    }
    Ok(())
}

/// The operations of one rank.
struct Worker {
    keys: Keys,
    /// A key that was drawn when no storage was free.
    drawn: Option<u64>,
    inserts_percent: u32,
    in_flight: u32,
    running: u32,
    /// The number of completed operations.
    ended: u32,
    /// The number of warm-up operations.
    warm: u32,
    /// The number of operations to complete.
    wanted: u32,
    start_ns: u64,
    stop_ns: u64,
    inserted: u64,
    sum_ns: u64,
    sum_us: u64,
    /// Operations that the cache answered, during the warm-up and after it.
    hits: [u64; 2],
    finished: Vec<Finished>,
}

impl Worker {
    fn new(plan: &ThroughputPlan, rank: u32, filled: u64, table: &Rank) -> Self {
        let in_flight = plan.setup.in_flight;
        let nothing = Finished::default();
        Self {
            keys: Keys::new(plan.setup.seed, rank, filled),
            drawn: None,
            inserts_percent: plan.workload.inserts_percent(),
            in_flight,
            running: 0,
            ended: 0,
            warm: plan.warm(),
            wanted: plan.warm() + plan.operations,
            start_ns: table.transport().now_ns(),
            stop_ns: 0,
            inserted: 0,
            sum_ns: 0,
            sum_us: 0,
            hits: [0; 2],
            finished: vec![nothing; in_flight as usize],
        }
    }

    fn is_warm(&self) -> bool {
        self.ended >= self.warm
    }

    fn is_done(&self) -> bool {
        self.ended >= self.wanted
    }

    /// Starts as many operations as may be in flight, each with its start time as its tag.
    fn begin(&mut self, table: &mut Rank) -> Result<(), Error> {
        while self.running < self.in_flight {
            let drawn = self.drawn.take();
            let key = drawn.unwrap_or_else(|| self.keys.draw(self.inserts_percent));
            let now_ns = table.transport().now_ns();
            match table.submit(Tag(now_ns), key, Intent::FindOrPut) {
                Ok(()) => self.running += 1,
                // Read-aheads that have not completed occupy the remaining storage.
                Err(OperationError::Busy) => {
                    self.drawn = Some(key);
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Polls once, and starts operations in free storage.
    fn step(&mut self, plan: &ThroughputPlan, table: &mut Rank) -> Result<(), Error> {
        let count = table.poll_into(&mut self.finished)?.len();
        let now_ns = table.transport().now_ns();
        let was_done = self.is_done();
        for at in 0..count {
            if let Some(&finished) = self.finished.get(at) {
                self.end(plan, finished, now_ns)?;
            }
        }
        if count > 0 && !was_done {
            let hits = table.stats().found.cache_hits;
            let warm = if self.is_warm() { self.hits[0] } else { hits };
            self.hits = [warm, hits - warm];
        }
        self.begin(table)
    }

    fn end(&mut self, plan: &ThroughputPlan, finished: Finished, now_ns: u64) -> Result<(), Error> {
        let outcome = finished.result?;
        self.running -= 1;
        if outcome == Ended::Full {
            let Config { max_chunks, chunk_buckets, .. } = plan.setup.table;
            let load_percent = plan.load_percent;
            return Err(Error::NoRoom { max_chunks, chunk_buckets, load_percent });
        }
        if !self.is_done() && self.is_warm() {
            let took_ns = now_ns - finished.tag.0;
            self.sum_ns += took_ns;
            self.sum_us += took_ns / NS_PER_US;
            self.inserted += u64::from(outcome == Ended::Inserted);
        }
        self.ended = self.ended.saturating_add(1);
        if self.ended == self.warm {
            self.start_ns = now_ns;
        }
        if self.ended == self.wanted {
            self.stop_ns = now_ns;
        }
        Ok(())
    }

    fn counted(&self) -> f64 {
        f64::from(self.wanted - self.warm)
    }

    fn per_s(&self) -> f64 {
        self.counted() * 1e9 / (self.stop_ns - self.start_ns).max(1) as f64
    }
}

fn row(plan: &ThroughputPlan, ranks: &Ranks, workers: &[Worker]) -> ThroughputRow {
    let counted: f64 = workers.iter().map(Worker::counted).sum();
    let sum = |of: fn(&Worker) -> u64| workers.iter().map(of).sum::<u64>() as f64;
    let cut = plan.setup.in_flight == 1 && workers.iter().all(|worker| worker.sum_us > 0);
    let cut_of = |worker: &Worker| worker.counted() * 1e6 / worker.sum_us.max(1) as f64;
    let totals = ranks.ranks.iter().map(|rank| rank.stats().total());
    let stats = totals.fold(OutcomeStats::default(), |sum, total| sum.plus(&total));
    let each = |sum: u64| sum as f64 / stats.operations.max(1) as f64;
    ThroughputRow {
        shape: plan.setup.shape,
        workload: plan.workload,
        operations: workers.iter().map(|worker| u64::from(worker.wanted - worker.warm)).sum(),
        inserted: sum(|worker| worker.inserted) / counted.max(1.0),
        ops_per_s: workers.iter().map(Worker::per_s).sum(),
        cut_ops_per_s: cut.then(|| workers.iter().map(cut_of).sum()),
        mean_ns: sum(|worker| worker.sum_ns) / counted.max(1.0),
        outgoing_roundtrips: each(stats.outgoing_roundtrips),
        effective_roundtrips: each(stats.effective_roundtrips),
        bound: work(plan, ranks, sum(|worker| worker.hits[1]) / counted.max(1.0))
            .bound(&plan.setup),
    }
}

/// Computes the least work of the measured operations, or of the first ones of each rank if there
/// are many, given the share of operations that the cache answered.
fn work(plan: &ThroughputPlan, ranks: &Ranks, cache_hits: f64) -> Work {
    let setup = &plan.setup;
    let finds = 1.0 - f64::from(plan.workload.inserts_percent()) / 100.0;
    let missed = (1.0 - cache_hits / finds.max(f64::EPSILON)).max(0.0);
    let examined = (MAX_EXAMINED / setup.ranks().max(1)).clamp(1, plan.operations);
    let mut work = Work::default();
    for rank in 0..setup.ranks() {
        // The same keys as the worker's.
        let mut keys = Keys::new(setup.seed, rank, ranks.filled());
        for nth in 0..plan.warm() + examined {
            let key = keys.draw(plan.workload.inserts_percent());
            if nth < plan.warm() {
                continue;
            }
            if let Some((home, passed)) = ranks.position(key) {
                let task = Task { from: Owner(rank), home, passed, inserts: keys.is_new(key) };
                work.add(setup, &task, missed);
            }
        }
    }
    work
}
