//! Garbage collection for the probe orders without clusters (`Lines` and `DoubleHash`): every owner moves
//! the keys of its part, in rounds, until a round moves no key on any owner.

use probeline_pipeline::{Collective, CollectiveError};
use probeline_transport::{Exchange, Transport};

use super::retain::{Occupants, Retain};
use crate::OperationError;
use crate::layout::Position;
use crate::outcome::Intent;
use crate::walk::Walk;

impl<T: Transport, O: Occupants> Retain<'_, T, O> {
    /// Removes the keys that `keep` rejects, then moves the rest in rounds until no key moves.
    ///
    /// In a round every owner moves each key of its part to the first empty bucket of the key's
    /// probe order, whichever owner holds that bucket. Each move brings a key nearer to its home,
    /// so the rounds terminate. In a round without a move no bucket became empty, so every key that
    /// the round checked is still in the right place.
    pub(super) fn by_rounds(
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
}
