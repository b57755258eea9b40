//! What all owners do together between barriers: agree, count, clear, and collect garbage.
//!
//! Each of these calls is made by every owner, in the same order, with nothing else in flight.
//! Between its barriers owners load and store their own buckets with the CPU, and read and write
//! others' words through the transport. The only atomics are the transport's own claims of empty
//! buckets. A CPU may store 0 into an occupied bucket during such a claim. The claim then fails or
//! succeeds, but no store is lost in any atomic scope, because a failed claim does not write. The
//! contract requires that (`AtomicScope::Device`): a device that wrote the old value back would
//! undo the store and leave a datum in two buckets.
//!
//! An owner whose own part fails still makes all barriers of the call, so that nobody is left one
//! behind, and shows the others that it failed.

mod rounds;

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Release};

use probeline_transport::{
    Completion, Exchange, Local, Owner, PostError, RemoteWord, Segment, Slot, SlotError, Token,
    Transport,
};

use crate::bucket::Bucket;
use crate::cache::CacheEntry;
use crate::config::Config;
use crate::error::{CollectiveError, OpenError, OperationError};
use crate::layout::Position;
use crate::probe::Probing;
use crate::table::{Operation, Table};

/// "probelin", and the version of this layout.
const MAGIC: u64 = 0x7072_6f62_656c_696e;
const VERSION: u64 = 2;
/// Header words that all owners must have alike, with their names.
const AGREED: [&str; 7] = [
    "format",
    "version",
    "number of owners",
    "buckets per owner",
    "probe limit (C times M)",
    "first word",
    "probe order (0 linear, 1 lines, 2 jump)",
];
/// The header word in which an owner shows the others a number.
const SHOWN: u64 = 7;
/// What it shows where it has none: more than any count of buckets.
const FAILED: u64 = u64::MAX;
/// Tries of a READ that says whether all go on: who did not know would leave the others waiting.
/// A transport that fails eight in a row is about to say that it is dead.
const TRIES: u32 = 8;

impl<T: Transport, S: AsMut<[Operation]>> Table<T, S> {
    /// Opens the table together with all other owners and checks that all have the same.
    ///
    /// An owner that cannot open it keeps nobody waiting: the others find that it differs.
    ///
    /// # Errors
    /// [`OpenError`]: the configuration here, a failed exchange, or an owner that differs.
    pub fn open(
        transport: T,
        config: Config,
        mut operations: S,
        exchange: &mut (impl Exchange + ?Sized),
    ) -> Result<Self, OpenError> {
        let count = operations.as_mut().len();
        if let Err(error) = config.check(transport.caps(), transport.geometry(), count) {
            // Takes part in both barriers of `agree`, with a header of zeros: what stands there
            // may be that of an earlier table.
            let first = usize::try_from(config.first_word).unwrap_or(usize::MAX);
            for word in transport.window().iter().skip(first).take(AGREED.len()) {
                word.store(0, Release);
            }
            exchange.barrier().and_then(|()| exchange.barrier()).ok();
            return Err(error.into());
        }
        let mut table = Self::new(transport, config, operations)?;
        table.agree(exchange)?;
        Ok(table)
    }
}

impl<T, S, C> Table<T, S, C>
where
    T: Transport,
    S: AsMut<[Operation]>,
    C: AsMut<[CacheEntry]>,
{
    /// Checks that all owners opened the same table.
    ///
    /// # Errors
    /// [`CollectiveError::Differs`] names the first owner that has another.
    pub fn agree(
        &mut self,
        exchange: &mut (impl Exchange + ?Sized),
    ) -> Result<(), CollectiveError> {
        let quiet = self.quiesce();
        exchange.barrier()?;
        let compared = quiet.map_err(Into::into).and_then(|()| self.compare());
        // After a difference too: an owner that left would fail the READs of the others.
        let parted = exchange.barrier();
        compared?;
        Ok(parted?)
    }

    fn compare(&mut self) -> Result<(), CollectiveError> {
        let mine = self.agreed();
        for owner in 0..self.layout().owners() {
            for (at, (&what, &mine)) in (0..).zip(AGREED.iter().zip(&mine)) {
                let theirs = self.read_word(self.header(owner, at))?;
                if theirs != mine {
                    return Err(CollectiveError::Differs {
                        owner: Owner(owner),
                        what,
                        mine,
                        theirs,
                    });
                }
            }
        }
        Ok(())
    }

    /// How many data are in the whole table.
    ///
    /// # Errors
    /// [`CollectiveError`].
    pub fn len(&mut self, exchange: &mut (impl Exchange + ?Sized)) -> Result<u64, CollectiveError> {
        let quiet = self.quiesce();
        exchange.barrier()?;
        let mine = quiet.and_then(|()| self.occupied());
        self.sum(mine, exchange)
    }

    /// The share of buckets that are occupied in the whole table, 0 to 1.
    ///
    /// # Errors
    /// [`CollectiveError`].
    #[allow(clippy::cast_precision_loss)]
    pub fn load_factor(
        &mut self,
        exchange: &mut (impl Exchange + ?Sized),
    ) -> Result<f64, CollectiveError> {
        let len = self.len(exchange)?;
        let load_factor = len as f64 / self.layout().buckets() as f64;
        self.context_mut().policy.set_load_factor(load_factor);
        Ok(load_factor)
    }

    /// Empties the whole table.
    ///
    /// A claim that ended in error may still take effect, and a bucket that is emptied takes it:
    /// after an operation of unknown outcome, call this or [`retain`](Self::retain) only once the
    /// transport's device has dropped what it had in flight.
    ///
    /// # Errors
    /// [`CollectiveError`], after which the content is undefined.
    pub fn clear(
        &mut self,
        exchange: &mut (impl Exchange + ?Sized),
    ) -> Result<(), CollectiveError> {
        let quiet = self.quiesce();
        let config = self.config;
        self.context_mut().forget(&config);
        exchange.barrier()?;
        let emptied = self.part().map(|part| {
            part.iter().for_each(|bucket| bucket.store(0, Release));
        });
        exchange.barrier()?;
        Ok(quiet.and(emptied)?)
    }

    /// Keeps only the data for which `keep` says so, and returns how many were removed from the
    /// whole table: the stop-the-world garbage collection that the paper leaves out (section 1).
    ///
    /// `keep` must give the same answer on every owner, and may be asked more than once. In place,
    /// without memory, each owner for itself: of linear probing it judges the clusters that begin
    /// in its part, wherever they end, and a part without an empty bucket is left to the owner
    /// before it, which reads it word by word. For claims that ended in error see
    /// [`clear`](Self::clear).
    ///
    /// # Errors
    /// [`CollectiveError`], after which the content is undefined; on every owner if the part of
    /// one failed.
    pub fn retain(
        &mut self,
        exchange: &mut (impl Exchange + ?Sized),
        keep: impl FnMut(u64) -> bool,
    ) -> Result<u64, CollectiveError> {
        let quiet = self.quiesce();
        let config = self.config;
        self.context_mut().forget(&config);
        exchange.barrier()?;
        let removed = if self.layout().probing() == Probing::Linear {
            self.retain_by_clusters(quiet, exchange, keep)
        } else {
            self.retain_by_rounds(quiet, exchange, keep)
        }?;
        self.sample_load_factor();
        Ok(removed)
    }

    /// Where probing is linear, each owner by itself.
    fn retain_by_clusters(
        &mut self,
        quiet: Result<(), OperationError>,
        exchange: &mut (impl Exchange + ?Sized),
        mut keep: impl FnMut(u64) -> bool,
    ) -> Result<u64, CollectiveError> {
        let empty = quiet.and_then(|()| self.first_empty());
        let has_room = empty.map(|empty| u64::from(empty.is_some()));
        let parts_with_room = self.sum(has_room, exchange);
        let removed = match (parts_with_room, empty.ok().flatten()) {
            (Err(error), _) => Err(error),
            (Ok(_), Some(empty)) => self.sweep(empty, &mut keep).map_err(Into::into),
            (Ok(0), None) if exchange.me() == Owner(0) => {
                self.sweep_full(&mut keep).map_err(Into::into)
            }
            (Ok(_), None) => Ok(0),
        };
        self.sum(removed, exchange)
    }

    /// Goes through the clusters that begin in this owner's part, from the empty bucket `from`
    /// on, and puts each datum that stays at the first empty bucket from its home.
    ///
    /// That is right where it stands or before, since a datum's home is in its own cluster. The
    /// owner of the next part leaves the front of it, up to its first empty bucket, to this one.
    fn sweep(
        &mut self,
        from: Position,
        keep: &mut impl FnMut(u64) -> bool,
    ) -> Result<u64, OperationError> {
        let mut removed = 0;
        let mut hole = false;
        let mut at = from;
        // Once round the ring at most.
        for _ in 1..self.layout().buckets() {
            at = self.layout().advance(at, 1);
            let word = self.load(at)?;
            let Some(bucket) = Bucket::from_word(word) else {
                if at.owner != from.owner {
                    break;
                }
                hole = false;
                continue;
            };
            if !keep(bucket.data()) {
                self.store(at, 0)?;
                removed += 1;
                hole = true;
            } else if hole {
                self.move_home(at, bucket)?;
            }
        }
        Ok(removed)
    }

    /// As `sweep`, where no bucket of the table is empty: the first one removed makes the start.
    fn sweep_full(&mut self, keep: &mut impl FnMut(u64) -> bool) -> Result<u64, OperationError> {
        let mut at = Position::default();
        for _ in 0..self.layout().buckets() {
            let word = self.load(at)?;
            if Bucket::from_word(word).is_some_and(|bucket| !keep(bucket.data())) {
                self.store(at, 0)?;
                return Ok(1 + self.sweep_ring(at, keep)?);
            }
            at = self.layout().advance(at, 1);
        }
        Ok(0)
    }

    /// The whole ring is one cluster, begun behind `from`, which has just been emptied.
    ///
    /// Probe orders may lead over `from`, so a datum put right early on can have a hole opened
    /// in front of it later. Turns are repeated until nothing moves; each move brings a datum
    /// nearer to its home, so they end.
    fn sweep_ring(
        &mut self,
        from: Position,
        keep: &mut impl FnMut(u64) -> bool,
    ) -> Result<u64, OperationError> {
        let mut removed = 0;
        let mut moved = true;
        while moved {
            moved = false;
            let mut at = from;
            for _ in 0..self.layout().buckets() {
                at = self.layout().advance(at, 1);
                let word = self.load(at)?;
                let Some(bucket) = Bucket::from_word(word) else { continue };
                if keep(bucket.data()) {
                    moved |= self.move_home(at, bucket)?;
                } else {
                    self.store(at, 0)?;
                    removed += 1;
                }
            }
        }
        Ok(removed)
    }

    /// Moves the bucket at `from` to the first empty one from its home; false if it is there.
    fn move_home(&mut self, from: Position, bucket: Bucket) -> Result<bool, OperationError> {
        let mut to = self.layout().home(bucket);
        // Ends at `from` at the latest.
        while to != from && self.load(to)? != 0 {
            to = self.layout().advance(to, 1);
        }
        if to == from {
            return Ok(false);
        }
        self.store(to, bucket.word())?;
        self.store(from, 0)?;
        Ok(true)
    }

    /// Everybody's `mine`, added up; an error if anybody has one. All owners make both barriers.
    fn sum<E: Into<CollectiveError>>(
        &mut self,
        mine: Result<u64, E>,
        exchange: &mut (impl Exchange + ?Sized),
    ) -> Result<u64, CollectiveError> {
        self.sum_trying(1, mine, exchange)
    }

    /// As `sum`, with so many tries of each READ.
    fn sum_trying<E: Into<CollectiveError>>(
        &mut self,
        tries: u32,
        mine: Result<u64, E>,
        exchange: &mut (impl Exchange + ?Sized),
    ) -> Result<u64, CollectiveError> {
        let shown = self.show(SHOWN, *mine.as_ref().unwrap_or(&FAILED));
        exchange.barrier()?;
        let mine = mine.map_err(Into::into).and_then(|_| Ok(shown?));
        let sum = mine.and_then(|()| self.add_up(tries));
        exchange.barrier()?;
        sum
    }

    fn add_up(&mut self, tries: u32) -> Result<u64, CollectiveError> {
        let mut sum: u64 = 0;
        for owner in 0..self.layout().owners() {
            let shown = self.header(owner, SHOWN);
            let mut read = self.read_word(shown);
            for _ in 1..tries {
                if !matches!(read, Err(OperationError::Failed(_))) {
                    break;
                }
                read = self.read_word(shown);
            }
            match read? {
                FAILED => return Err(CollectiveError::PartFailed { owner: Owner(owner) }),
                theirs => sum = sum.saturating_add(theirs),
            }
        }
        Ok(sum)
    }

    fn agreed(&self) -> [u64; AGREED.len()] {
        let config = self.config();
        [
            MAGIC,
            VERSION,
            u64::from(self.layout().owners()),
            config.buckets_per_owner,
            u64::from(config.chunk_buckets) * u64::from(config.max_chunks),
            config.first_word,
            config.probing.number(),
        ]
    }

    pub(crate) fn write_header(&self) -> Result<(), OperationError> {
        (0..).zip(self.agreed()).try_for_each(|(at, value)| self.show(at, value))
    }

    fn header(&self, owner: u32, at: u64) -> RemoteWord {
        RemoteWord { owner: Owner(owner), index: self.config().first_word + at }
    }

    fn show(&self, at: u64, value: u64) -> Result<(), OperationError> {
        let index = usize::try_from(self.config().first_word + at).ok();
        let word = index.and_then(|index| self.transport().window().get(index));
        word.ok_or(OperationError::Window)?.store(value, Release);
        Ok(())
    }

    /// All of this owner's buckets.
    fn part(&self) -> Result<&[AtomicU64], OperationError> {
        let window = self.transport().window();
        let first = usize::try_from(self.layout().first_word()).ok();
        let count = usize::try_from(self.layout().buckets_per_owner()).ok();
        let part = first.zip(count).and_then(|(first, count)| window.get(first..)?.get(..count));
        part.ok_or(OperationError::Window)
    }

    /// This owner's buckets, for functions that return no error: [`Table::new`] has checked the
    /// window, and its length is fixed.
    pub(crate) fn buckets(&self) -> &[AtomicU64] {
        let part = self.part();
        debug_assert!(part.is_ok(), "the window has become shorter");
        part.unwrap_or_default()
    }

    /// The number of this owner's occupied buckets.
    fn occupied(&self) -> Result<u64, OperationError> {
        let occupied = |bucket: &&AtomicU64| Bucket::from_word(bucket.load(Acquire)).is_some();
        Ok(self.part()?.iter().filter(occupied).count() as u64)
    }

    fn me(&self) -> u32 {
        self.transport().geometry().me.0
    }

    fn first_empty(&self) -> Result<Option<Position>, OperationError> {
        let index = self.part()?.iter().position(|bucket| bucket.load(Acquire) == 0);
        Ok(index.map(|index| Position { owner: self.me(), index: index as u64 }))
    }

    fn quiesce(&mut self) -> Result<(), OperationError> {
        self.pipeline.quiesce()
    }

    /// A bucket of this owner; `None` for a bucket of another owner, which is read and written
    /// through the transport.
    fn own(&self, at: Position) -> Option<&AtomicU64> {
        if at.owner != self.me() {
            return None;
        }
        self.part().ok()?.get(usize::try_from(at.index).ok()?)
    }

    fn load(&mut self, at: Position) -> Result<u64, OperationError> {
        match self.own(at) {
            Some(bucket) => Ok(bucket.load(Acquire)),
            None => self.read_word(self.layout().word(at)),
        }
    }

    fn store(&mut self, at: Position, word: u64) -> Result<(), OperationError> {
        match self.own(at) {
            Some(bucket) => bucket.store(word, Release),
            None => self.write_word(self.layout().word(at), word)?,
        }
        Ok(())
    }

    fn read_word(&mut self, at: RemoteWord) -> Result<u64, OperationError> {
        let from = Segment { start: at, words: 1 };
        let posted = self.pipeline.transport_mut().read(TOKEN, from, LANDING);
        self.finish(posted)?;
        match self.transport().landed(LANDING)? {
            [word] => Ok(*word),
            _ => Err(SlotError::OutOfRange.into()),
        }
    }

    fn write_word(&mut self, at: RemoteWord, word: u64) -> Result<(), OperationError> {
        match self.pipeline.transport_mut().staged(LANDING)? {
            [staged] => *staged = word,
            _ => return Err(SlotError::OutOfRange.into()),
        }
        let to = Segment { start: at, words: 1 };
        let posted = self.pipeline.transport_mut().write(TOKEN, LANDING, to);
        self.finish(posted).map(drop)
    }

    /// Polls until the one operation in flight has ended, which the transport bounds, and gives the
    /// word that an atomic found. Where the post found the transport dead, the poll says why.
    fn finish(&mut self, posted: Result<(), PostError>) -> Result<u64, OperationError> {
        match posted {
            Ok(()) | Err(PostError::Closed) => {}
            Err(refused) => return Err(OperationError::Post(refused)),
        }
        let mut end = [Completion::default()];
        while self.pipeline.transport_mut().poll(&mut end)? == 0 {}
        let [end] = end;
        end.result.map_err(OperationError::Failed)
    }
}

/// Slot 0 belongs to an operation of the pipeline, which is at rest.
const LANDING: Local = Local { slot: Slot(0), start: 0, words: 1 };
const TOKEN: Token = Token(0);
