//! Programs on the containers of Probeline. Each is a function that all ranks of a job call, over any
//! transport; the command `probeline` has a subcommand for each.
//!
//! - [`kmers`]: counts the k-mers of DNA sequences.
//! - [`contigs`]: finds the unitigs of DNA sequences.
//! - [`isx`]: sorts integers, as the benchmark ISx.
//! - [`bale`]: irregular kernels, as the benchmark suite bale.
#![forbid(unsafe_code)]

pub mod bale;
pub mod contigs;
mod error;
mod gather;
pub mod isx;
mod kmer;
pub mod kmers;
pub mod sequences;

pub use error::Error;
pub use gather::check_output;
