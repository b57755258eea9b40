//! A search after which its storage is used by another one, as the tree machine does.

use super::{FindOrPut, ONE_ROUNDTRIP, OneRoundtripState};

impl FindOrPut {
    /// Returns whether a search that has ended has no posts in flight.
    pub(crate) fn is_drained(&self) -> bool {
        self.landing == [0; 2] && self.one_roundtrip != OneRoundtripState::InFlight
    }

    /// Counts the completion of a post of a search that has ended.
    pub(crate) fn on_drained(&mut self, post_id: u8) {
        if post_id == ONE_ROUNDTRIP {
            self.one_roundtrip = OneRoundtripState::Lost;
        } else {
            self.on_landed(post_id);
        }
    }
}
