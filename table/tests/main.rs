//! Tests that need the whole crate, in one program that is linked once.

mod cases;
mod collective;
mod common;
mod grow;
mod soak;
mod speed;
