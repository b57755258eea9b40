//! The measurements and their order: at each load factor rounds in which all of them take turns, so
//! that other load of the machine affects all alike.

use std::fs;

use probeline_exchange::Thread;
use probeline_limits::memory::measure_parts;
use probeline_pin::{Affinity, Placement, Topology};
use serde::Serialize;

use super::keys::Keys;
use super::rank::Rank;
use super::sets::{Dashmap, Hashbrown, Papaya, Scc, SccIndex, Set};
use super::team::{self, Member, THREADS};
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

/// What an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Work {
    /// A find of a key that the set holds.
    Find,
    /// A find-or-put of a key that the set holds.
    Hit,
    /// A find-or-put of a new key.
    Insert,
    /// Finds in batches.
    FindBatch,
    /// Inserts in batches.
    InsertBatch,
}

/// A rate measured in several rounds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Rate {
    #[serde(flatten)]
    pub(crate) what: What,
    /// Operations a second of all threads together, for each round.
    pub(crate) ops_per_s: Vec<f64>,
}

/// What a rate is of.
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

/// The limits of the machine's memory on a table's windows, all threads together, a value a round.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Limits {
    pub(crate) system: &'static str,
    pub(crate) threads: usize,
    pub(crate) load: f64,
    pub(crate) dependent_reads: Vec<f64>,
    pub(crate) prefetched_reads: Vec<f64>,
    pub(crate) reads_then_swaps: Vec<f64>,
}

/// The results of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Measured {
    pub(crate) buckets: u64,
    /// CPUs of the ranks and pages of their windows.
    pub(crate) windows: Vec<String>,
    pub(crate) peers: Vec<Peer>,
    pub(crate) limits: Vec<Limits>,
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
    /// The median rate.
    pub(crate) fn rate(&self, what: What) -> Option<f64> {
        median(&self.rates.iter().find(|rate| rate.what == what)?.ops_per_s)
    }

    /// The limits of a table's windows.
    pub(crate) fn limits(&self, system: &str, threads: usize, load: f64) -> Option<&Limits> {
        let same = |limits: &&Limits| {
            limits.system == system && limits.threads == threads && limits.load == load
        };
        self.limits.iter().find(same)
    }

    fn add(&mut self, what: What, ops_per_s: f64) {
        match self.rates.iter_mut().find(|rate| rate.what == what) {
            Some(rate) => rate.ops_per_s.push(ops_per_s),
            None => self.rates.push(Rate { what, ops_per_s: vec![ops_per_s] }),
        }
    }

    fn add_limits(&mut self, (system, threads, load): (&'static str, usize, f64), each: [f64; 3]) {
        let same = |limits: &Limits| {
            limits.system == system && limits.threads == threads && limits.load == load
        };
        let at = self.limits.iter().position(same).unwrap_or_else(|| {
            self.limits.push(Limits {
                system,
                threads,
                load,
                dependent_reads: Vec::new(),
                prefetched_reads: Vec::new(),
                reads_then_swaps: Vec::new(),
            });
            self.limits.len() - 1
        });
        let limits = &mut self.limits[at];
        let all = [
            &mut limits.dependent_reads,
            &mut limits.prefetched_reads,
            &mut limits.reads_then_swaps,
        ];
        all.into_iter().zip(each).for_each(|(rounds, value)| rounds.push(value));
    }
}

/// The median; the mean of the two in the middle of an even number.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    match values.len() % 2 {
        1 => Some(upper),
        _ => Some((values[values.len() / 2 - 1] + upper) / 2.0),
    }
}

/// Measures everything that `args` ask for.
pub(crate) fn run(args: &Args) -> Result<Measured> {
    check_memory(args)?;
    let affinity = Affinity::take()?;
    let topology = Topology::from_sysfs("/sys".as_ref())?;
    let places =
        probeline_pin::place(&topology, affinity.allowed(), u32::try_from(THREADS)?, None)?;
    team::run(&affinity, &places, args.seconds, |member| Plan::new(args, &places, member)?.run())
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

/// The bytes of a line such as `MemAvailable:    1234 kB`.
fn bytes_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_ascii_whitespace().next()?.parse::<u64>().ok()? << 10)
}

/// One thread's part in the measurements; both threads make the same calls.
struct Plan<'a> {
    args: &'a Args,
    places: &'a [Placement],
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

impl<'a> Plan<'a> {
    fn new(args: &'a Args, places: &'a [Placement], team: Member) -> Result<Self> {
        // Whole lines for two ranks.
        let buckets = args.table_size / 8 / 16 * 16;
        Ok(Self { args, places, team, measured: Measured { buckets, ..Measured::default() } })
    }

    fn run(mut self) -> Result<Measured> {
        for (at, &order) in self.args.probing.iter().enumerate() {
            self.order(order, at == 0 && !self.args.without_peers)?;
        }
        let spent = share_of(self.team.preempted_ns, self.team.spent_ns.max(1));
        self.measured.preempted_share = spent;
        Ok(self.measured)
    }

    fn order(&mut self, order: Order, with_peers: bool) -> Result<()> {
        self.team.say(&format!("{}: opening", order.name));
        let mut tables = self.open(order)?;
        for load in LOADS {
            self.team.say(&format!("{}: filling to {load}", order.name));
            self.fill(&mut tables, part(self.measured.buckets, load - WINDOW / 2.0))?;
            self.team.say(&format!("{}: measuring at {load}", order.name));
            for round in 0..self.args.rounds {
                self.round(&mut tables, load, round)?;
            }
            self.truncate(&mut tables)?;
            if with_peers {
                self.beside::<Hashbrown>(&mut tables, load)?;
                self.beside::<Dashmap>(&mut tables, load)?;
                self.beside::<Scc>(&mut tables, load)?;
                self.beside::<SccIndex>(&mut tables, load)?;
                self.beside::<Papaya>(&mut tables, load)?;
            }
        }
        Ok(())
    }

    fn open(&mut self, order: Order) -> Result<Tables> {
        let (buckets, me) = (self.measured.buckets, self.team.me);
        let node = self.places.get(me).and_then(|place| place.memory);
        let mut alone = probeline_exchange::threads(1).remove(0);
        let mut ranks = [None, None];
        if me == 0 {
            ranks[0] = Some(Rank::open(order.probing, buckets, node, &mut alone)?);
        }
        ranks[1] = Some(Rank::open(order.probing, buckets, node, &mut self.team.exchange)?);
        for (count, rank) in (1..).zip(ranks.iter().flatten()) {
            let cpus: Vec<String> =
                self.places.iter().take(count).map(|place| place.cpu.to_string()).collect();
            let (name, cpus, pages) = (order.name, cpus.join(" and "), rank.pages());
            self.measured.windows.push(format!("{name}, ranks on {cpus}: {pages}"));
        }
        Ok(Tables { order, ranks, _alone: alone, count: 0, next: 0 })
    }

    /// Inserts keys until each table holds `count`.
    fn fill(&mut self, tables: &mut Tables, count: u64) -> Result<()> {
        for (threads, rank) in (1..).zip(&mut tables.ranks) {
            self.team.fill(threads, (tables.count, count), |keys| {
                rank.as_mut().map_or(0, |rank| rank.work(Work::InsertBatch, keys))
            })?;
        }
        (tables.count, tables.next) = (count, count);
        Ok(())
    }

    /// Removes the keys that were inserted since the last `fill`.
    fn truncate(&mut self, tables: &mut Tables) -> Result<()> {
        use probeline_transport::Exchange;
        self.team.exchange.barrier()?;
        tables.ranks.iter_mut().flatten().for_each(|rank| rank.truncate(tables.count));
        tables.next = tables.count;
        Ok(self.team.exchange.barrier()?)
    }

    /// A round of the limits and of all work, by one rank and by two.
    fn round(&mut self, tables: &mut Tables, load: f64, round: u32) -> Result<()> {
        for (threads, rank) in (1..).zip(&tables.ranks) {
            let limits = self.limits(rank.as_ref().filter(|_| self.team.me < threads))?;
            self.measured.add_limits((tables.order.name, threads, load), limits);
        }
        let mut all = [Work::Insert, Work::Find, Work::InsertBatch, Work::Hit, Work::FindBatch];
        let first = round as usize % all.len();
        all.rotate_left(first);
        self.work(tables, load, &all, None)
    }

    fn limits(&mut self, rank: Option<&Rank>) -> Result<[f64; 3]> {
        use probeline_transport::Exchange;
        self.team.exchange.barrier()?;
        let mut mine = [0.0; 3];
        if let Some(rank) = rank {
            let memory = measure_parts(&rank.windows()?, self.args.seconds)?;
            mine = [memory.dependent_reads, memory.prefetched_reads, memory.reads_then_swaps];
        }
        let all = self.team.gather(mine.map(f64::to_bits))?;
        Ok(core::array::from_fn(|at| all.iter().map(|of| f64::from_bits(of[at])).sum()))
    }

    /// One round of `all` work on the tables, by one rank and by two.
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
            for (threads, rank) in (1..).zip(&mut tables.ranks) {
                let keys = match is_insert(work) {
                    true => Keys::Run { from: tables.next, to: tables.next + quota },
                    false => self.team.random(tables.count),
                };
                let rate = self.team.measure(threads, keys, |keys| {
                    rank.as_mut().map_or(0, |rank| rank.work(work, keys))
                })?;
                let system = tables.order.name;
                self.measured.add(What { system, beside, threads, load, work }, rate);
            }
            tables.next += if is_insert(work) { quota } else { 0 };
        }
        Ok(())
    }

    /// Rounds in which another set and the tables take turns.
    fn beside<S: Set>(&mut self, tables: &mut Tables, load: f64) -> Result<()> {
        let buckets = self.args.peer_size().min(self.args.table_size) / 8;
        let set_load = load.min(MAX_PEER_LOAD);
        let count = part(buckets, set_load - PEER_WINDOW / 2.0);
        let capacity = part(buckets, set_load + PEER_WINDOW / 2.0);
        self.team.say(&format!("{}: filling to {set_load}", S::NAME));
        let make_capacity = usize::try_from(capacity)?;
        let mut set = self.team.share(|| S::with_capacity(make_capacity), S::share)?;
        let threads = self.team.gather([u64::from(set.is_some())])?.iter().flatten().sum::<u64>();
        let threads = usize::try_from(threads)?;
        self.team
            .fill(threads, (0, count), |keys| set.as_mut().map_or(0, |set| set.insert(keys)))?;
        let rollup = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
        let bytes = |name| bytes_of(&rollup, name).unwrap_or(0);
        let (private_bytes, huge_bytes) = (bytes("Anonymous:"), bytes("AnonHugePages:"));
        let system = S::NAME;
        self.measured.peers.push(Peer { system, load, keys: count, private_bytes, huge_bytes });

        self.team.say(&format!("{system}: measuring at {set_load}"));
        let quota = ((capacity - count) / (u64::from(self.args.rounds) * threads as u64)).max(1);
        let mut next = count;
        for _ in 0..self.args.rounds {
            self.work(tables, load, &[Work::FindBatch, Work::InsertBatch], Some(system))?;
            for threads in 1..=threads {
                let what = What { system, beside: None, threads, load, work: Work::Find };
                let finds = self.team.random(count);
                let rate = self
                    .team
                    .measure(threads, finds, |keys| set.as_mut().map_or(0, |set| set.find(keys)))?;
                self.measured.add(what, rate);
                let inserts = Keys::Run { from: next, to: next + quota };
                next += quota;
                let rate = self.team.measure(threads, inserts, |keys| {
                    set.as_mut().map_or(0, |set| set.insert(keys))
                })?;
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

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn share_of(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

// Cargo sets `test` for a benchmark without a harness too, and there the tests are left out.
#[cfg(test)]
#[allow(dead_code, unused_imports)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[9.0, 1.0, 2.0, 4.0]), Some(3.0));
    }

    #[test]
    fn rates_are_found_by_what_they_are_of() {
        let what =
            What { system: "linear", beside: None, threads: 1, load: 0.5, work: Work::FindBatch };
        let beside = What { beside: Some("other"), ..what };
        let mut measured = Measured::default();
        for rate in [1.0, 5.0, 3.0] {
            measured.add(what, rate);
            measured.add(beside, rate * 2.0);
            measured.add(What { load: 0.9, ..what }, rate * 3.0);
        }
        assert_eq!(measured.rate(what), Some(3.0));
        assert_eq!(measured.rate(beside), Some(6.0));
        assert_eq!(measured.rate(What { load: 0.9, ..what }), Some(9.0));
        assert_eq!(measured.rate(What { threads: 2, ..what }), None);
    }

    #[test]
    fn the_kernel_counts_memory_in_kib() {
        let status = "MemFree:\t 100 kB\nMemAvailable:\t  2048 kB\n";
        assert_eq!(bytes_of(status, "MemAvailable:"), Some(2 << 20));
        assert_eq!(bytes_of(status, "Cached:"), None);
    }
}
