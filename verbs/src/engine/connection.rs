//! The connection to one owner: a queue pair, the owner's window, and requests to be posted next.
//!
//! Control words precede the window. Word 0 is written by the self-test and read by keepalives. An
//! owner that shuts down writes two words of every peer: [`FIRST_LOST`], and the word of its own,
//! [`shutdown_word`]. Both name the owner that was lost first: itself, or the one because of which
//! it shuts down.

use core::sync::atomic::AtomicU64;

use probeline_transport::Owner;
use probeline_transport::engine::{PAGE_WORDS, lost_owner};

use crate::{
    PostFailed, QueuePair, ReadyToSend, RemoteAddress, RemoteRegion, WorkRequest, WorkRequestList,
};

/// The control word of the self-test and of keepalives.
pub(super) const SCRATCH: u64 = 0;
/// The control word that names the owner that was lost first.
pub(super) const FIRST_LOST: u64 = 1;
/// The control word in which owner 0 announces its shutdown; those of the other owners follow.
const FIRST_SHUTDOWN: u64 = 8;

/// Returns the number of control words in a job of `owners`.
pub(super) const fn control_words(owners: u32) -> u64 {
    (FIRST_SHUTDOWN + owners as u64).next_multiple_of(PAGE_WORDS as u64)
}

/// Returns the control word in which `owner` announces its shutdown.
pub(super) const fn shutdown_word(owner: Owner) -> u64 {
    FIRST_SHUTDOWN + owner.0 as u64
}

/// Returns the owner, one of `owners`, that the control word `index` names as lost.
#[inline]
pub(super) fn named_owner(words: &[AtomicU64], index: u64, owners: u32) -> Option<Owner> {
    lost_owner(words.get(usize::try_from(index).ok()?)?, owners)
}

/// The maximum number of requests that one doorbell posts. A doorbell costs tens of nanoseconds, so
/// 32 requests pay one or two nanoseconds each. A longer list would delay its first request.
pub(super) const BATCH: usize = 32;

/// A queue pair that is connected to one owner.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) pair: QueuePair<ReadyToSend>,
    /// The owner's control words, which precede its window.
    control: RemoteRegion,
    pub(super) window: RemoteRegion,
    /// Open only from [`make_room`](Self::make_room) to the doorbell: a closed list has no room.
    /// One check in a post therefore detects a full list and also an empty one, whose owner must
    /// be added to the engine's `pending`.
    list: WorkRequestList,
    /// Requests were posted since the last [`take_used`](Self::take_used).
    used: bool,
    /// The queue pair has failed, or the owner has shut down.
    pub(super) dead: bool,
}

impl Connection {
    /// Creates a connection to an owner whose control words and window are the first words of
    /// `region`.
    pub(super) fn new(
        pair: QueuePair<ReadyToSend>,
        region: RemoteRegion,
        control_words: u64,
        window_words: u64,
    ) -> Self {
        let (control, rest) = region.split_at(control_words);
        let (window, _) = rest.split_at(window_words);
        let mut list = WorkRequestList::new(BATCH);
        list.close();
        Self { pair, control, window, list, used: false, dead: false }
    }

    /// Returns the address of a control word of the owner.
    pub(super) fn control(&self, index: u64) -> Option<RemoteAddress> {
        self.control.at(index, 1)
    }

    /// Returns whether [`push`](Self::push) appends a request.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.list.has_room()
    }

    /// Appends a request to the list for the next doorbell; `false` if the list has no room.
    #[inline]
    pub(super) fn push(&mut self, request: &WorkRequest) -> bool {
        self.list.push(request)
    }

    /// Makes room in the list, which is empty, until the doorbell.
    pub(super) fn make_room(&mut self) {
        self.list.open();
    }

    /// Refuses requests of words of the window.
    pub(super) fn close(&mut self) {
        self.window.words = 0;
    }

    /// Returns whether the list has no request.
    pub(super) fn is_idle(&self) -> bool {
        self.list.is_empty()
    }

    /// Posts the list. `not_posted` is called with the ID of each request that the device has
    /// certainly not taken.
    #[inline]
    pub(super) fn ring_doorbell(&mut self, not_posted: impl FnMut(u64)) -> Result<(), PostFailed> {
        self.used = true;
        let posted = self.pair.post_list(&mut self.list);
        posted.inspect_err(|failed| self.clear(failed, not_posted))?;
        self.list.close();
        Ok(())
    }

    /// Returns whether requests were posted since the last call.
    pub(super) fn take_used(&mut self) -> bool {
        core::mem::take(&mut self.used)
    }

    #[cold]
    fn clear(&mut self, failed: &PostFailed, not_posted: impl FnMut(u64)) {
        if !failed.in_doubt {
            self.list.ids().for_each(not_posted);
        }
        self.list.clear();
        self.list.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_owner_has_control_word() {
        for owners in [1, 2, 504, 505, 4096] {
            let words = control_words(owners);
            assert!(words.is_multiple_of(512) && shutdown_word(Owner(owners - 1)) < words);
        }
    }
}
