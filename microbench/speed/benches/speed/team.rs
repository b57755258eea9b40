//! Pinned threads that own the ranks of tables and do the same work at the same time.

use core::ops::Range;
use core::time::Duration;
use std::fs;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Instant;

use probeline_exchange::Thread;
use probeline_pin::{Affinity, Placement, Topology};
use probeline_table::{Bucket, MAX_KEY};
use probeline_transport::Exchange;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::Result;
use super::rank::Rank;

/// The most threads, and the most ranks of a table.
pub(crate) const THREADS: usize = 2;
/// Operations between two readings of the clock, and of one batch. The end of a batch, with fewer
/// and fewer operations in flight, takes the time of some tens of operations, about 1 %.
pub(crate) const BLOCK: usize = 2048;
/// More keys than a thread looks up in a second.
const KEYS_PER_S: f64 = 60e6;
/// 128 MiB of keys; a measurement ends with them.
const MAX_KEYS: usize = 1 << 24;

/// Returns the nth key, a uniform number of 63 bits: always the first ones are in a set, so that no
/// array has to record which. The table's own permutation of keys makes it; all are different.
pub(crate) fn key(n: u64) -> u64 {
    Bucket::new(n & MAX_KEY).map_or(0, Bucket::hash)
}

/// Returns the n of a key.
pub(crate) fn number(key: u64) -> u64 {
    Bucket::from_word(key | !MAX_KEY).map_or(0, Bucket::key)
}

/// The keys of a measurement, by number.
#[derive(Clone, Debug)]
pub(crate) enum Keys {
    /// All of these in this order, divided between the threads.
    Run(Range<u64>),
    /// At random below this number.
    Random(u64),
}

impl Keys {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded")]
    pub(crate) fn draw(&self, part: usize, parts: usize, time: Duration, seed: u64) -> Vec<u64> {
        match self {
            Self::Run(all) => share(all, part, parts).map(key).collect(),
            Self::Random(below) => {
                let mut rng = SmallRng::seed_from_u64(seed);
                let count = ((time.as_secs_f64() * KEYS_PER_S) as usize).clamp(BLOCK, MAX_KEYS);
                (0..count).map(|_| key(rng.random_range(0..*below))).collect()
            }
        }
    }
}

fn share(all: &Range<u64>, part: usize, parts: usize) -> Range<u64> {
    let cut = |part: usize| all.start + (all.end - all.start) * part as u64 / parts as u64;
    cut(part)..cut(part + 1)
}

/// What a thread owns.
pub(crate) struct Member {
    /// 0 or 1.
    pub(crate) me: usize,
    pub(crate) place: Placement,
    /// Its rank of the table of a single rank, and of the table of two.
    ranks: [Option<Rank>; THREADS],
}

impl Member {
    /// Returns the member's rank of the table that has this number of ranks.
    pub(crate) fn rank(&mut self, ranks: usize) -> &mut Option<Rank> {
        &mut self.ranks[ranks - 1]
    }
}

type Task = Box<dyn FnOnce(&mut Member) + Send>;

pub(crate) struct Team {
    threads: Vec<mpsc::Sender<Task>>,
    /// The longest time of a measurement.
    time: Duration,
    /// The number of measurements, which seeds the keys.
    count: u64,
    /// Time in measurements, and how long other processes had the CPUs then, all threads together.
    spent: Duration,
    preempted: Duration,
}

/// What one thread measured.
struct Span {
    start: Instant,
    end: Instant,
    done: u64,
    /// Operations with the expected outcome.
    expected: u64,
    preempted: Duration,
}

impl Team {
    pub(crate) fn new(time: Duration) -> Result<Self> {
        let affinity = Arc::new(Affinity::take()?);
        let topology = Topology::from_sysfs("/sys".as_ref())?;
        let ranks = u32::try_from(THREADS)?;
        let places = probeline_pin::place(&topology, affinity.allowed(), ranks, None)?;
        let start = |(me, place): (usize, Placement)| {
            let (sender, tasks) = mpsc::channel::<Task>();
            thread::spawn(move || {
                let mut member = Member { me, place, ranks: [None, None] };
                tasks.iter().for_each(|task| task(&mut member));
            });
            sender
        };
        let threads = places.into_iter().enumerate().map(start).collect();
        let (spent, preempted) = (Duration::ZERO, Duration::ZERO);
        let team = Self { threads, time, count: 0, spent, preempted };
        team.each(THREADS, move |member, _| Ok(affinity.pin(member.place.cpu)?))?;
        Ok(team)
    }

    /// Returns the share of the time in measurements in which other processes had the CPUs.
    pub(crate) fn preempted_share(&self) -> f64 {
        self.preempted.as_secs_f64() / self.spent.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Calls `run` on the first `threads` threads, with an exchange that they share.
    pub(crate) fn each<R: Send + 'static>(
        &self,
        threads: usize,
        run: impl Fn(&mut Member, Thread) -> Result<R> + Send + Sync + 'static,
    ) -> Result<Vec<R>> {
        let run = Arc::new(run);
        let exchanges = probeline_exchange::threads(u32::try_from(threads)?);
        let results = self.threads.iter().zip(exchanges).map(|(thread, exchange)| {
            let (run, (sender, result)) = (Arc::clone(&run), mpsc::channel());
            // Fails after a panic, of which `result` then tells.
            let _ = thread.send(Box::new(move |member| {
                let _ = sender.send(run(member, exchange));
            }));
            result
        });
        let results: Vec<mpsc::Receiver<Result<R>>> = results.collect();
        let panicked = |_| Err("a thread panicked: see its message above".into());
        let results = results.into_iter().map(|result| result.recv().unwrap_or_else(panicked));
        let results: Vec<Result<R>> = results.collect();
        // A thread that fails ends the exchange of the other, which then fails too: report both.
        let errors: Vec<_> = results.iter().filter_map(|result| result.as_ref().err()).collect();
        if errors.len() > 1 {
            let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
            return Err(texts.join("; ").into());
        }
        results.into_iter().collect()
    }

    /// The first `threads` threads do `work` with their parts of `keys` until the time is over;
    /// returns their operations per second, all together. `work` returns how many keys of a block had
    /// the expected outcome.
    ///
    /// # Errors
    /// If one key had another outcome.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    pub(crate) fn measure(
        &mut self,
        threads: usize,
        keys: Keys,
        work: impl Fn(&mut Member, &[u64]) -> usize + Send + Sync + 'static,
    ) -> Result<f64> {
        let (time, seed) = (self.time, self.count << 1);
        self.count += 1;
        let spans = self.each(threads, move |member, mut exchange| {
            let keys = keys.draw(member.me, threads, time, seed + member.me as u64);
            exchange.barrier()?;
            Ok(span(&keys, time, |keys| work(member, keys)))
        })?;
        let sum = |of: fn(&Span) -> u64| spans.iter().map(of).sum::<u64>();
        let (done, expected) = (sum(|span| span.done), sum(|span| span.expected));
        if done != expected {
            return Err(format!(
                "{} of {done} operations had an unexpected outcome: a key was lost, was there \
                 before its insert, or found no room",
                done - expected
            )
            .into());
        }
        self.spent += spans.iter().map(|span| span.end - span.start).sum::<Duration>();
        self.preempted += spans.iter().map(|span| span.preempted).sum::<Duration>();
        let ends = spans.iter().map(|span| span.end).max();
        let all = ends.zip(spans.iter().map(|span| span.start).min());
        let elapsed = all.map_or(Duration::MAX, |(last, first)| last - first);
        Ok(done as f64 / elapsed.max(Duration::from_nanos(1)).as_secs_f64())
    }

    /// The first `threads` threads do `work` with their parts of the keys with these numbers.
    ///
    /// # Errors
    /// If one key had another outcome than expected.
    pub(crate) fn fill(
        &self,
        threads: usize,
        numbers: Range<u64>,
        work: impl Fn(&mut Member, &[u64]) -> usize + Send + Sync + 'static,
    ) -> Result<()> {
        let all = numbers.end - numbers.start;
        let inserted = self.each(threads, move |member, _| {
            let (part, mut inserted) = (share(&numbers, member.me, threads), 0);
            for from in part.clone().step_by(BLOCK) {
                let block = from..part.end.min(from + BLOCK as u64);
                inserted += work(member, &block.map(key).collect::<Vec<_>>()) as u64;
            }
            Ok(inserted)
        })?;
        let inserted: u64 = inserted.iter().sum();
        let failed = || format!("{inserted} of {all} keys were inserted to fill a set").into();
        (inserted == all).then_some(()).ok_or_else(failed)
    }
}

/// Measures `work` with `keys` until `time` is over.
fn span(keys: &[u64], time: Duration, mut work: impl FnMut(&[u64]) -> usize) -> Span {
    let (before, start) = (preempted(), Instant::now());
    let (mut end, mut done, mut expected) = (start, 0, 0);
    for keys in keys.chunks(BLOCK) {
        expected += work(keys) as u64;
        done += keys.len() as u64;
        end = Instant::now();
        if end - start >= time {
            break;
        }
    }
    Span { start, end, done, expected, preempted: preempted().saturating_sub(before) }
}

/// Returns how long the calling thread has waited for a CPU that other threads had; 0 if the kernel
/// does not say. See Documentation/scheduler/sched-stats.rst of the kernel.
fn preempted() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = text.split_ascii_whitespace().nth(1).and_then(|ns| ns.parse().ok());
    Duration::from_nanos(ns.unwrap_or(0))
}
