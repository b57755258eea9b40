//! The part of a batch that the CPU does itself, in two passes over a block of data: a look at each
//! home line, which is all that most data need, and walks on from there for the others.

use core::mem::replace;
use core::sync::atomic::AtomicU64;

use probeline_transport::{Segment, Transport};

use super::Batch;
use crate::bucket::Bucket;
use crate::cache::{Cache, CacheEntry};
use crate::direct::{Look, look, reach};
use crate::error::SubmitError;
use crate::find_or_put::{Intent, Outcome};
use crate::layout::{Layout, Position};
use crate::line::{Line, prefetch};
use crate::probe::{LINE_BUCKETS, Probing};
use crate::stats::Stats;
use crate::walk::Walk;

/// Data whose home lines are asked for ahead: more than the lines that a core fetches at once
/// (`firmware-notes/prefetch-depth.md`), so that each has arrived when its turn comes.
const AHEAD: usize = 32;
/// Walks that take turns, as many for the same reason.
pub(super) const WALKS: usize = 32;
/// Data in a block: between two polls of the transport, which tell of lost owners. Nothing is
/// ahead at its end, which costs less than a hundredth of it.
const BLOCK: usize = 4096;

/// Data of a block that the first pass has left to the second.
pub(super) struct Late {
    /// From where in the batch on the block is.
    block: usize,
    /// Which of the block, the first `count`.
    places: [u16; BLOCK],
    count: usize,
    /// Those before it walk or have ended.
    next: usize,
}

impl Late {
    pub(super) const NONE: Self = Self { block: 0, places: [0; BLOCK], count: 0, next: 0 };

    pub(super) fn is_empty(&self) -> bool {
        self.next >= self.count
    }

    fn begin(&mut self, block: usize) {
        (self.block, self.count, self.next) = (block, 0, 0);
    }

    /// There is room for a block.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "less than a block")]
    fn push(&mut self, place: usize) {
        match self.places.get_mut(self.count) {
            Some(late) => {
                *late = place as u16;
                self.count += 1;
            }
            None => debug_assert!(false, "more operations are late than a block has"),
        }
    }

    /// The next one's place in the batch.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<usize> {
        if self.is_empty() {
            return None;
        }
        let place = self.places.get(self.next)?;
        self.next += 1;
        Some(self.block + usize::from(*place))
    }
}

/// Data whose home lines were asked for, by their places; no line where there is none or it has
/// ended. An array for each part: as one value a datum would pass through memory, stored in halves
/// and loaded whole, for which a core waits until all stores before are done.
struct Ahead<'t> {
    buckets: [Bucket; AHEAD],
    lines: [Option<&'t Line>; AHEAD],
    /// The home bucket's place in the line.
    firsts: [u32; AHEAD],
}

impl<'t> Ahead<'t> {
    const NOTHING: Self =
        Self { buckets: [Bucket::ANY; AHEAD], lines: [None; AHEAD], firsts: [0; AHEAD] };

    /// Takes what is at `place` and leaves another there.
    #[inline(always)]
    fn exchange(
        &mut self,
        place: usize,
        bucket: Bucket,
        line: Option<&'t Line>,
        first: u32,
    ) -> (Bucket, Option<&'t Line>, u32) {
        let at = place % AHEAD;
        (
            replace(&mut self.buckets[at], bucket),
            replace(&mut self.lines[at], line),
            replace(&mut self.firsts[at], first),
        )
    }
}

/// A datum that walks, and the line asked for.
#[derive(Clone, Copy)]
struct Walker<'t> {
    place: usize,
    walk: Walk,
    line: &'t Line,
}

/// Owners whose parts are looked up once a block instead of once a line: those of most machines.
const PARTS: usize = 8;

pub(super) struct Walks<'w, 'b, 't, T, C> {
    batch: &'w mut Batch<'b>,
    transport: &'t T,
    layout: Layout,
    /// The words of the first owners' parts, where the CPU reaches a part as one.
    parts: [&'t [AtomicU64]; PARTS],
    cache: &'w mut Cache<C>,
    stats: Stats,
}

impl<'w, 'b, 't, T: Transport, C: AsMut<[CacheEntry]>> Walks<'w, 'b, 't, T, C> {
    pub(super) fn new(
        batch: &'w mut Batch<'b>,
        transport: &'t T,
        layout: Layout,
        cache: &'w mut Cache<C>,
    ) -> Self {
        let mut parts: [&[AtomicU64]; PARTS] = [&[]; PARTS];
        for (owner, part) in (0..layout.owners()).zip(&mut parts) {
            let words = u32::try_from(layout.buckets_per_owner());
            let start = layout.word(Position { owner, index: 0 });
            let words = words.ok().and_then(|words| transport.direct(Segment { start, words }));
            *part = words.unwrap_or_default();
        }
        Self { batch, transport, layout, parts, cache, stats: Stats::default() }
    }

    /// The next block of data, or what is late of the last, until all of them have ended or enough
    /// are stuck where the CPU does not reach. What they have cost.
    pub(super) fn run(mut self) -> Stats {
        if self.batch.late.is_empty() {
            self.begin_block();
        }
        self.walk();
        self.stats
    }

    /// Looks at home lines, unless the cache may know more.
    fn begin_block(&mut self) {
        self.batch.late.begin(self.batch.next);
        if self.cache.is_on() {
            return self.leave_all();
        }
        // What does not change within a block is known to the loop that runs it.
        match (self.layout.probing(), self.batch.intent) {
            (Probing::Linear, Intent::Find) => self.look_home::<true, true>(),
            (Probing::Linear, Intent::FindOrPut) => self.look_home::<true, false>(),
            (_, Intent::Find) => self.look_home::<false, true>(),
            (_, Intent::FindOrPut) => self.look_home::<false, false>(),
        }
    }

    /// Leaves a block to the second pass.
    fn leave_all(&mut self) {
        let count = BLOCK.min(self.batch.data.len() - self.batch.next);
        for place in 0..count {
            self.batch.late.push(place);
        }
        self.batch.next += count;
    }

    /// Asks for home lines ahead and looks at each when its turn comes. Begins nothing more once
    /// enough are stuck.
    fn look_home<const LINEAR: bool, const FIND: bool>(&mut self) {
        let intent = if FIND { Intent::Find } else { Intent::FindOrPut };
        let begin = self.batch.next;
        let block = self.batch.data.get(begin..).unwrap_or_default();
        let mut end = BLOCK.min(block.len());
        let mut ahead = Ahead::NOTHING;
        let [mut found, mut inserted, mut absent] = [0; 3];
        let mut place = 0;
        while place < end + AHEAD {
            let (mut bucket, mut line, mut first) = (Bucket::ANY, None, 0);
            if place < end
                && let Some(entering) =
                    block.get(place).and_then(|data| self.enter(begin + place, *data))
            {
                let home = self.layout.home(entering);
                (bucket, first) = (entering, self.layout.offset_in_line(home));
                line = self.line_of_part(home);
                if line.is_none() {
                    line = self.ask_further(begin + place, bucket, home);
                    if self.batch.is_full() {
                        end = place + 1;
                    }
                }
            }
            let (bucket, line, first) = ahead.exchange(place, bucket, line, first);
            if let Some(line) = line {
                let place = place - AHEAD;
                let buckets = if LINEAR { LINE_BUCKETS - first } else { LINE_BUCKETS };
                // A whole line is within any reach.
                match look(line, bucket, intent, first, 0..buckets) {
                    None => self.batch.late.push(place),
                    Some((_, outcome)) => {
                        match outcome {
                            Outcome::Found => found += 1,
                            Outcome::Inserted => inserted += 1,
                            Outcome::Absent | Outcome::Full => absent += 1,
                        }
                        self.batch.set(begin + place, Ok(outcome));
                    }
                }
            }
            place += 1;
        }
        self.batch.next = begin + end;
        self.stats.count_home(Outcome::Found, found);
        self.stats.count_home(Outcome::Inserted, inserted);
        self.stats.count_home(Outcome::Absent, absent);
    }

    /// The bucket of a datum; one that no bucket holds has ended.
    #[inline(always)]
    fn enter(&mut self, place: usize, data: u64) -> Option<Bucket> {
        match Bucket::new(data) {
            Ok(bucket) => Some(bucket),
            Err(refused) => {
                self.batch.set(place, Err(SubmitError::Data(refused).into()));
                None
            }
        }
    }

    /// The line that the bucket at `at` is in, asked for already, if its part is reached as one.
    #[inline(always)]
    fn line_of_part(&self, at: Position) -> Option<&'t Line> {
        let start = at.index & !u64::from(LINE_BUCKETS - 1);
        let part = self.parts.get(at.owner as usize)?;
        // A part is memory of this process, hence within a usize.
        #[allow(clippy::cast_possible_truncation)]
        let line = part.get(start as usize..)?.first_chunk()?;
        prefetch(line);
        Some(line)
    }

    /// The same of any part that is reached.
    #[inline]
    fn line(&self, at: Position) -> Option<&'t Line> {
        self.line_of_part(at).or_else(|| reach(self.transport, &self.layout, at))
    }

    /// The home line of any other datum; without one it is stuck.
    #[cold]
    fn ask_further(&mut self, place: usize, bucket: Bucket, home: Position) -> Option<&'t Line> {
        let line = reach(self.transport, &self.layout, home);
        if line.is_none() {
            self.batch.stick(place, self.start(bucket));
        }
        line
    }

    fn start(&self, bucket: Bucket) -> Walk {
        Walk::new(bucket, self.batch.intent, self.batch.reach, &self.layout)
    }

    /// Takes what is late along its lines, several at a time.
    fn walk(&mut self) {
        let Some(any) = self.next_walker() else { return };
        let mut walkers = [any; WALKS];
        let mut walking = 1;
        for walker in walkers.iter_mut().skip(1) {
            let Some(next) = self.next_walker() else { break };
            *walker = next;
            walking += 1;
        }
        while walking > 0 {
            let mut which = 0;
            while which < walking {
                let Some(walker) = walkers.get_mut(which) else { return };
                if self.step(walker) {
                    which += 1;
                } else if let Some(next) = self.next_walker() {
                    *walker = next;
                    which += 1;
                } else {
                    walking -= 1;
                    let Some(last) = walkers.get(walking).copied() else { return };
                    if let Some(walker) = walkers.get_mut(which) {
                        *walker = last;
                    }
                }
            }
        }
    }

    /// The next datum that walks, its line asked for; none while enough are stuck.
    #[inline]
    fn next_walker(&mut self) -> Option<Walker<'t>> {
        while !self.batch.is_full() {
            let place = self.batch.late.pop()?;
            let Some(&data) = self.batch.data.get(place) else { continue };
            let mut walk = match Bucket::new(data) {
                Ok(bucket) => self.start(bucket),
                Err(refused) => {
                    self.batch.set(place, Err(SubmitError::Data(refused).into()));
                    continue;
                }
            };
            if !self.cache.is_on() {
                walk.pass_seen_line(&self.layout);
            } else if self.cache.follow(&mut walk, &self.layout) {
                self.stats.count_cached();
                self.batch.set(place, Ok(Outcome::Found));
                continue;
            }
            match self.line(walk.probe.at) {
                Some(line) => return Some(Walker { place, walk, line }),
                None => self.batch.stick(place, walk),
            }
        }
        None
    }

    /// Takes a walk a line further; false where that was its last here.
    #[inline]
    fn step(&mut self, walker: &mut Walker<'t>) -> bool {
        let Walker { place, walk, line } = walker;
        if let Look::Done(outcome) = self.cache.look(walk, line, &self.layout) {
            self.stats.count_direct(outcome, walk.lines);
            self.batch.set(*place, Ok(outcome));
            return false;
        }
        let Some(next) = self.line(walk.probe.at) else {
            self.batch.stick(*place, *walk);
            return false;
        };
        *line = next;
        true
    }
}
