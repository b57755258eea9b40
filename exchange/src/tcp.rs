//! Collective calls over TCP: every member sends its contribution to rank 0, which sends the result
//! to all members.
//!
//! A call waits at most [`Limits::collective`](crate::Limits). Ranks other than 0 wait three seconds
//! longer for rank 0 to name the missing rank. When a rank dies or leaves, rank 0 reports the rank
//! to all others as soon as rank 0 is in a call itself or leaves, and every waiting call fails.
//! When rank 0 dies, the others detect it themselves. A rank that leaves after the last call does
//! not disturb ranks that are still in it. A call that waits sleeps, after 200 us. There is no
//! additional thread.

use core::sync::atomic::{Ordering, fence};
use core::time::Duration;
use core::{fmt, mem};
use std::io;
use std::process;
use std::sync::Arc;
use std::time::Instant;

use probeline_transport::{Call, Exchange, ExchangeError, Owner, Term};
use rustix::io::Errno;

use crate::abort::{decode_error, encode_error};
use crate::error::JoinError;
use crate::limits::{
    MAX_RESULT_BYTES, check_at_most, check_result, deadline, max_contribution_bytes, part_bytes,
    whole_seconds,
};
use crate::link::{Frame, Kind, Link, flush_all, pump_ready, wait_for};
use crate::pmi::Pmi1;
use crate::spawn::{Children, EXIT_LIMIT};
use crate::spec::JobSpec;

/// The time limit for sending an abort, one small frame to each member.
const ABORT_LIMIT: Duration = Duration::from_millis(200);

/// The time for which a member whose limit has passed waits for rank 0 to name the missing rank: longer
/// than rank 0 waits for an exit status.
const ANSWER_LIMIT: Duration = EXIT_LIMIT.saturating_add(Duration::from_secs(1));

/// The time limit for finalizing PMI, one message and its answer.
const FINALIZE_LIMIT: Duration = Duration::from_secs(5);

/// One rank of a job.
///
/// A collective call waits at most [`Limits::collective`](crate::Limits::collective), ranks other than 0 three seconds longer. It
/// sleeps meanwhile, but for the first 200 us. If a rank dies or leaves, all waiting calls fail with an error that names it.
/// A result has at most [`MAX_RESULT_BYTES`](crate::MAX_RESULT_BYTES), and all contributions to an
/// all-to-all together [`MAX_ALL_TO_ALL_BYTES`](crate::MAX_ALL_TO_ALL_BYTES); longer ones fail with
/// [`ExchangeError::TooLarge`] before the call, and the job goes on. Calls that differ between ranks
/// fail on all of them with [`ExchangeError::CallsDiffer`], which names both calls, or
/// [`ExchangeError::LengthDiffers`].
///
/// Dropping it leaves the job, and kills the processes that this one has started. If the ranks met
/// through a PMI server, the launcher treats that as a failure and terminates the other ranks. Call
/// [`finish`](Self::finish) instead when the work is done.
///
/// If a rank that this one has started exits or panics, the call that misses it fails with
/// [`ExchangeError::OwnerExited`] on all ranks, which has its exit status. [`finish`](Self::finish)
/// lists the exit statuses of all ranks that failed, also after the fault of an engine.
///
/// A job belongs to the process that joined it. A fork of that process shares its connections, and
/// would mix its messages with the parent's: the calls of a fork fail with [`ExchangeError::Forked`],
/// and nothing that it drops of the job disturbs the others. Engines and structures cannot notice a
/// fork: it must not use or drop them. Leave a fork by `exec` or `_exit`, or fork before joining.
///
/// Rank 0 holds one copy of each result for all ranks, and in an all-to-all the parts of all ranks.
pub struct Job {
    me: Owner,
    owners: u32,
    limit: Duration,
    /// The number of calls that this rank has begun.
    calls: u64,
    /// The link to rank 0; on rank 0, the links to all others in their order.
    pub(crate) links: Vec<Link>,
    /// The processes that this rank has started. Dropped after the links, so that the others see rank
    /// 0 leave before they are killed.
    pub(crate) children: Children,
    /// The process that joined. A fork of it has another number.
    pub(crate) process: u32,
    /// The PMI client, which `finish` finalizes.
    pub(crate) pmi: Option<Pmi1>,
    /// The error with which the job ended.
    ended: Option<ExchangeError>,
    /// The maximum size of the links' buffers while this rank waited, in bytes.
    #[cfg(test)]
    pub(crate) max_buffered: usize,
}

impl Job {
    /// Returns the rank of this process, from 0. As an [`Owner`] it is [`Exchange::me`].
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.me.0
    }

    /// Returns the number of ranks. Each is an owner: [`Exchange::owners`].
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.owners
    }

    /// Ends the job for all ranks, as if this one had died, because it can no longer take part: a
    /// panic left its data half changed. Calls that others wait in, or make later, fail with
    /// [`ExchangeError::OwnerLost`] and this rank; its own fail as well. [`finish`](Self::finish)
    /// still waits for the processes that this one has started. Waits at most 200 ms.
    pub fn give_up(&mut self) {
        if self.is_fork() {
            // The process that joined goes on.
            return;
        }
        let lost = ExchangeError::OwnerLost(self.me);
        if self.ended.replace(self.ended.unwrap_or(lost)).is_none() {
            self.abort(lost);
        }
        self.links.clear();
    }

    /// Leaves the job. Call it after the last collective call: calls in which this rank takes no
    /// part fail. Waits at most `limit` for the processes that this one has started, kills those that
    /// still run then, and waits at most five seconds for the launcher. So `limit` is for all that a
    /// spawned rank does after its last collective call, to its end.
    ///
    /// # Errors
    /// [`JoinError::RanksFailed`] lists the ranks that this process started and that failed.
    pub fn finish(mut self, limit: Duration) -> Result<(), JoinError> {
        if self.is_fork() {
            return Ok(());
        }
        self.leave();
        if let Some(mut pmi) = self.pmi.take() {
            // Ignores a failure: the job is over.
            let _ = pmi.finalize(deadline(FINALIZE_LIMIT));
        }
        let ranks = mem::take(&mut self.children).wait(limit);
        if ranks.is_empty() { Ok(()) } else { Err(JoinError::RanksFailed { ranks }) }
    }

    pub(crate) fn new(spec: &JobSpec, mut links: Vec<Link>) -> Self {
        let (me, owners, limit) = (Owner(spec.rank), spec.size, spec.limits.collective);
        let max_payload = match me {
            Owner(0) => Call::BYTES + max_contribution_bytes(owners),
            _ => MAX_RESULT_BYTES,
        };
        links.iter_mut().for_each(|link| link.max_payload = max_payload);
        Self {
            me,
            owners,
            limit,
            calls: 0,
            links,
            children: Children::default(),
            process: process::id(),
            pmi: None,
            ended: None,
            #[cfg(test)]
            max_buffered: 0,
        }
    }

    /// Counts a call, also one that is then refused: the other ranks may have made it. A fork of this
    /// rank makes no calls.
    fn begin(&mut self, call: Call) -> Call {
        self.calls += u64::from(!self.is_fork());
        call.numbered(self.calls)
    }

    fn call(
        &mut self,
        exchange: impl FnOnce(&mut Self, Instant) -> Result<(), ExchangeError>,
    ) -> Result<(), ExchangeError> {
        if self.is_fork() {
            return Err(ExchangeError::Forked);
        }
        if let Some(error) = self.ended {
            return Err(error);
        }
        // Orders this process's memory operations around the call as other processes see them.
        fence(Ordering::SeqCst);
        let result = exchange(self, deadline(self.limit));
        fence(Ordering::SeqCst);
        let error = match result {
            Err(ExchangeError::OwnerLost(owner)) => self.loss(owner, EXIT_LIMIT),
            Err(error) => error,
            Ok(()) => return Ok(()),
        };
        self.ended = Some(error);
        self.abort(error);
        Err(error)
    }

    /// Ends the connections. Rank 0 first sends a lost rank to the ranks that wait in a call: it may
    /// leave because its transport reported that loss. After the last call no rank reads this.
    pub(crate) fn leave(&mut self) {
        if self.me == Owner(0) && self.ended.is_none() && !self.is_fork() {
            // Notices connections that have ended, without waiting.
            if let Ok(ready) = wait_for(&self.links, Instant::now()) {
                pump_ready(&mut self.links, &ready);
            }
            if let Some(lost) = self.links.iter().find(|link| link.socket.closed).map(|l| l.owner) {
                let error = self.loss(lost, Duration::ZERO);
                self.abort(error);
            }
        }
        self.links.clear();
    }

    /// Returns whether this process is a fork of the one that joined.
    pub(crate) fn is_fork(&self) -> bool {
        self.process != process::id()
    }

    /// Returns the error for a lost rank, with the exit status of its process if this rank started it
    /// and it ends within `limit`.
    fn loss(&mut self, owner: Owner, limit: Duration) -> ExchangeError {
        match self.children.exit_of(owner, limit) {
            Some(exit) => ExchangeError::OwnerExited { owner, exit },
            None => ExchangeError::OwnerLost(owner),
        }
    }

    /// Makes a collective call. `mine` has parts of `each` bytes: one for all ranks in an all-gather,
    /// one for each rank in an all-to-all. `out` receives the parts that all ranks have for this
    /// rank, in the order of ranks.
    fn collective(
        &mut self,
        call: Call,
        each: usize,
        mine: &[u8],
        out: &mut [u8],
        until: Instant,
    ) -> Result<(), ExchangeError> {
        if self.me != Owner(0) {
            return self.contribute(call, mine, out, until);
        }
        // One row for all ranks, or one for each rank. A row contains the parts in the order of
        // their senders.
        let row = out.len();
        let rows = mine.len() / each.max(1);
        let mut parts = vec![0; rows * row];
        let mut store = |Owner(from): Owner, bytes: &[u8]| {
            let rows = parts.chunks_exact_mut(row.max(1));
            for (row, part) in rows.zip(bytes.chunks_exact(each.max(1))) {
                row[from as usize * each..][..each].copy_from_slice(part);
            }
        };
        store(Owner(0), mine);
        self.collect(call, mine.len(), until, store)?;
        out.copy_from_slice(&parts[..row]);
        self.distribute(parts, row, until)
    }

    /// Reduces words in place.
    fn reduce_words(
        &mut self,
        call: Call,
        terms: &mut [Term],
        until: Instant,
    ) -> Result<(), ExchangeError> {
        let encode =
            |terms: &[Term]| -> Vec<u8> { terms.iter().flat_map(|term| term.to_bytes()).collect() };
        let mine = encode(terms);
        if self.me != Owner(0) {
            let mut reduced = vec![0; mine.len()];
            self.contribute(call, &mine, &mut reduced, until)?;
            let words = reduced.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
            terms.iter_mut().zip(words).for_each(|(term, word)| term.set(word));
            return Ok(());
        }
        self.collect(call, mine.len(), until, |_, theirs| Term::add_all(terms, theirs))?;
        self.distribute(encode(terms), mine.len(), until)
    }

    /// Waits on rank 0 for a contribution of `bytes` from every rank and detects lost ranks.
    fn collect(
        &mut self,
        call: Call,
        bytes: usize,
        until: Instant,
        mut store: impl FnMut(Owner, &[u8]),
    ) -> Result<(), ExchangeError> {
        let mut has_contributed = vec![false; self.links.len()];
        // Frames may have arrived before this call.
        let mut ready = vec![true; self.links.len()];
        loop {
            let mut result = Ok(());
            let links = self.links.iter_mut().zip(&mut has_contributed).zip(ready);
            for ((link, done), _) in links.filter(|(_, ready)| *ready) {
                // Stores the contributions one by one, so that they are not all buffered at once.
                link.pump();
                result = result.and(take_contribution(link, call, bytes, done, &mut store));
            }
            let absent = self.links.iter().zip(&has_contributed).find(|(_, done)| !**done);
            let missing = absent.map(|(link, _)| link.owner);
            match result {
                // A member's limit has passed; it does not know which rank is missing.
                Err(ExchangeError::TimedOut { after_s, missing: None }) => {
                    return Err(ExchangeError::TimedOut { after_s, missing });
                }
                Err(error) => return Err(error),
                Ok(()) if missing.is_none() => return Ok(()),
                Ok(()) => ready = self.wait(until, missing)?,
            }
        }
    }

    /// Sends the result from rank 0, one row for all ranks or one for each. A rank that has left needs
    /// none.
    fn distribute(
        &mut self,
        rows: Vec<u8>,
        row: usize,
        until: Instant,
    ) -> Result<(), ExchangeError> {
        let rows = Arc::new(rows);
        for link in &mut self.links {
            let start = if rows.len() > row { link.owner.0 as usize * row } else { 0 };
            link.send_shared(Kind::Result, &rows, start..start + row);
        }
        self.links.iter_mut().for_each(Link::pump);
        while let Some(slow) = self.links.iter().find(|link| link.has_unsent()) {
            let slow = slow.owner;
            self.wait_and_pump(until, Some(slow))?;
        }
        Ok(())
    }

    /// Sends the contribution of another rank to rank 0, and waits for the result.
    fn contribute(
        &mut self,
        call: Call,
        mine: &[u8],
        all: &mut [u8],
        until: Instant,
    ) -> Result<(), ExchangeError> {
        for link in &mut self.links {
            link.send(Kind::Contribution, &contribution(call, mine));
            link.pump();
        }
        let received = self.receive(all, until);
        let Err(timeout @ ExchangeError::TimedOut { after_s, missing: None }) = received else {
            return received;
        };
        // Rank 0 knows which rank is missing. If it does not answer, rank 0 itself is missing.
        self.abort(timeout);
        match self.receive(all, deadline(ANSWER_LIMIT)) {
            Ok(()) | Err(ExchangeError::TimedOut { missing: None, .. }) => {
                Err(ExchangeError::TimedOut { after_s, missing: Some(Owner(0)) })
            }
            other => other,
        }
    }

    fn receive(&mut self, all: &mut [u8], until: Instant) -> Result<(), ExchangeError> {
        loop {
            for link in &mut self.links {
                if let Some(payload) = receive(link, Kind::Result)? {
                    ExchangeError::check_length(link.owner, payload.len(), all.len())?;
                    all.copy_from_slice(&payload);
                    return Ok(());
                }
            }
            self.wait_and_pump(until, None)?;
        }
    }

    /// Waits for socket events until a deadline, then sends and receives.
    fn wait_and_pump(
        &mut self,
        until: Instant,
        missing: Option<Owner>,
    ) -> Result<(), ExchangeError> {
        let ready = self.wait(until, missing)?;
        pump_ready(&mut self.links, &ready);
        Ok(())
    }

    /// Waits for socket events until a deadline. Returns which links have one.
    fn wait(&mut self, until: Instant, missing: Option<Owner>) -> Result<Vec<bool>, ExchangeError> {
        #[cfg(test)]
        self.note_buffers();
        if Instant::now() >= until {
            let after_s = whole_seconds(self.limit);
            return Err(ExchangeError::TimedOut { after_s, missing });
        }
        wait_for(&self.links, until).map_err(system)
    }

    /// Sends the error with which the job ended to the others.
    fn abort(&mut self, error: ExchangeError) {
        for link in &mut self.links {
            link.send(Kind::Abort, &encode_error(error));
        }
        // A rank that does not receive the abort sees the connection end.
        let _ = flush_all(&mut self.links, ABORT_LIMIT);
    }
}

/// Returns the payload of a contribution to a call.
pub(crate) fn contribution(call: Call, mine: &[u8]) -> Vec<u8> {
    [&call.encode(), mine].concat()
}

/// Stores the contribution if it has arrived, and processes the frames after it.
fn take_contribution(
    link: &mut Link,
    expected: Call,
    bytes: usize,
    has_contributed: &mut bool,
    store: &mut impl FnMut(Owner, &[u8]),
) -> Result<(), ExchangeError> {
    let (owner, lost) = (link.owner, ExchangeError::OwnerLost(link.owner));
    while let Some(payload) = receive(link, Kind::Contribution)? {
        if *has_contributed {
            return Err(lost);
        }
        let (call, mine) = payload.split_first_chunk().ok_or(lost)?;
        let found = Call::decode(call);
        if found != expected {
            return Err(ExchangeError::CallsDiffer { owner, expected, found });
        }
        ExchangeError::check_length(owner, mine.len(), bytes)?;
        store(owner, mine);
        *has_contributed = true;
    }
    Ok(())
}

/// Returns the payload of the next frame, which must be of this kind; `None` if it has not arrived yet.
fn receive(link: &mut Link, kind: Kind) -> Result<Option<Vec<u8>>, ExchangeError> {
    let lost = ExchangeError::OwnerLost(link.owner);
    match link.receive() {
        Ok(Some(frame)) if frame.kind == kind => Ok(Some(frame.payload)),
        Ok(Some(Frame { kind: Kind::Abort, payload })) => {
            Err(decode_error(&payload).unwrap_or(lost))
        }
        // A rank that closes its link during a collective call has died: its call has not returned yet.
        Ok(None) if !link.socket.closed => Ok(None),
        _ => Err(lost),
    }
}

fn system(error: io::Error) -> ExchangeError {
    let unknown = Errno::IO.raw_os_error();
    ExchangeError::System { errno: error.raw_os_error().unwrap_or(unknown) }
}

impl Exchange for Job {
    fn me(&self) -> Owner {
        self.me
    }

    fn owners(&self) -> u32 {
        self.owners
    }

    fn calls(&self) -> u64 {
        self.calls
    }

    fn all_gather(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), ExchangeError> {
        let call = self.begin(const { Call::new("all_gather") });
        check_at_most(all.len(), MAX_RESULT_BYTES)?;
        self.call(|tcp, until| {
            check_result(tcp, mine.len(), all.len())?;
            tcp.collective(call, mine.len(), mine, all, until)
        })
    }

    fn all_to_all(&mut self, mine: &[u8], theirs: &mut [u8]) -> Result<(), ExchangeError> {
        let call = self.begin(const { Call::new("all_to_all") });
        check_at_most(mine.len(), max_contribution_bytes(self.owners))?;
        self.call(|tcp, until| {
            let each = part_bytes(tcp, mine.len(), theirs.len())?;
            tcp.collective(call, each, mine, theirs, until)
        })
    }

    fn barrier(&mut self) -> Result<(), ExchangeError> {
        self.reduce(const { Call::new("barrier") }, &mut [])
    }

    fn reduce(&mut self, call: Call, terms: &mut [Term]) -> Result<(), ExchangeError> {
        let call = self.begin(call);
        self.call(|tcp, until| tcp.reduce_words(call, terms, until))
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.leave();
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Job({} of {}, ended {:?})", self.me, self.owners, self.ended)
    }
}
