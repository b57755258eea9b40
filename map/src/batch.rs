//! Batches: many requests in one call.
//!
//! Over a transport their roundtrips overlap. Where the CPU runs them, their cache misses do: a
//! loop hashes a group of keys and requests the lines of their first candidates while it serves the
//! group before.

use probeline_pipeline::{Error, Mapped, Parts, Plain, Pull};
use probeline_transport::{PostError, Transport};

use crate::BatchError;
use crate::context::Context;
use crate::direct::{BucketWords, Candidate, EngineWords, MappedBuckets, prefetch, run, try_get};
use crate::layout::hash;
use crate::machine::Access;
use crate::outcome::{Outcome, Request, Written};
use crate::search::Seen;

/// Keys in a block that the CPU runs. The transport is polled after each block, because only a poll
/// detects lost owners.
pub(crate) const BLOCK: usize = 4_096;
/// Candidates whose lines are requested at once, while those of the group before are served. A loop of
/// requests alone lets the core translate many addresses at the same time; between them, the
/// instructions of a whole operation fill its out-of-order window.
const GROUP: usize = 16;

/// The requests of a batch: one for each key.
pub(crate) trait Requests<V> {
    /// Returns whether the key at `place` has a request.
    #[inline(always)]
    fn has(&self, _place: usize) -> bool {
        true
    }
    /// Returns the request at `place`.
    fn request(&self, place: usize) -> Option<Request<V>>;
    /// Returns the place for the value of the request at `place`, if it is a get.
    fn value(&mut self, _place: usize) -> Option<&mut Option<V>> {
        None
    }
    /// Stores the outcome of the request at `place`.
    fn put(&mut self, place: usize, outcome: Outcome<V>);
}

/// Gets, and their results.
pub(crate) struct Gets<'b, V>(pub(crate) &'b mut [Option<V>]);

impl<V: Copy> Requests<V> for Gets<'_, V> {
    #[inline(always)]
    fn request(&self, _: usize) -> Option<Request<V>> {
        Some(Request::Get)
    }

    #[inline(always)]
    fn value(&mut self, place: usize) -> Option<&mut Option<V>> {
        self.0.get_mut(place)
    }

    #[inline(always)]
    fn put(&mut self, place: usize, outcome: Outcome<V>) {
        match self.0.get_mut(place) {
            Some(result) => *result = outcome.value(),
            None => debug_assert!(false, "the batch has no place {place}"),
        }
    }
}

/// Puts of these values, or removes without values, and their results.
pub(crate) struct Writes<'b, V> {
    pub(crate) values: Option<&'b [V]>,
    /// Whether values replace older ones.
    pub(crate) over: bool,
    pub(crate) results: &'b mut [Written],
}

impl<V: Copy> Requests<V> for Writes<'_, V> {
    #[inline(always)]
    fn request(&self, place: usize) -> Option<Request<V>> {
        let Some(values) = self.values else { return Some(Request::Remove) };
        let value = *values.get(place)?;
        Some(if self.over { Request::Put(value) } else { Request::PutIfAbsent(value) })
    }

    #[inline(always)]
    fn put(&mut self, place: usize, outcome: Outcome<V>) {
        match self.results.get_mut(place) {
            Some(result) => *result = outcome.written(),
            None => debug_assert!(false, "the batch has no place {place}"),
        }
    }
}

/// Puts of values that were computed for the keys of a block that a get did not find. Their results are
/// not kept: the map is a cache.
pub(crate) struct Computed<'b, V> {
    pub(crate) values: &'b [Option<V>],
    pub(crate) missing: &'b Missing,
}

/// A set of places in a block.
pub(crate) struct Missing([u64; BLOCK / 64]);

impl Default for Missing {
    fn default() -> Self {
        Self([0; BLOCK / 64])
    }
}

impl Missing {
    pub(crate) fn insert(&mut self, place: usize) {
        if let Some(word) = self.0.get_mut(place / 64) {
            *word |= 1 << (place % 64);
        }
    }

    fn has(&self, place: usize) -> bool {
        self.0.get(place / 64).is_some_and(|word| word >> (place % 64) & 1 != 0)
    }
}

impl<V: Copy> Requests<V> for Computed<'_, V> {
    #[inline(always)]
    fn has(&self, place: usize) -> bool {
        self.missing.has(place)
    }

    #[inline(always)]
    fn request(&self, place: usize) -> Option<Request<V>> {
        self.values.get(place).copied().flatten().map(Request::PutIfAbsent)
    }

    #[inline(always)]
    fn put(&mut self, _: usize, _: Outcome<V>) {}
}

/// A batch in progress.
pub(crate) struct Batch<'b, K, Q> {
    keys: &'b [K],
    requests: Q,
    /// The first key not started.
    next: usize,
    /// The error of the first key that failed.
    error: Option<(usize, Error)>,
}

impl<'b, K: Plain, Q> Batch<'b, K, Q> {
    pub(crate) fn new(keys: &'b [K], requests: Q) -> Self {
        Self { keys, requests, next: 0, error: None }
    }

    /// Returns the error of the first key that failed.
    pub(crate) fn error(&self) -> Result<(), BatchError> {
        match self.error {
            Some((place, error)) => Err(BatchError::Failed { place, error }),
            None => Ok(()),
        }
    }

    #[cold]
    fn fail(&mut self, place: usize, error: Error) {
        if self.error.is_none_or(|(first, _)| place < first) {
            self.error = Some((place, error));
        }
    }

    /// Runs the next block of keys by the CPU: requests the lines of a group of candidates, and
    /// meanwhile probes those of the group before. A key whose candidate has another key joins
    /// the next group with a further candidate.
    #[inline(never)]
    fn run_block<'t, V: Plain>(&mut self, words: impl BucketWords<'t>, context: &mut Context)
    where
        Q: Requests<V>,
    {
        let end = self.keys.len().min(self.next + BLOCK);
        let mut group = Group::new();
        let mut after = Group::new();
        loop {
            while after.len < GROUP
                && self.next < end
                && let Some(key) = self.keys.get(self.next)
            {
                if self.requests.has(self.next) {
                    after.push(Candidate::new(words, &context.layout, self.next, hash(key), 0));
                }
                self.next += 1;
            }
            if after.len == 0 && group.len == 0 {
                return;
            }
            for candidate in after.candidates() {
                prefetch::<K, V>(&context.layout, candidate.bucket);
            }
            core::mem::swap(&mut group, &mut after);
            let before = core::mem::replace(&mut after.len, 0);
            for nth in 0..before {
                let Some(candidate) = after.candidates.get(nth).copied() else { return };
                if let Some(further) = self.proceed(words, context, candidate) {
                    after.push(further);
                }
            }
        }
    }

    /// Examines a candidate of a key and decides its request, or returns the candidate to go on
    /// with.
    #[inline(always)]
    fn proceed<'t, V: Plain>(
        &mut self,
        words: impl BucketWords<'t>,
        context: &mut Context,
        at: Candidate<'t>,
    ) -> Option<Candidate<'t>>
    where
        Q: Requests<V>,
    {
        let key = self.keys.get(at.at)?;
        let value = self.requests.value(at.at);
        let bytes = context.layout.bytes.value;
        let room = || value.map(|to| to.insert(V::zeroed(bytes)).bytes_mut());
        match try_get::<K, V>(&at, context, key.bytes(), room) {
            Seen::Key => {}
            Seen::Other if at.nth + 1 < context.layout.candidates => {
                return Some(Candidate::new(words, &context.layout, at.at, at.hash, at.nth + 1));
            }
            Seen::Other | Seen::Empty => self.serve(words, context, key, &at),
            _ => {
                // The room may have what does not match the check.
                if let Some(value) = self.requests.value(at.at) {
                    *value = None;
                }
                self.serve(words, context, key, &at);
            }
        }
        None
    }

    /// Runs the request of one key.
    #[inline(always)]
    fn serve<'t, V: Plain>(
        &mut self,
        words: impl BucketWords<'t>,
        context: &mut Context,
        key: &K,
        at: &Candidate<'t>,
    ) where
        Q: Requests<V>,
    {
        let Some(request) = self.requests.request(at.at) else { return };
        match run(words, context, key, at.hash, &request) {
            Some(outcome) => self.requests.put(at.at, outcome),
            None => self.fail(at.at, PostError::OutOfRange.into()),
        }
    }
}

/// Candidates whose lines are requested together.
struct Group<'t> {
    candidates: [Candidate<'t>; GROUP],
    len: usize,
}

impl<'t> Group<'t> {
    fn new() -> Self {
        Self { candidates: [Candidate::NONE; GROUP], len: 0 }
    }

    fn candidates(&self) -> &[Candidate<'t>] {
        self.candidates.get(..self.len).unwrap_or_default()
    }

    /// Adds a candidate, for which there is room.
    #[inline(always)]
    fn push(&mut self, candidate: Candidate<'t>) {
        if let Some(place) = self.candidates.get_mut(self.len) {
            *place = candidate;
            self.len += 1;
        }
    }
}

impl<T, K, V, Q> probeline_pipeline::Batch<T, Context, Access<K, V>> for Batch<'_, K, Q>
where
    T: Transport,
    K: Plain,
    V: Plain,
    Q: Requests<V>,
{
    fn pull(&mut self, parts: &mut Parts<'_, T, Context>, into: &mut Access<K, V>) -> Pull {
        while self.next < self.keys.len() && !self.requests.has(self.next) {
            self.next += 1;
        }
        let Some(key) = self.keys.get(self.next) else { return Pull::End };
        if parts.shared.is_direct && !parts.is_dead {
            let layout = parts.shared.layout;
            // A poll follows each block.
            let mapped = Mapped::new(parts.transport, layout.first_word, layout.part_words());
            if let Some(mapped) = &mapped {
                let words = MappedBuckets { mapped, bucket_words: layout.bucket_words };
                self.run_block::<V>(words, parts.shared);
            } else {
                let words = EngineWords { transport: parts.transport, layout };
                self.run_block::<V>(words, parts.shared);
            }
            return Pull::Poll;
        }
        let Some(request) = self.requests.request(self.next) else { return Pull::End };
        *into = Access::new(key, request);
        self.next += 1;
        Pull::Start(self.next - 1)
    }

    fn take(&mut self, place: usize, result: Result<Outcome<V>, Error>) {
        match result {
            Ok(outcome) => self.requests.put(place, outcome),
            Err(error) => self.fail(place, error),
        }
    }
}
