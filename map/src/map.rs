//! The map, with blocking calls, batches, and submitted requests that the caller polls.

use probeline_pipeline::{BatchError, ConfigError, Error, Host, Plain, Structure};
use probeline_transport::{Owner, PostError, Transport};

use crate::alone::Blocking;
use crate::batch::{BLOCK, Batch, Computed, Gets, Missing, Requests, Writes};
use crate::config::Config;
use crate::direct::{self, EngineWords};
use crate::entries::{Entries, for_each};
use crate::hash::hash_of_bytes;
use crate::layout::{Place, hash, sized};
use crate::machine::Access;
use crate::mode::HeldLock;
use crate::outcome::{Outcome, Request, ValueHash, Written};

/// Storage for one request in flight, such as `[Operation::EMPTY; 8]`.
pub type Operation<K, V> = probeline_pipeline::Operation<Access<K, V>>;
/// The result of a submitted request.
pub type Finished<V> = probeline_pipeline::Finished<Outcome<V>>;

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
pub struct Map<T, S, K: Plain, V: Plain>(Structure<T, S, Entries<K, V>>);

probeline_pipeline::front!([K: Plain, V: Plain] Map<K, V>, Entries<K, V>);

/// Values that one update computes at most, because other clients change the key meanwhile.
const MAX_ATTEMPTS: u32 = 64;

impl<T, S, K, V> Map<T, S, K, V>
where
    T: Transport,
    S: AsMut<[Operation<K, V>]>,
    K: Plain,
    V: Plain,
{
    /// Creates a map: see [`Structure::new`].
    ///
    /// # Errors
    /// [`ConfigError`] with the allowed range.
    pub fn new(transport: T, config: Config, operations: S) -> Result<Self, ConfigError> {
        Structure::new(transport, config, operations).map(Self)
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

    /// Puts as [`put`](Self::put), but leaves an older value of `key` as it is and returns
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
    /// The value is returned even if the put was dropped.
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
        Ok(self.call(key, request)?.written())
    }

    #[inline]
    fn call(&mut self, key: &K, request: Request<V>) -> Result<Outcome<V>, Error> {
        let mut room = V::zeroed(self.context().layout.bytes.value);
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
        let bytes = self.context().layout.bytes.of::<K, V>();
        let value = request.value().map_or(bytes.value, |value| value.len());
        if key.len() != bytes.key || value != bytes.value || room.len() != bytes.value {
            return Err(PostError::OutOfRange.into());
        }
        let (request, hash) = (request.map(sized::<V>), hash_of_bytes(sized::<K>(key), 0));
        if self.context().is_direct {
            self.check_fault()?;
            let (transport, context) = self.pipeline().parts();
            let words = EngineWords { transport, layout: context.layout };
            let outcome = direct::run_bytes::<K, V>(words, context, (key, hash), request, room);
            self.poll_sometimes()?;
            return outcome.ok_or(Error::Window);
        }
        if let Some(alone) = self.pipeline().alone()
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
        Ok(self.pipeline().call(access)?.map(|value| room.copy_from_slice(value.bytes())))
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
        BatchError::check_length(keys.len(), "results", values.len())?;
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
        BatchError::check_length(keys.len(), "results", values.len())?;
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
        BatchError::check_length(keys.len(), "values", values.len())?;
        BatchError::check_length(keys.len(), "results", results.len())?;
        self.batch(keys, Writes { values: Some(values), over: true, results })
    }

    /// Puts as [`put_batch`](Self::put_batch), for [`put_if_absent`](Self::put_if_absent).
    ///
    /// # Errors
    /// As for [`get_batch`](Self::get_batch).
    pub fn put_if_absent_batch(
        &mut self,
        keys: &[K],
        values: &[V],
        results: &mut [Written],
    ) -> Result<(), BatchError> {
        BatchError::check_length(keys.len(), "values", values.len())?;
        BatchError::check_length(keys.len(), "results", results.len())?;
        self.batch(keys, Writes { values: Some(values), over: false, results })
    }

    /// Removes as [`put_batch`](Self::put_batch), for [`remove`](Self::remove).
    ///
    /// # Errors
    /// As for [`get_batch`](Self::get_batch).
    pub fn remove_batch(&mut self, keys: &[K], results: &mut [Written]) -> Result<(), BatchError> {
        BatchError::check_length(keys.len(), "results", results.len())?;
        self.batch(keys, Writes { values: None, over: true, results })
    }

    fn batch(&mut self, keys: &[K], requests: impl Requests<V>) -> Result<(), BatchError> {
        let bytes = self.context().layout.bytes;
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
        self.pipeline().run_batch(&mut batch)?;
        batch.error()
    }

    /// Lets every entry written so far look older than those that follow. Simulations call it after
    /// each time step, on all ranks; without it, ages advance with the number of writes.
    ///
    /// The clients' clocks are equal when the map is opened and cleared. A client that later falls
    /// behind follows another one when both write to the same bucket at the same time, so evictions
    /// choose less well while clients write at very different rates. Ages wrap after 64 ticks: an
    /// entry more than 55 ticks old looks younger than it is.
    pub fn advance_age(&mut self) {
        self.pipeline().shared_mut().clock.advance();
    }

    /// Calls `each` with every entry in this owner's part whose check matches, and returns the
    /// number of full buckets whose check does not. The result is exact between barriers. While
    /// clients write, entries that are being written may be missing.
    ///
    /// # Errors
    /// [`Error::Window`]: a defect of the transport.
    pub fn for_each_local(&self, each: impl FnMut(&K, &V)) -> Result<u64, Error> {
        for_each(self.context(), self.transport().window(), each)
    }

    /// Returns the owner and the index of the bucket at which a search for `key` begins: most keys are
    /// there.
    #[must_use]
    pub fn first_candidate(&self, key: &K) -> (Owner, u64) {
        let place = self.context().layout.candidate(hash(key), 0);
        (Owner(place.owner), place.index)
    }

    /// Returns the last lock that a request of this client did not get, in the modes with locks. Such a
    /// request has ended as a miss or as [`Written::Dropped`].
    #[must_use]
    pub fn held_lock(&self) -> Option<HeldLock> {
        self.context().held_lock
    }

    /// Returns whether the CPU runs the requests.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.context().is_direct
    }

    /// Stores what `change` makes of the value of `key`, or of `None` if the key has no value.
    ///
    /// Atomic: between the read of the value that `change` has got last and the write no other write of
    /// the key takes effect ([`Mode::Unlocked`](crate::Mode::Unlocked) has no such guarantee). The
    /// bucket is claimed only if its control word is still the one that was read with the value. If
    /// another client has changed the value, `change` is called again with the new one, so it may be
    /// called several times for one write. No client waits while it runs.
    ///
    /// If `change` returns `None`, nothing is written, and the outcome is [`Written::Present`] or
    /// [`Written::Absent`]. Otherwise it is that of [`put`](Self::put). [`Written::Dropped`] also
    /// means that other clients changed the key 64 times meanwhile; repeating the call is safe.
    ///
    /// Blocks until the operation completes; the transport bounds the wait.
    ///
    /// # Errors
    /// As for [`put`](Self::put), but repeating the update after an error may apply it twice.
    pub fn update(
        &mut self,
        key: &K,
        mut change: impl FnMut(Option<&V>) -> Option<V>,
    ) -> Result<Written, Error> {
        for _ in 0..MAX_ATTEMPTS {
            let busy = self.stats().busy;
            let old = self.get(key)?;
            if old.is_none() && self.stats().busy > busy {
                // The key may have a value, which others are replacing.
                continue;
            }
            let request = match (change(old.as_ref()), &old) {
                (None, None) => return Ok(Written::Absent),
                (None, Some(_)) => return Ok(Written::Present),
                (Some(new), None) => Request::PutIfAbsent(new),
                (Some(new), Some(old)) => Request::Replace(new, ValueHash::from_value(old)),
            };
            match self.write(key, request)? {
                // Another client has changed, removed or evicted the value, or was the first to put one.
                Written::Present | Written::Absent => {}
                written => return Ok(written),
            }
        }
        Ok(Written::Dropped)
    }
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
    type Kind = Entries<K, V>;

    fn structure(&mut self) -> &mut Structure<T, S, Entries<K, V>> {
        &mut self.0
    }
}
