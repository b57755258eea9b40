//! A wire with a session on it: frames between rank 0 and one member.

use core::time::Duration;
use std::io;
use std::time::Instant;

use transport::Owner;

use crate::frame::{BadFrame, FRAME_OVERHEAD_BYTES, Frame, Kind};
use crate::handshake::Session;
use crate::wire::{Wire, wait};

/// The longest parameters a job may have: a line of words, not a file.
pub const MAX_PARAMETERS_BYTES: usize = 4096;

/// The longest result of an all-gather, a kilobyte from each rank of the largest job: what is
/// exchanged are addresses and keys, not data.
pub const MAX_RESULT_BYTES: usize = 4 << 20;

/// The payload bound of the frames of a rendezvous: two integers and parameters.
pub(crate) const MAX_WORD_BYTES: usize = 8 + MAX_PARAMETERS_BYTES;

/// How much of a rendezvous may wait to be taken: one frame, longer than any handshake message.
pub(crate) const RENDEZVOUS_BOUND: usize = FRAME_OVERHEAD_BYTES + MAX_WORD_BYTES;

/// How much of a call may wait to be taken: a contribution or result, and an abort after it.
const CALL_BOUND: usize = 2 * FRAME_OVERHEAD_BYTES + MAX_RESULT_BYTES + 64;

/// The connection to `owner`.
pub(crate) struct Link {
    pub(crate) owner: Owner,
    pub(crate) wire: Wire,
    session: Box<Session>,
}

impl Link {
    pub(crate) fn new(owner: Owner, wire: Wire, session: Session) -> Self {
        Self { owner, wire, session: Box::new(session) }
    }

    /// Puts a frame into the outgoing buffer.
    pub(crate) fn send(&mut self, kind: Kind, payload: &[u8]) {
        self.session.send.seal(kind, payload, &mut self.wire.outgoing);
    }

    /// Takes a frame of the rendezvous.
    pub(crate) fn word(&mut self) -> Result<Option<Frame>, BadFrame> {
        self.session.receive.open(&mut self.wire.incoming, MAX_WORD_BYTES)
    }

    /// Takes a frame of a collective call.
    pub(crate) fn receive(&mut self) -> Result<Option<Frame>, BadFrame> {
        self.session.receive.open(&mut self.wire.incoming, MAX_RESULT_BYTES)
    }

    /// Sends what is to be sent, as far as it goes without waiting.
    pub(crate) fn push(&mut self) {
        self.wire.pump(CALL_BOUND);
    }
}

/// Sleeps until a link has news or `until` has come, and takes the news in.
///
/// # Errors
/// The system's.
pub(crate) fn turn(links: &mut [Link], until: Instant) -> io::Result<()> {
    let ready = wait(links.iter().map(|link| (&link.wire).into()), until)?;
    for (link, ready) in links.iter_mut().zip(ready) {
        if ready {
            link.push();
        }
    }
    Ok(())
}

/// Sends everything to be sent, as far as `limit` allows.
pub(crate) fn flush(links: &mut [Link], limit: Duration) -> io::Result<()> {
    let until = crate::bounds::deadline(limit);
    links.iter_mut().for_each(Link::push);
    let unsent = |link: &Link| !link.wire.closed && !link.wire.outgoing.is_empty();
    while links.iter().any(unsent) && Instant::now() < until {
        turn(links, until)?;
    }
    Ok(())
}
