//! A socket with a session on it: encrypted frames between rank 0 and one member.
//!
//! A frame is a kind (1 byte), a payload length (4 bytes, little endian) and the payload. Frames
//! follow each other in a stream of plaintext, which travels in records: a length (2 bytes, little
//! endian) and a Noise transport message of at most [`RECORD_BYTES`] bytes of plaintext. A peer or
//! observer without the session's keys can neither read a record nor add, change, repeat, reorder
//! or drop one unnoticed.
//!
//! Plaintext is encrypted only when the socket has room for it, so a result that rank 0 sends to
//! all members is in memory once.

use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use probeline_transport::Owner;
use snow::TransportState;

use crate::limits::{MAX_PARAMETERS_BYTES, deadline};
use crate::socket::{Interest, Socket, wait};

/// The maximum plaintext of a record.
pub(crate) const RECORD_BYTES: usize = 4096;
const LENGTH_BYTES: usize = 2;
const TAG_BYTES: usize = 16;
/// The maximum length of a record.
const SEALED_BYTES: usize = LENGTH_BYTES + RECORD_BYTES + TAG_BYTES;

/// The length of a frame's header: kind and payload length.
const HEADER_BYTES: usize = 1 + 4;

/// The maximum payload of the frames of a rendezvous: two integers and parameters.
pub(crate) const MAX_JOIN_BYTES: usize = 8 + MAX_PARAMETERS_BYTES;

/// The maximum number of unread bytes of a connection during the rendezvous: one frame of at most
/// two records, longer than any handshake message.
pub(crate) const RENDEZVOUS_BYTES: usize = 2 * SEALED_BYTES;

/// The capacity that an empty buffer keeps for the next frame.
const KEPT_BYTES: usize = 1024;

/// The kind of a frame, which determines its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Message to rank 0: rank, size and parameters.
    Join,
    /// Message to a member: admitted; the seconds that rank 0 waits for the others.
    Admitted,
    /// Message to a member: refused; rank 0's rank, size and parameters, which show the reason.
    Refused,
    /// Message to a member: all ranks have joined.
    Start,
    /// Message to a member: the rendezvous failed; the error's text.
    Failed,
    /// Message to rank 0: a collective call, and a contribution to it.
    Contribution,
    /// Message to a member: the result of a collective call.
    Result,
    /// Message either way: the job ended; an `ExchangeError`.
    Abort,
}

impl Kind {
    pub(crate) const ALL: [Self; 8] = [
        Self::Join,
        Self::Admitted,
        Self::Refused,
        Self::Start,
        Self::Failed,
        Self::Contribution,
        Self::Result,
        Self::Abort,
    ];
}

/// A received frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: Kind,
    pub(crate) payload: Vec<u8>,
}

/// The peer sent bytes that are not a frame of this session. The bytes after them are not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadFrame;

/// The connection to `owner`.
pub(crate) struct Link {
    pub(crate) owner: Owner,
    pub(crate) socket: Socket,
    session: Box<TransportState>,
    /// Plaintext to be sent; other links may share the buffers.
    pub(crate) unsent: VecDeque<(Arc<Vec<u8>>, Range<usize>)>,
    /// Received plaintext, from the start of a frame.
    pub(crate) received: Vec<u8>,
    /// The maximum payload that this link accepts: at first that of a rendezvous.
    pub(crate) max_payload: usize,
}

impl Link {
    pub(crate) fn new(owner: Owner, socket: Socket, session: TransportState) -> Self {
        Self {
            owner,
            socket,
            session: Box::new(session),
            unsent: VecDeque::new(),
            received: Vec::new(),
            max_payload: MAX_JOIN_BYTES,
        }
    }

    /// Queues a frame for sending.
    pub(crate) fn send(&mut self, kind: Kind, payload: &[u8]) {
        let mut frame = header(kind, payload.len()).to_vec();
        frame.extend(payload);
        self.queue(Arc::new(frame));
    }

    /// Queues a frame whose payload, a range of `bytes`, is shared with other links.
    pub(crate) fn send_shared(&mut self, kind: Kind, bytes: &Arc<Vec<u8>>, range: Range<usize>) {
        self.queue(Arc::new(header(kind, range.len()).to_vec()));
        self.unsent.push_back((Arc::clone(bytes), range));
    }

    fn queue(&mut self, bytes: Arc<Vec<u8>>) {
        let all = 0..bytes.len();
        self.unsent.push_back((bytes, all));
    }

    /// Returns whether bytes wait to be sent and the peer can still receive them.
    pub(crate) fn has_unsent(&self) -> bool {
        self.socket.has_unsent() || (self.socket.can_send() && !self.unsent.is_empty())
    }

    /// Sends as much as possible without waiting.
    pub(crate) fn flush(&mut self) {
        self.socket.push();
        while !self.socket.has_unsent() && self.seal_record() {
            self.socket.push();
        }
    }

    /// Moves a record of plaintext to the socket's buffer, encrypted. Returns `false` if there is
    /// none.
    pub(crate) fn seal_record(&mut self) -> bool {
        if !self.socket.can_send() {
            self.unsent.clear();
        }
        let mut plain = [0; RECORD_BYTES];
        let mut length = 0;
        while let Some((bytes, range)) = self.unsent.front_mut() {
            let part = range.len().min(RECORD_BYTES - length);
            let from = bytes.get(range.start..range.start + part).unwrap_or_default();
            plain[length..length + from.len()].copy_from_slice(from);
            length += from.len();
            range.start += part;
            if range.start < range.end {
                break;
            }
            self.unsent.pop_front();
        }
        if length == 0 {
            return false;
        }
        let mut sealed = [0; SEALED_BYTES];
        let (prefix, message) = sealed.split_at_mut(LENGTH_BYTES);
        let Ok(bytes) = self.session.write_message(&plain[..length], message) else {
            debug_assert!(false, "a session has room for 2^64 records of this size");
            self.socket.closed = true;
            return false;
        };
        prefix.copy_from_slice(&u16::try_from(bytes).unwrap_or(u16::MAX).to_le_bytes());
        self.socket.outgoing.extend_from_slice(&sealed[..LENGTH_BYTES + bytes]);
        true
    }

    /// Takes the next frame; `None` until it is complete.
    ///
    /// # Errors
    /// [`BadFrame`] as soon as the bytes cannot become a frame of at most `max_payload` bytes.
    pub(crate) fn receive(&mut self) -> Result<Option<Frame>, BadFrame> {
        self.open_records()?;
        let Some((header, rest)) = self.received.split_first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let [code, length @ ..] = *header;
        let kind = Kind::ALL.into_iter().find(|kind| *kind as u8 == code).ok_or(BadFrame)?;
        let length = u32::from_le_bytes(length) as usize;
        if length > self.max_payload {
            return Err(BadFrame);
        }
        let Some(payload) = rest.get(..length) else {
            let missing = length - rest.len();
            self.received.reserve_exact(missing);
            return Ok(None);
        };
        let payload = payload.to_vec();
        self.received.drain(..HEADER_BYTES + length);
        if self.received.is_empty() {
            self.received.shrink_to(KEPT_BYTES);
        }
        Ok(Some(Frame { kind, payload }))
    }

    /// Decrypts all complete records.
    fn open_records(&mut self) -> Result<(), BadFrame> {
        let incoming = &mut self.socket.incoming;
        let mut opened = 0;
        while let Some((length, rest)) = incoming[opened..].split_first_chunk::<LENGTH_BYTES>() {
            let length = usize::from(u16::from_le_bytes(*length));
            if !(TAG_BYTES + 1..=TAG_BYTES + RECORD_BYTES).contains(&length) {
                return Err(BadFrame);
            }
            let Some(message) = rest.get(..length) else { break };
            let start = self.received.len();
            self.received.resize(start + length - TAG_BYTES, 0);
            let plain = &mut self.received[start..];
            self.session.read_message(message, plain).map_err(|_| BadFrame)?;
            opened += LENGTH_BYTES + length;
        }
        incoming.drain(..opened);
        if incoming.is_empty() {
            incoming.shrink_to(KEPT_BYTES);
        }
        Ok(())
    }

    /// Sends and receives as much as possible without waiting.
    pub(crate) fn pump(&mut self) {
        self.flush();
        // Room for a contribution or a result, and an abort after it.
        let plain = self.max_payload + 2 * HEADER_BYTES + 64;
        let records = plain.div_ceil(RECORD_BYTES) + 1;
        self.socket.pull((plain + records * (SEALED_BYTES - RECORD_BYTES)).max(RENDEZVOUS_BYTES));
    }

    pub(crate) fn interest(&self) -> Interest<'_> {
        self.socket.interest(self.has_unsent())
    }
}

fn header(kind: Kind, length: usize) -> [u8; HEADER_BYTES] {
    // The callers limit payloads, so the length fits.
    let [l0, l1, l2, l3] = u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
    [kind as u8, l0, l1, l2, l3]
}

/// Waits for an event of `links`, or until `until`. Returns which links have one.
///
/// # Errors
/// The error of poll(2).
pub(crate) fn wait_for(links: &[Link], until: Instant) -> io::Result<Vec<bool>> {
    wait(links.iter().map(Link::interest), until)
}

/// Moves the bytes of the links that are ready.
pub(crate) fn pump_ready(links: &mut [Link], ready: &[bool]) {
    links.iter_mut().zip(ready).filter(|(_, ready)| **ready).for_each(|(link, _)| link.pump());
}

/// Sends all queued bytes, as far as `limit` allows.
///
/// # Errors
/// The error of poll(2).
pub(crate) fn flush_all(links: &mut [Link], limit: Duration) -> io::Result<()> {
    let until = deadline(limit);
    links.iter_mut().for_each(Link::pump);
    while links.iter().any(Link::has_unsent) && Instant::now() < until {
        let ready = wait_for(links, until)?;
        pump_ready(links, &ready);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use proptest::prelude::*;

    use super::*;
    use crate::handshake::tests::sessions;

    const MAX_PAYLOAD: usize = 10_000;

    /// Returns a member's link, whose outgoing bytes stay in its buffer, and rank 0's link.
    fn links() -> [Link; 2] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let near = listener.accept().unwrap().0;
        let mut sessions = sessions().into_iter();
        [far, near].map(|stream| {
            let mut link =
                Link::new(Owner(0), Socket::new(stream).unwrap(), sessions.next().unwrap());
            link.max_payload = MAX_PAYLOAD;
            link
        })
    }

    /// Returns the bytes of frames with these payloads, and the link that can open them.
    fn sealed(payloads: &[&[u8]]) -> (Vec<u8>, Link) {
        let [mut from, to] = links();
        for payload in payloads {
            from.send(Kind::Contribution, payload);
        }
        while from.seal_record() {}
        (core::mem::take(&mut from.socket.outgoing), to)
    }

    /// Returns all frames in `bytes`, received in two parts.
    fn opened(to: &mut Link, bytes: &[u8], cut: usize) -> Result<Vec<Vec<u8>>, BadFrame> {
        let mut found = vec![];
        for part in [&bytes[..cut], &bytes[cut..]] {
            to.socket.incoming.extend_from_slice(part);
            while let Some(frame) = to.receive()? {
                assert_eq!(frame.kind, Kind::Contribution);
                found.push(frame.payload);
            }
        }
        Ok(found)
    }

    #[test]
    fn reassembles_cut_frames() {
        let payloads: [&[u8]; 3] = [b"one", b"", &[3; 300]];
        let length = sealed(&payloads).0.len();
        for cut in 0..=length {
            let (bytes, mut to) = sealed(&payloads);
            assert_eq!(opened(&mut to, &bytes, cut).unwrap(), payloads);
        }
    }

    #[test]
    fn encrypts_payload_across_records() {
        let payload: Vec<_> = (0..MAX_PAYLOAD).map(|at| at.to_le_bytes()[0]).collect();
        let (bytes, mut to) = sealed(&[&payload, b"next"]);
        assert!(!bytes.windows(5).any(|window| payload.starts_with(window)), "encrypted");
        assert!(bytes.len() > 3 * TAG_BYTES + MAX_PAYLOAD);
        assert_eq!(opened(&mut to, &bytes, RECORD_BYTES).unwrap(), [&payload[..], b"next"]);
    }

    #[test]
    fn sends_shared_payload() {
        let [mut from, mut to] = links();
        from.send_shared(Kind::Contribution, &Arc::new(b"a payload".to_vec()), 2..9);
        assert!(from.seal_record() && !from.seal_record(), "header and payload in one record");
        assert_eq!(opened(&mut to, &from.socket.outgoing, 0).unwrap(), [b"payload"]);
    }

    #[test]
    fn detects_changed_bit() {
        let bits = sealed(&[b"payload"]).0.len() * 8;
        for bit in 0..bits {
            let (mut bad, mut to) = sealed(&[b"payload"]);
            bad[bit / 8] ^= 1 << (bit % 8);
            // A record with a greater length is refused when the rest arrives.
            bad.extend([0; SEALED_BYTES]);
            let cut = bad.len() - SEALED_BYTES;
            assert_eq!(opened(&mut to, &bad, cut), Err(BadFrame), "bit {bit}");
        }
    }

    #[test]
    fn detects_repeated_reordered_dropped_records() {
        let arrives = |order: fn(&[u8], &[u8]) -> Vec<u8>| {
            let (bytes, mut to) = sealed(&[&[1; RECORD_BYTES - HEADER_BYTES], b"two"]);
            let (one, two) = bytes.split_at(SEALED_BYTES);
            opened(&mut to, &order(one, two), 0)
        };
        assert_eq!(arrives(|one, two| [one, two].concat()).map(|frames| frames.len()), Ok(2));
        assert_eq!(arrives(|one, _| [one, one].concat()), Err(BadFrame));
        assert_eq!(arrives(|one, two| [two, one].concat()), Err(BadFrame));
        assert_eq!(arrives(|_, two| two.to_vec()), Err(BadFrame));
    }

    #[test]
    fn refuses_length_by_header_alone() {
        for length in [MAX_PAYLOAD + 1, u32::MAX as usize] {
            let [mut from, mut to] = links();
            from.queue(Arc::new(header(Kind::Contribution, length).to_vec()));
            assert!(from.seal_record());
            assert_eq!(opened(&mut to, &from.socket.outgoing, 0), Err(BadFrame));
            assert!(to.received.capacity() < 100, "nothing was allocated for it");
        }
    }

    #[test]
    fn refuses_unknown_kind() {
        let [mut from, mut to] = links();
        from.queue(Arc::new(vec![Kind::ALL.len().to_le_bytes()[0], 0, 0, 0, 0]));
        assert!(from.seal_record());
        assert_eq!(opened(&mut to, &from.socket.outgoing, 0), Err(BadFrame));
        for (code, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, code);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn refuses_noise_of_good_length(
            length in 0..400_u16, noise in prop::collection::vec(any::<u8>(), 0..1000)
        ) {
            let [_, mut to] = links();
            let bytes = [&length.to_le_bytes()[..], &noise].concat();
            let complete = noise.len() >= usize::from(length);
            match opened(&mut to, &bytes, 0) {
                Ok(frames) => prop_assert!(frames.is_empty() && !complete),
                Err(BadFrame) => prop_assert!(complete || usize::from(length) <= TAG_BYTES),
            }
        }
    }
}
