//! Computes the highest throughput that a model allows for the least work of the operations.
//!
//! The least work depends on where the keys are, and not on the operations that a run posted: the
//! throughput divided by the bound shows what a run wastes.

use probeline_sim::Kind;
use probeline_table::{OneRoundtrip, ReadAhead};
use probeline_transport::Owner;

use crate::Setup;
use crate::limit::{Limit, Load};

/// The highest throughput of all ranks, and the resource that sets it.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The name of the resource.
    pub name: String,
    /// Operations per second of all ranks.
    pub ops_per_s: f64,
}

/// One find-or-put, after its completion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    /// The rank that executes it.
    pub(crate) from: Owner,
    /// The owner of its home bucket.
    pub(crate) home: Owner,
    /// The number of buckets that precede its key in its probe order.
    pub(crate) passed: u64,
    /// Whether it inserts its key.
    pub(crate) inserts: bool,
}

impl Task {
    /// Returns the number of chunks of this C that it examines.
    fn chunks(&self, buckets: u32) -> f64 {
        (self.passed / u64::from(buckets.max(1)) + 1) as f64
    }

    fn trip_ns(&self, setup: &Setup, kind: Kind, words: u32) -> f64 {
        setup.model.busy_roundtrip_ns(kind, words, self.from, self.home, setup.ranks())
    }

    /// Returns the time from its start to its completion with this C, without queueing behind other
    /// operations.
    fn least_ns(&self, setup: &Setup, buckets: u32, by_cpu: bool) -> f64 {
        let Setup { model, table, .. } = setup;
        let chunks = self.chunks(buckets);
        let read_ns = self.trip_ns(setup, Kind::Read, buckets);
        let claim_ns =
            if self.inserts { self.trip_ns(setup, Kind::CompareAndSwap, 1) } else { 0.0 };
        // The CPU executes its accesses one after the other.
        if by_cpu {
            return chunks * read_ns + claim_ns;
        }
        let reads_ns = match table.read_ahead {
            ReadAhead::Never => chunks * read_ns,
            // Two chunks are in flight at once, the second one a turn later.
            _ => {
                let turn_ns = match model.initiator.reads_per_s {
                    0 => 0.0,
                    per_s => 1e9 / per_s as f64,
                };
                (chunks / 2.0).ceil() * read_ns + if chunks % 2.0 == 0.0 { turn_ns } else { 0.0 }
            }
        };
        let waits_ns = match table.one_roundtrip {
            OneRoundtrip::Off => reads_ns + claim_ns,
            // The first READ and the claim are in flight at once.
            _ => reads_ns.max(claim_ns),
        };
        waits_ns + (model.post_ns + model.completion_ns) as f64
    }
}

/// The least work of operations, as sums.
///
/// An operation needs the READs and words of the chunks up to its key, with any C that it may
/// choose, and a compare-and-swap if it inserts. A chunk that straddles two owners counts as one
/// READ. Lost claims are not counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Work {
    operations: f64,
    /// Compare-and-swaps by a NIC.
    claims: f64,
    /// Accesses of the rank's CPU to words of its machine.
    own_ns: f64,
    /// What depends on C, for each C.
    choices: Vec<Choice>,
}

/// The work of the operations with one C.
#[derive(Clone, Copy, Debug, Default)]
struct Choice {
    /// READs by a NIC, and their words.
    reads: f64,
    words: f64,
    /// From the start of each operation to its completion, without queueing.
    trips_ns: f64,
}

/// Steps of the search for the best mix of two C; each leaves two thirds of the interval.
const SEARCH_STEPS: u32 = 24;

impl Work {
    /// Adds an operation. A find counts as `weight` of one, because the cache answers the rest.
    pub(crate) fn add(&mut self, setup: &Setup, task: &Task, weight: f64) {
        let weight = if task.inserts { 1.0 } else { weight };
        let claims = f64::from(u8::from(task.inserts));
        let [least, most] = setup.chunk_buckets();
        let by_cpu = setup.model.is_by_cpu(task.from, task.home);
        self.operations += 1.0;
        if by_cpu {
            let chunk_ns = task.trip_ns(setup, Kind::Read, least);
            let claim_ns = task.trip_ns(setup, Kind::CompareAndSwap, 1) * claims;
            self.own_ns += (task.chunks(most) * chunk_ns + claim_ns) * weight;
        } else {
            self.claims += claims;
        }
        let all = (least..=most).step_by(least.max(1) as usize);
        self.choices.resize(all.clone().count(), Choice::default());
        for (choice, buckets) in self.choices.iter_mut().zip(all) {
            let reads = if by_cpu { 0.0 } else { task.chunks(buckets) * weight };
            choice.reads += reads;
            choice.words += reads * f64::from(buckets);
            choice.trips_ns += task.least_ns(setup, buckets, by_cpu) * weight;
        }
    }

    /// Returns the lowest bound, or `None` if the model limits nothing.
    pub(crate) fn bound(&self, setup: &Setup) -> Option<Bound> {
        let ranks = f64::from(setup.ranks());
        let in_flight = f64::from(setup.in_flight);
        let trips_ns = self.choices.iter().map(|choice| choice.trips_ns);
        let trips_ns = trips_ns.fold(f64::INFINITY, f64::min);
        let of_all = |each_ns: f64| ranks * 1e9 * self.operations / each_ns;
        let shared = self
            .least_used(setup)
            .map(|limit| (limit.name, f64::from(setup.shape.machines) / limit.used));
        let of_ranks = [
            ("own accesses of the CPU".to_owned(), of_all(self.own_ns)),
            (roundtrips(setup.in_flight).to_owned(), of_all(trips_ns) * in_flight),
        ];
        let all = shared.into_iter().chain(of_ranks);
        let finite = all.filter(|(_, ops_per_s)| ops_per_s.is_finite());
        let lowest = finite.min_by(|(_, one), (_, other)| one.total_cmp(other));
        lowest.map(|(name, ops_per_s)| Bound { name, ops_per_s })
    }

    /// Returns the most used limit with the mix of C that uses it least, if each machine completes
    /// one operation per second. READs are fewest with a large C and words with a small one; of any
    /// two such sums, the best mix has two C.
    fn least_used(&self, setup: &Setup) -> Option<Limit> {
        let pairs = self
            .choices
            .iter()
            .enumerate()
            .flat_map(|(at, one)| self.choices.iter().skip(at).map(move |other| (one, other)));
        let limits = pairs.filter_map(|(one, other)| self.balanced(setup, one, other));
        limits.min_by(|one, other| one.used.total_cmp(&other.used))
    }

    /// Returns the most used limit with the best mix of these two. Each utilization is linear in the
    /// share of `other`, so the highest one is convex.
    fn balanced(&self, setup: &Setup, one: &Choice, other: &Choice) -> Option<Limit> {
        let limit = |share| Limit::most_used(&setup.model, &self.load(setup, one, other, share));
        let used = |share| limit(share).map_or(0.0, |limit| limit.used);
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..SEARCH_STEPS {
            let third = (high - low) / 3.0;
            if used(low + third) <= used(high - third) {
                high -= third;
            } else {
                low += third;
            }
        }
        limit(f64::midpoint(low, high))
    }

    /// Returns the load of a machine whose ranks complete one operation per second together, `share`
    /// of them with the C of `other`. The number of operations outstanding is a choice of the ranks,
    /// so a NIC has its full rate.
    fn load(&self, setup: &Setup, one: &Choice, other: &Choice, share: f64) -> Load {
        let each = |sum: f64| sum / self.operations.max(1.0);
        let mix = |one: f64, other: f64| each(one * (1.0 - share) + other * share);
        Load {
            reads_per_s: mix(one.reads, other.reads),
            atomics_per_s: each(self.claims),
            words_per_s: mix(one.words, other.words) + each(self.claims),
            ..Load::none(setup.shape)
        }
    }
}

fn roundtrips(in_flight: u32) -> &'static str {
    match in_flight {
        1 => "roundtrips, one at a time",
        _ => "roundtrips of the operations in flight",
    }
}

#[cfg(test)]
mod tests {
    use probeline_profile::Shape;
    use probeline_sim::{Model, Nic, Rates};
    use probeline_table::Config;

    use super::*;

    const FAR: Task = Task { from: Owner(0), home: Owner(1), passed: 0, inserts: true };

    /// How the table of a setup is used.
    type How = (u32, OneRoundtrip, ReadAhead);

    /// Two machines of one rank, with roundtrips of 1 us and these rates of READs and atomics.
    fn setup(how: How, reads_per_s: u64, atomics_per_s: u64) -> Setup {
        let nic = Nic {
            target: Rates { reads_per_s, atomics_per_s, ..Rates::default() },
            ..Nic::default()
        };
        let (in_flight, one_roundtrip, read_ahead) = how;
        let table = Config { one_roundtrip, read_ahead, chunk_buckets: 32, ..Config::paper(64) };
        Setup {
            model: Model { nic, local_by_cpu: true, ..Model::simple(1_000) },
            shape: Shape { machines: 2, ranks_per_machine: 1 },
            table,
            in_flight,
            cache_entries: 0,
            adapts: true,
            seed: 1,
        }
    }

    const MANY: How = (1_000, OneRoundtrip::Off, ReadAhead::Never);

    fn bound(setup: &Setup, tasks: &[(Task, f64)]) -> Option<(String, f64)> {
        let mut work = Work::default();
        tasks.iter().for_each(|(task, weight)| work.add(setup, task, *weight));
        work.bound(setup).map(|Bound { name, ops_per_s }| (name, ops_per_s.round()))
    }

    fn some(name: &str, ops_per_s: f64) -> Option<(String, f64)> {
        Some((name.to_owned(), ops_per_s))
    }

    /// An insert and a find: a READ each and one compare-and-swap.
    #[test]
    fn the_resource_that_the_least_work_exhausts_first_is_the_bound() {
        let find = Task { inserts: false, ..FAR };
        let both = [(FAR, 1.0), (find, 1.0)];
        let of = |reads, atomics| bound(&setup(MANY, reads, atomics), &both);
        assert_eq!(of(1_000_000, 400_000), some("NIC atomics rate", 2.0 * 800_000.0));
        assert_eq!(of(1_000_000, 600_000), some("NIC READ rate", 2.0 * 1_000_000.0));
        // 1.5 roundtrips of 1 us each.
        let waits: f64 = 2.0 * 1_000.0 * 1e6 / 1.5;
        assert_eq!(of(0, 0), some("roundtrips of the operations in flight", waits.round()));
        let half = [(FAR, 1.0), (find, 0.0)];
        let cached = bound(&setup(MANY, 1_000_000, 600_000), &half);
        assert_eq!(cached, some("NIC atomics rate", 2.0 * 1_200_000.0));
    }

    /// In the fifth line: two chunks of 32 buckets, or five of 8.
    const FIFTH: Task = Task { passed: 33, inserts: false, ..FAR };

    #[test]
    fn reads_words_and_roundtrips_depend_on_c() {
        let work = |setup: &Setup| {
            let mut work = Work::default();
            work.add(setup, &FIFTH, 1.0);
            let of = |choice: &Choice| [choice.reads, choice.words, choice.trips_ns];
            work.choices.iter().map(of).collect::<Vec<_>>()
        };
        let one = |ahead| work(&setup((1, OneRoundtrip::Off, ahead), 0, 0));
        let alone = [[5.0, 40.0, 5e3], [3.0, 48.0, 3e3], [2.0, 48.0, 2e3], [2.0, 64.0, 2e3]];
        assert_eq!(one(ReadAhead::Never), alone);
        let trips_ns = one(ReadAhead::Likely).iter().map(|[_, _, ns]| *ns).collect::<Vec<_>>();
        assert_eq!(trips_ns, [3e3, 2e3, 1e3, 1e3]);
        let paper = (1, OneRoundtrip::Off, ReadAhead::Always);
        let paper = Setup { adapts: false, ..setup(paper, 0, 0) };
        assert_eq!(work(&paper), [[2.0, 64.0, 1e3]]);
    }

    /// By READs alone C = 24 and C = 32 are best, by words C = 8.
    #[test]
    fn the_bound_has_the_best_mix_of_c() {
        let of = |reads_per_s, words_per_s: u64| {
            let mut setup = setup(MANY, reads_per_s, 0);
            setup.model.nic.bytes_per_s = 8 * words_per_s;
            bound(&setup, &[(FIFTH, 1.0)])
        };
        assert_eq!(of(2_000, 1_000_000), some("NIC READ rate", 2_000.0));
        assert_eq!(of(1_000_000, 40_000), some("bandwidth", 2_000.0));
        // C = 24 for three in four and C = 8 for the others: 2.75 READs and 46 words.
        let (_, mixed) = of(2_750, 46_000).unwrap();
        assert!((1_999.0..2_001.0).contains(&mixed), "{mixed}");
    }

    #[test]
    fn a_one_roundtrip_insert_waits_once() {
        let of = |one_roundtrip| {
            bound(&setup((1, one_roundtrip, ReadAhead::Never), 0, 0), &[(FAR, 1.0)])
        };
        let name = "roundtrips, one at a time";
        assert_eq!(of(OneRoundtrip::Auto), some(name, 2e6));
        assert_eq!(of(OneRoundtrip::Off), some(name, 1e6));
    }

    /// A hundred nanoseconds each for the READ and the compare-and-swap, one after the other.
    #[test]
    fn a_cpu_executes_its_own_accesses_one_after_the_other() {
        let near = Task { home: Owner(0), ..FAR };
        let how = (16, OneRoundtrip::Auto, ReadAhead::Always);
        let own = bound(&setup(how, 1, 1), &[(near, 1.0)]);
        assert_eq!(own, some("own accesses of the CPU", 1e7));
        let unlimited = Setup { model: Model::instant(), ..setup(how, 0, 0) };
        assert_eq!(bound(&unlimited, &[(near, 1.0)]), None);
    }
}
