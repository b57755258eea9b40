//! Cases of one process, in one program that is linked once.

mod collective_errors;
mod config;
mod corners;
mod direct;
mod front;
mod futures;
mod positions;
mod tree;
mod wide;
