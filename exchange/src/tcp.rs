//! Collective calls over TCP: every member gives to rank 0, which gives everything to everybody.

use core::fmt;
use core::sync::atomic::{Ordering, fence};
use core::time::Duration;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use probeline_transport::{Exchange, ExchangeError, Owner};
use rustix::io::Errno;

use crate::abort;
use crate::bounds::{deadline, part_bytes, result_fits, saturated, whole_seconds};
use crate::frame::{Frame, Kind, Shared};
use crate::link::{Link, MAX_RESULT_BYTES, flush, max_contribution_bytes, turn};
use crate::terms::Terms;
use crate::wire::wait;

/// How long the news of the job's end may take to be sent; it is one small frame a member.
const ABORT_LIMIT: Duration = Duration::from_millis(200);

/// How long a member whose limit has passed waits for rank 0 to say who is missing.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// One rank of a job whose ranks are processes connected by TCP. See [`Rendezvous::meet`].
///
/// A call waits at most [`Limits::collective`]. Ranks other than 0 wait a second longer for rank 0
/// to name the missing rank. When a rank dies or leaves, rank 0 tells all others which one as soon
/// as rank 0 is in a call itself or leaves, and every waiting call ends. When rank 0 dies, the
/// others notice it themselves. A rank that leaves after the last call does not disturb ranks that
/// are still in it. A result has at most [`MAX_RESULT_BYTES`] (4 MiB), and all contributions to an
/// all-to-all together [`MAX_ALL_TO_ALL_BYTES`] (64 MiB); longer ones fail with `EMSGSIZE`. Calls
/// that differ between ranks fail with `LengthDiffers` or `EPROTO`. Calls sleep while they wait,
/// and this type starts no thread.
///
/// Rank 0 holds one copy of each result for all ranks, and in an all-to-all the parts of all ranks.
///
/// [`MAX_ALL_TO_ALL_BYTES`]: crate::MAX_ALL_TO_ALL_BYTES
/// [`Rendezvous::meet`]: crate::Rendezvous::meet
/// [`Limits::collective`]: crate::Limits::collective
pub struct Tcp {
    me: Owner,
    owners: u32,
    limit: Duration,
    /// To rank 0; on rank 0, to all others in their order.
    pub(crate) links: Vec<Link>,
    /// Why the job cannot go on.
    ended: Option<ExchangeError>,
    /// The maximum size of the links' buffers while this rank waited, in bytes.
    #[cfg(test)]
    pub(crate) most_buffered: usize,
}

impl Tcp {
    pub(crate) fn new(terms: &Terms, mut links: Vec<Link>) -> Self {
        let (me, owners, limit) = (Owner(terms.rank), terms.size, terms.limits.collective);
        if me == Owner(0) {
            let bound = max_contribution_bytes(owners);
            links.iter_mut().for_each(|link| link.expect_at_most(bound));
        }
        Self {
            me,
            owners,
            limit,
            links,
            ended: None,
            #[cfg(test)]
            most_buffered: 0,
        }
    }

    /// Records the size of all links' buffers in bytes; shared buffers count once.
    #[cfg(test)]
    fn note_buffers(&mut self) {
        let mut shared = std::collections::HashMap::new();
        let own: usize = self.links.iter().map(|link| link.wire.buffers(&mut shared)).sum();
        let bytes = own + shared.values().sum::<usize>();
        self.most_buffered = self.most_buffered.max(bytes);
    }

    fn call(
        &mut self,
        exchange: impl FnOnce(&mut Self, Instant) -> Result<(), ExchangeError>,
    ) -> Result<(), ExchangeError> {
        if let Some(error) = self.ended {
            return Err(error);
        }
        // What went before is before the call for the other processes too, and what follows after.
        fence(Ordering::SeqCst);
        let end = exchange(self, deadline(self.limit));
        fence(Ordering::SeqCst);
        if let Err(error) = end {
            self.ended = Some(error);
            self.tell(error);
        }
        end
    }

    fn gather(&mut self, mine: &[u8], all: &mut [u8], until: Instant) -> Result<(), ExchangeError> {
        result_fits(self.me, self.owners, mine.len(), all.len())?;
        at_most(all.len(), MAX_RESULT_BYTES)?;
        if self.me != Owner(0) {
            return self.give([Kind::Give, Kind::Result], mine, all, until);
        }
        let each = mine.len();
        all[..each].copy_from_slice(mine);
        self.collect(Kind::Give, each, until, |owner, given| {
            all[owner.0 as usize * each..][..each].copy_from_slice(given);
        })?;
        let all = Shared::new(Arc::new(all.to_vec()), 0..all.len());
        self.links.iter_mut().for_each(|link| link.send_shared(Kind::Result, &all));
        self.distribute(until)
    }

    fn exchange_parts(
        &mut self,
        mine: &[u8],
        theirs: &mut [u8],
        until: Instant,
    ) -> Result<(), ExchangeError> {
        let each = part_bytes(self.me, self.owners, mine.len(), theirs.len())?;
        at_most(mine.len(), max_contribution_bytes(self.owners))?;
        if self.me != Owner(0) {
            return self.give([Kind::GiveParts, Kind::Parts], mine, theirs, until);
        }
        // The parts for the first rank in the order of their senders, then those for the next rank.
        let row = mine.len();
        let mut parts = vec![0; row * self.owners as usize];
        let mut store = |Owner(from): Owner, given: &[u8]| {
            let places = parts.chunks_exact_mut(row.max(1));
            for (place, part) in places.zip(given.chunks_exact(each.max(1))) {
                place[from as usize * each..][..each].copy_from_slice(part);
            }
        };
        store(Owner(0), mine);
        self.collect(Kind::GiveParts, row, until, store)?;
        theirs.copy_from_slice(&parts[..row]);
        let parts = Arc::new(parts);
        for link in &mut self.links {
            let start = link.owner.0 as usize * row;
            let part = Shared::new(Arc::clone(&parts), start..start + row);
            link.send_shared(Kind::Parts, &part);
        }
        self.distribute(until)
    }

    /// Rank 0: waits for a contribution of `bytes` from every rank and detects lost ranks.
    fn collect(
        &mut self,
        kind: Kind,
        bytes: usize,
        until: Instant,
        mut store: impl FnMut(Owner, &[u8]),
    ) -> Result<(), ExchangeError> {
        let mut given = vec![false; self.links.len()];
        // Frames may have arrived before this call.
        let mut ready = vec![true; self.links.len()];
        loop {
            let mut end = Ok(());
            let links = self.links.iter_mut().zip(&mut given).zip(ready);
            for ((link, given), _) in links.filter(|(_, ready)| *ready) {
                // Stores the contributions one by one, so that they are not all buffered at once.
                link.push();
                end = end.and(take_contribution(link, kind, bytes, given, &mut store));
            }
            let absent = self.links.iter().zip(&given).find(|(_, given)| !**given);
            let missing = absent.map(|(link, _)| link.owner);
            match end {
                // A member's limit has passed, and it cannot know who is missing.
                Err(ExchangeError::TimedOut { after_s, missing: None }) => {
                    return Err(ExchangeError::TimedOut { after_s, missing });
                }
                Err(error) => return Err(error),
                Ok(()) if missing.is_none() => return Ok(()),
                Ok(()) => ready = self.wait(until, missing)?,
            }
        }
    }

    /// Rank 0: sends the results; a rank that has left needs none.
    fn distribute(&mut self, until: Instant) -> Result<(), ExchangeError> {
        self.links.iter_mut().for_each(Link::push);
        while let Some(slow) = self.links.iter().find(|link| link.wire.has_unsent()) {
            let slow = slow.owner;
            self.turn(until, Some(slow))?;
        }
        Ok(())
    }

    /// Other ranks: gives, and waits for the result.
    fn give(
        &mut self,
        [gift, result]: [Kind; 2],
        mine: &[u8],
        all: &mut [u8],
        until: Instant,
    ) -> Result<(), ExchangeError> {
        for link in &mut self.links {
            link.send(gift, mine);
            link.push();
        }
        let end = self.hear(result, all, until);
        let Err(late @ ExchangeError::TimedOut { after_s, missing: None }) = end else {
            return end;
        };
        // Rank 0 knows who is missing; if it does not answer, it is missing itself.
        self.tell(late);
        match self.hear(result, all, deadline(ANSWER_LIMIT)) {
            Ok(()) | Err(ExchangeError::TimedOut { missing: None, .. }) => {
                Err(ExchangeError::TimedOut { after_s, missing: Some(Owner(0)) })
            }
            end => end,
        }
    }

    fn hear(&mut self, result: Kind, all: &mut [u8], until: Instant) -> Result<(), ExchangeError> {
        loop {
            for link in &mut self.links {
                let lost = ExchangeError::OwnerLost(link.owner);
                match link.receive() {
                    Ok(Some(Frame { kind, payload })) if kind == result => {
                        return copy(link.owner, &payload, all);
                    }
                    Ok(Some(Frame { kind: Kind::Abort, payload })) => {
                        return Err(abort::decode(&payload).unwrap_or(lost));
                    }
                    Ok(None) if !link.wire.closed => {}
                    _ => return Err(lost),
                }
            }
            self.turn(until, None)?;
        }
    }

    /// Sleeps until an event, and processes it.
    fn turn(&mut self, until: Instant, missing: Option<Owner>) -> Result<(), ExchangeError> {
        let ready = self.wait(until, missing)?;
        self.links
            .iter_mut()
            .zip(ready)
            .filter(|(_, ready)| *ready)
            .for_each(|(link, _)| link.push());
        Ok(())
    }

    /// Sleeps until an event. Returns which links have one.
    fn wait(&mut self, until: Instant, missing: Option<Owner>) -> Result<Vec<bool>, ExchangeError> {
        #[cfg(test)]
        self.note_buffers();
        if Instant::now() >= until {
            let after_s = whole_seconds(self.limit);
            return Err(ExchangeError::TimedOut { after_s, missing });
        }
        wait(self.links.iter().map(|link| (&link.wire).into()), until).map_err(system)
    }

    /// Tells the others, as far as they can be reached, why the job ended.
    fn tell(&mut self, error: ExchangeError) {
        for link in &mut self.links {
            link.send(Kind::Abort, &abort::encode(error));
        }
        // Whoever cannot be told sees the connection end.
        let _ = flush(&mut self.links, ABORT_LIMIT);
    }
}

/// Stores the contribution if it has arrived, and processes the frames after it.
fn take_contribution(
    link: &mut Link,
    expected: Kind,
    bytes: usize,
    given: &mut bool,
    store: &mut impl FnMut(Owner, &[u8]),
) -> Result<(), ExchangeError> {
    let lost = ExchangeError::OwnerLost(link.owner);
    loop {
        match link.receive() {
            Ok(Some(Frame { kind, payload })) if !*given && kind == expected => {
                same_length(link.owner, payload.len(), bytes)?;
                store(link.owner, &payload);
                *given = true;
            }
            // The rank is in another call.
            Ok(Some(Frame { kind: Kind::Give | Kind::GiveParts, .. })) if !*given => {
                return Err(ExchangeError::System { errno: Errno::PROTO.raw_os_error() });
            }
            Ok(Some(Frame { kind: Kind::Abort, payload })) => {
                return Err(abort::decode(&payload).unwrap_or(lost));
            }
            // A member that has given and is gone has died in this call: it could not return yet.
            Ok(None) if !link.wire.closed => return Ok(()),
            _ => return Err(lost),
        }
    }
}

fn copy(owner: Owner, from: &[u8], into: &mut [u8]) -> Result<(), ExchangeError> {
    same_length(owner, from.len(), into.len())?;
    into.copy_from_slice(from);
    Ok(())
}

fn same_length(owner: Owner, found: usize, expected: usize) -> Result<(), ExchangeError> {
    if found == expected {
        return Ok(());
    }
    let (expected, found) = (saturated(expected), saturated(found));
    Err(ExchangeError::LengthDiffers { owner, expected, found })
}

fn at_most(bytes: usize, bound: usize) -> Result<(), ExchangeError> {
    if bytes <= bound {
        return Ok(());
    }
    Err(ExchangeError::System { errno: Errno::MSGSIZE.raw_os_error() })
}

fn system(error: io::Error) -> ExchangeError {
    let unknown = Errno::IO.raw_os_error();
    ExchangeError::System { errno: error.raw_os_error().unwrap_or(unknown) }
}

impl Exchange for Tcp {
    fn me(&self) -> Owner {
        self.me
    }

    fn owners(&self) -> u32 {
        self.owners
    }

    fn all_gather(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), ExchangeError> {
        self.call(|tcp, until| tcp.gather(mine, all, until))
    }

    fn all_to_all(&mut self, mine: &[u8], theirs: &mut [u8]) -> Result<(), ExchangeError> {
        self.call(|tcp, until| tcp.exchange_parts(mine, theirs, until))
    }

    fn barrier(&mut self) -> Result<(), ExchangeError> {
        self.all_gather(&[], &mut [])
    }
}

impl Drop for Tcp {
    /// Rank 0 may leave because it heard of a loss elsewhere, from its transport: those who wait
    /// for it in a call are told who was lost first. After a last call nobody listens any more.
    fn drop(&mut self) {
        if self.me != Owner(0) || self.ended.is_some() {
            return;
        }
        // Takes in what has arrived, connections that ended included, and waits for nothing.
        let _ = turn(&mut self.links, Instant::now());
        if let Some(lost) = self.links.iter().find(|link| link.wire.closed).map(|l| l.owner) {
            self.tell(ExchangeError::OwnerLost(lost));
        }
    }
}

impl fmt::Debug for Tcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tcp")
            .field("me", &self.me)
            .field("owners", &self.owners)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}
