//! What an operation costs: the parameters, and the network that keeps the queues behind them.

use alloc::boxed::Box;
use alloc::vec;

use transport::{Owner, RemoteWord};

use crate::{Kind, Rng};

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

/// What everything costs. All zero is [`Model::instant`].
///
/// An operation starts `post_ns` after the call that posts it, waits for its turn at the
/// initiator's NIC, takes half its roundtrip to the owner, waits for its turn at the owner's NIC
/// and, an atomic, for its word; there it has its effect, and the other half of the roundtrip
/// later its completion can be polled. Turns are given in the order of posting.
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
    /// Whether those are the CPU's own loads and stores, which take no turns at a NIC.
    pub local_by_cpu: bool,
    /// Roundtrips between nodes.
    pub remote: Roundtrips,
    /// What chance adds to every roundtrip.
    pub jitter: Jitter,
    /// What each NIC takes from its own owner.
    pub initiator: Rates,
    /// What each NIC takes from all owners together, its own included.
    pub target: Rates,
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
            remote: none,
            jitter: Jitter::None,
            initiator: unlimited,
            target: unlimited,
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

    /// One operation's roundtrip where it waits for nothing, in nanoseconds, without jitter.
    #[must_use]
    pub fn roundtrip_ns(&self, kind: Kind, words: u32, from: Owner, to: Owner) -> u64 {
        let trips = if self.is_local(from, to) { &self.local } else { &self.remote };
        match kind {
            Kind::Read => trips.read.of(words),
            Kind::Write => trips.write.of(words),
            Kind::CompareAndSwap | Kind::FetchAdd => trips.atomic_ns,
        }
    }

    fn is_local(&self, from: Owner, to: Owner) -> bool {
        let node = |owner: Owner| owner.0 / self.owners_per_node.max(1);
        node(from) == node(to)
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

/// When one operation has its effect and when its completion can be polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) effect_ns: u64,
    pub(crate) done_ns: u64,
}

/// The model at work: who has to wait until when, and the dice for the jitter.
pub(crate) struct Network {
    model: Model,
    nics: Box<[Nic]>,
    rng: Rng,
}

struct Nic {
    initiator: Turns,
    target: Turns,
    /// When each group of this owner's words takes the next atomic, in nanoseconds.
    words_free_ns: Box<[u64]>,
}

/// When one side of a NIC takes the next operation, in picoseconds: a rate of many millions a
/// second is not a whole number of nanoseconds.
#[derive(Default)]
struct Turns {
    copies_free_ps: u64,
    atomics_free_ps: u64,
}

const PS_PER_NS: u64 = 1_000;
const PS_PER_S: u64 = 1_000_000_000_000;
/// A power of two far above the operations in flight on one window, and 4 KiB an owner.
const WORD_GROUPS: usize = 512;

impl Network {
    pub(crate) fn new(model: Model, owners: u32, rng: Rng) -> Self {
        let groups = if model.atomic_word_ns == 0 { 0 } else { WORD_GROUPS };
        let nic = || Nic {
            initiator: Turns::default(),
            target: Turns::default(),
            words_free_ns: vec![0; groups].into_boxed_slice(),
        };
        Self { model, nics: (0..owners).map(|_| nic()).collect(), rng }
    }

    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    /// Gives an operation that starts at `now_ns` its turns; its roundtrip takes `factor` times
    /// what the model says.
    pub(crate) fn schedule(
        &mut self,
        kind: Kind,
        words: u32,
        from: Owner,
        to: RemoteWord,
        now_ns: u64,
        factor: u32,
    ) -> Times {
        let trip_ns = self.model.roundtrip_ns(kind, words, from, to.owner);
        let trip_ns = trip_ns.saturating_mul(factor.into());
        let jitter_ns = self.jitter_ns();
        let out_ns = (trip_ns / 2).saturating_add(self.rng.up_to(jitter_ns));
        let both_ns = trip_ns.saturating_add(jitter_ns);

        let by_cpu = self.model.local_by_cpu && self.model.is_local(from, to.owner);
        let (initiator, target) = if by_cpu {
            (Rates::default(), Rates::default())
        } else {
            (self.model.initiator, self.model.target)
        };
        let turns = &mut self.nics[from.0 as usize].initiator;
        let sent_ns = turns.take(kind, &initiator, now_ns);
        let arrived_ns = sent_ns.saturating_add(out_ns);
        let nic = &mut self.nics[to.owner.0 as usize];
        let served_ns = nic.target.take(kind, &target, arrived_ns);
        let effect_ns = match kind {
            Kind::Read | Kind::Write => served_ns,
            Kind::CompareAndSwap | Kind::FetchAdd => {
                nic.take_word(to.index, self.model.atomic_word_ns, served_ns)
            }
        };
        Times { effect_ns, done_ns: effect_ns.saturating_add(both_ns - out_ns) }
    }

    fn jitter_ns(&mut self) -> u64 {
        match self.model.jitter {
            Jitter::None => 0,
            Jitter::Uniform { most_ns } => self.rng.up_to(most_ns),
            Jitter::Exponential { mean_ns } => self.rng.exponential(mean_ns),
        }
    }
}

impl Nic {
    fn take_word(&mut self, index: u64, word_ns: u64, now_ns: u64) -> u64 {
        let group = usize::try_from(index % WORD_GROUPS as u64).unwrap_or(0);
        let Some(free_ns) = self.words_free_ns.get_mut(group) else { return now_ns };
        let start_ns = now_ns.max(*free_ns);
        *free_ns = start_ns.saturating_add(word_ns);
        start_ns
    }
}

impl Turns {
    /// When an operation that is ready at `now_ns` has its turn.
    fn take(&mut self, kind: Kind, rates: &Rates, now_ns: u64) -> u64 {
        let (free_ps, per_s) = match kind {
            Kind::Read | Kind::Write => (&mut self.copies_free_ps, rates.copies_per_s),
            Kind::CompareAndSwap | Kind::FetchAdd => {
                (&mut self.atomics_free_ps, rates.atomics_per_s)
            }
        };
        if per_s == 0 {
            return now_ns;
        }
        let start_ps = now_ns.saturating_mul(PS_PER_NS).max(*free_ps);
        *free_ps = start_ps.saturating_add(PS_PER_S.div_ceil(per_s));
        // Picoseconds end after 213 days, nanoseconds do not.
        start_ps.div_ceil(PS_PER_NS).max(now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: RemoteWord = RemoteWord { owner: Owner(1), index: 3 };

    fn network(model: Model) -> Network {
        Network::new(model, 4, Rng::new(1, 1))
    }

    fn read(network: &mut Network, now_ns: u64) -> Times {
        network.schedule(Kind::Read, 8, Owner(0), AT, now_ns, 1)
    }

    fn add(network: &mut Network, index: u64) -> Times {
        network.schedule(Kind::FetchAdd, 1, Owner(0), RemoteWord { index, ..AT }, 0, 1)
    }

    #[test]
    fn a_roundtrip_is_base_and_words_and_its_effect_is_half_way() {
        let mut model = Model::instant();
        model.remote.read = Cost { base_ns: 2_000, word_ps: 1_500 };
        let mut network = network(model);
        assert_eq!(read(&mut network, 100), Times { effect_ns: 1_106, done_ns: 2_112 });
    }

    #[test]
    fn owners_of_a_node_are_local_to_each_other() {
        let model = Model { owners_per_node: 2, ..Model::simple(1_000) };
        let trip = |from, to| model.roundtrip_ns(Kind::Write, 1, Owner(from), Owner(to));
        assert_eq!([trip(0, 0), trip(0, 1), trip(1, 2), trip(3, 2)], [100, 100, 1_000, 100]);
    }

    #[test]
    fn jitter_only_adds_and_stays_within_its_bound() {
        let model = Model { jitter: Jitter::Uniform { most_ns: 500 }, ..Model::simple(1_000) };
        let mut network = network(model);
        let all: alloc::vec::Vec<Times> = (0..2_000).map(|_| read(&mut network, 0)).collect();
        assert!(all.iter().all(|t| (500..=1_000).contains(&t.effect_ns)));
        assert!(all.iter().all(|t| (1_000..=1_500).contains(&t.done_ns)));
        assert!(all.iter().any(|t| t.done_ns < 1_050) && all.iter().any(|t| t.done_ns > 1_450));
    }

    #[test]
    fn a_rate_spaces_operations_whatever_it_is() {
        let rates = Rates { copies_per_s: 75_000_000, atomics_per_s: 0 };
        for model in [
            Model { initiator: rates, ..Model::simple(1_000) },
            Model { target: rates, ..Model::simple(1_000) },
        ] {
            let mut network = network(model);
            let last = (0..76).map(|_| read(&mut network, 0).done_ns).last();
            // 75 spaces of 13334 ps each.
            assert_eq!(last, Some(1_000 + 1_001));
            assert_eq!(add(&mut network, 0).done_ns, 1_000, "atomics have a queue of their own");
            assert_eq!(read(&mut network, 9_000).done_ns, 10_000, "an idle NIC keeps nobody");
        }
    }

    #[test]
    fn what_the_cpu_does_takes_no_turn() {
        let rates = Rates { copies_per_s: 1_000_000, atomics_per_s: 1_000_000 };
        let model = Model { initiator: rates, target: rates, ..Model::simple(1_000) };
        for (local_by_cpu, last_ns) in [(true, 100), (false, 9_100)] {
            let mut network = network(Model { local_by_cpu, ..model });
            let own = RemoteWord { owner: Owner(0), ..AT };
            let mut reads = || network.schedule(Kind::Read, 8, Owner(0), own, 0, 1).done_ns;
            assert_eq!((0..10).map(|_| reads()).last(), Some(last_ns));
            let adds = (0..10).map(|_| add(&mut network, 3).done_ns);
            assert_eq!(adds.last(), Some(10_000), "the peer's word is over the NIC");
        }
    }

    #[test]
    fn atomics_wait_for_their_word_only() {
        let mut network = network(Model { atomic_word_ns: 100, ..Model::simple(1_000) });
        let effects = [3, 3, 4, 3].map(|index| add(&mut network, index).effect_ns);
        assert_eq!(effects, [500, 600, 500, 700]);
    }

    #[test]
    fn times_at_the_end_of_time_saturate() {
        let rates = Rates { copies_per_s: 1, atomics_per_s: 1 };
        let mut network = network(Model {
            initiator: rates,
            target: rates,
            atomic_word_ns: u64::MAX,
            ..Model::simple(u64::MAX)
        });
        assert_eq!(read(&mut network, u64::MAX).done_ns, u64::MAX);
        assert_eq!(add(&mut network, 0).done_ns, u64::MAX);
    }
}
