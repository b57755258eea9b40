//! Integer sort, as the benchmark ISx (Hanebutte and Hemstad, 2015): each rank makes random keys, sends each to the
//! rank of its range, and sorts those that arrive.
//!
//! The range of each rank has parts, which the senders already divide: a part stays in a CPU's cache while it is
//! sorted. Keys travel in blocks of one part: by the lanes of an [`Aggregator`](probeline::containers::Aggregator), or by queues
//! ([`Queue`](probeline::containers::Queue)), one on each rank.

mod carrier;

use core::ops::Range;

use fastrand::Rng;
use probeline::containers::aggregator;
use probeline::transport::{Exchange, Owner, Sizes, Transport};

pub use self::carrier::Carrier;
use self::carrier::{BLOCK_KEYS, Block, Link};
use crate::Error;
use crate::gather::check_sum;

/// Bits of a key.
pub const KEY_BITS: u32 = 28;
/// The most keys that a rank makes.
const MAX_KEYS: u64 = 1 << 32;
/// The most parts of all ranks together: the blocks of a sender, one of each part, fit a second-level cache.
const MAX_PARTS: u32 = 1024;

/// The parameters. All ranks give the same.
#[derive(Clone, Debug)]
pub struct Options {
    /// Keys that a rank makes.
    pub keys: u64,
    /// The carrier of keys to other ranks.
    pub carrier: Carrier,
    /// The seed of the keys.
    pub seed: u64,
}

impl Options {
    /// Returns the sizes of the engine of a job of this many ranks.
    #[must_use]
    pub fn sizes(&self, ranks: u32) -> Sizes {
        carrier::sizes(self.carrier, ranks)
    }

    /// Checks the parameters for this many ranks.
    ///
    /// # Errors
    /// [`Error::Parameter`].
    pub fn check(&self, ranks: u32) -> Result<(), Error> {
        if !(1..=MAX_KEYS).contains(&self.keys) {
            let keys = self.keys;
            return Err(Error::Parameter(format!(
                "a rank would make {keys} keys: give 1 to {MAX_KEYS} for each rank"
            )));
        }
        if self.carrier == Carrier::Lanes && ranks > aggregator::MAX_RANKS {
            return Err(Error::Parameter(format!(
                "lanes are for up to {} ranks, and there are {ranks}: take queues",
                aggregator::MAX_RANKS
            )));
        }
        Ok(())
    }
}

/// The times of one sort by the clock of this rank, in nanoseconds. Each step ends when all ranks have ended it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Time of making the keys.
    pub make_ns: u64,
    /// Time of sending and receiving keys.
    pub exchange_ns: u64,
    /// Time of sorting the received keys.
    pub sort_ns: u64,
}

/// Sorts once untimed and once more, together with all other ranks, and verifies both results. `engine` has
/// [`Options::sizes`], and `now_ns` returns the time on its clock. Returns the times of the second sort, and the keys
/// of this rank.
///
/// # Errors
/// [`Error::Wrong`] if the result is wrong; [`Error::Parameter`]; or a rank failed.
pub fn run<T: Transport>(
    options: &Options,
    engine: T,
    now_ns: fn(&T) -> u64,
    exchange: &mut dyn Exchange,
) -> Result<(Times, Vec<u32>), Error> {
    options.check(exchange.owners())?;
    let mut link = Link::open(options.carrier, engine, exchange)?;
    let mut sorter = Sorter::new(exchange.me(), exchange.owners());
    let mut times = Times::default();
    for seed in [!options.seed, options.seed] {
        let now_ns = |link: &Link<T>, exchange: &mut dyn Exchange| -> Result<u64, Error> {
            exchange.barrier()?;
            Ok(now_ns(link.transport()))
        };
        let begun_ns = now_ns(&link, exchange)?;
        sorter.make(options.keys, seed);
        let made_ns = now_ns(&link, exchange)?;
        sorter.exchange(&mut link, exchange)?;
        let exchanged_ns = now_ns(&link, exchange)?;
        sorter.verify_ranges(exchange)?;
        let sorting_ns = now_ns(&link, exchange)?;
        sorter.sort();
        let sorted_ns = now_ns(&link, exchange)?;
        sorter.verify(exchange)?;
        times = Times {
            make_ns: made_ns - begun_ns,
            exchange_ns: exchanged_ns - made_ns,
            sort_ns: sorted_ns - sorting_ns,
        };
    }
    Ok((times, sorter.parts.concat()))
}

/// The keys of a rank.
struct Sorter {
    me: Owner,
    ranks: u32,
    made: Vec<u32>,
    /// A rank's range has two to the power of these parts.
    part_bits: u32,
    /// Received keys by part of this rank's range.
    parts: Vec<Vec<u32>>,
    /// Memory for sorting a part.
    scratch: Vec<u32>,
}

impl Sorter {
    fn new(me: Owner, ranks: u32) -> Self {
        let part_bits = (MAX_PARTS / ranks).max(1).ilog2();
        let parts = vec![Vec::new(); 1 << part_bits];
        Self { me, ranks, made: Vec::new(), part_bits, parts, scratch: Vec::new() }
    }

    fn make(&mut self, keys: u64, seed: u64) {
        let mut random = Rng::with_seed(seed.wrapping_mul(1 << 16).wrapping_add(self.me.0.into()));
        self.made.clear();
        self.made.extend((0..keys).map(|_| random.u32(..) >> (u32::BITS - KEY_BITS)));
    }

    /// Returns the number of parts of all ranks.
    fn all_parts(&self) -> u32 {
        self.ranks << self.part_bits
    }

    /// Returns the first part of this rank, among those of all ranks.
    fn first_part(&self) -> u32 {
        self.me.0 << self.part_bits
    }

    /// Returns the part of a key, of `all` parts of all ranks.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "less than the number of parts")]
    fn part(key: u32, all: u32) -> u32 {
        ((u64::from(key) * u64::from(all)) >> KEY_BITS) as u32
    }

    /// Sends the keys that this rank has made, and receives those of its range.
    fn exchange<T: Transport>(
        &mut self,
        link: &mut Link<T>,
        exchange: &mut dyn Exchange,
    ) -> Result<(), Error> {
        let (all, first, bits) = (self.all_parts(), self.first_part(), self.part_bits);
        let parts = &mut self.parts;
        parts.iter_mut().for_each(Vec::clear);
        // Blocks of others' parts are dropped, and missed when the numbers of keys are compared.
        let mut receive = |block: &Block| {
            if let Some(part) = parts.get_mut(carrier::part(block).wrapping_sub(first) as usize) {
                part.extend_from_slice(carrier::keys(block));
            }
        };
        let mut send = |block: &Block, receive: &mut dyn FnMut(&Block)| -> Result<(), Error> {
            let to = Owner(carrier::part(block) >> bits);
            if to != self.me {
                return link.send(to, block, &mut &mut *receive);
            }
            receive(block);
            Ok(())
        };
        let mut blocks: Vec<_> = (0..all).map(carrier::empty).collect();
        for key in &self.made {
            let part = Self::part(*key, all);
            let block = &mut blocks[part as usize];
            carrier::push(block, *key);
            if carrier::keys(block).len() == BLOCK_KEYS {
                send(block, &mut receive)?;
                *block = carrier::empty(part);
            }
        }
        // The own parts come last: no block of another rank waits for them.
        blocks.rotate_left(first as usize);
        for block in blocks.iter().rev().filter(|block| !carrier::keys(block).is_empty()) {
            send(block, &mut receive)?;
        }
        link.finish(exchange, &mut receive)
    }

    fn sort(&mut self) {
        let (all, first) = (u64::from(self.all_parts()), u64::from(self.first_part()));
        for (part, keys) in (first..).zip(&mut self.parts) {
            let [start, end] = [part, part + 1].map(|part| (part << KEY_BITS).div_ceil(all));
            radix_sort(keys, &mut self.scratch, start..end);
        }
    }

    /// Checks that the keys of all ranks are in the ranges of their parts.
    fn verify_ranges(&self, exchange: &mut dyn Exchange) -> Result<(), Error> {
        let all = self.all_parts();
        let strays = |(part, keys): (u32, &Vec<u32>)| {
            keys.iter().filter(|key| Self::part(**key, all) != part).count()
        };
        let strays: usize = (self.first_part()..).zip(&self.parts).map(strays).sum();
        check_sum(exchange, strays as u64, 0, "keys are not on the ranks of their ranges")
    }

    /// Checks that the keys of all ranks are in order, and that they are those which the ranks have made: as many,
    /// with the same sum of hashes.
    fn verify(&self, exchange: &mut dyn Exchange) -> Result<(), Error> {
        let received = || self.parts.iter().flatten();
        check_sum(exchange, (!received().is_sorted()).into(), 0, "ranks have keys out of order")?;
        let made = exchange.sum(self.made.len() as u64)?;
        check_sum(exchange, received().count() as u64, made, "keys were sorted")?;
        let made = exchange.sum(sum(self.made.iter()))?;
        check_sum(exchange, sum(received()), made, "is the sum of hashes of sorted keys")
    }
}

/// Returns the sum of the hashes of keys, of 24 bits each.
fn sum<'a>(keys: impl Iterator<Item = &'a u32>) -> u64 {
    let hash = |key: &u32| {
        let hash = (u64::from(*key) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash ^ hash >> 32).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40
    };
    keys.map(hash).sum()
}

/// The most bits of a digit.
const DIGIT_BITS: u32 = 11;

/// Sorts keys of a range. `scratch` becomes as long as `keys`.
#[allow(clippy::cast_possible_truncation, reason = "the range is one of keys")]
fn radix_sort(keys: &mut Vec<u32>, scratch: &mut Vec<u32>, range: Range<u64>) {
    let start = range.start as u32;
    let bits = u64::BITS - (range.end - range.start).saturating_sub(1).leading_zeros();
    let passes = bits.div_ceil(DIGIT_BITS);
    scratch.resize(keys.len(), 0);
    for pass in 0..passes {
        let digit_bits = bits.div_ceil(passes);
        let mask = (1 << digit_bits) - 1;
        distribute(keys, scratch, |key| (key - start) >> (pass * digit_bits) & mask);
        core::mem::swap(keys, scratch);
    }
}

/// Stores keys in order of a digit. Keys with equal digits keep their order.
fn distribute(from: &[u32], to: &mut [u32], digit: impl Fn(u32) -> u32) {
    let mut ends = [0_usize; 1 << DIGIT_BITS];
    from.iter().for_each(|key| ends[digit(*key) as usize] += 1);
    let mut next = 0;
    for end in &mut ends {
        (*end, next) = (next, next + *end);
    }
    for key in from {
        let end = &mut ends[digit(*key) as usize];
        to[*end] = *key;
        *end += 1;
    }
}

#[cfg(test)]
mod tests {
    use probeline::exchange::threads;
    use probeline::shm::Builder;
    use probeline::transport::conformance::on_threads;

    use super::*;

    /// Sorts by this many ranks; returns the keys of all in order of ranks.
    fn sort(options: &Options, ranks: u32) -> Vec<u32> {
        let sorted = on_threads(threads(ranks), |mut job| {
            let engine = Builder::new(options.sizes(ranks)).open(&mut job).unwrap();
            run(options, engine, |_| 0, &mut job).unwrap().1
        });
        sorted.concat()
    }

    #[test]
    fn ranks_sort_together() {
        for (carrier, ranks, keys) in [
            (Carrier::Lanes, 1, 1000),
            (Carrier::Queues, 1, 1),
            (Carrier::Lanes, 3, 20_000),
            (Carrier::Queues, 3, 20_000),
            (Carrier::Queues, 2, 40),
        ] {
            let options = Options { keys, carrier, seed: 7 };
            let sorted = sort(&options, ranks);
            let mut expected = Vec::new();
            for rank in 0..ranks {
                let mut sorter = Sorter::new(Owner(rank), ranks);
                sorter.make(keys, 7);
                expected.append(&mut sorter.made);
            }
            expected.sort_unstable();
            assert_eq!(sorted, expected, "{options:?} {ranks}");
        }
    }

    #[test]
    fn finds_wrong_results() {
        let alone = &mut probeline::transport::Alone;
        let sorter = |made: &[u32], received: &[u32]| Sorter {
            made: made.to_vec(),
            part_bits: 0,
            parts: vec![received.to_vec()],
            ..Sorter::new(Owner(0), 1)
        };
        sorter(&[3, 1, 3], &[1, 3, 3]).verify(alone).unwrap();
        for received in [&[3, 1, 3][..], &[1, 3], &[1, 1, 3], &[1, 2, 4]] {
            sorter(&[3, 1, 3], received).verify(alone).unwrap_err();
        }
        let stray = Sorter { ranks: 2, ..sorter(&[], &[1, 1 << 27]) };
        assert!(stray.verify_ranges(alone).unwrap_err().to_string().contains("1 keys"));
        Sorter { ranks: 2, ..sorter(&[], &[1, (1 << 27) - 1]) }.verify_ranges(alone).unwrap();
    }
}
