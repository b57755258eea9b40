//! The C interface of Probeline: `probeline.h`, a shared and a static library.
//!
//! Each function converts its arguments, calls the library, and returns a code. No pointer is
//! dereferenced before it was compared with NULL, and no panic leaves a function: it becomes
//! [`PROBELINE_ERROR_PANIC`](probeline_status::PROBELINE_ERROR_PANIC). `docs/guide/c.md` is for
//! users.
//!
//! The documentation of public items is that of the header, which `tests/header.rs` writes. A SAFETY
//! comment with `(# Safety)` names the clause of that section of its function on which it relies. The
//! program in C upholds those of `extern "C"` functions, the caller in this crate the others.
// The names are those of C.
#![allow(non_camel_case_types)]
// A build without some transports does not use their options.
#![cfg_attr(
    not(all(feature = "shm", feature = "verbs", feature = "ucx")),
    allow(dead_code, unused_variables)
)]

mod aggregator;
mod array;
mod cache;
mod call;
mod counters;
mod elements;
mod handle;
mod job;
mod job_options;
mod map;
mod map_file;
mod mpi_dht;
mod mpi_dht_file;
mod network;
mod operations;
mod options;
mod queue;
mod rendezvous;
mod status;
mod structure;
mod table;

pub use aggregator::*;
pub use array::*;
pub use counters::*;
pub use job::*;
pub use job_options::*;
pub use map::*;
pub use map_file::*;
pub use mpi_dht::*;
pub use queue::*;
pub use status::*;
pub use table::*;
