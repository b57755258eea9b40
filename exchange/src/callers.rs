//! Connections to rank 0 that are no members yet, and which of them gives way to a newer one.
//!
//! Strangers may connect as often as they like, so places are limited and the listen queue is
//! drained at a rate that strangers cannot lower. A connection is *unproved* until its first message
//! has come, which only who knows the secret can make; a member sends it as soon as it is
//! connected. When all places are taken, an unproved connection that had [`MIN_SERVICE`] gives way:
//! the oldest one of the address that has most of them. Others keep their places: nobody without the
//! secret gets one of those for long.

use core::net::{IpAddr, Ipv6Addr};
use core::time::Duration;
use std::collections::BTreeMap;
use std::time::Instant;

use crate::handshake::Guest;
use crate::link::Link;
use crate::wire::Wire;

/// How long a caller has to finish its handshake: many roundtrips of any network.
pub(crate) const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);

/// Callers at once; more wait in the listen queue. Bounds what strangers can make rank 0 hold to as
/// many sockets and small buffers.
pub(crate) const MAX_CALLERS: usize = PLACES as usize;
const PLACES: u32 = 256;

/// How long an unproved caller keeps its place whoever else comes. The first message of a member is
/// mostly there before its connection is accepted; the rest is for one that the scheduler delays.
pub(crate) const MIN_SERVICE: Duration = Duration::from_millis(50);

/// Connections that may wait to be accepted, where the system allows as many (somaxconn).
pub(crate) const LISTEN_BACKLOG: u32 = 4096;

/// The longest time in which a full listen queue is accepted, if strangers alone are in it: each has
/// its place for [`MIN_SERVICE`], and as long again if it was refused.
pub(crate) const DRAIN_LIMIT: Duration =
    MIN_SERVICE.saturating_mul(2 * LISTEN_BACKLOG.div_ceil(PLACES));

/// A connection that is not a member.
pub(crate) struct Caller {
    since: Instant,
    /// When its time is over.
    pub(crate) until: Instant,
    source: Source,
    pub(crate) stage: Stage,
}

pub(crate) enum Stage {
    /// It has to prove that it knows the secret.
    Proving(Guest, Wire),
    /// It has, and is to say which rank it is.
    Joining(Link),
    /// It was refused, and is given time to hear so.
    Parting(Wire),
}

/// Where connections come from: an IPv4 address, or the first half of an IPv6 address, since a
/// machine may take any address of its /64.
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
    /// One that came, or whose stage began, just now.
    pub(crate) fn new(until: Instant, mut stage: Stage) -> Self {
        let source = Source::from(stage.wire().peer());
        Self { since: Instant::now(), until, source, stage }
    }

    pub(crate) fn wire(&mut self) -> &mut Wire {
        self.stage.wire()
    }

    /// Whether nothing says yet, or still, that it is a member.
    fn is_unproved(&self) -> bool {
        match &self.stage {
            Stage::Proving(guest, _) => !guest.is_vouched_for(),
            Stage::Joining(_) => false,
            Stage::Parting(_) => true,
        }
    }

    fn gives_way_from(&self) -> Instant {
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

/// Which of `callers`, the oldest first, gives way to another connection now.
pub(crate) fn victim(callers: &[Caller], now: Instant) -> Option<usize> {
    let unproved = || callers.iter().enumerate().filter(|(_, caller)| caller.is_unproved());
    let mut crowds = BTreeMap::new();
    unproved().for_each(|(_, caller)| *crowds.entry(caller.source).or_insert(0_usize) += 1);
    unproved()
        .filter(|(_, caller)| caller.gives_way_from() <= now)
        // The first of the largest: `max_by_key` would give the last.
        .rev()
        .max_by_key(|(_, caller)| crowds.get(&caller.source))
        .map(|(index, _)| index)
}

/// When one of `callers` may give way; `None` if none is unproved.
pub(crate) fn room_from(callers: &[Caller]) -> Option<Instant> {
    callers.iter().filter(|caller| caller.is_unproved()).map(Caller::gives_way_from).min()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::handshake::{Applicant, nonce};
    use crate::secret::Secret;

    const LATER: Duration = HANDSHAKE_LIMIT;

    fn secret() -> Secret {
        Secret::new(vec![7; 32]).unwrap()
    }

    /// A caller from `source`, which has sent its first message if it is `vouched_for`.
    fn caller(source: u32, vouched_for: bool) -> (Caller, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut wire = Wire::new(listener.accept().unwrap().0).unwrap();
        let mut guest = Guest::new(nonce().unwrap());
        if vouched_for {
            Applicant::new(nonce().unwrap(), &secret(), &mut wire);
            wire.incoming = wire.outgoing.split_off(0);
            assert!(guest.advance(&secret(), &mut wire).unwrap().is_none());
        }
        let mut caller = Caller::new(Instant::now() + LATER, Stage::Proving(guest, wire));
        caller.source = Source::from(IpAddr::from(source.to_be_bytes()));
        (caller, far)
    }

    /// Which of callers from these sources, all unproved, give way one after the other.
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
    fn the_oldest_of_the_address_with_most_callers_gives_way() {
        assert_eq!(order(&[1, 1, 1, 1]), [0, 1, 2, 3]);
        assert_eq!(order(&[1, 2, 2, 3, 2, 3]), [1, 2, 3, 0, 4, 5]);
        assert_eq!(order(&[]), []);
    }

    #[test]
    fn nobody_gives_way_before_it_had_its_service() {
        let (caller, _far) = caller(1, false);
        let (since, callers) = (caller.since, [caller]);
        assert_eq!(victim(&callers, since + MIN_SERVICE - Duration::from_nanos(1)), None);
        assert_eq!(room_from(&callers), Some(since + MIN_SERVICE));
        assert_eq!(victim(&callers, since + MIN_SERVICE), Some(0));
    }

    #[test]
    fn who_knows_the_secret_gives_way_to_nobody() {
        let (callers, _far): (Vec<_>, Vec<_>) = [(1, true), (1, true), (2, false)]
            .map(|(source, good)| caller(source, good))
            .into_iter()
            .unzip();
        assert_eq!(victim(&callers, Instant::now() + LATER), Some(2));
        assert_eq!(victim(&callers[..2], Instant::now() + LATER), None);
        assert_eq!(room_from(&callers[..2]), None);
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
