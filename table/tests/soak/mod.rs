//! Long runs against a set: on the simulator, with and without faults.
//!
//! `PROBELINE_SEED` replays one simulated run. `killed.rs` has the runs between processes.

mod simulated;
