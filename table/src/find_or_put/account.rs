//! Counts the costs of a completed operation, and caches the bucket that an atomic returned.

use super::{Decision, FindOrPut, OneRoundtripState};
use crate::bucket::{Bucket, Wanted};
use crate::cache::CacheEntry;
use crate::context::Context;
use crate::outcome::Ended;
use crate::stats::OutcomeStats;

impl<B: Wanted> FindOrPut<B> {
    /// Counts an operation with its outcome.
    #[inline(always)]
    pub(crate) fn count<C>(&mut self, outcome: Ended, context: &mut Context<C>) {
        let buckets = self.buckets_before(self.chunk) + u64::from(self.cursor) + 1;
        let cost = &self.cost;
        let others = cost.chunks_copied | cost.confirms | cost.lines | self.walk.lines;
        if others == 0 {
            let stats = context.stats.of(outcome);
            stats.operations += 1;
            stats.effective_roundtrips += u64::from(self.chunk) + 1;
            if self.one_roundtrip != OneRoundtripState::None {
                stats.one_roundtrip_claims += 1;
            }
            if self.one_roundtrip == OneRoundtripState::Decided {
                stats.one_roundtrip_claims_decided += 1;
                stats.effective_roundtrips -= u64::from(self.chunk) + 1;
            }
            stats.outgoing_roundtrips += u64::from(self.requested);
            stats.claims += u64::from(cost.claims);
            stats.claims_lost += u64::from(cost.claims_lost);
        } else {
            context.stats.add(outcome, &self.all_costs());
        }
        let is_at_home = self.walk.left == context.probe_limit && buckets == 1;
        context.policy.ended(outcome, self.walk.intent, buckets, is_at_home);
    }

    /// Returns the costs of an operation that is done.
    fn all_costs(&self) -> OutcomeStats {
        let decided = self.one_roundtrip == OneRoundtripState::Decided;
        let (cost, waited) = (&self.cost, if decided { 0 } else { self.chunk + 1 });
        OutcomeStats {
            operations: 1,
            effective_roundtrips: waited.saturating_sub(cost.copies_scanned).into(),
            outgoing_roundtrips: self.requested.saturating_sub(cost.chunks_copied).into(),
            claims: cost.claims.into(),
            claims_lost: cost.claims_lost.into(),
            confirms: cost.confirms.into(),
            one_roundtrip_claims: (self.one_roundtrip != OneRoundtripState::None).into(),
            one_roundtrip_claims_decided: decided.into(),
            lines: u64::from(cost.lines) + u64::from(self.walk.lines),
            cache_hits: 0,
        }
    }

    /// Stores in the cache the occupant that an atomic returned.
    pub(super) fn learn_answer<C: AsMut<[CacheEntry]>>(
        &self,
        word: u64,
        decision: Decision,
        context: &mut Context<C>,
    ) {
        let is_mine = decision == Decision::Done(Ended::Inserted);
        let word = if is_mine { self.walk.bucket.word() } else { word };
        let bucket = Bucket::from_word(word);
        // After a `Rescan` the cursor is one past the bucket.
        let nth = self.cursor - u32::from(decision == Decision::Rescan);
        if let Some(bucket) = bucket {
            let at = context.layout.advance(self.start, u64::from(self.offset(nth)));
            context.cache.learn(at, bucket, &context.layout);
        }
    }
}
