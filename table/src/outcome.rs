//! What an operation does, and how it completes.

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

/// What an operation does if the table does not contain the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Intent {
    /// Nothing: the operation only searches.
    Find,
    /// Inserts the key into the first empty bucket of its probe order.
    FindOrPut,
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
