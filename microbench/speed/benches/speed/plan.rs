//! The measurements and their order: at each load factor rounds in which all of them take turns, so
//! that other load of the machine affects all alike.

use std::fs;
use std::sync::{Arc, Mutex, PoisonError};

use probeline_exchange::Thread;
use probeline_limits::memory::measure_parts;
use probeline_pin::{Affinity, Placement, Topology};
use probeline_results::gather;
use probeline_transport::Exchange;
use serde::Serialize;

use super::sets::{KINDS, Kind, Set};
use super::table::{Rank, Work};
use super::team::{self, Keys, Member, THREADS};
use super::{Args, Order, Result};

/// Load factors that are measured.
pub(crate) const LOADS: [f64; 2] = [0.5, 0.9];
/// The share of the buckets that the inserts of some rounds fill together, centred on the load
/// factor; their keys are then removed. A linear probe for an insert, (1 + 1/(1 - load)^2) / 2
/// buckets, is a quarter shorter at 0.885 than at 0.9 and two fifths longer at 0.915; the median of
/// the rounds is from the middle.
const WINDOW: f64 = 0.03;
/// The largest load factor of the other sets: hashbrown and dashmap double at 7/8.
pub(crate) const MAX_PEER_LOAD: f64 = 0.85;
/// The share that the inserts of another set fill. Its keys stay: removing them leaves tombstones.
const PEER_WINDOW: f64 = 0.04;
/// Memory of the largest other set by that of a table with as many buckets: papaya allocates 32
/// bytes a key.
const PEER_BYTES_PER_BYTE: u64 = 6;

/// The limits, in the order of their measurement.
pub(crate) const LIMITS: [Work; 3] =
    [Work::DependentReads, Work::PrefetchedReads, Work::ReadsThenSwaps];

/// A rate measured in several rounds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Rate {
    #[serde(flatten)]
    pub(crate) what: What,
    /// Operations per second of all threads together, for each round.
    pub(crate) ops_per_s: Vec<f64>,
}

/// The subject of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct What {
    /// The probe order of the table, or the name of another set.
    pub(crate) system: &'static str,
    /// The set that took turns with the table in these rounds.
    pub(crate) beside: Option<&'static str>,
    pub(crate) threads: usize,
    /// The load factor; that of other sets is at most [`MAX_PEER_LOAD`].
    pub(crate) load: f64,
    pub(crate) work: Work,
}

/// The results of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Measured {
    pub(crate) buckets: u64,
    /// CPUs of the ranks and pages of their windows.
    pub(crate) windows: Vec<String>,
    pub(crate) peers: Vec<Peer>,
    pub(crate) limits: Vec<Rate>,
    pub(crate) rates: Vec<Rate>,
    /// The share of the time of measurements in which other processes had the CPUs.
    pub(crate) preempted_share: f64,
}

/// The size of another set.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Peer {
    pub(crate) system: &'static str,
    pub(crate) load: f64,
    pub(crate) keys: u64,
    /// Private memory of this process while the set was full, and the part on huge pages.
    pub(crate) private_bytes: u64,
    pub(crate) huge_bytes: u64,
}

impl Measured {
    /// Returns the median rate; the mean of the two in the middle of an even number.
    pub(crate) fn rate(&self, what: What) -> Option<f64> {
        let mut all = self.rates.iter().chain(&self.limits);
        let mut rates = all.find(|rate| rate.what == what)?.ops_per_s.clone();
        rates.sort_by(f64::total_cmp);
        Some(f64::midpoint(*rates.get((rates.len() - 1) / 2)?, *rates.get(rates.len() / 2)?))
    }

    fn add(&mut self, what: What, ops_per_s: f64) {
        let is_limit = LIMITS.contains(&what.work);
        let rates = if is_limit { &mut self.limits } else { &mut self.rates };
        match rates.iter_mut().find(|rate| rate.what == what) {
            Some(rate) => rate.ops_per_s.push(ops_per_s),
            None => rates.push(Rate { what, ops_per_s: vec![ops_per_s] }),
        }
    }
}

/// Measures everything that `args` ask for.
pub(crate) fn run(args: &Args) -> Result<Measured> {
    check_memory(args)?;
    let affinity = Affinity::take()?;
    let topology = Topology::from_sysfs("/sys".as_ref())?;
    let places =
        probeline_pin::place(&topology, affinity.allowed(), u32::try_from(THREADS)?, None)?;
    let shared = Mutex::default();
    team::run(&affinity, &places, args.seconds, |team| {
        // Whole lines for two ranks.
        let buckets = args.table_size / 8 / 16 * 16;
        let measured = Measured { buckets, ..Measured::default() };
        Plan { args, places: &places, shared: &shared, team, measured }.run()
    })
}

fn check_memory(args: &Args) -> Result<()> {
    let peers = if args.without_peers { 0 } else { PEER_BYTES_PER_BYTE * args.peer_size() };
    let needed = 2 * args.table_size + peers;
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    match bytes_of(&meminfo, "MemAvailable:") {
        Some(available) if available < needed => Err(format!(
            "two tables and the other sets need {} MiB, and {} MiB are available: take a smaller \
             --table-size or --peer-size, or --without-peers",
            needed >> 20,
            available >> 20
        )
        .into()),
        _ => Ok(()),
    }
}

/// Returns the bytes of a line such as `MemAvailable:    1234 kB`.
fn bytes_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_ascii_whitespace().next()?.parse::<u64>().ok()? << 10)
}

/// One thread's part in the measurements; both threads make the same calls.
struct Plan<'a> {
    args: &'a Args,
    places: &'a [Placement],
    /// The set that thread 0 creates for both.
    shared: &'a Mutex<Option<Arc<dyn Set>>>,
    team: Member,
    measured: Measured,
}

/// Two tables of one size with the same keys: one of a single rank, which is thread 0's, and one of
/// two ranks.
struct Tables {
    order: Order,
    /// This thread's ranks, by the number of ranks less 1.
    ranks: [Option<Rank>; THREADS],
    /// The exchange of the single rank: its job ends with it.
    _alone: Thread,
    /// Keys that stay.
    count: u64,
    /// The number of the next new key.
    next: u64,
}

impl Plan<'_> {
    fn run(mut self) -> Result<Measured> {
        for (at, &order) in self.args.probing.iter().enumerate() {
            self.team.say(&format!("{}: opening", order.0));
            let mut tables = self.open(order)?;
            for load in LOADS {
                self.at_load(&mut tables, load, at == 0 && !self.args.without_peers)?;
            }
        }
        self.measured.preempted_share = self.team.preempted_share();
        Ok(self.measured)
    }

    fn open(&mut self, order: Order) -> Result<Tables> {
        let (buckets, me) = (self.measured.buckets, self.team.me);
        let node = self.places.get(me).and_then(|place| place.memory);
        let mut alone = probeline_exchange::threads(1).remove(0);
        let mut ranks = [None, None];
        if me == 0 {
            ranks[0] = Some(Rank::open(order.1, buckets, node, &mut alone)?);
        }
        ranks[1] = Some(Rank::open(order.1, buckets, node, &mut self.team.exchange)?);
        for (count, rank) in (1..).zip(ranks.iter().flatten()) {
            let cpus = self.places.iter().take(count).map(|place| place.cpu.to_string());
            let cpus = cpus.collect::<Vec<_>>().join(" and ");
            let (name, pages) = (order.0, rank.pages());
            self.measured.windows.push(format!("{name}, ranks on {cpus}: {pages}"));
        }
        Ok(Tables { order, ranks, _alone: alone, count: 0, next: 0 })
    }

    /// Fills the tables and measures everything at a load factor.
    fn at_load(&mut self, tables: &mut Tables, load: f64, with_peers: bool) -> Result<()> {
        let name = tables.order.0;
        self.team.say(&format!("{name}: filling to {load}"));
        let count = part(self.measured.buckets, load - WINDOW / 2.0);
        for (threads, rank) in (1..).zip(&mut tables.ranks) {
            self.team.fill(threads, (tables.count, count), |keys| {
                rank.as_mut().map_or(0, |rank| rank.work(Work::InsertBatch, keys))
            })?;
        }
        (tables.count, tables.next) = (count, count);
        self.team.say(&format!("{name}: measuring at {load}"));
        for round in 0..self.args.rounds {
            for (threads, rank) in (1..).zip(&tables.ranks) {
                let limits = self.limits(rank.as_ref().filter(|_| self.team.me < threads))?;
                for (work, limit) in LIMITS.into_iter().zip(limits) {
                    let what = What { system: name, beside: None, threads, load, work };
                    self.measured.add(what, limit);
                }
            }
            let mut all = [Work::Insert, Work::Find, Work::InsertBatch, Work::Hit, Work::FindBatch];
            let first = round as usize % all.len();
            all.rotate_left(first);
            self.work(tables, load, &all, None)?;
        }
        self.truncate(tables)?;
        for kind in KINDS.into_iter().filter(|_| with_peers) {
            self.beside(kind, tables, load)?;
        }
        Ok(())
    }

    /// Removes the keys that were inserted since the tables were filled.
    fn truncate(&mut self, tables: &mut Tables) -> Result<()> {
        self.team.exchange.barrier()?;
        tables.ranks.iter_mut().flatten().for_each(|rank| rank.truncate(tables.count));
        tables.next = tables.count;
        Ok(self.team.exchange.barrier()?)
    }

    /// Measures the [`LIMITS`], all threads together.
    fn limits(&mut self, rank: Option<&Rank>) -> Result<[f64; 3]> {
        self.team.exchange.barrier()?;
        let mut mine = [0.0; 3];
        if let Some(rank) = rank {
            let memory = measure_parts(&rank.windows()?, self.args.seconds)?;
            mine = [memory.dependent_reads, memory.prefetched_reads, memory.reads_then_swaps];
        }
        let all = gather(&mut self.team.exchange, mine.map(f64::to_bits))?;
        Ok(core::array::from_fn(|at| all.iter().map(|of| f64::from_bits(of[at])).sum()))
    }

    /// Does one round of `all` work on the tables, by one rank and by two.
    fn work(
        &mut self,
        tables: &mut Tables,
        load: f64,
        all: &[Work],
        beside: Option<&'static str>,
    ) -> Result<()> {
        let is_insert = |work: Work| matches!(work, Work::Insert | Work::InsertBatch);
        let inserts = all.iter().filter(|&&work| is_insert(work)).count() as u64;
        let measurements = inserts * u64::from(self.args.rounds);
        let quota = (part(self.measured.buckets, WINDOW) / measurements.max(1)).max(1);
        for &work in all {
            let next = tables.next + quota;
            let keys = match is_insert(work) {
                true => Keys::Run(tables.next, next),
                false => Keys::Random(tables.count),
            };
            for (threads, rank) in (1..).zip(&mut tables.ranks) {
                let rate = self.team.measure(threads, keys, |keys| {
                    rank.as_mut().map_or(0, |rank| rank.work(work, keys))
                })?;
                let system = tables.order.0;
                self.measured.add(What { system, beside, threads, load, work }, rate);
            }
            tables.next = if is_insert(work) { next } else { tables.next };
        }
        Ok(())
    }

    /// Creates a set for both threads.
    fn share(&mut self, create: impl FnOnce() -> Arc<dyn Set>) -> Result<Arc<dyn Set>> {
        let slot = || self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if self.team.me == 0 {
            *slot() = Some(create());
        }
        self.team.exchange.barrier()?;
        let set = slot().clone().ok_or("the other thread has no set")?;
        self.team.exchange.barrier()?;
        *slot() = None;
        Ok(set)
    }

    /// Measures rounds in which another set and the tables take turns.
    fn beside(&mut self, kind: Kind, tables: &mut Tables, load: f64) -> Result<()> {
        let (system, threads) = (kind.name, if kind.is_concurrent { THREADS } else { 1 });
        let buckets = self.args.peer_size().min(self.args.table_size) / 8;
        let set_load = load.min(MAX_PEER_LOAD);
        let count = part(buckets, set_load - PEER_WINDOW / 2.0);
        let capacity = part(buckets, set_load + PEER_WINDOW / 2.0);
        self.team.say(&format!("{system}: filling to {set_load}"));
        let room = usize::try_from(capacity)?;
        let set = self.share(|| (kind.create)(room))?;
        self.team.fill(threads, (0, count), |keys| set.insert(keys))?;
        let rollup = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
        let bytes = |name| bytes_of(&rollup, name).unwrap_or(0);
        let (private_bytes, huge_bytes) = (bytes("Anonymous:"), bytes("AnonHugePages:"));
        self.measured.peers.push(Peer { system, load, keys: count, private_bytes, huge_bytes });

        self.team.say(&format!("{system}: measuring at {set_load}"));
        let quota = ((capacity - count) / (u64::from(self.args.rounds) * threads as u64)).max(1);
        let mut next = count;
        for _ in 0..self.args.rounds {
            self.work(tables, load, &[Work::FindBatch, Work::InsertBatch], Some(system))?;
            for threads in 1..=threads {
                let what = What { system, beside: None, threads, load, work: Work::Find };
                let rate =
                    self.team.measure(threads, Keys::Random(count), |keys| set.find(keys))?;
                self.measured.add(what, rate);
                let new = Keys::Run(next, next + quota);
                next += quota;
                let rate = self.team.measure(threads, new, |keys| set.insert(keys))?;
                self.measured.add(What { work: Work::Insert, ..what }, rate);
            }
        }
        self.truncate(tables)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a share of fewer than 2^53"
)]
fn part(of: u64, share: f64) -> u64 {
    (of as f64 * share) as u64
}

// Cargo sets `test` for a benchmark without a harness too, and there the tests are left out.
#[cfg(test)]
#[allow(dead_code, unused_imports)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_medians_found_by_their_subject() {
        let what =
            What { system: "linear", beside: None, threads: 1, load: 0.5, work: Work::FindBatch };
        let beside = What { beside: Some("other"), ..what };
        let mut measured = Measured::default();
        for rate in [9.0, 1.0, 2.0, 4.0] {
            measured.add(What { work: Work::PrefetchedReads, ..what }, rate * 10.0);
            measured.add(beside, rate * 2.0);
            measured.add(What { load: 0.9, ..what }, rate * 3.0);
        }
        for rate in [1.0, 5.0, 3.0] {
            measured.add(what, rate);
        }
        assert_eq!(measured.rate(what), Some(3.0));
        assert_eq!(measured.rate(beside), Some(6.0));
        assert_eq!(measured.rate(What { load: 0.9, ..what }), Some(9.0));
        assert_eq!(measured.rate(What { work: Work::PrefetchedReads, ..what }), Some(30.0));
        assert_eq!(measured.rate(What { threads: 2, ..what }), None);
        assert_eq!((measured.rates.len(), measured.limits.len()), (3, 1));
    }

    #[test]
    fn the_kernel_counts_memory_in_kib() {
        let status = "MemFree:\t 100 kB\nMemAvailable:\t  2048 kB\n";
        assert_eq!(bytes_of(status, "MemAvailable:"), Some(2 << 20));
        assert_eq!(bytes_of(status, "Cached:"), None);
    }
}
