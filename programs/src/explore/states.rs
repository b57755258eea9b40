//! Layouts of states in the table, and the tables and searches for each number of words.

use probeline::table::Config;
use probeline::transport::{Exchange, Sizes};

use super::Explored;
use super::searches::Searches;
use super::tables::{Engine, InBuckets, InEntries, InTrees, StateKind};
use crate::Error;

/// Searches with states of one number of words. Returns nothing if they need another packing.
type RunSearch =
    fn(&mut Searches<'_>, &mut dyn Engine, &mut dyn Exchange) -> Result<Option<Explored>, Error>;

/// Functions compiled for states of one number of words in tables of one kind.
pub(super) struct States {
    pub(super) words: u32,
    /// As [`StateKind::sizes`].
    pub(super) sizes: fn(Config, u32) -> (Config, Sizes),
    pub(super) search: RunSearch,
}

impl States {
    // At most 16 words.
    #[allow(clippy::cast_possible_truncation)]
    const fn of<K: StateKind<W>, const W: usize>() -> Self {
        Self {
            words: W as u32,
            sizes: K::sizes,
            search: |searches, engine, exchange| searches.search::<K, W>(engine, exchange),
        }
    }
}

/// A state with fewer words is filled up with zeros: every width takes seconds to compile.
static FLAT: [States; 6] = [
    States::of::<InBuckets, 1>(),
    States::of::<InEntries<2>, 2>(),
    States::of::<InEntries<3>, 3>(),
    States::of::<InEntries<4>, 4>(),
    States::of::<InEntries<8>, 8>(),
    States::of::<InEntries<16>, 16>(),
];
static TREES: [States; 5] = [
    States::of::<InTrees<2>, 2>(),
    States::of::<InTrees<3>, 3>(),
    States::of::<InTrees<4>, 4>(),
    States::of::<InTrees<8>, 8>(),
    States::of::<InTrees<16>, 16>(),
];

/// The layout of states in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatesChoice {
    /// States in the bucket if 63 bits are enough; flat otherwise.
    Auto,
    /// States in an array of entries of two words or more.
    Flat,
    /// States as trees of pairs, which states share.
    Tree,
}

impl StatesChoice {
    /// Returns the states of each number of words that they may have, in ascending order.
    pub(super) fn all(self) -> &'static [States] {
        match self {
            Self::Auto => &FLAT,
            Self::Flat => FLAT.get(1..).unwrap_or_default(),
            Self::Tree => &TREES,
        }
    }

    /// Returns the words that a state may have, in ascending order.
    #[must_use]
    pub fn widths(self) -> Vec<u32> {
        self.all().iter().map(|states| states.words).collect()
    }
}
