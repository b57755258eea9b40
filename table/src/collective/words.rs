//! Access to single words during a collective call, when the pipeline is idle: by the CPU in this
//! owner's part, through the transport elsewhere.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release};

use probeline_transport::{
    Completion, Local, PostError, RemoteWord, Segment, Slot, SlotError, Token, Transport,
};

use crate::bucket::Bucket;
use crate::cache::CacheEntry;
use crate::error::OperationError;
use crate::layout::Position;
use crate::table::{Operation, Table};

/// Slot 0 belongs to an operation of the pipeline, which is idle during a collective call.
const LANDING: Local = Local { slot: Slot(0), start: 0, words: 1 };
const TOKEN: Token = Token(0);

impl<T, S, C> Table<T, S, C>
where
    T: Transport,
    S: AsMut<[Operation]>,
    C: AsMut<[CacheEntry]>,
{
    /// Returns this owner's buckets.
    pub(super) fn part(&self) -> Result<&[AtomicU64], OperationError> {
        let window = self.transport().window();
        let first = usize::try_from(self.layout().first_word()).ok();
        let count = usize::try_from(self.layout().buckets_per_owner()).ok();
        let part = first.zip(count).and_then(|(first, count)| window.get(first..)?.get(..count));
        part.ok_or(OperationError::Window)
    }

    /// Returns this owner's buckets to functions that return no error: [`Table::new`] has checked
    /// the length of the window, which is fixed.
    pub(crate) fn buckets(&self) -> &[AtomicU64] {
        let part = self.part();
        debug_assert!(part.is_ok(), "the window has become shorter");
        part.unwrap_or_default()
    }

    /// Returns the bucket at `at` if this owner holds it. Buckets of other owners are accessed
    /// through the transport.
    fn own(&self, at: Position) -> Option<&AtomicU64> {
        if at.owner != self.me() {
            return None;
        }
        self.part().ok()?.get(usize::try_from(at.index).ok()?)
    }

    pub(super) fn load(&mut self, at: Position) -> Result<u64, OperationError> {
        match self.own(at) {
            Some(bucket) => Ok(bucket.load(Acquire)),
            None => self.read_word(self.layout().word(at)),
        }
    }

    pub(super) fn store(&mut self, at: Position, word: u64) -> Result<(), OperationError> {
        match self.own(at) {
            Some(bucket) => bucket.store(word, Release),
            None => self.write_word(self.layout().word(at), word)?,
        }
        Ok(())
    }

    pub(super) fn read_word(&mut self, at: RemoteWord) -> Result<u64, OperationError> {
        let from = Segment { start: at, words: 1 };
        let posted = self.pipeline.transport_mut().read(TOKEN, from, LANDING);
        self.finish(posted)?;
        match self.transport().landed(LANDING)? {
            [word] => Ok(*word),
            _ => Err(SlotError::OutOfRange.into()),
        }
    }

    fn write_word(&mut self, at: RemoteWord, word: u64) -> Result<(), OperationError> {
        match self.pipeline.transport_mut().staged(LANDING)? {
            [staged] => *staged = word,
            _ => return Err(SlotError::OutOfRange.into()),
        }
        let to = Segment { start: at, words: 1 };
        let posted = self.pipeline.transport_mut().write(TOKEN, LANDING, to);
        self.finish(posted).map(drop)
    }

    /// Claims a bucket by compare-and-swap, because other owners claim at the same time.
    pub(super) fn claim(&mut self, at: RemoteWord, bucket: Bucket) -> Result<bool, OperationError> {
        let posted = self.pipeline.transport_mut().compare_and_swap(TOKEN, at, 0, bucket.word());
        Ok(self.finish(posted)? == 0)
    }

    /// Polls until the one posted operation has completed, and returns the word that an atomic
    /// found. The transport bounds the wait. If the post found the transport closed, the poll
    /// returns the fault.
    fn finish(&mut self, posted: Result<(), PostError>) -> Result<u64, OperationError> {
        match posted {
            Ok(()) | Err(PostError::Closed) => {}
            Err(refused) => return Err(OperationError::Post(refused)),
        }
        let mut end = [Completion::default()];
        while self.pipeline.transport_mut().poll(&mut end)? == 0 {}
        let [end] = end;
        end.result.map_err(OperationError::Failed)
    }
}
