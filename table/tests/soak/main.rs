//! Long runs against a set: on the simulator where everything goes wrong, and between processes.
//!
//! `PROBELINE_SEED` replays one simulated run. The run between processes takes
//! `PROBELINE_SOAK_SECONDS`, 60 unless told otherwise.

#[path = "../common/mod.rs"]
mod common;
mod processes;
mod simulated;
