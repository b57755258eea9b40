//! The interface of an operation: a state machine that posts one-sided operations and receives
//! their completions. The smallest one is an atomic.

use core::hash::Hasher;

use probeline_transport::{Owner, RemoteWord, Request, Transport};

use crate::error::Stop;
use crate::port::Port;

/// The state of one operation of a data structure, kept in an [`Operation`](crate::Operation).
pub trait Machine: Copy {
    /// The outcome of an operation.
    type Outcome: Copy;
    /// The value of free storage.
    const IDLE: Self;
    /// Number of engine slots for the landing and staging words of each operation ([`Port::slot`]).
    const SLOTS: u32;

    /// Replaces this machine, whose operation has ended, by the `next` one in the same storage. A
    /// machine that has reserved memory and not used it can pass it to `next` here.
    #[inline(always)]
    fn replace_with(&mut self, next: Self) {
        *self = next;
    }

    /// Hashes what [`replace_with`](Self::replace_with) passes to the next machine, for model
    /// checkers: it determines how later operations continue.
    fn hash_passed_on<H: Hasher>(&self, _: &mut H) {}
}

/// Runs a [`Machine`] with a context `X` that all operations of a structure share.
pub trait Run<X>: Machine {
    /// Advances the operation as far as possible: posts the one-sided operations that are due, or
    /// returns the outcome.
    ///
    /// The pipeline calls it to start the operation, and again after [`Stop::NoRoom`] and
    /// [`Step::Yield`]. It must then continue from the point at which it stopped.
    ///
    /// # Errors
    /// [`Stop`]: the transport is full, or the operation fails.
    fn advance(
        &mut self,
        shared: &mut X,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<Self::Outcome>;

    /// Handles the completion of one of its one-sided operations. The machine receives successful
    /// completions only: a failed one completes the operation with [`Error::Failed`](crate::Error::Failed).
    ///
    /// # Errors
    /// As for [`advance`](Self::advance), which is called next after [`Stop::NoRoom`].
    fn on_completion(
        &mut self,
        completed: Completed,
        shared: &mut X,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<Self::Outcome>;

    /// Handles the failure of the operation: counts it, or releases what it holds in `shared`.
    fn on_error(&mut self, _shared: &mut X) {}
}

/// The result of a call of a machine.
pub type Next<O> = Result<Step<O>, Stop>;

/// The next step of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<O> {
    /// Wait for a completion of its posts.
    Wait,
    /// Call [`Run::advance`] in the next round, for example after a prefetch.
    Yield,
    /// The operation is done with this outcome. One-sided operations of it may still be in flight:
    /// their completions are dropped, and its storage is free after the last of them.
    Done(O),
}

/// The completion of one of a machine's one-sided operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// The id that the machine chose for the post.
    pub post_id: u8,
    /// The old word of an atomic; 0 for READ and WRITE.
    pub word: u64,
}

/// Posts one compare-and-swap or fetch-and-add. The outcome is the word before the atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Atomic(pub Request);

impl Machine for Atomic {
    type Outcome = u64;
    const IDLE: Self =
        Self(Request::FetchAdd { at: RemoteWord { owner: Owner(0), index: 0 }, addend: 0 });
    const SLOTS: u32 = 0;
}

impl<X> Run<X> for Atomic {
    #[inline]
    fn advance(&mut self, _: &mut X, port: &mut Port<'_, impl Transport>) -> Next<u64> {
        port.post(0, self.0)?;
        Ok(Step::Wait)
    }

    #[inline]
    fn on_completion(
        &mut self,
        completed: Completed,
        _: &mut X,
        _: &mut Port<'_, impl Transport>,
    ) -> Next<u64> {
        Ok(Step::Done(completed.word))
    }
}
