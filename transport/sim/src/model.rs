//! What an operation costs: the parameters. The network keeps the queues behind them.

use probeline_transport::Owner;

use crate::Kind;

/// A cost that grows with the words moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Nanoseconds for an operation of any length.
    pub base_ns: u64,
    /// Picoseconds for each word; a word takes 640 ps on a link of 100 Gbit/s.
    pub word_ps: u64,
}

/// The times from the moment an operation starts until its completion can be polled, where it
/// waits for nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roundtrips {
    /// A READ.
    pub read: Cost,
    /// A WRITE.
    pub write: Cost,
    /// A compare-and-swap or a fetch-and-add, in nanoseconds.
    pub atomic_ns: u64,
}

/// What longer READs take besides, where a runtime has another protocol for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LongReads {
    /// Those of more words than this.
    pub beyond_words: u32,
    /// In nanoseconds.
    pub more_ns: u64,
}

/// What the words at the end of a CPU's own READ take, which it has fetched ahead of need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prefetched {
    /// Those beyond so many; 0 is none.
    pub beyond_words: u32,
    /// Picoseconds for each, in place of what the others take.
    pub word_ps: u64,
}

/// How many operations one side of a NIC takes a second; 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// READs and WRITEs together.
    pub copies_per_s: u64,
    /// Compare-and-swaps and fetch-and-adds together.
    pub atomics_per_s: u64,
}

/// What is added to a roundtrip by chance, shared out at random over its two ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Jitter {
    /// Nothing.
    #[default]
    None,
    /// 0 to `most_ns`, all equally likely.
    Uniform {
        /// The most that is added.
        most_ns: u64,
    },
    /// An exponential tail, cut at 64 means.
    Exponential {
        /// The mean of what is added.
        mean_ns: u64,
    },
}

/// How a rate falls beyond so many of something.
///
/// Up to `knee` of them it is whole; beyond it each turn takes longer, in proportion to the excess,
/// and twice as long at `knee + halved_by`. A `halved_by` of 0 says that it never falls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fall {
    /// The most that keep the whole rate.
    pub knee: u32,
    /// How many more halve it.
    pub halved_by: u32,
}

/// The one NIC that all ranks of a node share. All zero is no limit.
///
/// It adds waiting to an operation, never service: what an operation takes where nobody else is
/// there is its roundtrip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nic {
    /// What it takes from the ranks of its node.
    pub initiator: Rates,
    /// What it takes from all nodes.
    pub target: Rates,
    /// Bytes that its link carries a second, each way; 0 is no limit.
    pub bytes_per_s: u64,
    /// Bytes that a request or a response has besides its words.
    pub header_bytes: u32,
    /// How `initiator` falls with the operations of the node's ranks in flight.
    pub outstanding: Fall,
    /// How `initiator` and `target` fall with the queue pairs of the node's ranks, one for each
    /// rank and each owner on another node.
    pub connections: Fall,
}

/// Which nodes are further from each other than others.
///
/// Nodes that one switch holds stand at one; more stand evenly at all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// Nodes that one switch holds; 0 is any number.
    pub nodes_each: u32,
    /// Switches.
    pub count: u32,
    /// What a roundtrip between nodes of two switches takes longer, in nanoseconds.
    pub further_ns: u64,
}

/// Which ranks of a node share more than its NIC: a socket's clock, caches and memory.
///
/// Ranks fill one socket after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sockets {
    /// Ranks that one socket holds; 0 is any number.
    pub ranks_each: u32,
    /// For each further rank on the initiator's with something in flight, in nanoseconds.
    pub neighbour_ns: u64,
}

/// What everything costs. All zero is [`Model::instant`].
///
/// An operation starts `post_ns` after the call that posts it, waits for its turn at the
/// initiator's NIC, takes half its roundtrip to the owner, waits for its turn at the owner's NIC
/// and, an atomic, for its word; there it has its effect, and the other half of the roundtrip
/// later its completion can be polled. Turns are given in the order of posting.
///
/// Two kinds of turns are waited for. Those of `initiator` and `target` are each rank's own, as of a
/// process's own software or queue pair; those of [`nic`](Self::nic) are shared by the ranks of
/// a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// CPU time of each post, in nanoseconds.
    pub post_ns: u64,
    /// CPU time of each completion polled, in nanoseconds.
    pub completion_ns: u64,
    /// CPU time of a poll with nothing in flight, in nanoseconds. At least 1 is charged, so that
    /// a loop of such polls reaches whatever it waits for.
    pub idle_poll_ns: u64,
    /// From the last owner's arrival at a barrier or all-gather until all leave, in nanoseconds.
    pub barrier_ns: u64,
    /// Owners on one node, at least 1: owners 0 to n-1 on the first, and so on.
    pub owners_per_node: u32,
    /// Roundtrips between owners of one node, an owner's to itself included.
    pub local: Roundtrips,
    /// Whether those are the CPU's own loads and stores, which it does one after the other and
    /// which take no turns at a NIC, no posts and completions, and no jitter. Posts and completions
    /// of the NIC's operations are the same CPU's, and yet are not taken from the same time: a rank
    /// that mixes the two does both at once here, which no CPU does.
    pub local_by_cpu: bool,
    /// The CPU's own READs of many words; a NIC's have none of it.
    pub local_prefetched: Prefetched,
    /// Roundtrips between nodes.
    pub remote: Roundtrips,
    /// What they take besides where much is READ.
    pub remote_long: LongReads,
    /// What chance adds to every roundtrip.
    pub jitter: Jitter,
    /// What a roundtrip to another node takes longer for each further rank of the initiator's
    /// node that has something in flight, in nanoseconds.
    pub neighbour_ns: u64,
    /// What it takes longer besides for each of them on the initiator's socket.
    pub sockets: Sockets,
    /// Nodes that are further from each other.
    pub switches: Switches,
    /// What an operation on another node takes longer where its owner has nothing in flight, in
    /// nanoseconds: where owners' CPUs serve requests, one that waits for nothing looks for them
    /// less often.
    pub idle_owner_ns: u64,
    /// What each owner's end takes from that owner.
    pub initiator: Rates,
    /// What each owner's end takes from all owners together, itself included.
    pub target: Rates,
    /// What the owners of a node share.
    pub nic: Nic,
    /// How long an atomic keeps its word from the next one, in nanoseconds. Words 512 apart, or a
    /// multiple of that, keep each other waiting too.
    pub atomic_word_ns: u64,
}

impl Model {
    /// Everything takes no time.
    #[must_use]
    pub const fn instant() -> Self {
        let free = Cost { base_ns: 0, word_ps: 0 };
        let none = Roundtrips { read: free, write: free, atomic_ns: 0 };
        let unlimited = Rates { copies_per_s: 0, atomics_per_s: 0 };
        Self {
            post_ns: 0,
            completion_ns: 0,
            idle_poll_ns: 0,
            barrier_ns: 0,
            owners_per_node: 1,
            local: none,
            local_by_cpu: false,
            local_prefetched: Prefetched { beyond_words: 0, word_ps: 0 },
            remote: none,
            remote_long: LongReads { beyond_words: 0, more_ns: 0 },
            jitter: Jitter::None,
            neighbour_ns: 0,
            sockets: Sockets { ranks_each: 0, neighbour_ns: 0 },
            switches: Switches { nodes_each: 0, count: 0, further_ns: 0 },
            idle_owner_ns: 0,
            initiator: unlimited,
            target: unlimited,
            nic: Nic::UNLIMITED,
            atomic_word_ns: 0,
        }
    }

    /// Every operation and barrier between owners takes `remote_roundtrip_ns`, an owner's
    /// operations on its own window a tenth of that, and nothing else takes time.
    #[must_use]
    pub const fn simple(remote_roundtrip_ns: u64) -> Self {
        Self {
            idle_poll_ns: remote_roundtrip_ns / 64,
            barrier_ns: remote_roundtrip_ns,
            local: alike(remote_roundtrip_ns / 10),
            remote: alike(remote_roundtrip_ns),
            ..Self::instant()
        }
    }

    /// One operation's roundtrip where it waits for nothing, in nanoseconds, without jitter,
    /// between nodes of one switch, with an owner that is not idle and neighbours that are.
    #[must_use]
    pub fn roundtrip_ns(&self, kind: Kind, words: u32, from: Owner, to: Owner) -> u64 {
        let local = self.is_local(from, to);
        let trips = if local { &self.local } else { &self.remote };
        let trip_ns = match kind {
            Kind::Read if self.is_by_cpu(from, to) => {
                self.local_prefetched.read_ns(&trips.read, words)
            }
            Kind::Read => trips.read.of(words),
            Kind::Write => trips.write.of(words),
            Kind::CompareAndSwap | Kind::FetchAdd => trips.atomic_ns,
        };
        if local {
            return trip_ns;
        }
        let long = kind == Kind::Read && words > self.remote_long.beyond_words;
        let long_ns = if long { self.remote_long.more_ns } else { 0 };
        trip_ns.saturating_add(long_ns)
    }

    /// Whether both are on one node.
    #[must_use]
    pub fn is_local(&self, from: Owner, to: Owner) -> bool {
        self.node(from) == self.node(to)
    }

    /// Whether the CPU reaches `to`'s words itself.
    pub(crate) fn is_by_cpu(&self, from: Owner, to: Owner) -> bool {
        self.local_by_cpu && self.is_local(from, to)
    }

    pub(crate) fn node(&self, owner: Owner) -> u32 {
        owner.0 / self.owners_per_node.max(1)
    }

    /// Whether both, of one node, are on one socket.
    pub(crate) fn share_socket(&self, one: u32, other: u32) -> bool {
        let socket = |owner: u32| match self.sockets.ranks_each {
            0 => 0,
            each => owner % self.owners_per_node.max(1) / each,
        };
        socket(one) == socket(other)
    }
}

impl Nic {
    const UNLIMITED: Self = {
        let unlimited = Rates { copies_per_s: 0, atomics_per_s: 0 };
        let never = Fall { knee: 0, halved_by: 0 };
        Self {
            initiator: unlimited,
            target: unlimited,
            bytes_per_s: 0,
            header_bytes: 0,
            outstanding: never,
            connections: never,
        }
    };
}

impl Fall {
    /// A turn of `turn_ps` where there are `count`.
    pub(crate) fn stretch(&self, turn_ps: u64, count: u64) -> u64 {
        let excess = count.saturating_sub(self.knee.into());
        if self.halved_by == 0 || excess == 0 {
            return turn_ps;
        }
        turn_ps.saturating_add(turn_ps.saturating_mul(excess) / u64::from(self.halved_by))
    }
}

impl Default for Model {
    fn default() -> Self {
        Self::instant()
    }
}

const fn alike(roundtrip_ns: u64) -> Roundtrips {
    let cost = Cost { base_ns: roundtrip_ns, word_ps: 0 };
    Roundtrips { read: cost, write: cost, atomic_ns: roundtrip_ns }
}

impl Cost {
    fn of(&self, words: u32) -> u64 {
        self.base_ns.saturating_add(self.word_ps.saturating_mul(words.into()) / PS_PER_NS)
    }
}

impl Prefetched {
    fn read_ns(&self, read: &Cost, words: u32) -> u64 {
        let ahead = match self.beyond_words {
            0 => 0,
            beyond => words.saturating_sub(beyond),
        };
        read.of(words - ahead).saturating_add(self.word_ps.saturating_mul(ahead.into()) / PS_PER_NS)
    }
}

const PS_PER_NS: u64 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_of_a_node_are_local_to_each_other() {
        let model = Model { owners_per_node: 2, ..Model::simple(1_000) };
        let trip = |from, to| model.roundtrip_ns(Kind::Write, 1, Owner(from), Owner(to));
        assert_eq!([trip(0, 0), trip(0, 1), trip(1, 2), trip(3, 2)], [100, 100, 1_000, 100]);
    }

    #[test]
    fn longer_reads_between_nodes_take_more() {
        let remote_long = LongReads { beyond_words: 16, more_ns: 50 };
        let model = Model { remote_long, ..Model::simple(1_000) };
        let trip = |kind, words, to| model.roundtrip_ns(kind, words, Owner(0), Owner(to));
        assert_eq!([16, 17].map(|words| trip(Kind::Read, words, 1)), [1_000, 1_050]);
        assert_eq!([trip(Kind::Read, 17, 0), trip(Kind::Write, 17, 1)], [100, 1_000]);
    }

    #[test]
    fn a_cpu_has_the_end_of_a_long_read_sooner() {
        let read = Cost { base_ns: 50, word_ps: 2_000 };
        let local = Roundtrips { read, ..Model::simple(1_000).local };
        let local_prefetched = Prefetched { beyond_words: 32, word_ps: 500 };
        let model = Model { local, local_by_cpu: true, local_prefetched, ..Model::simple(1_000) };
        let trip = |kind, words, to| model.roundtrip_ns(kind, words, Owner(0), Owner(to));
        assert_eq!([8, 32, 64].map(|words| trip(Kind::Read, words, 0)), [66, 114, 130]);
        assert_eq!(trip(Kind::Read, 64, 1), 1_000);
        let all = Model { local_prefetched: Prefetched::default(), ..model };
        assert_eq!(all.roundtrip_ns(Kind::Read, 64, Owner(0), Owner(0)), 178);
        let by_nic = Model { local_by_cpu: false, ..model };
        assert_eq!(by_nic.roundtrip_ns(Kind::Read, 64, Owner(0), Owner(0)), 178);
    }

    #[test]
    fn a_rate_is_whole_up_to_the_knee_and_then_falls() {
        let fall = Fall { knee: 1_000, halved_by: 2_000 };
        let turns = [0, 1_000, 1_500, 3_000, 5_000].map(|count| fall.stretch(8_000, count));
        assert_eq!(turns, [8_000, 8_000, 10_000, 16_000, 24_000]);
        assert_eq!(Fall::default().stretch(8_000, u64::MAX), 8_000);
        assert_eq!(fall.stretch(u64::MAX, u64::MAX), u64::MAX);
    }
}
