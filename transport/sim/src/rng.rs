//! The only source of randomness: a small generator that draws the same on every platform.

/// A SplitMix64 generator (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
/// OOPSLA 2014). Drivers may use it too, so that the same seed replays them.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

/// An exponential draw is capped at this multiple of the mean; 1 in 10^27 draws is longer.
const TAIL_MEANS: u64 = 64;

impl Rng {
    /// Creates the generator for `seed`; different `stream`s of one seed are unrelated.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Self {
        Self { state: mix(seed ^ mix(stream)) }
    }

    /// Draws 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// Draws a number below `bound`, or 0 if `bound` is 0. Its bias is at most `bound` / 2^64.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        scale(bound, self.bits())
    }

    /// Draws a number from 0 to `max`, inclusive.
    #[inline]
    pub fn up_to(&mut self, max: u64) -> u64 {
        if max == 0 { 0 } else { self.below(max.saturating_add(1)) }
    }

    /// Draws true with a probability of `ppm` in a million.
    #[inline]
    pub fn chance(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.below(1_000_000) < u64::from(ppm)
    }

    /// Draws from the exponential distribution with this mean, by von Neumann's comparisons
    /// ("Various techniques used in connection with random digits", 1951), which need no logarithm.
    /// A mean of 0 draws nothing.
    pub fn exponential(&mut self, mean: u64) -> u64 {
        if mean == 0 {
            return 0;
        }
        for means in 0..TAIL_MEANS {
            let fraction = self.bits();
            if self.falls(fraction) % 2 == 1 {
                return mean.saturating_mul(means).saturating_add(scale(mean, fraction));
            }
        }
        mean.saturating_mul(TAIL_MEANS)
    }

    /// Counts the strictly decreasing draws, `first` included. A strictly decreasing run is finite;
    /// 20 decreases in a row happen once in 10^18.
    fn falls(&mut self, first: u64) -> u32 {
        let (mut last, mut falls) = (first, 1);
        loop {
            let next = self.bits();
            if next >= last {
                return falls;
            }
            last = next;
            falls += 1;
        }
    }
}

/// Returns `whole` times `fraction` / 2^64.
#[inline]
fn scale(whole: u64, fraction: u64) -> u64 {
    ((u128::from(whole) * u128::from(fraction)) >> 64) as u64
}

/// Applies the finaliser of SplitMix64: every input bit affects every output bit.
#[inline]
pub(crate) fn mix(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// The random streams of a cluster's seed. Each use has its own stream, so that an additional draw
/// in one does not change the draws of another.
pub(crate) mod streams {
    pub(crate) const NETWORK: u64 = 1;
    pub(crate) const FAULTS: u64 = 2;
    pub(crate) const ORDER: u64 = 3;
    pub(crate) const SWARM: u64 = 4;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_include_both_bounds() {
        let mut rng = Rng::new(1, 1);
        let draws: alloc::vec::Vec<u64> = (0..1_000).map(|_| rng.up_to(3)).collect();
        assert!((0..=3).all(|value| draws.contains(&value)));
        assert!(draws.iter().all(|&draw| draw <= 3));
        assert_eq!((rng.below(0), rng.below(1), rng.up_to(0)), (0, 0, 0));
        assert!(rng.up_to(u64::MAX) > 0);
    }

    #[test]
    fn chance_takes_parts_per_million() {
        let mut rng = Rng::new(2, 1);
        let hits = (0..100_000).filter(|_| rng.chance(250_000)).count();
        assert!((24_000..26_000).contains(&hits), "{hits}");
        assert!((0..1_000).all(|_| rng.chance(1_000_000) && !rng.chance(0)));
    }

    /// A share of e^-k of the draws exceeds k times the mean.
    #[test]
    fn exponential_has_mean_and_tail() {
        let mut rng = Rng::new(3, 1);
        let draws: alloc::vec::Vec<u64> = (0..100_000).map(|_| rng.exponential(1_000)).collect();
        let mean = draws.iter().sum::<u64>() / 100_000;
        assert!((980..1_020).contains(&mean), "{mean}");
        for (means, share) in [(1, 36_788), (2, 13_534), (4, 1_832)] {
            let beyond = draws.iter().filter(|&&draw| draw > means * 1_000).count();
            assert!(beyond.abs_diff(share) < share / 10, "{beyond} beyond {means} means");
        }
    }

    #[test]
    fn streams_of_one_seed_differ() {
        assert_ne!(Rng::new(7, 1).bits(), Rng::new(7, 2).bits());
        assert_ne!(Rng::new(7, 1).bits(), Rng::new(8, 1).bits());
        assert_eq!(Rng::new(7, 1).bits(), Rng::new(7, 1).bits());
    }
}
