//! The counters of k-mers, which grow, and the lanes in which ranks send k-mers to each other.

use std::collections::HashMap;

use probeline::containers::aggregator::{self, Aggregator};
use probeline::containers::counters::{Action, Config, CountersOf, Operation, Outcome, Shuffled};
use probeline::containers::filter::{self, Filter};
use probeline::containers::{BatchError, OperationError};
use probeline::pin::MemoryPolicy;
use probeline::shm::{Builder, Engine};
use probeline::transport::{Alone, Exchange, LINE_WORDS, Owner, Transport, WORD_BYTES};

use super::parts::Parts;
use super::{BATCH, MAX_HISTOGRAM, Options, Totals};
use crate::Error;
use crate::gather::sums;
use crate::kmer::Kmer;

/// The factor from the size of the counters to that of the next ones.
const GROWTH: u64 = 4;
/// Operations in flight of counters that the CPU reaches: one, for calls.
const OPERATIONS: u32 = 1;
/// Repetitions of an operation that waits for another rank's insert: each waits for some 50 ms by itself.
const MAX_RETRIES: u32 = 1000;
/// Blocks in flight of a rank.
pub(super) const SENDS: u32 = 32;
/// Steps of a rank in a row in which no block arrives: others may wait some minutes for a rank that reads.
const MAX_IDLE: u64 = 1 << 33;

/// Returns lanes of 128 KiB of a window a pair of ranks.
pub(super) fn lanes() -> aggregator::Config {
    let default = aggregator::Config::default();
    aggregator::Config { block: 1022, blocks: 16, max_idle: MAX_IDLE, ..default }
}

type Opened<K> = CountersOf<Engine, [Operation; OPERATIONS as usize], Shuffled<K>>;

type OpenedFilter = Filter<Engine, [filter::Operation; OPERATIONS as usize]>;

/// Bits that a k-mer sets in a filter.
const FILTER_BITS: u32 = 3;

/// The effect of a pass on a k-mer.
enum Pass {
    /// Counts it.
    All,
    /// Inserts it with a count of 0 if it is in the filter already, and puts it into the filter.
    Repeated(Box<OpenedFilter>),
    /// Counts it if it was inserted.
    Inserted,
}

/// Counters of all ranks, or of this one.
pub(super) struct Table<K: Kmer> {
    counters: Opened<K>,
    waiting: Parts<Shuffled<K>>,
    /// Ranks that add to them.
    ranks: u32,
    pass: Pass,
    memory: MemoryPolicy,
    max_bytes: u64,
    /// K-mers in the counters when ranks last compared them, and those that this rank has inserted since.
    held: u64,
    new: u64,
    /// K-mers that found no room, or met one that another rank was inserting.
    pending: Vec<Shuffled<K>>,
    /// Whether one of them found no room.
    is_full: bool,
    /// Counts beyond the largest that a counter has: those of this rank, in the end of all.
    beyond: HashMap<Shuffled<K>, u64>,
    growths: u32,
    /// Whether the counters cannot grow any more.
    are_largest: bool,
}

impl<K: Kmer> Table<K> {
    /// Opens counters of all ranks, or of each rank.
    pub(super) fn open(
        options: &Options,
        is_shared: bool,
        exchange: &mut dyn Exchange,
    ) -> Result<Self, Error> {
        let all = u64::from(exchange.owners());
        let max_bytes = exchange.min(options.max_table_bytes)?;
        let (ranks, parts, exchange): (u32, u64, &mut dyn Exchange) = match is_shared {
            true => (exchange.owners(), 1, exchange),
            false => (1, all, &mut Alone),
        };
        let lines = options.table_bytes / parts / LINE_BYTES;
        let mut config = config(lines.max(1), 2 * options.k);
        // The fewer lines, the more bits of a k-mer are in its word.
        while config.max_count() == 0 {
            config.lines *= 2;
        }
        let counters = open(config, options.memory, exchange)?;
        let words = (options.filter_bytes / parts / WORD_BYTES as u64).max(1);
        let pass = match options.filter_bytes {
            0 => Pass::All,
            _ => Pass::Repeated(open_filter(words, options.memory, exchange)?),
        };
        Ok(Self {
            waiting: Parts::new(config.lines, ranks),
            counters,
            ranks,
            pass,
            memory: options.memory,
            max_bytes: max_bytes / parts,
            held: 0,
            new: 0,
            pending: Vec::new(),
            is_full: false,
            beyond: HashMap::new(),
            growths: 0,
            are_largest: false,
        })
    }

    /// Begins to count the k-mers that were inserted, after a pass that has inserted the repeated ones. Returns
    /// false if there was none.
    pub(super) fn count_inserted(&mut self) -> bool {
        let was_filtered = matches!(self.pass, Pass::Repeated(_));
        if was_filtered {
            self.pass = Pass::Inserted;
        }
        was_filtered
    }

    /// Counts k-mers, or inserts the repeated ones. Those that are refused wait for the end of the round.
    pub(super) fn add(&mut self, kmers: &[K]) -> Result<(), Error> {
        let kmers = kmers.iter().map(|kmer| self.counters.shuffled(*kmer));
        self.add_shuffled(&kmers.collect::<Vec<_>>())
    }

    fn add_shuffled(&mut self, kmers: &[Shuffled<K>]) -> Result<(), Error> {
        match &mut self.pass {
            Pass::All => {
                for kmer in kmers {
                    let home_line = self.counters.home_line(*kmer);
                    if let Some(part) = self.waiting.push(*kmer, home_line) {
                        self.run(&part, 1)?;
                        self.waiting.recycle(part);
                    }
                }
                Ok(())
            }
            Pass::Repeated(filter) => {
                let keys: Vec<u64> = kmers.iter().map(|kmer| kmer.0.hash()).collect();
                let mut found = vec![false; keys.len()];
                filter.insert_batch(&keys, &mut found)?;
                let repeated = kmers.iter().zip(found).filter(|(_, is_found)| *is_found);
                self.run(&repeated.map(|(kmer, _)| *kmer).collect::<Vec<_>>(), 0)
            }
            Pass::Inserted => {
                let (mut inserted, pending) = (Vec::with_capacity(kmers.len()), &mut self.pending);
                self.counters.run_all(
                    kmers,
                    |_| Some(Action::Get),
                    |place, outcome| match outcome {
                        Outcome::Was(_) => inserted.extend(kmers.get(place)),
                        Outcome::Unfinished => pending.extend(kmers.get(place)),
                        _ => {}
                    },
                )?;
                self.run(&inserted, 1)
            }
        }
    }

    /// Adds to the counts of k-mers.
    fn run(&mut self, kmers: &[Shuffled<K>], addend: u64) -> Result<(), Error> {
        let Self { counters, new, pending, is_full, beyond, .. } = self;
        let max_count = counters.config().max_count();
        let store = |place: usize, outcome| match outcome {
            Outcome::Was(count) if count < max_count || addend == 0 => {}
            Outcome::Was(_) => {
                if let Some(kmer) = kmers.get(place) {
                    *beyond.entry(*kmer).or_default() += 1;
                }
            }
            Outcome::New => *new += 1,
            refused => {
                *is_full |= refused == Outcome::Full;
                pending.extend(kmers.get(place));
            }
        };
        Ok(counters.run_all(kmers, |_| Some(Action::Add(addend)), store)?)
    }

    /// Returns the smallest count of a k-mer: with a filter, k-mers that occur once were not counted but for its
    /// errors.
    fn least(&self) -> u64 {
        if matches!(self.pass, Pass::All) { 1 } else { 2 }
    }

    /// Counts the k-mers that wait, and those that were refused. Those without room stay pending.
    fn add_pending(&mut self) -> Result<(), Error> {
        for _ in 0..MAX_RETRIES {
            let pending = core::mem::take(&mut self.pending);
            self.is_full = false;
            self.add_shuffled(&pending)?;
            for part in self.waiting.take_all() {
                self.run(&part, 1)?;
            }
            if self.pending.is_empty() || self.is_full {
                return Ok(());
            }
            std::thread::yield_now();
        }
        Err(OperationError::Contended { attempts: MAX_RETRIES }.into())
    }

    /// Returns whether the counters should grow: k-mers were refused, or this rank has inserted its share of those that
    /// fill seven eighths of the buckets and the counters are not the largest.
    pub(super) fn is_crowded(&self) -> bool {
        let share = self.room() / u64::from(self.ranks);
        !self.pending.is_empty() || !self.are_largest && self.new > share
    }

    fn buckets(&self) -> u64 {
        self.counters.config().lines * u64::from(LINE_WORDS / K::WORDS)
    }

    /// Returns how many more k-mers fill seven eighths of the buckets.
    fn room(&self) -> u64 {
        (self.buckets() / 8 * 7).saturating_sub(self.held)
    }

    /// Grows the counters until all k-mers have room; if more are to come, even if the counters are only
    /// crowded. All ranks that add to them call it.
    pub(super) fn end_round(
        &mut self,
        others_come: bool,
        exchange: &mut dyn Exchange,
    ) -> Result<(), Error> {
        // Each iteration but the last grows the counters.
        loop {
            self.add_pending()?;
            self.held += exchange.sum(self.new)?;
            self.new = 0;
            let is_full = exchange.sum(self.pending.len() as u64)? > 0;
            let is_crowded = others_come && self.room() < self.buckets() / 16;
            if !(is_full || is_crowded) || !self.grow(is_full, exchange)? {
                return Ok(());
            }
        }
    }

    /// Moves the counts to larger counters. Returns false if these cannot become twice as large and need not.
    fn grow(&mut self, is_full: bool, exchange: &mut dyn Exchange) -> Result<bool, Error> {
        let now = *self.counters.config();
        let room = (self.max_bytes / LINE_BYTES).saturating_sub(now.lines);
        let lines = (now.lines * GROWTH).min(room);
        if !is_full && lines < 2 * now.lines {
            self.are_largest = true;
            return Ok(false);
        }
        if lines <= now.lines {
            let (held, bytes) = (self.held, now.lines * LINE_BYTES);
            return Err(Error::Full { held, bytes, max: self.max_bytes });
        }
        let mut next = open(config(lines, now.key_bits), self.memory, exchange)?;
        let has_room = insert_all(self.counters.local(), |kmers, counts, refused| {
            let action = |nth: usize| counts.get(nth).copied().map(Action::Add);
            next.run_all(kmers, action, |place, outcome| {
                if outcome.is_refused() {
                    refused.push((place, outcome));
                }
            })
        })?;
        if !has_room {
            let (held, max) = (self.held, self.max_bytes);
            return Err(Error::Full { held, bytes: lines * LINE_BYTES, max });
        }
        exchange.barrier()?;
        self.counters = next;
        self.waiting = Parts::new(lines, self.ranks);
        self.growths += 1;
        Ok(true)
    }

    /// Returns the k-mers of this rank with their counts, after [`totals`](Self::totals).
    pub(super) fn local(&self) -> impl Iterator<Item = (K, u64)> + '_ {
        let least = self.least();
        let all = self.counters.local().map(|(kmer, count)| {
            // A counter that has grown since has room for more.
            let beyond = if self.beyond.is_empty() { None } else { self.beyond.get(&kmer) };
            (self.counters.unshuffled(kmer), count + beyond.copied().unwrap_or(0))
        });
        all.filter(move |(_, count)| *count >= least)
    }

    /// Calls `each` with the count of each k-mer of this rank, without decoding the k-mers if possible.
    pub(super) fn each_count(&self, mut each: impl FnMut(u64)) {
        if !self.beyond.is_empty() {
            return self.local().for_each(|(_, count)| each(count));
        }
        let least = self.least();
        self.counters.local_counts().filter(|count| *count >= least).for_each(each);
    }

    /// Adds up the counts beyond the largest that a counter has, of all ranks.
    fn gather_beyond(&mut self, exchange: &mut dyn Exchange) -> Result<(), Error> {
        let mine = self.beyond.drain().map(|(kmer, count)| (kmer.0.to_wide(), count));
        let all = sums(mine.collect::<Vec<_>>(), exchange)?;
        self.beyond =
            all.into_iter().map(|(kmer, count)| (Shuffled(K::from_wide(kmer)), count)).collect();
        Ok(())
    }

    /// Returns the totals of all ranks, of which this one has found `kmers`.
    pub(super) fn totals(
        &mut self,
        kmers: u64,
        exchange: &mut dyn Exchange,
    ) -> Result<Totals, Error> {
        self.gather_beyond(exchange)?;
        let mut totals = Totals { histogram: vec![0; MAX_HISTOGRAM + 1], ..Totals::default() };
        self.each_count(|count| {
            let at = usize::try_from(count).map_or(MAX_HISTOGRAM, |at| at.min(MAX_HISTOGRAM));
            totals.histogram[at] += 1;
            totals.distinct += 1;
        });
        let bytes = self.counters.config().lines * LINE_BYTES;
        totals.table_bytes = exchange.sum(bytes)? / u64::from(self.ranks);
        totals.growths = exchange.max(self.growths.into())?;
        totals.kmers = exchange.sum(kmers)?;
        totals.distinct = exchange.sum(totals.distinct)?;
        let mine = (0..).zip(core::mem::take(&mut totals.histogram)).filter(|(_, of)| *of > 0);
        let all = sums(mine, exchange)?;
        totals.histogram =
            (0..=MAX_HISTOGRAM as u128).map(|at| all.get(&at).copied().unwrap_or(0)).collect();
        Ok(totals)
    }
}

const LINE_BYTES: u64 = (LINE_WORDS as usize * WORD_BYTES) as u64;

fn config(lines: u64, key_bits: u32) -> Config {
    Config { lines, key_bits, first_word: 0, direct: true }
}

fn open<K: Kmer>(
    config: Config,
    memory: MemoryPolicy,
    exchange: &mut dyn Exchange,
) -> Result<Opened<K>, Error> {
    let sizes = config.sizes(exchange.owners(), OPERATIONS);
    let engine = Builder::new(sizes).memory(memory).open(exchange)?;
    let operations = [Operation::EMPTY; OPERATIONS as usize];
    Ok(CountersOf::open(engine, config, operations, exchange)?)
}

fn open_filter(
    words: u64,
    memory: MemoryPolicy,
    exchange: &mut dyn Exchange,
) -> Result<Box<OpenedFilter>, Error> {
    let config = filter::Config { words, bits: FILTER_BITS, first_word: 0, direct: true };
    let engine = Builder::new(config.sizes(exchange.owners(), OPERATIONS)).memory(memory);
    let operations = [filter::Operation::EMPTY; OPERATIONS as usize];
    Ok(Box::new(Filter::open(engine.open(exchange)?, config, operations, exchange)?))
}

/// The lanes in which ranks send k-mers to those that count them.
pub(super) struct Lanes<T, K: Kmer> {
    aggregator: Aggregator<T, Vec<aggregator::Operation>, K>,
    me: Owner,
    ranks: u32,
    /// K-mers that have arrived and were not counted.
    arrived: Vec<K>,
}

impl<T: Transport, K: Kmer> Lanes<T, K> {
    pub(super) fn open(engine: T, exchange: &mut dyn Exchange) -> Result<Self, Error> {
        let operations = vec![aggregator::Operation::EMPTY; SENDS as usize];
        let aggregator = Aggregator::open(engine, lanes(), operations, exchange)?;
        Ok(Self { aggregator, me: exchange.me(), ranks: exchange.owners(), arrived: Vec::new() })
    }

    /// Sends k-mers to the ranks that count them, and counts those that have arrived.
    pub(super) fn send(&mut self, kmers: &[K], table: &mut Table<K>) -> Result<(), Error> {
        for kmer in kmers {
            let to = owner(*kmer, self.ranks);
            if to == self.me {
                self.arrived.push(*kmer);
                continue;
            }
            let mut idle = 0;
            // Each iteration counts what has arrived.
            while !self.aggregator.send(to, kmer)? {
                self.receive(table)?;
                idle += 1;
                if idle > MAX_IDLE {
                    return Err(OperationError::Undelivered.into());
                }
            }
        }
        self.receive(table)
    }

    fn receive(&mut self, table: &mut Table<K>) -> Result<(), Error> {
        let arrived = &mut self.arrived;
        self.aggregator.progress(|_, kmer| arrived.push(kmer))?;
        if self.arrived.len() >= BATCH { count(&mut self.arrived, table) } else { Ok(()) }
    }

    /// Sends all k-mers and counts those of all ranks.
    pub(super) fn flush(
        &mut self,
        table: &mut Table<K>,
        exchange: &mut dyn Exchange,
    ) -> Result<(), Error> {
        let (arrived, mut counted) = (&mut self.arrived, Ok(()));
        self.aggregator.flush(exchange, |_, kmer| {
            arrived.push(kmer);
            if arrived.len() >= BATCH && counted.is_ok() {
                counted = count(arrived, table);
            }
        })?;
        counted?;
        count(&mut self.arrived, table)?;
        table.end_round(false, &mut Alone)
    }
}

/// Counts k-mers in the counters of this rank, which grow when they are crowded.
fn count<K: Kmer>(kmers: &mut Vec<K>, table: &mut Table<K>) -> Result<(), Error> {
    table.add(kmers)?;
    kmers.clear();
    if table.is_crowded() { table.end_round(true, &mut Alone) } else { Ok(()) }
}

/// Runs an operation with each k-mer and its number, in batches. `run` adds to its list what was refused, by place; it
/// runs that again which met a k-mer that another rank was inserting. Returns false if one has no room.
pub(crate) fn insert_all<K: Copy>(
    mut entries: impl Iterator<Item = (K, u64)>,
    mut run: impl FnMut(&[K], &[u64], &mut Vec<(usize, Outcome)>) -> Result<(), BatchError>,
) -> Result<bool, Error> {
    let mut refused = Vec::new();
    // Each iteration takes a batch.
    loop {
        let (mut kmers, mut numbers): (Vec<K>, Vec<u64>) = entries.by_ref().take(BATCH).unzip();
        if kmers.is_empty() {
            return Ok(true);
        }
        let mut attempts = 0;
        while !kmers.is_empty() {
            if attempts == MAX_RETRIES {
                return Err(OperationError::Contended { attempts }.into());
            }
            run(&kmers, &numbers, &mut refused)?;
            if refused.iter().any(|(_, outcome)| *outcome == Outcome::Full) {
                return Ok(false);
            }
            let again = refused.drain(..).map(|(place, _)| (kmers[place], numbers[place]));
            (kmers, numbers) = again.unzip();
            attempts += 1;
            if !kmers.is_empty() {
                std::thread::yield_now();
            }
        }
    }
}

/// Returns the rank that counts a k-mer.
fn owner(kmer: impl Kmer, ranks: u32) -> Owner {
    // Less than `ranks`.
    #[allow(clippy::cast_possible_truncation)]
    Owner((((kmer.hash() >> 32) * u64::from(ranks)) >> 32) as u32)
}
