//! Rows of the report: candidates with their predictions and measurements, and the rates of the
//! transport.

use probeline_results::format::{fixed, millions, on_off, text};
use probeline_results::{Row, row};
use probeline_tune::{Candidate, Model, Rates};
use serde_json::{Value, json};

use crate::table::name_of;

row! {
    /// A candidate, the model's prediction and the measurement.
    pub(crate) struct TuneRow {
        candidate: String => ("candidate", text),
        chunk_buckets: u32 => ("C", text),
        max_chunks: u32 => ("M", text),
        read_ahead: String => ("ahead", text),
        one_roundtrip: String => ("one-rt", text),
        in_flight: u32 => ("in flight", text),
        cache_entries: u32 => ("cache", text),
        direct: bool => ("direct", on_off),
        expected_latency_ns: f64 => ("expected ns", fixed::<1>, full()),
        expected_ops_per_s: f64 => ("expected M ops/s", millions, full()),
        pub(super) latency_ns: f64 => ("measured ns", fixed::<1>),
        pub(super) ops_per_s: f64 => ("M ops/s", millions),
        /// Measured / predicted throughput.
        pub(super) times_expected: f64 => ("x expected", fixed::<3>),
    }
}

impl Row for TuneRow {}

pub(super) const PAPER: &str = "paper";

impl TuneRow {
    /// `ns` is the time in nanoseconds that a rank took for each operation.
    pub(super) fn new(
        what: &str,
        candidate: &Candidate,
        model: &Model,
        ranks: u32,
        ns: f64,
    ) -> Self {
        let expected = model.time_ns(candidate);
        let per_second = |ns: f64| 1e9 * f64::from(ranks) / ns.max(1e-3);
        Self {
            candidate: what.to_owned(),
            chunk_buckets: candidate.chunk_buckets,
            max_chunks: candidate.max_chunks,
            read_ahead: name_of(candidate.read_ahead),
            one_roundtrip: name_of(candidate.one_roundtrip),
            in_flight: candidate.depth,
            cache_entries: candidate.cache_entries,
            direct: candidate.direct,
            expected_latency_ns: model.latency_ns(candidate),
            expected_ops_per_s: per_second(expected),
            latency_ns: ns * f64::from(candidate.depth),
            ops_per_s: per_second(ns),
            times_expected: expected / ns.max(1e-3),
        }
    }

    pub(super) fn is_paper(&self) -> bool {
        self.candidate == PAPER
    }
}

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
            "read_ahead": name_of(candidate.read_ahead),
            "one_roundtrip": name_of(candidate.one_roundtrip),
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
