//! Batches: many operations in one call.
//!
//! The CPU looks at the lines that it can address, several at a time so that their cache misses
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
use crate::find_or_put::{FindOrPut, Intent, Outcome};
use crate::layout::Position;
use crate::line::{Line, prefetch};
use crate::probe::{LINE_BUCKETS, Probing};
use crate::walk::Walk;

type Results = [Result<Outcome, OperationError>];
type Pulling<'b, T, C> = probeline_pipeline::Batch<'b, T, Context<C>, FindOrPut>;

/// Lines prefetched ahead of the one looked at. This is more than the cache misses that a core has
/// outstanding (`firmware-notes/prefetch-depth.md`), so that each line has arrived when it is
/// looked at.
const AHEAD: usize = 32;
/// Keys in a block. The transport is polled after each block, because only a poll detects lost
/// owners. No line is prefetched at the end of a block, which costs less than 1 % of it.
const BLOCK: usize = 4096;
/// Operations left to the pipeline that end a block early: enough to amortize a doorbell.
const REMOTE: usize = 64;

/// A batch in progress.
pub(crate) struct Batch<'b> {
    data: &'b [u64],
    intent: Intent,
    /// The first key not started.
    next: usize,
    /// Indices of the keys whose lines the CPU cannot address, left to the pipeline.
    remote: [usize; REMOTE + AHEAD],
    remote_count: usize,
    /// Whether to poll the transport before the next block.
    poll: bool,
}

impl<'b> Batch<'b> {
    pub(crate) fn new(data: &'b [u64], intent: Intent) -> Self {
        Self { data, intent, next: 0, remote: [0; REMOTE + AHEAD], remote_count: 0, poll: false }
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
            if let Some(count) = self.remote_count.checked_sub(1) {
                self.remote_count = count;
                let place = self.remote.get(count).copied().unwrap_or_default();
                if let Some(bucket) = self.bucket(place, at.results) {
                    into.reset(bucket, self.intent, at.shared);
                    return Pull::Start(place);
                }
            } else if replace(&mut self.poll, false) {
                return Pull::Poll;
            } else if at.is_dead {
                return self.pull_any(at, into);
            } else if self.next >= self.data.len() {
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
        while self.next < self.data.len() {
            let place = self.next;
            self.next += 1;
            if let Some(bucket) = self.bucket(place, at.results) {
                into.reset(bucket, self.intent, at.shared);
                return Pull::Start(place);
            }
        }
        Pull::End
    }

    /// Returns the bucket of the key at `place`, or stores the error of a key beyond 63 bits.
    #[inline(always)]
    fn bucket(&self, place: usize, results: &mut Results) -> Option<Bucket> {
        match Bucket::new(*self.data.get(place)?) {
            Ok(bucket) => Some(bucket),
            Err(refused) => {
                put(results, place, Err(SubmitError::Data(refused).into()));
                None
            }
        }
    }

    /// Runs the next block of keys, as far as the CPU can address their lines.
    fn run_block<T: Transport, C: AsMut<[CacheEntry]>>(&mut self, at: &mut Pulling<'_, T, C>) {
        // Constants of a block are generic parameters of the loop that runs it.
        match (at.shared.layout.probing(), self.intent) {
            (Probing::Linear, Intent::Find) => self.run_ring::<true, true, T, C>(at),
            (Probing::Linear, Intent::FindOrPut) => self.run_ring::<true, false, T, C>(at),
            (_, Intent::Find) => self.run_ring::<false, true, T, C>(at),
            (_, Intent::FindOrPut) => self.run_ring::<false, false, T, C>(at),
        }
    }

    /// Looks at the prefetched lines in order. Each place of the ring holds one operation until it
    /// completes; the next key then takes the place.
    fn run_ring<const LINEAR: bool, const FIND: bool, T: Transport, C: AsMut<[CacheEntry]>>(
        &mut self,
        at: &mut Pulling<'_, T, C>,
    ) {
        let intent = if FIND { Intent::Find } else { Intent::FindOrPut };
        let parts = Parts::new(at.transport, at.shared);
        let mut end = self.data.len().min(self.next + BLOCK);
        let mut ring = Ring::EMPTY;
        let [mut found, mut inserted, mut absent] = [0; 3];
        let (mut turn, mut running) = (0, 0);
        while running > 0 || self.next < end {
            let nth = turn % AHEAD;
            turn += 1;
            if let Some(line) = ring.lines[nth] {
                let (bucket, place) = (ring.buckets[nth], ring.places[nth]);
                let first = ring.firsts[nth];
                let ended = if first < LINE_BUCKETS {
                    let buckets = if LINEAR { LINE_BUCKETS - first } else { LINE_BUCKETS };
                    // No probe limit is less than a line.
                    look(line, bucket, intent, first, 0..buckets).map(|(_, outcome)| outcome)
                } else {
                    None
                };
                if let Some(outcome) = ended {
                    match outcome {
                        Outcome::Found => found += 1,
                        Outcome::Inserted => inserted += 1,
                        Outcome::Absent | Outcome::Full => absent += 1,
                    }
                    put(at.results, place, Ok(outcome));
                } else {
                    let next = if first < LINE_BUCKETS {
                        let mut walk = at.shared.walk(bucket, intent);
                        walk.pass_seen_line(&at.shared.layout);
                        ring.firsts[nth] = LINE_BUCKETS;
                        ring.walks[nth] = walk;
                        None
                    } else {
                        match at.shared.look(&mut ring.walks[nth], line) {
                            Look::Done(outcome) => Some(outcome),
                            Look::Passed => None,
                        }
                    };
                    if let Some(outcome) = next {
                        put(at.results, place, Ok(outcome));
                    } else {
                        ring.lines[nth] = parts.line(ring.walks[nth].probe.at);
                        if ring.lines[nth].is_some() {
                            continue;
                        }
                        self.leave(place);
                    }
                }
                running -= 1;
            }
            ring.lines[nth] = None;
            if self.remote_count >= REMOTE {
                end = self.next;
            }
            while self.next < end {
                let place = self.next;
                self.next += 1;
                let Some(bucket) = self.bucket(place, at.results) else { continue };
                ring.places[nth] = place;
                ring.buckets[nth] = bucket;
                let home;
                if at.shared.cache.is_on() {
                    let mut walk = at.shared.walk(bucket, intent);
                    if at.shared.follow_cache(&mut walk) {
                        put(at.results, place, Ok(Outcome::Found));
                        continue;
                    }
                    home = walk.probe.at;
                    ring.firsts[nth] = LINE_BUCKETS;
                    ring.walks[nth] = walk;
                } else {
                    home = at.shared.layout.home(bucket);
                    ring.firsts[nth] = at.shared.layout.offset_in_line(home);
                }
                ring.lines[nth] = parts.line(home);
                if ring.lines[nth].is_none() {
                    self.leave(place);
                    if self.remote_count >= REMOTE {
                        end = self.next;
                    }
                    continue;
                }
                running += 1;
                break;
            }
        }
        at.shared.stats.count_home(Outcome::Found, found);
        at.shared.stats.count_home(Outcome::Inserted, inserted);
        at.shared.stats.count_home(Outcome::Absent, absent);
    }

    /// Leaves the key at `place` to the pipeline. `remote` has room for a full ring.
    #[cold]
    fn leave(&mut self, place: usize) {
        match self.remote.get_mut(self.remote_count) {
            Some(remote) => {
                *remote = place;
                self.remote_count += 1;
            }
            None => debug_assert!(false, "more operations leave the CPU's reach than the ring has"),
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

/// Operations whose lines were prefetched, as one array per field. Storing an operation as one
/// value would go through memory: halves are stored and the whole is loaded, which stalls a core
/// until all earlier stores are done.
struct Ring<'t> {
    places: [usize; AHEAD],
    buckets: [Bucket; AHEAD],
    lines: [Option<&'t Line>; AHEAD],
    /// The home bucket's offset in its line; `LINE_BUCKETS` if the operation continues from
    /// `walks`.
    firsts: [u32; AHEAD],
    walks: [Walk; AHEAD],
}

impl Ring<'_> {
    const EMPTY: Self = Self {
        places: [0; AHEAD],
        buckets: [Bucket::ANY; AHEAD],
        lines: [None; AHEAD],
        firsts: [0; AHEAD],
        walks: [Walk::IDLE; AHEAD],
    };
}

/// Owners whose parts are looked up once per block instead of once per line: enough for the ranks
/// of most machines.
const PARTS: usize = 8;

/// The words of the owners' parts, as far as the CPU can address them.
struct Parts<'t, T> {
    transport: &'t T,
    layout: crate::layout::Layout,
    /// One slice for each of the first owners; empty if the CPU cannot address the part as a whole.
    words: [&'t [AtomicU64]; PARTS],
}

impl<'t, T: Transport> Parts<'t, T> {
    fn new<C>(transport: &'t T, context: &Context<C>) -> Self {
        let layout = context.layout;
        let mut parts: [&[AtomicU64]; PARTS] = [&[]; PARTS];
        for (owner, part) in (0..layout.owners()).zip(&mut parts) {
            let words = u32::try_from(layout.buckets_per_owner());
            let start = layout.word(Position { owner, index: 0 });
            let words = words.ok().and_then(|words| transport.direct(Segment { start, words }));
            *part = words.unwrap_or_default();
        }
        Self { transport, layout, words: parts }
    }

    /// Returns the line of the bucket at `at` and prefetches it; `None` if the CPU cannot address
    /// it.
    #[inline(always)]
    fn line(&self, at: Position) -> Option<&'t Line> {
        let start = at.index & !u64::from(LINE_BUCKETS - 1);
        // A part is mapped into this process, so its indices fit a usize.
        #[allow(clippy::cast_possible_truncation)]
        let part = self.words.get(at.owner as usize).and_then(|part| part.get(start as usize..));
        let Some(line) = part.and_then(<[_]>::first_chunk) else {
            return line_at(self.transport, &self.layout, at);
        };
        prefetch(line);
        Some(line)
    }
}
