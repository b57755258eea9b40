//! The interface through which a machine posts: its own slots, and tokens that identify it.

use core::sync::atomic::AtomicU64;

use probeline_transport::{
    Caps, PostError, RemoteWord, Request, Segment, Slot, SlotRange, Token, Transport,
};

use crate::error::Stop;

/// The transport as one operation sees it.
///
/// Each post carries an id that the machine chooses and that
/// [`Completed`](crate::Completed) returns. A post returns [`Stop::NoRoom`] if the transport is
/// full; [`reserve`](Self::reserve) checks for room for several posts.
#[derive(Debug)]
pub struct Port<'p, T> {
    pub(crate) transport: &'p mut T,
    /// The token of post id 0.
    pub(crate) token: u64,
    pub(crate) first_slot: u32,
    /// Slots of the operation.
    pub(crate) slots: u32,
    /// Posts that the transport has room for.
    pub(crate) room: u32,
    pub(crate) posted: u16,
}

impl<T: Transport> Port<'_, T> {
    /// Checks that the transport has room for `posts` posts. It posts nothing.
    ///
    /// # Errors
    /// [`Stop::NoRoom`]; [`PostError::Full`] if `posts` exceeds the transport's depth.
    #[inline]
    pub fn reserve(&self, posts: u32) -> Result<(), Stop> {
        if self.room < posts { Err(self.lack(posts)) } else { Ok(()) }
    }

    #[cold]
    fn lack(&self, posts: u32) -> Stop {
        if posts > self.transport.caps().depth { PostError::Full.into() } else { Stop::NoRoom }
    }

    /// Returns the `nth` of the operation's [`Machine::SLOTS`](crate::Machine::SLOTS) slots. Beyond
    /// them it returns a slot that no engine has, so that its use fails.
    #[inline]
    #[must_use]
    pub fn slot(&self, nth: u32) -> Slot {
        if nth < self.slots { Slot(self.first_slot + nth) } else { Slot(u32::MAX) }
    }

    /// Posts an operation; a READ or WRITE uses one of the operation's slots.
    ///
    /// # Errors
    /// [`Stop`]: no room, or the error with which the transport refuses the post.
    #[inline(always)]
    pub fn post(&mut self, post_id: u8, request: Request) -> Result<(), Stop> {
        self.reserve(1)?;
        self.transport.post(Token(self.token | u64::from(post_id)), request)?;
        self.room -= 1;
        self.posted += 1;
        Ok(())
    }

    /// Posts a READ of `from` into `into`, a range of one of the operation's slots.
    ///
    /// # Errors
    /// As for [`post`](Self::post).
    #[inline]
    pub fn read(&mut self, post_id: u8, from: Segment, into: SlotRange) -> Result<(), Stop> {
        self.post(post_id, Request::Read { from, into })
    }

    /// Posts a WRITE of `from`, a range of one of the operation's slots, to `to`.
    ///
    /// # Errors
    /// As for [`post`](Self::post).
    #[inline]
    pub fn write(&mut self, post_id: u8, from: SlotRange, to: Segment) -> Result<(), Stop> {
        self.post(post_id, Request::Write { from, to })
    }

    /// Posts a compare-and-swap.
    ///
    /// # Errors
    /// As for [`post`](Self::post).
    #[inline]
    pub fn compare_and_swap(
        &mut self,
        post_id: u8,
        at: RemoteWord,
        expected: u64,
        desired: u64,
    ) -> Result<(), Stop> {
        self.post(post_id, Request::CompareAndSwap { at, expected, desired })
    }

    /// Posts a fetch-and-add.
    ///
    /// # Errors
    /// As for [`post`](Self::post).
    #[inline]
    pub fn fetch_add(&mut self, post_id: u8, at: RemoteWord, addend: u64) -> Result<(), Stop> {
        self.post(post_id, Request::FetchAdd { at, addend })
    }

    /// Returns the words that READs have written to a range of one of the operation's slots.
    ///
    /// # Errors
    /// [`PostError`] while a READ or WRITE on the slot is in flight, or if `at` is out of range.
    #[inline]
    pub fn landed(&self, at: SlotRange) -> Result<&[u64], PostError> {
        self.transport.landed(at)
    }

    /// Returns a range of one of the operation's slots, to fill before a [`write`](Self::write).
    ///
    /// # Errors
    /// As for [`landed`](Self::landed).
    #[inline]
    pub fn staged(&mut self, at: SlotRange) -> Result<&mut [u64], PostError> {
        self.transport.staged(at)
    }

    /// Returns the words of `at` if the CPU can address them; see [`Transport::direct`].
    #[inline]
    #[must_use]
    pub fn direct(&self, at: Segment) -> Option<&[AtomicU64]> {
        self.transport.direct(at)
    }

    /// Returns the capabilities of the engine.
    #[inline]
    #[must_use]
    pub fn caps(&self) -> &Caps {
        self.transport.caps()
    }

    /// Returns the transport, for reading.
    #[inline]
    #[must_use]
    pub fn transport(&self) -> &T {
        self.transport
    }
}

/// The fields of a token: 32 bits of generation, 24 of the operation's index, 8 of the post id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TokenFields {
    pub(crate) index: u32,
    pub(crate) generation: u32,
    pub(crate) post_id: u8,
}

/// Number of operations that a token can distinguish.
pub(crate) const MAX_OPERATIONS: u32 = 1 << 24;

impl TokenFields {
    #[inline]
    pub(crate) fn pack(self) -> Token {
        let Self { index, generation, post_id } = self;
        Token(u64::from(generation) << 32 | u64::from(index) << 8 | u64::from(post_id))
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "each field is cut out by its width")]
    pub(crate) fn unpack(Token(token): Token) -> Self {
        let index = (token >> 8) as u32 & (MAX_OPERATIONS - 1);
        Self { index, generation: (token >> 32) as u32, post_id: token as u8 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pack_then_unpack_token(index in 0..MAX_OPERATIONS, generation: u32, post_id: u8) {
            let fields = TokenFields { index, generation, post_id };
            prop_assert_eq!(TokenFields::unpack(fields.pack()), fields);
        }
    }
}
