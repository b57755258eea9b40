//! The rendezvous over real sockets: right ranks, wrong ranks, strangers and broken connections.

mod connections;
mod strangers;

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
