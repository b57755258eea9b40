//! The operations that are accepted and not yet reported, in the order of their posts.
//!
//! An operation has completed successfully if its owner was flushed after it was posted. After MPI
//! has failed, the other operations complete with an error.

use probeline_transport::engine::{Memory, Operation, Ring};
use probeline_transport::{OpError, Owner};

/// The operation that is reported next.
#[derive(Clone, Copy, Debug)]
pub(super) struct First {
    pub(super) place: usize,
    pub(super) operation: Operation,
    /// Its result, if it has completed.
    pub(super) ended: Option<Result<(), OpError>>,
}

/// A queue of operations, which are reported in the order of their posts.
#[derive(Debug)]
pub(super) struct InFlight {
    operations: Ring<Operation>,
    /// The number of all operations posted before the last flush of each owner.
    flushed: Box<[u64]>,
    /// The owner of the first MPI call that failed, and its error.
    failed: Option<(Owner, OpError)>,
}

impl InFlight {
    pub(super) fn new(depth: u32, owners: u32) -> Self {
        let flushed = vec![0; owners as usize].into();
        Self { operations: Ring::new(depth), flushed, failed: None }
    }

    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.operations.len()
    }

    /// Returns the number of operations that were ever posted.
    #[inline]
    pub(super) fn posted(&self) -> u64 {
        self.operations.pushed()
    }

    /// Returns the number of operations that were ever reported.
    #[inline]
    pub(super) fn reported(&self) -> u64 {
        self.operations.popped()
    }

    /// Returns the place of the next operation, which [`Operands`] has.
    #[inline]
    pub(super) fn next_place(&self) -> usize {
        self.operations.place(self.posted())
    }

    /// Appends an operation; the caller has checked that there is room.
    #[inline]
    pub(super) fn push(&mut self, operation: Operation) {
        self.operations.push(operation);
    }

    #[inline(always)]
    pub(super) fn first(&self) -> Option<First> {
        let operation = *self.operations.first()?;
        let number = self.reported();
        let ended = if self.is_flushed(number, operation.owner) {
            Some(Ok(()))
        } else {
            let of_owner = |failed| failed == operation.owner;
            self.failed
                .map(|(owner, error)| Err(if of_owner(owner) { error } else { OpError::Flushed }))
        };
        Some(First { place: self.operations.place(number), operation, ended })
    }

    /// Removes the first operation, which exists.
    #[inline]
    pub(super) fn pop(&mut self) {
        self.operations.pop();
    }

    /// Records that a flush of `owner` has returned.
    #[inline]
    pub(super) fn end_all_of(&mut self, owner: Owner) {
        let posted = self.posted();
        match self.flushed.get_mut(owner.0 as usize) {
            Some(flushed) => *flushed = posted,
            None => debug_assert!(false, "{owner} was flushed and does not exist"),
        }
    }

    /// Records that MPI has failed in a call for `owner`: later flushes complete no operations.
    #[cold]
    pub(super) fn fail(&mut self, owner: Owner, error: OpError) {
        self.failed.get_or_insert((owner, error));
    }

    /// Returns whether a flush has completed the operation on `owner` that was posted after
    /// `number` others.
    #[inline]
    fn is_flushed(&self, number: u64, owner: Owner) -> bool {
        self.flushed.get(owner.0 as usize).is_some_and(|flushed| number < *flushed)
    }
}

/// The words of an atomic: its result and two operands.
const ATOMIC_WORDS: usize = 4;

/// The operands and results of atomics, by place. MPI accesses them from a post to the flush that
/// completes it.
#[derive(Debug)]
pub(super) struct Operands(Memory);

impl Operands {
    /// Allocates zeroed words for as many operations as the ring of [`InFlight`] has places for this depth;
    /// `None` if memory is lacking.
    pub(super) fn new(depth: u32) -> Option<Self> {
        Memory::new(ATOMIC_WORDS.checked_mul(depth.next_power_of_two() as usize)?).map(Self)
    }

    /// Returns the pointers to the result and the operands of the operation at `place`, which the
    /// [`InFlight`] of the same depth returned.
    #[inline]
    pub(super) fn at(&self, place: usize) -> [*mut u64; 3] {
        let first = self.0.first().as_ptr().wrapping_add(ATOMIC_WORDS * place);
        [first, first.wrapping_add(1), first.wrapping_add(2)]
    }

    /// Stores the operands of an atomic; returns the pointers to its result and to them.
    ///
    /// # Safety
    /// The last operation at `place` has ended.
    #[inline]
    pub(super) unsafe fn fill(&self, place: usize, operands: [u64; 2]) -> [*mut u64; 3] {
        let words @ [_, first, second] = self.at(place);
        // SAFETY: words of this memory, because `place` is one of it. MPI does not use them: the
        // caller upholds that the last operation at `place` has ended.
        unsafe {
            first.write(operands[0]);
            second.write(operands[1]);
        }
        words
    }

    /// Returns the result of the operation at `place`, which has completed.
    #[inline]
    pub(super) fn result(&self, place: usize) -> u64 {
        let [result, ..] = self.at(place);
        // SAFETY: a word of this memory, because places are; the flush that ended the operation has
        // returned.
        unsafe { result.read() }
    }

    /// Keeps the memory until the process exits, because MPI may still write to it.
    pub(super) fn leak(&mut self) {
        self.0.leak();
    }
}

#[cfg(test)]
mod tests {
    use probeline_transport::Token;
    use probeline_transport::engine::Kind;

    use super::*;

    fn push(in_flight: &mut InFlight, owner: u32, token: u64) {
        in_flight.push(Operation { token: Token(token), owner: Owner(owner), kind: Kind::Atomic });
    }

    /// Returns the owner of the first operation, unless that operation has completed.
    fn awaited(in_flight: &InFlight) -> Option<Owner> {
        let first = in_flight.first()?;
        first.ended.is_none().then_some(first.operation.owner)
    }

    /// Removes the operations at the front that have completed, and returns their tokens and
    /// results.
    fn take_ends(in_flight: &mut InFlight) -> Vec<(u64, Result<(), OpError>)> {
        let mut taken = Vec::new();
        while let Some(First { operation, ended: Some(ended), .. }) = in_flight.first() {
            taken.push((operation.token.0, ended));
            in_flight.pop();
        }
        taken
    }

    /// Takes the ends as `take_ends` does, for operations that have completed successfully; returns their tokens.
    fn take_all(in_flight: &mut InFlight) -> Vec<u64> {
        let ends = take_ends(in_flight);
        assert!(ends.iter().all(|(_, ended)| ended.is_ok()));
        ends.into_iter().map(|(token, _)| token).collect()
    }

    #[test]
    fn completes_operations_by_flush() {
        let mut in_flight = InFlight::new(4, 3);
        for (owner, token) in [(2, 1), (0, 2), (2, 3), (0, 4)] {
            push(&mut in_flight, owner, token);
        }
        assert_eq!(awaited(&in_flight), Some(Owner(2)));
        in_flight.end_all_of(Owner(2));
        assert_eq!(take_all(&mut in_flight), [1]);
        assert_eq!(awaited(&in_flight), Some(Owner(0)));
        push(&mut in_flight, 2, 5);
        in_flight.end_all_of(Owner(0));
        assert_eq!(take_all(&mut in_flight), [2, 3, 4]);
        assert_eq!((awaited(&in_flight), in_flight.len()), (Some(Owner(2)), 1));
        in_flight.end_all_of(Owner(2));
        assert_eq!((take_all(&mut in_flight), in_flight.len()), (vec![5], 0));
    }

    #[test]
    fn keeps_places_apart() {
        let mut in_flight = InFlight::new(3, 2);
        for round in 0..7_u64 {
            let mut places = Vec::new();
            for owner in 0..2 {
                places.push(in_flight.next_place());
                push(&mut in_flight, owner, 2 * round + u64::from(owner));
            }
            assert_ne!(places[0], places[1]);
            for (owner, place) in (0..2).zip(places) {
                assert_eq!(awaited(&in_flight), Some(Owner(owner)));
                in_flight.end_all_of(Owner(owner));
                assert_eq!(in_flight.first().map(|first| first.place), Some(place));
                assert_eq!(take_all(&mut in_flight), [2 * round + u64::from(owner)]);
            }
        }
        assert_eq!((in_flight.posted(), in_flight.reported()), (14, 14));
    }

    #[test]
    fn fails_one_owner() {
        const BROKEN: OpError = OpError::Device { code: 5 };
        let mut in_flight = InFlight::new(8, 3);
        push(&mut in_flight, 0, 1);
        push(&mut in_flight, 1, 2);
        in_flight.end_all_of(Owner(1));
        push(&mut in_flight, 1, 3);
        push(&mut in_flight, 2, 4);
        in_flight.fail(Owner(1), BROKEN);
        in_flight.fail(Owner(2), OpError::Device { code: 6 });
        assert_eq!(awaited(&in_flight), None);
        let flushed = Err(OpError::Flushed);
        let ends = [(1, flushed), (2, Ok(())), (3, Err(BROKEN)), (4, flushed)];
        assert_eq!((take_ends(&mut in_flight), in_flight.len()), (ends.to_vec(), 0));
    }

    #[test]
    fn zeroes_disjoint_operands() {
        let operands = Operands::new(2).unwrap();
        assert_eq!([0, 1].map(|place| operands.result(place)), [0, 0]);
        assert!(operands.at(0)[2] < operands.at(1)[0]);
    }
}
