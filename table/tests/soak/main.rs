//! Long runs against a set: on the simulator with all kinds of faults, and between processes.
//!
//! `PROBELINE_SEED` replays one simulated run. The run between processes takes
//! `PROBELINE_SOAK_SECONDS`, 60 by default.

#[path = "../common/mod.rs"]
mod common;
mod processes;
mod simulated;
