//! Leaving: the others are told.

use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;

use probeline_transport::{Fault, Owner};

use super::Engine;
use super::control::{SOMEBODY, lost, named, word_of};
use super::deadline::Deadline;
use super::private::Own;
use crate::WorkRequest;

/// What the names of a leaving engine's requests have in common, beyond every index and
/// [`ASKING`](super::ASKING). Below it the owner, and which of two requests it is.
const PARTING: u64 = 1 << 33;
/// How long a leaving engine tries to tell the others.
const FAREWELL: Duration = Duration::from_secs(1);

impl Engine {
    /// Tells everybody that this owner leaves, and because of whom.
    pub(super) fn notify_shutdown(&mut self) {
        let me = self.geometry.me;
        let because = match self.fault {
            Some(Fault::OwnerLost(owner)) => owner,
            _ => me,
        };
        let Some(word) = self.parts.private.own_word(Own::Parting) else { return };
        word.store(lost(because), Relaxed);
        let Some(from) = self.parts.private.own(Own::Parting) else { return };
        for (owner, lane) in (0..).map(Owner).zip(&mut self.parts.lanes) {
            if owner == me || lane.dead {
                lane.dead = true;
                continue;
            }
            // Who sees the owner's word has all that it was to be told.
            let told = [SOMEBODY, word_of(me)].into_iter().zip(0..).all(|(word, turn)| {
                let id = PARTING | (u64::from(owner.0) << 1) | turn;
                let to = lane.control(word);
                to.is_some_and(|to| lane.pair.post(&WorkRequest::write(id, from, to)).is_ok())
            });
            lane.dead = !told;
        }
        self.await_farewell();
    }

    /// Waits until everybody has been told, is lost, or has left too.
    fn await_farewell(&mut self) {
        let deadline = Deadline::after(FAREWELL);
        while !self.silent && !deadline.has_passed() {
            let words = self.parts.window.words();
            for (owner, lane) in (0..).map(Owner).zip(&mut self.parts.lanes) {
                lane.dead |= named(words, word_of(owner), self.geometry.owners).is_some();
            }
            if self.parts.lanes.iter().all(|lane| lane.dead) {
                return;
            }
            let Ok(found) = self.parts.completions.poll(&mut self.ends) else { return };
            for end in self.ends.iter().take(found) {
                let id = end.id();
                // The second of two tells of both, and an error of everything behind it.
                if id & PARTING != 0 && (id & 1 == 1 || end.result().is_err()) {
                    let owner = usize::try_from((id & !PARTING) >> 1).unwrap_or(usize::MAX);
                    if let Some(lane) = self.parts.lanes.get_mut(owner) {
                        lane.dead = true;
                    }
                }
            }
        }
    }
}
