//! The candidates: configurations of a table to choose from.

use probeline::table::{OneRoundtrip, ReadAhead};

/// Values of C: 64 B to 4 KiB.
pub(super) const CHUNK_BUCKETS: [u32; 7] = [8, 16, 32, 64, 128, 256, 512];
const AHEAD: [ReadAhead; 3] = [ReadAhead::Likely, ReadAhead::Never, ReadAhead::Always];
const CLAIM: [OneRoundtrip; 2] = [OneRoundtrip::Off, OneRoundtrip::On];
/// The value in the file if C has no effect: the paper's.
const ANY_CHUNK: u32 = 32;
/// The probability that at least one operation, of as many as the table has buckets, exceeds its
/// probe limit.
const FULL: f64 = 1e-6;

/// A configuration of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) chunk_buckets: u32,
    /// Follows from C and the load factor.
    pub(super) max_chunks: u32,
    pub(super) read_ahead: ReadAhead,
    pub(super) one_roundtrip: OneRoundtrip,
    /// Operations in flight of each rank; 1 selects blocking calls.
    pub(super) depth: u32,
    /// Entries of each rank's cache; 0 for no cache.
    pub(super) cache_entries: u32,
    /// Whether the CPU itself loads and claims all buckets. Then C, M, read-ahead and the
    /// one-roundtrip insert have no effect.
    pub(super) direct: bool,
}

impl Candidate {
    /// Orders candidates by how simple they are. C and read-ahead do not count.
    pub(super) fn complexity(&self) -> (u32, u32, bool) {
        (self.cache_entries, self.depth, self.one_roundtrip != OneRoundtrip::Off)
    }
}

/// The values from which candidates are formed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Space {
    /// The probe limit in buckets, which C times M must be at least.
    pub(super) probe_limit: u64,
    pub(super) depths: Vec<u32>,
    /// The entries of a cache, for the candidates that have one.
    pub(super) cache_entries: u32,
    pub(super) direct: bool,
}

impl Space {
    /// Returns all candidates without a cache.
    pub(super) fn candidates(&self) -> Vec<Candidate> {
        let mut all = Vec::new();
        for &depth in &self.depths {
            if self.direct {
                let one_roundtrip = OneRoundtrip::Auto;
                all.push(Candidate { one_roundtrip, direct: true, ..self.plain(ANY_CHUNK, depth) });
                continue;
            }
            for chunk_buckets in CHUNK_BUCKETS {
                let plain = self.plain(chunk_buckets, depth);
                let claims = CLAIM.map(|one_roundtrip| Candidate { one_roundtrip, ..plain });
                for claim in claims {
                    all.extend(AHEAD.map(|read_ahead| Candidate { read_ahead, ..claim }));
                }
            }
        }
        all
    }

    /// Returns the candidate of this C and depth without further optimizations.
    pub(super) fn plain(&self, chunk_buckets: u32, depth: u32) -> Candidate {
        Candidate {
            chunk_buckets,
            max_chunks: self.max_chunks(chunk_buckets),
            read_ahead: ReadAhead::Likely,
            one_roundtrip: OneRoundtrip::Off,
            depth,
            cache_entries: 0,
            direct: false,
        }
    }

    pub(super) fn max_chunks(&self, chunk_buckets: u32) -> u32 {
        let chunks = self.probe_limit.div_ceil(u64::from(chunk_buckets.max(1)));
        u32::try_from(chunks).unwrap_or(1 << 16).clamp(1, 1 << 16)
    }
}

/// Returns the probe limit for a table of this number of buckets: the consecutive buckets that an
/// operation may have to probe. At load factor a, runs of n occupied buckets decrease as e^(-n (a -
/// 1 - ln a)). The probability that any of `buckets` operations exceeds the limit is one in a
/// million.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(super) fn probe_limit(buckets: u64, load_factor: f64) -> u64 {
    let alpha = load_factor.clamp(0.01, 0.95);
    let fall = alpha - 1.0 - alpha.ln();
    let probe_limit = (buckets as f64 / FULL).ln() / fall;
    (probe_limit.ceil() as u64).clamp(8, buckets.max(8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinct_candidates_reach_probe_limit() {
        let probe_limit = probe_limit(1 << 24, 0.5);
        assert_eq!(probe_limit, 158);
        let space = |direct| Space { probe_limit, depths: vec![1, 32], cache_entries: 64, direct };
        let all = space(false).candidates();
        assert_eq!((all.len(), space(true).candidates().len()), (2 * 7 * 3 * 2, 2));
        for (at, one) in all.iter().enumerate() {
            assert!(!all[..at].contains(one), "{one:?}");
            assert!(u64::from(one.chunk_buckets) * u64::from(one.max_chunks) >= probe_limit);
        }
    }

    /// Fills a table by linear probing up to the load factor.
    #[allow(clippy::cast_possible_truncation)]
    #[test]
    fn inserts_stay_within_probe_limit() {
        const BUCKETS: usize = 1 << 16;
        for load_factor in [0.1, 0.5, 0.9] {
            let mut taken = vec![false; BUCKETS];
            let keys = (0..BUCKETS as u64).map(|n| crate::keys::nth(1, n) as usize % BUCKETS);
            let longest = keys.take((BUCKETS as f64 * load_factor) as usize).map(|home| {
                let free = (0..BUCKETS).find(|step| !taken[(home + step) % BUCKETS]).unwrap();
                taken[(home + free) % BUCKETS] = true;
                free as u64 + 1
            });
            let (longest, limit) = (longest.max(), probe_limit(BUCKETS as u64, load_factor));
            assert!(longest.is_some_and(|longest| longest <= limit), "{longest:?}, {limit}");
        }
        assert_eq!(probe_limit(4, 0.9), 8);
    }
}
