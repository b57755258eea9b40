//! The positions that operations report: the bucket there holds the key.

use core::sync::atomic::Ordering::Acquire;

use probeline_sim::{Cluster, DirectAccess, Model};
use probeline_table::{Bucket, Config, OneRoundtrip, Outcome, Position, Probing, Table};
use probeline_transport::{Owner, Transport};
use proptest::prelude::*;

use crate::common::{CachedTable, cache, storage};

const OPERATIONS: u32 = 4;

/// Returns the word of the bucket at a position.
fn word_at<T: Transport>(tables: &[CachedTable<T>], at: Position) -> u64 {
    let table = &tables[at.owner as usize];
    let word = usize::try_from(table.layout().first_word() + at.index).unwrap();
    table.transport().window()[word].load(Acquire)
}

/// Puts and finds keys by the first table, among keys of the others.
fn check<T: Transport>(tables: &mut [CachedTable<T>], keys: &[u64]) -> Result<(), TestCaseError> {
    for (nth, &key) in keys.iter().enumerate() {
        let other = nth % tables.len();
        tables[other].find_or_put(key).unwrap();
        for (key, puts) in [(key, false), (key / 2, true), (key / 2, false), (key ^ 1, false)] {
            let first = &mut tables[0];
            let (at, has_bucket) = if puts {
                let located = first.find_or_put_at(key).unwrap();
                (located.at, located.outcome != Outcome::Full)
            } else {
                (first.find_at(key).unwrap(), first.find(key).unwrap())
            };
            let expected = has_bucket.then(|| Bucket::new(key).unwrap().word());
            prop_assert_eq!(at.map(|at| word_at(tables, at)), expected, "{:?}", at);
            prop_assert_eq!(tables[0].find(key).unwrap(), has_bucket);
        }
    }
    Ok(())
}

proptest! {
    /// The CPU reaches all parts, the own part, or none.
    #[test]
    fn reports_positions_of_keys(
        keys in prop::collection::vec(0_u64..200, 1..60),
        owners in 1_u32..4,
        probing in 0_usize..3,
        access in 0_usize..3,
        one_roundtrip: bool,
        cached: bool,
        seed: u64,
    ) {
        let config = Config {
            probing: [Probing::Linear, Probing::Lines, Probing::DoubleHash][probing],
            chunk_buckets: 8,
            one_roundtrip: if one_roundtrip { OneRoundtrip::On } else { OneRoundtrip::Off },
            ..Config::new(48)
        };
        let cluster = Cluster::new(probeline_sim::Config {
            direct_access: [DirectAccess::None, DirectAccess::Own, DirectAccess::All][access],
            word_reads_whole: false,
            seed,
            model: Model { idle_poll_ns: 100, ..Model::simple(2_000) },
            ..probeline_sim::Config::new(owners, config.sizes(OPERATIONS))
        })
        .unwrap();
        let open = |owner| {
            let engine = cluster.engine(Owner(owner)).unwrap();
            let table = Table::new(engine, config, storage(OPERATIONS)).unwrap();
            table.with_cache(cache(if cached { 16 } else { 0 }))
        };
        check(&mut (0..owners).map(open).collect::<Vec<_>>(), &keys)?;
    }
}
