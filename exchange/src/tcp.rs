//! Collective calls over TCP: every member gives to rank 0, which gives everything to everybody.

use core::fmt;
use core::sync::atomic::{Ordering, fence};
use core::time::Duration;
use std::io;
use std::time::Instant;

use rustix::io::Errno;
use transport::{Exchange, ExchangeError, Owner};

use crate::abort;
use crate::bounds::{deadline, result_fits, saturated, whole_seconds};
use crate::frame::{Frame, Kind};
use crate::link::{Link, MAX_RESULT_BYTES, flush, turn};
use crate::terms::Terms;

/// How long the news of the job's end may take to be sent; it is one small frame a member.
const ABORT_LIMIT: Duration = Duration::from_millis(200);

/// How long a member whose limit has passed waits for rank 0 to say who is missing.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// One rank of a job whose ranks are processes connected by TCP. See [`Rendezvous::meet`].
///
/// A call waits at most [`Limits::collective`], and ranks other than 0 a second more to hear from
/// rank 0 who is missing. When a rank dies or leaves, rank 0 tells all
/// others which one, as soon as it is in a call itself or leaves, and every call that still waits
/// ends; when rank 0 dies the others see that for themselves. A rank that leaves after the last call disturbs
/// nobody who is still in it. A result has at most [`MAX_RESULT_BYTES`] (4 MiB); a longer one is
/// `EMSGSIZE`. Calls sleep while they wait, and this type starts no thread.
///
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
}

impl Tcp {
    pub(crate) fn new(terms: &Terms, links: Vec<Link>) -> Self {
        let (me, owners, limit) = (Owner(terms.rank), terms.size, terms.limits.collective);
        Self { me, owners, limit, links, ended: None }
    }

    fn call(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), ExchangeError> {
        if let Some(error) = self.ended {
            return Err(error);
        }
        // What went before is before the call for the other processes too, and what follows after.
        fence(Ordering::SeqCst);
        let end = self.exchange(mine, all);
        fence(Ordering::SeqCst);
        if let Err(error) = end {
            self.ended = Some(error);
            self.tell(error);
        }
        end
    }

    fn exchange(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), ExchangeError> {
        result_fits(self.me, self.owners, mine.len(), all.len())?;
        if all.len() > MAX_RESULT_BYTES {
            return Err(ExchangeError::System { errno: Errno::MSGSIZE.raw_os_error() });
        }
        let until = deadline(self.limit);
        if self.me == Owner(0) {
            self.collect(mine, all, until)?;
            self.distribute(all, until)
        } else {
            self.give(mine, all, until)
        }
    }

    /// Rank 0: waits for everybody's contribution, and watches everybody meanwhile.
    fn collect(
        &mut self,
        mine: &[u8],
        all: &mut [u8],
        until: Instant,
    ) -> Result<(), ExchangeError> {
        let each = mine.len();
        all[..each].copy_from_slice(mine);
        let mut given = vec![false; self.links.len()];
        loop {
            let mut end = Ok(());
            for (link, given) in self.links.iter_mut().zip(&mut given) {
                let place = link.owner.0 as usize * each;
                let taken = take_contribution(link, given, &mut all[place..place + each]);
                end = end.and(taken);
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
                Ok(()) => self.turn(until, missing)?,
            }
        }
    }

    /// Rank 0: sends the result; who has left meanwhile has no need of it.
    fn distribute(&mut self, all: &[u8], until: Instant) -> Result<(), ExchangeError> {
        for link in &mut self.links {
            link.send(Kind::Result, all);
            link.push();
        }
        let unsent = |link: &&Link| !link.wire.closed && !link.wire.outgoing.is_empty();
        while let Some(slow) = self.links.iter().find(unsent).map(|link| link.owner) {
            self.turn(until, Some(slow))?;
        }
        Ok(())
    }

    /// Other ranks: gives, and waits for the result.
    fn give(&mut self, mine: &[u8], all: &mut [u8], until: Instant) -> Result<(), ExchangeError> {
        for link in &mut self.links {
            link.send(Kind::Give, mine);
            link.push();
        }
        let end = self.hear(all, until);
        let Err(late @ ExchangeError::TimedOut { after_s, missing: None }) = end else {
            return end;
        };
        // Rank 0 knows who is missing; if it does not answer, it is missing itself.
        self.tell(late);
        match self.hear(all, deadline(ANSWER_LIMIT)) {
            Ok(()) | Err(ExchangeError::TimedOut { missing: None, .. }) => {
                Err(ExchangeError::TimedOut { after_s, missing: Some(Owner(0)) })
            }
            end => end,
        }
    }

    fn hear(&mut self, all: &mut [u8], until: Instant) -> Result<(), ExchangeError> {
        loop {
            for link in &mut self.links {
                let lost = ExchangeError::OwnerLost(link.owner);
                match link.receive() {
                    Ok(Some(Frame { kind: Kind::Result, payload })) => {
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

    /// Sleeps until there is news.
    fn turn(&mut self, until: Instant, missing: Option<Owner>) -> Result<(), ExchangeError> {
        if Instant::now() >= until {
            let after_s = whole_seconds(self.limit);
            return Err(ExchangeError::TimedOut { after_s, missing });
        }
        turn(&mut self.links, until).map_err(system)
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

/// Takes the contribution into `place` if it is there, and what may have come after it.
fn take_contribution(
    link: &mut Link,
    given: &mut bool,
    place: &mut [u8],
) -> Result<(), ExchangeError> {
    let lost = ExchangeError::OwnerLost(link.owner);
    loop {
        match link.receive() {
            Ok(Some(Frame { kind: Kind::Give, payload })) if !*given => {
                copy(link.owner, &payload, place)?;
                *given = true;
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
    if from.len() != into.len() {
        let (expected, found) = (saturated(into.len()), saturated(from.len()));
        return Err(ExchangeError::LengthDiffers { owner, expected, found });
    }
    into.copy_from_slice(from);
    Ok(())
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
        self.call(mine, all)
    }

    fn barrier(&mut self) -> Result<(), ExchangeError> {
        self.call(&[], &mut [])
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
