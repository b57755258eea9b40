//! The storage of one operation in flight, and queues of them without allocation.

use probeline_transport::Token;

use crate::bucket::Bucket;
use crate::error::OperationError;
use crate::find_or_put::{Intent, Outcome, Plan, Search};
use crate::layout::Position;
use crate::probe::{LINE_BUCKETS, Probe};
use crate::walk::Walk;

/// Storage for one operation in flight; the caller of a table provides an array of them.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Where it stands while the CPU looks at the buckets itself.
    pub(crate) walk: Walk,
    /// Its search by READs.
    pub(crate) search: Search,
    pub(crate) report: Report,
    pub(crate) state: State,
    /// Where the chunk starts that was last requested, and how the way goes on.
    pub(crate) probe: Probe,
    /// Where the chunk in each landing slot starts.
    pub(crate) start: [Position; 2],
    /// READs of that chunk still in flight.
    pub(crate) landing: [u8; 2],
    /// Which of these chunks the CPU copied, and how much it has copied for this operation.
    pub(crate) by_cpu: [bool; 2],
    pub(crate) copied: Copied,
    /// One-sided operations in flight, of this operation or left over from it.
    pub(crate) in_flight: u8,
    /// Counts the operations that used this storage, so that a left-over answer is recognised.
    pub(crate) generation: u32,
    /// It stands in the queue for room in the transport.
    pub(crate) queued: bool,
    next: u32,
}

/// What the CPU copied in place of READs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Copied {
    /// Chunks, and those of them that were scanned.
    pub(crate) chunks: u32,
    pub(crate) scanned: u32,
    pub(crate) lines: u32,
}

/// Whom the end of an operation is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// Whoever asks for this operation by its storage.
    Asker,
    /// The caller's next poll, under the tag it gave.
    Poll(u64),
    /// The batch call, as the end of the datum at this place.
    Batch(usize),
    /// Nobody any more.
    Nobody,
}

/// Where an operation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The storage is free.
    Free,
    /// It looks at lines that the CPU reaches.
    Walk,
    /// It wants its first bucket claimed, and its first chunk read.
    First,
    /// It wants its chunk read and scanned.
    Chunk,
    /// It wants to claim the bucket at this offset of its chunk.
    Claim(u32),
    /// It wants to confirm the bucket at this offset of its chunk.
    Confirm(u32),
    /// Its claim or confirmation is in flight.
    Answer,
    /// It is over, but still stands in the queue for room in the transport.
    Over(Result<Outcome, OperationError>),
    /// It has ended and was not reported yet.
    Ended(Result<Outcome, OperationError>),
    /// It was reported, but a READ ahead of need is still to land.
    Draining,
}

impl Operation {
    /// Storage that is free.
    pub const EMPTY: Self = Self {
        walk: Walk::NOWHERE,
        search: Search::new(Bucket::ANY, Intent::Find, NO_PLAN),
        report: Report::Asker,
        state: State::Free,
        probe: Probe::NOWHERE,
        start: [Position { owner: 0, index: 0 }; 2],
        landing: [0; 2],
        by_cpu: [false; 2],
        copied: Copied { chunks: 0, scanned: 0, lines: 0 },
        in_flight: 0,
        generation: 0,
        queued: false,
        next: NONE,
    };

    /// Begins in this free storage, at `walk`.
    #[inline]
    pub(crate) fn begin(&mut self, walk: Walk, report: Report) {
        self.walk = walk;
        self.report = report;
        self.state = State::Walk;
        self.generation = self.generation.wrapping_add(1);
    }

    /// Goes on by READs, from where it stands.
    #[inline]
    pub(crate) fn search(&mut self, plan: Plan) {
        self.search = Search::new(self.walk.bucket, self.walk.intent, plan);
        self.probe = self.walk.probe;
        self.landing = [0; 2];
        self.copied = Copied::default();
        self.state = if plan.claim_first { State::First } else { State::Chunk };
    }

    /// A READ into this of the two landing slots was posted.
    #[inline]
    pub(crate) fn posted(&mut self, parity: usize) {
        self.in_flight += 1;
        if let Some(landing) = self.landing.get_mut(parity) {
            *landing += 1;
        }
    }

    /// A READ into this of the two landing slots has ended.
    #[inline]
    pub(crate) fn landed(&mut self, parity: usize) {
        if let Some(landing) = self.landing.get_mut(parity) {
            *landing = landing.saturating_sub(1);
        }
    }

    /// Whether it is still to end.
    #[inline]
    pub(crate) fn is_running(&self) -> bool {
        !matches!(self.state, State::Free | State::Ended(_) | State::Draining)
    }
}

/// What a one-sided operation was posted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A READ into this of the two landing slots.
    Chunk(usize),
    /// The claim along with the first READ, a later one, or a confirmation.
    FirstClaim,
    Claim,
    Confirm,
}

/// The name of a one-sided operation: whose it is, for what, and of which generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) operation: u32,
    pub(crate) part: Part,
    pub(crate) generation: u32,
}

impl Name {
    /// 32 bits of generation, 24 of operation, 8 of part.
    #[inline]
    pub(crate) fn token(self) -> Token {
        let part = match self.part {
            Part::Chunk(parity) => parity as u64,
            Part::Claim => 2,
            Part::Confirm => 3,
            Part::FirstClaim => 4,
        };
        Token(u64::from(self.generation) << 32 | u64::from(self.operation) << 8 | part)
    }

    /// The inverse of [`token`](Self::token).
    #[inline]
    #[allow(clippy::cast_possible_truncation)]
    pub(crate) fn from_token(token: Token) -> Self {
        let part = match token.0 & 0xff {
            2 => Part::Claim,
            3 => Part::Confirm,
            4 => Part::FirstClaim,
            parity => Part::Chunk(parity as usize & 1),
        };
        let operation = (token.0 >> 8) as u32 & 0xff_ffff;
        Self { operation, part, generation: (token.0 >> 32) as u32 }
    }
}

const NONE: u32 = u32::MAX;
/// For storage that is free.
const NO_PLAN: Plan = Plan {
    chunk_buckets: LINE_BUCKETS,
    reach: 1,
    rotation: 0,
    skip: 0,
    ahead_from: u32::MAX,
    claim_first: false,
};

/// A first-in-first-out queue of operations, linked through their storage. An operation is in
/// one queue at most.
#[derive(Debug)]
pub(crate) struct Queue {
    head: u32,
    tail: u32,
}

impl Queue {
    pub(crate) const EMPTY: Self = Self { head: NONE, tail: NONE };

    #[inline]
    pub(crate) fn push(&mut self, operations: &mut [Operation], index: u32) {
        let Some(operation) = operations.get_mut(index as usize) else { return };
        operation.next = NONE;
        match operations.get_mut(self.tail as usize) {
            Some(last) => last.next = index,
            None => self.head = index,
        }
        self.tail = index;
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    /// Who came last.
    #[inline]
    pub(crate) fn last(&self) -> u32 {
        self.tail
    }

    #[inline]
    pub(crate) fn pop(&mut self, operations: &[Operation]) -> Option<u32> {
        let index = self.head;
        let operation = operations.get(index as usize)?;
        self.head = operation.next;
        if self.head == NONE {
            self.tail = NONE;
        }
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn names_come_back(operation in 0_u32..1 << 24, generation: u32, part in 0..5) {
            let [even, odd] = [Part::Chunk(0), Part::Chunk(1)];
            let part_of = [even, odd, Part::Claim, Part::Confirm, Part::FirstClaim];
            let part = part_of[part as usize];
            let name = Name { operation, part, generation };
            prop_assert_eq!(Name::from_token(name.token()), name);
        }

        #[test]
        fn a_queue_keeps_order(moves in prop::collection::vec(any::<bool>(), 1..200)) {
            let mut operations = [const { Operation::EMPTY }; 8];
            let (mut queue, mut model) = (Queue::EMPTY, std::collections::VecDeque::new());
            let mut free: Vec<u32> = (0..8).collect();
            for push in moves {
                if push && let Some(index) = free.pop() {
                    queue.push(&mut operations, index);
                    model.push_back(index);
                } else {
                    let popped = queue.pop(&operations);
                    prop_assert_eq!(popped, model.pop_front());
                    free.extend(popped);
                }
            }
        }
    }
}
