//! The options of a table beyond the paper's algorithm.

use crate::layout::LINE_BUCKETS;

/// The choice of C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkChoice {
    /// Always `Config::chunk_buckets`.
    Fixed,
    /// Chosen for each operation, up to `Config::chunk_buckets` and at most 512: the C of least
    /// cost for the buckets that recent operations examined, given the cost of a READ. The paper's
    /// future work (section 5).
    Adaptive(ReadCost),
}

/// The condition for requesting the next chunk before the present one is scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(rename_all = "lowercase"))]
pub enum ReadAhead {
    /// Always, as in the paper (Fig. 1, lines 5-6).
    Always,
    /// Only after chunks after which at least one in two of recent operations continued. If no
    /// other operation is in flight, one in eight is enough, because its READs delay no other.
    Likely,
    /// Never.
    Never,
}

/// Whether a find-or-put claims its home bucket along with its first READ.
///
/// If the home is empty, an insert then takes one roundtrip instead of two. Every other operation
/// costs one atomic more. The setting has no effect if the CPU itself examines the home first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(rename_all = "lowercase"))]
pub enum OneRoundtrip {
    /// Never, as in the paper.
    Off,
    /// Always.
    On,
    /// If at least one claim in four is expected to succeed, from the fraction of inserts among
    /// recent operations and the fraction of empty home buckets. Where the CPU can address all
    /// words, as in shared memory: if at least three claims in four are expected to succeed.
    ///
    /// Over a network, a success saves a whole roundtrip. In shared memory it saves one step of the
    /// operation. A failure costs an atomic beside a READ that the
    /// operation waits for anyway. The table does not know the cost of an atomic: on a device with
    /// a much lower rate of atomics than of READs, as NICs may have, `Off` gives the higher
    /// throughput. `probeline tune` measures which is better.
    Auto,
}

/// The duration of a READ as a linear function of the buckets that it transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadCost {
    /// Fixed part of the duration, in picoseconds.
    pub base_ps: u64,
    /// Additional time for each bucket, in picoseconds.
    pub bucket_ps: u64,
}

/// Limits of the measurements: one minute, 512 KiB and 1024 pairs at most, so that no sum of
/// products overflows (each stays below 2^110).
const MAX_NS: u64 = 60_000_000_000;
const MAX_BUCKETS: u32 = 1 << 16;
const MAX_MEASUREMENTS: usize = 1 << 10;
const PS_PER_NS: i128 = 1_000;

impl ReadCost {
    /// Fits the cost to measured READs, given as pairs of buckets and nanoseconds, by least
    /// squares.
    ///
    /// The slope and the base are never negative. Returns `None` unless two lengths were measured.
    #[must_use]
    pub fn from_measurements(measured: &[(u32, u64)]) -> Option<Self> {
        let [mut n, mut x, mut y, mut xx, mut xy] = [0_i128; 5];
        for &(buckets, ns) in measured.iter().take(MAX_MEASUREMENTS) {
            let buckets = i128::from(buckets.min(MAX_BUCKETS));
            let ps = i128::from(ns.min(MAX_NS)) * PS_PER_NS;
            n += 1;
            x += buckets;
            y += ps;
            xx += buckets * buckets;
            xy += buckets * ps;
        }
        let spread = n * xx - x * x;
        if spread == 0 {
            return None;
        }
        let slope = (n * xy - x * y).max(0);
        // If the best line has a negative base, fit the line through the origin instead.
        let base = y * spread - slope * x;
        let (base, bucket) =
            if base < 0 { (0, xy / xx) } else { (base / (n * spread), slope / spread) };
        Some(Self { base_ps: u64::try_from(base).ok()?, bucket_ps: u64::try_from(bucket).ok()? })
    }

    /// Returns the duration of a READ of this number of lines, in picoseconds.
    pub(crate) fn of(&self, lines: u32) -> u128 {
        let buckets = u128::from(lines) * u128::from(LINE_BUCKETS);
        u128::from(self.base_ps) + u128::from(self.bucket_ps) * buckets
    }
}
