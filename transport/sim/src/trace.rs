//! What a run leaves: counts of its events, a hash of all events, and the last events in full.

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
    /// Operations posted to a NIC.
    pub sent: u64,
    /// The sum, over the operations in `sent`, of the operations that their NIC had outstanding,
    /// including the operation itself. Divided by `sent` it is the mean an operation finds.
    pub outstanding: u64,
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
pub enum What {
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

/// One traced event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The time, in virtual nanoseconds.
    pub at_ns: u64,
    /// The owner of the engine that the event concerns.
    pub owner: Owner,
    /// The kind of the event.
    pub what: What,
    /// The first word of the operation, or the sampled word.
    pub word: RemoteWord,
    /// The value that the variant of [`What`] describes.
    pub value: u64,
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at_ns, owner, what, word, value } = *self;
        write!(f, "{at_ns:>12} ns  {owner}  ")?;
        match what {
            What::Posted(kind) => write!(f, "posts      {kind:<5}")?,
            What::Sampled => f.write_str("samples    READ ")?,
            What::Applied(kind) => write!(f, "takes in   {kind:<5}")?,
            What::Completed(kind) => write!(f, "completes  {kind:<5}")?,
            What::Failed(kind) => write!(f, "fails      {kind:<5}")?,
            What::Ended => return f.write_str("ends"),
        }
        write!(f, "  {} word {}  {value:#x}", word.owner, word.index)
    }
}

/// The running hash and the ring of the last events.
pub(crate) struct Trace {
    hash: u64,
    last: Vec<Moment>,
    capacity: usize,
    oldest: usize,
}

impl Trace {
    pub(crate) fn new(capacity: u32) -> Self {
        let capacity = capacity as usize;
        Self { hash: 0, last: Vec::with_capacity(capacity), capacity, oldest: 0 }
    }

    #[inline]
    pub(crate) fn add(&mut self, moment: Moment) {
        let Moment { at_ns, owner, what, word, value } = moment;
        let who = u64::from(owner.0) << 32 | u64::from(word.owner.0);
        for part in [at_ns, who, code(what), word.index, value] {
            self.hash = fold(self.hash, part);
        }
        if self.last.len() < self.capacity {
            self.last.push(moment);
        } else if let Some(oldest) = self.last.get_mut(self.oldest) {
            *oldest = moment;
            self.oldest = (self.oldest + 1) % self.capacity;
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        mix(self.hash)
    }

    /// The retained events, oldest first.
    pub(crate) fn moments(&self) -> Vec<Moment> {
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

fn code(what: What) -> u64 {
    let (what, kind) = match what {
        What::Posted(kind) => (0, kind),
        What::Sampled => (1, Kind::Read),
        What::Applied(kind) => (2, kind),
        What::Completed(kind) => (3, kind),
        What::Failed(kind) => (4, kind),
        What::Ended => (5, Kind::Read),
    };
    what << 8 | kind as u64
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    fn moment(at_ns: u64) -> Moment {
        let word = RemoteWord { owner: Owner(1), index: 5 };
        Moment { at_ns, owner: Owner(0), what: What::Posted(Kind::Read), word, value: 7 }
    }

    #[test]
    fn the_ring_keeps_the_last_events_in_order() {
        for (capacity, kept) in [(0, 0..0), (3, 7..10), (20, 0..10)] {
            let mut trace = Trace::new(capacity);
            (0..10).for_each(|at| trace.add(moment(at)));
            let at: Vec<u64> = trace.moments().iter().map(|m| m.at_ns).collect();
            assert_eq!(at, kept.collect::<Vec<u64>>());
        }
    }

    #[test]
    fn every_field_and_the_order_change_the_hash() {
        let base = moment(1);
        let word = |owner, index| RemoteWord { owner: Owner(owner), index };
        let variants = [
            base,
            Moment { at_ns: 2, ..base },
            Moment { owner: Owner(2), ..base },
            Moment { what: What::Posted(Kind::Write), ..base },
            Moment { what: What::Sampled, ..base },
            Moment { word: word(2, 5), ..base },
            Moment { word: word(1, 6), ..base },
            Moment { value: 8, ..base },
        ];
        let hash = |moments: &[Moment]| {
            let mut trace = Trace::new(0);
            moments.iter().for_each(|&m| trace.add(m));
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
    fn an_event_prints_as_one_line() {
        let line = moment(12).to_string();
        assert_eq!(line, "          12 ns  owner 0  posts      READ   owner 1 word 5  0x7");
    }
}
