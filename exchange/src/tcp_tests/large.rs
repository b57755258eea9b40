//! The largest job in one process: rank 0 in one thread, all other ranks in another.

use std::net::TcpStream;

use super::*;
use crate::frame::Channel;
use crate::handshake::Session;
use crate::link::{Link, MAX_ALL_TO_ALL_BYTES};
use crate::terms::MAX_RANKS;
use crate::wire::{Wire, wait};

/// Both ends of each connection are in this process.
pub(crate) const FILES: usize = 2 * MAX_RANKS as usize;

/// The minimum that a rank of `verbs` sends to all others: addresses, keys and sizes.
const RECORD_BYTES: usize = 96;
/// What a rank of `verbs` sends to each other rank: the number of a queue pair.
const NUMBER_BYTES: usize = 4;

/// Rank 0, and the other ranks' links to it.
fn star(size: u32) -> (Tcp, Vec<Link>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let link = |owner, stream, [send, receive]: [u8; 2]| {
        let [send, receive] = [send, receive].map(|key| Channel::new(&[key; 32]));
        Link::new(Owner(owner), Wire::new(stream).unwrap(), Session { send, receive })
    };
    let (mut near, mut far) = (Vec::new(), Vec::new());
    for rank in 1..size {
        far.push(link(0, TcpStream::connect(address).unwrap(), [1, 2]));
        near.push(link(rank, listener.accept().unwrap().0, [2, 1]));
    }
    let secret = Secret::new(vec![7; 32]).unwrap();
    let limits = Limits { rendezvous: LIMIT, collective: 5 * LIMIT };
    let terms = Terms { rank: 0, size, parameters: String::new(), secret, limits };
    (Tcp::new(&terms, near), far)
}

/// The number that `from` sends to `to`.
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
    [gift, result]: [Kind; 2],
    gift_of: impl Fn(u32) -> Vec<u8>,
    expected: impl Fn(u32) -> Vec<u8>,
) {
    for (rank, link) in (1..).zip(&mut *links) {
        link.send(gift, &gift_of(rank));
        link.push();
    }
    let until = Instant::now() + 5 * LIMIT;
    let mut missing = links.len();
    while missing > 0 {
        assert!(Instant::now() < until);
        let ready = wait(links.iter().map(|link| (&link.wire).into()), until).unwrap();
        for (rank, (link, _)) in
            (1..).zip(links.iter_mut().zip(ready)).filter(|(_, (_, ready))| *ready)
        {
            link.push();
            if let Some(frame) = link.receive().unwrap() {
                assert!(frame.kind == result && frame.payload == expected(rank));
                missing -= 1;
            }
        }
    }
}

/// A copy of the result for each rank would be 1.6 GB.
pub(crate) fn the_largest_job_exchanges_its_connection_information() {
    let (mut hub, mut links) = star(MAX_RANKS);
    let others = thread::spawn(move || {
        let all = records();
        play(&mut links, [Kind::Give, Kind::Result], |rank| record(rank).to_vec(), |_| all.clone());
        play(&mut links, [Kind::GiveParts, Kind::Parts], numbers_from, numbers_to);
        links
    });
    let start = Instant::now();
    let mut all = vec![0; RECORD_BYTES * MAX_RANKS as usize];
    hub.all_gather(&record(0), &mut all).unwrap();
    assert!(all == records());
    let gathered = hub.most_buffered;
    let mut theirs = vec![0; NUMBER_BYTES * MAX_RANKS as usize];
    hub.all_to_all(&numbers_from(0), &mut theirs).unwrap();
    assert!(theirs == numbers_to(0));
    let _links = others.join().unwrap();
    println!(
        "{MAX_RANKS} ranks in {:?}; rank 0 buffered {gathered} bytes to gather, {} in all",
        start.elapsed(),
        hub.most_buffered
    );
    // One copy of the result, and some hundred bytes of frames for each link.
    assert!(gathered <= all.len() + 8192 * MAX_RANKS as usize, "{gathered}");
    // The parts themselves; and, at worst, receive buffers of twice that size, because vectors
    // double.
    assert!(hub.most_buffered <= 3 * MAX_ALL_TO_ALL_BYTES, "{}", hub.most_buffered);
}
