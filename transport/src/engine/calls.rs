//! Collective calls on top of a gather that MPI or the program provides.

use alloc::vec;
use alloc::vec::Vec;

use crate::{Call, ExchangeError, Owner, Term};

/// The part of a contribution that each member receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gathering {
    /// The whole contribution.
    ToAll,
    /// The part for this member.
    Parts,
}

/// The collective calls of one member. Before each gather the members compare what they call, and
/// with which lengths, so that all of them detect the same difference.
#[derive(Clone, Copy, Debug)]
pub struct Calls {
    me: Owner,
    owners: u32,
    /// The number of calls that this member has begun.
    begun: u64,
    /// The error with which the calls ended.
    error: Option<ExchangeError>,
}

impl Calls {
    /// Returns the calls of member `me`, of which none has begun.
    #[must_use]
    pub fn new(me: Owner, owners: u32) -> Self {
        Self { me, owners, begun: 0, error: None }
    }

    /// Returns this member.
    #[must_use]
    pub fn me(&self) -> Owner {
        self.me
    }

    /// Returns the number of members.
    #[must_use]
    pub fn owners(&self) -> u32 {
        self.owners
    }

    /// Returns the number of calls that this member has begun.
    #[must_use]
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// Returns the first error, after which no call is made.
    #[must_use]
    pub fn error(&self) -> Option<ExchangeError> {
        self.error
    }

    /// Gathers `mine` of all members into `all` by `gather`, which is given no empty buffers.
    ///
    /// # Errors
    /// The error of an earlier call; [`ExchangeError::CallsDiffer`];
    /// [`ExchangeError::LengthDiffers`]; the error of `gather`.
    pub fn gather(
        &mut self,
        how: Gathering,
        call: Call,
        mine: &[u8],
        all: &mut [u8],
        gather: impl FnMut(Gathering, &[u8], &mut [u8]) -> Result<(), ExchangeError>,
    ) -> Result<(), ExchangeError> {
        self.begun += 1;
        let result = match self.error {
            Some(error) => Err(error),
            None => self.compare_and_gather(how, call.numbered(self.begun), mine, all, gather),
        };
        self.error = result.err();
        result
    }

    /// Reduces words by `gather`, as [`Exchange::reduce`](crate::Exchange::reduce).
    ///
    /// # Errors
    /// As for [`gather`](Self::gather).
    pub fn reduce(
        &mut self,
        call: Call,
        terms: &mut [Term],
        gather: impl FnMut(Gathering, &[u8], &mut [u8]) -> Result<(), ExchangeError>,
    ) -> Result<(), ExchangeError> {
        let mine: Vec<u8> = terms.iter().flat_map(|term| term.to_bytes()).collect();
        let mut all = vec![0; mine.len() * self.owners as usize];
        self.gather(Gathering::ToAll, call, &mine, &mut all, gather)?;
        let words = all.chunks_exact(mine.len().max(1)).enumerate();
        for (_, theirs) in words.filter(|(owner, _)| *owner != self.me.0 as usize) {
            Term::add_all(terms, theirs);
        }
        Ok(())
    }

    fn compare_and_gather(
        &self,
        how: Gathering,
        call: Call,
        mine: &[u8],
        all: &mut [u8],
        mut gather: impl FnMut(Gathering, &[u8], &mut [u8]) -> Result<(), ExchangeError>,
    ) -> Result<(), ExchangeError> {
        let header = Header { mine: mine.len() as u64, all: all.len() as u64, call };
        let mut theirs = vec![0; Header::BYTES * self.owners as usize];
        gather(Gathering::ToAll, &header.encode(), &mut theirs)?;
        let theirs = theirs.as_chunks().0.iter().map(Header::decode);
        let theirs = (0..).map(Owner).zip(theirs);
        // The calls of all members first: those of different calls may differ in length as well, and
        // every member must report the same.
        let first = theirs.clone().next().map_or(call, |(_, first)| first.call);
        for (owner, Header { call: found, .. }) in theirs.clone() {
            if found != first {
                return Err(ExchangeError::CallsDiffer { owner, expected: first, found });
            }
        }
        let owners = u64::from(self.owners);
        for (owner, theirs) in theirs {
            let fits = match how {
                Gathering::ToAll => theirs.mine.saturating_mul(owners),
                Gathering::Parts => theirs.mine / owners * owners,
            };
            for (expected, found) in [(header.mine, theirs.mine), (theirs.all, fits)] {
                if expected != found {
                    let bytes = |length| u32::try_from(length).unwrap_or(u32::MAX);
                    let (expected, found) = (bytes(expected), bytes(found));
                    return Err(ExchangeError::LengthDiffers { owner, expected, found });
                }
            }
        }
        if mine.is_empty() { Ok(()) } else { gather(how, mine, all) }
    }
}

/// Implements [`Exchange`](crate::Exchange) for a type with a field `calls`, its [`Calls`], and a method `gather` that
/// gathers as [`Calls::gather`] needs it.
#[macro_export]
macro_rules! exchange_of_gather {
    ($members:ty) => {
        impl $crate::Exchange for $members {
            fn me(&self) -> $crate::Owner {
                self.calls.me()
            }

            fn owners(&self) -> u32 {
                self.calls.owners()
            }

            fn calls(&self) -> u64 {
                self.calls.begun()
            }

            fn all_gather(
                &mut self,
                mine: &[u8],
                all: &mut [u8],
            ) -> Result<(), $crate::ExchangeError> {
                let (mut calls, call) = (self.calls, const { $crate::Call::new("all_gather") });
                let gather = |how, mine: &_, all: &mut _| self.gather(how, mine, all);
                let how = $crate::engine::Gathering::ToAll;
                let result = calls.gather(how, call, mine, all, gather);
                self.calls = calls;
                result
            }

            fn all_to_all(
                &mut self,
                mine: &[u8],
                theirs: &mut [u8],
            ) -> Result<(), $crate::ExchangeError> {
                let (mut calls, call) = (self.calls, const { $crate::Call::new("all_to_all") });
                let gather = |how, mine: &_, all: &mut _| self.gather(how, mine, all);
                let how = $crate::engine::Gathering::Parts;
                let result = calls.gather(how, call, mine, theirs, gather);
                self.calls = calls;
                result
            }

            fn barrier(&mut self) -> Result<(), $crate::ExchangeError> {
                self.reduce(const { $crate::Call::new("barrier") }, &mut [])
            }

            fn reduce(
                &mut self,
                call: $crate::Call,
                terms: &mut [$crate::Term],
            ) -> Result<(), $crate::ExchangeError> {
                // This CPU's stores take effect before any member returns from a barrier.
                core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
                let mut calls = self.calls;
                let gather = |how, mine: &_, all: &mut _| self.gather(how, mine, all);
                let result = calls.reduce(call, terms, gather);
                self.calls = calls;
                result
            }
        }
    };
}

/// The header of a contribution, which members compare.
struct Header {
    /// The lengths of the contribution and of the room for the result.
    mine: u64,
    all: u64,
    call: Call,
}

impl Header {
    const LENGTHS: usize = 2 * size_of::<u64>();
    const BYTES: usize = Self::LENGTHS + Call::BYTES;

    fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let (lengths, call) = bytes.split_at_mut(Self::LENGTHS);
        lengths.copy_from_slice([self.mine, self.all].map(u64::to_le_bytes).as_flattened());
        call.copy_from_slice(&self.call.encode());
        bytes
    }

    fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        let (lengths, call) = bytes.split_at(Self::LENGTHS);
        let call = call.try_into().map_or(Call::new(""), Call::decode);
        let length = |nth: usize| lengths.as_chunks().0.get(nth).copied().unwrap_or_default();
        let [mine, all] = [0, 1].map(|nth| u64::from_le_bytes(length(nth)));
        Self { mine, all, call }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gathers what this member and another one give, which has other bytes in its header.
    fn with_other(
        change: impl Fn(&mut Header),
    ) -> impl FnMut(Gathering, &[u8], &mut [u8]) -> Result<(), ExchangeError> {
        move |_, mine, all| {
            let mut theirs = Header::decode(mine.try_into().unwrap());
            change(&mut theirs);
            let (first, second) = all.split_at_mut(mine.len());
            first.copy_from_slice(mine);
            second.copy_from_slice(&theirs.encode());
            Ok(())
        }
    }

    #[test]
    fn refuses_calls_after_difference() {
        let mut calls = Calls::new(Owner(0), 2);
        let barrier = Call::new("barrier");
        assert_eq!(calls.reduce(barrier, &mut [], with_other(|_| {})), Ok(()));
        let found = Call::new("Map::len").numbered(2);
        let error =
            ExchangeError::CallsDiffer { owner: Owner(1), expected: barrier.numbered(2), found };
        let other = |theirs: &mut Header| theirs.call = found;
        assert_eq!(calls.reduce(barrier, &mut [], with_other(other)), Err(error));
        assert_eq!(calls.reduce(barrier, &mut [], with_other(|_| {})), Err(error));
        assert_eq!((calls.begun(), calls.error()), (3, Some(error)));
    }

    /// Compares on a member whose call gathers another number of bytes than that of the first.
    #[test]
    fn compares_calls_before_lengths() {
        let (gather, barrier) = (Call::new("gather").numbered(1), Call::new("barrier").numbered(1));
        let first = Header { mine: 8, all: 16, call: gather };
        let headers = |_, mine: &[u8], all: &mut [u8]| {
            let (to_first, to_me) = all.split_at_mut(mine.len());
            to_first.copy_from_slice(&first.encode());
            to_me.copy_from_slice(mine);
            Ok(())
        };
        let error = Calls::new(Owner(1), 2).reduce(barrier, &mut [], headers);
        let (owner, expected, found) = (Owner(1), gather, barrier);
        assert_eq!(error, Err(ExchangeError::CallsDiffer { owner, expected, found }));
    }

    #[test]
    fn refuses_differing_lengths() {
        let mut calls = Calls::new(Owner(0), 2);
        let other = |theirs: &mut Header| theirs.mine = 3;
        let gathered = calls.gather(
            Gathering::ToAll,
            Call::new("test"),
            &[0; 2],
            &mut [0; 4],
            with_other(other),
        );
        let error = ExchangeError::LengthDiffers { owner: Owner(1), expected: 2, found: 3 };
        assert_eq!(gathered, Err(error));
    }
}
