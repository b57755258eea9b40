//! Integer sort, as the benchmark ISx (Hanebutte and Hemstad, 2015): each rank makes random keys, sends each to the
//! rank of its range, and sorts those that arrive.
//!
//! Keys travel in blocks: by the lanes of an [`Aggregator`](probeline::containers::Aggregator), or by queues
//! ([`Queue`](probeline::containers::Queue)), one on each rank.

mod carrier;
mod radix;
#[cfg(test)]
mod tests;

use fastrand::Rng;
use probeline::containers::aggregator;
use probeline::transport::{Exchange, Owner, Sizes, Transport};

pub use self::carrier::Carrier;
use self::carrier::{BLOCK_KEYS, Block, Link};
use crate::Error;
use crate::gather::others;

/// Bits of a key.
pub const KEY_BITS: u32 = 28;
/// The most keys that a rank makes.
const MAX_KEYS: u64 = 1 << 32;

/// The parameters. All ranks give the same.
#[derive(Clone, Debug)]
pub struct Options {
    /// Keys that a rank makes.
    pub keys: u64,
    /// What carries keys to other ranks.
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
    /// Making keys.
    pub make_ns: u64,
    /// Sending and receiving keys.
    pub exchange_ns: u64,
    /// Sorting.
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
    let mut sorter = Sorter { me: exchange.me(), ranks: exchange.owners(), ..Sorter::default() };
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
    Ok((times, sorter.received))
}

/// The keys of a rank.
#[derive(Default)]
struct Sorter {
    me: Owner,
    ranks: u32,
    made: Vec<u32>,
    /// Those of this rank's range.
    received: Vec<u32>,
    /// As long as `received`, for sorting.
    scratch: Vec<u32>,
}

impl Sorter {
    fn make(&mut self, keys: u64, seed: u64) {
        let mut random = Rng::with_seed(seed.wrapping_mul(1 << 16).wrapping_add(self.me.0.into()));
        self.made.clear();
        self.made.extend((0..keys).map(|_| random.u32(..) >> (u32::BITS - KEY_BITS)));
    }

    /// Returns the rank in whose range a key is.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "less than the number of ranks")]
    fn rank(&self, key: u32) -> u32 {
        ((u64::from(key) * u64::from(self.ranks)) >> KEY_BITS) as u32
    }

    /// Sends the keys that this rank has made, and receives those of its range.
    fn exchange<T: Transport>(
        &mut self,
        link: &mut Link<T>,
        exchange: &mut dyn Exchange,
    ) -> Result<(), Error> {
        let made = core::mem::take(&mut self.made);
        let mut received = core::mem::take(&mut self.received);
        received.clear();
        let mut receive = |block: &Block| received.extend_from_slice(carrier::keys(block));
        let mut blocks = vec![carrier::EMPTY; self.ranks as usize];
        for key in &made {
            let rank = self.rank(*key);
            let block = &mut blocks[rank as usize];
            carrier::push(block, *key);
            if carrier::keys(block).len() == BLOCK_KEYS {
                match rank == self.me.0 {
                    true => receive(block),
                    false => link.send(Owner(rank), block, &mut receive)?,
                }
                *block = carrier::EMPTY;
            }
        }
        receive(&blocks[self.me.0 as usize]);
        for to in others(self.me, self.ranks) {
            let block = &blocks[to.0 as usize];
            if !carrier::keys(block).is_empty() {
                link.send(to, block, &mut receive)?;
            }
        }
        link.finish(exchange, &mut receive)?;
        (self.made, self.received) = (made, received);
        Ok(())
    }

    fn sort(&mut self) {
        let width = (1_u64 << KEY_BITS).div_ceil(self.ranks.into());
        let start = (u64::from(self.me.0) << KEY_BITS).div_ceil(self.ranks.into());
        let start = u32::try_from(start).unwrap_or(u32::MAX);
        radix::sort(&mut self.received, &mut self.scratch, start, width);
    }

    /// Checks that the keys of all ranks are in their ranges.
    fn verify_ranges(&self, exchange: &mut dyn Exchange) -> Result<(), Error> {
        let strays = self.received.iter().filter(|key| self.rank(**key) != self.me.0).count();
        match exchange.sum(strays as u64)? {
            0 => Ok(()),
            strays => {
                Err(Error::Wrong(format!("{strays} keys are not on the ranks of their ranges")))
            }
        }
    }

    /// Checks that the keys of all ranks are in order, and that they are those which the ranks have made: as many,
    /// with the same sum of hashes.
    fn verify(&self, exchange: &mut dyn Exchange) -> Result<(), Error> {
        if exchange.sum((!self.received.is_sorted()).into())? > 0 {
            return Err(Error::Wrong("keys are out of order".to_owned()));
        }
        let sums = [
            ("keys", self.made.len() as u64, self.received.len() as u64),
            ("as the sum of hashes of keys", sum(&self.made), sum(&self.received)),
        ];
        for (what, made, sorted) in sums {
            let (made, sorted) = (exchange.sum(made)?, exchange.sum(sorted)?);
            if made != sorted {
                return Err(Error::Wrong(format!("{made} {what} were made, and {sorted} sorted")));
            }
        }
        Ok(())
    }
}

/// Returns the sum of the hashes of keys, of 24 bits each.
fn sum(keys: &[u32]) -> u64 {
    let hash = |key: &u32| {
        let hash = (u64::from(*key) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash ^ hash >> 32).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40
    };
    keys.iter().map(hash).sum()
}
