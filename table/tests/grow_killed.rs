//! A rank is killed while all ranks move their keys into a larger table. The others get an error
//! soon, and the table that the keys come from holds every key.
//!
//! A kernel timer kills the rank with SIGKILL at a random time. The windows of a dead rank stay in
//! memory as long as others map them, so that the survivors see its part too.

mod common;

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;
use core::time::Duration;
use std::collections::BTreeSet;
use std::thread;
use std::time::Instant;

use common::kinds::{self, NarrowKeys, Numbered, Numbers, TreeKeys, WideKeys, wide_keys_in};
use probeline_exchange::Job;
use probeline_exchange::testing::{Plan, kill_after, seed_of_job, succeed_without};
use probeline_shm::{Builder, Engine};
use probeline_sim::Rng;
use probeline_table::{Bucket, CollectiveError, Config};
use probeline_transport::{Exchange, Owner, RemoteWord, Segment, Transport};

const NARROW: &str = "growth_of_a_killed_rank_leaves_the_table_whole";
const WIDE: &str = "growth_of_a_killed_rank_leaves_the_wide_table_whole";
const TREE: &str = "growth_of_a_killed_rank_leaves_the_tree_table_whole";

const RANKS: u32 = 3;
const VICTIM: Owner = Owner(1);
const ROUNDS: u32 = 12;
const OPERATIONS: u32 = 8;
const WORDS: usize = 3;
const BUCKETS: u64 = 1 << 15;
/// The numbers whose keys the table holds.
const KEYS: u64 = 1 << 16;
/// Longest time from the kill to the error of the survivors.
const BOUND: Duration = Duration::from_secs(20);

fn main() {
    probeline_exchange::testing::run(&[
        (NARROW, Plan::Run(|| rounds::<NarrowKeys>(NARROW, 1, narrow))),
        (WIDE, Plan::Run(|| rounds::<WideKeys<WORDS>>(WIDE, 1, wide))),
        (TREE, Plan::Run(|| rounds::<TreeKeys<2>>(TREE, 4, tree))),
    ]);
}

/// Returns the numbers of the keys in the windows of all ranks.
type Content<K> = fn(&Numbered<Engine, K>) -> BTreeSet<u64>;

/// Grows in several jobs, in each of which the victim dies at another time. Each rank but the first
/// takes part in one job. The table has this many times `BUCKETS` buckets.
fn rounds<K: Numbers>(test: &str, times: u64, content: Content<K>) {
    let mut errors = 0;
    for _ in 0..ROUNDS {
        let mut job = probeline_exchange::testing::start(test, RANKS);
        errors += u32::from(grow::<K>(&mut job, times * BUCKETS, content));
        succeed_without(job, VICTIM);
    }
    println!("{errors} of {ROUNDS} growths ended in an error");
    assert!(errors > 0, "no rank was killed during a growth");
}

/// Lets all ranks grow at once, and kills the victim meanwhile. Returns whether the growth failed.
fn grow<K: Numbers>(job: &mut Job, buckets: u64, content: Content<K>) -> bool {
    let mut rng = Rng::new(seed_of_job(job), 0);
    let open = |job: &mut Job, buckets| {
        let config = K::config(Config { direct: false, ..Config::new(buckets) }, buckets);
        let engine = Builder::new(K::sizes(&config, OPERATIONS)).open(job).unwrap();
        kinds::open::<_, K>(engine, config, OPERATIONS, job)
    };
    let (mut table, mut target) = (open(job, buckets), open(job, 4 * buckets));
    for number in (u64::from(job.me().0)..KEYS).step_by(RANKS as usize) {
        kinds::put(&mut table, number).unwrap();
    }
    job.barrier().unwrap();
    if job.me() == VICTIM {
        let most_ns = 10_000 << rng.below(12);
        kill_after(10_000 + rng.below(most_ns));
    }
    let begin = Instant::now();
    let result = table.grow_into(&mut target, job);
    while job.me() == VICTIM {
        thread::park();
    }
    assert!(begin.elapsed() < BOUND, "{result:?} after {:?}", begin.elapsed());
    let all: BTreeSet<u64> = (0..KEYS).collect();
    assert_eq!(content(&table), all, "{result:?}");
    match result {
        Ok(keys) => assert_eq!((keys, content(&target)), (KEYS, all)),
        Err(CollectiveError::Exchange(_) | CollectiveError::Operation(_)) => {}
        Err(CollectiveError::PartFailed { .. }) => {}
        Err(error) => panic!("{error}"),
    }
    result.is_err()
}

fn narrow(table: &Numbered<Engine, NarrowKeys>) -> BTreeSet<u64> {
    let config = *table.config();
    let keys = parts(table).filter_map(Bucket::from_word).map(Bucket::key);
    keys.map(|key| NarrowKeys::number(&config, &key)).collect()
}

/// Returns the keys in memory, if as many buckets refer to them.
fn wide(table: &Numbered<Engine, WideKeys<WORDS>>) -> BTreeSet<u64> {
    let windows = windows(table.transport(), table.config().words());
    let keys: BTreeSet<u64> =
        windows.flat_map(|window| wide_keys_in::<WORDS>(window, KEYS)).collect();
    let occupied = parts(table).filter(|word| *word != 0).count();
    assert!(occupied <= keys.len(), "{occupied} buckets, {} keys", keys.len());
    if occupied < keys.len() { BTreeSet::new() } else { keys }
}

/// Keys of 86 bits have three slots: the root refers to the node of the first two, and holds the third.
fn tree(table: &Numbered<Engine, TreeKeys<2>>) -> BTreeSet<u64> {
    const SLOT: u32 = 29;
    let config = *table.config();
    let pair = |word: u64| Bucket::from_word(word).map_or(0, Bucket::key);
    let pairs: Vec<u64> = parts(table).map(pair).collect();
    let children = |pair: u64| [pair >> 31 & 0x7fff_ffff, pair & 0x7fff_ffff];
    let roots = pairs.iter().filter(|pair| *pair >> 62 == 1);
    let number = |root: &u64| {
        let [node, third] = children(*root);
        let [first, second] = children(pairs[usize::try_from(node).unwrap()]).map(u128::from);
        let key = first | second << SLOT | u128::from(third) << (2 * SLOT);
        #[allow(clippy::cast_possible_truncation)]
        TreeKeys::<2>::number(&config, &[key as u64, (key >> 64) as u64])
    };
    roots.map(number).collect()
}

/// Returns the windows of all ranks, also of dead ones.
fn windows(engine: &Engine, words: u64) -> impl Iterator<Item = &[AtomicU64]> {
    let words = u32::try_from(words).unwrap();
    (0..RANKS).map(move |owner| {
        let start = RemoteWord { owner: Owner(owner), index: 0 };
        engine.direct(Segment { start, words }).unwrap()
    })
}

/// Returns the words of the buckets of all ranks.
fn parts<K: Numbers>(table: &Numbered<Engine, K>) -> impl Iterator<Item = u64> {
    let (first, count) = (table.layout().first_word(), table.layout().buckets_per_owner());
    let skipped = usize::try_from(first).unwrap();
    let parts = windows(table.transport(), first + count).flat_map(move |part| &part[skipped..]);
    parts.map(|word| word.load(Acquire))
}
