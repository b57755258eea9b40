//! The test of a device's atomics, made when an engine is opened.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;

use probeline_transport::engine::Deadline;

use super::connection::{Connection, SCRATCH};
use super::private::{OwnWord, Private};
use crate::{CompletionQueue, LocalRange, PortError, RemoteAddress};
use crate::{WorkCompletion, WorkRequest};

/// Two values without equal bytes, so that a wrong byte order shows.
const KNOWN: u64 = 0x0123_4567_89ab_cdef;
const OTHER: u64 = 0xfedc_ba98_7654_3210;

/// Compare-and-swaps that fail while the CPU stores to the same word.
const FAILED_SWAPS: u32 = 16;
/// Loads between two of those stores. A device that writes the old value back overwrites the last
/// store; a load detects that unless the next store comes first.
const LOADS_PER_STORE: u32 = 16;
/// The first value that the CPU stores; no stored value is near [`OTHER`].
const FIRST_STORED: u64 = 1;

/// The self-test, whose requests go to this engine's own scratch word.
pub(super) struct SelfTest<'a> {
    /// The connection of this owner to itself.
    pub(super) connection: &'a mut Connection,
    pub(super) completions: &'a mut CompletionQueue,
    pub(super) private: &'a Private,
    /// The scratch word, for the CPU.
    pub(super) scratch: &'a AtomicU64,
    /// The deadline of the whole test.
    pub(super) deadline: Deadline,
}

impl SelfTest<'_> {
    /// Executes one of each operation and checks the returned value and the words in memory, then
    /// executes compare-and-swaps that fail during stores. Leaves 0 in the scratch word.
    pub(super) fn run(mut self) -> Result<(), PortError> {
        self.scratch.store(KNOWN, SeqCst);
        let old = self.run_one(|at, into| WorkRequest::fetch_add(0, at, 1, into))?;
        in_order("fetch-and-add", KNOWN, old)?;
        self.changed("fetch-and-add", KNOWN, KNOWN + 1)?;
        same("the value that fetch-and-add returned", KNOWN, old)?;

        let swap =
            |expected| move |at, into| WorkRequest::compare_and_swap(0, at, expected, OTHER, into);
        let old = self.run_one(swap(KNOWN))?;
        same("the word after compare-and-swap of another value", KNOWN + 1, self.word())?;
        same("the value that compare-and-swap returned", KNOWN + 1, old)?;
        let old = self.run_one(swap(KNOWN + 1))?;
        self.changed("compare-and-swap", KNOWN + 1, OTHER)?;
        same("the value that compare-and-swap returned", KNOWN + 1, old)?;

        let read = self.run_one(|at, into| WorkRequest::read(0, at, into))?;
        same("the value that READ returned", OTHER, read)?;
        self.swap_under_stores()?;
        self.scratch.store(0, SeqCst);
        Ok(())
    }

    /// Stores to the word while compare-and-swaps that expect another value are in flight. They
    /// must not undo the stores (`firmware-notes/failed-compare-and-swap.md`).
    fn swap_under_stores(&mut self) -> Result<(), PortError> {
        let mut stored = FIRST_STORED;
        self.scratch.store(stored, SeqCst);
        for _ in 0..FAILED_SWAPS {
            let oldest = stored;
            self.post(|at, into| WorkRequest::compare_and_swap(0, at, OTHER, KNOWN, into))?;
            // `has_completed` checks the deadline, which bounds this loop.
            loop {
                stored += 1;
                self.scratch.store(stored, SeqCst);
                self.has_kept(stored)?;
                let completed = self.has_completed()?;
                self.has_kept(stored)?;
                if completed {
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
    fn has_kept(&self, stored: u64) -> Result<(), PortError> {
        match (0..LOADS_PER_STORE).map(|_| self.word()).find(|found| *found != stored) {
            Some(found) => Err(PortError::StoreUndone { stored, found }),
            None => Ok(()),
        }
    }

    /// Checks that an operation changed the word from `before` to `after`.
    fn changed(&self, operation: &'static str, before: u64, after: u64) -> Result<(), PortError> {
        match self.word() {
            found if found == before => Err(PortError::NoEffect { operation }),
            found => same(operation, after, found),
        }
    }

    fn word(&self) -> u64 {
        self.scratch.load(SeqCst)
    }

    /// Posts one request, waits for its completion, and returns the value that landed.
    fn run_one(
        &mut self,
        request: impl FnOnce(RemoteAddress, LocalRange) -> WorkRequest,
    ) -> Result<u64, PortError> {
        self.post(request)?;
        while !self.has_completed()? {}
        self.landed()
    }

    fn post(
        &mut self,
        request: impl FnOnce(RemoteAddress, LocalRange) -> WorkRequest,
    ) -> Result<(), PortError> {
        let into = self.private.own_range(OwnWord::SelfTest);
        let ranges = self.connection.control(SCRATCH).zip(into);
        let (at, into) = ranges.ok_or(PortError::NotRun)?;
        // No operation of the test returns this value, so that a missing result shows.
        self.landing()?.store(!KNOWN, SeqCst);
        self.connection.pair.post(&request(at, into)).map_err(PortError::Post)
    }

    /// Returns whether the request has completed; an error if it failed.
    fn has_completed(&mut self) -> Result<bool, PortError> {
        let mut end = [WorkCompletion::default()];
        if self.completions.poll(&mut end)? > 0 {
            let [end] = end;
            return end.result().map(|()| true).map_err(PortError::Status);
        }
        if self.deadline.has_passed() {
            return Err(PortError::TimedOut);
        }
        Ok(false)
    }

    fn landed(&self) -> Result<u64, PortError> {
        Ok(self.landing()?.load(SeqCst))
    }

    fn landing(&self) -> Result<&AtomicU64, PortError> {
        self.private.own_word(OwnWord::SelfTest).ok_or(PortError::NotRun)
    }
}

fn same(operation: &'static str, expected: u64, found: u64) -> Result<(), PortError> {
    in_order(operation, expected, found)?;
    if found == expected {
        return Ok(());
    }
    Err(PortError::Wrong { operation, expected, found })
}

fn in_order(operation: &'static str, expected: u64, found: u64) -> Result<(), PortError> {
    if found == expected.swap_bytes() {
        return Err(PortError::ByteOrder { operation });
    }
    Ok(())
}
