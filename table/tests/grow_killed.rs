//! A rank is killed while all ranks move their keys into a larger table. The others get an error
//! soon, and the table that the keys come from holds every key.
//!
//! A kernel timer kills the rank with SIGKILL at a random time. The windows of a dead rank stay in
//! memory as long as others map them, so that the survivors see its part too.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;
use core::time::Duration;
use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::thread;
use std::time::{Instant, SystemTime};

use probeline_exchange::Job;
use probeline_shm::{Builder, Engine};
use probeline_sim::Rng;
use probeline_table::{
    Bucket, Config, GrowError, Layout, Operation, Outcome, Table, TreeConfig, TreeOperation,
    TreeTable, WideConfig, WideOperation, WideTable,
};
use probeline_testing::{Plan, kill_after};
use probeline_transport::{Exchange, Owner, RemoteWord, Segment, Transport, all_gather_u64};

const NARROW: &str = "a_rank_killed_in_a_growth_leaves_the_table_whole";
const WIDE: &str = "a_rank_killed_in_a_growth_leaves_the_wide_table_whole";
const TREE: &str = "a_rank_killed_in_a_growth_leaves_the_tree_table_whole";

const RANKS: u32 = 3;
const VICTIM: Owner = Owner(1);
const ROUNDS: u64 = 12;
const OPERATIONS: u32 = 8;
const WORDS: usize = 3;
const BUCKETS: u64 = 1 << 15;
const KEYS: u64 = BUCKETS * RANKS as u64 * 3 / 4;
/// Longest time from the kill to the error of the survivors.
const BOUND: Duration = Duration::from_secs(20);

fn main() {
    probeline_testing::run(&[
        (NARROW, Plan::Run(|| rounds(NARROW, narrow))),
        (WIDE, Plan::Run(|| rounds(WIDE, wide))),
        (TREE, Plan::Run(|| rounds(TREE, tree))),
    ]);
}

/// Grows in several jobs, in each of which the victim dies at another time. Each rank but the first
/// takes part in one job.
fn rounds(test: &str, grow: fn(&mut Job, Rng) -> bool) {
    let seed = seed();
    let mut errors = 0;
    for nth in 0..ROUNDS {
        let mut job = probeline_testing::start(test, RANKS);
        if (nth, job.me()) == (0, Owner(0)) {
            println!("PROBELINE_SEED={seed}");
        }
        let seed = gather(&mut job, seed.wrapping_add(nth))[0];
        errors += u32::from(grow(&mut job, Rng::new(seed, 0)));
        let statuses = probeline_testing::finish(job);
        assert_eq!(statuses[0].signal(), Some(libc::SIGKILL), "{statuses:?}");
        assert!(statuses[1].success(), "{statuses:?}");
    }
    println!("{errors} of {ROUNDS} growths ended in an error");
    assert!(errors > 0, "no rank was killed during a growth");
}

fn seed() -> u64 {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_micros();
    std::env::var("PROBELINE_SEED")
        .map_or(u64::try_from(now).unwrap(), |seed| seed.parse().expect("a number"))
}

fn gather(job: &mut Job, mine: u64) -> [u64; RANKS as usize] {
    let (mut buffer, mut all) = ([[0; 8]; RANKS as usize], [0; RANKS as usize]);
    let gathered = all_gather_u64(job, mine, &mut buffer).unwrap();
    all.iter_mut().zip(gathered).for_each(|(to, value)| *to = value);
    all
}

/// The numbers that a rank inserts.
fn numbers(job: &Job) -> impl Iterator<Item = u64> + use<> {
    (u64::from(job.me().0)..KEYS).step_by(RANKS as usize)
}

fn narrow(job: &mut Job, rng: Rng) -> bool {
    let open = |job: &mut Job, buckets| {
        let config = Config { direct: false, ..Config::new(buckets) };
        let engine = Builder::new(config.sizes(OPERATIONS)).open(job).unwrap();
        Table::open(engine, config, vec![Operation::EMPTY; OPERATIONS as usize], job).unwrap()
    };
    let (mut table, mut target) = (open(job, BUCKETS), open(job, 4 * BUCKETS));
    for number in numbers(job) {
        assert_eq!(table.find_or_put(number), Ok(Outcome::Inserted));
    }
    let result = with_a_kill(job, rng, |job| table.grow_into(&mut target, job));
    let content = |table: &Table<Engine, Vec<Operation>>| -> BTreeSet<u64> {
        let (words, layout) = (table.config().words(), table.layout());
        let parts = windows(table.transport(), words).map(|window| part(window, layout));
        parts.flatten().filter_map(Bucket::from_word).map(Bucket::key).collect()
    };
    check(result, &content(&table), &content(&target))
}

fn wide(job: &mut Job, rng: Rng) -> bool {
    type Wide = WideTable<Engine, Vec<WideOperation<WORDS>>, WORDS>;
    let open = |job: &mut Job, buckets| {
        let mut config = WideConfig::<WORDS>::new(buckets);
        config.buckets.direct = false;
        let engine = Builder::new(config.sizes(OPERATIONS)).open(job).unwrap();
        let storage = vec![WideOperation::EMPTY; OPERATIONS as usize];
        WideTable::open(engine, config, storage, job).unwrap()
    };
    let (mut table, mut target) = (open(job, BUCKETS), open(job, 4 * BUCKETS));
    let key = |number: u64| [number, (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15), !number];
    for number in numbers(job) {
        assert_eq!(table.find_or_put(&key(number)), Ok(Outcome::Inserted));
    }
    let result = with_a_kill(job, rng, |job| table.grow_into(&mut target, job));
    // The keys in memory, and as many buckets that refer to them.
    let content = |table: &Wide| -> BTreeSet<u64> {
        let (words, layout) = (table.config().words(), table.layout());
        let mut occupied = 0;
        let mut keys = BTreeSet::new();
        for window in windows(table.transport(), words) {
            let window: Vec<u64> = window.iter().map(|word| word.load(Acquire)).collect();
            let written =
                window.windows(WORDS).filter(|found| found[0] < KEYS && **found == key(found[0]));
            keys.extend(written.map(|found| found[0]));
        }
        for window in windows(table.transport(), words) {
            occupied += part(window, layout).filter(|word| *word != 0).count();
        }
        assert!(occupied <= keys.len(), "{occupied} buckets, {} keys", keys.len());
        if occupied < keys.len() { BTreeSet::new() } else { keys }
    };
    check(result, &content(&table), &content(&target))
}

/// Keys of four slots of 31 bits, each with an inner node of its own and one that it shares.
fn tree(job: &mut Job, rng: Rng) -> bool {
    type Tree = TreeTable<Engine, Vec<TreeOperation<2>>, 2>;
    let open = |job: &mut Job, buckets| {
        let mut config = TreeConfig::new(buckets, 124);
        config.buckets.direct = false;
        let engine = Builder::new(config.sizes(OPERATIONS)).open(job).unwrap();
        TreeTable::open(engine, config, vec![TreeOperation::EMPTY; OPERATIONS as usize], job)
            .unwrap()
    };
    let (mut table, mut target) = (open(job, 3 * BUCKETS), open(job, 6 * BUCKETS));
    let key = |number: u64| [number | (number % 7) << 31, 5];
    for number in numbers(job) {
        assert_eq!(table.find_or_put(&key(number)), Ok(Outcome::Inserted));
    }
    let result = with_a_kill(job, rng, |job| table.grow_into(&mut target, job));
    // The first slot of each root's key: the left child of a node that the root refers to.
    let content = |table: &Tree| -> BTreeSet<u64> {
        let (words, layout) = (table.config().words(), table.layout());
        let parts = windows(table.transport(), words).map(|window| part(window, layout));
        let pair = |word: u64| Bucket::from_word(word).map_or(0, Bucket::key);
        let pairs: Vec<u64> = parts.flatten().map(pair).collect();
        let children = |pair: u64| [pair >> 31 & 0x7fff_ffff, pair & 0x7fff_ffff];
        let roots = pairs.iter().filter(|pair| *pair >> 62 == 1);
        let decoded = roots.map(|root| {
            let nodes = children(*root).map(|at| children(pairs[usize::try_from(at).unwrap()]));
            let number = nodes[0][0];
            assert_eq!(nodes.as_flattened(), [number, number % 7, 20, 0], "{root:x}");
            number
        });
        decoded.collect()
    };
    check(result, &content(&table), &content(&target))
}

/// Returns the windows of all ranks, also of dead ones.
fn windows(engine: &Engine, words: u64) -> impl Iterator<Item = &[AtomicU64]> {
    let words = u32::try_from(words).unwrap();
    (0..RANKS).map(move |owner| {
        let start = RemoteWord { owner: Owner(owner), index: 0 };
        engine.direct(Segment { start, words }).unwrap()
    })
}

/// Returns the words of the buckets in a window.
fn part<'w>(window: &'w [AtomicU64], layout: &Layout) -> impl Iterator<Item = u64> + use<'w> {
    let first = usize::try_from(layout.first_word()).unwrap();
    let count = usize::try_from(layout.buckets_per_owner()).unwrap();
    window[first..first + count].iter().map(|word| word.load(Acquire))
}

/// Lets all ranks grow at once, and kills the victim meanwhile.
fn with_a_kill(
    job: &mut Job,
    mut rng: Rng,
    grow: impl FnOnce(&mut Job) -> Result<u64, GrowError>,
) -> Result<u64, GrowError> {
    job.barrier().unwrap();
    if job.me() == VICTIM {
        let most_ns = 10_000 << rng.below(12);
        kill_after(10_000 + rng.below(most_ns));
    }
    let begin = Instant::now();
    let result = grow(job);
    while job.me() == VICTIM {
        thread::park();
    }
    assert!(begin.elapsed() < BOUND, "{result:?} after {:?}", begin.elapsed());
    result
}

/// Compares the tables with the result. Returns whether the growth failed.
fn check(result: Result<u64, GrowError>, table: &BTreeSet<u64>, target: &BTreeSet<u64>) -> bool {
    let all: BTreeSet<u64> = (0..KEYS).collect();
    assert_eq!(table.len(), all.len(), "{result:?}");
    assert_eq!(*table, all, "{result:?}");
    match result {
        Ok(keys) => {
            assert_eq!(keys, KEYS);
            assert_eq!(*target, all);
            false
        }
        Err(GrowError::Collective(_)) => true,
        Err(error) => panic!("{error}"),
    }
}
