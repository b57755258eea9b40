//! The members of a job, and their collective calls before and between phases of one-sided work.

use crate::{Call, ExchangeError, MAX_OWNERS, Owner, Term};

/// The members of a job and their collective calls, made by all of them in the same order.
///
/// A call may block, within a bound that the implementation states. If a member dies, all others'
/// calls fail with [`ExchangeError::OwnerLost`] or [`ExchangeError::OwnerExited`]. If members make
/// different calls, or the same calls in another order, all calls fail with
/// [`ExchangeError::CallsDiffer`]. After an error the exchange is unusable.
pub trait Exchange {
    /// Returns the owner that is this process.
    fn me(&self) -> Owner;

    /// Returns the number of processes that take part.
    fn owners(&self) -> u32;

    /// Returns the number of collective calls that this process has begun, those included that were
    /// refused. It is the same on all owners while they are in step. An exchange that does not
    /// count returns 0; it detects fewer differences between calls.
    fn calls(&self) -> u64 {
        0
    }

    /// Gathers each owner's `mine` into `all`, in the order of owners.
    ///
    /// # Errors
    /// [`ExchangeError::LengthDiffers`] unless all contributions have one length and `all` is
    /// that times `owners`; otherwise the reason why the job cannot continue.
    fn all_gather(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), ExchangeError>;

    /// Sends each owner its part of `mine`, and gathers into `theirs` the parts of all owners for
    /// this one. Both buffers hold one part per owner, in the order of owners, all of the same
    /// length.
    ///
    /// Use it for data that differs for each pair of owners, such as queue pair numbers: the volume
    /// per owner grows with the number of owners, while that of an all-gather would grow with its
    /// square. The default makes a reduction, and an all-gather for each eight bytes of `mine`, with 32 KiB of
    /// stack: an
    /// implementation for more than a few owners has its own.
    ///
    /// # Errors
    /// [`ExchangeError::LengthDiffers`] unless `mine` and `theirs` have the same length, on all
    /// owners, and it is a multiple of `owners`; otherwise the reason why the job cannot continue.
    fn all_to_all(&mut self, mine: &[u8], theirs: &mut [u8]) -> Result<(), ExchangeError> {
        let (me, owners) = (self.me(), self.owners() as usize);
        let part = mine.len() / owners.max(1);
        let checked = ExchangeError::check_length(me, mine.len(), part * owners)
            .and(ExchangeError::check_length(me, theirs.len(), mine.len()));
        // An owner with other lengths tells the others, which would wait for it.
        let length = if checked.is_ok() { part as u64 } else { u64::MAX };
        let mut terms = [Term::Min(length), Term::Max(length)];
        self.reduce(const { Call::new("all_to_all") }, &mut terms)?;
        checked?;
        let [min, max] = terms.map(|term| usize::try_from(term.value()).unwrap_or(usize::MAX));
        ExchangeError::check_length(me, max, min)?;
        let mut buffer = [[0; 8]; MAX_OWNERS as usize];
        for (to, part_of) in (0..).map(Owner).zip(mine.chunks_exact(part.max(1))) {
            for (nth, piece) in part_of.chunks(8).enumerate() {
                let all = buffer.as_flattened_mut().get_mut(..piece.len() * owners);
                let all = all.ok_or(ExchangeError::TooManyOwners)?;
                self.all_gather(piece, all)?;
                let places =
                    theirs.chunks_exact_mut(part).filter_map(|of| of.chunks_mut(8).nth(nth));
                let pieces = places.zip(all.chunks_exact(piece.len())).filter(|_| to == me);
                pieces.for_each(|(place, piece)| place.copy_from_slice(piece));
            }
        }
        self.barrier()
    }

    /// Returns when all owners have called it. Each then sees what any of them stored before.
    ///
    /// # Errors
    /// [`ExchangeError`]: an owner is lost, is late or made another call, and the job cannot continue.
    fn barrier(&mut self) -> Result<(), ExchangeError> {
        self.all_gather(&[], &mut [])
    }

    /// Replaces each of the terms by the sum, the smallest or the largest of all owners' words at
    /// its place. `call` is the call on whose behalf this is; no terms make a barrier.
    ///
    /// The default makes one all-gather for the call and one for each term, with 32 KiB of stack.
    ///
    /// # Errors
    /// [`ExchangeError::CallsDiffer`] if owners pass different calls; otherwise the reason why the
    /// job cannot continue.
    fn reduce(&mut self, call: Call, terms: &mut [Term]) -> Result<(), ExchangeError> {
        let mut buffer = [[0; 8]; MAX_OWNERS as usize];
        let owners = self.owners();
        let buffer = buffer.get_mut(..owners as usize).ok_or(ExchangeError::TooManyOwners)?;
        let mine = call.digest();
        self.all_gather(&mine.to_le_bytes(), buffer.as_flattened_mut())?;
        let named = |digest: [u8; 8]| {
            if u64::from_le_bytes(digest) == mine { call } else { Call::new("") }
        };
        let first = buffer.first().copied().unwrap_or_default();
        for (owner, theirs) in (0..).map(Owner).zip(&*buffer) {
            if *theirs != first {
                let (expected, found) = (named(first), named(*theirs));
                return Err(ExchangeError::CallsDiffer { owner, expected, found });
            }
        }
        let me = self.me().0 as usize;
        for term in terms {
            self.all_gather(&term.to_bytes(), buffer.as_flattened_mut())?;
            let others = buffer.iter().enumerate().filter(|(owner, _)| *owner != me);
            others.for_each(|(_, word)| term.add(u64::from_le_bytes(*word)));
        }
        Ok(())
    }

    /// Returns the sum of all owners' numbers, at most `u64::MAX`.
    ///
    /// # Errors
    /// As for [`reduce`](Self::reduce).
    fn sum(&mut self, mine: u64) -> Result<u64, ExchangeError> {
        let mut terms = [Term::Sum(mine)];
        self.reduce(const { Call::new("sum") }, &mut terms)?;
        Ok(terms[0].value())
    }

    /// Returns the smallest of all owners' numbers.
    ///
    /// # Errors
    /// As for [`reduce`](Self::reduce).
    fn min(&mut self, mine: u64) -> Result<u64, ExchangeError> {
        let mut terms = [Term::Min(mine)];
        self.reduce(const { Call::new("min") }, &mut terms)?;
        Ok(terms[0].value())
    }

    /// Returns the largest of all owners' numbers.
    ///
    /// # Errors
    /// As for [`reduce`](Self::reduce).
    fn max(&mut self, mine: u64) -> Result<u64, ExchangeError> {
        let mut terms = [Term::Max(mine)];
        self.reduce(const { Call::new("max") }, &mut terms)?;
        Ok(terms[0].value())
    }
}

impl<E: Exchange + ?Sized> Exchange for &mut E {
    fn me(&self) -> Owner {
        (**self).me()
    }

    fn owners(&self) -> u32 {
        (**self).owners()
    }

    fn all_gather(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), ExchangeError> {
        (**self).all_gather(mine, all)
    }

    fn all_to_all(&mut self, mine: &[u8], theirs: &mut [u8]) -> Result<(), ExchangeError> {
        (**self).all_to_all(mine, theirs)
    }

    fn barrier(&mut self) -> Result<(), ExchangeError> {
        (**self).barrier()
    }

    fn calls(&self) -> u64 {
        (**self).calls()
    }

    fn reduce(&mut self, call: Call, terms: &mut [Term]) -> Result<(), ExchangeError> {
        (**self).reduce(call, terms)
    }
}

/// The exchange of a job with one member.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl Exchange for Alone {
    fn me(&self) -> Owner {
        Owner(0)
    }

    fn owners(&self) -> u32 {
        1
    }

    fn all_gather(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), ExchangeError> {
        ExchangeError::check_length(Owner(0), mine.len(), all.len())?;
        all.copy_from_slice(mine);
        Ok(())
    }

    fn all_to_all(&mut self, mine: &[u8], theirs: &mut [u8]) -> Result<(), ExchangeError> {
        self.all_gather(mine, theirs)
    }

    fn reduce(&mut self, _: Call, _: &mut [Term]) -> Result<(), ExchangeError> {
        Ok(())
    }
}
