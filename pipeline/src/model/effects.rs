//! Effects of operations in flight on the memory, and values that READs beside them may return.

use super::wire::{Action, MAX_WRITTEN};

/// The change that an operation makes, now or, if it was reported as failed, later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the fields are those of the actions")]
pub enum Effect {
    /// A compare-and-swap.
    Swap { at: usize, expected: u64, desired: u64 },
    /// A fetch-and-add.
    Add { at: usize, addend: u64 },
    /// A WRITE of the first `count` words.
    Write { at: usize, words: [u64; MAX_WRITTEN], count: usize },
}

impl Effect {
    /// Returns the change that an action makes, if it changes anything.
    #[must_use]
    pub fn from_action(action: Action) -> Option<Self> {
        match action {
            Action::CompareAndSwap { at, expected, desired } => {
                Some(Self::Swap { at, expected, desired })
            }
            Action::FetchAdd { at, addend } if addend != 0 => Some(Self::Add { at, addend }),
            Action::Write { at, words, count } => Some(Self::Write { at, words, count }),
            _ => None,
        }
    }

    /// Returns the words that it gives to a memory, each with its index.
    #[must_use]
    pub fn stores(self, memory: &[u64]) -> Vec<(usize, u64)> {
        match self {
            Self::Swap { at, expected, desired } if memory[at] == expected => vec![(at, desired)],
            Self::Swap { .. } => Vec::new(),
            Self::Add { at, addend } => vec![(at, memory[at].wrapping_add(addend))],
            Self::Write { at, words, count } => (at..).zip(words).take(count).collect(),
        }
    }

    /// Changes a memory.
    pub fn apply(self, memory: &mut [u64]) {
        for (at, word) in self.stores(memory) {
            memory[at] = word;
        }
    }

    /// Returns the value that a WRITE gives to a word.
    #[must_use]
    pub fn writes(self, word: usize) -> Option<u64> {
        match self {
            Self::Write { at, words, count } => words[..count].get(word.checked_sub(at)?).copied(),
            Self::Swap { .. } | Self::Add { .. } => None,
        }
    }
}

/// Returns the words whose bits in each of `parts` are those of one of these values: all words that a
/// READ may tear at the borders of the parts.
///
/// # Panics
/// If the parts are not disjoint, or not a whole word together.
#[must_use]
pub fn torn(values: &[u64], parts: &[u64]) -> Vec<u64> {
    let bits: u32 = parts.iter().map(|part| part.count_ones()).sum();
    let all = parts.iter().fold(0, |all, part| all | part);
    assert!(bits == u64::BITS && all == u64::MAX, "tears are parts of a word");
    let mut all = vec![0];
    for part in parts {
        let with = |word: u64| values.iter().map(move |value| word | value & part);
        all = all.into_iter().flat_map(with).collect();
        all.sort_unstable();
        all.dedup();
    }
    all
}

/// Returns every sequence that has in each place one of the values of that place.
#[must_use]
pub fn combinations(values: impl IntoIterator<Item = Vec<u64>>) -> Vec<Vec<u64>> {
    let mut all = vec![Vec::new()];
    for values in values {
        let with = |words: Vec<u64>| {
            let then = move |value| [words.as_slice(), &[value]].concat();
            values.clone().into_iter().map(then)
        };
        all = all.into_iter().flat_map(with).collect();
    }
    all
}
