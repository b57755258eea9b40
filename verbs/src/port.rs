//! A port of a device.

use core::fmt;

use probeline_verbs_sys as sys;

/// The state and attributes of a port (ibv_query_port(3)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// The number, counted from 1.
    pub number: u8,
    /// Whether the port can send and receive.
    pub active: bool,
    /// The logical state of the port.
    pub state: PortState,
    /// The largest payload of a packet.
    pub mtu: Mtu,
    /// The largest payload of a packet that the device supports.
    pub max_mtu: Mtu,
    /// The number of lanes of the link, if the code is known.
    pub lanes: Option<u8>,
    /// The nominal rate of a lane in tenths of a Gbit/s (250 for EDR), if the code is known.
    pub lane_rate: Option<u16>,
    /// The link layer, InfiniBand or Ethernet.
    pub link_layer: LinkLayer,
    /// The local identifier in an InfiniBand subnet; 0 on Ethernet.
    pub lid: u16,
    /// The number of entries of the GID table.
    pub gids: u32,
    /// The maximum size of a message in bytes.
    pub message_bytes: u32,
    /// Whether packets need a global route header: always on Ethernet, and on some virtual
    /// InfiniBand ports.
    pub global: bool,
}

/// The state of a port (`enum ibv_port_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortState {
    /// No link.
    Down,
    /// The link is up; no subnet manager has configured the port.
    Init,
    /// Configured by the subnet manager, and not activated.
    Armed,
    /// The port can send and receive.
    Active,
    /// The port was active, and its link is down for the moment.
    ActiveDeferred,
    /// An unknown state.
    Unknown(u32),
}

/// The link layer of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkLayer {
    /// InfiniBand: packets are addressed by LID.
    Infiniband,
    /// Ethernet (RoCE): packets are addressed by GID.
    Ethernet,
}

/// The largest payload of a packet, 256 to 4096 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mtu(u8);

impl Mtu {
    /// The largest one, 4096 bytes.
    pub const MAX: Self = Self::from_code(sys::IBV_MTU_4096);

    /// Returns the MTU of a code of `enum ibv_mtu`; the smallest for an unknown code.
    #[must_use]
    pub const fn from_code(code: u32) -> Self {
        match code {
            sys::IBV_MTU_256..=sys::IBV_MTU_4096 => Self(code.to_le_bytes()[0]),
            _ => Self(1),
        }
    }

    /// Returns the code of `enum ibv_mtu`.
    #[must_use]
    pub const fn code(self) -> u8 {
        self.0
    }
}

impl Port {
    /// Returns the rate of all lanes in Gbit/s, if both codes are known.
    #[must_use]
    pub fn gbit_s(&self) -> Option<f64> {
        Some(f64::from(self.lane_rate?) * f64::from(self.lanes?) / 10.0)
    }
}

impl PortState {
    fn from_code(code: u32) -> Self {
        match code {
            sys::IBV_PORT_DOWN => Self::Down,
            sys::IBV_PORT_INIT => Self::Init,
            sys::IBV_PORT_ARMED => Self::Armed,
            sys::IBV_PORT_ACTIVE => Self::Active,
            sys::IBV_PORT_ACTIVE_DEFER => Self::ActiveDeferred,
            code => Self::Unknown(code),
        }
    }
}

/// Returns the number of lanes of a code (InfiniBand specification, PortInfo.LinkWidthActive).
fn lanes(code: u8) -> Option<u8> {
    match code {
        1 => Some(1),
        2 => Some(4),
        4 => Some(8),
        8 => Some(12),
        16 => Some(2),
        _ => None,
    }
}

/// Returns the lane rate of a code in tenths of a Gbit/s (PortInfo.LinkSpeedActive): SDR, DDR, QDR,
/// FDR10, FDR, EDR, HDR, NDR.
fn lane_rate(code: u8) -> Option<u16> {
    match code {
        1 => Some(25),
        2 => Some(50),
        4 | 8 => Some(100),
        16 => Some(140),
        32 => Some(250),
        64 => Some(500),
        128 => Some(1000),
        _ => None,
    }
}

impl fmt::Display for PortState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Down => f.write_str("down"),
            Self::Init => f.write_str("initialising"),
            Self::Armed => f.write_str("armed"),
            Self::Active => f.write_str("active"),
            Self::ActiveDeferred => f.write_str("active, its link down for the moment"),
            Self::Unknown(code) => write!(f, "state {code}"),
        }
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
        let link_layer = match u32::from(attr.link_layer) {
            sys::IBV_LINK_LAYER_ETHERNET => LinkLayer::Ethernet,
            // Drivers older than this field leave it 0; their devices are InfiniBand.
            _ => LinkLayer::Infiniband,
        };
        let global_only = u32::from(attr.flags) & sys::IBV_QPF_GRH_REQUIRED != 0;
        Self {
            number,
            active: attr.state == sys::IBV_PORT_ACTIVE,
            state: PortState::from_code(attr.state),
            mtu: Mtu::from_code(attr.active_mtu),
            max_mtu: Mtu::from_code(attr.max_mtu),
            lanes: lanes(attr.active_width),
            lane_rate: lane_rate(attr.active_speed),
            link_layer,
            lid: attr.lid,
            gids: u32::try_from(attr.gid_tbl_len).unwrap_or(0),
            message_bytes: attr.max_msg_sz,
            global: link_layer == LinkLayer::Ethernet || global_only,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    #[test]
    fn link_rates_match_kernel() {
        // Width, speed, and the rate that the kernel shows for them in sysfs.
        let rates = [(2, 1, 10.0), (2, 4, 40.0), (2, 16, 56.0), (2, 32, 100.0), (1, 64, 50.0)];
        for (active_width, active_speed, gbit_s) in rates {
            // SAFETY: plain numbers, for which zero is valid.
            let zero: sys::ibv_port_attr = unsafe { core::mem::zeroed() };
            let port = Port::new(1, &sys::ibv_port_attr { active_width, active_speed, ..zero });
            assert_eq!(port.gbit_s(), Some(gbit_s));
        }
        assert_eq!((lanes(3), lane_rate(0), lane_rate(3)), (None, None, None));
        assert_eq!(PortState::from_code(77), PortState::Unknown(77));
    }

    #[test]
    fn mtu_code_and_size() {
        for (code, text) in (1..=5).zip(["256 B", "512 B", "1024 B", "2048 B", "4096 B"]) {
            assert_eq!(u32::from(Mtu::from_code(code).code()), code);
            assert_eq!(Mtu::from_code(code).to_string(), text);
        }
        assert_eq!((Mtu::from_code(77), Mtu::from_code(0)), (Mtu::from_code(1), Mtu::from_code(1)));
        assert_eq!(Mtu::MAX.code(), 5);
    }
}
