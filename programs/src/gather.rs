//! What all ranks have found, in one place: sums, and files.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use probeline::transport::{Exchange, Owner};

use crate::Error;

/// Bytes of a key and its number.
const ENTRY_BYTES: usize = 24;
/// Bytes that a call gathers from all ranks.
const GATHERED: usize = 1 << 20;

/// Adds up the numbers of each key, of all ranks.
pub(crate) fn sums(
    mine: impl IntoIterator<Item = (u128, u64)>,
    exchange: &mut dyn Exchange,
) -> Result<BTreeMap<u128, u64>, Error> {
    let owners = exchange.owners() as usize;
    let mut mine = mine.into_iter().fuse().peekable();
    let entries = (GATHERED / ENTRY_BYTES / owners).max(1);
    let mut piece = vec![[0; ENTRY_BYTES]; entries];
    let mut all = vec![0; entries * ENTRY_BYTES * owners];
    let mut sums = BTreeMap::new();
    // Each iteration gathers as many entries of each rank; those that a rank does not have are 0.
    while exchange.sum(mine.peek().is_some().into())? > 0 {
        piece.fill([0; ENTRY_BYTES]);
        for (entry, (key, number)) in piece.iter_mut().zip(&mut mine) {
            entry[..16].copy_from_slice(&key.to_le_bytes());
            entry[16..].copy_from_slice(&number.to_le_bytes());
        }
        exchange.all_gather(piece.as_flattened(), &mut all)?;
        for entry in all.as_chunks::<ENTRY_BYTES>().0 {
            let (key, number) = entry.split_first_chunk::<16>().unwrap_or((&[0; 16], &[]));
            let number = number.first_chunk().map_or(0, |number| u64::from_le_bytes(*number));
            if number > 0 {
                *sums.entry(u128::from_le_bytes(*key)).or_default() += number;
            }
        }
    }
    Ok(sums)
}

/// Returns all other ranks, from the next one on, so that not all ranks send to the same one first.
pub(crate) fn others(me: Owner, ranks: u32) -> impl Iterator<Item = Owner> {
    (me.0 + 1..ranks).chain(0..me.0).map(Owner)
}

/// Returns this rank's first number if ranks number things one after the other, and how many all have.
pub(crate) fn numbering(mine: u64, exchange: &mut dyn Exchange) -> Result<(u64, u64), Error> {
    let mut all = vec![0; 8 * exchange.owners() as usize];
    exchange.all_gather(&mine.to_le_bytes(), &mut all)?;
    let numbers = || all.as_chunks::<8>().0.iter().map(|number| u64::from_le_bytes(*number));
    Ok((numbers().take(exchange.me().0 as usize).sum(), numbers().sum()))
}

/// Checks that a file can be written, before the work whose result it is to have.
///
/// # Errors
/// [`Error::Write`].
pub fn check_output(path: &Path) -> Result<(), Error> {
    let part = part_of(path)?;
    match File::create_new(&part) {
        // Another rank may have removed it.
        Ok(_) => fs::remove_file(&part).or(Ok(())),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(source) => Err(Error::Write { path: path.to_owned(), source }),
    }
}

/// Returns the name of a file until it is complete.
fn part_of(path: &Path) -> Result<PathBuf, Error> {
    if fs::metadata(path).is_ok_and(|old| !old.is_file()) {
        let source = io::Error::other("it is no regular file");
        return Err(Error::Write { path: path.to_owned(), source });
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    Ok(name.into())
}

/// Writes a file of a header and the parts of all ranks, in the order of ranks, which rank 0 then passes to
/// `complete`. It has another name until it is complete.
pub(crate) fn write_parts(
    path: &Path,
    header: &[u8],
    mine: u64,
    exchange: &mut dyn Exchange,
    write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
    complete: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<(), Error> {
    let failed = |source| Error::Write { path: path.to_owned(), source };
    let is_first = exchange.me().0 == 0;
    let (start, end) = numbering(mine, exchange)?;
    let expected = header.len() as u64 + end;
    let part = &part_of(path)?;
    if is_first {
        File::create(part).and_then(|mut file| file.write_all(header)).map_err(failed)?;
    }
    exchange.barrier()?;
    let not_shared = |found| Error::NotShared { path: path.to_owned(), found, expected };
    let mut file = match File::options().write(true).open(part) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(not_shared(0)),
        opened => opened.map_err(failed)?,
    };
    let written = || {
        file.seek(SeekFrom::Start(header.len() as u64 + start))?;
        let mut buffer = BufWriter::with_capacity(1 << 20, &file);
        write(&mut buffer)?;
        buffer.flush()
    };
    let written = written().map_err(failed).and_then(|()| Ok(exchange.barrier()?));
    if !is_first {
        return written;
    }
    let named = || match file.metadata().map_err(failed)?.len() {
        found if found == expected => {
            complete(part).and_then(|()| fs::rename(part, path)).map_err(failed)
        }
        found => Err(not_shared(found)),
    };
    let result = written.and_then(|()| named());
    if result.is_err() {
        // The error says what has failed; a file that stays is not complete.
        fs::remove_file(part).ok();
    }
    result
}
