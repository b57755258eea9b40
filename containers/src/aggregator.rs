//! Aggregated messages: small messages to any rank, which travel in blocks of one WRITE each.
//!
//! Each rank has in its window a ring of blocks from each rank: the *lane* from that rank. A sender fills a
//! block with messages and WRITEs it to the next place of its lane, without an atomic. The receiver looks at
//! its own window, and takes blocks in order.
//!
//! # The rule
//!
//! A block begins with a check, a hash of its number in the lane and of all other words. The receiver takes a
//! block only if it has the check of the next number. A block that has arrived in part, that is torn, or that
//! is of an earlier turn of the ring does not have it (but for one in 2^63); one that has it is complete,
//! because a number is written once. A sender writes a block only when the receiver has taken the last block of the same place. It learns so from
//! a count in the receiver's window, which only grows: an old one only makes the sender wait. It also waits
//! for its own last WRITE of the place.
//!
//! In a job of more than [`Config::one_hop`] ranks, a rank has lanes from the ranks of its row and of its column in
//! a grid only, so that their memory grows with the square root of the ranks. A message then carries its sender and
//! its receiver, and a rank between them passes it on, in its own progress and flush. If the next block has no room,
//! the rest of the block that brought it waits. A flush ends all lanes twice: when a rank has the first ends of all
//! its lanes, it has all messages that it must pass on, and when it has the second ones, all that are for it.
//!
//! A WRITE that failed may have lost its messages: the aggregator then returns its error from every call.

mod carry;
mod lanes;
#[cfg(test)]
mod model;

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use probeline_pipeline::{CollectiveError, Error, Finished, Plain, Structure, Tag, words};
use probeline_transport::{AtomicScope, Exchange, Owner, PostError, Sizes, Transport};

use self::carry::{Action, Carry};
use self::lanes::{HEADER_WORDS, Lanes, State, ends_of_route, header};
use crate::element::{Each, sizes};

/// The most ranks of a job.
pub const MAX_RANKS: u32 = 1024;
/// The most lanes to a rank, and from it.
const MAX_LANES: u32 = if cfg!(test) { 3 } else { 64 };
/// Results that one poll takes.
const POLLED: usize = 16;

/// Storage for one operation in flight, such as `[Operation::EMPTY; 32]`.
pub type Operation = probeline_pipeline::Operation<Carry>;

/// A function that delivers a run of messages from one rank, given their number and their words.
type Deliver<'d> = &'d mut dyn FnMut(Owner, u32, &[AtomicU64]);

/// Returns a function that passes the messages of a run to `deliver` one by one. The code that sends and receives is
/// then compiled once, not for each type of `deliver`.
fn each_run<V: Plain>(
    message_bytes: usize,
    mut deliver: impl FnMut(Owner, V),
) -> impl FnMut(Owner, u32, &[AtomicU64]) {
    move |from, count, words| {
        let mut words = words.iter().map(|word| word.load(Relaxed));
        for _ in 0..count {
            deliver(from, V::from_words(&mut words, message_bytes));
        }
    }
}

/// The parameters of an aggregator. All owners give the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Messages of a block, 1 to 65,536.
    pub block: u32,
    /// Blocks of a lane, 1 to 64.
    pub blocks: u32,
    /// The most ranks that send to each other directly, 1 to 64. In a job of more, messages take two hops.
    pub one_hop: u32,
    /// The first word of each window that the aggregator uses.
    pub first_word: u64,
    /// Bytes of a message, if its type leaves the size open.
    pub message_bytes: usize,
    /// Steps in a row in which no message arrives, after which a flush fails: 2^30 are a minute or more. Each
    /// rank may have its own.
    pub max_idle: u64,
}

impl Default for Config {
    fn default() -> Self {
        let (first_word, message_bytes) = (0, 0);
        Self { block: 254, blocks: 4, one_hop: 64, first_word, message_bytes, max_idle: 1 << 30 }
    }
}

impl Config {
    /// Returns the sizes of an engine for messages `V` in a job of this many owners, with as many
    /// operations in flight.
    #[must_use]
    pub fn sizes<V: Plain>(&self, owners: u32, operations: u32) -> Sizes {
        sizes::<Lanes<V>>(self, owners, operations)
    }

    fn bytes<V: Plain>(&self) -> usize {
        V::SIZE.unwrap_or(self.message_bytes)
    }
}

/// Sends messages `V` to all ranks and delivers those of all ranks, over an engine `T`, with storage `S` for
/// operations in flight. For jobs of up to [`MAX_RANKS`] ranks.
///
/// It dereferences to [`Structure`], for reading only: operations of its own are in flight.
///
/// Nothing is lost: [`send`](Self::send) refuses a message while its lane is full, and
/// [`flush`](Self::flush) returns when all messages of all ranks were delivered. A rank that drops its
/// aggregator before a flush makes the flush of the others fail.
///
/// ```
/// use probeline_containers::aggregator::{Aggregator, Config, Operation};
/// use probeline_shm::Builder;
/// use probeline_transport::{Alone, Owner};
///
/// let config = Config::default();
/// let engine = Builder::new(config.sizes::<u64>(1, 8)).open(&mut Alone)?;
/// let mut messages = Aggregator::open(engine, config, [Operation::EMPTY; 8], &mut Alone)?;
/// let mut sum = 0;
/// for number in 0..10_000_u64 {
///     // The receiver takes messages in its progress.
///     while !messages.send(Owner(0), &number)? {
///         messages.progress(|_, number| sum += number)?;
///     }
/// }
/// messages.flush(&mut Alone, |_, number| sum += number)?;
/// assert_eq!(sum, 9_999 * 5_000);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub struct Aggregator<T, S, V: Plain>(
    Structure<T, S, Each<Lanes<V>>>,
    /// The first failure, after which messages may be lost.
    Option<Error>,
);

probeline_pipeline::front!(ref [V: Plain] Aggregator<V>, Each<Lanes<V>>, None);

impl<T, S, V> Aggregator<T, S, V>
where
    T: Transport,
    S: AsMut<[Operation]>,
    V: Plain,
{
    /// Sends a message to `to`, which may be this rank. Returns false if the lane is full and the message
    /// was not taken: call [`progress`](Self::progress), and send it again. Never blocks.
    ///
    /// A message costs a copy to the own window; its block is sent when it is full.
    ///
    /// # Errors
    /// [`PostError::UnknownOwner`]; [`PostError::OutOfRange`] for a message of more than
    /// [`Config::message_bytes`]; the first failure of this aggregator.
    #[inline]
    pub fn send(&mut self, to: Owner, message: &V) -> Result<bool, Error> {
        self.check_failed()?;
        let (transport, context) = self.0.pipeline().parts();
        if to.0 >= context.detail.grid.owners {
            return Err(PostError::UnknownOwner.into());
        }
        let next = context.detail.grid.next(context.me, to);
        if !context.append((next, to), message, transport.window())? {
            return Ok(false);
        }
        if context.lane(next).filled >= context.detail.block {
            self.submit(next, Action::Send)?;
        }
        Ok(true)
    }

    /// Sends a message as [`send`](Self::send), and delivers others while its lane is full.
    ///
    /// # Errors
    /// As for [`send`](Self::send). [`Error::Undelivered`] if nothing has arrived for [`Config::max_idle`] steps.
    #[inline]
    pub fn send_and_deliver(
        &mut self,
        to: Owner,
        message: &V,
        deliver: impl FnMut(Owner, V),
    ) -> Result<(), Error> {
        let mut deliver = each_run(self.context().detail.message_bytes, deliver);
        self.step_until(|all| all.send(to, message), true, &mut deliver)
    }

    /// Sends full blocks, and delivers messages that have arrived: calls `deliver` with the rank that sent
    /// each, in the order in which that rank sent them. Never blocks, whatever the number of operations.
    /// A block whose delivery a panic has interrupted is delivered again; with two hops, what is left of it.
    ///
    /// # Errors
    /// The first failure of this aggregator, or of a flush; a failure of another rank shows in a flush only.
    pub fn progress(&mut self, deliver: impl FnMut(Owner, V)) -> Result<(), Error> {
        let mut deliver = each_run(self.context().detail.message_bytes, deliver);
        self.step(true, &mut deliver)
    }

    /// Sends all messages, and delivers those of all ranks until none is left. Collective: all ranks call it,
    /// and none returns before all messages sent before it were delivered everywhere.
    ///
    /// Each lane ends with a block that is marked as the last, twice if messages take two hops. A rank goes on to
    /// deliver until it has the last blocks of all its lanes; then all ranks compare the numbers of messages sent and
    /// delivered.
    ///
    /// # Errors
    /// [`CollectiveError`]: a failure of this rank, or of another. [`Error::Undelivered`] if nothing has
    /// arrived for [`Config::max_idle`] steps, or the numbers differ.
    pub fn flush(
        &mut self,
        exchange: &mut (impl Exchange + ?Sized),
        deliver: impl FnMut(Owner, V),
    ) -> Result<(), CollectiveError> {
        let mut deliver = each_run(self.context().detail.message_bytes, deliver);
        // The lanes to this rank bring what it passes on, then what others have passed on.
        let mut hops = 0..self.context().detail.grid.hops();
        let ended = hops.try_for_each(|_| self.deliver_all(&mut deliver));
        let ended = ended.map_err(CollectiveError::from);
        let State { accepted, delivered, .. } = self.context().detail;
        let mut call = self.0.begin_collective(exchange, "flush");
        let flushed = call.sum(ended.map(|()| accepted)).and_then(|accepted| {
            let delivered = call.sum(Ok::<u64, CollectiveError>(delivered))?;
            if accepted == delivered { Ok(()) } else { Err(Error::Undelivered.into()) }
        });
        self.ended(flushed)
    }

    /// Removes all messages that were not delivered. Collective; delivers nothing, so no rank may be waiting
    /// for room in a lane.
    ///
    /// # Errors
    /// As for [`Structure::clear`].
    pub fn clear(
        &mut self,
        exchange: &mut (impl Exchange + ?Sized),
    ) -> Result<(), CollectiveError> {
        let cleared = self.0.clear(exchange);
        self.ended(cleared)
    }

    /// Returns the number of messages of all ranks that were taken and whose blocks were not sent. Collective;
    /// delivers nothing, as [`clear`](Self::clear).
    ///
    /// # Errors
    /// As for [`Structure::len`].
    pub fn len(&mut self, exchange: &mut (impl Exchange + ?Sized)) -> Result<u64, CollectiveError> {
        self.0.len(exchange)
    }

    /// Ends all lanes, and sends and delivers until all lanes to this rank have ended.
    fn deliver_all(&mut self, deliver: Deliver<'_>) -> Result<(), Error> {
        self.0.pipeline().shared_mut().detail.flushes += 1;
        let has_all = |all: &mut Self| Ok(all.context().has_all() && all.in_flight() == 0);
        self.step_until(has_all, false, deliver)
    }

    /// Steps until `is_done`. Fails with [`Error::Undelivered`] after more than `max_idle` steps in a row in which no
    /// message has arrived.
    #[inline]
    fn step_until(
        &mut self,
        mut is_done: impl FnMut(&mut Self) -> Result<bool, Error>,
        looks_at_all: bool,
        deliver: Deliver<'_>,
    ) -> Result<(), Error> {
        let (mut before, mut idle) = (0, 0);
        while !is_done(self)? {
            self.step(looks_at_all, deliver)?;
            let arrived = self.context().detail.delivered + self.context().detail.passed_on;
            idle = if arrived == before { idle + 1 } else { 0 };
            before = arrived;
            if idle > self.config().max_idle {
                return Err(Error::Undelivered);
            }
        }
        Ok(())
    }

    /// Sends full blocks, or the last ones of a flush, and delivers the messages that have arrived. With
    /// `looks_at_all` it also receives from lanes that have ended: they bring more if ranks pass messages on, and
    /// outside of a flush.
    fn step(&mut self, looks_at_all: bool, deliver: Deliver<'_>) -> Result<(), Error> {
        self.check_failed()?;
        let mut out = [Finished::default(); POLLED];
        let ended = self.0.poll_into(&mut out);
        for finished in self.noted(ended)? {
            self.noted(finished.result)?;
        }
        let (me, &State { grid, turn, .. }) = (self.context().me, &self.context().detail);
        let lanes = grid.lanes();
        let looks_at_all = looks_at_all || grid.hops() > 1 && !self.context().has_all();
        // First blocks are sent, then those that arrive are passed on, before this rank fills others.
        for duty in (turn..2 * lanes).chain(0..turn) {
            let lane = duty.checked_sub(lanes);
            let Some(peer) = grid.peer(me, lane.unwrap_or(duty)) else { continue };
            let is_done = if lane.is_some() {
                self.receive(peer, looks_at_all, deliver)?
            } else {
                !self.context().is_due(peer) || self.submit(peer, Action::Send)?
            };
            if !is_done {
                // No operation is free. The next step begins here, so that each gets its turn.
                self.0.pipeline().shared_mut().detail.turn = duty;
                break;
            }
        }
        Ok(())
    }

    /// Receives from a rank what has arrived. Returns false if that needs an operation, and none is free.
    fn receive(
        &mut self,
        peer: Owner,
        looks_at_all: bool,
        deliver: Deliver<'_>,
    ) -> Result<bool, Error> {
        if self.transport().caps().atomics == AtomicScope::Cpu {
            self.take(peer, deliver)?;
            return Ok(true);
        }
        let (brought, held) = (self.context().brought_at(peer), self.context().lane(peer).held);
        if !self.deliver(peer, brought, held, deliver)? {
            return Ok(true);
        }
        let context = self.0.pipeline().shared_mut();
        let (flushes, lane) = (context.detail.flushes, context.lane_mut(peer));
        lane.held = 0;
        let is_awaited = looks_at_all || lane.ends_received < flushes;
        Ok(!is_awaited || lane.is_looking || self.submit(peer, Action::Receive)?)
    }

    /// Submits an operation on the lane to or from a rank. Returns false if none is free.
    fn submit(&mut self, peer: Owner, action: Action) -> Result<bool, Error> {
        if !self.0.has_room() {
            return Ok(false);
        }
        let lane = self.0.pipeline().shared_mut().lane_mut(peer);
        match action {
            Action::Receive => lane.is_looking = true,
            _ => lane.is_closed = true,
        }
        // The operation changes the lane itself; only its failure is of interest here.
        let submitted = self.0.submit(Tag(0), &peer, action);
        self.noted(submitted.map(|()| true))
    }

    /// Delivers the blocks from a rank that are in the window, which the CPU sees at once.
    fn take(&mut self, peer: Owner, deliver: Deliver<'_>) -> Result<(), Error> {
        for _ in 0..self.context().detail.blocks {
            let (context, window) = (self.context(), self.transport().window());
            let (me, number) = (context.me, context.lane(peer).received);
            let at = context.block_at(me, peer, number).start.index;
            let block = words(window, at, context.detail.block_words.into())?;
            let loaded = block.iter().map(|word| word.load(Acquire));
            let Some(header) = header(loaded, number, context) else { break };
            if !self.deliver(peer, at, header.count, deliver)? {
                break;
            }
            let (transport, context) = self.0.pipeline().parts();
            context.lane_mut(peer).receive(header);
            let taken = words(transport.window(), context.taken_word(me, peer).index, 1)?;
            taken.iter().for_each(|word| word.store(number + 1, Release));
        }
        Ok(())
    }

    /// Delivers the messages of a complete block at this word of the own window, or passes them on. Returns false if
    /// one has no room yet: another call goes on with it.
    fn deliver(
        &mut self,
        peer: Owner,
        at: u64,
        count: u32,
        deliver: Deliver<'_>,
    ) -> Result<bool, Error> {
        let (transport, context) = self.0.pipeline().parts();
        let (window, len) = (transport.window(), context.detail.message_words);
        let words_of_all = u64::from(count) * u64::from(len);
        let block = words(window, at + u64::from(HEADER_WORDS), words_of_all)?;
        if context.detail.grid.hops() == 1 {
            deliver(peer, count, block);
            context.detail.delivered += u64::from(count);
            return Ok(true);
        }
        let passed = context.lane(peer).passed as usize;
        for message in block.chunks_exact(len.max(1) as usize).skip(passed) {
            let Some((route, words)) = message.split_first() else { break };
            let (from, to) = ends_of_route(route.load(Relaxed));
            if to == context.me {
                context.lane_mut(peer).passed += 1;
                context.detail.delivered += 1;
                deliver(from, 1, words);
            } else if context.detail.grid.next(context.me, to) != to
                || to.0 >= context.detail.grid.owners
            {
                return self.noted(Err(PostError::UnknownOwner.into()));
            } else if context.pass_on(to, message, window)? {
                context.lane_mut(peer).passed += 1;
            } else {
                return Ok(false);
            }
        }
        context.lane_mut(peer).passed = 0;
        Ok(true)
    }

    /// Notes that a collective call has failed, here or on another rank.
    fn ended(&mut self, result: Result<(), CollectiveError>) -> Result<(), CollectiveError> {
        if result.is_err() {
            self.1 = self.1.or(Some(Error::Undelivered));
        }
        result
    }

    fn check_failed(&self) -> Result<(), Error> {
        self.1.map_or(Ok(()), Err)
    }

    /// Notes a failure for later calls.
    fn noted<R>(&mut self, result: Result<R, Error>) -> Result<R, Error> {
        if let Err(error) = &result {
            self.1 = self.1.or(Some(*error));
        }
        result
    }
}
