//! The choice of the connection to evict, and the limit of open files.

use std::thread;

use rustix::io::dup;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::*;
use crate::handshake::Initiator;
use crate::limits::Limits;
use crate::pending::MIN_SERVICE;
use crate::secret::Secret;

const LIMIT: Duration = Duration::from_secs(60);

fn spec(size: u32) -> JobSpec {
    let secret = Secret::new(vec![7; 32]).unwrap();
    let limits = Limits { rendezvous: LIMIT, collective: LIMIT };
    JobSpec { rank: 0, size, parameters: String::new(), secret, limits }
}

fn listener() -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

fn connect(listener: &TcpListener) -> TcpStream {
    TcpStream::connect(listener.local_addr().unwrap()).unwrap()
}

/// Connects, and makes the coordinator accept the connection.
fn connect_pending(coordinator: &mut Coordinator<'_>) -> TcpStream {
    let far = connect(coordinator.listener);
    let pending = coordinator.pending.len();
    while coordinator.pending.len() == pending {
        wait([coordinator.listener.into()], deadline(LIMIT)).unwrap();
        coordinator.accept_waiting().unwrap();
    }
    far
}

/// Sends the first message of a member, and waits until it has arrived at connection `index`.
fn send_first_message(coordinator: &mut Coordinator<'_>, index: usize, far: TcpStream) -> Socket {
    let mut far = Socket::new(far).unwrap();
    Initiator::start(&coordinator.spec.secret, &mut far).unwrap();
    far.push();
    let near = &*coordinator.pending[index].socket();
    assert_eq!(wait([near.into()], deadline(LIMIT)).unwrap(), [true]);
    far
}

/// The coordinator may be delayed between poll(2) and the eviction.
#[test]
fn a_member_whose_first_message_is_unread_is_not_evicted() {
    let (listener, spec) = (listener(), spec(2));
    let mut coordinator = Coordinator::new(&listener, &spec, deadline(LIMIT));
    let member = connect_pending(&mut coordinator);
    let _silent = connect_pending(&mut coordinator);
    let mut member = send_first_message(&mut coordinator, 0, member);
    thread::sleep(MIN_SERVICE);
    assert!(coordinator.make_room().unwrap(), "the silent connection is evicted");
    assert_eq!((coordinator.pending.len(), coordinator.refusals.count(Refusal::Evicted)), (1, 1));
    assert!(!coordinator.make_room().unwrap());
    // The coordinator has answered.
    wait([(&member).into()], deadline(LIMIT)).unwrap();
    member.pump(RENDEZVOUS_BYTES);
    assert!(!member.closed && !member.incoming.is_empty());
}

#[test]
fn a_closed_connection_frees_its_place() {
    let (listener, spec) = (listener(), spec(2));
    let mut coordinator = Coordinator::new(&listener, &spec, deadline(LIMIT));
    let leaves = connect_pending(&mut coordinator);
    let _silent = connect_pending(&mut coordinator);
    drop(leaves);
    wait([(&*coordinator.pending[0].socket()).into()], deadline(LIMIT)).unwrap();
    thread::sleep(MIN_SERVICE);
    assert!(coordinator.make_room().unwrap());
    assert_eq!((coordinator.pending.len(), coordinator.refusals.count(Refusal::Closed)), (1, 1));
    assert_eq!(coordinator.refusals.total(), 1);
}

/// Calls `action` while this process cannot open another file.
fn at_the_limit<T>(action: impl FnOnce() -> T) -> T {
    use std::os::fd::AsRawFd;
    let limit = getrlimit(Resource::Nofile);
    let free = dup(io::stderr()).unwrap();
    let current = Some(u64::try_from(free.as_raw_fd()).unwrap());
    drop(free);
    setrlimit(Resource::Nofile, Rlimit { current, maximum: limit.maximum }).unwrap();
    let result = action();
    setrlimit(Resource::Nofile, limit).unwrap();
    result
}

/// At the limit of open files, accept(2) fails with EMFILE even on an empty queue.
pub(crate) fn at_the_limit_no_connection_is_evicted_for_an_empty_queue() {
    let (listener, spec) = (listener(), spec(2));
    let mut coordinator = Coordinator::new(&listener, &spec, deadline(LIMIT));
    let _silent = connect_pending(&mut coordinator);
    thread::sleep(MIN_SERVICE);
    at_the_limit(|| coordinator.accept_waiting()).unwrap();
    assert_eq!((coordinator.pending.len(), coordinator.refusals.total()), (1, 0));
    assert!(matches!(coordinator.missing(), JoinError::Missing { .. }));
}

pub(crate) fn at_the_limit_a_connection_is_evicted_for_a_waiting_one() {
    let (listener, spec) = (listener(), spec(2));
    let mut coordinator = Coordinator::new(&listener, &spec, deadline(LIMIT));
    let _silent = connect_pending(&mut coordinator);
    let _waiting = connect(&listener);
    wait([(&listener).into()], deadline(LIMIT)).unwrap();
    thread::sleep(MIN_SERVICE);
    at_the_limit(|| coordinator.accept_waiting()).unwrap();
    assert_eq!((coordinator.pending.len(), coordinator.refusals.count(Refusal::Evicted)), (1, 1));
    assert!(matches!(coordinator.missing(), JoinError::Missing { .. }));
}

/// When rank 0 tries again, the waiting connection may be lost or already accepted.
pub(crate) fn a_shortage_ends_when_no_connection_waits() {
    let (listener, spec) = (listener(), spec(2));
    let mut coordinator = Coordinator::new(&listener, &spec, deadline(LIMIT));
    let waiting = connect(&listener);
    wait([(&listener).into()], deadline(LIMIT)).unwrap();
    at_the_limit(|| coordinator.accept_waiting()).unwrap();
    let Some(shortage) = &coordinator.shortage else { panic!("no file was lacking") };
    let again = shortage.1;
    drop(listener.accept().unwrap());
    drop(waiting);
    while Instant::now() < again {
        thread::sleep(TICK);
    }
    coordinator.process_events().unwrap();
    assert!(matches!(coordinator.missing(), JoinError::Missing { .. }));
}
