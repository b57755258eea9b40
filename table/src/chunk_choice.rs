//! Adaptive choice of C and of read-ahead from the buckets that recent operations examined and
//! from the cost of a READ (the paper's future work, section 5).

use crate::layout::LINE_BUCKETS;
use crate::options::{ChunkChoice, ReadAhead, ReadCost};

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
const DECAY_DIVISOR: u32 = 16;
/// Read-ahead starts at the first chunk after which at least one operation in this number
/// continues: with other operations in flight, which an unneeded READ delays, and without.
const ONE_IN: [u32; 2] = [2, 8];
/// Weight of the initial expectation, in operations.
const PRIOR: u32 = 8;

/// Chooses C and the first chunk at which to read ahead.
///
/// It keeps a histogram of the cache lines that operations needed, weighted towards recent ones,
/// and chooses the C with which they would have waited least.
#[derive(Clone, Debug)]
pub(crate) struct Chooser {
    cost: ReadCost,
    ahead: ReadAhead,
    min_lines: u32,
    max_lines: u32,
    /// Weight of the operations that needed one line, two lines, and so on.
    needed: [u32; LINES as usize],
    tail: Tail,
    /// Operations until the next choice, and the interval that this count started from.
    left: u32,
    interval: u32,
    /// Choices with other operations in flight, and without.
    choices: [Choice; 2],
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
    /// Creates a chooser of a C of at most `max_buckets`, a multiple of 8. It assumes an empty
    /// table at first.
    pub(crate) fn new(choice: ChunkChoice, max_buckets: u32, ahead: ReadAhead) -> Self {
        let lines = (max_buckets / LINE_BUCKETS).max(1);
        let (min_lines, max_lines, cost) = match choice {
            ChunkChoice::Fixed => (lines, lines, ReadCost { base_ps: 1, bucket_ps: 0 }),
            ChunkChoice::Adaptive(cost) => (1, lines.min(LINES), cost),
        };
        let choice = Choice { chunk_buckets: LINE_BUCKETS, ahead_from: u32::MAX };
        let mut chooser = Self {
            cost,
            ahead,
            min_lines,
            max_lines,
            needed: [0; LINES as usize],
            tail: Tail::default(),
            left: 0,
            interval: 0,
            choices: [choice; 2],
        };
        chooser.expect(1);
        chooser
    }

    /// Resets the histogram to operations that examined `buckets` buckets each.
    pub(crate) fn expect(&mut self, buckets: u32) {
        self.needed = [0; LINES as usize];
        self.tail = Tail::default();
        self.count(buckets, PRIOR * ONE);
        self.interval = FIRST_INTERVAL;
        self.left = FIRST_INTERVAL;
        self.choices = ONE_IN.map(|one_in| self.best(one_in));
    }

    /// Fixes C and read-ahead permanently, for the model check.
    #[cfg(test)]
    pub(crate) fn force(&mut self, chunk_buckets: u32, ahead_from: u32) {
        self.choices = [Choice { chunk_buckets, ahead_from }; 2];
        self.left = u32::MAX;
    }

    /// Returns C for the next operation, and the first chunk, counted from 0, at which the next
    /// chunk is requested before this one is scanned; `u32::MAX` disables read-ahead. `is_alone` if
    /// no other operation is in flight.
    #[inline]
    pub(crate) fn chunks(&self, is_alone: bool) -> (u32, u32) {
        let Choice { chunk_buckets, ahead_from } = self.choices[usize::from(is_alone)];
        (chunk_buckets, ahead_from)
    }

    /// Records a completed operation that examined this number of buckets, at least one.
    #[inline]
    pub(crate) fn ended(&mut self, examined: u32) {
        self.count(examined, ONE);
        self.left -= 1;
        if self.left == 0 {
            self.choose();
        }
    }

    #[inline(always)]
    fn count(&mut self, examined: u32, weight: u32) {
        let line = examined.saturating_sub(1) / LINE_BUCKETS;
        match self.needed.get_mut(line as usize) {
            Some(needed) => *needed += weight,
            None => {
                self.tail.weight += weight;
                self.tail.lines += u64::from(weight) * (u64::from(line) + 1);
            }
        }
    }

    #[inline(never)]
    fn choose(&mut self) {
        self.choices = ONE_IN.map(|one_in| self.best(one_in));
        // Rounded up, so that every old weight decays to 0.
        for weight in self.needed.iter_mut().chain([&mut self.tail.weight]) {
            *weight -= weight.div_ceil(DECAY_DIVISOR);
        }
        self.tail.lines -= self.tail.lines.div_ceil(DECAY_DIVISOR.into());
        self.interval = (self.interval * 2).min(INTERVAL);
        self.left = self.interval;
    }

    /// Returns the best choice with read-ahead where one operation in `one_in` continues.
    fn best(&self, one_in: u32) -> Choice {
        let survivors = self.survivors();
        let all = u128::from(survivors[0]) * 2;
        let mut best = self.choices[0];
        let mut min = u128::MAX;
        for lines in self.min_lines..=self.max_lines {
            let cost = self.cost.of(lines);
            // Every operation waits for at least one READ, and a longer READ is never cheaper.
            if all * cost >= min {
                break;
            }
            let ahead_from = self.ahead_from(&survivors, lines, one_in);
            let waited = u128::from(self.waits(&survivors, lines, ahead_from)) * cost;
            if waited < min {
                min = waited;
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
    /// lines and read-ahead from this chunk on. Two READs in flight at once count half each.
    fn waits(&self, survivors: &Survivors, lines: u32, ahead_from: u32) -> u64 {
        let mut halves = 0;
        let (mut chunk, mut line) = (0, 0);
        let each = |chunk| if chunk > ahead_from { 1 } else { 2 };
        // At most LINES + 1 iterations, because `lines` is at least 1.
        while line <= LINES {
            halves += each(chunk) * u64::from(weight_beyond(survivors, line));
            chunk += 1;
            line += lines;
        }
        halves + each(chunk) * self.tail.chunks(line, lines)
    }

    /// Returns the first chunk of `lines` lines, counted from 0, after which at least one operation
    /// in `one_in` continues; with the other settings of read-ahead, the first or none.
    fn ahead_from(&self, survivors: &Survivors, lines: u32, one_in: u32) -> u32 {
        let mut line = 0;
        for chunk in 0..=LINES {
            let [present, next] = [line, line + lines].map(|line| weight_beyond(survivors, line));
            let is_ahead = match self.ahead {
                ReadAhead::Always => true,
                ReadAhead::Likely => present > 0 && next >= present.div_ceil(one_in),
                ReadAhead::Never => false,
            };
            if is_ahead {
                return chunk;
            }
            line += lines;
            if line > LINES {
                break;
            }
        }
        u32::MAX
    }
}

/// Returns the weight of the operations that needed more than `line` lines.
fn weight_beyond(survivors: &Survivors, line: u32) -> u32 {
    survivors.get(line as usize).copied().unwrap_or(0)
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
