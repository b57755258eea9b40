//! Filters: measured rates of false positives, and inserts by two ranks.

use probeline_containers::filter::{Config, Filter, Operation};
use probeline_exchange::testing::on_ranks;
use probeline_transport::{Alone, Exchange};

type Opened = Filter<probeline_shm::Engine, Vec<Operation>>;

fn open(config: Config, job: &mut (impl Exchange + ?Sized)) -> Opened {
    on_shm!(Filter::open, config, config.sizes(job.owners(), 16), 16, job).unwrap()
}

fn contains(filter: &mut Opened, keys: impl Iterator<Item = u64>) -> Vec<bool> {
    let keys: Vec<u64> = keys.collect();
    let mut found = vec![false; keys.len()];
    filter.contains_batch(&keys, &mut found).unwrap();
    found
}

#[test]
fn measured_rates_match_computed() {
    const ITEMS: u64 = 100_000;
    for (rate, others) in [(0.1, 200_000), (0.01, 1_000_000), (0.001, 5_000_000)] {
        let config = Config::for_items(ITEMS, rate);
        let mut filter = open(config, &mut Alone);
        let keys: Vec<u64> = (0..ITEMS).collect();
        filter.insert_batch(&keys, &mut vec![false; keys.len()]).unwrap();
        assert!(contains(&mut filter, 0..ITEMS).iter().all(|found| *found));
        let found = contains(&mut filter, ITEMS..ITEMS + others);
        let measured = found.iter().filter(|found| **found).count() as f64 / others as f64;
        let computed = config.rate(ITEMS);
        assert!(computed <= rate * 1.001 && computed > rate * 0.99, "{rate}: {computed}");
        assert!((measured / computed - 1.0).abs() < 0.1, "{rate}: {measured}, not {computed}");
        let bits = config.words as f64 * 64.0 / ITEMS as f64;
        println!("{rate}: {} bits set, {bits:.1} bits a key, measured {measured:.6}", config.bits);
    }
}

/// Of two ranks that insert the same keys, exactly one is the first, whoever runs the inserts.
#[test]
fn one_rank_inserts_first() {
    for direct in [false, true] {
        // So large that no key is a false positive.
        let config = Config { words: 1 << 20, bits: 8, first_word: 5, direct };
        let first = on_ranks(2, |mut job| {
            let mut filter = open(config, &mut job);
            let keys: Vec<u64> = (0..2000).collect();
            let mut found = vec![true; keys.len()];
            filter.insert_batch(&keys, &mut found).unwrap();
            let new = found.iter().filter(|found| !**found).count() as u64;
            assert!(filter.insert(7).unwrap() && !filter.contains(1 << 40).unwrap());
            let set = filter.len(&mut job).unwrap();
            // Nearly 8 bits of 2,000 keys.
            assert!((14_764..16_039).contains(&set), "{set}");
            filter.clear(&mut job).unwrap();
            assert_eq!(filter.len(&mut job).unwrap(), 0);
            job.barrier().unwrap();
            new
        });
        assert_eq!(first.iter().sum::<u64>(), 2000);
    }
}
