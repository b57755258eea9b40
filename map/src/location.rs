//! Buckets by their place.

use core::sync::atomic::Ordering::Acquire;

use probeline_pipeline::{Error, Plain};
use probeline_transport::{Owner, PostError, Request as Post, SlotRange, Transport};

use crate::direct::{BucketWords, EngineWords};
use crate::entries::{Found, entry};
use crate::layout::Place;
use crate::machine::LANDING;
use crate::map::{Map, Operation};
use crate::search::MAX_RETRIES;

/// The place of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// The owner of the bucket.
    pub owner: Owner,
    /// The bucket's index among those of its owner.
    pub bucket: u64,
    /// The bucket's number among the candidates of the key, from 0. Not part of the place.
    pub candidate: u32,
}

impl<T, S, K, V> Map<T, S, K, V>
where
    T: Transport,
    S: AsMut<[Operation<K, V>]>,
    K: Plain,
    V: Plain,
{
    /// Returns the bucket of this client's last put that stored its value.
    #[must_use]
    pub fn last_put(&self) -> Option<Location> {
        let (Place { owner, index }, candidate) = self.context().last_put?;
        Some(Location { owner: Owner(owner), bucket: index, candidate })
    }

    /// Returns the entry of a bucket, of whatever key; `None` if the bucket has none or is being
    /// written.
    ///
    /// Waits until no request is in flight, then until the READ has completed; the transport bounds the
    /// wait.
    ///
    /// # Errors
    /// [`OperationError`](crate::OperationError): `Busy` if results of submitted operations take all
    /// storage, and must be polled first;
    /// [`OutOfRange`](probeline_transport::PostError::OutOfRange) if there is no such bucket.
    pub fn get_at(&mut self, owner: Owner, bucket: u64) -> Result<Option<(K, V)>, Error> {
        let context = self.context();
        let place = Place { owner: owner.0, index: bucket };
        if owner.0 >= context.layout.owners || bucket >= context.layout.buckets_per_owner {
            return Err(PostError::OutOfRange.into());
        }
        self.pipeline().quiesce()?;
        for _ in 0..=MAX_RETRIES {
            let found = if self.context().is_direct {
                let (transport, context) = self.pipeline().parts();
                let words = EngineWords { transport, layout: context.layout };
                let words = words.bucket(place).ok_or(PostError::OutOfRange)?;
                entry(words.iter().map(|word| word.load(Acquire)), context, place)
            } else {
                self.read(place)?
            };
            match found {
                Found::Entry(key, value) => return Ok(Some((key, value))),
                Found::Nothing => return Ok(None),
                Found::Claimed | Found::Mixed => {}
            }
        }
        Ok(None)
    }

    fn read(&mut self, place: Place) -> Result<Found<K, V>, Error> {
        let from = self.context().layout.segment(place);
        let mut alone = self.pipeline().alone().ok_or(Error::Busy)?;
        let into = SlotRange { slot: alone.slot(LANDING), start: 0, words: from.words };
        alone.run(Post::Read { from, into })?;
        let words = self.transport().landed(into)?.iter().copied();
        Ok(entry(words, self.context(), place))
    }
}
