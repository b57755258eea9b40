//! A port of a device.

use core::fmt;

use verbs_sys as sys;

/// What a port is at the moment (ibv_query_port(3)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its number, from 1.
    pub number: u8,
    /// Whether packets flow.
    pub active: bool,
    /// The largest payload of a packet.
    pub mtu: Mtu,
    /// What is below it.
    pub link_layer: LinkLayer,
    /// Its address in an InfiniBand subnet; 0 on Ethernet.
    pub lid: u16,
    /// Entries of its GID table.
    pub gids: u32,
    /// Bytes in the longest message.
    pub message_bytes: u32,
    /// It reaches peers by a global route header only, as virtual InfiniBand ports may.
    pub global_only: bool,
}

/// What carries a port's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkLayer {
    /// An InfiniBand subnet: peers are reached by LID.
    Infiniband,
    /// Ethernet (RoCE): peers are reached by GID.
    Ethernet,
}

/// The largest payload of a packet (`enum ibv_mtu`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Mtu {
    /// 256 bytes.
    Bytes256 = 1,
    /// 512 bytes.
    Bytes512 = 2,
    /// 1024 bytes.
    Bytes1024 = 3,
    /// 2048 bytes.
    Bytes2048 = 4,
    /// 4096 bytes.
    Bytes4096 = 5,
}

impl Mtu {
    /// By its code; what is unknown is the least that every device has.
    #[must_use]
    pub const fn of(code: u32) -> Self {
        match code {
            sys::IBV_MTU_512 => Self::Bytes512,
            sys::IBV_MTU_1024 => Self::Bytes1024,
            sys::IBV_MTU_2048 => Self::Bytes2048,
            sys::IBV_MTU_4096 => Self::Bytes4096,
            _ => Self::Bytes256,
        }
    }

    /// Its code.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }
}

impl Port {
    /// Whether packets carry a global route header: on Ethernet always.
    #[must_use]
    pub fn needs_global_route(&self) -> bool {
        self.link_layer == LinkLayer::Ethernet || self.global_only
    }
}

impl fmt::Display for LinkLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Infiniband => "InfiniBand",
            Self::Ethernet => "Ethernet",
        })
    }
}

impl fmt::Display for Mtu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B", 128_u32 << self.code())
    }
}

impl Port {
    pub(crate) fn new(number: u8, attr: &sys::ibv_port_attr) -> Self {
        Self {
            number,
            active: attr.state == sys::IBV_PORT_ACTIVE,
            mtu: Mtu::of(attr.active_mtu),
            link_layer: match u32::from(attr.link_layer) {
                sys::IBV_LINK_LAYER_ETHERNET => LinkLayer::Ethernet,
                // Devices older than the field leave 0, and are InfiniBand.
                _ => LinkLayer::Infiniband,
            },
            lid: attr.lid,
            gids: u32::try_from(attr.gid_tbl_len).unwrap_or(0),
            message_bytes: attr.max_msg_sz,
            global_only: u32::from(attr.flags) & sys::IBV_QPF_GRH_REQUIRED != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    #[test]
    fn an_mtu_keeps_its_code_and_says_its_size() {
        for (code, text) in (1..=5).zip(["256 B", "512 B", "1024 B", "2048 B", "4096 B"]) {
            assert_eq!(u32::from(Mtu::of(code).code()), code);
            assert_eq!(Mtu::of(code).to_string(), text);
        }
        assert_eq!(Mtu::of(77), Mtu::Bytes256);
    }
}
