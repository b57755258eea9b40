//! Tests of cases that random runs seldom cover: batches in which all operations leave the CPU's
//! part at once, words that no operation wrote, and extreme numbers.

use core::ops::Range;
use core::sync::atomic::Ordering::SeqCst;
use std::collections::BTreeSet;

use probeline_exchange::testing::{Watched, in_time};
use probeline_sim::{Cluster, DirectAccess, Engine, Model, Order};
use probeline_table::{
    Bucket, Config, Ended, Intent, Layout, OneRoundtrip, Operation, OperationError, Outcome,
    Probing, ReadAhead, Table,
};
use probeline_transport::{AtomicScope, OpError, Owner, Request, Transport};

use crate::common::account::{End, UNTOUCHED};
use crate::common::extensions::probed;
use crate::common::kinds::{self, NarrowKeys};
use crate::common::{content, own_words, probe_order, storage};

type Plain<T> = Table<T, Vec<Operation>>;

const PROBINGS: [Probing; 3] = [Probing::Linear, Probing::Lines, Probing::DoubleHash];

fn sim_config(owners: u32, config: &Config, operations: u32) -> probeline_sim::Config {
    probeline_sim::Config {
        owners,
        window_words: config.words(),
        slots: Config::slots(operations),
        slot_words: config.chunk_buckets,
        model: Model::simple(1_000),
        ..probeline_sim::Config::default()
    }
}

/// Opens the tables of all owners, without a cache.
fn tables(sim: probeline_sim::Config, config: Config, operations: u32) -> Vec<Plain<Engine>> {
    let cluster = Cluster::new(sim).unwrap();
    let engines = (0..sim.owners).map(|owner| cluster.engine(Owner(owner)).unwrap());
    engines.map(|engine| Table::new(engine, config, storage(operations)).unwrap()).collect()
}

/// Returns keys from `from` on whose homes are in these buckets of `owner`.
fn at_home(
    layout: &Layout,
    owner: u32,
    homes: Range<u64>,
    from: u64,
) -> impl Iterator<Item = u64> + use<> {
    let layout = *layout;
    (from..).filter(move |&key| {
        let home = layout.home(Bucket::new(key).unwrap());
        home.owner == owner && homes.contains(&home.index)
    })
}

/// Above the keys that fill a part.
const BATCH: u64 = 100_000;
const SMALL: Config = Config { chunk_buckets: 8, max_chunks: 16, ..Config::new(64) };

/// Runs a batch on a full part of owner 0, so that no new key with its home there can be inserted
/// by the CPU alone. `far` keys probe the whole part, then `near` keys its last line, and all of
/// them leave the part together. With `room` the other part is empty, otherwise it is full as well.
fn batch_on_a_full_part(far: usize, near: usize, room: bool, operations: u32) {
    let sim =
        probeline_sim::Config { atomics: AtomicScope::Cpu, ..sim_config(2, &SMALL, operations) };
    let mut both = tables(
        probeline_sim::Config { direct_access: DirectAccess::Own, ..sim },
        SMALL,
        operations,
    );
    let layout = *both[0].layout();
    let table = &mut both[0];
    let mut set = BTreeSet::new();
    // From the first line on, these keys fill this part and then the next.
    for key in at_home(&layout, 0, 0..8, 0).take(if room { 64 } else { 128 }) {
        assert_eq!(table.find_or_put(key), Ok(Outcome::Inserted));
        set.insert(key);
    }
    assert_eq!(table.local().count(), 64);
    let mut keys: Vec<u64> = at_home(&layout, 0, 0..8, BATCH).take(far).collect();
    keys.extend(at_home(&layout, 0, 56..64, BATCH).take(near));
    keys.extend(at_home(&layout, 1, 0..64, BATCH).take(1));
    keys.extend(set.iter().copied().take(20));
    keys.extend(at_home(&layout, 0, 8..56, BATCH).take(120));

    let mut results = vec![Err(UNTOUCHED); keys.len()];
    table.find_or_put_batch(&keys, &mut results).unwrap();
    let with = |outcome| results.iter().filter(|&&end| end == Ok(outcome)).count();
    let counts = [Outcome::Found, Outcome::Inserted, Outcome::Full].map(with);
    let fit = 128 - set.len();
    assert_eq!(counts, [20, fit, keys.len() - 20 - fit], "{far} far, {near} near: {results:?}");
    for (&key, &end) in keys.iter().zip(&results) {
        assert_eq!(set.contains(&key), end == Ok(Outcome::Found));
    }
    let inserted = keys.iter().zip(&results).filter(|&(_, &end)| end == Ok(Outcome::Inserted));
    set.extend(inserted.map(|(&key, _)| key));

    let mut found = vec![Err(UNTOUCHED); keys.len()];
    both[0].find_batch(&keys, &mut found).unwrap();
    for (key, &end) in keys.iter().zip(&found) {
        assert_eq!(end, Ok(set.contains(key)));
    }
    let ring: Vec<u64> = both.iter().flat_map(own_words).collect();
    assert_eq!(content(&layout, &ring), Ok(set));
}

#[test]
fn keeps_results_of_leaving_walks() {
    for operations in [1, 5, 64] {
        for far in [0, 8, 16, 24] {
            for near in [0, 16, 32, 48] {
                batch_on_a_full_part(far, near, true, operations);
                batch_on_a_full_part(far, near, false, operations);
            }
        }
    }
}

/// Storage and depth suffice for the whole batch at once, regardless of what the CPU executes
/// itself.
#[test]
fn fills_rings_once_or_twice() {
    const CONFIG: Config = Config { max_chunks: 16, ..Config::new(1 << 16) };
    for (direct_access, atomics) in [
        (DirectAccess::None, AtomicScope::Cpu),
        (DirectAccess::Own, AtomicScope::Cpu),
        (DirectAccess::Own, AtomicScope::Device),
    ] {
        let sim = probeline_sim::Config {
            depth: 128,
            direct_access,
            atomics,
            ..sim_config(2, &CONFIG, 64)
        };
        let cluster = Cluster::new(sim).unwrap();
        let engine = Watched::new(cluster.engine(Owner(0)).unwrap());
        let mut table = Table::new(engine, CONFIG, storage(64)).unwrap();
        let keys: [u64; 64] = core::array::from_fn(|key| key as u64);
        let mut results = [Err(UNTOUCHED); 64];
        table.find_batch(&keys, &mut results).unwrap();
        assert_eq!(results, [Ok(false); 64]);

        let (posts, rings) = (table.transport().posts.reads, table.transport().rings);
        let home = |key: &&u64| table.layout().home(Bucket::new(**key).unwrap());
        let remote = keys.iter().filter(|key| home(key).owner == 1).count();
        assert!(remote > 20 && posts >= remote as u64, "{posts} posts for {remote} keys");
        assert!(
            (1..=2).contains(&rings),
            "{rings} for {posts} posts: {direct_access:?} {atomics:?}"
        );
    }
}

/// Returns the results of two find-or-puts and a find. `strays` are the places of the probe order
/// that hold a stray word of 1; the places before them hold other keys.
fn past_strays(config: Config, strays: Range<usize>, form: u8) -> [End; 3] {
    const KEY: u64 = 5;
    let sim =
        probeline_sim::Config { direct_access: DirectAccess::All, ..sim_config(1, &config, 2) };
    let engine = Cluster::new(sim).unwrap().engine(Owner(0)).unwrap();
    let mut table = kinds::new::<_, NarrowKeys>(engine, config, 2, 0);
    let first_bucket = usize::try_from(table.layout().first_word()).unwrap();
    for (nth, at) in probe_order(table.layout(), KEY).take(strays.end).enumerate() {
        let other = Bucket::new(1_000 + nth as u64).unwrap().word();
        let word = if strays.contains(&nth) { 1 } else { other };
        table.transport().window()[first_bucket + at].store(word, SeqCst);
    }
    [Intent::FindOrPut, Intent::FindOrPut, Intent::Find]
        .map(|intent| kinds::run_in_form(&mut table, &[KEY], form, intent)[0])
}

/// A stray word is neither empty nor an occupied bucket. An operation must not retry it forever.
#[test]
fn both_paths_pass_stray_words() {
    for probing in PROBINGS {
        for strays in [0..1, 3..4, 7..9, 0..8, 0..64] {
            let results = |direct, form| {
                let config = Config { chunk_buckets: 16, max_chunks: 2, ..Config::new(64) };
                let config = Config { direct, ..probed(config, probing) };
                let strays = strays.clone();
                in_time(move || past_strays(config, strays, form))
            };
            let by_device = results(false, 0);
            assert!(by_device.iter().all(Result::is_ok), "{by_device:?}");
            for form in 0..3 {
                assert_eq!(results(false, form), by_device, "{probing:?}, {strays:?}");
                let [first, second, found] = results(true, form);
                assert_eq!([first, second], by_device[..2], "{probing:?}, {strays:?} by the CPU");
                // A READ's scan stops at the stray word; the CPU sees the key behind it, if that is
                // in the same line.
                assert!(
                    found == by_device[2] || found == Ok(Ended::Found) && found == second,
                    "{found:?}, {probing:?}, {strays:?} by the CPU"
                );
            }
        }
    }
}

/// On a device whose atomics are not atomic with the CPU's, the CPU copies chunks and claims no bucket.
/// Roundtrips are exactly the READs posted: none for a chunk that the CPU copies, and one for a
/// chunk of which it copies a part.
#[test]
fn counts_only_posted_reads() {
    let config = Config {
        chunk_buckets: 16,
        max_chunks: 4,
        one_roundtrip: OneRoundtrip::Off,
        read_ahead: ReadAhead::Never,
        ..Config::new(256)
    };
    for (probing, direct_access) in
        PROBINGS.iter().flat_map(|of| [(*of, DirectAccess::All), (*of, DirectAccess::Own)])
    {
        let sim = probeline_sim::Config {
            direct_access,
            atomics: AtomicScope::Device,
            order: Order::Shuffled,
            ..sim_config(2, &config, 4)
        };
        let engine = Watched::new(Cluster::new(sim).unwrap().engine(Owner(0)).unwrap());
        let mut table = Table::new(engine, probed(config, probing), storage(4)).unwrap();
        let keys: Vec<u64> = (0..480).collect();
        let mut results = vec![Err(UNTOUCHED); keys.len()];
        table.find_or_put_batch(&keys, &mut results).unwrap();
        for key in 0..100 {
            table.find_or_put(key).unwrap();
        }
        let (total, reads) = (table.stats().total(), table.transport().posts.reads);
        let reaches_all = direct_access == DirectAccess::All;
        assert!(if reaches_all { reads == 0 } else { reads > 200 }, "{reads} READs");
        assert!(total.lines > 200, "{} lines", total.lines);
        let roundtrips = [total.outgoing_roundtrips, total.effective_roundtrips];
        assert_eq!(roundtrips, [reads; 2], "{probing:?}");
        let inserted = table.stats().inserted;
        assert_eq!(inserted.claims - inserted.claims_lost, inserted.operations, "{probing:?}");
    }
}

/// A claim along with the first READ decides alone, whatever becomes of the READ. Where it finds
/// another key, the operation fails, and can be repeated.
#[test]
fn claim_survives_failed_read() {
    let config = Config { one_roundtrip: OneRoundtrip::On, direct: false, ..SMALL };
    let engine = Cluster::new(sim_config(1, &config, 1)).unwrap().engine(Owner(0)).unwrap();
    let mut engine = Watched::new(engine);
    engine.fails = Some(|request| matches!(request, Request::Read { .. }));
    let mut table = Table::new(engine, config, storage(1)).unwrap();
    let home = table.layout().home(Bucket::new(1).unwrap()).index;
    let other = at_home(table.layout(), 0, home..home + 1, 2).next().unwrap();
    assert_eq!(table.find_or_put(1), Ok(Outcome::Inserted));
    let inserted = table.stats().inserted;
    assert_eq!((inserted.one_roundtrip_claims_decided, inserted.effective_roundtrips), (1, 0));
    assert_eq!(table.stats().failed, 0);
    let failed = OperationError::Failed(OpError::RetryExceeded);
    assert_eq!(table.find_or_put(other), Err(failed));
    table.transport_mut().unwrap().fails = None;
    assert_eq!(table.find_or_put(other), Ok(Outcome::Inserted));
    assert_eq!(table.stats().failed, 1);
}
