//! Tests that need no process of their own, in one program that is linked once.

mod bounds;
mod optimizations;
mod paper;
