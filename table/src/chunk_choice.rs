//! C and read-ahead, chosen from what operations have lately needed and what READs cost (the
//! paper's future work, section 5).

use crate::policy::ReadAhead;
use crate::probe::LINE_BUCKETS;

/// Lines that are told apart. At a load factor of 0.92 one insert in a hundred needs more, and no
/// C brings so many.
const LINES: u32 = 64;
/// The weight of one operation: what is forgotten of it is a whole number down to 1/256 of it.
const ONE: u32 = 256;
/// Operations from one choice to the next: few enough to follow a small table that fills, and
/// many enough that choosing takes no share of their time.
const INTERVAL: u32 = 256;
/// The first choices come earlier: the table may have been filled by others.
const FIRST_INTERVAL: u32 = 16;
/// Each choice forgets a sixteenth, so that some 4096 operations count: a fifth of the inserts
/// that raise the load factor of 2^20 buckets by 0.02.
const FORGET: u32 = 16;
/// Operations that are taken to have needed what is expected, before the first.
const PRIOR: u32 = 8;

/// What a READ takes, by the buckets that it brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadCost {
    /// Picoseconds for a READ of any length.
    pub base_ps: u64,
    /// Picoseconds more for each bucket.
    pub bucket_ps: u64,
}

/// What counts as measured, a minute and 512 KiB at most, and how often: no sum of products then
/// reaches 2^110.
const MOST_NS: u64 = 60_000_000_000;
const MOST_BUCKETS: u32 = 1 << 16;
const MOST_MEASUREMENTS: usize = 1 << 10;
const PS_PER_NS: i128 = 1_000;

impl ReadCost {
    /// The line that fits measured READs best, by least squares: pairs of buckets and nanoseconds.
    /// A longer READ counts as no shorter, and none as less than nothing. `None` without two
    /// lengths.
    #[must_use]
    pub fn from_measurements(measured: &[(u32, u64)]) -> Option<Self> {
        let [mut n, mut x, mut y, mut xx, mut xy] = [0_i128; 5];
        for &(buckets, ns) in measured.iter().take(MOST_MEASUREMENTS) {
            let buckets = i128::from(buckets.min(MOST_BUCKETS));
            let ps = i128::from(ns.min(MOST_NS)) * PS_PER_NS;
            n += 1;
            x += buckets;
            y += ps;
            xx += buckets * buckets;
            xy += buckets * ps;
        }
        let spread = n * xx - x * x;
        if spread == 0 {
            return None;
        }
        let slope = (n * xy - x * y).max(0);
        // The line through the origin where the best one begins below it.
        let base = y * spread - slope * x;
        let (base, bucket) =
            if base < 0 { (0, xy / xx) } else { (base / (n * spread), slope / spread) };
        Some(Self { base_ps: u64::try_from(base).ok()?, bucket_ps: u64::try_from(bucket).ok()? })
    }

    fn of(&self, lines: u32) -> u128 {
        let buckets = u128::from(lines) * u128::from(LINE_BUCKETS);
        u128::from(self.base_ps) + u128::from(self.bucket_ps) * buckets
    }
}

/// Chooses C and from which chunk on to read ahead.
///
/// It keeps how many cache lines operations have needed, the latest counting most, and chooses
/// the C with which they would have waited least.
#[derive(Clone, Debug)]
pub(crate) struct Chooser {
    cost: ReadCost,
    ahead: ReadAhead,
    least_lines: u32,
    most_lines: u32,
    /// The weight of operations that needed one line, two, and so on.
    needed: [u32; LINES as usize],
    tail: Tail,
    /// Operations until the next choice, and what they were when it was set.
    left: u32,
    interval: u32,
    choice: Choice,
}

/// Operations that needed more than `LINES`.
#[derive(Clone, Copy, Debug, Default)]
struct Tail {
    weight: u32,
    /// Each weight times its lines.
    lines: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Choice {
    chunk_buckets: u32,
    ahead_from: u32,
}

/// The weight of operations that needed more lines than the index says.
type Survivors = [u32; LINES as usize + 1];

impl Chooser {
    /// Chooses C from 8 to `most_buckets`, a multiple of 8, for READs of this cost. The table is
    /// taken to be empty.
    pub(crate) fn new(cost: ReadCost, most_buckets: u32, ahead: ReadAhead) -> Self {
        let most_lines = (most_buckets / LINE_BUCKETS).clamp(1, LINES);
        Self::among(1, most_lines, cost, ahead)
    }

    /// C is always `chunk_buckets`; only what is read ahead is chosen.
    pub(crate) fn fixed(chunk_buckets: u32, ahead: ReadAhead) -> Self {
        let lines = (chunk_buckets / LINE_BUCKETS).max(1);
        Self::among(lines, lines, ReadCost { base_ps: 1, bucket_ps: 0 }, ahead)
    }

    fn among(least_lines: u32, most_lines: u32, cost: ReadCost, ahead: ReadAhead) -> Self {
        let choice = Choice { chunk_buckets: LINE_BUCKETS, ahead_from: u32::MAX };
        let mut chooser = Self {
            cost,
            ahead,
            least_lines,
            most_lines,
            needed: [0; LINES as usize],
            tail: Tail::default(),
            left: 0,
            interval: 0,
            choice,
        };
        chooser.expect(1);
        chooser
    }

    /// As if the operations so far had looked at so many buckets each.
    pub(crate) fn expect(&mut self, buckets: u32) {
        let line = buckets.saturating_sub(1) / LINE_BUCKETS;
        self.needed = [0; LINES as usize];
        self.tail = Tail::default();
        match self.needed.get_mut(line as usize) {
            Some(weight) => *weight = PRIOR * ONE,
            None => {
                self.tail.weight = PRIOR * ONE;
                self.tail.lines = u64::from(PRIOR * ONE) * (u64::from(line) + 1);
            }
        }
        self.interval = FIRST_INTERVAL;
        self.left = FIRST_INTERVAL;
        self.choice = self.best();
    }

    #[cfg(test)]
    pub(crate) fn force(&mut self, chunk_buckets: u32, ahead_from: u32) {
        self.choice = Choice { chunk_buckets, ahead_from };
        self.left = u32::MAX;
    }

    /// C for the next operation.
    #[inline]
    pub(crate) fn chunk_buckets(&self) -> u32 {
        self.choice.chunk_buckets
    }

    /// From which chunk on, counted from 0, the next one is requested before it is scanned;
    /// `u32::MAX` is never.
    #[inline]
    pub(crate) fn ahead_from(&self) -> u32 {
        self.choice.ahead_from
    }

    /// An operation has ended and had looked at so many buckets, at least one.
    #[inline]
    pub(crate) fn ended(&mut self, buckets_looked_at: u32) {
        let line = buckets_looked_at.saturating_sub(1) / LINE_BUCKETS;
        match self.needed.get_mut(line as usize) {
            Some(weight) => *weight += ONE,
            None => {
                self.tail.weight += ONE;
                self.tail.lines += u64::from(ONE) * (u64::from(line) + 1);
            }
        }
        self.left -= 1;
        if self.left == 0 {
            self.choose();
        }
    }

    #[inline(never)]
    fn choose(&mut self) {
        self.choice = self.best();
        // Rounded up, so that what is old goes altogether.
        for weight in self.needed.iter_mut().chain([&mut self.tail.weight]) {
            *weight -= weight.div_ceil(FORGET);
        }
        self.tail.lines -= self.tail.lines.div_ceil(FORGET.into());
        self.interval = (self.interval * 2).min(INTERVAL);
        self.left = self.interval;
    }

    fn best(&self) -> Choice {
        let survivors = self.survivors();
        let all = u128::from(survivors[0]) * 2;
        let mut best = self.choice;
        let mut least = u128::MAX;
        for lines in self.least_lines..=self.most_lines {
            let cost = self.cost.of(lines);
            // No operation waits less than for one READ, and a longer one takes no less.
            if all * cost >= least {
                break;
            }
            let (halves, ahead_from) = self.waits(&survivors, lines);
            let waited = u128::from(halves) * cost;
            if waited < least {
                least = waited;
                best = Choice { chunk_buckets: lines * LINE_BUCKETS, ahead_from };
            }
        }
        best
    }

    fn survivors(&self) -> Survivors {
        let mut survivors = [self.tail.weight; LINES as usize + 1];
        let mut sum = self.tail.weight;
        for (survivor, weight) in survivors.iter_mut().zip(&self.needed).rev() {
            sum += weight;
            *survivor = sum;
        }
        survivors
    }

    /// How many half READs are waited for with chunks of so many lines, and from which chunk on
    /// the next is read ahead. Of two READs in flight at once each is waited for half as long.
    fn waits(&self, survivors: &Survivors, lines: u32) -> (u64, u32) {
        let at = |line: u32| survivors.get(line as usize).copied().unwrap_or(0);
        let mut ahead_from = u32::MAX;
        let (mut halves, mut each) = (0, 2);
        let (mut chunk, mut line) = (0, 0);
        // At most LINES + 1 chunks, lines being at least 1.
        while line <= LINES {
            halves += each * u64::from(at(line));
            if ahead_from == u32::MAX && self.reads_ahead(at(line), at(line + lines)) {
                (ahead_from, each) = (chunk, 1);
            }
            chunk += 1;
            line += lines;
        }
        (halves + each * self.tail.chunks(line, lines), ahead_from)
    }

    /// Whether to read ahead where so much weight needed a chunk and so much of it the next.
    fn reads_ahead(&self, present: u32, next: u32) -> bool {
        match self.ahead {
            ReadAhead::Always => true,
            ReadAhead::Likely => present > 0 && next >= present.div_ceil(2),
            ReadAhead::Never => false,
        }
    }
}

impl Tail {
    /// Chunks needed from a line on, as if ends were spread evenly over a chunk.
    fn chunks(&self, line: u32, lines: u32) -> u64 {
        let (weight, line, lines) = (u64::from(self.weight), u64::from(line), u64::from(lines));
        let further = self.lines.saturating_sub(weight * line);
        if further == 0 {
            return 0;
        }
        (further + weight * (lines / 2)).checked_div(lines).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
