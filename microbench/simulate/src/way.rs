//! How ranks execute operations: by the paper's algorithm, or with optimizations.

use probeline_sim::{Kind, Model};
use probeline_table::{ChunkChoice, Config, OneRoundtrip, Probing, ReadAhead, ReadCost};
use probeline_transport::{Owner, WORD_BYTES};

/// Storage for blocking calls: one operation, and some whose read-aheads may still complete.
const BLOCKING: u32 = 4;
/// Storage per operation in flight: as many again may have read-aheads that still complete.
const BEHIND: u32 = 2;
/// Maximum one-sided operations of each: the READs of two chunks, each split in two, and a claim.
const DEPTH: u32 = 5;
/// Maximum depth of an engine; operations that find it full are posted later.
const MOST_DEPTH: u32 = 1 << 16;
/// The smallest adaptive C, a cache line, and the largest.
const LEAST_CHUNK_BUCKETS: u32 = 8;
const MOST_CHUNK_BUCKETS: u32 = 512;
const PS_PER_NS: u64 = 1_000;
const NS_PER_S: f64 = 1e9;
const PS_PER_S: f64 = 1e12;
/// A READ and a claim.
const POSTS_OF_INSERT: f64 = 2.0;

/// How a rank executes operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The paper's algorithm (Fig. 1), one operation at a time.
    Paper,
    /// These optimizations, adaptive C, and chunks that start on lines. If all ranks work at once,
    /// [`under_load`](Self::under_load).
    Beyond(Optimizations),
    /// These optimizations with a fixed C, as `tune` recommends.
    Tuned(Optimizations),
}

/// Optimizations beyond the paper's algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Optimizations {
    /// Operations in flight; 1 selects blocking calls.
    pub in_flight: u32,
    /// Entries of a rank's cache; 0 for no cache.
    pub cache_entries: u32,
    /// When an operation claims its home bucket along with its first READ. This costs an atomic on
    /// each find.
    pub one_roundtrip: OneRoundtrip,
    /// When the next chunk is requested before the present one is scanned.
    pub read_ahead: ReadAhead,
}

impl Way {
    /// Returns the name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::Beyond(_) => "beyond",
            Self::Tuned(_) => "tuned",
        }
    }

    fn optimizations(self) -> Option<Optimizations> {
        match self {
            Self::Paper => None,
            Self::Beyond(optimizations) | Self::Tuned(optimizations) => Some(optimizations),
        }
    }

    /// Returns the operations in flight.
    #[must_use]
    pub fn in_flight(self) -> u32 {
        self.optimizations().map_or(1, |of| of.in_flight.max(1))
    }

    /// Returns the way to use if all of this many ranks work at once. If the rates of NICs or ranks
    /// are the bottleneck, the operations in flight hide roundtrips. Then [`ReadAhead::Likely`]
    /// becomes never, because an unneeded READ costs a turn. If atomics or posts are the bottleneck,
    /// [`OneRoundtrip::Auto`] becomes off, because a failed claim costs an atomic and a post.
    #[must_use]
    pub fn under_load(self, model: &Model, ranks: u32) -> Self {
        let Self::Beyond(optimizations) = self else { return self };
        let busy = Busy::new(model, ranks, optimizations);
        let Optimizations { mut read_ahead, mut one_roundtrip, .. } = optimizations;
        if read_ahead == ReadAhead::Likely && busy.hides_roundtrips() {
            read_ahead = ReadAhead::Never;
        }
        if one_roundtrip == OneRoundtrip::Auto && busy.has_few_atomics() {
            one_roundtrip = OneRoundtrip::Off;
        }
        Self::Beyond(Optimizations { read_ahead, one_roundtrip, ..optimizations })
    }

    /// Returns when operations request the next chunk before they scan the present one.
    #[must_use]
    pub fn read_ahead(self) -> ReadAhead {
        self.optimizations().map_or(ReadAhead::Always, |of| of.read_ahead)
    }

    /// Returns when operations claim their home buckets along with their first READs.
    #[must_use]
    pub fn one_roundtrip(self) -> OneRoundtrip {
        self.optimizations().map_or(OneRoundtrip::Off, |of| of.one_roundtrip)
    }

    /// Returns the smallest and the largest C of operations, of which `most` is the configured one.
    pub(crate) fn chunk_buckets(self, most: u32) -> [u32; 2] {
        match self {
            Self::Beyond(_) => [LEAST_CHUNK_BUCKETS.min(most), MOST_CHUNK_BUCKETS.min(most)],
            _ => [most, most],
        }
    }

    /// Returns the number of operations for which there is storage.
    pub(crate) fn operations(self) -> u32 {
        (self.in_flight() * BEHIND).max(BLOCKING)
    }

    pub(crate) fn depth(self) -> u32 {
        (self.operations() * DEPTH).min(MOST_DEPTH)
    }

    pub(crate) fn cache_entries(self) -> usize {
        self.optimizations().map_or(0, |of| of.cache_entries as usize)
    }

    /// Returns the configuration of the table, given that of the paper's algorithm; `ranks` if all
    /// of this many ranks work at once.
    pub(crate) fn config(self, paper: Config, model: &Model, ranks: Option<u32>) -> Config {
        match self {
            Self::Paper => paper,
            Self::Beyond(optimizations) => {
                let busy = ranks.map(|ranks| Busy::new(model, ranks, optimizations));
                let cost = match busy.filter(Busy::hides_roundtrips) {
                    Some(busy) => busy.read_cost(model, paper.chunk_buckets),
                    None => read_cost(model),
                };
                Config {
                    probing: Probing::Lines,
                    chunk_choice: ChunkChoice::Adaptive(cost),
                    ..optimizations.config(paper)
                }
            }
            Self::Tuned(optimizations) => optimizations.config(paper),
        }
    }
}

impl Optimizations {
    fn config(self, paper: Config) -> Config {
        Config { read_ahead: self.read_ahead, one_roundtrip: self.one_roundtrip, ..paper }
    }
}

/// Rates of one rank per second if all ranks work at once; infinite where the model has no limit.
#[derive(Clone, Copy, Debug)]
struct Busy {
    reads: f64,
    atomics: f64,
    /// READs and atomics that its CPU posts and whose completions it polls.
    posts: f64,
    /// Bytes, by the rank's share of the bandwidth, and those of a READ besides its words.
    bytes: f64,
    header_bytes: f64,
    /// Inserts of a READ and a claim each, if only roundtrips took time.
    inserts: f64,
}

impl Busy {
    fn new(model: &Model, ranks: u32, optimizations: Optimizations) -> Self {
        let sharers = f64::from(model.owners_per_node.max(1));
        let rate = |per_s: u64| if per_s == 0 { f64::INFINITY } else { per_s as f64 };
        let (sends, answers, rank) = (model.nic.initiator, model.nic.target, model.initiator);
        let of_nic = |sent: u64, answered: u64| rate(sent).min(rate(answered)) / sharers;
        let trip_ns = |kind, words| {
            let to = Owner(ranks.saturating_sub(1));
            model.busy_roundtrip_ns(kind, words, Owner(0), to, ranks)
        };
        let trips_ns = trip_ns(Kind::Read, LEAST_CHUNK_BUCKETS) + trip_ns(Kind::CompareAndSwap, 1);
        Self {
            reads: rate(rank.reads_per_s).min(of_nic(sends.reads_per_s, answers.reads_per_s)),
            atomics: rate(rank.atomics_per_s)
                .min(of_nic(sends.atomics_per_s, answers.atomics_per_s)),
            posts: NS_PER_S / (model.post_ns + model.completion_ns) as f64,
            bytes: rate(model.nic.bytes_per_s) / sharers,
            header_bytes: 2.0 * f64::from(model.nic.header_bytes),
            inserts: f64::from(optimizations.in_flight.max(1)) * NS_PER_S / trips_ns.max(1.0),
        }
    }

    /// Returns whether inserts are limited more by rates than by roundtrips.
    fn hides_roundtrips(&self) -> bool {
        self.reads.min(self.atomics).min(self.posts / POSTS_OF_INSERT) < self.inserts
    }

    /// Returns whether inserts are limited by atomics, or by posts, of which an atomic is one.
    fn has_few_atomics(&self) -> bool {
        self.atomics.min(self.posts / POSTS_OF_INSERT) < self.inserts.min(self.reads)
    }

    /// Returns the cost of a READ where roundtrips are hidden: its turn, or the time of its words on
    /// the link if that is longer. It is linear up to C, from the turn to the longer time.
    fn read_cost(&self, model: &Model, most_buckets: u32) -> ReadCost {
        let reads = self.reads.min(self.posts);
        if reads.is_infinite() {
            return read_cost(model);
        }
        let turn_ps = PS_PER_S / reads;
        let most_bytes = self.header_bytes + f64::from(most_buckets) * WORD_BYTES as f64;
        let link_ps = (most_bytes * PS_PER_S / self.bytes).max(turn_ps);
        let bucket_ps = (link_ps - turn_ps) / f64::from(most_buckets.max(1));
        // Rates are at least one per second, and the conversion saturates.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let [base_ps, bucket_ps] = [turn_ps as u64, bucket_ps as u64];
        ReadCost { base_ps: base_ps.max(1), bucket_ps }
    }
}

/// Returns the cost of a READ from another machine.
fn read_cost(model: &Model) -> ReadCost {
    let read = model.remote.read;
    ReadCost { base_ps: read.base_ns.saturating_mul(PS_PER_NS).max(1), bucket_ps: read.word_ps }
}

#[cfg(test)]
mod tests {
    use probeline_sim::{Nic, Rates};

    use super::*;

    const RANKS: u32 = 32;

    fn way(one_roundtrip: OneRoundtrip, read_ahead: ReadAhead) -> Way {
        let means = Optimizations { in_flight: 16, cache_entries: 0, one_roundtrip, read_ahead };
        Way::Beyond(means)
    }

    fn model(reads_per_s: u64, atomics_per_s: u64) -> Model {
        let nic = Nic {
            target: Rates { reads_per_s, atomics_per_s, ..Rates::default() },
            ..Nic::default()
        };
        Model { owners_per_node: 16, nic, ..Model::simple(2_000) }
    }

    /// A machine of 16 ranks, each with 16 operations of 4 us in flight: 64 million inserts per
    /// second.
    #[test]
    fn one_roundtrip_is_off_if_atomics_are_the_bottleneck() {
        let auto = way(OneRoundtrip::Auto, ReadAhead::Always);
        let off = way(OneRoundtrip::Off, ReadAhead::Always);
        let on = way(OneRoundtrip::On, ReadAhead::Always);
        for (reads_per_s, atomics_per_s, expected) in [
            (0, 0, auto),
            (0, 16 * 4_000_000, auto),
            (0, 16 * 3_999_999, off),
            (16 * 1_000_000, 16 * 1_000_000, auto),
            (16 * 1_000_001, 16 * 1_000_000, off),
        ] {
            let model = model(reads_per_s, atomics_per_s);
            let found = auto.under_load(&model, RANKS);
            assert_eq!(found, expected, "{reads_per_s}, {atomics_per_s}");
            assert_eq!(on.under_load(&model, RANKS), on);
        }
        let Way::Beyond(optimizations) = auto else { unreachable!() };
        let tuned = Way::Tuned(optimizations);
        assert_eq!(tuned.under_load(&model(0, 1), RANKS), tuned);
    }

    /// A post of 250 ns: two million inserts per second and rank, of four that roundtrips allow.
    #[test]
    fn a_busy_cpu_spares_claims_and_reads() {
        let auto = way(OneRoundtrip::Auto, ReadAhead::Likely);
        let busy = Model { post_ns: 200, completion_ns: 50, ..model(0, 0) };
        assert_eq!(auto.under_load(&busy, RANKS), way(OneRoundtrip::Off, ReadAhead::Never));
        let idle = Model { post_ns: 75, ..busy };
        assert_eq!(auto.under_load(&idle, RANKS), auto);
    }

    #[test]
    fn read_ahead_is_off_if_a_rate_is_the_bottleneck() {
        let of = |read_ahead| way(OneRoundtrip::Off, read_ahead);
        let (likely, never) = (of(ReadAhead::Likely), of(ReadAhead::Never));
        for (reads_per_s, atomics_per_s, expected) in [
            (0, 0, likely),
            (16 * 4_000_000, 16 * 4_000_000, likely),
            (16 * 3_999_999, 0, never),
            (0, 16 * 3_999_999, never),
        ] {
            let found = likely.under_load(&model(reads_per_s, atomics_per_s), RANKS);
            assert_eq!(found, expected, "{reads_per_s}, {atomics_per_s}");
        }
        let always = of(ReadAhead::Always);
        assert_eq!(always.under_load(&model(1, 1), RANKS), always, "as it was asked for");
    }

    #[test]
    fn a_read_costs_its_turn_if_the_rate_of_reads_is_the_bottleneck() {
        let cost = |model: &Model, ranks| {
            let paper = Config { chunk_buckets: 32, ..Config::paper(64) };
            let config = way(OneRoundtrip::Off, ReadAhead::Never).config(paper, model, ranks);
            match config.chunk_choice {
                ChunkChoice::Adaptive(cost) => (cost.base_ps, cost.bucket_ps),
                ChunkChoice::Fixed => unreachable!(),
            }
        };
        // A rank's turn takes 1 us; a word takes 10 ns of its share of the link.
        let mut model = model(16 * 1_000_000, 0);
        model.nic.bytes_per_s = 16 * 800_000_000;
        assert_eq!(cost(&model, None), (2_000_000, 0), "alone, a READ costs its roundtrip");
        assert_eq!(cost(&model, Some(RANKS)), (1_000_000, 0));
        // 42 ns: 32 words take 1.344 us.
        model.nic.bytes_per_s = 16 * 8 * 1_000_000_000 / 42;
        let (base_ps, bucket_ps) = cost(&model, Some(RANKS));
        assert_eq!((base_ps, bucket_ps), (1_000_000, 10_750));
    }
}
