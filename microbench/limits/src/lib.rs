//! What a machine can do at best, measured now: its memory, by [`memory`], and a transport, by
//! [`remote`]. A result beside the limit that was measured in the same run says how much of the
//! machine it uses, on any machine and however busy it is.
#![deny(unsafe_code)]

mod lines;
pub mod memory;
#[allow(unsafe_code)]
mod prefetch;
mod random;
pub mod remote;
