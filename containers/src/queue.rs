//! Queues: one ring of values on each owner, into which all ranks push and from which all ranks pop.
//!
//! # The rule
//!
//! Each ring has two counters: the *tail* numbers pushes, the *head* numbers pops, from 0 on and
//! without end. A push takes the ticket that a fetch-and-add of the tail returns, and WRITEs its value to
//! the ticket's slot, with a check: a hash of the ticket and of the value. A pop READs the slot of the
//! head, and takes the value by a compare-and-swap of the head. So
//!
//! - a ticket is never undone, and each has one push and one pop;
//! - a READ that is stale, torn or repeated shows words that do not have the check of this ticket (but for
//!   one in 2^63): the pop waits. Words that have it are the value, because a ticket is written once;
//! - the value is read before the head passes it, and a slot is written only when the head has passed the
//!   slot's last ticket, so no value is overwritten before it is popped, and a pop that loses the
//!   compare-and-swap has only read in vain. When a value is popped, the WRITE of its push may still be in flight.
//!   All its words have taken effect by then, and each takes effect once ([`Transport`]);
//! - counters only grow, so what a client knows of them are lower bounds. *Full* compares a tail seen
//!   before with the true head, and *empty* a head seen before with the true tail: both were so at that
//!   moment.
//!
//! A push or pop that failed has an unknown outcome; a ticket may then remain without a value. Pops that
//! reach it return [`Error::Unfinished`] with the ticket, as they do while a slow push has its ticket and
//! not yet written. If the rank of the push is lost, [`Queue::skip`] passes the ticket.

mod access;
#[cfg(test)]
mod model;
mod ring;

use probeline_pipeline::{BatchError, Error, Plain};
use probeline_transport::{Owner, Sizes, Transport, WORD_BYTES};

use self::access::Access;
pub use self::access::{Action, Outcome};
pub use self::ring::Ring;
use crate::batch::run_posted;
use crate::element::{Container, sizes};

/// The most values that a pop reads together.
const MAX_BLOCK: usize = 64;

/// Storage for one operation in flight, such as `[Operation::EMPTY; 32]`.
pub type Operation<V> = probeline_pipeline::Operation<Access<V>>;
/// The result of a submitted operation.
pub type Finished<V> = probeline_pipeline::Finished<Outcome<V>>;

/// The parameters of a queue. All owners give the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Values that the ring of each owner holds before it is full, at least 1.
    pub capacity: u64,
    /// Pushes in flight of a rank at once, and values of a batch that take their tickets together. Each
    /// ring has two further slots for each of them and each rank, so that no push waits for a slot.
    pub in_flight: u32,
    /// The first word of each window that the queue uses.
    pub first_word: u64,
    /// Bytes of a value, if its type leaves the size open.
    pub value_bytes: usize,
}

impl Config {
    /// Returns the configuration of rings for this many values.
    #[must_use]
    pub const fn new(capacity: u64) -> Self {
        Self { capacity, in_flight: 64, first_word: 0, value_bytes: 0 }
    }

    /// Returns the sizes of an engine for queues of `V` in a job of this many owners, with as many
    /// operations in flight.
    #[must_use]
    pub fn sizes<V: Plain>(&self, owners: u32, operations: u32) -> Sizes {
        sizes::<Ring<V>>(self, owners, operations)
    }

    /// Returns the slots of a ring.
    pub(crate) fn slots(&self, owners: u32) -> u64 {
        let spare = (2 * u64::from(owners)).saturating_mul(self.in_flight.into());
        self.capacity.saturating_add(spare)
    }

    pub(crate) fn bytes<V: Plain>(&self) -> usize {
        V::SIZE.unwrap_or(self.value_bytes)
    }

    /// Returns the words of a slot: those of a value, and the check.
    pub(crate) fn slot_words<V: Plain>(&self) -> u32 {
        let words = self.bytes::<V>().div_ceil(WORD_BYTES) + 1;
        u32::try_from(words).unwrap_or(u32::MAX)
    }
}

/// A ring of values `V` on each owner, over an engine `T`, with storage `S` for operations in flight.
/// Values leave a ring in the order of their tickets.
///
/// ```
/// use probeline_containers::queue::{Config, Operation, Queue};
/// use probeline_shm::Builder;
/// use probeline_transport::{Alone, Owner};
///
/// let config = Config::new(100);
/// let engine = Builder::new(config.sizes::<[u32; 4]>(1, 32)).open(&mut Alone)?;
/// let mut queue = Queue::open(engine, config, [Operation::EMPTY; 32], &mut Alone)?;
/// let host = Owner(0);
///
/// assert!(queue.push(host, &[1, 2, 3, 4])?);
/// assert_eq!(queue.push_batch(host, &[[5; 4], [6; 4]])?, 2);
/// assert_eq!(queue.pop(host)?, Some([1, 2, 3, 4]));
/// let mut values = [[0; 4]; 8];
/// assert_eq!(queue.pop_batch(host, &mut values)?, 2);
/// assert_eq!(queue.pop(host)?, None);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub type Queue<T, S, V> = Container<T, S, Ring<V>>;

impl<T, S, V> Queue<T, S, V>
where
    T: Transport,
    S: AsMut<[Operation<V>]>,
    V: Plain,
{
    /// Pushes a value to the ring of `host`, and returns whether it had room. Two roundtrips: a
    /// fetch-and-add and a WRITE; a third one to learn how far pops are, once in a ring's length. Blocks
    /// until the operation completes; the transport bounds the wait.
    ///
    /// # Errors
    /// [`Error::Unfinished`] if the slot of its ticket did not become free within 64 READs, which needs
    /// more pushes in flight than [`Config::in_flight`]; [`Error::Value`] if the value has another size than
    /// [`Config::value_bytes`]; [`Error::UnknownOwner`]; otherwise the operation failed, and it is unknown
    /// whether the value is or will be in the ring.
    pub fn push(&mut self, host: Owner, value: &V) -> Result<bool, Error> {
        Ok(matches!(self.call(&host, Action::Push(*value))?, Outcome::Pushed(_)))
    }

    /// Pops the oldest value from the ring of `host`; `None` if it is empty. Two roundtrips: a READ and a
    /// compare-and-swap, which is repeated with a READ when another pop was faster. Blocks as
    /// [`push`](Self::push) does.
    ///
    /// # Errors
    /// [`Error::Unfinished`] if the push of the oldest ticket has not ended after 64 READs: pop again
    /// later, or [`skip`](Self::skip) the ticket if the rank of its push is lost. [`Error::Contended`] if
    /// other pops were faster 64 times; [`Error::UnknownOwner`]. Otherwise the operation failed, and it is
    /// unknown whether it has taken a value.
    pub fn pop(&mut self, host: Owner) -> Result<Option<V>, Error> {
        match self.call(&host, Action::Pop)? {
            Outcome::Popped(value) => Ok(Some(value)),
            Outcome::Pushed(_) | Outcome::Full | Outcome::Empty => Ok(None),
        }
    }

    /// Passes the ticket of a push that will not end, as [`Error::Unfinished`] named it: the value is lost.
    /// Returns false if the head is not at this ticket. Call it only if the rank of the push is lost: a
    /// value that arrives later could destroy a newer one.
    ///
    /// # Errors
    /// [`Error::Fault`] if the owner is lost or the engine has failed, [`Error::Failed`], [`Error::UnknownOwner`].
    pub fn skip(&mut self, host: Owner, ticket: u64) -> Result<bool, Error> {
        self.advance(host, ticket, 1)
    }

    /// Pushes values in order, and returns how many the ring had room for. All values of a block of
    /// [`Config::in_flight`] take their tickets by one fetch-and-add, and are written together.
    ///
    /// # Errors
    /// As for [`push`](Self::push); the values of a block may then be in the ring in part.
    pub fn push_batch(&mut self, host: Owner, values: &[V]) -> Result<usize, BatchError> {
        let (mut pushed, mut most) = (0, self.config().in_flight.max(1) as usize);
        // Each iteration pushes a block, or halves its size.
        while pushed < values.len() && most > 0 {
            let count = most.min(values.len() - pushed);
            let block = values.get(pushed..pushed + count).unwrap_or_default();
            let Outcome::Pushed(first) = self.call(&host, Action::Take(count as u64))? else {
                most = count / 2;
                continue;
            };
            let store = |place: usize| {
                Some((host, Action::Store(first + place as u64, *block.get(place)?)))
            };
            run_posted(self, store, |_, _| ())?;
            pushed += count;
        }
        Ok(pushed)
    }

    /// Pops the oldest values into `values`, and returns how many. The values of a block of
    /// [`Config::in_flight`] are read together, and taken by one compare-and-swap.
    ///
    /// # Errors
    /// As for [`pop`](Self::pop). After the first values, an error that the next call returns again ends the
    /// batch without one; another may have taken values, and those before it are in `values`.
    pub fn pop_batch(&mut self, host: Owner, values: &mut [V]) -> Result<usize, BatchError> {
        let mut popped = 0;
        // Each iteration pops a value at least, or ends.
        while let Some(room) = values.get_mut(popped..).filter(|room| !room.is_empty()) {
            match self.pop_block(host, room) {
                Ok(0) => break,
                Ok(count) => popped += count,
                Err(error) if popped > 0 && error.is_found_again() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(popped)
    }

    /// Pops values, as many as are there at once and a block has, or one by itself; none if the ring is
    /// empty.
    fn pop_block(&mut self, host: Owner, room: &mut [V]) -> Result<usize, BatchError> {
        if let Some(first) = self.context().view(host).head {
            let count = room.len().min(self.config().in_flight as usize).min(MAX_BLOCK);
            let mut found = [false; MAX_BLOCK];
            let load = |place: usize| {
                (place < count).then_some((host, Action::Load(first + place as u64)))
            };
            run_posted(self, load, |place, outcome| {
                if let (Outcome::Popped(value), Some(to), Some(found)) =
                    (outcome, room.get_mut(place), found.get_mut(place))
                {
                    (*to, *found) = (value, true);
                }
            })?;
            let ready = found.iter().take_while(|found| **found).count();
            if ready > 0 && self.advance(host, first, ready as u64)? {
                return Ok(ready);
            }
        }
        let value = self.pop(host)?;
        Ok(value.zip(room.first_mut()).map_or(0, |(value, to)| {
            *to = value;
            1
        }))
    }

    /// Lets the head pass `count` tickets from `first` on. Returns false if it is not there.
    fn advance(&mut self, host: Owner, first: u64, count: u64) -> Result<bool, Error> {
        let outcome = self.call(&host, Action::Advance(first, count))?;
        Ok(matches!(outcome, Outcome::Pushed(head) if head == first))
    }
}
