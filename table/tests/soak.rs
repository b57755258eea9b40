//! Simulated owners with operations that fail, take effect late, and execute twice, with torn
//! READs, and with owners that die, against a set.
//!
//! `PROBELINE_SEED` replays one run. `killed.rs` has the runs between processes.

use probeline_exchange::testing::{AnyEngine, Replay, Watched, seeds};
use probeline_sim::{Counters, Death, DirectAccess, Faults, Model, Order, Rng};
use probeline_table::{Config, EntryStats, OutcomeStats, TreeStats};
use probeline_transport::{AtomicScope, Fault, Owner};

use crate::common::Wrong;
use crate::common::drive::{Drive, Plan};
use crate::common::extensions::setups;
use crate::common::kinds::{NarrowKeys, Numbers, TreeKeys, WideKeys};

/// Returns a plan of random sizes with `faults`; the number of keys is between a half and three
/// halves of the number of buckets, of which each owner has at most `max_lines` lines.
fn plan(seed: u64, mut faults: Faults, max_lines: u64) -> Plan {
    let key_step = if seed.is_multiple_of(4) { 4 } else { 1 };
    if key_step > 1 {
        // With words full of zero bytes, an operation takes dozens of confirmations. If one in six
        // failed, no operation would succeed.
        faults.error_done_ppm /= 16;
        faults.error_undone_ppm /= 16;
        faults.error_late_ppm /= 16;
    }
    let mut rng = Rng::new(seed, 200);
    let mut from = |least: u64, most: u64| least + rng.up_to(most - least);
    let owners = u32::try_from(from(3, 4)).unwrap();
    let part = 8 * from(4, max_lines);
    let small = |n: u64| u32::try_from(n).unwrap();
    let table = Config {
        first_word: 8 * from(0, 2),
        chunk_buckets: small(8 * from(1, 4)),
        max_chunks: small(from(1, 4)),
        ..Config::paper(part)
    };
    let operations = small(from(1, 8));
    let buckets = part * u64::from(owners);
    // Operations in error cost entries. A run without any has few, so that they run out.
    let has_errors = faults.error_done_ppm + faults.error_undone_ppm + faults.error_late_ppm > 0;
    let sim = probeline_sim::Config {
        owners,
        slot_words: 32,
        depth: small(from(2, 16)),
        seed,
        order: if from(0, 3) > 0 { Order::Shuffled } else { Order::ByTime },
        model: Model {
            jitter_mean_ns: from(100, 2_000),
            atomic_word_ns: from(0, 300),
            ..Model::simple(2_000)
        },
        faults,
        scatter_reads: from(0, 1) == 1,
        word_reads_whole: false,
        atomics: if from(0, 2) == 0 { AtomicScope::Device } else { AtomicScope::Cpu },
        direct_access: [DirectAccess::None, DirectAccess::Own, DirectAccess::All]
            [usize::try_from(from(0, 2)).unwrap()],
        ..probeline_sim::Config::default()
    };
    Plan {
        sim,
        setups: setups(seed, owners, table),
        entries: if has_errors { 4_000 } else { 20 },
        lacks_entries: !has_errors,
        operations,
        keys: from(buckets / 2, buckets * 3 / 2),
        key_step,
        submits: 4 * buckets,
        finds_ppm: small(from(0, 400_000)),
        kill: None,
    }
}

/// Runs seeds with all faults. Wide keys have no errors, and few entries, in a third of them. Lets
/// `visit` see each run.
fn run_with_all_faults<K: Numbers>(
    count: u64,
    max_lines: u64,
    mut visit: impl FnMut(&Drive<K>),
) -> (Counters, OutcomeStats) {
    let (mut sums, mut costs) = (Counters::default(), OutcomeStats::default());
    for seed in seeds(count) {
        let _replay = Replay(seed);
        let mut faults = Faults::swarm(seed);
        if seed % 2 == 0 {
            faults.torn_read_ppm = 500_000;
        }
        if seed % 3 == 0 && K::NAME == "WideTable" {
            [faults.error_done_ppm, faults.error_undone_ppm, faults.error_late_ppm] = [0; 3];
        }
        let drive = Drive::<K>::new(plan(seed, faults, max_lines), AnyEngine::new);
        assert_eq!(drive.run(), Ok(()), "seed {seed}");
        visit(&drive);
        let counters = drive.cluster.counters();
        costs = costs.plus(&drive.costs());
        sums.errors_done += counters.errors_done;
        sums.errors_undone += counters.errors_undone;
        sums.late_effects += counters.late_effects;
        sums.repeated_reads += counters.repeated_reads;
        sums.torn_words += counters.torn_words;
        sums.slow += counters.slow;
        sums.deaths += counters.deaths;
    }
    println!("{costs:?}; {sums:?}");
    (sums, costs)
}

/// Checks that the faults and `others` happened, unless one seed is replayed.
fn check_happened(sums: &Counters, others: &[u64]) {
    let faults = [
        sums.errors_done,
        sums.errors_undone,
        sums.late_effects,
        sums.repeated_reads,
        sums.torn_words,
        sums.slow,
        sums.deaths,
    ];
    if std::env::var_os("PROBELINE_SEED").is_none() {
        let happened = faults.iter().chain(others).all(|times| *times > 0);
        assert!(happened, "{sums:?}, {others:?}");
    }
}

#[test]
fn narrow_keys_with_all_faults() {
    let (sums, costs) = run_with_all_faults::<NarrowKeys>(100, 60, |_| ());
    let others = [
        costs.confirms,
        costs.claims_lost,
        costs.one_roundtrip_claims_decided,
        costs.one_roundtrip_claims - costs.one_roundtrip_claims_decided,
        costs.lines,
        costs.cache_hits,
    ];
    check_happened(&sums, &others);
}

#[test]
fn wide_keys_with_all_faults() {
    let (mut stats, mut full) = (EntryStats::default(), 0);
    let (sums, costs) = run_with_all_faults::<WideKeys<3>>(60, 10, |drive| {
        for table in &drive.tables {
            let table = table.borrow();
            stats = stats.plus(table.entry_stats());
            full += table.stats().full.operations;
        }
    });
    let entries = [stats.entry_reads, stats.fetches, stats.entries_from_others];
    check_happened(&sums, &[&entries[..], &[costs.confirms, costs.claims_lost, full]].concat());
}

#[test]
fn tree_keys_with_all_faults() {
    let (mut stats, mut full) = (TreeStats::default(), 0);
    let (sums, _) = run_with_all_faults::<TreeKeys<3>>(60, 20, |drive| {
        for table in &drive.tables {
            let table = table.borrow();
            stats = stats.plus(table.tree_stats());
            full += table.stats().full.operations;
        }
    });
    check_happened(&sums, &[stats.cache_hits, stats.inner_inserted, full]);
}

/// Loses owners. A dead owner, killed or failed by itself: every owner gets the result of each of its operations,
/// and then the fault of its engine.
fn lose_owners<K: Numbers>(count: u64) {
    for seed in seeds(count) {
        let _replay = Replay(seed);
        let mut faults = Faults { death: None, ..Faults::swarm(seed) };
        let by_itself = seed % 2 == 0;
        let victim = Owner(u32::try_from(seed % 3).unwrap());
        // Early in a run, which has at least some hundred operations.
        let after = 20 + seed % 40;
        if by_itself {
            faults.death = Some(Death { owner: victim, after_ops: after });
        }
        let mut plan = plan(seed, faults, 60);
        if by_itself {
            // The death counts posts, which caches and direct CPU loads avoid.
            plan.sim.direct_access = DirectAccess::None;
            plan.setups.iter_mut().for_each(|setup| setup.cache_entries = 0);
        }
        plan.kill = (!by_itself).then_some((after, victim));
        let dead = match by_itself {
            true => Fault::Device { code: probeline_sim::DEATH_STATUS },
            false => Fault::OwnerLost(victim),
        };
        let drive = Drive::<K>::new(plan, AnyEngine::new);
        assert_eq!(drive.run(), Ok(()), "seed {seed}");
        for (owner, fault) in (0..).map(Owner).zip(drive.faults()) {
            let expected = if owner == victim { dead } else { Fault::OwnerLost(victim) };
            assert_eq!(fault, Some(expected), "seed {seed}, {owner}");
        }
    }
}

#[test]
fn reports_results_and_lost_owner() {
    lose_owners::<NarrowKeys>(40);
    lose_owners::<WideKeys<3>>(20);
    lose_owners::<TreeKeys<3>>(20);
}

/// Runs a plan in which all owners use the same few words, and every READ may be torn. The engines
/// may declare that words are whole all the same.
fn run_torn(seed: u64, declares_whole: bool) -> Result<(), Wrong> {
    let plan = plan(seed, Faults { torn_read_ppm: 500_000, ..Faults::none() }, 60);
    let key_step = 1 + seed % 2 * 3;
    let plan = Plan { key_step, operations: 4, ..plan };
    let wrap = |engine| {
        AnyEngine::new(Watched::declaring(engine, |caps| caps.word_reads_whole |= declares_whole))
    };
    Drive::<NarrowKeys>::new(plan, wrap).run()
}

/// Checks that the soak can fail: without protection from torn words it does.
#[test]
fn finds_unprotected_torn_words() {
    let wrong: Vec<Wrong> = (0..40).filter_map(|seed| run_torn(seed, true).err()).collect();
    println!("{} of 40 seeds, such as: {:?}", wrong.len(), wrong.first());
    assert!(wrong.len() > 4);
    for seed in seeds(40) {
        let _replay = Replay(seed);
        assert_eq!(run_torn(seed, false), Ok(()), "seed {seed}");
    }
}
