//! The machine of a region's operations: fetch a page, send its changes, acquire a lock, pass it on.

mod lock;
mod page;

use probeline_pipeline::{Completed, Error, Machine, Next, Port, Run};
use probeline_transport::{SlotRange, Transport};

pub(crate) use self::lock::{Acquire, Publish};
use self::page::REGISTER;
pub(crate) use self::page::{Fetch, Send};
use crate::context::Context;

/// An operation of a region.
#[derive(Clone, Copy, Debug, Hash)]
pub enum Transfer {
    /// It has ended, or was not started.
    Idle,
    /// Read a page.
    Fetch(Fetch),
    /// Send the changes of an edited page to its home.
    Send(Send),
    /// Acquire a lock.
    Acquire(Acquire),
    /// Tell the next holder of a lock what has changed, and pass the lock on.
    Publish(Publish),
}

/// The outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The page is in the mirror.
    Fetched,
    /// The changes have arrived.
    Sent,
    /// The lock is held.
    Acquired,
    /// Another rank holds the lock.
    Waiting,
    /// The lock was passed on.
    Released,
}

impl Machine for Transfer {
    type Outcome = Outcome;
    const IDLE: Self = Self::Idle;
    const SLOTS: u32 = 1;
}

impl<M: AsMut<[u64]>> Run<Context<M>> for Transfer {
    #[inline]
    fn advance(
        &mut self,
        shared: &mut Context<M>,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<Outcome> {
        match self {
            Self::Idle => Err(Error::Idle.into()),
            Self::Fetch(fetch) => fetch.advance(shared, port),
            Self::Send(send) => send.advance(shared, port),
            Self::Acquire(acquire) => acquire.advance(shared, port),
            Self::Publish(publish) => publish.advance(shared, port),
        }
    }

    #[inline]
    fn on_completion(
        &mut self,
        completed: Completed,
        shared: &mut Context<M>,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<Outcome> {
        match self {
            Self::Idle => Err(Error::Idle.into()),
            Self::Fetch(fetch) => {
                fetch.in_flight -= 1;
                if completed.post_id == REGISTER {
                    fetch.registered(completed.word, shared)?;
                }
                fetch.advance(shared, port)
            }
            Self::Send(send) => {
                send.in_flight -= 1;
                if completed.post_id == REGISTER {
                    send.registered(completed.word, shared)?;
                }
                send.advance(shared, port)
            }
            Self::Acquire(acquire) => acquire.on_completion(completed.word, shared, port),
            Self::Publish(publish) => {
                publish.in_flight -= 1;
                publish.advance(shared, port)
            }
        }
    }
}

/// Returns words of the operation's slot.
fn slot_words(port: &Port<'_, impl Transport>, start: u32, words: u32) -> SlotRange {
    SlotRange { slot: port.slot(0), start, words }
}
