//! A block of a batch: the operations whose lines the CPU can address.
//!
//! One loop examines the home lines of all keys in turn. The operations that their home lines do
//! not decide go to a list, with their next lines requested at once, and are followed in rounds.

use core::sync::atomic::AtomicU64;

use arrayvec::ArrayVec;
use probeline_transport::{Segment, Transport};

use crate::batch::{BatchResult, Keys};
use crate::bucket::Bucket;
use crate::direct::look;
use crate::layout::{LINE_BUCKETS, Layout, Position, Probing};
use crate::line::{Compare, Line, Work, prefetch};
use crate::outcome::{Intent, Outcome};
use crate::stats::Stats;

/// Lines prefetched ahead of the one examined, as many as the cache misses that a core has
/// outstanding (`firmware-notes/prefetch-depth.md`).
const AHEAD: usize = 16;
/// Keys hashed at once. A separate loop leaves more of the core's out-of-order window to the loop
/// that waits for the lines; a long one leaves memory idle. On a fourth-generation Xeon, 2 GiB: 55
/// million finds a second with 8 keys, 47 with 1, 49 with 64.
const HASHED_AT_ONCE: usize = 8;
/// Keys hashed and not examined: a group, and the lines prefetched ahead of it. A power of two.
const RING: usize = 32;
/// Home lines examined at most between two rounds.
const MOST_EXAMINED: usize = HASHED_AT_ONCE + AHEAD;
/// Keys followed at once beyond their home lines: at least `MOST_EXAMINED`, and as many again to
/// fill a round.
const WALKERS: usize = 2 * MOST_EXAMINED;
/// Maximum keys left to the pipeline beyond `REMOTE`: those that were hashed already or are
/// followed.
pub(crate) const OVERRUN: usize = 2 * RING + WALKERS;

/// The keys of a block, and everything to run them with.
pub(crate) struct Block<'b, 't, R> {
    pub(crate) keys: &'b [u64],
    /// As many as `keys`.
    pub(crate) results: &'b mut [R],
    pub(crate) intent: Intent,
    pub(crate) probe_limit: u64,
    pub(crate) layout: Layout,
    pub(crate) lines: &'b Lines<'t>,
    /// Receives the keys whose lines the CPU cannot address, and those beyond 63 bits.
    pub(crate) remote: &'b mut Keys,
    pub(crate) stats: &'b mut Stats,
}

impl<R: BatchResult> Work for Block<'_, '_, R> {
    /// The number of keys started: fewer than all if `REMOTE` keys were left to the pipeline.
    type Output = usize;

    /// Runs the block. What is the same for all of its keys is a constant of the loop.
    #[inline(always)]
    fn run<C: Compare>(mut self) -> usize {
        match (self.layout.probing(), self.intent) {
            (Probing::Linear, Intent::Find) => self.examine::<C, true, true>(),
            (Probing::Linear, Intent::FindOrPut) => self.examine::<C, true, false>(),
            (_, Intent::Find) => self.examine::<C, false, true>(),
            (_, Intent::FindOrPut) => self.examine::<C, false, false>(),
        }
    }
}

impl<'t, R: BatchResult> Block<'_, 't, R> {
    /// Examines the home line of each key, and follows the keys that it does not decide.
    #[inline(always)]
    fn examine<C: Compare, const LINEAR: bool, const FIND: bool>(&mut self) -> usize {
        let intent = if FIND { Intent::Find } else { Intent::FindOrPut };
        let mut homes = Homes::EMPTY;
        let mut walkers = Walkers::new();
        let [mut decided, mut found] = [0; 2];
        let (mut examined, mut hashed, mut end) = (0, 0, self.keys.len());
        while examined < end {
            let until = end.min(hashed + HASHED_AT_ONCE);
            self.hash(hashed..until, &mut homes);
            hashed = until;
            if self.remote.is_enough() {
                end = hashed;
            }
            // The last lines wait for the next groups, whose lines are prefetched meanwhile.
            let until = if hashed == end { end } else { hashed.saturating_sub(AHEAD) };
            for place in examined..until {
                let nth = place % RING;
                let (bucket, first) = (homes.buckets[nth], u32::from(homes.firsts[nth]));
                if first == LINE_BUCKETS {
                    continue;
                }
                // Linear probing ends at the end of the line, the other orders wrap around in it.
                // No probe limit is less than a line.
                let mask = if LINEAR { u8::MAX << (first % LINE_BUCKETS) } else { u8::MAX };
                match look::<C>(homes.lines[nth], bucket, intent, first, mask) {
                    Some(outcome) => {
                        decided += 1;
                        found += u64::from(outcome == Outcome::Found);
                        self.put(place, outcome);
                    }
                    None => self.pass_home(place, bucket, homes.lines[nth], &mut walkers),
                }
            }
            examined = until;
            // Each round passes at least one line within the probe limit of each key.
            let most = if examined < end { WALKERS - MOST_EXAMINED } else { 0 };
            while walkers.len() > most {
                self.walk::<C, FIND>(&mut walkers);
            }
        }
        self.stats.add_direct(Outcome::Found, found, found);
        let other = if FIND { Outcome::Absent } else { Outcome::Inserted };
        self.stats.add_direct(other, decided - found, decided - found);
        end
    }

    /// Hashes keys and prefetches their home lines.
    #[inline(always)]
    fn hash(&mut self, places: core::ops::Range<usize>, homes: &mut Homes<'t>) {
        for place in places {
            let mut first = LINE_BUCKETS;
            if let Some(&key) = self.keys.get(place)
                && let Ok(bucket) = Bucket::new(key)
                && let home = self.layout.home(bucket)
                && let Some(line) = self.lines.at(home)
            {
                prefetch(line);
                homes.buckets[place % RING] = bucket;
                homes.lines[place % RING] = line;
                first = self.layout.offset_in_line(home);
            } else {
                self.remote.push(place);
            }
            // At most 8.
            #[allow(clippy::cast_possible_truncation)]
            let first = first as u8;
            homes.firsts[place % RING] = first;
        }
    }

    /// Adds a key to `walkers` whose home line holds other keys.
    // Not inlined, to leave the registers to the loop over home lines.
    #[inline(never)]
    fn pass_home(
        &mut self,
        place: usize,
        bucket: Bucket,
        home: &'t Line,
        walkers: &mut Walkers<'t>,
    ) {
        let at = self.layout.home(bucket);
        let offset = self.layout.offset_in_line(at);
        let at = Position { index: at.index - u64::from(offset), ..at };
        // Linear probing skips the buckets before the home bucket; the other orders begin each line
        // at the same offset.
        let is_linear = self.layout.probing() == Probing::Linear;
        let (skipped, first) = if is_linear { (offset, 0) } else { (0, offset) };
        let left = self.probe_limit + u64::from(skipped);
        let mut walker = Walker { bucket, line: home, home, at, left, first, place };
        if !self.pass_line(&mut walker) {
            return self.remote.push(place);
        }
        let added = walkers.try_push(walker);
        debug_assert!(added.is_ok(), "no room for another walker");
    }

    /// Advances to the next line and prefetches it. Returns false if the pipeline has to decide: at
    /// the probe limit, at a line that the CPU cannot address, or where a jump order has returned
    /// to its home and continues one line further.
    #[inline(always)]
    fn pass_line(&self, walker: &mut Walker<'t>) -> bool {
        let line = u64::from(LINE_BUCKETS);
        walker.left -= line;
        walker.at = self.layout.next_line(walker.at, walker.bucket);
        let Some(next) = self.lines.at(walker.at) else { return false };
        prefetch(next);
        walker.line = next;
        walker.left >= line && !core::ptr::eq(next, walker.home)
    }

    /// Examines the next line of each of `walkers`.
    #[inline(always)]
    fn walk<C: Compare, const FIND: bool>(&mut self, walkers: &mut Walkers<'t>) {
        let intent = if FIND { Intent::Find } else { Intent::FindOrPut };
        let [mut found, mut other] = [(0, 0); 2];
        let mut nth = 0;
        while let Some(walker) = walkers.get_mut(nth) {
            match look::<C>(walker.line, walker.bucket, intent, walker.first, u8::MAX) {
                Some(outcome) => {
                    let ended = if outcome == Outcome::Found { &mut found } else { &mut other };
                    ended.0 += 1;
                    ended.1 += (self.probe_limit - walker.left).div_ceil(LINE_BUCKETS.into()) + 1;
                    let place = walker.place;
                    self.put(place, outcome);
                }
                None if self.pass_line(walker) => {
                    nth += 1;
                    continue;
                }
                None => self.remote.push(walker.place),
            }
            remove(walkers, nth);
        }
        self.stats.add_direct(Outcome::Found, found.0, found.1);
        let outcome = if FIND { Outcome::Absent } else { Outcome::Inserted };
        self.stats.add_direct(outcome, other.0, other.1);
    }

    #[inline(always)]
    fn put(&mut self, place: usize, outcome: Outcome) {
        match self.results.get_mut(place) {
            Some(place) => *place = R::of(outcome),
            None => debug_assert!(false, "the block has no place {place}"),
        }
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

/// A key that is followed beyond its home line.
#[derive(Clone, Copy)]
struct Walker<'t> {
    bucket: Bucket,
    /// The next line, at `at`, which was prefetched.
    line: &'t Line,
    at: Position,
    /// The line at which the key began.
    home: &'t Line,
    /// Buckets left within the probe limit from the start of `line` on.
    left: u64,
    /// The bucket at which the search of each line for an empty one begins.
    first: u32,
    /// The index in the block.
    place: usize,
}

type Walkers<'t> = ArrayVec<Walker<'t>, WALKERS>;

/// Replaces a walker by the last one. `swap_remove` also copies the removed one.
#[inline(always)]
fn remove(walkers: &mut Walkers<'_>, nth: usize) {
    if let Some(last) = walkers.last().copied()
        && let Some(place) = walkers.get_mut(nth)
    {
        *place = last;
    }
    walkers.truncate(walkers.len().saturating_sub(1));
}

/// Fills places that hold no line.
static NO_LINE: Line = [const { AtomicU64::new(0) }; LINE_BUCKETS as usize];

/// Owners whose parts the CPU examines; those of further owners are left to the pipeline. Enough
/// for the ranks of most machines.
pub(crate) const PARTS: usize = 64;

/// The lines of the owners' parts that the CPU can address.
pub(crate) struct Lines<'t> {
    /// One slice for each of the first owners; empty if the CPU cannot address the part.
    parts: [&'t [Line]; PARTS],
}

impl<'t> Lines<'t> {
    pub(crate) fn new(transport: &'t impl Transport, layout: &Layout) -> Self {
        let mut parts: [&[Line]; PARTS] = [&[]; PARTS];
        for (owner, part) in (0..layout.owners()).zip(&mut parts) {
            let words = u32::try_from(layout.buckets_per_owner());
            let start = layout.word(Position { owner, index: 0 });
            let words = words.ok().and_then(|words| transport.direct(Segment { start, words }));
            *part = words.unwrap_or_default().as_chunks().0;
        }
        Self { parts }
    }

    /// Returns the line of the bucket at `at`; `None` if the CPU cannot address it.
    #[inline(always)]
    pub(crate) fn at(&self, at: Position) -> Option<&'t Line> {
        // A part is mapped into this process, so its indices fit a usize.
        #[allow(clippy::cast_possible_truncation)]
        let nth = (at.index / u64::from(LINE_BUCKETS)) as usize;
        self.parts.get(at.owner as usize)?.get(nth)
    }
}
