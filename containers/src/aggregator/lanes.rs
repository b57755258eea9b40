//! Lanes as a kind of structure: their words, and the state of each on its two ranks.

use core::marker::PhantomData;
use core::num::NonZeroU32;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use probeline_pipeline::{ConfigError, Distribution, Error, Placement, Plain, next_line, words};
use probeline_transport::{
    LINE_WORDS, Owner, PostError, RemoteWord, Segment, Transport, WORD_BYTES, store_bytes,
};

use super::carry::{Action, Carry};
use super::{Config, MAX_LANES, MAX_RANKS};
use crate::element::{self, Begin, Bounded, Element};
use crate::hash;
#[cfg(test)]
use crate::model::{self, Mutant};

/// The words of a block before its messages: its check, and its [`Header`] with its number.
pub(super) const HEADER_WORDS: u32 = 2;
/// Set beside the number of messages in the last block of a flush.
const LAST: u64 = 1 << 32;
/// The lowest bit of those that hold the block's number, behind them.
const NUMBER_SHIFT: u32 = 33;

/// The lanes of an [`Aggregator`](super::Aggregator) of messages `V`.
pub struct Lanes<V>(PhantomData<V>);

/// State that a rank knows of the lane to another rank, and of the lane from it.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub(super) struct Lane {
    /// Blocks sent to the rank.
    pub(super) sent: u64,
    /// Blocks that the rank has taken: a lower bound.
    pub(super) taken: u64,
    /// Messages in the block that is filled for the rank.
    pub(super) filled: u32,
    /// Whether an operation that sends this block was submitted, and has not copied it.
    pub(super) is_closed: bool,
    /// The places of the lane to which a WRITE is in flight, one bit each.
    pub(super) writing: u64,
    /// Last blocks of a flush sent to the rank.
    pub(super) ends_sent: u64,
    /// Blocks received from the rank.
    pub(super) received: u64,
    /// Last blocks of a flush received from the rank.
    pub(super) ends_received: u64,
    /// Whether an operation that receives a block from the rank was submitted.
    pub(super) is_looking: bool,
    /// Messages of a block that was brought from the rank, if some of them are not delivered.
    pub(super) held: u32,
    /// Messages of a block from the rank that were delivered or passed on, before one that had no room.
    pub(super) passed: u32,
}

impl Lane {
    /// Counts a block that was received.
    pub(super) fn receive(&mut self, header: Header) {
        self.received += 1;
        self.ends_received += u64::from(header.is_last);
    }
}

/// The ranks in rows of `columns` each, of which the last may be shorter. A rank has a lane from each rank of its
/// row and of its column. A message goes along the row to the column of its receiver, and then along the column;
/// if the shorter row has no rank in that column, it goes along the column first. So lanes that wait for others
/// form no cycle. Lanes within the last row wait for lanes from it to other rows; those wait for lanes within the
/// other rows; those wait for lanes between the other rows; and those wait for no lane.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Grid {
    pub(super) owners: u32,
    columns: NonZeroU32,
    rows: u32,
}

impl Grid {
    /// Arranges the ranks in one row of up to `one_hop` ranks, or else about as many rows as columns.
    fn new(owners: u32, one_hop: u32) -> Self {
        let root = owners.saturating_sub(1).isqrt() + 1;
        let columns = if owners <= one_hop { owners } else { root };
        let columns = NonZeroU32::new(columns).unwrap_or(NonZeroU32::MIN);
        Self { owners, columns, rows: owners.div_ceil(columns.get()) }
    }

    /// Returns the most lanes that a message takes.
    #[inline]
    pub(super) fn hops(&self) -> u32 {
        if self.rows > 1 { 2 } else { 1 }
    }

    /// Returns the number of lanes to a rank, and of those from it.
    pub(super) fn lanes(&self) -> u32 {
        self.columns.get().saturating_add(if self.rows > 1 { self.rows } else { 0 })
    }

    /// Returns the row and the column of a rank.
    fn place(&self, rank: Owner) -> (u32, u32) {
        (rank.0 / self.columns, rank.0 % self.columns)
    }

    /// Returns the rank at a place, if the place is not behind the last one.
    fn rank(&self, row: u32, column: u32) -> Option<Owner> {
        let rank = row.checked_mul(self.columns.get())?.checked_add(column)?;
        (rank < self.owners).then_some(Owner(rank))
    }

    /// Returns the number of the lane from `peer`, among those to `host`.
    #[inline]
    fn lane(&self, host: Owner, peer: Owner) -> u32 {
        if self.rows <= 1 {
            return peer.0;
        }
        let ((row, column), (of_host, _)) = (self.place(peer), self.place(host));
        if row == of_host { column } else { self.columns.get().saturating_add(row) }
    }

    /// Returns the rank at the other end of a lane; `None` for places without one.
    pub(super) fn peer(&self, me: Owner, lane: u32) -> Option<Owner> {
        let (row, column) = self.place(me);
        match lane.checked_sub(self.columns.get()) {
            None => self.rank(row, lane),
            Some(other) if other == row => None,
            Some(other) => self.rank(other, column),
        }
    }

    /// Returns the rank to which `me` sends a message to `to`.
    #[inline]
    pub(super) fn next(&self, me: Owner, to: Owner) -> Owner {
        if self.rows <= 1 {
            return to;
        }
        let ((row, column), (to_row, to_column)) = (self.place(me), self.place(to));
        if column == to_column {
            return to;
        }
        self.rank(row, to_column).or_else(|| self.rank(to_row, column)).unwrap_or(to)
    }
}

/// The state that all operations of an aggregator share.
pub(super) type Context = element::Context<State>;

/// The sizes of lanes, and the state of each.
#[derive(Clone, Copy, Debug, Hash)]
pub struct State {
    pub(super) grid: Grid,
    /// Messages of a block, and blocks of a lane.
    pub(super) block: u32,
    pub(super) blocks: u32,
    pub(super) block_words: u32,
    /// Words of a message: where it takes two hops, its route and then its own.
    pub(super) message_words: u32,
    pub(super) message_bytes: usize,
    /// Messages of this rank that were taken to be sent, and those that were delivered to it.
    pub(super) accepted: u64,
    pub(super) delivered: u64,
    /// Messages between other ranks that this rank has passed on.
    pub(super) passed_on: u64,
    /// Times that this rank has begun to end its lanes: once in a flush for each hop.
    pub(super) flushes: u64,
    /// First action of the next step: sending to a rank, or receiving from it, by turns.
    pub(super) turn: u32,
    lanes: [Lane; MAX_LANES as usize],
}

/// Returns the first word of a message that takes two hops: its sender and its receiver.
fn route(from: Owner, to: Owner) -> u64 {
    u64::from(from.0) << 32 | u64::from(to.0)
}

/// Returns the sender and the receiver of a message that begins with this word.
#[allow(clippy::cast_possible_truncation, reason = "each is cut out by its width")]
pub(super) fn ends_of_route(word: u64) -> (Owner, Owner) {
    (Owner((word >> 32) as u32), Owner(word as u32))
}

impl Context {
    /// Returns the state of the lanes to and from a rank.
    #[inline]
    pub(super) fn lane(&self, peer: Owner) -> &Lane {
        &self.detail.lanes[self.index(peer)]
    }

    #[inline]
    pub(super) fn lane_mut(&mut self, peer: Owner) -> &mut Lane {
        &mut self.detail.lanes[self.index(peer)]
    }

    #[inline]
    fn index(&self, peer: Owner) -> usize {
        let lane = self.detail.grid.lane(self.me, peer);
        debug_assert!(lane < MAX_LANES, "the grid has at most as many lanes");
        (lane % MAX_LANES) as usize
    }

    /// Returns whether the block that is filled for a rank is to be sent: it is full, or the lane is to be ended.
    pub(super) fn is_due(&self, peer: Owner) -> bool {
        let Lane { filled, is_closed, ends_sent, .. } = *self.lane(peer);
        !is_closed && (filled >= self.detail.block || ends_sent < self.detail.flushes)
    }

    /// Returns whether the lane has room for a block, as far as this rank knows. The WRITE of the last block
    /// of the same place must have ended, because two in flight have no order.
    pub(super) fn has_credit(&self, peer: Owner) -> bool {
        #[cfg(test)]
        if model::has(Mutant::Overrun) {
            return true;
        }
        let Lane { sent, taken, writing, .. } = *self.lane(peer);
        let is_written = writing & self.place_bit(sent) == 0;
        is_written && sent - taken.min(sent) < self.detail.blocks.into()
    }

    /// Returns the bit of the place of a block.
    pub(super) fn place_bit(&self, number: u64) -> u64 {
        1 << number.checked_rem(self.detail.blocks.into()).unwrap_or_default().min(63)
    }

    /// Returns the word of `host` that counts the blocks it has taken from `from`. It begins the words of the lane.
    #[inline]
    pub(super) fn taken_word(&self, host: Owner, from: Owner) -> RemoteWord {
        let lane = u64::from(self.detail.grid.lane(host, from));
        let first = self.placement.first_word();
        RemoteWord { owner: host, index: first + lane * u64::from(self.placement.words()) }
    }

    #[inline]
    fn nth_block(&self, host: Owner, from: Owner, nth: u64) -> Segment {
        let RemoteWord { owner, index } = self.taken_word(host, from);
        let index = index + u64::from(LINE_WORDS) + nth * u64::from(self.detail.block_words);
        Segment { start: RemoteWord { owner, index }, words: self.detail.block_words }
    }

    /// Returns the place of a block of the lane from `from` in the window of `host`.
    pub(super) fn block_at(&self, host: Owner, from: Owner, number: u64) -> Segment {
        let nth = number.checked_rem(self.detail.blocks.into()).unwrap_or_default();
        self.nth_block(host, from, nth)
    }

    /// Returns the first word of the block that is filled for a rank, in the own window.
    #[inline]
    pub(super) fn filled_at(&self, peer: Owner) -> u64 {
        self.nth_block(self.me, peer, self.detail.blocks.into()).start.index
    }

    /// Returns the first word of the block that a READ has brought from the lane of a rank, in the own
    /// window.
    pub(super) fn brought_at(&self, peer: Owner) -> u64 {
        self.filled_at(peer) + u64::from(self.detail.block_words)
    }

    /// Returns whether this rank has ended its lanes, and others have ended those to it, as often as the flush
    /// needs, and all that they brought was delivered or passed on.
    pub(super) fn has_all(&self) -> bool {
        let peers =
            (0..self.detail.grid.lanes()).filter_map(|lane| self.detail.grid.peer(self.me, lane));
        let mut lanes = peers.map(|peer| self.lane(peer));
        lanes.all(|lane| {
            lane.ends_sent.min(lane.ends_received) >= self.detail.flushes && lane.held == 0
        })
    }

    /// Returns the words of the next message in the block that is filled for a rank, which then has it; `None` if
    /// the block is full.
    #[inline]
    fn room<'w>(
        &mut self,
        peer: Owner,
        window: &'w [AtomicU64],
    ) -> Result<Option<&'w [AtomicU64]>, Error> {
        let Lane { filled, is_closed, .. } = *self.lane(peer);
        if is_closed || filled >= self.detail.block {
            return Ok(None);
        }
        let offset =
            u64::from(HEADER_WORDS) + u64::from(filled) * u64::from(self.detail.message_words);
        let to = words(window, self.filled_at(peer) + offset, self.detail.message_words.into())?;
        self.lane_mut(peer).filled += 1;
        Ok(Some(to))
    }

    /// Adds the words of a message between other ranks to the block that is filled for the receiver. Returns false
    /// if the block is full.
    pub(super) fn pass_on(
        &mut self,
        to: Owner,
        message: &[AtomicU64],
        window: &[AtomicU64],
    ) -> Result<bool, Error> {
        let Some(room) = self.room(to, window)? else { return Ok(false) };
        room.iter().zip(message).for_each(|(to, word)| to.store(word.load(Relaxed), Relaxed));
        self.detail.passed_on += 1;
        Ok(true)
    }

    /// Adds a message to the block that is filled for `next`, the next rank on the way to `receiver`. Returns false
    /// if the block is full.
    #[inline]
    pub(super) fn append<V: Plain>(
        &mut self,
        (next, receiver): (Owner, Owner),
        message: &V,
        window: &[AtomicU64],
    ) -> Result<bool, Error> {
        if message.bytes().len() > self.detail.message_bytes {
            return Err(PostError::OutOfRange.into());
        }
        let Some(mut to) = self.room(next, window)? else { return Ok(false) };
        if self.detail.grid.hops() > 1
            && let Some((first, rest)) = to.split_first()
        {
            first.store(route(self.me, receiver), Relaxed);
            to = rest;
        }
        let bytes = message.bytes();
        store_bytes(bytes, to);
        to.iter().skip(bytes.len().div_ceil(WORD_BYTES)).for_each(|word| word.store(0, Relaxed));
        self.detail.accepted += 1;
        Ok(true)
    }
}

/// Header that a complete block has before its messages, in its second word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Header {
    /// The number of its messages.
    pub(super) count: u32,
    /// Whether it is the last one of a flush.
    pub(super) is_last: bool,
}

impl Header {
    /// Returns the second word of a block of this number.
    pub(super) fn word(self, number: u64) -> u64 {
        let last = if self.is_last { LAST } else { 0 };
        number << NUMBER_SHIFT | last | u64::from(self.count)
    }
}

/// Returns the header of a block if it is complete, and the block of this number.
pub(super) fn header(
    mut block: impl Iterator<Item = u64>,
    number: u64,
    context: &Context,
) -> Option<Header> {
    let (check, second) = (block.next()?, block.next()?);
    #[allow(clippy::cast_possible_truncation, reason = "the low half")]
    let header = Header { count: second as u32, is_last: second & LAST != 0 };
    #[cfg(test)]
    let number = if model::has(Mutant::AnyNumber) { second >> NUMBER_SHIFT } else { number };
    // Most looks end here, at the block of an earlier turn.
    if second != header.word(number) || header.count > context.detail.block {
        return None;
    }
    let words = header.count as usize * context.detail.message_words as usize;
    let covered = core::iter::once(second).chain(block.take(words));
    (check == hash::check(number, covered)).then_some(header)
}

impl<V: Plain> Element for Lanes<V> {
    type Config = Config;
    type Key = Owner;
    type Home = ();
    type Action = Action;
    type Machine = Carry;
    type Detail = State;
    const NAME: &'static str = "Aggregator";

    /// Returns the places of all lanes, each at its receiver: a count on a line, the blocks of the lane, and two that
    /// only the receiver uses. One is filled for the other rank, and a READ has brought one from the lane.
    fn context(config: &Config, owners: u32) -> Context {
        let &Config { block, blocks, one_hop, first_word, .. } = config;
        let grid = Grid::new(owners, one_hop);
        let message_bytes = config.bytes::<V>();
        let message_words = u32::try_from(message_bytes.div_ceil(WORD_BYTES)).unwrap_or(u32::MAX);
        let message_words = message_words.saturating_add(grid.hops() - 1);
        let words = block.saturating_mul(message_words).saturating_add(HEADER_WORDS);
        let block_words = words.checked_next_multiple_of(LINE_WORDS).unwrap_or(u32::MAX);
        let lanes = u64::from(grid.lanes()).saturating_mul(owners.into());
        let words = blocks.saturating_add(2).saturating_mul(block_words);
        let words = words.saturating_add(LINE_WORDS);
        let first_word = next_line(first_word);
        let places = Placement::new(lanes, words, first_word, Distribution::Block, owners);
        let state = State {
            grid,
            block,
            blocks,
            block_words,
            message_words,
            message_bytes,
            accepted: 0,
            delivered: 0,
            passed_on: 0,
            flushes: 0,
            turn: 0,
            lanes: [Lane::default(); MAX_LANES as usize],
        };
        Context::new(places, state, false)
    }

    fn parameters(config: &Config) -> impl Iterator<Item = Bounded> + Clone {
        [
            ("block", config.block.into(), 1..=1 << 16),
            ("blocks", config.blocks.into(), 1..=u64::BITS.into()),
            ("one_hop", config.one_hop.into(), 1..=MAX_LANES.into()),
            ("the bytes of a message", config.bytes::<V>() as u64, 1..=V::CAPACITY as u64),
        ]
        .into_iter()
    }

    fn check(_: &Config, transport: &impl Transport, _: usize) -> Result<(), ConfigError> {
        let owners = transport.geometry().owners.into();
        ConfigError::check_range("the number of ranks", owners, 1, MAX_RANKS.into())
    }

    fn slot_words(context: &Context) -> u32 {
        context.detail.block_words
    }

    fn home(peer: &Owner, context: &Context) -> (u64, ()) {
        (context.placement.first_of(*peer), ())
    }

    fn machine(begin: Begin<'_, Self>, context: &Context) -> Result<Carry, Error> {
        Ok(Carry::new(*begin.key, begin.action, context))
    }

    /// Counts the messages that this rank has filled into blocks and not sent.
    fn count(_: &[AtomicU64], context: &Context) -> u64 {
        context.detail.lanes.iter().map(|lane| u64::from(lane.filled)).sum()
    }

    fn forget(context: &mut Context) {
        let State { accepted, delivered, passed_on, flushes, lanes, .. } = &mut context.detail;
        (*accepted, *delivered, *passed_on, *flushes) = (0, 0, 0, 0);
        *lanes = [Lane::default(); MAX_LANES as usize];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frees_taken_and_written_places() {
        let config = Config { blocks: 2, ..Config::default() };
        let mut context = Lanes::<u64>::context(&config, 2);
        let peer = Owner(1);
        let cases = [
            (0, 0, 0, true),
            (1, 0, 0b01, true),
            (2, 0, 0b11, false),
            (2, 1, 0b11, false),
            (2, 1, 0b10, true),
            (3, 1, 0, false),
            (3, 2, 0b01, true),
        ];
        for (sent, taken, writing, is_free) in cases {
            *context.lane_mut(peer) = Lane { sent, taken, writing, ..Lane::default() };
            assert_eq!(context.has_credit(peer), is_free, "{sent} {taken} {writing}");
        }
    }

    /// Each message takes one lane or two, whatever the number of ranks, and both ends number a lane alike.
    #[test]
    fn reaches_ranks_by_two_lanes() {
        for owners in (1..=40).chain([63, 64, 65, 100, 1023, 1024]) {
            let grid = Grid::new(owners, 5);
            assert!(grid.lanes() <= 64, "{owners}");
            assert_eq!(grid.hops() == 1, owners <= 5);
            let ranks = || (0..owners).map(Owner).step_by(1 + owners as usize / 41);
            for (me, to) in ranks().flat_map(|me| ranks().map(move |to| (me, to))) {
                let next = grid.next(me, to);
                assert_eq!(grid.next(next, to), to, "{me:?} to {to:?} of {owners} ranks");
                assert_eq!(grid.peer(next, grid.lane(next, me)), Some(me));
                assert_eq!(grid.peer(me, grid.lane(me, next)), Some(next));
            }
        }
    }

    #[test]
    fn sizes_never_panic() {
        for owners in [1, 64, u32::MAX / 2 + 1, u32::MAX] {
            let _ = Config { first_word: u64::MAX, ..Config::default() }.sizes::<u64>(owners, 1);
            let _ = Config::default().sizes::<[u64; 40]>(owners, 1);
        }
    }
}
