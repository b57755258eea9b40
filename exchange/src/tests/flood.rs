//! A rendezvous among more strangers than rank 0 has places for pending connections. Each stranger
//! connects again as soon as it is dropped.

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};

use super::*;
use crate::coordinator::{LISTEN_BACKLOG, MAX_PENDING};

/// Twice the 5 s that a job of 4 ranks has to meet among these strangers: a busy machine took 1.2
/// s, and rank 0 without evictions 60 s.
const MEET_LIMIT: Duration = Duration::from_secs(10);

const STRANGERS: usize = 1000;

/// Connections of one thread to an address. The thread reopens each connection that the other side
/// drops.
struct Flood {
    over: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Flood {
    /// Starts strangers, each of which sends only its message of `messages`, in turn. Returns when all
    /// of them have tried to connect, and the other side has dropped one.
    fn start(address: SocketAddr, messages: Vec<Vec<u8>>) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let (stop, (ready, started)) = (over.clone(), mpsc::channel());
        let thread = thread::spawn(move || {
            let mut strangers: Vec<_> =
                (0..STRANGERS).map(|_| Stranger::connect(address)).collect();
            let mut reopened = 0;
            while !stop.load(Ordering::Relaxed) {
                reopened += reopen_dropped(&mut strangers, address, &messages);
                if reopened > 0 {
                    let _ = ready.send(());
                }
            }
            reopened
        });
        started.recv_timeout(LIMIT).unwrap();
        Self { over, thread }
    }

    /// Ends the flood, and returns how often a connection was reopened.
    fn end(self) -> u64 {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

struct Stranger {
    socket: OwnedFd,
    has_sent: bool,
}

impl Stranger {
    fn connect(address: SocketAddr) -> Self {
        let (family, flags) = (AddressFamily::INET, SocketFlags::NONBLOCK);
        let socket = socket_with(family, SocketType::STREAM, flags, None).unwrap();
        // Closing the socket leaves no port in TIME_WAIT.
        sockopt::set_socket_linger(&socket, Some(Duration::ZERO)).unwrap();
        match connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(errno) => panic!("a stranger cannot connect: {errno}"),
        }
        Self { socket, has_sent: false }
    }
}

/// Waits for events, and reopens the connections that were dropped.
fn reopen_dropped(strangers: &mut [Stranger], address: SocketAddr, messages: &[Vec<u8>]) -> u64 {
    let asked = |stranger: &Stranger| {
        if stranger.has_sent { PollFlags::RDHUP } else { PollFlags::RDHUP | PollFlags::OUT }
    };
    let mut fds: Vec<_> =
        strangers.iter().map(|stranger| PollFd::new(&stranger.socket, asked(stranger))).collect();
    let timeout = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    poll(&mut fds, Some(&timeout)).unwrap();
    let events: Vec<_> = fds.iter().map(PollFd::revents).collect();
    let mut reopened = 0;
    let messages = messages.iter().cycle();
    for ((stranger, events), message) in strangers.iter_mut().zip(events).zip(messages) {
        if events.intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR) {
            *stranger = Stranger::connect(address);
            reopened += 1;
        } else if events.contains(PollFlags::OUT) {
            let _ = rustix::io::write(&stranger.socket, message);
            stranger.has_sent = true;
        }
    }
    reopened
}

/// A quarter of the strangers is silent, one sends a part of a first message, one a forged first
/// message, and one, which observes the network, a copy of a member's. Without evictions the silent ones
/// would hold their places for five seconds each, and the ranks would time out first.
#[test]
fn ranks_meet_among_thousand_strangers() {
    allow_files(STRANGERS + MAX_PENDING);
    let forged = forged_first_message();
    let partial = forged[..forged.len() - 1].to_vec();
    let messages = vec![vec![], partial, forged, first_message(&spec(1, 4))];
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // The strangers may connect before rank 0 makes the listen queue longer.
    rustix::net::listen(&listener, LISTEN_BACKLOG.cast_signed()).unwrap();
    let address = listener.local_addr().unwrap();
    let rank_0 = thread::spawn(move || admit_ranks(&listener, &spec(0, 4), &mut || Ok(())));
    let flood = Flood::start(address, messages);
    let start = Instant::now();
    let members = [1, 2, 3].map(|rank| start_member(address, spec(rank, 4)));
    let met = members.map(|joining| joining.join().unwrap());
    let took = start.elapsed();
    let reopened = flood.end();
    println!(
        "4 ranks met in {took:?} among {STRANGERS} strangers, which reconnected {reopened} times"
    );
    for rank in met.into_iter().chain([rank_0.join().unwrap()]) {
        rank.unwrap();
    }
    assert!(took < MEET_LIMIT, "{took:?}");
}
