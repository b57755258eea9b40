//! Clusters for the tests of structures.

use crate::{Config, Faults, Model, Order, Rng};

impl Config {
    /// Returns the configuration with torn, scattered and repeated READs, an order of completions and delays drawn by
    /// `rng`, and `errors_ppm` operations in a million with each kind of error.
    #[must_use]
    pub fn faulty(self, seed: u64, errors_ppm: u32, rng: &mut Rng) -> Self {
        Self {
            seed,
            order: if rng.below(4) > 0 { Order::Shuffled } else { Order::ByTime },
            model: Model { jitter_mean_ns: 100 + rng.below(2_000), ..Model::simple(2_000) },
            faults: Faults {
                torn_read_ppm: 500_000,
                repeated_read_ppm: 200_000,
                error_done_ppm: errors_ppm,
                error_undone_ppm: errors_ppm,
                error_late_ppm: errors_ppm,
                ..Faults::none()
            },
            scatter_reads: true,
            word_reads_whole: false,
            ..self
        }
    }
}
