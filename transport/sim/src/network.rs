//! The network: applies the cost model, keeps its queues, and draws the jitter.

use alloc::boxed::Box;
use alloc::vec;

use probeline_transport::{Owner, RemoteWord};

use crate::queue::{PerKind, Station, Turns};
use crate::{Kind, Model, Rng};

/// The times at which one operation takes effect and at which its completion can be polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) effect_ns: u64,
    pub(crate) done_ns: u64,
}

/// An operation to be scheduled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub(crate) kind: Kind,
    pub(crate) words: u32,
    pub(crate) from: Owner,
    pub(crate) to: RemoteWord,
    pub(crate) now_ns: u64,
    /// The factor by which the roundtrip of the model is multiplied.
    pub(crate) factor: u32,
    /// Whether the owner of `to` has nothing in flight.
    pub(crate) owner_idle: bool,
}

/// The cost model with the state of its queues.
pub(crate) struct Network {
    model: Model,
    queues: Box<[OwnerQueues]>,
    nics: Box<[SharedNic]>,
    /// The number of operations in flight of each owner.
    in_flight: Box<[u32]>,
    rng: Rng,
    /// The number of queue pairs of one node's ranks.
    connections: u64,
    nodes: u64,
}

/// The queues that belong to one owner.
struct OwnerQueues {
    initiator: PerKind<Turns>,
    /// The time at which the owner's CPU can execute its next own operation.
    cpu_free_ns: u64,
    /// The time at which each group of this owner's words takes the next atomic, in nanoseconds.
    words_free_ns: Box<[u64]>,
}

/// The NIC that the owners of a node share.
#[derive(Default)]
struct SharedNic {
    initiator: PerKind<Station>,
    target: PerKind<Station>,
    inward: Station,
    outward: Station,
    /// The number of operations in flight of the node's ranks that use this NIC.
    outstanding: u64,
}

/// Words of one owner whose indices are equal modulo this number block each other's atomics. It is
/// a power of two far above the operations in flight on one window, and costs 4 KiB for each owner.
pub const WORD_GROUPS: usize = 512;
const WORD_BYTES: u64 = probeline_transport::WORD_BYTES as u64;
const PS_PER_S: u64 = 1_000_000_000_000;

impl Network {
    pub(crate) fn new(model: Model, owners: u32, rng: Rng) -> Self {
        let groups = if model.atomic_word_ns == 0 { 0 } else { WORD_GROUPS };
        let queue = || OwnerQueues {
            initiator: PerKind::default(),
            cpu_free_ns: 0,
            words_free_ns: vec![0; groups].into_boxed_slice(),
        };
        let ranks = model.owners_per_node.clamp(1, owners.max(1));
        let nodes = owners.div_ceil(ranks);
        Self {
            model,
            queues: (0..owners).map(|_| queue()).collect(),
            nics: (0..nodes).map(|_| SharedNic::default()).collect(),
            in_flight: vec![0; owners as usize].into_boxed_slice(),
            rng,
            connections: u64::from(ranks) * u64::from(owners - owners.min(ranks)),
            nodes: nodes.into(),
        }
    }

    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    /// Schedules an operation: gives it its turns and returns its times.
    pub(crate) fn schedule(&mut self, start: Start) -> Times {
        let Start { kind, words, from, to, now_ns, .. } = start;
        let trip_ns = self.trip_ns(&start);
        self.in_flight[from.0 as usize] += 1;
        if self.model.is_by_cpu(from, to.owner) {
            return self.schedule_on_cpu(&start, trip_ns);
        }
        let jitter_ns = self.rng.exponential(self.model.jitter_mean_ns);
        let out_ns = (trip_ns / 2).saturating_add(self.rng.up_to(jitter_ns));
        let back_ns = trip_ns.saturating_add(jitter_ns) - out_ns;
        let (out_bytes, back_bytes) = self.bytes(kind, words);

        let turn_ps = per_s_ps(1, self.model.initiator.of(kind));
        let posted_ns = self.queue(from).initiator.of(kind).take(turn_ps, now_ns);
        let sent_ns = self.send(from, kind, out_bytes, posted_ns);
        let arrived_ns = self.arrive(to.owner, kind, out_bytes, sent_ns.saturating_add(out_ns));
        let effect_ns = self.take_word(kind, to, arrived_ns);
        let answered_ns = self.answer(from, to.owner, back_bytes, effect_ns);
        Times { effect_ns, done_ns: answered_ns.saturating_add(back_ns) }
    }

    /// Schedules loads and stores, which the CPU executes one after the other.
    fn schedule_on_cpu(&mut self, start: &Start, trip_ns: u64) -> Times {
        let &Start { kind, from, to, now_ns, .. } = start;
        let start_ns = now_ns.max(self.queue(from).cpu_free_ns);
        let effect_ns = self.take_word(kind, to, start_ns.saturating_add(trip_ns / 2));
        let done_ns = effect_ns.saturating_add(trip_ns - trip_ns / 2);
        self.queue(from).cpu_free_ns = done_ns;
        Times { effect_ns, done_ns }
    }

    /// Returns the time at which an operation that is served at `now_ns` takes effect: an atomic
    /// waits for its word.
    fn take_word(&mut self, kind: Kind, to: RemoteWord, now_ns: u64) -> u64 {
        let word_ns = self.model.atomic_word_ns;
        let group = usize::try_from(to.index % WORD_GROUPS as u64).unwrap_or(0);
        match self.queue(to.owner).words_free_ns.get_mut(group) {
            Some(free_ns) if kind.is_atomic() => {
                let start_ns = now_ns.max(*free_ns);
                *free_ns = start_ns.saturating_add(word_ns);
                start_ns
            }
            _ => now_ns,
        }
    }

    /// Removes a completed operation from the counts in flight.
    pub(crate) fn release(&mut self, from: Owner, to: Owner) {
        let in_flight = &mut self.in_flight[from.0 as usize];
        *in_flight = in_flight.saturating_sub(1);
        if !self.model.is_by_cpu(from, to) {
            let nic = self.nic(from);
            nic.outstanding = nic.outstanding.saturating_sub(1);
        }
    }

    fn queue(&mut self, owner: Owner) -> &mut OwnerQueues {
        &mut self.queues[owner.0 as usize]
    }

    fn nic(&mut self, owner: Owner) -> &mut SharedNic {
        &mut self.nics[self.model.node(owner) as usize]
    }

    fn trip_ns(&self, start: &Start) -> u64 {
        let &Start { kind, words, from, to, factor, owner_idle, .. } = start;
        let mut trip_ns = self.model.roundtrip_ns(kind, words, from, to.owner);
        if !self.model.is_local(from, to.owner) {
            let (here, there) = (self.model.node(from), self.model.node(to.owner));
            let further_ns = self.model.switches.between_ns(here, there, self.nodes);
            let idle_ns = if owner_idle { self.model.idle_owner_ns } else { 0 };
            for more_ns in [further_ns, idle_ns, self.neighbours_ns(from)] {
                trip_ns = trip_ns.saturating_add(more_ns);
            }
        }
        trip_ns.saturating_mul(factor.into())
    }

    /// Returns the time that the busy neighbours on the initiator's node add, in nanoseconds.
    fn neighbours_ns(&self, from: Owner) -> u64 {
        if self.model.neighbour_ns == 0 && self.model.sockets.neighbour_ns == 0 {
            return 0;
        }
        let ranks = self.model.owners_per_node.max(1);
        let first = self.model.node(from) * ranks;
        let busy = (first..).zip(self.in_flight.iter().skip(first as usize).take(ranks as usize));
        let busy = busy.filter(|&(owner, &count)| owner != from.0 && count > 0);
        busy.fold(0, |sum: u64, (owner, _)| {
            sum.saturating_add(self.model.neighbour_ns_of(from.0, owner))
        })
    }

    /// Returns the bytes on the wire of the request and of the response. An atomic sends two words
    /// and receives one.
    fn bytes(&self, kind: Kind, words: u32) -> (u64, u64) {
        let (out_words, back_words) = match kind {
            Kind::Read => (0, words.into()),
            Kind::Write => (words.into(), 0),
            Kind::CompareAndSwap | Kind::FetchAdd => (2, 1),
        };
        let bytes = |words: u64| u64::from(self.model.nic.header_bytes) + words * WORD_BYTES;
        (bytes(out_words), bytes(back_words))
    }

    /// Sends a request out through the initiator's NIC; returns the time it leaves, in nanoseconds.
    fn send(&mut self, from: Owner, kind: Kind, bytes: u64, now_ns: u64) -> u64 {
        let (limits, connections) = (self.model.nic, self.connections);
        let nic = self.nic(from);
        nic.outstanding += 1;
        let turn_ps = per_s_ps(1, limits.initiator.of(kind));
        let turn_ps = limits.outstanding.stretch(turn_ps, nic.outstanding);
        let turn_ps = limits.connections.stretch(turn_ps, connections);
        let turn_ns = nic.initiator.of(kind).take(turn_ps, now_ns);
        nic.outward.take(per_s_ps(bytes, limits.bytes_per_s), turn_ns)
    }

    /// Receives a request at the target's NIC; returns the time it is taken, in nanoseconds.
    fn arrive(&mut self, to: Owner, kind: Kind, bytes: u64, now_ns: u64) -> u64 {
        let (limits, connections) = (self.model.nic, self.connections);
        let nic = self.nic(to);
        let arrived_ns = nic.inward.take(per_s_ps(bytes, limits.bytes_per_s), now_ns);
        let turn_ps = limits.connections.stretch(per_s_ps(1, limits.target.of(kind)), connections);
        nic.target.of(kind).take(turn_ps, arrived_ns)
    }

    /// Sends the response back over both links; returns the time it arrives, in nanoseconds.
    fn answer(&mut self, from: Owner, to: Owner, bytes: u64, now_ns: u64) -> u64 {
        let wire_ps = per_s_ps(bytes, self.model.nic.bytes_per_s);
        let sent_ns = self.nic(to).outward.take(wire_ps, now_ns);
        self.nic(from).inward.take(wire_ps, sent_ns)
    }
}

/// Returns the time of `count` items at a rate, 0 if the rate is unlimited.
fn per_s_ps(count: u64, per_s: u64) -> u64 {
    if per_s == 0 { 0 } else { count.saturating_mul(PS_PER_S).div_ceil(per_s) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Cost, Nic, Rates, Slowdown, Sockets, Switches};

    const AT: RemoteWord = RemoteWord { owner: Owner(1), index: 3 };

    fn network(model: Model) -> Network {
        Network::new(model, 4, Rng::new(1, 1))
    }

    const READ: Start = Start {
        kind: Kind::Read,
        words: 8,
        from: Owner(0),
        to: AT,
        now_ns: 0,
        factor: 1,
        owner_idle: false,
    };

    fn read(network: &mut Network, now_ns: u64) -> Times {
        network.schedule(Start { now_ns, ..READ })
    }

    fn add(network: &mut Network, index: u64) -> Times {
        let to = RemoteWord { index, ..AT };
        network.schedule(Start { kind: Kind::FetchAdd, words: 1, to, ..READ })
    }

    #[test]
    fn effect_follows_half_roundtrip() {
        let mut model = Model::instant();
        model.remote.read = Cost { base_ns: 2_000, word_ps: 1_500 };
        let mut network = network(model);
        assert_eq!(read(&mut network, 100), Times { effect_ns: 1_106, done_ns: 2_112 });
    }

    #[test]
    fn jitter_lengthens_both_ways() {
        let mut network = network(Model { jitter_mean_ns: 500, ..Model::simple(1_000) });
        let all: alloc::vec::Vec<Times> = (0..2_000).map(|_| read(&mut network, 0)).collect();
        assert!(all.iter().all(|t| t.effect_ns >= 500 && t.done_ns >= t.effect_ns + 500));
        let mean = |of: fn(&Times) -> u64| all.iter().map(of).sum::<u64>() / 2_000;
        let [out_ns, back_ns] = [mean(|t| t.effect_ns), mean(|t| t.done_ns - t.effect_ns)];
        assert!([out_ns, back_ns].iter().all(|ns| (700..800).contains(ns)), "{out_ns}, {back_ns}");
    }

    #[test]
    fn every_rate_spaces_operations() {
        let rates = Rates { reads_per_s: 75_000_000, ..Rates::default() };
        for model in [
            Model { initiator: rates, ..Model::simple(1_000) },
            Model { nic: Nic { target: rates, ..Nic::default() }, ..Model::simple(1_000) },
        ] {
            let mut network = network(model);
            let last = (0..76).map(|_| read(&mut network, 0).done_ns).last();
            // 75 intervals of 13334 ps each.
            assert_eq!(last, Some(1_000 + 1_001));
            assert_eq!(add(&mut network, 0).done_ns, 1_000, "atomics have a queue of their own");
            assert_eq!(read(&mut network, 9_000).done_ns, 10_000, "an idle NIC keeps nobody");
        }
    }

    #[test]
    fn writes_have_own_rate() {
        let rates = Rates { reads_per_s: 1_000_000, ..Rates::default() };
        for (writes_per_s, last_ns) in [(0, 3_000), (10_000_000, 2_100)] {
            let initiator = Rates { writes_per_s, ..rates };
            let mut network = network(Model { initiator, ..Model::simple(1_000) });
            let mut start = |kind| network.schedule(Start { kind, ..READ }).done_ns;
            assert_eq!(start(Kind::Read), 1_000);
            assert_eq!(start(Kind::Write), 2_000, "it waits for the READ's turn");
            assert_eq!(start(Kind::Read), last_ns);
        }
    }

    #[test]
    fn cpu_accesses_bypass_nic() {
        let rates = Rates { reads_per_s: 1_000_000, atomics_per_s: 1_000_000, ..Rates::default() };
        let nic = Nic { target: rates, ..Nic::default() };
        let model = Model { initiator: rates, nic, ..Model::simple(1_000) };
        for (local_by_cpu, last_ns) in [(true, 1_000), (false, 9_100)] {
            let mut network = network(Model { local_by_cpu, ..model });
            let own = RemoteWord { owner: Owner(0), ..AT };
            let mut reads = || network.schedule(Start { to: own, ..READ }).done_ns;
            assert_eq!((0..10).map(|_| reads()).last(), Some(last_ns));
            let adds = (0..10).map(|_| add(&mut network, 3).done_ns);
            assert_eq!(adds.last(), Some(10_000), "the peer's word is over the NIC");
        }
    }

    #[test]
    fn atomics_wait_only_for_word() {
        let mut network = network(Model { atomic_word_ns: 100, ..Model::simple(1_000) });
        let effects = [3, 3, 4, 3].map(|index| add(&mut network, index).effect_ns);
        assert_eq!(effects, [500, 600, 500, 700]);
    }

    #[test]
    fn times_saturate() {
        let rates = Rates { reads_per_s: 1, atomics_per_s: 1, ..Rates::default() };
        let mut network = network(Model {
            initiator: rates,
            nic: Nic { target: rates, ..Nic::default() },
            atomic_word_ns: u64::MAX,
            ..Model::simple(u64::MAX)
        });
        assert_eq!(read(&mut network, u64::MAX).done_ns, u64::MAX);
        assert_eq!(add(&mut network, 0).done_ns, u64::MAX);
    }

    /// Returns the time at which the last of `count` READs from owners of node 0 to one of node 1
    /// is done.
    fn last_of(count: u32, network: &mut Network, words: u32) -> u64 {
        let one = |i: u32| Start {
            words,
            from: Owner(i % 2),
            to: RemoteWord { owner: Owner(2 + i % 2), index: 0 },
            ..READ
        };
        (0..count).map(|i| network.schedule(one(i)).done_ns).max().unwrap_or(0)
    }

    #[test]
    fn same_node_owners_share_nic() {
        let rates = Rates { reads_per_s: 10_000_000, ..Rates::default() };
        let model = Model { owners_per_node: 2, ..Model::simple(1_000) };
        for nic in [
            Nic { initiator: rates, ..Nic::default() },
            Nic { target: rates, ..Nic::default() },
            // 64 bytes of data and 36 bytes of header take 100 ns.
            Nic { bytes_per_s: 1_000_000_000, header_bytes: 36, ..Nic::default() },
        ] {
            let mut network = network(Model { nic, ..model });
            assert_eq!(last_of(101, &mut network, 8), 1_000 + 100 * 100, "{nic:?}");
        }
    }

    #[test]
    fn excess_operations_slow_nic() {
        let rates = Rates { reads_per_s: 10_000_000, ..Rates::default() };
        let outstanding = Slowdown { knee: 10, halved_by: 1 };
        let nic = Nic { initiator: rates, outstanding, ..Nic::default() };
        let mut network = network(Model { owners_per_node: 2, nic, ..Model::simple(1_000) });
        // Ten turns of 100 ns, then one of 200 ns and one of 300 ns; the thirteenth READ waits for
        // all.
        assert_eq!(last_of(13, &mut network, 8), 1_000 + 10 * 100 + 200 + 300);
        (0..13).for_each(|i| network.release(Owner(i % 2), Owner(2)));
        let to = RemoteWord { owner: Owner(2), index: 0 };
        let mut later = || network.schedule(Start { to, now_ns: 9_000, ..READ }).done_ns;
        assert_eq!([later(), later()], [10_000, 10_100], "what is over is in flight no longer");
    }

    #[test]
    fn excess_connections_slow_both_sides() {
        let rates = Rates { reads_per_s: 10_000_000, ..Rates::default() };
        // Two nodes with two ranks each: each node has four connections.
        for (knee, turn_ns) in [(4, 100), (3, 200)] {
            let connections = Slowdown { knee, halved_by: 1 };
            for nic in [
                Nic { initiator: rates, connections, ..Nic::default() },
                Nic { target: rates, connections, ..Nic::default() },
            ] {
                let model = Model { owners_per_node: 2, nic, ..Model::simple(1_000) };
                assert_eq!(last_of(11, &mut network(model), 8), 1_000 + 10 * turn_ns);
            }
        }
    }

    #[test]
    fn spreads_nodes_evenly_over_switches() {
        let further = |nodes_each| {
            let switches = Switches { nodes_each, count: 2, further_ns: 50 };
            let mut network = network(Model { switches, ..Model::simple(1_000) });
            let mut done_ns = |from, to| {
                let to = RemoteWord { owner: Owner(to), index: 0 };
                network.schedule(Start { from: Owner(from), to, ..READ }).done_ns
            };
            [done_ns(0, 1), done_ns(1, 2), done_ns(2, 3), done_ns(0, 0)]
        };
        assert_eq!(further(3), [1_000, 1_050, 1_000, 100]);
        assert_eq!(further(4), [1_000, 1_000, 1_000, 100]);
    }

    /// Ranks fill one socket after the other.
    #[test]
    fn busy_neighbours_lengthen_remote_roundtrips() {
        let sockets = Sockets { ranks_each: 2, neighbour_ns: 7 };
        let model = Model { owners_per_node: 3, neighbour_ns: 50, sockets, ..Model::simple(1_000) };
        let mut network = network(model);
        let mut done_ns = |from, to| {
            let to = RemoteWord { owner: Owner(to), index: 0 };
            network.schedule(Start { from: Owner(from), to, ..READ }).done_ns
        };
        assert_eq!([done_ns(0, 3), done_ns(1, 3), done_ns(2, 3)], [1_000, 1_057, 1_100]);
        assert_eq!([done_ns(0, 3), done_ns(0, 1)], [1_107, 100], "its own do not count");
        network.release(Owner(1), Owner(3));
        let to = RemoteWord { owner: Owner(3), index: 0 };
        assert_eq!(network.schedule(Start { to, ..READ }).done_ns, 1_050, "who is done is idle");
    }

    #[test]
    fn idle_remote_owner_answers_later() {
        let mut network = network(Model { idle_owner_ns: 700, ..Model::simple(1_000) });
        let mut done_ns = |owner| {
            let to = RemoteWord { owner: Owner(owner), index: 0 };
            network.schedule(Start { to, owner_idle: true, ..READ }).done_ns
        };
        assert_eq!([done_ns(0), done_ns(1)], [100, 1_700]);
    }
}
