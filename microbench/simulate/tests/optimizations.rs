//! The gain of optimizations relative to the paper's algorithm on two machines of one rank, with
//! the latency model of the paper's cluster, in which the time of a READ is linear in its words.
//! `probeline simulate --machines 2 --ranks-per-machine 1 --experiment latency` shows them with a
//! profile.

use probeline_profile::{Profile, Shape};
use probeline_sim::Model;
use probeline_simulate::{LatencyPlan, Setup, latency};
use probeline_table::{Config, OneRoundtrip, ReadAhead};

/// Returns mean times of inserts up to these load factors.
fn means_ns(
    chunk_buckets: u32,
    load_percents: &[u32],
    change: impl FnOnce(Setup) -> Setup,
) -> Vec<f64> {
    let shape = Shape { machines: 2, ranks_per_machine: 1 };
    let profile = Profile::built_in("das5-fdr").unwrap();
    let mut plan = LatencyPlan::paper(&profile, shape, chunk_buckets).unwrap();
    plan.setup = change(plan.setup);
    plan.setup.table.buckets_per_owner = 1 << 17;
    plan.setup.model = Model::oortwijn2015();
    (plan.load_percents, plan.one_in) = (load_percents.to_vec(), 1);
    latency(&plan).unwrap().iter().map(|row| row.mean_ns).collect()
}

/// Fixes C, as `tune` recommends.
fn tuned(one_roundtrip: OneRoundtrip, read_ahead: ReadAhead) -> impl Fn(Setup) -> Setup {
    move |setup| Setup { table: Config { one_roundtrip, read_ahead, ..setup.table }, ..setup }
}

/// The claim of the home bucket is posted along with the first READ.
#[test]
fn one_roundtrip_saves_20_percent() {
    let paper = means_ns(8, &[50], |setup| setup)[0];
    for claim in [OneRoundtrip::On, OneRoundtrip::Auto] {
        // The automatic choice sees the inserts up to 0.48 first.
        let ratio = means_ns(8, &[48, 50], tuned(claim, ReadAhead::Always))[1] / paper;
        println!("{claim:?}: {ratio:.3}");
        assert!(ratio <= 0.80, "{claim:?}: {ratio:.3}");
    }
}

/// An unneeded READ costs a lone operation almost nothing, a late READ a roundtrip.
#[test]
fn likely_read_ahead_matches_always() {
    let loads = [80, 90, 92];
    let [always, likely] = [ReadAhead::Always, ReadAhead::Likely]
        .map(|ahead| means_ns(32, &loads, tuned(OneRoundtrip::Auto, ahead)));
    for ((load, always), likely) in loads.into_iter().zip(always).zip(likely) {
        println!("{load} %: {:.3}", likely / always);
        assert!(likely <= 1.02 * always, "{load} %: {likely}, {always}");
    }
}
