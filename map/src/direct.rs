//! The direct path: the CPU loads and stores the words of all owners itself.
//!
//! All owners use it or none: what a CPU has stored is visible to other CPUs at once, but to a READ
//! only after the next barrier. The owners agree on it when they open the map.

use core::hint::spin_loop;
use core::marker::PhantomData;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use probeline_pipeline::{Error, Mapped, Plain};
use probeline_transport::{
    AtomicScope, PostError, Transport, WORD_BYTES, begin_with, prefetch_far, store_bytes,
};

use crate::context::Context;
use crate::control::Control;
use crate::hash::{hash_of_words, load_and_hash, store_and_hash};
use crate::layout::{EntryBytes, Layout, Place, check_seed, sized, sized_mut};
use crate::machine::writes;
use crate::outcome::{Outcome, Request, ValueHash, Written};
use crate::quick::{self, Quick};
use crate::search::{Kind, Next, Search, Seen, Target};

/// The words of all owners, for the CPU.
pub(crate) trait BucketWords<'t>: Copy {
    /// Returns the words of a bucket, from its control word on.
    fn bucket(&self, at: Place) -> Option<&'t [AtomicU64]>;
}

/// Asks the engine for each bucket, for single operations.
pub(crate) struct EngineWords<'t, T> {
    pub(crate) transport: &'t T,
    pub(crate) layout: Layout,
}

impl<'t, T> Clone for EngineWords<'t, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<'t, T> Copy for EngineWords<'t, T> {}

impl<'t, T: Transport> BucketWords<'t> for EngineWords<'t, T> {
    #[inline(always)]
    fn bucket(&self, at: Place) -> Option<&'t [AtomicU64]> {
        self.transport.direct(self.layout.segment(at))
    }
}

/// The buckets of all owners, whose words were looked up once for many operations.
#[derive(Clone, Copy)]
pub(crate) struct MappedBuckets<'m, 't> {
    pub(crate) mapped: &'m Mapped<'t>,
    pub(crate) bucket_words: u32,
}

impl<'t> BucketWords<'t> for MappedBuckets<'_, 't> {
    #[inline(always)]
    fn bucket(&self, at: Place) -> Option<&'t [AtomicU64]> {
        let first = at.index * u64::from(self.bucket_words);
        self.mapped.words(at.owner, first, self.bucket_words as usize)
    }
}

/// Returns whether this owner's CPU reaches the words of all owners, coherently with their atomics.
pub(crate) fn is_possible(transport: &impl Transport, layout: &Layout) -> bool {
    let words = EngineWords { transport, layout: *layout };
    transport.caps().atomics == AtomicScope::Cpu
        && (0..layout.owners).all(|owner| {
            let ends = [0, layout.buckets_per_owner - 1];
            ends.into_iter().all(|index| words.bucket(Place { owner, index }).is_some())
        })
}

/// Runs a request. Returns `None` if a word cannot be reached: a defect of the transport.
#[inline(always)]
pub(crate) fn run<'t, K: Plain, V: Plain>(
    words: impl BucketWords<'t>,
    context: &mut Context,
    key: &K,
    hash: u64,
    request: &Request<V>,
) -> Option<Outcome<V>> {
    let mut value = V::zeroed(context.layout.bytes.value);
    let (key, room) = (key.bytes(), value.bytes_mut());
    let outcome = run_bytes::<K, V>(words, context, (key, hash), request.as_bytes(), room)?;
    Some(outcome.map(|()| value))
}

/// Runs as [`run`], for the bytes of a key and of a value, which have the sizes of the map. `room` has the
/// size of a value; after a hit it has the value, otherwise bytes without meaning.
#[inline(always)]
pub(crate) fn run_bytes<'t, K: Plain, V: Plain>(
    words: impl BucketWords<'t>,
    context: &mut Context,
    (key, hash): (&[u8], u64),
    request: Request<&[u8]>,
    room: &mut [u8],
) -> Option<Outcome<()>> {
    match quick::run(&mut Cpu::<_, K, V>::new(words, context, (key, hash)), request, room) {
        Ok(Some(outcome)) => Some(outcome),
        Ok(None) => Cpu::<_, K, V>::new(words, context, (key, hash)).run_carefully(request, room),
        Err(_) => None,
    }
}

/// A candidate of a key of a batch.
#[derive(Clone, Copy)]
pub(crate) struct Candidate<'t> {
    /// The key's index in the batch.
    pub(crate) at: usize,
    pub(crate) hash: u64,
    pub(crate) nth: u32,
    place: Place,
    /// The bucket's words; none if the CPU cannot reach them.
    pub(crate) bucket: &'t [AtomicU64],
}

impl<'t> Candidate<'t> {
    pub(crate) const NONE: Self =
        Self { at: 0, hash: 0, nth: 0, place: Place { owner: 0, index: 0 }, bucket: &[] };

    #[inline(always)]
    pub(crate) fn new(
        words: impl BucketWords<'t>,
        layout: &Layout,
        at: usize,
        hash: u64,
        nth: u32,
    ) -> Self {
        let place = layout.candidate(hash, nth);
        Self { at, hash, nth, place, bucket: words.bucket(place).unwrap_or_default() }
    }
}

/// Probes a candidate of a key as a get does, with less work than [`run`]. A hit stores the value
/// in the room and counts; nothing else changes or counts anything. Without room there is no hit.
///
/// The rule of the check holds as for a READ, of which words may land in any order: the value is
/// loaded after the control word, each word once, and only one that matches leaves this function.
#[inline(always)]
pub(crate) fn try_get<'v, K: Plain, V: Plain>(
    candidate: &Candidate<'_>,
    context: &mut Context,
    key: &[u8],
    room: impl FnOnce() -> Option<&'v mut [u8]>,
) -> Seen {
    let bytes = context.layout.bytes.of::<K, V>();
    let Some((control, there, value)) = parts(candidate.bucket, bytes) else { return Seen::Mixed };
    if let Some(seen) = Seen::unless_full(control, candidate.hash) {
        return seen;
    }
    if !begin_with(there, key) {
        return Seen::Other;
    }
    let Some(room) = room() else { return Seen::Mixed };
    if !control.has_check(load_and_hash(value, room, check_seed(candidate.hash, candidate.place))) {
        return Seen::Mixed;
    }
    context.stats.bucket_reads += u64::from(candidate.nth) + 1;
    context.stats.hits += 1;
    Seen::Key
}

/// Loads the control word of a bucket, and returns it with the words of a key and of a value of these
/// sizes.
#[inline(always)]
fn parts(bucket: &[AtomicU64], bytes: EntryBytes) -> Option<(Control, &[AtomicU64], &[AtomicU64])> {
    let (control, body) = bucket.split_first()?;
    let (there, value) = body.split_at_checked(bytes.key.div_ceil(WORD_BYTES))?;
    let value = value.get(..bytes.value.div_ceil(WORD_BYTES))?;
    Some((Control(control.load(Acquire)), there, value))
}

/// A request on a key, whose candidates the CPU reaches.
struct Cpu<'r, 't, R, K, V> {
    words: R,
    context: &'r mut Context,
    key: &'r [u8],
    hash: u64,
    /// The bucket probed last.
    present: (Place, &'t [AtomicU64]),
    types: PhantomData<(K, V)>,
}

impl<'r, 't, R: BucketWords<'t>, K: Plain, V: Plain> Cpu<'r, 't, R, K, V> {
    #[inline(always)]
    fn new(words: R, context: &'r mut Context, (key, hash): (&'r [u8], u64)) -> Self {
        let present = (Place::default(), &[][..]);
        Self { words, context, key, hash, present, types: PhantomData }
    }

    /// Probes a candidate. If it shows [`Seen::Key`], the value is in `room`, if there is any. If
    /// it is to `write`, it also examines the entries of other keys.
    #[inline(always)]
    fn probe(&mut self, nth: u32, write: bool, room: Option<&mut [u8]>) -> Option<(Control, Seen)> {
        let place = self.context.layout.candidate(self.hash, nth);
        let bucket = self.words.bucket(place)?;
        self.present = (place, bucket);
        self.context.stats.bucket_reads += 1;
        let key = sized::<K>(self.key);
        let bytes = self.context.layout.bytes.of::<K, V>();
        let (control, there, value) = parts(bucket, bytes)?;
        if let Some(seen) = Seen::unless_full(control, self.hash) {
            return Some((control, seen));
        }
        let is_key = begin_with(there, key);
        if !is_key && !write {
            return Some((control, Seen::Other));
        }
        let hash = if is_key { self.hash } else { hash_of_words(there, key.len(), 0) };
        let seed = check_seed(hash, place);
        let check = match room {
            Some(room) => load_and_hash(value, sized_mut::<V>(room), seed),
            None => hash_of_words(value, bytes.value, seed),
        };
        let seen = Seen::from_full(is_key, control.has_check(check));
        if seen == Seen::Mixed {
            self.context.stats.failed_checks += 1;
        }
        Some((control, seen))
    }

    /// Replaces a control word that this request has seen.
    #[inline(always)]
    fn swap(&mut self, word: &AtomicU64, seen: Control, desired: Control) -> bool {
        let swapped = word.compare_exchange(seen.0, desired.0, SeqCst, Relaxed);
        if let Err(now) = swapped {
            self.context.follow_writer(seen, Control(now));
        }
        swapped.is_ok()
    }

    /// Stores the entry in a bucket that this request has claimed for a target of this kind.
    #[inline(always)]
    fn fill(
        &mut self,
        (place, bucket): (Place, &[AtomicU64]),
        ticket: Control,
        target: Target,
        value: &[u8],
    ) -> Option<Written> {
        let (control, body) = bucket.split_first()?;
        let bytes = self.context.layout.bytes.of::<K, V>();
        let (to_key, to_value) = body.split_at_checked(bytes.key.div_ceil(WORD_BYTES))?;
        let to_value = to_value.get(..bytes.value.div_ceil(WORD_BYTES))?;
        store_bytes(sized::<K>(self.key), to_key);
        let seed = check_seed(self.hash, place);
        let check = store_and_hash(sized::<V>(value), to_value, seed);
        let full = Control::full(self.context.clock.age(), check);
        let published = control.compare_exchange(ticket.0, full.0, Release, Relaxed);
        if let Err(now) = published {
            self.context.follow_writer(ticket, Control(now));
            self.context.stats.stolen_claims += 1;
            let had_entry = matches!(target.kind, Kind::Key | Kind::Oldest);
            self.context.stats.lost_entries += u64::from(had_entry);
            return Some(Written::Dropped);
        }
        self.context.clock.count();
        self.context.last_put = Some((place, target.nth));
        Some(target.kind.written())
    }

    /// Runs the request whatever other clients do.
    #[inline(never)]
    fn run_carefully(self, request: Request<&[u8]>, room: &mut [u8]) -> Option<Outcome<()>> {
        let mut access = Direct { cpu: self, search: Search::START };
        match request {
            Request::Get => access.get(room),
            _ => access.write(request, room),
        }
    }
}

impl<'t, R: BucketWords<'t>, K: Plain, V: Plain> Quick for Cpu<'_, 't, R, K, V> {
    #[inline(always)]
    fn context(&mut self) -> &mut Context {
        self.context
    }

    #[inline(always)]
    fn probe(
        &mut self,
        nth: u32,
        writes: bool,
        room: Option<&mut [u8]>,
    ) -> Result<(Control, Seen), Error> {
        Cpu::probe(self, nth, writes, room).ok_or(Error::Post(PostError::OutOfRange))
    }

    #[inline(always)]
    fn store(&mut self, target: Target, value: &[u8]) -> Result<Option<Written>, Error> {
        if target.needs_comparison() {
            return Ok(None);
        }
        let (place, bucket) = self.present;
        let ticket = self.context.ticket(self.hash);
        let Some(control) = bucket.first() else { return Ok(None) };
        if !self.swap(control, target.seen, ticket) {
            self.context.stats.lost_claims += 1;
            return Ok(None);
        }
        let filled = self.fill((place, bucket), ticket, target, value);
        filled.map(Some).ok_or(Error::Post(PostError::OutOfRange))
    }
}

/// A request that other clients may disturb.
struct Direct<'r, 't, R, K, V> {
    cpu: Cpu<'r, 't, R, K, V>,
    search: Search,
}

impl<'t, R: BucketWords<'t>, K: Plain, V: Plain> Direct<'_, 't, R, K, V> {
    fn probe(&mut self, writes: bool, room: &mut [u8]) -> Option<(Control, Seen)> {
        self.cpu.probe(self.search.nth(), writes, Some(room))
    }

    fn see(&mut self, (control, seen): (Control, Seen), writes: bool) -> Next {
        self.search.see(control, seen, self.cpu.context.goal(self.cpu.hash, writes))
    }

    fn get(&mut self, room: &mut [u8]) -> Option<Outcome<()>> {
        // Retries bound the loop.
        loop {
            let probed = self.probe(false, room)?;
            match self.see(probed, false) {
                Next::Key => {
                    self.cpu.context.stats.hits += 1;
                    return Some(Outcome::Hit(()));
                }
                Next::Probe(0) | Next::ProbeAgain => self.pause(),
                Next::Probe(_) => {}
                // A get cleans nothing.
                next => {
                    self.cpu.context.stats.misses += 1;
                    self.cpu.context.stats.busy += u64::from(next == Next::Busy);
                    return Some(Outcome::Miss);
                }
            }
        }
    }

    /// Writes a value, or removes the key. A key with a value that the request does not replace stays as
    /// it is.
    fn write(&mut self, request: Request<&[u8]>, room: &mut [u8]) -> Option<Outcome<()>> {
        let value = request.value().copied();
        let mut next = Next::Probe(0);
        // Retries bound the loop.
        let written = loop {
            match next {
                Next::Busy => break Written::Dropped,
                Next::Absent(None) => break Written::Absent,
                Next::Absent(Some(target)) => match self.store(target, value)? {
                    Ok(written) => break written,
                    Err(further) => {
                        next = further;
                        continue;
                    }
                },
                Next::Key | Next::Clean => return None,
                Next::ProbeAgain | Next::Probe(_) => self.pause(),
            }
            let (control, seen) = self.probe(true, room)?;
            next = self.see((control, seen), writes(&request));
            if next == Next::Clean {
                next = self.clean(control)?;
            }
            if next == Next::Key {
                let stays = match request {
                    Request::PutIfAbsent(_) => true,
                    Request::Replace(_, old) => ValueHash::from_bytes(room) != old,
                    _ => false,
                };
                if stays {
                    break Written::Present;
                }
                match self.replace(control, value)? {
                    Ok(written) => break written,
                    Err(further) => next = further,
                }
            }
        };
        self.cpu.context.stats.count(written, value.is_none());
        Some(Outcome::Written(written))
    }

    /// Marks the present candidate, whose entry is destroyed, as dropped.
    fn clean(&mut self, seen: Control) -> Option<Next> {
        let dropped = self.cpu.context.mode.dropped(seen);
        if !self.cpu.swap(self.cpu.present.1.first()?, seen, dropped) {
            return Some(self.search.again());
        }
        self.cpu.context.stats.lost_entries += 1;
        Some(self.see((dropped, Seen::Dropped), true))
    }

    /// Gives another client time after a retry. The first probe waits for nothing.
    fn pause(&self) {
        let retries = self.search.retries();
        if retries > 0 {
            (0..1_u32 << retries.min(8)).for_each(|_| spin_loop());
        }
    }

    /// Replaces the value of the key's bucket, or removes the key. Returns how the search goes on if
    /// another client was faster.
    fn replace(&mut self, seen: Control, value: Option<&[u8]>) -> Option<Result<Written, Next>> {
        let (nth, kind) = (self.search.nth(), Kind::Key);
        if value.is_some() {
            return self.store(Target { nth, seen, kind }, value);
        }
        let dropped = self.cpu.context.mode.dropped(seen);
        if self.cpu.swap(self.cpu.present.1.first()?, seen, dropped) {
            return Some(Ok(Written::Removed));
        }
        self.cpu.context.stats.lost_claims += 1;
        Some(Err(self.search.restart()))
    }

    /// Claims a bucket and stores the entry in it. Returns how the search goes on if another client
    /// was faster, or may have written the same key.
    fn store(&mut self, target: Target, value: Option<&[u8]>) -> Option<Result<Written, Next>> {
        let place = self.place(target.nth);
        let bucket = self.cpu.words.bucket(place)?;
        let control = bucket.first()?;
        let ticket = self.cpu.context.ticket(self.cpu.hash);
        if !self.cpu.swap(control, target.seen, ticket) {
            self.cpu.context.stats.lost_claims += 1;
            return Some(Err(match target.kind {
                Kind::Empty => self.search.again(),
                _ => self.search.restart(),
            }));
        }
        if target.needs_comparison() && self.has_conflict(target)? {
            // Not undone: meanwhile clients have passed the bucket as one without their key.
            let dropped = self.cpu.context.mode.dropped(ticket);
            let is_released = self.cpu.swap(control, ticket, dropped);
            let stats = &mut self.cpu.context.stats;
            stats.given_up += 1;
            stats.stolen_claims += u64::from(!is_released);
            stats.lost_entries += u64::from(target.kind == Kind::Oldest);
            // Not only the present candidate has changed.
            return Some(Err(self.search.restart()));
        }
        self.cpu.fill((place, bucket), ticket, target, value?).map(Ok)
    }

    fn place(&self, nth: u32) -> Place {
        self.cpu.context.layout.candidate(self.cpu.hash, nth)
    }

    /// Returns whether another candidate may have an entry or a claim of the same key.
    fn has_conflict(&self, target: Target) -> Option<bool> {
        let claimed = self.place(target.nth);
        let goal = self.cpu.context.goal(self.cpu.hash, true);
        for nth in 0..self.search.compared(goal) {
            let place = self.place(nth);
            let now = Control(self.cpu.words.bucket(place)?.first()?.load(SeqCst));
            // In a small map two candidates may be the same bucket.
            if place != claimed && self.search.is_conflict(nth, now, self.cpu.hash) {
                return Some(true);
            }
        }
        Some(false)
    }
}

/// The lines of a bucket to request ahead: further ones follow a pattern that hardware detects.
const MAX_PREFETCHED_LINES: usize = 4;

/// Prefetches the lines of a bucket.
#[inline(always)]
pub(crate) fn prefetch<K: Plain, V: Plain>(layout: &Layout, bucket: &[AtomicU64]) {
    let lines = bucket.chunks(probeline_transport::LINE_WORDS as usize);
    let used = (layout.words::<K, V>().used().div_ceil(probeline_transport::LINE_WORDS)) as usize;
    lines.take(used.min(MAX_PREFETCHED_LINES)).for_each(prefetch_far);
}

#[cfg(test)]
mod tests;
