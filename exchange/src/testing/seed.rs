//! Seeds of random runs, which can be replayed.

use std::env;
use std::thread;
use std::time::SystemTime;

use crate::Job;
use probeline_transport::{Exchange, Owner};

/// The variable that names the seed to replay.
const VARIABLE: &str = "PROBELINE_SEED";

/// Returns the seed to replay, if one is named.
///
/// # Panics
/// If it is not a number.
#[must_use]
pub fn replayed_seed() -> Option<u64> {
    let seed = env::var(VARIABLE).ok()?;
    Some(seed.parse().expect("PROBELINE_SEED is a number"))
}

/// Returns the seeds to try: 0 to `count`, or the one to replay.
#[must_use]
pub fn seeds(count: u64) -> Vec<u64> {
    replayed_seed().map_or_else(|| (0..count).collect(), |seed| vec![seed])
}

/// Returns the same seed on all ranks, the one to replay or a random one, which rank 0 prints.
///
/// # Panics
/// If the exchange fails.
pub fn seed_of_job(job: &mut Job) -> u64 {
    let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |now| now.as_micros());
    #[allow(clippy::cast_possible_truncation)]
    let seed = gather(job, replayed_seed().unwrap_or(now as u64))[0];
    if job.me() == Owner(0) {
        println!("{VARIABLE}={seed}");
    }
    seed
}

/// Gathers a number of each rank, by rank.
///
/// # Panics
/// If the exchange fails.
pub fn gather(exchange: &mut (impl Exchange + ?Sized), mine: u64) -> Vec<u64> {
    let mut all = vec![0; 8 * exchange.owners() as usize];
    exchange.all_gather(&mine.to_ne_bytes(), &mut all).unwrap();
    all.as_chunks().0.iter().map(|bytes| u64::from_ne_bytes(*bytes)).collect()
}

/// Prints the seed and the test that it replays if the test fails.
pub struct Replay(pub u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if thread::panicking() {
            let thread = thread::current();
            eprintln!("replay {}: {VARIABLE}={}", thread.name().unwrap_or_default(), self.0);
        }
    }
}
