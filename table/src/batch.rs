//! Batches: many operations in one call.
//!
//! The CPU examines the lines that it can address, several at a time so that their cache misses
//! overlap. The pipeline runs the other operations, so that their roundtrips overlap.

use core::mem::replace;
use core::sync::atomic::AtomicU64;

use probeline_pipeline::Pull;
use probeline_transport::{Segment, Transport};

use crate::bucket::Bucket;
use crate::cache::CacheEntry;
use crate::context::Context;
use crate::direct::{Direct, Look, line_at, look};
use crate::error::{OperationError, SubmitError};
use crate::find_or_put::FindOrPut;
use crate::layout::{LINE_BUCKETS, Layout, Position, Probing};
use crate::line::{Line, prefetch};
use crate::outcome::{Intent, Outcome};
use crate::walk::Walk;

type Results = [Result<Outcome, OperationError>];
type Pulling<'b, T, C> = probeline_pipeline::Batch<'b, T, Context<C>, FindOrPut>;

/// Lines prefetched ahead of the one examined, as many as the cache misses that a core has
/// outstanding (`firmware-notes/prefetch-depth.md`).
const AHEAD: usize = 16;
/// Keys hashed at once.
const CHUNK: usize = 32;
/// Keys hashed and not examined: a chunk, and the lines prefetched ahead of it. A power of two.
const RING: usize = 64;
/// Keys followed at once beyond their home lines.
const WALKERS: usize = 32;
/// Keys in a block. The transport is polled after each block, because only a poll detects lost
/// owners.
const BLOCK: usize = 4096;
/// Operations left to the pipeline that end a block early: enough to amortize a doorbell.
const REMOTE: usize = 64;

/// A batch in progress.
pub(crate) struct Batch<'b> {
    keys: &'b [u64],
    intent: Intent,
    /// The first key of the block, and the first key not started.
    block: usize,
    next: usize,
    /// Keys of the block whose lines the CPU cannot address, left to the pipeline. It has room for
    /// all keys that the CPU has started when `REMOTE` is checked, and for a further chunk.
    remote: Keys<{ REMOTE + 2 * RING + WALKERS }>,
    /// Whether to poll the transport before the next block.
    poll: bool,
}

/// Indices of keys in their block.
struct Keys<const N: usize> {
    keys: [u16; N],
    count: usize,
}

impl<const N: usize> Keys<N> {
    const EMPTY: Self = Self { keys: [0; N], count: 0 };

    #[inline]
    fn push(&mut self, key: usize) {
        match self.keys.get_mut(self.count) {
            // Less than a block.
            #[allow(clippy::cast_possible_truncation)]
            Some(place) => {
                *place = key as u16;
                self.count += 1;
            }
            None => debug_assert!(false, "no room for another key"),
        }
    }

    #[inline]
    fn pop(&mut self) -> Option<usize> {
        self.count = self.count.checked_sub(1)?;
        self.keys.get(self.count).map(|key| usize::from(*key))
    }
}

impl<'b> Batch<'b> {
    pub(crate) fn new(keys: &'b [u64], intent: Intent) -> Self {
        Self { keys, intent, block: 0, next: 0, remote: Keys::EMPTY, poll: false }
    }

    /// Writes the next operation for the pipeline to `into`.
    #[inline]
    pub(crate) fn pull<T: Transport, C: AsMut<[CacheEntry]>>(
        &mut self,
        at: &mut Pulling<'_, T, C>,
        into: &mut FindOrPut,
    ) -> Pull {
        if at.shared.direct != Direct::Claims {
            return self.pull_any(at, into);
        }
        loop {
            if let Some(key) = self.remote.pop() {
                let place = self.block + key;
                if let Some(bucket) = self.bucket(place, at.results) {
                    *into = FindOrPut::new(bucket, self.intent, at.shared);
                    return Pull::Start(place);
                }
            } else if replace(&mut self.poll, false) {
                return Pull::Poll;
            } else if at.is_dead {
                return self.pull_any(at, into);
            } else if self.next >= self.keys.len() {
                return Pull::End;
            } else {
                self.run_block(at);
                self.poll = true;
            }
        }
    }

    /// Writes the operation of the next key, whether or not the CPU can address its line.
    #[inline]
    fn pull_any<T, C: AsMut<[CacheEntry]>>(
        &mut self,
        at: &mut Pulling<'_, T, C>,
        into: &mut FindOrPut,
    ) -> Pull {
        while self.next < self.keys.len() {
            let place = self.next;
            self.next += 1;
            if let Some(bucket) = self.bucket(place, at.results) {
                *into = FindOrPut::new(bucket, self.intent, at.shared);
                return Pull::Start(place);
            }
        }
        Pull::End
    }

    /// Returns the bucket of the key at `place`, or stores the error of a key beyond 63 bits.
    #[inline(always)]
    fn bucket(&self, place: usize, results: &mut Results) -> Option<Bucket> {
        match Bucket::new(*self.keys.get(place)?) {
            Ok(bucket) => Some(bucket),
            Err(refused) => {
                put(results, place, Err(SubmitError::Key(refused).into()));
                None
            }
        }
    }

    /// Runs the next block of keys, as far as the CPU can address their lines.
    fn run_block<T: Transport, C: AsMut<[CacheEntry]>>(&mut self, at: &mut Pulling<'_, T, C>) {
        let parts = Parts::new(at.transport, at.shared.layout);
        self.block = self.next;
        let end = self.keys.len().min(self.next + BLOCK);
        let mut walkers = Walkers::EMPTY;
        if at.shared.cache.is_on() {
            self.follow_cache(end, &mut walkers, &parts, at);
        } else {
            // Constants of a block are generic parameters of the loop that runs it.
            match (at.shared.layout.probing() == Probing::Linear, self.intent == Intent::Find) {
                (true, true) => self.look_home::<true, true, T, C>(end, &mut walkers, &parts, at),
                (true, false) => self.look_home::<true, false, T, C>(end, &mut walkers, &parts, at),
                (false, true) => self.look_home::<false, true, T, C>(end, &mut walkers, &parts, at),
                (false, false) => {
                    self.look_home::<false, false, T, C>(end, &mut walkers, &parts, at)
                }
            }
        }
        while walkers.count > 0 {
            self.walk(&mut walkers, &parts, at);
        }
    }

    /// Looks at the home line of each key up to `end`, and follows those that it does not decide.
    #[inline(never)]
    fn look_home<'t, const LINEAR: bool, const FIND: bool, T: Transport, C: AsMut<[CacheEntry]>>(
        &mut self,
        mut end: usize,
        walkers: &mut Walkers<'t>,
        parts: &Parts<'t, T>,
        at: &mut Pulling<'_, T, C>,
    ) {
        let intent = if FIND { Intent::Find } else { Intent::FindOrPut };
        let mut homes = Homes::EMPTY;
        let [mut decided, mut found] = [0; 2];
        let mut looked = self.block;
        while looked < end {
            let hashed = end.min(self.next + CHUNK);
            self.hash(hashed, &mut homes, parts, at);
            if self.remote.count >= REMOTE {
                end = hashed;
            }
            if looked == self.block {
                (looked..looked + AHEAD).for_each(|place| prefetch(homes.lines[place % RING]));
            }
            // The last lines of a chunk wait for the next one, which prefetches lines meanwhile.
            let until = if hashed == end { end } else { hashed - AHEAD };
            for place in looked..until {
                // At the end of the block this is an old line, which does no harm.
                prefetch(homes.lines[(place + AHEAD) % RING]);
                let nth = place % RING;
                let (bucket, first) = (homes.buckets[nth], u32::from(homes.firsts[nth]));
                if first == LINE_BUCKETS {
                    continue;
                }
                // Linear probing ends at the end of the line, the other orders wrap around in it.
                // No probe limit is less than a line.
                let places = if LINEAR { u8::MAX >> (first % 8) } else { u8::MAX };
                match look(homes.lines[nth], bucket, intent, first, places) {
                    Some((_, outcome)) => {
                        decided += 1;
                        found += u64::from(outcome == Outcome::Found);
                        put(at.results, place, Ok(outcome));
                    }
                    None => {
                        self.pass_home(place, bucket, walkers, parts, at);
                    }
                }
            }
            looked = until;
        }
        at.shared.stats.add_direct(Outcome::Found, found, found);
        let other = if intent == Intent::Find { Outcome::Absent } else { Outcome::Inserted };
        at.shared.stats.add_direct(other, decided - found, decided - found);
    }

    /// Hashes the next keys, up to `end`. A separate loop leaves more of the core's out-of-order
    /// window to the loop that waits for the lines.
    #[inline(always)]
    fn hash<'t, T: Transport, C: AsMut<[CacheEntry]>>(
        &mut self,
        end: usize,
        homes: &mut Homes<'t>,
        parts: &Parts<'t, T>,
        at: &mut Pulling<'_, T, C>,
    ) {
        for place in self.next..end {
            let mut first = LINE_BUCKETS;
            if let Some(bucket) = self.bucket(place, at.results) {
                let home = at.shared.layout.home(bucket);
                if let Some(line) = parts.line(home) {
                    homes.buckets[place % RING] = bucket;
                    homes.lines[place % RING] = line;
                    first = at.shared.layout.offset_in_line(home);
                } else {
                    self.remote.push(place - self.block);
                }
            }
            // At most 8.
            #[allow(clippy::cast_possible_truncation)]
            let first = first as u8;
            homes.firsts[place % RING] = first;
        }
        self.next = end;
    }

    /// Follows the keys up to `end` from what the cache knows of their probe orders.
    fn follow_cache<'t, T: Transport, C: AsMut<[CacheEntry]>>(
        &mut self,
        end: usize,
        walkers: &mut Walkers<'t>,
        parts: &Parts<'t, T>,
        at: &mut Pulling<'_, T, C>,
    ) {
        while self.next < end && self.remote.count < REMOTE {
            let place = self.next;
            self.next += 1;
            let Some(bucket) = self.bucket(place, at.results) else { continue };
            let mut walk = at.shared.walk(bucket, self.intent);
            if at.shared.follow_cache(&mut walk) {
                put(at.results, place, Ok(Outcome::Found));
            } else {
                self.start_walker(place, walk, walkers, parts, at);
            }
        }
    }

    /// Adds a key to `walkers` whose home line holds other keys.
    // Not inlined, to leave the registers to the loop over home lines.
    #[inline(never)]
    fn pass_home<'t, T: Transport, C: AsMut<[CacheEntry]>>(
        &mut self,
        place: usize,
        bucket: Bucket,
        walkers: &mut Walkers<'t>,
        parts: &Parts<'t, T>,
        at: &mut Pulling<'_, T, C>,
    ) {
        let mut walk = at.shared.walk(bucket, self.intent);
        walk.pass_seen_line(&at.shared.layout);
        self.start_walker(place, walk, walkers, parts, at);
    }

    /// Adds a key to `walkers`, and prefetches its next line.
    #[inline]
    fn start_walker<'t, T: Transport, C: AsMut<[CacheEntry]>>(
        &mut self,
        place: usize,
        walk: Walk,
        walkers: &mut Walkers<'t>,
        parts: &Parts<'t, T>,
        at: &mut Pulling<'_, T, C>,
    ) {
        let Some(line) = parts.line(walk.probe.at) else {
            return self.remote.push(place - self.block);
        };
        prefetch(line);
        // Each call passes at least one line within the probe limit of each key.
        while walkers.count == WALKERS {
            self.walk(walkers, parts, at);
        }
        walkers.push(Walker { place, line, walk });
    }

    /// Looks at the next line of each of `walkers`.
    #[inline(never)]
    fn walk<'t, T: Transport, C: AsMut<[CacheEntry]>>(
        &mut self,
        walkers: &mut Walkers<'t>,
        parts: &Parts<'t, T>,
        at: &mut Pulling<'_, T, C>,
    ) {
        let mut nth = 0;
        while nth < walkers.count
            && let Some(walker) = walkers.list.get_mut(nth)
        {
            match at.shared.look(&mut walker.walk, walker.line) {
                Look::Done(outcome) => put(at.results, walker.place, Ok(outcome)),
                Look::Passed => {
                    if let Some(line) = parts.line(walker.walk.probe.at) {
                        prefetch(line);
                        walker.line = line;
                        nth += 1;
                        continue;
                    }
                    self.remote.push(walker.place - self.block);
                }
            }
            walkers.remove(nth);
        }
    }
}

#[inline(always)]
fn put(results: &mut Results, place: usize, result: Result<Outcome, OperationError>) {
    match results.get_mut(place) {
        Some(place) => *place = result,
        None => debug_assert!(false, "the batch has no place {place}"),
    }
}

/// Keys that were hashed and whose home lines were not examined, as one array per field; a key is
/// at its place modulo `RING`.
struct Homes<'t> {
    buckets: [Bucket; RING],
    lines: [&'t Line; RING],
    /// The home bucket's offset in its line; `LINE_BUCKETS` if the key has no line here.
    firsts: [u8; RING],
}

impl Homes<'_> {
    const EMPTY: Self =
        Self { buckets: [Bucket::ANY; RING], lines: [&NO_LINE; RING], firsts: [0; RING] };
}

/// A key that is followed beyond its home line, and its next line, which was prefetched.
#[derive(Clone, Copy)]
struct Walker<'t> {
    place: usize,
    line: &'t Line,
    walk: Walk,
}

struct Walkers<'t> {
    list: [Walker<'t>; WALKERS],
    count: usize,
}

impl<'t> Walkers<'t> {
    const EMPTY: Self =
        Self { list: [Walker { place: 0, line: &NO_LINE, walk: Walk::IDLE }; WALKERS], count: 0 };

    #[inline]
    fn push(&mut self, walker: Walker<'t>) {
        match self.list.get_mut(self.count) {
            Some(free) => {
                *free = walker;
                self.count += 1;
            }
            None => debug_assert!(false, "no room for another walker"),
        }
    }

    /// Replaces a walker by the last one.
    #[inline]
    fn remove(&mut self, nth: usize) {
        self.count = self.count.saturating_sub(1);
        if let Some(last) = self.list.get(self.count).copied()
            && let Some(place) = self.list.get_mut(nth)
        {
            *place = last;
        }
    }
}

/// Fills places that hold no line.
static NO_LINE: Line = [const { AtomicU64::new(0) }; LINE_BUCKETS as usize];

/// Owners whose parts are looked up once per block instead of once per line: enough for the ranks
/// of most machines.
const PARTS: usize = 8;

/// The lines of the owners' parts, as far as the CPU can address them.
struct Parts<'t, T> {
    transport: &'t T,
    layout: Layout,
    /// One slice for each of the first owners; empty if the CPU cannot address the part as a whole.
    lines: [&'t [Line]; PARTS],
}

impl<'t, T: Transport> Parts<'t, T> {
    fn new(transport: &'t T, layout: Layout) -> Self {
        let mut parts: [&[Line]; PARTS] = [&[]; PARTS];
        for (owner, part) in (0..layout.owners()).zip(&mut parts) {
            let words = u32::try_from(layout.buckets_per_owner());
            let start = layout.word(Position { owner, index: 0 });
            let words = words.ok().and_then(|words| transport.direct(Segment { start, words }));
            *part = words.unwrap_or_default().as_chunks().0;
        }
        Self { transport, layout, lines: parts }
    }

    /// Returns the line of the bucket at `at`; `None` if the CPU cannot address it.
    #[inline(always)]
    fn line(&self, at: Position) -> Option<&'t Line> {
        // A part is mapped into this process, so its indices fit a usize.
        #[allow(clippy::cast_possible_truncation)]
        let nth = (at.index / u64::from(LINE_BUCKETS)) as usize;
        match self.lines.get(at.owner as usize).and_then(|part| part.get(nth)) {
            None => line_at(self.transport, &self.layout, at),
            line => line,
        }
    }
}
