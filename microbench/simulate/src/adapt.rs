//! What a table beyond the paper's algorithm chooses by the model of a cluster.

use probeline_sim::{Kind, Model};
use probeline_table::{ChunkChoice, Config, OneRoundtrip, ReadAhead, ReadCost};
use probeline_transport::{Owner, WORD_BYTES};

use crate::Setup;
use crate::cluster::LEAST_CHUNK_BUCKETS;

const PS_PER_NS: u64 = 1_000;
const NS_PER_S: f64 = 1e9;
const PS_PER_S: f64 = 1e12;
/// A READ and a claim.
const POSTS_OF_INSERT: f64 = 2.0;

impl Setup {
    /// Returns the setup of one rank at work, while the others wait for it.
    pub(crate) fn alone(self) -> Self {
        self.with_read_cost(read_cost(&self.model))
    }

    /// Returns the setup to use if all ranks work at once. If the rates of NICs or ranks are the
    /// bottleneck, the operations in flight hide roundtrips. Then [`ReadAhead::Likely`] becomes
    /// never, because an unneeded READ costs a turn, and a READ costs its turn. If atomics or posts
    /// are the bottleneck, [`OneRoundtrip::Auto`] becomes off, because a failed claim costs an atomic
    /// and a post.
    #[must_use]
    pub fn under_load(self) -> Self {
        if !self.adapts {
            return self;
        }
        let busy = Busy::new(&self);
        let mut table = self.table;
        if table.one_roundtrip == OneRoundtrip::Auto && busy.has_few_atomics() {
            table.one_roundtrip = OneRoundtrip::Off;
        }
        if !busy.hides_roundtrips() {
            return Self { table, ..self }.alone();
        }
        if table.read_ahead == ReadAhead::Likely {
            table.read_ahead = ReadAhead::Never;
        }
        let cost = busy.read_cost(&self.model, table.chunk_buckets);
        Self { table, ..self }.with_read_cost(cost)
    }

    fn with_read_cost(self, cost: ReadCost) -> Self {
        if !self.adapts {
            return self;
        }
        let table = Config { chunk_choice: ChunkChoice::Adaptive(cost), ..self.table };
        Self { table, ..self }
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
    fn new(setup: &Setup) -> Self {
        let (model, ranks) = (&setup.model, setup.ranks());
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
            inserts: f64::from(setup.in_flight.max(1)) * NS_PER_S / trips_ns.max(1.0),
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
    use probeline_profile::Shape;
    use probeline_sim::{Nic, Rates};

    use super::*;

    /// Two machines of 16 ranks, each with 16 operations of 4 us in flight: a machine's inserts are
    /// 64 million per second.
    fn setup(one_roundtrip: OneRoundtrip, read_ahead: ReadAhead, model: Model) -> Setup {
        let table = Config { one_roundtrip, read_ahead, chunk_buckets: 32, ..Config::paper(64) };
        Setup {
            model,
            shape: Shape { machines: 2, ranks_per_machine: 16 },
            table,
            in_flight: 16,
            cache_entries: 0,
            adapts: true,
            seed: 1,
        }
    }

    fn model(reads_per_s: u64, atomics_per_s: u64) -> Model {
        let nic = Nic {
            target: Rates { reads_per_s, atomics_per_s, ..Rates::default() },
            ..Nic::default()
        };
        Model { owners_per_node: 16, nic, ..Model::simple(2_000) }
    }

    /// Returns when operations claim and read ahead under load.
    fn chosen(
        one_roundtrip: OneRoundtrip,
        read_ahead: ReadAhead,
        model: Model,
    ) -> (OneRoundtrip, ReadAhead) {
        let Config { one_roundtrip, read_ahead, .. } =
            setup(one_roundtrip, read_ahead, model).under_load().table;
        (one_roundtrip, read_ahead)
    }

    #[test]
    fn claims_stop_if_atomics_are_the_bottleneck() {
        use OneRoundtrip::{Auto, Off, On};
        for (reads_per_s, atomics_per_s, expected) in [
            (0, 0, Auto),
            (0, 16 * 4_000_000, Auto),
            (0, 16 * 3_999_999, Off),
            (16 * 1_000_000, 16 * 1_000_000, Auto),
            (16 * 1_000_001, 16 * 1_000_000, Off),
        ] {
            let of =
                |claims| chosen(claims, ReadAhead::Always, model(reads_per_s, atomics_per_s)).0;
            assert_eq!(of(Auto), expected, "{reads_per_s}, {atomics_per_s}");
            assert_eq!(of(On), On);
        }
        let fixed = Setup { adapts: false, ..setup(Auto, ReadAhead::Always, model(0, 1)) };
        assert_eq!(fixed.under_load().table, fixed.table);
    }

    /// A post of 250 ns: two million inserts per second and rank, of four that roundtrips allow.
    #[test]
    fn busy_cpu_spares_claims_and_reads() {
        let busy = Model { post_ns: 200, completion_ns: 50, ..model(0, 0) };
        let of = |model| chosen(OneRoundtrip::Auto, ReadAhead::Likely, model);
        assert_eq!(of(busy), (OneRoundtrip::Off, ReadAhead::Never));
        let idle = Model { post_ns: 75, ..busy };
        assert_eq!(of(idle), (OneRoundtrip::Auto, ReadAhead::Likely));
    }

    #[test]
    fn reading_ahead_stops_if_a_rate_is_the_bottleneck() {
        use ReadAhead::{Always, Likely, Never};
        let of = |ahead, reads, atomics| chosen(OneRoundtrip::Off, ahead, model(reads, atomics)).1;
        assert_eq!(of(Likely, 0, 0), Likely);
        assert_eq!(of(Likely, 16 * 4_000_000, 16 * 4_000_000), Likely);
        assert_eq!(of(Likely, 16 * 3_999_999, 0), Never);
        assert_eq!(of(Likely, 0, 16 * 3_999_999), Never);
        assert_eq!(of(Always, 1, 1), Always, "as it was asked for");
    }

    #[test]
    fn a_read_costs_its_turn_if_the_rate_of_reads_is_the_bottleneck() {
        let cost = |setup: Setup| match setup.table.chunk_choice {
            ChunkChoice::Adaptive(cost) => (cost.base_ps, cost.bucket_ps),
            ChunkChoice::Fixed => unreachable!(),
        };
        // A rank's turn takes 1 us; a word takes 10 ns of its share of the link.
        let of = |bytes_per_s| {
            let mut model = model(16 * 1_000_000, 0);
            model.nic.bytes_per_s = bytes_per_s;
            setup(OneRoundtrip::Off, ReadAhead::Never, model)
        };
        let short = of(16 * 800_000_000);
        assert_eq!(cost(short.alone()), (2_000_000, 0), "alone, a READ costs its roundtrip");
        assert_eq!(cost(short.under_load()), (1_000_000, 0));
        // 42 ns: 32 words take 1.344 us.
        let long = of(16 * 8 * 1_000_000_000 / 42);
        assert_eq!(cost(long.under_load()), (1_000_000, 10_750));
    }
}
