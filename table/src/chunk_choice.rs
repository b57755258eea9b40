//! Adaptive choice of C and of read-ahead from the buckets that recent operations examined and
//! from the cost of a READ (the paper's future work, section 5).

use crate::policy::ReadAhead;
use crate::probe::LINE_BUCKETS;

/// Number of histogram bins, one for each number of lines that an operation needed. At a load
/// factor of 0.92 one insert in a hundred needs more lines, and no C covers that many.
const LINES: u32 = 64;
/// Weight of one operation. Decay subtracts whole numbers, so a weight is exact to 1/256 of an
/// operation.
const ONE: u32 = 256;
/// Operations between two choices: few enough to follow a small table that fills up, and enough to
/// make the cost of choosing negligible.
const INTERVAL: u32 = 256;
/// First interval, in operations. It is shorter because other owners may already have filled the
/// table.
const FIRST_INTERVAL: u32 = 16;
/// Each choice decays all weights by 1/16, so that about 4096 operations count. That is a fifth of
/// the inserts that raise the load factor of 2^20 buckets by 0.02.
const FORGET: u32 = 16;
/// Weight of the initial expectation, in operations.
const PRIOR: u32 = 8;

/// The duration of a READ as a linear function of the buckets that it transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadCost {
    /// Fixed part of the duration, in picoseconds.
    pub base_ps: u64,
    /// Additional time for each bucket, in picoseconds.
    pub bucket_ps: u64,
}

/// Limits of the measurements: one minute, 512 KiB and 1024 pairs at most, so that no sum of
/// products overflows (each stays below 2^110).
const MOST_NS: u64 = 60_000_000_000;
const MOST_BUCKETS: u32 = 1 << 16;
const MOST_MEASUREMENTS: usize = 1 << 10;
const PS_PER_NS: i128 = 1_000;

impl ReadCost {
    /// Fits the cost to measured READs, given as pairs of buckets and nanoseconds, by least
    /// squares.
    ///
    /// The slope and the base are never negative. Returns `None` unless two lengths were measured.
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
        // If the best line has a negative base, fit the line through the origin instead.
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

/// Chooses C and the first chunk at which to read ahead.
///
/// It keeps a histogram of the cache lines that operations needed, weighted towards recent ones,
/// and chooses the C with which they would have waited least.
#[derive(Clone, Debug)]
pub(crate) struct Chooser {
    cost: ReadCost,
    ahead: ReadAhead,
    least_lines: u32,
    most_lines: u32,
    /// Weight of the operations that needed one line, two lines, and so on.
    needed: [u32; LINES as usize],
    tail: Tail,
    /// Operations until the next choice, and the interval that this count started from.
    left: u32,
    interval: u32,
    choice: Choice,
}

/// The operations that needed more than `LINES` lines.
#[derive(Clone, Copy, Debug, Default)]
struct Tail {
    weight: u32,
    /// Sum of weight times lines.
    lines: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Choice {
    chunk_buckets: u32,
    ahead_from: u32,
}

/// At index i, the weight of the operations that needed more than i lines.
type Survivors = [u32; LINES as usize + 1];

impl Chooser {
    /// Creates a chooser of C, a multiple of 8 from 8 to `most_buckets`, for READs of this cost. It
    /// assumes an empty table at first.
    pub(crate) fn new(cost: ReadCost, most_buckets: u32, ahead: ReadAhead) -> Self {
        let most_lines = (most_buckets / LINE_BUCKETS).clamp(1, LINES);
        Self::among(1, most_lines, cost, ahead)
    }

    /// Creates a chooser that keeps C at `chunk_buckets` and chooses only read-ahead.
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

    /// Resets the histogram to operations that examined `buckets` buckets each.
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

    /// Returns C for the next operation.
    #[inline]
    pub(crate) fn chunk_buckets(&self) -> u32 {
        self.choice.chunk_buckets
    }

    /// Returns the first chunk, counted from 0, at which the next chunk is requested before this
    /// one is scanned; `u32::MAX` disables read-ahead.
    #[inline]
    pub(crate) fn ahead_from(&self) -> u32 {
        self.choice.ahead_from
    }

    /// Records a completed operation that examined this number of buckets, at least one.
    #[inline]
    pub(crate) fn ended(&mut self, examined: u32) {
        let line = examined.saturating_sub(1) / LINE_BUCKETS;
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
        // Rounded up, so that every old weight decays to 0.
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
            // Every operation waits for at least one READ, and a longer READ is never cheaper.
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

    /// Returns the weighted number of half READs that operations wait for with chunks of `lines`
    /// lines, and the first chunk at which to read ahead. Two READs in flight at once count half
    /// each.
    fn waits(&self, survivors: &Survivors, lines: u32) -> (u64, u32) {
        let at = |line: u32| survivors.get(line as usize).copied().unwrap_or(0);
        let mut ahead_from = u32::MAX;
        let (mut halves, mut each) = (0, 2);
        let (mut chunk, mut line) = (0, 0);
        // At most LINES + 1 iterations, because `lines` is at least 1.
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

    /// Returns whether to read ahead at a chunk that operations of weight `present` needed, if
    /// those of weight `next` needed the chunk after it.
    fn reads_ahead(&self, present: u32, next: u32) -> bool {
        match self.ahead {
            ReadAhead::Always => true,
            ReadAhead::Likely => present > 0 && next >= present.div_ceil(2),
            ReadAhead::Never => false,
        }
    }
}

impl Tail {
    /// Returns the weighted number of chunks needed from line `line` on, assuming that operations
    /// end at places spread evenly over a chunk.
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
