//! The limits of a machine, measured on demand: those of its memory by [`memory`], those
//! of a transport by [`remote`]. A result divided by the limit of the same run shows how much of
//! the machine it uses, on any machine and under any load.
#![deny(unsafe_code)]

mod lines;
pub mod memory;
#[allow(unsafe_code)]
mod prefetch;
mod random;
pub mod remote;
