//! The record of a run: counts of its events, a hash of all events, and the last events in full.

use alloc::vec::Vec;
use core::fmt;

use probeline_transport::{Owner, RemoteWord};

use crate::Kind;
use crate::rng::mix;

/// The counts since the cluster was created, over all owners.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Operations accepted.
    pub posted: u64,
    /// Completions polled.
    pub completed: u64,
    /// READs completed by a NIC.
    pub reads: u64,
    /// WRITEs completed by a NIC.
    pub writes: u64,
    /// Compare-and-swaps and fetch-and-adds completed by a NIC.
    pub atomics: u64,
    /// The words of these READs, WRITEs and atomics.
    pub words: u64,
    /// Completions of the CPU's own loads and stores.
    pub by_cpu: u64,
    /// Operations that completed in error after taking effect.
    pub errors_done: u64,
    /// Operations that completed in error without effect.
    pub errors_undone: u64,
    /// Operations chosen to complete in error before taking effect.
    pub errors_late: u64,
    /// Effects that happened after their operation had completed in error or was flushed.
    pub late_effects: u64,
    /// READs executed twice.
    pub repeated_reads: u64,
    /// Words that landed torn, as a mixture of two values.
    pub torn_words: u64,
    /// Operations slowed down by a fault.
    pub slow: u64,
    /// Operations flushed because their engine died.
    pub flushed: u64,
    /// Engines that died.
    pub deaths: u64,
    /// Owners lost: engines dropped or killed.
    pub lost_owners: u64,
}

/// The kind of a traced event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// An operation was accepted; the value is its token.
    Posted(Kind),
    /// A READ sampled words; the value is the word, or a hash of several words.
    Sampled,
    /// A WRITE or an atomic took effect; the value is the old value of the word.
    Applied(Kind),
    /// A completion was polled; the value is the old value for an atomic, a hash of the words that
    /// landed for a READ.
    Completed(Kind),
    /// A completion in error was polled.
    Failed(Kind),
    /// An engine died or its owner was lost.
    Ended,
}

impl EventKind {
    /// Returns the code in the hash, the verb, and the kind of the operation.
    fn parts(self) -> (u64, &'static str, Kind) {
        match self {
            Self::Posted(kind) => (0, "posts", kind),
            Self::Sampled => (1, "samples", Kind::Read),
            Self::Applied(kind) => (2, "applies", kind),
            Self::Completed(kind) => (3, "completes", kind),
            Self::Failed(kind) => (4, "fails", kind),
            Self::Ended => (5, "ends", Kind::Read),
        }
    }
}

/// One traced event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The time, in virtual nanoseconds.
    pub at_ns: u64,
    /// The owner of the engine that the event concerns.
    pub owner: Owner,
    /// The kind of the event.
    pub kind: EventKind,
    /// The first word of the operation, or the sampled word.
    pub word: RemoteWord,
    /// The value that the variant of [`EventKind`] describes.
    pub value: u64,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at_ns, owner, kind, word, value } = *self;
        let (_, verb, of) = kind.parts();
        write!(f, "{at_ns:>12} ns  {owner}  {verb}")?;
        if kind == EventKind::Ended {
            return Ok(());
        }
        let column = 11 - verb.len();
        write!(f, "{:column$}{of:<5}", "")?;
        write!(f, "  {} word {}  {value:#x}", word.owner, word.index)
    }
}

/// The running hash and the ring of the last events.
pub(crate) struct Trace {
    hash: u64,
    last: Vec<Event>,
    capacity: usize,
    oldest: usize,
}

impl Trace {
    pub(crate) fn new(capacity: u32) -> Self {
        let capacity = capacity as usize;
        Self { hash: 0, last: Vec::with_capacity(capacity), capacity, oldest: 0 }
    }

    #[inline]
    pub(crate) fn add(&mut self, event: Event) {
        let Event { at_ns, owner, kind, word, value } = event;
        let (code, _, of) = kind.parts();
        let who = u64::from(owner.0) << 32 | u64::from(word.owner.0);
        for part in [at_ns, who, code << 8 | of as u64, word.index, value] {
            self.hash = fold(self.hash, part);
        }
        if self.last.len() < self.capacity {
            self.last.push(event);
        } else if let Some(oldest) = self.last.get_mut(self.oldest) {
            *oldest = event;
            self.oldest = (self.oldest + 1) % self.capacity;
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        mix(self.hash)
    }

    /// Returns the retained events, oldest first.
    pub(crate) fn events(&self) -> Vec<Event> {
        let (newer, older) = self.last.split_at(self.oldest);
        [older, newer].concat()
    }
}

/// Returns a hash of `words` that depends on their order; one word is its own hash.
#[inline]
pub(crate) fn digest(words: &[u64]) -> u64 {
    match words {
        [word] => *word,
        _ => words.iter().fold(0, |hash, &word| fold(hash, word)),
    }
}

#[inline]
fn fold(hash: u64, part: u64) -> u64 {
    (hash.rotate_left(23) ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    fn event(at_ns: u64) -> Event {
        let word = RemoteWord { owner: Owner(1), index: 5 };
        Event { at_ns, owner: Owner(0), kind: EventKind::Posted(Kind::Read), word, value: 7 }
    }

    #[test]
    fn keeps_last_events_in_order() {
        for (capacity, kept) in [(0, 0..0), (3, 7..10), (20, 0..10)] {
            let mut trace = Trace::new(capacity);
            (0..10).for_each(|at| trace.add(event(at)));
            let at: Vec<u64> = trace.events().iter().map(|m| m.at_ns).collect();
            assert_eq!(at, kept.collect::<Vec<u64>>());
        }
    }

    #[test]
    fn hash_covers_fields_and_order() {
        let base = event(1);
        let word = |owner, index| RemoteWord { owner: Owner(owner), index };
        let variants = [
            base,
            Event { at_ns: 2, ..base },
            Event { owner: Owner(2), ..base },
            Event { kind: EventKind::Posted(Kind::Write), ..base },
            Event { kind: EventKind::Sampled, ..base },
            Event { word: word(2, 5), ..base },
            Event { word: word(1, 6), ..base },
            Event { value: 8, ..base },
        ];
        let hash = |events: &[Event]| {
            let mut trace = Trace::new(0);
            events.iter().for_each(|&m| trace.add(m));
            trace.hash()
        };
        let mut seen: Vec<u64> = variants.iter().map(|&m| hash(&[m])).collect();
        seen.push(hash(&[base, variants[1]]));
        seen.push(hash(&[variants[1], base]));
        let all = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), all);
    }

    #[test]
    fn formats_event_as_one_line() {
        let line = event(12).to_string();
        assert_eq!(line, "          12 ns  owner 0  posts      READ   owner 1 word 5  0x7");
    }
}
