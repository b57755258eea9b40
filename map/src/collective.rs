//! Collective calls of the map: agree on its parameters, count, clear; and iteration.
//!
//! Every owner makes each of these calls, in the same order, with no other operation in flight.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release};

use probeline_pipeline::{Collective, CollectiveError, FINGERPRINT};
use probeline_transport::{Exchange, Transport};

use crate::config::Config;
use crate::control::State;
use crate::direct;
use crate::error::OpenError;
use crate::fingerprint::fingerprint;
use crate::layout::{Layout, Place, hash};
use crate::map::{Map, Operation, check as check_config};
use crate::mode::Mode;
use crate::plain::Plain;

/// The name of the call that opens a map.
const OPEN: &str = "Map::open";
const MODE: &str = "mode (0 for claims, 1 part locks, 2 bucket locks, 3 unlocked)";
/// Words of a bucket before the key.
const CONTROL_WORDS: usize = 1;

impl<T, S, K, V> Map<T, S, K, V>
where
    T: Transport,
    S: AsMut<[Operation<K, V>]>,
    K: Plain,
    V: Plain,
{
    /// Opens the map together with all other owners and checks that their parameters are equal.
    ///
    /// An owner that cannot open it does not block the others: they report
    /// [`CollectiveError::NotOpened`].
    ///
    /// # Errors
    /// [`OpenError`]: an invalid configuration, a failed exchange, or an owner without a map or with
    /// other parameters.
    pub fn open(
        transport: T,
        config: Config,
        mut operations: S,
        exchange: &mut (impl Exchange + ?Sized),
    ) -> Result<Self, OpenError> {
        if let Err(error) = check_config::<K, V>(&transport, &config, operations.as_mut().len()) {
            Collective::new(exchange, OPEN, 0).fail();
            return Err(error.into());
        }
        let mut map = Self::new(transport, config, operations)?;
        map.agree(exchange)?;
        Ok(map)
    }

    /// Checks that all owners opened the same map, and decides whether their CPUs run the requests.
    ///
    /// # Errors
    /// [`CollectiveError::Differs`] names an owner whose parameters differ, and
    /// [`CollectiveError::NotOpened`] one without a map.
    pub fn agree(
        &mut self,
        exchange: &mut (impl Exchange + ?Sized),
    ) -> Result<(), CollectiveError> {
        let quiet = self.pipeline.quiesce().map_err(CollectiveError::from);
        let layout = self.layout();
        let parameters = [
            (FINGERPRINT, fingerprint()),
            ("size of a key in bytes", layout.bytes.key as u64),
            ("size of a value in bytes", layout.bytes.value as u64),
            ("buckets per owner", layout.buckets_per_owner),
            ("number of candidates", layout.candidates.into()),
            ("first word", layout.first_word),
            (MODE, self.config.mode as u64),
            ("format of keys and values", self.config.format),
        ];
        let is_asked = self.config.direct && self.config.mode == Mode::Claims;
        let mine = is_asked && direct::is_possible(self.transport(), &layout);
        let is_direct = self.pipeline.agree(exchange, OPEN, quiet, &parameters, mine)?;
        let age = exchange.max(self.pipeline.shared().clock.age().into())?;
        let context = self.pipeline.shared_mut();
        context.is_direct = is_direct;
        context.clock.set(u8::try_from(age).unwrap_or(0));
        Ok(())
    }

    /// Returns the number of entries in the whole map.
    ///
    /// # Errors
    /// [`CollectiveError`].
    pub fn len(&mut self, exchange: &mut (impl Exchange + ?Sized)) -> Result<u64, CollectiveError> {
        let quiet = self.pipeline.quiesce().map_err(CollectiveError::from);
        let mut call = self.pipeline.collective(exchange, "Map::len");
        call.together(quiet)?;
        let mut mine = 0;
        let counted = self.for_each_local(|_, _| mine += 1);
        call.sum(counted.map(|_| mine))
    }

    /// Removes all entries from the whole map.
    ///
    /// An operation that completed in error may still take effect later. Then a bucket that this
    /// call emptied may stay claimed until other clients take it over; no wrong value results.
    ///
    /// # Errors
    /// [`CollectiveError`], after which some entries may be left.
    pub fn clear(
        &mut self,
        exchange: &mut (impl Exchange + ?Sized),
    ) -> Result<(), CollectiveError> {
        let quiet = self.pipeline.quiesce().map_err(CollectiveError::from);
        let mut call = self.pipeline.collective(exchange, "Map::clear");
        call.together(quiet)?;
        let emptied = self.words().map(|all| all.iter().for_each(|word| word.store(0, Release)));
        self.pipeline.shared_mut().clock.set(0);
        call.together(emptied.ok_or(CollectiveError::Window))
    }

    /// Calls `each` with every entry in this owner's part whose check matches, and returns the
    /// number of full buckets whose check does not. The result is exact between barriers. While
    /// clients write, entries that are being written may be missing.
    ///
    /// # Errors
    /// [`CollectiveError::Window`]: a defect of the transport.
    pub fn for_each_local(&self, mut each: impl FnMut(&K, &V)) -> Result<u64, CollectiveError> {
        let owner = self.transport().geometry().me.0;
        let (layout, context) = (self.layout(), self.pipeline.shared());
        let mode = context.mode;
        let part = self.part().ok_or(CollectiveError::Window)?;
        // A bucket has words; the compiler does not know it.
        let bucket_words = layout.bucket_words.max(1) as usize;
        let mut destroyed = 0;
        for (bucket, index) in part.chunks_exact(bucket_words).zip(0..) {
            let Some(control) = bucket.first() else { continue };
            let control = mode.control(control.load(Acquire));
            if control.state() != State::Full {
                continue;
            }
            let body = bucket.iter().skip(CONTROL_WORDS);
            let mut words = body.map(|word| word.load(Acquire));
            let (key, value): (K, V) = layout.bytes.unpack(&mut words);
            if control.has_check(context.check(hash(&key), value.bytes(), Place { owner, index })) {
                each(&key, &value);
            } else {
                destroyed += 1;
            }
        }
        Ok(destroyed)
    }

    fn layout(&self) -> Layout {
        self.pipeline.shared().layout
    }

    /// Returns the words of this owner's buckets.
    fn part(&self) -> Option<&[AtomicU64]> {
        let words = usize::try_from(self.layout().part_words()).ok()?;
        self.words()?.get(..words)
    }

    /// Returns all words that the map has in this owner's window.
    fn words(&self) -> Option<&[AtomicU64]> {
        let first = usize::try_from(self.layout().first_word).ok()?;
        let words = usize::try_from(self.config.words::<K, V>()).ok()?;
        self.transport().window().get(first..)?.get(..words)
    }
}
