//! One-sided operations one at a time, without a table.

use core::hint::black_box;

use probeline::transport::{Completion, Segment, Slot, SlotRange, Token, Transport};
use probeline_programs::Timed;

use crate::failure::Result;

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
