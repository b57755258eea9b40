//! The side of the rendezvous of every rank but 0: finds rank 0, is let in, waits for the rest.

use core::net::SocketAddr;
use core::time::Duration;
use std::io;
use std::net::TcpStream;
use std::thread;
use std::time::Instant;

use probeline_transport::Owner;

use crate::bounds::{deadline, whole_seconds};
use crate::callers::DRAIN_LIMIT;
use crate::error::JoinError;
use crate::frame::{BadFrame, Frame, Kind};
use crate::handshake::{Applicant, Session, Status, Stop, VERSION, nonce};
use crate::link::{Link, RENDEZVOUS_BOUND};
use crate::terms::{Difference, Terms};
use crate::wire::{Wire, wait};

/// Mean time between two attempts to connect to rank 0, which may start later than this rank.
const PAUSE: Duration = Duration::from_millis(50);

/// One try to connect; a machine that is down answers nothing at all.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// The time limit of one handshake attempt. Rank 0 may have a full listen queue ahead of this
/// connection, and a process that is not rank 0 may never answer.
const PROOF_LIMIT: Duration = Duration::from_secs(5);
const _: () = assert!(PROOF_LIMIT.as_millis() >= 2 * DRAIN_LIMIT.as_millis());

/// How much longer than rank 0 a member waits for the last rank, so that it is rank 0 who ends
/// the rendezvous and can say who is missing.
const GRACE: Duration = Duration::from_secs(2);

/// Why a try to join ended.
enum Setback {
    /// Rank 0 may not have started yet, or have no room just now: try again.
    Lost(String),
    /// Something else than rank 0 listens there; rank 0 may be at another of its addresses.
    Stranger(JoinError),
    /// Trying again would not help.
    Final(JoinError),
}

/// Meets rank 0 at one of `addresses`, which were given as `address`.
///
/// # Errors
/// Why the job cannot start.
pub(crate) fn meet(
    address: &str,
    addresses: &[SocketAddr],
    terms: &Terms,
) -> Result<Link, JoinError> {
    let until = deadline(terms.limits.rendezvous);
    loop {
        let last = match try_all(address, addresses, terms, until) {
            Ok(link) => return Ok(link),
            Err(Setback::Final(error) | Setback::Stranger(error)) => return Err(error),
            Err(Setback::Lost(last)) => last,
        };
        if Instant::now() + PAUSE >= until {
            let (address, after_s) = (address.to_owned(), whole_seconds(terms.limits.rendezvous));
            return Err(JoinError::Unreachable { address, after_s, last });
        }
        thread::sleep(pause());
    }
}

/// [`PAUSE`] plus or minus a random half, so that ranks that failed together do not retry together.
fn pause() -> Duration {
    let mut byte = [0x80];
    // If there is no random number, the handshake reports that error.
    let _ = getrandom::fill(&mut byte);
    PAUSE / 2 + PAUSE * u32::from(byte[0]) / 256
}

/// Tries one address after the other; a stranger at one counts if rank 0 is at none.
fn try_all(
    address: &str,
    addresses: &[SocketAddr],
    terms: &Terms,
    until: Instant,
) -> Result<Link, Setback> {
    let mut last = Setback::Lost("there is no address".to_owned());
    for at in addresses {
        match (join(address, *at, terms, until), &last) {
            (Err(Setback::Lost(_)), Setback::Stranger(_)) => {}
            (Err(setback @ (Setback::Lost(_) | Setback::Stranger(_))), _) => last = setback,
            (end, _) => return end,
        }
    }
    Err(last)
}

fn join(address: &str, at: SocketAddr, terms: &Terms, until: Instant) -> Result<Link, Setback> {
    let mut wire = dial(at, until).map_err(|error| Setback::Lost(error.to_string()))?;
    let session = prove(address, terms, &mut wire, until.min(deadline(PROOF_LIMIT)))?;
    let mut link = Link::new(Owner(0), wire, session);
    let wait_s = ask(terms, &mut link, until)?;
    wait_for_start(&mut link, deadline(Duration::from_secs(wait_s.into()) + GRACE))?;
    Ok(link)
}

fn dial(at: SocketAddr, until: Instant) -> io::Result<Wire> {
    // A limit of zero is an error of its own.
    let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    let wire = TcpStream::connect_timeout(&at, left.min(CONNECT_LIMIT)).and_then(Wire::new)?;
    if wire.is_own_echo() {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    Ok(wire)
}

/// Both sides' proofs.
fn prove(
    address: &str,
    terms: &Terms,
    wire: &mut Wire,
    until: Instant,
) -> Result<Session, Setback> {
    let nonce = nonce().map_err(|error| Setback::Final(error.into()))?;
    let mut applicant = Applicant::new(nonce, &terms.secret, wire);
    loop {
        match applicant.advance(&terms.secret, wire) {
            Ok(Some(session)) => return Ok(session),
            Ok(None) => more(wire, until)?,
            Err(stop) => return Err(Setback::Stranger(stopped(stop, address))),
        }
    }
}

fn stopped(stop: Stop, address: &str) -> JoinError {
    match stop {
        Stop::Garbage => JoinError::NotProbeline { address: address.to_owned() },
        Stop::Version(theirs) => JoinError::Version { mine: VERSION, theirs },
        Stop::Secret => JoinError::WrongSecret,
    }
}

/// Asks to be let in; how long rank 0 is going to wait for the others, in seconds.
fn ask(terms: &Terms, link: &mut Link, until: Instant) -> Result<u32, Setback> {
    let mut join = terms.rank.to_le_bytes().to_vec();
    join.extend(terms.size.to_le_bytes());
    join.extend(terms.parameters.as_bytes());
    link.send(Kind::Join, &join);
    let Frame { kind, payload } = word(link, until)?;
    match (kind, payload.first_chunk()) {
        (Kind::Welcome, Some(wait_s)) => Ok(u32::from_le_bytes(*wait_s)),
        (Kind::Refused, _) => Err(Setback::Final(refused(terms, &payload))),
        _ => Err(Setback::Final(JoinError::Left { rank: 0 })),
    }
}

/// What rank 0's refusal means, which says what rank 0 has.
fn refused(terms: &Terms, payload: &[u8]) -> JoinError {
    let Terms { rank, size, .. } = *terms;
    let unknown = JoinError::Left { rank: 0 };
    let Some((&[status, s0, s1, s2, s3], parameters)) = payload.split_first_chunk() else {
        return unknown;
    };
    match Status::from_code(status) {
        Some(Status::OtherSize) => {
            let theirs = u32::from_le_bytes([s0, s1, s2, s3]);
            JoinError::SizeDiffers { peer: 0, mine: size, theirs }
        }
        Some(Status::OtherParameters) => {
            let theirs = String::from_utf8_lossy(parameters);
            Difference::between(&terms.parameters, &theirs)
                .map_or(unknown, |difference| JoinError::ParametersDiffer { peer: 0, difference })
        }
        Some(Status::OutOfRange) => JoinError::RankOutOfRange { rank, size },
        Some(Status::Taken) => JoinError::RankTaken { rank },
        _ => unknown,
    }
}

fn wait_for_start(link: &mut Link, until: Instant) -> Result<(), Setback> {
    let error = match word(link, until) {
        Ok(Frame { kind: Kind::Start, .. }) => return Ok(()),
        Ok(Frame { kind: Kind::GaveUp, payload }) => {
            JoinError::GaveUp { reason: String::from_utf8_lossy(&payload).into_owned() }
        }
        _ => JoinError::Left { rank: 0 },
    };
    Err(Setback::Final(error))
}

/// The next frame.
fn word(link: &mut Link, until: Instant) -> Result<Frame, Setback> {
    loop {
        match link.word() {
            Ok(Some(frame)) => return Ok(frame),
            Ok(None) => more(&mut link.wire, until)?,
            Err(BadFrame) => return Err(Setback::Lost("a damaged message".to_owned())),
        }
    }
}

/// Sends what is to be sent and waits for more to arrive.
fn more(wire: &mut Wire, until: Instant) -> Result<(), Setback> {
    if wire.closed {
        return Err(Setback::Lost("the connection ended during the handshake".to_owned()));
    }
    if Instant::now() >= until {
        return Err(Setback::Lost("connected, but there was no answer".to_owned()));
    }
    wait([(&*wire).into()], until).map_err(|error| Setback::Lost(error.to_string()))?;
    wire.pump(RENDEZVOUS_BOUND);
    Ok(())
}
