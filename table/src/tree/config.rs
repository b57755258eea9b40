//! The parameters of a tree table and their validation against a transport.

use probeline_pipeline::ConfigError;
use probeline_transport::{Caps, Fingerprint, Geometry, Sizes};

use super::shape::{REFERENCE_BITS, References, Shape};
use crate::config::Config;

/// The parameters of a [`TreeTable`](crate::TreeTable).
///
/// All owners give the same values, except for those of [`Config`] that may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeConfig {
    /// The buckets, for the keys and for their inner nodes: at most
    /// [`MAX_BUCKETS`](Self::MAX_BUCKETS) on all owners.
    pub buckets: Config,
    /// Bits of a key: its lowest ones, from the first word on; all others are 0.
    pub key_bits: u32,
}

impl TreeConfig {
    /// The most buckets of all owners, as many as a reference tells apart: 2^31, 16 GiB.
    pub const MAX_BUCKETS: u64 = 1 << REFERENCE_BITS;

    /// Returns the configuration of a table of keys of `key_bits` bits at the start of the window.
    /// The buckets are those of [`Config::new`].
    ///
    /// A key takes one bucket, and inner nodes share others. States of a model often need a fifth
    /// more than one bucket a key; keys without anything in common need one bucket for each 31 bits.
    #[must_use]
    pub const fn new(buckets_per_owner: u64, key_bits: u32) -> Self {
        Self { buckets: Config::new(buckets_per_owner), key_bits }
    }

    /// Returns the words of each window that the table uses.
    #[must_use]
    pub const fn words(&self) -> u64 {
        self.buckets.words()
    }

    /// Returns the engine sizes for this table with `operations` operations in flight.
    #[must_use]
    pub const fn sizes(&self, operations: u32) -> Sizes {
        let window_words = self.buckets.first_word.saturating_add(self.words());
        Sizes { window_words, ..self.buckets.sizes(operations) }
    }

    /// Checks all parameters against the limits of the transport, for keys of `words` words.
    pub(crate) fn check(
        &self,
        words: usize,
        caps: &Caps,
        geometry: &Geometry,
    ) -> Result<(), ConfigError> {
        self.buckets.check(caps, geometry)?;
        let max = u32::try_from(words).unwrap_or(u32::MAX).saturating_mul(u64::BITS);
        let what = "key_bits, within the words of a key,";
        ConfigError::check_range(what, self.key_bits.into(), 1, max.into())?;
        let what = "buckets_per_owner, which a WideTable does not limit,";
        let max = Self::MAX_BUCKETS / u64::from(geometry.owners.max(1));
        ConfigError::check_range(what, self.buckets.buckets_per_owner, 1, max)
    }
}

/// Adds the pairs of a few keys to the fingerprint of the build.
pub(crate) fn fingerprint(all: Fingerprint) -> Fingerprint {
    const KEYS: [[u64; 2]; 3] = [[0, 0], [1, 2], [u64::MAX, 3]];
    // Four slots, and so three nodes.
    let shape = Shape::new(100);
    KEYS.iter().fold(all, |all, key| {
        let (mut references, mut node, mut all) = (References::EMPTY, shape.first(), all);
        for reference in 1..=3 {
            all = all.with(shape.pair(node, key, &references));
            references.set(node, reference);
            node = node.next();
        }
        all
    })
}
