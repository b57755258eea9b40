//! READs of other ranks' windows, of words beside a structure's.

use core::ops::Range;
use std::collections::HashMap;

use probeline::transport::{Completion, Segment, Slot, SlotRange, Token};

use crate::{Error, Timed};

/// READs these words into slots, as many at a time as there are slots, and passes the words of each READ to
/// `landed` when it completes. Nothing else is in flight on the engine.
pub(crate) fn read_all(
    engine: &mut dyn Timed,
    slots: Range<u32>,
    reads: Vec<Segment>,
    mut landed: impl FnMut(&[u64]),
) -> Result<(), Error> {
    let (mut reads, mut free) = (reads.into_iter(), Vec::from_iter(slots));
    let mut landing = HashMap::new();
    let mut completions = [Completion::default(); 8];
    // Ends, because every operation that the transport accepts completes.
    loop {
        for (slot, from) in free.drain(..).zip(reads.by_ref()) {
            let into = SlotRange { slot: Slot(slot), start: 0, words: from.words };
            engine.read(Token(slot.into()), from, into)?;
            landing.insert(Token(slot.into()), into);
        }
        if landing.is_empty() {
            return Ok(());
        }
        let completed = engine.poll(&mut completions)?;
        for completion in completions.iter().take(completed) {
            completion.result?;
            if let Some(into) = landing.remove(&completion.token) {
                landed(engine.landed(into)?);
                free.push(into.slot.0);
            }
        }
    }
}
