//! Whether the other owners, and the device, are still there.

use probeline_transport::{Fault, OpError, Owner};

use super::control::{SOMEBODY, named, word_of};
use super::deadline::{Deadline, PATIENCE, now};
use super::private::Own;
use super::self_test::SCRATCH;
use super::{ASKING, Engine};
use crate::WorkRequest;

/// Every so many polls the clock is looked at: its tens of nanoseconds are then nothing to a poll.
const POLLS_PER_LOOK: u32 = 256;

impl Engine {
    /// Looks whether somebody has left, and now and then asks after an owner. `all` says that
    /// everything the device has told so far was heard.
    #[inline]
    pub(super) fn watch(&mut self, all: bool) {
        let owners = self.geometry.owners;
        if self.fault.is_none()
            && let Some(first) = named(self.parts.window.words(), SOMEBODY, owners)
        {
            self.part_from(first);
        }
        self.polls = self.polls.wrapping_add(1);
        if self.polls.is_multiple_of(POLLS_PER_LOOK) {
            self.look_after(all);
        }
    }

    /// Some owner has left, and `first` was the first to be lost.
    #[cold]
    fn part_from(&mut self, first: Owner) {
        self.fault = Some(Fault::OwnerLost(first));
        for (owner, lane) in (0..).map(Owner).zip(&mut self.parts.lanes) {
            let words = self.parts.window.words();
            let left = named(words, word_of(owner), self.geometry.owners).is_some();
            if left || owner == first {
                // So that what is on its way there ends now; should this fail, it ends in time.
                lane.dead = true;
                let _ = lane.pair.fail();
            }
        }
    }

    /// Gives the next owner its turn where that is due, or sees whether an answer is overdue.
    #[cold]
    fn look_after(&mut self, all: bool) {
        if self.fault.is_some() {
            return;
        }
        match self.asking {
            // Only if it is not waiting to be heard, as after this process has stood still.
            Some(deadline) if all && deadline.has_passed() => {
                self.fall_silent(Fault::System { errno: libc::ETIMEDOUT });
            }
            Some(_) => {}
            None if self.pace.is_due(now()) => self.take_turn(),
            None => {}
        }
    }

    /// Asks after the next owner but this one, by a READ of its scratch word, unless something was
    /// posted to it since its last turn: that has ended well or will fail. An owner that is alone
    /// asks itself, and so its device.
    fn take_turn(&mut self) {
        let owners = self.geometry.owners;
        let after = |owner| if owner + 1 < owners { owner + 1 } else { 0 };
        let next = after(self.turn);
        self.turn = if next == self.geometry.me.0 { after(next) } else { next };
        self.pace.turned(now());
        let Some(lane) = self.parts.lanes.get_mut(self.turn as usize) else { return };
        if lane.take_used() {
            return;
        }
        let ranges = lane.control(SCRATCH).zip(self.parts.private.own(Own::Asked));
        let Some((from, into)) = ranges else { return };
        match lane.pair.post(&WorkRequest::read(ASKING, from, into)) {
            Ok(()) => self.asking = Some(self.answered_by()),
            Err(failed) => self.fail(Owner(self.turn), OpError::NotPosted { errno: failed.errno }),
        }
    }

    /// After a fault: sees whether what is in flight is overdue.
    #[cold]
    pub(super) fn close(&mut self, all: bool) {
        match self.closing {
            None => self.closing = Some(self.answered_by()),
            Some(deadline) if all && deadline.has_passed() => self.silent = true,
            Some(_) => {}
        }
    }

    /// Until then a device that lives has told how a request of now has ended: four times what the
    /// timer says is what the specification leaves it.
    fn answered_by(&self) -> Deadline {
        Deadline::after(self.link.retry.bound().saturating_mul(4).saturating_add(PATIENCE))
    }
}
