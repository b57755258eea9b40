//! Tests of the whole map, in one program that is linked once.

mod common;
mod faults;
#[cfg(feature = "std")]
mod file;
mod map;
mod modes;
mod update;
