//! Which C, M, read-ahead and depth a table is best given on a network, whether the one-roundtrip
//! insert and the cache pay, and what to expect: by a model of what was measured there.
//!
//! [`Rates`] are what the transport takes for READs by size and for compare-and-swaps, by
//! operations in flight; [`Lengths`] is how many buckets operations look at in a table of some load
//! factor, counted in one that is filled for it; [`Overhead`] is what short runs of the
//! table say beside the transport. [`Model::time_ns`] says how they add up, and [`Goal`] what is
//! best.
#![forbid(unsafe_code)]

mod candidate;
mod choice;
mod fit;
mod lengths;
mod model;
mod rates;

pub use candidate::{Candidate, Space};
pub use choice::{Goal, Timing};
pub use lengths::{Lengths, reach};
pub use model::{Model, Overhead, Own, Workload};
pub use rates::Rates;
