//! Programs on the containers of Probeline. Each is a function that all ranks of a job call, over any
//! transport; the command `probeline` has a subcommand for each.
//!
//! - [`kmers`]: counts the k-mers of DNA sequences.
//! - [`contigs`]: finds the unitigs of DNA sequences.
#![forbid(unsafe_code)]

pub mod contigs;
mod error;
mod gather;
mod kmer;
pub mod kmers;
pub mod sequences;

pub use error::Error;
