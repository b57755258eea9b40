//! Maps of all sizes behind one trait, with the sizes of keys and values chosen at run time.

use core::mem::MaybeUninit;
use std::path::Path;

use probeline::map::{
    Bytes, Config, Loaded, Location, Map, Operation, OperationError, Outcome, Plain, Request,
    Stats, Tag, Written,
};
use probeline::transport::{Exchange, Owner, PostError};

use crate::job::Members;
use crate::status::{Error, probeline_outcome};
use crate::structure::{Engine, Structure, structure};
use crate::submitted::{Poll, Started, implement_poll};

/// The most bytes of a key and of a value.
pub(crate) const MAX_KEY: usize = 1024;
pub(crate) const MAX_VALUE: usize = 8192;
/// Keys and values that are copied at once.
const BLOCK: usize = 256;

/// The place of a value that a get has found.
pub(crate) type Place<'v> = &'v mut [MaybeUninit<u8>];

/// Room for the outcomes of a batch.
pub(crate) type Outcomes<'o> = &'o mut [MaybeUninit<probeline_outcome>];

/// The outcome of an operation, or why it failed.
type Ended = Result<probeline_outcome, Error>;

/// A map whose sizes of keys and values are known at run time only. Callers pass exactly these
/// sizes.
pub(crate) trait Cache: Structure + Poll {
    fn get(&mut self, key: &[u8], value: Place<'_>) -> Ended;
    fn write(&mut self, key: &[u8], request: Request<&[u8]>) -> Ended;
    /// Runs a request on each key, with the values one after another, and stores its outcome.
    fn batch(
        &mut self,
        keys: &[u8],
        request: Request<&[u8]>,
        found: Place<'_>,
        outcomes: Outcomes<'_>,
    ) -> Result<(), Error>;
    fn submit(&mut self, tag: Tag, key: &[u8], request: Request<&[u8]>) -> Started;
    fn for_each_local(&mut self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Error>;
    fn save(&mut self, path: &Path, exchange: &mut dyn Exchange) -> Result<u64, Error>;
    fn check_save(&self, path: &Path, exchange: &mut dyn Exchange) -> Result<(), Error>;
    fn load(&mut self, path: &Path, exchange: &mut dyn Exchange) -> Result<Loaded, Error>;
    fn advance_age(&mut self);
    /// Stores what `change` makes of the key's value, if it returns true: its second argument begins as
    /// the value, or as zeros.
    fn update(&mut self, key: &[u8], change: &mut dyn FnMut(&mut [u8]) -> bool) -> Ended;
    /// Stores the value of the entry in a bucket, if it has one.
    fn get_at(&mut self, rank: u32, bucket: u64, value: Place<'_>) -> Ended;
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
        return Err(PostError::OutOfRange.into());
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

    /// Gets the values of the staged keys.
    fn get_block(&mut self, values: Place<'_>, outcomes: Outcomes<'_>) -> Result<(), Error> {
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
        Ok(())
    }

    /// Writes to the staged keys.
    fn write_block(
        &mut self,
        request: Request<()>,
        values: &[u8],
        outcomes: Outcomes<'_>,
    ) -> Result<(), Error> {
        self.values.clear();
        for value in values.chunks_exact(self.value_bytes) {
            self.values.push(sized(value)?);
        }
        let mut written = [Written::Absent; BLOCK];
        let written = written.get_mut(..outcomes.len()).unwrap_or_default();
        let Self { map, keys, values, .. } = self;
        match request {
            Request::Put(()) => map.put_batch(keys, values, written),
            Request::PutIfAbsent(()) => map.put_if_absent_batch(keys, values, written),
            _ => map.remove_batch(keys, written),
        }?;
        outcomes.iter_mut().zip(written).for_each(|(to, written)| {
            to.write((*written).into());
        });
        Ok(())
    }
}

structure!(Typed<K, V> [K: Plain, V: Plain], map);

impl<K: Plain, V: Plain> Cache for Typed<K, V> {
    fn get(&mut self, key: &[u8], value: Place<'_>) -> Ended {
        let Self { map, room, .. } = self;
        let room = room.as_mut_slice();
        let Outcome::Hit(()) = map.call_bytes(key, Request::Get, room)? else {
            return Ok(probeline_outcome::PROBELINE_ABSENT);
        };
        copy(room, value);
        Ok(probeline_outcome::PROBELINE_FOUND)
    }

    fn write(&mut self, key: &[u8], request: Request<&[u8]>) -> Ended {
        // Fewer cases than all make the call faster.
        let request = match request {
            Request::Put(value) => Request::Put(value),
            Request::PutIfAbsent(value) => Request::PutIfAbsent(value),
            Request::Remove => Request::Remove,
            _ => return Err(OperationError::from(PostError::OutOfRange).into()),
        };
        let outcome = self.map.call_bytes(key, request, &mut self.room)?;
        // A write ends as one.
        Ok(outcome.written().into())
    }

    fn batch(
        &mut self,
        keys: &[u8],
        request: Request<&[u8]>,
        found: Place<'_>,
        outcomes: Outcomes<'_>,
    ) -> Result<(), Error> {
        let given = request.value().copied().unwrap_or_default();
        let mut given = given.chunks(BLOCK * self.value_bytes);
        let mut found = found.chunks_mut(BLOCK * self.value_bytes);
        let blocks = keys.chunks(BLOCK * self.key_bytes).zip(outcomes.chunks_mut(BLOCK));
        for (keys, outcomes) in blocks {
            self.keys.clear();
            for key in keys.chunks_exact(self.key_bytes) {
                self.keys.push(sized(key)?);
            }
            match request.map(|_| ()) {
                Request::Get => self.get_block(found.next().unwrap_or_default(), outcomes),
                write => self.write_block(write, given.next().unwrap_or_default(), outcomes),
            }?;
        }
        Ok(())
    }

    fn submit(&mut self, tag: Tag, key: &[u8], request: Request<&[u8]>) -> Started {
        let request = match request {
            Request::Get => Request::Get,
            Request::Put(value) => Request::Put(sized(value)?),
            Request::PutIfAbsent(value) => Request::PutIfAbsent(sized(value)?),
            Request::Remove => Request::Remove,
            Request::Replace(..) => return Err(PostError::OutOfRange.into()),
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

    fn update(&mut self, key: &[u8], change: &mut dyn FnMut(&mut [u8]) -> bool) -> Ended {
        let absent = V::zeroed(self.value_bytes);
        let change = |old: Option<&V>| {
            let mut value = *old.unwrap_or(&absent);
            change(value.bytes_mut()).then_some(value)
        };
        Ok(self.map.update(&sized(key)?, change)?.into())
    }

    fn get_at(&mut self, rank: u32, bucket: u64, value: Place<'_>) -> Ended {
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

implement_poll!(Typed<K, V> [K: Plain, V: Plain], map, {
    Outcome::Hit(value) => (probeline_outcome::PROBELINE_FOUND, Some(value.bytes())),
    Outcome::Miss => (probeline_outcome::PROBELINE_ABSENT, None),
    Outcome::Written(written) => ((*written).into(), None),
});
