//! Programs on the structures of Probeline. Each is a function that all ranks of a job call, over any
//! transport; the command `probeline` has a subcommand for each.
//!
//! - [`kmers`]: counts the k-mers of DNA sequences.
//! - [`contigs`]: finds the unitigs of DNA sequences.
//! - [`isx`]: sorts integers, as the benchmark ISx.
//! - [`dsm`]: integer sort, LU factorisation, a multigrid solver and Barnes-Hut on shared memory by pages.
//! - [`bale`]: irregular kernels, as the benchmark suite bale.
//! - [`explore`]: explores the states of a Petri net.
//! - [`surrogate`]: a simulation with a cache of its chemistry's results.
//! - [`petri`]: Petri nets for programs that explore their states.
//! - [`reactive`]: a reactive-transport simulation.
#![deny(unsafe_code)]

pub mod bale;
pub mod contigs;
pub mod dsm;
mod error;
pub mod explore;
mod gather;
pub mod isx;
mod kmer;
pub mod kmers;
pub mod petri;
pub mod reactive;
pub mod sequences;
pub mod surrogate;
mod timed;

pub use error::Error;
pub use gather::{STANDARD, check_output, gather, gather_values};
pub use timed::Timed;
