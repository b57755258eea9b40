//! What a transport does at best: READs, compare-and-swaps and fetch-and-adds of random words of
//! some owners, by size and by how many are in flight, without a table.

mod error;

use core::hint::black_box;
use core::ops::Range;
use core::time::Duration;

use probeline_transport::{Completion, Local, Owner, RemoteWord, Segment, Slot, Token, Transport};

pub use error::RemoteError;

use crate::random::Random;

/// Sizes of READs, in words: 8 B to 4 KiB.
pub const WORDS: [u32; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

/// Operations between two readings of the clock.
const BLOCK: u64 = 32;
/// Completions taken by one poll.
const ENDS: usize = 64;

/// Where operations go, and how long.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    /// Whose windows, each as likely.
    pub owners: &'a [Owner],
    /// Which words of each window; with a single one all that are in flight meet there. They must be 0 and hold nothing of anybody's: swaps put 0 in
    /// the place of 0, and 0 is what is added, so that they are 0 afterwards too.
    pub words: Range<u64>,
    /// The time for each measurement, by the engine's clock.
    pub time: Duration,
    /// Operations of each measurement at most, for a clock that costs nothing to stop.
    pub operations: u64,
}

/// One kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A READ of so many words.
    Read {
        /// At least 1.
        words: u32,
    },
    /// A compare-and-swap.
    Swap,
    /// A fetch-and-add, of 0.
    Add,
}

/// What was measured of one kind of operation with so many in flight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// What kind.
    pub operation: Operation,
    /// Operations in flight. With one the next goes where the result of the one before says, so
    /// that `1e9 / per_second` is its roundtrip in nanoseconds.
    pub depth: u32,
    /// Operations measured.
    pub operations: u64,
    /// Operations a second.
    pub per_second: f64,
}

/// What there is to measure on an engine and these words of windows: READs of those of [`WORDS`]
/// that one READ, a slot and the words take, and both atomics, each with 1, 2, 4 and so on up to as
/// many in flight as the engine takes.
#[must_use]
pub fn kinds<T: Transport>(engine: &T, words: &Range<u64>) -> Vec<(Operation, u32)> {
    let (caps, geometry) = (engine.caps(), engine.geometry());
    let most = caps.words_per_op.min(geometry.slot_words);
    let given = words.end.saturating_sub(words.start);
    let sizes = WORDS.into_iter().filter(|&words| words <= most && u64::from(words) <= given);
    let depths: Vec<u32> = depths(deepest(engine)).collect();
    let at_depths = |operation| depths.iter().map(move |&depth| (operation, depth));
    let reads = sizes.map(|words| Operation::Read { words });
    reads.chain([Operation::Swap, Operation::Add]).flat_map(at_depths).collect()
}

/// The most operations in flight: each READ has a slot of its own.
fn deepest<T: Transport>(engine: &T) -> u32 {
    engine.caps().depth.min(engine.geometry().slots)
}

/// 1, 2, 4 and so on, and the deepest.
fn depths(deepest: u32) -> impl Iterator<Item = u32> {
    let powers = (0..u32::BITS).map(|power| 1 << power);
    powers.take_while(move |&depth| depth < deepest).chain([deepest])
}

/// An engine that nothing else is in flight on, and its clock.
pub struct Meter<'a, T, N> {
    engine: &'a mut T,
    now_ns: N,
    plan: Plan<'a>,
    random: Random,
}

impl<'a, T: Transport, N: Fn(&T) -> u64> Meter<'a, T, N> {
    /// `now_ns` is the engine's clock, in nanoseconds; with the same `seed` operations go to the
    /// same words.
    ///
    /// # Errors
    /// [`RemoteError::NoOwners`], [`RemoteError::Words`] and [`RemoteError::InFlight`].
    pub fn new(
        engine: &'a mut T,
        now_ns: N,
        plan: Plan<'a>,
        seed: u64,
    ) -> Result<Self, RemoteError> {
        let window_words = engine.geometry().window_words;
        if plan.owners.is_empty() {
            return Err(RemoteError::NoOwners);
        }
        if plan.words.is_empty() || plan.words.end > window_words {
            return Err(RemoteError::Words { words: plan.words, window_words });
        }
        match engine.in_flight() {
            0 => Ok(Self { engine, now_ns, plan, random: Random::new(seed) }),
            in_flight => Err(RemoteError::InFlight(in_flight)),
        }
    }

    /// What there is to measure: [`kinds`] of its engine and words.
    #[must_use]
    pub fn kinds(&self) -> Vec<(Operation, u32)> {
        kinds(self.engine, &self.plan.words)
    }

    /// The most operations in flight here: each READ has a slot of its own.
    #[must_use]
    pub fn deepest(&self) -> u32 {
        deepest(self.engine)
    }

    /// Keeps `depth` operations in flight until the plan's time or operations are over, and waits
    /// for the last ones; every wait ends with a completion or the engine's fault.
    ///
    /// # Errors
    /// [`RemoteError`]: the depth is too deep, or what the engine refused or failed. Operations
    /// may then be in flight.
    pub fn rate(&mut self, operation: Operation, depth: u32) -> Result<Rate, RemoteError> {
        let deepest = self.deepest();
        if !(1..=deepest).contains(&depth) {
            return Err(RemoteError::Depth { depth, deepest });
        }
        let start_ns = self.now_ns();
        for slot in 0..depth {
            self.post(operation, slot, 0)?;
        }
        let (mut left, mut done) = (u64::from(depth), 0);
        let mut ends = [Completion::default(); ENDS];
        let mut going = true;
        let mut look_at = BLOCK;
        while left > 0 {
            let ended = self.engine.poll(&mut ends)?;
            for end in ends.iter().take(ended) {
                done += 1;
                left -= 1;
                let slot = u32::try_from(end.token.0).unwrap_or(0);
                let value = self.value(operation, slot, end.result?)?;
                if going && done + left < self.plan.operations {
                    self.post(operation, slot, value)?;
                    left += 1;
                }
            }
            if done >= look_at {
                look_at = done + BLOCK;
                going = Duration::from_nanos(self.now_ns() - start_ns) < self.plan.time;
            }
        }
        let took_ns = (self.now_ns() - start_ns).max(1);
        let per_second = per_second(done, took_ns);
        Ok(Rate { operation, depth, operations: done, per_second })
    }

    fn now_ns(&self) -> u64 {
        (self.now_ns)(self.engine)
    }

    /// Posts an operation to a random place, found only once `value` is known.
    fn post(&mut self, operation: Operation, slot: u32, value: u64) -> Result<(), RemoteError> {
        let words = match operation {
            Operation::Read { words } => words,
            Operation::Swap | Operation::Add => 1,
        };
        let Range { start, end } = self.plan.words;
        let places = (end - start).saturating_sub(u64::from(words)) + 1;
        let owner = below(self.random.next(), self.plan.owners.len() as u64);
        let index = start + below(self.random.next(), places) + (black_box(0) & value);
        let owner = usize::try_from(owner).ok().and_then(|at| self.plan.owners.get(at));
        let at = RemoteWord { owner: *owner.ok_or(RemoteError::NoOwners)?, index };
        let token = Token(slot.into());
        match operation {
            Operation::Read { words } => {
                let into = Local { slot: Slot(slot), start: 0, words };
                self.engine.read(token, Segment { start: at, words }, into)?;
            }
            Operation::Swap => self.engine.compare_and_swap(token, at, 0, 0)?,
            Operation::Add => self.engine.fetch_add(token, at, 0)?,
        }
        Ok(())
    }

    /// What an operation brought.
    fn value(&self, operation: Operation, slot: u32, old: u64) -> Result<u64, RemoteError> {
        let Operation::Read { words } = operation else { return Ok(old) };
        let landed = self.engine.landed(Local { slot: Slot(slot), start: 0, words })?;
        Ok(landed.first().copied().unwrap_or(0))
    }
}

/// Where of `count` places a number of 64 bits falls.
fn below(random: u64, count: u64) -> u64 {
    ((u128::from(random) * u128::from(count)) >> 64) as u64
}

#[allow(clippy::cast_precision_loss)]
fn per_second(operations: u64, took_ns: u64) -> f64 {
    operations as f64 * 1e9 / took_ns as f64
}

#[cfg(test)]
mod tests;
