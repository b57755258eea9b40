//! The data of a run: numbered, so that what the table holds need not be kept beside it.

use probeline_sim::Rng;
use probeline_table::MAX_DATA;

/// Numbers of one seed: below them, those that the table is filled with; then a run for each rank.
const SEED_BITS: u32 = 40;
const FILLED_BITS: u32 = 34;
/// 2^12 ranks, as many as the simulator has owners at most.
const RANK_BITS: u32 = 26;

/// The `n`th datum that the table is filled with.
pub(crate) fn filled(seed: u64, n: u64) -> u64 {
    (seed << SEED_BITS).wrapping_add(n) & MAX_DATA
}

/// New data of one rank, and any that the table was filled with.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    seed: u64,
    held: u64,
    next: u64,
    random: Rng,
}

impl Keys {
    /// Of a rank, where the table was filled with `held` data.
    pub(crate) fn new(seed: u64, rank: u32, held: u64) -> Self {
        let next = (1 << FILLED_BITS) + (u64::from(rank) << RANK_BITS);
        Self { seed, held, next, random: Rng::new(seed, 1 + u64::from(rank)) }
    }

    /// One that nobody has put yet, with a probability of so many in a hundred; else any that the
    /// table was filled with.
    pub(crate) fn draw(&mut self, new_percent: u32) -> u64 {
        if self.held == 0 || self.random.below(100) < u64::from(new_percent) {
            return self.new_one();
        }
        filled(self.seed, self.random.below(self.held))
    }

    /// One that nobody has put yet.
    pub(crate) fn new_one(&mut self) -> u64 {
        self.next += 1;
        filled(self.seed, self.next)
    }
}
