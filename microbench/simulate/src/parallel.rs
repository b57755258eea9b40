//! Runs experiments in parallel.

use core::num::NonZero;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::panic::resume_unwind;
use std::thread;

/// Maximum experiments at the same time, because each has a cluster in memory.
pub const MAX_AT_ONCE: usize = 2;

/// Runs each of `all`, at most `max` at the same time, and returns the results in their order.
/// Each has a separate cluster, so results do not depend on which experiments run at the same time.
///
/// # Errors
/// The error of an experiment that failed. Experiments that have not started by then do not start.
pub fn run_all<I: Sync, O: Send, E: Send>(
    all: &[I],
    max: usize,
    run: impl Fn(&I) -> Result<O, E> + Sync,
) -> Result<Vec<O>, E> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Relaxed);
            let Some(one) = all.get(at) else { return Ok(done) };
            match run(one) {
                Ok(result) => done.push((at, result)),
                Err(error) => {
                    next.store(all.len(), Relaxed);
                    return Err(error);
                }
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = threads.min(max.clamp(1, MAX_AT_ONCE)).min(all.len());
    let mut done: Vec<(usize, O)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let ends =
            threads.into_iter().map(|t| t.join().unwrap_or_else(|panic| resume_unwind(panic)));
        ends.collect::<Result<Vec<_>, E>>().map(|ends| ends.into_iter().flatten().collect())
    })?;
    done.sort_by_key(|(at, _)| *at);
    Ok(done.into_iter().map(|(_, one)| one).collect())
}
