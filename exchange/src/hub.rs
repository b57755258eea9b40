//! Rank 0's side of the rendezvous: admits the job's ranks, and keeps other connections from
//! delaying them.
//!
//! One thread waits on all sockets at once, so that a connection that says nothing, or says it a
//! byte at a time, takes one of [`MAX_CALLERS`] places and does not delay others.
//! [`callers`](crate::callers) describes what happens when all places are taken.

use core::mem;
use core::time::Duration;
use std::fs;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use probeline_transport::Owner;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::bounds::{deadline, whole_seconds};
use crate::callers::{
    Caller, HANDSHAKE_LIMIT, LISTEN_BACKLOG, MAX_CALLERS, Stage, room_from, victim,
};
use crate::error::{JoinError, Refusal, Refusals};
use crate::frame::Kind;
use crate::handshake::{Guest, SeenNonces, Status, Stop, nonce};
use crate::link::{Link, MAX_WORD_BYTES, RENDEZVOUS_BOUND};
use crate::terms::{Difference, Terms};
use crate::wire::{Wire, wait};

#[cfg(test)]
#[allow(dead_code, reason = "open_files.rs runs some of these tests")]
pub(crate) mod tests;

/// How often rank 0 checks the spawned processes, and whether descriptors are available again.
const TICK: Duration = Duration::from_millis(20);

/// How long the last words to those turned away may take, once the rendezvous is over.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Descriptors that rank 0 needs in addition to those of the ranks.
const SPARE_DESCRIPTORS: u64 = 16;

/// Raises the soft limit of open files, if it is too low for a socket to each other rank of `size`
/// and to [`MAX_CALLERS`] callers, as far as the hard limit permits.
///
/// # Errors
/// [`JoinError::OpenFiles`] if the hard limit is too low for the ranks.
pub(crate) fn provide_descriptors(size: u32) -> Result<(), JoinError> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let open = fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64);
    let needed = open + u64::from(size) + SPARE_DESCRIPTORS;
    let Some(raised) = raised_limit(needed, current, maximum)? else { return Ok(()) };
    let limit = Rlimit { current: Some(raised), maximum };
    match setrlimit(Resource::Nofile, limit) {
        Err(errno) if current.is_some_and(|limit| limit < needed) => {
            Err(JoinError::System { doing: "raising the limit of open files", error: errno.into() })
        }
        // Without the increase, callers are evicted sooner.
        _ => Ok(()),
    }
}

/// The new soft limit of open files; `None` if the soft limit `current` is high enough. `None` as
/// a limit means unlimited.
fn raised_limit(
    needed: u64,
    current: Option<u64>,
    maximum: Option<u64>,
) -> Result<Option<u64>, JoinError> {
    let wanted = needed + MAX_CALLERS as u64;
    let Some(current) = current.filter(|limit| *limit < wanted) else { return Ok(None) };
    let raised = maximum.map_or(wanted, |limit| limit.min(wanted));
    if raised < needed {
        return Err(JoinError::OpenFiles { needed, limit: raised });
    }
    Ok(Some(raised).filter(|raised| *raised > current))
}

/// Waits for ranks 1.. at `listener`, and gives their links in that order. `watch` is asked now
/// and then whether to go on.
///
/// # Errors
/// Why the job cannot start; every rank that had come is told.
pub(crate) fn host(
    listener: &TcpListener,
    terms: &Terms,
    watch: &mut dyn FnMut() -> Result<(), JoinError>,
) -> Result<Vec<Link>, JoinError> {
    host_counting(listener, terms, watch).map(|(links, _)| links)
}

/// As [`host`], and also returns the connections that were refused until all ranks had arrived.
pub(crate) fn host_counting(
    listener: &TcpListener,
    terms: &Terms,
    watch: &mut dyn FnMut() -> Result<(), JoinError>,
) -> Result<(Vec<Link>, Refusals), JoinError> {
    let system = |error| JoinError::System { doing: "listening for the other ranks", error };
    provide_descriptors(terms.size)?;
    listener.set_nonblocking(true).map_err(system)?;
    // Calls listen(2) again, because std chose a shorter queue.
    let longer = rustix::net::listen(listener, LISTEN_BACKLOG.cast_signed());
    longer.map_err(|errno| system(errno.into()))?;
    let until = deadline(terms.limits.rendezvous);
    let mut hub = Hub::new(listener, terms, until);
    let end = hub.gather(watch);
    hub.announce(&end);
    hub.part(end.is_err());
    end.map(|()| (hub.members.into_iter().flatten().collect(), hub.refusals))
}

struct Hub<'a> {
    listener: &'a TcpListener,
    terms: &'a Terms,
    until: Instant,
    /// Sorted by arrival.
    callers: Vec<Caller>,
    /// The ranks that are in, from rank 1.
    members: Vec<Option<Link>>,
    refusals: Refusals,
    nonces: SeenNonces,
    /// Why no connection can be accepted at present.
    shortage: Option<Shortage>,
}

/// The system lacked a descriptor or memory for another connection.
struct Shortage {
    error: io::Error,
    /// When to try again.
    again: Instant,
}

/// The result of the search for a place for another connection.
enum Place {
    /// There is a place.
    Free,
    /// The caller of this index can be evicted.
    Of(usize),
    /// No caller can be evicted at present.
    None,
}

impl<'a> Hub<'a> {
    fn new(listener: &'a TcpListener, terms: &'a Terms, until: Instant) -> Self {
        Self {
            listener,
            terms,
            until,
            callers: vec![],
            members: (1..terms.size).map(|_| None).collect(),
            refusals: Refusals::default(),
            nonces: SeenNonces::default(),
            shortage: None,
        }
    }

    fn gather(
        &mut self,
        watch: &mut dyn FnMut() -> Result<(), JoinError>,
    ) -> Result<(), JoinError> {
        while self.members.iter().any(Option::is_none) {
            watch()?;
            if Instant::now() >= self.until {
                return Err(self.missing());
            }
            self.turn()?;
        }
        Ok(())
    }

    fn missing(&mut self) -> JoinError {
        if let Some(Shortage { error, .. }) = self.shortage.take() {
            let doing = "accepting the other ranks, which needs more open files";
            return JoinError::System { doing, error };
        }
        let absent = (1..).zip(&self.members).filter(|(_, member)| member.is_none());
        JoinError::Missing {
            ranks: absent.map(|(rank, _)| rank).collect(),
            after_s: whole_seconds(self.terms.limits.rendezvous),
            refusals: self.refusals,
        }
    }

    /// Sleeps until something happens, and attends to all of it.
    fn turn(&mut self) -> Result<(), JoinError> {
        let now = Instant::now();
        let room_from = self.room_from(now);
        let has_room = room_from <= now;
        let next = if has_room { now + TICK } else { room_from.min(now + TICK) };
        let until = self.until.min(next);
        let members = self.members.iter().flatten().map(|link| &link.wire);
        let callers = self.callers.iter_mut().map(|caller| &*caller.wire());
        let interests = members.chain(callers).map(Into::into);
        let door = has_room.then(|| self.listener.into());
        let ready = wait(interests.chain(door), until)
            .map_err(|error| JoinError::System { doing: "waiting for the other ranks", error })?;
        let mut ready = ready.into_iter();
        for link in self.members.iter_mut().flatten() {
            if ready.next() == Some(true) {
                link.wire.pump(RENDEZVOUS_BOUND);
            }
            // A member has nothing to say before the start.
            if link.wire.closed || !link.wire.incoming.is_empty() {
                return Err(JoinError::Left { rank: link.owner.0 });
            }
        }
        for mut caller in mem::take(&mut self.callers) {
            if ready.next() == Some(true) {
                caller.wire().pump(RENDEZVOUS_BOUND);
            }
            self.attend(caller)?;
        }
        match ready.next() {
            Some(true) => self.open_door()?,
            // No connection lacks a descriptor.
            Some(false) => self.shortage = None,
            None => {}
        }
        Ok(())
    }

    /// The earliest time at which a connection can be accepted, as known at `now`.
    fn room_from(&self, now: Instant) -> Instant {
        let place = match self.callers.len() {
            0..MAX_CALLERS => now,
            _ => room_from(&self.callers).unwrap_or(now + TICK),
        };
        self.shortage.as_ref().map_or(place, |shortage| shortage.again.max(place))
    }

    /// Accepts connections while there is room, at most [`MAX_CALLERS`], so that a flood of
    /// connections cannot keep rank 0 from its other work.
    fn open_door(&mut self) -> Result<(), JoinError> {
        for _ in 0..MAX_CALLERS {
            // At the limit of open files, accept(2) fails with EMFILE even on an empty queue.
            if !self.is_somebody_waiting()? {
                self.shortage = None;
                break;
            }
            let place = match self.callers.len() {
                0..MAX_CALLERS => Place::Free,
                _ => self.find_place()?,
            };
            if matches!(place, Place::None) {
                break;
            }
            match self.listener.accept() {
                Ok((stream, _)) => {
                    self.shortage = None;
                    self.evict(&place);
                    self.greet(stream)?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.shortage = None;
                    break;
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) if is_shortage(&error) => {
                    if !self.make_room(error)? {
                        break;
                    }
                }
                Err(error) => {
                    return Err(JoinError::System { doing: "accepting the other ranks", error });
                }
            }
        }
        Ok(())
    }

    /// Whether the listen queue has a connection.
    fn is_somebody_waiting(&self) -> Result<bool, JoinError> {
        let ready = wait([self.listener.into()], Instant::now())
            .map_err(|error| JoinError::System { doing: "waiting for the other ranks", error })?;
        Ok(ready == [true])
    }

    /// Evicts a caller to free a descriptor, and postpones accepting. Returns whether a descriptor
    /// was freed.
    fn make_room(&mut self, error: io::Error) -> Result<bool, JoinError> {
        self.shortage = Some(Shortage { error, again: Instant::now() + TICK });
        let place = self.find_place()?;
        self.evict(&place);
        Ok(!matches!(place, Place::None))
    }

    /// Selects a caller to evict. Its first message may have arrived since the last poll(2), so
    /// this reads from each candidate once more. [`Place::Free`] if a candidate is no caller after
    /// that.
    fn find_place(&mut self) -> Result<Place, JoinError> {
        let now = Instant::now();
        while let Some(index) = victim(&self.callers, now) {
            let callers = self.callers.len();
            self.reread(index)?;
            if self.callers.len() < callers {
                return Ok(Place::Free);
            }
            if victim(&self.callers, now) == Some(index) {
                return Ok(Place::Of(index));
            }
        }
        Ok(Place::None)
    }

    /// Reads from one caller and attends to it; its position does not change.
    fn reread(&mut self, index: usize) -> Result<(), JoinError> {
        let mut later = self.callers.split_off(index);
        let mut callers = later.drain(..);
        let Some(mut caller) = callers.next() else { return Ok(()) };
        caller.wire().pump(RENDEZVOUS_BOUND);
        let end = self.attend(caller);
        self.callers.extend(callers);
        end
    }

    fn evict(&mut self, place: &Place) {
        let Place::Of(index) = *place else { return };
        if !matches!(self.callers.remove(index).stage, Stage::Parting(_)) {
            self.refusals.add(Refusal::Evicted);
        }
    }

    /// Adds a connection, and reads the bytes that have arrived: a member's first message.
    fn greet(&mut self, stream: TcpStream) -> Result<(), JoinError> {
        let Ok(mut wire) = Wire::new(stream) else {
            self.refusals.add(Refusal::Closed);
            return Ok(());
        };
        wire.pump(RENDEZVOUS_BOUND);
        let stage = Stage::Proving(Guest::new(nonce()?), wire);
        self.attend(Caller::new(deadline(HANDSHAKE_LIMIT), stage))
    }

    /// Goes on with one caller, which stays a caller, becomes a member or is let go.
    fn attend(&mut self, mut caller: Caller) -> Result<(), JoinError> {
        let until = caller.until;
        match caller.stage {
            Stage::Proving(mut guest, mut wire) => {
                let end = guest.advance(&self.terms.secret, &mut self.nonces, &mut wire);
                // Sends the answer immediately: this connection may be evicted before the next
                // turn.
                wire.push();
                match end {
                    Ok(None) => {
                        caller.stage = Stage::Proving(guest, wire);
                        self.keep(caller);
                    }
                    Ok(Some(session)) => {
                        caller.stage = Stage::Joining(Link::new(Owner(0), wire, session));
                        self.attend(caller)?;
                    }
                    Err(stop) => self.turn_away(until, stop.into(), wire),
                }
            }
            Stage::Joining(mut link) => match link.word() {
                Ok(None) => {
                    caller.stage = Stage::Joining(link);
                    self.keep(caller);
                }
                Ok(Some(frame)) if frame.kind == Kind::Join => {
                    self.admit(until, link, &frame.payload)?;
                }
                _ => self.turn_away(until, Refusal::Garbage, link.wire),
            },
            Stage::Parting(ref mut wire) => {
                say_goodbye(wire);
                self.keep(caller);
            }
        }
        Ok(())
    }

    /// Keeps a caller that has more to say, unless it has gone or its time is over.
    fn keep(&mut self, mut caller: Caller) {
        let closed = caller.wire().closed;
        if !closed && Instant::now() < caller.until {
            return self.callers.push(caller);
        }
        if !matches!(caller.stage, Stage::Parting(_)) {
            self.refusals.add(if closed { Refusal::Closed } else { Refusal::Silent });
        }
    }

    fn turn_away(&mut self, until: Instant, reason: Refusal, wire: Wire) {
        self.refusals.add(reason);
        self.callers.push(Caller::new(until, Stage::Parting(wire)));
    }

    /// Decides on a caller that has proved itself.
    fn admit(&mut self, until: Instant, mut link: Link, join: &[u8]) -> Result<(), JoinError> {
        let Some((rank, size, parameters)) = parse_join(join) else {
            self.turn_away(until, Refusal::Garbage, link.wire);
            return Ok(());
        };
        let Terms { size: mine, parameters: my_parameters, .. } = self.terms;
        if size != *mine {
            self.refuse(until, link, Status::OtherSize);
            return Err(JoinError::SizeDiffers { peer: rank, mine: *mine, theirs: size });
        }
        if let Some(difference) = Difference::between(my_parameters, &parameters) {
            self.refuse(until, link, Status::OtherParameters);
            return Err(JoinError::ParametersDiffer { peer: rank, difference });
        }
        let place = rank.checked_sub(1).and_then(|index| self.members.get_mut(index as usize));
        match place {
            None => {
                self.refusals.add(Refusal::OutOfRange);
                self.refuse(until, link, Status::OutOfRange);
            }
            Some(Some(_)) => {
                self.refusals.add(Refusal::RankTaken);
                self.refuse(until, link, Status::Taken);
            }
            Some(place) => {
                // The member waits as long as this rank does, to hear who is missing.
                let left = self.until.saturating_duration_since(Instant::now());
                link.owner = Owner(rank);
                link.send(Kind::Welcome, &whole_seconds(left).to_le_bytes());
                *place = Some(link);
            }
        }
        Ok(())
    }

    fn refuse(&mut self, until: Instant, mut link: Link, status: Status) {
        let mut payload = vec![status as u8];
        payload.extend(self.terms.size.to_le_bytes());
        payload.extend(self.terms.parameters.as_bytes());
        link.send(Kind::Refused, &payload);
        link.wire.push();
        self.callers.push(Caller::new(until, Stage::Parting(link.wire)));
    }

    /// Tells the members how the rendezvous ended.
    fn announce(&mut self, end: &Result<(), JoinError>) {
        for link in self.members.iter_mut().flatten() {
            match end {
                Ok(()) => link.send(Kind::Start, &[]),
                Err(error) => {
                    let words = error.to_string();
                    link.send(Kind::GaveUp, &words.as_bytes()[..words.len().min(MAX_WORD_BYTES)]);
                }
            }
            // A member may begin its first call at once.
            link.push();
        }
    }

    /// Gives everybody turned away time to hear so, the members among them if the job has failed.
    fn part(&mut self, failed: bool) {
        self.callers.retain(|caller| matches!(caller.stage, Stage::Parting(_)));
        if failed {
            let until = self.until;
            let members = mem::take(&mut self.members).into_iter().flatten();
            let parting = members.map(|link| Caller::new(until, Stage::Parting(link.wire)));
            self.callers.extend(parting);
        }
        let until = deadline(LAST_WORDS);
        while Instant::now() < until {
            for caller in &mut self.callers {
                let wire = caller.wire();
                wire.pump(RENDEZVOUS_BOUND);
                say_goodbye(wire);
            }
            self.callers.retain_mut(|caller| !caller.wire().closed);
            if self.callers.is_empty() {
                return;
            }
            let wires = self.callers.iter_mut().map(|caller| (&*caller.wire()).into());
            if wait(wires, until).is_err() {
                return;
            }
        }
    }
}

/// Whether accept(2) failed for one connection, which was closed or had a network error.
fn is_of_one_connection(error: &io::Error) -> bool {
    let Some(errno) = Errno::from_io_error(error) else { return false };
    let network = [
        Errno::NETDOWN,
        Errno::PROTO,
        Errno::NOPROTOOPT,
        Errno::HOSTDOWN,
        Errno::NONET,
        Errno::HOSTUNREACH,
        Errno::OPNOTSUPP,
        Errno::NETUNREACH,
    ];
    // A firewall rejects with EPERM.
    [Errno::CONNABORTED, Errno::INTR, Errno::PERM].contains(&errno) || network.contains(&errno)
}

/// Whether accept(2) failed because a descriptor or memory was lacking.
fn is_shortage(error: &io::Error) -> bool {
    Errno::from_io_error(error).is_some_and(|errno| {
        [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM].contains(&errno)
    })
}

/// Listens no more, and ends the stream once everything is said; the other side closes then.
fn say_goodbye(wire: &mut Wire) {
    wire.incoming.clear();
    if wire.outgoing.is_empty() {
        wire.finish();
    }
}

impl From<Stop> for Refusal {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Garbage => Self::Garbage,
            Stop::Version(_) => Self::OtherVersion,
            Stop::Secret => Self::WrongSecret,
        }
    }
}

/// Rank, size and parameters.
fn parse_join(payload: &[u8]) -> Option<(u32, u32, String)> {
    let (rank, rest) = payload.split_first_chunk()?;
    let (size, parameters) = rest.split_first_chunk()?;
    let parameters = core::str::from_utf8(parameters).ok()?.to_owned();
    Some((u32::from_le_bytes(*rank), u32::from_le_bytes(*size), parameters))
}
