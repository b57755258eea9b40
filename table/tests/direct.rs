//! The direct path over memory that the CPU reaches: it claims buckets itself if and only if the
//! transport's atomics are atomic with the CPU's.

mod common;

use common::declared::{Declared, Posts};
use common::job::{Sizes, on_shm};
use common::means::probed;
use common::{CachedTable, cache, key, storage};
use probeline_sim::Rng;
use probeline_table::{
    Config, Finished, FirstClaim, Intent, OperationError, Outcome, Probing, Stats, Table, Tag,
};
use probeline_transport::{AtomicScope, Exchange, Transport};

/// Too small for the data, and with a reach that ends in it.
const CONFIG: Config =
    Config { chunk_buckets: 8, max_chunks: 6, first_claim: FirstClaim::On, ..Config::new(256) };
const KEYS: u64 = 600;
const OWNERS: u32 = 2;

/// Puts all data, in every form of call, in an order of this owner's own.
fn put_all<T: Transport>(table: &mut CachedTable<T>, seed: u64) {
    let mut rng = Rng::new(seed, 500);
    let mut ends = [Ok(Outcome::Absent); 40];
    for _ in 0..KEYS / 10 {
        let data: [u64; 40] = core::array::from_fn(|_| key(rng.below(KEYS)));
        table.find_or_put_batch(&data, &mut ends).unwrap();
        assert!(ends.iter().all(Result::is_ok), "{ends:?}");
        table.find_or_put(key(rng.below(KEYS))).unwrap();
        table.find(key(rng.below(KEYS))).unwrap();
        let mut submit = |tag| table.submit(Tag(tag), key(rng.below(KEYS)), Intent::FindOrPut);
        // READs ahead may still be to land, so that there is less storage.
        let mut running = (0..4).filter(|&tag| submit(tag).is_ok()).count();
        while running > 0 {
            let mut out = [Finished::default(); 4];
            let ended = table.poll_into(&mut out).unwrap();
            assert!(ended.iter().all(|end| end.result.is_ok()));
            running -= ended.len();
        }
    }
}

/// What each of the owners posted and counted, and the data that are in the table.
fn run(scope: AtomicScope, config: Config, cache_entries: usize) -> (Vec<(Posts, Stats)>, u64) {
    let sizes = Sizes::of(OWNERS, &config);
    let owners = on_shm(sizes, |engine, mut exchange| {
        let engine = Declared::new(engine, |caps| caps.atomics = scope);
        let table = Table::open(engine, config, storage(4), &mut exchange).unwrap();
        let mut table = table.with_cache(cache(cache_entries));
        let before = table.transport().posts;
        put_all(&mut table, exchange.me().0.into());
        let after = table.transport().posts;
        let posts = Posts {
            reads: after.reads - before.reads,
            compare_and_swaps: after.compare_and_swaps - before.compare_and_swaps,
            fetch_adds: after.fetch_adds - before.fetch_adds,
        };
        (posts, *table.stats(), table.len(&mut exchange).unwrap())
    });
    let len = owners[0].2;
    (owners.into_iter().map(|(posts, stats, _)| (posts, stats)).collect(), len)
}

fn each(check: impl Fn(Config, usize)) {
    for probing in [Probing::Linear, Probing::Lines, Probing::Jump] {
        for cache_entries in [0, 64] {
            check(probed(CONFIG, probing), cache_entries);
        }
    }
}

/// The CPU's compare-and-swap would not be atomic with the device's: each insert goes through the
/// device, whatever the CPU reaches.
#[test]
fn claims_go_through_a_device_whose_atomics_are_its_own() {
    each(|config, cache_entries| {
        let (owners, len) = run(AtomicScope::Device, config, cache_entries);
        let mut inserted = 0;
        for (posts, stats) in owners {
            let total = stats.total();
            assert_eq!(posts.compare_and_swaps, stats.inserted.operations + total.claims_lost);
            // Only a find may not rely on what the CPU loads.
            let finds = stats.absent.outgoing_roundtrips + stats.found.outgoing_roundtrips;
            assert_eq!(total.outgoing_roundtrips, finds);
            assert!(posts.reads >= finds && posts.fetch_adds == 0, "{posts:?} {stats:?}");
            assert!(stats.inserted.lines >= stats.inserted.operations, "{stats:?}");
            inserted += stats.inserted.operations;
        }
        assert!(inserted > 400);
        assert_eq!(inserted, len);
    });
}

#[test]
fn claims_are_the_cpus_where_the_scope_says_so() {
    each(|config, cache_entries| {
        let (owners, len) = run(AtomicScope::Cpu, config, cache_entries);
        for (posts, stats) in &owners {
            assert_eq!(*posts, Posts::default());
            let total = stats.total();
            assert_eq!((total.claims, total.first_claims), (0, 0));
            assert!(total.lines >= total.operations - total.cache_hits);
            assert_eq!(total.cache_hits > 0, cache_entries > 0);
        }
        let inserted: u64 = owners.iter().map(|(_, stats)| stats.inserted.operations).sum();
        assert_eq!(inserted, len);
    });
}

/// Switched off, nothing is loaded or claimed by the CPU, whatever it reaches.
#[test]
fn without_it_everything_is_posted() {
    each(|config, cache_entries| {
        let config = Config { direct: false, ..config };
        let (owners, len) = run(AtomicScope::Cpu, config, cache_entries);
        for (posts, stats) in &owners {
            let total = stats.total();
            assert_eq!(posts.compare_and_swaps, total.claims + total.first_claims);
            assert!(posts.reads >= total.outgoing_roundtrips);
            assert!(total.first_claims_decided > 0 && total.lines == 0);
        }
        let inserted: u64 = owners.iter().map(|(_, stats)| stats.inserted.operations).sum();
        assert_eq!(inserted, len);
    });
}

/// Nothing of a batch is touched where its lengths differ, nor what no bucket holds.
#[test]
fn a_batch_is_all_there_or_refused() {
    on_shm(Sizes::of(1, &CONFIG), |engine, mut exchange| {
        let mut table = Table::open(engine, CONFIG, storage(4), &mut exchange).unwrap();
        let mut ends = [Ok(Outcome::Full); 2];
        let refused = table.find_or_put_batch(&[1, 2, 3], &mut ends).unwrap_err().to_string();
        assert!(refused.contains('3') && refused.contains('2'), "{refused}");
        assert_eq!((ends, table.local().count()), ([Ok(Outcome::Full); 2], 0));
        table.find_or_put_batch(&[], &mut []).unwrap();
        table.find_or_put_batch(&[u64::MAX, 7], &mut ends).unwrap();
        assert!(matches!(ends, [Err(OperationError::Refused(_)), Ok(Outcome::Inserted)]));
        assert_eq!(table.local().collect::<Vec<_>>(), [7]);
    });
}
