//! The map, with blocking calls, batches, and submitted requests that the caller polls.

use probeline_pipeline::{Error, Host, Pipeline, Tag};
use probeline_transport::{Owner, PostError, Transport};

use crate::alone::Blocking;
use crate::batch::{BLOCK, Batch, Computed, Gets, Missing, Requests, Writes};
use crate::config::Config;
use crate::context::Context;
use crate::direct::{self, EngineWords};
use crate::error::{BatchError, ConfigError};
use crate::hash::hash_of_bytes;
use crate::layout::{Place, hash};
use crate::machine::Access;
use crate::mode::HeldLock;
use crate::outcome::{Outcome, Request, Written};
use crate::plain::{Plain, sized};
use crate::stats::Stats;

/// Storage for one request in flight, such as `[Operation::EMPTY; 8]`.
pub type Operation<K, V> = probeline_pipeline::Operation<Access<K, V>>;
/// The result of a submitted request.
pub type Finished<V> = probeline_pipeline::Finished<Outcome<V>, Error>;

/// Blocking calls by the CPU between two polls of the transport. Only a poll detects lost owners.
const CALLS_PER_POLL: u32 = 64;

/// A lossy cache of values `V` by keys `K` in the windows of all owners, over an engine `T`, with
/// storage `S` for requests in flight.
///
/// Every owner opens it with the same types and the same sizes. Two keys are equal if their bytes
/// are.
///
/// ```
/// use probeline_map::{Config, Map, Operation, Written};
/// use probeline_shm::Builder;
/// use probeline_transport::Alone;
///
/// let config = Config::for_entries(1_000, 1);
/// let engine = Builder::new(config.sizes::<[u64; 10], [f64; 13]>(8)).open(&mut Alone)?;
/// let mut map = Map::open(engine, config, [Operation::EMPTY; 8], &mut Alone)?;
/// let (key, value) = ([7_u64; 10], [0.5; 13]);
/// assert_eq!(map.get(&key)?, None);
/// assert_eq!(map.put(&key, &value)?, Written::Inserted);
/// assert_eq!(map.get(&key)?, Some(value));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub struct Map<T, S, K: Plain, V: Plain> {
    pub(crate) pipeline: Pipeline<T, S, Context, Access<K, V>>,
    pub(crate) config: Config,
    /// Blocking calls by the CPU since the last poll.
    unpolled: u32,
}

impl<T, S, K, V> Map<T, S, K, V>
where
    T: Transport,
    S: AsMut<[Operation<K, V>]>,
    K: Plain,
    V: Plain,
{
    /// Creates a map over `transport` without checking the parameters of the other owners;
    /// [`open`](Self::open) includes that check.
    ///
    /// The CPU runs no request until [`agree`](Self::agree) has succeeded, because all owners use
    /// the direct path or none.
    ///
    /// The map uses two slots for each operation, from slot 0 on, and [`Config::words`] words of the
    /// window, all 0 at first, as in a fresh window; [`clear`](Self::clear) zeroes them.
    ///
    /// # Errors
    /// [`ConfigError`] with the allowed range.
    pub fn new(transport: T, config: Config, mut operations: S) -> Result<Self, ConfigError> {
        check::<K, V>(&transport, &config, operations.as_mut().len())?;
        let context = Context::new::<K, V>(&transport, &config);
        let pipeline = Pipeline::new(transport, context, operations)?;
        Ok(Self { pipeline, config, unpolled: 0 })
    }

    /// Returns the value of `key`.
    ///
    /// `None` means that the key was never put, was evicted or removed, or is being written. A
    /// returned value was put for this key. It is not older than any put or remove of the key that
    /// ended before the call began.
    ///
    /// Blocks until the operation completes; the transport bounds the wait.
    ///
    /// # Errors
    /// [`OperationError`](crate::OperationError).
    #[inline]
    pub fn get(&mut self, key: &K) -> Result<Option<V>, Error> {
        Ok(self.call(key, Request::Get)?.value())
    }

    /// Stores `value` for `key`, over an older value. A full map evicts the oldest entry among the
    /// candidates of the key.
    ///
    /// Returns [`Written::Inserted`], [`Written::Updated`], [`Written::Evicted`] or
    /// [`Written::Dropped`]. Blocks until the operation completes; the transport bounds the wait.
    ///
    /// # Errors
    /// [`OperationError`](crate::OperationError). Unless the operation was refused, it is unknown
    /// whether the value is or will be stored. Repeating the put is safe.
    pub fn put(&mut self, key: &K, value: &V) -> Result<Written, Error> {
        self.write(key, Request::Put(*value))
    }

    /// As [`put`](Self::put), but leaves an older value of `key` as it is and returns
    /// [`Written::Present`]: one roundtrip where all values of a key are interchangeable.
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    pub fn put_if_absent(&mut self, key: &K, value: &V) -> Result<Written, Error> {
        self.write(key, Request::PutIfAbsent(*value))
    }

    /// Removes `key`. Returns [`Written::Removed`], [`Written::Absent`] or [`Written::Dropped`].
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    pub fn remove(&mut self, key: &K) -> Result<Written, Error> {
        self.write(key, Request::Remove)
    }

    /// Returns the value of `key`, or else computes it and stores it unless another client was
    /// faster. Clients that miss the same key at the same time all compute it.
    ///
    /// The value is returned also if the put was dropped.
    ///
    /// # Errors
    /// As for [`put`](Self::put); a computed value is then lost.
    pub fn get_or_compute(&mut self, key: &K, compute: impl FnOnce(&K) -> V) -> Result<V, Error> {
        if let Some(value) = self.get(key)? {
            return Ok(value);
        }
        let value = compute(key);
        self.put_if_absent(key, &value)?;
        Ok(value)
    }

    pub(crate) fn write(&mut self, key: &K, request: Request<V>) -> Result<Written, Error> {
        let written = self.call(key, request)?.written();
        debug_assert!(written.is_some(), "a write ends as one");
        Ok(written.unwrap_or(Written::Dropped))
    }

    #[inline]
    fn call(&mut self, key: &K, request: Request<V>) -> Result<Outcome<V>, Error> {
        let mut room = V::zeroed(self.pipeline.shared().layout.bytes.value);
        let outcome = self.call_bytes(key.bytes(), request.as_bytes(), room.bytes_mut())?;
        Ok(outcome.map(|()| room))
    }

    /// Runs a request on a key and a value that are given as bytes, as interfaces to other languages
    /// have them: no copy of them is made where the CPU runs the request.
    ///
    /// Key and value have the sizes of the map, and `room` that of a value. After a hit `room` has
    /// the value, otherwise bytes without meaning. Blocks as [`get`](Self::get) and
    /// [`put`](Self::put) do.
    ///
    /// # Errors
    /// As for [`put`](Self::put); [`PostError::OutOfRange`] for other sizes.
    #[inline(always)]
    pub fn call_bytes(
        &mut self,
        key: &[u8],
        request: Request<&[u8]>,
        room: &mut [u8],
    ) -> Result<Outcome<()>, Error> {
        let bytes = self.pipeline.shared().layout.bytes.of::<K, V>();
        let value = request.value().map_or(bytes.value, |value| value.len());
        if key.len() != bytes.key || value != bytes.value || room.len() != bytes.value {
            return Err(PostError::OutOfRange.into());
        }
        let (request, hash) = (request.map(sized::<V>), hash_of_bytes(sized::<K>(key), 0));
        if self.pipeline.shared().is_direct {
            self.poll_sometimes()?;
            let (transport, context) = self.pipeline.parts();
            let words = EngineWords { transport, layout: context.layout };
            let outcome = direct::run_bytes::<K, V>(words, context, (key, hash), request, room);
            return outcome.ok_or(Error::Post(PostError::OutOfRange));
        }
        if let Some(alone) = self.pipeline.alone()
            && let Some(outcome) =
                (Blocking { alone, key, hash, present: Place::default() }).run(request, room)?
        {
            return Ok(outcome);
        }
        self.call_machine(key, request, room)
    }

    /// Runs a request as a machine.
    #[inline(never)]
    fn call_machine(
        &mut self,
        key: &[u8],
        request: Request<&[u8]>,
        room: &mut [u8],
    ) -> Result<Outcome<()>, Error> {
        let access = Access::new(&K::from_bytes(key), request.map(V::from_bytes));
        Ok(self.pipeline.call(access)?.map(|value| room.copy_from_slice(value.bytes())))
    }

    /// Polls the transport after some calls by the CPU, and fails if it is known to be dead.
    #[inline]
    fn poll_sometimes(&mut self) -> Result<(), Error> {
        self.unpolled += 1;
        if self.unpolled >= CALLS_PER_POLL {
            self.unpolled = 0;
            if let Err(error) = self.pipeline.make_progress() {
                self.pipeline.shared_mut().stats.failed += 1;
                return Err(error);
            }
        }
        if let Some(fault) = self.pipeline.fault() {
            self.pipeline.shared_mut().stats.failed += 1;
            return Err(fault.into());
        }
        Ok(())
    }

    /// Runs [`get`](Self::get) for each key and stores its value at the same index of `values`.
    ///
    /// As many operations are in flight as the storage and the transport's depth allow, in any
    /// order. Where the CPU runs them, their cache misses overlap. Blocks until all complete; the
    /// transport bounds the wait.
    ///
    /// # Errors
    /// [`BatchError`] if the lengths differ or keys fail, whose results stay as they were.
    pub fn get_batch(&mut self, keys: &[K], values: &mut [Option<V>]) -> Result<(), BatchError> {
        same_length(keys.len(), "results", values.len())?;
        self.batch(keys, Gets(values))
    }

    /// Runs [`get_or_compute`](Self::get_or_compute) for each key, and stores its value at the same
    /// index of `values`: gets all keys, computes the values that are missing, and puts these. A key that
    /// occurs twice may be computed twice.
    ///
    /// # Errors
    /// As for [`get_batch`](Self::get_batch). Values that were computed before are stored in `values`.
    pub fn get_or_compute_batch(
        &mut self,
        keys: &[K],
        values: &mut [Option<V>],
        mut compute: impl FnMut(&K) -> V,
    ) -> Result<(), BatchError> {
        same_length(keys.len(), "results", values.len())?;
        let blocks = keys.chunks(BLOCK).zip(values.chunks_mut(BLOCK));
        for (nth, (keys, values)) in blocks.enumerate() {
            let of_block = |error: BatchError| error.shifted_by(nth * BLOCK);
            self.get_batch(keys, values).map_err(of_block)?;
            let mut missing = Missing::default();
            for (place, (key, value)) in keys.iter().zip(values.iter_mut()).enumerate() {
                if value.is_none() {
                    missing.insert(place);
                    *value = Some(compute(key));
                }
            }
            self.batch(keys, Computed { values, missing: &missing }).map_err(of_block)?;
        }
        Ok(())
    }

    /// Runs [`put`](Self::put) for each key with the value at the same index, and stores what it
    /// returns there in `results`. Of a key that occurs twice, either value remains.
    ///
    /// # Errors
    /// As for [`get_batch`](Self::get_batch).
    pub fn put_batch(
        &mut self,
        keys: &[K],
        values: &[V],
        results: &mut [Written],
    ) -> Result<(), BatchError> {
        same_length(keys.len(), "values", values.len())?;
        same_length(keys.len(), "results", results.len())?;
        self.batch(keys, Writes { values: Some(values), over: true, results })
    }

    /// As [`put_batch`](Self::put_batch), for [`put_if_absent`](Self::put_if_absent).
    ///
    /// # Errors
    /// As for [`get_batch`](Self::get_batch).
    pub fn put_if_absent_batch(
        &mut self,
        keys: &[K],
        values: &[V],
        results: &mut [Written],
    ) -> Result<(), BatchError> {
        same_length(keys.len(), "values", values.len())?;
        same_length(keys.len(), "results", results.len())?;
        self.batch(keys, Writes { values: Some(values), over: false, results })
    }

    /// As [`put_batch`](Self::put_batch), for [`remove`](Self::remove).
    ///
    /// # Errors
    /// As for [`get_batch`](Self::get_batch).
    pub fn remove_batch(&mut self, keys: &[K], results: &mut [Written]) -> Result<(), BatchError> {
        same_length(keys.len(), "results", results.len())?;
        self.batch(keys, Writes { values: None, over: true, results })
    }

    fn batch(&mut self, keys: &[K], requests: impl Requests<V>) -> Result<(), BatchError> {
        let bytes = self.pipeline.shared().layout.bytes;
        let odd = |place: &usize| {
            let request = requests.request(*place);
            let value = request.as_ref().and_then(Request::value);
            keys.get(*place).is_some_and(|key| !bytes.fit(key, value))
        };
        if (K::SIZE.is_none() || V::SIZE.is_none())
            && let Some(place) = (0..keys.len()).find(odd)
        {
            return Err(BatchError::Failed { place, error: PostError::OutOfRange.into() });
        }
        let mut batch = Batch::new(keys, requests);
        self.pipeline.run_batch(&mut batch).map_err(BatchError::Operation)?;
        batch.error()
    }

    /// Starts a request whose result [`poll_into`](Self::poll_into) reports under `tag`.
    ///
    /// # Errors
    /// [`OperationError::Busy`](crate::OperationError::Busy) while all storage is in use;
    /// [`OperationError::Fault`](crate::OperationError::Fault) once the transport is known to be
    /// dead.
    pub fn submit(&mut self, tag: Tag, key: &K, request: Request<V>) -> Result<(), Error> {
        let access = Access::for_map(key, request, self.pipeline.shared())?;
        self.pipeline.submit(tag, access)
    }

    /// Polls the transport, advances all requests and moves the results of submitted ones into
    /// `out`. Returns the filled part of `out`. Never blocks.
    ///
    /// # Errors
    /// [`OperationError::Fault`](crate::OperationError::Fault) if the transport is dead and every
    /// result was reported.
    pub fn poll_into<'o>(
        &mut self,
        out: &'o mut [Finished<V>],
    ) -> Result<&'o [Finished<V>], Error> {
        self.pipeline.poll_into(out)
    }

    /// Returns whether storage is free, so that [`submit`](Self::submit) is not refused for lack of
    /// it.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.pipeline.has_room()
    }

    /// Returns the number of requests submitted and not yet reported.
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.pipeline.in_flight()
    }

    /// Lets every entry written so far look older than those that follow. Simulations call it after
    /// each time step, on all ranks; without it, ages advance with the number of writes.
    ///
    /// The clients' clocks are equal when the map is opened and cleared. A client that later falls
    /// behind follows another one when both write to the same bucket at the same time, so evictions
    /// choose less well while clients write at very different rates. Ages wrap after 64 ticks: an
    /// entry more than 55 ticks old looks younger than it is.
    pub fn advance_age(&mut self) {
        self.pipeline.shared_mut().clock.advance();
    }

    /// Returns the engine, for reading.
    #[must_use]
    pub fn transport(&self) -> &T {
        self.pipeline.transport()
    }

    /// Waits until no request of the map is in flight and returns the engine, for words outside the
    /// map. Everything posted on it must have completed before the map is used again.
    ///
    /// # Errors
    /// [`OperationError::Fault`](crate::OperationError::Fault) if the transport is dead.
    pub fn transport_mut(&mut self) -> Result<&mut T, Error> {
        self.pipeline.quiesce()?;
        Ok(self.pipeline.transport_mut())
    }

    /// Waits until no request of the map is in flight and returns the engine, even a dead one.
    /// Unreported results are lost.
    pub fn into_transport(mut self) -> T {
        // A dead engine reports its fault to its next user.
        self.pipeline.quiesce().ok();
        self.pipeline.into_transport()
    }

    /// Returns the counters of this client's operations.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.pipeline.shared().stats
    }

    /// Sets all counters to 0.
    pub fn reset_stats(&mut self) {
        self.pipeline.shared_mut().stats = Stats::default();
    }

    /// Returns the parameters of the map.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the owner and the index of the bucket at which a search for `key` begins: most keys are
    /// there.
    #[must_use]
    pub fn first_candidate(&self, key: &K) -> (Owner, u64) {
        let place = self.pipeline.shared().layout.candidate(hash(key), 0);
        (Owner(place.owner), place.index)
    }

    /// Returns the last lock that a request of this client did not get, in the modes with locks. Such a
    /// request has ended as a miss or as [`Written::Dropped`].
    #[must_use]
    pub fn held_lock(&self) -> Option<HeldLock> {
        self.pipeline.shared().held_lock
    }

    /// Returns whether the CPU runs the requests.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.pipeline.shared().is_direct
    }
}

fn same_length(keys: usize, what: &'static str, found: usize) -> Result<(), BatchError> {
    if keys == found { Ok(()) } else { Err(BatchError::Lengths { keys, what, found }) }
}

/// Checks the parameters of a map on this engine.
pub(crate) fn check<K: Plain, V: Plain>(
    transport: &impl Transport,
    config: &Config,
    operations: usize,
) -> Result<(), ConfigError> {
    Operation::<K, V>::check(operations, transport.geometry())?;
    config.check::<K, V>(transport.caps(), transport.geometry(), operations)?;
    Ok(())
}

impl<T, S, K, V> Host for Map<T, S, K, V>
where
    T: Transport,
    S: AsMut<[Operation<K, V>]>,
    K: Plain,
    V: Plain,
{
    type Transport = T;
    type Storage = S;
    type Shared = Context;
    type Machine = Access<K, V>;
    type Arguments = (K, Request<V>);

    fn machine((key, request): (K, Request<V>), context: &Context) -> Result<Access<K, V>, Error> {
        Access::for_map(&key, request, context)
    }

    fn pipeline(&mut self) -> &mut Pipeline<T, S, Context, Access<K, V>> {
        &mut self.pipeline
    }
}
