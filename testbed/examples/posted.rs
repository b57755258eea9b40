//! Runs operations by READs and atomics over shared memory, 32 in flight, with everything in cache:
//! `posted find|insert|insert-by-channel COUNT`. `ci/posted-cost` counts their instructions, which are
//! those of the pipeline, of the operation's state machine and of the engine.

use core::error::Error;
use core::ops::Range;

use probeline_shm::Builder;
use probeline_table::{Config, Operation, Outcome, Table};
use probeline_transport::{Alone, Pending, Splitter, Transport};

/// Operations in flight.
const WIDTH: u32 = 32;
/// 1 MiB.
const BUCKETS: u64 = 1 << 17;

type Failure = Box<dyn Error>;

fn keys(numbers: Range<u64>) -> Vec<u64> {
    numbers.map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1).collect()
}

/// Runs `count` operations whose instructions are counted.
fn count(what: &str, count: u64) -> Result<(), Failure> {
    let new = Config::new(BUCKETS);
    let config = Config { chunk_buckets: 8, max_chunks: 512, direct: false, ..new };
    let sizes = config.sizes(WIDTH);
    let mut engine = Builder::new(sizes).open(&mut Alone)?;
    let keys = keys(0..count);
    if what != "insert-by-channel" {
        return run(engine, config, &keys, what == "find");
    }
    let mut storage = vec![Pending::EMPTY; sizes.depth as usize];
    let splitter = Splitter::new(&mut engine, [sizes], &mut storage)?;
    let [channel] = splitter.channels().ok_or("channels were taken before")?;
    run(channel, config, &keys, false)
}

fn run(engine: impl Transport, config: Config, keys: &[u64], finds: bool) -> Result<(), Failure> {
    let mut table =
        Table::open(engine, config, vec![Operation::EMPTY; WIDTH as usize], &mut Alone)?;
    let mut outcomes = vec![Outcome::Full; keys.len()];
    table.find_or_put_batch(keys, &mut outcomes)?;
    if finds {
        table.find_batch(keys, &mut vec![false; keys.len()])?;
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [what, number] => count(what, number.parse()?),
        _ => Err("usage: posted find|insert|insert-by-channel COUNT".into()),
    }
}
