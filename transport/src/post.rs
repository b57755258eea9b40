//! The checks every backend makes before it accepts a post, kept in one place so that all
//! backends refuse the same requests with the same reason.

use crate::{Caps, Geometry, Local, PostError, RemoteWord, Segment};

impl Geometry {
    /// Checks a READ or WRITE between `remote` and `local` against these sizes and `caps`.
    ///
    /// # Errors
    /// [`PostError::UnknownOwner`] or [`PostError::OutOfRange`].
    #[inline]
    pub fn check_copy(&self, caps: &Caps, remote: Segment, local: Local) -> Result<(), PostError> {
        self.check_segment(remote)?;
        if !self.contains_local(local)
            || local.words != remote.words
            || remote.words > caps.words_per_op
        {
            return Err(PostError::OutOfRange);
        }
        Ok(())
    }

    /// Checks that `at` is a word of some owner's window.
    ///
    /// # Errors
    /// [`PostError::UnknownOwner`] or [`PostError::OutOfRange`].
    #[inline]
    pub fn check_word(&self, at: RemoteWord) -> Result<(), PostError> {
        self.check_segment(Segment { start: at, words: 1 })
    }

    /// Checks that `at` is a run of at least one word within some owner's window.
    ///
    /// # Errors
    /// [`PostError::UnknownOwner`] or [`PostError::OutOfRange`].
    #[inline]
    pub fn check_segment(&self, at: Segment) -> Result<(), PostError> {
        if at.start.owner.0 >= self.owners {
            return Err(PostError::UnknownOwner);
        }
        let end = at.start.index.checked_add(u64::from(at.words));
        match end {
            Some(end) if at.words > 0 && end <= self.window_words => Ok(()),
            _ => Err(PostError::OutOfRange),
        }
    }

    /// Whether `at` is a run of at least one word within some slot.
    #[inline]
    #[must_use]
    pub fn contains_local(&self, at: Local) -> bool {
        let end = u64::from(at.start) + u64::from(at.words);
        at.slot.0 < self.slots && at.words > 0 && end <= u64::from(self.slot_words)
    }
}
