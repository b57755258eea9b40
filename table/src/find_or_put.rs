//! One find-or-put as a state machine, with no transport inside (paper Fig. 1).
//!
//! The driver posts the claim that [`Search::first_claim`] and the chunks that
//! [`Search::request`] name, calls [`Search::scan`] when the chunk waited for has landed, and
//! hands the answers of atomics to [`Search::on_first_claim`], [`Search::on_claim`] and
//! [`Search::on_confirm`]. So the same code runs over every transport and under the model check.

use core::ops::Range;

use crate::bucket::{Bucket, Sight};
use crate::probe::Probe;

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The data was there.
    Found,
    /// The data was not there and now is.
    Inserted,
    /// The data was not there, and none of the M chunks had room for it. Nothing changed.
    Full,
    /// The data was not there; only a find says so.
    Absent,
}

/// What is to be done where the data is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Intent {
    /// Nothing: only find it.
    Find,
    /// Put it in the first empty bucket.
    FindOrPut,
}

/// What the driver does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Wait until the next chunk has landed, then scan it.
    Await,
    /// Wait for the answer of the first claim.
    AwaitClaim,
    /// Scan the same chunk again: the cursor has moved.
    Rescan,
    /// Post a compare-and-swap from 0 to the bucket at this offset of the chunk.
    Claim {
        /// Buckets from the chunk's start.
        offset: u32,
    },
    /// Post a fetch-and-add of 0 on the bucket at this offset of the chunk.
    Confirm {
        /// Buckets from the chunk's start.
        offset: u32,
    },
    /// The end.
    Done(Outcome),
}

/// How a search goes about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Plan {
    /// C, the buckets of a chunk.
    pub chunk_buckets: u32,
    /// The buckets to look at before giving up, at least 1.
    pub reach: u64,
    /// Of each line of 8 in a chunk the bucket that is looked at first; 0 for the order of memory.
    pub rotation: u32,
    /// Buckets of the first chunk that are known to hold other data.
    pub skip: u32,
    /// From which chunk on, counted from 0, the next one is requested before it is scanned: 0
    /// always does (the paper, Fig. 1, lines 5-6), `u32::MAX` never.
    pub ahead_from: u32,
    /// Whether a find-or-put claims its first bucket along with the first READ.
    pub claim_first: bool,
}

/// The claim posted along with the first READ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Early {
    None,
    InFlight,
    /// Its bucket holds other data.
    Lost,
    /// It ended the search.
    Decided,
}

/// One find or find-or-put under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Search {
    bucket: Bucket,
    intent: Intent,
    plan: Plan,
    early: Early,
    /// The chunk that is waited for or scanned.
    chunk: u32,
    /// How many of its buckets were looked at.
    cursor: u32,
    /// Chunks asked for so far.
    requested: u32,
    claims: u32,
    claims_lost: u32,
    confirms: u32,
}

impl Search {
    /// Begins a search for `bucket`.
    #[inline]
    #[must_use]
    pub const fn new(bucket: Bucket, intent: Intent, plan: Plan) -> Self {
        let claims_first = plan.claim_first && matches!(intent, Intent::FindOrPut);
        Self {
            bucket,
            intent,
            plan,
            early: if claims_first { Early::InFlight } else { Early::None },
            chunk: 0,
            cursor: plan.skip,
            requested: 0,
            claims: 0,
            claims_lost: 0,
            confirms: 0,
        }
    }

    /// The bucket that is searched.
    #[inline]
    #[must_use]
    pub fn bucket(&self) -> Bucket {
        self.bucket
    }

    /// What is to be done where the data is missing.
    #[inline]
    #[must_use]
    pub fn intent(&self) -> Intent {
        self.intent
    }

    /// The bucket to claim along with the first READ: its offset in the first chunk. The answer
    /// goes to [`on_first_claim`](Self::on_first_claim).
    ///
    /// By the table's one rule that is right: data lives in the first bucket of its probe order
    /// that was empty when it was inserted, so a claim on the very first one either inserts, or
    /// says who is there.
    #[inline]
    #[must_use]
    pub fn first_claim(&self) -> Option<u32> {
        (self.early == Early::InFlight).then(|| self.offset(self.plan.skip))
    }

    /// The chunk to ask for now, if any: the one waited for, and where it is due the next one
    /// before the present one is scanned (Fig. 1, lines 3 and 5-6). Call
    /// [`requested`](Self::requested) once it is posted.
    #[inline]
    #[must_use]
    pub fn request(&self) -> Option<u32> {
        let ahead = self.chunk + 1 + u32::from(self.chunk >= self.plan.ahead_from);
        let due = self.requested < ahead && self.begins(self.requested) < self.plan.reach;
        due.then_some(self.requested)
    }

    /// The chunk that `request` named is on its way.
    #[inline]
    pub fn requested(&mut self) {
        self.requested += 1;
    }

    /// The chunk that is waited for or scanned, counted from 0.
    #[inline]
    #[must_use]
    pub fn chunk(&self) -> u32 {
        self.chunk
    }

    /// Buckets of a chunk: C, or what is left of the reach.
    #[inline]
    #[must_use]
    pub fn words(&self, chunk: u32) -> u32 {
        let left = self.plan.reach.saturating_sub(self.begins(chunk));
        // At most C, which is a u32.
        #[allow(clippy::cast_possible_truncation)]
        let words = left.min(u64::from(self.plan.chunk_buckets)) as u32;
        words
    }

    /// The buckets that it was to look at before giving up.
    #[inline]
    pub(crate) fn reach(&self) -> u64 {
        self.plan.reach
    }

    /// How many buckets were looked at, if the search ends now.
    #[inline]
    #[must_use]
    pub fn buckets(&self) -> u64 {
        self.begins(self.chunk) + u64::from(self.cursor) + 1
    }

    /// Looks through the words of the chunk waited for, from the cursor on (lines 8-18). `whole`
    /// says that words arrive whole (`Caps::word_reads_whole`); where they may be torn, no
    /// decision rests on a word that a tear could have made.
    #[inline]
    pub fn scan(&mut self, words: &[u64], whole: bool) -> Step {
        while let Some(&word) = words.get(self.offset(self.cursor) as usize) {
            let sight = if whole { self.bucket.sight(word) } else { self.bucket.sight_torn(word) };
            if sight != Sight::Other && self.awaits_first_claim() {
                return Step::AwaitClaim;
            }
            match sight {
                Sight::Other => self.cursor += 1,
                Sight::Wanted => return Step::Done(Outcome::Found),
                Sight::Empty => return self.on_empty(),
                Sight::Unclear => {
                    self.confirms += 1;
                    return Step::Confirm { offset: self.offset(self.cursor) };
                }
            }
        }
        self.next_chunk()
    }

    /// What the READ shows of the bucket that the first claim is on may be that claim's own
    /// work: only its answer tells.
    #[inline]
    fn awaits_first_claim(&self) -> bool {
        self.early == Early::InFlight && self.chunk == 0 && self.cursor == self.plan.skip
    }

    /// The word that the first claim found. `None` where the READ has shown before that other
    /// data is there, so that nothing changes: the claim cannot have done anything.
    #[inline]
    pub fn on_first_claim(&mut self, old: u64) -> Option<Step> {
        let awaited = self.awaits_first_claim();
        self.early = Early::Lost;
        if !awaited {
            return None;
        }
        if old == 0 || old == self.bucket.word() {
            self.early = Early::Decided;
        }
        if old == 0 {
            return Some(Step::Done(Outcome::Inserted));
        }
        Some(self.on_occupant(old))
    }

    /// The word that a claim found (lines 12-16).
    #[inline]
    pub fn on_claim(&mut self, old: u64) -> Step {
        if old == 0 {
            return Step::Done(Outcome::Inserted);
        }
        self.claims_lost += 1;
        self.on_occupant(old)
    }

    /// The word that a confirmation found.
    #[inline]
    pub fn on_confirm(&mut self, word: u64) -> Step {
        if word == 0 {
            return self.on_empty();
        }
        self.on_occupant(word)
    }

    fn on_empty(&mut self) -> Step {
        match self.intent {
            Intent::Find => Step::Done(Outcome::Absent),
            Intent::FindOrPut => {
                self.claims += 1;
                Step::Claim { offset: self.offset(self.cursor) }
            }
        }
    }

    fn on_occupant(&mut self, word: u64) -> Step {
        if word == self.bucket.word() {
            return Step::Done(Outcome::Found);
        }
        self.cursor += 1;
        Step::Rescan
    }

    fn next_chunk(&mut self) -> Step {
        if self.begins(self.chunk + 1) < self.plan.reach {
            self.chunk += 1;
            self.cursor = 0;
            return Step::Await;
        }
        Step::Done(match self.intent {
            Intent::Find => Outcome::Absent,
            Intent::FindOrPut => Outcome::Full,
        })
    }

    /// Buckets in front of a chunk.
    #[inline]
    fn begins(&self, chunk: u32) -> u64 {
        u64::from(chunk) * u64::from(self.plan.chunk_buckets)
    }

    /// The buckets, as they are looked at, that a scan of `chunk` from `cursor` on has shown to be
    /// occupied: where words may be torn, only what its `step` says.
    pub(crate) fn shown(&self, chunk: u32, cursor: u32, step: Step, whole: bool) -> Range<u32> {
        let passed = if self.chunk == chunk { self.cursor } else { self.words(chunk) };
        let found = u32::from(step == Step::Done(Outcome::Found));
        let from = if whole { cursor } else { passed };
        from..passed + found
    }

    /// Where in the chunk the `nth` bucket is that is looked at.
    #[inline]
    pub(crate) fn offset(&self, nth: u32) -> u32 {
        if self.plan.rotation == 0 { nth } else { Probe::offset(self.plan.rotation, nth) }
    }

    /// Chunks waited for, if the search ends now.
    #[inline]
    #[must_use]
    pub fn effective_roundtrips(&self) -> u32 {
        if self.early == Early::Decided { 0 } else { self.chunk + 1 }
    }

    /// Buckets of the present chunk that were looked at.
    #[inline]
    pub(crate) fn cursor(&self) -> u32 {
        self.cursor
    }

    /// Whether its first bucket was claimed along with the first READ, and whether that claim
    /// ended the search.
    #[inline]
    #[must_use]
    pub fn claimed_first(&self) -> (bool, bool) {
        (self.early != Early::None, self.early == Early::Decided)
    }

    /// Chunks asked for.
    #[inline]
    #[must_use]
    pub fn outgoing_roundtrips(&self) -> u32 {
        self.requested
    }

    /// Claims made, and those of them that found the bucket taken.
    #[inline]
    #[must_use]
    pub fn claims(&self) -> (u32, u32) {
        (self.claims, self.claims_lost)
    }

    /// Torn words that took an atomic to tell.
    #[inline]
    #[must_use]
    pub fn confirms(&self) -> u32 {
        self.confirms
    }
}
