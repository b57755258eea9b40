//! Checks a port: its link, rate, MTU, GID and retransmissions.

use probeline_verbs::{GidError, LinkLayer, Mtu, PortState};

use crate::driver::{Driver, Kind};
use crate::facts::PortFacts;
use crate::finding::{Check, Finding, Subject};
use crate::note::Note;
use crate::root::Root;

/// The port to check, and its context.
pub(crate) struct PortCheck<'a> {
    pub(crate) root: &'a Root,
    pub(crate) device: &'a str,
    pub(crate) subject: Subject,
    pub(crate) driver: &'a Driver,
    pub(crate) kind: Option<&'static Kind>,
    pub(crate) facts: &'a PortFacts,
    /// Whether another port could be used instead.
    pub(crate) another: bool,
}

/// A rate below this fraction of the maximum of the card's generation suggests a degraded link
/// rather than a slow card.
const SUSPECT_RATE_SHARE: f64 = 0.25;

/// Counters of retransmitted packets, of mlx5 and of Soft-RoCE.
const RETRANSMISSION_COUNTERS: [&str; 6] = [
    "local_ack_timeout_err",
    "packet_seq_err",
    "out_of_sequence",
    "completer_retry_err",
    "out_of_seq_request",
    "retry_exceeded_err",
];

impl PortCheck<'_> {
    pub(crate) fn checks(&self) -> Vec<Finding> {
        let link = self.link();
        if !self.facts.port.active {
            return vec![link];
        }
        let mut all = vec![link, self.rate(), self.mtu(), self.gid(), self.retransmissions()];
        if self.is_ethernet() && !self.driver.is_software() {
            all.push(self.lossless());
        }
        all
    }

    fn check(&self, name: &'static str, note: Note) -> Check<'_> {
        Check::new(name, &self.subject, note)
    }

    fn is_ethernet(&self) -> bool {
        self.facts.port.link_layer == LinkLayer::Ethernet
    }

    fn path(&self, name: &str) -> String {
        let number = self.facts.port.number;
        format!("sys/class/infiniband/{}/ports/{number}/{name}", self.device)
    }

    /// Returns the network interface of the port, or a placeholder if it is unknown.
    fn interface(&self) -> String {
        let class = format!("sys/class/infiniband/{}", self.device);
        let of_gid = || self.root.text(&self.path("gid_attrs/ndevs/0")).ok();
        let parent = || self.root.text(&format!("{class}/parent")).ok();
        let of_device = || self.root.names(&format!("{class}/device/net")).into_iter().next();
        let names = [of_gid(), parent(), of_device()].into_iter().flatten();
        let mut names =
            names.filter(|name| !name.is_empty() && !name.contains(char::is_whitespace));
        names.next().unwrap_or_else(|| "INTERFACE".to_owned())
    }

    fn link(&self) -> Finding {
        let check = self.check("link", Note::LINK_STATE);
        let port = &self.facts.port;
        let seen = format!("{}, {}", port.state, port.link_layer);
        if port.active {
            return check.fine(seen);
        }
        let command = match port.state {
            _ if self.is_ethernet() => format!("sudo ip link set {} up", self.interface()),
            PortState::Init | PortState::Armed => {
                "sudo systemctl start opensm, on one machine of the subnet".to_owned()
            }
            _ => "check that the cable is plugged in at both ends; ibstat, iblinkinfo".to_owned(),
        };
        match self.another {
            true => check.look(seen, "another port is active and is used instead", command),
            false => check.broken(seen, "the port cannot send or receive packets", command),
        }
    }

    fn rate(&self) -> Finding {
        let check = self.check("rate", Note::LINK_STATE);
        let port = &self.facts.port;
        let (Some(gbit_s), Some(lanes)) = (port.gbit_s(), port.lanes) else {
            let finding = check.not_seen("the speed or width has an unknown code");
            return finding.command(format!("cat /{}", self.path("rate")));
        };
        let plural = if lanes == 1 { "" } else { "s" };
        let seen = format!("{gbit_s} Gbit/s over {lanes} lane{plural}");
        if self.driver.is_software() {
            return check.fine(format!("{seen}, nominal: the device is software"));
        }
        if lanes == 1 && !self.is_ethernet() {
            return check.look(
                seen,
                "InfiniBand links have 4 lanes, or 2 if a port is split: some lanes have failed",
                format!("iblinkinfo; another cable; sudo mlxlink -d {}", self.device),
            );
        }
        // The command that shows the rates that the card supports.
        let show = match self.is_ethernet() {
            true => format!("ethtool {}", self.interface()),
            false => format!("iblinkinfo; sudo mlxlink -d {}", self.device),
        };
        let Some(Kind { name, gbit_s: most, .. }) = self.kind else {
            let finding =
                check.not_seen(format_args!("{seen}; the maximum rate of the card is unknown"));
            return finding.command(show);
        };
        match gbit_s / f64::from(*most) {
            1.0.. => check.fine(seen),
            share if share < SUSPECT_RATE_SHARE => check.look(
                format!("{seen}; cards of {name} support up to {most} Gbit/s"),
                "the card is a slow model, or its cable, module or switch limits the link",
                show,
            ),
            _ => check
                .not_seen(format_args!(
                    "{seen}; the maximum rate of this card is unknown, cards of {name} support up \
                     to {most} Gbit/s"
                ))
                .command(show),
        }
    }

    fn mtu(&self) -> Finding {
        let check = self.check("mtu", Note::MTU);
        let port = &self.facts.port;
        if port.mtu >= port.max_mtu {
            return check.fine(port.mtu.to_string());
        }
        let buckets = (128_u32 << port.mtu.code()) / 8;
        let command = match self.is_ethernet() {
            // 4096 bytes and the headers of RoCE v2 over IPv6.
            true if port.max_mtu == Mtu::Bytes4096 => format!(
                "sudo ip link set {} mtu 4200, on both nodes and the switch",
                self.interface()
            ),
            true => format!("sudo ip link set {} mtu LARGER", self.interface()),
            false => "mtu=5 for the partition in opensm's partitions.conf".to_owned(),
        };
        check.look(
            format!("{} of {}", port.mtu, port.max_mtu),
            format!(
                "the response to a chunk READ takes several packets if C is more than {buckets}"
            ),
            command,
        )
    }

    fn gid(&self) -> Finding {
        let check = self.check("gid", Note::GIDS);
        let error = match &self.facts.gid {
            Ok(entry) => {
                return check.fine(format!("{}, {}, index {}", entry.kind, entry.gid, entry.index));
            }
            Err(error) => error,
        };
        // The address must be unique in the network.
        let add_address = || format!("sudo ip address add ADDRESS/PREFIX dev {}", self.interface());
        let (consequence, command) = match error {
            GidError::Unreadable(_) => (
                "no GID can be selected",
                format!("grep . /{}; sudo dmesg | tail -50", self.path("gids/*")),
            ),
            GidError::Empty => ("peers have no GID to connect to", add_address()),
            GidError::OnlyLinkLocal => ("engines open only with --gid-index N", add_address()),
            _ => (
                "RoCE v1 is not routed between subnets; engines open only with --gid-index N",
                format!("cat /{}", self.path("gid_attrs/types/*")),
            ),
        };
        check.broken(error.to_string(), consequence, command)
    }

    /// Reports packets that were retransmitted since the device came up.
    fn retransmissions(&self) -> Finding {
        let check = self.check("sent-again", Note::LOSSY_ETHERNET);
        let count = |name: &&str| self.root.number(&self.path(&format!("hw_counters/{name}")));
        let counted =
            RETRANSMISSION_COUNTERS.iter().filter_map(|name| Some((*name, count(name).ok()?)));
        let counted: Vec<(&str, u64)> = counted.collect();
        if counted.is_empty() {
            let finding = check.not_seen("the driver shows none of the known counters");
            return finding.command(format!("ls /{}", self.path("hw_counters")));
        }
        let some = counted.iter().filter(|(_, count)| *count > 0);
        let some: Vec<String> = some.map(|(name, count)| format!("{name} {count}")).collect();
        if some.is_empty() {
            return check.fine("none since the device came up");
        }
        check.look(
            format!("{} since the device came up", some.join(", ")),
            "packets or acknowledgements were lost: each loss may cost a timeout of milliseconds",
            format!("grep . /{}, before and after a run", self.path("hw_counters/*")),
        )
    }

    fn lossless(&self) -> Finding {
        self.check("lossless", Note::LOSSY_ETHERNET)
            .not_seen("probeline does not read whether switch and card are lossless (PFC, ECN)")
            .consequence(
                "a lost packet delays a READ by a timeout, and the READs after it are repeated",
            )
            .command(format!("mlnx_qos -i {}", self.interface()))
    }
}
