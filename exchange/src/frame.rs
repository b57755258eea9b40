//! Sealed frames: a kind, a sequence number, a length, the payload and a MAC over all of them.
//!
//! The MAC covers the SHA-256 digest of the payload, so a payload for many members is hashed once.
//!
//! A seal authenticates and does not hide: whoever sees the packets can read them, and nobody
//! without the session's keys can add, change, repeat, reorder or drop a frame unnoticed.

use core::ops::Range;
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

/// Kind, payload length, sequence number.
const HEADER_BYTES: usize = 1 + 4 + 8;
const MAC_BYTES: usize = 32;

/// What a frame adds to its payload.
pub(crate) const FRAME_OVERHEAD_BYTES: usize = HEADER_BYTES + MAC_BYTES;

/// What a frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// To rank 0: rank, size and parameters.
    Join = 1,
    /// To a member: it is in, and has to wait for the others.
    Welcome = 2,
    /// To a member: it is not in; a status, and what rank 0 has.
    Refused = 3,
    /// To a member: everybody has come.
    Start = 4,
    /// To a member: the rendezvous failed; why, in words.
    GaveUp = 5,
    /// To rank 0: a contribution to the present collective call.
    Give = 6,
    /// To a member: everybody's contributions.
    Result = 7,
    /// Either way: the job ended; an `ExchangeError`.
    Abort = 8,
    /// To rank 0: the sender's parts, one for each rank.
    GiveParts = 9,
    /// To a member: the parts of all ranks for this member.
    Parts = 10,
}

impl Kind {
    const ALL: [Self; 10] = [
        Self::Join,
        Self::Welcome,
        Self::Refused,
        Self::Start,
        Self::GaveUp,
        Self::Give,
        Self::Result,
        Self::Abort,
        Self::GiveParts,
        Self::Parts,
    ];

    fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == code)
    }
}

/// A received frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: Kind,
    pub(crate) payload: Vec<u8>,
}

/// Bytes that are no frame of this session; nothing after them can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadFrame;

/// HMAC-SHA256 with a key of any length.
pub(crate) fn keyed(key: &[u8]) -> Hmac<Sha256> {
    // Made a whole block as RFC 2104, section 2 says, for which the constructor cannot fail.
    let mut block = Zeroizing::new([0; 64]);
    match block.get_mut(..key.len()) {
        Some(front) => front.copy_from_slice(key),
        None => block[..32].copy_from_slice(&Sha256::digest(key)),
    }
    Hmac::new((&*block).into())
}

/// A range of a buffer that several frames share as their payload.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) bytes: Arc<Vec<u8>>,
    pub(crate) range: Range<usize>,
    digest: [u8; 32],
}

impl Shared {
    pub(crate) fn new(bytes: Arc<Vec<u8>>, range: Range<usize>) -> Self {
        let digest = Sha256::digest(bytes.get(range.clone()).unwrap_or_default()).into();
        Self { bytes, range, digest }
    }
}

/// One direction of a session: its key and the number of the next frame.
#[derive(Clone)]
pub(crate) struct Channel {
    keyed: Hmac<Sha256>,
    next: u64,
}

impl Channel {
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        Self { keyed: keyed(key), next: 0 }
    }

    /// Appends a frame to `outgoing`.
    pub(crate) fn seal(&mut self, kind: Kind, payload: &[u8], outgoing: &mut Vec<u8>) {
        let (header, mac) = self.around(kind, payload.len(), &Sha256::digest(payload).into());
        outgoing.extend(header);
        outgoing.extend(payload);
        outgoing.extend(mac);
    }

    /// The header and the MAC of a frame with this payload.
    pub(crate) fn seal_shared(
        &mut self,
        kind: Kind,
        payload: &Shared,
    ) -> ([u8; HEADER_BYTES], [u8; MAC_BYTES]) {
        self.around(kind, payload.range.len(), &payload.digest)
    }

    fn around(
        &mut self,
        kind: Kind,
        length: usize,
        digest: &[u8; 32],
    ) -> ([u8; HEADER_BYTES], [u8; MAC_BYTES]) {
        // The bounds in `link` limit the payload, so its length fits.
        let length = u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
        let mut header = [kind as u8; HEADER_BYTES];
        header[1..5].copy_from_slice(&length);
        header[5..].copy_from_slice(&self.next.to_le_bytes());
        let mac = self.keyed.clone().chain_update(header).chain_update(digest);
        self.next += 1;
        (header, mac.finalize().into_bytes().into())
    }

    /// Takes the next frame off the front of `incoming`, once it is all there.
    ///
    /// # Errors
    /// [`BadFrame`] as soon as the bytes cannot become a frame of at most `bound` payload bytes.
    pub(crate) fn open(
        &mut self,
        incoming: &mut Vec<u8>,
        bound: usize,
    ) -> Result<Option<Frame>, BadFrame> {
        let Some((header, rest)) = incoming.split_first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let [code, l0, l1, l2, l3, sequence @ ..] = *header;
        let kind = Kind::from_code(code).ok_or(BadFrame)?;
        let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        if length > bound || u64::from_le_bytes(sequence) != self.next {
            return Err(BadFrame);
        }
        let Some((payload, rest)) = rest.split_at_checked(length) else { return Ok(None) };
        let Some(mac) = rest.first_chunk::<MAC_BYTES>() else { return Ok(None) };
        let whole = self.keyed.clone().chain_update(header);
        whole.chain_update(Sha256::digest(payload)).verify_slice(mac).map_err(|_| BadFrame)?;
        let payload = payload.to_vec();
        incoming.drain(..FRAME_OVERHEAD_BYTES + length);
        self.next += 1;
        Ok(Some(Frame { kind, payload }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOUND: usize = 300;

    fn channel() -> Channel {
        Channel::new(&[7; 32])
    }

    fn sealed(payloads: &[&[u8]]) -> Vec<u8> {
        let (mut channel, mut bytes) = (channel(), vec![]);
        for payload in payloads {
            channel.seal(Kind::Give, payload, &mut bytes);
        }
        bytes
    }

    /// All frames in `bytes`, handed over in two parts.
    fn opened(bytes: &[u8], cut: usize) -> Result<Vec<Vec<u8>>, BadFrame> {
        let (mut channel, mut incoming, mut found) = (channel(), vec![], vec![]);
        for part in [&bytes[..cut], &bytes[cut..]] {
            incoming.extend_from_slice(part);
            while let Some(frame) = channel.open(&mut incoming, BOUND)? {
                found.push(frame.payload);
            }
        }
        Ok(found)
    }

    #[test]
    fn frames_arrive_whole_wherever_the_stream_is_cut() {
        let payloads: [&[u8]; 3] = [b"one", b"", &[3; BOUND]];
        let bytes = sealed(&payloads);
        for cut in 0..=bytes.len() {
            assert_eq!(opened(&bytes, cut).unwrap(), payloads);
        }
    }

    #[test]
    fn a_shared_payload_makes_the_same_frame() {
        let shared = Shared::new(Arc::new(b"a payload".to_vec()), 2..9);
        let (header, mac) = channel().seal_shared(Kind::Give, &shared);
        assert_eq!([&header[..], b"payload", &mac].concat(), sealed(&[b"payload"]));
    }

    #[test]
    fn any_changed_bit_is_noticed() {
        let good = sealed(&[b"payload"]);
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            // A longer length still waits for the rest, and is refused when that comes.
            bad.extend([0; BOUND + FRAME_OVERHEAD_BYTES]);
            assert_eq!(opened(&bad, good.len()), Err(BadFrame), "bit {bit}");
        }
    }

    #[test]
    fn repeated_reordered_and_dropped_frames_are_noticed() {
        let (one, both) = (sealed(&[b"one"]), sealed(&[b"one", b"two"]));
        let two = &both[one.len()..];
        assert_eq!(opened(&[&one[..], &one].concat(), 0), Err(BadFrame));
        assert_eq!(opened(&[two, &one].concat(), 0), Err(BadFrame));
        assert_eq!(opened(two, 0), Err(BadFrame));
    }

    #[test]
    fn a_length_out_of_bounds_is_refused_by_the_header_alone() {
        for length in [BOUND + 1, u32::MAX as usize] {
            let mut incoming = vec![Kind::Give as u8];
            incoming.extend(u32::try_from(length).unwrap().to_le_bytes());
            incoming.extend([0; 8]);
            assert_eq!(channel().open(&mut incoming, BOUND), Err(BadFrame));
            assert!(incoming.capacity() < 100, "nothing was allocated for it");
        }
    }

    /// RFC 4231, sections 4.3 and 4.7: a short key, and one longer than a block.
    #[test]
    fn the_mac_is_hmac_sha256() {
        let hex = |key: &[u8], data: &str| {
            let mac = keyed(key).chain_update(data).finalize();
            mac.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        assert_eq!(
            hex(b"Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(
            hex(&[0xaa; 131], "Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }

    proptest! {
        #[test]
        fn bytes_of_others_are_never_taken_for_a_frame(
            noise in prop::collection::vec(any::<u8>(), 0..1000), cut in 0..1000_usize
        ) {
            let cut = cut.min(noise.len());
            if let Ok(found) = opened(&noise, cut) {
                prop_assert_eq!(found.len(), 0);
            }
        }

        #[test]
        fn a_good_header_does_not_help_noise(
            kind in 1..=10_u8, length in 0..400_u32,
            noise in prop::collection::vec(any::<u8>(), 0..1000)
        ) {
            let mut incoming = vec![kind];
            incoming.extend(length.to_le_bytes());
            incoming.extend([0; 8]);
            incoming.extend(&noise);
            let held = incoming.capacity();
            let whole = noise.len() >= length as usize + MAC_BYTES;
            match channel().open(&mut incoming, BOUND) {
                Ok(frame) => prop_assert!(frame.is_none() && !whole),
                Err(BadFrame) => prop_assert!(whole || length as usize > BOUND),
            }
            prop_assert_eq!(incoming.capacity(), held);
        }
    }
}
