//! Rates of false positives, and the size of a filter for a rate.
//!
//! The number of keys of a word has a Poisson distribution. A key of `k` bits leaves `j` bits of the 64 unset with the
//! probability `(1 - j / 64)^k`, so all keys of a word that has `x` on average leave them unset with
//! `exp(-x (1 - (1 - j / 64)^k))`. Another key is found if none of its bits is unset: by inclusion and exclusion.

use super::MAX_BITS;

/// The smallest rate that a size is computed for.
const MIN_RATE: f64 = 1e-5;
/// The most keys a word, on average, that a size is computed for.
const MAX_KEYS: f64 = 64.0;

/// Returns the rate of a filter with this many keys a word, of this many bits each.
pub(super) fn rate(bits: u32, keys: f64) -> f64 {
    // The shares of keys by their number of bits, of which some are drawn twice.
    let mut shares = [0.0; MAX_BITS as usize + 1];
    shares[0] = 1.0;
    (0..bits).for_each(|_| draw(&mut shares));
    let of_distinct = |count: usize| {
        let (mut sum, mut ways) = (0.0, 1.0);
        for unset in 0..=count {
            let misses = power(1.0 - unset as f64 / 64.0, bits);
            sum += ways * exp_of_minus(keys * (1.0 - misses));
            ways *= -((count - unset) as f64) / (unset + 1) as f64;
        }
        sum
    };
    shares.iter().enumerate().map(|(count, share)| share * of_distinct(count)).sum()
}

/// Draws one bit of a word, of which each may be set already.
fn draw(shares: &mut [f64]) {
    let mut below = 0.0;
    for (count, share) in shares.iter_mut().enumerate() {
        let again = count as f64 / 64.0;
        let other = (65 - count) as f64 / 64.0;
        (*share, below) = (*share * again + below * other, *share);
    }
}

fn power(base: f64, exponent: u32) -> f64 {
    (0..exponent).fold(1.0, |product, _| product * base)
}

/// Returns e^-x for x from 0 on: the series for x / 2^10, squared ten times. `core` has no `exp`.
fn exp_of_minus(x: f64) -> f64 {
    let small = f64::min(x, 1000.0) / 1024.0;
    let series = (1..12).rev().fold(1.0, |sum, nth| 1.0 + small / f64::from(nth) * sum);
    (0..10).fold(1.0 / series, |power, _| power * power)
}

/// Returns the words and the bits of a key of the smallest filter with at most this rate.
pub(super) fn smallest(items: u64, rate: f64) -> (u64, u32) {
    let rate = f64::clamp(if rate.is_nan() { 0.0 } else { rate }, MIN_RATE, 0.9);
    let (mut max, mut best) = (0.0, 1);
    for bits in 1..=MAX_BITS {
        let keys = max_keys(bits, rate);
        if keys > max {
            (max, best) = (keys, bits);
        }
    }
    // Rounded up, and at least 1.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let words = (items as f64 / f64::max(max, 1e-6)) as u64 + 1;
    (words, best)
}

/// Returns the maximum keys a word, on average, with at most this rate, found by halving.
fn max_keys(bits: u32, max: f64) -> f64 {
    let (mut low, mut high) = (0.0, MAX_KEYS);
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        if rate(bits, middle) <= max { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_e() {
        for x in [0.0, 0.001, 1.0, 3.5, 20.0, 63.0] {
            let exact = f64::exp(-x);
            assert!((exp_of_minus(x) - exact).abs() <= exact * 1e-9, "{x}");
        }
    }

    /// The mean over the words' numbers of keys: a word of `i` keys has as many bits set as `i k` draws hit.
    #[test]
    fn rates_match_mean_of_words() {
        for (bits, keys) in (1..=MAX_BITS).flat_map(|bits| [(bits, 0.5), (bits, 5.0), (bits, 30.0)])
        {
            let (mut set, mut share, mut mean) = ([0.0; 65], f64::exp(-keys), 0.0);
            set[0] = 1.0;
            for count in 0..200 {
                let hits = set.iter().enumerate();
                let found: f64 = hits.map(|(of, p)| p * power(of as f64 / 64.0, bits)).sum();
                mean += share * found;
                share *= keys / f64::from(count + 1);
                (0..bits).for_each(|_| draw(&mut set));
            }
            let rate = rate(bits, keys);
            assert!((rate - mean).abs() < 1e-10, "{bits} {keys}: {rate} {mean}");
        }
    }

    #[test]
    fn smallest_sizes_reach_rate() {
        for rate in [0.5, 0.1, 0.01, 0.001, 0.0001] {
            let (words, bits) = smallest(1_000_000, rate);
            let hash_words = |words: u64| super::rate(bits, 1e6 / words as f64);
            assert!(hash_words(words) <= rate * 1.0001, "{rate}");
            assert!(hash_words(words * 99 / 100) > rate, "{rate}");
            println!("{rate}: {bits} bits, {:.1} bits a key", words as f64 * 64.0 / 1e6);
        }
    }
}
