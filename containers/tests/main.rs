//! Tests of whole containers, in one program that is linked once.

mod aggregator;
mod array;
mod costs;
mod counters;
mod edges;
mod filter;
mod maps;
mod queue;
mod simulated;
