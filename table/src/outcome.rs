//! What an operation does, and how it completes.

use crate::layout::Position;

/// The outcome of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The table already contained the key.
    Found,
    /// The table did not contain the key; it was inserted.
    Inserted,
    /// The table did not contain the key, and no bucket within the probe limit was empty. The table
    /// is unchanged.
    Full,
    /// The table did not contain the key. Only a find has this outcome.
    #[default]
    Absent,
}

/// The outcome of an operation, and the position of the key's bucket.
///
/// A bucket is written once, so the position stays right until the next [`clear`] or [`retain`],
/// which may change buckets.
///
/// [`clear`]: crate::Table::clear
/// [`retain`]: crate::Table::retain
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Located {
    /// The outcome.
    pub outcome: Outcome,
    /// The bucket that holds the key, if the outcome is [`Outcome::Found`] or
    /// [`Outcome::Inserted`].
    pub at: Option<Position>,
}

/// What a caller keeps of an operation that completes: its outcome, with the position of the key's
/// bucket or without.
pub(crate) trait OfOutcome: Copy {
    /// Whether it keeps the position.
    const LOCATED: bool;

    /// Creates it; `at` returns the position, if the outcome is `Found` or `Inserted`.
    fn of_outcome(outcome: Outcome, at: impl FnOnce() -> Position) -> Self;
}

impl OfOutcome for Outcome {
    const LOCATED: bool = false;

    #[inline(always)]
    fn of_outcome(outcome: Outcome, _: impl FnOnce() -> Position) -> Self {
        outcome
    }
}

impl OfOutcome for Located {
    const LOCATED: bool = true;

    #[inline(always)]
    fn of_outcome(outcome: Outcome, at: impl FnOnce() -> Position) -> Self {
        Self { outcome, at: outcome.has_bucket().then(at) }
    }
}

/// What an operation does if the table does not contain the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Intent {
    /// Nothing: the operation only searches.
    Find,
    /// Inserts the key into the first empty bucket of its probe order.
    FindOrPut,
}

impl Outcome {
    /// Returns whether the key has a bucket.
    #[inline(always)]
    pub(crate) fn has_bucket(self) -> bool {
        matches!(self, Self::Found | Self::Inserted)
    }
}

impl Intent {
    /// Returns the outcome if all buckets within the probe limit hold other keys.
    #[inline]
    pub(crate) fn outcome_at_limit(self) -> Outcome {
        match self {
            Self::Find => Outcome::Absent,
            Self::FindOrPut => Outcome::Full,
        }
    }
}
