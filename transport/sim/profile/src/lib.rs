//! What a network costs, as a data file: each number with where it is from and how it was got.
//!
//! A [`Profile`] is read from TOML, and written as TOML. A quantity that no source gives is absent
//! from it, and whoever needs one that is absent is told which ([`MissingQuantity`]): nothing is
//! filled in by a guess.
//!
//! `das5-fdr`, the paper's cluster, is fitted to the figures of [`paper`] by `examples/fit.rs`, which
//! says which constants to which figures; `probeline simulate --paper` prints how near each figure
//! is, those that nothing was fitted to as well. `soft-roce` and `shm` are what `probeline tune
//! --profile-out` measured, the former between virtual machines.
//!
//! ```
//! use probeline_profile::{Profile, Shape};
//!
//! let das5 = Profile::built_in("das5-fdr").ok_or("no such profile")?;
//! let model = das5.model(Shape { machines: 2, ranks_per_machine: 1 })?;
//! assert_eq!(model.owners_per_node, 1);
//!
//! // No public source says how many compare-and-swaps a second this NIC takes.
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

pub use error::{MissingQuantity, UnknownQuantity, ValueError};
pub use file::{Given, Kind, Profile};
pub use model::Shape;
pub use probeline_settings::{LoadError, ParseError};
pub use quantity::{QUANTITIES, Quantity};
