//! One owner's engine and exchange in a case, with bounded waits on both.

use core::fmt;
use core::time::Duration;
use std::time::Instant;

use super::Case;
use crate::{
    Completion, Exchange, ExchangeError, Fault, OpError, Owner, PostError, RemoteWord, Segment,
    Slot, SlotRange, Token, Transport,
};

/// All bytes differ, so that an error of byte order or of width is visible.
pub(super) const ODD: u64 = 0x0123_4567_89ab_cdef;

/// A description of the check that did not hold.
#[derive(Clone, PartialEq, Eq)]
pub struct Failure(pub String);

/// The text, because a `main` that returns an error prints its `Debug` form.
impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

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

failure_from!(ExchangeError, Fault, OpError, PostError);

/// One owner's engine under test, and the exchange that it was opened with.
pub struct Rig<'a> {
    pub(super) transport: &'a mut dyn Transport,
    pub(super) exchange: &'a mut dyn Exchange,
    patience: Duration,
}

impl<'a> Rig<'a> {
    /// Creates a rig whose waits on the engine take at most 60 s, enough for a busy machine.
    pub fn new(transport: &'a mut dyn Transport, exchange: &'a mut dyn Exchange) -> Self {
        Self { transport, exchange, patience: Duration::from_secs(60) }
    }

    /// Sets the longest wait for a completion, a fault or another owner's word, after which the
    /// case fails. The exchange bounds its own calls.
    #[must_use]
    pub fn patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Checks that engine and exchange belong to one job, with the owners and sizes for `case`.
    pub(super) fn fits(&self, case: &Case) -> Result<(), Failure> {
        let (geometry, sizes) = (self.transport.geometry(), case.sizes);
        same("owners of the engine", geometry.owners, self.owners())?;
        same("this owner, by the engine", geometry.me, self.exchange.me())?;
        if self.owners() < case.min_owners {
            let (owners, least) = (self.owners(), case.min_owners);
            return Err(Failure(format!("the case needs {least} owners, the job has {owners}")));
        }
        let fits = sizes.window_words <= geometry.window_words
            && sizes.slots <= geometry.slots
            && sizes.slot_words <= geometry.slot_words
            && sizes.depth <= self.transport.caps().depth
            && sizes.slot_words <= self.transport.caps().words_per_op;
        same(format_args!("{geometry:?} has the sizes of {sizes:?}"), fits, true)
    }

    /// Starts a time limit for one wait.
    pub(super) fn limit(&self) -> Limit {
        Limit { start: Instant::now(), patience: self.patience }
    }

    pub(super) fn me(&self) -> u32 {
        self.exchange.me().0
    }

    pub(super) fn owners(&self) -> u32 {
        self.exchange.owners()
    }

    /// Returns the next owner, or this one in a job of one owner.
    pub(super) fn peer(&self) -> u32 {
        (self.me() + 1) % self.owners()
    }

    /// Returns the last owner, or this one in a job of one owner.
    pub(super) fn last(&self) -> u32 {
        self.owners() - 1
    }

    /// Runs `body` as owner `who` while all others wait in a barrier.
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

    /// Polls until one operation completes.
    pub(super) fn next(&mut self) -> Result<Completion, Failure> {
        let mut one = [Completion::default()];
        let limit = self.limit();
        loop {
            if self.transport.poll(&mut one)? == 1 {
                return Ok(one[0]);
            }
            let in_flight = self.transport.in_flight();
            limit.check(format_args!("no completion, {in_flight} in flight"))?;
            std::thread::yield_now();
        }
    }

    /// Polls until the only operation in flight completes; its token must be `token`.
    pub(super) fn finish(&mut self, token: u64) -> Result<u64, Failure> {
        let completion = self.next()?;
        same("token", completion.token.0, token)?;
        same("operations in flight", self.transport.in_flight(), 0)?;
        Ok(completion.result?)
    }

    /// Polls until all operations in flight have completed: each once, with the tokens from 0 on.
    pub(super) fn finish_all(&mut self) -> Result<(), Failure> {
        let mut seen = vec![false; self.transport.in_flight() as usize];
        for left in (0..self.transport.in_flight()).rev() {
            let completion = self.next()?;
            completion.result?;
            let index = usize::try_from(completion.token.0).unwrap_or(usize::MAX);
            let fresh = seen.get_mut(index).is_some_and(|s| !core::mem::replace(s, true));
            same(format_args!("token {index} is one of ours, once"), fresh, true)?;
            same("in flight", self.transport.in_flight(), left)?;
        }
        Ok(())
    }

    pub(super) fn read(&mut self, from: Segment, into: SlotRange) -> Result<Vec<u64>, Failure> {
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

/// The time limit of one wait.
pub(super) struct Limit {
    start: Instant,
    patience: Duration,
}

impl Limit {
    pub(super) fn plus(self, more: Duration) -> Self {
        Self { patience: self.patience + more, ..self }
    }

    /// Fails with `what` once the limit has passed.
    pub(super) fn check(&self, what: impl fmt::Display) -> Result<(), Failure> {
        if self.start.elapsed() < self.patience {
            return Ok(());
        }
        Err(Failure(format!("{what} after {:?}", self.patience)))
    }
}

/// Returns word `index` of this owner.
#[must_use]
pub const fn word(owner: u32, index: u64) -> RemoteWord {
    RemoteWord { owner: Owner(owner), index }
}

/// Returns `words` words of this owner from word `index` on.
#[must_use]
pub const fn segment(owner: u32, index: u64, words: u32) -> Segment {
    Segment { start: word(owner, index), words }
}

/// Returns `words` words of this slot from word `start` on.
#[must_use]
pub const fn local(slot: u32, start: u32, words: u32) -> SlotRange {
    SlotRange { slot: Slot(slot), start, words }
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
    Err(Failure(format!(
        "{what}: found {found:x?}, expected {expected:x?} (numbers in hexadecimal)"
    )))
}
