//! Checks the memory of 1,024 owners in one process, which runs only this test.

use probeline_profile::paper::Workload;
use probeline_profile::{Profile, Shape};
use probeline_simulate::{ThroughputPlan, throughput};

/// A share of the 8 GiB that a run of this size may use.
const MAX_KIB: u64 = 1 << 20;

#[test]
fn thousand_owners_fit_in_gibibyte() {
    let das5 = Profile::built_in("das5-fdr").unwrap();
    let shape = Shape { machines: 64, ranks_per_machine: 16 };
    for in_flight in [1, 16] {
        let mut plan = ThroughputPlan::paper(&das5, shape, Workload::Mixed).unwrap();
        plan.setup.in_flight = in_flight;
        plan.setup.cache_entries = if in_flight > 1 { 4096 } else { 0 };
        plan.operations = 30;
        let row = throughput(&plan).unwrap();
        assert_eq!(row.operations, 1_024 * 30);
        assert!(row.ops_per_s > 50e6, "{row:?}");
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak_kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    println!("at most {peak_kib} KiB");
    assert!(peak_kib < MAX_KIB, "{peak_kib} KiB");
}
