//! Results of all ranks, gathered in one place: values, sums, and files.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use probeline::transport::{Exchange, ExchangeError, Owner};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Error;

/// The path of standard input and standard output.
pub const STANDARD: &str = "-";

/// The most bytes of a key and its number as JSON.
const ENTRY_BYTES: usize = 64;
/// Bytes that a call gathers from all ranks.
const GATHERED: usize = 1 << 20;

/// Gathers `N` numbers of every rank, in the order of ranks, in one collective call.
///
/// # Errors
/// The errors of the exchange.
pub fn gather<const N: usize>(
    exchange: &mut dyn Exchange,
    mine: [u64; N],
) -> Result<Vec<[u64; N]>, ExchangeError> {
    let mut all = vec![[[0; 8]; N]; exchange.owners() as usize];
    let mine = mine.map(u64::to_le_bytes);
    exchange.all_gather(mine.as_flattened(), all.as_flattened_mut().as_flattened_mut())?;
    Ok(all.into_iter().map(|of_rank| of_rank.map(u64::from_le_bytes)).collect())
}

/// Gathers a value of every rank, in the order of ranks, as JSON of any length, in two collective
/// calls.
///
/// # Errors
/// [`Error::Exchange`] and [`Error::Value`].
pub fn gather_values<T: Serialize + DeserializeOwned>(
    exchange: &mut dyn Exchange,
    mine: &T,
) -> Result<Vec<T>, Error> {
    let mut text = serde_json::to_vec(mine)?;
    let lengths = gather(exchange, [text.len() as u64])?;
    let longest = lengths.iter().map(|[length]| *length).max().unwrap_or(0);
    // JSON ignores white space around a value.
    text.resize(usize::try_from(longest).unwrap_or(usize::MAX), b' ');
    let mut all = vec![0; text.len() * exchange.owners() as usize];
    exchange.all_gather(&text, &mut all)?;
    let values = all.chunks_exact(text.len()).map(serde_json::from_slice);
    Ok(values.collect::<Result<_, _>>()?)
}

/// Adds up the numbers of each key, of all ranks.
pub(crate) fn sums(
    mine: impl IntoIterator<Item = (u128, u64)>,
    exchange: &mut dyn Exchange,
) -> Result<BTreeMap<u128, u64>, Error> {
    let mut mine = mine.into_iter();
    let piece = (GATHERED / ENTRY_BYTES / exchange.owners() as usize).max(1);
    let mut sums = BTreeMap::new();
    // Each iteration gathers a piece of each rank, until none has any left.
    loop {
        let piece: Vec<(u128, u64)> = mine.by_ref().take(piece).collect();
        let all = gather_values(exchange, &piece)?.concat();
        if all.is_empty() {
            return Ok(sums);
        }
        all.into_iter().for_each(|(key, number)| *sums.entry(key).or_default() += number);
    }
}

/// Returns all other ranks, from the next one on, so that not all ranks send to the same one first.
pub(crate) fn others(me: Owner, ranks: u32) -> impl Iterator<Item = Owner> {
    (me.0 + 1..ranks).chain(0..me.0).map(Owner)
}

/// Returns this rank's first number if ranks number things one after the other, and how many all have.
pub(crate) fn numbering(mine: u64, exchange: &mut dyn Exchange) -> Result<(u64, u64), Error> {
    let all = gather(exchange, [mine])?.into_flattened();
    Ok((all.iter().take(exchange.me().0 as usize).sum(), all.iter().sum()))
}

/// Fails on all ranks if the sum of what they have found is not the expected one.
pub(crate) fn check_sum(
    exchange: &mut dyn Exchange,
    found: u64,
    expected: u64,
    what: &str,
) -> Result<(), Error> {
    match exchange.sum(found)? {
        found if found == expected => Ok(()),
        found => Err(Error::Wrong(format!("{found} {what}, and expected are {expected}"))),
    }
}

/// Checks that a file can be written, before the work whose result it is to have.
///
/// # Errors
/// [`Error::Write`].
pub fn check_output(path: &Path) -> Result<(), Error> {
    let part = part_of(path, 0)?;
    match File::create_new(&part) {
        // Another rank may have removed it.
        Ok(_) => fs::remove_file(&part).or(Ok(())),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(source) => Err(Error::Write { path: path.to_owned(), source }),
    }
}

/// Returns the name of a file until it is complete. That for standard output contains a number.
fn part_of(path: &Path, number: u64) -> Result<PathBuf, Error> {
    if path == Path::new(STANDARD) {
        return Ok(std::env::temp_dir().join(format!("probeline-{number:016x}.part")));
    }
    if fs::metadata(path).is_ok_and(|old| !old.is_file()) {
        let source = io::Error::other("it is not a regular file");
        return Err(Error::Write { path: path.to_owned(), source });
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    Ok(name.into())
}

/// Writes a file of a header and the parts of all ranks, in the order of ranks, which rank 0 then passes to
/// `complete`. It has another name until it is complete; rank 0 then copies that of [`STANDARD`] to standard output.
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
    let [number] = gather(exchange, [fastrand::u64(..)])?[0];
    let part = &part_of(path, number)?;
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
        found if found == expected => complete(part).and_then(|()| put(part, path)).map_err(failed),
        found => Err(not_shared(found)),
    };
    let result = written.and_then(|()| named());
    // Fails if the file has its name. A file that stays is not complete, or was copied.
    fs::remove_file(part).ok();
    result
}

/// Gives a complete file its name, or copies it to standard output, whose reader may stop early.
fn put(part: &Path, path: &Path) -> io::Result<()> {
    if path != Path::new(STANDARD) {
        return fs::rename(part, path);
    }
    let mut to = io::stdout().lock();
    match io::copy(&mut File::open(part)?, &mut to).and_then(|_| to.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        copied => copied,
    }
}

#[cfg(test)]
mod tests {
    use probeline::transport::conformance::on_threads;

    use super::*;

    #[test]
    fn gathers_values_in_rank_order() {
        let all = on_threads(probeline::exchange::threads(3), |mut exchange| {
            let mine = (exchange.me().0, "x".repeat(exchange.me().0 as usize * 100));
            gather_values(&mut exchange, &mine).unwrap()
        });
        let expected: Vec<(u32, String)> =
            (0..3).map(|rank| (rank, "x".repeat(rank as usize * 100))).collect();
        assert_eq!(all, vec![expected; 3]);
    }
}
