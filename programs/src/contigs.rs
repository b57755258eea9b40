//! Finds unitigs: the longest paths without branches in the graph of the k-mers of DNA sequences.
//!
//! A k-mer is followed by those that begin with its last k - 1 bases. A path goes on from one k-mer to the next
//! if that is the only one which follows it, and is followed by none but it in the other direction; it does not go
//! on to the same k-mer or to its reverse complement. Each k-mer is on one path, or on a cycle.
//!
//! All k-mers with enough counts are put into a small map, each with a mask of the bases that may follow it in
//! both directions. They are looked up in two find phases, in batches: the neighbours of each k-mer first, then the
//! next k-mers of many walks. A path is found from both of its ends, and kept by the walk whose sequence is the
//! smaller one.

mod graph;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use probeline::containers::small_map::{Action, Config, Operation, Outcome, SmallMapOf};
use probeline::containers::{CollectiveError, Finder};
use probeline::transport::{Exchange, Sizes, Transport};

use self::graph::{Graph, Node};
use crate::Error;
use crate::gather::{sums, write_parts};
use crate::kmer::{Scanner, write_letters};
use crate::kmers::{self, Kmer};
use crate::sequences::Inputs;

/// Walks at a time.
const WALKS: usize = 512;
/// K-mers whose neighbours are looked up at a time.
const BATCH: usize = 512;
/// Operations in flight of a rank where words are posted.
const IN_FLIGHT: u32 = 64;
/// The mask of a k-mer that is on a path.
const ON_A_PATH: u64 = 1 << 8;

/// The parameters. All ranks give the same.
#[derive(Clone, Debug)]
pub struct Options {
    /// Options of the count of k-mers: canonical ones, of an odd k.
    pub kmers: kmers::Options,
    /// The least count of a k-mer in the graph.
    pub min_count: u64,
}

impl Options {
    /// Checks the parameters.
    ///
    /// # Errors
    /// [`Error::Parameter`].
    pub fn check<K: Kmer>(&self) -> Result<(), Error> {
        let text = if self.kmers.k.is_multiple_of(2) {
            "k is even, and k-mers may be their own reverse complements: give an odd k, such as 31"
        } else if self.kmers.filter_bytes > 0 && self.min_count < 2 {
            "a filter leaves out k-mers that occur once: give a least count of 2, or no filter"
        } else if !self.kmers.is_canonical {
            "k-mers are not canonical: only the graph of canonical ones has both strands"
        } else {
            return self.kmers.check::<K>();
        };
        Err(Error::Parameter(text.to_owned()))
    }
}

/// The unitigs of all ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// K-mers in the graph.
    pub kmers: u64,
    /// Unitigs, cycles included.
    pub unitigs: u64,
    /// Unitigs that are cycles.
    pub cycles: u64,
    /// Bases of all unitigs.
    pub bases: u64,
    /// Bases of the longest one.
    pub max_unitig_bases: u64,
    /// Half of all bases are in unitigs of at least this many bases.
    pub n50: u64,
}

/// Unitigs: those of this rank, and the totals of all.
#[derive(Clone, Debug, Default)]
pub struct Contigs {
    /// The bases of the unitigs of this rank, a line each.
    lines: Vec<u8>,
    /// The totals of all ranks.
    pub totals: Totals,
}

impl Contigs {
    /// Returns the unitigs of this rank. Each is on one rank, and the smaller one of its own sequence and that of
    /// its reverse complement; a cycle begins with its smallest k-mer.
    pub fn local(&self) -> impl Iterator<Item = &[u8]> {
        self.lines.split_inclusive(|byte| *byte == b'\n').map(|line| &line[..line.len() - 1])
    }

    fn add(&mut self, bases: &[u8], k: u32) {
        self.lines.extend_from_slice(bases);
        self.lines.push(b'\n');
        self.totals.kmers += bases.len() as u64 + 1 - u64::from(k);
        self.totals.unitigs += 1;
    }

    /// Turns the counts of this rank into totals of all ranks.
    fn add_up(&mut self, exchange: &mut dyn Exchange) -> Result<(), Error> {
        let mut lengths = BTreeMap::new();
        self.local().for_each(|unitig| *lengths.entry(unitig.len() as u128).or_default() += 1);
        let lengths = sums(lengths, exchange)?;
        let bases = |(length, count): (&u128, &u64)| u64::try_from(*length).unwrap_or(0) * count;
        let all: u64 = lengths.iter().map(bases).sum();
        let mut behind = 0;
        let half = lengths.iter().rev().find(|of_length| {
            behind += bases((of_length.0, of_length.1));
            2 * behind >= all
        });
        let number = |length: Option<&u128>| length.map_or(0, |n| u64::try_from(*n).unwrap_or(0));
        let totals = &mut self.totals;
        for count in [&mut totals.kmers, &mut totals.unitigs, &mut totals.cycles] {
            *count = exchange.sum(*count)?;
        }
        totals.bases = all;
        totals.max_unitig_bases = number(lengths.keys().next_back());
        totals.n50 = number(half.map(|(length, _)| length));
        Ok(())
    }

    /// Writes the unitigs as FASTA, in no order or in that of their bases. All ranks call it, with the same path.
    /// Rank 0 has all unitigs in memory to sort them.
    ///
    /// # Errors
    /// As for [`kmers::write_text`].
    pub fn write(
        &self,
        path: &Path,
        is_sorted: bool,
        exchange: &mut dyn Exchange,
    ) -> Result<(), Error> {
        let me = exchange.me().0;
        let numbered = self.local().enumerate().map(|(nth, of)| (format!("{me}.{nth}"), of));
        let text = fasta(numbered);
        let sort = |file: &Path| if is_sorted { sort_file(file) } else { Ok(()) };
        write_parts(path, &[], text.len() as u64, exchange, |file| file.write_all(&text), sort)
    }
}

/// Returns sequences as FASTA, each with its header.
fn fasta<'a>(sequences: impl Iterator<Item = (String, &'a [u8])>) -> Vec<u8> {
    sequences.fold(Vec::new(), |mut text, (header, sequence)| {
        for part in [b">", header.as_bytes(), b"\n", sequence, b"\n"] {
            text.extend_from_slice(part);
        }
        text
    })
}

/// Sorts the sequences of a FASTA file, and numbers them.
fn sort_file(path: &Path) -> io::Result<()> {
    let text = fs::read(path)?;
    let lines = text.split(|byte| *byte == b'\n');
    let mut sequences: Vec<&[u8]> =
        lines.filter(|line| line.first().is_some_and(|first| *first != b'>')).collect();
    sequences.sort_unstable();
    let numbered = sequences.into_iter().enumerate().map(|(nth, of)| (nth.to_string(), of));
    fs::write(path, fasta(numbered))
}

/// Counts the k-mers of files, and finds the unitigs of those with enough counts, together with all other ranks.
/// `engine` is that of [`kmers::run`]; `open` opens an engine for the map of k-mers with all other ranks.
///
/// # Errors
/// [`Error`], also of `open`: see [`kmers::run`].
pub fn run<K: Kmer, T: Transport, M: Transport, E: From<Error>>(
    options: &Options,
    inputs: &Inputs,
    engine: Option<T>,
    open: impl FnOnce(Sizes, &mut dyn Exchange) -> Result<M, E>,
    exchange: &mut dyn Exchange,
    progress: impl FnMut(u64),
) -> Result<Contigs, E> {
    options.check::<K>()?;
    let counted = kmers::run::<K, T>(&options.kmers, inputs, engine, exchange, progress)?;
    let solid = || counted.local().filter(|(_, count)| *count >= options.min_count);
    let kmers = exchange.sum(solid().count() as u64).map_err(Error::from)?;
    let config = config(kmers, options.kmers.k);
    let engine = open(config.sizes(exchange.owners(), IN_FLIGHT), exchange)?;
    let operations = vec![Operation::EMPTY; IN_FLIGHT as usize];
    let opened = SmallMapOf::<M, _, K>::open(engine, config, operations, exchange);
    let mut map = opened.map_err(Error::from)?;
    put_all(&mut map, solid().map(|(kmer, _)| (kmer, 0)))?;
    drop(counted);
    Ok(find(&Graph::new(options.kmers.k), &mut map, kmers, exchange)?)
}

/// Finds the unitigs of a map of this many k-mers.
fn find<M: Transport, K: Kmer>(
    graph: &Graph<K>,
    map: &mut Map<M, K>,
    kmers: u64,
    exchange: &mut dyn Exchange,
) -> Result<Contigs, Error> {
    let masks = map.find_phase(exchange, |finder| masks(graph, finder))??;
    put_all(map, masks.iter().map(|(kmer, mask)| (*kmer, u64::from(*mask))))?;
    let mut contigs = map.find_phase(exchange, |finder| paths(graph, &masks, finder))??;
    drop(masks);
    if exchange.sum(contigs.totals.kmers)? < kmers {
        find_cycles(graph, map, &mut contigs, exchange)?;
    }
    contigs.add_up(exchange)?;
    match contigs.totals.kmers {
        found if found == kmers => Ok(contigs),
        found => {
            let wrong = format!("the unitigs have {found} k-mers, and the graph has {kmers}");
            Err(Error::Wrong(wrong))
        }
    }
}

type Map<M, K> = SmallMapOf<M, Vec<Operation>, K>;
type MapFinder<'f, M, K> =
    Finder<'f, M, Vec<Operation>, probeline::containers::counters::Counts<K, true>>;

/// Returns the configuration of a map for this many k-mers, whose values have room for masks. Three of eight buckets
/// are used: most neighbours do not exist, and a lookup ends at the first line with an empty bucket.
fn config(kmers: u64, k: u32) -> Config {
    let mut config = Config::for_keys(2 * kmers, 2 * k);
    while config.max_count() < 2 * ON_A_PATH {
        config.lines *= 2;
    }
    config
}

/// Puts values into the map.
fn put_all<M: Transport, K: Kmer>(
    map: &mut Map<M, K>,
    entries: impl Iterator<Item = (K, u64)>,
) -> Result<(), Error> {
    let has_room = kmers::insert_all(entries, |kmers, values, refused| {
        let action = |nth: usize| values.get(nth).copied().map(Action::Put);
        map.run_all(kmers, action, |place, outcome| {
            if outcome.is_refused() {
                refused.push((place, outcome));
            }
        })
    })?;
    if has_room { Ok(()) } else { Err(Error::Parameter("the map of k-mers is full".to_owned())) }
}

/// Returns this rank's k-mers in the map, each with the bases that follow it in both directions.
fn masks<M: Transport, K: Kmer>(
    graph: &Graph<K>,
    finder: &mut MapFinder<'_, M, K>,
) -> Result<Vec<(K, u8)>, Error> {
    let own: Vec<K> = finder.local().map(|(kmer, _)| kmer).collect();
    let mut masks: Vec<(K, u8)> = own.into_iter().map(|kmer| (kmer, 0)).collect();
    let mut neighbours = Vec::with_capacity(8 * BATCH);
    for of_batch in masks.chunks_mut(BATCH) {
        neighbours.clear();
        for (kmer, _) in &*of_batch {
            let node = graph.node(*kmer);
            for node in [node, node.reversed()] {
                neighbours.extend((0..4).map(|base| graph.next(node, base).canonical()));
            }
        }
        finder.find_all(&neighbours, |place, outcome| {
            let bit = u8::from(matches!(outcome, Outcome::Was(_))) << (place % 8);
            of_batch[place / 8].1 |= bit;
        })?;
    }
    Ok(masks)
}

/// A walk along a path.
struct Walk<K> {
    start: Node<K>,
    at: Node<K>,
    mask: u8,
    bases: Vec<u8>,
}

/// Walks from all ends of paths that begin at this rank's k-mers.
fn paths<M: Transport, K: Kmer>(
    graph: &Graph<K>,
    masks: &[(K, u8)],
    finder: &mut MapFinder<'_, M, K>,
) -> Result<Contigs, Error> {
    let mut contigs = Contigs::default();
    let mut walks: Vec<Walk<K>> = Vec::new();
    let mut batches = masks.chunks(BATCH);
    // Each iteration begins walks at a batch of k-mers, or moves all walks by one k-mer.
    loop {
        if walks.len() < WALKS
            && let Some(masks) = batches.next()
        {
            begin(graph, masks, finder, &mut walks)?;
        } else if walks.is_empty() {
            return Ok(contigs);
        }
        advance(graph, finder, &mut walks, &mut contigs)?;
    }
}

/// Begins a walk at each k-mer of a batch, in each direction, that no path enters.
fn begin<M: Transport, K: Kmer>(
    graph: &Graph<K>,
    masks: &[(K, u8)],
    finder: &mut MapFinder<'_, M, K>,
    walks: &mut Vec<Walk<K>>,
) -> Result<(), Error> {
    let start = |node: Node<K>, mask: u8| {
        let mut bases = Vec::with_capacity(2 * graph.k as usize);
        write_letters(node.forward, graph.k, &mut bases);
        Walk { start: node, at: node, mask, bases }
    };
    let (mut entered, mut before) = (Vec::new(), Vec::new());
    for (kmer, mask) in masks {
        let node = graph.node(*kmer);
        for node in [node, node.reversed()] {
            match graph.only_next(node.reversed(), *mask) {
                Some(previous) => {
                    entered.push((node, *mask, previous));
                    before.push(previous.canonical());
                }
                None => walks.push(start(node, *mask)),
            }
        }
    }
    finder.find_all(&before, |place, outcome| {
        let (node, mask, previous) = entered[place];
        if !previous.is_entered_once(mask_of(outcome)) {
            walks.push(start(node, mask));
        }
    })?;
    Ok(())
}

/// Moves each walk to its next k-mer, or ends it.
fn advance<M: Transport, K: Kmer>(
    graph: &Graph<K>,
    finder: &mut MapFinder<'_, M, K>,
    walks: &mut Vec<Walk<K>>,
    contigs: &mut Contigs,
) -> Result<(), Error> {
    let next: Vec<_> = walks.iter().map(|walk| graph.only_next(walk.at, walk.mask)).collect();
    let places: Vec<usize> = (0..next.len()).filter(|place| next[*place].is_some()).collect();
    let keys: Vec<K> = next.iter().flatten().map(|node| node.canonical()).collect();
    let mut goes_on = vec![false; walks.len()];
    finder.find_all(&keys, |place, outcome| {
        let place = places[place];
        let (Some(node), mask) = (next[place], mask_of(outcome)) else { return };
        if node.is_entered_once(mask) {
            let walk = &mut walks[place];
            (walk.at, walk.mask) = (node, mask);
            walk.bases.push(node.last_letter());
            goes_on[place] = true;
        }
    })?;
    let mut place = 0;
    walks.retain(|walk| {
        let keeps = goes_on[place];
        place += 1;
        // The walk from the other end finds the same path.
        if !keeps && walk.start.forward <= walk.at.backward {
            contigs.add(&walk.bases, graph.k);
        }
        keeps
    });
    Ok(())
}

/// Returns the mask of a k-mer of the graph. Masks have eight bits, below the mark of those on paths.
#[allow(clippy::cast_possible_truncation, reason = "the lowest eight bits")]
fn mask_of(outcome: Outcome) -> u8 {
    outcome.count() as u8
}

/// Finds the cycles that no path enters: all of their k-mers are on none.
fn find_cycles<M: Transport, K: Kmer>(
    graph: &Graph<K>,
    map: &mut Map<M, K>,
    contigs: &mut Contigs,
    exchange: &mut dyn Exchange,
) -> Result<(), Error> {
    let marks = contigs.local().flat_map(|unitig| {
        let mut kmers = Vec::new();
        Scanner::new(graph.k, true).scan(unitig, &mut kmers);
        kmers.into_iter().map(|kmer| (kmer, ON_A_PATH))
    });
    put_all(map, marks)?;
    let result: Result<Result<(), Error>, CollectiveError> = map.find_phase(exchange, |finder| {
        let own: Vec<(K, u64)> = finder.local().collect();
        for (kmer, mask) in own.into_iter().filter(|(_, value)| value & ON_A_PATH == 0) {
            if let Some(bases) = cycle(graph, finder, kmer, mask_of(Outcome::Was(mask)))? {
                contigs.add(&bases, graph.k);
                contigs.totals.cycles += 1;
            }
        }
        Ok(())
    });
    result?
}

/// Walks around the cycle of a k-mer, which is its smallest one. Returns `None` if another one is smaller.
fn cycle<M: Transport, K: Kmer>(
    graph: &Graph<K>,
    finder: &mut MapFinder<'_, M, K>,
    first: K,
    mut mask: u8,
) -> Result<Option<Vec<u8>>, Error> {
    let start = graph.node(first);
    let mut bases = Vec::new();
    write_letters(start.forward, graph.k, &mut bases);
    let mut at = start;
    // A cycle comes back to its first k-mer.
    while let Some(next) = graph.only_next(at, mask) {
        if next.canonical() < first {
            return Ok(None);
        }
        if next == start {
            return Ok(Some(bases));
        }
        mask = mask_of(finder.find(&next.canonical())?);
        bases.push(next.last_letter());
        at = next;
    }
    Ok(None)
}
