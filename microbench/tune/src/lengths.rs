//! Computes the number of buckets that operations probe by linear probing.

/// The number of buckets of the table that is filled for the counts, and its seed. The counts are
/// reproducible.
const BUCKETS: usize = 1 << 18;
const SEED: u64 = 1;
/// Counted inserts start this far below the load factor and end at it.
const STEP: f64 = 0.02;
/// The probability that at least one operation, of as many as the table has buckets, exceeds its
/// probe limit.
const FULL: f64 = 1e-6;

/// The distribution of the number of probed buckets, for finds and for inserts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lengths {
    found: Vec<f64>,
    inserted: Vec<f64>,
}

impl Lengths {
    /// Returns the distribution at a load factor from 0 to 0.95. It fills a table of 2^18 buckets
    /// with random keys by linear probing and counts, which is exact except for noise. Closed
    /// formulas exist for the means only (Knuth, TAOCP volume 3, section 6.4, theorem K).
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    pub fn at(load_factor: f64) -> Self {
        let held = ((BUCKETS as f64 * load_factor.clamp(0.0, 0.95)) as usize).max(1);
        let counted = held - ((BUCKETS as f64 * STEP) as usize).min(held);
        let mut taken = vec![false; BUCKETS];
        let (mut found, mut inserted) = (Vec::new(), Vec::new());
        let mut state = SEED;
        for nth in 0..held {
            let home = next(&mut state) as usize % BUCKETS;
            let mut at = home;
            while taken[at] {
                at = (at + 1) % BUCKETS;
            }
            taken[at] = true;
            let length = (at + BUCKETS - home) % BUCKETS;
            count(&mut found, length);
            if nth >= counted {
                count(&mut inserted, length);
            }
        }
        Self { found: shares(found), inserted: shares(inserted) }
    }

    /// Returns the share of finds, or of inserts, that probe each number of buckets from 1 on.
    pub(crate) fn of(&self, inserts: bool) -> impl Iterator<Item = (u32, f64)> {
        let shares = if inserts { &self.inserted } else { &self.found };
        (1..).zip(shares.iter().copied())
    }

    /// Returns the mean number of buckets that finds, or inserts, probe.
    #[must_use]
    pub fn mean(&self, inserts: bool) -> f64 {
        self.of(inserts).map(|(buckets, share)| f64::from(buckets) * share).sum()
    }
}

/// Returns the probe limit for a table of this number of buckets: the consecutive buckets that an
/// operation may have to probe. At load factor a, runs of n occupied buckets decrease as e^(-n (a -
/// 1 - ln a)). The probability that any of `buckets` operations exceeds the limit is one in a
/// million.
#[must_use]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
pub fn probe_limit(buckets: u64, load_factor: f64) -> u64 {
    let alpha = load_factor.clamp(0.01, 0.95);
    let fall = alpha - 1.0 - alpha.ln();
    let probe_limit = (buckets as f64 / FULL).ln() / fall;
    (probe_limit.ceil() as u64).clamp(8, buckets.max(8))
}

fn count(counts: &mut Vec<u64>, length: usize) {
    if counts.len() <= length {
        counts.resize(length + 1, 0);
    }
    counts[length] += 1;
}

#[allow(clippy::cast_precision_loss)]
fn shares(counts: Vec<u64>) -> Vec<f64> {
    let all = counts.iter().sum::<u64>().max(1) as f64;
    counts.iter().map(|&count| count as f64 / all).collect()
}

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The means by Knuth: (1 + 1/(1 - a))/2 for finds, (1 + 1/(1 - a)^2)/2 for inserts.
    #[test]
    fn means_match_knuths_formulas() {
        for (alpha, within) in [(0.1, 0.02), (0.5, 0.02), (0.7, 0.05), (0.9, 0.15)] {
            let lengths = Lengths::at(alpha);
            let found = f64::midpoint(1.0, 1.0 / (1.0 - alpha));
            assert!((lengths.mean(false) / found - 1.0).abs() < within, "{alpha}");
            let low = f64::midpoint(1.0, 1.0 / (1.0 - alpha + STEP).powi(2));
            let high = f64::midpoint(1.0, 1.0 / (1.0 - alpha).powi(2));
            let mean = lengths.mean(true);
            assert!(mean > low * (1.0 - within) && mean < high * (1.0 + within), "{alpha}: {mean}");
        }
    }

    #[test]
    fn no_operation_exceeds_the_probe_limit() {
        for alpha in [0.1, 0.5, 0.9] {
            let lengths = Lengths::at(alpha);
            let longest = lengths.of(true).chain(lengths.of(false)).map(|(n, _)| n).max();
            let probe_limit = probe_limit(BUCKETS as u64, alpha);
            assert!(
                longest.is_some_and(|longest| u64::from(longest) <= probe_limit),
                "{alpha}: {probe_limit}"
            );
        }
        assert_eq!(probe_limit(4, 0.9), 8);
    }
}
