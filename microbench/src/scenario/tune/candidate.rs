//! The candidates: tunings to choose from.

use probeline::table::{OneRoundtrip, ReadAhead};
use probeline::tuning::Tuning;

/// Values of C: 64 B to 4 KiB.
pub(super) const CHUNK_BUCKETS: [u32; 7] = [8, 16, 32, 64, 128, 256, 512];
const AHEAD: [ReadAhead; 3] = [ReadAhead::Likely, ReadAhead::Never, ReadAhead::Always];
const CLAIM: [OneRoundtrip; 2] = [OneRoundtrip::Off, OneRoundtrip::On];
/// The value in the file if C has no effect: the paper's.
const ANY_CHUNK: u32 = 32;
/// The probability that at least one operation, of as many as the table has buckets, exceeds its
/// probe limit.
const FULL: f64 = 1e-6;

/// Orders candidates by how simple they are. C and read-ahead do not count.
pub(super) fn complexity(candidate: &Tuning) -> (usize, u32, bool) {
    let claims = candidate.one_roundtrip != OneRoundtrip::Off;
    (candidate.cache_entries, candidate.in_flight, claims)
}

/// Returns all candidates without a cache whose operations reach the probe limit: of each of these
/// numbers of operations in flight. If the CPU itself loads and claims all buckets, C, M, read-ahead and
/// the one-roundtrip insert have no effect.
pub(super) fn candidates(probe_limit: u64, depths: &[u32], direct: bool) -> Vec<Tuning> {
    let mut all = Vec::new();
    for &depth in depths {
        if direct {
            let one_roundtrip = OneRoundtrip::Auto;
            let plain = plain(probe_limit, ANY_CHUNK, depth);
            all.push(Tuning { one_roundtrip, direct: true, ..plain });
            continue;
        }
        for chunk_buckets in CHUNK_BUCKETS {
            for one_roundtrip in CLAIM {
                let plain = || plain(probe_limit, chunk_buckets, depth);
                all.extend(AHEAD.map(|read_ahead| Tuning { one_roundtrip, read_ahead, ..plain() }));
            }
        }
    }
    all
}

/// Returns the candidate of this C and depth without further optimizations.
pub(super) fn plain(probe_limit: u64, chunk_buckets: u32, depth: u32) -> Tuning {
    let chunks = probe_limit.div_ceil(u64::from(chunk_buckets.max(1)));
    Tuning {
        origin: String::new(),
        chunk_buckets,
        max_chunks: u32::try_from(chunks).unwrap_or(1 << 16).clamp(1, 1 << 16),
        read_ahead: ReadAhead::Likely,
        one_roundtrip: OneRoundtrip::Off,
        direct: false,
        in_flight: depth,
        ..Tuning::default()
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
        let [all, direct] = [false, true].map(|direct| candidates(probe_limit, &[1, 32], direct));
        assert_eq!((all.len(), direct.len()), (2 * 7 * 3 * 2, 2));
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
