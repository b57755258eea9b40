//! Ticket locks: the word of a lock, and what a rank knows of it.

use bytemuck::{Pod, Zeroable};

/// The words of a [`State`].
pub(crate) const STATE_WORDS: usize = size_of::<State>() / 8;
/// Bits of a ticket in a lock's word. There are fewer ranks.
pub(crate) const TICKET_BITS: u32 = 16;
/// The addend that takes a ticket.
pub(crate) const TAKE: u64 = 1 << TICKET_BITS;
/// The addend of a release with notices.
const STAMP: u64 = 1 << (2 * TICKET_BITS);

/// A lock's word: the releases with notices in its high half, whose carry leaves the word; the next ticket, whose carry
/// goes to them and does no harm; and in its lowest bits the ticket that holds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tickets {
    pub(crate) stamp: u32,
    pub(crate) next: u16,
    pub(crate) serving: u16,
}

impl Tickets {
    #[allow(clippy::cast_possible_truncation, reason = "its parts")]
    pub(crate) fn from_word(word: u64) -> Self {
        let (stamp, next) = ((word >> (2 * TICKET_BITS)) as u32, (word >> TICKET_BITS) as u16);
        Self { stamp, next, serving: word as u16 }
    }
}

/// Action of a rank on a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    None,
    /// It has a ticket.
    Waits,
    Holds,
}

/// State that a rank knows of a lock, zeros at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct State {
    pub(crate) ticket: u16,
    hold: u16,
    /// The stamp of the lock's word when the rank has acquired it last, and its own release since.
    pub(crate) stamp: u32,
    /// Notices of the lock's list that the rank has read, or written itself, since the last barrier.
    pub(crate) read: u64,
    /// The notice of the rank's log before which the list has had all.
    pub(crate) published: u64,
    /// The notices of the rank's log that it had from the list with its present ticket.
    received: [u64; 2],
}

impl State {
    pub(crate) fn hold(self) -> Hold {
        match self.hold {
            0 => Hold::None,
            1 => Hold::Waits,
            _ => Hold::Holds,
        }
    }

    pub(crate) fn set_hold(&mut self, hold: Hold) {
        self.hold = hold as u16;
    }

    /// Notes that the rank holds the lock, and has read `total` notices, which its log has from number `from`
    /// to `to`.
    pub(crate) fn receive(&mut self, total: u64, from: u64, to: u64) {
        self.set_hold(Hold::Holds);
        self.read = total;
        self.received = [from, to];
    }

    /// Returns the addend with which the rank passes the lock on: nothing may carry into the next ticket.
    pub(crate) fn pass_on(&mut self, has_notices: bool) -> u64 {
        self.set_hold(Hold::None);
        self.stamp = self.stamp.wrapping_add(has_notices.into());
        let next = if self.ticket == u16::MAX { u64::from(u16::MAX).wrapping_neg() } else { 1 };
        next.wrapping_add(if has_notices { STAMP } else { 0 })
    }

    /// Returns whether the list lacks this notice of the rank's log.
    pub(crate) fn lacks(self, number: u64) -> bool {
        let [from, to] = self.received;
        number >= self.published && !(from..to).contains(&number)
    }

    /// Forgets the notices, at a barrier.
    pub(crate) fn forget_notices(&mut self) {
        (self.read, self.published, self.received) = (0, 0, [0; 2]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_wrap_independently() {
        let mut word = u64::from(u16::MAX - 1) << TICKET_BITS | u64::from(u16::MAX - 1);
        let mut state = State::zeroed();
        let mut stamp = 0;
        for (ticket, has_notices) in
            [(u16::MAX - 1, true), (u16::MAX, false), (0, true), (1, false)]
        {
            assert_eq!(Tickets::from_word(word), Tickets { stamp, next: ticket, serving: ticket });
            word = word.wrapping_add(TAKE);
            // The carry of the tickets.
            stamp += u32::from(ticket == u16::MAX);
            let taken = Tickets { stamp, next: ticket.wrapping_add(1), serving: ticket };
            assert_eq!(Tickets::from_word(word), taken);
            state.ticket = ticket;
            word = word.wrapping_add(state.pass_on(has_notices));
            stamp += u32::from(has_notices);
        }
        assert_eq!(state.stamp, 2);
    }
}
