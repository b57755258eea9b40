//! GIDs, the addresses of ports, and the choice among those of a port.

use alloc::vec::Vec;
use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

use probeline_verbs_sys as sys;

use crate::{Context, LinkLayer, Port, PortError};

/// A port's global identifier, written like an IPv6 address (InfiniBand specification, 4.1.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Gid(pub [u8; 16]);

/// An entry of a port's GID table that is not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GidEntry {
    /// The index in the table. Address handles have 8 bits for it.
    pub index: u8,
    /// The address.
    pub gid: Gid,
    /// The protocol of the address.
    pub kind: GidKind,
}

/// The protocol of a GID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GidKind {
    /// InfiniBand.
    Infiniband,
    /// RoCE v1: Ethernet frames, which routers do not forward.
    RoceV1,
    /// RoCE v2: UDP packets.
    RoceV2,
    /// An unknown type.
    Unknown(u32),
}

impl Gid {
    pub(crate) const ZERO: Self = Self([0; 16]);

    /// Returns the GID as an IPv6 address.
    #[must_use]
    pub const fn ipv6(self) -> Ipv6Addr {
        Ipv6Addr::from_octets(self.0)
    }

    /// Returns the IPv4 address that the GID contains, if any.
    #[must_use]
    pub const fn ipv4(self) -> Option<Ipv4Addr> {
        self.ipv6().to_ipv4_mapped()
    }

    /// Returns the order of preference, the lowest first; `None` for link-local addresses, which
    /// cannot be routed.
    fn preference(self) -> Option<u8> {
        match self.ipv4() {
            Some(address) if address.is_link_local() => None,
            // For a device on `lo`.
            Some(address) if address.is_loopback() => Some(2),
            Some(_) => Some(0),
            None if self.ipv6().is_unicast_link_local() => None,
            None => Some(1),
        }
    }
}

impl GidKind {
    pub(crate) fn from_code(code: u32) -> Self {
        match code {
            sys::IBV_GID_TYPE_IB => Self::Infiniband,
            sys::IBV_GID_TYPE_ROCE_V1 => Self::RoceV1,
            sys::IBV_GID_TYPE_ROCE_V2 => Self::RoceV2,
            code => Self::Unknown(code),
        }
    }

    pub(crate) fn code(self) -> u32 {
        match self {
            Self::Infiniband => sys::IBV_GID_TYPE_IB,
            Self::RoceV1 => sys::IBV_GID_TYPE_ROCE_V1,
            Self::RoceV2 => sys::IBV_GID_TYPE_ROCE_V2,
            Self::Unknown(code) => code,
        }
    }
}

impl fmt::Display for GidKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Infiniband => f.write_str("InfiniBand"),
            Self::RoceV1 => f.write_str("RoCE v1"),
            Self::RoceV2 => f.write_str("RoCE v2"),
            Self::Unknown(code) => write!(f, "GID type {code}"),
        }
    }
}

impl Context {
    /// Chooses an entry of the GID table of `port`: the entry `index` if given; otherwise on
    /// InfiniBand the first, and on Ethernet the first RoCE v2 GID of an IPv4 address, or of a
    /// routable IPv6 address.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn choose_gid(&self, port: &Port, index: Option<u8>) -> Result<GidEntry, PortError> {
        let first = (port.link_layer == LinkLayer::Infiniband).then_some(0);
        if let Some(index) = index.or(first) {
            let entry = self.gid(port.number, index)?;
            return entry.ok_or(PortError::NoSuchIndex(index));
        }
        // An address handle has 8 bits for the index.
        let indices = 0..u8::try_from(port.gids).unwrap_or(u8::MAX);
        let table: Result<Vec<_>, _> =
            indices.filter_map(|index| self.gid(port.number, index).transpose()).collect();
        choose(&table?)
    }
}

/// Chooses among the entries of a table that are not empty.
fn choose(table: &[GidEntry]) -> Result<GidEntry, PortError> {
    let v2 = || table.iter().filter(|entry| entry.kind == GidKind::RoceV2);
    let best = v2()
        .filter_map(|entry| Some((entry.gid.preference()?, entry)))
        .min_by_key(|(preference, entry)| (*preference, entry.index));
    match best {
        Some((_, entry)) => Ok(*entry),
        None if v2().count() > 0 => Err(PortError::OnlyLinkLocal),
        None if table.is_empty() => Err(PortError::NoGid),
        None => Err(PortError::NoRoceV2),
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ipv6().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(table: &[(&str, GidKind)]) -> Result<u8, PortError> {
        let entry = |(index, (text, kind)): (u8, &(&str, GidKind))| {
            let gid = Gid(text.parse::<Ipv6Addr>().unwrap().octets());
            GidEntry { index, gid, kind: *kind }
        };
        let entries: Vec<_> = (0..).zip(table).map(entry).collect();
        choose(&entries).map(|entry| entry.index)
    }

    #[test]
    fn chooses_roce_v2_ipv4_first() {
        use GidKind::{RoceV1, RoceV2};
        let (local, v4, v6) = ("fe80::5054:ff:fe12:1", "::ffff:10.0.0.1", "2001:db8::1");
        assert_eq!(chosen(&[(local, RoceV1), (local, RoceV2), (v4, RoceV1), (v4, RoceV2)]), Ok(3));
        assert_eq!(chosen(&[(v6, RoceV2), (v4, RoceV2), (v4, RoceV2)]), Ok(1));
        assert_eq!(chosen(&[(local, RoceV2), (v6, RoceV2)]), Ok(1));
        assert_eq!(chosen(&[("::ffff:127.0.0.1", RoceV2), (v6, RoceV2)]), Ok(1));
        assert_eq!(chosen(&[(local, RoceV2), ("::ffff:127.0.0.1", RoceV2)]), Ok(1));
    }

    /// Leaves the other reasons to the tests of opening.
    #[test]
    fn refuses_link_local_addresses() {
        let local = [("fe80::1", GidKind::RoceV2), ("::ffff:169.254.1.1", GidKind::RoceV2)];
        assert_eq!(chosen(&local), Err(PortError::OnlyLinkLocal));
    }
}
