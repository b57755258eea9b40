//! A wire with a session on it: frames between rank 0 and one member.

use core::time::Duration;
use std::io;
use std::time::Instant;

use probeline_transport::Owner;

use crate::frame::{BadFrame, FRAME_OVERHEAD_BYTES, Frame, Kind, Shared};
use crate::handshake::Session;
use crate::wire::{Wire, wait};

/// The longest parameters a job may have: a line of words, not a file.
pub const MAX_PARAMETERS_BYTES: usize = 4096;

/// The longest result of a collective call, a kilobyte from each rank of the largest job: what is
/// exchanged are addresses and keys, not data.
pub const MAX_RESULT_BYTES: usize = 4 << 20;

/// The maximum number of bytes of all ranks in an all-to-all, which rank 0 buffers: four for each
/// pair of ranks of the largest job.
pub const MAX_ALL_TO_ALL_BYTES: usize = 64 << 20;

/// The payload bound of the frames of a rendezvous: two integers and parameters.
pub(crate) const MAX_WORD_BYTES: usize = 8 + MAX_PARAMETERS_BYTES;

/// How much of a rendezvous may wait to be taken: one frame, longer than any handshake message.
pub(crate) const RENDEZVOUS_BOUND: usize = FRAME_OVERHEAD_BYTES + MAX_WORD_BYTES;

/// The longest contribution of a rank in a job of `ranks`.
pub(crate) fn max_contribution_bytes(ranks: u32) -> usize {
    MAX_RESULT_BYTES.min(MAX_ALL_TO_ALL_BYTES / ranks.max(1) as usize)
}

/// The capacity that a buffer keeps for the next frame; larger buffers are shrunk to it.
const KEPT_BYTES: usize = 1024;

/// The connection to `owner`.
pub(crate) struct Link {
    pub(crate) owner: Owner,
    pub(crate) wire: Wire,
    session: Box<Session>,
    /// The longest payload of a collective call that is accepted.
    bound: usize,
}

impl Link {
    pub(crate) fn new(owner: Owner, wire: Wire, session: Session) -> Self {
        Self { owner, wire, session: Box::new(session), bound: MAX_RESULT_BYTES }
    }

    /// Sets the longest payload of a collective call that is accepted.
    pub(crate) fn expect_at_most(&mut self, bound: usize) {
        self.bound = bound;
    }

    /// Puts a frame into the outgoing buffer.
    pub(crate) fn send(&mut self, kind: Kind, payload: &[u8]) {
        self.session.send.seal(kind, payload, &mut self.wire.outgoing);
    }

    /// Sends a frame whose payload is shared with other links.
    pub(crate) fn send_shared(&mut self, kind: Kind, payload: &Shared) {
        let (header, mac) = self.session.send.seal_shared(kind, payload);
        self.wire.outgoing.extend(header);
        self.wire.share(payload.bytes.clone(), payload.range.clone());
        self.wire.outgoing.extend(mac);
    }

    /// Takes a frame of the rendezvous.
    pub(crate) fn word(&mut self) -> Result<Option<Frame>, BadFrame> {
        self.session.receive.open(&mut self.wire.incoming, MAX_WORD_BYTES)
    }

    /// Takes a frame of a collective call.
    pub(crate) fn receive(&mut self) -> Result<Option<Frame>, BadFrame> {
        let incoming = &mut self.wire.incoming;
        let frame = self.session.receive.open(incoming, self.bound);
        if incoming.is_empty() {
            incoming.shrink_to(KEPT_BYTES);
        }
        frame
    }

    /// Sends what is to be sent, as far as it goes without waiting.
    pub(crate) fn push(&mut self) {
        // Room for a contribution or a result, and an abort after it.
        self.wire.pump(2 * FRAME_OVERHEAD_BYTES + self.bound + 64);
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
    while links.iter().any(|link| link.wire.has_unsent()) && Instant::now() < until {
        turn(links, until)?;
    }
    Ok(())
}
