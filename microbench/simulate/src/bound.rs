//! Computes the highest throughput that a model allows for the least work of the operations.
//!
//! The least work depends on where the keys are, and not on the operations that a run posted: the
//! throughput divided by the bound shows what a run wastes.

use probeline_sim::{Kind, Slowdown, WORD_GROUPS};
use probeline_table::{OneRoundtrip, ReadAhead};
use probeline_transport::Owner;

use crate::Setup;

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
    /// Returns the number of chunks that it examines.
    fn chunks(&self, setup: &Setup) -> f64 {
        (self.passed / u64::from(setup.table.chunk_buckets.max(1)) + 1) as f64
    }

    fn trip_ns(&self, setup: &Setup, kind: Kind, words: u32) -> f64 {
        setup.model.busy_roundtrip_ns(kind, words, self.from, self.home, setup.ranks())
    }

    /// Returns the time from its start to its completion, without queueing behind other operations.
    fn min_ns(&self, setup: &Setup, by_cpu: bool) -> f64 {
        let Setup { model, table, .. } = setup;
        let chunks = self.chunks(setup);
        let read_ns = self.trip_ns(setup, Kind::Read, table.chunk_buckets);
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
/// An operation needs the READs and words of the chunks up to its key, and a compare-and-swap if it
/// inserts. A chunk that straddles two owners counts as one READ. Lost claims are not counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Work {
    operations: f64,
    /// READs by a NIC.
    reads: f64,
    /// Compare-and-swaps by a NIC.
    claims: f64,
    /// Accesses of the rank's CPU to words of its machine.
    own_ns: f64,
    /// Time from the start of each operation to its completion, without queueing.
    trips_ns: f64,
}

impl Work {
    /// Adds an operation. A find counts as `weight` of one, because the cache answers the rest.
    pub(crate) fn add(&mut self, setup: &Setup, task: &Task, weight: f64) {
        let weight = if task.inserts { 1.0 } else { weight };
        let claims = f64::from(u8::from(task.inserts));
        let by_cpu = setup.model.is_by_cpu(task.from, task.home);
        self.operations += 1.0;
        self.trips_ns += task.min_ns(setup, by_cpu) * weight;
        if by_cpu {
            let chunk_ns = task.trip_ns(setup, Kind::Read, setup.table.chunk_buckets);
            let claim_ns = task.trip_ns(setup, Kind::CompareAndSwap, 1) * claims;
            self.own_ns += (task.chunks(setup) * chunk_ns + claim_ns) * weight;
        } else {
            self.claims += claims;
            self.reads += task.chunks(setup) * weight;
        }
    }

    /// Returns the lowest bound, or `None` if the model limits nothing.
    pub(crate) fn bound(&self, setup: &Setup) -> Option<Bound> {
        let ranks = f64::from(setup.ranks());
        let in_flight = f64::from(setup.in_flight);
        let of_all = |each_ns: f64| ranks * 1e9 * self.operations / each_ns;
        let machines = f64::from(setup.shape.machines);
        let shared = used(setup, self.load(setup));
        let shared = shared.map(|(name, used)| (name, machines / used));
        let of_ranks = [
            ("own accesses of the CPU".to_owned(), of_all(self.own_ns)),
            ("roundtrips of operations in flight".to_owned(), of_all(self.trips_ns) * in_flight),
        ];
        let all = shared.chain(of_ranks).filter(|(_, ops_per_s)| ops_per_s.is_finite());
        let lowest = all.min_by(|(_, one), (_, other)| one.total_cmp(other));
        lowest.map(|(name, ops_per_s)| Bound { name, ops_per_s })
    }

    /// Returns the load of a machine whose ranks complete one operation per second together.
    fn load(&self, setup: &Setup) -> Load {
        let each = |sum: f64| sum / self.operations.max(1.0);
        let (reads, atomics) = (each(self.reads), each(self.claims));
        Load { reads, atomics, read_words: reads * f64::from(setup.table.chunk_buckets) }
    }
}

/// The READs and atomics that the NIC of a machine sends per second, of which it answers as many, and
/// the words of the READs.
#[derive(Clone, Copy, Debug)]
struct Load {
    reads: f64,
    atomics: f64,
    read_words: f64,
}

/// Bytes that an atomic sends, and bytes of its response.
const ATOMIC_BYTES: f64 = 16.0;
const WORD_BYTES: f64 = probeline_transport::WORD_BYTES as f64;

/// Returns the utilization of each resource that the model limits. The number of operations
/// outstanding is a choice of the ranks, so it does not slow a NIC down.
fn used(setup: &Setup, load: Load) -> impl Iterator<Item = (String, f64)> {
    let Setup { model, shape, .. } = setup;
    let share = |rate: f64, limit: u64| (limit > 0).then(|| rate / limit as f64);
    let ranks = f64::from(shape.ranks_per_machine).max(1.0);
    // Queue pairs of the machine's ranks, one for each owner on another machine and rank.
    let connections = ranks * ranks * f64::from(shape.machines.saturating_sub(1));
    let Slowdown { knee, halved_by } = model.nic.connections;
    let excess = (connections - f64::from(knee)).max(0.0);
    let slower = if halved_by == 0 { 1.0 } else { 1.0 + excess / f64::from(halved_by) };
    let of_nic = |rate: f64, limits: [u64; 2]| {
        let used = limits.into_iter().filter_map(|limit| share(rate * slower, limit));
        used.reduce(f64::max)
    };
    let named = move |rate: &str| match slower > 1.0 {
        true => format!("{rate} beyond {knee} connections"),
        false => rate.to_owned(),
    };
    // Data of READs arrives in one direction of the link while as much leaves in the other.
    let operations = load.reads + load.atomics;
    let bytes = 2.0 * f64::from(model.nic.header_bytes) * operations
        + WORD_BYTES * load.read_words
        + (ATOMIC_BYTES + WORD_BYTES) * load.atomics;
    let cpu_ns = (model.post_ns + model.completion_ns) as f64;
    // Homes are uniformly distributed, and so is the contention for words.
    let of_word_ns = model.atomic_word_ns as f64 / WORD_GROUPS as f64;
    let (sends, answers, rank) = (model.nic.initiator, model.nic.target, model.initiator);
    let all = [
        (named("NIC READ rate"), of_nic(load.reads, [sends.reads_per_s, answers.reads_per_s])),
        (
            named("NIC atomics rate"),
            of_nic(load.atomics, [sends.atomics_per_s, answers.atomics_per_s]),
        ),
        ("bandwidth".to_owned(), share(bytes, model.nic.bytes_per_s)),
        ("READ rate of a rank".to_owned(), share(load.reads / ranks, rank.reads_per_s)),
        ("atomics rate of a rank".to_owned(), share(load.atomics / ranks, rank.atomics_per_s)),
        ("atomics rate of a word".to_owned(), Some(load.atomics / ranks * of_word_ns / 1e9)),
        ("CPU of posts and completions".to_owned(), Some(operations / ranks * cpu_ns / 1e9)),
    ];
    all.into_iter().filter_map(|(name, used)| Some((name, used?))).filter(|(_, used)| *used > 0.0)
}

#[cfg(test)]
mod tests {
    use probeline_profile::Shape;
    use probeline_sim::{Model, Nic, Rates};
    use probeline_table::Config;

    use super::*;

    const FAR: Task = Task { from: Owner(0), home: Owner(1), passed: 0, inserts: true };

    /// The use of a setup's table.
    type How = (u32, OneRoundtrip, ReadAhead);

    /// Returns two machines of one rank, with roundtrips of 1 us and these rates of READs and
    /// atomics.
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
    fn names_first_exhausted_resource() {
        let find = Task { inserts: false, ..FAR };
        let both = [(FAR, 1.0), (find, 1.0)];
        let of = |reads, atomics| bound(&setup(MANY, reads, atomics), &both);
        assert_eq!(of(1_000_000, 400_000), some("NIC atomics rate", 2.0 * 800_000.0));
        assert_eq!(of(1_000_000, 600_000), some("NIC READ rate", 2.0 * 1_000_000.0));
        // 1.5 roundtrips of 1 us each.
        let waits: f64 = 2.0 * 1_000.0 * 1e6 / 1.5;
        assert_eq!(of(0, 0), some("roundtrips of operations in flight", waits.round()));
        let half = [(FAR, 1.0), (find, 0.0)];
        let cached = bound(&setup(MANY, 1_000_000, 600_000), &half);
        assert_eq!(cached, some("NIC atomics rate", 2.0 * 1_200_000.0));
    }

    /// In the fifth line: two chunks of 32 buckets, or five of 8.
    const FIFTH: Task = Task { passed: 33, inserts: false, ..FAR };

    #[test]
    fn demands_depend_on_chunk_size() {
        let of = |how, chunk_buckets| {
            let mut setup = setup(how, 2_000, 0);
            setup.table.chunk_buckets = chunk_buckets;
            setup.model.nic.bytes_per_s = 8 * 128_000;
            bound(&setup, &[(FIFTH, 1.0)])
        };
        // Five READs, of 40 words; or two, of 64.
        assert_eq!(of(MANY, 8), some("NIC READ rate", 2.0 * 2_000.0 / 5.0));
        assert_eq!(of(MANY, 32), some("NIC READ rate", 2_000.0));
        assert_eq!(of(MANY, 128), some("bandwidth", 2_000.0));
        let trips_ns = |ahead, chunk_buckets| {
            let mut setup = setup((1, OneRoundtrip::Off, ahead), 0, 0);
            setup.table.chunk_buckets = chunk_buckets;
            let mut work = Work::default();
            work.add(&setup, &FIFTH, 1.0);
            work.trips_ns
        };
        let all = |ahead| [8, 16, 32].map(|chunk_buckets| trips_ns(ahead, chunk_buckets));
        assert_eq!(all(ReadAhead::Never), [5e3, 3e3, 2e3]);
        assert_eq!(all(ReadAhead::Likely), [3e3, 2e3, 1e3]);
    }

    #[test]
    fn one_roundtrip_insert_waits_once() {
        let of = |one_roundtrip| {
            bound(&setup((1, one_roundtrip, ReadAhead::Never), 0, 0), &[(FAR, 1.0)])
        };
        let name = "roundtrips of operations in flight";
        assert_eq!(of(OneRoundtrip::Auto), some(name, 2e6));
        assert_eq!(of(OneRoundtrip::Off), some(name, 1e6));
    }

    /// A hundred nanoseconds each for the READ and the compare-and-swap, one after the other.
    #[test]
    fn serializes_own_cpu_accesses() {
        let near = Task { home: Owner(0), ..FAR };
        let how = (16, OneRoundtrip::Auto, ReadAhead::Always);
        let own = bound(&setup(how, 1, 1), &[(near, 1.0)]);
        assert_eq!(own, some("own accesses of the CPU", 1e7));
        let unlimited = Setup { model: Model::instant(), ..setup(how, 0, 0) };
        assert_eq!(bound(&unlimited, &[(near, 1.0)]), None);
    }
}
