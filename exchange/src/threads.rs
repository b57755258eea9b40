//! An exchange of threads of one process: a mutex, a condition variable and a bounded wait.

use core::time::Duration;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use probeline_transport::{Call, Exchange, ExchangeError, Owner, Term};

use crate::limits::{check_result, part_bytes, whole_seconds};

/// The default time limit of a call: longer than a phase of any test, and short enough that a
/// missing member causes an error and not a hang.
pub const THREADS_LIMIT: Duration = Duration::from_secs(60);

/// The capacity of the buffers for contributions from the start: enough for every reduction.
const KEPT_BYTES: usize = 256;

/// One member of an exchange of threads. See [`threads`].
#[derive(Debug)]
pub struct Thread {
    me: Owner,
    limit: Duration,
    /// The number of calls that this member has begun.
    calls: u64,
    shared: Arc<Shared>,
}

/// Creates an exchange of `owners` threads of this process. Returns its members in the order of
/// owners, one for each thread.
///
/// A call waits at most [`THREADS_LIMIT`]. After a member was dropped, also by a panic, every call
/// that waits for it and every later call fails with [`ExchangeError::OwnerLost`].
#[must_use]
pub fn threads(owners: u32) -> Vec<Thread> {
    threads_within(owners, THREADS_LIMIT)
}

/// Creates the exchanges that [`threads`] does; a call waits at most `limit`.
#[must_use]
pub fn threads_within(owners: u32, limit: Duration) -> Vec<Thread> {
    let round = Round {
        finished: 0,
        given: (0..owners).map(|_| (None, Vec::with_capacity(KEPT_BYTES))).collect(),
        result: (0..owners).map(|_| Vec::with_capacity(KEPT_BYTES)).collect(),
        ended: None,
    };
    let shared = Arc::new(Shared { owners, round: Mutex::new(round), changed: Condvar::new() });
    let member = |me| Thread { me: Owner(me), limit, calls: 0, shared: Arc::clone(&shared) };
    (0..owners).map(member).collect()
}

#[derive(Debug)]
struct Shared {
    owners: u32,
    round: Mutex<Round>,
    changed: Condvar,
}

#[derive(Debug)]
struct Round {
    /// The number of calls that all members have made.
    finished: u64,
    /// The calls of owners that have contributed to the present call, and their contributions.
    given: Vec<(Option<Call>, Vec<u8>)>,
    /// The contributions to the last finished call, by owner. They are kept until all members have
    /// made the next call; by then every member has copied them. Buffers are used again, so that
    /// calls of equal lengths do not allocate.
    result: Vec<Vec<u8>>,
    /// The first error, which ends the job.
    ended: Option<ExchangeError>,
}

impl Round {
    /// Returns an owner that has not made the present call.
    fn missing(&self) -> Option<Owner> {
        let absent = self.given.iter().position(|(call, _)| call.is_none())?;
        u32::try_from(absent).ok().map(Owner)
    }

    /// Finishes the present call, in which every member has contributed.
    ///
    /// # Errors
    /// The members have made different calls.
    fn finish(&mut self) -> Result<(), ExchangeError> {
        let given = self.given.iter().filter_map(|(call, bytes)| Some(((*call)?, bytes)));
        let given = (0..).map(Owner).zip(given);
        let mut expected = None;
        for (owner, (found, bytes)) in given {
            let (call, length) = *expected.get_or_insert((found, bytes.len()));
            if found != call {
                return Err(ExchangeError::CallsDiffer { owner, expected: call, found });
            }
            ExchangeError::check_length(owner, bytes.len(), length)?;
        }
        for (result, (call, bytes)) in self.result.iter_mut().zip(&mut self.given) {
            core::mem::swap(result, bytes);
            *call = None;
        }
        self.finished += 1;
        Ok(())
    }
}

impl Shared {
    /// Locks the state. No code panics while it is locked, so poison is ignored.
    fn lock(&self) -> MutexGuard<'_, Round> {
        self.round.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the job with `error`, unless it has ended. Returns the error with which it ended.
    fn end(&self, error: ExchangeError) -> ExchangeError {
        let first = *self.lock().ended.get_or_insert(error);
        self.changed.notify_all();
        first
    }
}

impl Thread {
    /// Contributes what `give` appends to the present call, waits until all members have contributed,
    /// and passes all contributions to `copy`.
    fn join(
        &mut self,
        call: Call,
        give: impl FnOnce(&mut Vec<u8>),
        copy: impl FnOnce(&[Vec<u8>]),
    ) -> Result<(), ExchangeError> {
        self.calls += 1;
        let call = call.numbered(self.calls);
        let mut round = self.shared.lock();
        if let Some(error) = round.ended {
            return Err(error);
        }
        let present = round.finished;
        let (given, bytes) = &mut round.given[self.me.0 as usize];
        *given = Some(call);
        bytes.clear();
        give(bytes);
        if round.missing().is_none() {
            round.ended = round.finish().err();
            self.shared.changed.notify_all();
        }
        let waits = |round: &mut Round| round.finished == present && round.ended.is_none();
        let woken = self.shared.changed.wait_timeout_while(round, self.limit, waits);
        round = woken.unwrap_or_else(PoisonError::into_inner).0;
        // A finished call succeeds, even if an error ended the job after it.
        if round.finished > present {
            copy(&round.result);
            return Ok(());
        }
        let missing = round.missing();
        drop(round);
        let after_s = whole_seconds(self.limit);
        Err(self.shared.end(ExchangeError::TimedOut { after_s, missing }))
    }

    /// Gathers the part `part` of each member's contribution into `all`. All parts have `each` bytes.
    fn gather(
        &mut self,
        call: Call,
        each: Result<usize, ExchangeError>,
        part: usize,
        mine: &[u8],
        all: &mut [u8],
    ) -> Result<(), ExchangeError> {
        let each = each.inspect_err(|error| {
            self.shared.end(*error);
        })?;
        let copy = |given: &[Vec<u8>]| {
            for (place, given) in all.chunks_exact_mut(each.max(1)).zip(given) {
                place.copy_from_slice(&given[part * each..][..each]);
            }
        };
        self.join(call, |bytes| bytes.extend(mine), copy)
    }
}

impl Exchange for Thread {
    fn me(&self) -> Owner {
        self.me
    }

    fn owners(&self) -> u32 {
        self.shared.owners
    }

    fn calls(&self) -> u64 {
        self.calls
    }

    fn all_gather(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), ExchangeError> {
        let checked = check_result(self, mine.len(), all.len()).map(|()| mine.len());
        self.gather(const { Call::new("all_gather") }, checked, 0, mine, all)
    }

    fn all_to_all(&mut self, mine: &[u8], theirs: &mut [u8]) -> Result<(), ExchangeError> {
        let (me, each) = (self.me.0 as usize, part_bytes(self, mine.len(), theirs.len()));
        self.gather(const { Call::new("all_to_all") }, each, me, mine, theirs)
    }

    fn barrier(&mut self) -> Result<(), ExchangeError> {
        self.join(const { Call::new("barrier") }, |_| (), |_| ())
    }

    fn reduce(&mut self, call: Call, terms: &mut [Term]) -> Result<(), ExchangeError> {
        let me = self.me.0 as usize;
        // Both closures use the terms, one after the other.
        let terms = core::cell::RefCell::new(terms);
        let give = |bytes: &mut Vec<u8>| {
            bytes.extend(terms.borrow().iter().flat_map(|term| term.to_bytes()));
        };
        self.join(call, give, |given| {
            for (_, theirs) in given.iter().enumerate().filter(|(owner, _)| *owner != me) {
                Term::add_all(&mut terms.borrow_mut(), theirs);
            }
        })
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.shared.end(ExchangeError::OwnerLost(self.me));
    }
}
