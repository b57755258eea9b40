//! The choice of the caller to evict, and the limit of open files.

use std::thread;

use rustix::io::dup;

use super::*;
use crate::callers::MIN_SERVICE;
use crate::handshake::Applicant;
use crate::secret::Secret;
use crate::terms::Limits;

const LIMIT: Duration = Duration::from_secs(60);

fn terms(size: u32) -> Terms {
    let secret = Secret::new(vec![7; 32]).unwrap();
    let limits = Limits { rendezvous: LIMIT, collective: LIMIT };
    Terms { rank: 0, size, parameters: String::new(), secret, limits }
}

fn listener() -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

fn connect(listener: &TcpListener) -> TcpStream {
    TcpStream::connect(listener.local_addr().unwrap()).unwrap()
}

/// Connects and lets the hub accept the connection.
fn call(hub: &mut Hub<'_>) -> TcpStream {
    let far = connect(hub.listener);
    let callers = hub.callers.len();
    while hub.callers.len() == callers {
        wait([hub.listener.into()], deadline(LIMIT)).unwrap();
        hub.open_door().unwrap();
    }
    far
}

/// Queues the first message of a member, and waits until it has arrived at caller `index`.
fn send_first_message(hub: &mut Hub<'_>, index: usize, far: TcpStream) -> Wire {
    let mut far = Wire::new(far).unwrap();
    Applicant::new(nonce().unwrap(), &hub.terms.secret, &mut far);
    far.push();
    let near = &*hub.callers[index].wire();
    assert_eq!(wait([near.into()], deadline(LIMIT)).unwrap(), [true]);
    far
}

/// The hub may be delayed between poll(2) and the eviction.
#[test]
fn a_member_whose_first_message_is_unread_is_not_evicted() {
    let (listener, terms) = (listener(), terms(2));
    let mut hub = Hub::new(&listener, &terms, deadline(LIMIT));
    let member = call(&mut hub);
    let _silent = call(&mut hub);
    let mut member = send_first_message(&mut hub, 0, member);
    thread::sleep(MIN_SERVICE);
    let place = hub.find_place().unwrap();
    assert!(matches!(place, Place::Of(1)), "the silent caller is evicted");
    hub.evict(&place);
    assert!(matches!(hub.find_place().unwrap(), Place::None));
    // The hub has answered.
    wait([(&member).into()], deadline(LIMIT)).unwrap();
    member.pump(RENDEZVOUS_BOUND);
    assert!(!member.closed && !member.incoming.is_empty());
}

#[test]
fn a_caller_that_has_left_is_a_free_place() {
    let (listener, terms) = (listener(), terms(2));
    let mut hub = Hub::new(&listener, &terms, deadline(LIMIT));
    let leaves = call(&mut hub);
    let _silent = call(&mut hub);
    drop(leaves);
    wait([(&*hub.callers[0].wire()).into()], deadline(LIMIT)).unwrap();
    thread::sleep(MIN_SERVICE);
    assert!(matches!(hub.find_place().unwrap(), Place::Free));
    assert_eq!((hub.callers.len(), hub.refusals.count(Refusal::Closed)), (1, 1));
}

#[test]
fn the_limit_of_open_files_includes_the_callers_if_possible() {
    const NEEDED: u64 = 100;
    const WANTED: u64 = NEEDED + MAX_CALLERS as u64;
    let raised = |current, maximum| raised_limit(NEEDED, current, maximum).ok();
    for (current, maximum, expected) in [
        (None, None, Some(None)),
        (Some(WANTED), Some(WANTED), Some(None)),
        (Some(WANTED - 1), None, Some(Some(WANTED))),
        // Enough for the ranks, not for the callers.
        (Some(NEEDED), Some(WANTED + 1), Some(Some(WANTED))),
        (Some(NEEDED), Some(WANTED - 1), Some(Some(WANTED - 1))),
        (Some(NEEDED), Some(NEEDED), Some(None)),
        (Some(NEEDED - 1), Some(NEEDED), Some(Some(NEEDED))),
        (Some(NEEDED - 1), Some(NEEDED - 1), None),
    ] {
        assert_eq!(raised(current, maximum), expected, "{current:?}, {maximum:?}");
    }
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

/// accept(2) fails with EMFILE then, even on an empty queue.
pub(crate) fn at_the_limit_no_caller_is_evicted_for_an_empty_queue() {
    let (listener, terms) = (listener(), terms(2));
    let mut hub = Hub::new(&listener, &terms, deadline(LIMIT));
    let _silent = call(&mut hub);
    thread::sleep(MIN_SERVICE);
    at_the_limit(|| hub.open_door()).unwrap();
    assert_eq!((hub.callers.len(), hub.refusals.total()), (1, 0));
    assert!(matches!(hub.missing(), JoinError::Missing { .. }));
}

pub(crate) fn at_the_limit_a_caller_is_evicted_for_a_waiting_connection() {
    let (listener, terms) = (listener(), terms(2));
    let mut hub = Hub::new(&listener, &terms, deadline(LIMIT));
    let _silent = call(&mut hub);
    let _waiting = connect(&listener);
    wait([(&listener).into()], deadline(LIMIT)).unwrap();
    thread::sleep(MIN_SERVICE);
    at_the_limit(|| hub.open_door()).unwrap();
    assert_eq!((hub.callers.len(), hub.refusals.count(Refusal::Evicted)), (1, 1));
    assert!(matches!(hub.missing(), JoinError::Missing { .. }));
}

/// The waiting connection may have been lost, or may have been accepted by then.
pub(crate) fn a_shortage_ends_when_no_connection_waits() {
    let (listener, terms) = (listener(), terms(2));
    let mut hub = Hub::new(&listener, &terms, deadline(LIMIT));
    let waiting = connect(&listener);
    wait([(&listener).into()], deadline(LIMIT)).unwrap();
    at_the_limit(|| hub.open_door()).unwrap();
    let Some(shortage) = &hub.shortage else { panic!("no file was lacking") };
    let again = shortage.again;
    drop(listener.accept().unwrap());
    drop(waiting);
    while Instant::now() < again {
        thread::sleep(TICK);
    }
    hub.turn().unwrap();
    assert!(matches!(hub.missing(), JoinError::Missing { .. }));
}
