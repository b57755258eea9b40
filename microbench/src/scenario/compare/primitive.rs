//! READ, CAS and FAA by themselves, on words of the next owner.

use core::ops::Range;
use core::time::Duration;

use probeline_limits::remote::{Meter, Operation, Plan};
use probeline_transport::{Local, Owner, RemoteWord, Segment, Slot, Token};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::meeting::wait;
use super::plan::DEPTH;
use super::sample::Sample;
use crate::failure::Result;
use crate::scenario::latency::after;
use crate::timed::Timed;

/// One kind of operation on some words, which are 0 and stay so: a swap puts 0 in the place of 0,
/// and an add adds 0.
pub(super) struct Primitive {
    pub(super) operation: Operation,
    pub(super) owner: Owner,
    pub(super) words: Range<u64>,
    pub(super) seed: u64,
}

/// Operations one at a time, each where the last one's result says (nowhere else, but the CPU
/// cannot know), so that one waits for the other.
pub(super) struct Chain {
    operation: Operation,
    owner: Owner,
    first: u64,
    last: u64,
    rng: SmallRng,
    brought: u64,
    until_ns: u64,
}

impl Primitive {
    fn length(&self) -> u32 {
        match self.operation {
            Operation::Read { words } => words,
            Operation::Swap | Operation::Add => 1,
        }
    }

    /// One after the other, for ever.
    pub(super) fn chain(&self) -> Chain {
        Chain {
            operation: self.operation,
            owner: self.owner,
            first: self.words.start,
            last: self.words.end - u64::from(self.length()),
            rng: SmallRng::seed_from_u64(self.seed),
            brought: 0,
            until_ns: u64::MAX,
        }
    }

    /// [`DEPTH`] of them in flight, or as many as the engine takes, for so long, or for so many.
    pub(super) fn rate<T: Timed>(
        &self,
        engine: &mut T,
        time: Duration,
        operations: u64,
    ) -> Result<Sample> {
        let plan = Plan { owners: &[self.owner], words: self.words.clone(), time, operations };
        let mut meter = Meter::new(engine, T::now_ns, plan, self.seed)?;
        let depth = meter.deepest().min(DEPTH);
        let rate = meter.rate(self.operation, depth)?;
        Ok(Sample::of_rate(rate.operations, rate.per_second))
    }
}

impl Chain {
    /// Sets when each is to have ended.
    pub(super) fn end_by(&mut self, until_ns: u64) {
        self.until_ns = until_ns;
    }

    /// The next one.
    pub(super) fn next<T: Timed>(&mut self, engine: &mut T) -> Result<()> {
        let index = after(self.brought, self.rng.random_range(self.first..=self.last));
        let start = RemoteWord { owner: self.owner, index };
        let Operation::Read { words } = self.operation else {
            match self.operation {
                Operation::Add => engine.fetch_add(Token(0), start, 0)?,
                _ => engine.compare_and_swap(Token(0), start, 0, 0)?,
            }
            self.brought = wait(engine, self.until_ns)?;
            return Ok(());
        };
        let into = Local { slot: Slot(0), start: 0, words };
        engine.read(Token(0), Segment { start, words }, into)?;
        wait(engine, self.until_ns)?;
        self.brought = engine.landed(into)?.first().copied().unwrap_or(0);
        Ok(())
    }
}
