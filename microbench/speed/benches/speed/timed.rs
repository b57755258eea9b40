//! Operations by the clock: only they are timed, not the making of their keys.

use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use super::Result;
use super::crew::{Crew, Gate};
use super::keys::Keys;
use super::process::waited;

/// Operations between two looks at the clock, and in one batch: the end of a batch, when fewer
/// and fewer operations are in flight, takes as long as some tens of them, 1 % or so.
pub(crate) const STEP: usize = 2048;

/// Keys for a measurement by time are as many as no thread gets done: 60 million a second.
const KEYS_A_SECOND: f64 = 60e6;
/// Keys of one thread at most, 128 MiB; a measurement ends when they do.
const MOST_KEYS: usize = 1 << 24;

/// What one thread did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    start: Instant,
    end: Instant,
    done: u64,
    /// How much of it others had the CPU.
    waited: Duration,
}

/// What threads did together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Measurement {
    /// Operations a second of all together, from the first start to the last end.
    pub(crate) ops_per_s: f64,
    /// The time of all threads, and how much of it others had their CPUs.
    pub(crate) spent: Duration,
    pub(crate) waited: Duration,
}

/// Random keys of the first `of`, enough for `time`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded above")]
pub(crate) fn random(of: u64, time: Duration, seed: u64) -> Keys {
    let count = (time.as_secs_f64() * KEYS_A_SECOND) as usize;
    Keys::Random { of, count: count.clamp(STEP, MOST_KEYS), seed }
}

/// Does `step` with `keys`, in steps, until `time` is up; it says how many operations ended as
/// they had to, and it is an error if one did not.
fn span(keys: &[u64], time: Duration, mut step: impl FnMut(&[u64]) -> usize) -> Result<Span> {
    let before = waited();
    let start = Instant::now();
    let (mut end, mut done, mut good) = (start, 0, 0);
    for keys in keys.chunks(STEP) {
        good += step(keys);
        done += keys.len();
        end = Instant::now();
        if end - start >= time {
            break;
        }
    }
    if good != done {
        let wrong = done - good;
        return Err(format!(
            "{wrong} of {done} operations did not end as they had to: a key was lost, was there \
             before it was put, or found no room"
        )
        .into());
    }
    let waited = waited().zip(before).map(|(after, before)| after.saturating_sub(before));
    Ok(Span { start, end, done: done as u64, waited: waited.unwrap_or_default() })
}

/// The first `threads` of a crew do `step` at once, each with its part of `keys`, which `room`
/// keeps, for `time` at most.
pub(crate) fn measure<W: 'static>(
    crew: &Crew<W>,
    threads: usize,
    keys: Keys,
    time: Duration,
    room: fn(&mut W) -> &mut Vec<u64>,
    step: fn(&mut W, &[u64]) -> usize,
) -> Result<Measurement> {
    let gate = Gate::new(threads);
    let spans = crew.ask(threads, move |at, worker| {
        let mut own = core::mem::take(room(worker));
        keys.part(at, threads).fill(&mut own);
        let spent =
            Arc::clone(&gate).pass().and_then(|()| span(&own, time, |keys| step(worker, keys)));
        *room(worker) = own;
        spent
    })?;
    let spans = spans.into_iter().collect::<Result<Vec<Span>>>()?;
    Ok(Measurement {
        ops_per_s: rate(&spans),
        spent: spans.iter().map(|span| span.end - span.start).sum(),
        waited: spans.iter().map(|span| span.waited).sum(),
    })
}

#[expect(clippy::cast_precision_loss, reason = "far fewer than 2^53")]
fn rate(spans: &[Span]) -> f64 {
    let done: u64 = spans.iter().map(|span| span.done).sum();
    let start = spans.iter().map(|span| span.start).min();
    let end = spans.iter().map(|span| span.end).max();
    let Some((start, end)) = start.zip(end) else { return 0.0 };
    done as f64 / (end - start).as_secs_f64().max(1e-9)
}

/// All threads of a crew do `step` with the keys from `from` to less than `to`, untimed.
pub(crate) fn fill<W: 'static>(
    crew: &Crew<W>,
    from: u64,
    to: u64,
    step: fn(&mut W, &[u64]) -> usize,
) -> Result<()> {
    let threads = crew.len();
    let good = crew.ask(threads, move |at, worker| {
        let mut keys = Vec::with_capacity(STEP);
        let Keys::Run { from, to } = (Keys::Run { from, to }).part(at, threads) else { return 0 };
        let mut good = 0;
        for start in (from..to).step_by(STEP) {
            Keys::Run { from: start, to: to.min(start + STEP as u64) }.fill(&mut keys);
            good += step(worker, &keys) as u64;
        }
        good
    })?;
    let good: u64 = good.into_iter().sum();
    if good != to.saturating_sub(from) {
        return Err(format!("{good} of {} keys were put while filling", to - from).into());
    }
    Ok(())
}

// Cargo sets `test` for a benchmark without a harness too, and there the tests are left out.
#[cfg(test)]
#[allow(dead_code, unused_imports)]
mod tests {
    use super::*;

    #[test]
    fn time_ends_a_span_and_so_do_keys() {
        let keys = vec![0; 10 * STEP];
        let slow = |keys: &[u64]| {
            std::thread::sleep(Duration::from_millis(2));
            keys.len()
        };
        let cut = span(&keys, Duration::from_millis(3), slow).unwrap();
        // One step where somebody else had the CPU meanwhile.
        assert!([1, 2].contains(&(cut.done / STEP as u64)), "{}", cut.done);
        let whole = span(&keys[..STEP + 1], Duration::from_secs(9), <[u64]>::len).unwrap();
        assert_eq!(whole.done, STEP as u64 + 1);
    }

    #[test]
    fn an_operation_that_ends_otherwise_is_an_error() {
        assert!(span(&[1, 2, 3], Duration::from_secs(1), |keys| keys.len() - 1).is_err());
    }

    #[test]
    fn the_rate_is_from_the_first_start_to_the_last_end() {
        let at = |ms| Duration::from_millis(ms);
        let start = Instant::now();
        let spans = [
            Span { start, end: start + at(500), done: 1000, waited: at(0) },
            Span { start: start + at(100), end: start + at(1000), done: 3000, waited: at(0) },
        ];
        assert!((rate(&spans) - 4000.0).abs() < 1e-6);
    }
}
