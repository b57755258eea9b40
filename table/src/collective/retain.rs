//! Garbage collection of any kind of table and with any probe order: every owner moves the keys of its
//! part, in rounds, until a round moves no key on any owner. [`Occupants`] decodes the buckets.

use probeline_pipeline::{Collective, CollectiveError};
use probeline_transport::{Exchange, Transport};

use super::phase::Phase;
use crate::OperationError;
use crate::bucket::{Bucket, Wanted};
use crate::layout::Position;
use crate::outcome::Intent;
use crate::walk::Walk;

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
    /// Removes the keys that `keep` rejects, then moves the rest in rounds until no key moves. Returns
    /// the number of keys removed from the whole table.
    ///
    /// In a round every owner moves each key of its part to the first empty bucket of the key's
    /// probe order, whichever owner holds that bucket. Each move brings a key nearer to its home,
    /// so the rounds terminate. In a round without a move no bucket became empty, so every key that
    /// the round checked is still in the right place.
    pub(crate) fn run(
        &mut self,
        call: &mut Collective<'_, impl Exchange + ?Sized>,
        mut keep: impl FnMut(&O::Key) -> bool,
    ) -> Result<u64, CollectiveError> {
        let removed = self.remove(&mut keep).map_err(CollectiveError::from);
        let all_removed = call.sum(removed)?;
        loop {
            let moved = self.move_keys().map_err(CollectiveError::from);
            if call.sum(moved)? == 0 {
                return Ok(all_removed);
            }
        }
    }

    /// Empties the buckets of this owner's part whose keys `keep` rejects, and returns their
    /// number.
    fn remove(&mut self, keep: &mut impl FnMut(&O::Key) -> bool) -> Result<u64, OperationError> {
        let (owner, mut removed) = (self.phase.me(), 0);
        for index in 0..self.phase.layout.buckets_per_owner() {
            let at = Position { owner, index };
            let word = self.phase.load(at)?;
            if self.occupant(word)?.is_some_and(|(_, key)| !keep(&key)) {
                self.phase.store(at, 0)?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Moves each key of this owner's part that has an empty bucket before it in its probe order.
    /// Returns the number of moves.
    fn move_keys(&mut self) -> Result<u64, OperationError> {
        let (owner, mut moved) = (self.phase.me(), 0);
        for index in 0..self.phase.layout.buckets_per_owner() {
            let from = Position { owner, index };
            let word = self.phase.load(from)?;
            let Some((bucket, _)) = self.occupant(word)? else { continue };
            if self.move_to_first_empty(from, bucket, word)? {
                self.phase.store(from, 0)?;
                moved += 1;
            }
        }
        Ok(moved)
    }

    /// Claims the first empty bucket before `from` in the probe order. Returns false if there is
    /// none.
    fn move_to_first_empty(
        &mut self,
        from: Position,
        bucket: O::Wanted,
        word: u64,
    ) -> Result<bool, OperationError> {
        let layout = self.phase.layout;
        let mut walk = Walk::new(bucket, Intent::Find, layout.buckets(), &layout);
        // At most one pass over the table.
        loop {
            let at = walk.position(&layout);
            if at == from {
                return Ok(false);
            }
            if self.phase.load(at)? == 0 && self.phase.claim(at, word)? {
                return Ok(true);
            }
            if !walk.pass(&layout) {
                return Ok(false);
            }
        }
    }

    fn occupant(&mut self, word: u64) -> Result<Occupant<O>, OperationError> {
        self.occupants.of(word, &mut self.phase)
    }
}
