//! Connections to rank 0 that have not joined yet: the limit on their number, and the choice of the
//! one to evict for a newer one.
//!
//! Strangers may connect any number of times. The number of pending connections is therefore
//! limited, and strangers cannot lower the rate at which the listen queue is drained. A connection
//! is *unproved* until its first message has arrived: creating that message requires the secret,
//! and a member sends it immediately. When the limit is reached, an unproved connection older than
//! [`MIN_SERVICE`] is evicted: the oldest one of the address with the most unproved connections.
//! Proved connections are not evicted.

use core::cmp::Reverse;
use core::net::{IpAddr, Ipv6Addr};
use core::time::Duration;
use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::JoinError;
use crate::link::Link;
use crate::socket::Socket;

/// The maximum number of pending connections; further ones wait in the listen queue. This bounds
/// the sockets and buffers that strangers can make rank 0 hold.
pub(crate) const MAX_PENDING: usize = MAX_PENDING_U32 as usize;
const MAX_PENDING_U32: u32 = 256;

/// An unproved connection cannot be evicted before this time. The first message of a member usually
/// arrives before its connection is accepted; this time allows for members that the scheduler
/// delays.
pub(crate) const MIN_SERVICE: Duration = Duration::from_millis(50);

/// The length of the listen queue; the system may limit it further (somaxconn).
pub(crate) const LISTEN_BACKLOG: u32 = 4096;

/// The maximum time to accept a full listen queue of strangers: each is pending for
/// [`MIN_SERVICE`], and again for [`MIN_SERVICE`] after it was refused.
pub(crate) const DRAIN_LIMIT: Duration =
    MIN_SERVICE.saturating_mul(2 * LISTEN_BACKLOG.div_ceil(MAX_PENDING_U32));

/// Descriptors that rank 0 needs in addition to those of the ranks.
const SPARE_DESCRIPTORS: u64 = 16;

/// A connection that has not joined.
pub(crate) struct Pending {
    since: Instant,
    /// The deadline of the current stage.
    pub(crate) until: Instant,
    source: Source,
    pub(crate) stage: Stage,
}

pub(crate) enum Stage {
    /// The first message has not arrived.
    Handshake(Socket),
    /// The peer knows the secret, and has to name its rank.
    Joining(Link),
    /// The peer was refused; its connection stays open until it has received the refusal.
    Refused(Socket),
}

/// The origin of a connection: an IPv4 address, or the first half of an IPv6 address, because a
/// machine may use any address of its /64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Source(IpAddr);

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
            v4 => v4,
        })
    }
}

impl Pending {
    /// A connection whose stage begins now.
    pub(crate) fn new(until: Instant, mut stage: Stage) -> Self {
        let source = Source::from(stage.socket().peer());
        Self { since: Instant::now(), until, source, stage }
    }

    pub(crate) fn socket(&mut self) -> &mut Socket {
        self.stage.socket()
    }

    fn is_unproved(&self) -> bool {
        !matches!(self.stage, Stage::Joining(_))
    }

    fn evictable_from(&self) -> Instant {
        self.since + MIN_SERVICE
    }

    pub(crate) fn is_evictable(&self, now: Instant) -> bool {
        self.is_unproved() && self.evictable_from() <= now
    }
}

impl Stage {
    fn socket(&mut self) -> &mut Socket {
        match self {
            Self::Handshake(socket) | Self::Refused(socket) => socket,
            Self::Joining(link) => &mut link.socket,
        }
    }
}

/// The index of the connection to evict for a new one.
pub(crate) fn victim(pending: &[Pending], now: Instant) -> Option<usize> {
    let mut of_source = BTreeMap::new();
    let unproved = pending.iter().filter(|one| one.is_unproved());
    unproved.for_each(|one| *of_source.entry(one.source).or_insert(0_usize) += 1);
    let evictable = pending.iter().enumerate().filter(|(_, one)| one.is_evictable(now));
    evictable
        .max_by_key(|(_, one)| (of_source.get(&one.source), Reverse(one.since)))
        .map(|(index, _)| index)
}

/// The earliest time at which one of `pending` may be evicted; `None` if all are proved.
pub(crate) fn next_eviction(pending: &[Pending]) -> Option<Instant> {
    pending.iter().filter(|one| one.is_unproved()).map(Pending::evictable_from).min()
}

/// Raises the soft limit of open files, if it is too low for a socket to each other rank of `size`
/// and for [`MAX_PENDING`] connections, as far as the hard limit permits.
///
/// # Errors
/// [`JoinError::OpenFiles`] if the hard limit is too low for the ranks.
pub(crate) fn raise_descriptor_limit(size: u32) -> Result<(), JoinError> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let open = fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64);
    let needed = open + u64::from(size) + SPARE_DESCRIPTORS;
    let Some(raised) = raised_limit(needed, current, maximum)? else { return Ok(()) };
    let limit = Rlimit { current: Some(raised), maximum };
    match setrlimit(Resource::Nofile, limit) {
        Err(errno) if current.is_some_and(|limit| limit < needed) => {
            Err(JoinError::system("raising the limit of open files")(errno))
        }
        // Without the increase, connections are evicted sooner.
        _ => Ok(()),
    }
}

/// The new soft limit of open files; `None` if the soft limit `current` is high enough. `None` as
/// a limit means unlimited.
fn raised_limit(
    needed: u64,
    current: Option<u64>,
    maximum: Option<u64>,
) -> Result<Option<u64>, JoinError> {
    let wanted = needed + MAX_PENDING as u64;
    let Some(current) = current.filter(|limit| *limit < wanted) else { return Ok(None) };
    let raised = maximum.map_or(wanted, |limit| limit.min(wanted));
    if raised < needed {
        return Err(JoinError::OpenFiles { needed, limit: raised });
    }
    Ok(Some(raised).filter(|raised| *raised > current))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use probeline_transport::Owner;

    use super::*;
    use crate::handshake::tests::sessions;

    const LATER: Duration = Duration::from_secs(5);

    /// A connection from `source`. Its first message has arrived if `proved`.
    fn pending(source: u32, proved: bool) -> (Pending, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = Socket::new(listener.accept().unwrap().0).unwrap();
        let stage = if proved {
            let [_, session] = sessions();
            Stage::Joining(Link::new(Owner(0), socket, session))
        } else {
            Stage::Handshake(socket)
        };
        let mut pending = Pending::new(Instant::now() + LATER, stage);
        pending.source = Source::from(IpAddr::from(source.to_be_bytes()));
        (pending, far)
    }

    /// The order in which unproved connections from these sources are evicted.
    fn order(sources: &[u32]) -> Vec<usize> {
        let (mut connections, _far): (Vec<_>, Vec<_>) =
            sources.iter().map(|source| pending(*source, false)).unzip();
        let mut indices: Vec<_> = (0..sources.len()).collect();
        let now = Instant::now() + MIN_SERVICE;
        core::iter::from_fn(|| {
            let index = victim(&connections, now)?;
            connections.remove(index);
            Some(indices.remove(index))
        })
        .collect()
    }

    #[test]
    fn the_oldest_connection_of_the_busiest_address_is_evicted() {
        assert_eq!(order(&[1, 1, 1, 1]), [0, 1, 2, 3]);
        assert_eq!(order(&[1, 2, 2, 3, 2, 3]), [1, 2, 3, 0, 4, 5]);
        assert_eq!(order(&[]), []);
    }

    #[test]
    fn no_connection_is_evicted_before_its_minimum_service() {
        let (pending, _far) = pending(1, false);
        let (since, pending) = (pending.since, [pending]);
        assert_eq!(victim(&pending, since + MIN_SERVICE - Duration::from_nanos(1)), None);
        assert_eq!(next_eviction(&pending), Some(since + MIN_SERVICE));
        assert_eq!(victim(&pending, since + MIN_SERVICE), Some(0));
    }

    #[test]
    fn proved_connections_are_not_evicted() {
        let (pending, _far): (Vec<_>, Vec<_>) = [(1, true), (1, true), (2, false)]
            .map(|(source, proved)| pending(source, proved))
            .into_iter()
            .unzip();
        assert_eq!(victim(&pending, Instant::now() + LATER), Some(2));
        assert_eq!(victim(&pending[..2], Instant::now() + LATER), None);
        assert_eq!(next_eviction(&pending[..2]), None);
    }

    #[test]
    fn a_source_is_an_ipv4_address_or_half_an_ipv6_address() {
        let source = |text: &str| Source::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(source("10.0.0.1"), source("::ffff:10.0.0.1"));
        assert_ne!(source("10.0.0.1"), source("10.0.0.2"));
        assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:0:0:2"));
        assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
    }

    #[test]
    fn the_limit_of_open_files_includes_pending_connections_if_possible() {
        const NEEDED: u64 = 100;
        const WANTED: u64 = NEEDED + MAX_PENDING as u64;
        let raised = |current, maximum| raised_limit(NEEDED, current, maximum).ok();
        for (current, maximum, expected) in [
            (None, None, Some(None)),
            (Some(WANTED), Some(WANTED), Some(None)),
            (Some(WANTED - 1), None, Some(Some(WANTED))),
            // Enough for the ranks, not for the pending connections.
            (Some(NEEDED), Some(WANTED + 1), Some(Some(WANTED))),
            (Some(NEEDED), Some(WANTED - 1), Some(Some(WANTED - 1))),
            (Some(NEEDED), Some(NEEDED), Some(None)),
            (Some(NEEDED - 1), Some(NEEDED), Some(Some(NEEDED))),
            (Some(NEEDED - 1), Some(NEEDED - 1), None),
        ] {
            assert_eq!(raised(current, maximum), expected, "{current:?}, {maximum:?}");
        }
    }
}
