//! A block of a batch: the operations whose lines the CPU can address.
//!
//! One loop examines the home lines of all keys in turn. The operations that their home lines do
//! not decide go to a list, with their next lines requested at once, and are followed in rounds.
//! Wide keys whose tag a line holds go to another list, with their entries requested at once.

use core::sync::atomic::AtomicU64;

use arrayvec::ArrayVec;
use probeline_transport::line::{Compare, Line, Work};
use probeline_transport::{Segment, Transport, prefetch_far};

use crate::bucket::{Bucket, Wanted};
use crate::direct::scan;
use crate::layout::{LINE_BUCKETS, Layout, Position, Probing};
use crate::outcome::{Answer, Ended, Intent};
use crate::results::BatchResult;
use crate::stats::Stats;

/// Keys hashed at once. A separate loop leaves more of the core's out-of-order window to the loop
/// that waits for the lines; 128 gain nothing, and cost a batch of a few keys 15 ns more.
const HASHED_AT_ONCE: usize = 64;
/// Keys hashed and not examined: a group, and those whose lines are prefetched before it. A power of
/// two.
const RING: usize = 2 * HASHED_AT_ONCE;
/// Home lines examined at most between two rounds.
const MAX_EXAMINED: usize = 64;
/// Keys followed at once beyond their home lines: at least `MAX_EXAMINED`, and as many again to
/// fill a round.
const WALKERS: usize = 2 * MAX_EXAMINED;
/// Candidates whose entries are prefetched ahead of the one compared.
const CANDIDATES_AHEAD: usize = 16;
/// Room for them and for those of a group; a round that has more compares the oldest at once. A
/// power of two.
pub(crate) const MAX_CANDIDATES: usize = 64;
/// Undecided keys that end a block early: enough operations of the pipeline to amortize a doorbell.
const REMOTE: usize = 64;
/// Maximum keys left undecided beyond `REMOTE`: those that were hashed already, are followed, or
/// are candidates.
const OVERRUN: usize = 2 * RING + WALKERS + MAX_CANDIDATES;

/// The keys of a block: what each looks for in a line.
pub(crate) trait BlockKeys {
    type Wanted: Wanted;
    /// Lines prefetched ahead of the one examined, less than `HASHED_AT_ONCE`.
    const AHEAD: usize;

    fn len(&self) -> usize;

    /// Returns what the key at `place` looks for; `None` if it is not a key of the table.
    fn wanted(&self, place: usize) -> Option<Self::Wanted>;

    /// Examines those buckets of `line` whose bits are set in `mask`, in the order from bucket
    /// `first` on, which wraps around.
    fn scan_line<C: Compare>(
        &mut self,
        key: Key<Self::Wanted>,
        line: &Line,
        first: u32,
        mask: u8,
        intent: Intent,
    ) -> Verdict;

    /// Compares the oldest candidate with its key, if there are more than `left`.
    fn check_oldest(&mut self, left: usize) -> Option<Checked>;

    fn stats(&mut self) -> &mut Stats;
}

/// A key of a block at a line.
#[derive(Clone, Copy)]
pub(crate) struct Key<B> {
    pub(crate) wanted: B,
    /// The index in the block.
    pub(crate) place: usize,
    /// Lines that the key has passed, and this one.
    pub(crate) lines: u64,
}

/// The result of looking at a line.
pub(crate) enum Verdict {
    Decided(Ended),
    /// All buckets hold other keys.
    Passed,
    /// A bucket has the tag of the key, which is now a candidate.
    Candidate,
    /// The rare case that the block leaves to its caller.
    Undecided,
}

/// A candidate whose entry was compared.
pub(crate) struct Checked {
    pub(crate) place: usize,
    pub(crate) lines: u64,
    /// Whether the entry holds the key. If not, the caller of the block decides.
    pub(crate) is_found: bool,
}

/// Keys of 63 bits, which a line decides.
pub(crate) struct NarrowKeys<'b> {
    pub(crate) keys: &'b [u64],
    pub(crate) stats: &'b mut Stats,
}

impl BlockKeys for NarrowKeys<'_> {
    type Wanted = Bucket;
    // On a fifth-generation EPYC 48 lines ahead made a third more finds a second than 16, before keys were
    // hashed apart from their prefetches; on a fourth-generation one 24 and 48 are alike, 16 up to a tenth
    // slower (`firmware-notes/prefetch-depth.md`).
    const AHEAD: usize = 48;

    #[inline(always)]
    fn len(&self) -> usize {
        self.keys.len()
    }

    #[inline(always)]
    fn wanted(&self, place: usize) -> Option<Bucket> {
        Bucket::new(*self.keys.get(place)?).ok()
    }

    #[inline(always)]
    fn scan_line<C: Compare>(
        &mut self,
        key: Key<Bucket>,
        line: &Line,
        first: u32,
        mask: u8,
        intent: Intent,
    ) -> Verdict {
        scan::<C>(line, key.wanted, intent, first, mask).map_or(Verdict::Passed, Verdict::Decided)
    }

    #[inline(always)]
    fn check_oldest(&mut self, _: usize) -> Option<Checked> {
        None
    }

    #[inline(always)]
    fn stats(&mut self) -> &mut Stats {
        self.stats
    }
}

/// The keys of a block, and everything to run them with.
pub(crate) struct Block<'b, 't, K, R> {
    pub(crate) keys: K,
    /// The results, as many as `keys`.
    pub(crate) results: &'b mut [R],
    pub(crate) probe_limit: u64,
    pub(crate) layout: Layout,
    pub(crate) lines: &'b Lines<'t>,
    /// Receives the keys that the block does not decide: those whose lines the CPU cannot address,
    /// those beyond 63 bits, and rare cases.
    pub(crate) undecided: &'b mut Undecided,
}

impl<K: BlockKeys, R: BatchResult> Work for Block<'_, '_, K, R> {
    /// The number of keys started: fewer than all if `REMOTE` keys are undecided.
    type Output = usize;

    /// Runs the block. What is the same for all of its keys is a constant of the loop.
    #[inline(always)]
    fn run<C: Compare>(mut self) -> usize {
        match self.layout.probing() {
            Probing::Linear => self.examine::<C, true>(),
            _ => self.examine::<C, false>(),
        }
    }
}

impl<'t, K: BlockKeys, R: BatchResult> Block<'_, 't, K, R> {
    const INTENT: Intent = R::Answer::INTENT;
    /// The outcome of keys that were not found.
    const NOT_FOUND: Ended = match Self::INTENT {
        Intent::Find => Ended::Absent,
        Intent::FindOrPut => Ended::Inserted,
    };

    /// Examines the home line of each key, and follows the keys that it does not decide.
    #[inline(always)]
    fn examine<C: Compare, const LINEAR: bool>(&mut self) -> usize {
        let mut homes = Homes::<K::Wanted>::EMPTY;
        let mut walkers = Walkers::new();
        let (mut examined, mut hashed, mut end) = (0, 0, self.keys.len());
        // Of the keys examined: those found, and those that their home lines did not decide.
        let [mut found, mut left] = [0; 2];
        while examined < end {
            if hashed < end && hashed <= examined + K::AHEAD {
                let group = hashed..end.min(hashed + HASHED_AT_ONCE);
                hashed = group.end;
                self.hash(group, &mut homes);
                if examined == 0 {
                    homes.lines.iter().take(K::AHEAD).for_each(|line| prefetch_far(*line));
                }
                if self.undecided.is_enough() {
                    end = hashed;
                }
            }
            // The last lines wait for the next group, whose lines are prefetched meanwhile.
            let until = if hashed == end { end } else { hashed.saturating_sub(K::AHEAD) };
            let until = until.min(examined + MAX_EXAMINED);
            for place in examined..until {
                // At the end of the block, that of a key before.
                prefetch_far(homes.lines[(place + K::AHEAD) % RING]);
                let nth = place % RING;
                let (wanted, first) = (homes.wanted[nth], u32::from(homes.firsts[nth]));
                if first == LINE_BUCKETS {
                    left += 1;
                    continue;
                }
                // Linear probing ends at the end of the line, the other orders wrap around in it.
                // No probe limit is less than a line.
                let mask = if LINEAR { u8::MAX << (first % LINE_BUCKETS) } else { u8::MAX };
                let key = Key { wanted, place, lines: 1 };
                match self.keys.scan_line::<C>(key, homes.lines[nth], first, mask, Self::INTENT) {
                    Verdict::Decided(outcome) => {
                        found += u64::from(outcome == Ended::Found);
                        self.put(place, outcome);
                    }
                    Verdict::Passed => {
                        left += 1;
                        self.pass_home(place, wanted, homes.lines[nth], &mut walkers);
                    }
                    Verdict::Candidate => {
                        left += 1;
                        self.check_candidates(MAX_CANDIDATES - 1);
                    }
                    Verdict::Undecided => {
                        left += 1;
                        self.undecided.push(place);
                    }
                }
            }
            examined = until;
            self.check_candidates(CANDIDATES_AHEAD);
            // Each round passes at least one line within the probe limit of each key.
            let max = if examined < end { WALKERS - MAX_EXAMINED } else { 0 };
            while walkers.len() > max {
                self.walk::<C>(&mut walkers);
                self.check_candidates(CANDIDATES_AHEAD);
            }
        }
        self.check_candidates(0);
        let stats = self.keys.stats();
        stats.add_direct(Ended::Found, found, found);
        let others = end as u64 - left - found;
        stats.add_direct(Self::NOT_FOUND, others, others);
        end
    }

    /// Hashes keys and finds their home lines.
    #[inline(always)]
    fn hash(&mut self, places: core::ops::Range<usize>, homes: &mut Homes<'t, K::Wanted>) {
        for place in places {
            let mut first = LINE_BUCKETS;
            if let Some(wanted) = self.keys.wanted(place)
                && let home = self.layout.home_of(wanted.hashed())
                && let Some(line) = self.lines.at(home)
            {
                homes.wanted[place % RING] = wanted;
                homes.lines[place % RING] = line;
                first = self.layout.offset_in_line(home);
            } else {
                self.undecided.push(place);
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
        wanted: K::Wanted,
        home: &'t Line,
        walkers: &mut Walkers<'t, K::Wanted>,
    ) {
        let at = self.layout.home_of(wanted.hashed());
        let offset = self.layout.offset_in_line(at);
        let at = Position { index: at.index - u64::from(offset), ..at };
        // Linear probing skips the buckets before the home bucket; the other orders begin each line
        // at the same offset.
        let is_linear = self.layout.probing() == Probing::Linear;
        let (skipped, first) = if is_linear { (offset, 0) } else { (0, offset) };
        let left = self.probe_limit + u64::from(skipped);
        let mut walker = Walker { wanted, line: home, home, at, left, first, place };
        if !self.pass_line(&mut walker) {
            return self.undecided.push(place);
        }
        let added = walkers.try_push(walker);
        debug_assert!(added.is_ok(), "no room for another walker");
    }

    /// Advances to the next line and prefetches it. Returns false if the caller has to decide: at
    /// the probe limit, at a line that the CPU cannot address, or where an order by double hashing has returned
    /// to its home and continues one line further.
    #[inline(always)]
    fn pass_line(&self, walker: &mut Walker<'t, K::Wanted>) -> bool {
        let line = u64::from(LINE_BUCKETS);
        walker.left -= line;
        walker.at = self.layout.next_line(walker.at, walker.wanted.hashed());
        let Some(next) = self.lines.at(walker.at) else { return false };
        prefetch_far(next);
        walker.line = next;
        walker.left >= line && !core::ptr::eq(next, walker.home)
    }

    /// Examines the next line of each of `walkers`.
    #[inline(always)]
    fn walk<C: Compare>(&mut self, walkers: &mut Walkers<'t, K::Wanted>) {
        let [mut found, mut other] = [(0, 0); 2];
        let mut nth = 0;
        while let Some(walker) = walkers.get_mut(nth) {
            let lines = (self.probe_limit - walker.left).div_ceil(LINE_BUCKETS.into()) + 1;
            let key = Key { wanted: walker.wanted, place: walker.place, lines };
            match self.keys.scan_line::<C>(key, walker.line, walker.first, u8::MAX, Self::INTENT) {
                Verdict::Decided(outcome) => {
                    let ended = if outcome == Ended::Found { &mut found } else { &mut other };
                    ended.0 += 1;
                    ended.1 += lines;
                    let place = walker.place;
                    self.put(place, outcome);
                }
                Verdict::Passed if self.pass_line(walker) => {
                    nth += 1;
                    continue;
                }
                Verdict::Candidate => self.check_candidates(MAX_CANDIDATES - 1),
                Verdict::Passed | Verdict::Undecided => self.undecided.push(walker.place),
            }
            remove(walkers, nth);
        }
        let stats = self.keys.stats();
        stats.add_direct(Ended::Found, found.0, found.1);
        stats.add_direct(Self::NOT_FOUND, other.0, other.1);
    }

    /// Compares all candidates but the last `left` with their keys.
    #[inline(always)]
    fn check_candidates(&mut self, left: usize) {
        while let Some(Checked { place, lines, is_found }) = self.keys.check_oldest(left) {
            if is_found {
                self.keys.stats().add_direct(Ended::Found, 1, lines);
                self.put(place, Ended::Found);
            } else {
                self.undecided.push(place);
            }
        }
    }

    #[inline(always)]
    fn put(&mut self, place: usize, outcome: Ended) {
        match self.results.get_mut(place) {
            Some(place) => *place = R::from_answer(R::Answer::from_ended(outcome)),
            None => debug_assert!(false, "the block has no place {place}"),
        }
    }
}

/// Keys that were hashed and whose home lines were not examined, as one array per field; a key is
/// at its place modulo `RING`.
struct Homes<'t, B> {
    wanted: [B; RING],
    lines: [&'t Line; RING],
    /// The home bucket's offset in its line; `LINE_BUCKETS` if the key has no line here.
    firsts: [u8; RING],
}

impl<B: Wanted> Homes<'_, B> {
    const EMPTY: Self = Self { wanted: [B::ANY; RING], lines: [&NO_LINE; RING], firsts: [0; RING] };
}

/// A key that is followed beyond its home line.
#[derive(Clone, Copy)]
struct Walker<'t, B> {
    wanted: B,
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

type Walkers<'t, B> = ArrayVec<Walker<'t, B>, WALKERS>;

/// Replaces a walker by the last one. `swap_remove` also copies the removed one.
#[inline(always)]
fn remove<B: Copy>(walkers: &mut Walkers<'_, B>, nth: usize) {
    if let Some(last) = walkers.last().copied()
        && let Some(place) = walkers.get_mut(nth)
    {
        *place = last;
    }
    walkers.truncate(walkers.len().saturating_sub(1));
}

/// Fills places that hold no line.
static NO_LINE: Line = [const { AtomicU64::new(0) }; LINE_BUCKETS as usize];

/// Keys that a block does not decide, as indices in the block.
#[derive(Default)]
pub struct Undecided(ArrayVec<u16, { REMOTE + OVERRUN }>);

impl Undecided {
    #[inline]
    pub(crate) fn push(&mut self, key: usize) {
        // Less than a block.
        #[allow(clippy::cast_possible_truncation)]
        let pushed = self.0.try_push(key as u16);
        debug_assert!(pushed.is_ok(), "no room for another key");
    }

    /// Leaves as many keys as there is room for undecided, of `count` in all, and returns their number.
    pub(crate) fn push_all(&mut self, count: usize) -> usize {
        let count = count.min(self.0.remaining_capacity());
        (0..count).for_each(|key| self.push(key));
        count
    }

    /// Returns whether the block should end.
    #[inline]
    pub(crate) fn is_enough(&self) -> bool {
        self.0.len() >= REMOTE
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<usize> {
        self.0.pop().map(usize::from)
    }
}

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
