//! Requests as futures, for runtimes that poll futures.

use core::cell::RefCell;

use probeline_pipeline::{Error, OperationFuture, Plain};
use probeline_transport::Transport;

use crate::map::{Map, Operation};
use crate::outcome::Request;

/// A [`Map`] whose requests are futures, for the tasks of one thread. As many run at once as the map
/// has storage for; the others wait for storage.
///
/// [`OperationFuture`] describes who polls the transport and when wakers are called.
pub struct Shared<M>(RefCell<M>);

/// The future of a request; its output is an [`Outcome`](crate::Outcome).
pub type MapFuture<'m, T, S, K, V> = OperationFuture<'m, Map<T, S, K, V>>;

impl<M> Shared<M> {
    /// Shares `map` between futures.
    pub fn new(map: M) -> Self {
        Self(RefCell::new(map))
    }

    /// Returns the map, when no future borrows it. Operations of dropped futures are still in
    /// flight.
    pub fn into_map(self) -> M {
        self.0.into_inner()
    }

    /// Returns the map, when no future borrows it.
    pub fn map(&mut self) -> &mut M {
        self.0.get_mut()
    }
}

impl<T, S, K, V> Shared<Map<T, S, K, V>>
where
    T: Transport,
    S: AsMut<[Operation<K, V>]>,
    K: Plain,
    V: Plain,
{
    /// Runs a request. It starts at the first poll.
    pub fn run(&self, key: &K, request: Request<V>) -> MapFuture<'_, T, S, K, V> {
        OperationFuture::new(&self.0, key, request)
    }

    /// Gets as [`Map::get`]: the outcome is [`Outcome::Hit`](crate::Outcome::Hit) or
    /// [`Outcome::Miss`](crate::Outcome::Miss).
    pub fn get(&self, key: &K) -> MapFuture<'_, T, S, K, V> {
        self.run(key, Request::Get)
    }

    /// Puts as [`Map::put`].
    pub fn put(&self, key: &K, value: &V) -> MapFuture<'_, T, S, K, V> {
        self.run(key, Request::Put(*value))
    }

    /// Puts as [`Map::put_if_absent`].
    pub fn put_if_absent(&self, key: &K, value: &V) -> MapFuture<'_, T, S, K, V> {
        self.run(key, Request::PutIfAbsent(*value))
    }

    /// Removes as [`Map::remove`].
    pub fn remove(&self, key: &K) -> MapFuture<'_, T, S, K, V> {
        self.run(key, Request::Remove)
    }

    /// Gets or computes as [`Map::get_or_compute`]. Other tasks run while the requests are in flight, but not during
    /// `compute`.
    ///
    /// # Errors
    /// As for [`Map::put`].
    pub async fn get_or_compute(&self, key: &K, compute: impl FnOnce(&K) -> V) -> Result<V, Error> {
        if let Some(value) = self.get(key).await?.value() {
            return Ok(value);
        }
        let value = compute(key);
        self.put_if_absent(key, &value).await?;
        Ok(value)
    }
}
