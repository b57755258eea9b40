//! Checks a port: its link, rate, MTU, GID and retransmissions.

use probeline_verbs::{GidError, LinkLayer, Mtu, PortState};

use crate::driver::{Driver, Kind};
use crate::facts::PortFacts;
use crate::root::Root;
use crate::{Finding, Note, Subject};

/// The port to check, and its context.
pub(crate) struct Looked<'a> {
    pub(crate) root: &'a Root,
    pub(crate) device: &'a str,
    pub(crate) driver: &'a Driver,
    pub(crate) kind: Option<&'static Kind>,
    pub(crate) facts: &'a PortFacts,
    /// Whether another port could be used instead.
    pub(crate) another: bool,
}

/// A link below this fraction of the maximum rate of its generation has more likely come up wrong
/// than belongs to a slow card.
const UNLIKELY: f64 = 0.25;

/// Counters of retransmitted packets, of mlx5 and of Soft-RoCE.
const SENT_AGAIN: [&str; 6] = [
    "local_ack_timeout_err",
    "packet_seq_err",
    "out_of_sequence",
    "completer_retry_err",
    "out_of_seq_request",
    "retry_exceeded_err",
];

impl Looked<'_> {
    pub(crate) fn checks(&self) -> Vec<Finding> {
        let link = self.link();
        if !self.facts.port.active {
            return vec![link];
        }
        let mut all = vec![link, self.rate(), self.mtu(), self.gid(), self.lost()];
        if self.is_ethernet() && !self.driver.is_software() {
            all.push(self.lossless());
        }
        all
    }

    fn subject(&self) -> Subject {
        Subject::Port(self.device.to_owned(), self.facts.port.number)
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
        const CHECK: &str = "link";
        let (port, subject) = (&self.facts.port, self.subject());
        let seen = format!("{}, {}", port.state, port.link_layer);
        if port.active {
            return Finding::fine(CHECK, &subject, seen).note(Note::LINK_STATE);
        }
        let finding = if self.another {
            Finding::look(CHECK, &subject, seen)
                .consequence("another port is active, and would be used")
        } else {
            Finding::broken(CHECK, &subject, seen).consequence("no packet leaves or arrives")
        };
        let mend = match port.state {
            _ if self.is_ethernet() => format!("sudo ip link set {} up", self.interface()),
            PortState::Init | PortState::Armed => {
                "sudo systemctl start opensm, on one machine of the subnet".to_owned()
            }
            _ => "see that the cable is in at both ends; ibstat, iblinkinfo".to_owned(),
        };
        finding.command(mend).note(Note::LINK_STATE)
    }

    fn rate(&self) -> Finding {
        const CHECK: &str = "rate";
        let (port, subject) = (&self.facts.port, self.subject());
        let (Some(gbit_s), Some(lanes)) = (port.gbit_s(), port.lanes) else {
            return Finding::not_seen(CHECK, &subject, "codes that this program does not know")
                .command(format!("cat /{}", self.path("rate")))
                .note(Note::LINK_STATE);
        };
        let plural = if lanes == 1 { "" } else { "s" };
        let seen = format!("{gbit_s} Gbit/s over {lanes} lane{plural}");
        if self.driver.is_software() {
            let seen = format!("{seen}, as it says; it is software");
            return Finding::fine(CHECK, &subject, seen);
        }
        if lanes == 1 && !self.is_ethernet() {
            return Finding::look(CHECK, &subject, seen)
                .consequence(
                    "InfiniBand links have 4 lanes, or 2 where a port is split: some have failed",
                )
                .command(format!("iblinkinfo; another cable; sudo mlxlink -d {}", self.device))
                .note(Note::LINK_STATE);
        }
        let Some(kind) = self.kind else {
            let seen = format!("{seen}; whether that is all that it can");
            return Finding::not_seen(CHECK, &subject, seen)
                .command(self.show_rates())
                .note(Note::LINK_STATE);
        };
        let (most, share) = (kind.gbit_s, gbit_s / f64::from(kind.gbit_s));
        let finding = if share >= 1.0 {
            Finding::fine(CHECK, &subject, seen)
        } else if share < UNLIKELY {
            let seen = format!("{seen}, of up to {most} that cards of {} carry", kind.name);
            Finding::look(CHECK, &subject, seen)
                .consequence(
                    "the card is a slow one, or its cable, module or switch held the link back",
                )
                .command(self.show_rates())
        } else {
            let seen = format!(
                "{seen}; whether that is all that this card can: of {} there are cards of up to \
                 {most}",
                kind.name
            );
            Finding::not_seen(CHECK, &subject, seen).command(self.show_rates())
        };
        finding.note(Note::LINK_STATE)
    }

    /// Returns the command that shows the rates that the card supports.
    fn show_rates(&self) -> String {
        match self.is_ethernet() {
            true => format!("ethtool {}", self.interface()),
            false => format!("iblinkinfo; sudo mlxlink -d {}", self.device),
        }
    }

    fn mtu(&self) -> Finding {
        const CHECK: &str = "mtu";
        let (port, subject) = (&self.facts.port, self.subject());
        if port.mtu >= port.max_mtu {
            return Finding::fine(CHECK, &subject, port.mtu.to_string()).note(Note::MTU);
        }
        let buckets = (128_u32 << port.mtu.code()) / 8;
        let mend = match self.is_ethernet() {
            // 4096 bytes and the headers of RoCE v2 over IPv6.
            true if port.max_mtu == Mtu::Bytes4096 => {
                format!(
                    "sudo ip link set {} mtu 4200, on both nodes and the switch",
                    self.interface()
                )
            }
            true => format!("sudo ip link set {} mtu LARGER", self.interface()),
            false => "mtu=5 for the partition in opensm's partitions.conf".to_owned(),
        };
        Finding::look(CHECK, &subject, format!("{} of {}", port.mtu, port.max_mtu))
            .consequence(format!(
                "what a READ brings comes in several packets where C is more than {buckets}"
            ))
            .command(mend)
            .note(Note::MTU)
    }

    fn gid(&self) -> Finding {
        const CHECK: &str = "gid";
        let subject = self.subject();
        let error = match &self.facts.gid {
            Ok(entry) => {
                let seen = format!("{}, {}, index {}", entry.kind, entry.gid, entry.index);
                return Finding::fine(CHECK, &subject, seen).note(Note::GIDS);
            }
            Err(error) => error,
        };
        let finding = Finding::broken(CHECK, &subject, error.to_string());
        let finding = match error {
            GidError::Unreadable(_) => finding
                .consequence("no address can be chosen")
                .command(format!("grep . /{}; sudo dmesg | tail -50", self.path("gids/*"))),
            GidError::Empty => finding
                .consequence("there is no address that peers could reach")
                .command(self.add_address()),
            GidError::OnlyLinkLocal => finding
                .consequence("engines open only with --gid-index N")
                .command(self.add_address()),
            _ => finding
                .consequence(
                    "RoCE v1 stays within one switch; engines open with --gid-index N only",
                )
                .command(format!("cat /{}", self.path("gid_attrs/types/*"))),
        };
        finding.note(Note::GIDS)
    }

    /// Returns the command that adds an address, which must be unique in the network.
    fn add_address(&self) -> String {
        format!("sudo ip address add ADDRESS/PREFIX dev {}", self.interface())
    }

    /// Reports packets that were retransmitted since the device came up.
    fn lost(&self) -> Finding {
        const CHECK: &str = "sent-again";
        let subject = self.subject();
        let count = |name: &&str| self.root.number(&self.path(&format!("hw_counters/{name}")));
        let counted = SENT_AGAIN.iter().filter_map(|name| Some((*name, count(name).ok()?)));
        let counted: Vec<(&str, u64)> = counted.collect();
        if counted.is_empty() {
            let why = "the driver shows none of the counters that are known here";
            return Finding::not_seen(CHECK, &subject, why)
                .command(format!("ls /{}", self.path("hw_counters")))
                .note(Note::LOSSY_ETHERNET);
        }
        let some = counted.iter().filter(|(_, count)| *count > 0);
        let some: Vec<String> = some.map(|(name, count)| format!("{name} {count}")).collect();
        if some.is_empty() {
            let seen = "nothing since the device came up";
            return Finding::fine(CHECK, &subject, seen).note(Note::LOSSY_ETHERNET);
        }
        Finding::look(CHECK, &subject, format!("{} since the device came up", some.join(", ")))
            .consequence("packets or their answers were lost: each costs a timeout of milliseconds")
            .command(format!("grep . /{}, before and after a run", self.path("hw_counters/*")))
            .note(Note::LOSSY_ETHERNET)
    }

    fn lossless(&self) -> Finding {
        let why = "whether switch and card are set to lose no packet (PFC, ECN)";
        Finding::not_seen("lossless", &self.subject(), why)
            .consequence("a lost packet costs a READ a timeout, and repeats READs behind it")
            .command(format!("mlnx_qos -i {}", self.interface()))
            .note(Note::LOSSY_ETHERNET)
    }
}
