//! The way to one owner: a queue pair, its window, and what is to be posted next.

use crate::{
    PostFailed, QueuePair, ReadyToSend, RemoteAddress, RemoteRegion, WorkRequest, WorkRequestList,
};

/// Requests that are collected before a doorbell at most. More only make the first wait longer;
/// with 32 its cost, tens of nanoseconds, is one or two for each.
pub(super) const BATCH: usize = 32;

/// A connected queue pair to one owner.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) pair: QueuePair<ReadyToSend>,
    /// The owner's control words and, behind them, its window.
    region: RemoteRegion,
    control_words: u64,
    list: WorkRequestList,
    /// Something was posted since this was last asked.
    used: bool,
    /// It has failed, or its owner has left.
    pub(super) dead: bool,
}

impl Lane {
    pub(super) fn new(
        pair: QueuePair<ReadyToSend>,
        region: RemoteRegion,
        control_words: u64,
    ) -> Self {
        let list = WorkRequestList::new(BATCH);
        Self { pair, region, control_words, list, used: false, dead: false }
    }

    /// Word `index` of the owner's window, from which on `words` are used.
    #[inline]
    pub(super) fn window(&self, index: u64, words: u32) -> Option<RemoteAddress> {
        self.region.at(self.control_words.checked_add(index)?, words)
    }

    /// A control word of the owner.
    pub(super) fn control(&self, index: u64) -> Option<RemoteAddress> {
        (index < self.control_words).then_some(())?;
        self.region.at(index, 1)
    }

    /// Collects a request; `false` if the list is full.
    #[inline]
    pub(super) fn push(&mut self, request: &WorkRequest) -> bool {
        self.list.push(request).is_ok()
    }

    /// Requests collected.
    #[inline]
    pub(super) fn collected(&self) -> usize {
        self.list.len()
    }

    /// Rings the doorbell for them. Those that were refused, without a doubt, are given to `refused`
    /// by name.
    #[inline]
    pub(super) fn ring(&mut self, refused: impl FnMut(u64)) -> Result<(), PostFailed> {
        self.used = true;
        self.pair.post_list(&mut self.list).inspect_err(|failed| self.give_up(failed, refused))
    }

    /// Whether a doorbell was rung since the last call.
    pub(super) fn take_used(&mut self) -> bool {
        core::mem::take(&mut self.used)
    }

    #[cold]
    fn give_up(&mut self, failed: &PostFailed, refused: impl FnMut(u64)) {
        if !failed.in_doubt {
            self.list.ids().for_each(refused);
        }
        self.list.clear();
    }
}
