//! The rendezvous over real sockets: right ranks, wrong ranks, strangers and broken connections.

mod connections;
#[allow(dead_code, reason = "open_files.rs runs most of these tests")]
pub(crate) mod flood;
mod strangers;

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use probeline_transport::{Exchange, Owner};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::callers::HANDSHAKE_LIMIT;
use crate::error::{JoinError, Refusal, Refusals};
use crate::frame::{Frame, Kind};
use crate::handshake::{Applicant, Guest, SeenNonces, Session, nonce};
use crate::hub::{host, host_counting};
use crate::link::{Link, RENDEZVOUS_BOUND};
use crate::secret::Secret;
use crate::tcp::Tcp;
use crate::terms::{Limits, Terms};
use crate::wire::{Wire, wait};
use crate::{Difference, member};

const SECOND: Duration = Duration::from_secs(1);

/// The limit of everything, even on a busy machine. Immediate actions take less than half of it;
/// actions that wait for the limit take all of it.
const LIMIT: Duration = Duration::from_secs(60);
const AT_ONCE: Duration = Duration::from_secs(30);

fn terms(rank: u32, size: u32) -> Terms {
    Terms {
        rank,
        size,
        parameters: "c=32 m=64".to_owned(),
        secret: Secret::new(b"the secret of these tests".to_vec()).unwrap(),
        limits: Limits { rendezvous: LIMIT, collective: LIMIT },
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

/// The connections that a job of two ranks refused. Rank 1 joins after `strangers` has returned;
/// the value that `strangers` returns lives until the ranks have met.
fn refused<T>(strangers: impl FnOnce(SocketAddr) -> T) -> Refusals {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let hub = thread::spawn(move || host_counting(&listener, &terms(0, 2), &mut || Ok(())));
    let _kept = strangers(address);
    let member = start_member(address, terms(1, 2));
    let (_links, refusals) = hub.join().unwrap().unwrap();
    member.join().unwrap().unwrap();
    refusals
}

/// A port on which no process listens while the socket lives.
fn closed_port() -> (OwnedFd, SocketAddr) {
    use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = getsockname(&socket).unwrap();
    (socket, address.try_into().unwrap())
}

/// What the hub answers to these bytes, until it closes.
fn answer(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// Bytes of a member's first message: greeting, nonce and MAC.
const FIRST_BYTES: usize = 12 + 32 + 32;
/// The hub's first bytes up to its status, and all of them.
const STATUS: usize = 12;
const ANSWER_BYTES: usize = STATUS + 1 + 32;

/// A first message with an invalid MAC, as a stranger can create it.
fn hello() -> Vec<u8> {
    [&b"probelin"[..], &2_u32.to_le_bytes(), &[9; 64]].concat()
}

/// The first message of a rank.
fn first_message(terms: &Terms) -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut wire = Wire::new(TcpStream::connect(listener.local_addr().unwrap()).unwrap()).unwrap();
    Applicant::new(nonce().unwrap(), &terms.secret, &mut wire);
    wire.outgoing
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
    let mut applicant = Applicant::new(nonce().unwrap(), &terms.secret, &mut wire);
    loop {
        pump_until(&mut wire, |wire| !wire.incoming.is_empty());
        if let Some(session) = applicant.advance(&terms.secret, &mut wire).unwrap() {
            return (wire, session);
        }
    }
}

/// The link of a rank that rank 0 has let in.
fn admitted(address: SocketAddr, terms: &Terms) -> Link {
    let (wire, session) = proved(address, terms);
    let mut link = Link::new(Owner(0), wire, session);
    link.send(Kind::Join, &join_payload(terms));
    assert_eq!(next_frame(&mut link).kind, Kind::Welcome);
    link
}

fn next_frame(link: &mut Link) -> Frame {
    loop {
        if let Some(frame) = link.word().unwrap() {
            return frame;
        }
        let had = link.wire.incoming.len();
        pump_until(&mut link.wire, |wire| wire.incoming.len() > had);
    }
}

/// Checks that an admitted rank receives the reason for which the job ended.
fn receives_abort(mut link: Link, error: &JoinError) {
    let Frame { kind, payload } = next_frame(&mut link);
    assert_eq!((kind, payload), (Kind::GaveUp, error.to_string().into_bytes()));
}

fn join_payload(terms: &Terms) -> Vec<u8> {
    let (rank, size) = (terms.rank.to_le_bytes(), terms.size.to_le_bytes());
    [&rank[..], &size, terms.parameters.as_bytes()].concat()
}

fn pump_until(wire: &mut Wire, done: impl Fn(&Wire) -> bool) {
    let until = Instant::now() + LIMIT;
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
    let (socket, address) = closed_port();
    let member = start_member(address, terms(1, 2));
    // Makes the first attempt fail; the result is the same without this line.
    thread::sleep(Duration::from_millis(200));
    rustix::net::listen(&socket, 1).unwrap();
    host(&socket.into(), &terms(0, 2), &mut || Ok(())).unwrap();
    assert_eq!(member.join().unwrap().unwrap().me(), Owner(1));
}

#[test]
fn rank_0_is_found_at_the_one_of_its_addresses_that_is_its_own() {
    // At the others: nobody, and another program.
    let (_socket, nobody) = closed_port();
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

    let start = Instant::now();
    for addresses in [elsewhere, [elsewhere[1], elsewhere[0]]] {
        let error = member::meet("", &addresses, &terms(1, 2)).err().unwrap();
        assert!(matches!(error, JoinError::NotProbeline { .. }), "{error}");
    }
    assert!(start.elapsed() < AT_ONCE);
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
    let mut first = admitted(address, &terms(1, 3));
    let error = join(address, terms(1, 3)).unwrap_err();
    assert!(matches!(error, JoinError::RankTaken { rank: 1 }), "{error}");
    let third = start_member(address, terms(2, 3));
    assert_eq!(next_frame(&mut first).kind, Kind::Start);
    for joining in [hub, third] {
        joining.join().unwrap().unwrap();
    }
}

#[test]
fn a_rank_that_does_not_exist_is_refused() {
    let refusals = refused(|address| {
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
    let good = admitted(address, &terms(2, 3));
    let theirs = join(address, terms(1, 4)).unwrap_err();
    let mine = hub.join().unwrap().unwrap_err();
    assert!(matches!(mine, JoinError::SizeDiffers { peer: 1, mine: 3, theirs: 4 }), "{mine}");
    assert!(matches!(theirs, JoinError::SizeDiffers { peer: 0, mine: 4, theirs: 3 }), "{theirs}");
    receives_abort(good, &mine);
    assert!(start.elapsed() < AT_ONCE);
}

#[test]
fn other_parameters_end_the_job_on_all_sides_at_once() {
    let start = Instant::now();
    let (address, hub) = start_hub(terms(0, 3));
    let good = admitted(address, &terms(2, 3));
    let theirs = join(address, with_parameters("c=32 m=16", terms(1, 3))).unwrap_err();
    let mine = hub.join().unwrap().unwrap_err();
    for (error, other, here, there) in [(&mine, 1, "64", "16"), (&theirs, 0, "16", "64")] {
        let JoinError::ParametersDiffer { peer, difference } = error else { panic!("{error}") };
        let side = |value: &str| Some(value.to_owned());
        let expected = Difference { field: "m".to_owned(), mine: side(here), theirs: side(there) };
        assert_eq!((*peer, difference), (other, &expected));
    }
    receives_abort(good, &mine);
    assert!(start.elapsed() < AT_ONCE);
}

/// Takes 3 s, in which one rank comes and a stranger is refused.
#[test]
fn missing_ranks_are_named_to_all() {
    let (address, hub) = start_hub(within(3 * SECOND, terms(0, 4)));
    assert_eq!(answer(address, b"GET / HTTP/1.1"), []);
    // This rank waits as long as rank 0 does.
    let came = start_member(address, within(2 * SECOND, terms(2, 4)));
    let error = hub.join().unwrap().unwrap_err();
    assert!(matches!(&error, JoinError::Missing { ranks, .. } if ranks == &[1, 3]), "{error}");
    let message = error.to_string();
    assert!(message.contains("1 connection refused: not a rank of any job"), "{message}");
    match came.join().unwrap() {
        Err(JoinError::GaveUp { reason }) => assert_eq!(reason, message),
        other => panic!("{other:?}"),
    }
}

#[test]
fn without_rank_0_a_member_says_what_it_saw() {
    let (_socket, address) = closed_port();
    let error = join(address, within(SECOND / 5, terms(1, 2))).unwrap_err();
    assert!(matches!(error, JoinError::Unreachable { after_s: 1, .. }), "{error}");
    assert!(error.to_string().contains("refused"), "{error}");

    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let error = join(address, within(SECOND / 5, terms(1, 2))).unwrap_err();
    assert!(error.to_string().contains("there was no answer"), "{error}");
}
