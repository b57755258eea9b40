//! What an operation asks of the transport: READs of its chunks, and atomics on its buckets.

use core::mem::replace;
use core::sync::atomic::Ordering::SeqCst;

use probeline_transport::{Local, PostError, RemoteWord, Segment, Slot, SlotError, Transport};

use super::{Pipeline, parity};
use crate::bucket::Bucket;
use crate::cache::CacheEntry;
use crate::error::OperationError;
use crate::find_or_put::Step;
use crate::operation::{Name, Operation, Part, State};
use crate::probe::LINE_BUCKETS;

/// Words that the CPU copies at once where it makes a READ itself: two lines, on the stack.
const PIECE_WORDS: u32 = 16;

impl<T, S, C> Pipeline<T, S, C>
where
    T: Transport,
    S: AsMut<[Operation]>,
    C: AsMut<[CacheEntry]>,
{
    /// Asks for the chunks that are due, then scans the present one if it has landed.
    #[inline]
    pub(super) fn scan(&mut self, index: u32) -> Option<Step> {
        while let Some(chunk) = self.operation(index)?.search.request() {
            if !self.request(index, chunk) {
                return None;
            }
        }
        let operation = self.operations.as_mut().get_mut(index as usize)?;
        let chunk = operation.search.chunk();
        if operation.landing.get(parity(chunk)).is_none_or(|&landing| landing > 0) {
            return None;
        }
        let words = landing(index, parity(chunk), 0, operation.search.words(chunk));
        let landed = match self.transport.landed(words) {
            Ok(landed) => landed,
            Err(refused) => {
                self.end(index, Err(refused.into()));
                return None;
            }
        };
        // Once a chunk, however often it is scanned.
        if let Some(by_cpu) = operation.by_cpu.get_mut(parity(chunk))
            && replace(by_cpu, false)
        {
            operation.copied.scanned += 1;
        }
        let cursor = operation.search.cursor();
        let step = operation.search.scan(landed, self.words_whole);
        if self.cache.is_on() {
            self.learn_chunk(index, chunk, cursor, step);
        }
        Some(step)
    }

    /// What a scan of `chunk` from `cursor` on has shown goes to the cache: where words may be
    /// torn, only what the step says.
    fn learn_chunk(&mut self, index: u32, chunk: u32, cursor: u32, step: Step) {
        let Some(operation) = self.operations.as_mut().get(index as usize) else { return };
        let search = &operation.search;
        let Some(&start) = operation.start.get(parity(chunk)) else { return };
        let all = search.words(chunk);
        // A bucket that the cache does not learn is read again, so the error loses nothing.
        let Ok(landed) = self.transport.landed(landing(index, parity(chunk), 0, all)) else {
            return;
        };
        for nth in search.shown(chunk, cursor, step, self.words_whole) {
            let offset = search.offset(nth);
            if let Some(bucket) = landed.get(offset as usize).and_then(|&w| Bucket::from_word(w)) {
                let at = self.layout.advance(start, u64::from(offset));
                self.cache.learn(at, bucket, &self.layout);
            }
        }
    }

    /// Asks for a chunk: posts its READs, both or none of them, but for what the CPU reaches and
    /// copies. False if there was no room.
    #[inline]
    fn request(&mut self, index: u32, chunk: u32) -> bool {
        let layout = self.layout;
        let Some(operation) = self.operations.as_mut().get_mut(index as usize) else {
            return false;
        };
        let (mut probe, intent) = (operation.probe, operation.search.intent());
        if let Some(before) = chunk.checked_sub(1) {
            probe.pass(operation.search.words(before), operation.search.bucket(), &layout);
        }
        let words = operation.search.words(chunk);
        let (first, second) = layout.chunk(probe.at, words);
        let parity = parity(chunk);
        let parts = [
            Some((first, landing(index, parity, 0, first.words))),
            second.map(|second| (second, landing(index, parity, first.words, second.words))),
        ];
        let mut posts = parts;
        if self.direct.copies(intent) {
            for post in &mut posts {
                let Some((from, into)) = *post else { continue };
                match self.copy(from, into) {
                    Ok(true) => *post = None,
                    Ok(false) => {}
                    Err(refused) => {
                        self.end(index, Err(refused.into()));
                        return false;
                    }
                }
            }
        }
        let count: u32 = posts.iter().map(|post| u32::from(post.is_some())).sum();
        if count > 0 && !self.has_room(count) {
            self.wait(index);
            return false;
        }
        for (from, into) in posts.into_iter().flatten() {
            if !self.post_read(index, parity, from, into) {
                return false;
            }
        }
        let Some(operation) = self.operation(index) else { return false };
        operation.probe = probe;
        if let Some(start) = operation.start.get_mut(parity) {
            *start = probe.at;
        }
        if let Some(by_cpu) = operation.by_cpu.get_mut(parity) {
            *by_cpu = count == 0;
        }
        if count == 0 {
            operation.copied.chunks += 1;
            operation.copied.lines += words.div_ceil(LINE_BUCKETS);
        }
        operation.search.requested();
        true
    }

    /// Executes a READ by CPU loads. Returns false if the CPU cannot access the words.
    fn copy(&mut self, from: Segment, into: Local) -> Result<bool, SlotError> {
        let mut piece = [0; PIECE_WORDS as usize];
        let mut done = 0;
        while done < from.words {
            let words = (from.words - done).min(PIECE_WORDS);
            let start = RemoteWord { index: from.start.index + u64::from(done), ..from.start };
            let Some(source) = self.transport.direct(Segment { start, words }) else {
                return Ok(false);
            };
            for (word, source) in piece.iter_mut().zip(source) {
                *word = source.load(SeqCst);
            }
            let part = Local { start: into.start + done, words, ..into };
            for (target, word) in self.transport.staged(part)?.iter_mut().zip(piece) {
                *target = word;
            }
            done += words;
        }
        Ok(true)
    }

    #[inline]
    fn post_read(&mut self, index: u32, parity: usize, from: Segment, into: Local) -> bool {
        let Some(operation) = self.operations.as_mut().get_mut(index as usize) else {
            return false;
        };
        let part = Part::Chunk(parity);
        let name = Name { operation: index, part, generation: operation.generation };
        match self.transport.read(name.token(), from, into) {
            Ok(()) => {
                operation.posted(parity);
                true
            }
            Err(refused) => {
                self.on_refusal(index, refused);
                false
            }
        }
    }

    /// Claims the first bucket along with the READ that follows. False if there was no room.
    #[inline]
    pub(super) fn post_first_claim(&mut self, index: u32) -> bool {
        let Some(operation) = self.operation(index) else { return false };
        let probe = operation.probe;
        operation.start = [probe.at; 2];
        let Some(offset) = operation.search.first_claim() else {
            debug_assert!(false, "a first claim was planned, but the search has none");
            operation.state = State::Chunk;
            return true;
        };
        // For the READ as well, which goes out with it.
        if !self.has_room(2) {
            self.wait(index);
            return false;
        }
        if !self.post_atomic(index, offset, Part::FirstClaim) {
            return false;
        }
        if let Some(operation) = self.operation(index) {
            operation.state = State::Chunk;
        }
        true
    }

    #[inline]
    pub(super) fn post_answered(&mut self, index: u32, offset: u32, part: Part) {
        if self.post_atomic(index, offset, part)
            && let Some(operation) = self.operation(index)
        {
            operation.state = State::Answer;
        }
    }

    /// Posts an atomic on a bucket of the present chunk. False if there was no room.
    #[inline]
    fn post_atomic(&mut self, index: u32, offset: u32, part: Part) -> bool {
        if !self.has_room(1) {
            self.wait(index);
            return false;
        }
        let layout = self.layout;
        let Some(operation) = self.operations.as_mut().get_mut(index as usize) else {
            return false;
        };
        let parity = parity(operation.search.chunk());
        let Some(&start) = operation.start.get(parity) else { return false };
        let at = layout.word(layout.advance(start, u64::from(offset)));
        let token = Name { operation: index, part, generation: operation.generation }.token();
        let posted = match part {
            Part::Confirm => self.transport.fetch_add(token, at, 0),
            _ => {
                let desired = operation.search.bucket().word();
                self.transport.compare_and_swap(token, at, 0, desired)
            }
        };
        match posted {
            Ok(()) => {
                operation.in_flight += 1;
                true
            }
            Err(refused) => {
                self.on_refusal(index, refused);
                false
            }
        }
    }

    #[cold]
    fn on_refusal(&mut self, index: u32, refused: PostError) {
        match refused {
            // The next poll says why, and ends the operation.
            PostError::Closed => {}
            other => self.end(index, Err(OperationError::Post(other))),
        }
    }
}

/// Where a chunk lands, or the part of it that begins at `start`.
#[inline]
fn landing(index: u32, parity: usize, start: u32, words: u32) -> Local {
    Local { slot: Slot(index << 1 | u32::from(parity == 1)), start, words }
}
