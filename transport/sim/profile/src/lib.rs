//! Costs of networks as data files for the simulator, each number with its source.
//!
//! A [`Profile`] is read from and written as TOML. A quantity without a source is absent, and a
//! model that requires it is refused with [`ProfileError::Missing`]; no value is a guess.
//!
//! `das5-fdr`, the paper's cluster, is fitted to the figures of [`paper`] in the simulation of
//! `probeline-simulate`, with the least sum of the sixth powers of ln(model / paper), which is near the
//! least largest deviation. Latencies of one machine determine `local`; those of two machines
//! `remote.read_base_ns`, `remote.read_word_ps`, `remote.long_read_ns`, `remote.atomic_ns` and
//! `rank.reads_per_s`; throughputs of the mixed workload, means of three runs, the costs of idle owners,
//! jitter, neighbours and further machines. `probeline simulate --paper-figures`
//! prints the deviation of each figure, fitted or not. `soft-roce` and `shm` were measured,
//! the former between virtual machines; the example `measured` prints a profile from results of
//! `probeline bench-latency` and `limits`.
//!
//! ```
//! use probeline_profile::{Profile, Shape};
//!
//! let das5 = Profile::built_in("das5-fdr").ok_or("no such profile")?;
//! let model = das5.model(Shape { machines: 2, ranks_per_machine: 1 })?;
//! assert_eq!(model.owners_per_node, 1);
//!
//! // No public source states this NIC's rate of compare-and-swaps.
//! let connectx6 = Profile::built_in("connectx6-200g").ok_or("no such profile")?;
//! let missing = connectx6.model(Shape { machines: 2, ranks_per_machine: 1 });
//! assert!(missing.is_err_and(|missing| missing.to_string().contains("nic.atomics_per_s")));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod error;
mod file;
mod model;
pub mod paper;
mod quantity;

pub use error::ProfileError;
pub use file::{Given, Kind, Profile};
pub use model::Shape;
pub use quantity::{QUANTITIES, Quantity};
