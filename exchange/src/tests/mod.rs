//! Tests over sockets, and the code that they share.

mod collective;
mod flood;
mod large;
mod rendezvous;
mod strangers;

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use probeline_transport::{Exchange, Owner};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use snow::TransportState;

use crate::coordinator::admit_ranks;
use crate::error::JoinError;
use crate::handshake::{VERSION, initiate};
use crate::launch::Server;
use crate::limits::Limits;
use crate::link::{Frame, Kind, Link, RENDEZVOUS_BYTES};
use crate::member::join_rank_0;
use crate::secret::Secret;
use crate::socket::{Socket, wait};
use crate::spec::JobSpec;
use crate::tcp::Job;

const SECOND: Duration = Duration::from_secs(1);

/// The time limit of every action, even on a busy machine. Immediate actions take less than half of
/// it. Actions that wait for the limit take all of it.
const LIMIT: Duration = Duration::from_secs(60);
const AT_ONCE: Duration = Duration::from_secs(30);

fn spec(rank: u32, size: u32) -> JobSpec {
    JobSpec {
        rank,
        size,
        parameters: "c=32 m=64".to_owned(),
        secret: Secret::new(b"the secret of these tests".to_vec()).unwrap(),
        limits: Limits { rendezvous: LIMIT, collective: LIMIT },
    }
}

fn within(limit: Duration, mut spec: JobSpec) -> JobSpec {
    spec.limits.rendezvous = limit;
    spec
}

type Joining = JoinHandle<Result<Job, JoinError>>;

/// Listens at a free port, and returns the address.
fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn start_rank_0(spec: JobSpec) -> (SocketAddr, Joining) {
    let (listener, address) = listen();
    (address, thread::spawn(move || admit_ranks(&listener, &spec, &mut || Ok(()))))
}

fn start_member(address: SocketAddr, spec: JobSpec) -> Joining {
    thread::spawn(move || join_rank_0(&[address], &spec))
}

fn join(address: SocketAddr, spec: JobSpec) -> Result<Job, JoinError> {
    start_member(address, spec).join().unwrap()
}

/// Joins as rank 1 of two, and checks that the job works.
fn finish(address: SocketAddr, rank_0: Joining) {
    let mut member = join(address, spec(1, 2)).unwrap();
    let mut rank_0 = rank_0.join().unwrap().unwrap();
    let calls = thread::spawn(move || member.barrier());
    rank_0.barrier().unwrap();
    calls.join().unwrap().unwrap();
}

/// Runs a job of two ranks, whose rank 1 joins after `strangers` returns.
fn meets_after(strangers: impl FnOnce(SocketAddr)) {
    let (address, rank_0) = start_rank_0(spec(0, 2));
    strangers(address);
    finish(address, rank_0);
}

/// Raises the soft limit of open files of this process to `needed` more than it may have open for
/// other tests.
fn allow_files(needed: usize) {
    const OTHER_FILES: u64 = 2048;
    let needed = needed as u64 + OTHER_FILES;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|limit| limit < needed) {
        let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum });
        raised.unwrap_or_else(|errno| panic!("{needed} open files, at most {maximum:?}: {errno}"));
    }
}

/// Returns a port on which no process listens while the socket lives.
fn closed_port() -> (OwnedFd, SocketAddr) {
    use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = getsockname(&socket).unwrap();
    (socket, address.try_into().unwrap())
}

/// Sends `bytes` to rank 0, and returns its answer when it closes the connection.
fn answer(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// Returns a first message with an invalid tag, which a stranger can create.
fn forged_first_message() -> Vec<u8> {
    preamble(VERSION, &[9; 48])
}

/// Returns the first bytes of either side, followed by others.
fn preamble(version: u32, rest: &[u8]) -> Vec<u8> {
    [&b"probelin"[..], &version.to_le_bytes(), rest].concat()
}

/// Returns the first message of a rank.
fn first_message(spec: &JobSpec) -> Vec<u8> {
    let (_listener, address) = listen();
    let mut socket = Socket::new(TcpStream::connect(address).unwrap()).unwrap();
    let stop = |_: &mut Socket| Err(JoinError::NoServer { server: Server::Pmi });
    initiate(&spec.secret, &mut socket, stop).unwrap_err();
    socket.outgoing
}

/// Connects to rank 0 and completes the handshake.
fn handshaken(address: SocketAddr, spec: &JobSpec) -> (Socket, TransportState) {
    let mut socket = Socket::new(TcpStream::connect(address).unwrap()).unwrap();
    let pump = |socket: &mut Socket| {
        let had = socket.incoming.len();
        pump_until(socket, |socket| socket.incoming.len() > had);
        Ok::<_, JoinError>(())
    };
    let session = initiate(&spec.secret, &mut socket, pump).unwrap();
    (socket, session)
}

/// Returns the link of a rank that rank 0 has admitted.
fn admitted(address: SocketAddr, spec: &JobSpec) -> Link {
    let (socket, session) = handshaken(address, spec);
    let mut link = Link::new(Owner(0), socket, session);
    link.send(Kind::Join, &spec.join_payload());
    assert_eq!(next_frame(&mut link).kind, Kind::Admitted);
    link
}

fn next_frame(link: &mut Link) -> Frame {
    loop {
        if let Some(frame) = link.receive().unwrap() {
            return frame;
        }
        link.flush();
        let had = link.socket.incoming.len();
        pump_until(&mut link.socket, |socket| socket.incoming.len() > had);
    }
}

/// Checks that an admitted rank receives the error with which the job failed.
fn receives_failure(mut link: Link, error: &JoinError) {
    let Frame { kind, payload } = next_frame(&mut link);
    assert_eq!((kind, payload), (Kind::Failed, error.to_string().into_bytes()));
}

fn pump_until(socket: &mut Socket, done: impl Fn(&Socket) -> bool) {
    let until = Instant::now() + LIMIT;
    socket.pump(RENDEZVOUS_BYTES);
    while !done(socket) {
        assert!(Instant::now() < until && !socket.closed, "nothing more comes");
        wait([(&*socket).into()], until).unwrap();
        socket.pump(RENDEZVOUS_BYTES);
    }
}
