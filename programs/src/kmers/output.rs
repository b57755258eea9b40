//! Files of counted k-mers, which all ranks write together.

use std::io::Write;
use std::path::Path;

use probeline::transport::Exchange;

use super::{Counted, Options};
use crate::Error;
use crate::gather::write_parts;
use crate::kmer::{Kmer, write_letters};

/// The first bytes of a binary file.
pub const BINARY_MAGIC: [u8; 8] = *b"PBLKMER1";

/// Counts of the k-mers to write, from the least to the largest.
pub type Counts = core::ops::RangeInclusive<u64>;

/// Writes a line for each k-mer: its bases, a tab, and its count. All ranks call it, with the same path. The lines
/// have no order.
///
/// # Errors
/// [`Error::Write`], [`Error::NotShared`], or a failure of the exchange.
pub fn write_text<K: Kmer>(
    counted: &Counted<K>,
    counts: &Counts,
    path: &Path,
    exchange: &mut dyn Exchange,
) -> Result<(), Error> {
    let digits = |count: u64| u64::from(count.checked_ilog10().unwrap_or(0)) + 1;
    let (k, mut mine) = (counted.options.k, 0);
    each_selected_count(counted, counts, |count| mine += u64::from(k) + 2 + digits(count));
    let mut line = Vec::new();
    write_parts(
        path,
        &[],
        mine,
        exchange,
        |file| {
            selected(counted, counts).try_for_each(|(kmer, count)| {
                line.clear();
                write_letters(kmer, k, &mut line);
                writeln!(line, "\t{count}")?;
                file.write_all(&line)
            })
        },
        |_| Ok(()),
    )
}

/// Writes a binary file. All ranks call it, with the same path. Its header has [`BINARY_MAGIC`] and four numbers of
/// eight bytes: k, 1 if k-mers are canonical and else 0, the bytes of a count (the least of 1, 2, 4 and 8 in which the
/// largest count fits), and the number of k-mers. Then each k-mer follows, without an order, in 2 k bits rounded up
/// to bytes, and its count. All have the lowest byte first. A base of a k-mer has two bits, A 0, C 1, G 2 and T 3, the
/// last base in the lowest ones.
///
/// # Errors
/// As for [`write_text`].
pub fn write_binary<K: Kmer>(
    counted: &Counted<K>,
    counts: &Counts,
    path: &Path,
    exchange: &mut dyn Exchange,
) -> Result<(), Error> {
    let (mut mine, mut max) = (0, 0);
    each_selected_count(counted, counts, |count| (mine, max) = (mine + 1, count.max(max)));
    let (all, max) = (exchange.sum(mine)?, exchange.max(max)?);
    let Options { k, is_canonical, .. } = counted.options;
    let kmer_bytes = k.div_ceil(4) as usize;
    let count_bytes = [1, 2, 4].into_iter().find(|bytes| max >> (8 * bytes) == 0).unwrap_or(8);
    let numbers = [k.into(), is_canonical.into(), count_bytes as u64, all];
    let header: Vec<u8> =
        BINARY_MAGIC.into_iter().chain(numbers.into_iter().flat_map(u64::to_le_bytes)).collect();
    write_parts(
        path,
        &header,
        mine * (kmer_bytes + count_bytes) as u64,
        exchange,
        |file| {
            selected(counted, counts).try_for_each(|(kmer, count)| {
                file.write_all(&kmer.to_wide().to_le_bytes()[..kmer_bytes])?;
                file.write_all(&count.to_le_bytes()[..count_bytes])
            })
        },
        |_| Ok(()),
    )
}

fn selected<'c, K: Kmer>(
    counted: &'c Counted<K>,
    counts: &'c Counts,
) -> impl Iterator<Item = (K, u64)> + 'c {
    counted.local().filter(|(_, count)| counts.contains(count))
}

fn each_selected_count<K: Kmer>(counted: &Counted<K>, counts: &Counts, mut each: impl FnMut(u64)) {
    counted.table.each_count(|count| {
        if counts.contains(&count) {
            each(count);
        }
    });
}
