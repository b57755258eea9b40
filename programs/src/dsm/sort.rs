//! Integer sort of the NAS parallel benchmarks (NPB 3.4, IS): counts of keys in shared memory, from which each rank
//! knows the place of its keys.
//!
//! Three tables of counts take turns: one is filled part by part under locks, one was filled in the last iteration
//! and may still be read, and one is cleared for the next iteration. So one barrier an iteration is enough.

use core::cell::RefCell;

use super::{Kernel, Shared, equal, part};
use crate::Error;

const ITERATIONS: u32 = 10;
/// The tables of counts.
const TABLES: usize = 3;
/// Locks of a region by default.
const LOCKS: u32 = 16;
/// The generator: multiplies by 5^13 modulo 2^46.
const FACTOR: u64 = 1_220_703_125;
const SEED: u64 = 314_159_265;
const MODULUS_BITS: u32 = 46;
/// Random numbers of a key.
const DRAWS: u64 = 4;

/// Operations for each key that is counted, and for each count that is added to the common ones, cleared and checked.
const KEY_FLOPS: usize = 4;
const COUNT_FLOPS: usize = 5;

/// The size of the problem: 2^16, 2^20, 2^23 or 2^24 keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// 2^16 keys of 11 bits.
    S,
    /// 2^20 keys of 16 bits.
    W,
    /// 2^23 keys of 19 bits.
    A,
    /// 2^24 keys of 19 bits, no class of NPB: as many keys as Noronha and Panda sort.
    P,
}

/// The published figures of a class.
struct Published {
    keys: u64,
    key_bits: u32,
    /// The keys whose ranks are known, by their index.
    tests: [u64; 5],
    ranks: [i64; 5],
    /// The tests whose ranks grow with the iteration, and the iteration in which they have the rank above.
    /// None in a class without published ranks.
    growing: usize,
    grows_from: i64,
    shrinks_from: i64,
}

impl Class {
    fn published(self) -> Published {
        match self {
            Self::S => Published {
                keys: 1 << 16,
                key_bits: 11,
                tests: [48_427, 17_148, 23_627, 62_548, 4_431],
                ranks: [0, 18, 346, 64_917, 65_463],
                growing: 3,
                grows_from: 0,
                shrinks_from: 0,
            },
            Self::W => Published {
                keys: 1 << 20,
                key_bits: 16,
                tests: [357_773, 934_767, 875_723, 898_999, 404_505],
                ranks: [1_249, 11_698, 1_039_987, 1_043_896, 1_048_018],
                growing: 2,
                grows_from: 2,
                shrinks_from: 0,
            },
            Self::A => Published {
                keys: 1 << 23,
                key_bits: 19,
                tests: [2_112_377, 662_041, 5_336_171, 3_642_833, 4_250_760],
                ranks: [104, 17_523, 123_928, 8_288_932, 8_388_264],
                growing: 3,
                grows_from: 1,
                shrinks_from: 1,
            },
            Self::P => Published { keys: 1 << 24, growing: 0, ..Self::A.published() },
        }
    }
}

/// Returns `FACTOR` to a power, times the seed.
fn nth_random(nth: u64) -> u64 {
    let mask = (1 << MODULUS_BITS) - 1;
    let (mut power, mut factor, mut left) = (SEED, FACTOR, nth);
    while left > 0 {
        if left & 1 == 1 {
            power = power.wrapping_mul(factor) & mask;
        }
        factor = factor.wrapping_mul(factor) & mask;
        left >>= 1;
    }
    power
}

/// Returns the keys of these indices.
fn keys(indices: core::ops::Range<u64>, key_bits: u32) -> Vec<u32> {
    let mut random = nth_random(indices.start * DRAWS);
    let mut draw = || {
        random = random.wrapping_mul(FACTOR) & ((1 << MODULUS_BITS) - 1);
        random as f64 / (1_u64 << MODULUS_BITS) as f64
    };
    let quarter = f64::from(1_u32 << key_bits) / 4.0;
    // Below 2^19.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let mut key = || (quarter * (draw() + draw() + draw() + draw())) as u32;
    indices.map(|_| key()).collect()
}

pub(super) struct Sort {
    published: Published,
    /// The keys of this rank.
    keys: RefCell<Vec<u32>>,
}

impl Sort {
    pub(super) fn new(class: Class) -> Self {
        Self { published: class.published(), keys: RefCell::default() }
    }

    fn len(&self) -> usize {
        1 << self.published.key_bits
    }

    /// Counts the keys of this rank.
    fn count(&self, iteration: u32, is_first: bool) -> Vec<u32> {
        let mut keys = self.keys.borrow_mut();
        if is_first {
            let largest = (1 << self.published.key_bits) - iteration;
            keys[iteration as usize] = iteration;
            keys[(iteration + ITERATIONS) as usize] = largest;
        }
        let mut counts = vec![0; self.len()];
        keys.iter().for_each(|key| counts[*key as usize] += 1);
        counts
    }

    /// Compares the ranks of the test keys with the published ones.
    fn check(&self, counts: &[u32], iteration: u32) -> Result<(), Error> {
        let Published { tests, ranks, growing, grows_from, shrinks_from, key_bits, .. } =
            self.published;
        let count = if growing > 0 { tests.len() } else { 0 };
        for (nth, (index, base)) in tests.into_iter().zip(ranks).take(count).enumerate() {
            let key = keys(index..index + 1, key_bits)[0];
            let found: i64 = counts[..key as usize].iter().map(|count| i64::from(*count)).sum();
            let iteration = i64::from(iteration);
            let moved =
                if nth < growing { iteration - grows_from } else { shrinks_from - iteration };
            if found != base + moved {
                return Err(Error::Wrong(format!(
                    "key {index} has rank {found} in iteration {iteration}, not {}",
                    base + moved
                )));
            }
        }
        let total: u64 = counts.iter().map(|count| u64::from(*count)).sum();
        if total != self.published.keys {
            let keys = self.published.keys;
            return Err(Error::Wrong(format!("{total} keys were counted, of {keys}")));
        }
        Ok(())
    }

    fn iterate(
        &self,
        memory: &mut impl Shared<u32>,
        iteration: u32,
        turn: usize,
    ) -> Result<(), Error> {
        let (rank, ranks, len) = (memory.rank(), memory.ranks(), self.len());
        let counts = self.count(iteration, rank == 0);
        memory.work((self.keys.borrow().len() * KEY_FLOPS + len * COUNT_FLOPS) as u64);
        let table = turn % TABLES * len;
        // Each rank begins with a different part, so that no rank waits.
        for nth in 0..ranks {
            let nth = (rank + nth) % ranks;
            let keys = part(len, nth, ranks);
            #[allow(clippy::cast_possible_truncation, reason = "fewer than locks")]
            memory.locked(nth as u32 % LOCKS, |memory| {
                let all = memory.edit(table + keys.start..table + keys.end)?;
                all.iter_mut().zip(&counts[keys]).for_each(|(all, own)| *all += own);
                Ok(())
            })?;
        }
        memory.barrier()?;
        self.check(memory.view(table..table + len)?, iteration)?;
        let cleared = (turn + 2) % TABLES * len;
        let own = part(len, rank, ranks);
        memory.edit(cleared + own.start..cleared + own.end)?.fill(0);
        Ok(())
    }
}

impl Kernel<u32> for Sort {
    fn elements(&self) -> usize {
        TABLES * self.len()
    }

    fn fill(&self, memory: &mut impl Shared<u32>) -> Result<(), Error> {
        #[allow(clippy::cast_possible_truncation, reason = "at most 2^24")]
        let count = self.published.keys as usize;
        let part = part(count, memory.rank(), memory.ranks());
        *self.keys.borrow_mut() = keys(part.start as u64..part.end as u64, self.published.key_bits);
        self.iterate(memory, 1, 0)
    }

    fn run(&self, memory: &mut impl Shared<u32>) -> Result<(), Error> {
        for iteration in 1..=ITERATIONS {
            self.iterate(memory, iteration, iteration as usize)?;
        }
        Ok(())
    }

    /// Each iteration was checked; the last counts have no published ranks in one class.
    fn verify(&self, memory: &mut impl Shared<u32>, sequential: &[u32]) -> Result<(), Error> {
        let first = ITERATIONS as usize % TABLES * self.len();
        equal(memory, sequential, core::iter::once(first..first + self.len()))
    }
}
