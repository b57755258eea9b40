//! A non-blocking TCP stream with a buffer each way, and waiting on many of them at once.

use core::mem;
use core::net::{IpAddr, Ipv6Addr};
use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt;

/// A machine that vanishes without a word is noticed after about `KEEPALIVE_IDLE` plus
/// `KEEPALIVE_PROBES` times `KEEPALIVE_INTERVAL`: 25 s outlive a switch that reboots its port.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_PROBES: u32 = 3;

/// Bytes moved by one read.
const READ_BYTES: usize = 16 * 1024;

/// A stream whose reads and writes never block.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: TcpStream,
    /// Received and not yet taken.
    pub(crate) incoming: Vec<u8>,
    /// Ranges of buffers to be sent before `outgoing`; other wires may share them.
    ahead: VecDeque<(Arc<Vec<u8>>, Range<usize>)>,
    /// To be sent.
    pub(crate) outgoing: Vec<u8>,
    /// The other side has closed or reset the connection, or sent far more than it may.
    pub(crate) closed: bool,
}

impl Wire {
    /// # Errors
    /// The system's, if the socket takes no options: it is already dead.
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, KEEPALIVE_IDLE)?;
        sockopt::set_tcp_keepintvl(&stream, KEEPALIVE_INTERVAL)?;
        sockopt::set_tcp_keepcnt(&stream, KEEPALIVE_PROBES)?;
        let (incoming, ahead, outgoing) = (Vec::new(), VecDeque::new(), Vec::new());
        Ok(Self { stream, incoming, ahead, outgoing, closed: false })
    }

    /// Queues a range of a buffer for sending, without a copy.
    pub(crate) fn share(&mut self, bytes: Arc<Vec<u8>>, range: Range<usize>) {
        let before = mem::take(&mut self.outgoing);
        let all = 0..before.len();
        self.ahead.extend([(Arc::new(before), all), (bytes, range)]);
    }

    /// Whether bytes are unsent and the other side has not closed.
    pub(crate) fn has_unsent(&self) -> bool {
        let nothing = self.ahead.is_empty() && self.outgoing.is_empty();
        !(self.closed || nothing)
    }

    #[cfg(test)]
    pub(crate) fn sends_at_once(&self) -> bool {
        self.stream.nodelay().unwrap()
    }

    /// Bytes of this wire's own buffers; shared buffers are added to `shared`.
    #[cfg(test)]
    pub(crate) fn buffers(
        &self,
        shared: &mut std::collections::HashMap<*const Vec<u8>, usize>,
    ) -> usize {
        shared.extend(self.ahead.iter().map(|(bytes, _)| (Arc::as_ptr(bytes), bytes.capacity())));
        self.incoming.capacity() + self.outgoing.capacity()
    }

    /// Moves what can be moved now. Reading stops, for good, once more than `bound` bytes wait to
    /// be taken: no honest peer sends more than it was asked for.
    pub(crate) fn pump(&mut self, bound: usize) {
        self.push();
        self.pull(bound);
    }

    /// Sends as much as possible without waiting.
    pub(crate) fn push(&mut self) {
        while self.has_unsent() {
            let front = match self.ahead.front() {
                Some((bytes, range)) => bytes.get(range.clone()).unwrap_or_default(),
                None => &self.outgoing,
            };
            if front.is_empty() {
                self.ahead.pop_front();
                continue;
            }
            match self.stream.write(front) {
                Ok(0) => self.closed = true,
                Ok(sent) => self.forget(sent),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // What arrived before the reset is still to be read.
                Err(_) => {
                    self.ahead.clear();
                    self.outgoing.clear();
                }
            }
        }
    }

    /// Removes `sent` bytes from the front of the unsent bytes.
    fn forget(&mut self, sent: usize) {
        match self.ahead.front_mut() {
            Some((_, range)) => range.start += sent,
            None => drop(self.outgoing.drain(..sent)),
        }
    }

    fn pull(&mut self, bound: usize) {
        let mut bytes = [0; READ_BYTES];
        while !self.closed {
            match self.stream.read(&mut bytes) {
                Ok(0) => self.closed = true,
                Ok(read) => self.incoming.extend_from_slice(&bytes[..read]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.closed = true,
            }
            self.closed |= self.incoming.len() > bound;
        }
    }

    /// Takes `N` bytes off the front, once they are all there.
    pub(crate) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let taken = *self.incoming.first_chunk()?;
        self.incoming.drain(..N);
        Some(taken)
    }

    /// Says that nothing more will be sent, keeping the other direction open: closing while
    /// unread bytes are there would reset the connection and lose what the peer has yet to read.
    pub(crate) fn finish(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// The address of the other side; unspecified after the connection was lost.
    pub(crate) fn peer(&self) -> IpAddr {
        self.stream.peer_addr().map_or(Ipv6Addr::UNSPECIFIED.into(), |address| address.ip())
    }

    /// Whether this stream is connected to itself, which TCP does when it dials a local port that
    /// nobody listens at and happens to be given that very port to dial from.
    pub(crate) fn is_own_echo(&self) -> bool {
        matches!((self.stream.local_addr(), self.stream.peer_addr()), (Ok(a), Ok(b)) if a == b)
    }
}

/// Something to wait for: readable, or writable too.
pub(crate) struct Interest<'a>(BorrowedFd<'a>, PollFlags);

impl<'a> From<&'a Wire> for Interest<'a> {
    /// A closed wire is never ready: there is nothing more to wait for.
    fn from(wire: &'a Wire) -> Self {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, !wire.closed);
        flags.set(PollFlags::OUT, wire.has_unsent());
        Self(wire.stream.as_fd(), flags)
    }
}

impl<'a> From<&'a TcpListener> for Interest<'a> {
    fn from(listener: &'a TcpListener) -> Self {
        Self(listener.as_fd(), PollFlags::IN)
    }
}

/// Sleeps until something of `interests` is ready or `until` has come; says which are ready.
///
/// # Errors
/// The system's.
pub(crate) fn wait<'a>(
    interests: impl IntoIterator<Item = Interest<'a>>,
    until: Instant,
) -> io::Result<Vec<bool>> {
    let interests: Vec<_> = interests.into_iter().collect();
    // poll(2) reports a hang-up even where nothing is asked, so what is closed is left out.
    let asked = |interest: &&Interest<'_>| !interest.1.is_empty();
    let mut fds: Vec<_> = interests
        .iter()
        .filter(asked)
        .map(|Interest(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags))
        .collect();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    let mut events = fds.iter().map(|fd| !fd.revents().is_empty());
    Ok(interests
        .iter()
        .map(|interest| asked(&interest) && events.next().unwrap_or(false))
        .collect())
}
