//! The direct path: the CPU loads and stores the words of all owners itself.
//!
//! All owners use it or none: what a CPU has stored is visible to other CPUs at once, but to a READ
//! only after the next barrier. The owners agree on it when they open the map.

use core::hint::spin_loop;
use core::marker::PhantomData;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use probeline_transport::{
    AtomicScope, Owner, RemoteWord, Segment, Transport, WORD_BYTES, load_bytes, prefetch_far,
    store_bytes,
};

use crate::context::Context;
use crate::control::{Control, State};
use crate::layout::{Layout, Place, check, hash};
use crate::outcome::{Outcome, Request, ValueHash, Written};
use crate::plain::Plain;
use crate::search::{Kind, Next, Search, Seen, Target};

/// Owners whose words a batch looks up once.
pub(crate) const MAX_MAPPED: usize = 64;

/// The words of all owners, for the CPU.
pub(crate) trait BucketWords<'t> {
    /// Returns the words of a bucket, from its control word on.
    fn bucket(&self, at: Place) -> Option<&'t [AtomicU64]>;
}

/// Asks the engine for each bucket, for single operations.
pub(crate) struct EngineWords<'t, T> {
    pub(crate) transport: &'t T,
    pub(crate) layout: Layout,
}

impl<'t, T: Transport> BucketWords<'t> for EngineWords<'t, T> {
    #[inline(always)]
    fn bucket(&self, at: Place) -> Option<&'t [AtomicU64]> {
        self.transport.direct(self.layout.segment(at))
    }
}

/// The words of all owners, looked up once for many operations.
pub(crate) struct Mapped<'t> {
    parts: [&'t [AtomicU64]; MAX_MAPPED],
    bucket_words: usize,
}

impl<'t> Mapped<'t> {
    /// Returns `None` if the CPU cannot address some word, or if there are more than [`MAX_MAPPED`]
    /// owners.
    pub(crate) fn new(transport: &'t impl Transport, layout: &Layout) -> Option<Self> {
        let mut mapped =
            Self { parts: [&[]; MAX_MAPPED], bucket_words: layout.bucket_words as usize };
        for owner in 0..layout.owners {
            let place = mapped.parts.get_mut(owner as usize)?;
            let start = RemoteWord { owner: Owner(owner), index: layout.first_word };
            // An engine whose parts are larger has to be asked for each bucket.
            let words = u32::try_from(layout.part_words()).ok()?;
            *place = transport.direct(Segment { start, words })?;
        }
        Some(mapped)
    }
}

impl<'t> BucketWords<'t> for Mapped<'t> {
    #[inline(always)]
    fn bucket(&self, at: Place) -> Option<&'t [AtomicU64]> {
        // A part is mapped into this process, so its indices fit a usize.
        #[allow(clippy::cast_possible_truncation)]
        let first = at.index as usize * self.bucket_words;
        self.parts.get(at.owner as usize)?.get(first..first + self.bucket_words)
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
    words: &impl BucketWords<'t>,
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

/// As [`run`], for the bytes of a key and of a value, which have the sizes of the map. `room` has the
/// size of a value; after a hit it has the value, otherwise bytes without meaning.
#[inline(always)]
pub(crate) fn run_bytes<'t, K: Plain, V: Plain>(
    words: &impl BucketWords<'t>,
    context: &mut Context,
    (key, hash): (&[u8], u64),
    request: Request<&[u8]>,
    room: &mut [u8],
) -> Option<Outcome<()>> {
    let mut access =
        Direct { words, context, key, hash, search: Search::START, types: PhantomData::<(K, V)> };
    match request {
        Request::Get => access.get(room),
        Request::Put(value) => access.write(Some(value), Over::All, room),
        Request::PutIfAbsent(value) => access.write(Some(value), Over::Nothing, room),
        Request::Replace(value, old) => access.write(Some(value), Over::Same(old), room),
        Request::Remove => access.write(None, Over::All, room),
    }
}

/// The values of the key that a write replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    All,
    Nothing,
    /// Those with this hash. The write stores nothing if there is none.
    Same(ValueHash),
}

impl Over {
    fn replaces(self, value: &[u8]) -> bool {
        match self {
            Self::All => true,
            Self::Nothing => false,
            Self::Same(old) => ValueHash::of_bytes(value) == old,
        }
    }
}

/// What a glance at a candidate has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Glance {
    /// The get is done.
    Hit,
    /// The entry of another key.
    Other,
    /// Never used: no further candidate has the key.
    Empty,
    /// Undecided: the whole request has to run.
    Unclear,
}

/// A candidate of a key of a batch.
#[derive(Clone, Copy)]
pub(crate) struct Look<'t> {
    /// The key's index in the batch.
    pub(crate) at: usize,
    pub(crate) hash: u64,
    pub(crate) nth: u32,
    place: Place,
    /// The bucket's words; none if the CPU cannot reach them.
    pub(crate) bucket: &'t [AtomicU64],
}

impl<'t> Look<'t> {
    pub(crate) const NONE: Self =
        Self { at: 0, hash: 0, nth: 0, place: Place { owner: 0, index: 0 }, bucket: &[] };

    #[inline(always)]
    pub(crate) fn new(
        words: &impl BucketWords<'t>,
        layout: &Layout,
        at: usize,
        hash: u64,
        nth: u32,
    ) -> Self {
        let place = layout.candidate(hash, nth);
        Self { at, hash, nth, place, bucket: words.bucket(place).unwrap_or_default() }
    }
}

/// Looks at a candidate of a key as a get does, with less work than [`run`]. A hit stores the value
/// in the room and counts; nothing else changes or counts anything. Without room no glance is a hit.
///
/// The rule of the check holds as for a READ, of which words may land in any order: the value is
/// loaded in vectors, then checked, and only a value that matches the control word loaded before
/// leaves this function.
#[inline(always)]
pub(crate) fn glance<'v>(
    look: &Look<'_>,
    context: &mut Context,
    key: &[u8],
    room: impl FnOnce() -> Option<&'v mut [u8]>,
) -> Glance {
    let Some((control, body)) = look.bucket.split_first() else {
        return Glance::Unclear;
    };
    let Some((there, body)) = body.split_at_checked(key.len().div_ceil(WORD_BYTES)) else {
        return Glance::Unclear;
    };
    let control = Control(control.load(Acquire));
    match control.state() {
        State::Full => {}
        State::Empty => return Glance::Empty,
        State::Claimed | State::Dropped => return Glance::Unclear,
    }
    if differ(there, key) {
        return Glance::Other;
    }
    let Some(room) = room() else { return Glance::Unclear };
    load_bytes(body, room);
    if !control.has_check(check(look.hash, room, look.place)) {
        return Glance::Unclear;
    }
    context.stats.looks += u64::from(look.nth) + 1;
    context.stats.hits += 1;
    Glance::Hit
}

/// A request in progress.
struct Direct<'r, R, K, V> {
    words: &'r R,
    context: &'r mut Context,
    key: &'r [u8],
    hash: u64,
    search: Search,
    types: PhantomData<(K, V)>,
}

/// The bucket that a look has shown.
struct Looked<'t> {
    bucket: &'t [AtomicU64],
    control: Control,
    seen: Seen,
}

/// Returns the bytes of a `P`. If the type has a size, the compiler then knows it.
#[inline(always)]
fn sized<P: Plain>(bytes: &[u8]) -> &[u8] {
    P::SIZE.map_or(bytes, |size| bytes.get(..size).unwrap_or_default())
}

/// As [`sized`], to change the bytes.
#[inline(always)]
fn sized_mut<P: Plain>(bytes: &mut [u8]) -> &mut [u8] {
    match P::SIZE {
        Some(size) => bytes.get_mut(..size).unwrap_or_default(),
        None => bytes,
    }
}

/// Returns whether the words have other bytes than these, at the moments at which each was loaded.
#[inline(always)]
fn differ(words: &[AtomicU64], bytes: &[u8]) -> bool {
    let (whole, rest) = bytes.as_chunks::<WORD_BYTES>();
    let differs = |all, (word, key): (&AtomicU64, &[u8; WORD_BYTES])| {
        all | word.load(Relaxed) ^ u64::from_ne_bytes(*key)
    };
    if words.iter().zip(whole).fold(0, differs) != 0 {
        return true;
    }
    let last = words.get(whole.len()).map(|word| word.load(Relaxed).to_ne_bytes());
    last.is_some_and(|last| last.iter().zip(rest).any(|(there, byte)| there != byte))
}

impl<'t, R: BucketWords<'t>, K: Plain, V: Plain> Direct<'_, R, K, V> {
    #[inline(always)]
    fn place(&self, nth: u32) -> Place {
        self.context.layout.candidate(self.hash, nth)
    }

    /// Divides the words of a bucket after the control word into those of the key and of the value.
    #[inline(always)]
    fn split(&self, body: &'t [AtomicU64]) -> Option<(&'t [AtomicU64], &'t [AtomicU64])> {
        body.split_at_checked(sized::<K>(self.key).len().div_ceil(WORD_BYTES))
    }

    /// Looks at the present candidate. If it shows [`Seen::Key`], the value is in `room`. A look that
    /// `writes` examines also the entries of other keys.
    #[inline(always)]
    fn look(&mut self, writes: bool, room: &mut [u8]) -> Option<Looked<'t>> {
        let place = self.place(self.search.nth());
        let bucket = self.words.bucket(place)?;
        let (first, body) = bucket.split_first()?;
        let control = Control(first.load(Acquire));
        self.context.stats.looks += 1;
        let seen = match control.state() {
            State::Empty => Seen::Empty,
            State::Dropped => Seen::Dropped,
            State::Claimed if control.is_claim_for(self.hash) => Seen::ClaimedForKey,
            State::Claimed => Seen::ClaimedForOther,
            State::Full => {
                let (key, value) = self.split(body)?;
                let is_key = !differ(key, sized::<K>(self.key));
                // A get may pass what it does not understand, as in a posted operation.
                if is_key || writes {
                    let hash =
                        if is_key { self.hash } else { hash_of_words::<K>(key, self.key.len()) };
                    load_bytes(value, room);
                    match (control.has_check(check(hash, room, place)), is_key) {
                        (true, true) => Seen::Key,
                        (true, false) => Seen::Other,
                        (false, _) => Seen::Mixed,
                    }
                } else {
                    Seen::Other
                }
            }
        };
        self.context.stats.failed_checks += u64::from(seen == Seen::Mixed);
        Some(Looked { bucket, control, seen })
    }

    #[inline(always)]
    fn get(&mut self, room: &mut [u8]) -> Option<Outcome<()>> {
        let room = sized_mut::<V>(room);
        self.get_quickly(room).or_else(|| self.get_carefully(room))
    }

    /// Decides a get while the candidates show entries of other keys only, and then one of the key or
    /// an empty bucket: no search has to be remembered.
    #[inline(always)]
    fn get_quickly(&mut self, room: &mut [u8]) -> Option<Outcome<()>> {
        for nth in 0..self.context.layout.candidates {
            let look = Look::new(self.words, &self.context.layout, 0, self.hash, nth);
            match glance(&look, self.context, sized::<K>(self.key), || Some(&mut *room)) {
                Glance::Hit => return Some(Outcome::Hit(())),
                Glance::Other => {}
                Glance::Empty => {
                    self.context.stats.looks += u64::from(nth) + 1;
                    self.context.stats.misses += 1;
                    return Some(Outcome::Miss);
                }
                Glance::Unclear => return None,
            }
        }
        None
    }

    #[cold]
    fn get_carefully(&mut self, room: &mut [u8]) -> Option<Outcome<()>> {
        // Retries bound the loop.
        loop {
            let Looked { control, seen, .. } = self.look(false, room)?;
            if seen == Seen::Key {
                self.context.stats.hits += 1;
                return Some(Outcome::Hit(()));
            }
            match self.search.see(control, seen, self.context.goal(self.hash, false)) {
                next @ (Next::Look(0) | Next::LookAgain) => self.pause(next),
                Next::Look(_) => {}
                // A get cleans nothing.
                next => {
                    self.context.stats.misses += 1;
                    self.context.stats.busy += u64::from(next == Next::Busy);
                    return Some(Outcome::Miss);
                }
            }
        }
    }

    /// Writes a value, or removes the key. A key with a value that is not `over` stays as it is.
    #[inline(never)]
    fn write(&mut self, value: Option<&[u8]>, over: Over, room: &mut [u8]) -> Option<Outcome<()>> {
        let room = sized_mut::<V>(room);
        let mut next = Next::Look(0);
        // Retries bound the loop.
        let written = loop {
            let looked = match next {
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
                Next::LookAgain | Next::Look(_) => {
                    self.pause(next);
                    self.look(true, room)?
                }
            };
            let writes = value.is_some() && !matches!(over, Over::Same(_));
            let (control, seen) = (looked.control, looked.seen);
            next = self.search.see(control, seen, self.context.goal(self.hash, writes));
            if next == Next::Clean {
                next = self.clean(looked.bucket, control)?;
            }
            if next == Next::Key {
                if !over.replaces(room) {
                    break Written::Present;
                }
                match self.replace(looked.bucket, control, value)? {
                    Ok(written) => break written,
                    Err(further) => next = further,
                }
            }
        };
        self.context.stats.count(written, value.is_none());
        Some(Outcome::Written(written))
    }

    /// Marks the present candidate, whose entry is destroyed, as dropped.
    #[cold]
    fn clean(&mut self, bucket: &[AtomicU64], seen: Control) -> Option<Next> {
        let dropped = self.context.mode.dropped(seen);
        if !self.swap(bucket.first()?, seen, dropped) {
            return Some(self.search.again());
        }
        self.context.stats.lost_entries += 1;
        Some(self.search.see(dropped, Seen::Dropped, self.context.goal(self.hash, true)))
    }

    /// Gives another client time after a retry. A first look waits for nothing.
    fn pause(&self, _next: Next) {
        let retries = self.search.retries();
        if retries > 0 {
            (0..1_u32 << retries.min(8)).for_each(|_| spin_loop());
        }
    }

    /// Replaces the value of the key's bucket, or removes the key. Returns how the search goes on if
    /// another client was faster.
    fn replace(
        &mut self,
        bucket: &[AtomicU64],
        seen: Control,
        value: Option<&[u8]>,
    ) -> Option<Result<Written, Next>> {
        let (nth, kind) = (self.search.nth(), Kind::Key);
        let Some(value) = value else {
            if self.swap(bucket.first()?, seen, self.context.mode.dropped(seen)) {
                return Some(Ok(Written::Removed));
            }
            self.context.stats.lost_claims += 1;
            return Some(Err(self.search.restart()));
        };
        self.store(Target { nth, seen, kind }, Some(value))
    }

    /// Claims a bucket and stores the entry in it. Returns how the search goes on if another client
    /// was faster, or may have written the same key.
    fn store(&mut self, target: Target, value: Option<&[u8]>) -> Option<Result<Written, Next>> {
        let value = sized::<V>(value?);
        let place = self.place(target.nth);
        let (control, body) = self.words.bucket(place)?.split_first()?;
        let ticket = self.context.ticket(self.hash);
        if !self.swap(control, target.seen, ticket) {
            self.context.stats.lost_claims += 1;
            return Some(Err(match target.kind {
                Kind::Empty => self.search.again(),
                _ => self.search.restart(),
            }));
        }
        if target.needs_comparison() && self.has_conflict(target)? {
            // Not undone: meanwhile clients have passed the bucket as one without their key.
            let is_released = self.swap(control, ticket, self.context.mode.dropped(ticket));
            self.context.stats.given_up += 1;
            self.context.stats.stolen_claims += u64::from(!is_released);
            self.context.stats.lost_entries += u64::from(target.kind == Kind::Oldest);
            // Not only the present candidate has changed.
            return Some(Err(self.search.restart()));
        }
        let (key, rest) = self.split(body)?;
        store_bytes(sized::<K>(self.key), key);
        store_bytes(value, rest);
        let full = Control::full(self.context.clock.age(), check(self.hash, value, place));
        let published = control.compare_exchange(ticket.0, full.0, Release, Relaxed);
        if let Err(now) = published {
            self.context.follow_writer(ticket, Control(now));
            self.context.stats.stolen_claims += 1;
            let had_entry = matches!(target.kind, Kind::Key | Kind::Oldest);
            self.context.stats.lost_entries += u64::from(had_entry);
            return Some(Ok(Written::Dropped));
        }
        self.context.clock.count();
        self.context.last_put = Some((place, target.nth));
        Some(Ok(match target.kind {
            Kind::Key => Written::Updated,
            Kind::Oldest => Written::Evicted,
            Kind::Empty | Kind::Unused => Written::Inserted,
        }))
    }

    /// Replaces a control word that this operation has seen.
    fn swap(&mut self, word: &AtomicU64, seen: Control, desired: Control) -> bool {
        let swapped = word.compare_exchange(seen.0, desired.0, SeqCst, Relaxed);
        if let Err(now) = swapped {
            self.context.follow_writer(seen, Control(now));
        }
        swapped.is_ok()
    }

    /// Returns whether another candidate may have an entry or a claim of the same key.
    fn has_conflict(&self, target: Target) -> Option<bool> {
        let claimed = self.place(target.nth);
        for nth in 0..self.search.compared(self.context.goal(self.hash, true)) {
            let place = self.place(nth);
            let now = Control(self.words.bucket(place)?.first()?.load(SeqCst));
            // In a small map two candidates may be the same bucket.
            if place != claimed && self.search.is_conflict(nth, now, self.hash) {
                return Some(true);
            }
        }
        Some(false)
    }
}

/// Returns the hash of the key of this many bytes that the words show.
#[inline(always)]
fn hash_of_words<K: Plain>(words: &[AtomicU64], bytes: usize) -> u64 {
    let mut key = K::zeroed(bytes);
    load_bytes(words, key.bytes_mut());
    hash(&key)
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
