//! The threads of the benchmark. Like the ranks of a job they all run the same program, each pinned
//! to a core of its own.

use core::ops::Range;
use core::time::Duration;
use std::fs;
use std::thread;
use std::time::Instant;

use probeline_exchange::{Thread, threads_within};
use probeline_pin::{Affinity, Placement, Topology};
use probeline_transport::Exchange;

use super::Result;
use super::keys::{BLOCK, Key, Keys};

/// The number of threads, and the most ranks of a table.
pub(crate) const THREADS: usize = 2;
/// Longer than one thread fills a table or a set while the other waits.
const EXCHANGE_LIMIT: Duration = Duration::from_secs(3600);
/// Keys that are drawn at once to fill a set.
const FILL_KEYS: u64 = 1 << 16;

/// One of the threads. All call its methods together, with the same arguments.
pub(crate) struct Member {
    /// 0 or 1.
    pub(crate) me: usize,
    pub(crate) place: Placement,
    pub(crate) exchange: Thread,
    /// The longest time of a measurement.
    time: Duration,
    /// The number of measurements, which seeds the keys.
    count: u64,
}

/// Calls `run` on all threads; returns their results in their order. `time` is the longest of a
/// measurement.
pub(crate) fn run_pinned<R: Send>(
    time: Duration,
    run: impl Fn(&mut Member) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let affinity = Affinity::take()?;
    let topology = Topology::from_sysfs("/sys".as_ref())?;
    let ranks = u32::try_from(THREADS)?;
    let places = probeline_pin::place(&topology, affinity.allowed(), ranks, None)?;
    let members = places.into_iter().zip(threads_within(ranks, EXCHANGE_LIMIT)).enumerate();
    let results: Vec<Result<R>> = thread::scope(|scope| {
        let (affinity, run) = (&affinity, &run);
        let start = |(me, (place, exchange)): (usize, (Placement, Thread))| {
            scope.spawn(move || {
                affinity.pin(place.cpu)?;
                run(&mut Member { me, place, exchange, time, count: 0 })
            })
        };
        let threads: Vec<_> = members.map(start).collect();
        let panicked = |_| Err("a thread panicked: see its message above".into());
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
    });
    // A thread that fails ends the exchange of the other, which then fails too: report both.
    let errors: Vec<_> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    if errors.len() > 1 {
        let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
        return Err(texts.join("; ").into());
    }
    results.into_iter().collect()
}

impl Member {
    /// Prints the progress, once for all threads.
    pub(crate) fn say(&self, text: &str) {
        if self.me == 0 {
            eprintln!("{text}");
        }
    }

    /// Lets the first `threads` threads do `work` with their parts of `keys` until the time is over;
    /// returns their operations per second, all together. `work` returns how many keys of a block
    /// had the expected outcome.
    ///
    /// # Errors
    /// If one key had another outcome.
    pub(crate) fn measure<K: Key>(
        &mut self,
        threads: usize,
        keys: &Keys,
        work: impl FnMut(&[K]) -> usize,
    ) -> Result<f64> {
        let seed = (self.count << 1) + self.me as u64;
        self.count += 1;
        let is_idle = self.me >= threads;
        let keys = if is_idle { vec![] } else { keys.draw(self.me, threads, self.time, seed) };
        self.exchange.barrier()?;
        let rate = rate(&keys, self.time, work)?;
        let [rate] = self.sums([rate])?;
        Ok(rate)
    }

    /// Adds up the rates of all threads.
    pub(crate) fn sums<const N: usize>(&mut self, mut rates: [f64; N]) -> Result<[f64; N]> {
        for rate in &mut rates {
            let mut all = [[0; 8]; THREADS];
            self.exchange.all_gather(&rate.to_le_bytes(), all.as_flattened_mut())?;
            *rate = all.into_iter().map(f64::from_le_bytes).sum();
        }
        Ok(rates)
    }

    /// Lets the first `threads` threads do `work` with their parts of the keys with these numbers.
    ///
    /// # Errors
    /// If one key had another outcome than expected.
    pub(crate) fn fill<K: Key>(
        &mut self,
        threads: usize,
        mut numbers: Range<u64>,
        mut work: impl FnMut(&[K]) -> usize,
    ) -> Result<()> {
        while self.me < threads && !numbers.is_empty() {
            let end = numbers.end.min(numbers.start + FILL_KEYS);
            let keys = Keys::Run(numbers.start..end).draw(self.me, threads, Duration::MAX, 0);
            rate(&keys, Duration::MAX, &mut work)?;
            numbers.start = end;
        }
        Ok(self.exchange.barrier()?)
    }
}

/// Does `work` with blocks of keys until `time` is over; returns the keys per second.
fn rate<K: Key>(keys: &[K], time: Duration, mut work: impl FnMut(&[K]) -> usize) -> Result<f64> {
    let (start, mut elapsed) = (Instant::now(), Duration::ZERO);
    let (mut done, mut expected) = (0, 0);
    for keys in keys.chunks(BLOCK) {
        expected += work(keys);
        done += keys.len();
        elapsed = start.elapsed();
        if elapsed >= time {
            break;
        }
    }
    if done != expected {
        return Err(format!(
            "{} of {done} operations had an unexpected outcome: a key was lost, was there before \
             its insert, or found no room",
            done - expected
        )
        .into());
    }
    Ok(done as f64 / elapsed.as_secs_f64().max(1e-9))
}

/// Returns the share of the calling thread's time in which other threads had its CPU; 0 if the
/// kernel does not say. See Documentation/scheduler/sched-stats.rst of the kernel.
pub(crate) fn preempted_share() -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let mut ns = text.split_ascii_whitespace().map_while(|ns| ns.parse::<f64>().ok());
    let (ran, waited) = (ns.next().unwrap_or(0.0), ns.next().unwrap_or(0.0));
    waited / (ran + waited).max(1.0)
}
