//! Lanes as a kind of structure: their words, and the state of each on its two ranks.

use core::marker::PhantomData;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use probeline_pipeline::{ConfigError, Error, Kind, Open, Parameter, Plain, words};
use probeline_transport::{
    AtomicScope, LINE_WORDS, Owner, PostError, RemoteWord, Segment, Transport, WORD_BYTES,
};

use super::carry::{Action, Carry};
#[cfg(test)]
use super::model::{self, Mutant};
use super::{Config, MAX_RANKS};
use crate::hash;

/// The words of a block before its messages: its check, and its [`Header`] with its number.
pub(super) const HEADER_WORDS: u32 = 2;
/// Set beside the number of messages in the last block of a flush.
const LAST: u64 = 1 << 32;
/// The lowest bit of those that hold the block's number, behind them.
const NUMBER_SHIFT: u32 = 33;
/// Set in every check, so that a block of zeros has none.
const CHECKED: u64 = 1 << 63;

/// The kind of an [`Aggregator`](super::Aggregator) of messages `V`.
pub struct Lanes<V>(PhantomData<V>);

/// What a rank knows of the lane to another rank, and of the lane from it.
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
}

impl Lane {
    /// Counts a block that was received.
    pub(super) fn receive(&mut self, header: Header) {
        self.received += 1;
        self.ends_received += u64::from(header.is_last);
    }
}

/// The state that all operations of an aggregator share.
#[derive(Clone, Debug, Hash)]
pub struct Context {
    pub(super) me: Owner,
    pub(super) owners: u32,
    /// Messages of a block, and blocks of a lane.
    pub(super) block: u32,
    pub(super) blocks: u32,
    pub(super) block_words: u32,
    pub(super) message_words: u32,
    pub(super) message_bytes: usize,
    /// Whether the CPU sees what peers write to its window at once.
    pub(super) is_coherent: bool,
    /// Messages of this rank that were taken to be sent, and those that were delivered to it.
    pub(super) accepted: u64,
    pub(super) delivered: u64,
    /// Flushes that this rank has begun.
    pub(super) flushes: u64,
    /// The number of times that the lanes were emptied; results of operations before are void.
    pub(super) epoch: u32,
    /// What the next step does first: sending to a rank, or receiving from it, by turns.
    pub(super) turn: u32,
    first_word: u64,
    lanes: [Lane; MAX_RANKS as usize],
}

impl Context {
    pub(super) fn new<V: Plain>(config: &Config, me: Owner, owners: u32) -> Self {
        let message_bytes = V::SIZE.unwrap_or(config.message_bytes);
        let message_words = u32::try_from(message_bytes.div_ceil(WORD_BYTES)).unwrap_or(u32::MAX);
        let words = config.block.saturating_mul(message_words).saturating_add(HEADER_WORDS);
        Self {
            me,
            owners,
            block: config.block,
            blocks: config.blocks,
            block_words: words.checked_next_multiple_of(LINE_WORDS).unwrap_or(u32::MAX),
            message_words,
            message_bytes,
            is_coherent: false,
            accepted: 0,
            delivered: 0,
            flushes: 0,
            epoch: 0,
            turn: 0,
            first_word: config
                .first_word
                .checked_next_multiple_of(LINE_WORDS.into())
                .unwrap_or(u64::MAX),
            lanes: [Lane::default(); MAX_RANKS as usize],
        }
    }

    pub(super) fn lane(&self, peer: Owner) -> Lane {
        self.lanes.get(peer.0 as usize).copied().unwrap_or_default()
    }

    /// Changes the state of the lanes to and from a rank.
    pub(super) fn update(&mut self, peer: Owner, change: impl FnOnce(&mut Lane)) {
        if let Some(lane) = self.lanes.get_mut(peer.0 as usize) {
            change(lane);
        }
    }

    /// Returns whether the lane has room for a block, as far as this rank knows. The WRITE of the last block
    /// of the same place must have ended, because two in flight have no order.
    pub(super) fn has_credit(&self, peer: Owner) -> bool {
        #[cfg(test)]
        if model::MUTANT.get() == Mutant::Overrun {
            return true;
        }
        let Lane { sent, taken, writing, .. } = self.lane(peer);
        let is_written = writing & self.place_bit(sent) == 0;
        is_written && sent - taken.min(sent) < self.blocks.into()
    }

    /// Returns the bit of the place of a block.
    pub(super) fn place_bit(&self, number: u64) -> u64 {
        1 << number.checked_rem(self.blocks.into()).unwrap_or_default().min(63)
    }

    /// Returns the word of `host` that counts the blocks it has taken from `from`.
    pub(super) fn taken_word(&self, host: Owner, from: Owner) -> RemoteWord {
        let offset = u64::from(from.0) * u64::from(LINE_WORDS);
        let index = self.first_word.saturating_add(offset);
        RemoteWord { owner: host, index }
    }

    /// Returns the place of the `nth` block of the window, behind the counts.
    fn nth_block(&self, nth: u64) -> u64 {
        let counts = u64::from(self.owners) * u64::from(LINE_WORDS);
        let first = self.first_word.saturating_add(counts);
        first.saturating_add(nth.saturating_mul(self.block_words.into()))
    }

    /// Returns the place of a block of the lane from `from` in the window of `host`.
    pub(super) fn block_at(&self, host: Owner, from: Owner, number: u64) -> Segment {
        let blocks = u64::from(self.blocks);
        let nth = u64::from(from.0) * blocks + number.checked_rem(blocks).unwrap_or_default();
        let start = RemoteWord { owner: host, index: self.nth_block(nth) };
        Segment { start, words: self.block_words }
    }

    /// Returns the first word of the block that is filled for a rank, in the own window.
    pub(super) fn filled_at(&self, peer: Owner) -> u64 {
        self.nth_block(u64::from(self.owners) * u64::from(self.blocks) + u64::from(peer.0))
    }

    /// Returns the first word of the block that a READ has brought from the lane of a rank, in the own
    /// window.
    pub(super) fn brought_at(&self, peer: Owner) -> u64 {
        self.nth_block(u64::from(self.owners) * (u64::from(self.blocks) + 1) + u64::from(peer.0))
    }

    /// Returns the word behind the lanes.
    pub(super) fn end_word(&self) -> u64 {
        self.brought_at(Owner(self.owners))
    }

    /// Returns whether this rank has sent its last blocks of the flush, and has those of all ranks.
    pub(super) fn has_all(&self) -> bool {
        let mut lanes = self.lanes.iter().take(self.owners as usize);
        lanes.all(|lane| lane.ends_sent.min(lane.ends_received) == self.flushes)
    }

    /// Adds a message to the block that is filled for a rank. Returns false if the block is full.
    #[inline]
    pub(super) fn append<V: Plain>(
        &mut self,
        peer: Owner,
        message: &V,
        window: &[AtomicU64],
    ) -> Result<bool, Error> {
        if message.bytes().len() > self.message_bytes {
            return Err(PostError::OutOfRange.into());
        }
        let filled = self.lane(peer).filled;
        if filled >= self.block {
            return Ok(false);
        }
        let offset = u64::from(HEADER_WORDS) + u64::from(filled) * u64::from(self.message_words);
        let to = words(window, self.filled_at(peer) + offset, self.message_words.into())?;
        let rest = core::iter::repeat(&[][..]);
        for (to, from) in to.iter().zip(message.bytes().chunks(WORD_BYTES).chain(rest)) {
            let mut word = [0; WORD_BYTES];
            word.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
            to.store(u64::from_ne_bytes(word), Relaxed);
        }
        self.update(peer, |lane| lane.filled += 1);
        self.accepted += 1;
        Ok(true)
    }
}

/// Returns the check of a block: of its number in the lane, and of the words behind the check.
#[inline]
pub(super) fn check_of(number: u64, words: impl Iterator<Item = u64>) -> u64 {
    hash::of_words(number, words) | CHECKED
}

/// What a complete block states before its messages, in its second word.
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
    let number =
        if model::MUTANT.get() == Mutant::AnyNumber { second >> NUMBER_SHIFT } else { number };
    // Most looks end here, at the block of an earlier turn.
    if second != header.word(number) || header.count > context.block {
        return None;
    }
    #[cfg(test)]
    if model::MUTANT.get() == Mutant::ReadyBeforeData {
        return (check == ((number + 1) | CHECKED)).then_some(header);
    }
    if check & CHECKED == 0 {
        return None;
    }
    let words = header.count as usize * context.message_words as usize;
    let covered = core::iter::once(second).chain(block.take(words));
    (check == check_of(number, covered)).then_some(header)
}

impl<V: Plain> Kind for Lanes<V> {
    type Config = Config;
    type Context = Context;
    type Key = Owner;
    type Action = Action;
    type Machine = Carry;
    type Stats = ();
    const NAME: &'static str = "Aggregator";

    fn parameters(config: &Config, context: &Context) -> impl Iterator<Item = Parameter> + Clone {
        [
            ("block", config.block.into()),
            ("blocks", config.blocks.into()),
            ("first_word", config.first_word),
            ("bytes of a message", context.message_bytes as u64),
        ]
        .into_iter()
    }

    #[inline]
    fn machine(peer: &Owner, action: Action, context: &Context) -> Result<Carry, Error> {
        if peer.0 >= context.owners {
            return Err(PostError::UnknownOwner.into());
        }
        Ok(Carry::new(*peer, action))
    }

    fn stats(_: &Context) -> &() {
        &()
    }

    fn reset_stats(_: &mut Context) {}

    fn forget(_: &Config, context: &mut Context) {
        context.lanes = [Lane::default(); MAX_RANKS as usize];
        (context.accepted, context.delivered, context.flushes) = (0, 0, 0);
        context.epoch = context.epoch.wrapping_add(1);
    }

    /// Counts the messages that this rank has filled into blocks and not sent.
    fn count(_: &Config, context: &Context, _: &[AtomicU64]) -> Result<u64, Error> {
        Ok(context.lanes.iter().map(|lane| u64::from(lane.filled)).sum())
    }

    fn empty(_: &Config, context: &Context, window: &[AtomicU64]) -> Result<(), Error> {
        let lanes = words(window, context.first_word, context.end_word() - context.first_word)?;
        lanes.iter().for_each(|word| word.store(0, Relaxed));
        Ok(())
    }
}

impl<V: Plain> Open for Lanes<V> {
    fn check(config: &Config, transport: &impl Transport, _: usize) -> Result<(), ConfigError> {
        let (geometry, caps) = (transport.geometry(), transport.caps());
        let context = Context::new::<V>(config, geometry.me, geometry.owners);
        let ranges = [
            ("the number of ranks", geometry.owners.into(), MAX_RANKS.into()),
            ("block", config.block.into(), 1 << 16),
            ("blocks", config.blocks.into(), u64::BITS.into()),
            ("the bytes of a message", context.message_bytes as u64, V::CAPACITY as u64),
        ];
        for (what, found, max) in ranges {
            ConfigError::check_range(what, found, 1, max)?;
        }
        let found = geometry.slot_words.min(caps.words_per_op);
        if context.block_words > found {
            let needed = context.block_words.into();
            return Err(ConfigError::Slot { needed, found: found.into() });
        }
        let needed = context.end_word();
        if needed > geometry.window_words {
            return Err(ConfigError::Window { needed, found: geometry.window_words });
        }
        Ok(())
    }

    fn context(config: &Config, transport: &impl Transport) -> Context {
        let geometry = transport.geometry();
        let is_coherent = transport.caps().atomics == AtomicScope::Cpu;
        Context { is_coherent, ..Context::new::<V>(config, geometry.me, geometry.owners) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_when_its_block_was_taken_and_its_write_has_ended() {
        let config = Config { blocks: 2, ..Config::default() };
        let mut context = Context::new::<u64>(&config, Owner(0), 2);
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
            context.update(peer, |lane| *lane = Lane { sent, taken, writing, ..Lane::default() });
            assert_eq!(context.has_credit(peer), is_free, "{sent} {taken} {writing}");
        }
    }

    #[test]
    fn sizes_of_any_number_of_owners_are_no_panic() {
        for owners in [1, 64, u32::MAX / 2 + 1, u32::MAX] {
            let _ = Config { first_word: u64::MAX, ..Config::default() }.sizes::<u64>(owners, 1);
            let _ = Config::default().sizes::<[u64; 40]>(owners, 1);
        }
    }
}
