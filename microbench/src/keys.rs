//! Keys: the data that operations look for, made before the clock runs.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, Zipf};

use probeline::table::MAX_DATA;

use crate::failure::{Failure, Result};

/// How often the most wanted keys are wanted, as YCSB has it.
pub(crate) const ZIPF_EXPONENT: f64 = 0.99;

/// Where a rank's keys come from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Keys {
    /// All equally often, from 0 to less than this.
    Uniform(u64),
    /// Zipf-distributed over this many.
    Zipf(u64),
}

impl Keys {
    /// `count` keys for one rank, the same for the same seed and rank.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub(crate) fn draw(self, count: usize, seed: u64, rank: u32) -> Result<Vec<u64>> {
        let mut rng = SmallRng::seed_from_u64(seed ^ u64::from(rank) << 32);
        Ok(match self {
            Self::Uniform(range) => (0..count).map(|_| rng.random_range(0..range)).collect(),
            Self::Zipf(range) => {
                let zipf = Zipf::new(range as f64, ZIPF_EXPONENT)
                    .map_err(|error| Failure::new(format!("no Zipf of {range} keys: {error}")))?;
                // A sample is a whole number from 1 to `range`.
                (0..count).map(|_| zipf.sample(&mut rng) as u64 - 1).collect()
            }
        })
    }
}

/// The data that is inserted as the nth: all different, others with another seed.
#[inline]
pub(crate) fn nth(seed: u64, n: u64) -> u64 {
    // A run of 2^40 for each seed, round the 63 bits that a bucket holds.
    (seed << 40).wrapping_add(n) & MAX_DATA
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_their_range_and_seed() {
        for keys in [Keys::Uniform(1000), Keys::Zipf(1000)] {
            let drawn = keys.draw(20_000, 7, 1).unwrap();
            assert!(drawn.iter().all(|&key| key < 1000));
            assert_eq!(drawn, keys.draw(20_000, 7, 1).unwrap());
            assert_ne!(drawn, keys.draw(20_000, 7, 2).unwrap());
            assert_ne!(drawn, keys.draw(20_000, 8, 1).unwrap());
        }
    }

    #[test]
    fn zipf_wants_its_first_key_most() {
        let drawn = Keys::Zipf(1000).draw(100_000, 1, 0).unwrap();
        let share = |key| drawn.iter().filter(|&&k| k == key).count();
        // 1 / H(1000, 0.99) is 13 %.
        assert!((12_000..14_500).contains(&share(0)), "{}", share(0));
        assert!(share(0) > share(1) && share(1) > share(5));
    }
}
