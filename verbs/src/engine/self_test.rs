//! Whether a device's atomics do what they should, tried when an engine is opened.

use core::error::Error;
use core::fmt;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;

use super::deadline::Deadline;
use super::lane::Lane;
use super::private::{Own, Private};
use crate::{CompletionQueue, LocalRange, PostFailed, RemoteAddress, Status, VerbFailed};
use crate::{WorkCompletion, WorkRequest};

/// The first control word of every owner: the test works on it, and others READ it to see that the
/// owner is there.
pub(super) const SCRATCH: u64 = 0;

/// No byte like another, so that any other order shows.
const KNOWN: u64 = 0x0123_4567_89ab_cdef;
const OTHER: u64 = 0xfedc_ba98_7654_3210;

/// Compare-and-swaps that fail while the CPU stores to the same word.
const FAILED_SWAPS: u32 = 16;
/// Loads between two of those stores. A device that writes the old value back overwrites the last
/// store; a load detects that unless the next store comes first.
const LOADS_PER_STORE: u32 = 16;
/// The first value that the CPU stores; no stored value is near [`OTHER`].
const FIRST_STORED: u64 = 1;

/// What the test has found wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SelfTestFailed {
    /// A request was not taken.
    Post(PostFailed),
    /// Completions could not be polled for.
    Poll(VerbFailed),
    /// A request failed.
    Status(Status),
    /// A request did not complete in time.
    TimedOut,
    /// Values come in the other byte order, as old firmware has it.
    ByteOrder {
        /// The operation.
        operation: &'static str,
    },
    /// The test could not run: the engine cannot access its own words.
    NotRun,
    /// A failed compare-and-swap has undone a store of the CPU: the device has written the old
    /// value back.
    StoreUndone {
        /// The last value that the CPU stored.
        stored: u64,
        /// The value of the word afterwards.
        found: u64,
    },
    /// The operation completed, and the word is as it was.
    NoEffect {
        /// The operation.
        operation: &'static str,
    },
    /// A wrong value.
    Wrong {
        /// The operation, or what it returned.
        operation: &'static str,
        /// What it should have been.
        expected: u64,
        /// What it was.
        found: u64,
    },
}

impl fmt::Display for SelfTestFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Post(failed) => failed.fmt(f),
            Self::Poll(failed) => failed.fmt(f),
            Self::Status(status) => {
                write!(f, "a request to this port itself failed: {status}")
            }
            Self::TimedOut => f.write_str("a request to this port itself never completed"),
            Self::ByteOrder { operation } => {
                write!(f, "{operation}: values are in big-endian order, not the host's")
            }
            Self::NotRun => f.write_str("the engine cannot access its own words"),
            Self::StoreUndone { stored, found } => write!(
                f,
                "a compare-and-swap that failed wrote the old value back: {found:#x} where the CPU \
                 had stored {stored:#x} meanwhile"
            ),
            Self::NoEffect { operation } => {
                write!(f, "{operation} completes without having changed the word")
            }
            Self::Wrong { operation, expected, found } => {
                write!(f, "{operation}: {found:#018x} where {expected:#018x} was due")
            }
        }
    }
}

impl Error for SelfTestFailed {}

/// A test under way: requests go over `lane` to this engine's own scratch word.
pub(super) struct SelfTest<'a> {
    pub(super) lane: &'a mut Lane,
    pub(super) completions: &'a mut CompletionQueue,
    pub(super) private: &'a Private,
    /// The scratch word, as the CPU sees it.
    pub(super) scratch: &'a AtomicU64,
    /// When all of it has to be over.
    pub(super) deadline: Deadline,
}

impl SelfTest<'_> {
    /// Executes one of each operation and checks the returned value and the words in memory, then
    /// executes compare-and-swaps that fail during stores. Leaves 0 in the scratch word.
    pub(super) fn run(mut self) -> Result<(), SelfTestFailed> {
        self.scratch.store(KNOWN, SeqCst);
        let old = self.run_one(|at, into| WorkRequest::fetch_add(0, at, 1, into))?;
        in_order("fetch-and-add", KNOWN, old)?;
        self.left("fetch-and-add", KNOWN, KNOWN + 1)?;
        same("the value that fetch-and-add returned", KNOWN, old)?;

        let swap =
            |expected| move |at, into| WorkRequest::compare_and_swap(0, at, expected, OTHER, into);
        let old = self.run_one(swap(KNOWN))?;
        same("the word after compare-and-swap of another value", KNOWN + 1, self.word())?;
        same("the value that compare-and-swap returned", KNOWN + 1, old)?;
        let old = self.run_one(swap(KNOWN + 1))?;
        self.left("compare-and-swap", KNOWN + 1, OTHER)?;
        same("the value that compare-and-swap returned", KNOWN + 1, old)?;

        let read = self.run_one(|at, into| WorkRequest::read(0, at, into))?;
        same("what READ brought", OTHER, read)?;
        self.swap_under_stores()?;
        self.scratch.store(0, SeqCst);
        Ok(())
    }

    /// Stores to the word while compare-and-swaps that expect another value are in flight. They
    /// must not undo the stores (`firmware-notes/failed-compare-and-swap.md`).
    fn swap_under_stores(&mut self) -> Result<(), SelfTestFailed> {
        let mut stored = FIRST_STORED;
        self.scratch.store(stored, SeqCst);
        for _ in 0..FAILED_SWAPS {
            let oldest = stored;
            self.post(|at, into| WorkRequest::compare_and_swap(0, at, OTHER, KNOWN, into))?;
            // `has_ended` checks the deadline, which bounds this loop.
            loop {
                stored += 1;
                self.scratch.store(stored, SeqCst);
                self.has_kept(stored)?;
                let ended = self.has_ended()?;
                self.has_kept(stored)?;
                if ended {
                    break;
                }
            }
            let old = self.landed()?;
            if !(oldest..=stored).contains(&old) {
                same("the value that compare-and-swap returned under stores", stored, old)?;
            }
        }
        Ok(())
    }

    /// Checks that the word keeps the value that the CPU stored.
    fn has_kept(&self, stored: u64) -> Result<(), SelfTestFailed> {
        match (0..LOADS_PER_STORE).map(|_| self.word()).find(|found| *found != stored) {
            Some(found) => Err(SelfTestFailed::StoreUndone { stored, found }),
            None => Ok(()),
        }
    }

    /// The word should have gone from `before` to `after`.
    fn left(&self, operation: &'static str, before: u64, after: u64) -> Result<(), SelfTestFailed> {
        match self.word() {
            found if found == before => Err(SelfTestFailed::NoEffect { operation }),
            found => same(operation, after, found),
        }
    }

    fn word(&self) -> u64 {
        self.scratch.load(SeqCst)
    }

    /// Posts one request and waits for its end; what landed.
    fn run_one(
        &mut self,
        request: impl FnOnce(RemoteAddress, LocalRange) -> WorkRequest,
    ) -> Result<u64, SelfTestFailed> {
        self.post(request)?;
        while !self.has_ended()? {}
        self.landed()
    }

    fn post(
        &mut self,
        request: impl FnOnce(RemoteAddress, LocalRange) -> WorkRequest,
    ) -> Result<(), SelfTestFailed> {
        let ranges = self.lane.control(SCRATCH).zip(self.private.own(Own::Tested));
        let (at, into) = ranges.ok_or(SelfTestFailed::NotRun)?;
        // What no operation of the test returns, so that one which lands nothing is seen.
        self.landing()?.store(!KNOWN, SeqCst);
        self.lane.pair.post(&request(at, into)).map_err(SelfTestFailed::Post)
    }

    /// Whether the request has ended; an error if it failed.
    fn has_ended(&mut self) -> Result<bool, SelfTestFailed> {
        let mut end = [WorkCompletion::default()];
        if self.completions.poll(&mut end).map_err(SelfTestFailed::Poll)? > 0 {
            let [end] = end;
            return end.result().map(|()| true).map_err(SelfTestFailed::Status);
        }
        if self.deadline.has_passed() {
            return Err(SelfTestFailed::TimedOut);
        }
        Ok(false)
    }

    fn landed(&self) -> Result<u64, SelfTestFailed> {
        Ok(self.landing()?.load(SeqCst))
    }

    fn landing(&self) -> Result<&AtomicU64, SelfTestFailed> {
        self.private.own_word(Own::Tested).ok_or(SelfTestFailed::NotRun)
    }
}

fn same(operation: &'static str, expected: u64, found: u64) -> Result<(), SelfTestFailed> {
    in_order(operation, expected, found)?;
    if found == expected {
        return Ok(());
    }
    Err(SelfTestFailed::Wrong { operation, expected, found })
}

fn in_order(operation: &'static str, expected: u64, found: u64) -> Result<(), SelfTestFailed> {
    if found == expected.swap_bytes() {
        return Err(SelfTestFailed::ByteOrder { operation });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_byte_order_is_named() {
        assert_eq!(same("x", KNOWN, KNOWN), Ok(()));
        let swapped = same("x", KNOWN, KNOWN.swap_bytes());
        assert_eq!(swapped, Err(SelfTestFailed::ByteOrder { operation: "x" }));
        assert!(matches!(same("x", KNOWN, 7), Err(SelfTestFailed::Wrong { found: 7, .. })));
    }
}
