//! The modes: their roundtrips, what a lock that nobody releases does, and many writers of one key.

use core::time::Duration;
use std::time::Instant;

use crate::common::{AnyMap, Key, ROUNDTRIP_NS, Value, key, on_ranks, open, sim, try_open, value};
use probeline_map::{Config, Finished, HeldLock, Mode, OperationError, Request, Tag, Written};
use probeline_sim::Cluster;
use probeline_transport::{Exchange, Owner};

const MODES: [Mode; 4] = [Mode::Claims, Mode::PartLocks, Mode::BucketLocks, Mode::Unlocked];

/// Returns the roundtrips of a miss, an insert, a hit, a put over an older value, a put-if-absent of
/// a present key, and a remove. In a map with room, every key is in its first candidate.
fn roundtrips(config: Config, write_then_atomic: bool) -> [u64; 6] {
    let config = Config { direct: false, ..config };
    let sim = sim::<Key, Value>(&config, 1, 1);
    let cluster = Cluster::new(probeline_sim::Config { write_then_atomic, ..sim }).unwrap();
    let mut map = open::<Key, Value>(&cluster, 0, config, 1);
    let of_keys = [5, 6, 7].map(|number| {
        let (key, first, second) = (key(number), value(number, 1), value(number, 2));
        let mut last = cluster.now_ns();
        // The roundtrips are to the own part, a tenth of one to another owner.
        let mut since = || {
            let before = core::mem::replace(&mut last, cluster.now_ns());
            (last - before) * 10 / ROUNDTRIP_NS
        };
        assert_eq!(map.get(&key), Ok(None));
        let miss = since();
        assert_eq!(map.put(&key, &first), Ok(Written::Inserted));
        let insert = since();
        assert_eq!(map.get(&key), Ok(Some(first)));
        let hit = since();
        assert_eq!(map.put(&key, &second), Ok(Written::Updated));
        let update = since();
        assert_eq!(map.put_if_absent(&key, &first), Ok(Written::Present));
        let present = since();
        assert_eq!(map.remove(&key), Ok(Written::Removed));
        [miss, insert, hit, update, present, since()]
    });
    assert_eq!(of_keys, [of_keys[0]; 3]);
    of_keys[0]
}

#[test]
fn roundtrips_by_mode() {
    let new = Config::new(1 << 16);
    assert_eq!(roundtrips(new, false), [1, 3, 1, 4, 1, 2]);
    assert_eq!(roundtrips(new, true), [1, 2, 1, 3, 1, 2]);
    // Without a claim along with the first READ.
    assert_eq!(roundtrips(Config { claims_with_read: false, ..new }, false)[1], 4);
    let of = |mode| roundtrips(Config { mode, ..new }, false);
    assert_eq!(of(Mode::PartLocks), [3, 4, 3, 4, 3, 4]);
    assert_eq!(of(Mode::BucketLocks), [3, 4, 3, 4, 1, 2]);
    assert_eq!(of(Mode::Unlocked), [1, 2, 1, 2, 1, 2]);
}

/// Puts a key by owner 1, which stops while it has the lock.
fn stops_with_lock(mode: Mode) -> (Result<Written, OperationError>, Option<HeldLock>) {
    let config = Config { direct: false, mode, lock_attempts: 20, ..Config::new(1) };
    let cluster = Cluster::new(sim::<u64, u64>(&config, 2, 1)).unwrap();
    let mut map = open::<u64, u64>(&cluster, 0, config, 1);
    let mut dead = open::<u64, u64>(&cluster, 1, config, 1);
    let key = (1..).find(|key| map.first_candidate(key).0 == Owner(0)).expect("a key of owner 0");
    dead.submit(Tag(1), &key, Request::Put(1)).unwrap();
    // Its first roundtrip; the second one takes effect later.
    while cluster.now_ns() < ROUNDTRIP_NS * 3 / 2 {
        assert_eq!(dead.poll_into(&mut [Finished::default()]).map(|ended| ended.len()), Ok(0));
    }
    assert_eq!(map.get(&key), Ok(None));
    let written = map.put(&key, &2);
    assert_eq!((map.stats().busy, map.stats().drops), (1, 1));
    (written, map.held_lock())
}

#[test]
fn names_unreleased_lock() {
    for mode in [Mode::PartLocks, Mode::BucketLocks] {
        let (written, held) = stops_with_lock(mode);
        assert_eq!(written, Ok(Written::Dropped), "{mode:?}");
        let held = held.expect("it is named");
        assert_eq!(held.holder, Some(Owner(1)), "{mode:?}");
        assert_eq!(
            held.to_string(),
            format!(
                "a lock in the part of {} stayed locked by owner 1, which writes and may have died: \
                 clear the map, or open it with Mode::Claims, which survives it",
                held.part
            )
        );
    }
}

/// Threads put different values of a few keys. Every value that is
/// read was put for its key, and each key has one bucket in the end.
#[test]
fn reads_only_put_values() {
    const THREADS: u32 = 4;
    const KEYS: u64 = 3;
    for (mode, direct) in MODES.map(|mode| (mode, false)).into_iter().chain([(Mode::Claims, true)])
    {
        let config = Config { direct, mode, ..Config::new(64) };
        let counts = on_ranks(THREADS, |member| {
            let me = u64::from(member.me().0);
            let mut map = try_open::<Key, Value>(config, 4, member).unwrap();
            for step in 0..3_000 {
                let number = (step * 7 + me) % KEYS;
                map.put(&key(number), &value(number, step << 8 | me)).unwrap();
                let number = (number + 1) % KEYS;
                if let Some(found) = map.get(&key(number)).unwrap() {
                    assert_eq!(found, value(number, found[0]), "{mode:?}");
                }
            }
            assert_eq!(map.held_lock(), None);
            let stats = *map.stats();
            assert_eq!((stats.reads(), stats.writes()), (3_000, 3_000), "{stats:?}");
            let count = map.len(member).unwrap();
            member.barrier().unwrap();
            count
        });
        let count = *counts.iter().max().unwrap();
        // Without locks or claims, a key may have several buckets.
        assert!(count == KEYS || mode == Mode::Unlocked && count >= KEYS, "{mode:?}: {count}");
    }
}

/// A long value, so that copies of two CPUs overlap often.
type Long = [u64; 512];

/// Time of each race.
const RACE: Duration = Duration::from_millis(500);

fn long(number: u64, put: u64) -> Long {
    core::array::from_fn(|at| (put << 8 | number).wrapping_mul(at as u64 + 1))
}

/// Lets one CPU put the same keys over and over, and the other one get them with `get`. Returns the number
/// of hits, all of which were put for their keys.
fn hits_of_a_race(get: impl Fn(&mut LongMap, &[u64; 2]) -> [Option<Long>; 2] + Sync) -> usize {
    let config = Config { direct: true, ..Config::new(16) };
    let hits = on_ranks(2, |member| {
        let mut map = try_open(config, 4, member).unwrap();
        assert!(map.is_direct());
        let (puts, keys, mut hits) = (member.me() == Owner(0), [1, 2], 0);
        keys.iter().for_each(|key| assert!(map.put(key, &long(*key, 0)).is_ok()));
        member.barrier().unwrap();
        let begin = Instant::now();
        for put in 0.. {
            if begin.elapsed() >= RACE {
                break;
            }
            if puts {
                keys.iter().for_each(|key| assert!(map.put(key, &long(*key, put)).is_ok()));
                continue;
            }
            for (key, found) in keys.into_iter().zip(get(&mut map, &keys)) {
                let Some(found) = found else { continue };
                assert_eq!(found[0] & 0xff, key);
                assert!(found == long(key, found[0] >> 8), "a mixed value of key {key}");
                hits += 1;
            }
        }
        // An engine that is closed is a fault for the other one.
        member.barrier().unwrap();
        hits
    });
    hits.into_iter().sum()
}

type LongMap = AnyMap<u64, Long>;

/// Without the check of what a get by the CPU has copied, values mix, in batches as in single gets.
#[test]
fn cpu_gets_mix_no_values() {
    let hits = hits_of_a_race(|map, keys| keys.map(|key| map.get(&key).unwrap()));
    let batch_hits = hits_of_a_race(|map, keys| {
        let mut found = [None; 2];
        map.get_batch(keys, &mut found).unwrap();
        found
    });
    assert!(hits > 0 && batch_hits > 0, "{hits}, {batch_hits}");
}
