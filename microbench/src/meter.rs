//! The limits of a transport: READs, WRITEs, compare-and-swaps and fetch-and-adds of random words, by
//! size and by operations in flight, without a table; and single operations, each of which ends
//! before the next one begins.

use core::hint::black_box;
use core::ops::{Range, RangeInclusive};
use core::time::Duration;

use probeline::transport::{
    Completion, Owner, RemoteWord, Segment, Slot, SlotRange, Token, Transport,
};
use probeline_programs::Timed;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::failure::{Failure, Result};

/// Sizes of READs, in words: 8 B to 4 KiB.
pub(crate) const WORDS: [u32; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

/// Operations between two readings of the clock.
const BLOCK: u64 = 32;
const COMPLETIONS: usize = 64;

/// The words that operations access, and the time of a measurement.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The owner of the window.
    pub(crate) owner: Owner,
    /// The words of the window. They must be 0, and stay 0 without WRITEs: a compare-and-swap
    /// replaces 0 with 0, and a fetch-and-add adds 0. With a single word all operations contend for
    /// it.
    pub(crate) words: Range<u64>,
    /// The time of each measurement, by the engine's clock.
    pub(crate) time: Duration,
    /// Maximum operations of each measurement, for a clock that may stand still.
    pub(crate) operations: u64,
}

/// One kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// A READ of consecutive words.
    Read {
        /// The size in words, at least 1.
        words: u32,
    },
    /// A WRITE of what is staged in the slot.
    Write {
        /// The size in words, at least 1.
        words: u32,
    },
    /// A compare-and-swap.
    Swap,
    /// A fetch-and-add, of 0.
    Add,
}

impl Operation {
    fn words(self) -> u32 {
        match self {
            Self::Read { words } | Self::Write { words } => words,
            Self::Swap | Self::Add => 1,
        }
    }
}

/// Returns 1, 2, 4 and so on, and the maximum depth.
pub(crate) fn depths(deepest: u32) -> impl Iterator<Item = u32> {
    let powers = (0..u32::BITS).map(|power| 1 << power);
    powers.take_while(move |&depth| depth < deepest).chain([deepest])
}

/// Measures an engine without other operations in flight.
pub(crate) struct Meter<'a, T> {
    engine: &'a mut T,
    plan: Plan,
    random: SmallRng,
    /// The result of the last operation of [`Meter::once`].
    last: u64,
}

impl<'a, T: Timed> Meter<'a, T> {
    /// Creates a meter. The `seed` determines the words of the operations.
    pub(crate) fn new(engine: &'a mut T, plan: Plan, seed: u64) -> Result<Self> {
        let window_words = engine.geometry().window_words;
        if plan.words.is_empty() || plan.words.end > window_words {
            let Range { start, end } = plan.words;
            return Err(Failure::new(format!(
                "words {start} to {end} are not within a window of {window_words} words"
            )));
        }
        match engine.in_flight() {
            0 => Ok(Self { engine, plan, random: SmallRng::seed_from_u64(seed), last: 0 }),
            in_flight => Err(Failure::new(format!("{in_flight} operations are in flight"))),
        }
    }

    /// Returns the kinds of operations and depths that can be measured: READs of those sizes in
    /// [`WORDS`] that fit one READ, a slot and the words, and both atomics, each at depth 1, 2, 4
    /// and so on up to the engine's.
    pub(crate) fn kinds(&self) -> Vec<(Operation, u32)> {
        let given = self.plan.words.end - self.plan.words.start;
        let max = self.engine.caps().words_per_op.min(self.engine.geometry().slot_words);
        let sizes = WORDS.into_iter().filter(|&words| words <= max && u64::from(words) <= given);
        let depths: Vec<u32> = depths(self.deepest()).collect();
        let at_depths = |operation| depths.iter().map(move |&depth| (operation, depth));
        let reads = sizes.map(|words| Operation::Read { words });
        reads.chain([Operation::Swap, Operation::Add]).flat_map(at_depths).collect()
    }

    /// Returns the maximum depth: each READ needs a slot.
    pub(crate) fn deepest(&self) -> u32 {
        self.engine.caps().depth.min(self.engine.geometry().slots)
    }

    /// Keeps `depth` operations in flight until the plan's time or operations are over, then waits
    /// for the last ones; every wait ends with a completion or the engine's fault. Returns the
    /// operations per second. At depth 1, the address of each operation depends on the result of the
    /// previous one, so that `1e9 / rate` is a roundtrip in nanoseconds.
    pub(crate) fn rate(&mut self, operation: Operation, depth: u32) -> Result<f64> {
        let deepest = self.deepest();
        if !(1..=deepest).contains(&depth) {
            return Err(Failure::new(format!(
                "{depth} operations cannot be in flight: choose 1 to {deepest}"
            )));
        }
        let start_ns = self.now_ns();
        for slot in 0..depth {
            self.post(operation, slot, 0)?;
        }
        let (mut left, mut done) = (u64::from(depth), 0);
        let mut completions = [Completion::default(); COMPLETIONS];
        let mut is_running = true;
        let mut next_check = BLOCK;
        while left > 0 {
            let completed = self.engine.poll(&mut completions)?;
            for completion in completions.iter().take(completed) {
                done += 1;
                left -= 1;
                let slot = u32::try_from(completion.token.0).unwrap_or(0);
                let value = self.value(operation, slot, completion.result?)?;
                if is_running && done + left < self.plan.operations {
                    self.post(operation, slot, value)?;
                    left += 1;
                }
            }
            if done >= next_check {
                next_check = done + BLOCK;
                is_running = Duration::from_nanos(self.now_ns() - start_ns) < self.plan.time;
            }
        }
        let took_ns = (self.now_ns() - start_ns).max(1);
        Ok(done as f64 * 1e9 / took_ns as f64)
    }

    /// Returns the time in nanoseconds of a READ of each size of [`WORDS`] within `sizes`, one at a
    /// time.
    pub(crate) fn read_times_ns(&mut self, sizes: RangeInclusive<u32>) -> Result<Vec<(u32, u64)>> {
        let time = |words| {
            let per_second = self.rate(Operation::Read { words }, 1)?;
            // The value is positive and far below 2^64.
            #[allow(clippy::cast_possible_truncation)]
            Ok((words, (1e9 / per_second) as u64))
        };
        WORDS.into_iter().filter(|words| sizes.contains(words)).map(time).collect()
    }

    /// Executes one operation with slot 0 and waits for it. Its address depends on the result of the
    /// previous one, as far as the CPU knows, so that operations do not overlap.
    pub(crate) fn once(&mut self, operation: Operation) -> Result<()> {
        self.post(operation, 0, self.last)?;
        let old = wait(self.engine)?;
        self.last = self.value(operation, 0, old)?;
        Ok(())
    }

    /// Returns the engine's clock in nanoseconds.
    pub(crate) fn now_ns(&self) -> u64 {
        self.engine.now_ns()
    }

    /// Posts an operation on a random word, whose address depends on `value` as far as the CPU
    /// knows.
    fn post(&mut self, operation: Operation, slot: u32, value: u64) -> Result<()> {
        let words = operation.words();
        let Range { start, end } = self.plan.words;
        let places = (end - start).saturating_sub(u64::from(words)) + 1;
        let index = after(value, start + self.random.random_range(0..places));
        let at = RemoteWord { owner: self.plan.owner, index };
        let (token, local) = (Token(slot.into()), SlotRange { slot: Slot(slot), start: 0, words });
        match operation {
            Operation::Read { words } => {
                self.engine.read(token, Segment { start: at, words }, local)?;
            }
            Operation::Write { words } => {
                self.engine.write(token, local, Segment { start: at, words })?;
            }
            Operation::Swap => self.engine.compare_and_swap(token, at, 0, 0)?,
            Operation::Add => self.engine.fetch_add(token, at, 0)?,
        }
        Ok(())
    }

    /// Returns the old value of an atomic, or the first word of a READ.
    fn value(&self, operation: Operation, slot: u32, old: u64) -> Result<u64> {
        let Operation::Read { words } = operation else { return Ok(old) };
        let landed = self.engine.landed(SlotRange { slot: Slot(slot), start: 0, words })?;
        Ok(landed.first().copied().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests;

/// Reads into a slot and waits for it; returns the first word.
pub(crate) fn read<T: Timed>(engine: &mut T, from: Segment, slot: Slot) -> Result<u64> {
    let into = SlotRange { slot, start: 0, words: from.words };
    engine.read(Token(0), from, into)?;
    wait(engine)?;
    Ok(engine.landed(into)?.first().copied().unwrap_or(0))
}

/// Polls until the one operation in flight completes, and returns its result.
pub(crate) fn wait<T: Transport>(engine: &mut T) -> Result<u64> {
    let mut completion = [Completion::default()];
    while engine.poll(&mut completion)? == 0 {}
    Ok(completion[0].result?)
}

/// Returns `index`, computed from `value`: the compiler and the CPU must wait for `value`.
pub(crate) fn after(value: u64, index: u64) -> u64 {
    index + (black_box(0) & value)
}
