//! The variants of an operation: all are tried, then the fastest is measured.

use core::array;
use core::hint::black_box;
use core::mem;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire};
use core::time::Duration;
use std::time::Instant;

use super::lines::Lines;
use super::prefetch;
use super::random::Random;

/// Operations between two readings of the clock: about 15 us of fast ones, half a millisecond of
/// dependent ones. A multiple of all prefetch distances.
const BLOCK: u32 = 1024;
/// Rounds in which all variants take turns, so that no variant is judged by a moment in which other
/// processes had the machine.
const ROUNDS: u32 = 4;
/// The rounds take 1/4 of the time. On a busy machine the fastest variant is the undisturbed one,
/// so it is measured again for the rest of the time.
const ROUNDS_SHARE: u32 = 4;

/// A variant, and its measured time.
pub(super) struct Variant<'a> {
    /// Executes [`BLOCK`] operations.
    block: Box<dyn FnMut() + 'a>,
    blocks: u32,
    took: Duration,
}

impl<'a> Variant<'a> {
    fn new(block: impl FnMut() + 'a) -> Self {
        Self { block: Box::new(block), blocks: 0, took: Duration::ZERO }
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

/// The end of the next turn. All ends are computed from the start of the first turn, so that cores
/// that start together measure the same operation at the same time.
pub(super) struct Schedule(Instant);

impl Schedule {
    pub(super) fn new() -> Self {
        Self(Instant::now())
    }

    /// Tries all variants and measures the fastest, for `time` in total. Each turn executes at
    /// least one block.
    pub(super) fn best(&mut self, variants: Vec<Variant<'_>>, time: Duration) -> f64 {
        let each =
            time / ROUNDS_SHARE / ROUNDS / u32::try_from(variants.len()).unwrap_or(u32::MAX).max(1);
        let end = self.0 + time;
        let fastest = self.fastest(variants, each);
        self.0 = end;
        fastest.map_or(0.0, |mut fastest| {
            (fastest.blocks, fastest.took) = (0, Duration::ZERO);
            fastest.run(end);
            fastest.rate()
        })
    }

    /// Returns the fastest of the variants, each of which has the time `each` in each round.
    fn fastest<'a>(
        &mut self,
        mut variants: Vec<Variant<'a>>,
        each: Duration,
    ) -> Option<Variant<'a>> {
        for _ in 0..ROUNDS {
            for variant in &mut variants {
                self.0 += each;
                variant.run(self.0);
            }
        }
        variants.into_iter().max_by(|one, other| one.rate().total_cmp(&other.rate()))
    }
}

pub(super) fn dependent_reads<'a, L: Lines + 'a>(lines: L) -> Variant<'a> {
    let mut random = Random::with_random_seed();
    let mut value = 0;
    Variant::new(move || {
        for _ in 0..BLOCK {
            value = load(lines.pick(random.next().wrapping_add(value)));
        }
        black_box(value);
    })
}

/// How the lines of prefetched operations are chosen.
#[derive(Clone, Copy)]
pub(super) enum Chosen<'a> {
    /// By random numbers that the CPU computes.
    AtRandom,
    /// By random keys that are read from memory in order, over and over.
    ByKeys(&'a [u64]),
}

/// Numbers made of keys in memory. A random number changes in each pass over the keys, so that no
/// line is chosen again by the same key: it would be in a cache.
struct Keyed<'a> {
    keys: &'a [u64],
    next: usize,
    salt: Random,
}

impl Keyed<'_> {
    #[inline(always)]
    fn next(&mut self) -> u64 {
        let Some(key) = self.keys.get(self.next) else { return self.next_pass() };
        self.next += 1;
        key.wrapping_add(self.salt.present())
    }

    #[cold]
    fn next_pass(&mut self) -> u64 {
        self.next = 0;
        self.salt.next()
    }
}

pub(super) fn prefetched_reads<'a, L: Lines + 'a>(
    lines: L,
    chosen: Chosen<'a>,
) -> Vec<Variant<'a>> {
    let mut variants = distances(lines, chosen, prefetch::near, load);
    variants.extend(distances(lines, chosen, prefetch::far, load));
    variants
}

/// Returns a read and a compare-and-swap with each hint and at each prefetch distance.
pub(super) fn reads_then_swaps<'a, L: Lines + 'a>(
    lines: L,
    chosen: Chosen<'a>,
) -> Vec<Variant<'a>> {
    let mut variants = distances(lines, chosen, prefetch::near, read_then_swap);
    variants.extend(distances(lines, chosen, prefetch::far, read_then_swap));
    variants.extend(distances(lines, chosen, prefetch::to_write, read_then_swap));
    variants
}

fn distances<'a, L: Lines + 'a>(
    lines: L,
    chosen: Chosen<'a>,
    prefetch: impl Fn(&AtomicU64) + Copy + 'a,
    operation: impl Fn(&AtomicU64) -> u64 + Copy + 'a,
) -> Vec<Variant<'a>> {
    let access = (prefetch, operation);
    match chosen {
        Chosen::AtRandom => {
            let numbers = || {
                let mut random = Random::with_random_seed();
                move || random.next()
            };
            all_distances(lines, numbers, access)
        }
        Chosen::ByKeys(keys) => {
            let numbers = || {
                let mut keyed = Keyed { keys, next: 0, salt: Random::with_random_seed() };
                move || keyed.next()
            };
            all_distances(lines, numbers, access)
        }
    }
}

fn all_distances<'a, L: Lines + 'a, N: FnMut() -> u64 + 'a>(
    lines: L,
    numbers: impl Fn() -> N,
    access: (impl Fn(&AtomicU64) + Copy + 'a, impl Fn(&AtomicU64) -> u64 + Copy + 'a),
) -> Vec<Variant<'a>> {
    vec![
        rolling::<8, _>(lines, numbers(), access),
        rolling::<16, _>(lines, numbers(), access),
        rolling::<32, _>(lines, numbers(), access),
        rolling::<64, _>(lines, numbers(), access),
    ]
}

/// Prefetches one line and executes the operation on the line prefetched `AHEAD` lines before. This
/// was never slower than a block of prefetches before a block of operations.
fn rolling<'a, const AHEAD: usize, L: Lines + 'a>(
    lines: L,
    mut number: impl FnMut() -> u64 + 'a,
    (prefetch, operation): (impl Fn(&AtomicU64) + 'a, impl Fn(&AtomicU64) -> u64 + 'a),
) -> Variant<'a> {
    // Stores random numbers or keys, not addresses: computing an address is faster than loading it.
    let mut coming: [u64; AHEAD] = array::from_fn(|_| number());
    Variant::new(move || {
        let mut sum = 0;
        for _ in 0..BLOCK as usize / AHEAD {
            for place in &mut coming {
                let next = number();
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

#[inline(always)]
fn read_then_swap(word: &AtomicU64) -> u64 {
    let value = load(word);
    let (Ok(found) | Err(found)) = word.compare_exchange(value, value, AcqRel, Acquire);
    found
}
