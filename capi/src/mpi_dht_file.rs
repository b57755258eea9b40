//! Files of MPI-DHT: the sizes of a key and a value as two `int32` in the machine's byte order, then
//! each entry's key and value.

use core::ffi::c_int;
use core::fmt::Display;
use core::mem::MaybeUninit;
use core::ops::Range;
use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write as _};
use std::path::Path;

use probeline::map::{Request, open_regular};

use crate::map::MapInner;
use crate::mpi_dht::Failure;
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
const BLOCK: usize = 1024;

/// Returns the failure of a function that returns this code.
fn failure(code: c_int, text: impl Display) -> Failure {
    Failure { code, error: Error::new(probeline_status::PROBELINE_ERROR_FILE, text) }
}

fn failed<E: Display>(code: c_int) -> impl Fn(E) -> Failure {
    move |error| failure(code, error)
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

/// Ends a phase on a file: all ranks return the code of the first one that failed.
fn together<T>(
    map: &MapInner,
    name: &str,
    path: &Path,
    result: Result<T, Failure>,
) -> Result<T, Failure> {
    let code = result.as_ref().err().map_or(SUCCESS, |failure| failure.code);
    let all = map.opened.gather(name, &[code.unsigned_abs().into()])?;
    let value = result.map_err(|Failure { code, error }| {
        failure(code, format_args!("{}: {error}", path.display()))
    })?;
    let Some((rank, code)) = (0..).zip(all).find(|(_, code)| *code != 0) else {
        return Ok(value);
    };
    let code = -i32::try_from(code).unwrap_or(CANNOT_OPEN.abs());
    Err(failure(code, format_args!("rank {rank} could not do its part of the file: see its error")))
}

/// Writes the entries of all ranks; each rank writes its own. Fails on all ranks if one has no path.
pub(crate) fn save(map: &mut MapInner, path: Result<&Path, Error>) -> Result<c_int, Failure> {
    let path = map.opened.collective(SAVE, path, |path, _| Ok(path))?;
    let mut mine = 0;
    let counted = map.structure.for_each_local(&mut |_, _| mine += 1);
    let rank = map.opened.rank;
    let all = map.opened.gather(SAVE, &[mine])?;
    counted?;
    let before: u64 = all.iter().take(rank as usize).sum();
    let created = if rank == 0 {
        let file = open_regular(OpenOptions::new().write(true).create(true).truncate(true), path);
        file.and_then(|mut file| file.write_all(&header(map))).map_err(failed(CANNOT_OPEN))
    } else {
        Ok(())
    };
    together(map, SAVE, path, created)?;
    let at = HEADER_BYTES as u64 + before * entry_bytes(map);
    let written = write_part(map, path, at);
    together(map, SAVE, path, written)?;
    Ok(SUCCESS)
}

fn write_part(map: &mut MapInner, path: &Path, at: u64) -> Result<(), Failure> {
    let failed = failed(CANNOT_WRITE);
    let mut file = open_regular(OpenOptions::new().write(true), path).map_err(&failed)?;
    file.seek(SeekFrom::Start(at)).map_err(&failed)?;
    let mut file = BufWriter::new(file);
    let mut result = Ok(());
    let visited = map.structure.for_each_local(&mut |key, value| {
        if result.is_ok() {
            result = file.write_all(key).and_then(|()| file.write_all(value));
        }
    });
    visited.map_err(self::failed(CANNOT_WRITE))?;
    result.and_then(|()| file.flush()).map_err(&failed)
}

/// Writes the entries of a file to the map; each rank writes a part of them. Fails on all ranks if one
/// has no path.
pub(crate) fn load(map: &mut MapInner, path: Result<&Path, Error>) -> Result<c_int, Failure> {
    let path = map.opened.collective(LOAD, path, |path, _| Ok(path))?;
    let opened = open(map, path);
    let (mut file, entries) = together(map, LOAD, path, opened)?;
    let (rank, ranks) = (u64::from(map.opened.rank), u64::from(map.opened.ranks));
    let first_of = |rank: u64| entries / ranks * rank + rank.min(entries % ranks);
    let read = read_part(map, &mut file, first_of(rank)..first_of(rank + 1));
    together(map, LOAD, path, read)?;
    Ok(SUCCESS)
}

/// Opens a file of entries of these sizes, and returns it with their number.
fn open(map: &MapInner, path: &Path) -> Result<(File, u64), Failure> {
    let file = open_regular(OpenOptions::new().read(true), path);
    let mut file = file.map_err(failed(CANNOT_OPEN))?;
    let bytes = file.metadata().map_err(failed(CANNOT_OPEN))?.len();
    if bytes < HEADER_BYTES as u64 {
        return Err(failure(WRONG_FILE, format_args!("it has {bytes} bytes and no header")));
    }
    let mut found = [0; HEADER_BYTES];
    file.read_exact(&mut found).map_err(failed(CANNOT_READ))?;
    if found != header(map) {
        let sizes = found.as_chunks().0.iter().map(|bytes| i32::from_ne_bytes(*bytes));
        let (sizes, mine) =
            (sizes.collect::<Vec<_>>(), [map.options.key_bytes, map.options.value_bytes]);
        let text = format!("it has keys and values of {sizes:?} bytes, the table of {mine:?}");
        return Err(failure(WRONG_FILE, text));
    }
    let (body, each) = (bytes - HEADER_BYTES as u64, entry_bytes(map));
    if !body.is_multiple_of(each) {
        let text = format!("it ends within an entry, after {bytes} bytes: it was cut short");
        return Err(failure(WRONG_FILE, text));
    }
    Ok((file, body / each))
}

/// Writes a range of the entries of a file to the map.
fn read_part(map: &mut MapInner, file: &mut File, range: Range<u64>) -> Result<(), Failure> {
    let at = HEADER_BYTES as u64 + range.start * entry_bytes(map);
    file.seek(SeekFrom::Start(at)).map_err(failed(CANNOT_READ))?;
    let mut file = BufReader::new(file);
    let (key_bytes, value_bytes) = (map.options.key_bytes, map.options.value_bytes);
    let (mut keys, mut values) = (vec![0; BLOCK * key_bytes], vec![0; BLOCK * value_bytes]);
    let mut outcomes = [MaybeUninit::uninit(); BLOCK];
    for first in range.clone().step_by(BLOCK) {
        let count = usize::try_from(range.end - first).unwrap_or(BLOCK).min(BLOCK);
        let entries = keys.chunks_exact_mut(key_bytes).zip(values.chunks_exact_mut(value_bytes));
        for (key, value) in entries.take(count) {
            file.read_exact(key).map_err(failed(CANNOT_READ))?;
            file.read_exact(value).map_err(failed(CANNOT_READ))?;
        }
        let (keys, values) = (&keys[..count * key_bytes], &values[..count * value_bytes]);
        let outcomes = &mut outcomes[..count];
        map.structure
            .batch(Request::Put(()), keys, values, &mut [], outcomes)
            .map_err(failed(CANNOT_READ))?;
    }
    Ok(())
}
