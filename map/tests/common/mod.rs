//! Shared test code: maps over the simulator and over shared memory.
// Each test binary uses only a part of this module.
#![allow(dead_code)]

use probeline_map::{Config, Map, Operation, Plain};
use probeline_shm::Builder;
use probeline_sim::{Cluster, DirectAccess, Engine, Model};
use probeline_transport::{Alone, Owner};

pub(crate) type Key = [u64; 10];
pub(crate) type Value = [u64; 13];
pub(crate) type SimMap<K, V> = Map<Engine, Vec<Operation<K, V>>, K, V>;
pub(crate) type ShmMap<K, V> = Map<probeline_shm::Engine, Vec<Operation<K, V>>, K, V>;

/// A roundtrip to another owner; one to the own part takes a tenth of it.
pub(crate) const ROUNDTRIP_NS: u64 = 100_000;

/// Returns storage for `operations` requests in flight.
pub(crate) fn storage<K: Plain, V: Plain>(operations: u32) -> Vec<Operation<K, V>> {
    vec![Operation::EMPTY; operations as usize]
}

/// Returns the configuration of a cluster whose engines fit the map.
pub(crate) fn sim<K: Plain, V: Plain>(
    config: &Config,
    owners: u32,
    operations: u32,
) -> probeline_sim::Config {
    let sizes = config.sizes::<K, V>(operations);
    probeline_sim::Config {
        owners,
        window_words: sizes.window_words,
        slots: sizes.slots,
        slot_words: sizes.slot_words,
        depth: sizes.depth,
        direct_access: DirectAccess::None,
        model: Model { idle_poll_ns: 100, ..Model::simple(ROUNDTRIP_NS) },
        ..probeline_sim::Config::default()
    }
}

pub(crate) fn open<K: Plain, V: Plain>(
    cluster: &Cluster,
    owner: u32,
    config: Config,
    operations: u32,
) -> SimMap<K, V> {
    Map::new(cluster.engine(Owner(owner)).unwrap(), config, storage(operations)).unwrap()
}

/// Returns a map of one owner over shared memory.
pub(crate) fn on_shm<K: Plain, V: Plain>(config: Config, operations: u32) -> ShmMap<K, V> {
    let engine = Builder::new(config.sizes::<K, V>(operations)).open(&mut Alone).unwrap();
    let map = Map::open(engine, config, storage(operations), &mut Alone).unwrap();
    assert_eq!(map.is_direct(), config.direct);
    map
}

/// Returns a key from which every word can be checked.
pub(crate) fn key(number: u64) -> Key {
    core::array::from_fn(|at| number.wrapping_mul(at as u64 + 1))
}

/// Returns a value that tells its key, and the put that wrote it.
pub(crate) fn value(number: u64, put: u64) -> Value {
    core::array::from_fn(|at| {
        if at == 0 { put } else { (number ^ put).rotate_left(u32::try_from(at).unwrap()) }
    })
}

/// Returns the seeds to try: 0 to `count`, or the one in `PROBELINE_SEED`.
pub(crate) fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("PROBELINE_SEED") {
        Ok(seed) => vec![seed.parse().expect("PROBELINE_SEED is a number")],
        Err(_) => (0..count).collect(),
    }
}
