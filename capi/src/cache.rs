//! Maps of all sizes behind one trait, with the sizes of keys and values chosen at run time.

use std::path::Path;

use probeline::map::{
    Bytes, Config, Loaded, Location, Map, Operation, Outcome, Plain, Request, Stats, Tag, Written,
};
use probeline::transport::{Exchange, Owner};

use crate::job::Members;
use crate::map::probeline_map;
use crate::operations::{Ended, Outcomes, Place, Run, Started, Submit, ToC, copy};
use crate::status::Error;
use crate::status::probeline_outcome::{self, PROBELINE_ABSENT, PROBELINE_FOUND};
use crate::structure::{self, Engine, Typed};

/// The most bytes of a key and of a value.
pub(crate) const MAX_KEY: usize = 1024;
pub(crate) const MAX_VALUE: usize = 8192;
/// Keys and values that are copied at once.
const BLOCK: usize = 256;

/// A map whose sizes of keys and values are known at run time only. Callers pass exactly these
/// sizes.
pub(crate) trait Cache: Run<probeline_map> {
    fn for_each_local(&mut self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Error>;
    fn save(&mut self, path: &Path, exchange: &mut dyn Exchange) -> Result<u64, Error>;
    fn check_save(&self, path: &Path, exchange: &mut dyn Exchange) -> Result<(), Error>;
    fn load(&mut self, path: &Path, exchange: &mut dyn Exchange) -> Result<Loaded, Error>;
    fn advance_age(&mut self);
    /// Stores what `change` makes of the key's value, if it returns true: its argument begins as the value, or as
    /// zeros, and is aligned to 8 bytes.
    fn update(&mut self, key: &[u8], change: &mut dyn FnMut(&mut [u8]) -> bool) -> Ended;
    /// Stores the value of the entry in a bucket, if it has one.
    fn get_at(&mut self, rank: u32, bucket: u64, value: Place<'_>) -> Ended;
    /// Returns the bucket of the last put that stored its value.
    fn last_put(&self) -> Option<Location>;
    /// Returns the bucket at which a search for the key begins.
    fn first_candidate(&self, key: &[u8]) -> Location;
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
        (80, 104) => open_as::<[u64; 10], [u64; 13]>(members, config, operations),
        (..=128, ..=128) => open_as::<Bytes<128>, Bytes<128>>(members, config, operations),
        (..=256, ..=1024) => open_as::<Bytes<256>, Bytes<1024>>(members, config, operations),
        _ => open_as::<Bytes<MAX_KEY>, Bytes<MAX_VALUE>>(members, config, operations),
    }
}

fn open_as<K: Plain, V: Plain>(
    members: &mut Members,
    config: Config,
    operations: u32,
) -> Result<Box<dyn Cache>, Error> {
    let (keys, values, found) = (Vec::new(), Vec::new(), Vec::new());
    let own = Own::<K, V> { keys, values, found, room: vec![0; config.value_bytes] };
    let sizes = (config.sizes::<K, V>(operations), operations);
    let map = structure::open(members, sizes, config, Map::<_, _, K, V>::open)?;
    Ok(Typed::new(map, own, operations))
}

/// Copies for the calls of a map of keys `K` and values `V`.
struct Own<K, V> {
    /// Staged keys of a batch.
    keys: Vec<K>,
    values: Vec<V>,
    found: Vec<Option<V>>,
    /// Room for one value.
    room: Vec<u8>,
}

type Opened<K, V> = Typed<Map<Engine, Vec<Operation<K, V>>, K, V>, Own<K, V>>;

impl<K: Plain, V: Plain> Opened<K, V> {
    /// Gets the values of the staged keys.
    fn get_block(&mut self, values: Place<'_>, outcomes: Outcomes<'_>) -> Result<(), Error> {
        let Own { keys, found, room, .. } = &mut self.own;
        found.clear();
        found.resize(keys.len(), None);
        self.front.get_batch(keys, found)?;
        let results = found.iter().zip(outcomes);
        for ((found, outcome), to) in results.zip(values.chunks_exact_mut(room.len())) {
            outcome.write(if found.is_some() { PROBELINE_FOUND } else { PROBELINE_ABSENT });
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
        operands: &[u8],
        outcomes: Outcomes<'_>,
    ) -> Result<(), Error> {
        let Own { keys, values, room, .. } = &mut self.own;
        values.clear();
        values.extend(operands.chunks_exact(room.len()).map(V::from_bytes));
        let mut written = [Written::Absent; BLOCK];
        let written = written.get_mut(..outcomes.len()).unwrap_or_default();
        match request {
            Request::Put(()) => self.front.put_batch(keys, values, written),
            Request::PutIfAbsent(()) => self.front.put_if_absent_batch(keys, values, written),
            _ => self.front.remove_batch(keys, written),
        }?;
        outcomes.iter_mut().zip(written).for_each(|(to, written)| {
            to.write((*written).into());
        });
        Ok(())
    }
}

impl<K: Plain, V: Plain> Submit<probeline_map> for Opened<K, V> {
    fn submit(&mut self, tag: Tag, request: Request<()>, key: &[u8], value: &[u8]) -> Started {
        self.front.submit(tag, &K::from_bytes(key), request.map(|()| V::from_bytes(value)))
    }
}

impl<K: Plain, V: Plain> Run<probeline_map> for Opened<K, V> {
    fn run(&mut self, request: Request<()>, key: &[u8], value: &[u8], result: Place<'_>) -> Ended {
        let room = self.own.room.as_mut_slice();
        // Fewer cases than all make the call faster.
        let request = match request {
            Request::Get => {
                let Outcome::Hit(()) = self.front.call_bytes(key, Request::Get, room)? else {
                    return Ok(PROBELINE_ABSENT);
                };
                copy(room, result);
                return Ok(PROBELINE_FOUND);
            }
            Request::Put(()) => Request::Put(value),
            Request::PutIfAbsent(()) => Request::PutIfAbsent(value),
            _ => Request::Remove,
        };
        // A write ends as one.
        Ok(self.front.call_bytes(key, request, room)?.written().into())
    }

    fn batch(
        &mut self,
        request: Request<()>,
        keys: &[u8],
        operands: &[u8],
        results: Place<'_>,
        outcomes: Outcomes<'_>,
    ) -> Result<(), Error> {
        let (key_bytes, value_bytes) = (self.front.config().key_bytes, self.own.room.len());
        let mut operands = operands.chunks(BLOCK * value_bytes);
        let mut results = results.chunks_mut(BLOCK * value_bytes);
        let blocks = keys.chunks(BLOCK * key_bytes).zip(outcomes.chunks_mut(BLOCK));
        for (keys, outcomes) in blocks {
            self.own.keys.clear();
            self.own.keys.extend(keys.chunks_exact(key_bytes).map(K::from_bytes));
            match request {
                Request::Get => self.get_block(results.next().unwrap_or_default(), outcomes),
                _ => self.write_block(request, operands.next().unwrap_or_default(), outcomes),
            }?;
        }
        Ok(())
    }
}

impl<K: Plain, V: Plain> Cache for Opened<K, V> {
    fn for_each_local(&mut self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Error> {
        let visited = self.front.for_each_local(|key, value| visit(key.bytes(), value.bytes()));
        Ok(visited.map(drop)?)
    }

    fn save(&mut self, path: &Path, exchange: &mut dyn Exchange) -> Result<u64, Error> {
        Ok(self.front.save(path, exchange)?)
    }

    fn check_save(&self, path: &Path, exchange: &mut dyn Exchange) -> Result<(), Error> {
        Ok(self.front.check_save(path, exchange)?)
    }

    fn load(&mut self, path: &Path, exchange: &mut dyn Exchange) -> Result<Loaded, Error> {
        Ok(self.front.load(path, exchange)?)
    }

    fn advance_age(&mut self) {
        self.front.advance_age();
    }

    fn update(&mut self, key: &[u8], change: &mut dyn FnMut(&mut [u8]) -> bool) -> Ended {
        let absent = V::zeroed(self.own.room.len());
        let change = |old: Option<&V>| {
            let mut value = *old.unwrap_or(&absent);
            change(value.bytes_mut()).then_some(value)
        };
        Ok(self.front.update(&K::from_bytes(key), change)?.into())
    }

    fn get_at(&mut self, rank: u32, bucket: u64, value: Place<'_>) -> Ended {
        let Some((_, found)) = self.front.get_at(Owner(rank), bucket)? else {
            return Ok(PROBELINE_ABSENT);
        };
        copy(found.bytes(), value);
        Ok(PROBELINE_FOUND)
    }

    fn last_put(&self) -> Option<Location> {
        self.front.last_put()
    }

    fn first_candidate(&self, key: &[u8]) -> Location {
        let (owner, bucket) = self.front.first_candidate(&K::from_bytes(key));
        Location { owner, bucket, candidate: 0 }
    }

    fn stats(&self) -> &Stats {
        self.front.stats()
    }
}

impl<V: Plain> ToC for Outcome<V> {
    fn to_c(&self) -> (probeline_outcome, Option<&[u8]>) {
        match self {
            Self::Hit(value) => (PROBELINE_FOUND, Some(value.bytes())),
            Self::Miss => (PROBELINE_ABSENT, None),
            Self::Written(written) => ((*written).into(), None),
        }
    }
}
