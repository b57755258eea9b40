//! Measured times of READs and compare-and-swaps.

use std::collections::BTreeMap;

/// Nanoseconds per operation by operations in flight: the roundtrip at depth 1, and the inverse of
/// the rate at larger depths.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rates {
    /// By words, then by depth.
    reads: BTreeMap<u32, BTreeMap<u32, f64>>,
    swaps: BTreeMap<u32, f64>,
}

impl Rates {
    /// Creates rates without measurements, by which every operation takes 0 ns.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a measurement: READs of `words` words took `ns` each with `depth` in flight.
    pub fn read(&mut self, words: u32, depth: u32, ns: f64) {
        self.reads.entry(words).or_default().insert(depth, ns);
    }

    /// Adds a measurement: compare-and-swaps took `ns` each with `depth` in flight.
    pub fn swap(&mut self, depth: u32, ns: f64) {
        self.swaps.insert(depth, ns);
    }

    /// Returns the maximum depth at which READs were measured; 1 if none were.
    #[must_use]
    pub fn deepest(&self) -> u32 {
        self.reads.values().flat_map(BTreeMap::keys).copied().max().unwrap_or(1)
    }

    /// Returns all measured READs: words, operations in flight, and nanoseconds of each.
    pub fn reads(&self) -> impl Iterator<Item = (u32, u32, f64)> {
        self.reads
            .iter()
            .flat_map(|(&words, depths)| depths.iter().map(move |(&depth, &ns)| (words, depth, ns)))
    }

    /// Returns all measured compare-and-swaps: operations in flight, and nanoseconds of each.
    pub fn swaps(&self) -> impl Iterator<Item = (u32, f64)> {
        self.swaps.iter().map(|(&depth, &ns)| (depth, ns))
    }

    /// Returns the measured sizes, in words.
    pub fn words(&self) -> impl Iterator<Item = u32> {
        self.reads.keys().copied()
    }

    /// Returns the nanoseconds of a READ of `words` words with `depth` in flight, interpolated
    /// between measurements.
    #[must_use]
    pub fn read_ns(&self, words: u32, depth: u32) -> f64 {
        self.of_words(words, |depths| between(depths, depth, |ns| *ns))
    }

    /// Returns the minimum nanoseconds of a READ of `words` words over all depths.
    #[must_use]
    pub fn read_least_ns(&self, words: u32) -> f64 {
        self.of_words(words, least)
    }

    /// Returns the nanoseconds of a compare-and-swap with `depth` in flight.
    #[must_use]
    pub fn swap_ns(&self, depth: u32) -> f64 {
        between(&self.swaps, depth, |ns| *ns)
    }

    /// Returns the minimum nanoseconds of a compare-and-swap over all depths.
    #[must_use]
    pub fn swap_least_ns(&self) -> f64 {
        least(&self.swaps)
    }

    fn of_words(&self, words: u32, of: impl Fn(&BTreeMap<u32, f64>) -> f64) -> f64 {
        between(&self.reads, words, of)
    }
}

fn least(depths: &BTreeMap<u32, f64>) -> f64 {
    depths.values().copied().reduce(f64::min).unwrap_or(0.0)
}

/// Interpolates linearly between keys. Outside of the keys, returns the value of the nearest one.
pub(crate) fn between<V>(values: &BTreeMap<u32, V>, at: u32, of: impl Fn(&V) -> f64) -> f64 {
    let below = values.range(..=at).next_back();
    let above = values.range(at..).next();
    match (below, above) {
        (Some((&low, first)), Some((&high, second))) if low < high => {
            let part = f64::from(at - low) / f64::from(high - low);
            of(first) * (1.0 - part) + of(second) * part
        }
        (Some((_, value)), _) | (None, Some((_, value))) => of(value),
        (None, None) => 0.0,
    }
}
