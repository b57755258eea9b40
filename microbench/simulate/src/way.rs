//! How operations are done: the paper's way, or with what goes beyond it.

use sim::Model;
use table::{ChunkChoice, Config, FirstClaim, Probing, ReadAhead, ReadCost};

/// Operations whose storage a blocking caller needs: one, and a few whose READs ahead may still be
/// to land.
const BLOCKING: u32 = 4;
/// Operations with many in flight have as many behind them, whose READs ahead may be to land.
const BEHIND: u32 = 2;
/// One-sided operations of each at most: the READs of two chunks, each split in two, and a claim.
const DEPTH: u32 = 5;
/// An engine's at most; what finds no room in it is posted later.
const MOST_DEPTH: u32 = 1 << 16;
const PS_PER_NS: u64 = 1_000;

/// How a rank does its operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The paper's algorithm (Fig. 1), one operation at a time.
    Paper,
    /// These means, C by what operations need, and lines instead of any bucket as a chunk's start.
    Beyond(Means),
    /// These means with one C, as `tune` recommends them.
    Tuned(Means),
}

/// What hides latency beyond the paper's algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Means {
    /// Operations in flight; 1 is blocking calls.
    pub in_flight: u32,
    /// Buckets that a rank's cache has room for; 0 is none.
    pub cache_entries: u32,
    /// When an operation claims its home bucket along with its first READ. It costs an atomic on a
    /// find.
    pub first_claim: FirstClaim,
    /// When the next chunk is requested before the present one is scanned.
    pub read_ahead: ReadAhead,
}

impl Way {
    /// What it is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::Beyond(_) => "beyond",
            Self::Tuned(_) => "tuned",
        }
    }

    /// Operations that are begun before the first has ended.
    #[must_use]
    pub fn in_flight(self) -> u32 {
        match self {
            Self::Paper => 1,
            Self::Beyond(means) | Self::Tuned(means) => means.in_flight.max(1),
        }
    }

    /// Operations that there is storage for.
    pub(crate) fn operations(self) -> u32 {
        match self {
            Self::Paper => BLOCKING,
            Self::Beyond(_) | Self::Tuned(_) => (self.in_flight() * BEHIND).max(BLOCKING),
        }
    }

    pub(crate) fn depth(self) -> u32 {
        (self.operations() * DEPTH).min(MOST_DEPTH)
    }

    pub(crate) fn cache_entries(self) -> usize {
        match self {
            Self::Paper => 0,
            Self::Beyond(means) | Self::Tuned(means) => means.cache_entries as usize,
        }
    }

    /// The table's parameters; `reach` is C times M.
    pub(crate) fn config(self, buckets: u64, chunk: u32, reach: u32, model: &Model) -> Config {
        let max_chunks = (reach / chunk.max(1)).max(1);
        let paper = Config { chunk_buckets: chunk, max_chunks, ..Config::paper(buckets) };
        match self {
            Self::Paper => paper,
            Self::Beyond(means) => Config {
                probing: Probing::Lines,
                chunk_choice: ChunkChoice::Adaptive(read_cost(model)),
                ..means.config(paper)
            },
            Self::Tuned(means) => means.config(paper),
        }
    }
}

impl Means {
    fn config(self, paper: Config) -> Config {
        Config { read_ahead: self.read_ahead, first_claim: self.first_claim, ..paper }
    }
}

/// What a READ from another machine costs.
fn read_cost(model: &Model) -> ReadCost {
    let read = model.remote.read;
    ReadCost { base_ps: read.base_ns.saturating_mul(PS_PER_NS).max(1), bucket_ps: read.word_ps }
}
