//! The information that an owner sends to its peers when they open their engines.

use probeline_transport::Fingerprint;

use crate::lock::LOCK_WORDS;
use crate::window::{CONTROL_WORDS, LOCK_AT, LOST_TO_AT, NONCE_AT};

/// The record and the control words in front of a window.
pub(crate) const PROTOCOL: Fingerprint = Fingerprint::new(3).with_all(&[
    CONTROL_WORDS as u64,
    NONCE_AT as u64,
    LOST_TO_AT as u64,
    LOCK_AT as u64,
    LOCK_WORDS as u64,
]);

/// The information that an owner sends to its peers: its sizes, and where its window is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionInfo {
    pub(crate) pid: u64,
    /// The descriptor of the memory in that process.
    pub(crate) fd: u64,
    /// A random number, also stored in the memory, by which peers recognise it.
    pub(crate) nonce: u64,
    pub(crate) window_words: u64,
    pub(crate) slot_words: u64,
}

impl ConnectionInfo {
    pub(crate) const WORDS: usize = 5;

    pub(crate) fn to_words(self) -> [u64; Self::WORDS] {
        let Self { pid, fd, nonce, window_words, slot_words } = self;
        [pid, fd, nonce, window_words, slot_words]
    }

    pub(crate) fn from_words(words: [u64; Self::WORDS]) -> Self {
        let [pid, fd, nonce, window_words, slot_words] = words;
        Self { pid, fd, nonce, window_words, slot_words }
    }
}
