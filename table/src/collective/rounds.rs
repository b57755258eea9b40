//! Garbage collection for the probe orders without clusters (`Lines` and `Jump`): every owner moves
//! the keys of its part, in rounds, until a round moves no key on any owner.

use core::sync::atomic::Ordering::{Acquire, Release};

use probeline_transport::{Exchange, Transport};

use super::TRIES;
use crate::bucket::Bucket;
use crate::cache::CacheEntry;
use crate::error::{CollectiveError, OperationError};
use crate::layout::Position;
use crate::outcome::Intent;
use crate::table::{Operation, Table};
use crate::walk::Walk;

impl<T, S, C> Table<T, S, C>
where
    T: Transport,
    S: AsMut<[Operation]>,
    C: AsMut<[CacheEntry]>,
{
    /// Removes the keys that `keep` rejects, then settles the rest in rounds until no key moves.
    ///
    /// In a round every owner moves each key of its part to the first empty bucket of the key's
    /// probe order, whichever owner holds that bucket. Each move brings a key nearer to its home,
    /// so the rounds terminate. In a round without a move no bucket became empty, so every key that
    /// the round checked is still in the right place.
    pub(super) fn retain_by_rounds(
        &mut self,
        quiet: Result<(), OperationError>,
        exchange: &mut (impl Exchange + ?Sized),
        mut keep: impl FnMut(u64) -> bool,
    ) -> Result<u64, CollectiveError> {
        let removed = quiet.and_then(|()| self.remove(&mut keep));
        let all_removed = self.sum_trying(TRIES, removed, exchange)?;
        loop {
            let moved = self.settle();
            if self.sum_trying(TRIES, moved, exchange)? == 0 {
                return Ok(all_removed);
            }
        }
    }

    /// Empties the buckets of this owner's part whose keys `keep` rejects, and returns their
    /// number.
    fn remove(&self, keep: &mut impl FnMut(u64) -> bool) -> Result<u64, OperationError> {
        let mut removed = 0;
        for bucket in self.part()? {
            let occupant = Bucket::from_word(bucket.load(Acquire));
            if occupant.is_some_and(|occupant| !keep(occupant.key())) {
                bucket.store(0, Release);
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Moves each key of this owner's part that has an empty bucket before it in its probe order.
    /// Returns the number of moves.
    fn settle(&mut self) -> Result<u64, OperationError> {
        let (owner, mut moved) = (self.me(), 0);
        for index in 0..self.layout().buckets_per_owner() {
            let from = Position { owner, index };
            let Some(bucket) = Bucket::from_word(self.load(from)?) else { continue };
            if self.settle_bucket(from, bucket)? {
                self.store(from, 0)?;
                moved += 1;
            }
        }
        Ok(moved)
    }

    /// Claims the first empty bucket before `from` in the probe order. Returns false if there is
    /// none.
    fn settle_bucket(&mut self, from: Position, bucket: Bucket) -> Result<bool, OperationError> {
        let layout = *self.layout();
        let mut walk = Walk::new(bucket, Intent::Find, layout.buckets(), &layout);
        // At most one pass over the table.
        loop {
            let at = walk.position(&layout);
            if at == from {
                return Ok(false);
            }
            if self.load(at)? == 0 && self.claim(layout.word(at), bucket)? {
                return Ok(true);
            }
            if !walk.pass(&layout) {
                return Ok(false);
            }
        }
    }
}
