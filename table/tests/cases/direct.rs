//! Tests of the direct path over memory that the CPU can address: the CPU claims buckets itself if
//! and only if the transport's atomics are atomic with the CPU's.

use probeline_exchange::testing::{Posts, Watched};
use probeline_sim::Rng;
use probeline_table::{
    BatchError, Config, Finished, Intent, OneRoundtrip, OperationError, Outcome, Probing, Stats,
    Table, Tag,
};
use probeline_transport::{AtomicScope, Exchange, Transport};

use crate::common::extensions::probed;
use crate::common::job::{on_shm, sizes};
use crate::common::{CachedTable, cache, key, storage};

/// A table that is too small for the keys, with a probe limit smaller than the table.
const CONFIG: Config =
    Config { chunk_buckets: 8, max_chunks: 6, one_roundtrip: OneRoundtrip::On, ..Config::new(256) };
const KEYS: u64 = 600;
const OWNERS: u32 = 2;

/// Inserts all keys with every form of call, in a random order for each owner.
fn put_all<T: Transport>(table: &mut CachedTable<T>, seed: u64) {
    let mut rng = Rng::new(seed, 500);
    let mut results = [Ok(Outcome::Full); 40];
    for _ in 0..KEYS / 10 {
        let keys: [u64; 40] = core::array::from_fn(|_| key(rng.below(KEYS)));
        table.find_or_put_batch(&keys, &mut results).unwrap();
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        table.find_or_put(key(rng.below(KEYS))).unwrap();
        table.find(key(rng.below(KEYS))).unwrap();
        let mut submit = |tag| table.submit(Tag(tag), key(rng.below(KEYS)), Intent::FindOrPut);
        // READs ahead may still be in flight and hold storage.
        let mut running = (0..4).filter(|&tag| submit(tag).is_ok()).count();
        while running > 0 {
            let mut out = [Finished::default(); 4];
            let ended = table.poll_into(&mut out).unwrap();
            assert!(ended.iter().all(|end| end.result.is_ok()));
            running -= ended.len();
        }
    }
}

/// Returns the posts and counters of each owner, and the number of keys in the table.
fn run(scope: AtomicScope, config: Config, cache_entries: usize) -> (Vec<(Posts, Stats)>, u64) {
    let owners = on_shm(OWNERS, sizes(&config), |engine, mut exchange| {
        let engine = Watched::declaring(engine, |caps| caps.atomics = scope);
        let table = Table::open(engine, config, storage(4), &mut exchange).unwrap();
        let mut table = table.with_cache(cache(cache_entries));
        let before = table.transport().posts;
        put_all(&mut table, exchange.me().0.into());
        let posts = table.transport().posts.since(&before);
        (posts, *table.stats(), table.len(&mut exchange).unwrap())
    });
    let len = owners[0].2;
    (owners.into_iter().map(|(posts, stats, _)| (posts, stats)).collect(), len)
}

/// If the CPU's compare-and-swap is not atomic with the device's, each insert goes through the device,
/// even to words that the CPU can address; otherwise the CPU claims buckets itself. With `direct` off it
/// loads and claims none.
#[test]
fn claims_by_cpu_if_allowed() {
    for probing in [Probing::Linear, Probing::Lines, Probing::DoubleHash] {
        for cache_entries in [0, 64] {
            let config = probed(CONFIG, probing);
            check(AtomicScope::Device, config, cache_entries);
            check(AtomicScope::Cpu, config, cache_entries);
            check(AtomicScope::Cpu, Config { direct: false, ..config }, cache_entries);
        }
    }
}

fn check(scope: AtomicScope, config: Config, cache_entries: usize) {
    let (owners, len) = run(scope, config, cache_entries);
    for (posts, stats) in &owners {
        let (total, inserted) = (stats.total(), stats.inserted);
        if !config.direct {
            assert_eq!(posts.compare_and_swaps, total.claims + total.one_roundtrip_claims);
            assert!(posts.reads >= total.outgoing_roundtrips);
            assert!(total.one_roundtrip_claims_decided > 0 && total.lines == 0);
        } else if scope == AtomicScope::Cpu {
            assert_eq!(*posts, Posts::default());
            assert_eq!((total.claims, total.one_roundtrip_claims), (0, 0));
            assert!(total.lines >= total.operations);
            // A look at a line costs no more than one at the cache.
            assert_eq!(total.cache_hits, 0, "of {cache_entries} entries");
        } else {
            assert_eq!(posts.compare_and_swaps, inserted.operations + total.claims_lost);
            // Only finds may not rely on CPU loads.
            let finds = stats.absent.outgoing_roundtrips + stats.found.outgoing_roundtrips;
            assert_eq!(total.outgoing_roundtrips, finds);
            assert!(posts.reads >= finds && posts.fetch_adds == 0, "{posts:?} {stats:?}");
            assert!(inserted.lines >= inserted.operations, "{stats:?}");
        }
    }
    let inserted: u64 = owners.iter().map(|(_, stats)| stats.inserted.operations).sum();
    assert!(inserted > 400);
    assert_eq!(inserted, len);
}

/// A batch with different lengths changes nothing, and neither does a key beyond 63 bits. Outcomes have
/// no place for errors: the batch then returns the error of the first key that failed, and runs the
/// others.
#[test]
fn batch_names_first_failed_key() {
    for direct in [false, true] {
        let config = Config { direct, ..CONFIG };
        on_shm(1, sizes(&config), |engine, mut exchange| {
            let mut table = Table::open(engine, config, storage(4), &mut exchange).unwrap();
            let mut results = [Ok(Outcome::Full); 2];
            let lengths = table.find_or_put_batch(&[1, 2, 3], &mut results).unwrap_err();
            assert!(matches!(lengths, BatchError::Lengths { keys: 3, found: 2, .. }), "{lengths}");
            assert_eq!((results, table.local().count()), ([Ok(Outcome::Full); 2], 0));
            table.find_or_put_batch(&[], &mut results[..0]).unwrap();
            let refused = OperationError::Key { bits: 64, max: 63 };
            table.find_or_put_batch(&[u64::MAX, 7], &mut results).unwrap();
            assert_eq!(results, [Err(refused), Ok(Outcome::Inserted)]);
            assert_eq!(table.local().collect::<Vec<_>>(), [7]);
            let mut outcomes = [Outcome::Full; 5];
            let keys = [1, u64::MAX, 7, u64::MAX - 1, 9];
            let error = table.find_or_put_batch(&keys, &mut outcomes).unwrap_err();
            assert_eq!(error, BatchError::Failed { place: 1, error: refused });
            let (inserted, untouched) = (Outcome::Inserted, Outcome::Full);
            assert_eq!(outcomes, [inserted, untouched, Outcome::Found, untouched, inserted]);
        });
    }
}
