//! A non-blocking TCP stream with a buffer for each direction, and waiting on several sockets.

use core::time::Duration;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt;

/// The idle time before the first TCP keep-alive probe. TCP reports a machine that disappears after
/// about 25 s (idle time plus probes times interval), longer than a switch needs to reset a port.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_PROBES: u32 = 3;

/// The number of bytes that one read requests.
const READ_BYTES: usize = 16 * 1024;

/// A stream whose reads and writes never block.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) stream: TcpStream,
    /// Bytes received and not yet taken.
    pub(crate) incoming: Vec<u8>,
    /// Bytes to be sent.
    pub(crate) outgoing: Vec<u8>,
    /// The peer has closed or reset the connection, or sent more than it may.
    pub(crate) closed: bool,
    /// A write has failed; received bytes may still be unread.
    write_failed: bool,
}

impl Socket {
    /// Makes `stream` non-blocking and sets its options.
    ///
    /// # Errors
    /// The options cannot be set, for example because the connection is lost.
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, KEEPALIVE_IDLE)?;
        sockopt::set_tcp_keepintvl(&stream, KEEPALIVE_INTERVAL)?;
        sockopt::set_tcp_keepcnt(&stream, KEEPALIVE_PROBES)?;
        let (incoming, outgoing) = (Vec::new(), Vec::new());
        Ok(Self { stream, incoming, outgoing, closed: false, write_failed: false })
    }

    /// Returns whether the peer can receive bytes, as far as is known.
    pub(crate) fn can_send(&self) -> bool {
        !(self.closed || self.write_failed)
    }

    /// Returns whether bytes wait to be sent and the peer can receive them.
    pub(crate) fn has_unsent(&self) -> bool {
        self.can_send() && !self.outgoing.is_empty()
    }

    /// Sends and receives as much as possible without waiting; see [`pull`](Self::pull).
    pub(crate) fn pump(&mut self, max_unread: usize) {
        self.push();
        self.pull(max_unread);
    }

    /// Sends as much as possible without waiting.
    pub(crate) fn push(&mut self) {
        while self.has_unsent() {
            match self.stream.write(&self.outgoing) {
                Ok(0) => self.closed = true,
                Ok(sent) => drop(self.outgoing.drain(..sent)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.write_failed = true;
                    self.outgoing.clear();
                }
            }
        }
    }

    /// Receives as much as possible without waiting. Closes the connection once more than
    /// `max_unread` bytes are unread: no correct peer sends so much without an answer.
    pub(crate) fn pull(&mut self, max_unread: usize) {
        let mut bytes = [0; READ_BYTES];
        while !self.closed {
            match self.stream.read(&mut bytes) {
                Ok(0) => self.closed = true,
                Ok(read) => self.incoming.extend_from_slice(&bytes[..read]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.closed = true,
            }
            self.closed |= self.incoming.len() > max_unread;
        }
    }

    /// Takes `N` bytes off the front, once all of them have arrived.
    pub(crate) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let taken = *self.incoming.first_chunk()?;
        self.incoming.drain(..N);
        Some(taken)
    }

    /// Returns whether this stream is connected to itself. TCP does that if a connection to a
    /// local port without a listener gets that same port as its source port.
    pub(crate) fn is_connected_to_itself(&self) -> bool {
        matches!((self.stream.local_addr(), self.stream.peer_addr()), (Ok(a), Ok(b)) if a == b)
    }

    /// Returns the events to wait for: readable, and writable if bytes wait to be sent. A closed
    /// socket has no more events.
    pub(crate) fn interest(&self, has_unsent: bool) -> Interest<'_> {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, !self.closed);
        flags.set(PollFlags::OUT, has_unsent);
        Interest(self.stream.as_fd(), flags)
    }
}

/// A descriptor and the events to wait for.
pub(crate) struct Interest<'a>(BorrowedFd<'a>, PollFlags);

impl<'a> From<&'a Socket> for Interest<'a> {
    fn from(socket: &'a Socket) -> Self {
        socket.interest(socket.has_unsent())
    }
}

impl<'a> From<&'a TcpListener> for Interest<'a> {
    fn from(listener: &'a TcpListener) -> Self {
        Self(listener.as_fd(), PollFlags::IN)
    }
}

/// The time for which a wait asks again and again before it sleeps. Ranks that do the same work come to a call within
/// it; to wake a process on an idle CPU takes some 50 us.
const AWAKE: Duration = Duration::from_micros(200);

/// Waits for an event of `interests`, or until `until`. Returns which of them have an event. Sleeps after
/// 200 us, and before that lets others that want the CPU have it.
///
/// # Errors
/// The error of poll(2).
pub(crate) fn wait<'a>(
    interests: impl IntoIterator<Item = Interest<'a>>,
    until: Instant,
) -> io::Result<Vec<bool>> {
    let interests: Vec<_> = interests.into_iter().collect();
    // poll(2) reports a hang-up even without a requested event, so closed sockets are left out.
    let is_polled = |interest: &&Interest<'_>| !interest.1.is_empty();
    let mut fds: Vec<_> = interests
        .iter()
        .filter(is_polled)
        .map(|Interest(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags))
        .collect();
    let sleep_at = until.min(Instant::now() + AWAKE);
    loop {
        let now = Instant::now();
        let left =
            if now < sleep_at { Duration::ZERO } else { until.saturating_duration_since(now) };
        let timeout = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) if now < sleep_at => thread::yield_now(),
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    let mut events = fds.iter().map(|fd| !fd.revents().is_empty());
    Ok(interests
        .iter()
        .map(|interest| is_polled(&interest) && events.next().unwrap_or(false))
        .collect())
}
