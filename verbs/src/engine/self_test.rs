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
    /// Does one of each operation and looks at what it returned and left. The scratch word is 0
    /// in the end.
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
        self.scratch.store(0, SeqCst);
        Ok(())
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
        let ranges = self.lane.control(SCRATCH).zip(self.private.own(Own::Tested));
        let Some((at, into)) = ranges else { return Err(SelfTestFailed::TimedOut) };
        // What no operation of the test returns, so that one which lands nothing is seen.
        let landing = self.private.own_word(Own::Tested);
        landing.inspect(|word| word.store(!KNOWN, SeqCst));
        self.lane.pair.post(&request(at, into)).map_err(SelfTestFailed::Post)?;
        let mut end = [WorkCompletion::default()];
        while self.completions.poll(&mut end).map_err(SelfTestFailed::Poll)? == 0 {
            if self.deadline.has_passed() {
                return Err(SelfTestFailed::TimedOut);
            }
        }
        let [end] = end;
        end.result().map_err(SelfTestFailed::Status)?;
        Ok(landing.map_or(0, |word| word.load(SeqCst)))
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
