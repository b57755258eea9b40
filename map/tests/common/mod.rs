//! Shared test code: maps over the simulator and over shared memory.
// Each test binary uses only a part of this module.
#![allow(dead_code)]

use probeline_exchange::Thread;
use probeline_exchange::testing::{self, AnyEngine};
use probeline_map::{CollectiveError, Config, Map, Operation, Plain};
use probeline_shm::Builder;
use probeline_sim::{Cluster, DirectAccess, Model};
use probeline_transport::{Alone, Exchange, Owner};

pub(crate) type Key = [u64; 10];
pub(crate) type Value = [u64; 13];
/// A map over any engine, so that its calls are compiled once for each type of keys and values.
pub(crate) type AnyMap<K, V> = Map<AnyEngine<'static>, Vec<Operation<K, V>>, K, V>;

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
        direct_access: DirectAccess::None,
        model: Model { idle_poll_ns: 100, ..Model::simple(ROUNDTRIP_NS) },
        ..probeline_sim::Config::new(owners, sizes)
    }
}

pub(crate) fn open<K: Plain, V: Plain>(
    cluster: &Cluster,
    owner: u32,
    config: Config,
    operations: u32,
) -> AnyMap<K, V> {
    let engine = AnyEngine::new(cluster.engine(Owner(owner)).unwrap());
    Map::new(engine, config, storage(operations)).unwrap()
}

/// Returns a map of one owner over shared memory.
pub(crate) fn on_shm<K: Plain, V: Plain>(config: Config, operations: u32) -> AnyMap<K, V> {
    let engine = Builder::new(config.sizes::<K, V>(operations)).open(&mut Alone).unwrap();
    let engine = AnyEngine::new(engine);
    let map = Map::open(engine, config, storage(operations), &mut Alone).unwrap();
    assert_eq!(map.is_direct(), config.direct);
    map
}

/// Runs `body` on each of `ranks` ranks, which are threads, and returns the results.
pub(crate) fn on_ranks<R: Send>(ranks: u32, body: impl Fn(&mut Thread) -> R + Sync) -> Vec<R> {
    testing::on_ranks(ranks, |mut member| {
        let result = body(&mut member);
        // An engine that is dropped while others use theirs is a loss to them.
        member.barrier().unwrap();
        result
    })
}

/// Opens a map over shared memory together with the other ranks.
pub(crate) fn try_open<K: Plain, V: Plain>(
    config: Config,
    operations: u32,
    exchange: &mut dyn Exchange,
) -> Result<AnyMap<K, V>, CollectiveError> {
    let sizes = config.sizes::<K, V>(operations);
    let engine = AnyEngine::new(Builder::new(sizes).open(exchange).unwrap());
    Map::open(engine, config, storage(operations), exchange)
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
