//! The paper's experiments (W. Oortwijn, T. van Dijk and J. van de Pol, *A Distributed Hash Table
//! for Shared Memory*, PPAM 2015, section 4) at the size of a cluster, in virtual time.
//!
//! The table is the real one, over the simulator's transport: a rank is a table of its own, and one
//! thread steps whichever rank is due first. So a cluster of a thousand ranks needs no thousand
//! threads, and the same seed gives the same figures.
#![forbid(unsafe_code)]

mod cluster;
mod each;
mod error;
mod keys;
mod latency;
mod limit;
mod throughput;
mod way;

pub use each::{MOST_AT_ONCE, each, each_at_once};
pub use error::Error;
pub use latency::{LatencyPlan, LatencyRow, latency};
pub use limit::{Limit, Load};
pub use throughput::{ThroughputPlan, ThroughputRow, throughput};
pub use way::{Optimizations, Way};

/// Says how much of an experiment is done, from 0 to 1; called often.
pub type Progress<'a> = &'a (dyn Fn(f64) + Sync);
