//! How the table holds states: options, and the tables and searches for each number of words.

use clap::builder::TypedValueParser;
use probeline::table::{Config, OneRoundtrip};
use probeline::transport::{Exchange, Sizes};

use super::searches::{Answer, Searches};
use super::tables::{Engine, InBuckets, InEntries, InTrees, StateKind, open};
use crate::cli::{JobArgs, one_of};
use crate::failure::{Failure, Result};
use crate::table::PipelineArgs;

/// What is compiled for states of one number of words in tables of one kind.
pub(super) struct States {
    pub(super) words: u32,
    /// As [`StateKind::sizes`].
    pub(super) sizes: fn(Config, u32) -> (Config, Sizes),
    pub(super) search:
        fn(&mut Searches<'_>, &mut dyn Engine, &mut dyn Exchange) -> Result<Option<Answer>>,
}

impl States {
    // At most 16 words.
    #[allow(clippy::cast_possible_truncation)]
    const fn of<K: StateKind<W>, const W: usize>() -> Self {
        Self {
            words: W as u32,
            sizes: K::sizes,
            search: |searches, engine, exchange| {
                searches.search::<W>(open::<K, W>, engine, exchange)
            },
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

/// How the table holds states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatesChoice {
    Auto,
    Flat,
    Tree,
}

pub(super) fn choices() -> impl TypedValueParser<Value = StatesChoice> {
    one_of(&[
        (
            "auto",
            "In the bucket, 8 bytes, if 63 bits are enough; flat otherwise",
            StatesChoice::Auto,
        ),
        (
            "flat",
            "In an array of 16 to 128 bytes a state, beside 8 bytes for the bucket",
            StatesChoice::Flat,
        ),
        (
            "tree",
            "As a tree of pairs that states share, 8 to 10 bytes for most wide states; slower",
            StatesChoice::Tree,
        ),
    ])
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

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Flat => "flat",
            Self::Tree => "tree",
        }
    }
}

/// Refuses options that the user gave and that tables of states of several words do not have.
pub(super) fn check_options(job: &JobArgs) -> Result<()> {
    match ["one-roundtrip", "cache"].into_iter().find(|option| job.options.is_given(option)) {
        Some(option) => Err(Failure::usage(format!(
            "--{option} is for states of at most 63 bits: leave it out"
        ))),
        None => Ok(()),
    }
}

/// Returns the options of a table of states of several words, which has no cache.
pub(super) fn wide_args(args: &PipelineArgs) -> PipelineArgs {
    let mut args = args.clone();
    args.table.cache = 0;
    args
}

/// Returns a note on the options without effect on a table of states of several words: those of a
/// tuning, and those given for states that had one word when the search started.
pub(super) fn without_effect(args: &PipelineArgs, narrow: &Config) -> Option<String> {
    let cache = (args.table.cache > 0).then_some("--cache");
    let claims = (narrow.one_roundtrip == OneRoundtrip::On).then_some("--one-roundtrip");
    let ignored: Vec<&str> = cache.into_iter().chain(claims).collect();
    (!ignored.is_empty()).then(|| {
        format!("{}: without effect on states that have several words.", ignored.join(", "))
    })
}
