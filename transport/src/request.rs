//! Requests, the checks that every engine makes before it accepts one, and the completions.

use crate::{Caps, Geometry, OpError, Owner, PostError, RemoteWord, Segment, SlotRange};

/// A one-sided operation to [post](crate::Transport::post).
///
/// ```
/// use probeline_transport::{Completion, PostError, RemoteWord, Request, Token, Transport};
///
/// /// Adds to a word, waits and returns its old value; `None` if the operation failed.
/// fn add(engine: &mut impl Transport, at: RemoteWord, addend: u64) -> Result<Option<u64>, PostError> {
///     engine.post(Token(1), Request::FetchAdd { at, addend })?;
///     engine.kick();
///     let mut completions = [Completion::default()];
///     while engine.poll(&mut completions).is_ok_and(|count| count == 0) {}
///     Ok(completions[0].result.ok())
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// A READ of `from` into the slot range `into` of the same length.
    ///
    /// Two READs in flight may land in one slot if their ranges do not overlap. Overlapping ranges
    /// receive wrong data, and nothing worse.
    Read {
        /// The words to read.
        from: Segment,
        /// The slot range in which they land.
        into: SlotRange,
    },
    /// A WRITE of the slot range `from` to `to`, of the same length.
    Write {
        /// The words to write.
        from: SlotRange,
        /// The words that they replace.
        to: Segment,
    },
    /// A compare-and-swap: if the word at `at` equals `expected`, it becomes `desired`. If the
    /// comparison fails, the word is not written, not even with its old value. The completion
    /// carries the old value in both cases.
    CompareAndSwap {
        /// The word to compare and swap.
        at: RemoteWord,
        /// The value that the word must have.
        expected: u64,
        /// The new value of the word if it had that value.
        desired: u64,
    },
    /// A fetch-and-add, wrapping at 2^64. The completion carries the word's old value.
    FetchAdd {
        /// The word to increment.
        at: RemoteWord,
        /// The number to add.
        addend: u64,
    },
}

impl Request {
    /// Returns the words of a window that the operation accesses, one for an atomic.
    #[inline]
    #[must_use]
    pub fn remote(&self) -> Segment {
        match *self {
            Self::Read { from: words, .. } | Self::Write { to: words, .. } => words,
            Self::CompareAndSwap { at, .. } | Self::FetchAdd { at, .. } => {
                Segment { start: at, words: 1 }
            }
        }
    }

    /// Returns the slot range of a READ or WRITE.
    #[inline]
    #[must_use]
    pub fn local(&self) -> Option<SlotRange> {
        match *self {
            Self::Read { into: local, .. } | Self::Write { from: local, .. } => Some(local),
            Self::CompareAndSwap { .. } | Self::FetchAdd { .. } => None,
        }
    }

    /// Returns the owner of the window.
    #[inline]
    #[must_use]
    pub fn owner(&self) -> Owner {
        self.remote().start.owner
    }
}

impl Geometry {
    /// Checks that `request` can ever be accepted by an engine of these sizes and `caps`.
    ///
    /// # Errors
    /// [`PostError::UnknownOwner`] or [`PostError::OutOfRange`].
    // Not inlined, it would read the request from memory; inlined, its kind is a constant.
    #[inline(always)]
    pub fn check(&self, caps: &Caps, request: &Request) -> Result<(), PostError> {
        let remote = request.remote();
        self.check_segment(remote)?;
        match request.local() {
            Some(local)
                if !self.contains_local(local)
                    || local.words != remote.words
                    || remote.words > caps.words_per_op =>
            {
                Err(PostError::OutOfRange)
            }
            _ => Ok(()),
        }
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

    /// Returns whether `at` is a run of at least one word within some slot.
    #[inline]
    #[must_use]
    pub fn contains_local(&self, at: SlotRange) -> bool {
        let end = u64::from(at.start) + u64::from(at.words);
        at.slot.0 < self.slots && at.words > 0 && end <= u64::from(self.slot_words)
    }
}

/// The caller's identifier of an operation. Its completion carries it unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// The completion of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The token that it was posted with.
    pub token: Token,
    /// The old value of the word for an atomic, 0 for READ and WRITE. After an error the effect is
    /// unknown.
    pub result: Result<u64, OpError>,
}

impl Default for Completion {
    /// Returns an initial value for the array that `poll` fills.
    fn default() -> Self {
        Self { token: Token(0), result: Ok(0) }
    }
}
