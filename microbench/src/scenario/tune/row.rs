//! A candidate, what was expected of it and what was measured.

use probeline_table::{FirstClaim, ReadAhead};
use probeline_tune::{Candidate, Model};
use serde::Serialize;

use crate::report::{Layout, Row, only};

#[derive(Clone, Debug, Serialize)]
pub(crate) struct TuneRow {
    candidate: String,
    chunk_buckets: u32,
    max_chunks: u32,
    read_ahead: &'static str,
    one_roundtrip: &'static str,
    in_flight: u32,
    cache_entries: u32,
    direct: bool,
    expected_latency_ns: f64,
    expected_ops_per_s: f64,
    latency_ns: f64,
    ops_per_s: f64,
    /// Measured by expected throughput.
    times_expected: f64,
}

/// The name of the paper's algorithm among candidates.
pub(super) const PAPER: &str = "paper";

pub(super) fn ahead_name(ahead: ReadAhead) -> &'static str {
    match ahead {
        ReadAhead::Always => "always",
        ReadAhead::Likely => "likely",
        ReadAhead::Never => "never",
    }
}

pub(super) fn claim_name(claim: FirstClaim) -> &'static str {
    match claim {
        FirstClaim::Off => "off",
        FirstClaim::On => "on",
        FirstClaim::Auto => "auto",
    }
}

impl TuneRow {
    /// `ns` is what a rank took for each operation.
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
            read_ahead: ahead_name(candidate.read_ahead),
            one_roundtrip: claim_name(candidate.first_claim),
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

    pub(super) fn latency_ns(&self) -> f64 {
        self.latency_ns
    }

    pub(super) fn times_expected(&self) -> f64 {
        self.times_expected
    }

    pub(super) fn ops_per_s(&self) -> f64 {
        self.ops_per_s
    }

    pub(super) fn is_paper(&self) -> bool {
        self.candidate == PAPER
    }
}

impl Row for TuneRow {
    const HEAD: &'static [&'static str] = &[
        "candidate",
        "C",
        "M",
        "ahead",
        "one-rt",
        "in flight",
        "cache",
        "direct",
        "expected ns",
        "M ops/s",
        "measured ns",
        "M ops/s",
        "x expected",
    ];

    fn cells(&self) -> Vec<String> {
        vec![
            self.candidate.clone(),
            self.chunk_buckets.to_string(),
            self.max_chunks.to_string(),
            self.read_ahead.to_owned(),
            self.one_roundtrip.to_owned(),
            self.in_flight.to_string(),
            self.cache_entries.to_string(),
            if self.direct { "on" } else { "off" }.to_owned(),
            format!("{:.1}", self.expected_latency_ns),
            format!("{:.3}", self.expected_ops_per_s / 1e6),
            format!("{:.1}", self.latency_ns),
            format!("{:.3}", self.ops_per_s / 1e6),
            format!("{:.3}", self.times_expected),
        ]
    }

    /// Omits the expected time, which follows from the ratio.
    fn brief(rows: &[Self]) -> Layout {
        only(Self::lay_out(rows), &[0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12])
    }
}
