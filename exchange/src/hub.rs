//! Rank 0's side of the rendezvous: lets the right ranks in, and nobody else hold them up.
//!
//! One thread waits on all sockets at once, so that a connection that says nothing, or says it a
//! byte at a time, costs one of [`MAX_CALLERS`] places for [`HANDSHAKE_LIMIT`] and delays nobody
//! while there are others.

use core::mem;
use core::time::Duration;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use transport::Owner;

use crate::bounds::{deadline, whole_seconds};
use crate::error::{JoinError, Refusal, Refusals};
use crate::frame::Kind;
use crate::handshake::{Guest, Status, Stop, nonce};
use crate::link::{Link, MAX_WORD_BYTES, RENDEZVOUS_BOUND};
use crate::terms::{Difference, Terms};
use crate::wire::{Wire, wait};

/// How long a caller has to prove itself: many roundtrips of any network.
pub(crate) const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);

/// Callers in their handshake at once; more wait in the listen queue. Bounds what strangers can
/// make rank 0 hold to 64 sockets and 64 small buffers; a rank needs its place for two roundtrips.
const MAX_CALLERS: usize = 64;

/// How often the spawned processes are looked at.
const TICK: Duration = Duration::from_millis(20);

/// How long the last words to those turned away may take, once the rendezvous is over.
const LAST_WORDS: Duration = Duration::from_millis(500);

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
    let system = |error| JoinError::System { doing: "listening for the other ranks", error };
    listener.set_nonblocking(true).map_err(system)?;
    let until = deadline(terms.limits.rendezvous);
    let members = (1..terms.size).map(|_| None).collect();
    let mut hub =
        Hub { listener, terms, until, callers: vec![], members, refusals: Refusals::default() };
    let end = hub.gather(watch);
    hub.announce(&end);
    hub.part(end.is_err());
    end.map(|()| hub.members.into_iter().flatten().collect())
}

struct Hub<'a> {
    listener: &'a TcpListener,
    terms: &'a Terms,
    until: Instant,
    callers: Vec<Caller>,
    /// The ranks that are in, from rank 1.
    members: Vec<Option<Link>>,
    refusals: Refusals,
}

/// A connection that is not a member.
struct Caller {
    until: Instant,
    stage: Stage,
}

enum Stage {
    /// It has to prove that it knows the secret.
    Proving(Guest, Wire),
    /// It has, and is to say which rank it is.
    Joining(Link),
    /// It was refused, and is given time to hear so.
    Parting(Wire),
}

impl Caller {
    fn wire(&mut self) -> &mut Wire {
        match &mut self.stage {
            Stage::Proving(_, wire) | Stage::Parting(wire) => wire,
            Stage::Joining(link) => &mut link.wire,
        }
    }
}

impl Hub<'_> {
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

    fn missing(&self) -> JoinError {
        let absent = (1..).zip(&self.members).filter(|(_, member)| member.is_none());
        JoinError::Missing {
            ranks: absent.map(|(rank, _)| rank).collect(),
            after_s: whole_seconds(self.terms.limits.rendezvous),
            refusals: self.refusals,
        }
    }

    /// Sleeps until something happens, and attends to all of it.
    fn turn(&mut self) -> Result<(), JoinError> {
        let until = self.until.min(Instant::now() + TICK);
        let has_room = self.callers.len() < MAX_CALLERS;
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
        if ready.next() == Some(true) {
            self.open_door()?;
        }
        Ok(())
    }

    fn open_door(&mut self) -> Result<(), JoinError> {
        while self.callers.len() < MAX_CALLERS {
            match self.listener.accept() {
                Ok((stream, _)) => self.greet(stream)?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The caller has gone again, which accept(2) asks to be taken as nothing.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(JoinError::System { doing: "accepting the other ranks", error });
                }
            }
        }
        Ok(())
    }

    fn greet(&mut self, stream: TcpStream) -> Result<(), JoinError> {
        let Ok(wire) = Wire::new(stream) else {
            self.refusals.add(Refusal::Closed);
            return Ok(());
        };
        let stage = Stage::Proving(Guest::new(nonce()?), wire);
        self.callers.push(Caller { until: deadline(HANDSHAKE_LIMIT), stage });
        Ok(())
    }

    /// Goes on with one caller, which stays a caller, becomes a member or is let go.
    fn attend(&mut self, caller: Caller) -> Result<(), JoinError> {
        let until = caller.until;
        match caller.stage {
            Stage::Proving(mut guest, mut wire) => {
                match guest.advance(&self.terms.secret, &mut wire) {
                    Ok(None) => self.keep(until, Stage::Proving(guest, wire)),
                    Ok(Some(session)) => {
                        let link = Link::new(Owner(0), wire, session);
                        self.attend(Caller { until, stage: Stage::Joining(link) })?;
                    }
                    Err(stop) => self.turn_away(until, stop.into(), wire),
                }
            }
            Stage::Joining(mut link) => match link.word() {
                Ok(None) => self.keep(until, Stage::Joining(link)),
                Ok(Some(frame)) if frame.kind == Kind::Join => {
                    self.admit(until, link, &frame.payload)?;
                }
                _ => self.turn_away(until, Refusal::Garbage, link.wire),
            },
            Stage::Parting(mut wire) => {
                say_goodbye(&mut wire);
                self.keep(until, Stage::Parting(wire));
            }
        }
        Ok(())
    }

    /// Keeps a caller that has more to say, unless it has gone or its time is over.
    fn keep(&mut self, until: Instant, stage: Stage) {
        let mut caller = Caller { until, stage };
        let closed = caller.wire().closed;
        if !closed && Instant::now() < until {
            return self.callers.push(caller);
        }
        if !matches!(caller.stage, Stage::Parting(_)) {
            self.refusals.add(if closed { Refusal::Closed } else { Refusal::Silent });
        }
    }

    fn turn_away(&mut self, until: Instant, reason: Refusal, wire: Wire) {
        self.refusals.add(reason);
        self.callers.push(Caller { until, stage: Stage::Parting(wire) });
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
        self.callers.push(Caller { until, stage: Stage::Parting(link.wire) });
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
            let parting = members.map(|link| Caller { until, stage: Stage::Parting(link.wire) });
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
