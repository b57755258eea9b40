//! The map over shared memory: keys of 80 bytes and values of 104, as of a chemistry simulation.
//!
//! `cargo run --release -p probeline-map --example map` fills a map of 1 GiB in batches to a load
//! factor of 0.5, reads all keys again, overwrites them, and prints nanoseconds an operation: by the
//! CPU, and by READs, WRITEs and atomics with 32 in flight. Beside them the limit: the time to load
//! three neighbouring lines at random places, requested ahead.

// Indices of a few words, and of memory that is mapped.
#![allow(clippy::cast_possible_truncation)]

use core::error::Error;
use core::hint::black_box;
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;
use std::time::Instant;

use probeline_map::{Config, Map, Operation, Written};
use probeline_shm::{Builder, Engine};
use probeline_transport::{Alone, Owner, RemoteWord, Segment, Transport, prefetch_far};

type Key = [u64; 10];
type Value = [u64; 13];

/// Operations in flight.
const WIDTH: u32 = 32;
const BYTES: u64 = 1 << 30;
const BATCH: usize = 4_096;
/// Words of a bucket: three lines.
const BUCKET: usize = 24;

fn key(number: u64) -> Key {
    core::array::from_fn(|at| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(7 * at as u32))
}

fn value(number: u64) -> Value {
    core::array::from_fn(|at| number + at as u64)
}

/// Calls `call` with batches of keys and values; returns nanoseconds for each key. `call` measures
/// what counts.
fn timed(
    count: u64,
    mut call: impl FnMut(&[Key], &[Value], &mut Duration) -> Result<(), Box<dyn Error>>,
) -> Result<f64, Box<dyn Error>> {
    let mut elapsed = Duration::ZERO;
    let (mut keys, mut values) = (vec![[0; 10]; BATCH], vec![[0; 13]; BATCH]);
    for first in (0..count).step_by(BATCH) {
        for (number, (key_of, value_of)) in (first..).zip(keys.iter_mut().zip(&mut values)) {
            (*key_of, *value_of) = (key(number), value(number));
        }
        call(&keys, &values, &mut elapsed)?;
    }
    #[allow(clippy::cast_precision_loss)]
    let ns = elapsed.as_nanos() as f64 / count as f64;
    Ok(ns)
}

/// Loads the words of buckets at random places, 16 requested ahead. Returns nanoseconds for each.
fn limit(engine: &Engine, count: u64) -> f64 {
    const AHEAD: usize = 16;
    let start = RemoteWord { owner: Owner(0), index: 0 };
    let words = engine.geometry().window_words as u32;
    let window = engine.direct(Segment { start, words }).unwrap_or_default();
    let buckets = (window.len() / BUCKET) as u64;
    let mut places = [0; AHEAD];
    let (mut random, mut sum) = (1_u64, 0_u64);
    let begin = Instant::now();
    for step in 0..count as usize {
        let at = places[step % AHEAD];
        let words = &window[at..at + BUCKET];
        sum = words.iter().fold(sum, |sum, word| sum ^ word.load(Relaxed));
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let next = ((u128::from(random) * u128::from(buckets)) >> 64) as usize * BUCKET;
        places[step % AHEAD] = next;
        window[next..next + BUCKET].chunks(8).for_each(prefetch_far);
    }
    black_box(sum);
    #[allow(clippy::cast_precision_loss)]
    let ns = begin.elapsed().as_nanos() as f64 / count as f64;
    ns
}

fn run(direct: bool, most: u64) -> Result<(), Box<dyn Error>> {
    let buckets = BYTES / 8 / BUCKET as u64;
    let config = Config { direct, ..Config::new(buckets) };
    let engine = Builder::new(config.sizes::<Key, Value>(WIDTH)).open(&mut Alone)?;
    let storage = vec![Operation::EMPTY; WIDTH as usize];
    let mut map = Map::open(engine, config, storage, &mut Alone)?;
    let count = (buckets / 2).min(most) / BATCH as u64 * BATCH as u64;
    let mut written = vec![Written::Dropped; BATCH];
    let mut put = |map: &mut Map<_, _, _, _>, over: bool| {
        timed(count, |keys, values, elapsed| {
            let begin = Instant::now();
            if over {
                map.put_batch(keys, values, &mut written)?;
            } else {
                map.put_if_absent_batch(keys, values, &mut written)?;
            }
            *elapsed += begin.elapsed();
            Ok(())
        })
    };
    let insert = put(&mut map, true)?;
    let mut found = vec![None; BATCH];
    let get = timed(count, |keys, values, elapsed| {
        let begin = Instant::now();
        map.get_batch(keys, &mut found)?;
        *elapsed += begin.elapsed();
        let right = found.iter().zip(values).filter(|(found, value)| **found == Some(**value));
        // Some keys were evicted.
        if right.count() * 100 < BATCH * 98 { Err("keys are missing".into()) } else { Ok(()) }
    })?;
    let one = timed(count, |keys, _, elapsed| {
        let begin = Instant::now();
        for key in keys {
            black_box(map.get(key)?);
        }
        *elapsed += begin.elapsed();
        Ok(())
    })?;
    let again = put(&mut map, true)?;
    let present = put(&mut map, false)?;
    let limit = limit(map.transport(), count);
    let how = if direct { "by the CPU" } else { "posted" };
    println!(
        "{how}, {count} keys: insert {insert:.0} ns, get {get:.0} ns, get one at a time {one:.0} ns, \
         update {again:.0} ns, put if absent {present:.0} ns; random loads of three lines {limit:.0} \
         ns; {:?}",
        map.stats()
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    run(true, u64::MAX)?;
    run(false, 1 << 19)
}
