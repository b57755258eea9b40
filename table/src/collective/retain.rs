//! Garbage collection of any kind of table: [`Occupants`] decodes the buckets.

use probeline_pipeline::{Collective, CollectiveError};
use probeline_transport::{Exchange, Transport};

use super::phase::Phase;
use crate::OperationError;
use crate::bucket::{Bucket, Wanted};
use crate::layout::Probing;

/// The occupant of a bucket, or `None` if it is empty.
pub(crate) type Occupant<O> = Option<(<O as Occupants>::Wanted, <O as Occupants>::Key)>;

/// The occupants of a table's buckets, such as keys or tags.
pub(crate) trait Occupants: Sized {
    /// Determines the home of an occupant.
    type Wanted: Wanted;
    /// The key that is passed to `keep`.
    type Key;

    /// Returns the occupant of a bucket with this word, or `None` if it is empty.
    fn of<T: Transport>(
        &self,
        word: u64,
        phase: &mut Phase<'_, T>,
    ) -> Result<Occupant<Self>, OperationError>;
}

/// Occupants that are keys themselves.
pub(crate) struct InBuckets;

impl Occupants for InBuckets {
    type Wanted = Bucket;
    type Key = u64;

    fn of<T: Transport>(
        &self,
        word: u64,
        _: &mut Phase<'_, T>,
    ) -> Result<Option<(Bucket, u64)>, OperationError> {
        Ok(Bucket::from_word(word).map(|bucket| (bucket, bucket.key())))
    }
}

/// A garbage collection in progress.
pub(crate) struct Retain<'t, T, O> {
    pub(crate) phase: Phase<'t, T>,
    pub(crate) occupants: O,
}

impl<T: Transport, O: Occupants> Retain<'_, T, O> {
    /// Removes the keys that `keep` rejects and closes the gaps in the probe orders of the others.
    /// Returns the number of keys removed from the whole table.
    pub(crate) fn run(
        &mut self,
        call: &mut Collective<'_, impl Exchange + ?Sized>,
        keep: impl FnMut(&O::Key) -> bool,
    ) -> Result<u64, CollectiveError> {
        if self.phase.layout.probing() == Probing::Linear {
            self.by_clusters(call, keep)
        } else {
            self.by_rounds(call, keep)
        }
    }

    pub(super) fn occupant(&mut self, word: u64) -> Result<Occupant<O>, OperationError> {
        self.occupants.of(word, &mut self.phase)
    }
}
