//! Connections that are slow, silent, or cut off anywhere.

use super::*;

#[test]
fn a_member_that_goes_before_the_start_ends_the_rendezvous() {
    let start = Instant::now();
    let (address, hub) = start_hub(terms(0, 4));
    let stays = admitted(address, &terms(2, 4));
    drop(admitted(address, &terms(1, 4)));
    let error = hub.join().unwrap().unwrap_err();
    assert!(matches!(error, JoinError::Left { rank: 1 }), "{error}");
    receives_abort(stays, &error);
    assert!(start.elapsed() < AT_ONCE);
}

/// Twenty handshakes in sequence would take 100 s.
#[test]
fn connections_that_say_nothing_delay_nobody() {
    let (address, hub) = start_hub(terms(0, 2));
    let _silent: Vec<_> = (0..10).map(|_| TcpStream::connect(address).unwrap()).collect();
    let _halfway: Vec<_> = (0..10)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(&first_message(&terms(1, 2))).unwrap();
            stream
        })
        .collect();
    let start = Instant::now();
    finish(address, hub);
    assert!(start.elapsed() < 20 * HANDSHAKE_LIMIT / 2);
}

#[test]
fn a_slow_peer_delays_nobody_and_is_let_in() {
    let (address, hub) = start_hub(terms(0, 3));
    let (near, far) = proxy(address);
    let slow = start_member(near, terms(1, 3));
    let (go_on, may_go_on) = mpsc::channel();
    let slowly = thread::spawn(move || {
        let (mut from, mut to) = far.recv().unwrap();
        let (mut back_from, mut back_to) = (to.try_clone().unwrap(), from.try_clone().unwrap());
        thread::spawn(move || std::io::copy(&mut back_from, &mut back_to));
        let mut byte = [0];
        for sent in 0.. {
            if sent == FIRST_BYTES + 16 {
                may_go_on.recv().unwrap();
            }
            if from.read(&mut byte).unwrap_or(0) != 1 || to.write_all(&byte).is_err() {
                return;
            }
        }
    });
    // This rank is admitted while the slow one is in the middle of its handshake.
    let mut quick = admitted(address, &terms(2, 3));
    go_on.send(()).unwrap();
    assert_eq!(next_frame(&mut quick).kind, Kind::Start);
    drop((slow.join().unwrap().unwrap(), quick, hub.join().unwrap().unwrap()));
    slowly.join().unwrap();
}

/// Every place where a member can be cut off, one after the other, with one and the same hub.
#[test]
fn a_member_cut_off_anywhere_disturbs_nobody() {
    let (address, hub) = start_hub(terms(0, 2));
    let terms = terms(1, 2);
    let join_frame_bytes = 13 + join_payload(&terms).len() + 32;
    let whole = FIRST_BYTES + 32 + join_frame_bytes;
    let mut cut_in_join = 0;
    for cut in 0..whole {
        let mut wire = Wire::new(TcpStream::connect(address).unwrap()).unwrap();
        let mut applicant = Applicant::new(nonce().unwrap(), &terms.secret, &mut wire);
        let mut left = cut;
        let mut session = None;
        while left > 0 {
            let part = wire.outgoing.len().min(left);
            left -= part;
            wire.outgoing.truncate(part);
            let cut_off = left == 0;
            pump_until(&mut wire, |wire| {
                wire.outgoing.is_empty() && (cut_off || !wire.incoming.is_empty())
            });
            if cut_off {
                break;
            }
            if session.is_none() {
                session = applicant.advance(&terms.secret, &mut wire).unwrap();
                if let Some(session) = &mut session {
                    let payload = join_payload(&terms);
                    session.send.seal(Kind::Join, &payload, &mut wire.outgoing);
                    cut_in_join += 1;
                }
            }
        }
    }
    assert_eq!(cut_in_join, join_frame_bytes - 1, "all messages were cut");
    finish(address, hub);
}

/// Bytes that the hub has sent by the end of the welcome, and of the start.
const WELCOME: usize = 45 + 33 + 13 + 4 + 32;
const START: usize = WELCOME + 13 + 32;

/// Every place where rank 0's side can be cut off: until the welcome the member tries again, and
/// then it knows that rank 0 has gone.
#[test]
fn a_hub_cut_off_anywhere_is_tried_again_or_given_up() {
    // In eight threads: each try is followed by a pause.
    thread::scope(|scope| {
        for first in 0..8 {
            scope.spawn(move || {
                for cut in (first..=START).step_by(8) {
                    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                    let address = listener.local_addr().unwrap();
                    let member = start_member(address, terms(1, 2));
                    play_hub(&listener, cut);
                    if cut < WELCOME {
                        play_hub(&listener, START);
                    }
                    match (member.join().unwrap(), cut) {
                        (Ok(_), 0..WELCOME | START) => {}
                        (Err(JoinError::Left { rank: 0 }), WELCOME..START) => {}
                        (end, _) => panic!("{end:?} after {cut} bytes"),
                    }
                }
            });
        }
    });
}

/// The hub's side of a rendezvous of two, which ends after `cut` bytes.
fn play_hub(listener: &TcpListener, cut: usize) {
    let terms = terms(0, 2);
    let mut wire = Wire::new(listener.accept().unwrap().0).unwrap();
    let mut guest = Guest::new(nonce().unwrap());
    let mut seen = SeenNonces::default();
    let mut session: Option<Session> = None;
    let (mut left, mut joined) = (cut, false);
    while left > 0 && !joined {
        pump_until(&mut wire, |wire| !wire.incoming.is_empty() || wire.closed);
        match &mut session {
            None => session = guest.advance(&terms.secret, &mut seen, &mut wire).unwrap(),
            Some(session) => {
                joined = session.receive.open(&mut wire.incoming, 5000).unwrap().is_some();
                if joined {
                    session.send.seal(Kind::Welcome, &9_u32.to_le_bytes(), &mut wire.outgoing);
                    session.send.seal(Kind::Start, &[], &mut wire.outgoing);
                }
            }
        }
        let part = wire.outgoing.len().min(left);
        left -= part;
        wire.outgoing.truncate(part);
        pump_until(&mut wire, |wire| wire.outgoing.is_empty());
    }
    // Closed in good order, whatever the member has sent meanwhile.
    wire.finish();
    pump_until(&mut wire, |wire| wire.closed || cut == START);
}
