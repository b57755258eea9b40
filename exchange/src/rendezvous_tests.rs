//! The rendezvous over real sockets: right ranks, wrong ranks, strangers and broken connections.

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use transport::{Exchange, Owner};

use crate::error::{JoinError, Refusal};
use crate::frame::Kind;
use crate::handshake::{Applicant, Guest, Session, nonce};
use crate::hub::{HANDSHAKE_LIMIT, host};
use crate::link::{Link, RENDEZVOUS_BOUND};
use crate::secret::Secret;
use crate::tcp::Tcp;
use crate::terms::{Limits, Terms};
use crate::wire::{Wire, wait};
use crate::{Difference, member};

const SECOND: Duration = Duration::from_secs(1);

fn terms(rank: u32, size: u32) -> Terms {
    Terms {
        rank,
        size,
        parameters: "c=32 m=64".to_owned(),
        secret: Secret::new(b"the secret of these tests".to_vec()).unwrap(),
        limits: Limits { rendezvous: 10 * SECOND, collective: 10 * SECOND },
    }
}

fn within(limit: Duration, mut terms: Terms) -> Terms {
    terms.limits.rendezvous = limit;
    terms
}

fn with_secret(secret: &str, mut terms: Terms) -> Terms {
    terms.secret = Secret::new(secret.as_bytes().to_vec()).unwrap();
    terms
}

fn with_parameters(parameters: &str, mut terms: Terms) -> Terms {
    terms.parameters = parameters.to_owned();
    terms
}

type Joining = JoinHandle<Result<Tcp, JoinError>>;

fn start_hub(terms: Terms) -> (SocketAddr, Joining) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let hub = move || Ok(Tcp::new(&terms, host(&listener, &terms, &mut || Ok(()))?));
    (address, thread::spawn(hub))
}

fn start_member(address: SocketAddr, terms: Terms) -> Joining {
    thread::spawn(move || {
        let link = member::meet(&address.to_string(), &[address], &terms)?;
        Ok(Tcp::new(&terms, vec![link]))
    })
}

fn join(address: SocketAddr, terms: Terms) -> Result<Tcp, JoinError> {
    start_member(address, terms).join().unwrap()
}

/// Lets rank 1 of two in, and checks that the job works.
fn finish(address: SocketAddr, hub: Joining) {
    let mut member = join(address, terms(1, 2)).unwrap();
    let mut hub = hub.join().unwrap().unwrap();
    let calls = thread::spawn(move || member.barrier());
    hub.barrier().unwrap();
    calls.join().unwrap().unwrap();
}

/// A job of two whose rank 1 never comes, after `strangers` have been there.
fn refused(strangers: impl FnOnce(SocketAddr)) -> (String, crate::Refusals) {
    let (address, hub) = start_hub(within(SECOND / 2, terms(0, 2)));
    strangers(address);
    match hub.join().unwrap() {
        Err(error @ JoinError::Missing { refusals, .. }) => (error.to_string(), refusals),
        other => panic!("{other:?}"),
    }
}

/// What the hub answers to these bytes, until it closes.
fn answer(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

fn hello() -> Vec<u8> {
    [&b"probelin"[..], &1_u32.to_le_bytes(), &[9; 32]].concat()
}

#[test]
fn ranks_meet_in_any_order_and_all_calls_work() {
    let (address, hub) = start_hub(terms(0, 4));
    let members: Vec<_> =
        [3, 1, 2].into_iter().map(|rank| start_member(address, terms(rank, 4))).collect();
    let calls: Vec<_> = members
        .into_iter()
        .chain([hub])
        .map(|joining| {
            thread::spawn(move || {
                let mut exchange = joining.join().unwrap().unwrap();
                let mut all = [0; 4];
                let mine = u8::try_from(exchange.me().0).unwrap();
                exchange.all_gather(&[mine], &mut all).unwrap();
                exchange.barrier().unwrap();
                (exchange.owners(), all)
            })
        })
        .collect();
    for call in calls {
        assert_eq!(call.join().unwrap(), (4, [0, 1, 2, 3]));
    }
}

#[test]
fn members_may_start_before_rank_0() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let member = start_member(address, terms(1, 2));
    thread::sleep(Duration::from_millis(200));
    let listener = TcpListener::bind(address).unwrap();
    host(&listener, &terms(0, 2), &mut || Ok(())).unwrap();
    assert_eq!(member.join().unwrap().unwrap().me(), Owner(1));
}

#[test]
fn a_wrong_secret_is_refused_counted_and_does_not_end_the_job() {
    let wrong = || with_secret("not the secret of these tests", terms(1, 2));
    let (address, hub) = start_hub(terms(0, 2));
    let error = join(address, wrong()).unwrap_err();
    assert!(matches!(error, JoinError::WrongSecret), "{error}");
    finish(address, hub);

    let (message, refusals) = refused(|address| {
        for _ in 0..2 {
            join(address, wrong()).unwrap_err();
        }
    });
    assert_eq!(refusals.count(Refusal::WrongSecret), 2);
    assert!(message.contains("rank 1 did not come within 1 s"), "{message}");
    assert!(message.contains("2 connections refused: wrong secret"), "{message}");
}

#[test]
fn a_stranger_learns_the_version_and_a_nonce_only() {
    refused(|address| {
        let found = answer(address, &[hello(), vec![1; 32]].concat());
        assert_eq!(found.len(), 45 + 33);
        assert_eq!(found[..13], *b"probelin\x01\0\0\0\0");
        assert_eq!(found[45..], [&[2][..], &[0; 32]].concat());
    });
}

#[test]
fn a_hub_that_does_not_know_the_secret_is_not_joined() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let member = start_member(listener.local_addr().unwrap(), terms(1, 2));
    let (mut stream, _) = listener.accept().unwrap();
    let mut shown = [0; 44 + 32];
    stream.read_exact(&mut shown[..44]).unwrap();
    stream.write_all(&[&b"probelin\x01\0\0\0\0"[..], &[3; 32]].concat()).unwrap();
    stream.read_exact(&mut shown[44..]).unwrap();
    // Its own proof, sent back, is not the hub's.
    stream.write_all(&[&[0], &shown[44..]].concat()).unwrap();
    let error = member.join().unwrap().unwrap_err();
    assert!(matches!(error, JoinError::WrongSecret), "{error}");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, [], "it is told nothing of the job");
}

#[test]
fn another_version_is_refused_on_either_side() {
    let (message, refusals) = refused(|address| {
        let found = answer(address, b"probelin\x02\0\0\0 whatever comes then");
        assert_eq!((found.len(), &found[..13]), (45, &b"probelin\x01\0\0\0\x01"[..]));
    });
    assert_eq!(refusals.count(Refusal::OtherVersion), 1);
    assert!(message.contains("1 connection refused: another version"), "{message}");

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let member = start_member(listener.local_addr().unwrap(), terms(1, 2));
    listener.accept().unwrap().0.write_all(b"probelin\x02\0\0\0\x01").unwrap();
    let error = member.join().unwrap().unwrap_err();
    assert!(matches!(error, JoinError::Version { mine: 1, theirs: 2 }), "{error}");
}

#[test]
fn garbage_is_refused_without_an_answer() {
    let (_, refusals) = refused(|address| {
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
fn rank_0_is_found_at_the_one_of_its_addresses_that_is_its_own() {
    // At the others: nobody, and another program.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let elsewhere = [nobody, other.local_addr().unwrap()];
    thread::spawn(move || {
        for caller in other.incoming() {
            let _ = caller.unwrap().write_all(b"SSH-2.0-other\r\n");
        }
    });
    let (address, hub) = start_hub(terms(0, 2));
    let member = member::meet("", &[&elsewhere[..], &[address]].concat(), &terms(1, 2));
    assert!(member.is_ok() && hub.join().unwrap().is_ok());

    let begun = Instant::now();
    for addresses in [elsewhere, [elsewhere[1], elsewhere[0]]] {
        let error = member::meet("", &addresses, &terms(1, 2)).err().unwrap();
        assert!(matches!(error, JoinError::NotProbeline { .. }), "{error}");
    }
    assert!(begun.elapsed() < SECOND);
}

#[test]
fn what_never_answers_is_passed_by() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, hub) = start_hub(terms(0, 2));
    let addresses = [silent.local_addr().unwrap(), address];
    let member = member::meet("", &addresses, &terms(1, 2));
    assert!(member.is_ok() && hub.join().unwrap().is_ok());
}

#[test]
fn a_rank_that_comes_twice_is_refused_and_the_first_stays() {
    let (address, hub) = start_hub(terms(0, 3));
    let [first, second] = [1, 1].map(|rank| {
        let joining = start_member(address, terms(rank, 3));
        thread::sleep(Duration::from_millis(100));
        joining
    });
    let error = second.join().unwrap().unwrap_err();
    assert!(matches!(error, JoinError::RankTaken { rank: 1 }), "{error}");
    let third = start_member(address, terms(2, 3));
    for joining in [hub, first, third] {
        joining.join().unwrap().unwrap();
    }
}

#[test]
fn a_rank_that_does_not_exist_is_refused() {
    let (_, refusals) = refused(|address| {
        for rank in [0, 2, u32::MAX] {
            let error = join(address, terms(rank, 2)).unwrap_err();
            assert!(matches!(error, JoinError::RankOutOfRange { size: 2, .. }), "{error}");
        }
    });
    assert_eq!(refusals.count(Refusal::OutOfRange), 3);
}

#[test]
fn another_size_ends_the_job_on_all_sides_at_once() {
    let start = Instant::now();
    let (address, hub) = start_hub(terms(0, 3));
    let good = start_member(address, terms(2, 3));
    thread::sleep(Duration::from_millis(100));
    let theirs = join(address, terms(1, 4)).unwrap_err();
    let mine = hub.join().unwrap().unwrap_err();
    assert!(matches!(mine, JoinError::SizeDiffers { peer: 1, mine: 3, theirs: 4 }), "{mine}");
    assert!(matches!(theirs, JoinError::SizeDiffers { peer: 0, mine: 4, theirs: 3 }), "{theirs}");
    match good.join().unwrap() {
        Err(JoinError::GaveUp { reason }) => assert_eq!(reason, mine.to_string()),
        other => panic!("{other:?}"),
    }
    assert!(start.elapsed() < SECOND);
}

#[test]
fn other_parameters_end_the_job_on_all_sides_at_once() {
    let start = Instant::now();
    let (address, hub) = start_hub(terms(0, 3));
    let good = start_member(address, terms(2, 3));
    thread::sleep(Duration::from_millis(100));
    let theirs = join(address, with_parameters("c=32 m=16", terms(1, 3))).unwrap_err();
    let mine = hub.join().unwrap().unwrap_err();
    for (error, other, here, there) in [(&mine, 1, "64", "16"), (&theirs, 0, "16", "64")] {
        let JoinError::ParametersDiffer { peer, difference } = error else { panic!("{error}") };
        let side = |value: &str| Some(value.to_owned());
        let expected = Difference { field: "m".to_owned(), mine: side(here), theirs: side(there) };
        assert_eq!((*peer, difference), (other, &expected));
    }
    match good.join().unwrap() {
        Err(JoinError::GaveUp { reason }) => assert_eq!(reason, mine.to_string()),
        other => panic!("{other:?}"),
    }
    assert!(start.elapsed() < SECOND);
}

#[test]
fn missing_ranks_are_named_to_all() {
    let (address, hub) = start_hub(within(SECOND / 2, terms(0, 4)));
    let came = start_member(address, within(SECOND / 10, terms(2, 4)));
    let error = hub.join().unwrap().unwrap_err();
    assert!(matches!(&error, JoinError::Missing { ranks, .. } if ranks == &[1, 3]), "{error}");
    match came.join().unwrap() {
        Err(JoinError::GaveUp { reason }) => assert!(reason.starts_with("ranks 1, 3 did not come")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn without_rank_0_a_member_says_what_it_saw() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = join(address, within(SECOND / 5, terms(1, 2))).unwrap_err();
    assert!(matches!(error, JoinError::Unreachable { after_s: 1, .. }), "{error}");
    assert!(error.to_string().contains("refused"), "{error}");

    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let error = join(address, within(SECOND / 5, terms(1, 2))).unwrap_err();
    assert!(error.to_string().contains("there was no answer"), "{error}");
}

#[test]
fn a_member_that_goes_before_the_start_ends_the_rendezvous() {
    let start = Instant::now();
    let (address, hub) = start_hub(terms(0, 4));
    let stays = start_member(address, terms(2, 4));
    thread::sleep(SECOND / 10);
    let (wire, session) = proved(address, &terms(1, 4));
    let mut goes = Link::new(Owner(0), wire, session);
    goes.send(Kind::Join, &join_payload(&terms(1, 4)));
    pump_until(&mut goes.wire, |wire| !wire.incoming.is_empty());
    drop(goes);
    let error = hub.join().unwrap().unwrap_err();
    assert!(matches!(error, JoinError::Left { rank: 1 }), "{error}");
    match stays.join().unwrap() {
        Err(JoinError::GaveUp { reason }) => assert_eq!(reason, error.to_string()),
        other => panic!("{other:?}"),
    }
    assert!(start.elapsed() < SECOND);
}

#[test]
fn connections_that_say_nothing_delay_nobody() {
    let (address, hub) = start_hub(terms(0, 2));
    let _silent: Vec<_> = (0..10).map(|_| TcpStream::connect(address).unwrap()).collect();
    let _halfway: Vec<_> = (0..10)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(&hello()).unwrap();
            stream
        })
        .collect();
    let start = Instant::now();
    finish(address, hub);
    assert!(start.elapsed() < SECOND);
}

/// Takes 5 s, the limit of a handshake.
#[test]
fn places_taken_by_silent_connections_become_free_in_time() {
    let (address, hub) = start_hub(terms(0, 2));
    let start = Instant::now();
    let _silent: Vec<_> = (0..64).map(|_| TcpStream::connect(address).unwrap()).collect();
    thread::sleep(SECOND / 10);
    finish(address, hub);
    assert!(start.elapsed() > HANDSHAKE_LIMIT, "there was room for one more");
    assert!(start.elapsed() < HANDSHAKE_LIMIT + 2 * SECOND);
}

#[test]
fn a_slow_peer_delays_nobody_and_is_let_in() {
    let (address, hub) = start_hub(terms(0, 3));
    let (near, far) = proxy(address);
    let slow = start_member(near, terms(1, 3));
    let slowly = thread::spawn(move || {
        let (mut from, mut to) = far.recv().unwrap();
        let (mut back_from, mut back_to) = (to.try_clone().unwrap(), from.try_clone().unwrap());
        thread::spawn(move || std::io::copy(&mut back_from, &mut back_to));
        let mut byte = [0];
        while from.read(&mut byte).unwrap_or(0) == 1 && to.write_all(&byte).is_ok() {
            thread::sleep(Duration::from_millis(2));
        }
    });
    let start = Instant::now();
    let quick = join(address, terms(2, 3)).unwrap();
    let hub = hub.join().unwrap().unwrap();
    assert!(start.elapsed() < 2 * SECOND);
    let slow = slow.join().unwrap().unwrap();
    drop((slow, quick, hub));
    slowly.join().unwrap();
}

#[test]
fn a_giant_length_is_refused() {
    let (_, refusals) = refused(|address| {
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
    let noise = (0..=44_usize, prop::collection::vec(any::<u8>(), 0..300));
    runner
        .run(&noise, |(good, noise)| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(&[&hello()[..good], &noise].concat()).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            prop_assert!(answer.len() <= 45 + 33, "the nonce, and a refusal");
            Ok(())
        })
        .unwrap();
    finish(address, hub);
}

#[test]
fn a_flood_is_cut() {
    let (_, refusals) = refused(|address| {
        let flood = [hello(), vec![0; 32], vec![0; 100 * RENDEZVOUS_BOUND]].concat();
        let mut stream = TcpStream::connect(address).unwrap();
        let _ = stream.write_all(&flood);
    });
    assert_eq!(refusals.total(), 1);
}

/// Every place where a member can be cut off, one after the other, with one and the same hub.
#[test]
fn a_member_cut_off_anywhere_disturbs_nobody() {
    let (address, hub) = start_hub(terms(0, 2));
    let terms = terms(1, 2);
    let join_frame_bytes = 13 + join_payload(&terms).len() + 32;
    let whole = 44 + 32 + join_frame_bytes;
    let mut cut_in_join = 0;
    for cut in 0..whole {
        let mut wire = Wire::new(TcpStream::connect(address).unwrap()).unwrap();
        let mut applicant = Applicant::new(nonce().unwrap(), &mut wire);
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
    let mut session: Option<Session> = None;
    let (mut left, mut joined) = (cut, false);
    while left > 0 && !joined {
        pump_until(&mut wire, |wire| !wire.incoming.is_empty() || wire.closed);
        match &mut session {
            None => session = guest.advance(&terms.secret, &mut wire).unwrap(),
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

    let (_, refusals) = refused(|address| {
        let found = answer(address, &to_hub);
        assert_eq!(found[45], 2, "wrong secret");
    });
    assert_eq!(refusals.count(Refusal::WrongSecret), 1);

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let member = start_member(listener.local_addr().unwrap(), terms(1, 2));
    let (mut stream, _) = listener.accept().unwrap();
    stream.write_all(&to_member).unwrap();
    let error = member.join().unwrap().unwrap_err();
    assert!(matches!(error, JoinError::WrongSecret), "{error}");
}

/// A listener in front of `address`, and the two streams of its first connection.
fn proxy(address: SocketAddr) -> (SocketAddr, mpsc::Receiver<(TcpStream, TcpStream)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = listener.local_addr().unwrap();
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let (from, _) = listener.accept().unwrap();
        let to = TcpStream::connect(address).unwrap();
        to.set_nodelay(true).unwrap();
        send.send((from, to)).unwrap();
    });
    (near, receive)
}

/// A connection to the hub on which both sides have proved themselves.
fn proved(address: SocketAddr, terms: &Terms) -> (Wire, Session) {
    let mut wire = Wire::new(TcpStream::connect(address).unwrap()).unwrap();
    let mut applicant = Applicant::new(nonce().unwrap(), &mut wire);
    loop {
        pump_until(&mut wire, |wire| !wire.incoming.is_empty());
        if let Some(session) = applicant.advance(&terms.secret, &mut wire).unwrap() {
            return (wire, session);
        }
    }
}

fn join_payload(terms: &Terms) -> Vec<u8> {
    let (rank, size) = (terms.rank.to_le_bytes(), terms.size.to_le_bytes());
    [&rank[..], &size, terms.parameters.as_bytes()].concat()
}

fn pump_until(wire: &mut Wire, done: impl Fn(&Wire) -> bool) {
    let until = Instant::now() + 10 * SECOND;
    wire.pump(RENDEZVOUS_BOUND);
    while !done(wire) {
        assert!(Instant::now() < until && !wire.closed, "nothing more comes");
        wait([(&*wire).into()], until).unwrap();
        wire.pump(RENDEZVOUS_BOUND);
    }
}
