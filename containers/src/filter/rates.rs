//! Rates of false positives, and the size of a filter for a rate.
//!
//! A word with `i` keys of `k` bits each has as many bits set as `i k` draws from 64 hit, and another
//! key is found if its `k` draws hit these. The number of keys of a word has a Poisson distribution.

use super::MAX_BITS;

/// Bits of a word.
const WORD: usize = 64;
/// Keys of a word that are told apart; with more, all of its bits are taken as set.
const MAX_KEYS: usize = 64;
/// The smallest rate that a size is computed for.
const MIN_RATE: f64 = 1e-5;

/// The rates of words by their number of keys.
pub(super) struct Rates([f64; MAX_KEYS]);

impl Rates {
    /// Computes the rates for keys of this many bits.
    pub(super) fn new(bits: u32) -> Self {
        let mut rates = [0.0; MAX_KEYS];
        // The probability of each number of bits set.
        let mut set = [0.0; WORD + 1];
        set[0] = 1.0;
        for rate in &mut rates {
            let hits = set.iter().enumerate();
            *rate = hits.map(|(count, &share)| share * power(count as f64 / 64.0, bits)).sum();
            for _ in 0..bits {
                draw(&mut set);
            }
        }
        Self(rates)
    }

    /// Returns the rate of a filter with this many keys a word.
    pub(super) fn rate(&self, keys: f64) -> f64 {
        let mut share = exp_of_minus(keys);
        let (mut rate, mut left) = (0.0, 1.0);
        for (count, word) in self.0.iter().enumerate() {
            rate += share * word;
            left -= share;
            share *= keys / (count + 1) as f64;
        }
        rate + f64::max(left, 0.0)
    }
}

/// Draws one bit of a word, of which each may be set already.
fn draw(set: &mut [f64; WORD + 1]) {
    let mut below = 0.0;
    for (count, share) in set.iter_mut().enumerate() {
        let again = count as f64 / 64.0;
        let other = (WORD + 1 - count) as f64 / 64.0;
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
    let (mut most, mut best) = (0.0, 1);
    for bits in 1..=MAX_BITS {
        let keys = most_keys(&Rates::new(bits), rate);
        if keys > most {
            (most, best) = (keys, bits);
        }
    }
    // Rounded up, and at least 1.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let words = (items as f64 / f64::max(most, 1e-6)) as u64 + 1;
    (words, best)
}

/// Returns the most keys a word, on average, with at most this rate, found by halving.
fn most_keys(rates: &Rates, rate: f64) -> f64 {
    let (mut low, mut high) = (0.0, MAX_KEYS as f64);
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        if rates.rate(middle) <= rate { low = middle } else { high = middle }
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

    /// One bit a key: of a word with `i` keys, 1 - (63/64)^i of the bits are set.
    #[test]
    fn one_bit_rates_match_formula() {
        let rates = Rates::new(1);
        for (keys, rate) in rates.0.iter().enumerate() {
            let exact = 1.0 - f64::powf(63.0 / 64.0, keys as f64);
            assert!((rate - exact).abs() < 1e-12, "{keys}");
        }
    }

    #[test]
    fn smallest_sizes_reach_rate() {
        for rate in [0.5, 0.1, 0.01, 0.001, 0.0001] {
            let (words, bits) = smallest(1_000_000, rate);
            let of_words = |words: u64| Rates::new(bits).rate(1e6 / words as f64);
            assert!(of_words(words) <= rate * 1.0001, "{rate}");
            assert!(of_words(words * 99 / 100) > rate, "{rate}");
            println!("{rate}: {bits} bits, {:.1} bits a key", words as f64 * 64.0 / 1e6);
        }
    }
}
