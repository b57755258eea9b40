//! Draws keys before the clock starts.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, Zipf};

use probeline::table::MAX_KEY;

use crate::failure::{Failure, Result};

/// The exponent of the Zipf distribution, as in YCSB.
pub(crate) const ZIPF_EXPONENT: f64 = 0.99;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Keys {
    /// Uniform from 0 to less than this number.
    Uniform(u64),
    /// Zipf-distributed over this number of keys.
    Zipf(u64),
}

impl Keys {
    /// Draws `count` keys for one rank. The same seed and rank give the same keys.
    #[allow(clippy::cast_possible_truncation)]
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

/// Returns the key that is inserted as the `n`th. All are different, also from those of other
/// seeds.
#[inline]
pub(crate) fn nth(seed: u64, n: u64) -> u64 {
    // A seed has 2^40 consecutive keys, modulo the 63 bits that a bucket holds.
    (seed << 40).wrapping_add(n) & MAX_KEY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_seeded_keys_in_range() {
        for keys in [Keys::Uniform(1000), Keys::Zipf(1000)] {
            let drawn = keys.draw(20_000, 7, 1).unwrap();
            assert!(drawn.iter().all(|&key| key < 1000));
            assert_eq!(drawn, keys.draw(20_000, 7, 1).unwrap());
            assert_ne!(drawn, keys.draw(20_000, 7, 2).unwrap());
            assert_ne!(drawn, keys.draw(20_000, 8, 1).unwrap());
        }
    }

    #[test]
    fn first_zipf_key_dominates() {
        let drawn = Keys::Zipf(1000).draw(100_000, 1, 0).unwrap();
        let share = |key| drawn.iter().filter(|&&k| k == key).count();
        // 1 / H(1000, 0.99) is 13 %.
        assert!((12_000..14_500).contains(&share(0)), "{}", share(0));
        assert!(share(0) > share(1) && share(1) > share(5));
    }
}
