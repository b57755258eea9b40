//! The rendezvous of all ranks except rank 0: finds rank 0, joins, and waits for the start.

use core::net::SocketAddr;
use core::time::Duration;
use std::io;
use std::net::TcpStream;
use std::thread;
use std::time::Instant;

use probeline_transport::Owner;

use crate::coordinator::DRAIN_LIMIT;
use crate::error::JoinError;
use crate::handshake::initiate;
use crate::limits::{deadline, whole_seconds};
use crate::link::{BadFrame, Frame, Kind, Link, RENDEZVOUS_BYTES};
use crate::socket::{Socket, wait};
use crate::spec::{JobSpec, parse_join};
use crate::tcp::Job;

/// The mean time between two attempts to connect to rank 0, which may start later than this rank.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// The time limit of connect(2); a machine that is down does not answer.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// The time limit of a handshake. Rank 0 may have a full listen queue ahead of this connection, and
/// another program may never answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
const _: () = assert!(ANSWER_LIMIT.as_millis() >= 2 * DRAIN_LIMIT.as_millis());

/// The additional time for which a member waits for the last rank, compared with rank 0. Rank 0
/// ends the rendezvous, because only it knows which ranks are missing.
const GRACE: Duration = Duration::from_secs(2);

/// The reason why an attempt to join failed.
enum AttemptError {
    /// Rank 0 may not have started yet, or may be overloaded: try again.
    Retry(String),
    Failed(JoinError),
}

impl From<JoinError> for AttemptError {
    fn from(error: JoinError) -> Self {
        Self::Failed(error)
    }
}

/// Joins rank 0 at one of `addresses`. Tries one after the other. If rank 0 is at none of them, the error
/// names another program that listens at one.
///
/// # Errors
/// The reason why the job cannot start.
pub(crate) fn join_rank_0(addresses: &[SocketAddr], spec: &JobSpec) -> Result<Job, JoinError> {
    let until = deadline(spec.limits.rendezvous);
    loop {
        let mut last = "there is no address".to_owned();
        let mut other_program = None;
        for at in addresses {
            match attempt(*at, spec, until) {
                Ok(link) => return Ok(Job::new(spec, vec![link])),
                Err(AttemptError::Failed(
                    error @ (JoinError::NotProbeline
                    | JoinError::Version { .. }
                    | JoinError::WrongSecret),
                )) => other_program = Some(error),
                Err(AttemptError::Failed(error)) => return Err(error),
                Err(AttemptError::Retry(error)) => last = error,
            }
        }
        if let Some(error) = other_program {
            return Err(error);
        }
        if Instant::now() + RETRY_PAUSE >= until {
            let addresses: Vec<_> = addresses.iter().map(SocketAddr::to_string).collect();
            let after_s = whole_seconds(spec.limits.rendezvous);
            return Err(JoinError::Unreachable { address: addresses.join(" or "), after_s, last });
        }
        thread::sleep(random_pause());
    }
}

/// Returns [`RETRY_PAUSE`] plus or minus up to half of it at random, so that ranks that failed
/// together do not retry together.
fn random_pause() -> Duration {
    let mut byte = [0x80];
    // If there is no random number, the handshake reports that error.
    let _ = getrandom::fill(&mut byte);
    RETRY_PAUSE / 2 + RETRY_PAUSE * u32::from(byte[0]) / 256
}

fn attempt(at: SocketAddr, spec: &JobSpec, until: Instant) -> Result<Link, AttemptError> {
    let mut socket = connect(at, until).map_err(|error| AttemptError::Retry(error.to_string()))?;
    let answer_until = until.min(deadline(ANSWER_LIMIT));
    let session = initiate(&spec.secret, &mut socket, |socket| pump(socket, answer_until))?;
    let mut link = Link::new(Owner(0), socket, session);
    join(spec, &mut link, until)?;
    Ok(link)
}

fn connect(at: SocketAddr, until: Instant) -> io::Result<Socket> {
    // connect_timeout refuses a limit of zero.
    let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    let socket = TcpStream::connect_timeout(&at, left.min(CONNECT_LIMIT)).and_then(Socket::new)?;
    if socket.is_connected_to_itself() {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    Ok(socket)
}

/// Asks rank 0 for admission, and waits until all ranks have joined.
fn join(spec: &JobSpec, link: &mut Link, until: Instant) -> Result<(), AttemptError> {
    link.send(Kind::Join, &spec.join_payload());
    let Frame { kind, payload } = next_frame(link, until)?;
    let error = match (kind, payload.first_chunk()) {
        (Kind::Admitted, Some(seconds)) => {
            let rank_0_waits = Duration::from_secs(u32::from_le_bytes(*seconds).into());
            match next_frame(link, deadline(rank_0_waits + GRACE)) {
                Ok(Frame { kind: Kind::Start, .. }) => return Ok(()),
                Ok(Frame { kind: Kind::Failed, payload }) => {
                    let reason = String::from_utf8_lossy(&payload).into_owned();
                    JoinError::RankZeroFailed { reason }
                }
                _ => JoinError::Left { rank: 0 },
            }
        }
        (Kind::Refused, _) => refusal(spec, &payload),
        _ => JoinError::Left { rank: 0 },
    };
    Err(error.into())
}

/// Returns the reason for which rank 0, which has the specification `theirs`, refused this rank.
fn refusal(spec: &JobSpec, theirs: &[u8]) -> JoinError {
    let JobSpec { rank, size, .. } = *spec;
    let Some((_, their_size, parameters)) = parse_join(theirs) else {
        return JoinError::Left { rank: 0 };
    };
    match spec.compare(0, their_size, parameters) {
        Err(error) => error,
        Ok(()) if !(1..size).contains(&rank) => JoinError::RankOutOfRange { rank, size },
        Ok(()) => JoinError::RankTaken { rank },
    }
}

fn next_frame(link: &mut Link, until: Instant) -> Result<Frame, AttemptError> {
    loop {
        match link.receive() {
            Ok(Some(frame)) => return Ok(frame),
            Ok(None) => {
                link.flush();
                pump(&mut link.socket, until)?;
            }
            Err(BadFrame) => return Err(AttemptError::Retry("a damaged message".to_owned())),
        }
    }
}

/// Sends queued bytes and waits for more bytes to arrive.
fn pump(socket: &mut Socket, until: Instant) -> Result<(), AttemptError> {
    if socket.closed {
        return Err(AttemptError::Retry("the connection ended during the handshake".to_owned()));
    }
    if Instant::now() >= until {
        return Err(AttemptError::Retry("connected, but there was no answer".to_owned()));
    }
    wait([(&*socket).into()], until).map_err(|error| AttemptError::Retry(error.to_string()))?;
    socket.pump(RENDEZVOUS_BYTES);
    Ok(())
}
