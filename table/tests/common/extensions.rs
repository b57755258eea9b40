//! Random choices among the extensions of the paper's algorithm: each alone, in combination, all,
//! or none.

use probeline_sim::Rng;
use probeline_table::{ChunkChoice, Config, OneRoundtrip, Probing, ReadAhead, ReadCost};

/// The stream of a seed that the choices are drawn from.
const STREAM: u64 = 400;
/// Costs of a READ with which the best C is any, the smallest, one in between or the largest, and
/// the maximum cost.
const COSTS: [(u64, u64); 6] =
    [(0, 0), (0, 1_000), (1_000_000, 0), (2_000_000, 2_000), (100_000, 50_000), (MAX, MAX)];
const MAX: u64 = u64::MAX;
/// Numbers of cache entries: none, not a power of two, fewer and more than the buckets of a small
/// table.
const CACHE_ENTRIES: [usize; 5] = [0, 1, 7, 64, 1_024];

/// One owner's configuration of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Setup {
    pub(crate) config: Config,
    pub(crate) cache_entries: usize,
}

impl Setup {
    /// Returns the paper's algorithm alone, with the sizes of `config`.
    pub(crate) fn paper(config: Config) -> Self {
        let Config { first_word, buckets_per_owner, chunk_buckets, max_chunks, .. } = config;
        let paper = Config::paper(buckets_per_owner);
        let config = Config { first_word, chunk_buckets, max_chunks, ..paper };
        Self { config, cache_entries: 0 }
    }

    pub(crate) fn is_paper(&self) -> bool {
        *self == Self::paper(self.config)
    }

    fn random(rng: &mut Rng, config: Config) -> Self {
        let (base_ps, bucket_ps) = pick(rng, &COSTS);
        let adaptive = ChunkChoice::Adaptive(ReadCost { base_ps, bucket_ps });
        let config = Config {
            chunk_choice: pick(rng, &[ChunkChoice::Fixed, adaptive]),
            read_ahead: pick(rng, &[ReadAhead::Always, ReadAhead::Likely, ReadAhead::Never]),
            one_roundtrip: pick(rng, &[OneRoundtrip::Off, OneRoundtrip::On, OneRoundtrip::Auto]),
            direct: pick(rng, &[false, true]),
            ..config
        };
        Self { config, cache_entries: pick(rng, &CACHE_ENTRIES) }
    }
}

fn pick<V: Copy>(rng: &mut Rng, values: &[V]) -> V {
    values[usize::try_from(rng.below(values.len() as u64)).unwrap()]
}

/// Returns the same sizes and probe limit in this probe order.
pub(crate) fn probed(config: Config, probing: Probing) -> Config {
    let Config { chunk_buckets, max_chunks, .. } = config;
    match probing {
        Probing::DoubleHash => Config {
            probing,
            chunk_buckets: 8,
            max_chunks: max_chunks * chunk_buckets / 8,
            ..config
        },
        Probing::Linear | Probing::Lines => Config { probing, ..config },
    }
}

/// Returns a setup for each owner. A third of the seeds give the paper's algorithm to all owners,
/// the others one random setup for all or a random setup for each. Sizes and probe order are always
/// equal.
pub(crate) fn setups(seed: u64, owners: u32, sizes: Config) -> Vec<Setup> {
    let mut rng = Rng::new(seed, STREAM);
    let owners = owners as usize;
    if rng.below(3) == 0 {
        return vec![Setup::paper(sizes); owners];
    }
    let probing = pick(&mut rng, &[Probing::Linear, Probing::Lines, Probing::DoubleHash]);
    let config = probed(sizes, probing);
    if rng.below(2) == 0 {
        return vec![Setup::random(&mut rng, config); owners];
    }
    (0..owners).map(|_| Setup::random(&mut rng, config)).collect()
}
