//! Search by tag: a search stops at a matching tag and at an empty bucket, and the wide machine
//! resumes it here after it has compared the entry or written the key. After a search that has ended,
//! another one uses its storage, as the tree machine does.

use super::{FindOrPut, ONE_ROUNDTRIP, OneRoundtripState, Stage};
use crate::bucket::Wanted;
use crate::cache::CacheEntry;
use crate::context::Context;
use crate::outcome::Intent;
use crate::wide::Tagged;

impl FindOrPut<Tagged> {
    /// Starts a search of the buckets of a tag. It claims none before [`claim_empty`] lets it.
    ///
    /// [`claim_empty`]: Self::claim_empty
    #[inline]
    pub(crate) fn from_tag<C: AsMut<[CacheEntry]>>(tagged: Tagged, context: &Context<C>) -> Self {
        Self::new(tagged, Intent::Find, context)
    }

    pub(crate) fn tagged(&self) -> Tagged {
        self.walk.bucket
    }

    /// Returns the word whose tag matches, after the outcome `Found`.
    pub(crate) fn matched(&self) -> u64 {
        self.seen
    }

    /// Passes the bucket whose tag matches and whose key is another. The search then continues.
    pub(crate) fn pass_match(&mut self) {
        self.cursor += 1;
        self.stage = Stage::Scan;
    }

    /// Returns whether the search stopped at a bucket that looked empty, and not at the limit.
    pub(crate) fn is_at_empty(&self) -> bool {
        self.cursor < self.words(self.chunk)
    }

    /// Lets the search claim empty buckets with the word of `tagged`, starting with the bucket at
    /// which it stopped.
    pub(crate) fn claim_empty(&mut self, tagged: Tagged) {
        self.walk.bucket = tagged;
        self.walk.intent = Intent::FindOrPut;
        self.cost.claims += 1;
        self.stage = Stage::Claim;
    }

    /// Returns whether the search claims empty buckets.
    pub(crate) fn may_claim(&self) -> bool {
        self.walk.intent == Intent::FindOrPut
    }
}

impl<B: Wanted> FindOrPut<B> {
    /// Counts a chunk's READ that has landed while the search waits for a decision, or after it has
    /// ended.
    pub(crate) fn on_landed(&mut self, post_id: u8) {
        if let Some(landing) = self.landing.get_mut(usize::from(post_id)) {
            *landing = landing.saturating_sub(1);
        }
    }
}

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
