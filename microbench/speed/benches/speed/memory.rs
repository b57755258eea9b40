//! The table on shared memory beside the limits of memory and beside other sets. At each load factor
//! all take turns in rounds, so that other load of the machine affects all alike.

use std::collections::HashMap;
use std::fs;
use std::sync::Arc;

use probeline_limits::memory::measure_parts;
use probeline_transport::Exchange;

use super::rank::{Rank, Work};
use super::sets::{HASHBROWN, KINDS, Kind};
use super::team::{Keys, Member, THREADS, Team};
use super::{Args, Order, Result, Row, Target};

/// Load factors that are measured, and further shares of the buckets, in thousandths.
const LOADS: [u64; 2] = [500, 900];
/// The share of the buckets that the inserts of some rounds fill together, centred on the load
/// factor; their keys are then removed. A linear probe for an insert, (1 + 1/(1 - load)^2) / 2
/// buckets, is a quarter shorter at 0.885 than at 0.9 and two fifths longer at 0.915; the median of
/// the rounds is from the middle.
const WINDOW: u64 = 30;
/// The largest load factor of the other sets: hashbrown and dashmap double at 7/8.
const MAX_PEER_LOAD: u64 = 850;
/// The share that the inserts of another set fill. Its keys stay: removing them leaves tombstones.
const PEER_WINDOW: u64 = 40;
/// Memory of the largest other set by that of a table with as many buckets: papaya allocates 32
/// bytes a key.
const PEER_BYTES_PER_BYTE: u64 = 6;
/// Two ranks have at least this many times the rate of one, if the machine's limit does.
const SCALING: f64 = 1.6;

/// The subject of a rate.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct What {
    /// The probe order of the table, or the name of another set.
    system: &'static str,
    /// The set that took turns with the table in these rounds.
    beside: Option<&'static str>,
    threads: usize,
    /// The load factor; that of other sets is at most [`MAX_PEER_LOAD`].
    load: u64,
    work: Work,
}

/// The rate by which a rate of the table is divided.
#[derive(Clone, Copy, PartialEq)]
enum By {
    /// That of the memory: batched finds by prefetched reads, batched inserts by prefetched
    /// read-then-CAS.
    Limit,
    /// Single calls.
    Blocking,
    /// Single calls of hashbrown, in the rounds in which both took turns if there are such.
    Unshared,
    /// Single calls of the fastest set that threads share, likewise.
    BestSet,
    /// One rank. Two should have as many times its rate as the limit allows, at most [`SCALING`].
    OneRank,
    /// That of dependent reads: the ratio is one of times.
    DependentReads,
}

use Work::{FindBatch, Hit, InsertBatch};

/// A ratio: ranks, operation, divisor, targets at the two load factors.
type Ratio = (usize, Work, By, [Option<f64>; LOADS.len()]);

const NONE: [Option<f64>; 2] = [None; 2];
const FASTER: [Option<f64>; 2] = [Some(3.0), Some(1.0)];

const RATIOS: [Ratio; 15] = [
    (1, FindBatch, By::Limit, [Some(0.75), Some(0.35)]),
    (1, InsertBatch, By::Limit, [Some(0.6), Some(0.12)]),
    (1, FindBatch, By::Blocking, [Some(2.5), None]),
    (1, InsertBatch, By::Blocking, [Some(2.5), None]),
    (1, FindBatch, By::BestSet, FASTER),
    (1, InsertBatch, By::BestSet, FASTER),
    (1, FindBatch, By::Unshared, [Some(1.0), None]),
    (1, InsertBatch, By::Unshared, [Some(1.0), None]),
    (1, Hit, By::DependentReads, [Some(1.3); 2]),
    (2, FindBatch, By::Limit, NONE),
    (2, InsertBatch, By::Limit, NONE),
    (2, FindBatch, By::BestSet, FASTER),
    (2, InsertBatch, By::BestSet, FASTER),
    (2, FindBatch, By::OneRank, NONE),
    (2, InsertBatch, By::OneRank, NONE),
];

fn name(work: Work, by: By) -> String {
    let operations = if work == FindBatch { "finds" } else { "inserts" };
    let limit = if work == FindBatch { "reads" } else { "read-then-CAS" };
    let divisor = match by {
        By::DependentReads => return "time of a hit / time of a dependent read".to_owned(),
        By::Limit => format!("prefetched {limit}"),
        By::Blocking => format!("blocking {operations}"),
        By::Unshared => format!("{operations} of {HASHBROWN}"),
        By::BestSet => format!("{operations} of the best concurrent set"),
        By::OneRank => "those of one rank".to_owned(),
    };
    format!("batched {operations} / {divisor}")
}

/// Operations per second of all threads together, for each round.
#[derive(Default)]
struct Rates(HashMap<What, Vec<f64>>);

impl Rates {
    fn add(&mut self, what: What, ops_per_s: f64) {
        self.0.entry(what).or_default().push(ops_per_s);
    }

    /// Returns the median rate; the mean of the two in the middle of an even number.
    fn median(&self, what: What) -> Option<f64> {
        let mut rates = self.0.get(&what)?.clone();
        rates.sort_by(f64::total_cmp);
        Some(f64::midpoint(*rates.get((rates.len() - 1) / 2)?, *rates.get(rates.len() / 2)?))
    }

    fn limit(&self, what: What) -> Option<f64> {
        let is_find = what.work == FindBatch;
        let work = if is_find { Work::PrefetchedReads } else { Work::ReadsThenSwaps };
        self.median(What { work, ..what })
    }

    /// Returns a rate of the table and the one that divides it.
    fn pair(&self, what: What, by: By) -> Option<(f64, f64)> {
        let work = if what.work == FindBatch { Work::Find } else { Work::Insert };
        let of = |system| self.median(What { system, work, ..what });
        let of_set = |set, rate| {
            let beside = self.median(What { beside: Some(set), ..what });
            Some((beside.unwrap_or(rate), of(set)?))
        };
        let rate = self.median(what)?;
        let divisor = match by {
            By::Limit => self.limit(what),
            By::Blocking => of(what.system),
            By::OneRank => self.median(What { threads: 1, ..what }),
            By::DependentReads => self.median(What { work: Work::DependentReads, ..what }),
            By::Unshared => return of_set(HASHBROWN, rate),
            By::BestSet => {
                let shared = KINDS.iter().filter(|kind| kind.is_concurrent);
                let rates = shared.filter_map(|kind| Some((of(kind.name)?, kind.name)));
                return of_set(rates.max_by(|one, other| one.0.total_cmp(&other.0))?.1, rate);
            }
        };
        Some((rate, divisor?))
    }

    /// Returns a row for each ratio that was measured. Targets are those of the first probe order.
    fn rows(&self, orders: &[Order]) -> Vec<Row> {
        let mut rows = Vec::new();
        for &(threads, work, by, targets) in &RATIOS {
            for (load, target) in LOADS.into_iter().zip(targets) {
                for (at, &(system, _)) in orders.iter().enumerate() {
                    let what = What { system, beside: None, threads, load, work };
                    let Some(pair) = self.pair(what, by) else { continue };
                    let one = || self.limit(What { threads: 1, ..what });
                    let scaling = || Some((self.limit(what)? / one()?).min(SCALING));
                    let target = if by == By::OneRank { scaling() } else { target };
                    let is_time = by == By::DependentReads;
                    let side = if is_time { Target::AtMost } else { Target::AtLeast };
                    let unit = |rate| if is_time { 1e9 / rate } else { rate / 1e6 };
                    let ranks = if threads == 1 { "1 rank" } else { "2 ranks" };
                    rows.push(Row {
                        name: name(work, by),
                        case: format!("{ranks}, load 0.{}, {system}", load / 100),
                        unit: if is_time { "ns" } else { "M/s" },
                        measured: unit(pair.0),
                        baseline: unit(pair.1),
                        target: target.filter(|_| at == 0).map(side),
                    });
                }
            }
        }
        rows
    }
}

/// Two tables of one size with the same keys: one of a single rank and one of two ranks, which the
/// threads own.
struct Tables {
    order: Order,
    /// Keys that stay.
    count: u64,
    /// The number of the next new key.
    next: u64,
}

struct Bench<'a> {
    args: &'a Args,
    team: Team,
    /// Of a table, all ranks together.
    buckets: u64,
    rates: Rates,
    about: String,
}

/// Measures everything that `args` ask for. Returns what was measured where, and the ratios.
pub(crate) fn run(args: &Args) -> Result<(String, Vec<Row>)> {
    check_memory(args)?;
    let (size, seconds) = (args.table_size >> 20, args.seconds.as_secs_f64());
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find(|line| line.starts_with("model name"));
    let cpu = model.and_then(|line| line.split_once(": ")).map_or("unknown CPU", |(_, name)| name);
    let about = format!("{cpu}\ntable of {size} MiB, {} rounds of {seconds} s", args.rounds);
    // Whole lines for two ranks.
    let buckets = args.table_size / 8 / 16 * 16;
    let team = Team::new(args.seconds)?;
    let mut bench = Bench { args, team, buckets, rates: Rates::default(), about };
    for (at, &order) in args.probing.iter().enumerate() {
        let mut tables = bench.open(order)?;
        for load in LOADS {
            bench.at_load(&mut tables, load)?;
            for kind in KINDS.iter().filter(|_| at == 0 && !args.without_peers) {
                bench.beside(kind, &mut tables, load)?;
            }
        }
    }
    let preempted = bench.team.preempted_share() * 100.0;
    let about = bench.about + &format!("\nother processes had the CPUs for {preempted:.1} %");
    Ok((about, bench.rates.rows(&args.probing)))
}

/// Returns the buckets of a table with which other sets are compared.
fn peer_size(args: &Args) -> u64 {
    args.peer_size.unwrap_or(args.table_size / 4).min(args.table_size)
}

fn check_memory(args: &Args) -> Result<()> {
    let peers = if args.without_peers { 0 } else { PEER_BYTES_PER_BYTE * peer_size(args) };
    let needed = 2 * args.table_size + peers;
    match probeline_pin::memory_available() {
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

fn part(of: u64, thousandths: u64) -> u64 {
    of * thousandths / 1000
}

impl Bench<'_> {
    fn open(&mut self, order: Order) -> Result<Tables> {
        let (buckets, (name, probing)) = (self.buckets, order);
        for ranks in 1..=THREADS {
            eprintln!("{name}: opening a table of {ranks} rank(s)");
            let pages = self.team.each(ranks, move |member, exchange| {
                // The former table of this size ends first.
                *member.rank(ranks) = None;
                let rank = Rank::open(probing, buckets, member.place.memory, exchange)?;
                let (cpu, pages) = (member.place.cpu, rank.pages());
                *member.rank(ranks) = Some(rank);
                Ok(format!("\n{name}, {ranks} rank(s), {cpu}: {pages}"))
            })?;
            self.about += &pages.concat();
        }
        Ok(Tables { order, count: 0, next: 0 })
    }

    /// Fills the tables and measures everything at a load factor.
    fn at_load(&mut self, tables: &mut Tables, load: u64) -> Result<()> {
        eprintln!("{}: filling to 0.{}", tables.order.0, load / 100);
        let count = part(self.buckets, load - WINDOW / 2);
        for ranks in 1..=THREADS {
            self.team.fill(ranks, tables.count..count, by_ranks(ranks, InsertBatch))?;
        }
        (tables.count, tables.next) = (count, count);
        for round in 0..self.args.rounds {
            eprintln!("{}: measuring at 0.{}", tables.order.0, load / 100);
            self.limits(tables, load)?;
            let mut all = [Work::Insert, Work::Find, InsertBatch, Hit, FindBatch];
            let first = round as usize % all.len();
            all.rotate_left(first);
            self.work(tables, load, &all, None)?;
        }
        self.truncate(tables)
    }

    /// Removes the keys that were inserted since the tables were filled.
    fn truncate(&self, tables: &mut Tables) -> Result<()> {
        let count = tables.count;
        tables.next = count;
        for ranks in 1..=THREADS {
            let truncate = move |rank: &mut Rank| rank.truncate(count);
            self.team.each(ranks, move |member, _| {
                member.rank(ranks).as_mut().map(truncate);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Measures the limits of memory, all threads together.
    fn limits(&mut self, tables: &Tables, load: u64) -> Result<()> {
        let (system, seconds) = (tables.order.0, self.args.seconds);
        for threads in 1..=THREADS {
            let limits = self.team.each(threads, move |member, mut exchange| {
                let rank = member.rank(threads).as_ref().ok_or("there is no table")?;
                let windows = rank.windows()?;
                exchange.barrier()?;
                Ok(measure_parts(&windows, seconds)?)
            })?;
            for (work, rate) in [
                (Work::DependentReads, limits.iter().map(|of| of.dependent_reads).sum()),
                (Work::PrefetchedReads, limits.iter().map(|of| of.prefetched_reads).sum()),
                (Work::ReadsThenSwaps, limits.iter().map(|of| of.reads_then_swaps).sum()),
            ] {
                self.rates.add(What { system, beside: None, threads, load, work }, rate);
            }
        }
        Ok(())
    }

    /// Does one round of `all` work on the tables, by one rank and by two.
    fn work(
        &mut self,
        tables: &mut Tables,
        load: u64,
        all: &[Work],
        beside: Option<&'static str>,
    ) -> Result<()> {
        let is_insert = |work: Work| matches!(work, Work::Insert | InsertBatch);
        let inserts = all.iter().filter(|work| is_insert(**work)).count() as u64;
        let measurements = inserts * u64::from(self.args.rounds);
        let quota = (part(self.buckets, WINDOW) / measurements.max(1)).max(1);
        for &work in all {
            let mut keys = Keys::Random(tables.count);
            if is_insert(work) {
                keys = Keys::Run(tables.next..tables.next + quota);
                tables.next += quota;
            }
            for threads in 1..=THREADS {
                let rate = self.team.measure(threads, keys.clone(), by_ranks(threads, work))?;
                let system = tables.order.0;
                self.rates.add(What { system, beside, threads, load, work }, rate);
            }
        }
        Ok(())
    }

    /// Measures rounds in which another set and the tables take turns.
    fn beside(&mut self, kind: &Kind, tables: &mut Tables, load: u64) -> Result<()> {
        let (system, most) = (kind.name, if kind.is_concurrent { THREADS } else { 1 });
        let (buckets, set_load) = (peer_size(self.args) / 8, load.min(MAX_PEER_LOAD));
        let count = part(buckets, set_load - PEER_WINDOW / 2);
        let capacity = part(buckets, set_load + PEER_WINDOW / 2);
        eprintln!("{system}: {count} keys, a load factor of {:.2}", set_load as f64 / 1e3);
        let before = process_mib();
        // Created by a pinned thread, so that its memory is on that thread's node.
        let (create, keys) = (kind.create, usize::try_from(capacity)?);
        let set = self.team.each(1, move |_, _| Ok(create(keys)))?.remove(0);
        let find = {
            let set = Arc::clone(&set);
            move |_: &mut Member, keys: &[u64]| set.find(keys)
        };
        let insert = move |_: &mut Member, keys: &[u64]| set.insert(keys);
        self.team.fill(most, 0..count, insert.clone())?;
        // Fewer huge pages than the table has are in the table's favour, and so is more memory.
        let [private, huge] = process_mib().zip(before).map_or([0; 2], |(now, before)| {
            [now[0].saturating_sub(before[0]), now[1].saturating_sub(before[1])]
        });
        self.about += &format!(
            "\n{system}, load 0.{}: {private} MiB, {huge} in huge pages; a table of as many buckets \
             has {} MiB",
            load / 100,
            (buckets * 8) >> 20
        );
        let quota = ((capacity - count) / (u64::from(self.args.rounds) * most as u64)).max(1);
        let mut next = count;
        for _ in 0..self.args.rounds {
            self.work(tables, load, &[FindBatch, InsertBatch], Some(system))?;
            for threads in 1..=most {
                let what = What { system, beside: None, threads, load, work: Work::Find };
                let rate = self.team.measure(threads, Keys::Random(count), find.clone())?;
                self.rates.add(what, rate);
                let new = Keys::Run(next..next + quota);
                next += quota;
                let rate = self.team.measure(threads, new, insert.clone())?;
                self.rates.add(What { work: Work::Insert, ..what }, rate);
            }
        }
        self.truncate(tables)
    }
}

/// Returns the private memory of this process and its part in huge pages, in MiB.
fn process_mib() -> Option<[u64; 2]> {
    let rollup = fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let mib = |name| -> Option<u64> {
        let line = rollup.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim_end_matches("kB").trim().parse::<u64>().ok()? >> 10)
    };
    Some([mib("Private_Dirty:")?, mib("AnonHugePages:")?])
}

fn by_ranks(
    ranks: usize,
    work: Work,
) -> impl Fn(&mut Member, &[u64]) -> usize + Send + Sync + 'static {
    move |member, keys| member.rank(ranks).as_mut().map_or(0, |rank| rank.work(work, keys))
}

// Cargo sets `test` for a benchmark without a harness too, and there the tests are left out.
#[cfg(test)]
#[allow(dead_code, unused_imports)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_medians_found_by_their_subject() {
        let what = What { system: "linear", beside: None, threads: 1, load: 500, work: FindBatch };
        let beside = What { beside: Some("other"), ..what };
        let mut rates = Rates::default();
        for rate in [9.0, 1.0, 2.0, 4.0] {
            rates.add(What { work: Work::PrefetchedReads, ..what }, rate * 10.0);
            rates.add(beside, rate * 2.0);
            rates.add(What { load: 900, ..what }, rate * 3.0);
        }
        for rate in [1.0, 5.0, 3.0] {
            rates.add(what, rate);
        }
        assert_eq!(rates.median(what), Some(3.0));
        assert_eq!(rates.median(beside), Some(6.0));
        assert_eq!(rates.median(What { load: 900, ..what }), Some(9.0));
        assert_eq!(rates.limit(what), Some(30.0));
        assert_eq!(rates.median(What { threads: 2, ..what }), None);
        assert_eq!(rates.pair(what, By::Limit), Some((3.0, 30.0)));
    }
}
