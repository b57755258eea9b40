//! Integer sort of the NAS parallel benchmarks (NPB 3.4, IS), by buckets in shared memory, as the TreadMarks package
//! has it: each rank places its keys in a common array, from which it then takes those of its own buckets.
//!
//! Buckets go to ranks in their order, so that each rank has about as many keys. The keys that one rank places for
//! another lie together.

use core::cell::RefCell;
use core::ops::Range;

use super::{Kernel, Shared, part};
use crate::Error;

/// Iterations of NPB, in which two keys change.
const ITERATIONS: u32 = 10;
/// Buckets by the upper bits of a key: NPB's number.
const BUCKET_BITS: u32 = 10;
const BUCKETS: usize = 1 << BUCKET_BITS;
/// The generator: multiplies by 5^13 modulo 2^46.
const FACTOR: u64 = 1_220_703_125;
const SEED: u64 = 314_159_265;
const MODULUS_BITS: u32 = 46;
/// Random numbers of a key.
const DRAWS: u64 = 4;

/// Operations for each key: to count its bucket, to place it, and to count it in its bucket; and for each number of a
/// key, of which the keys before it are counted.
const KEY_FLOPS: usize = 4 + 6 + 4;
const RANK_FLOPS: usize = 2;

/// The size of the problem: 2^16, 2^20, 2^23 or 2^24 keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// 2^16 keys of 11 bits.
    S,
    /// 2^20 keys of 16 bits.
    W,
    /// 2^23 keys of 19 bits.
    A,
    /// 2^24 keys of 19 bits, no class of NPB: as many keys as Noronha and Panda sort, in 8 iterations, which fit their
    /// counts of diffs.
    P,
}

/// The published figures of a class.
struct Published {
    keys: usize,
    key_bits: u32,
    /// The keys whose ranks are known, by their index.
    tests: [u64; 5],
    ranks: [i64; 5],
    /// The tests whose ranks grow with the iteration, and the iteration in which they have the rank above.
    /// None in a class without published ranks.
    growing: usize,
    grows_from: i64,
    shrinks_from: i64,
    iterations: u32,
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
                iterations: ITERATIONS,
            },
            Self::W => Published {
                keys: 1 << 20,
                key_bits: 16,
                tests: [357_773, 934_767, 875_723, 898_999, 404_505],
                ranks: [1_249, 11_698, 1_039_987, 1_043_896, 1_048_018],
                growing: 2,
                grows_from: 2,
                ..Self::S.published()
            },
            Self::A => Published {
                keys: 1 << 23,
                key_bits: 19,
                tests: [2_112_377, 662_041, 5_336_171, 3_642_833, 4_250_760],
                ranks: [104, 17_523, 123_928, 8_288_932, 8_388_264],
                grows_from: 1,
                shrinks_from: 1,
                ..Self::S.published()
            },
            Self::P => {
                Published { keys: 1 << 24, growing: 0, iterations: 8, ..Self::A.published() }
            }
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
fn keys(indices: Range<u64>, key_bits: u32) -> Vec<u32> {
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
    /// Ranks for which the memory has counts.
    ranks: usize,
    /// The keys of this rank.
    keys: RefCell<Vec<u32>>,
}

/// The keys of all ranks by their buckets.
struct Division {
    /// The rank that gets a bucket.
    ranks: Vec<usize>,
    /// The elements of the keys that each rank gets, in order of ranks.
    regions: Vec<Range<usize>>,
    /// Where this rank places the first key for each rank.
    places: Vec<usize>,
}

impl Sort {
    pub(super) fn new(class: Class, ranks: usize) -> Self {
        Self { published: class.published(), ranks, keys: RefCell::default() }
    }

    fn bucket(&self, key: u32) -> usize {
        (key >> (self.published.key_bits - BUCKET_BITS)) as usize
    }

    /// Tells the others how many keys of this rank each bucket has.
    fn count(&self, memory: &mut impl Shared<u32>, iteration: u32) -> Result<(), Error> {
        let mut keys = self.keys.borrow_mut();
        let rank = memory.rank();
        if rank == 0 {
            keys[iteration as usize] = iteration;
            keys[(iteration + ITERATIONS) as usize] = (1 << self.published.key_bits) - iteration;
        }
        let mut counts = vec![0; BUCKETS];
        keys.iter().for_each(|key| counts[self.bucket(*key)] += 1);
        memory.overwrite(rank * BUCKETS..(rank + 1) * BUCKETS)?.copy_from_slice(&counts);
        Ok(())
    }

    /// Divides the buckets among ranks.
    fn divide(&self, memory: &mut impl Shared<u32>) -> Result<Division, Error> {
        let (rank, ranks) = (memory.rank(), memory.ranks());
        let counts = memory.view(0..ranks * BUCKETS)?;
        let count = |rank: usize, bucket: usize| counts[rank * BUCKETS + bucket] as usize;
        let total: usize = counts.iter().map(|count| *count as usize).sum();
        if total != self.published.keys {
            return Err(Error::Wrong(format!("{total} keys, not {}", self.published.keys)));
        }
        let first = self.ranks * BUCKETS;
        let (mut before, mut lens, mut lower) = (0, vec![0; ranks], vec![0; ranks]);
        let taken = (0..BUCKETS).map(|bucket| {
            let taker = (before * ranks / total).min(ranks - 1);
            let of_bucket: usize = (0..ranks).map(|rank| count(rank, bucket)).sum();
            lens[taker] += of_bucket;
            lower[taker] += (0..rank).map(|rank| count(rank, bucket)).sum::<usize>();
            before += of_bucket;
            taker
        });
        let taken = taken.collect();
        let mut end = first;
        let regions: Vec<_> = lens
            .into_iter()
            .map(|len| {
                end += len;
                end - len..end
            })
            .collect();
        let places = regions.iter().zip(lower).map(|(region, lower)| region.start + lower);
        Ok(Division { places: places.collect(), ranks: taken, regions })
    }

    /// Places the keys of this rank, in each iteration in another order: what it places is new.
    fn place(
        &self,
        memory: &mut impl Shared<u32>,
        division: &Division,
        turn: u32,
    ) -> Result<(), Error> {
        let mut placed = vec![Vec::new(); division.regions.len()];
        let keys = self.keys.borrow();
        let (last, first) = keys.split_at(turn as usize * keys.len() / 16);
        for key in first.iter().chain(last) {
            placed[division.ranks[self.bucket(*key)]].push(*key);
        }
        for (place, keys) in division.places.iter().zip(placed) {
            memory.overwrite(*place..place + keys.len())?.copy_from_slice(&keys);
        }
        Ok(())
    }

    /// Ranks the keys that this rank gets, and compares the ranks of test keys with the published ones.
    fn rank(
        &self,
        memory: &mut impl Shared<u32>,
        division: &Division,
        iteration: u32,
    ) -> Result<(), Error> {
        let me = memory.rank();
        let bits = self.published.key_bits - BUCKET_BITS;
        let first = division.ranks.partition_point(|rank| *rank < me) << bits;
        let end = division.ranks.partition_point(|rank| *rank <= me) << bits;
        let region = division.regions[me].clone();
        let mut counts = vec![0_usize; end - first];
        for key in memory.view(region.clone())? {
            let count = (*key as usize).checked_sub(first).and_then(|at| counts.get_mut(at));
            *count.ok_or_else(|| Error::Wrong(format!("rank {me} got key {key}")))? += 1;
        }
        let mut before = region.start - self.ranks * BUCKETS;
        for count in &mut counts {
            before += core::mem::replace(count, before);
        }
        memory.work((region.len() * KEY_FLOPS + counts.len() * RANK_FLOPS) as u64);
        self.published
            .check(iteration, |key| Some(*counts.get((key as usize).checked_sub(first)?)? as i64))
    }

    fn iterate(
        &self,
        memory: &mut impl Shared<u32>,
        iteration: u32,
        turn: u32,
    ) -> Result<(), Error> {
        self.count(memory, iteration)?;
        memory.barrier()?;
        let division = self.divide(memory)?;
        self.place(memory, &division, turn)?;
        memory.barrier()?;
        self.rank(memory, &division, iteration)
    }
}

impl Published {
    /// Compares the ranks of test keys with those that were found.
    fn check(&self, iteration: u32, rank: impl Fn(u32) -> Option<i64>) -> Result<(), Error> {
        let count = if self.growing > 0 { self.tests.len() } else { 0 };
        for (nth, (index, base)) in self.tests.into_iter().zip(self.ranks).take(count).enumerate() {
            let Some(found) = rank(keys(index..index + 1, self.key_bits)[0]) else { continue };
            let iteration = i64::from(iteration);
            let moved = if nth < self.growing {
                iteration - self.grows_from
            } else {
                self.shrinks_from - iteration
            };
            if found != base + moved {
                return Err(Error::Wrong(format!(
                    "key {index} has rank {found} in iteration {iteration}, not {}",
                    base + moved
                )));
            }
        }
        Ok(())
    }
}

impl Kernel<u32> for Sort {
    fn elements(&self) -> usize {
        self.ranks * BUCKETS + self.published.keys
    }

    fn fill(&self, memory: &mut impl Shared<u32>) -> Result<(), Error> {
        let part = part(self.published.keys, memory.rank(), memory.ranks());
        *self.keys.borrow_mut() = keys(part.start as u64..part.end as u64, self.published.key_bits);
        self.iterate(memory, 1, 0)
    }

    fn run(&self, memory: &mut impl Shared<u32>) -> Result<(), Error> {
        (1..=self.published.iterations)
            .try_for_each(|iteration| self.iterate(memory, iteration, iteration))
    }

    /// Each iteration was checked. Compares how often each key is in the regions of the ranks.
    fn verify(&self, memory: &mut impl Shared<u32>, sequential: &[u32]) -> Result<(), Error> {
        let first = self.ranks * BUCKETS;
        let count = |keys: &[u32]| {
            let mut counts = vec![0_u32; 1 << self.published.key_bits];
            keys.iter().for_each(|key| counts[*key as usize] += 1);
            counts
        };
        let placed = memory.view(first..self.elements())?;
        if count(placed) == count(&sequential[first..]) {
            return Ok(());
        }
        Err(Error::Wrong("the keys differ from those of the sequential program".to_owned()))
    }
}
