//! Whether the other owners are still there.

use transport::{Fault, Owner};

use super::control::{SOMEBODY, named, word_of};
use super::private::Own;
use super::self_test::SCRATCH;
use super::{ASKING, Engine};
use crate::WorkRequest;

/// Every so many polls one owner is asked after: at tens of nanoseconds for a poll, one READ in
/// half a millisecond.
const POLLS_PER_ASKING: u32 = 1 << 14;

impl Engine {
    /// Looks whether somebody has left, and now and then asks after an owner.
    #[inline]
    pub(super) fn watch(&mut self) {
        let owners = self.geometry.owners;
        if self.fault.is_none()
            && let Some(first) = named(self.parts.window.words(), SOMEBODY, owners)
        {
            self.part_from(first);
        }
        self.polls = self.polls.wrapping_add(1);
        if self.polls.is_multiple_of(POLLS_PER_ASKING) {
            self.ask();
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

    /// Asks after the next owner but this one, by a READ of its scratch word.
    #[cold]
    fn ask(&mut self) {
        let owners = self.geometry.owners;
        if self.asking || self.fault.is_some() || owners == 1 {
            return;
        }
        let after = |owner| if owner + 1 < owners { owner + 1 } else { 0 };
        let next = after(self.asked);
        self.asked = if next == self.geometry.me.0 { after(next) } else { next };
        let Some(lane) = self.parts.lanes.get_mut(self.asked as usize) else { return };
        let ranges = lane.control(SCRATCH).zip(self.parts.private.own(Own::Asked));
        let Some((from, into)) = ranges else { return };
        // A refusal shows with the next operation there.
        self.asking = lane.pair.post(&WorkRequest::read(ASKING, from, into)).is_ok();
    }
}
