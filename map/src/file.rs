//! Saving a map to a file and loading it, by all ranks in parallel; needs std.

use core::hash::BuildHasher;
use std::fs::{self, File, OpenOptions};
use std::hash::RandomState;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::vec;
use std::vec::Vec;

use probeline_pipeline::{Collective, CollectiveError, Plain};
use probeline_transport::{Exchange, ExchangeError, Owner, Transport};

use crate::BatchError;
use crate::error::FileError;
use crate::hash::hash_of_bytes;
use crate::map::{Map, Operation};
use crate::outcome::Written;
use crate::saved::{Header, decode_record, encode_record};

/// Entries of a batch while a file is loaded.
const BATCH: usize = 256;
/// Most puts of an entry of a file: a put is dropped if another rank takes this one for dead, or does not
/// release a lock in time.
const ATTEMPTS: u32 = 8;
/// Bytes that a rank writes or reads at once.
const BUFFER_BYTES: usize = 1 << 20;

/// Counts of [`Map::load`], over the whole map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Entries of the file.
    pub entries: u64,
    /// Entries stored in buckets without an entry.
    pub inserted: u64,
    /// Entries stored in place of others. Each of them replaced an entry, which is lost.
    pub evicted: u64,
    /// Entries whose keys were present already, and kept their values.
    pub present: u64,
    /// Entries not stored, after eight attempts, because ranks wrote to the same buckets.
    pub dropped: u64,
}

impl<T, S, K, V> Map<T, S, K, V>
where
    T: Transport,
    S: AsMut<[Operation<K, V>]>,
    K: Plain,
    V: Plain,
{
    /// Saves all entries to a file. Every owner makes this call with the same path, at a time when none
    /// writes; each writes its own entries. Returns the number of entries.
    ///
    /// The file gets its name when it is complete and on disk, so a failed call leaves an older file
    /// of this name as it was. Ages are not saved.
    ///
    /// # Errors
    /// [`FileError`], on all owners.
    pub fn save(
        &mut self,
        path: impl AsRef<Path>,
        exchange: &mut (impl Exchange + ?Sized),
    ) -> Result<u64, FileError> {
        let path = path.as_ref();
        let partial = partial(path);
        let mut call = self.collective(exchange, "save")?;
        let before = self.entries_before(&mut call)?;
        let header = self.header(before.all);
        let (is_mine, created) = create_together(path, &header, &mut call);
        let complete = created.and_then(|mark| {
            let written = self.write_records(&partial, mark, &header, &before);
            let digests = gather(call.together(written)?, call.exchange());
            let digest =
                digests.map_err(CollectiveError::from)?.into_iter().fold(0, u64::wrapping_add);
            Ok(Header { digest, ..header })
        });
        let named = match &complete {
            Ok(header) if is_mine => publish(&partial, header, path),
            Err(_) if is_mine => {
                remove(&partial);
                Ok(())
            }
            _ => Ok(()),
        };
        let named = call.together(named);
        complete?;
        named?;
        Ok(before.all)
    }

    /// Checks that [`save`](Self::save) may write a file of this name, so that a wrong name is known
    /// before the work whose results are saved. Every owner makes this call with the same path. Creates
    /// the file that `save` writes first, and removes it.
    ///
    /// # Errors
    /// [`FileError`], on all owners.
    pub fn check_save(
        &self,
        path: impl AsRef<Path>,
        exchange: &mut (impl Exchange + ?Sized),
    ) -> Result<(), FileError> {
        let partial = partial(path.as_ref());
        let mut call = self.begin_collective(exchange, "check_save");
        let (is_mine, created) = create_together(path.as_ref(), &self.header(0), &mut call);
        let opened = created.and_then(|mark| call.together(open_partial(&partial, mark)));
        if is_mine {
            remove(&partial);
        }
        opened.map(drop)
    }

    /// Loads all entries of a file that [`save`](Self::save) has written with any number of ranks and
    /// buckets. Every owner makes this call with the same path; each reads an equal share. A key
    /// that is already in the map keeps its value.
    ///
    /// # Errors
    /// [`FileError`], on all owners. The map then has some of the entries, none of them wrong.
    pub fn load(
        &mut self,
        path: impl AsRef<Path>,
        exchange: &mut (impl Exchange + ?Sized),
    ) -> Result<Loaded, FileError> {
        let path = path.as_ref();
        let opened = open(path, &self.header(0));
        let header = *opened.as_ref().map_or(&self.header(0), |(_, header)| header);
        let mut call = self.begin_collective(exchange, "load");
        let file = call.together(opened)?.0;
        let digest = hash_of_bytes(&header.encode(), 0);
        let differs = |owner| FileError::Differs { owner }.loading(path);
        must_be_equal("hash of the file's header", digest, &mut call, differs)?;
        let read = self.read_records(file, path, &header, call.exchange());
        let Loaded { inserted, evicted, present, dropped, .. } = call.together(read)?;
        let mut sum = |mine| call.sum::<CollectiveError>(Ok(mine));
        Ok(Loaded {
            entries: header.entries,
            inserted: sum(inserted)?,
            evicted: sum(evicted)?,
            present: sum(present)?,
            dropped: sum(dropped)?,
        })
    }

    fn header(&self, entries: u64) -> Header {
        let bytes = self.context().layout.bytes;
        Header {
            key_bytes: bytes.key as u64,
            value_bytes: bytes.value as u64,
            format: self.config().format,
            entries,
            digest: 0,
        }
    }

    fn entries_before<E: Exchange + ?Sized>(
        &self,
        call: &mut Collective<'_, E>,
    ) -> Result<Before, CollectiveError> {
        let mut own = 0;
        call.together(self.for_each_local(|_, _| own += 1).map_err(CollectiveError::from))?;
        let numbers = gather(own, call.exchange())?;
        let mine = numbers.iter().take(call.me().0 as usize).sum();
        Ok(Before { mine, own, all: numbers.iter().sum() })
    }

    /// Writes this owner's records, from the given one on. Returns the sum of their checks.
    fn write_records(
        &self,
        path: &Path,
        mark: u64,
        header: &Header,
        &Before { mine, own, .. }: &Before,
    ) -> Result<u64, FileError> {
        let mut file = BufWriter::with_capacity(BUFFER_BYTES, open_partial(path, mark)?);
        let start = SeekFrom::Start(position(path, header, mine)?);
        io("write to", path, file.seek(start))?;
        let mut record = vec![0; record_bytes(path, header)?];
        let (mut next, end, mut written, mut digest) = (mine, mine + own, Ok(()), 0_u64);
        self.for_each_local(|key, value| {
            // More would overwrite the next owner's.
            if next < end && written.is_ok() {
                let check = encode_record(next, key, value, &mut record);
                debug_assert!(check.is_some(), "keys and values have the sizes of the map");
                digest = digest.wrapping_add(check.unwrap_or_default());
                written = file.write_all(&record);
            }
            next += 1;
        })
        .map_err(CollectiveError::from)?;
        io("write to", path, written)?;
        let file = io("write to", path, file.into_inner().map_err(io::IntoInnerError::into_error))?;
        io("write to", path, file.sync_all())?;
        if next == end { Ok(digest) } else { Err(FileError::Changed) }
    }

    /// Puts this owner's share of the records.
    fn read_records(
        &mut self,
        file: File,
        path: &Path,
        header: &Header,
        exchange: &(impl Exchange + ?Sized),
    ) -> Result<Loaded, FileError> {
        let (me, owners) = (u128::from(exchange.me().0), u128::from(exchange.owners().max(1)));
        // A share of a u64.
        #[allow(clippy::cast_possible_truncation)]
        let share = |nth: u128| (u128::from(header.entries) * nth / owners) as u64;
        let (first, end) = (share(me), share(me + 1));
        let mut file = BufReader::with_capacity(BUFFER_BYTES, file);
        io("read", path, file.seek(SeekFrom::Start(position(path, header, first)?)))?;
        let mut record = vec![0; record_bytes(path, header)?];
        let (mut keys, mut values) = (Vec::with_capacity(BATCH), Vec::with_capacity(BATCH));
        let mut puts = Loaded::default();
        for entry in first..end {
            io("read", path, file.read_exact(&mut record))?;
            let Some((key, value)) = decode_record::<K, V>(entry, header, &record) else {
                return Err(FileError::Entry { entry }.loading(path));
            };
            keys.push(key);
            values.push(value);
            if keys.len() == BATCH || entry + 1 == end {
                self.put_records(&mut keys, &mut values, &mut puts)?;
            }
        }
        Ok(puts)
    }

    /// Puts entries, and again those that were dropped, at most [`ATTEMPTS`] times. Leaves `keys` and
    /// `values` empty.
    fn put_records(
        &mut self,
        keys: &mut Vec<K>,
        values: &mut Vec<V>,
        puts: &mut Loaded,
    ) -> Result<(), BatchError> {
        let mut results = [Written::Dropped; BATCH];
        for _ in 0..ATTEMPTS {
            let results = results.get_mut(..keys.len()).unwrap_or_default();
            self.put_if_absent_batch(keys, values, results)?;
            results.iter().for_each(|written| puts.count(*written));
            let mut dropped = results.iter().map(|written| *written == Written::Dropped);
            keys.retain(|_| dropped.next().unwrap_or(false));
            let mut dropped = results.iter().map(|written| *written == Written::Dropped);
            values.retain(|_| dropped.next().unwrap_or(false));
            if keys.is_empty() {
                return Ok(());
            }
        }
        puts.dropped += keys.len() as u64;
        keys.clear();
        values.clear();
        Ok(())
    }
}

impl Loaded {
    /// Counts a put, unless it was dropped.
    fn count(&mut self, written: Written) {
        match written {
            Written::Inserted => self.inserted += 1,
            Written::Evicted => self.evicted += 1,
            Written::Present => self.present += 1,
            // A put-if-absent ends as none of the others.
            _ => {}
        }
    }
}

/// Numbers of entries: of the owners before this one, of this one, and of all.
struct Before {
    mine: u64,
    own: u64,
    all: u64,
}

/// Returns the name of the file until it is complete.
fn partial(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}

/// Lets owner 0 create the file that gets its header and the name `path` when it is complete. Returns
/// whether this owner has created it, and the mark at its start, by which the others know it.
fn create_together<E: Exchange + ?Sized>(
    path: &Path,
    header: &Header,
    call: &mut Collective<'_, E>,
) -> (bool, Result<u64, FileError>) {
    let name = hash_of_bytes(path.as_os_str().as_encoded_bytes(), 0);
    let differs = |owner| FileError::NameDiffers { path: path.into(), owner };
    if let Err(error) = must_be_equal("hash of the file's name", name, call, differs) {
        return (false, Err(error));
    }
    let is_first = call.me() == Owner(0);
    let created = if is_first { create(path, header) } else { Ok(0) };
    (is_first && created.is_ok(), call.sum(created))
}

fn create(path: &Path, header: &Header) -> Result<u64, FileError> {
    // Otherwise it would be replaced, or the rename would fail after all the work.
    if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return io("replace", path, Err(not_regular()));
    }
    let has_name = !path.as_os_str().is_empty();
    let path = &partial(path);
    if !has_name {
        let error = io::Error::new(io::ErrorKind::InvalidInput, "the name of the file is empty");
        return io("create", path, Err(error));
    }
    let options = &mut OpenOptions::new();
    let options = options.write(true).create(true).truncate(true);
    let mut file = io("create", path, open_regular(options, path))?;
    let mark = RandomState::new().hash_one(path);
    let written = io("write to", path, file.write_all(&mark.to_le_bytes()))
        .and_then(|()| io("write to", path, file.set_len(position(path, header, header.entries)?)));
    if written.is_err() {
        remove(path);
    }
    written.map(|()| mark)
}

/// Opens the file that owner 0 has created, not one that an earlier save has left at this path in another
/// file system.
fn open_partial(path: &Path, mark: u64) -> Result<File, FileError> {
    let mut file = io("open", path, open_regular(OpenOptions::new().read(true).write(true), path))?;
    let mut found = [0; size_of::<u64>()];
    io("read", path, file.read_exact(&mut found))?;
    let other = "it is not the file that rank 0 has created: give a folder in a file system that all \
                 ranks share";
    let same = if found == mark.to_le_bytes() { Ok(file) } else { Err(io::Error::other(other)) };
    io("use", path, same)
}

/// Removes what a failed call has created. Never what [`create`] refuses, such as a FIFO.
fn remove(partial: &Path) {
    if fs::symlink_metadata(partial).is_ok_and(|there| there.is_file()) {
        // The error that is reported is the one before.
        let _ = fs::remove_file(partial);
    }
}

/// Writes the header of a file with all records, and gives the file its name.
fn publish(partial: &Path, header: &Header, path: &Path) -> Result<(), FileError> {
    let file = open_regular(OpenOptions::new().write(true), partial);
    let mut file = io("open", partial, file)?;
    let written = file.write_all(&header.encode()).and_then(|()| file.sync_all());
    io("write to", partial, written)?;
    io("rename", partial, fs::rename(partial, path))
}

/// Opens a file without waiting, and refuses anything but a regular file: opening a FIFO could block
/// beyond every limit.
#[doc(hidden)]
pub fn open_regular(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let opened = options.custom_flags(libc::O_NONBLOCK).open(path);
    let is_regular = match &opened {
        Ok(file) => file.metadata()?.is_file(),
        // A FIFO without a reader is not opened to write.
        Err(_) => !fs::metadata(path).is_ok_and(|there| !there.is_file()),
    };
    if is_regular { opened } else { Err(not_regular()) }
}

fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")
}

/// Checks that all ranks have the same value. `differs` is the error if one has another.
fn must_be_equal<E: Exchange + ?Sized>(
    what: &'static str,
    value: u64,
    call: &mut Collective<'_, E>,
    differs: impl Fn(Owner) -> FileError,
) -> Result<(), FileError> {
    call.compare(what, value).map_err(|error| match error {
        CollectiveError::Differs { owner, .. } => differs(owner),
        other => other.into(),
    })
}

/// Opens a file and checks that it fits a map.
fn open(path: &Path, map: &Header) -> Result<(File, Header), FileError> {
    let mut file = io("open", path, open_regular(OpenOptions::new().read(true), path))?;
    let mut bytes = [0; Header::BYTES];
    let is_empty = |error: &io::Error| error.kind() == io::ErrorKind::UnexpectedEof;
    let header = match file.read_exact(&mut bytes) {
        Err(error) if is_empty(&error) => Err(FileError::NoMap),
        read => io("read", path, read).map(|()| Header::decode(&bytes))?,
    };
    let fits = header.and_then(|header| header.must_fit(map).map(|()| header));
    let header = fits.map_err(|error| error.loading(path))?;
    let found = io("read", path, file.metadata())?.len();
    let expected = position(path, &header, header.entries)?;
    if found != expected {
        return Err(FileError::Length { found, expected }.loading(path));
    }
    Ok((file, header))
}

fn position(path: &Path, header: &Header, record: u64) -> Result<u64, FileError> {
    header.position(record).ok_or_else(|| too_large(path))
}

fn record_bytes(path: &Path, header: &Header) -> Result<usize, FileError> {
    let bytes = header.record_bytes().and_then(|bytes| usize::try_from(bytes).ok());
    bytes.ok_or_else(|| too_large(path))
}

fn too_large(path: &Path) -> FileError {
    let error = io::ErrorKind::FileTooLarge.into();
    FileError::Io { what: "address all entries of", path: path.into(), error }
}

fn io<R>(what: &'static str, path: &Path, result: io::Result<R>) -> Result<R, FileError> {
    result.map_err(|error| FileError::Io { what, path: path.into(), error })
}

/// Returns the numbers of all ranks, in their order.
fn gather(mine: u64, exchange: &mut (impl Exchange + ?Sized)) -> Result<Vec<u64>, ExchangeError> {
    let mut all = vec![0; exchange.owners() as usize * size_of::<u64>()];
    exchange.all_gather(&mine.to_le_bytes(), &mut all)?;
    Ok(all.as_chunks().0.iter().map(|number| u64::from_le_bytes(*number)).collect())
}
