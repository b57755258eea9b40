//! Configurations of a table, and the set to choose from.

use probeline_table::{OneRoundtrip, ReadAhead};

/// A configuration of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// C, the buckets of 8 bytes that one chunk READ transfers.
    pub chunk_buckets: u32,
    /// M, the maximum chunks that an operation probes before it returns full.
    pub max_chunks: u32,
    /// When the next chunk is requested before the current one is scanned.
    pub read_ahead: ReadAhead,
    /// Whether the home bucket is claimed along with the first READ.
    pub one_roundtrip: OneRoundtrip,
    /// Operations in flight of each rank; 1 selects blocking calls.
    pub depth: u32,
    /// Entries of each rank's cache; 0 for no cache.
    pub cache_entries: u32,
    /// Whether the CPU itself loads and claims all buckets. Then C, M, read-ahead and the
    /// one-roundtrip insert have no effect.
    pub direct: bool,
}

/// The values from which candidates are formed; no list is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    /// The values of C.
    pub chunk_buckets: Vec<u32>,
    /// The probe limit in buckets, which C times M must be at least.
    pub probe_limit: u64,
    /// The numbers of operations in flight.
    pub depths: Vec<u32>,
    /// The entries of a cache, for the candidates that have one.
    pub cache_entries: u32,
    /// Whether the CPU itself loads and claims all buckets.
    pub direct: bool,
}

const AHEAD: [ReadAhead; 3] = [ReadAhead::Likely, ReadAhead::Never, ReadAhead::Always];
const CLAIM: [OneRoundtrip; 2] = [OneRoundtrip::Off, OneRoundtrip::On];
/// The value in the file if C has no effect: the paper's.
const ANY_CHUNK: u32 = 32;

impl Space {
    /// Returns all candidates, the simplest first: without a cache, few in flight, without early
    /// claims.
    #[must_use]
    pub fn candidates(&self) -> Vec<Candidate> {
        let mut all = Vec::new();
        for cache_entries in [0, self.cache_entries] {
            for &depth in &self.depths {
                if self.direct {
                    all.push(self.direct(depth, cache_entries));
                } else {
                    all.extend(self.by_reads(depth, cache_entries));
                }
            }
        }
        all
    }

    fn direct(&self, depth: u32, cache_entries: u32) -> Candidate {
        Candidate {
            chunk_buckets: ANY_CHUNK,
            max_chunks: self.max_chunks(ANY_CHUNK),
            read_ahead: ReadAhead::Likely,
            one_roundtrip: OneRoundtrip::Auto,
            depth,
            cache_entries,
            direct: true,
        }
    }

    fn by_reads(&self, depth: u32, cache_entries: u32) -> impl Iterator<Item = Candidate> {
        let kinds = CLAIM.iter().flat_map(|claim| AHEAD.iter().map(move |ahead| (claim, ahead)));
        kinds.flat_map(move |(&one_roundtrip, &read_ahead)| {
            self.chunk_buckets.iter().map(move |&chunk_buckets| Candidate {
                chunk_buckets,
                max_chunks: self.max_chunks(chunk_buckets),
                read_ahead,
                one_roundtrip,
                depth,
                cache_entries,
                direct: false,
            })
        })
    }

    /// Returns M for this C.
    #[must_use]
    pub fn max_chunks(&self, chunk_buckets: u32) -> u32 {
        let chunks = self.probe_limit.div_ceil(u64::from(chunk_buckets.max(1)));
        u32::try_from(chunks).unwrap_or(1 << 16).clamp(1, 1 << 16)
    }

    /// Returns the candidates one step from `from` in one dimension, each with the name of the
    /// step.
    #[must_use]
    pub fn neighbours(&self, from: &Candidate) -> Vec<(&'static str, Candidate)> {
        let mut all = Vec::new();
        if !self.direct {
            for (name, chunk_buckets) in
                steps(&self.chunk_buckets, from.chunk_buckets, ["C less", "C more"])
            {
                let max_chunks = self.max_chunks(chunk_buckets);
                all.push((name, Candidate { chunk_buckets, max_chunks, ..*from }));
            }
            let more = from.max_chunks.saturating_mul(2).min(1 << 16);
            all.push(("M more", Candidate { max_chunks: more, ..*from }));
            for read_ahead in AHEAD.into_iter().filter(|ahead| *ahead != from.read_ahead) {
                all.push(("read-ahead", Candidate { read_ahead, ..*from }));
            }
            for one_roundtrip in CLAIM.into_iter().filter(|claim| *claim != from.one_roundtrip) {
                all.push(("one-roundtrip", Candidate { one_roundtrip, ..*from }));
            }
        }
        for (name, depth) in steps(&self.depths, from.depth, ["depth less", "depth more"]) {
            all.push((name, Candidate { depth, ..*from }));
        }
        let cache_entries = if from.cache_entries == 0 { self.cache_entries } else { 0 };
        all.push(("cache", Candidate { cache_entries, ..*from }));
        all
    }
}

/// Returns the values before and after `from`.
fn steps(of: &[u32], from: u32, names: [&'static str; 2]) -> Vec<(&'static str, u32)> {
    let at = of.iter().position(|&value| value == from);
    let before = at.and_then(|at| of.get(at.checked_sub(1)?));
    let after = at.and_then(|at| of.get(at + 1));
    let both = [(names[0], before), (names[1], after)];
    both.into_iter().filter_map(|(name, value)| Some((name, *value?))).collect()
}
