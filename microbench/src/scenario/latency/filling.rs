//! Fills the table between measurements by stores of the owners, without operations, so that the
//! time does not depend on the transport.

use core::ops::Range;
use core::sync::atomic::Ordering::{Acquire, Release};

use probeline::table::{Bucket, Config, Layout, Position};
use probeline::transport::{Exchange, Owner};
use probeline_programs::Timed;

use super::{BATCH, FILLING};
use crate::failure::Result;
use crate::keys::nth;
use crate::scenario::too_few_chunks;
use crate::table::{attach, find_or_put_all, outcomes};
use crate::terminal::first_rank;

/// Puts the keys of these numbers into the table. All ranks call it between two phases of
/// operations.
///
/// Each owner stores the keys whose home is in its window in the same bucket as find-or-put: the
/// first empty one of the probe order. Keys whose probe order leaves the window before an empty bucket
/// are inserted by find-or-put.
pub(in crate::scenario) fn fill(
    engine: &mut dyn Timed,
    config: Config,
    seed: u64,
    numbers: Range<u64>,
    exchange: &mut dyn Exchange,
) -> Result<()> {
    exchange.barrier()?;
    let mut table = attach(engine, config, FILLING, 0)?;
    let held = numbers.end;
    let mut left = Vec::new();
    for key in numbers.map(|n| nth(seed, n)) {
        if !store(table.transport(), *table.layout(), &config, Bucket::new(key)?) {
            left.push(key);
        }
    }
    // No rank reads the table before this barrier, and no owner stores after it.
    exchange.barrier()?;
    find_or_put_all(&mut table, &left, &mut outcomes(BATCH))?;
    let full = table.stats().full.operations;
    table.into_transport();
    match first_rank(full > 0, exchange)? {
        Some(_) => Err(too_few_chunks(&config, exchange.owners(), held).everywhere()),
        None => Ok(()),
    }
}

/// Stores a bucket that belongs in this owner's window. Returns whether the bucket is done with.
fn store(engine: &dyn Timed, layout: Layout, config: &Config, bucket: Bucket) -> bool {
    let is_mine = |at: &Position| Owner(at.owner) == engine.geometry().me;
    if !is_mine(&layout.home(bucket)) {
        return true;
    }
    let reach = config.chunk_buckets as usize * config.max_chunks as usize;
    let within = layout.probe_order(bucket).take(reach).take_while(is_mine);
    // A window is memory of this process, so its words fit a usize.
    let word = |at| engine.window().get(usize::try_from(layout.word(at).index).ok()?);
    let Some(empty) = within.filter_map(word).find(|word| word.load(Acquire) == 0) else {
        return false;
    };
    empty.store(bucket.word(), Release);
    true
}

#[cfg(test)]
mod tests {
    use probeline::table::{Outcome, Probing};

    use super::super::FILLING_DEPTH;
    use super::*;
    use crate::table::CachedTable;

    /// find-or-put finds every key that the owners stored. Filling one by one and by owners
    /// occupies the same buckets if these do not depend on the order of inserts.
    #[test]
    fn fills_where_operations_find() {
        for probing in [Probing::Linear, Probing::Lines, Probing::DoubleHash] {
            let config = Config { probing, chunk_buckets: 8, max_chunks: 1024, ..Config::new(512) };
            let shape = probeline::sim::Config {
                owners: 3,
                window_words: config.words(),
                slots: Config::slots(FILLING),
                slot_words: 8,
                depth: FILLING_DEPTH,
                ..probeline::sim::Config::default()
            };
            let cluster = probeline::sim::Cluster::new(shape).unwrap();
            let filled = 3 * 512 * 9 / 10;
            let outputs = probeline::sim::stage::run(&cluster, |mut engine, mut exchange| {
                fill(&mut engine, config, 7, 0..filled / 2, &mut exchange).unwrap();
                fill(&mut engine, config, 7, filled / 2..filled, &mut exchange).unwrap();
                let mut table = attach(&mut engine, config, FILLING, 0).unwrap();
                let held = table.len(&mut exchange).unwrap();
                let found = (0..filled).all(|n| table.find(nth(7, n)).unwrap());
                let by_owners: Vec<bool> = occupied(&table);
                exchange.barrier().unwrap();
                table.clear(&mut exchange).unwrap();
                if exchange.me() == Owner(0) {
                    for n in 0..filled {
                        assert_eq!(table.find_or_put(nth(7, n)), Ok(Outcome::Inserted));
                    }
                }
                exchange.barrier().unwrap();
                (held, found, probing != Probing::Linear || by_owners == occupied(&table))
            });
            assert_eq!(outputs.unwrap(), [(filled, true, true); 3], "{probing:?}");
        }
    }

    fn occupied<T: Timed>(table: &CachedTable<T>) -> Vec<bool> {
        table.transport().window()[8..].iter().map(|word| word.load(Acquire) != 0).collect()
    }
}
