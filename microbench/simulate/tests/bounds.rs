//! With many operations in flight the throughput is at least 0.9 of the bound that the profile states.

use probeline_profile::paper::{WORKLOADS, Workload};
use probeline_profile::{Profile, Shape};
use probeline_simulate::{MAX_AT_ONCE, Setup, ThroughputPlan, ThroughputRow, run_all, throughput};
use probeline_table::{Config, OneRoundtrip, Probing, ReadAhead};

/// Fewer machines than the paper's cluster has, so that a run takes a moment. The bound of each
/// machine is about the same.
const MACHINES: u32 = 3;
const LOAD_PERCENTS: [u32; 3] = [1, 50, 90];
/// Chance: the share of inserts among few operations, and where operations in flight are.
const MAX_SHARE: f64 = 1.05;

/// Runs each of these workloads at each load factor.
fn runs(
    workloads: &[Workload],
    ranks_per_machine: u32,
    change: fn(&mut Setup),
) -> Vec<(u32, ThroughputRow)> {
    let profile = Profile::built_in("das5-fdr").unwrap();
    let shape = Shape { machines: MACHINES, ranks_per_machine };
    let all: Vec<_> = workloads
        .iter()
        .flat_map(|&workload| LOAD_PERCENTS.map(|load_percent| (workload, load_percent)))
        .collect();
    let rows = run_all(&all, MAX_AT_ONCE, |&(workload, load_percent)| {
        let mut plan = ThroughputPlan::paper(&profile, shape, workload).unwrap();
        plan.setup.model = profile.model(shape).unwrap();
        (plan.setup.in_flight, plan.setup.cache_entries) = (16, 4096);
        plan.setup.table = Config {
            max_chunks: 1024,
            read_ahead: ReadAhead::Never,
            probing: Probing::Lines,
            ..plan.setup.table
        };
        plan.load_percent = load_percent;
        change(&mut plan.setup);
        // As many operations of all ranks, and as many empty buckets for each.
        let more = 16 / ranks_per_machine;
        plan.setup.table.buckets_per_owner = u64::from(more) << 15;
        plan.operations = 400 * more;
        throughput(&plan).map(|row| (load_percent, row))
    });
    rows.unwrap()
}

fn check(runs: &[(u32, ThroughputRow)], bound_by: &str) {
    for (load_percent, row) in runs {
        let share = row.bound_share().unwrap();
        println!("{} at {load_percent} %: {share:.3} of {:?}", row.workload.name(), row.bound);
        assert!((0.9..MAX_SHARE).contains(&share), "{share:.3}: {row:?}");
        assert_eq!(row.bound.as_ref().unwrap().name, bound_by, "{row:?}");
    }
}

#[test]
fn sixteen_ranks_reach_atomics_rate() {
    check(&runs(&WORKLOADS, 16, |_| ()), "NIC atomics rate");
}

/// If READs are the bottleneck, a chunk that is read ahead but not needed costs time, and so does one
/// that is too short.
#[test]
fn single_rank_reaches_read_rate() {
    check(&runs(&WORKLOADS, 1, |_| ()), "READ rate of a rank");
}

/// The bound counts the least work, and not what a run posts: operations that waste a
/// NIC's turns are far below it.
#[test]
fn bound_ignores_wasted_operations() {
    let best = runs(&[Workload::Mixed], 16, |_| ());
    let worst = runs(&[Workload::Mixed], 16, |setup| {
        setup.table.one_roundtrip = OneRoundtrip::On;
        setup.table.read_ahead = ReadAhead::Always;
    });
    for ((_, best), (_, worst)) in best.iter().zip(&worst) {
        let [bound, other] = [best, worst].map(|row| row.bound.as_ref().unwrap().ops_per_s);
        assert!((other / bound - 1.0).abs() < 0.03, "{bound}, {other}");
        assert!(worst.bound_share().unwrap() < 0.85, "{worst:?}");
    }
}
