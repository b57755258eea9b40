//! Maps of all sizes behind one trait, with the sizes of keys and values chosen at run time.

use core::mem::MaybeUninit;
use std::path::Path;

use probeline::map::{
    Bytes, Config, Loaded, Location, Map, Operation, OperationError, Outcome, Plain, Request,
    Stats, Tag, Written,
};
use probeline::transport::{Exchange, Owner};

use crate::engine::Engine;
use crate::job::Members;
use crate::status::{Error, probeline_outcome};
use crate::structure::{Structure, structure};
use crate::submitted::{EachFinished, Poll, poll_structure};

/// The most bytes of a key and of a value.
pub(crate) const MAX_KEY: usize = 1024;
pub(crate) const MAX_VALUE: usize = 8192;
/// Keys and values that are copied at once.
const BLOCK: usize = 256;

/// Effect of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    Put,
    PutIfAbsent,
    Remove,
}

/// Place that a request reads or writes.
#[derive(Clone, Copy)]
pub(crate) enum Access<'v> {
    Get,
    /// A write, with the bytes of its values; empty if it removes.
    Write(Write, &'v [u8]),
}

/// The place of a value that a get has found.
pub(crate) type Place<'v> = &'v mut [MaybeUninit<u8>];

/// A map whose sizes of keys and values are known at run time only. Callers pass exactly these
/// sizes.
pub(crate) trait Cache: Structure + Poll {
    fn get(&mut self, key: &[u8], value: Place<'_>) -> Result<probeline_outcome, Error>;
    fn write(&mut self, key: &[u8], write: Write, value: &[u8])
    -> Result<probeline_outcome, Error>;
    /// Stores an outcome for each key.
    fn get_batch(
        &mut self,
        keys: &[u8],
        values: Place<'_>,
        outcomes: &mut [MaybeUninit<probeline_outcome>],
    ) -> Result<(), Error>;
    fn write_batch(
        &mut self,
        keys: &[u8],
        write: Write,
        values: &[u8],
        outcomes: &mut [MaybeUninit<probeline_outcome>],
    ) -> Result<(), Error>;
    fn submit(&mut self, tag: Tag, key: &[u8], access: Access<'_>) -> Result<(), OperationError>;
    fn for_each_local(&mut self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Error>;
    fn save(&mut self, path: &Path, exchange: &mut dyn Exchange) -> Result<u64, Error>;
    fn check_save(&self, path: &Path, exchange: &mut dyn Exchange) -> Result<(), Error>;
    fn load(&mut self, path: &Path, exchange: &mut dyn Exchange) -> Result<Loaded, Error>;
    fn advance_age(&mut self);
    /// Stores what `change` makes of the key's value, if it returns true: its second argument begins as
    /// the value, or as zeros.
    fn update(
        &mut self,
        key: &[u8],
        change: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> Result<probeline_outcome, Error>;
    /// Stores the value of the entry in a bucket, if it has one.
    fn get_at(
        &mut self,
        rank: u32,
        bucket: u64,
        value: Place<'_>,
    ) -> Result<probeline_outcome, Error>;
    /// Returns the bucket of the last put that stored its value.
    fn last_put(&self) -> Option<Location>;
    /// Returns the bucket at which a search for the key begins.
    fn first_candidate(&self, key: &[u8]) -> Result<Location, Error>;
    /// Returns the parameters of the map.
    fn config(&self) -> &Config;
    fn stats(&self) -> &Stats;
}

/// Opens a map. The sizes are in `config`, and at most [`MAX_KEY`] and [`MAX_VALUE`].
pub(crate) fn open(
    members: &mut Members,
    config: Config,
    operations: u32,
) -> Result<Box<dyn Cache>, Error> {
    match (config.key_bytes, config.value_bytes) {
        // Sizes of MPI-DHT's programs, as constants, so that copies are unrolled.
        (80, 104) => Typed::<[u8; 80], [u8; 104]>::open(members, config, operations),
        (..=128, ..=128) => Typed::<Bytes<128>, Bytes<128>>::open(members, config, operations),
        (..=256, ..=1024) => Typed::<Bytes<256>, Bytes<1024>>::open(members, config, operations),
        _ => Typed::<Bytes<MAX_KEY>, Bytes<MAX_VALUE>>::open(members, config, operations),
    }
}

/// A map of keys `K` and values `V`.
struct Typed<K: Plain, V: Plain> {
    map: Map<Engine, Vec<Operation<K, V>>, K, V>,
    key_bytes: usize,
    value_bytes: usize,
    /// Staged keys of a batch.
    keys: Vec<K>,
    values: Vec<V>,
    found: Vec<Option<V>>,
    /// Room for one value.
    room: Vec<u8>,
}

/// Returns bytes whose number was checked when the map was opened.
fn sized<P: Plain>(bytes: &[u8]) -> Result<P, OperationError> {
    if bytes.len() > P::CAPACITY {
        return Err(OperationError::Post(probeline::transport::PostError::OutOfRange));
    }
    Ok(P::from_bytes(bytes))
}

/// Stores a value that was found.
pub(crate) fn copy(value: &[u8], to: Place<'_>) {
    if to.len() == value.len() {
        to.write_copy_of_slice(value);
    } else {
        debug_assert!(false, "the map has values of one size");
    }
}

fn request<V>(write: Write, value: V) -> Request<V> {
    match write {
        Write::Put => Request::Put(value),
        Write::PutIfAbsent => Request::PutIfAbsent(value),
        Write::Remove => Request::Remove,
    }
}

impl<K: Plain, V: Plain> Typed<K, V> {
    fn open(
        members: &mut Members,
        config: Config,
        operations: u32,
    ) -> Result<Box<dyn Cache>, Error> {
        let engine = members.open(config.sizes::<K, V>(operations))?;
        let storage = vec![Operation::EMPTY; operations as usize];
        Ok(Box::new(Self {
            map: Map::open(engine, config, storage, members.exchange())?,
            key_bytes: config.key_bytes,
            value_bytes: config.value_bytes,
            keys: Vec::new(),
            values: Vec::new(),
            found: Vec::new(),
            room: vec![0; config.value_bytes],
        }))
    }

    /// Copies the keys of a block.
    fn take_keys(&mut self, keys: &[u8]) -> Result<(), Error> {
        self.keys.clear();
        for key in keys.chunks_exact(self.key_bytes) {
            self.keys.push(sized(key)?);
        }
        Ok(())
    }

    fn write_block(
        &mut self,
        write: Write,
        values: &[u8],
        written: &mut [Written],
    ) -> Result<(), Error> {
        self.values.clear();
        if write != Write::Remove {
            for value in values.chunks_exact(self.value_bytes) {
                self.values.push(sized(value)?);
            }
        }
        Ok(match write {
            Write::Put => self.map.put_batch(&self.keys, &self.values, written),
            Write::PutIfAbsent => self.map.put_if_absent_batch(&self.keys, &self.values, written),
            Write::Remove => self.map.remove_batch(&self.keys, written),
        }?)
    }
}

structure!(Typed<K, V> [K: Plain, V: Plain], map);

impl<K: Plain, V: Plain> Cache for Typed<K, V> {
    fn get(&mut self, key: &[u8], value: Place<'_>) -> Result<probeline_outcome, Error> {
        let Self { map, room, .. } = self;
        let room = room.as_mut_slice();
        let Outcome::Hit(()) = map.call_bytes(key, Request::Get, room)? else {
            return Ok(probeline_outcome::PROBELINE_ABSENT);
        };
        copy(room, value);
        Ok(probeline_outcome::PROBELINE_FOUND)
    }

    fn write(
        &mut self,
        key: &[u8],
        write: Write,
        value: &[u8],
    ) -> Result<probeline_outcome, Error> {
        let outcome = self.map.call_bytes(key, request(write, value), &mut self.room)?;
        // A write ends as one.
        Ok(outcome.written().into())
    }

    fn get_batch(
        &mut self,
        keys: &[u8],
        values: Place<'_>,
        outcomes: &mut [MaybeUninit<probeline_outcome>],
    ) -> Result<(), Error> {
        let values = values.chunks_mut(BLOCK * self.value_bytes);
        let blocks = keys.chunks(BLOCK * self.key_bytes).zip(values);
        for ((keys, values), outcomes) in blocks.zip(outcomes.chunks_mut(BLOCK)) {
            self.take_keys(keys)?;
            self.found.clear();
            self.found.resize(self.keys.len(), None);
            self.map.get_batch(&self.keys, &mut self.found)?;
            let results = self.found.iter().zip(outcomes);
            for ((found, outcome), to) in results.zip(values.chunks_exact_mut(self.value_bytes)) {
                outcome.write(match found {
                    Some(_) => probeline_outcome::PROBELINE_FOUND,
                    None => probeline_outcome::PROBELINE_ABSENT,
                });
                if let Some(value) = found {
                    copy(value.bytes(), to);
                }
            }
        }
        Ok(())
    }

    fn write_batch(
        &mut self,
        keys: &[u8],
        write: Write,
        values: &[u8],
        outcomes: &mut [MaybeUninit<probeline_outcome>],
    ) -> Result<(), Error> {
        let mut values = values.chunks(BLOCK * self.value_bytes);
        let blocks = keys.chunks(BLOCK * self.key_bytes).zip(outcomes.chunks_mut(BLOCK));
        for (keys, outcomes) in blocks {
            self.take_keys(keys)?;
            let mut written = [Written::Absent; BLOCK];
            let written = written.get_mut(..outcomes.len()).unwrap_or_default();
            self.write_block(write, values.next().unwrap_or_default(), written)?;
            outcomes.iter_mut().zip(written).for_each(|(to, written)| {
                to.write((*written).into());
            });
        }
        Ok(())
    }

    fn submit(&mut self, tag: Tag, key: &[u8], access: Access<'_>) -> Result<(), OperationError> {
        let request = match access {
            Access::Get => Request::Get,
            Access::Write(Write::Remove, _) => Request::Remove,
            Access::Write(write, value) => request(write, sized(value)?),
        };
        self.map.submit(tag, &sized(key)?, request)
    }

    fn for_each_local(&mut self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Error> {
        self.map.for_each_local(|key, value| visit(key.bytes(), value.bytes()))?;
        Ok(())
    }

    fn save(&mut self, path: &Path, exchange: &mut dyn Exchange) -> Result<u64, Error> {
        Ok(self.map.save(path, exchange)?)
    }

    fn check_save(&self, path: &Path, exchange: &mut dyn Exchange) -> Result<(), Error> {
        Ok(self.map.check_save(path, exchange)?)
    }

    fn load(&mut self, path: &Path, exchange: &mut dyn Exchange) -> Result<Loaded, Error> {
        Ok(self.map.load(path, exchange)?)
    }

    fn advance_age(&mut self) {
        self.map.advance_age();
    }

    fn update(
        &mut self,
        key: &[u8],
        change: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> Result<probeline_outcome, Error> {
        let absent = V::zeroed(self.value_bytes);
        let change = |old: Option<&V>| {
            let mut value = *old.unwrap_or(&absent);
            change(value.bytes_mut()).then_some(value)
        };
        Ok(self.map.update(&sized(key)?, change)?.into())
    }

    fn get_at(
        &mut self,
        rank: u32,
        bucket: u64,
        value: Place<'_>,
    ) -> Result<probeline_outcome, Error> {
        let Some((_, found)) = self.map.get_at(Owner(rank), bucket)? else {
            return Ok(probeline_outcome::PROBELINE_ABSENT);
        };
        copy(found.bytes(), value);
        Ok(probeline_outcome::PROBELINE_FOUND)
    }

    fn last_put(&self) -> Option<Location> {
        self.map.last_put()
    }

    fn first_candidate(&self, key: &[u8]) -> Result<Location, Error> {
        let (owner, bucket) = self.map.first_candidate(&sized(key)?);
        Ok(Location { owner, bucket, candidate: 0 })
    }

    fn config(&self) -> &Config {
        self.map.config()
    }

    fn stats(&self) -> &Stats {
        self.map.stats()
    }
}

impl<K: Plain, V: Plain> Poll for Typed<K, V> {
    fn poll(
        &mut self,
        capacity: usize,
        each: &mut EachFinished<'_>,
    ) -> Result<usize, OperationError> {
        poll_structure(&mut self.map, capacity, each, |outcome| match outcome {
            Outcome::Hit(value) => (probeline_outcome::PROBELINE_FOUND, Some(value.bytes())),
            Outcome::Miss => (probeline_outcome::PROBELINE_ABSENT, None),
            Outcome::Written(written) => ((*written).into(), None),
        })
    }
}
