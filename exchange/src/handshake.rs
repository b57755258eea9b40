//! The handshake between rank 0 and a member: Noise NNpsk0, whose pre-shared key is the SHA-256
//! digest of the job's secret.
//!
//! ```text
//! member -> rank 0   magic (8 bytes), version (4), -> psk, e (48)
//! rank 0 -> member   magic, version, status (1), <- e, ee (48 if the status is 0)
//! ```
//! Rank 0 checks the first message by its tag alone, without a Diffie-Hellman operation, so a
//! message from a peer without the secret costs it only a hash. Creating the tag requires the
//! secret, but an observer of the network can replay it: rank 0 admits a member only after a record
//! of the session, which depends on both ephemeral keys. Integers are little endian. The first 12 bytes of either side stay the same in
//! every version.
//!
//! Source: The Noise Protocol Framework, revision 34, sections 7.4 and 9.

use probeline_transport::Fingerprint;
use sha2::{Digest, Sha256};
use snow::{Builder, HandshakeState, TransportState};
use zeroize::Zeroizing;

use crate::error::JoinError;
use crate::limits::{MAX_ALL_TO_ALL_BYTES, MAX_PARAMETERS_BYTES, MAX_RANKS, MAX_RESULT_BYTES};
use crate::link::{Kind, RECORD_BYTES};
use crate::secret::Secret;
use crate::socket::Socket;

/// The version of this protocol: handshake, records, frames and limits. Different builds of the
/// library differ in it, because it is computed from them and from the package's version.
#[allow(clippy::cast_possible_truncation)]
pub(crate) const VERSION: u32 = Fingerprint::new(2)
    .with_all(&[
        NOISE_BYTES as u64,
        RECORD_BYTES as u64,
        Kind::ALL.len() as u64,
        MAX_RANKS as u64,
        MAX_PARAMETERS_BYTES as u64,
        MAX_RESULT_BYTES as u64,
        MAX_ALL_TO_ALL_BYTES as u64,
    ])
    .get() as u32;

const PREAMBLE_BYTES: usize = 12;
const PREAMBLE: [u8; PREAMBLE_BYTES] = {
    let [v0, v1, v2, v3] = VERSION.to_le_bytes();
    [b'p', b'r', b'o', b'b', b'e', b'l', b'i', b'n', v0, v1, v2, v3]
};
const MAGIC_BYTES: usize = 8;

/// Either handshake message: an ephemeral public key of 32 bytes and the tag of an empty payload.
const NOISE_BYTES: usize = 32 + 16;

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_SHA256";

/// Rank 0's answer to a first message.
const ACCEPTED: u8 = 0;
const OTHER_VERSION: u8 = 1;
const WRONG_SECRET: u8 = 2;

fn build<T>(
    secret: &Secret,
    finish: impl FnOnce(Builder<'_>) -> Result<T, snow::Error>,
) -> Result<T, JoinError> {
    let psk = Zeroizing::new(Sha256::digest(secret.bytes()).into());
    let state = PATTERN
        .parse()
        .and_then(|pattern| finish(Builder::new(pattern).prologue(&PREAMBLE)?.psk(0, &psk)?));
    // The pattern and the key are well-formed, so only the random number generator can fail.
    state.map_err(|_| JoinError::NoRandom)
}

fn write_message(state: &mut HandshakeState, socket: &mut Socket) -> Result<(), JoinError> {
    let mut message = [0; NOISE_BYTES];
    state.write_message(&[], &mut message).map_err(|_| JoinError::NoRandom)?;
    socket.outgoing.extend(message);
    Ok(())
}

fn session(state: HandshakeState) -> Result<TransportState, JoinError> {
    state.into_transport_mode().map_err(|_| JoinError::NotProbeline)
}

/// Checks as many bytes of the preamble as have arrived.
fn check_preamble(incoming: &[u8]) -> Result<(), JoinError> {
    // Fails at the first wrong byte: a peer that speaks another protocol may wait for an answer.
    let same = incoming.iter().zip(PREAMBLE).take_while(|(found, byte)| *found == byte).count();
    if same < incoming.len().min(MAGIC_BYTES) {
        return Err(JoinError::NotProbeline);
    }
    match incoming.get(MAGIC_BYTES..PREAMBLE_BYTES) {
        Some(&[v0, v1, v2, v3]) if same < PREAMBLE_BYTES => {
            Err(JoinError::Version { mine: VERSION, theirs: u32::from_le_bytes([v0, v1, v2, v3]) })
        }
        _ => Ok(()),
    }
}

/// Answers a first message on rank 0. Returns `None` until it is complete.
///
/// # Errors
/// The reason why the handshake failed. The answer, if there is one, is in the outgoing buffer.
pub(crate) fn respond(
    secret: &Secret,
    socket: &mut Socket,
) -> Result<Option<TransportState>, JoinError> {
    let answer = |socket: &mut Socket, status| {
        socket.outgoing.extend(PREAMBLE);
        socket.outgoing.push(status);
    };
    if let Err(error) = check_preamble(&socket.incoming) {
        if let JoinError::Version { .. } = error {
            answer(socket, OTHER_VERSION);
        }
        return Err(error);
    }
    let Some(first) = socket.take::<{ PREAMBLE_BYTES + NOISE_BYTES }>() else { return Ok(None) };
    let message = &first[PREAMBLE_BYTES..];
    let mut state = build(secret, |builder| builder.build_responder())?;
    if state.read_message(message, &mut []).is_err() {
        answer(socket, WRONG_SECRET);
        return Err(JoinError::WrongSecret);
    }
    answer(socket, ACCEPTED);
    write_message(&mut state, socket)?;
    session(state).map(Some)
}

/// Makes a member's side of a handshake. Calls `pump` until rank 0's answer is complete.
pub(crate) fn initiate<E: From<JoinError>>(
    secret: &Secret,
    socket: &mut Socket,
    mut pump: impl FnMut(&mut Socket) -> Result<(), E>,
) -> Result<TransportState, E> {
    let mut state = build(secret, |builder| builder.build_initiator())?;
    socket.outgoing.extend(PREAMBLE);
    write_message(&mut state, socket)?;
    let answer = loop {
        check_preamble(&socket.incoming)?;
        match socket.incoming.get(PREAMBLE_BYTES) {
            None | Some(&ACCEPTED) => {}
            Some(&WRONG_SECRET) => return Err(JoinError::WrongSecret.into()),
            Some(_) => return Err(JoinError::NotProbeline.into()),
        }
        match socket.take::<{ PREAMBLE_BYTES + 1 + NOISE_BYTES }>() {
            Some(answer) => break answer,
            None => pump(socket)?,
        }
    };
    let message = &answer[PREAMBLE_BYTES + 1..];
    state.read_message(message, &mut []).map_err(|_| JoinError::WrongSecret)?;
    Ok(session(state)?)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Bytes of a first message; offset of the status in an answer; bytes of an answer.
    pub(crate) const FIRST_BYTES: usize = PREAMBLE_BYTES + NOISE_BYTES;
    pub(crate) const STATUS: usize = PREAMBLE_BYTES;
    pub(crate) const ANSWER_BYTES: usize = STATUS + 1 + NOISE_BYTES;

    /// Returns both sides of a session.
    pub(crate) fn sessions() -> [TransportState; 2] {
        let secret = Secret::new(vec![7; 32]).unwrap();
        let mut member = build(&secret, |builder| builder.build_initiator()).unwrap();
        let mut rank_0 = build(&secret, |builder| builder.build_responder()).unwrap();
        let mut message = [0; NOISE_BYTES];
        member.write_message(&[], &mut message).unwrap();
        rank_0.read_message(&message, &mut []).unwrap();
        rank_0.write_message(&[], &mut message).unwrap();
        member.read_message(&message, &mut []).unwrap();
        [member, rank_0].map(|state| session(state).unwrap())
    }

    #[test]
    fn refuses_first_wrong_byte() {
        for length in 0..=PREAMBLE_BYTES {
            check_preamble(&PREAMBLE[..length]).unwrap();
        }
        for other in [&b"GET"[..], b"probelim"] {
            assert!(matches!(check_preamble(other), Err(JoinError::NotProbeline)));
        }
        check_preamble(b"probelin\x02\0\0").unwrap();
        let other = check_preamble(b"probelin\x02\0\0\0");
        assert!(matches!(other, Err(JoinError::Version { theirs: 2, .. })), "{other:?}");
    }
}
