//! Rank 0's side of the rendezvous: admits the job's ranks, and keeps other connections from
//! delaying them.
//!
//! One thread waits on all sockets at once, so a silent or slow connection takes one of
//! [`MAX_PENDING`] places and does not delay others. [`pending`](crate::pending) describes what
//! happens when all places are taken.

use core::mem;
use core::time::Duration;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use probeline_transport::Owner;
use rustix::io::Errno;

use crate::error::JoinError;
use crate::handshake::{HandshakeError, SeenKeys, respond};
use crate::limits::{HANDSHAKE_LIMIT, deadline, whole_seconds};
use crate::link::{Frame, Kind, Link, MAX_JOIN_BYTES, RENDEZVOUS_BYTES};
use crate::pending::{
    LISTEN_BACKLOG, MAX_PENDING, Pending, Stage, next_eviction, raise_descriptor_limit, victim,
};
use crate::refusal::{Refusal, Refusals};
use crate::secret::SecretError;
use crate::socket::{Socket, wait};
use crate::spec::{JobSpec, parse_join};
use crate::tcp::Tcp;

#[cfg(test)]
#[allow(dead_code, reason = "open_files_tests.rs runs some of these tests")]
#[path = "tests/coordinator.rs"]
pub(crate) mod tests;

/// The interval at which rank 0 checks the spawned processes, and whether descriptors are available
/// again.
const TICK: Duration = Duration::from_millis(20);

const WAITING: &str = "waiting for the other ranks";

/// The time limit for sending the last messages to refused connections, after the rendezvous.
const DRAIN_REFUSED_LIMIT: Duration = Duration::from_millis(500);

/// Admits ranks 1 to `size - 1` at `listener`. Calls `check` at least every [`TICK`]; its error
/// ends the rendezvous.
///
/// # Errors
/// The reason why the job cannot start, which every rank that has joined receives.
pub(crate) fn admit_ranks(
    listener: &TcpListener,
    spec: &JobSpec,
    check: &mut dyn FnMut() -> Result<(), JoinError>,
) -> Result<Tcp, JoinError> {
    admit_and_count(listener, spec, check).map(|(links, _)| Tcp::new(spec, links))
}

/// As [`admit_ranks`], but returns the links to the ranks, in their order, and the numbers of
/// connections that were refused before all ranks had joined.
pub(crate) fn admit_and_count(
    listener: &TcpListener,
    spec: &JobSpec,
    check: &mut dyn FnMut() -> Result<(), JoinError>,
) -> Result<(Vec<Link>, Refusals), JoinError> {
    const LISTENING: &str = "listening for the other ranks";
    raise_descriptor_limit(spec.size)?;
    listener.set_nonblocking(true).map_err(JoinError::system(LISTENING))?;
    // Calls listen(2) again, because std chose a shorter queue.
    let longer = rustix::net::listen(listener, LISTEN_BACKLOG.cast_signed());
    longer.map_err(JoinError::system(LISTENING))?;
    let mut coordinator = Coordinator::new(listener, spec, deadline(spec.limits.rendezvous));
    let result = coordinator.run(check);
    coordinator.announce(&result);
    coordinator.drain_refused(result.is_err());
    let Coordinator { members, refusals, .. } = coordinator;
    result.map(|()| (members.into_iter().flatten().collect(), refusals))
}

struct Coordinator<'a> {
    listener: &'a TcpListener,
    spec: &'a JobSpec,
    until: Instant,
    pending: Vec<Pending>,
    /// The ranks that have joined, from rank 1.
    members: Vec<Option<Link>>,
    refusals: Refusals,
    seen: SeenKeys,
    /// The lack of a descriptor or memory for another connection, and when to try again.
    shortage: Option<(io::Error, Instant)>,
}

impl<'a> Coordinator<'a> {
    fn new(listener: &'a TcpListener, spec: &'a JobSpec, until: Instant) -> Self {
        Self {
            listener,
            spec,
            until,
            pending: vec![],
            members: (1..spec.size).map(|_| None).collect(),
            refusals: Refusals::default(),
            seen: SeenKeys::default(),
            shortage: None,
        }
    }

    fn run(&mut self, check: &mut dyn FnMut() -> Result<(), JoinError>) -> Result<(), JoinError> {
        while self.members.iter().any(Option::is_none) {
            check()?;
            if Instant::now() >= self.until {
                return Err(self.missing());
            }
            self.process_events()?;
        }
        Ok(())
    }

    fn missing(&mut self) -> JoinError {
        if let Some((error, _)) = self.shortage.take() {
            let doing = "accepting the other ranks, which needs more open files";
            return JoinError::System { doing, error };
        }
        let absent = (1..).zip(&self.members).filter(|(_, member)| member.is_none());
        JoinError::Missing {
            ranks: absent.map(|(rank, _)| rank).collect(),
            after_s: whole_seconds(self.spec.limits.rendezvous),
            refusals: self.refusals.clone(),
        }
    }

    /// Waits for socket events until a deadline, and processes all of them.
    fn process_events(&mut self) -> Result<(), JoinError> {
        let now = Instant::now();
        let accept_from = self.accept_from(now);
        let can_accept = accept_from <= now;
        let next = if can_accept { now + TICK } else { accept_from.min(now + TICK) };
        let until = self.until.min(next);
        let members = self.members.iter().flatten().map(Link::interest);
        let pending = self.pending.iter_mut().map(|one| (&*one.socket()).into());
        let listener = can_accept.then(|| self.listener.into());
        let ready = wait(members.chain(pending).chain(listener), until)
            .map_err(JoinError::system(WAITING))?;
        let mut ready = ready.into_iter();
        for link in self.members.iter_mut().flatten() {
            if ready.next() == Some(true) {
                link.flush();
                link.socket.pull(RENDEZVOUS_BYTES);
            }
            // A member sends nothing before the start.
            if link.socket.closed || !link.socket.incoming.is_empty() {
                return Err(JoinError::Left { rank: link.owner.0 });
            }
        }
        for mut pending in mem::take(&mut self.pending) {
            if ready.next() == Some(true) {
                pending.socket().pump(RENDEZVOUS_BYTES);
            }
            let pending = self.advance(pending)?;
            self.pending.extend(pending);
        }
        match ready.next() {
            Some(true) => self.accept_waiting()?,
            // No connection waits for a descriptor.
            Some(false) => self.shortage = None,
            None => {}
        }
        Ok(())
    }

    /// The earliest time at which a connection can be accepted, as known at `now`.
    fn accept_from(&self, now: Instant) -> Instant {
        let place = match self.pending.len() {
            0..MAX_PENDING => now,
            _ => next_eviction(&self.pending).unwrap_or(now + TICK),
        };
        self.shortage.as_ref().map_or(place, |(_, again)| *again.max(&place))
    }

    /// Accepts connections while there is room, at most [`MAX_PENDING`], so that a flood of
    /// connections cannot keep rank 0 from its other work.
    fn accept_waiting(&mut self) -> Result<(), JoinError> {
        for _ in 0..MAX_PENDING {
            // At the limit of open files, accept(2) fails with EMFILE even on an empty queue.
            if !self.has_waiting_connection()? {
                self.shortage = None;
                break;
            }
            if self.pending.len() >= MAX_PENDING && !self.make_room()? {
                break;
            }
            match self.listener.accept() {
                Ok((stream, _)) => {
                    self.shortage = None;
                    self.add(stream)?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.shortage = None;
                    break;
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) if is_shortage(&error) => {
                    self.shortage = Some((error, Instant::now() + TICK));
                    if !self.make_room()? {
                        break;
                    }
                }
                Err(error) => return Err(JoinError::system("accepting the other ranks")(error)),
            }
        }
        Ok(())
    }

    /// Whether the listen queue has a connection.
    fn has_waiting_connection(&self) -> Result<bool, JoinError> {
        let ready = wait([self.listener.into()], Instant::now());
        Ok(ready.map_err(JoinError::system(WAITING))? == [true])
    }

    /// Frees the place of a pending connection. Returns `false` if none can be evicted at present.
    fn make_room(&mut self) -> Result<bool, JoinError> {
        let now = Instant::now();
        while let Some(index) = victim(&self.pending, now) {
            // Its first message may have arrived since the last poll(2).
            let mut pending = self.pending.remove(index);
            pending.socket().pump(RENDEZVOUS_BYTES);
            let Some(pending) = self.advance(pending)? else { return Ok(true) };
            if pending.is_evictable(now) {
                if !matches!(pending.stage, Stage::Refused(_)) {
                    self.refusals.add(Refusal::Evicted);
                }
                return Ok(true);
            }
            self.pending.push(pending);
        }
        Ok(false)
    }

    /// Adds a connection, and reads the bytes that have arrived: a member's first message.
    fn add(&mut self, stream: TcpStream) -> Result<(), JoinError> {
        let Ok(mut socket) = Socket::new(stream) else {
            self.refusals.add(Refusal::Closed);
            return Ok(());
        };
        socket.pump(RENDEZVOUS_BYTES);
        let pending = Pending::new(deadline(HANDSHAKE_LIMIT), Stage::Handshake(socket));
        let pending = self.advance(pending)?;
        self.pending.extend(pending);
        Ok(())
    }

    /// Processes the bytes of a connection. Returns it unless it has become a member, was closed or
    /// its time is over.
    fn advance(&mut self, mut pending: Pending) -> Result<Option<Pending>, JoinError> {
        let until = pending.until;
        match pending.stage {
            Stage::Handshake(mut socket) => {
                let result = respond(&self.spec.secret, &mut self.seen, &mut socket);
                // Sends the answer immediately: this connection may be evicted before its next
                // event.
                socket.push();
                match result {
                    Ok(None) => pending.stage = Stage::Handshake(socket),
                    Ok(Some(session)) => {
                        pending.stage = Stage::Joining(Link::new(Owner(0), socket, session));
                        return self.advance(pending);
                    }
                    Err(error) => return Ok(Some(self.refuse(until, refusal(error)?, socket))),
                }
            }
            Stage::Joining(mut link) => match link.receive() {
                Ok(None) => pending.stage = Stage::Joining(link),
                Ok(Some(Frame { kind: Kind::Join, payload })) => {
                    return self.admit(until, link, &payload);
                }
                _ => return Ok(Some(self.refuse(until, Refusal::Garbage, link.socket))),
            },
            Stage::Refused(ref mut socket) => discard_and_shut_down(socket),
        }
        let closed = pending.socket().closed;
        if !closed && Instant::now() < until {
            return Ok(Some(pending));
        }
        if !matches!(pending.stage, Stage::Refused(_)) {
            self.refusals.add(if closed { Refusal::Closed } else { Refusal::Silent });
        }
        Ok(None)
    }

    fn refuse(&mut self, until: Instant, reason: Refusal, socket: Socket) -> Pending {
        self.refusals.add(reason);
        Pending::new(until, Stage::Refused(socket))
    }

    /// Admits a peer that knows the secret, if its rank, size and parameters fit. Otherwise sends
    /// it this rank's specification, from which the peer derives the reason.
    fn admit(
        &mut self,
        until: Instant,
        mut link: Link,
        join: &[u8],
    ) -> Result<Option<Pending>, JoinError> {
        let Some((rank, size, parameters)) = parse_join(join) else {
            return Ok(Some(self.refuse(until, Refusal::Garbage, link.socket)));
        };
        let agreed = self.spec.compare(rank, size, parameters);
        let place = rank.checked_sub(1).and_then(|index| self.members.get_mut(index as usize));
        match place {
            Some(place @ None) if agreed.is_ok() => {
                // The member waits as long as this rank does, to receive the names of missing
                // ranks.
                let left = self.until.saturating_duration_since(Instant::now());
                link.owner = Owner(rank);
                link.send(Kind::Admitted, &whole_seconds(left).to_le_bytes());
                *place = Some(link);
                return Ok(None);
            }
            None if agreed.is_ok() => self.refusals.add(Refusal::OutOfRange),
            Some(_) if agreed.is_ok() => self.refusals.add(Refusal::RankTaken),
            _ => {}
        }
        link.send(Kind::Refused, &self.spec.join_payload());
        link.flush();
        let refused = Pending::new(until, Stage::Refused(link.socket));
        match agreed {
            Ok(()) => Ok(Some(refused)),
            Err(error) => {
                self.pending.push(refused);
                Err(error)
            }
        }
    }

    /// Sends the result of the rendezvous to the members.
    fn announce(&mut self, result: &Result<(), JoinError>) {
        for link in self.members.iter_mut().flatten() {
            match result {
                Ok(()) => link.send(Kind::Start, &[]),
                Err(error) => {
                    let text = error.to_string();
                    link.send(Kind::Failed, &text.as_bytes()[..text.len().min(MAX_JOIN_BYTES)]);
                }
            }
            // A member may begin its first call immediately.
            link.flush();
        }
    }

    /// Gives refused connections time to receive the refusal, and members time to receive the
    /// error if the job failed.
    fn drain_refused(&mut self, failed: bool) {
        self.pending.retain(|pending| matches!(pending.stage, Stage::Refused(_)));
        if failed {
            let until = self.until;
            let members = mem::take(&mut self.members).into_iter().flatten();
            let refused = members.map(|link| Pending::new(until, Stage::Refused(link.socket)));
            self.pending.extend(refused);
        }
        let until = deadline(DRAIN_REFUSED_LIMIT);
        while Instant::now() < until {
            for pending in &mut self.pending {
                pending.socket().pump(RENDEZVOUS_BYTES);
                discard_and_shut_down(pending.socket());
            }
            self.pending.retain_mut(|pending| !pending.socket().closed);
            if self.pending.is_empty() {
                return;
            }
            let sockets = self.pending.iter_mut().map(|pending| (&*pending.socket()).into());
            if wait(sockets, until).is_err() {
                return;
            }
        }
    }
}

/// Whether accept(2) failed for one connection: it was closed, had a network error, or a firewall
/// rejected it (`EPERM`).
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(
            Errno::CONNABORTED
                | Errno::INTR
                | Errno::PERM
                | Errno::NETDOWN
                | Errno::PROTO
                | Errno::NOPROTOOPT
                | Errno::HOSTDOWN
                | Errno::NONET
                | Errno::HOSTUNREACH
                | Errno::OPNOTSUPP
                | Errno::NETUNREACH
        )
    )
}

/// Whether accept(2) failed because a descriptor or memory was lacking.
fn is_shortage(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)
    )
}

/// Discards received bytes, and shuts down the sending side once everything is sent; the peer then
/// closes the connection.
fn discard_and_shut_down(socket: &mut Socket) {
    socket.incoming.clear();
    if socket.outgoing.is_empty() {
        socket.shutdown_write();
    }
}

/// Returns the reason for refusing a connection whose handshake failed.
///
/// # Errors
/// The error of this rank, which ends the rendezvous.
fn refusal(error: HandshakeError) -> Result<Refusal, JoinError> {
    Ok(match error {
        HandshakeError::Garbage => Refusal::Garbage,
        HandshakeError::Version(_) => Refusal::OtherVersion,
        HandshakeError::WrongSecret => Refusal::WrongSecret,
        HandshakeError::Replayed => Refusal::Replayed,
        HandshakeError::NoRandom => return Err(SecretError::NoRandom.into()),
    })
}
