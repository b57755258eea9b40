//! Two pinned threads that run the same plan: they start each measurement together and share what
//! they measured.

use core::time::Duration;
use std::fs;
use std::thread;
use std::time::Instant;

use probeline_exchange::Thread;
use probeline_pin::{Affinity, Placement};
use probeline_results::gather;
use probeline_table::{Bucket, MAX_KEY};
use probeline_transport::Exchange;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::Result;

/// Threads of the team, and the most ranks of a table.
pub(crate) const THREADS: usize = 2;
/// Operations between two readings of the clock, and of one batch. The end of a batch, with fewer
/// and fewer operations in flight, takes the time of some tens of operations, about 1 %.
pub(crate) const BLOCK: usize = 2048;
/// The longest wait for the other thread, which may fill a table in the meantime.
const MAX_WAIT: Duration = Duration::from_secs(600);
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
#[derive(Clone, Copy, Debug)]
pub(crate) enum Keys {
    /// From the first number to the second, exclusive, in this order.
    Run(u64, u64),
    /// At random below this number.
    Random(u64),
}

/// One thread of the team.
pub(crate) struct Member {
    /// 0 or 1.
    pub(crate) me: usize,
    pub(crate) exchange: Thread,
    /// The common start of the clocks.
    start: Instant,
    /// The longest time of a measurement.
    time: Duration,
    /// The keys of a measurement; kept for its memory.
    keys: Vec<u64>,
    rng: SmallRng,
    /// Time in measurements, and how long other processes had the CPU then, both threads together.
    spent_ns: u64,
    preempted_ns: u64,
}

/// Runs `plan` on a thread for each of `places`; returns the result of thread 0.
pub(crate) fn run<R: Send>(
    affinity: &Affinity,
    places: &[Placement],
    time: Duration,
    plan: impl Fn(Member) -> Result<R> + Sync,
) -> Result<R> {
    let start = Instant::now();
    let exchanges = probeline_exchange::threads_within(u32::try_from(places.len())?, MAX_WAIT);
    let mut results: Vec<Result<R>> = thread::scope(|scope| {
        let threads =
            exchanges.into_iter().zip(places).enumerate().map(|(me, (exchange, place))| {
                let plan = &plan;
                scope.spawn(move || {
                    affinity.pin(place.cpu)?;
                    plan(Member::new(me, exchange, start, time))
                })
            });
        let panicked = |_| Err("a thread panicked: see its message above".into());
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
    });
    // The other thread may have failed first, and this one because that ended.
    let is_own = |result: &Result<R>| match result {
        Ok(_) => false,
        Err(error) => !error.is::<probeline_transport::ExchangeError>(),
    };
    let first = results.iter().position(is_own);
    results.swap_remove(first.unwrap_or(0))
}

impl Member {
    fn new(me: usize, exchange: Thread, start: Instant, time: Duration) -> Self {
        let rng = SmallRng::seed_from_u64(me as u64);
        Self { me, exchange, start, time, keys: Vec::new(), rng, spent_ns: 0, preempted_ns: 0 }
    }

    /// Prints what the team does next.
    pub(crate) fn say(&self, what: &str) {
        if self.me == 0 {
            eprintln!("{:5.0} s  {what}", self.start.elapsed().as_secs_f64());
        }
    }

    /// Returns the share of the time in measurements in which other processes had the CPUs.
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    pub(crate) fn preempted_share(&self) -> f64 {
        self.preempted_ns as f64 / self.spent_ns.max(1) as f64
    }

    /// Draws this thread's part of `keys`, which the first `threads` threads share.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded")]
    fn draw(&mut self, keys: Keys, threads: usize) {
        self.keys.clear();
        let rng = &mut self.rng;
        match keys {
            Keys::Run(from, to) => {
                let cut = |part: usize| from + (to - from) * part as u64 / threads as u64;
                self.keys.extend((cut(self.me)..cut(self.me + 1)).map(key));
            }
            Keys::Random(below) => {
                let count = (self.time.as_secs_f64() * KEYS_PER_S) as usize;
                let keys = (0..count.clamp(BLOCK, MAX_KEYS)).map(|_| rng.random_range(0..below));
                self.keys.extend(keys.map(key));
            }
        }
    }

    /// Returns operations per second of the first `threads` threads, each of which does `step` with
    /// its part of `keys` until the time is over. `step` returns how many keys had the expected
    /// outcome.
    ///
    /// # Errors
    /// If one key had another outcome.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    pub(crate) fn measure(
        &mut self,
        threads: usize,
        keys: Keys,
        step: impl FnMut(&[u64]) -> usize,
    ) -> Result<f64> {
        let is_active = self.me < threads;
        if is_active {
            self.draw(keys, threads);
        }
        self.exchange.barrier()?;
        let mine = if is_active { self.span(step) } else { [0; 5] };
        let all = gather(&mut self.exchange, mine)?;
        let active = &all[..threads.min(all.len())];
        let [start, end, done, expected, preempted] =
            core::array::from_fn(|at| active.iter().map(|span| span[at]).sum::<u64>());
        if done != expected {
            return Err(format!(
                "{} of {done} operations had an unexpected outcome: a key was lost, was there \
                 before its insert, or found no room",
                done - expected
            )
            .into());
        }
        self.spent_ns += end - start;
        self.preempted_ns += preempted;
        let first = active.iter().map(|span| span[0]).min().unwrap_or(0);
        let last = active.iter().map(|span| span[1]).max().unwrap_or(0);
        Ok(done as f64 * 1e9 / (last - first).max(1) as f64)
    }

    /// Measures on this thread. Returns start and end in nanoseconds, the operations, how many of
    /// them had the expected outcome, and how long other threads had the CPU in nanoseconds.
    fn span(&self, mut step: impl FnMut(&[u64]) -> usize) -> [u64; 5] {
        let now_ns = || u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let (before_ns, start_ns) = (preempted_ns(), now_ns());
        let (mut end_ns, mut done, mut expected) = (start_ns, 0, 0);
        for keys in self.keys.chunks(BLOCK) {
            expected += step(keys) as u64;
            done += keys.len() as u64;
            end_ns = now_ns();
            if Duration::from_nanos(end_ns - start_ns) >= self.time {
                break;
            }
        }
        [start_ns, end_ns, done, expected, preempted_ns().saturating_sub(before_ns)]
    }

    /// The first `threads` threads do `step` with their parts of the keys numbered `from` to `to`.
    ///
    /// # Errors
    /// If one key had another outcome than expected.
    pub(crate) fn fill(
        &mut self,
        threads: usize,
        (from, to): (u64, u64),
        mut step: impl FnMut(&[u64]) -> usize,
    ) -> Result<()> {
        let (mut expected, blocks) = (0, BLOCK * threads);
        let end = if self.me < threads { to } else { from };
        for start in (from..end).step_by(blocks) {
            self.draw(Keys::Run(start, to.min(start + blocks as u64)), threads);
            expected += step(&self.keys) as u64;
        }
        let all: u64 = gather(&mut self.exchange, [expected])?.into_iter().flatten().sum();
        if all != to - from {
            return Err(format!("{all} of {} keys were inserted to fill a set", to - from).into());
        }
        Ok(())
    }
}

/// Returns how long the calling thread has waited for a CPU that other threads had; 0 if the kernel
/// does not say. See Documentation/scheduler/sched-stats.rst of the kernel.
fn preempted_ns() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_ascii_whitespace().nth(1).and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

// Cargo sets `test` for a benchmark without a harness too, and there the tests are left out.
#[cfg(test)]
#[allow(dead_code, unused_imports)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn member(time: Duration) -> Member {
        Member::new(0, probeline_exchange::threads(1).remove(0), Instant::now(), time)
    }

    #[test]
    fn numbers_come_back_from_keys_of_63_bits() {
        for n in (0..10_000).chain((0..10_000).map(|n| MAX_KEY - n)) {
            assert!(key(n) <= MAX_KEY);
            assert_eq!(number(key(n)), n);
        }
    }

    #[test]
    fn the_parts_of_a_run_are_disjoint_and_complete() {
        let mut all = BTreeSet::new();
        for me in 0..3 {
            let mut member = Member { me, ..member(Duration::ZERO) };
            member.draw(Keys::Run(10, 1000), 3);
            assert!(member.keys.iter().all(|key| all.insert(*key)));
        }
        assert_eq!(all, (10..1000).map(key).collect());
    }

    #[test]
    fn random_keys_are_present_and_differ() {
        let mut member = member(Duration::ZERO);
        let mut seen = Vec::new();
        for _ in 0..3 {
            member.draw(Keys::Random(1000), 1);
            assert!(
                member.keys.len() == BLOCK && member.keys.iter().all(|&key| number(key) < 1000)
            );
            let different: BTreeSet<u64> = member.keys.iter().copied().collect();
            // 1000 (1 - e^-2.048) expected, which is 871; 6 standard deviations are below 90.
            assert!((781..961).contains(&different.len()), "{}", different.len());
            assert!(!seen.contains(&member.keys));
            seen.push(member.keys.clone());
        }
    }

    #[test]
    fn a_measurement_ends_with_the_time_or_the_keys() {
        let mut member = member(Duration::from_millis(3));
        member.keys = vec![0; 10 * BLOCK];
        let [.., done, _, _] = member.span(|keys| {
            thread::sleep(Duration::from_millis(2));
            keys.len()
        });
        // One block if another process had the CPU meanwhile.
        assert!([1, 2].contains(&(done / BLOCK as u64)), "{done}");
        member.time = Duration::from_secs(9);
        member.keys = vec![0; BLOCK + 1];
        assert_eq!(member.span(<[u64]>::len)[2], BLOCK as u64 + 1);
    }

    #[test]
    fn an_unexpected_outcome_is_an_error() {
        let keys = Keys::Run(0, 3);
        let mut member = member(Duration::from_secs(1));
        assert!(member.measure(1, keys, |keys| keys.len() - 1).is_err());
        assert!(member.fill(1, (0, 3), |keys| keys.len() - 1).is_err());
        assert!(member.measure(1, keys, <[u64]>::len).unwrap() > 0.0);
        member.fill(1, (0, 3), <[u64]>::len).unwrap();
    }
}
