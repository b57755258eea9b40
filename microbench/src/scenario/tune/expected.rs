//! The JSON of every candidate (the model's prediction and the sweep's measurement) and of the
//! measured rates of the transport.

use probeline_tune::{Candidate, Model, Rates};
use serde_json::{Value, json};

use super::row::{ahead_name, claim_name};

/// Returns the candidates in the order of `all`. `swept` has the nanoseconds that a rank took for
/// each operation, or is empty.
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
            "one_roundtrip": claim_name(candidate.one_roundtrip),
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

/// Returns the rates of the transport without a table: READs by size, and compare-and-swaps, each
/// by the number in flight.
pub(super) fn rates(rates: &Rates) -> Vec<Value> {
    let reads = rates.reads().map(|(words, depth, ns)| {
        json!({ "operation": "READ", "words": words, "in_flight": depth, "ns": ns })
    });
    let swaps = rates
        .swaps()
        .map(|(depth, ns)| json!({ "operation": "CAS", "words": 1, "in_flight": depth, "ns": ns }));
    reads.chain(swaps).collect()
}
