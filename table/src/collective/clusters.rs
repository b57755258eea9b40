//! Garbage collection with linear probing: every owner sweeps the clusters that begin in its part.

use core::sync::atomic::Ordering::Acquire;

use probeline_transport::{Exchange, Owner, Transport};

use crate::bucket::Bucket;
use crate::cache::CacheEntry;
use crate::error::{CollectiveError, OperationError};
use crate::layout::Position;
use crate::table::{Operation, Table};

impl<T, S, C> Table<T, S, C>
where
    T: Transport,
    S: AsMut<[Operation]>,
    C: AsMut<[CacheEntry]>,
{
    /// Collects garbage with linear probing: each owner sweeps its own clusters independently.
    pub(super) fn retain_by_clusters(
        &mut self,
        quiet: Result<(), OperationError>,
        exchange: &mut (impl Exchange + ?Sized),
        mut keep: impl FnMut(u64) -> bool,
    ) -> Result<u64, CollectiveError> {
        let empty = quiet.and_then(|()| self.first_empty());
        let has_room = empty.map(|empty| u64::from(empty.is_some()));
        let parts_with_room = self.sum(has_room, exchange);
        let removed = match (parts_with_room, empty.ok().flatten()) {
            (Err(error), _) => Err(error),
            (Ok(_), Some(empty)) => self.sweep(empty, &mut keep).map_err(Into::into),
            (Ok(0), None) if exchange.me() == Owner(0) => {
                self.sweep_full(&mut keep).map_err(Into::into)
            }
            (Ok(_), None) => Ok(0),
        };
        self.sum(removed, exchange)
    }

    fn first_empty(&self) -> Result<Option<Position>, OperationError> {
        let index = self.part()?.iter().position(|bucket| bucket.load(Acquire) == 0);
        Ok(index.map(|index| Position { owner: self.me(), index: index as u64 }))
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
        keep: &mut impl FnMut(u64) -> bool,
    ) -> Result<u64, OperationError> {
        let mut removed = 0;
        let mut hole = false;
        let mut at = from;
        // At most one pass around the ring.
        for _ in 1..self.layout().buckets() {
            at = self.layout().advance(at, 1);
            let word = self.load(at)?;
            let Some(bucket) = Bucket::from_word(word) else {
                if at.owner != from.owner {
                    break;
                }
                hole = false;
                continue;
            };
            if !keep(bucket.key()) {
                self.store(at, 0)?;
                removed += 1;
                hole = true;
            } else if hole {
                self.move_home(at, bucket)?;
            }
        }
        Ok(removed)
    }

    /// As `sweep`, for a table without an empty bucket: the sweep starts at the first key removed.
    fn sweep_full(&mut self, keep: &mut impl FnMut(u64) -> bool) -> Result<u64, OperationError> {
        let mut at = Position::default();
        for _ in 0..self.layout().buckets() {
            let word = self.load(at)?;
            if Bucket::from_word(word).is_some_and(|bucket| !keep(bucket.key())) {
                self.store(at, 0)?;
                return Ok(1 + self.sweep_ring(at, keep)?);
            }
            at = self.layout().advance(at, 1);
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
        keep: &mut impl FnMut(u64) -> bool,
    ) -> Result<u64, OperationError> {
        let mut removed = 0;
        let mut moved = true;
        while moved {
            moved = false;
            let mut at = from;
            for _ in 0..self.layout().buckets() {
                at = self.layout().advance(at, 1);
                let word = self.load(at)?;
                let Some(bucket) = Bucket::from_word(word) else { continue };
                if keep(bucket.key()) {
                    moved |= self.move_home(at, bucket)?;
                } else {
                    self.store(at, 0)?;
                    removed += 1;
                }
            }
        }
        Ok(removed)
    }

    /// Moves the bucket at `from` to the first empty bucket of its probe order. Returns false if it
    /// is already there.
    fn move_home(&mut self, from: Position, bucket: Bucket) -> Result<bool, OperationError> {
        let mut to = self.layout().home(bucket);
        // Stops at `from` at the latest.
        while to != from && self.load(to)? != 0 {
            to = self.layout().advance(to, 1);
        }
        if to == from {
            return Ok(false);
        }
        self.store(to, bucket.word())?;
        self.store(from, 0)?;
        Ok(true)
    }
}
