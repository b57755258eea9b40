//! Connections to rank 0 that are not members yet, and which of them is evicted for a newer one.
//!
//! Strangers may connect any number of times. The number of connections is therefore limited, and
//! strangers cannot lower the rate at which the listen queue is drained. A connection is *unproved*
//! until its first message has arrived: creating that message requires the secret, and a member
//! sends it immediately. A copy of an earlier first message proves nothing. When the limit is
//! reached, an unproved connection older than [`MIN_SERVICE`] is evicted: the oldest one of the
//! address with the most unproved connections. Proved connections are not evicted.

use core::net::{IpAddr, Ipv6Addr};
use core::time::Duration;
use std::collections::BTreeMap;
use std::time::Instant;

use crate::handshake::Guest;
use crate::link::Link;
use crate::wire::Wire;

/// The time limit of a caller's handshake: many roundtrips of any network.
pub(crate) const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);

/// The maximum number of callers; further connections wait in the listen queue. Strangers can
/// therefore make rank 0 hold at most this number of sockets and small buffers.
pub(crate) const MAX_CALLERS: usize = PLACES as usize;
const PLACES: u32 = 256;

/// An unproved caller cannot be evicted before this time. The first message of a member usually
/// arrives before its connection is accepted; the time is for members that the scheduler delays.
pub(crate) const MIN_SERVICE: Duration = Duration::from_millis(50);

/// The length of the listen queue; the system may limit it further (somaxconn).
pub(crate) const LISTEN_BACKLOG: u32 = 4096;

/// The longest time to accept a full listen queue of strangers: each keeps its place for
/// [`MIN_SERVICE`], and again for [`MIN_SERVICE`] after it was refused.
pub(crate) const DRAIN_LIMIT: Duration =
    MIN_SERVICE.saturating_mul(2 * LISTEN_BACKLOG.div_ceil(PLACES));

/// A connection that is not a member.
pub(crate) struct Caller {
    since: Instant,
    /// The deadline of the current stage.
    pub(crate) until: Instant,
    source: Source,
    pub(crate) stage: Stage,
}

pub(crate) enum Stage {
    /// The caller must prove that it knows the secret.
    Proving(Guest, Wire),
    /// The caller has proved it and must name its rank.
    Joining(Link),
    /// The caller was refused; its connection stays open until it has received the refusal.
    Parting(Wire),
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

impl Caller {
    /// A caller whose stage begins now.
    pub(crate) fn new(until: Instant, mut stage: Stage) -> Self {
        let source = Source::from(stage.wire().peer());
        Self { since: Instant::now(), until, source, stage }
    }

    pub(crate) fn wire(&mut self) -> &mut Wire {
        self.stage.wire()
    }

    /// Whether the caller has not proved that it is a member, or was refused.
    fn is_unproved(&self) -> bool {
        match &self.stage {
            Stage::Proving(guest, _) => !guest.is_vouched_for(),
            Stage::Joining(_) => false,
            Stage::Parting(_) => true,
        }
    }

    fn evictable_from(&self) -> Instant {
        self.since + MIN_SERVICE
    }
}

impl Stage {
    fn wire(&mut self) -> &mut Wire {
        match self {
            Self::Proving(_, wire) | Self::Parting(wire) => wire,
            Self::Joining(link) => &mut link.wire,
        }
    }
}

/// The index of the caller to evict for a new connection; `callers` are sorted, the oldest first.
pub(crate) fn victim(callers: &[Caller], now: Instant) -> Option<usize> {
    let unproved = || callers.iter().enumerate().filter(|(_, caller)| caller.is_unproved());
    let mut crowds = BTreeMap::new();
    unproved().for_each(|(_, caller)| *crowds.entry(caller.source).or_insert(0_usize) += 1);
    unproved()
        .filter(|(_, caller)| caller.evictable_from() <= now)
        // Selects the first maximum: `max_by_key` returns the last one.
        .rev()
        .max_by_key(|(_, caller)| crowds.get(&caller.source))
        .map(|(index, _)| index)
}

/// The earliest time at which one of `callers` may be evicted; `None` if none is unproved.
pub(crate) fn room_from(callers: &[Caller]) -> Option<Instant> {
    callers.iter().filter(|caller| caller.is_unproved()).map(Caller::evictable_from).min()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::handshake::{Applicant, SeenNonces, nonce};
    use crate::secret::Secret;

    const LATER: Duration = HANDSHAKE_LIMIT;

    fn secret() -> Secret {
        Secret::new(vec![7; 32]).unwrap()
    }

    /// A caller from `source`. It has sent its first message if `vouched_for`.
    fn caller(source: u32, vouched_for: bool) -> (Caller, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut wire = Wire::new(listener.accept().unwrap().0).unwrap();
        let mut guest = Guest::new(nonce().unwrap());
        if vouched_for {
            Applicant::new(nonce().unwrap(), &secret(), &mut wire);
            wire.incoming = wire.outgoing.split_off(0);
            let seen = &mut SeenNonces::default();
            assert!(guest.advance(&secret(), seen, &mut wire).unwrap().is_none());
        }
        let mut caller = Caller::new(Instant::now() + LATER, Stage::Proving(guest, wire));
        caller.source = Source::from(IpAddr::from(source.to_be_bytes()));
        (caller, far)
    }

    /// The order in which unproved callers from these sources are evicted.
    fn order(sources: &[u32]) -> Vec<usize> {
        let (mut callers, _far): (Vec<_>, Vec<_>) =
            sources.iter().map(|source| caller(*source, false)).unzip();
        let mut indices: Vec<_> = (0..sources.len()).collect();
        let now = Instant::now() + MIN_SERVICE;
        core::iter::from_fn(|| {
            let index = victim(&callers, now)?;
            callers.remove(index);
            Some(indices.remove(index))
        })
        .collect()
    }

    #[test]
    fn the_oldest_caller_of_the_busiest_address_is_evicted() {
        assert_eq!(order(&[1, 1, 1, 1]), [0, 1, 2, 3]);
        assert_eq!(order(&[1, 2, 2, 3, 2, 3]), [1, 2, 3, 0, 4, 5]);
        assert_eq!(order(&[]), []);
    }

    #[test]
    fn no_caller_is_evicted_before_its_minimum_service() {
        let (caller, _far) = caller(1, false);
        let (since, callers) = (caller.since, [caller]);
        assert_eq!(victim(&callers, since + MIN_SERVICE - Duration::from_nanos(1)), None);
        assert_eq!(room_from(&callers), Some(since + MIN_SERVICE));
        assert_eq!(victim(&callers, since + MIN_SERVICE), Some(0));
    }

    #[test]
    fn proved_callers_are_not_evicted() {
        let (callers, _far): (Vec<_>, Vec<_>) = [(1, true), (1, true), (2, false)]
            .map(|(source, good)| caller(source, good))
            .into_iter()
            .unzip();
        assert_eq!(victim(&callers, Instant::now() + LATER), Some(2));
        assert_eq!(victim(&callers[..2], Instant::now() + LATER), None);
        assert_eq!(room_from(&callers[..2]), None);
    }

    #[test]
    fn only_the_first_caller_with_a_first_message_is_proved() {
        let (callers, _far): (Vec<_>, Vec<_>) =
            [(1, false), (1, false)].map(|(source, good)| caller(source, good)).into_iter().unzip();
        let [mut first, mut second] = <[Caller; 2]>::try_from(callers).ok().unwrap();
        let mut seen = SeenNonces::default();
        Applicant::new(nonce().unwrap(), &secret(), first.wire());
        let message = first.wire().outgoing.split_off(0);
        for caller in [&mut first, &mut second] {
            let Stage::Proving(guest, wire) = &mut caller.stage else { panic!("refused") };
            wire.incoming.extend_from_slice(&message);
            assert!(guest.advance(&secret(), &mut seen, wire).unwrap().is_none());
        }
        assert_eq!([first.is_unproved(), second.is_unproved()], [false, true]);
    }

    #[test]
    fn a_source_is_an_ipv4_address_or_half_an_ipv6_address() {
        let source = |text: &str| Source::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(source("10.0.0.1"), source("::ffff:10.0.0.1"));
        assert_ne!(source("10.0.0.1"), source("10.0.0.2"));
        assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:0:0:2"));
        assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
    }
}
