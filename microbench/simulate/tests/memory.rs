//! Checks the memory of clusters in a separate process, which runs only this test.

use probeline_profile::paper::Workload;
use probeline_profile::{Profile, Shape};
use probeline_simulate::{ThroughputPlan, throughput};

/// A share of the 8 GiB that a run of 1,024 owners may use.
const MAX_KIB: f64 = (1 << 20) as f64;

fn plan(machines: u32, ranks_per_machine: u32, in_flight: u32) -> ThroughputPlan {
    let shape = Shape { machines, ranks_per_machine };
    let das5 = Profile::built_in("das5-fdr").unwrap();
    let mut plan = ThroughputPlan::paper(&das5, shape, Workload::Mixed).unwrap();
    plan.setup.in_flight = in_flight;
    plan.setup.cache_entries = if in_flight > 1 { 4096 } else { 0 };
    plan
}

/// Returns the largest memory of this process so far.
fn peak_kib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse().unwrap()
}

/// With many operations in flight, engines need more memory than the table.
#[test]
fn uses_predicted_memory_below_gibibyte() {
    let mut few = plan(8, 8, 1024);
    few.operations = 1100;
    few.setup.table.buckets_per_owner = 1 << 15;
    throughput(&few).unwrap();
    let (said, peak) = (few.setup.bytes() as f64 / 1024.0, peak_kib());
    assert!((0.9..1.1).contains(&(said / peak)), "{said:.0} KiB said, {peak} KiB taken");
    for in_flight in [1, 16] {
        let row =
            throughput(&ThroughputPlan { operations: 30, ..plan(64, 16, in_flight) }).unwrap();
        assert_eq!(row.operations, 1_024 * 30);
        assert!(row.ops_per_s > 50e6, "{row:?}");
    }
    assert!(peak_kib() < MAX_KIB, "{} KiB", peak_kib());
}
