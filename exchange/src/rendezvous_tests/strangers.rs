//! Who does not belong to the job, whatever it sends.

use super::*;

#[test]
fn a_wrong_secret_is_refused_counted_and_does_not_end_the_job() {
    let wrong = || with_secret("not the secret of these tests", terms(1, 2));
    let (address, hub) = start_hub(terms(0, 2));
    let error = join(address, wrong()).unwrap_err();
    assert!(matches!(error, JoinError::WrongSecret), "{error}");
    finish(address, hub);

    let refusals = refused(|address| {
        for _ in 0..2 {
            join(address, wrong()).unwrap_err();
        }
    });
    assert_eq!(refusals.count(Refusal::WrongSecret), 2);
    assert_eq!(refusals.to_string(), "2 connections refused: wrong secret");
}

#[test]
fn a_stranger_learns_the_version_only() {
    refused(|address| {
        let found = answer(address, &[hello(), vec![1; 32]].concat());
        assert_eq!(found, [&b"probelin\x02\0\0\0\x02"[..], &[0; 32]].concat());
    });
}

/// An observer of the network can replay a first message, but cannot continue the handshake.
#[test]
fn a_replayed_first_message_does_not_join() {
    let refusals = refused(|address| {
        let found = answer(address, &[first_message(&terms(1, 2)), vec![1; 32]].concat());
        assert_eq!(found.len(), ANSWER_BYTES + 33);
        assert_eq!(found[..=STATUS], b"probelin\x02\0\0\0\0"[..]);
        assert_eq!(found[ANSWER_BYTES..], [&[2][..], &[0; 32]].concat());
    });
    assert_eq!(refusals.count(Refusal::WrongSecret), 1);
}

#[test]
fn a_hub_that_does_not_know_the_secret_is_not_joined() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let member = start_member(listener.local_addr().unwrap(), terms(1, 2));
    let (mut stream, _) = listener.accept().unwrap();
    let mut shown = [0; FIRST_BYTES + 32];
    stream.read_exact(&mut shown[..FIRST_BYTES]).unwrap();
    stream.write_all(&[&b"probelin\x02\0\0\0\0"[..], &[3; 32]].concat()).unwrap();
    stream.read_exact(&mut shown[FIRST_BYTES..]).unwrap();
    // Its own proof, sent back, is not the hub's.
    stream.write_all(&[&[0], &shown[FIRST_BYTES..]].concat()).unwrap();
    let error = member.join().unwrap().unwrap_err();
    assert!(matches!(error, JoinError::WrongSecret), "{error}");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, [], "it is told nothing of the job");
}

#[test]
fn another_version_is_refused_on_either_side() {
    let refusals = refused(|address| {
        let found = answer(address, b"probelin\x01\0\0\0 whatever comes then");
        assert_eq!(found.len(), ANSWER_BYTES);
        assert_eq!(found[..=STATUS], b"probelin\x02\0\0\0\x01"[..]);
    });
    assert_eq!(refusals.count(Refusal::OtherVersion), 1);
    assert_eq!(refusals.to_string(), "1 connection refused: another version");

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let member = start_member(listener.local_addr().unwrap(), terms(1, 2));
    listener.accept().unwrap().0.write_all(b"probelin\x03\0\0\0\x01").unwrap();
    let error = member.join().unwrap().unwrap_err();
    assert!(matches!(error, JoinError::Version { mine: 2, theirs: 3 }), "{error}");
}

#[test]
fn garbage_is_refused_without_an_answer() {
    let refusals = refused(|address| {
        for noise in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 5000], b"probelim"] {
            assert_eq!(answer(address, noise), []);
        }
    });
    assert_eq!(refusals.count(Refusal::Garbage), 3);

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let member = start_member(listener.local_addr().unwrap(), terms(1, 2));
    listener.accept().unwrap().0.write_all(b"SSH-2.0-other\r\n").unwrap();
    let error = member.join().unwrap().unwrap_err();
    assert!(matches!(error, JoinError::NotProbeline { .. }), "{error}");
}

#[test]
fn a_giant_length_is_refused() {
    let refusals = refused(|address| {
        let (mut wire, _) = proved(address, &terms(1, 2));
        wire.outgoing = [&[Kind::Join as u8][..], &u32::MAX.to_le_bytes(), &[0; 8]].concat();
        pump_until(&mut wire, |wire| wire.closed);
    });
    assert_eq!(refusals.count(Refusal::Garbage), 1);
}

/// Random bytes after every prefix of a good beginning, all to one and the same hub.
#[test]
fn noise_disturbs_nobody() {
    let (address, hub) = start_hub(terms(0, 2));
    let mut runner = TestRunner::new(ProptestConfig::with_cases(64));
    let first = first_message(&terms(1, 2));
    let noise = (0..=FIRST_BYTES, prop::collection::vec(any::<u8>(), 0..300));
    runner
        .run(&noise, |(good, noise)| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(&[&first[..good], &noise].concat()).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            prop_assert!(answer.len() <= ANSWER_BYTES + 33, "the nonce, and a refusal");
            Ok(())
        })
        .unwrap();
    finish(address, hub);
}

#[test]
fn a_flood_is_cut() {
    let refusals = refused(|address| {
        let flood = [hello(), vec![0; 32], vec![0; 100 * RENDEZVOUS_BOUND]].concat();
        let mut stream = TcpStream::connect(address).unwrap();
        let _ = stream.write_all(&flood);
    });
    assert_eq!(refusals.total(), 1);
}

#[test]
fn a_recorded_session_is_of_no_use() {
    let (address, hub) = start_hub(terms(0, 2));
    let (near, far) = proxy(address);
    let member = start_member(near, terms(1, 2));
    let (from, to) = far.recv().unwrap();
    let [to_hub, to_member] = [(&from, &to), (&to, &from)].map(|(from, to)| {
        let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        thread::spawn(move || {
            let (mut recorded, mut bytes) = (Vec::new(), [0; 4096]);
            while let Ok(read @ 1..) = from.read(&mut bytes) {
                recorded.extend_from_slice(&bytes[..read]);
                to.write_all(&bytes[..read]).unwrap();
            }
            let _ = to.shutdown(Shutdown::Both);
            recorded
        })
    });
    drop(member.join().unwrap().unwrap());
    drop(hub.join().unwrap().unwrap());
    let (to_hub, to_member) = (to_hub.join().unwrap(), to_member.join().unwrap());

    let refusals = refused(|address| {
        let found = answer(address, &to_hub);
        assert_eq!(found[ANSWER_BYTES], 2, "wrong secret");
    });
    assert_eq!(refusals.count(Refusal::WrongSecret), 1);

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let member = start_member(listener.local_addr().unwrap(), terms(1, 2));
    let (mut stream, _) = listener.accept().unwrap();
    stream.write_all(&to_member).unwrap();
    let error = member.join().unwrap().unwrap_err();
    assert!(matches!(error, JoinError::WrongSecret), "{error}");
}
