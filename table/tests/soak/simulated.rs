//! Simulated owners with operations that fail, take effect late, and execute twice, with torn
//! READs, and with owners that die.

use probeline_sim::{DirectAccess, Engine, Faults, Jitter, Model, Order, Rng};
use probeline_table::{Config, OutcomeStats};
use probeline_transport::{AtomicScope, Fault, Owner, Transport};

use crate::common::declared::Declared;
use crate::common::drive::{Drive, Plan};
use crate::common::extensions::setups;
use crate::common::{Replay, Wrong, seeds};

/// Returns a plan of random sizes with `faults`; the number of keys is between a half and three
/// halves of the number of buckets.
fn plan(seed: u64, mut faults: Faults) -> Plan {
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
    let part = 8 * from(4, 60);
    let small = |n: u64| u32::try_from(n).unwrap();
    let table = Config {
        first_word: 8 * from(0, 2),
        chunk_buckets: small(8 * from(1, 4)),
        max_chunks: small(from(1, 4)),
        ..Config::paper(part)
    };
    let operations = small(from(1, 8));
    let buckets = part * u64::from(owners);
    let sim = probeline_sim::Config {
        owners,
        window_words: table.first_word + table.words(),
        slots: Config::slots(operations),
        slot_words: 32,
        depth: small(from(2, 16)),
        seed,
        order: if from(0, 3) > 0 { Order::Shuffled } else { Order::ByTime },
        model: Model {
            jitter: Jitter::Exponential { mean_ns: from(100, 2_000) },
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
        operations,
        keys: from(buckets / 2, buckets * 3 / 2),
        key_step,
        submits: 4 * buckets,
        finds_ppm: small(from(0, 400_000)),
        blocking_ppm: small(from(0, 300_000)),
        batch_ppm: small(from(0, 80_000)),
        poll_room: small(from(1, 6)),
        kill: None,
    }
}

#[test]
fn a_hundred_seeds_with_all_faults() {
    let mut sums = probeline_sim::Counters::default();
    let (mut operations, mut costs) = (0, OutcomeStats::default());
    for seed in seeds(100) {
        let _replay = Replay(seed);
        let mut faults = Faults::swarm(seed);
        if seed % 2 == 0 {
            faults.torn_read_ppm = 500_000;
        }
        let mut drive = Drive::new(plan(seed, faults), |engine| engine);
        assert_eq!(drive.run(), Ok(()), "seed {seed}");
        let counters = drive.cluster.counters();
        operations += drive.ended();
        costs = costs.plus(&drive.costs());
        sums.errors_done += counters.errors_done;
        sums.errors_undone += counters.errors_undone;
        sums.late_effects += counters.late_effects;
        sums.repeated_reads += counters.repeated_reads;
        sums.torn_words += counters.torn_words;
        sums.slow += counters.slow;
        sums.deaths += counters.deaths;
    }
    println!(
        "{operations} operations: {costs:?}; {} errors with and {} without effect, \
         {} late effects, {} repeated READs, {} torn words, {} slow operations, {} deaths",
        sums.errors_done,
        sums.errors_undone,
        sums.late_effects,
        sums.repeated_reads,
        sums.torn_words,
        sums.slow,
        sums.deaths,
    );
    if std::env::var_os("PROBELINE_SEED").is_none() {
        let happened = [
            sums.errors_done,
            sums.errors_undone,
            sums.late_effects,
            sums.repeated_reads,
            sums.torn_words,
            sums.slow,
            sums.deaths,
            costs.confirms,
            costs.claims_lost,
            costs.one_roundtrip_claims_decided,
            costs.one_roundtrip_claims - costs.one_roundtrip_claims_decided,
            costs.lines,
            costs.cache_hits,
        ];
        assert!(happened.iter().all(|&times| times > 0), "{sums:?}, {costs:?}");
    }
}

/// A dead owner, killed or failed by itself: every owner gets the result of each of its operations,
/// and then the fault of its engine.
#[test]
fn after_a_lost_owner_every_result_and_fault_is_reported() {
    for seed in seeds(40) {
        let _replay = Replay(seed);
        let mut faults = Faults { death: None, ..Faults::swarm(seed) };
        let by_itself = seed % 2 == 0;
        let victim = Owner(u32::try_from(seed % 3).unwrap());
        // Early in a run, which has at least some hundred operations.
        let after = 20 + seed % 40;
        if by_itself {
            faults.death = Some(probeline_sim::Death { owner: victim, after_ops: after });
        }
        let mut plan = plan(seed, faults);
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
        let mut drive = Drive::new(plan, |engine| engine);
        assert_eq!(drive.run(), Ok(()), "seed {seed}");
        for (owner, fault) in (0..).map(Owner).zip(drive.faults()) {
            let expected = if owner == victim { dead } else { Fault::OwnerLost(victim) };
            assert_eq!(fault, Some(expected), "seed {seed}, {owner}");
        }
    }
}

/// Declares that words are whole although they may tear.
fn declares_whole_words(inner: Engine) -> Declared<Engine> {
    Declared::new(inner, |caps| caps.word_reads_whole = true)
}

/// Returns a plan in which all owners use the same few words, and every READ may be torn.
fn torn(seed: u64) -> Plan {
    let plan = plan(seed, Faults { torn_read_ppm: 500_000, ..Faults::none() });
    let key_step = 1 + seed % 2 * 3;
    Plan { key_step, operations: 4, sim: probeline_sim::Config { slots: 8, ..plan.sim }, ..plan }
}

fn is_right<T: Transport>(seed: u64, wrap: impl Fn(Engine) -> T) -> Result<(), Wrong> {
    Drive::new(torn(seed), wrap).run()
}

/// Checks that the soak can fail: without protection from torn words it does.
#[test]
fn without_protection_torn_words_are_found_out() {
    let wrong: Vec<Wrong> =
        (0..40).filter_map(|seed| is_right(seed, declares_whole_words).err()).collect();
    println!("{} of 40 seeds, such as: {:?}", wrong.len(), wrong.first());
    assert!(wrong.len() > 4);
    for seed in seeds(40) {
        let _replay = Replay(seed);
        assert_eq!(is_right(seed, |engine| engine), Ok(()), "seed {seed}");
    }
}
