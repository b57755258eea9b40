//! The largest job in one process: rank 0 in one thread, and all other ranks in another.

use std::collections::HashMap;
use std::sync::Arc;

use probeline_transport::Call;
use rustix::net::sockopt;

use super::*;
use crate::handshake::tests::sessions;
use crate::limits::{MAX_ALL_TO_ALL_BYTES, MAX_RANKS, MAX_RESULT_BYTES};
use crate::link::wait_for;
use crate::tcp::contribution;

/// The minimum number of bytes that a rank of `verbs` sends to all others: addresses, keys and
/// sizes.
const RECORD_BYTES: usize = 96;
/// The number of bytes that a rank of `verbs` sends to each other rank: the number of a queue pair.
const NUMBER_BYTES: usize = 4;

impl Job {
    /// Records the size of all links' buffers in bytes; shared buffers count once.
    pub(crate) fn note_buffers(&mut self) {
        let mut shared = HashMap::new();
        let mut bytes = 0;
        for Link { socket, unsent, received, .. } in &self.links {
            shared.extend(unsent.iter().map(|(bytes, _)| (Arc::as_ptr(bytes), bytes.capacity())));
            bytes += received.capacity() + socket.incoming.capacity() + socket.outgoing.capacity();
        }
        bytes += shared.values().sum::<usize>();
        self.max_buffered = self.max_buffered.max(bytes);
    }
}

/// Returns rank 0, and the other ranks' links to it.
fn star(size: u32) -> (Job, Vec<Link>) {
    let (listener, address) = listen();
    let link = |owner, stream, session| {
        let socket = Socket::new(stream).unwrap();
        // Keep-alive probes of all idle connections at a time may overflow the queue of the loopback interface.
        sockopt::set_socket_keepalive(&socket.stream, false).unwrap();
        Link::new(Owner(owner), socket, session)
    };
    let (mut near, mut far) = (Vec::new(), Vec::new());
    for rank in 1..size {
        let [member, rank_0] = sessions();
        far.push(link(0, TcpStream::connect(address).unwrap(), member));
        near.push(link(rank, listener.accept().unwrap().0, rank_0));
    }
    let mut spec = spec(0, size);
    spec.limits.collective = 5 * LIMIT;
    far.iter_mut().for_each(|link| link.max_payload = MAX_RESULT_BYTES);
    (Job::new(&spec, near), far)
}

/// Returns the number that `from` sends to `to`.
fn number(from: u32, to: u32) -> [u8; NUMBER_BYTES] {
    (from << 12 | to).to_le_bytes()
}

fn record(rank: u32) -> [u8; RECORD_BYTES] {
    let mut record = [rank.to_le_bytes()[0]; RECORD_BYTES];
    record[..4].copy_from_slice(&rank.to_le_bytes());
    record
}

fn records() -> Vec<u8> {
    (0..MAX_RANKS).flat_map(record).collect()
}

fn numbers_from(from: u32) -> Vec<u8> {
    (0..MAX_RANKS).flat_map(|to| number(from, to)).collect()
}

fn numbers_to(to: u32) -> Vec<u8> {
    (0..MAX_RANKS).flat_map(|from| number(from, to)).collect()
}

/// Makes one call of all ranks except rank 0, and checks their results.
fn play(
    links: &mut [Link],
    call: Call,
    contribution_of: impl Fn(u32) -> Vec<u8>,
    expected: impl Fn(u32) -> Vec<u8>,
) {
    for (rank, link) in (1..).zip(&mut *links) {
        link.send(Kind::Contribution, &contribution(call, &contribution_of(rank)));
        link.pump();
    }
    let until = Instant::now() + 5 * LIMIT;
    let mut missing = links.len();
    while missing > 0 {
        assert!(Instant::now() < until);
        let ready = wait_for(links, until).unwrap();
        for (rank, (link, _)) in
            (1..).zip(links.iter_mut().zip(ready)).filter(|(_, (_, ready))| *ready)
        {
            link.pump();
            if let Some(frame) = link.receive().unwrap() {
                assert!(frame.kind == Kind::Result && frame.payload == expected(rank));
                missing -= 1;
            }
        }
    }
}

/// A copy of the result for each rank would be 1.6 GB.
#[test]
fn exchanges_in_largest_job() {
    // Both sides of each connection are in this process.
    allow_files(2 * MAX_RANKS as usize);
    let (mut rank_0, mut links) = star(MAX_RANKS);
    let others = thread::spawn(move || {
        let all = records();
        let [gather, exchange] = [("all_gather", 1), ("all_to_all", 2)]
            .map(|(name, number)| Call::new(name).numbered(number));
        play(&mut links, gather, |rank| record(rank).to_vec(), |_| all.clone());
        play(&mut links, exchange, numbers_from, numbers_to);
        links
    });
    let start = Instant::now();
    let mut all = vec![0; RECORD_BYTES * MAX_RANKS as usize];
    rank_0.all_gather(&record(0), &mut all).unwrap();
    assert!(all == records());
    let gathered = rank_0.max_buffered;
    let mut theirs = vec![0; NUMBER_BYTES * MAX_RANKS as usize];
    rank_0.all_to_all(&numbers_from(0), &mut theirs).unwrap();
    assert!(theirs == numbers_to(0));
    let _links = others.join().unwrap();
    println!(
        "{MAX_RANKS} ranks in {:?}; rank 0 buffered {gathered} bytes to gather, {} in all",
        start.elapsed(),
        rank_0.max_buffered
    );
    // One copy of the result, and some hundred bytes of frames on each link.
    assert!(gathered <= all.len() + 8192 * MAX_RANKS as usize, "{gathered}");
    // The parts, and receive buffers of at most twice that size, because vectors double their
    // capacity.
    assert!(rank_0.max_buffered <= 3 * MAX_ALL_TO_ALL_BYTES, "{}", rank_0.max_buffered);
}
