//! A rendezvous among more strangers than rank 0 has places for pending connections. Each stranger
//! connects again as soon as it is dropped.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use rustix::net::sockopt;

use super::*;
use crate::coordinator::{LISTEN_BACKLOG, MAX_PENDING};

/// Twice the 5 s that a job of 4 ranks has to meet among these strangers: a busy machine took 1.2
/// s, and rank 0 without evictions 60 s.
const MEET_LIMIT: Duration = Duration::from_secs(10);

const STRANGERS: usize = 1000;

/// Holds [`STRANGERS`] connections until `over`, each of which sends only its message of `messages`, in turn.
/// Connects again those that the other side drops, and counts them.
fn flood(address: SocketAddr, messages: &[Vec<u8>], over: &AtomicBool, reconnected: &AtomicU64) {
    let mut strangers: Vec<_> = (0..STRANGERS).map(|_| None).collect();
    while !over.load(Relaxed) {
        for (stranger, message) in strangers.iter_mut().zip(messages.iter().cycle()) {
            let is_open = |mut stream: &TcpStream| match stream.read(&mut [0; 128]) {
                Ok(read) => read > 0,
                Err(error) => error.kind() == ErrorKind::WouldBlock,
            };
            if stranger.as_ref().is_some_and(is_open) {
                continue;
            }
            reconnected.fetch_add(u64::from(stranger.is_some()), Relaxed);
            // A full listen queue does not answer.
            *stranger = TcpStream::connect_timeout(&address, SECOND / 100).ok();
            if let Some(mut stream) = stranger.as_ref() {
                // Closing the socket leaves no port in TIME_WAIT.
                sockopt::set_socket_linger(stream, Some(Duration::ZERO)).unwrap();
                stream.set_nonblocking(true).unwrap();
                let _ = stream.write_all(message);
            }
        }
    }
}

/// A quarter of the strangers is silent, one sends a part of a first message, one a forged first
/// message, and one, which observes the network, a copy of a member's. Without evictions the silent ones
/// would hold their places for five seconds each, and the ranks would time out first.
#[test]
fn meets_among_thousand_strangers() {
    allow_files(STRANGERS + MAX_PENDING);
    let forged = forged_first_message();
    let partial = forged[..forged.len() - 1].to_vec();
    let messages = vec![vec![], partial, forged, first_message(&spec(1, 4))];
    let (listener, address) = listen();
    // The strangers may connect before rank 0 makes the listen queue longer.
    rustix::net::listen(&listener, LISTEN_BACKLOG.cast_signed()).unwrap();
    let rank_0 = thread::spawn(move || admit_ranks(&listener, &spec(0, 4), &mut || Ok(())));
    let (over, reconnected) = (AtomicBool::new(false), AtomicU64::new(0));
    let (met, took) = thread::scope(|scope| {
        scope.spawn(|| flood(address, &messages, &over, &reconnected));
        let start = Instant::now();
        while reconnected.load(Relaxed) == 0 {
            assert!(start.elapsed() < LIMIT, "no stranger was dropped");
            thread::sleep(SECOND / 100);
        }
        let start = Instant::now();
        let members = [1, 2, 3].map(|rank| start_member(address, spec(rank, 4)));
        let met = members.map(|joining| joining.join().unwrap());
        over.store(true, Relaxed);
        (met, start.elapsed())
    });
    println!(
        "4 ranks met in {took:?} among {STRANGERS} strangers, which reconnected {reconnected:?} times"
    );
    for rank in met.into_iter().chain([rank_0.join().unwrap()]) {
        rank.unwrap();
    }
    assert!(took < MEET_LIMIT, "{took:?}");
}
