//! One-sided operations that a structure awaits one by one while nothing else is in flight.

use probeline_transport::{
    Completion, OpError, PostError, Request, Slot, SlotRange, Token, Transport,
};

use crate::error::Error;
use crate::machine::{Machine, Run};
use crate::operation::Operation;
use crate::pipeline::Pipeline;
use crate::sink::Polled;

/// A post id that no operation of a pipeline uses, so that its completions are told from theirs.
const TOKEN: Token = Token(u64::MAX);

/// A pipeline without operations in flight, for a blocking call that posts itself: an operation takes
/// less work than a machine in storage, and no more roundtrips if each post depends on the one before.
pub struct Alone<'p, T, S, X, M: Machine> {
    pipeline: &'p mut Pipeline<T, S, X, M>,
    first_slot: u32,
}

impl<T, S, X, M> Pipeline<T, S, X, M>
where
    T: Transport,
    S: AsMut<[Operation<M>]>,
    M: Run<X>,
{
    /// Returns `None` if an operation is in flight, no storage is free, or a call would fail.
    #[inline]
    pub fn alone(&mut self) -> Option<Alone<'_, T, S, X, M>> {
        let free = self.lists.free.first();
        let is_idle = self.lists.active == 0 && self.fault.is_none();
        if !is_idle || free >= self.capacity || self.check_storage().is_err() {
            return None;
        }
        Some(Alone { first_slot: free * M::SLOTS, pipeline: self })
    }
}

impl<T, S, X, M> Alone<'_, T, S, X, M>
where
    T: Transport,
    S: AsMut<[Operation<M>]>,
    M: Run<X>,
{
    /// Returns the `nth` of a free operation's slots, of which there are [`Machine::SLOTS`].
    #[inline]
    #[must_use]
    pub fn slot(&self, nth: u32) -> Slot {
        if nth < M::SLOTS { Slot(self.first_slot + nth) } else { Slot(u32::MAX) }
    }

    /// Runs a one-sided operation and waits until it has completed; the transport bounds the wait.
    /// Returns the old value of an atomic.
    ///
    /// # Errors
    /// [`Error::Post`], [`Error::Failed`], or [`Error::Fault`].
    #[inline(always)]
    pub fn run(&mut self, request: Request) -> Result<u64, Error> {
        let Pipeline { transport, completions, .. } = &mut *self.pipeline;
        // Polls of a transport that is full complete what others have in flight on it.
        let mut is_posted = false;
        loop {
            if !is_posted {
                is_posted = match transport.post(TOKEN, request) {
                    Ok(()) => true,
                    // The poll returns the fault.
                    Err(PostError::Full | PostError::Closed) => false,
                    Err(error) => return Err(error.into()),
                };
            }
            let [place, ..] = &mut *completions;
            match transport.poll(core::slice::from_mut(place)) {
                Ok(0) => {}
                Ok(_) if place.token == TOKEN => return result(*place),
                // Of an earlier user of the transport.
                Ok(_) => {}
                Err(fault) => {
                    self.pipeline.on_fault(fault, &mut Polled::new(&mut []));
                    return Err(fault.into());
                }
            }
        }
    }

    /// Returns the words of a slot.
    ///
    /// # Errors
    /// As for [`Transport::landed`].
    #[inline(always)]
    pub fn landed(&self, at: SlotRange) -> Result<&[u64], PostError> {
        self.pipeline.transport.landed(at)
    }

    /// Returns the words of a slot, to change them.
    ///
    /// # Errors
    /// As for [`Transport::staged`].
    #[inline(always)]
    pub fn staged(&mut self, at: SlotRange) -> Result<&mut [u64], PostError> {
        self.pipeline.transport.staged(at)
    }

    /// Returns the transport and the shared context.
    #[inline(always)]
    pub fn parts(&mut self) -> (&T, &mut X) {
        self.pipeline.parts()
    }
}

#[inline(always)]
fn result(completion: Completion) -> Result<u64, Error> {
    completion.result.map_err(|error: OpError| Error::Failed(error))
}
