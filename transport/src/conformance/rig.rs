//! What one owner holds while it runs a case: its engine, its exchange, and bounded waits.

use core::fmt;
use core::time::Duration;
use std::time::Instant;

use crate::{
    Completion, Exchange, ExchangeError, Fault, Local, OpError, Owner, PostError, RemoteWord,
    Segment, Slot, SlotError, Token, Transport,
};

/// What did not hold, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for Failure {}

macro_rules! failure_from {
    ($($error:ty),*) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self(format!("{error} ({error:?})"))
            }
        }
    )*};
}

failure_from!(ExchangeError, Fault, OpError, PostError, SlotError);

/// One owner's engine and exchange.
pub struct Rig<'a> {
    /// The engine under test.
    pub transport: &'a mut dyn Transport,
    /// The exchange it was opened with.
    pub exchange: &'a mut dyn Exchange,
    /// The longest wait for one completion, or for a fault, before the case fails.
    pub patience: Duration,
    /// Allocations made by this thread so far, where the test counts them.
    pub allocations: Option<fn() -> u64>,
}

impl<'a> Rig<'a> {
    /// A rig that waits at most a minute, which is enough on a busy machine, and counts no
    /// allocations.
    pub fn new(transport: &'a mut dyn Transport, exchange: &'a mut dyn Exchange) -> Self {
        Self { transport, exchange, patience: Duration::from_secs(60), allocations: None }
    }

    pub(super) fn me(&self) -> u32 {
        self.exchange.me().0
    }

    pub(super) fn owners(&self) -> u32 {
        self.exchange.owners()
    }

    /// Everybody but this owner is idle in a barrier until `body` ends.
    pub(super) fn alone(
        &mut self,
        who: u32,
        body: impl FnOnce(&mut Self) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.exchange.barrier()?;
        if self.me() == who {
            body(self)?;
        }
        self.exchange.barrier()?;
        Ok(())
    }

    /// Polls until one operation ends.
    pub(super) fn next(&mut self) -> Result<Completion, Failure> {
        let mut one = [Completion::default()];
        let start = Instant::now();
        loop {
            if self.transport.poll(&mut one)? == 1 {
                return Ok(one[0]);
            }
            if start.elapsed() > self.patience {
                let in_flight = self.transport.in_flight();
                return Err(Failure(format!("no completion, {in_flight} in flight")));
            }
            std::thread::yield_now();
        }
    }

    /// Polls until the one operation in flight ends; it must bear `token`.
    pub(super) fn finish(&mut self, token: u64) -> Result<u64, Failure> {
        let end = self.next()?;
        same("token", end.token.0, token)?;
        same("operations in flight", self.transport.in_flight(), 0)?;
        Ok(end.result?)
    }

    pub(super) fn read(&mut self, from: Segment, into: Local) -> Result<Vec<u64>, Failure> {
        self.transport.read(Token(1), from, into)?;
        self.finish(1)?;
        Ok(self.transport.landed(into)?.to_vec())
    }

    pub(super) fn read_word(&mut self, at: RemoteWord) -> Result<u64, Failure> {
        Ok(self.read(Segment { start: at, words: 1 }, local(0, 0, 1))?[0])
    }

    pub(super) fn write(&mut self, words: &[u64], to: RemoteWord) -> Result<(), Failure> {
        let from = local(0, 0, u32::try_from(words.len()).unwrap_or(u32::MAX));
        self.transport.staged(from)?.copy_from_slice(words);
        self.transport.write(Token(2), from, Segment { start: to, words: from.words })?;
        self.finish(2)?;
        Ok(())
    }

    pub(super) fn cas(&mut self, at: RemoteWord, expected: u64, new: u64) -> Result<u64, Failure> {
        self.transport.compare_and_swap(Token(3), at, expected, new)?;
        self.finish(3)
    }

    pub(super) fn faa(&mut self, at: RemoteWord, addend: u64) -> Result<u64, Failure> {
        self.transport.fetch_add(Token(4), at, addend)?;
        self.finish(4)
    }
}

pub(super) fn word(owner: u32, index: u64) -> RemoteWord {
    RemoteWord { owner: Owner(owner), index }
}

pub(super) fn segment(owner: u32, index: u64, words: u32) -> Segment {
    Segment { start: word(owner, index), words }
}

pub(super) fn local(slot: u32, start: u32, words: u32) -> Local {
    Local { slot: Slot(slot), start, words }
}

/// Fails unless `found` is `expected`.
pub(super) fn same<V: PartialEq + fmt::Debug>(
    what: impl fmt::Display,
    found: V,
    expected: V,
) -> Result<(), Failure> {
    if found == expected {
        return Ok(());
    }
    Err(Failure(format!("{what}: found {found:x?}, expected {expected:x?}")))
}
