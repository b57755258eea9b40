//! Every candidate, as a report has them: what the model expects of it, and what a sweep measured;
//! and what was measured of the transport.

use probeline_tune::{Candidate, Model, Rates};
use serde_json::{Value, json};

use super::row::{ahead_name, claim_name};

/// In the order of `all`; `swept` has the nanoseconds that a rank took for each operation, or
/// nothing.
pub(super) fn candidates(
    model: &Model,
    all: &[Candidate],
    ranks: u32,
    swept: Option<&[f64]>,
) -> Vec<Value> {
    let per_second = |ns: f64| 1e9 * f64::from(ranks) / ns.max(1e-3);
    let one = |(at, candidate): (usize, &Candidate)| {
        let ns = swept.and_then(|swept| swept.get(at)).copied();
        json!({
            "chunk_buckets": candidate.chunk_buckets,
            "max_chunks": candidate.max_chunks,
            "read_ahead": ahead_name(candidate.read_ahead),
            "one_roundtrip": claim_name(candidate.first_claim),
            "in_flight": candidate.depth,
            "cache_entries": candidate.cache_entries,
            "direct": candidate.direct,
            "expected_latency_ns": model.latency_ns(candidate),
            "expected_ops_per_s": per_second(model.time_ns(candidate)),
            "latency_ns": ns.map(|ns| ns * f64::from(candidate.depth)),
            "ops_per_s": ns.map(per_second),
        })
    };
    all.iter().enumerate().map(one).collect()
}

/// What the transport takes without a table: READs by size, and compare-and-swaps, by how many are
/// in flight.
pub(super) fn rates(rates: &Rates) -> Vec<Value> {
    let reads = rates.reads().map(|(words, depth, ns)| {
        json!({ "operation": "READ", "words": words, "in_flight": depth, "ns": ns })
    });
    let swaps = rates
        .swaps()
        .map(|(depth, ns)| json!({ "operation": "CAS", "words": 1, "in_flight": depth, "ns": ns }));
    reads.chain(swaps).collect()
}
