//! The region: accesses to ranges of elements, locks, and barriers.

use core::marker::PhantomData;
use core::sync::atomic::Ordering::SeqCst;
use core::sync::atomic::fence;

use bytemuck::{Pod, cast_slice, cast_slice_mut};
use probeline_pipeline::{
    Collective, CollectiveError, ConfigError, Error, Finished, Pipeline, Tag,
};
use probeline_transport::{Call, Exchange, Transport};

use crate::config::{Config, reach};
use crate::context::{Context, Stats, Task};
use crate::lock::{Hold, TAKE};
use crate::transfer::{Acquire, Outcome, Publish, Send, Transfer};

/// Storage for one operation in flight, such as `[Operation::EMPTY; 32]`.
pub type Operation = probeline_pipeline::Operation<Transfer>;

/// The name of the structure in collective calls.
pub(crate) const NAME: &str = "Region";

/// Results that one poll takes.
const RESULTS: usize = 4;
/// Fetched pages, or flushes, between two polls that only look for lost ranks.
const PER_POLL: u64 = 64;

/// An array of elements `T` that all ranks share, over an engine `E`, with storage `S` for operations in flight
/// and private memory `M`.
///
/// ```
/// use probeline_dsm::{Config, Operation, Region};
/// use probeline_shm::Builder;
/// use probeline_transport::Alone;
///
/// let config = Config::new(10_000);
/// let engine = Builder::new(config.sizes::<f64>(1, 16)).open(&mut Alone)?;
/// let memory = vec![0; config.memory_words::<f64>(1)];
/// let mut grid = Region::<f64, _, _, _>::open(engine, config, [Operation::EMPTY; 16], memory, &mut Alone)?;
///
/// grid.edit(0..100)?.fill(1.5);
/// grid.barrier(&mut Alone)?;
/// let (above, row) = (0..100, 100..200);
/// let ([above], [row]) = grid.access([above], [row])?;
/// row.copy_from_slice(above);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub struct Region<T, E, S, M> {
    pub(crate) pipeline: Pipeline<E, S, Context<M>, Transfer>,
    /// The number of elements.
    pub(crate) elements: usize,
    of: PhantomData<T>,
}

impl<T, E, S, M> Region<T, E, S, M>
where
    T: Pod,
    E: Transport,
    S: AsMut<[Operation]>,
    M: AsMut<[u64]>,
{
    /// Opens a region of zeros together with all other ranks, and checks that their parameters are equal. Of the
    /// element types it compares only the sizes.
    ///
    /// `memory` has [`Config::memory_words`] words of zeros. The region uses the slots of its operations, from
    /// slot 0 on, and the words of the window that its configuration names, all 0 as in a fresh window.
    ///
    /// # Errors
    /// [`CollectiveError`]: an invalid configuration, too little memory, a failed exchange, or a rank without
    /// the region or with other parameters.
    pub fn open(
        engine: E,
        config: Config,
        operations: S,
        memory: M,
        job: &mut (impl Exchange + ?Sized),
    ) -> Result<Self, CollectiveError> {
        let memory = match config.in_windows {
            false => Ok(memory),
            true => Err(ConfigError::Invalid("open a region in windows by open_in_windows").into()),
        };
        Self::open_with(engine, config, operations, memory, job)
    }

    /// Opens a region in the private memory that this rank has, if it has one.
    pub(crate) fn open_with(
        engine: E,
        config: Config,
        operations: S,
        memory: Result<M, CollectiveError>,
        job: &mut (impl Exchange + ?Sized),
    ) -> Result<Self, CollectiveError> {
        let owners = engine.geometry().owners;
        let opened = memory.and_then(|memory| Self::new(engine, config, operations, memory));
        let mut call = Collective::new(job, Call::method(NAME, "open"), 0);
        if opened.is_err() {
            call.fail();
            return opened;
        }
        call.agree(Ok(()), owners, config.parameters::<T>(), false)?;
        let number = call.calls();
        opened.map(|mut region| {
            region.pipeline.shared_mut().opened = number;
            region
        })
    }

    /// Creates the region of this rank.
    fn new(
        engine: E,
        config: Config,
        operations: S,
        mut memory: M,
    ) -> Result<Self, CollectiveError> {
        config.check::<T>(&engine)?;
        let geometry = engine.geometry();
        let layout = config.layout::<T>(geometry.owners);
        let (found, needed) = (memory.as_mut().len() as u64, layout.memory_words() as u64);
        ConfigError::check_range("the words of the memory", found, needed, u64::MAX)?;
        // The memory may be that of an earlier region; only pages and twins may keep their content.
        let pages = layout.parts[0] + layout.parts[1];
        memory.as_mut().get_mut(pages..).unwrap_or_default().fill(0);
        let mut context = Context::new(memory, layout, geometry.me, config.max_lock_reads);
        if config.in_windows {
            context.keep_homes()?;
        }
        let pipeline = Pipeline::new(engine, context, operations)?;
        Ok(Self::from_pipeline(pipeline, config.elements))
    }

    fn from_pipeline(pipeline: Pipeline<E, S, Context<M>, Transfer>, elements: u64) -> Self {
        // Checked to fit when the region was opened.
        Self { pipeline, elements: usize::try_from(elements).unwrap_or_default(), of: PhantomData }
    }

    /// Returns the region of a pipeline, with elements to the end of the last page.
    #[cfg(test)]
    pub(crate) fn with(pipeline: Pipeline<E, S, Context<M>, Transfer>) -> Self {
        let layout = pipeline.shared().layout;
        let words = u64::from(layout.page_count) * u64::from(layout.page_words);
        Self::from_pipeline(pipeline, words * 8 / size_of::<T>() as u64)
    }

    #[cfg(test)]
    pub(crate) fn into_pipeline(self) -> Pipeline<E, S, Context<M>, Transfer> {
        self.pipeline
    }

    /// Acquires a lock: later accesses see the changes of all its earlier holders, and all changes that these have
    /// seen. Two roundtrips, a fetch-and-add and a READ, if the lock is free. With a [directory](Config::directory) two
    /// fetch-and-adds, and after changes that this rank was told of as many READs as slots hold a byte for each page.
    /// Where the CPU addresses the lock's word, it takes the ticket itself. Ranks get the lock in the order of their
    /// requests.
    ///
    /// # Errors
    /// [`Error::LockWait`] if others hold it for longer than [`Config::max_lock_reads`] READs: this rank keeps its
    /// place, and must continue with another acquire of the lock. [`Error::UnknownLock`] for a lock that does not
    /// exist, [`Error::Lock`] if this rank holds it. Otherwise as for [`access`](Self::access). A rank that is lost while
    /// it holds the lock is a fault of a transport that [names lost owners]; one whose region has failed keeps
    /// the lock.
    ///
    /// [names lost owners]: probeline_transport::Caps::names_lost_owners
    pub fn acquire(&mut self, lock: u32) -> Result<(), Error> {
        self.start_acquire(lock)?;
        self.finish()
    }

    /// Starts [`acquire`](Self::acquire), which [`poll`](Self::poll) continues.
    ///
    /// # Errors
    /// As for [`acquire`](Self::acquire).
    pub fn start_acquire(&mut self, lock: u32) -> Result<(), Error> {
        self.check_idle()?;
        let hold = self.pipeline.shared_mut().lock_state(lock)?.hold();
        if hold == Hold::Holds {
            return Err(Error::Lock { lock, is_held: true });
        }
        if hold == Hold::Waits || !self.take_ticket(lock)? {
            self.pipeline.shared_mut().task = Task::Acquire { lock };
        }
        self.step().map(drop)
    }

    /// Takes a ticket by the CPU, and the lock if it is free. Returns false if the CPU does not address the lock's word,
    /// or no operation is free.
    fn take_ticket(&mut self, lock: u32) -> Result<bool, Error> {
        let has_room = self.pipeline.has_room() && self.pipeline.fault().is_none();
        let (transport, context) = self.pipeline.parts();
        let tickets = reach(transport, context.layout.tickets(lock)).filter(|_| has_room);
        let Some([word]) = tickets else { return Ok(false) };
        if let Some(acquire) = Acquire::with_ticket(lock, word.fetch_add(TAKE, SeqCst), context)? {
            context.task = Task::Started;
            self.submit(acquire)?;
        }
        Ok(true)
    }

    /// Passes a lock on by the CPU. Returns false if the CPU does not address the lock's word, or notices must be
    /// published first.
    fn pass_on(&mut self, lock: u32) -> Result<bool, Error> {
        let (transport, context) = self.pipeline.parts();
        let tickets = reach(transport, context.layout.tickets(lock));
        let Some([word]) = tickets else { return Ok(false) };
        if !context.has_published(lock)? {
            return Ok(false);
        }
        word.fetch_add(context.lock_state(lock)?.pass_on(false), SeqCst);
        context.task = Task::None;
        // A rank that takes and passes on locks all the time lets a transport progress, and notices a lost rank.
        self.take_results()?;
        Ok(true)
    }

    /// Releases a lock: the next holder sees all changes of this rank. First sends the changes of all edited
    /// pages, as many in flight as the operations and the transport allow, and waits for them; then passes the
    /// lock on, with one roundtrip, and a second one before it if there are changes to tell. With a
    /// [directory](Config::directory) there is no second one, but a page that this rank changes for the first time takes
    /// up to three: to register, and to tell those that may have it. Where the CPU addresses the lock's word, it passes the
    /// lock on itself if there are no changes to tell, without a roundtrip.
    ///
    /// # Errors
    /// [`Error::Lock`] if this rank does not hold it, otherwise as for [`access`](Self::access).
    pub fn release(&mut self, lock: u32) -> Result<(), Error> {
        self.start_release(lock)?;
        self.finish()
    }

    /// Starts [`release`](Self::release), which [`poll`](Self::poll) continues.
    ///
    /// # Errors
    /// As for [`release`](Self::release).
    pub fn start_release(&mut self, lock: u32) -> Result<(), Error> {
        self.check_idle()?;
        if self.pipeline.shared_mut().lock_state(lock)?.hold() != Hold::Holds {
            return Err(Error::Lock { lock, is_held: false });
        }
        self.start_flush(Some(lock))
    }

    /// Waits for all ranks: afterwards each sees all changes of all. Finishes what was started, sends the changes of
    /// all edited pages, and makes one all-gather.
    ///
    /// # Errors
    /// [`CollectiveError`]: an operation failed here, before or now, or [`CollectiveError::PartFailed`] if one
    /// failed on another rank, or [`CollectiveError::OtherBarrier`]. Then each rank's region refuses everything; after other
    /// barriers close both regions.
    /// With [`Error::LockWait`] of an acquire that was started, all ranks have passed the barrier, and this one still
    /// waits for its lock: acquire it again.
    pub fn barrier(&mut self, job: &mut (impl Exchange + ?Sized)) -> Result<(), CollectiveError> {
        let (exchange, engine) = (job.owners(), self.pipeline.shared().layout.owners);
        if exchange != engine {
            return Err(CollectiveError::Owners { exchange, engine });
        }
        let (sent, waits) = self.send_all();
        let passed = self.exchange_notices(sent.is_err(), job);
        let result = sent.map_err(CollectiveError::from).and(passed);
        if result.is_err() {
            self.pipeline.shared_mut().failed.get_or_insert(Error::BarrierFailed);
        }
        result.and(waits.map_err(CollectiveError::from))
    }

    /// Finishes what was started, and sends the changes of all edited pages. Returns beside the result the one of an
    /// acquire: who waits for a lock keeps its place.
    pub(crate) fn send_all(&mut self) -> (Result<(), Error>, Result<(), Error>) {
        let (finished, waits) = match self.finish() {
            Err(waits @ Error::LockWait { .. }) => (Ok(()), Err(waits)),
            finished => (finished, Ok(())),
        };
        let sent = finished.and_then(|()| {
            self.start_flush(None)?;
            self.finish()
        });
        (sent, waits)
    }

    /// Starts to send the changes of all edited pages ahead of [`barrier`](Self::barrier), which then has
    /// less to send; [`poll`](Self::poll) continues it.
    ///
    /// # Errors
    /// As for [`access`](Self::access).
    pub fn start_barrier(&mut self) -> Result<(), Error> {
        self.check_idle()?;
        self.start_flush(None)
    }

    /// Exchanges what all ranks have changed, or that one has failed.
    pub(crate) fn exchange_notices(
        &mut self,
        has_failed: bool,
        job: &mut (impl Exchange + ?Sized),
    ) -> Result<(), CollectiveError> {
        let context = self.pipeline.shared_mut();
        context.fill_message(has_failed)?;
        let (parts, layout, ..) = context.parts()?;
        let messages = parts.messages.split_at_mut_checked(layout.message_words());
        let (mine, all) = messages.ok_or(Error::Window)?;
        job.all_gather(cast_slice(mine), cast_slice_mut(all))?;
        context.take_messages()
    }

    /// Continues the acquire, release or flush that was started. Returns whether none is left: `while !region.poll()? {}`
    /// waits for it. Never blocks.
    ///
    /// # Errors
    /// As for the call that started it. If none was started, the loss of an owner, a failed READ of a prefetch, or the
    /// earlier error of a region that has failed.
    pub fn poll(&mut self) -> Result<bool, Error> {
        if self.pipeline.shared().task != Task::None {
            return self.step();
        }
        self.check()?;
        self.take_results().map(|()| true)
    }

    /// Continues what was started, and returns whether nothing is left.
    fn step(&mut self) -> Result<bool, Error> {
        self.check()?;
        self.submit_changes()?;
        self.end_flush()?;
        self.submit_task()?;
        self.progress()?;
        Ok(self.pipeline.shared().task == Task::None)
    }

    /// Ends a flush all of whose changes have arrived.
    fn end_flush(&mut self) -> Result<(), Error> {
        let Context { task, edited, .. } = *self.pipeline.shared();
        let Task::Flush { next, left, release } = task else { return Ok(()) };
        #[cfg(test)]
        let left = crate::model::waits_for(left);
        if left > 0 || next < edited {
            return Ok(());
        }
        // What this rank tells others from here on, they read after the words that it has stored.
        fence(SeqCst);
        let context = self.pipeline.shared_mut();
        let has_edits = context.end_edits()?;
        context.task = release.map_or(Task::None, |lock| Task::Release { lock });
        // A release polls when it passes the lock on.
        if has_edits && release.is_none() {
            self.notice_losses(|stats| stats.flushes)?;
        }
        Ok(())
    }

    /// Starts the operation of an acquire or release. Pages that are being read may hold all operations.
    fn submit_task(&mut self) -> Result<(), Error> {
        let is_passed_on = match self.pipeline.shared().task {
            Task::Release { lock } => self.pass_on(lock)?,
            _ => false,
        };
        if is_passed_on || !self.pipeline.has_room() {
            return Ok(());
        }
        let context = self.pipeline.shared_mut();
        let transfer = match context.task {
            Task::Acquire { lock } => Acquire::start(lock, context.lock_state(lock)?.hold()),
            Task::Release { lock } => Publish::start(lock),
            Task::None | Task::Started | Task::Flush { .. } => return Ok(()),
        };
        context.task = Task::Started;
        self.submit(transfer)
    }

    /// Polls until nothing is left to do; the transport bounds the wait for each operation.
    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        let mut polls = 0_u64;
        let finished = loop {
            match self.step() {
                Ok(false) => polls += 1,
                finished => break finished.map(drop),
            }
        };
        self.pipeline.shared_mut().stats.waits += u64::from(polls > 0);
        finished
    }

    /// Starts to send the changes of all edited pages, and to release a lock after them, if one is given.
    pub(crate) fn start_flush(&mut self, release: Option<u32>) -> Result<(), Error> {
        let context = self.pipeline.shared_mut();
        context.task = Task::Flush { next: 0, left: 0, release };
        context.compare_edits()
    }

    /// Stores the changes of edited pages, or submits them as long as there are free operations.
    fn submit_changes(&mut self) -> Result<(), Error> {
        while let Context { task: Task::Flush { next, left, release }, edited, .. } =
            *self.pipeline.shared_mut()
            && next < edited
        {
            let has_room = self.pipeline.has_room();
            let (transport, context) = self.pipeline.parts();
            let edit = context.send_direct(transport, next)?;
            let is_posted = u32::from(has_room && edit < edited);
            context.task = Task::Flush { next: edit + is_posted, left: left + is_posted, release };
            if is_posted == 0 {
                break;
            }
            self.submit(Send::start(edit))?;
        }
        Ok(())
    }

    pub(crate) fn submit(&mut self, transfer: Transfer) -> Result<(), Error> {
        let submitted = self.pipeline.submit(Tag(0), transfer);
        submitted.inspect_err(|error| self.pipeline.shared_mut().failed = Some(*error))
    }

    /// Polls the transport at each [`PER_POLL`]th of what `count` counts, so that a rank that posts nothing notices lost
    /// ranks.
    pub(crate) fn notice_losses(&mut self, count: fn(&Stats) -> u64) -> Result<(), Error> {
        let count = count(&self.pipeline.shared().stats);
        if count > 0 && count.is_multiple_of(PER_POLL) { self.take_results() } else { Ok(()) }
    }

    /// Polls the transport once, if operations are in flight.
    pub(crate) fn progress(&mut self) -> Result<(), Error> {
        if self.pipeline.in_flight() == 0 { Ok(()) } else { self.take_results() }
    }

    /// Polls the transport once, and takes the results of operations.
    pub(crate) fn take_results(&mut self) -> Result<(), Error> {
        let mut out = [Finished::default(); RESULTS];
        let polled = self.pipeline.poll_into(&mut out).map(<[_]>::len);
        let count = polled.inspect_err(|error| self.pipeline.shared_mut().failed = Some(*error))?;
        let context = self.pipeline.shared_mut();
        let mut waits = Ok(());
        for Finished { result, .. } in out.iter().take(count) {
            match (result, &mut context.task) {
                (Ok(Outcome::Sent), Task::Flush { left, .. }) => *left -= 1,
                (Ok(Outcome::Fetched | Outcome::Sent), _) => {}
                (Ok(Outcome::Waiting), task) => {
                    *task = Task::None;
                    waits = Err(Error::LockWait { lock_reads: context.max_lock_reads });
                }
                (Ok(_), task) => *task = Task::None,
                (Err(error), _) => context.failed = Some(*error),
            }
        }
        self.check().and(waits)
    }

    fn check(&self) -> Result<(), Error> {
        self.pipeline.shared().failed.map_or(Ok(()), Err)
    }

    pub(crate) fn check_idle(&self) -> Result<(), Error> {
        self.check()?;
        if self.pipeline.shared().task == Task::None { Ok(()) } else { Err(Error::InProgress) }
    }

    /// Returns the number of elements.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "it is at least 1")]
    pub fn len(&self) -> usize {
        self.elements
    }

    /// Returns what this rank's region has done.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.pipeline.shared().stats
    }

    /// Returns the engine, for reading.
    #[must_use]
    pub fn engine(&self) -> &E {
        self.pipeline.transport()
    }

    /// Returns the engine, for its clock. Do not post on it, and do not take its completions: the region waits for
    /// its own.
    #[must_use]
    pub fn engine_mut(&mut self) -> &mut E {
        self.pipeline.transport_mut()
    }

    /// Waits until no operation is in flight, and returns the engine, even a dead one. Changes that were not
    /// released are lost.
    pub fn into_engine(mut self) -> E {
        // A dead engine reports its fault to its next user.
        self.pipeline.quiesce().ok();
        self.pipeline.into_transport()
    }
}
