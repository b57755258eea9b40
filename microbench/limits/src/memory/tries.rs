//! The ways to do an operation: all are tried, and the fastest is then measured.

use core::array;
use core::hint::black_box;
use core::mem;
use core::ptr;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire};
use core::time::Duration;
use std::time::Instant;

use super::{Ahead, Hint};
use crate::lines::Lines;
use crate::prefetch;
use crate::random::Random;

/// Operations between two readings of the clock: some 15 us where they are fast, half a
/// millisecond where each waits for the one before. A multiple of all numbers ahead.
const BLOCK: u32 = 1024;
/// How often all tries of one limit take turns, so that a moment in which the machine did
/// something else spoils none of them.
const TURNS: u32 = 4;
/// The share of the time in which they do. Where others use the machine too, the fastest of many
/// is the one that was not disturbed: so it is measured again, for as long as is left.
const TRIED: u32 = 4;

/// One way to do an operation, and how it fared.
pub(super) struct Try<'a> {
    ahead: Ahead,
    /// Does [`BLOCK`] operations.
    block: Box<dyn FnMut() + 'a>,
    blocks: u32,
    took: Duration,
}

/// The fastest try.
pub(super) struct Best {
    /// Operations a second.
    pub(super) rate: f64,
    pub(super) ahead: Ahead,
}

impl<'a> Try<'a> {
    fn new(ahead: Ahead, block: impl FnMut() + 'a) -> Self {
        Self { ahead, block: Box::new(block), blocks: 0, took: Duration::ZERO }
    }

    fn alone(block: impl FnMut() + 'a) -> Self {
        Self::new(Ahead { lines: 0, hint: Hint::Near }, block)
    }

    fn run(&mut self, until: Instant) {
        let start = Instant::now();
        loop {
            (self.block)();
            self.blocks += 1;
            let now = Instant::now();
            if now >= until {
                self.took += now - start;
                return;
            }
        }
    }

    fn rate(&self) -> f64 {
        let took = self.took.as_secs_f64();
        if took > 0.0 { f64::from(self.blocks) * f64::from(BLOCK) / took } else { 0.0 }
    }
}

/// The time at which the next turn ends. All such times are fixed when the first one begins, so
/// that cores which begin together do the same at the same time.
pub(super) struct Turns(Instant);

impl Turns {
    pub(super) fn new() -> Self {
        Self(Instant::now())
    }

    /// Tries all of `tries` and measures the fastest, for `time` together; each for at least a
    /// block a turn.
    pub(super) fn best(&mut self, tries: Vec<Try<'_>>, time: Duration) -> Best {
        let each = time / TRIED / TURNS / u32::try_from(tries.len()).unwrap_or(u32::MAX).max(1);
        let end = self.0 + time;
        let fastest = self.fastest(tries, each);
        self.0 = end;
        let none = Best { rate: 0.0, ahead: Ahead { lines: 0, hint: Hint::Near } };
        fastest.map_or(none, |mut fastest| {
            (fastest.blocks, fastest.took) = (0, Duration::ZERO);
            fastest.run(end);
            Best { rate: fastest.rate(), ahead: fastest.ahead }
        })
    }

    /// The fastest of `tries`, each of which gets so much time in each turn.
    fn fastest<'a>(&mut self, mut tries: Vec<Try<'a>>, each: Duration) -> Option<Try<'a>> {
        for _ in 0..TURNS {
            for tried in &mut tries {
                self.0 += each;
                tried.run(self.0);
            }
        }
        tries.into_iter().max_by(|one, other| one.rate().total_cmp(&other.rate()))
    }
}

pub(super) fn indexes<'a, L: Lines + 'a>(lines: L) -> Try<'a> {
    let mut random = Random::of_its_own();
    Try::alone(move || {
        let all = (0..BLOCK).map(|_| ptr::from_ref(lines.pick(random.next())).addr());
        black_box(all.fold(0, |sum, address| sum ^ address));
    })
}

pub(super) fn dependent_reads<'a, L: Lines + 'a>(lines: L) -> Try<'a> {
    let mut random = Random::of_its_own();
    let mut value = 0;
    Try::alone(move || {
        for _ in 0..BLOCK {
            value = load(lines.pick(random.next().wrapping_add(value)));
        }
        black_box(value);
    })
}

pub(super) fn independent_reads<'a, L: Lines + 'a>(lines: L) -> Try<'a> {
    let mut random = Random::of_its_own();
    Try::alone(move || {
        let all = (0..BLOCK).map(|_| load(lines.pick(random.next())));
        black_box(all.fold(0, |sum, value| sum ^ value));
    })
}

pub(super) fn prefetched_reads<'a, L: Lines + 'a>(lines: L) -> Vec<Try<'a>> {
    let mut tries = distances(lines, Hint::Near, prefetch::near, load);
    tries.extend(distances(lines, Hint::Far, prefetch::far, load));
    tries
}

pub(super) fn swaps<'a, L: Lines + 'a>(lines: L) -> Vec<Try<'a>> {
    hints(lines, swap)
}

pub(super) fn reads_then_swaps<'a, L: Lines + 'a>(lines: L) -> Vec<Try<'a>> {
    hints(lines, read_then_swap)
}

/// `operation` after each hint and at each distance.
fn hints<'a, L: Lines + 'a>(
    lines: L,
    operation: impl Fn(&AtomicU64) -> u64 + Copy + 'a,
) -> Vec<Try<'a>> {
    let mut tries = distances(lines, Hint::Near, prefetch::near, operation);
    tries.extend(distances(lines, Hint::Far, prefetch::far, operation));
    tries.extend(distances(lines, Hint::Write, prefetch::to_write, operation));
    tries
}

fn distances<'a, L: Lines + 'a>(
    lines: L,
    hint: Hint,
    prefetch: impl Fn(&AtomicU64) + Copy + 'a,
    operation: impl Fn(&AtomicU64) -> u64 + Copy + 'a,
) -> Vec<Try<'a>> {
    let ahead = |lines| Ahead { lines, hint };
    vec![
        rolling::<8, _>(lines, ahead(8), prefetch, operation),
        rolling::<16, _>(lines, ahead(16), prefetch, operation),
        rolling::<32, _>(lines, ahead(32), prefetch, operation),
        rolling::<64, _>(lines, ahead(64), prefetch, operation),
    ]
}

/// Requests one line and does the operation on the line requested `AHEAD` lines before, which was
/// never slower than to request that many lines and then to use them all.
fn rolling<'a, const AHEAD: usize, L: Lines + 'a>(
    lines: L,
    ahead: Ahead,
    prefetch: impl Fn(&AtomicU64) + 'a,
    operation: impl Fn(&AtomicU64) -> u64 + 'a,
) -> Try<'a> {
    let mut random = Random::of_its_own();
    // Numbers, because a line is found from one in less time than its address is from memory.
    let mut coming: [u64; AHEAD] = array::from_fn(|_| random.next());
    Try::new(ahead, move || {
        let mut sum = 0;
        for _ in 0..BLOCK as usize / AHEAD {
            for place in &mut coming {
                let next = random.next();
                prefetch(lines.pick(next));
                sum ^= operation(lines.pick(mem::replace(place, next)));
            }
        }
        black_box(sum);
    })
}

#[inline(always)]
fn load(word: &AtomicU64) -> u64 {
    word.load(Acquire)
}

/// An empty word becomes an empty one, and another stays.
#[inline(always)]
fn swap(word: &AtomicU64) -> u64 {
    let (Ok(value) | Err(value)) = word.compare_exchange(0, 0, AcqRel, Acquire);
    value
}

#[inline(always)]
fn read_then_swap(word: &AtomicU64) -> u64 {
    let value = load(word);
    let (Ok(found) | Err(found)) = word.compare_exchange(value, value, AcqRel, Acquire);
    found
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;

    /// If no time is left, each turn executes one block, so a measurement also ends on a slow
    /// machine.
    #[test]
    fn without_time_each_turn_executes_one_block() {
        let blocks = [const { Cell::new(0) }; 3];
        let count = |blocks: &'_ Cell<u32>| blocks.set(blocks.get() + 1);
        let tries = blocks.iter().map(|blocks| Try::alone(move || count(blocks))).collect();
        let best = Turns::new().best(tries, Duration::ZERO);
        let mut blocks = blocks.map(Cell::into_inner);
        blocks.sort_unstable();
        assert_eq!(blocks, [TURNS, TURNS, TURNS + 1]);
        assert!(best.rate.is_finite());
    }
}
