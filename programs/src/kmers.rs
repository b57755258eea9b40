//! Counts k-mers: the substrings of k bases of DNA sequences, with how often each occurs.
//!
//! Each rank scans a part of the files. Over shared memory all ranks add to the same counters. Otherwise each
//! rank has the counters of its share of the k-mers, and gets those that others find in blocks, by an
//! [`Aggregator`](probeline::containers::Aggregator). The counters are in the memory of a machine in both
//! cases, and move to larger ones when they fill.

mod output;
mod parts;
mod table;
#[cfg(test)]
pub(crate) mod tests;

use core::time::Duration;
use std::time::Instant;

use probeline::pin::MemoryPolicy;
use probeline::transport::{Exchange, Sizes, Transport};

pub use self::output::{BINARY_MAGIC, Counts, write_binary, write_text};
pub(crate) use self::table::insert_all;
use self::table::{Lanes, SENDS, Table};
use crate::Error;
pub use crate::kmer::Kmer;
use crate::kmer::Scanner;
use crate::sequences::{Blocks, Inputs, Opened};

/// K-mers that are counted at a time.
const BATCH: usize = if cfg!(test) { 16 } else { 4096 };
/// The longest time that ranks which add to the same counters do not compare how full these are.
const ROUND: Duration = Duration::from_secs(2);
/// Counts of a histogram's last line, as far as all ranks add up: larger ones are in it too.
const MAX_HISTOGRAM: usize = 10_000;

/// The parameters of a count. All ranks give the same.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bases of a k-mer, 1 to [`Kmer::MAX_K`], of `u128` from 32 on.
    pub k: u32,
    /// Whether a k-mer and its reverse complement are one, under the smaller of both.
    pub is_canonical: bool,
    /// Bytes of the counters of all ranks at first.
    pub table_bytes: u64,
    /// Bytes of the counters of all ranks up to which they grow, those that they move from included. The
    /// smallest one of all ranks holds.
    pub max_table_bytes: u64,
    /// Bytes of a filter of all ranks, 0 for none. With one, the files are read twice, and k-mers that occur once
    /// are not counted.
    pub filter_bytes: u64,
    /// The memory of the counters.
    pub memory: MemoryPolicy,
}

impl Options {
    /// Checks the parameters.
    ///
    /// # Errors
    /// [`Error::Parameter`].
    pub fn check<K: Kmer>(&self) -> Result<(), Error> {
        let (min, max) = (K::MIN_BITS.div_ceil(2), K::MAX_K);
        if (min..=max).contains(&self.k) {
            return Ok(());
        }
        Err(Error::Parameter(format!("k is {}, and must be {min} to {max}", self.k)))
    }

    /// Returns the bytes that all ranks read of these files.
    #[must_use]
    pub fn bytes_to_read(&self, inputs: &Inputs) -> u64 {
        inputs.bytes() * if self.filter_bytes > 0 { 2 } else { 1 }
    }

    /// Returns the sizes of the engine over which ranks send k-mers in a job of this many.
    #[must_use]
    pub fn sizes<K: Kmer>(ranks: u32) -> Sizes {
        table::lanes().sizes::<K>(ranks, SENDS)
    }
}

/// The counts of all ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// K-mers in the files, with repetitions.
    pub kmers: u64,
    /// Different k-mers.
    pub distinct: u64,
    /// Bytes of the counters in the end.
    pub table_bytes: u64,
    /// The number of times that the counters grew, on the rank on which they grew most often.
    pub growths: u64,
    /// The number of k-mers of each count, from 0; in the last place of those with larger counts, too.
    pub histogram: Vec<u64>,
}

/// Counted k-mers: those of this rank, and the totals of all.
pub struct Counted<K: Kmer> {
    table: Table<K>,
    /// The parameters of the count.
    pub options: Options,
    /// The totals of all ranks.
    pub totals: Totals,
}

impl<K: Kmer> Counted<K> {
    /// Returns k-mers with their counts. Each k-mer is on one rank.
    pub fn local(&self) -> impl Iterator<Item = (K, u64)> + '_ {
        self.table.local()
    }
}

/// Counts the k-mers of files together with all other ranks. `engine` has [`Options::sizes`]; with `None` all ranks
/// are on this machine. `progress` is called with the bytes that this rank has read, of
/// [`Options::bytes_to_read`].
///
/// # Errors
/// [`Error`]: a file cannot be read or is damaged, the counters have no room, or a rank failed.
pub fn run<K: Kmer, T: Transport>(
    options: &Options,
    inputs: &Inputs,
    engine: Option<T>,
    exchange: &mut dyn Exchange,
    mut progress: impl FnMut(u64),
) -> Result<Counted<K>, Error> {
    options.check::<K>()?;
    if options.filter_bytes > 0 && !inputs.are_files() {
        let text =
            "a filter needs to read the files twice: give files, and no pipe or standard input";
        return Err(Error::Parameter(text.to_owned()));
    }
    let mut table = Table::open(options, engine.is_none(), exchange)?;
    let mut lanes = engine.map(|engine| Lanes::open(engine, exchange)).transpose()?;
    let mut bytes = 0;
    // Each iteration reads all files.
    let kmers = loop {
        let mut scan = Scan { bytes, ..Scan::new(options, inputs, exchange) };
        match &mut lanes {
            None => add_all(&mut scan, &mut table, exchange, &mut progress)?,
            Some(lanes) => {
                while scan.next_block(&mut progress, |batch| lanes.send(batch, &mut table))? {}
                lanes.flush(&mut table, exchange)?;
            }
        }
        if !table.count_inserted() {
            break scan.kmers;
        }
        bytes = scan.bytes;
    };
    let totals = table.totals(kmers, exchange)?;
    Ok(Counted { table, options: options.clone(), totals })
}

/// Adds the k-mers of this rank's part to counters that all ranks have in common. In rounds they compare how full
/// these are.
fn add_all<K: Kmer>(
    scan: &mut Scan<'_, K>,
    table: &mut Table<K>,
    exchange: &mut dyn Exchange,
    progress: &mut impl FnMut(u64),
) -> Result<(), Error> {
    let mut is_left = true;
    // Ends when all ranks have scanned their parts.
    loop {
        let begun = Instant::now();
        while is_left && !table.is_crowded() && begun.elapsed() < ROUND {
            is_left = scan.next_block(progress, |batch| table.add(batch))?;
        }
        let are_left = exchange.sum(is_left.into())? > 0;
        table.end_round(are_left, exchange)?;
        if !are_left {
            return Ok(());
        }
    }
}

/// The scan of a rank's part of the files.
struct Scan<'i, K> {
    parts: Box<dyn Iterator<Item = Opened> + 'i>,
    blocks: Option<Blocks>,
    scanner: Scanner<K>,
    batch: Vec<K>,
    /// Bytes read.
    bytes: u64,
    /// K-mers found.
    kmers: u64,
}

impl<'i, K: Kmer> Scan<'i, K> {
    fn new(options: &Options, inputs: &'i Inputs, exchange: &dyn Exchange) -> Self {
        Self {
            parts: Box::new(inputs.parts(options.k, exchange.me().0, exchange.owners())),
            blocks: None,
            scanner: Scanner::new(options.k, options.is_canonical),
            batch: Vec::with_capacity(2 * BATCH),
            bytes: 0,
            kmers: 0,
        }
    }

    /// Passes the k-mers of the next block to `count`, in batches. Returns false at the end of the part.
    fn next_block(
        &mut self,
        progress: &mut impl FnMut(u64),
        mut count: impl FnMut(&[K]) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        let Self { scanner, batch, kmers, .. } = self;
        let mut flush = |batch: &mut Vec<K>| -> Result<(), Error> {
            *kmers += batch.len() as u64;
            count(batch)?;
            batch.clear();
            Ok(())
        };
        let Some(blocks) = &mut self.blocks else {
            self.blocks = self.parts.next().transpose()?;
            return Ok(self.blocks.is_some());
        };
        let read = blocks.scan_next(|sequence| {
            scanner.reset();
            for piece in sequence.chunks(BATCH) {
                scanner.scan(piece, batch);
                if batch.len() >= BATCH {
                    flush(batch)?;
                }
            }
            Ok(())
        })?;
        flush(batch)?;
        match read {
            Some(read) => {
                self.bytes += read;
                progress(self.bytes);
            }
            None => self.blocks = None,
        }
        Ok(true)
    }
}
