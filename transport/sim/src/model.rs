//! The cost model: the parameters of an operation's time. `network` keeps the queues behind them.

use probeline_transport::Owner;

use crate::Kind;

/// A cost that grows with the number of words moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Nanoseconds for an operation of any length.
    pub base_ns: u64,
    /// Picoseconds for each word; a word takes 640 ps on a link of 100 Gbit/s.
    pub word_ps: u64,
}

/// Roundtrip times: from the start of an operation until its completion can be polled, without
/// any queueing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roundtrips {
    /// A READ, or a WRITE of as many words.
    pub read: Cost,
    /// A compare-and-swap or a fetch-and-add, in nanoseconds.
    pub atomic_ns: u64,
}

/// The additional time of long READs, for a runtime that uses another protocol for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LongReads {
    /// The most words that a READ has without additional time.
    pub beyond_words: u32,
    /// The additional time of a longer READ, in nanoseconds.
    pub more_ns: u64,
}

/// The cost of the words at the end of a CPU's own READ, which the hardware prefetches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prefetched {
    /// The number of words at the start that are not prefetched; 0 disables prefetching.
    pub beyond_words: u32,
    /// Picoseconds for each prefetched word, instead of [`Cost::word_ps`].
    pub word_ps: u64,
}

/// The number of operations that one side of a NIC takes in a second; 0 is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// READs per second.
    pub reads_per_s: u64,
    /// WRITEs, which take turns with the READs; 0 is the rate of READs.
    pub writes_per_s: u64,
    /// Compare-and-swaps and fetch-and-adds together.
    pub atomics_per_s: u64,
}

/// The decrease of a rate with a count, such as the operations outstanding.
///
/// The rate is full up to a count of `knee`. Beyond it each turn takes longer in proportion to the
/// excess, and twice as long at `knee + halved_by`. A `halved_by` of 0 keeps the full rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slowdown {
    /// The highest count with the full rate.
    pub knee: u32,
    /// The excess over `knee` that halves the rate.
    pub halved_by: u32,
}

/// The one NIC that all ranks of a node share. All zero is unlimited.
///
/// It adds queueing time to an operation, never service time: an operation alone takes exactly its
/// roundtrip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nic {
    /// The rates at which it takes operations from the ranks of its node.
    pub initiator: Rates,
    /// The rates at which it takes operations from all nodes.
    pub target: Rates,
    /// Bytes that its link carries in a second in each direction; 0 is unlimited.
    pub bytes_per_s: u64,
    /// Bytes of a request or a response besides its words.
    pub header_bytes: u32,
    /// The decrease of `initiator` with the operations in flight of the node's ranks.
    pub outstanding: Slowdown,
    /// The decrease of `initiator` and `target` with the queue pairs of the node's ranks, one for
    /// each rank and each owner on another node.
    pub connections: Slowdown,
}

/// The switches of the network, which make some nodes further from each other than others.
///
/// If all nodes fit on one switch they share it; otherwise they are spread evenly over all
/// switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// The number of nodes that fit on one switch; 0 is unlimited.
    pub nodes_each: u32,
    /// The number of switches.
    pub count: u32,
    /// The additional time of a roundtrip between nodes of two switches, in nanoseconds.
    pub further_ns: u64,
}

/// The sockets of a node, whose ranks share a clock, caches and memory besides the NIC.
///
/// Ranks fill one socket after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sockets {
    /// The number of ranks on one socket; 0 is unlimited.
    pub ranks_each: u32,
    /// The additional time for each further rank on the initiator's socket that has something in
    /// flight, in nanoseconds.
    pub neighbour_ns: u64,
}

/// The costs of all operations. All zero is [`Model::instant`].
///
/// An operation starts `post_ns` after the call that posts it. It waits for its turn at the
/// initiator's NIC, takes half its roundtrip to the owner, and waits for its turn at the owner's
/// NIC; an atomic also waits for its word. There it takes effect. Its completion can be polled the
/// other half of the roundtrip later. Turns follow the order of posting.
///
/// There are two kinds of turns. Those of `initiator` belong to one rank, as the turns of its
/// software or its queue pair do. Those of [`nic`](Self::nic) are shared by the ranks of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Model {
    /// CPU time of each post, in nanoseconds.
    pub post_ns: u64,
    /// CPU time of each completion polled, in nanoseconds.
    pub completion_ns: u64,
    /// CPU time of a poll with nothing in flight, in nanoseconds. At least 1 ns is charged, so that
    /// a loop of such polls advances the time.
    pub idle_poll_ns: u64,
    /// Nanoseconds from the last owner's arrival at a barrier or all-gather until all owners leave.
    pub barrier_ns: u64,
    /// Owners on one node: owners 0 to n-1 are on the first node, and so on. 0 counts as 1.
    pub owners_per_node: u32,
    /// Roundtrips between owners of one node, including an owner's operations on itself.
    pub local: Roundtrips,
    /// Whether the CPU executes local operations itself, as loads and stores, one after the other.
    /// Local operations then take no turns at a NIC, cost no post and completion time, and have no
    /// jitter. Posts and completions of NIC operations use the same CPU, but the model does not add
    /// the two times: a rank that mixes both does them at once, which no real CPU does.
    pub local_by_cpu: bool,
    /// The prefetching of the CPU's own long READs; READs of a NIC are not prefetched.
    pub local_prefetched: Prefetched,
    /// Roundtrips between nodes.
    pub remote: Roundtrips,
    /// The additional time of long READs between nodes.
    pub remote_long: LongReads,
    /// The mean of the random time added to every roundtrip and split at random between its two ways,
    /// in nanoseconds: an exponential draw, capped at 64 times its mean.
    pub jitter_mean_ns: u64,
    /// The additional time of a roundtrip to another node for each further rank of the initiator's
    /// node that has something in flight, in nanoseconds.
    pub neighbour_ns: u64,
    /// The further additional time for each such rank on the initiator's socket.
    pub sockets: Sockets,
    /// The switches between the nodes.
    pub switches: Switches,
    /// The additional time of an operation on another node whose owner has nothing in flight, in
    /// nanoseconds. It models owners whose CPUs serve requests: an idle owner checks for them less
    /// often.
    pub idle_owner_ns: u64,
    /// The rates of each owner's initiator side, which takes that owner's operations.
    pub initiator: Rates,
    /// The NIC that the owners of a node share.
    pub nic: Nic,
    /// The time for which an atomic blocks its word for the next atomic, in nanoseconds. Words
    /// whose indices differ by a multiple of 512 also block each other.
    pub atomic_word_ns: u64,
}

impl Model {
    /// Returns a model in which nothing takes time.
    #[must_use]
    pub fn instant() -> Self {
        Self::default()
    }

    /// Returns a model in which every operation and barrier between owners takes
    /// `remote_roundtrip_ns`, an owner's operation on its own window takes a tenth of that, and
    /// nothing else takes time.
    #[must_use]
    pub fn simple(remote_roundtrip_ns: u64) -> Self {
        let all = |base_ns| Roundtrips { read: Cost { base_ns, word_ps: 0 }, atomic_ns: base_ns };
        Self {
            idle_poll_ns: remote_roundtrip_ns / 64,
            barrier_ns: remote_roundtrip_ns,
            local: all(remote_roundtrip_ns / 10),
            remote: all(remote_roundtrip_ns),
            ..Self::default()
        }
    }

    /// Returns the roundtrip of one operation in nanoseconds, without queueing and jitter, between
    /// nodes of one switch, with a busy owner and idle neighbours.
    #[must_use]
    pub fn roundtrip_ns(&self, kind: Kind, words: u32, from: Owner, to: Owner) -> u64 {
        let local = self.is_local(from, to);
        let trips = if local { &self.local } else { &self.remote };
        let is_read = kind == Kind::Read;
        if kind.is_atomic() {
            trips.atomic_ns
        } else if is_read && self.is_by_cpu(from, to) {
            self.local_prefetched.read_ns(&trips.read, words)
        } else {
            let long = is_read && !local && words > self.remote_long.beyond_words;
            let long_ns = if long { self.remote_long.more_ns } else { 0 };
            trips.read.of(words).saturating_add(long_ns)
        }
    }

    /// Returns the mean roundtrip of one operation in nanoseconds if each of `owners` owners has
    /// operations in flight, with the jitter, the switches and the neighbours, and without
    /// queueing.
    #[must_use]
    pub fn busy_roundtrip_ns(
        &self,
        kind: Kind,
        words: u32,
        from: Owner,
        to: Owner,
        owners: u32,
    ) -> f64 {
        let alone_ns = self.roundtrip_ns(kind, words, from, to) as f64;
        if self.is_by_cpu(from, to) {
            return alone_ns;
        }
        let jittered_ns = alone_ns + self.jitter_mean_ns as f64;
        if self.is_local(from, to) {
            return jittered_ns;
        }
        let ranks = self.owners_per_node.max(1);
        let first = self.node(from).saturating_mul(ranks);
        let others = (first..owners.min(first.saturating_add(ranks))).filter(|&one| one != from.0);
        let neighbours_ns: u64 = others.map(|other| self.neighbour_ns_of(from.0, other)).sum();
        let nodes = u64::from(owners.div_ceil(ranks));
        let further_ns = self.switches.between_ns(self.node(from), self.node(to), nodes);
        jittered_ns + neighbours_ns as f64 + further_ns as f64
    }

    /// Returns the time that a busy neighbour on the initiator's node adds to a roundtrip to
    /// another node.
    pub(crate) fn neighbour_ns_of(&self, from: u32, neighbour: u32) -> u64 {
        let near = self.share_socket(from, neighbour);
        self.neighbour_ns.saturating_add(if near { self.sockets.neighbour_ns } else { 0 })
    }

    /// Returns whether both owners are on one node.
    #[must_use]
    pub fn is_local(&self, from: Owner, to: Owner) -> bool {
        self.node(from) == self.node(to)
    }

    /// Returns whether `from`'s CPU accesses the words of `to` itself.
    #[must_use]
    pub fn is_by_cpu(&self, from: Owner, to: Owner) -> bool {
        self.local_by_cpu && self.is_local(from, to)
    }

    pub(crate) fn node(&self, owner: Owner) -> u32 {
        owner.0 / self.owners_per_node.max(1)
    }

    /// Returns whether two owners of one node are on one socket.
    pub(crate) fn share_socket(&self, one: u32, other: u32) -> bool {
        let socket = |owner: u32| match self.sockets.ranks_each {
            0 => 0,
            each => owner % self.owners_per_node.max(1) / each,
        };
        socket(one) == socket(other)
    }
}

impl Switches {
    /// Returns the additional time of a roundtrip between the nodes `from` and `to`, of `nodes`
    /// nodes.
    pub(crate) fn between_ns(&self, from: u32, to: u32, nodes: u64) -> u64 {
        if self.nodes_each == 0 || nodes <= self.nodes_each.into() {
            return 0;
        }
        let switch = |node: u32| u64::from(node) * u64::from(self.count) / nodes;
        if switch(from) == switch(to) { 0 } else { self.further_ns }
    }
}

impl Rates {
    pub(crate) fn of(&self, kind: Kind) -> u64 {
        match kind {
            Kind::CompareAndSwap | Kind::FetchAdd => self.atomics_per_s,
            Kind::Write if self.writes_per_s > 0 => self.writes_per_s,
            Kind::Read | Kind::Write => self.reads_per_s,
        }
    }
}

impl Slowdown {
    /// Returns the duration of a turn of `turn_ps`, in picoseconds, at this count.
    pub(crate) fn stretch(&self, turn_ps: u64, count: u64) -> u64 {
        let excess = count.saturating_sub(self.knee.into());
        if self.halved_by == 0 || excess == 0 {
            return turn_ps;
        }
        turn_ps.saturating_add(turn_ps.saturating_mul(excess) / u64::from(self.halved_by))
    }
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
    fn same_node_owners_are_local() {
        let model = Model { owners_per_node: 2, ..Model::simple(1_000) };
        let trip = |from, to| model.roundtrip_ns(Kind::Write, 1, Owner(from), Owner(to));
        assert_eq!([trip(0, 0), trip(0, 1), trip(1, 2), trip(3, 2)], [100, 100, 1_000, 100]);
    }

    #[test]
    fn long_remote_reads_cost_more() {
        let remote_long = LongReads { beyond_words: 16, more_ns: 50 };
        let model = Model { remote_long, ..Model::simple(1_000) };
        let trip = |kind, words, to| model.roundtrip_ns(kind, words, Owner(0), Owner(to));
        assert_eq!([16, 17].map(|words| trip(Kind::Read, words, 1)), [1_000, 1_050]);
        assert_eq!([trip(Kind::Read, 17, 0), trip(Kind::Write, 17, 1)], [100, 1_000]);
    }

    #[test]
    fn busy_roundtrip_excludes_queueing() {
        let model = Model {
            owners_per_node: 3,
            jitter_mean_ns: 10,
            neighbour_ns: 100,
            sockets: Sockets { ranks_each: 2, neighbour_ns: 7 },
            switches: Switches { nodes_each: 1, count: 3, further_ns: 1_000 },
            ..Model::simple(100_000)
        };
        let busy = |model: Model, from, to, owners| {
            model.busy_roundtrip_ns(Kind::Read, 1, Owner(from), Owner(to), owners)
        };
        // Owners 0 and 1 share a socket, owner 2 has one of its own.
        assert_eq!(busy(model, 0, 3, 9), 101_217.0);
        assert_eq!(busy(model, 2, 3, 9), 101_210.0);
        assert_eq!(busy(model, 0, 3, 4), 101_217.0, "the last node has fewer owners");
        assert_eq!(busy(model, 0, 1, 9), 10_010.0, "the node's own memory");
        assert_eq!(busy(Model { local_by_cpu: true, ..model }, 0, 1, 9), 10_000.0);
        let one_switch = Switches { nodes_each: 3, ..model.switches };
        assert_eq!(busy(Model { switches: one_switch, ..model }, 0, 3, 9), 100_217.0);
    }

    #[test]
    fn prefetched_words_cost_less() {
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
    fn rate_falls_beyond_knee() {
        let fall = Slowdown { knee: 1_000, halved_by: 2_000 };
        let turns = [0, 1_000, 1_500, 3_000, 5_000].map(|count| fall.stretch(8_000, count));
        assert_eq!(turns, [8_000, 8_000, 10_000, 16_000, 24_000]);
        assert_eq!(Slowdown::default().stretch(8_000, u64::MAX), 8_000);
        assert_eq!(fall.stretch(u64::MAX, u64::MAX), u64::MAX);
    }
}
