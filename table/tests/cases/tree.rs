//! Keys as trees of pairs: the nodes that they share, their limits, and how full a table gets.

use probeline_shm::Builder;
use probeline_table::{
    CollectiveError, Config, ConfigError, Intent, OperationError, Outcome, PairCacheLine, Tag,
    TreeConfig, TreeOperation, TreeTable,
};
use probeline_transport::Alone;

const OPERATIONS: u32 = 4;

fn storage<const W: usize>() -> Vec<TreeOperation<W>> {
    vec![TreeOperation::EMPTY; OPERATIONS as usize]
}

/// 4,096 keys of 124 bits, of which each half has 64 values: 64 nodes for each half.
#[test]
fn shares_nodes_of_keys() {
    let config = TreeConfig::new(8_192, 124);
    for direct in [true, false] {
        let buckets = Config { direct, ..config.buckets };
        let config = TreeConfig { buckets, ..config };
        let engine = Builder::new(config.sizes(OPERATIONS)).open(&mut Alone).unwrap();
        let table = TreeTable::open(engine, config, storage::<2>(), &mut Alone).unwrap();
        let mut table = table.with_cache(vec![PairCacheLine::EMPTY; 256]);
        for number in 0..4_096_u64 {
            let half = |number: u64| u128::from(number % 64) << 31 | 3;
            let key = half(number) | half(number / 64) << 62 | 1 << 20;
            #[allow(clippy::cast_possible_truncation)]
            let key = [key as u64, (key >> 64) as u64];
            assert_eq!(table.find_or_put(&key), Ok(Outcome::Inserted));
        }
        let stats = *table.tree_stats();
        assert_eq!(stats.keys_inserted, 4_096);
        assert_eq!((stats.inner_nodes, stats.inner_inserted), (2 * 4_096, 128));
        assert_eq!(stats.cache_hits, 2 * 4_096 - 128);
        assert!((stats.bytes_per_key() - 8.25).abs() < 1e-9, "{stats:?}");
        assert_eq!(table.len(&mut Alone), Ok(4_096));
        assert_eq!(table.occupied(&mut Alone), Ok(4_224));
        table.clear(&mut Alone).unwrap();
        assert_eq!(table.occupied(&mut Alone), Ok(0));
        assert_eq!(table.find(&[3, 0]), Ok(false));
    }
}

#[test]
fn refuses_bad_parameters() {
    let new = TreeConfig::new(64, 100);
    let open = |config: TreeConfig| {
        let engine = Builder::new(new.sizes(OPERATIONS)).open(&mut Alone).unwrap();
        TreeTable::open(engine, config, storage::<2>(), &mut Alone).map(drop)
    };
    assert_eq!(open(new), Ok(()));
    for found in [0, 129] {
        let refused = open(TreeConfig { key_bits: found, ..new }).unwrap_err();
        assert!(refused.to_string().ends_with(&format!(" is {found}: it must be 1 to 128")));
    }
    let refused = open(TreeConfig::new(72, 100)).unwrap_err();
    assert_eq!(
        refused,
        CollectiveError::Config(ConfigError::Room {
            what: "buckets_per_owner",
            found: 72,
            max: 64,
            words: 1
        })
    );

    let engine = Builder::new(new.sizes(OPERATIONS)).open(&mut Alone).unwrap();
    let mut table = TreeTable::open(engine, new, storage::<2>(), &mut Alone).unwrap();
    let (fits, wide) = ([u64::MAX, (1 << 36) - 1], [0, 1 << 36]);
    let refused = OperationError::Key { bits: 101, max: 100 };
    assert_eq!(table.find_or_put(&wide), Err(refused));
    assert_eq!(table.submit(Tag(0), &wide, Intent::Find), Err(refused));
    let mut results = [Ok(Outcome::Full); 3];
    table.find_or_put_batch(&[fits, wide, fits], &mut results).unwrap();
    assert_eq!(results, [Ok(Outcome::Inserted), Err(refused), Ok(Outcome::Found)]);
}
