//! Checks the predicted memory of a cluster in a separate process, whose memory is the cluster's.

use probeline_profile::paper::Workload;
use probeline_profile::{Profile, Shape};
use probeline_simulate::{ThroughputPlan, throughput};

/// With many operations in flight, engines need more memory than the table.
#[test]
fn uses_predicted_memory() {
    let das5 = Profile::built_in("das5-fdr").unwrap();
    let shape = Shape { machines: 8, ranks_per_machine: 8 };
    let mut plan = ThroughputPlan::paper(&das5, shape, Workload::Mixed).unwrap();
    (plan.setup.in_flight, plan.setup.cache_entries) = (1024, 4096);
    plan.operations = 1100;
    plan.setup.table.buckets_per_owner = 1 << 15;
    throughput(&plan).unwrap();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: f64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    let said = plan.setup.bytes() as f64 / 1024.0;
    println!("{said:.0} KiB said, {peak} KiB taken");
    assert!((0.9..1.1).contains(&(said / peak)), "{said:.0} KiB said, {peak} KiB taken");
}
