//! Checks a port: its link, rate, MTU, GID and retransmissions.

use probeline_verbs::{LinkLayer, Mtu, PortError, PortState};

use crate::device::Device;
use crate::finding::{Check, Found, broken, fine, unknown, warning};
use crate::survey::PortFacts;

/// A port of a device.
pub(crate) struct Port<'a> {
    pub(crate) device: &'a Device<'a>,
    pub(crate) facts: &'a PortFacts,
    /// Whether another port could be used instead.
    pub(crate) another: bool,
}

/// Counters of retransmitted packets, of mlx5 and of Soft-RoCE.
const RETRANSMISSION_COUNTERS: [&str; 6] = [
    "local_ack_timeout_err",
    "packet_seq_err",
    "out_of_sequence",
    "completer_retry_err",
    "out_of_seq_request",
    "retry_exceeded_err",
];

impl Port<'_> {
    pub(crate) const CHECKS: [Check<Self>; 5] = [
        Check::new("link", Some("link-state.md"), Self::link),
        Check::new("rate", Some("link-state.md"), Self::rate).only_if(Self::is_active),
        Check::new("mtu", Some("mtu.md"), Self::mtu).only_if(Self::is_active),
        Check::new("gid", Some("gids.md"), Self::gid).only_if(Self::is_active),
        Check::new("sent-again", Some("lossy-ethernet.md"), Self::retransmissions)
            .only_if(Self::is_active),
    ];

    fn is_active(&self) -> bool {
        self.facts.port.active
    }

    fn is_ethernet(&self) -> bool {
        self.facts.port.link_layer == LinkLayer::Ethernet
    }

    fn path(&self, name: &str) -> String {
        let number = self.facts.port.number;
        format!("sys/class/infiniband/{}/ports/{number}/{name}", self.device.name)
    }

    /// Returns the network interface of the port, or a placeholder if it is unknown.
    fn interface(&self) -> String {
        let root = self.device.root;
        let class = format!("sys/class/infiniband/{}", self.device.name);
        let of_gid = || root.text(&self.path("gid_attrs/ndevs/0")).ok();
        let parent = || root.text(&format!("{class}/parent")).ok();
        let of_device = || root.names(&format!("{class}/device/net")).into_iter().next();
        let names = [of_gid(), parent(), of_device()].into_iter().flatten();
        let mut names =
            names.filter(|name| !name.is_empty() && !name.contains(char::is_whitespace));
        names.next().unwrap_or_else(|| "INTERFACE".to_owned())
    }

    fn link(&self) -> Found {
        let port = &self.facts.port;
        let seen = format!("{}, {}", port.state, port.link_layer);
        if port.active {
            return Ok(fine(seen));
        }
        let command = match port.state {
            _ if self.is_ethernet() => format!("sudo ip link set {} up", self.interface()),
            PortState::Init | PortState::Armed => {
                "sudo systemctl start opensm, on one machine of the subnet".to_owned()
            }
            _ => "check that the cable is plugged in at both ends; ibstat, iblinkinfo".to_owned(),
        };
        Ok(match self.another {
            true => warning(seen, "another port is active and is used instead", command),
            false => broken(seen, "the port cannot send or receive packets", command),
        })
    }

    fn rate(&self) -> Found {
        let port = &self.facts.port;
        let (Some(gbit_s), Some(lanes)) = (port.gbit_s(), port.lanes) else {
            let command = format!("cat /{}", self.path("rate"));
            return Ok(unknown("the speed or width has an unknown code").command(command));
        };
        let plural = if lanes == 1 { "" } else { "s" };
        let seen = format!("{gbit_s} Gbit/s over {lanes} lane{plural}");
        if !self.device.has_slot() {
            return Ok(fine(format!("{seen}, nominal: the device is software")));
        }
        if lanes == 1 && !self.is_ethernet() {
            return Ok(warning(
                seen,
                "InfiniBand links have 4 lanes, or 2 if a port is split: some lanes have failed",
                format!("iblinkinfo; another cable; sudo mlxlink -d {}", self.device.name),
            ));
        }
        Ok(fine(seen))
    }

    fn mtu(&self) -> Found {
        let port = &self.facts.port;
        if port.mtu >= port.max_mtu {
            return Ok(fine(port.mtu.to_string()));
        }
        let buckets = (128_u32 << port.mtu.code()) / 8;
        let command = match self.is_ethernet() {
            // 4096 bytes and the headers of RoCE v2 over IPv6.
            true if port.max_mtu == Mtu::MAX => format!(
                "sudo ip link set {} mtu 4200, on both nodes and the switch",
                self.interface()
            ),
            true => format!("sudo ip link set {} mtu LARGER", self.interface()),
            false => "mtu=5 for the partition in opensm's partitions.conf".to_owned(),
        };
        Ok(warning(
            format!("{} of {}", port.mtu, port.max_mtu),
            format!(
                "the response to a chunk READ takes several packets if C is more than {buckets}"
            ),
            command,
        ))
    }

    fn gid(&self) -> Found {
        let error = match &self.facts.gid {
            Ok(entry) => {
                return Ok(fine(format!("{}, {}, index {}", entry.kind, entry.gid, entry.index)));
            }
            Err(error) => error,
        };
        // The address must be unique in the network.
        let add_address = || format!("sudo ip address add ADDRESS/PREFIX dev {}", self.interface());
        let (consequence, command) = match error {
            PortError::Verb(_) => (
                "no GID can be selected",
                format!("grep . /{}; sudo dmesg | tail -50", self.path("gids/*")),
            ),
            PortError::NoGid => ("peers have no GID to connect to", add_address()),
            PortError::OnlyLinkLocal => ("engines open only with --gid-index N", add_address()),
            _ => (
                "RoCE v1 is not routed between subnets; engines open only with --gid-index N",
                format!("cat /{}", self.path("gid_attrs/types/*")),
            ),
        };
        Ok(broken(error.to_string(), consequence, command))
    }

    /// Reports packets that were retransmitted since the device came up.
    fn retransmissions(&self) -> Found {
        let count =
            |name: &str| self.device.root.number(&self.path(&format!("hw_counters/{name}")));
        let counted =
            RETRANSMISSION_COUNTERS.iter().filter_map(|name| Some((*name, count(name).ok()?)));
        let counted: Vec<(&str, u64)> = counted.collect();
        if counted.is_empty() {
            let why = "the driver shows none of the known counters";
            return Ok(unknown(why).command(format!("ls /{}", self.path("hw_counters"))));
        }
        let some = counted.iter().filter(|(_, count)| *count > 0);
        let some: Vec<String> = some.map(|(name, count)| format!("{name} {count}")).collect();
        if some.is_empty() {
            return Ok(fine("none since the device came up"));
        }
        Ok(warning(
            format!("{} since the device came up", some.join(", ")),
            "packets or acknowledgements were lost: each loss may cost a timeout of milliseconds",
            format!("grep . /{}, before and after a run", self.path("hw_counters/*")),
        ))
    }
}
