//! Cases of one process, in one program that is linked once.

mod collective_errors;
mod corners;
mod direct;
mod front;
mod positions;
mod tree;
mod wide;
