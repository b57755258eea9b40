//! Measures the table on shared memory beside the limits of memory and beside other sets. At each
//! load factor all take turns in rounds, so that other load of the machine affects all alike.

use core::time::Duration;
use std::fs;
use std::sync::{Mutex, PoisonError};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Parser, value_parser};
use probeline_transport::{Alone, Exchange};

use super::Result;
use super::keys::Keys;
use super::member::{Member, THREADS, preempted_share, run_pinned};
use super::rank::{Rank, Work};
use super::ratio::{LOADS, Rates, Row, What};
use super::sets::{Do, Peer, Set, peers};
use super::tables::{TableKey, VARIANTS, Variant};

/// The share of the buckets, in thousandths, that the inserts of some rounds fill together, centred
/// on the load factor; their keys are then removed. A linear probe for an insert, (1 + 1/(1 -
/// load)^2) / 2 buckets, is a quarter shorter at 0.885 than at 0.9 and two fifths longer at 0.915;
/// the median of the rounds is from the middle.
const WINDOW: u64 = 30;
/// The largest load factor of the other sets: hashbrown and dashmap double at 7/8.
const MAX_PEER_LOAD: u64 = 850;
/// The share that the inserts of another set fill. Its keys stay: removing them leaves tombstones.
const PEER_WINDOW: u64 = 40;
/// Measure the table beside the machine's limits and other sets
#[derive(Clone, Debug, Parser)]
#[command(name = "bench-speed", version)]
pub(crate) struct Args {
    /// Words of a key: 1 for the table of 63-bit keys, more for the table of wide keys
    #[arg(long, default_value = "1", value_delimiter = ',', value_name = "WORDS,...")]
    #[arg(value_parser = widths())]
    pub(crate) words: Vec<Width>,

    /// Size of the table in MiB, all ranks together, including the entries of wide keys; below 2048,
    /// caches raise the rates
    #[arg(long, default_value_t = 2048, value_name = "MIB", value_parser = value_parser!(u64).range(1..=1 << 20))]
    table_mib: u64,

    /// Rounds; medians are reported
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = value_parser!(u32).range(1..=999))]
    rounds: u32,

    /// Longest time of each measurement in milliseconds; inserts also end with their keys
    #[arg(long, default_value_t = 100, value_name = "MS", value_parser = value_parser!(u64).range(1..=10_000))]
    milliseconds: u64,

    /// Tables by probe order; targets are judged by the first one, which takes turns with the other
    /// sets
    #[arg(
        long,
        default_value = "lines,linear,double-hash",
        value_delimiter = ',',
        value_name = "ORDER,..."
    )]
    #[arg(value_parser = variants())]
    probing: Vec<Variant>,

    /// Leave out the other sets
    #[arg(long)]
    without_peers: bool,

    // `cargo bench` adds it.
    #[arg(long, hide = true, action = ArgAction::SetTrue)]
    bench: bool,
}

fn variants() -> impl TypedValueParser<Value = Variant> {
    PossibleValuesParser::new(VARIANTS.map(|variant| variant.name))
        .try_map(|name| VARIANTS.into_iter().find(|of| of.name == name).ok_or("an unknown table"))
}

/// Measurements with their places, and the ratios.
type Report = (String, Vec<Row>);

/// A width of keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Width {
    name: &'static str,
    pub(crate) run: fn(&Args) -> Result<Report>,
}

const WIDTHS: [Width; 4] = [
    Width { name: "1", run: run::<u64> },
    Width { name: "2", run: run::<[u64; 2]> },
    Width { name: "4", run: run::<[u64; 4]> },
    Width { name: "16", run: run::<[u64; 16]> },
];

fn widths() -> impl TypedValueParser<Value = Width> {
    PossibleValuesParser::new(WIDTHS.map(|width| width.name))
        .try_map(|name| WIDTHS.into_iter().find(|of| of.name == name).ok_or("an unknown width"))
}

fn run<K: TableKey>(args: &Args) -> Result<Report> {
    let size = args.table_mib << 20;
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find(|line| line.starts_with("model name"));
    let cpu = model.and_then(|line| line.split_once(": ")).map_or("unknown CPU", |(_, name)| name);
    let Args { rounds, milliseconds, .. } = args;
    let (mib, time, set) = (args.table_mib, Duration::from_millis(*milliseconds), Mutex::new(None));
    let keys = if K::WORDS == 1 { "63 bits".into() } else { format!("{} words", K::WORDS) };
    let about =
        format!("{cpu}\ntable of {mib} MiB, keys of {keys}, {rounds} rounds of {milliseconds} ms");
    let mut results = run_pinned(time, |member| {
        let (about, rates, set) = (about.clone(), Rates::default(), &set);
        // Whole lines for two ranks.
        let bucket_bytes = 8 * K::WORDS_PER_BUCKET;
        let buckets = size / bucket_bytes / 16 * 16;
        // The other sets have a power of two, so that their load factor is that of the table.
        // A quarter of the size: filling more takes minutes.
        let peer_buckets = 1 << (size / 4 / bucket_bytes).max(1).ilog2();
        Bench::<K> { args, time, buckets, peer_buckets, member, set, rates, about }.measure()
    })?;
    Ok(results.swap_remove(0))
}

fn part(of: u64, thousandths: u64) -> u64 {
    of * thousandths / 1000
}

/// Two tables of one size with the same first keys: one of a single rank and one of two ranks.
struct Tables<K: TableKey> {
    name: &'static str,
    /// The ranks of this thread, by the ranks of their tables.
    ranks: [Option<Rank<K>>; THREADS],
    /// The first keys, which both hold between the rounds.
    count: u64,
}

/// A table or another set in some rounds.
struct Subject<'a, K> {
    name: &'static str,
    /// The set that takes turns with the table.
    peer: Option<&'static str>,
    load: u64,
    /// The most threads that use it.
    threads: usize,
    /// Keys that it holds.
    count: u64,
    /// Inserts of each measurement.
    quota: u64,
    /// The number of the next new key.
    next: u64,
    /// Does work with keys by this number of threads; returns how many had the expected outcome.
    run: &'a mut dyn FnMut(usize, Work, &[K]) -> usize,
}

impl<K: TableKey> Tables<K> {
    fn run(&mut self, ranks: usize, work: Work, keys: &[K]) -> usize {
        self.ranks[ranks - 1].as_mut().map_or(0, |rank| rank.work(work, keys))
    }

    /// Inserts the first `count` keys that the tables do not hold yet.
    fn fill(&mut self, count: u64, member: &mut Member) -> Result<()> {
        if self.count < count {
            member.say(&format!("{}: filling with {count} keys", self.name));
        }
        let missing = self.count..count;
        for ranks in 1..=THREADS {
            let insert = |keys: &[K]| self.run(ranks, Work::InsertBatch, keys);
            member.fill(ranks, missing.clone(), insert)?;
        }
        self.count = count;
        Ok(())
    }

    /// Removes the keys that were inserted since the tables were filled, and perhaps the others,
    /// which the next [`fill`](Self::fill) inserts again.
    fn truncate(&mut self, member: &mut Member) -> Result<()> {
        let filled = self.count;
        let [alone, shared] = &mut self.ranks;
        if let Some(rank) = alone {
            self.count = K::truncate(&mut rank.table, filled, &mut Alone)?;
        }
        if let Some(rank) = shared {
            self.count = K::truncate(&mut rank.table, filled, &mut member.exchange)?;
        }
        Ok(member.exchange.barrier()?)
    }
}

/// The benchmark on one thread. All threads run it together and know all rates.
struct Bench<'a, K> {
    args: &'a Args,
    time: Duration,
    /// Of a table, all ranks together.
    buckets: u64,
    peer_buckets: u64,
    member: &'a mut Member,
    /// The other set that all threads use.
    set: &'a Mutex<Option<Set<K>>>,
    rates: Rates,
    about: String,
}

impl<K: TableKey> Bench<'_, K> {
    fn measure(mut self) -> Result<Report> {
        for (at, &variant) in self.args.probing.iter().enumerate() {
            let mut tables = self.open(variant)?;
            for load in LOADS {
                self.rounds(&mut tables, load, &Work::OF_RANKS, None)?;
                for peer in peers().into_iter().filter(|_| at == 0 && !self.args.without_peers) {
                    self.measure_peer(&peer, &mut tables, load)?;
                }
            }
        }
        let preempted = preempted_share() * 100.0;
        self.about += &format!("\nother threads had the CPU of the first for {preempted:.1} %");
        Ok((self.about, self.rates.rows(K::WORDS, &self.args.probing)))
    }

    fn open(&mut self, variant: Variant) -> Result<Tables<K>> {
        let name = variant.name;
        let mut tables = Tables { name, ranks: [None, None], count: 0 };
        for (ranks, rank) in (1..).zip(&mut tables.ranks) {
            self.member.say(&format!("{name}: opening a table of {ranks} rank(s)"));
            let mut alone = probeline_exchange::threads(1);
            let Member { me, place, exchange, .. } = &mut *self.member;
            if let Some(exchange) = if ranks == 1 { alone.get_mut(*me) } else { Some(exchange) } {
                let opened = Rank::open(variant, self.buckets, place.memory, exchange)?;
                let (cpu, pages) = (place.cpu, opened.table.transport().pages());
                self.about += &format!("\n{name}, {ranks} rank(s), {cpu}: {pages}");
                *rank = Some(opened);
            }
        }
        Ok(tables)
    }

    /// Fills the tables to a load factor and measures `works` on them beside the limits of memory,
    /// or beside another set.
    fn rounds(
        &mut self,
        tables: &mut Tables<K>,
        load: u64,
        works: &[Work],
        mut peer: Option<&mut Subject<K>>,
    ) -> Result<()> {
        let (name, count) = (tables.name, part(self.buckets, load - WINDOW / 2));
        tables.fill(count, self.member)?;
        let inserts = works.iter().filter(|work| work.is_insert()).count() as u64;
        let measurements = inserts * u64::from(self.args.rounds) * THREADS as u64;
        let quota = (part(self.buckets, WINDOW) * THREADS as u64 / measurements).max(1);
        let (mut next, mut works) = (count, works.to_vec());
        for _ in 0..self.args.rounds {
            self.member.say(&format!("{name}: measuring at 0.{}", load / 100));
            if peer.is_none() {
                self.limits(tables, load)?;
            }
            let run = &mut |ranks, work, keys: &[K]| tables.run(ranks, work, keys);
            let set = peer.as_ref().map(|set| set.name);
            let mut table =
                Subject { name, peer: set, load, threads: THREADS, count, quota, next, run };
            self.round(&mut table, &works)?;
            next = table.next;
            if let Some(set) = &mut peer {
                self.round(set, &[Work::Find, Work::Insert])?;
            }
            works.rotate_left(1);
        }
        tables.truncate(self.member)
    }

    /// Measures the limits of memory, all threads together.
    fn limits(&mut self, tables: &Tables<K>, load: u64) -> Result<()> {
        let (system, peer) = (tables.name, None);
        for (threads, rank) in (1..).zip(&tables.ranks) {
            self.member.exchange.barrier()?;
            let mine = rank.as_ref().map(|rank| rank.limits(self.time)).transpose()?;
            let rates = self.member.sums(mine.unwrap_or_default())?;
            for (work, rate) in Work::LIMITS.into_iter().zip(rates) {
                self.rates.add(What { system, peer, threads, load, work }, rate);
            }
        }
        Ok(())
    }

    /// Measures each of `works` once, by one thread and by two.
    fn round(&mut self, of: &mut Subject<K>, works: &[Work]) -> Result<()> {
        let Subject { name: system, peer, load, quota, .. } = *of;
        for &work in works {
            for threads in 1..=of.threads {
                let mut keys = Keys::Random(of.count);
                if work.is_insert() {
                    keys = Keys::Run(of.next..of.next + quota);
                    of.next += quota;
                }
                let run = |keys: &[K]| (of.run)(threads, work, keys);
                let rate = self.member.measure(threads, &keys, run)?;
                self.rates.add(What { system, peer, threads, load, work }, rate);
            }
        }
        Ok(())
    }

    /// Measures rounds in which another set and the tables take turns.
    fn measure_peer(&mut self, peer: &Peer<K>, tables: &mut Tables<K>, load: u64) -> Result<()> {
        let (name, threads) = (peer.name, if peer.is_concurrent { THREADS } else { 1 });
        let set_load = load.min(MAX_PEER_LOAD);
        let count = part(self.peer_buckets, set_load - PEER_WINDOW / 2);
        let capacity = part(self.peer_buckets, set_load + PEER_WINDOW / 2);
        let shown = set_load as f64 / 1e3;
        self.member.say(&format!("{name}: {count} keys, a load factor of {shown:.2}"));
        let set = self.share(peer, usize::try_from(capacity)?)?;
        self.member.fill(threads, 0..count, |keys| set(Do::Insert, keys))?;
        // Fewer huge pages than the table has are in the table's favour.
        let (tenths, huge) = (load / 100, huge_mib());
        self.about += &format!("\n{name}, load 0.{tenths}: {huge} MiB in huge pages");
        let quota = (capacity - count) / (u64::from(self.args.rounds) * threads as u64);
        let run = &mut |_: usize, work: Work, keys: &[K]| {
            set(if work.is_insert() { Do::Insert } else { Do::Find }, keys)
        };
        let (quota, next, peer) = (quota.max(1), count, None);
        let mut peer = Subject { name, peer, load, threads, count, quota, next, run };
        self.rounds(tables, load, &[Work::FindBatch, Work::InsertBatch], Some(&mut peer))
    }

    /// Returns a set that all threads share, created by the first one and so on its NUMA node.
    fn share(&mut self, peer: &Peer<K>, keys: usize) -> Result<Set<K>> {
        let slot = || self.set.lock().unwrap_or_else(PoisonError::into_inner);
        if self.member.me == 0 {
            // The former set is freed first.
            slot().take();
            *slot() = Some((peer.create)(keys));
        }
        self.member.exchange.barrier()?;
        Ok(slot().clone().ok_or("there is no set")?)
    }
}

/// Returns the memory of this process in transparent huge pages, in MiB, without shared memory; 0
/// if the kernel does not say.
fn huge_mib() -> u64 {
    let rollup = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let huge = rollup.lines().find_map(|line| line.strip_prefix("AnonHugePages:"));
    huge.and_then(|kib| kib.trim_end_matches("kB").trim().parse::<u64>().ok()).unwrap_or(0) >> 10
}
