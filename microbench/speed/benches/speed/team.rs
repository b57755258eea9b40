//! Two pinned threads that run the same plan: they start each measurement together and share what
//! they measured.

use core::any::Any;
use core::time::Duration;
use std::fs;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use probeline_exchange::Thread;
use probeline_pin::{Affinity, Placement};
use probeline_transport::Exchange;

use super::Result;
use super::keys::Keys;

/// Threads of the team, and the most ranks of a table.
pub(crate) const THREADS: usize = 2;

/// Operations between two readings of the clock, and of one batch. The end of a batch, with fewer
/// and fewer operations in flight, takes the time of some tens of operations, about 1 %.
pub(crate) const STEP: usize = 2048;

/// The longest wait for the other thread, which may fill a table in the meantime.
const MAX_WAIT: Duration = Duration::from_secs(600);

/// More keys than a thread looks up in a second.
const KEYS_PER_S: f64 = 60e6;
/// 128 MiB of keys; a measurement ends with them.
const MAX_KEYS: usize = 1 << 24;

/// One thread of the team.
pub(crate) struct Member {
    /// 0 or 1.
    pub(crate) me: usize,
    pub(crate) exchange: Thread,
    /// Where thread 0 leaves a value for thread 1.
    shared: Arc<Mutex<Option<Box<dyn Any + Send>>>>,
    /// The common start of the clocks.
    start: Instant,
    /// The longest time of a measurement.
    time: Duration,
    /// The keys of a measurement; kept for its memory.
    keys: Vec<u64>,
    seed: u64,
    /// Time in measurements, and how long other processes had the CPU then, both threads together.
    pub(crate) spent_ns: u64,
    pub(crate) preempted_ns: u64,
}

/// Runs `plan` on a thread for each of `places`; returns the result of thread 0.
pub(crate) fn run<R: Send>(
    affinity: &Affinity,
    places: &[Placement],
    time: Duration,
    plan: impl Fn(Member) -> Result<R> + Sync,
) -> Result<R> {
    let (shared, start) = (Arc::default(), Instant::now());
    let exchanges = probeline_exchange::threads_within(u32::try_from(places.len())?, MAX_WAIT);
    let members = exchanges.into_iter().enumerate().map(|(me, exchange)| Member {
        me,
        exchange,
        shared: Arc::clone(&shared),
        start,
        time,
        keys: Vec::new(),
        seed: 0,
        spent_ns: 0,
        preempted_ns: 0,
    });
    let mut results: Vec<Result<R>> = thread::scope(|scope| {
        let threads: Vec<_> = members
            .zip(places)
            .map(|(member, place)| {
                let plan = &plan;
                scope.spawn(move || {
                    affinity.pin(place.cpu)?;
                    plan(member)
                })
            })
            .collect();
        let panicked = |_| Err("a thread panicked: see its message above".into());
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
    });
    // The other thread may have failed first.
    if let Some(at) = results.iter().skip(1).position(|result| is_own_error(result)) {
        results.swap(0, at + 1);
    }
    results.swap_remove(0)
}

/// Whether a thread failed by itself, and not because the other one ended.
fn is_own_error<R>(result: &Result<R>) -> bool {
    result.as_ref().is_err_and(|error| !error.is::<probeline_transport::ExchangeError>())
}

impl Member {
    /// Prints what the team does next.
    pub(crate) fn say(&self, what: &str) {
        if self.me == 0 {
            eprintln!("{:5.0} s  {what}", self.start.elapsed().as_secs_f64());
        }
    }

    /// The numbers of each thread.
    pub(crate) fn gather<const N: usize>(&mut self, mine: [u64; N]) -> Result<Vec<[u64; N]>> {
        let mine: Vec<u8> = mine.iter().flat_map(|number| number.to_le_bytes()).collect();
        let mut all = vec![0; mine.len() * self.exchange.owners() as usize];
        self.exchange.all_gather(&mine, &mut all)?;
        let (numbers, _) = all.as_chunks::<8>();
        let of = |numbers: &[[u8; 8]]| {
            core::array::from_fn(|at| numbers.get(at).map_or(0, |&bytes| u64::from_le_bytes(bytes)))
        };
        Ok(numbers.chunks(N).map(of).collect())
    }

    /// What `make` returns in thread 0, with what `share` makes of it for thread 1.
    pub(crate) fn share<S: Send + 'static>(
        &mut self,
        make: impl FnOnce() -> S,
        share: impl FnOnce(&S) -> Option<S>,
    ) -> Result<Option<S>> {
        let mut made = None;
        if self.me == 0 {
            let value = make();
            *self.slot() = share(&value).map(|value| Box::new(value) as Box<dyn Any + Send>);
            made = Some(value);
        }
        self.exchange.barrier()?;
        if self.me == 1 {
            made = self.slot().take().and_then(|value| value.downcast().ok()).map(|value| *value);
        }
        Ok(made)
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Box<dyn Any + Send>>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Random keys of the first `of`, enough for the time of a measurement.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded")]
    pub(crate) fn random(&mut self, of: u64) -> Keys {
        self.seed += 1;
        let count = (self.time.as_secs_f64() * KEYS_PER_S) as usize;
        Keys::Random { of, count: count.clamp(STEP, MAX_KEYS), seed: self.seed }
    }

    /// Operations a second of the first `threads` threads, each of which does `step` with its part of
    /// `keys` until the time is over. `step` returns how many keys had the expected outcome.
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
            keys.part(self.me, threads).fill(&mut self.keys);
        }
        self.exchange.barrier()?;
        let mut span = Span::default();
        if is_active {
            span = self.span(step);
        }
        let mine = [span.start_ns, span.end_ns, span.done, span.expected, span.preempted_ns];
        let all = self.gather(mine)?;
        let active = all.get(..threads).unwrap_or_default();
        let sum = |at: usize| active.iter().map(|span| span[at]).sum::<u64>();
        let (done, expected) = (sum(2), sum(3));
        if done != expected {
            return Err(format!(
                "{} of {done} operations had an unexpected outcome: a key was lost, was there \
                 before its insert, or found no room",
                done - expected
            )
            .into());
        }
        self.spent_ns += sum(1) - sum(0);
        self.preempted_ns += sum(4);
        let start = active.iter().map(|span| span[0]).min().unwrap_or(0);
        let end = active.iter().map(|span| span[1]).max().unwrap_or(0);
        Ok(done as f64 * 1e9 / (end - start).max(1) as f64)
    }

    fn span(&self, mut step: impl FnMut(&[u64]) -> usize) -> Span {
        let now_ns = || u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let time_ns = u64::try_from(self.time.as_nanos()).unwrap_or(u64::MAX);
        let before_ns = preempted_ns();
        let start_ns = now_ns();
        let mut span = Span { start_ns, end_ns: start_ns, ..Span::default() };
        for keys in self.keys.chunks(STEP) {
            span.expected += step(keys) as u64;
            span.done += keys.len() as u64;
            span.end_ns = now_ns();
            if span.end_ns - start_ns >= time_ns {
                break;
            }
        }
        span.preempted_ns = preempted_ns().saturating_sub(before_ns);
        span
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
        let mut expected = 0;
        if let Keys::Run { from, to } = (Keys::Run { from, to }).part(self.me, threads)
            && self.me < threads
        {
            for start in (from..to).step_by(STEP) {
                Keys::Run { from: start, to: to.min(start + STEP as u64) }.fill(&mut self.keys);
                expected += step(&self.keys) as u64;
            }
        }
        let all: u64 = self.gather([expected])?.into_iter().map(|[expected]| expected).sum();
        if all != to - from {
            return Err(format!("{all} of {} keys were inserted to fill a set", to - from).into());
        }
        Ok(())
    }
}

/// What one thread did in a measurement.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    start_ns: u64,
    end_ns: u64,
    /// Operations, and how many of them had the expected outcome.
    done: u64,
    expected: u64,
    preempted_ns: u64,
}

/// How long the calling thread has waited for a CPU that other threads had; 0 if the kernel does not
/// say. See Documentation/scheduler/sched-stats.rst of the kernel.
fn preempted_ns() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_ascii_whitespace().nth(1).and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

// Cargo sets `test` for a benchmark without a harness too, and there the tests are left out.
#[cfg(test)]
#[allow(dead_code, unused_imports)]
mod tests {
    use super::*;

    fn member(time: Duration) -> Member {
        Member {
            me: 0,
            exchange: probeline_exchange::threads(1).remove(0),
            shared: Arc::default(),
            start: Instant::now(),
            time,
            keys: Vec::new(),
            seed: 0,
            spent_ns: 0,
            preempted_ns: 0,
        }
    }

    #[test]
    fn a_measurement_ends_with_the_time_or_the_keys() {
        let mut member = member(Duration::from_millis(3));
        member.keys = vec![0; 10 * STEP];
        let cut = member.span(|keys| {
            thread::sleep(Duration::from_millis(2));
            keys.len()
        });
        // One step if another process had the CPU meanwhile.
        assert!([1, 2].contains(&(cut.done / STEP as u64)), "{cut:?}");
        member.time = Duration::from_secs(9);
        member.keys = vec![0; STEP + 1];
        assert_eq!(member.span(<[u64]>::len).done, STEP as u64 + 1);
    }

    #[test]
    fn an_unexpected_outcome_is_an_error() {
        let keys = Keys::Run { from: 0, to: 3 };
        let mut member = member(Duration::from_secs(1));
        assert!(member.measure(1, keys, |keys| keys.len() - 1).is_err());
        assert!(member.fill(1, (0, 3), |keys| keys.len() - 1).is_err());
        assert!(member.measure(1, keys, <[u64]>::len).unwrap() > 0.0);
        member.fill(1, (0, 3), <[u64]>::len).unwrap();
    }
}
