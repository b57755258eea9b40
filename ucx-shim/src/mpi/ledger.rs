//! The operations that were accepted and not yet reported, in the order of their posts, and how they
//! have ended: well, all that were posted to an owner before its flush; badly, the others once MPI
//! has failed.

use probeline_transport::{OpError, Owner, Token};

/// An accepted operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) token: Token,
    pub(super) owner: Owner,
    pub(super) kind: Kind,
}

/// What becomes of its result.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// READ or WRITE.
    Copy,
    /// The old value lands in the words of the operation's place.
    Atomic,
}

/// The operation to be reported next.
#[derive(Clone, Copy, Debug)]
pub(super) struct First {
    pub(super) place: usize,
    pub(super) entry: Entry,
    /// How, if it has.
    pub(super) ended: Option<Result<(), OpError>>,
}

/// A ring of operations, which are reported in the order of their posts.
#[derive(Debug)]
pub(super) struct Ledger {
    /// A power of two, so that places are masked.
    ring: Box<[Entry]>,
    depth: u32,
    /// How many were ever entered, and how many of them taken.
    entered: u64,
    taken: u64,
    /// By owner: of its operations, how many of all had been entered when it was flushed last.
    flushed: Box<[u64]>,
    /// Where MPI has failed first, and how.
    failed: Option<(Owner, OpError)>,
}

impl Ledger {
    /// Room for `depth` operations on `owners` owners.
    pub(super) fn new(depth: u32, owners: u32) -> Self {
        let none = Entry { token: Token(0), owner: Owner(0), kind: Kind::Atomic };
        Self {
            ring: vec![none; Self::places(depth) as usize].into(),
            depth,
            entered: 0,
            taken: 0,
            flushed: vec![0; owners as usize].into(),
            failed: None,
        }
    }

    /// Places that a ledger of this depth has.
    pub(super) fn places(depth: u32) -> u32 {
        depth.next_power_of_two()
    }

    /// Operations in it.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "as many as the depth at most")]
    pub(super) fn len(&self) -> u32 {
        (self.entered - self.taken) as u32
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.len() >= self.depth
    }

    /// How many were ever entered.
    #[inline]
    pub(super) fn entered(&self) -> u64 {
        self.entered
    }

    /// How many were ever taken.
    #[inline]
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// The place of the operation that was entered after `count` others.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "what the mask leaves is an index")]
    fn place(&self, count: u64) -> usize {
        count as usize & (self.ring.len() - 1)
    }

    /// The place of the next operation to be entered.
    #[inline]
    pub(super) fn next_place(&self) -> usize {
        self.place(self.entered)
    }

    /// Enters an operation; the caller has seen that there is room.
    #[inline]
    pub(super) fn enter(&mut self, entry: Entry) {
        let place = self.next_place();
        match self.ring.get_mut(place) {
            Some(place) => {
                *place = entry;
                self.entered += 1;
            }
            None => debug_assert!(false, "the mask leaves a place of the ring"),
        }
    }

    /// The operation to be reported next.
    #[inline(always)]
    pub(super) fn first(&self) -> Option<First> {
        if self.entered == self.taken {
            return None;
        }
        let place = self.place(self.taken);
        let entry = *self.ring.get(place)?;
        let ended =
            if self.is_flushed(self.taken, entry.owner) { Some(Ok(())) } else { self.lost(entry) };
        Some(First { place, entry, ended })
    }

    /// How an operation that no flush has ended did, if MPI has failed.
    #[inline]
    fn lost(&self, entry: Entry) -> Option<Result<(), OpError>> {
        let (owner, error) = self.failed?;
        Some(Err(if entry.owner == owner { error } else { OpError::Flushed }))
    }

    /// Takes the first, which there is.
    #[inline]
    pub(super) fn take_first(&mut self) {
        self.taken += 1;
    }

    /// All that were entered for `owner` have ended.
    #[inline]
    pub(super) fn end_all_of(&mut self, owner: Owner) {
        match self.flushed.get_mut(owner.0 as usize) {
            Some(flushed) => *flushed = self.entered,
            None => debug_assert!(false, "{owner} was flushed and is not there"),
        }
    }

    /// MPI has failed in a call for `owner`, and ends nothing any more.
    #[cold]
    pub(super) fn fail(&mut self, owner: Owner, error: OpError) {
        self.failed.get_or_insert((owner, error));
    }

    #[inline]
    pub(super) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Some owner that a flush is yet to end operations of; none once MPI has failed.
    pub(super) fn any_awaited(&self) -> Option<Owner> {
        if self.has_failed() {
            return None;
        }
        (self.taken..self.entered)
            .filter_map(|count| Some((count, self.ring.get(self.place(count))?.owner)))
            .find_map(|(count, owner)| (!self.is_flushed(count, owner)).then_some(owner))
    }

    /// Whether a flush has ended the operation on `owner` that was entered after `count` others.
    #[inline]
    fn is_flushed(&self, count: u64, owner: Owner) -> bool {
        self.flushed.get(owner.0 as usize).is_some_and(|flushed| count < *flushed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(ledger: &mut Ledger, owner: u32, token: u64) {
        ledger.enter(Entry { token: Token(token), owner: Owner(owner), kind: Kind::Atomic });
    }

    /// The owner of the first, unless that has ended.
    fn awaited(ledger: &Ledger) -> Option<Owner> {
        let first = ledger.first()?;
        first.ended.is_none().then_some(first.entry.owner)
    }

    /// Those at the front that have ended: their tokens, and how.
    fn take_ends(ledger: &mut Ledger) -> Vec<(u64, Result<(), OpError>)> {
        let mut taken = Vec::new();
        while let Some(First { entry, ended: Some(ended), .. }) = ledger.first() {
            taken.push((entry.token.0, ended));
            ledger.take_first();
        }
        taken
    }

    /// The tokens of those at the front that have ended well.
    fn take_all(ledger: &mut Ledger) -> Vec<u64> {
        let ends = take_ends(ledger);
        assert!(ends.iter().all(|(_, ended)| ended.is_ok()));
        ends.into_iter().map(|(token, _)| token).collect()
    }

    #[test]
    fn a_flush_ends_what_was_posted_to_its_owner_before() {
        let mut ledger = Ledger::new(4, 3);
        for (owner, token) in [(2, 1), (0, 2), (2, 3), (0, 4)] {
            assert!(!ledger.is_full());
            enter(&mut ledger, owner, token);
        }
        assert!(ledger.is_full());
        assert_eq!(awaited(&ledger), Some(Owner(2)));
        ledger.end_all_of(Owner(2));
        assert_eq!(take_all(&mut ledger), [1]);
        assert_eq!(awaited(&ledger), Some(Owner(0)));
        enter(&mut ledger, 2, 5);
        ledger.end_all_of(Owner(0));
        assert_eq!(take_all(&mut ledger), [2, 3, 4]);
        assert_eq!((awaited(&ledger), ledger.len()), (Some(Owner(2)), 1));
        ledger.end_all_of(Owner(2));
        assert_eq!((take_all(&mut ledger), ledger.len()), (vec![5], 0));
    }

    #[test]
    fn places_are_one_operations_at_a_time() {
        let mut ledger = Ledger::new(3, 2);
        for round in 0..7_u64 {
            let mut places = Vec::new();
            for owner in 0..2 {
                places.push(ledger.next_place());
                enter(&mut ledger, owner, 2 * round + u64::from(owner));
            }
            assert_ne!(places[0], places[1]);
            for (owner, place) in (0..2).zip(places) {
                assert_eq!(awaited(&ledger), Some(Owner(owner)));
                ledger.end_all_of(Owner(owner));
                assert_eq!(ledger.first().map(|first| first.place), Some(place));
                assert_eq!(take_all(&mut ledger), [2 * round + u64::from(owner)]);
            }
        }
        assert_eq!((ledger.entered(), ledger.taken()), (14, 14));
    }

    #[test]
    fn who_is_awaited_is_found_behind_what_has_ended() {
        let mut ledger = Ledger::new(4, 3);
        for owner in [1, 2, 1] {
            enter(&mut ledger, owner, 0);
        }
        ledger.end_all_of(Owner(1));
        assert_eq!(ledger.any_awaited(), Some(Owner(2)));
        ledger.end_all_of(Owner(2));
        assert_eq!(ledger.any_awaited(), None);
    }

    #[test]
    fn a_failure_is_that_of_one_owners_operations() {
        const BROKEN: OpError = OpError::Device { code: 5 };
        let mut ledger = Ledger::new(8, 3);
        enter(&mut ledger, 0, 1);
        enter(&mut ledger, 1, 2);
        ledger.end_all_of(Owner(1));
        enter(&mut ledger, 1, 3);
        enter(&mut ledger, 2, 4);
        ledger.fail(Owner(1), BROKEN);
        ledger.fail(Owner(2), OpError::Device { code: 6 });
        assert_eq!((awaited(&ledger), ledger.any_awaited()), (None, None));
        let flushed = Err(OpError::Flushed);
        let ends = [(1, flushed), (2, Ok(())), (3, Err(BROKEN)), (4, flushed)];
        assert_eq!((take_ends(&mut ledger), ledger.len()), (ends.to_vec(), 0));
    }
}
