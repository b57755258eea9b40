//! The keys of a run. They are numbered, so that the contents of the table need not be stored
//! twice.

use probeline_sim::Rng;
use probeline_table::MAX_KEY;

/// Bits of the number of a key: first the keys that fill the table, then a range for each rank.
const SEED_BITS: u32 = 40;
const FILLED_BITS: u32 = 34;
/// 2^12 ranks, the maximum of the simulator.
const RANK_BITS: u32 = 26;

/// Returns the `n`th key that fills the table.
pub(crate) fn filled(seed: u64, n: u64) -> u64 {
    (seed << SEED_BITS).wrapping_add(n) & MAX_KEY
}

/// The keys of one rank: new ones, and those that fill the table.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    seed: u64,
    held: u64,
    next: u64,
    random: Rng,
}

impl Keys {
    /// Creates the keys of a rank for a table that is filled with `held` keys.
    pub(crate) fn new(seed: u64, rank: u32, held: u64) -> Self {
        let next = (1 << FILLED_BITS) + (u64::from(rank) << RANK_BITS);
        Self { seed, held, next, random: Rng::new(seed, 1 + u64::from(rank)) }
    }

    /// Returns a new key with a probability of `new_percent` percent, otherwise one that fills the
    /// table.
    pub(crate) fn draw(&mut self, new_percent: u32) -> u64 {
        if self.held == 0 || self.random.below(100) < u64::from(new_percent) {
            return self.new_one();
        }
        filled(self.seed, self.random.below(self.held))
    }

    /// Returns whether a drawn key is new.
    pub(crate) fn is_new(&self, key: u64) -> bool {
        key.wrapping_sub(filled(self.seed, 0)) & MAX_KEY >= 1 << FILLED_BITS
    }

    pub(crate) fn new_one(&mut self) -> u64 {
        self.next += 1;
        filled(self.seed, self.next)
    }
}
