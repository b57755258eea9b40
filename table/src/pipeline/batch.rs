//! Many operations by one call: those that the CPU does itself interleaved, so that their cache
//! misses overlap; the others through the pipeline, so that their roundtrips do.

use core::mem::replace;
use core::sync::atomic::AtomicU64;

use transport::{Segment, Transport};

use super::Pipeline;
use crate::bucket::Bucket;
use crate::cache::{Cache, CacheEntry};
use crate::direct::{Direct, Look, look, reach};
use crate::error::{OperationError, SubmitError};
use crate::find_or_put::{Intent, Outcome};
use crate::layout::{Layout, Position};
use crate::line::{Line, prefetch};
use crate::operation::{Operation, Report, State};
use crate::probe::{LINE_BUCKETS, Probing};
use crate::stats::Stats;
use crate::walk::Walk;

/// Data whose home lines are asked for ahead: more than the lines that a core fetches at once
/// (`firmware-notes/prefetch-depth.md`), so that each has arrived when its turn comes.
const AHEAD: usize = 32;
/// Walks beyond their home lines that take turns, for the same reason.
const WALKS: usize = 16;
/// Data between two polls of the transport, which tell of lost owners. Nothing is ahead after one,
/// which costs less than a hundredth of that.
const DATA_PER_POLL: usize = 4096;

/// The end of an operation.
type End = Result<Outcome, OperationError>;

/// A batch under way: the data, where their ends go, and what was not begun yet.
struct Batch<'b> {
    data: &'b [u64],
    ends: &'b mut [End],
    intent: Intent,
    reach: u64,
    /// The first datum not begun.
    next: usize,
    /// Operations in the pipeline.
    running: usize,
    /// Walks that need storage in the pipeline, by their places.
    stuck: [Option<(usize, Walk)>; STUCK],
    /// How many those are.
    stuck_walks: usize,
}

/// Walks that need the pipeline before no more data are begun: as many as are worth a doorbell.
const FULL: usize = 64;
/// Those, and all that are under way then: each may leave what the CPU reaches.
const STUCK: usize = FULL + AHEAD + WALKS;

/// A datum whose home line was asked for; none where it has ended or walks already.
#[derive(Clone, Copy)]
struct Ahead<'t> {
    bucket: Bucket,
    line: Option<&'t Line>,
    /// The home bucket's place in the line.
    first: u32,
}

impl Ahead<'_> {
    const NOTHING: Self = Self { bucket: Bucket::ANY, line: None, first: 0 };
}

/// A datum beyond its home line, and the line asked for.
#[derive(Clone, Copy)]
struct Beyond<'t> {
    place: usize,
    walk: Walk,
    line: &'t Line,
}

impl<T, S, C> Pipeline<T, S, C>
where
    T: Transport,
    S: AsMut<[Operation]>,
    C: AsMut<[CacheEntry]>,
{
    /// Runs an operation on each of `data` and leaves its end at the same place of `ends`, which
    /// is as long.
    pub(crate) fn run_batch(&mut self, data: &[u64], intent: Intent, ends: &mut [End]) {
        let (reach, stuck) = (self.reach, [None; STUCK]);
        let mut batch =
            Batch { data, ends, intent, reach, next: 0, running: 0, stuck, stuck_walks: 0 };
        // Ends because each walk has an end within reach, and because every one-sided operation
        // that the transport accepted ends.
        while batch.next < data.len() || batch.running > 0 || batch.is_stuck() {
            let begins = !batch.is_stuck() && batch.next < data.len();
            match (self.fault, self.direct) {
                (Some(fault), _) => self.stats.failed += batch.refuse_rest(fault.into()),
                (None, Direct::Claims) if begins => {
                    let (transport, cache) = (&self.transport, &mut self.cache);
                    let walks = Walks::new(&mut batch, transport, self.layout, cache);
                    self.stats.add(&walks.run());
                }
                (None, _) => self.begin_by_reads(&mut batch),
            }
            // One doorbell for all that could be begun.
            self.unstick(&mut batch);
            self.progress();
            self.unstick(&mut batch);
        }
    }

    /// Begins as many operations in the pipeline as there is storage for.
    fn begin_by_reads(&mut self, batch: &mut Batch<'_>) {
        while !batch.is_stuck()
            && let Some((place, bucket)) = batch.take_next()
        {
            let mut walk = Walk::new(bucket, batch.intent, self.reach, &self.layout);
            if self.is_cached(&mut walk) {
                self.stats.count_cached();
                batch.set(place, Ok(Outcome::Found));
            } else if self.begin_of_batch(place, walk) {
                batch.running += 1;
            } else {
                batch.stick(place, walk);
            }
        }
    }

    fn begin_of_batch(&mut self, place: usize, walk: Walk) -> bool {
        let Some(index) = self.free.pop(self.operations.as_mut()) else { return false };
        self.begin_by_read(index, walk, Report::Batch(place));
        true
    }

    /// Finds storage for what has none, what has ended having made room first. Where only the
    /// caller can free some, it is refused.
    fn unstick(&mut self, batch: &mut Batch<'_>) {
        self.collect(batch);
        if !batch.is_stuck() {
            return;
        }
        for at in 0..STUCK {
            let Some(Some((place, walk))) = batch.stuck.get(at).copied() else { continue };
            if self.begin_of_batch(place, walk) {
                batch.running += 1;
            } else if self.active > 0 {
                return;
            } else {
                batch.set(place, Err(SubmitError::Busy.into()));
            }
            if let Some(stuck) = batch.stuck.get_mut(at) {
                *stuck = None;
                batch.stuck_walks -= 1;
            }
        }
    }

    /// Takes the ends that the pipeline has for the batch.
    fn collect(&mut self, batch: &mut Batch<'_>) {
        while let Some(index) = self.ended_of_batch.pop(self.operations.as_mut()) {
            let Some(operation) = self.operation(index) else { return };
            if let (State::Ended(end), Report::Batch(place)) = (operation.state, operation.report) {
                batch.set(place, end);
                batch.running -= 1;
            }
            self.release(index);
        }
    }
}

impl Batch<'_> {
    #[inline]
    fn set(&mut self, place: usize, end: End) {
        if let Some(place) = self.ends.get_mut(place) {
            *place = end;
        }
    }

    fn is_stuck(&self) -> bool {
        self.stuck_walks > 0
    }

    /// There is room for all that are under way.
    fn stick(&mut self, place: usize, walk: Walk) {
        match self.stuck.iter_mut().find(|stuck| stuck.is_none()) {
            Some(free) => {
                *free = Some((place, walk));
                self.stuck_walks += 1;
            }
            None => self.set(place, Err(SubmitError::Busy.into())),
        }
    }

    /// The next datum that a bucket holds, and its place.
    #[inline]
    fn take_next(&mut self) -> Option<(usize, Bucket)> {
        while let Some(&data) = self.data.get(self.next) {
            let place = self.next;
            self.next += 1;
            match Bucket::new(data) {
                Ok(bucket) => return Some((place, bucket)),
                Err(refused) => self.set(place, Err(SubmitError::Data(refused).into())),
            }
        }
        None
    }

    /// The transport is dead: what was not begun ends so. Gives how many there are.
    fn refuse_rest(&mut self, error: OperationError) -> u64 {
        let mut refused = 0;
        while let Some((place, _)) = self.take_next() {
            self.set(place, Err(error));
            refused += 1;
        }
        for at in 0..STUCK {
            if let Some((place, _)) = self.stuck.get_mut(at).and_then(Option::take) {
                self.set(place, Err(error));
                self.stuck_walks -= 1;
                refused += 1;
            }
        }
        refused
    }
}

/// The part of a batch that the CPU does itself.
struct Walks<'w, 'b, 't, T, C> {
    batch: &'w mut Batch<'b>,
    transport: &'t T,
    layout: Layout,
    linear: bool,
    /// The words of the first owners' parts, where the CPU reaches a part as one.
    parts: [&'t [AtomicU64]; PARTS],
    cache: &'w mut Cache<C>,
    stats: Stats,
    /// Operations that ended at their home line, found, inserted, absent.
    at_home: [u64; 3],
    beyond: [Option<Beyond<'t>>; WALKS],
    /// How many those are.
    walking: usize,
}

/// Owners whose parts are looked up once a batch instead of once a line: those of most machines.
const PARTS: usize = 8;

impl<'w, 'b, 't, T: Transport, C: AsMut<[CacheEntry]>> Walks<'w, 'b, 't, T, C> {
    fn new(
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
        Self {
            batch,
            transport,
            linear: layout.probing() == Probing::Linear,
            layout,
            parts,
            cache,
            stats: Stats::default(),
            at_home: [0; 3],
            beyond: [const { None }; WALKS],
            walking: 0,
        }
    }

    /// The next so many data, until all of them have ended or are stuck where the CPU does not
    /// reach. What they have cost.
    fn run(mut self) -> Stats {
        if self.cache.is_on() {
            self.walk_home::<true>();
        } else {
            self.walk_home::<false>();
        }
        while self.walking > 0 {
            for which in 0..WALKS {
                self.walk_on(which);
            }
        }
        let outcomes = [Outcome::Found, Outcome::Inserted, Outcome::Absent];
        for (outcome, operations) in outcomes.into_iter().zip(self.at_home) {
            self.stats.count_home(outcome, operations);
        }
        self.stats
    }

    /// Asks for home lines ahead and looks at each when its turn comes. Begins nothing more once
    /// enough are stuck.
    fn walk_home<const CACHED: bool>(&mut self) {
        let mut place = self.batch.next;
        let mut end = place.saturating_add(DATA_PER_POLL).min(self.batch.data.len());
        let mut ahead = [Ahead::NOTHING; AHEAD];
        while place < end + AHEAD {
            let entering = match self.batch.data.get(place) {
                Some(&data) if place < end => self.begin::<CACHED>(place, data),
                _ => Ahead::NOTHING,
            };
            let Some(slot) = ahead.get_mut(place % AHEAD) else { return };
            let leaving = replace(slot, entering);
            if let Some(line) = leaving.line {
                self.look::<CACHED>(place - AHEAD, leaving, line);
            }
            if self.walking > 0 {
                self.walk_on(place % WALKS);
            }
            place += 1;
            if self.batch.stuck_walks >= FULL {
                end = end.min(place);
            }
        }
        self.batch.next = end;
    }

    /// Asks for the home line of a datum.
    #[inline]
    fn begin<const CACHED: bool>(&mut self, place: usize, data: u64) -> Ahead<'t> {
        let bucket = match Bucket::new(data) {
            Ok(bucket) => bucket,
            Err(refused) => {
                self.batch.set(place, Err(SubmitError::Data(refused).into()));
                return Ahead::NOTHING;
            }
        };
        if CACHED && self.is_known(place, bucket) {
            return Ahead::NOTHING;
        }
        let home = self.layout.home(bucket);
        let line = self.home_line(home);
        if line.is_none() {
            self.batch.stick(place, self.walk(bucket));
        }
        Ahead { bucket, line, first: self.layout.offset_in_line(home) }
    }

    /// The line of a home, asked for already.
    #[inline]
    fn home_line(&self, home: Position) -> Option<&'t Line> {
        let start = home.index & !u64::from(LINE_BUCKETS - 1);
        let part = self.parts.get(home.owner as usize);
        // A part is memory of this process, hence within a usize.
        #[allow(clippy::cast_possible_truncation)]
        let words = part.and_then(|part| part.get(start as usize..)?.first_chunk());
        let Some(line) = words else { return reach(self.transport, &self.layout, home) };
        prefetch(line);
        Some(line)
    }

    fn walk(&self, bucket: Bucket) -> Walk {
        Walk::new(bucket, self.batch.intent, self.batch.reach, &self.layout)
    }

    /// Whether the cache knows the end, or where to walk on from.
    fn is_known(&mut self, place: usize, bucket: Bucket) -> bool {
        let mut walk = self.walk(bucket);
        if self.cache.follow(&mut walk, &self.layout) {
            self.stats.count_cached();
            self.batch.set(place, Ok(Outcome::Found));
            return true;
        }
        if walk.passed == 0 && walk.reach == self.batch.reach {
            return false;
        }
        self.go_beyond(place, walk);
        true
    }

    /// Looks at a home line: the way of most data, with nothing kept that only others need.
    #[inline]
    fn look<const CACHED: bool>(&mut self, place: usize, ahead: Ahead<'t>, line: &'t Line) {
        let Ahead { bucket, first, .. } = ahead;
        let buckets = if self.linear { LINE_BUCKETS - first } else { LINE_BUCKETS };
        // A whole line is within any reach.
        let Some((nth, outcome)) = look(line, bucket, self.batch.intent, first, 0..buckets) else {
            return self.pass(place, bucket, line);
        };
        if CACHED {
            self.learn(bucket, nth, outcome, line);
        }
        let [found, inserted, absent] = &mut self.at_home;
        *match outcome {
            Outcome::Found => found,
            Outcome::Inserted => inserted,
            Outcome::Absent | Outcome::Full => absent,
        } += 1;
        self.batch.set(place, Ok(outcome));
    }

    fn learn(&mut self, bucket: Bucket, nth: u32, outcome: Outcome, line: &Line) {
        let before = self.walk(bucket);
        let after = Walk { passed: nth, ..before };
        self.cache.learn_line(before, &after, Look::Done(outcome), line, &self.layout);
    }

    /// A home line holds other data only, or did when it was looked at.
    fn pass(&mut self, place: usize, bucket: Bucket, line: &'t Line) {
        let mut walk = self.walk(bucket);
        match self.cache.look(&mut walk, line, &self.layout) {
            Look::Done(outcome) => {
                self.stats.count_direct(outcome, walk.lines);
                self.batch.set(place, Ok(outcome));
            }
            Look::Passed => self.go_beyond(place, walk),
        }
    }

    /// Asks for the next line of a walk, which then takes turns with the others.
    fn go_beyond(&mut self, place: usize, walk: Walk) {
        let Some(line) = walk.line(self.transport, &self.layout) else {
            return self.batch.stick(place, walk);
        };
        // Each turn takes all walks a line further, of those in reach.
        while self.walking == WALKS {
            for which in 0..WALKS {
                self.walk_on(which);
            }
        }
        if let Some(free) = self.beyond.iter_mut().find(|beyond| beyond.is_none()) {
            *free = Some(Beyond { place, walk, line });
            self.walking += 1;
        }
    }

    /// Takes a walk a line further, if there is one.
    fn walk_on(&mut self, which: usize) {
        let Some(Some(mut here)) = self.beyond.get_mut(which).map(Option::take) else { return };
        self.walking -= 1;
        match self.cache.look(&mut here.walk, here.line, &self.layout) {
            Look::Done(outcome) => {
                self.stats.count_direct(outcome, here.walk.lines);
                self.batch.set(here.place, Ok(outcome));
            }
            Look::Passed => match here.walk.line(self.transport, &self.layout) {
                Some(line) => {
                    if let Some(free) = self.beyond.get_mut(which) {
                        *free = Some(Beyond { line, ..here });
                        self.walking += 1;
                    }
                }
                None => self.batch.stick(here.place, here.walk),
            },
        }
    }
}
