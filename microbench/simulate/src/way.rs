//! How ranks execute operations: by the paper's algorithm, or with optimizations.

use probeline_sim::Model;
use probeline_table::{ChunkChoice, Config, OneRoundtrip, Probing, ReadAhead, ReadCost};

/// Storage for blocking calls: one operation, and some whose read-aheads may still complete.
const BLOCKING: u32 = 4;
/// Storage per operation in flight: as many again may have read-aheads that still complete.
const BEHIND: u32 = 2;
/// Maximum one-sided operations of each: the READs of two chunks, each split in two, and a claim.
const DEPTH: u32 = 5;
/// Maximum depth of an engine; operations that find it full are posted later.
const MOST_DEPTH: u32 = 1 << 16;
const PS_PER_NS: u64 = 1_000;
const NS_PER_S: f64 = 1e9;

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

    /// Returns the way to use if all ranks of the cluster work at once: [`OneRoundtrip::Auto`]
    /// becomes off if atomics are the bottleneck. Each such claim costs an atomic and saves a
    /// roundtrip that other operations hide anyway.
    #[must_use]
    pub fn under_load(self, model: &Model) -> Self {
        match self {
            Self::Beyond(optimizations)
                if optimizations.one_roundtrip == OneRoundtrip::Auto
                    && are_atomics_few(model, optimizations) =>
            {
                Self::Beyond(Optimizations { one_roundtrip: OneRoundtrip::Off, ..optimizations })
            }
            _ => self,
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

    /// Returns the configuration of the table, given that of the paper's algorithm.
    pub(crate) fn config(self, paper: Config, model: &Model) -> Config {
        match self {
            Self::Paper => paper,
            Self::Beyond(optimizations) => Config {
                probing: Probing::Lines,
                chunk_choice: ChunkChoice::Adaptive(read_cost(model)),
                ..optimizations.config(paper)
            },
            Self::Tuned(optimizations) => optimizations.config(paper),
        }
    }
}

impl Optimizations {
    fn config(self, paper: Config) -> Config {
        Config { read_ahead: self.read_ahead, one_roundtrip: self.one_roundtrip, ..paper }
    }
}

/// Returns whether atomics limit a rank's inserts, of a READ and a claim each, more than roundtrips
/// and READs do.
fn are_atomics_few(model: &Model, optimizations: Optimizations) -> bool {
    let ranks = f64::from(model.owners_per_node.max(1));
    let rate = |per_s: u64| if per_s == 0 { f64::INFINITY } else { per_s as f64 };
    let (nic, rank) = (model.nic.target, model.initiator);
    let atomics = rate(rank.atomics_per_s).min(rate(nic.atomics_per_s) / ranks);
    let reads = rate(rank.copies_per_s).min(rate(nic.copies_per_s) / ranks);
    let trips_ns = model.remote.read.base_ns.saturating_add(model.remote.atomic_ns).max(1);
    let inserts = f64::from(optimizations.in_flight.max(1)) * NS_PER_S / trips_ns as f64;
    atomics < inserts.min(reads)
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

    /// A machine of 16 ranks, each with 16 operations of 4 us in flight: 64 million inserts per
    /// second.
    #[test]
    fn one_roundtrip_is_off_if_atomics_are_the_bottleneck() {
        let way = |one_roundtrip| {
            let read_ahead = ReadAhead::Likely;
            Way::Beyond(Optimizations {
                in_flight: 16,
                cache_entries: 0,
                one_roundtrip,
                read_ahead,
            })
        };
        let model = |copies_per_s, atomics_per_s| {
            let nic = Nic { target: Rates { copies_per_s, atomics_per_s }, ..Nic::default() };
            Model { owners_per_node: 16, nic, ..Model::simple(2_000) }
        };
        let (auto, off) = (way(OneRoundtrip::Auto), way(OneRoundtrip::Off));
        for (reads_per_s, atomics_per_s, expected) in [
            (0, 0, auto),
            (0, 16 * 4_000_000, auto),
            (0, 16 * 3_999_999, off),
            (16 * 1_000_000, 16 * 1_000_000, auto),
            (16 * 1_000_001, 16 * 1_000_000, off),
        ] {
            let model = model(reads_per_s, atomics_per_s);
            assert_eq!(auto.under_load(&model), expected, "{reads_per_s}, {atomics_per_s}");
            assert_eq!(way(OneRoundtrip::On).under_load(&model), way(OneRoundtrip::On));
        }
        let Way::Beyond(optimizations) = auto else { unreachable!() };
        assert_eq!(Way::Tuned(optimizations).under_load(&model(0, 1)), Way::Tuned(optimizations));
    }
}
