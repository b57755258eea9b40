//! What an operation is: a state machine that posts one-sided operations and is told of their
//! completions.

use probeline_transport::{PostError, SlotError, Transport};

use crate::error::Error;
use crate::port::Port;

/// One operation of a data structure: its state, kept in an [`Operation`](crate::Operation).
pub trait Machine: Copy {
    /// How an operation ends. The default fills arrays that [`Pipeline::poll_into`] writes to.
    ///
    /// [`Pipeline::poll_into`]: crate::Pipeline::poll_into
    type Outcome: Copy + Default;
    /// Why an operation ends without an outcome.
    type Error: Copy + From<Error>;
    /// A value for storage that is free.
    const IDLE: Self;
    /// Slots of the engine that each operation lands and stages words in ([`Port::slot`]).
    const SLOTS: u32;
}

/// How a [`Machine`] runs, beside a context `X` that all operations of a structure share.
pub trait Run<X>: Machine {
    /// Does what can be done now: posts what is due, or ends. Called to start the operation, and
    /// again after [`Stop::NoRoom`] and [`Step::Yield`]; it must then go on where it stopped.
    ///
    /// # Errors
    /// [`Stop`]: the transport is full, or the operation ends in error.
    fn advance(
        &mut self,
        shared: &mut X,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<Self::Outcome>;

    /// One of its one-sided operations has completed. One that fails is not handed to the machine:
    /// it ends the operation with [`Error::Failed`].
    ///
    /// # Errors
    /// As for [`advance`](Self::advance), which is called next after [`Stop::NoRoom`].
    fn on_completion(
        &mut self,
        completed: Completed,
        shared: &mut X,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<Self::Outcome>;

    /// An operation has ended in error, for structures that count them.
    fn on_error(_shared: &mut X) {}
}

/// What a machine answers.
pub type Next<O> = Result<Step<O>, Stop>;

/// What comes next for an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<O> {
    /// A completion of what it has posted.
    Wait,
    /// [`Run::advance`] in the next round: it has asked the CPU for a cache line, for example.
    Yield,
    /// Nothing: this is its outcome. One-sided operations of it may still be in flight; their
    /// completions are dropped, and its storage is free when the last of them is in.
    Done(O),
}

/// Why a machine cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The transport has no room for what is due: call [`Run::advance`] when it has.
    NoRoom,
    /// The operation ends in error.
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<PostError> for Stop {
    fn from(error: PostError) -> Self {
        Self::Failed(Error::Post(error))
    }
}

impl From<SlotError> for Stop {
    fn from(error: SlotError) -> Self {
        Self::Failed(Error::Slot(error))
    }
}

/// The completion of one of a machine's one-sided operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// The part it was posted as.
    pub part: u8,
    /// An atomic's old word; 0 for READ and WRITE.
    pub word: u64,
}
