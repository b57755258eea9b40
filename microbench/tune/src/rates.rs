//! Measured times of READs and compare-and-swaps.

use std::collections::BTreeMap;

/// Nanoseconds per operation by operations in flight: the roundtrip with one, a share of it with
/// more.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rates {
    /// By words and by depth.
    reads: BTreeMap<u32, BTreeMap<u32, f64>>,
    swaps: BTreeMap<u32, f64>,
}

impl Rates {
    /// Nothing measured yet, by which everything takes no time.
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

    /// The deepest that READs were measured at; 1 if none were.
    #[must_use]
    pub fn deepest(&self) -> u32 {
        self.reads.values().flat_map(BTreeMap::keys).copied().max().unwrap_or(1)
    }

    /// All READs that were measured: words, how many in flight, and nanoseconds of each.
    pub fn reads(&self) -> impl Iterator<Item = (u32, u32, f64)> {
        self.reads
            .iter()
            .flat_map(|(&words, depths)| depths.iter().map(move |(&depth, &ns)| (words, depth, ns)))
    }

    /// All compare-and-swaps: how many in flight, and nanoseconds of each.
    pub fn swaps(&self) -> impl Iterator<Item = (u32, f64)> {
        self.swaps.iter().map(|(&depth, &ns)| (depth, ns))
    }

    /// Sizes that were measured, in words.
    pub fn words(&self) -> impl Iterator<Item = u32> {
        self.reads.keys().copied()
    }

    /// Nanoseconds of a READ of `words` words with `depth` in flight, interpolated between
    /// measurements.
    #[must_use]
    pub fn read_ns(&self, words: u32, depth: u32) -> f64 {
        self.of_words(words, |depths| between(depths, depth, |ns| *ns))
    }

    /// The least nanoseconds of a READ of `words` words over all depths.
    #[must_use]
    pub fn read_least_ns(&self, words: u32) -> f64 {
        self.of_words(words, least)
    }

    /// Nanoseconds of a compare-and-swap with `depth` in flight.
    #[must_use]
    pub fn swap_ns(&self, depth: u32) -> f64 {
        between(&self.swaps, depth, |ns| *ns)
    }

    /// What it takes at best.
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

/// On the line between the keys on both sides; beyond the last and before the first what these
/// have.
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
