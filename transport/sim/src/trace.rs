//! The record of a run: counts of its events, and a hash of all events.

use probeline_transport::{Owner, RemoteWord};

use crate::Kind;

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

/// The kind of an event in the hash.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EventKind {
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
    fn code(self) -> u64 {
        let (verb, kind) = match self {
            Self::Posted(kind) => (0, kind),
            Self::Sampled => (1, Kind::Read),
            Self::Applied(kind) => (2, kind),
            Self::Completed(kind) => (3, kind),
            Self::Failed(kind) => (4, kind),
            Self::Ended => (5, Kind::Read),
        };
        verb << 8 | kind as u64
    }
}

/// Adds an event to the hash of all events: its time in virtual nanoseconds, the owner of the engine
/// that it concerns, the first word of the operation or the sampled word, and the value that
/// [`EventKind`] describes.
#[inline]
pub(crate) fn add_event(
    hash: u64,
    at_ns: u64,
    owner: Owner,
    kind: EventKind,
    word: RemoteWord,
    value: u64,
) -> u64 {
    let owners = u64::from(owner.0) << 32 | u64::from(word.owner.0);
    [at_ns, owners, kind.code(), word.index, value].into_iter().fold(hash, fold)
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
    use super::*;

    #[test]
    fn hash_covers_fields_and_order() {
        let word = |owner, index| RemoteWord { owner: Owner(owner), index };
        let add = |hash, at_ns, owner, kind, word, value| {
            add_event(hash, at_ns, Owner(owner), kind, word, value)
        };
        let posted = EventKind::Posted(Kind::Read);
        let [base, later] = [1, 2].map(|at_ns| add(0, at_ns, 0, posted, word(1, 5), 7));
        let mut seen = [
            base,
            later,
            add(0, 1, 2, posted, word(1, 5), 7),
            add(0, 1, 0, EventKind::Posted(Kind::Write), word(1, 5), 7),
            add(0, 1, 0, EventKind::Sampled, word(1, 5), 7),
            add(0, 1, 0, posted, word(2, 5), 7),
            add(0, 1, 0, posted, word(1, 6), 7),
            add(0, 1, 0, posted, word(1, 5), 8),
            add(base, 2, 0, posted, word(1, 5), 7),
            add(later, 1, 0, posted, word(1, 5), 7),
        ]
        .to_vec();
        let all = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), all);
    }
}
