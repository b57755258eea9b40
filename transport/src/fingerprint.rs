//! Numbers by which the ranks of a job notice that they run different builds.

/// A number that changes with everything it is computed from: the layout of memory or of messages
/// that ranks share.
///
/// Compute it by the functions and constants that decide where words are and what they mean, so that
/// another hash or another order of fields changes it without a version that somebody must remember to
/// raise. The package's version is part of it.
///
/// ```
/// use probeline_transport::Fingerprint;
///
/// const MINE: u64 = Fingerprint::new(1).with(8).get();
/// assert_eq!(MINE, Fingerprint::new(1).with(8).get());
/// assert_ne!(MINE, Fingerprint::new(1).with(9).get());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(u64);

/// 2^64 divided by the golden ratio, and an odd constant without structure: the fractional part of the
/// square root of 3.
const START: u64 = 0x9e37_79b9_7f4a_7c15;
const FACTOR: u64 = 0xbb67_ae85_84ca_a73b;

impl Fingerprint {
    /// Starts with a version, for what no function computes: the order of operations.
    #[must_use]
    pub const fn new(version: u64) -> Self {
        Self::from_package(env!("CARGO_PKG_VERSION")).with(version)
    }

    const fn from_package(version: &str) -> Self {
        let mut all = Self(START);
        let mut rest = version.as_bytes();
        while let [byte, tail @ ..] = rest {
            all = all.with(*byte as u64);
            rest = tail;
        }
        all
    }

    /// Adds a word. The order of words matters.
    #[must_use]
    pub const fn with(self, word: u64) -> Self {
        let product = (self.0.rotate_left(23) ^ word) as u128 * FACTOR as u128;
        // The two halves of the product.
        #[allow(clippy::cast_possible_truncation)]
        let folded = product as u64 ^ (product >> 64) as u64;
        Self(folded.wrapping_add(START))
    }

    /// Adds words.
    #[must_use]
    pub const fn with_all(mut self, mut words: &[u64]) -> Self {
        while let [word, rest @ ..] = words {
            self = self.with(*word);
            words = rest;
        }
        self
    }

    /// Returns the number, which is not 0.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0 | 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_with_version_and_order() {
        let all = [
            Fingerprint::from_package("0.1.0").with_all(&[1, 2]),
            Fingerprint::from_package("0.1.1").with_all(&[1, 2]),
            Fingerprint::from_package("0.1.0").with_all(&[2, 1]),
            Fingerprint::from_package("0.1.0").with_all(&[1, 2, 0]),
        ];
        for (nth, one) in all.iter().enumerate() {
            assert!(all[..nth].iter().all(|other| other.get() != one.get()), "{all:?}");
        }
        let mine = Fingerprint::new(7);
        assert_eq!(mine, Fingerprint::from_package(env!("CARGO_PKG_VERSION")).with(7));
    }
}
