//! One-sided operations one at a time, without a table.

use core::hint::black_box;
use core::ops::Range;

use probeline::transport::{Completion, Local, Owner, RemoteWord, Segment, Slot, Token};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::failure::Result;
use crate::timed::Timed;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read {
        words: u32,
    },
    Write {
        words: u32,
    },
    /// A compare-and-swap of 0 with this value.
    Swap(u64),
    /// A fetch-and-add of this value.
    Add(u64),
}

/// Operations of one kind on random words. The address of each depends on the result of the
/// previous one (never in fact, but the CPU cannot know), so that they do not overlap.
pub(crate) struct Chain {
    access: Access,
    owner: Owner,
    first: u64,
    last: u64,
    slot: Slot,
    rng: SmallRng,
    result: u64,
}

impl Access {
    fn words(self) -> u32 {
        match self {
            Self::Read { words } | Self::Write { words } => words,
            Self::Swap(_) | Self::Add(_) => 1,
        }
    }
}

impl Chain {
    pub(crate) fn new(
        access: Access,
        owner: Owner,
        words: Range<u64>,
        slot: Slot,
        seed: u64,
    ) -> Self {
        let rng = SmallRng::seed_from_u64(seed);
        let last = words.end - u64::from(access.words());
        Self { access, owner, first: words.start, last, slot, rng, result: 0 }
    }

    pub(crate) fn next<T: Timed>(&mut self, engine: &mut T) -> Result<()> {
        let index = after(self.result, self.rng.random_range(self.first..=self.last));
        let start = RemoteWord { owner: self.owner, index };
        let words = self.access.words();
        let local = Local { slot: self.slot, start: 0, words };
        match self.access {
            Access::Read { .. } => engine.read(Token(0), Segment { start, words }, local)?,
            Access::Write { .. } => engine.write(Token(0), local, Segment { start, words })?,
            Access::Swap(desired) => engine.compare_and_swap(Token(0), start, 0, desired)?,
            Access::Add(addend) => engine.fetch_add(Token(0), start, addend)?,
        }
        self.result = wait(engine)?;
        if let Access::Read { .. } = self.access {
            self.result = engine.landed(local)?.first().copied().unwrap_or(0);
        }
        Ok(())
    }
}

/// Reads into a slot and waits for it; returns the first word.
pub(crate) fn read<T: Timed>(engine: &mut T, from: Segment, slot: Slot) -> Result<u64> {
    let into = Local { slot, start: 0, words: from.words };
    engine.read(Token(0), from, into)?;
    wait(engine)?;
    Ok(engine.landed(into)?.first().copied().unwrap_or(0))
}

/// Polls until the one operation in flight completes, and returns its result.
pub(crate) fn wait<T: Timed>(engine: &mut T) -> Result<u64> {
    let mut completion = [Completion::default()];
    while engine.poll(&mut completion)? == 0 {}
    Ok(completion[0].result?)
}

/// Returns `index`, computed from `value`: the compiler and the CPU must wait for `value`.
pub(crate) fn after(value: u64, index: u64) -> u64 {
    index + (black_box(0) & value)
}
