//! Files of counted k-mers, which all ranks write together.

use std::io::Write;
use std::path::Path;

use probeline::transport::Exchange;

use super::Counted;
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
    let k = counted.k();
    let mine = selected(counted, counts).map(|(_, count)| u64::from(k) + 2 + digits(count)).sum();
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

/// Writes a binary file. All ranks call it, with the same path. Its header has [`BINARY_MAGIC`], k, 1 if k-mers are
/// canonical and else 0, and the number of k-mers; then each k-mer follows, without an order, and its count. All
/// numbers have eight bytes, the lowest first; k-mers from k = 32 on have sixteen. A k-mer has two bits a base, A 0, C 1, G 2 and T 3, the last base in
/// the lowest bits.
///
/// # Errors
/// As for [`write_text`].
pub fn write_binary<K: Kmer>(
    counted: &Counted<K>,
    counts: &Counts,
    path: &Path,
    exchange: &mut dyn Exchange,
) -> Result<(), Error> {
    let mine = selected(counted, counts).count() as u64;
    let all = exchange.sum(mine)?;
    let numbers = [counted.k().into(), counted.is_canonical.into(), all];
    let header: Vec<u8> =
        BINARY_MAGIC.into_iter().chain(numbers.into_iter().flat_map(u64::to_le_bytes)).collect();
    write_parts(
        path,
        &header,
        mine * (8 + size_of::<K>() as u64),
        exchange,
        |file| {
            selected(counted, counts).try_for_each(|(kmer, count)| {
                file.write_all(&kmer.to_wide().to_le_bytes()[..size_of::<K>()])?;
                file.write_all(&count.to_le_bytes())
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
