//! One find-or-put as a state machine, with no transport inside (paper Fig. 1).
//!
//! The driver posts the chunks that [`Search::request`] names, calls [`Search::scan`] when the
//! one waited for has landed, and hands the answers of atomics to [`Search::on_claim`] and
//! [`Search::on_confirm`]. So the same code runs over every transport and under the model check.

use crate::bucket::{Bucket, Sight};

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

/// One find or find-or-put under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Search {
    bucket: Bucket,
    intent: Intent,
    max_chunks: u32,
    /// The chunk that is waited for or scanned.
    chunk: u32,
    /// The next bucket of it to look at.
    cursor: u32,
    /// Chunks asked for so far.
    requested: u32,
    claims: u32,
    claims_lost: u32,
    confirms: u32,
}

impl Search {
    /// Begins a search for `bucket` in at most `max_chunks` chunks, at least 1.
    #[inline]
    #[must_use]
    pub const fn new(bucket: Bucket, intent: Intent, max_chunks: u32) -> Self {
        Self {
            bucket,
            intent,
            max_chunks,
            chunk: 0,
            cursor: 0,
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

    /// The chunk to ask for now, if any: the one waited for, and the next one before the present
    /// one is scanned (Fig. 1, lines 3 and 5-6). Call [`requested`](Self::requested) once it is
    /// posted.
    #[inline]
    #[must_use]
    pub fn request(&self) -> Option<u32> {
        let ahead = (self.chunk + 2).min(self.max_chunks);
        (self.requested < ahead).then_some(self.requested)
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

    /// Looks through the words of the chunk waited for, from the cursor on (lines 8-18). `whole`
    /// says that words arrive whole (`Caps::word_reads_whole`); where they may be torn, no
    /// decision rests on a word that a tear could have made.
    #[inline]
    pub fn scan(&mut self, words: &[u64], whole: bool) -> Step {
        let rest = words.get(self.cursor as usize..).unwrap_or(&[]);
        for &word in rest {
            let sight = if whole { self.bucket.sight(word) } else { self.bucket.sight_torn(word) };
            match sight {
                Sight::Other => self.cursor += 1,
                Sight::Wanted => return Step::Done(Outcome::Found),
                Sight::Empty => return self.on_empty(),
                Sight::Unclear => {
                    self.confirms += 1;
                    return Step::Confirm { offset: self.cursor };
                }
            }
        }
        self.next_chunk()
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
                Step::Claim { offset: self.cursor }
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
        if self.chunk + 1 < self.max_chunks {
            self.chunk += 1;
            self.cursor = 0;
            return Step::Await;
        }
        Step::Done(match self.intent {
            Intent::Find => Outcome::Absent,
            Intent::FindOrPut => Outcome::Full,
        })
    }

    /// Chunks waited for, if the search ends now.
    #[inline]
    #[must_use]
    pub fn effective_roundtrips(&self) -> u32 {
        self.chunk + 1
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
