//! The paper's experiments (W. Oortwijn, T. van Dijk and J. van de Pol, *A Distributed Hash Table
//! for Shared Memory*, PPAM 2015, section 4) on clusters of any size, in virtual time.
//!
//! The table is the real one, over the simulator's transport. Each rank has a table, and one thread
//! steps the rank that is due first. A cluster of a thousand ranks therefore needs no thousand
//! threads, and the same seed gives the same figures.
#![forbid(unsafe_code)]

mod bound;
mod cluster;
mod error;
mod keys;
mod latency;
mod parallel;
mod throughput;

pub use bound::Bound;
pub use cluster::Setup;
pub use error::Error;
pub use latency::{LatencyPlan, LatencyRow, latency};
pub use parallel::{MAX_AT_ONCE, run_all};
pub use throughput::{ThroughputPlan, ThroughputRow, throughput};
