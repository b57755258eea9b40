//! Options of arrays.

use core::ffi::c_int;

use crate::options::Allowed::{Constants, Flag, Range};
use crate::options::{Extensible, MAX_KEYS, MAX_OPERATIONS, options};
use crate::structure::MAX_BYTES;

/// Consecutive elements on each rank.
pub const PROBELINE_DISTRIBUTION_BLOCK: c_int = 0;
/// Element i on rank i modulo the number of ranks.
pub const PROBELINE_DISTRIBUTION_CYCLIC: c_int = 1;

/// Options of an array. `operations` and `direct` may differ between ranks.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct probeline_array_options {
    /// The size of this structure, which probeline_array_options_init() stores.
    pub size: usize,
    /// Elements of the whole array, 1 to 2^48. [no default]
    pub len: u64,
    /// Bytes of an element, 1 to 1024; atomics need 8. Elements take whole words of 8 bytes. [default: 8]
    pub element_bytes: usize,
    /// PROBELINE_DISTRIBUTION_... [default: PROBELINE_DISTRIBUTION_BLOCK]
    pub distribution: c_int,
    /// Operations of a batch in flight at once, 1 to 65,536; over verbs at most 16,384. A device may have
    /// less. [default: 32]
    pub operations: u32,
    /// Whether the CPU itself reads and writes the memory of all ranks where it can: 0 or 1.
    /// [default: 1]
    pub direct: c_int,
}

// SAFETY: repr(C); numbers, of which the first is the size.
unsafe impl Extensible for probeline_array_options {}

options!(probeline_array_options |_|
    len = 0, Range(1, MAX_KEYS);
    element_bytes = 8, Range(1, MAX_BYTES as u64);
    distribution = PROBELINE_DISTRIBUTION_BLOCK, Constants(&[
        "PROBELINE_DISTRIBUTION_BLOCK",
        "PROBELINE_DISTRIBUTION_CYCLIC",
    ]);
    operations = 32, Range(1, MAX_OPERATIONS);
    direct = 1, Flag;
);
