use super::*;

/// Bytes of a first message; offset of the status in an answer; bytes of an answer.
pub(crate) const FIRST_BYTES: usize = PREAMBLE_BYTES + NOISE_BYTES;
pub(crate) const STATUS: usize = PREAMBLE_BYTES;
pub(crate) const ANSWER_BYTES: usize = STATUS + 1 + NOISE_BYTES;

/// Both sides of a session.
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
fn a_full_set_of_keys_accepts_no_more() {
    let key = |index: usize| {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&index.to_le_bytes());
        key
    };
    let mut seen = SeenKeys::default();
    assert!((0..SeenKeys::MAX).all(|index| seen.add(key(index))));
    assert!(!seen.add(key(SeenKeys::MAX)));
    assert!(!seen.add(key(0)));
    assert_eq!(seen.0.len(), SeenKeys::MAX);
}

#[test]
fn a_copy_of_a_first_message_is_refused_without_an_answer() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let secret = Secret::new(vec![7; 32]).unwrap();
    let (mut socket, mut seen) = (Socket::new(stream).unwrap(), SeenKeys::default());
    Initiator::start(&secret, &mut socket).unwrap();
    let first = core::mem::take(&mut socket.outgoing);
    socket.incoming.extend_from_slice(&first);
    assert!(matches!(respond(&secret, &mut seen, &mut socket), Ok(Some(_))));
    assert_eq!(core::mem::take(&mut socket.outgoing).len(), ANSWER_BYTES);
    socket.incoming.extend_from_slice(&first);
    let again = respond(&secret, &mut seen, &mut socket);
    assert!(matches!(again, Err(HandshakeError::Replayed)));
    assert!(socket.outgoing.is_empty());
}

#[test]
fn a_preamble_is_refused_at_its_first_wrong_byte() {
    for length in 0..=PREAMBLE_BYTES {
        assert_eq!(check_preamble(&PREAMBLE[..length]), Ok(()));
    }
    assert_eq!(check_preamble(b"GET"), Err(HandshakeError::Garbage));
    assert_eq!(check_preamble(b"probelim"), Err(HandshakeError::Garbage));
    assert_eq!(check_preamble(b"probelin\x02\0\0"), Ok(()));
    assert_eq!(check_preamble(b"probelin\x02\0\0\0"), Err(HandshakeError::Version(2)));
}
