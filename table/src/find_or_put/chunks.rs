//! The chunks of an operation: it requests them by READs, or copies them with CPU loads, and scans
//! those that have landed.

use core::ops::Range;
use core::sync::atomic::Ordering::SeqCst;

use probeline_pipeline::{Port, Stop};
use probeline_transport::{RemoteWord, Request, Segment, SlotRange, Transport};

use super::{Decision, FindOrPut};
use crate::bucket::{Bucket, Sight, Wanted};
use crate::cache::CacheEntry;
use crate::context::Context;
use crate::layout::{LINE_BUCKETS, Layout, Position};
use crate::outcome::Ended;
use crate::probe::Probe;

/// Words that the CPU copies at once in place of a READ: two cache lines, on the stack.
const PIECE_WORDS: u32 = 16;

impl<B: Wanted> FindOrPut<B> {
    /// Returns the chunk to request now, if any: the chunk that the operation needs or, with
    /// read-ahead, the one after it (Fig. 1, lines 3 and 5-6).
    #[inline]
    pub(super) fn due(&self) -> Option<u32> {
        let ahead = self.chunk + 1 + u32::from(self.chunk >= self.ahead_from);
        let due = self.requested < ahead && self.buckets_before(self.requested) < self.walk.left;
        due.then_some(self.requested)
    }

    /// Requests a chunk. It posts all of the chunk's READs or none, except for segments that the
    /// CPU can address, which the CPU copies.
    #[inline(always)]
    pub(super) fn request<C: AsMut<[CacheEntry]>>(
        &mut self,
        chunk: u32,
        context: &mut Context<C>,
        port: &mut Port<'_, impl Transport>,
    ) -> Result<(), Stop> {
        let start = self.walk.probe.at;
        let words = self.words(chunk);
        let (from, None) = context.layout.chunk(start, words) else {
            return self.request_parts(chunk, context, port);
        };
        if chunk > 0 || context.direct.copies(self.walk.intent) {
            return self.request_parts(chunk, context, port);
        }
        let into = SlotRange { slot: port.slot(0), start: 0, words };
        port.post(0, Request::Read { from, into })?;
        self.landing[0] += 1;
        self.start = start;
        self.requested += 1;
        Ok(())
    }

    /// Requests as [`request`](Self::request), for any chunk.
    #[inline(never)]
    fn request_parts<C: AsMut<[CacheEntry]>>(
        &mut self,
        chunk: u32,
        context: &mut Context<C>,
        port: &mut Port<'_, impl Transport>,
    ) -> Result<(), Stop> {
        let intent = self.walk.intent;
        // Posts may find no room, so the walk advances only after they succeed.
        let further = chunk.checked_sub(1).map(|before| {
            let mut probe = self.walk.probe;
            probe.pass(self.words(before), self.walk.bucket, &context.layout);
            probe
        });
        let start = further.map_or(self.walk.probe.at, |probe| probe.at);
        let words = self.words(chunk);
        let parity = usize::from(chunk & 1 == 1);
        let (first, second) = context.layout.chunk(start, words);
        let slot = port.slot(chunk & 1);
        let mut reads = [
            Some((first, SlotRange { slot, start: 0, words: first.words })),
            second.map(|second| {
                (second, SlotRange { slot, start: first.words, words: second.words })
            }),
        ];
        if context.direct.copies(intent) {
            for read in &mut reads {
                if let Some((from, into)) = *read
                    && copy(port, from, into)?
                {
                    *read = None;
                }
            }
        }
        let posts = reads.iter().map(|read| u32::from(read.is_some())).sum();
        port.reserve(posts)?;
        for (from, into) in reads.into_iter().flatten() {
            port.read(u8::from(parity == 1), from, into)?;
            self.landing[parity] += 1;
        }
        if let Some(probe) = further {
            self.walk.probe = probe;
        }
        if chunk == self.chunk {
            self.start = start;
        }
        self.by_cpu[parity] = posts == 0;
        if posts == 0 {
            self.cost.chunks_copied += 1;
            self.cost.lines += words.div_ceil(LINE_BUCKETS);
        }
        self.requested += 1;
        Ok(())
    }

    /// Scans the present chunk, which has landed.
    #[inline(always)]
    pub(super) fn scan_landed<C: AsMut<[CacheEntry]>>(
        &mut self,
        context: &mut Context<C>,
        port: &Port<'_, impl Transport>,
    ) -> Result<Decision, Stop> {
        let (chunk, cursor, start) = (self.chunk, self.cursor, self.start);
        let landed = SlotRange { slot: port.slot(chunk & 1), start: 0, words: self.words(chunk) };
        let words = port.landed(landed)?;
        // Counted once per chunk, even if it is scanned again.
        if core::mem::take(&mut self.by_cpu[self.parity()]) {
            self.cost.copies_scanned += 1;
        }
        let decision = self.scan(words, context.words_whole);
        if context.cache.is_on() {
            for nth in self.shown(chunk, cursor, decision, context.learns_all()) {
                let offset = self.offset(nth);
                let word = words.get(offset as usize).copied();
                if let Some(bucket) = word.and_then(Bucket::from_word) {
                    let at = context.layout.advance(start, u64::from(offset));
                    context.cache.learn(at, bucket, &context.layout);
                }
            }
        }
        Ok(decision)
    }

    /// Scans a chunk's words from the cursor on (lines 8-18). If words may be torn, no decision
    /// rests on a word that a tear could have produced.
    #[inline(always)]
    fn scan(&mut self, words: &[u64], whole: bool) -> Decision {
        while let Some(&word) = words.get(self.offset(self.cursor) as usize) {
            let bucket = self.walk.bucket;
            let sight = if whole { bucket.sight(word) } else { bucket.sight_torn(word) };
            return match sight {
                Sight::Other => {
                    self.cursor += 1;
                    continue;
                }
                _ if self.awaits_one_roundtrip() => Decision::AwaitOneRoundtrip,
                Sight::Wanted => self.on_match(word),
                Sight::Empty => self.on_empty(),
                Sight::Unclear => {
                    self.cost.confirms += 1;
                    Decision::Confirm
                }
            };
        }
        self.next_chunk()
    }

    #[inline]
    fn next_chunk(&mut self) -> Decision {
        if self.buckets_before(self.chunk + 1) >= self.walk.left {
            return Decision::Done(self.walk.intent.ended_at_limit());
        }
        self.chunk += 1;
        self.cursor = 0;
        // The start if this chunk was read ahead; otherwise `request` sets it.
        self.start = self.walk.probe.at;
        Decision::NextChunk
    }

    /// Returns which buckets, in probe order, a scan of `chunk` from `cursor` on has shown to be
    /// occupied. If words may be torn, that is only the bucket at which the scan stopped.
    #[inline]
    fn shown(&self, chunk: u32, cursor: u32, decision: Decision, whole: bool) -> Range<u32> {
        let passed = if self.chunk == chunk { self.cursor } else { self.words(chunk) };
        let found = u32::from(decision == Decision::Done(Ended::Found));
        let from = if whole { cursor } else { passed };
        from..passed + found
    }

    #[inline]
    pub(super) fn at_cursor(&self, layout: &Layout) -> RemoteWord {
        layout.word(self.cursor_position(layout))
    }

    /// Returns the position of the bucket at the cursor.
    #[inline]
    pub(super) fn cursor_position(&self, layout: &Layout) -> Position {
        layout.advance(self.start, u64::from(self.offset(self.cursor)))
    }

    #[inline]
    pub(super) fn parity(&self) -> usize {
        usize::from(self.chunk & 1 == 1)
    }

    /// Returns the number of buckets of a chunk: C, or the rest of the probe limit.
    #[inline]
    pub(super) fn words(&self, chunk: u32) -> u32 {
        let left = self.walk.left.saturating_sub(self.buckets_before(chunk));
        // At most C, which is a u32.
        #[allow(clippy::cast_possible_truncation)]
        let words = left.min(u64::from(self.chunk_buckets)) as u32;
        words
    }

    #[inline]
    pub(super) fn buckets_before(&self, chunk: u32) -> u64 {
        u64::from(chunk) * u64::from(self.chunk_buckets)
    }

    /// Returns the offset in the chunk of the `nth` bucket of the probe order.
    #[inline]
    pub(super) fn offset(&self, nth: u32) -> u32 {
        let rotation = self.walk.probe.rotation;
        if rotation == 0 { nth } else { Probe::offset(rotation, nth) }
    }
}

/// Executes a READ with CPU loads. Returns false if the CPU cannot address the words.
fn copy(port: &mut Port<'_, impl Transport>, from: Segment, into: SlotRange) -> Result<bool, Stop> {
    let mut piece = [0; PIECE_WORDS as usize];
    let mut done = 0;
    while done < from.words {
        let words = (from.words - done).min(PIECE_WORDS);
        let start = RemoteWord { index: from.start.index + u64::from(done), ..from.start };
        let Some(source) = port.direct(Segment { start, words }) else { return Ok(false) };
        for (word, source) in piece.iter_mut().zip(source) {
            *word = source.load(SeqCst);
        }
        let part = SlotRange { start: into.start + done, words, ..into };
        for (target, word) in port.staged(part)?.iter_mut().zip(piece) {
            *target = word;
        }
        done += words;
    }
    Ok(true)
}
