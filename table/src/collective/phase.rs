//! The words of all owners between the barriers of a collective call, when no operation is in
//! flight: the CPU accesses this owner's part, the transport the others'.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release, SeqCst};

use probeline_transport::{
    Completion, PostError, RemoteWord, Segment, Slot, SlotRange, Token, Transport,
};

use crate::OperationError;
use crate::layout::{Layout, Position};

/// Slot 0 belongs to an operation of the pipeline, which is idle during a collective call.
const SLOT: Slot = Slot(0);
const LANDING: SlotRange = SlotRange { slot: SLOT, start: 0, words: 1 };
const TOKEN: Token = Token(0);

/// The words of a table during a collective call.
pub struct Phase<'t, T> {
    pub(crate) transport: &'t mut T,
    /// The slots of the table's operations, from slot 0 on.
    pub(crate) slots: u32,
    pub(crate) layout: Layout,
}

impl<T: Transport> Phase<'_, T> {
    pub(crate) fn me(&self) -> u32 {
        self.transport.geometry().me.0
    }

    /// Returns this owner's buckets.
    pub(crate) fn part(&self) -> Result<&[AtomicU64], OperationError> {
        self.words(self.layout.first_word(), self.layout.buckets_per_owner())
    }

    /// Returns words of this owner's window.
    pub(crate) fn words(&self, first: u64, count: u64) -> Result<&[AtomicU64], OperationError> {
        probeline_pipeline::words(self.transport.window(), first, count)
    }

    /// Returns what `of` makes of the first word of this owner's buckets from index `next` on of which it
    /// makes something, and advances `next` past that bucket.
    pub(crate) fn next_of<R>(
        &self,
        next: &mut u64,
        of: impl Fn(u64) -> Option<R>,
    ) -> Result<Option<R>, OperationError> {
        let first = usize::try_from(*next).unwrap_or(usize::MAX);
        for bucket in self.part()?.iter().skip(first) {
            *next += 1;
            if let Some(found) = of(bucket.load(SeqCst)) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Returns the bucket at `at` if this owner holds it. Buckets of other owners are accessed
    /// through the transport.
    fn own(&self, at: Position) -> Result<Option<&AtomicU64>, OperationError> {
        if at.owner != self.me() {
            return Ok(None);
        }
        let bucket = usize::try_from(at.index).ok().and_then(|index| self.part().ok()?.get(index));
        bucket.map(Some).ok_or(OperationError::Window)
    }

    pub(crate) fn load(&mut self, at: Position) -> Result<u64, OperationError> {
        match self.own(at)? {
            Some(bucket) => Ok(bucket.load(Acquire)),
            None => self.read_word(self.layout.word(at)),
        }
    }

    /// Stores into a bucket of this owner.
    pub(crate) fn store(&self, at: Position, word: u64) -> Result<(), OperationError> {
        self.own(at)?.ok_or(OperationError::Window)?.store(word, Release);
        Ok(())
    }

    pub(crate) fn read_word(&mut self, at: RemoteWord) -> Result<u64, OperationError> {
        match self.read(Segment { start: at, words: 1 })? {
            [word] => Ok(*word),
            _ => Err(PostError::OutOfRange.into()),
        }
    }

    /// Reads words that fit a slot.
    pub(crate) fn read(&mut self, from: Segment) -> Result<&[u64], OperationError> {
        let into = SlotRange { words: from.words, ..LANDING };
        let posted = self.transport.read(TOKEN, from, into);
        self.finish(posted)?;
        Ok(self.transport.landed(into)?)
    }

    /// Posts READs of all of `reads` and passes the words that landed with the caller's number of
    /// each READ. As many are in flight as there are slots.
    pub(crate) fn read_all(
        &mut self,
        reads: &[(usize, Segment)],
        mut landed: impl FnMut(usize, &[u64]) -> Result<(), OperationError>,
    ) -> Result<(), OperationError> {
        let max = self.slots.min(self.transport.caps().depth).max(1) as usize;
        let mut rest = reads;
        while !rest.is_empty() {
            let (reads, later) = rest.split_at_checked(max).unwrap_or((rest, &[]));
            rest = later;
            let mut posted = 0;
            let mut refused = Ok(());
            for (slot, (_, from)) in (0..).map(Slot).zip(reads) {
                let into = SlotRange { slot, start: 0, words: from.words };
                refused = self.transport.read(TOKEN, *from, into);
                if refused.is_err() {
                    break;
                }
                posted += 1;
            }
            // Also after an error: the slots belong to the next operation.
            let finished = self.finish_reads(posted);
            refused.map_err(OperationError::Post)?;
            finished?;
            for (slot, &(number, from)) in (0..).map(Slot).zip(reads) {
                let into = SlotRange { slot, start: 0, words: from.words };
                landed(number, self.transport.landed(into)?)?;
            }
        }
        Ok(())
    }

    /// Waits for all of `count` posted READs.
    fn finish_reads(&mut self, count: u32) -> Result<(), OperationError> {
        let (mut left, mut first_error) = (count, Ok(()));
        while left > 0 {
            let mut end = [Completion::default()];
            if self.transport.poll(&mut end)? > 0 {
                let [end] = end;
                first_error = first_error.and(end.result.map(drop));
                left -= 1;
            }
        }
        first_error.map_err(OperationError::Failed)
    }

    /// Claims a bucket by compare-and-swap, because other owners claim at the same time.
    pub(crate) fn claim(&mut self, at: Position, word: u64) -> Result<bool, OperationError> {
        let at = self.layout.word(at);
        let posted = self.transport.compare_and_swap(TOKEN, at, 0, word);
        Ok(self.finish(posted)? == 0)
    }

    /// Adds to a word that other owners may add to at the same time.
    pub(crate) fn add(&mut self, at: RemoteWord, addend: u64) -> Result<(), OperationError> {
        let posted = self.transport.fetch_add(TOKEN, at, addend);
        self.finish(posted).map(drop)
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
        while self.transport.poll(&mut end)? == 0 {}
        let [end] = end;
        end.result.map_err(OperationError::Failed)
    }
}
