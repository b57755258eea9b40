//! Peers that do not belong to the job, and the bytes that they may send.

use std::net::Shutdown;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::*;
use crate::handshake::tests::{ANSWER_BYTES, FIRST_BYTES, STATUS};

#[test]
fn refuses_wrong_secret() {
    meets_after(|address| {
        let secret = Secret::new(b"not the secret of these tests".to_vec()).unwrap();
        let error = join(address, JobSpec { secret, ..spec(1, 2) }).unwrap_err();
        assert!(matches!(error, JoinError::WrongSecret), "{error}");
    });
}

/// Strangers learn the version alone. An observer of the network can replay a first message, but cannot send
/// a record of the session.
#[test]
fn refuses_strangers() {
    // A stable number of another build, and that of builds before the number was computed.
    let [other, old] = [VERSION ^ 2, 1].map(|version| preamble(version, b" and more bytes"));
    let replayed = [first_message(&spec(1, 2)), vec![20, 0], vec![1; 20]].concat();
    meets_after(|address| {
        for (message, expected) in [
            (&b"GET / HTTP/1.1\r\n\r\n"[..], vec![]),
            (&[0xff; 5000], vec![]),
            (b"probelim", vec![]),
            (&other, preamble(VERSION, &[1])),
            (&old, preamble(VERSION, &[1])),
            (&[forged_first_message(), vec![1; 32]].concat(), preamble(VERSION, &[2])),
        ] {
            assert_eq!(answer(address, message), expected);
        }
        let [found, again] = [(); 2].map(|()| answer(address, &replayed));
        assert_eq!([found.len(), again.len()], [ANSWER_BYTES; 2]);
        assert_eq!(found[..=STATUS], preamble(VERSION, &[0]));
        assert_ne!(found, again, "another session");
        let [first, again] = [(); 2].map(|()| first_message(&spec(1, 2)));
        assert_ne!(first, again, "an answer to one is none to the other");
        let flood = [forged_first_message(), vec![0; 32], vec![0; 100 * RENDEZVOUS_BYTES]].concat();
        let _ = TcpStream::connect(address).unwrap().write_all(&flood);
        let (mut socket, _) = handshaken(address, &spec(1, 2));
        socket.outgoing = vec![0xff; 2];
        pump_until(&mut socket, |socket| socket.closed);
    });
}

/// Returns the error of a member whose rank 0 answers this.
fn error_after(answer: &[u8]) -> JoinError {
    let (listener, address) = listen();
    let member = start_member(address, spec(1, 2));
    listener.accept().unwrap().0.write_all(answer).unwrap();
    member.join().unwrap().unwrap_err()
}

#[test]
fn refuses_other_programs() {
    let other = VERSION ^ 2;
    let error = error_after(&preamble(other, &[1]));
    assert!(
        matches!(error, JoinError::Version { mine: VERSION, theirs } if theirs == other),
        "{error}"
    );
    let error = error_after(b"SSH-2.0-other\r\n");
    assert!(matches!(error, JoinError::NotProbeline), "{error}");
}

#[test]
fn refuses_rank_0_without_secret() {
    let (listener, address) = listen();
    let member = start_member(address, spec(1, 2));
    let (mut stream, _) = listener.accept().unwrap();
    let mut shown = [0; FIRST_BYTES];
    stream.read_exact(&mut shown).unwrap();
    // A member refuses its own message, sent back, as the answer of rank 0.
    stream.write_all(&preamble(VERSION, &[&[0], &shown[12..]].concat())).unwrap();
    let error = member.join().unwrap().unwrap_err();
    assert!(matches!(error, JoinError::WrongSecret), "{error}");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, [], "the member sends nothing about the job");
}

/// Strangers send random bytes after every prefix of a valid stream, all to the same rank 0.
#[test]
fn tolerates_noise() {
    let (address, rank_0) = start_rank_0(spec(0, 2));
    let mut runner = TestRunner::new(ProptestConfig::with_cases(64));
    let noise = (0..=FIRST_BYTES, prop::collection::vec(any::<u8>(), 0..300));
    runner
        .run(&noise, |(good, noise)| {
            let mut stream = TcpStream::connect(address).unwrap();
            let first = first_message(&spec(1, 2));
            stream.write_all(&[&first[..good], &noise].concat()).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            prop_assert!(answer.len() <= ANSWER_BYTES);
            Ok(())
        })
        .unwrap();
    finish(address, rank_0);
}
