//! An exchange of threads of one process: a mutex, a condition variable and a bounded wait.

use core::fmt;
use core::time::Duration;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use probeline_transport::{Exchange, ExchangeError, Owner};
use rustix::io::Errno;

use crate::limits::{check_equal_lengths, check_result, deadline, part_bytes, whole_seconds};

/// The default time limit of a call: longer than a phase of any test, and short enough that a
/// missing member causes an error and not a hang.
pub const THREADS_LIMIT: Duration = Duration::from_secs(60);

/// The call of a member. All members must make the same call. A barrier is an all-gather of no
/// bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    AllGather,
    AllToAll,
}

/// One member of an exchange of threads. See [`threads`].
pub struct Thread {
    me: Owner,
    limit: Duration,
    shared: Arc<Shared>,
}

/// An exchange of `owners` threads of this process. Returns its members in the order of owners, one
/// for each thread.
///
/// A call waits at most [`THREADS_LIMIT`]. After a member was dropped, also by a panic, every call
/// that waits for it and every later call fails with [`ExchangeError::OwnerLost`].
#[must_use]
pub fn threads(owners: u32) -> Vec<Thread> {
    threads_within(owners, THREADS_LIMIT)
}

/// As [`threads`]; a call waits at most `limit`.
#[must_use]
pub fn threads_within(owners: u32, limit: Duration) -> Vec<Thread> {
    let shared = Arc::new(Shared {
        owners,
        round: Mutex::new(Round {
            finished: 0,
            given: [vec![None; owners as usize], vec![None; owners as usize]],
            ended: None,
        }),
        changed: Condvar::new(),
    });
    (0..owners).map(|me| Thread { me: Owner(me), limit, shared: Arc::clone(&shared) }).collect()
}

struct Shared {
    owners: u32,
    round: Mutex<Round>,
    changed: Condvar,
}

struct Round {
    /// The number of calls that all members have made.
    finished: u64,
    /// Contributions by owner to the present call and to the previous one, which slow members may
    /// still read: no member is two calls ahead of another.
    given: [Vec<Option<Given>>; 2],
    /// The first error, which ends the job.
    ended: Option<ExchangeError>,
}

/// A contribution.
#[derive(Clone)]
struct Given {
    to: Call,
    bytes: Vec<u8>,
}

impl Round {
    fn given(&mut self, call: u64) -> &mut [Option<Given>] {
        &mut self.given[usize::from(call % 2 == 1)]
    }

    /// An owner that has not made `call`.
    fn missing(&mut self, call: u64) -> Option<Owner> {
        let absent = self.given(call).iter().position(Option::is_none)?;
        u32::try_from(absent).ok().map(Owner)
    }

    /// Adds a contribution, and finishes `call` if it is the last one.
    fn arrive(&mut self, call: u64, me: Owner, mine: Given) {
        self.given(call)[me.0 as usize] = Some(mine);
        if self.missing(call).is_some() {
            return;
        }
        match self.agree(call) {
            Ok(()) => {
                self.finished += 1;
                self.given(call + 1).fill(None);
            }
            Err(error) => self.ended = Some(error),
        }
    }

    /// Checks that all members have made the same call.
    fn agree(&mut self, call: u64) -> Result<(), ExchangeError> {
        let given = || self.given[usize::from(call % 2 == 1)].iter().flatten();
        let mut calls = given().map(|given| given.to);
        let first = calls.next();
        if calls.any(|call| Some(call) != first) {
            return Err(ExchangeError::System { errno: Errno::PROTO.raw_os_error() });
        }
        check_equal_lengths(given().map(|given| given.bytes.len()))
    }
}

impl Shared {
    /// The state. No code panics while it is locked, so poison is ignored.
    fn lock(&self) -> MutexGuard<'_, Round> {
        self.round.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, error: ExchangeError) {
        self.lock().ended.get_or_insert(error);
        self.changed.notify_all();
    }
}

impl Thread {
    /// Makes the present call: waits until all members have made it, and reads all contributions.
    fn meet(
        &self,
        to: Call,
        mine: &[u8],
        mut take: impl FnMut(&[u8]),
    ) -> Result<(), ExchangeError> {
        let until = deadline(self.limit);
        let mut round = self.shared.lock();
        if let Some(error) = round.ended {
            return Err(error);
        }
        let call = round.finished;
        round.arrive(call, self.me, Given { to, bytes: mine.to_vec() });
        if round.finished > call || round.ended.is_some() {
            self.shared.changed.notify_all();
        }
        // A finished call succeeds, even if an error ended the job after it.
        while round.finished == call {
            if let Some(error) = round.ended {
                return Err(error);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let missing = round.missing(call);
                let after_s = whole_seconds(self.limit);
                round.ended = Some(ExchangeError::TimedOut { after_s, missing });
                self.shared.changed.notify_all();
                continue;
            }
            let woken = self.shared.changed.wait_timeout(round, left);
            round = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        round.given(call).iter().flatten().for_each(|given| take(&given.bytes));
        Ok(())
    }
}

impl Exchange for Thread {
    fn me(&self) -> Owner {
        self.me
    }

    fn owners(&self) -> u32 {
        self.shared.owners
    }

    fn all_gather(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), ExchangeError> {
        if let Err(error) = check_result(self.me, self.owners(), mine.len(), all.len()) {
            self.shared.end(error);
            return Err(error);
        }
        let mut places = all.chunks_exact_mut(mine.len().max(1));
        self.meet(Call::AllGather, mine, |given| {
            if let Some(place) = places.next() {
                place.copy_from_slice(given);
            }
        })
    }

    fn all_to_all(&mut self, mine: &[u8], theirs: &mut [u8]) -> Result<(), ExchangeError> {
        let each = match part_bytes(self.me, self.owners(), mine.len(), theirs.len()) {
            Ok(each) => each,
            Err(error) => {
                self.shared.end(error);
                return Err(error);
            }
        };
        let start = self.me.0 as usize * each;
        let mut places = theirs.chunks_exact_mut(each.max(1));
        self.meet(Call::AllToAll, mine, |given| {
            if let Some(place) = places.next() {
                place.copy_from_slice(&given[start..start + each]);
            }
        })
    }

    fn barrier(&mut self) -> Result<(), ExchangeError> {
        self.meet(Call::AllGather, &[], |_| {})
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.shared.end(ExchangeError::OwnerLost(self.me));
    }
}

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Thread").field("me", &self.me).field("owners", &self.owners()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn run<R: Send>(members: Vec<Thread>, body: impl Fn(Thread) -> R + Sync) -> Vec<R> {
        thread::scope(|scope| {
            let body = &body;
            let running: Vec<_> =
                members.into_iter().map(|member| scope.spawn(move || body(member))).collect();
            running.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn gathers_in_the_order_of_owners_many_times() {
        run(threads(5), |mut member| {
            for call in 0..500_u32 {
                let mine = (member.me().0 * 1000 + call).to_le_bytes();
                let mut all = [0; 20];
                member.all_gather(&mine, &mut all).unwrap();
                for (owner, given) in (0..).zip(all.chunks_exact(4)) {
                    assert_eq!(given, (owner * 1000 + call).to_le_bytes());
                }
                member.barrier().unwrap();
            }
        });
    }

    #[test]
    fn leaving_after_the_last_call_disturbs_no_member_inside_it() {
        for _ in 0..200 {
            let results = run(threads(4), |mut member| member.barrier());
            assert_eq!(results, [Ok(()); 4]);
        }
    }

    #[test]
    fn a_dropped_member_ends_waiting_and_later_calls() {
        let start = Instant::now();
        let results = run(threads(3), |mut member| {
            member.barrier().unwrap();
            if member.me() == Owner(1) {
                return Err(ExchangeError::OwnerLost(Owner(1)));
            }
            let first = member.barrier();
            assert_eq!(first, member.barrier(), "the same error again");
            first
        });
        assert_eq!(results, [Err(ExchangeError::OwnerLost(Owner(1))); 3]);
        assert!(start.elapsed() < THREADS_LIMIT / 2);
    }

    #[test]
    fn a_panicking_member_is_lost() {
        let mut members = threads(2);
        let last = members.pop().unwrap();
        let died = thread::spawn(move || {
            let _owned = last;
            panic!("on purpose");
        });
        assert_eq!(members[0].barrier(), Err(ExchangeError::OwnerLost(Owner(1))));
        assert!(died.join().is_err());
    }

    #[test]
    fn waiting_is_bounded_and_the_error_names_the_missing_member() {
        let mut members = threads_within(3, 2 * SECOND);
        let late = members.pop().unwrap();
        let error = ExchangeError::TimedOut { after_s: 2, missing: Some(Owner(2)) };
        let both_here = Barrier::new(2);
        let results = run(members, |mut member| {
            both_here.wait();
            member.barrier()
        });
        assert_eq!(results, [Err(error); 2]);
        assert_eq!(run(vec![late], |mut member| member.barrier()), [Err(error)]);
    }

    #[test]
    fn lengths_that_differ_are_an_error_for_all() {
        let results = run(threads(3), |mut member| {
            let each = if member.me() == Owner(1) { 3 } else { 2 };
            member.all_gather(&vec![0; each], &mut vec![0; each * 3])
        });
        let error = ExchangeError::LengthDiffers { owner: Owner(1), expected: 2, found: 3 };
        assert_eq!(results, [Err(error); 3]);
    }

    #[test]
    fn a_result_that_does_not_fit_is_an_error_for_all() {
        let results = run(threads(2), |mut member| {
            member.all_gather(&[0; 2], &mut vec![0; 4 + member.me().0 as usize])
        });
        let error = ExchangeError::LengthDiffers { owner: Owner(1), expected: 5, found: 4 };
        assert_eq!(results, [Err(error); 2]);
    }

    #[test]
    fn a_barrier_does_not_match_an_all_gather() {
        let results = run(threads(2), |mut member| match member.me() {
            Owner(0) => member.barrier(),
            _ => member.all_gather(&[1], &mut [0; 2]),
        });
        let error = ExchangeError::LengthDiffers { owner: Owner(1), expected: 0, found: 1 };
        assert_eq!(results, [Err(error); 2]);
    }

    #[test]
    fn a_single_member_waits_for_no_other() {
        let mut alone = threads(1).pop().unwrap();
        let mut all = [0; 2];
        alone.all_gather(&[1, 2], &mut all).unwrap();
        assert_eq!((all, alone.barrier()), ([1, 2], Ok(())));
    }
}
