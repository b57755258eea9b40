//! Intents, ends and results of operations.

use crate::layout::Position;

/// The outcome of a find-or-put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The table already contained the key.
    Found,
    /// The table did not contain the key; it was inserted.
    Inserted,
    /// The table did not contain the key, and no bucket within the probe limit was empty. The table
    /// is unchanged.
    Full,
}

/// The end of a submitted operation: a find with `Found` or `Absent`, a find-or-put with any of the
/// others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ended {
    /// The same as [`Outcome::Found`].
    Found,
    /// The same as [`Outcome::Inserted`].
    Inserted,
    /// The same as [`Outcome::Full`].
    Full,
    /// The table did not contain the key.
    #[default]
    Absent,
}

/// The outcome of a find-or-put, and the position of the key's bucket.
///
/// A bucket is written once, so the position stays right until the next [`clear`] or [`retain`],
/// which may change buckets.
///
/// [`clear`]: probeline_pipeline::Structure::clear
/// [`retain`]: crate::Table::retain
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Located {
    /// The outcome of the operation.
    pub outcome: Outcome,
    /// The bucket that holds the key; `None` if the outcome is [`Outcome::Full`].
    pub at: Option<Position>,
}

/// The effect of an operation if the table does not contain the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Intent {
    /// Nothing: the operation only searches.
    Find,
    /// Inserts the key into the first empty bucket of its probe order.
    FindOrPut,
}

/// The answer of an operation, in one byte: [`Outcome`] or, of a find, `bool`. Its type determines
/// the operation, so that no type offers what its operation never returns.
pub trait Answer: Copy {
    /// The operation.
    const INTENT: Intent;

    /// Returns the answer of an operation of this intent.
    fn from_ended(ended: Ended) -> Self;
}

impl Answer for bool {
    const INTENT: Intent = Intent::Find;

    #[inline(always)]
    fn from_ended(ended: Ended) -> Self {
        debug_assert!(!matches!(ended, Ended::Inserted | Ended::Full), "a find ended {ended:?}");
        ended == Ended::Found
    }
}

impl Answer for Outcome {
    const INTENT: Intent = Intent::FindOrPut;

    #[inline(always)]
    fn from_ended(ended: Ended) -> Self {
        debug_assert_ne!(ended, Ended::Absent, "a find-or-put inserts the key or finds no room");
        match ended {
            Ended::Found => Self::Found,
            Ended::Inserted => Self::Inserted,
            // The key is not in the table, which is unchanged.
            Ended::Full | Ended::Absent => Self::Full,
        }
    }
}

impl From<Outcome> for Ended {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Found => Self::Found,
            Outcome::Inserted => Self::Inserted,
            Outcome::Full => Self::Full,
        }
    }
}

/// The end of a find, from whether it found the key.
impl From<bool> for Ended {
    fn from(is_found: bool) -> Self {
        if is_found { Self::Found } else { Self::Absent }
    }
}

impl Ended {
    /// Returns whether the key has a bucket.
    #[inline(always)]
    pub(crate) fn has_bucket(self) -> bool {
        matches!(self, Self::Found | Self::Inserted)
    }
}

impl Intent {
    /// Returns the end of an operation if all buckets within the probe limit hold other keys.
    #[inline]
    pub(crate) fn ended_at_limit(self) -> Ended {
        match self {
            Self::Find => Ended::Absent,
            Self::FindOrPut => Ended::Full,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, Ended, Intent, Outcome};
    use crate::results::BatchResult;

    /// Each match names everything that the operation can return, and has no other arm.
    #[test]
    fn answers_cover_operation_results() {
        fn operation<R: BatchResult>(_: R) -> Intent {
            R::Answer::INTENT
        }
        for ended in [Ended::Found, Ended::Inserted, Ended::Full] {
            let outcome = Outcome::from_ended(ended);
            let name = match outcome {
                Outcome::Found => Ended::Found,
                Outcome::Inserted => Ended::Inserted,
                Outcome::Full => Ended::Full,
            };
            assert_eq!((name, Ended::from(outcome)), (ended, ended));
            assert_eq!(operation(outcome), Intent::FindOrPut);
        }
        for ended in [Ended::Found, Ended::Absent] {
            let is_found = bool::from_ended(ended);
            assert_eq!(Ended::from(is_found), ended);
            assert_eq!(operation(is_found), Intent::Find);
        }
    }

    #[test]
    fn batch_results_take_one_byte() {
        assert_eq!([size_of::<Outcome>(), size_of::<bool>()], [1, 1]);
    }
}
