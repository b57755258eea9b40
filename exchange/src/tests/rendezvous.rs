//! The rendezvous: accepted and refused ranks, and slow, silent and broken connections.

use std::net::Shutdown;
use std::sync::mpsc;

use super::*;
use crate::Difference;
use crate::handshake::respond;
use crate::handshake::tests::{ANSWER_BYTES, FIRST_BYTES};

#[test]
fn waits_for_late_rank_0() {
    let (socket, address) = closed_port();
    let member = start_member(address, spec(1, 2));
    // The first attempt to connect fails during this time.
    thread::sleep(Duration::from_millis(200));
    rustix::net::listen(&socket, 1).unwrap();
    admit_ranks(&socket.into(), &spec(0, 2), &mut || Ok(())).unwrap();
    assert_eq!(member.join().unwrap().unwrap().me(), Owner(1));
}

#[test]
fn finds_rank_0_among_addresses() {
    // At the other addresses there is no listener, a silent one, or another program.
    let (_silent, silent) = listen();
    let (_socket, closed) = closed_port();
    let (other, others) = listen();
    let elsewhere = [closed, others];
    thread::spawn(move || {
        for stream in other.incoming() {
            let _ = stream.unwrap().write_all(b"SSH-2.0-other\r\n");
        }
    });
    let (address, rank_0) = start_rank_0(spec(0, 2));
    let member = join_rank_0(&[&elsewhere[..], &[silent, address]].concat(), &spec(1, 2));
    assert!(member.is_ok() && rank_0.join().unwrap().is_ok());

    let start = Instant::now();
    for addresses in [elsewhere, [elsewhere[1], elsewhere[0]]] {
        let error = join_rank_0(&addresses, &spec(1, 2)).err().unwrap();
        assert!(matches!(error, JoinError::NotProbeline), "{error}");
    }
    assert!(start.elapsed() < AT_ONCE);
}

#[test]
fn refuses_duplicate_rank() {
    let (address, rank_0) = start_rank_0(spec(0, 3));
    let mut first = admitted(address, &spec(1, 3));
    let error = join(address, spec(1, 3)).unwrap_err();
    assert!(matches!(error, JoinError::RankTaken { rank: 1 }), "{error}");
    let third = start_member(address, spec(2, 3));
    assert_eq!(next_frame(&mut first).kind, Kind::Start);
    for joining in [rank_0, third] {
        joining.join().unwrap().unwrap();
    }
}

#[test]
fn refuses_rank_out_of_range() {
    meets_after(|address| {
        for rank in [0, 2, u32::MAX] {
            let error = join(address, spec(rank, 2)).unwrap_err();
            assert!(matches!(error, JoinError::RankOutOfRange { size: 2, .. }), "{error}");
        }
    });
}

/// Rank 1 has another size, or other parameters.
#[test]
fn refuses_different_jobs() {
    let start = Instant::now();
    let ended = |other: JobSpec| {
        let (address, rank_0) = start_rank_0(spec(0, 3));
        let good = admitted(address, &spec(2, 3));
        let theirs = join(address, other).unwrap_err();
        let mine = rank_0.join().unwrap().unwrap_err();
        receives_failure(good, &mine);
        [mine, theirs]
    };
    let [mine, theirs] = ended(spec(1, 4));
    assert!(matches!(mine, JoinError::SizeDiffers { peer: 1, mine: 3, theirs: 4 }), "{mine}");
    assert!(matches!(theirs, JoinError::SizeDiffers { peer: 0, mine: 4, theirs: 3 }), "{theirs}");
    let errors = ended(JobSpec { parameters: "c=32 m=16".to_owned(), ..spec(1, 3) });
    for (error, other, here, there) in [(&errors[0], 1, "64", "16"), (&errors[1], 0, "16", "64")] {
        let JoinError::ParametersDiffer { peer, difference } = error else { panic!("{error}") };
        let side = |value: &str| Some(value.to_owned());
        let expected = Difference { field: "m".to_owned(), mine: side(here), theirs: side(there) };
        assert_eq!((*peer, difference), (other, &expected));
    }
    assert!(start.elapsed() < AT_ONCE);
}

/// This test takes 3 s, in which one rank joins and a stranger is refused.
#[test]
fn names_missing_ranks_everywhere() {
    let (address, rank_0) = start_rank_0(within(3 * SECOND, spec(0, 4)));
    assert_eq!(answer(address, b"GET / HTTP/1.1"), []);
    // This rank waits as long as rank 0 does.
    let came = start_member(address, within(2 * SECOND, spec(2, 4)));
    let error = rank_0.join().unwrap().unwrap_err();
    assert!(matches!(&error, JoinError::Missing { ranks, .. } if ranks == &[1, 3]), "{error}");
    let message = error.to_string();
    match came.join().unwrap() {
        Err(JoinError::RankZeroFailed { reason }) => assert_eq!(reason, message),
        other => panic!("{other:?}"),
    }
}

#[test]
fn reports_last_connection_failure() {
    let (_socket, address) = closed_port();
    let error = join(address, within(SECOND / 5, spec(1, 2))).unwrap_err();
    assert!(matches!(error, JoinError::Unreachable { after_s: 1, .. }), "{error}");
    assert!(error.to_string().contains("refused"), "{error}");

    let (_silent, address) = listen();
    let error = join(address, within(SECOND / 5, spec(1, 2))).unwrap_err();
    assert!(error.to_string().contains("there was no answer"), "{error}");
}

#[test]
fn ends_rendezvous_after_leaver() {
    let start = Instant::now();
    let (address, rank_0) = start_rank_0(spec(0, 4));
    let stays = admitted(address, &spec(2, 4));
    drop(admitted(address, &spec(1, 4)));
    let error = rank_0.join().unwrap().unwrap_err();
    assert!(matches!(error, JoinError::Left { rank: 1 }), "{error}");
    receives_failure(stays, &error);
    assert!(start.elapsed() < AT_ONCE);
}

/// Returns a listener in front of `address`, and the two streams of its first connection.
fn proxy(address: SocketAddr) -> (SocketAddr, mpsc::Receiver<(TcpStream, TcpStream)>) {
    let (listener, near) = listen();
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let (from, _) = listener.accept().unwrap();
        let to = TcpStream::connect(address).unwrap();
        to.set_nodelay(true).unwrap();
        send.send((from, to)).unwrap();
    });
    (near, receive)
}

#[test]
fn admits_beside_slow_peer() {
    let (address, rank_0) = start_rank_0(spec(0, 3));
    let (near, far) = proxy(address);
    let slow = start_member(near, spec(1, 3));
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
    let mut quick = admitted(address, &spec(2, 3));
    go_on.send(()).unwrap();
    assert_eq!(next_frame(&mut quick).kind, Kind::Start);
    drop((slow.join().unwrap().unwrap(), quick, rank_0.join().unwrap().unwrap()));
    slowly.join().unwrap();
}

/// Cuts members off after each number of bytes; all of them connect to the same rank 0.
#[test]
fn tolerates_cut_off_members() {
    let (address, rank_0) = start_rank_0(spec(0, 2));
    let spec = spec(1, 2);
    let join_bytes = 2 + 5 + spec.join_payload().len() + 16;
    for cut in 0..join_bytes {
        let (socket, session) = handshaken(address, &spec);
        let mut link = Link::new(Owner(0), socket, session);
        link.send(Kind::Join, &spec.join_payload());
        while link.seal_record() {}
        assert_eq!(link.socket.outgoing.len(), join_bytes);
        link.socket.outgoing.truncate(cut);
        pump_until(&mut link.socket, |socket| socket.outgoing.is_empty());
    }
    finish(address, rank_0);
}

/// The number of bytes that rank 0 has sent after the admission; the next constant is that after
/// the start.
const ADMITTED: usize = ANSWER_BYTES + 2 + 5 + 4 + 16;
const STARTED: usize = ADMITTED + 2 + 5 + 16;

/// Cuts rank 0 off after each number of bytes. Before the admission the member tries again. After
/// the admission it reports that rank 0 has left.
#[test]
fn retries_only_before_admission() {
    // Eight threads, because a pause follows each attempt.
    thread::scope(|scope| {
        for first in 0..8 {
            scope.spawn(move || {
                for cut in (first..=STARTED).step_by(8) {
                    let (listener, address) = listen();
                    let member = start_member(address, spec(1, 2));
                    run_rank_0(&listener, cut);
                    if cut < ADMITTED {
                        run_rank_0(&listener, STARTED);
                    }
                    match (member.join().unwrap(), cut) {
                        (Ok(_), 0..ADMITTED | STARTED) => {}
                        (Err(JoinError::Left { rank: 0 }), ADMITTED..STARTED) => {}
                        (result, _) => panic!("{result:?} after {cut} bytes"),
                    }
                }
            });
        }
    });
}

/// Runs rank 0's side of a rendezvous of two ranks, and closes the connection after `cut` bytes.
fn run_rank_0(listener: &TcpListener, cut: usize) {
    let secret = spec(0, 2).secret;
    let stream = listener.accept().unwrap().0;
    let mut socket = Socket::new(stream.try_clone().unwrap()).unwrap();
    let session = loop {
        pump_until(&mut socket, |socket| !socket.incoming.is_empty() || socket.closed);
        let session = respond(&secret, &mut socket).unwrap();
        if let Some(session) = session {
            break session;
        }
    };
    let answer = socket.outgoing.len();
    assert_eq!(answer, ANSWER_BYTES);
    socket.outgoing.truncate(cut);
    pump_until(&mut socket, |socket| socket.outgoing.is_empty());
    let mut link = Link::new(Owner(1), socket, session);
    if cut > answer {
        assert_eq!(next_frame(&mut link).kind, Kind::Join);
        link.send(Kind::Admitted, &9_u32.to_le_bytes());
        while link.seal_record() {}
        link.send(Kind::Start, &[]);
        while link.seal_record() {}
        assert_eq!(answer + link.socket.outgoing.len(), STARTED);
        link.socket.outgoing.truncate(cut - answer);
        pump_until(&mut link.socket, |socket| socket.outgoing.is_empty());
    }
    // Closes the connection without a reset, even if bytes of the member are unread.
    let _ = stream.shutdown(Shutdown::Write);
    pump_until(&mut link.socket, |socket| socket.closed || cut == STARTED);
}
