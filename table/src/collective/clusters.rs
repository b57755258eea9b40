//! Garbage collection with linear probing: every owner sweeps the clusters that begin in its part.

use core::sync::atomic::Ordering::Acquire;

use probeline_pipeline::{Collective, CollectiveError};
use probeline_transport::{Exchange, Owner, Transport};

use super::retain::{Occupants, Retain};
use crate::OperationError;
use crate::bucket::Wanted;
use crate::layout::Position;

impl<T: Transport, O: Occupants> Retain<'_, T, O> {
    /// Collects garbage with linear probing: each owner sweeps its own clusters independently.
    pub(super) fn by_clusters(
        &mut self,
        call: &mut Collective<'_, impl Exchange + ?Sized>,
        mut keep: impl FnMut(&O::Key) -> bool,
    ) -> Result<u64, CollectiveError> {
        let empty = self.first_empty().map_err(CollectiveError::from);
        let parts_with_room = call.sum(empty.map(|empty| empty.is_some().into()))?;
        let removed = match (parts_with_room, empty?) {
            (_, Some(empty)) => self.sweep(empty, &mut keep),
            (0, None) if call.me() == Owner(0) => self.sweep_full(&mut keep),
            (_, None) => Ok(0),
        };
        call.sum(removed.map_err(CollectiveError::from))
    }

    fn first_empty(&self) -> Result<Option<Position>, OperationError> {
        let index = self.phase.part()?.iter().position(|bucket| bucket.load(Acquire) == 0);
        Ok(index.map(|index| Position { owner: self.phase.me(), index: index as u64 }))
    }

    /// Sweeps the clusters that begin in this owner's part, starting at the empty bucket `from`,
    /// and moves each kept key to the first empty bucket of its probe order.
    ///
    /// That bucket is at or before the key's present one, because a key's home is in its own
    /// cluster. The owner of the next part skips the front of its part, up to the first empty
    /// bucket: this owner sweeps it.
    fn sweep(
        &mut self,
        from: Position,
        keep: &mut impl FnMut(&O::Key) -> bool,
    ) -> Result<u64, OperationError> {
        let mut removed = 0;
        let mut hole = false;
        let mut at = from;
        // At most one pass around the ring.
        for _ in 1..self.phase.layout.buckets() {
            at = self.phase.layout.advance(at, 1);
            let word = self.phase.load(at)?;
            let Some((bucket, key)) = self.occupant(word)? else {
                if at.owner != from.owner {
                    break;
                }
                hole = false;
                continue;
            };
            if !keep(&key) {
                self.phase.store(at, 0)?;
                removed += 1;
                hole = true;
            } else if hole {
                self.move_home(at, bucket, word)?;
            }
        }
        Ok(removed)
    }

    /// As `sweep`, for a table without an empty bucket: the sweep starts at the first key removed.
    fn sweep_full(
        &mut self,
        keep: &mut impl FnMut(&O::Key) -> bool,
    ) -> Result<u64, OperationError> {
        let mut at = Position::default();
        for _ in 0..self.phase.layout.buckets() {
            let word = self.phase.load(at)?;
            if self.occupant(word)?.is_some_and(|(_, key)| !keep(&key)) {
                self.phase.store(at, 0)?;
                return Ok(1 + self.sweep_ring(at, keep)?);
            }
            at = self.phase.layout.advance(at, 1);
        }
        Ok(0)
    }

    /// Sweeps the whole ring as one cluster that begins behind `from`, which has just been emptied.
    ///
    /// Probe orders may cross `from`. A hole may therefore open in front of a key after the sweep
    /// has passed that key. The sweep is repeated until no key moves. It terminates because each
    /// move brings a key nearer to its home.
    fn sweep_ring(
        &mut self,
        from: Position,
        keep: &mut impl FnMut(&O::Key) -> bool,
    ) -> Result<u64, OperationError> {
        let mut removed = 0;
        let mut moved = true;
        while moved {
            moved = false;
            let mut at = from;
            for _ in 0..self.phase.layout.buckets() {
                at = self.phase.layout.advance(at, 1);
                let word = self.phase.load(at)?;
                let Some((bucket, key)) = self.occupant(word)? else { continue };
                if keep(&key) {
                    moved |= self.move_home(at, bucket, word)?;
                } else {
                    self.phase.store(at, 0)?;
                    removed += 1;
                }
            }
        }
        Ok(removed)
    }

    /// Moves the bucket at `from` to the first empty bucket of its probe order. Returns false if it
    /// is already there.
    fn move_home(
        &mut self,
        from: Position,
        bucket: O::Wanted,
        word: u64,
    ) -> Result<bool, OperationError> {
        let mut to = self.phase.layout.home_of(bucket.hashed());
        // Stops at `from` at the latest.
        while to != from && self.phase.load(to)? != 0 {
            to = self.phase.layout.advance(to, 1);
        }
        if to == from {
            return Ok(false);
        }
        self.phase.store(to, word)?;
        self.phase.store(from, 0)?;
        Ok(true)
    }
}
