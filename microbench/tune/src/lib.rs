//! Recommends C, M, read-ahead and depth of a table on a network, and whether the one-roundtrip
//! insert and the cache pay, by a model that measurements calibrate.
//!
//! [`Rates`] are the times of READs by size and of compare-and-swaps, each by operations in flight.
//! [`Lengths`] is the distribution of the number of probed buckets at a load factor. [`Overhead`]
//! is the table's own time, from short runs. [`Model::time_ns`] combines them into the time of an
//! operation, and [`Goal`] selects the best candidate.
#![forbid(unsafe_code)]

mod candidate;
mod fit;
mod goal;
mod lengths;
mod model;
mod rates;

pub use candidate::{Candidate, Space};
pub use goal::{Goal, Timing};
pub use lengths::{Lengths, probe_limit};
pub use model::{Model, Overhead, Own, Workload};
pub use rates::Rates;
