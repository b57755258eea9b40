//! Find-or-put of wide keys over shared memory: the states of a model of more than 63 bits.
//!
//! `cargo run --release -p probeline-table --example wide` inserts keys of 2, 4 and 16 words in
//! batches into a table of 1 GiB, at load factors up to 0.5, finds them again, and prints
//! nanoseconds an operation: by the CPU, and by READs and atomics with 32 in flight.

use core::error::Error;
use std::time::Instant;

use probeline_shm::Builder;
use probeline_table::{Config, Outcome, WideConfig, WideOperation, WideTable};
use probeline_transport::Alone;

/// Operations in flight.
const WIDTH: u32 = 32;
const BYTES: u64 = 1 << 30;
const BATCH: usize = 4_096;

/// Spreads the numbers over the words as a packed state might.
fn key<const W: usize>(number: u64) -> [u64; W] {
    core::array::from_fn(|at| {
        if at == 0 { number.wrapping_mul(0x9e37_79b9_7f4a_7c15) } else { number >> at }
    })
}

fn run<const W: usize>(direct: bool, most_keys: u64) -> Result<(), Box<dyn Error>> {
    // A bucket and an entry for each of them.
    let buckets = BYTES / 8 / (1 + W as u64);
    let config = WideConfig::<W>::new(buckets.next_power_of_two() / 2);
    let buckets = Config { direct, ..config.buckets };
    let config = WideConfig { buckets, ..config };
    let engine = Builder::new(config.sizes(WIDTH)).open(&mut Alone)?;
    let storage = vec![WideOperation::EMPTY; WIDTH as usize];
    let mut table = WideTable::open(engine, config, storage, &mut Alone)?;

    let count = (buckets.buckets_per_owner / 2).min(most_keys) / BATCH as u64 * BATCH as u64;
    let mut outcomes = [Outcome::Full; BATCH];
    let mut found = [false; BATCH];
    let mut ns = [0.0; 2];
    for (ns, expected) in ns.iter_mut().zip(["inserted", "found"]) {
        let mut elapsed = 0;
        for nth in 0..count / BATCH as u64 {
            let first = nth * BATCH as u64;
            let keys: Vec<[u64; W]> = (first..first + BATCH as u64).map(key).collect();
            let begin = Instant::now();
            if expected == "inserted" {
                table.find_or_put_batch(&keys, &mut outcomes)?;
            } else {
                table.find_batch(&keys, &mut found)?;
            }
            elapsed += begin.elapsed().as_nanos();
            let inserted = outcomes.iter().all(|outcome| *outcome == Outcome::Inserted);
            if !inserted || (expected == "found" && found.contains(&false)) {
                return Err(format!("keys from {first} on: not all are {expected}").into());
            }
        }
        #[allow(clippy::cast_precision_loss)]
        {
            *ns = elapsed as f64 / count as f64;
        }
    }
    let [insert, find] = ns;
    let how = if direct { "by the CPU" } else { "posted" };
    let entries = table.entry_stats();
    println!(
        "{W:2} words, {how:10}: insert {insert:5.0} ns, find {find:5.0} ns ({count} keys, {} of {} \
         entries read had another key)",
        entries.false_entry_reads, entries.entry_reads
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    run::<2>(true, u64::MAX)?;
    run::<4>(true, u64::MAX)?;
    run::<16>(true, u64::MAX)?;
    run::<4>(false, 1 << 20)
}
