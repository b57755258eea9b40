//! Rank 0's side of the rendezvous: admits the job's ranks, and keeps other connections from
//! delaying them.
//!
//! One thread waits on all sockets at once, so a silent or slow connection does not delay others.
//! Strangers may connect any number of times. Therefore at most [`MAX_PENDING`] connections are
//! pending, which have not joined yet, and when that number is reached, the oldest one is dropped if
//! it is older than [`MIN_SERVICE`]. A member sends its messages immediately, and tries again if its
//! connection was dropped.

use core::mem;
use core::time::Duration;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use probeline_transport::Owner;

use crate::error::JoinError;
use crate::handshake::respond;
use crate::limits::{HANDSHAKE_LIMIT, deadline, whole_seconds};
use crate::link::{Frame, Kind, Link, MAX_JOIN_BYTES, RENDEZVOUS_BYTES};
use crate::socket::{Socket, wait};
use crate::spec::{JobSpec, parse_join};
use crate::tcp::Job;

/// The maximum number of pending connections; further ones wait in the listen queue. This bounds
/// the sockets and buffers that strangers can make rank 0 hold.
pub(crate) const MAX_PENDING: usize = MAX_PENDING_U32 as usize;
const MAX_PENDING_U32: u32 = 256;

/// A pending connection is not dropped for a newer one before this time: several roundtrips of a
/// handshake, on a machine that is busy.
const MIN_SERVICE: Duration = Duration::from_millis(50);

/// The length of the listen queue; the system may limit it further (somaxconn).
pub(crate) const LISTEN_BACKLOG: u32 = 4096;

/// The maximum time to accept a full listen queue of strangers, each of which is pending for
/// [`MIN_SERVICE`].
pub(crate) const DRAIN_LIMIT: Duration =
    MIN_SERVICE.saturating_mul(LISTEN_BACKLOG.div_ceil(MAX_PENDING_U32));

/// The interval at which rank 0 checks the spawned processes, and tries again to accept connections.
const TICK: Duration = Duration::from_millis(20);

const WAITING: &str = "waiting for the other ranks";

/// Admits ranks 1 to `size - 1` at `listener`. Calls `check` at least every [`TICK`]; its error
/// ends the rendezvous.
///
/// # Errors
/// The reason why the job cannot start, which every rank that has joined receives.
pub(crate) fn admit_ranks(
    listener: &TcpListener,
    spec: &JobSpec,
    check: &mut dyn FnMut() -> Result<(), JoinError>,
) -> Result<Job, JoinError> {
    const LISTENING: &str = "listening for the other ranks";
    listener.set_nonblocking(true).map_err(JoinError::system(LISTENING))?;
    // Calls listen(2) again, because std chose a shorter queue.
    let longer = rustix::net::listen(listener, LISTEN_BACKLOG.cast_signed());
    longer.map_err(JoinError::system(LISTENING))?;
    let until = deadline(spec.limits.rendezvous);
    let members = (1..spec.size).map(|_| None).collect();
    let mut coordinator =
        Coordinator { listener, spec, until, pending: vec![], members, refused: None };
    let result = coordinator.run(check);
    coordinator.announce(&result);
    result.map(|()| Job::new(spec, coordinator.members.into_iter().flatten().collect()))
}

/// A connection that has not joined. It is closed after [`HANDSHAKE_LIMIT`], or when the peer is refused;
/// the peer still receives what was sent, because all that it had sent was read.
struct Pending {
    since: Instant,
    stage: Stage,
}

enum Stage {
    /// The first message has not arrived.
    Handshake(Socket),
    /// The peer has to name its rank, encrypted: only a peer that knows the secret can.
    Joining(Link),
}

impl Pending {
    fn socket(&mut self) -> &mut Socket {
        match &mut self.stage {
            Stage::Handshake(socket) => socket,
            Stage::Joining(link) => &mut link.socket,
        }
    }
}

struct Coordinator<'a> {
    listener: &'a TcpListener,
    spec: &'a JobSpec,
    until: Instant,
    /// The oldest first.
    pending: Vec<Pending>,
    /// The ranks that have joined, from rank 1.
    members: Vec<Option<Link>>,
    /// The error of the last accept(2), such as the lack of a descriptor, and when to try again.
    refused: Option<(io::Error, Instant)>,
}

impl Coordinator<'_> {
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
        if let Some((error, _)) = self.refused.take() {
            let doing = "accepting the other ranks, which may need more open files (ulimit -n),";
            return JoinError::System { doing, error };
        }
        let absent = (1..).zip(&self.members).filter(|(_, member)| member.is_none());
        JoinError::Missing {
            ranks: absent.map(|(rank, _)| rank).collect(),
            after_s: whole_seconds(self.spec.limits.rendezvous),
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
            // No connection waits.
            Some(false) => self.refused = None,
            None => {}
        }
        Ok(())
    }

    /// Returns the earliest time at which a connection can be accepted, as known at `now`.
    fn accept_from(&self, now: Instant) -> Instant {
        let place = match &*self.pending {
            [oldest, rest @ ..] if rest.len() + 1 >= MAX_PENDING => oldest.since + MIN_SERVICE,
            _ => now,
        };
        self.refused.as_ref().map_or(place, |(_, again)| *again.max(&place))
    }

    /// Accepts connections while there is room, at most [`MAX_PENDING`], so that a flood of
    /// connections cannot keep rank 0 from its other work.
    fn accept_waiting(&mut self) -> Result<(), JoinError> {
        for _ in 0..MAX_PENDING {
            if self.pending.len() >= MAX_PENDING && !self.make_room()? {
                break;
            }
            match self.listener.accept() {
                Ok((stream, _)) => {
                    self.refused = None;
                    self.add(stream)?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => {
                    self.refused = Some((error, Instant::now() + TICK));
                    if !self.make_room()? {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Drops the oldest pending connection. Returns `false` if none is old enough.
    fn make_room(&mut self) -> Result<bool, JoinError> {
        let now = Instant::now();
        let is_old = |oldest: &Pending| oldest.since + MIN_SERVICE <= now;
        if !self.pending.first().is_some_and(is_old) {
            return Ok(false);
        }
        let mut oldest = self.pending.remove(0);
        // Its messages may have arrived since the last poll(2).
        oldest.socket().pump(RENDEZVOUS_BYTES);
        drop(self.advance(oldest)?);
        Ok(true)
    }

    /// Adds a connection, and reads the bytes that have arrived: a member's first message.
    fn add(&mut self, stream: TcpStream) -> Result<(), JoinError> {
        // Fails if the connection is lost.
        let Ok(mut socket) = Socket::new(stream) else { return Ok(()) };
        socket.pump(RENDEZVOUS_BYTES);
        let pending = Pending { since: Instant::now(), stage: Stage::Handshake(socket) };
        let pending = self.advance(pending)?;
        self.pending.extend(pending);
        Ok(())
    }

    /// Processes the bytes of a connection. Returns it unless it has become a member, was refused or closed,
    /// or its time is over.
    fn advance(&mut self, pending: Pending) -> Result<Option<Pending>, JoinError> {
        let Pending { since, stage } = pending;
        let stage = match stage {
            Stage::Handshake(mut socket) => {
                let result = respond(&self.spec.secret, &mut socket);
                // Sends the answer immediately: this connection may be dropped before its next
                // event.
                socket.push();
                match result {
                    Ok(None) => Stage::Handshake(socket),
                    Ok(Some(session)) => {
                        let stage = Stage::Joining(Link::new(Owner(0), socket, session));
                        return self.advance(Pending { since, stage });
                    }
                    Err(JoinError::NoRandom) => return Err(JoinError::NoRandom),
                    Err(_) => return Ok(None),
                }
            }
            Stage::Joining(mut link) => match link.receive() {
                Ok(None) => Stage::Joining(link),
                Ok(Some(Frame { kind: Kind::Join, payload })) => {
                    return self.admit(link, &payload).map(|()| None);
                }
                _ => return Ok(None),
            },
        };
        let mut pending = Pending { since, stage };
        let stays = !pending.socket().closed && since.elapsed() < HANDSHAKE_LIMIT;
        Ok(stays.then_some(pending))
    }

    /// Admits a peer that knows the secret, if its rank, size and parameters fit. Otherwise sends
    /// it this rank's specification, from which the peer derives the reason.
    fn admit(&mut self, mut link: Link, join: &[u8]) -> Result<(), JoinError> {
        let Some((rank, size, parameters)) = parse_join(join) else { return Ok(()) };
        let agreed = self.spec.compare(rank, size, parameters);
        let place = rank.checked_sub(1).and_then(|index| self.members.get_mut(index as usize));
        if let Some(place @ None) = place
            && agreed.is_ok()
        {
            // The member waits as long as this rank does, to receive the names of missing ranks.
            let left = self.until.saturating_duration_since(Instant::now());
            link.owner = Owner(rank);
            link.send(Kind::Admitted, &whole_seconds(left).to_le_bytes());
            *place = Some(link);
            return Ok(());
        }
        link.send(Kind::Refused, &self.spec.join_payload());
        link.flush();
        agreed
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
}
