//! Read-modify-write of a key, and buckets by their place.

use crate::common::{AnyMap, on_shm, open, sim};
use probeline_exchange::testing::AnyEngine;
use probeline_map::{Config, Location, Map, Operation, OperationError, Written};
use probeline_sim::Cluster;
use probeline_transport::{
    Owner, PostError, RemoteWord, Segment, Slot, SlotRange, Token, Transport,
};

fn add(map: &mut AnyMap<u64, u64>, key: u64, addend: u64) -> Written {
    map.update(&key, |old| Some(old.copied().unwrap_or(0) + addend)).unwrap()
}

#[test]
fn updates_or_inserts_value() {
    for direct in [true, false] {
        let config = Config { direct, ..Config::for_entries(100, 1) };
        let mut map = on_shm::<u64, u64>(config, 4);
        assert_eq!(map.update(&1, |_| None), Ok(Written::Absent));
        assert_eq!(add(&mut map, 1, 5), Written::Inserted);
        assert_eq!(add(&mut map, 1, 2), Written::Updated);
        assert_eq!(map.update(&1, |old| old.filter(|_| false).copied()), Ok(Written::Present));
        assert_eq!(map.get(&1), Ok(Some(7)));
    }
}

/// Another client puts, or removes, the key between the read and the write of an update.
#[test]
fn restarts_from_changed_value() {
    let config = Config { direct: false, ..Config::for_entries(100, 2) };
    let cluster = Cluster::new(sim::<u64, u64>(&config, 2, 4)).unwrap();
    let mut mine = open::<u64, u64>(&cluster, 0, config, 4);
    let mut other = open::<u64, u64>(&cluster, 1, config, 4);
    for (number, before) in (0_u64..).zip([None, Some(1)]) {
        for change in [Some(50), None] {
            let key = 100 * number + change.unwrap_or(0);
            if let Some(value) = before {
                mine.put(&key, &value).unwrap();
            }
            let mut seen = Vec::new();
            let written = mine.update(&key, |old| {
                seen.push(old.copied());
                if seen.len() == 1 {
                    let changed = match change {
                        Some(value) => other.put(&key, &value),
                        None => other.remove(&key),
                    };
                    assert!(changed.is_ok());
                }
                Some(old.copied().unwrap_or(0) + 7)
            });
            let has_changed = before != change;
            let expected = if has_changed { vec![before, change] } else { vec![before] };
            assert_eq!(seen, expected);
            assert!(matches!(written, Ok(Written::Updated | Written::Inserted)), "{written:?}");
            assert_eq!(other.get(&key), Ok(Some(change.unwrap_or(0) + 7)));
        }
    }
}

#[test]
fn last_put_locates_entry() {
    for direct in [true, false] {
        // Full, so that puts use all candidates and evict.
        let config = Config { direct, ..Config::new(64) };
        let mut map = on_shm::<u64, u64>(config, 4);
        assert_eq!(map.last_put(), None);
        let mut used = [0; 8];
        for key in 0..200 {
            map.put(&key, &(3 * key)).unwrap();
            let at = map.last_put().unwrap();
            assert_eq!(map.get_at(at.owner, at.bucket), Ok(Some((key, 3 * key))));
            used[at.candidate as usize] += 1;
        }
        assert!(used[..6].iter().all(|count| *count > 0) && used[6..] == [0; 2], "{used:?}");
        map.remove(&199).unwrap();
        let gone = map.last_put().unwrap();
        assert_eq!(map.get_at(gone.owner, gone.bucket), Ok(None));
        let outside = Err(OperationError::Post(PostError::OutOfRange));
        assert_eq!(map.get_at(Owner(0), 64), outside);
        assert_eq!(map.get_at(Owner(1), 0), outside);
    }
}

/// The READ of a bucket is told from what an earlier user of the engine has left in flight.
#[test]
fn bucket_read_ignores_foreign_completions() {
    let config = Config { direct: false, ..Config::for_entries(100, 2) };
    let cluster = Cluster::new(sim::<u64, u64>(&config, 2, 4)).unwrap();
    let mut other = open::<u64, u64>(&cluster, 1, config, 4);
    let mut location_of = |key: u64| {
        other.put(&key, &(3 * key)).unwrap();
        other.last_put().unwrap()
    };
    // A READ of the own part is faster.
    let far = |(_, at): &(u64, Location)| at.owner == Owner(1);
    let (key, at) = (1..).map(|key| (key, location_of(key))).find(far).unwrap();
    let mut engine = cluster.engine(Owner(0)).unwrap();
    let start = RemoteWord { owner: Owner(0), index: 0 };
    let last = Slot(engine.geometry().slots - 1);
    let into = SlotRange { slot: last, start: 0, words: 1 };
    engine.read(Token(0), Segment { start, words: 1 }, into).unwrap();
    engine.kick();
    let storage = vec![Operation::EMPTY; 4];
    let mut map: AnyMap<u64, u64> = Map::new(AnyEngine::new(engine), config, storage).unwrap();
    assert_eq!(map.get_at(at.owner, at.bucket), Ok(Some((key, 3 * key))));
}
