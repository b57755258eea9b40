//! Files of MPI-DHT: the sizes of a key and a value as two `int32` in the machine's byte order, then
//! each entry's key and value.

use core::ffi::c_int;
use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write as _};
use std::path::Path;

use probeline::map::{Request, open_regular};

use crate::map::MapInner;
use crate::status::{Error, probeline_status};

/// The names of the functions.
const SAVE: &str = "DHT_to_file";
const LOAD: &str = "DHT_from_file";

/// Values that the functions of files return.
const SUCCESS: c_int = 0;
const WRONG_FILE: c_int = -11;
const CANNOT_OPEN: c_int = -12;
const CANNOT_READ: c_int = -13;
const CANNOT_WRITE: c_int = -14;

/// Bytes of the two sizes.
const HEADER_BYTES: usize = 8;
/// Entries that are written to the map at once.
const BLOCK: u64 = 1024;

/// A failure on this rank: what the function returns, and why.
type Failed = (c_int, String);

fn failed<E: core::fmt::Display>(code: c_int, path: &Path) -> impl Fn(E) -> Failed {
    move |error| (code, format!("{}: {error}", path.display()))
}

/// Returns the header of files of a map.
fn header(map: &MapInner) -> [u8; HEADER_BYTES] {
    // At most 8 KiB, by the limits of a map.
    let bytes = [map.options.key_bytes, map.options.value_bytes]
        .map(|bytes| i32::try_from(bytes).unwrap_or(0));
    let mut header = [0; HEADER_BYTES];
    header.copy_from_slice(bytes.map(i32::to_ne_bytes).as_flattened());
    header
}

fn entry_bytes(map: &MapInner) -> u64 {
    (map.options.key_bytes + map.options.value_bytes) as u64
}

/// Ends a phase: all ranks return the code of the first one that failed, after its text was stored.
fn together<T>(
    map: &MapInner,
    name: &str,
    result: Result<T, Failed>,
) -> Result<Result<T, c_int>, Error> {
    let code = result.as_ref().err().map_or(SUCCESS, |(code, _)| *code);
    let all = map.opened.gather(name, [u64::from(code.unsigned_abs())])?;
    let first = (0..).zip(all).find(|(_, [code])| *code != 0);
    let report = |text: &str| Error::new(probeline_status::PROBELINE_ERROR_FILE, text).report();
    match (result, first) {
        (Ok(value), None) => Ok(Ok(value)),
        (Ok(_), Some((rank, [code]))) => {
            report(&format!("rank {rank} could not do its part of the file: see its error"));
            Ok(Err(-i32::try_from(code).unwrap_or(CANNOT_OPEN.abs())))
        }
        (Err((code, text)), _) => {
            report(&text);
            Ok(Err(code))
        }
    }
}

/// Writes the entries of all ranks; each rank writes its own. Fails on all ranks if one has no path.
pub(crate) fn save(map: &mut MapInner, path: Result<&Path, Error>) -> Result<c_int, Error> {
    let path = map.opened.collective(SAVE, path, |path, _| Ok(path))?;
    let mut mine = 0;
    let counted = map.structure.for_each_local(&mut |_, _| mine += 1);
    let rank = map.opened.rank;
    let all = map.opened.gather(SAVE, [mine])?;
    counted?;
    let before: u64 = all.iter().take(rank as usize).map(|[count]| count).sum();
    let created = if rank == 0 {
        let options = &mut OpenOptions::new();
        let options = options.write(true).create(true).truncate(true);
        open_regular(options, path)
            .and_then(|mut file| file.write_all(&header(map)))
            .map_err(failed(CANNOT_OPEN, path))
    } else {
        Ok(())
    };
    if let Err(code) = together(map, SAVE, created)? {
        return Ok(code);
    }
    let at = HEADER_BYTES as u64 + before * entry_bytes(map);
    let written = write_part(map, path, at);
    Ok(together(map, SAVE, written)?.err().unwrap_or(SUCCESS))
}

fn write_part(map: &mut MapInner, path: &Path, at: u64) -> Result<(), Failed> {
    let failed = failed(CANNOT_WRITE, path);
    let mut file = open_regular(OpenOptions::new().write(true), path).map_err(&failed)?;
    file.seek(SeekFrom::Start(at)).map_err(&failed)?;
    let mut file = BufWriter::new(file);
    let mut result = Ok(());
    let visited = map.structure.for_each_local(&mut |key, value| {
        if result.is_ok() {
            result = file.write_all(key).and_then(|()| file.write_all(value));
        }
    });
    visited.map_err(|error| (CANNOT_WRITE, error.to_string()))?;
    result.and_then(|()| file.flush()).map_err(&failed)
}

/// Writes the entries of a file to the map; each rank writes a part of them. Fails on all ranks if one
/// has no path.
pub(crate) fn load(map: &mut MapInner, path: Result<&Path, Error>) -> Result<c_int, Error> {
    let path = map.opened.collective(LOAD, path, |path, _| Ok(path))?;
    let opened = open(map, path);
    let (mut file, entries) = match together(map, LOAD, opened)? {
        Ok(opened) => opened,
        Err(code) => return Ok(code),
    };
    let (rank, ranks) = (u64::from(map.opened.rank), u64::from(map.opened.ranks));
    let first_of = |rank: u64| entries / ranks * rank + rank.min(entries % ranks);
    let read = read_part(map, &mut file, first_of(rank), first_of(rank + 1))
        .map_err(|(code, text)| (code, format!("{}: {text}", path.display())));
    Ok(together(map, LOAD, read)?.err().unwrap_or(SUCCESS))
}

/// Opens a file of entries of these sizes, and returns it with their number.
fn open(map: &MapInner, path: &Path) -> Result<(File, u64), Failed> {
    let file = open_regular(OpenOptions::new().read(true), path);
    let mut file = file.map_err(failed(CANNOT_OPEN, path))?;
    let bytes = file.metadata().map_err(failed(CANNOT_OPEN, path))?.len();
    let wrong = |why: String| Err((WRONG_FILE, format!("{}: {why}", path.display())));
    let mut found = [0; HEADER_BYTES];
    if bytes < HEADER_BYTES as u64 {
        return wrong(format!("it has {bytes} bytes and no header"));
    }
    file.read_exact(&mut found).map_err(failed(CANNOT_READ, path))?;
    if found != header(map) {
        let (sizes, _) = found.as_chunks();
        let sizes: Vec<_> = sizes.iter().map(|bytes| i32::from_ne_bytes(*bytes)).collect();
        let mine = [map.options.key_bytes, map.options.value_bytes];
        return wrong(format!("it has keys and values of {sizes:?} bytes, the table of {mine:?}"));
    }
    let (body, each) = (bytes - HEADER_BYTES as u64, entry_bytes(map));
    if !body.is_multiple_of(each) {
        return wrong(format!("it ends within an entry, after {bytes} bytes: it was cut short"));
    }
    Ok((file, body / each))
}

/// Writes the entries from `first` on to the map, up to `end`.
fn read_part(map: &mut MapInner, file: &mut File, first: u64, end: u64) -> Result<(), Failed> {
    let at = HEADER_BYTES as u64 + first * entry_bytes(map);
    let unreadable = |error: std::io::Error| (CANNOT_READ, error.to_string());
    file.seek(SeekFrom::Start(at)).map_err(unreadable)?;
    let mut file = BufReader::new(file);
    let (mut keys, mut values, mut outcomes) = (Vec::new(), Vec::new(), Vec::new());
    let (mut key, mut value) = (vec![0; map.options.key_bytes], vec![0; map.options.value_bytes]);
    let mut next = first;
    while next < end {
        keys.clear();
        values.clear();
        outcomes.clear();
        let block_end = end.min(next + BLOCK);
        for _ in next..block_end {
            file.read_exact(&mut key).map_err(unreadable)?;
            file.read_exact(&mut value).map_err(unreadable)?;
            keys.extend_from_slice(&key);
            values.extend_from_slice(&value);
            outcomes.push(core::mem::MaybeUninit::uninit());
        }
        map.structure
            .batch(Request::Put(()), &keys, &values, &mut [], &mut outcomes)
            .map_err(|error| (CANNOT_READ, error.to_string()))?;
        next = block_end;
    }
    Ok(())
}
