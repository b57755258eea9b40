//! Carriers of blocks of keys to the ranks of their ranges.

use probeline::containers::aggregator::{self, Aggregator};
use probeline::containers::queue::{self, Queue};
use probeline::containers::{BatchError, OperationError};
use probeline::transport::{Exchange, Owner, Sizes, Transport};

use crate::Error;
use crate::gather::others;

/// Keys of a block.
pub(super) const BLOCK_KEYS: usize = 63;

/// The number of keys in the lowest byte and the part of the keys above, and the keys; 256 bytes. One without keys is
/// the last one of a rank.
pub(super) type Block = [u32; BLOCK_KEYS + 1];

const EMPTY: Block = [0; BLOCK_KEYS + 1];
const COUNT_BITS: u32 = 8;

/// Returns a block of a part, without keys.
pub(super) const fn empty(part: u32) -> Block {
    let mut block = EMPTY;
    block[0] = part << COUNT_BITS;
    block
}

/// Returns the part of a block's keys.
pub(super) const fn part(block: &Block) -> u32 {
    block[0] >> COUNT_BITS
}

/// Returns the keys of a block.
pub(super) fn keys(block: &Block) -> &[u32] {
    let count = block[0] as usize % (1 << COUNT_BITS);
    block.get(1..=count).unwrap_or_default()
}

/// Adds a key to a block, which is not full.
#[inline]
pub(super) fn push(block: &mut Block, key: u32) {
    block[0] += 1;
    block[block[0] as usize % block.len()] = key;
}

/// Blocks in flight of a rank.
const IN_FLIGHT: u32 = if cfg!(test) { 2 } else { 32 };
/// Steps of a rank in a row in which no block arrives: a minute or more.
const MAX_IDLE: u64 = 1 << 30;

/// Returns lanes of 32 KiB of keys in a WRITE, ten times as much of a window for each lane to a rank: from each other
/// one up to 64 ranks, from those of its row and its column beyond.
fn lanes() -> aggregator::Config {
    let (block, blocks) = if cfg!(test) { (2, 2) } else { (128, 8) };
    aggregator::Config { block, blocks, ..aggregator::Config::default() }
}

/// Blocks that are pushed or popped together.
const PUSHES: u32 = if cfg!(test) { 2 } else { 64 };
/// 4 MiB of keys on each rank.
const RINGS: queue::Config =
    queue::Config { in_flight: PUSHES, ..queue::Config::new(if cfg!(test) { 4 } else { 1 << 14 }) };

/// The structure that carries keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// Lanes between ranks, up to [`aggregator::MAX_RANKS`] of them.
    Lanes,
    /// A queue on each rank, to which all push.
    Queues,
}

pub(super) fn sizes(carrier: Carrier, ranks: u32) -> Sizes {
    match carrier {
        Carrier::Lanes => lanes().sizes::<Block>(ranks, IN_FLIGHT),
        Carrier::Queues => RINGS.sizes::<Block>(ranks, IN_FLIGHT),
    }
}

/// An open carrier.
pub(super) enum Link<T> {
    Lanes(Box<Aggregator<T, Vec<aggregator::Operation>, Block>>),
    Queues(Box<Queues<T>>),
}

/// Queues, with the blocks that wait to be pushed to each.
pub(super) struct Queues<T> {
    queue: Queue<T, Vec<queue::Operation<Block>>, Block>,
    me: Owner,
    waiting: Vec<Vec<Block>>,
    /// Last blocks that have arrived.
    ends: usize,
}

impl<T: Transport> Link<T> {
    pub(super) fn open(
        carrier: Carrier,
        engine: T,
        exchange: &mut dyn Exchange,
    ) -> Result<Self, Error> {
        let in_flight = IN_FLIGHT as usize;
        if carrier == Carrier::Lanes {
            let operations = vec![aggregator::Operation::EMPTY; in_flight];
            let lanes = Aggregator::open(engine, lanes(), operations, exchange)?;
            return Ok(Self::Lanes(Box::new(lanes)));
        }
        let operations = vec![queue::Operation::EMPTY; in_flight];
        let waiting = vec![Vec::with_capacity(PUSHES as usize); exchange.owners() as usize];
        let queue = Queue::open(engine, RINGS, operations, exchange)?;
        Ok(Self::Queues(Box::new(Queues { queue, me: exchange.me(), waiting, ends: 0 })))
    }

    pub(super) fn transport(&self) -> &T {
        match self {
            Self::Lanes(lanes) => lanes.transport(),
            Self::Queues(queues) => queues.queue.transport(),
        }
    }

    /// Sends a block to another rank, and receives others while there is no room for it.
    pub(super) fn send(
        &mut self,
        to: Owner,
        block: &Block,
        receive: &mut impl FnMut(&Block),
    ) -> Result<(), Error> {
        let lanes = match self {
            Self::Queues(queues) => return queues.send(to, block, receive),
            Self::Lanes(lanes) => lanes,
        };
        Ok(lanes.send_and_deliver(to, block, |_, block| receive(&block))?)
    }

    /// Receives all blocks that were sent to this rank, when all ranks call it.
    pub(super) fn finish(
        &mut self,
        exchange: &mut dyn Exchange,
        receive: &mut impl FnMut(&Block),
    ) -> Result<(), Error> {
        match self {
            Self::Lanes(lanes) => Ok(lanes.flush(exchange, |_, block| receive(&block))?),
            Self::Queues(queues) => {
                let finished = queues.finish(receive);
                exchange.barrier()?;
                finished
            }
        }
    }
}

impl<T: Transport> Queues<T> {
    fn send(
        &mut self,
        to: Owner,
        block: &Block,
        receive: &mut impl FnMut(&Block),
    ) -> Result<(), Error> {
        let waiting = &mut self.waiting[to.0 as usize];
        waiting.push(*block);
        if waiting.len() < PUSHES as usize { Ok(()) } else { self.push(to, receive) }
    }

    /// Pushes the blocks that wait, and pops others while the ring is full.
    fn push(&mut self, to: Owner, receive: &mut impl FnMut(&Block)) -> Result<(), Error> {
        let mut blocks = core::mem::take(&mut self.waiting[to.0 as usize]);
        let (mut pushed, mut idle) = (0, 0);
        // Ends when all are pushed, or after `MAX_IDLE` steps in which no block moves.
        while pushed < blocks.len() {
            let count = self.queue.push_batch(to, &blocks[pushed..])?;
            pushed += count;
            let moved = count + self.pop(receive)?;
            count_idle(&mut idle, moved)?;
        }
        blocks.clear();
        self.waiting[to.0 as usize] = blocks;
        Ok(())
    }

    /// Pops the blocks that have arrived, a batch at most, and returns how many.
    fn pop(&mut self, receive: &mut impl FnMut(&Block)) -> Result<usize, Error> {
        let mut popped = [EMPTY; PUSHES as usize];
        let count = match self.queue.pop_batch(self.me, &mut popped) {
            // The rank that pushes has its ticket, and writes the block next.
            Err(BatchError::Operation(OperationError::Unfinished { .. })) => 0,
            count => count?,
        };
        for block in popped.iter().take(count) {
            self.ends += usize::from(keys(block).is_empty());
            receive(block);
        }
        Ok(count)
    }

    /// Pushes all blocks, and pops until the last blocks of all ranks have arrived.
    fn finish(&mut self, receive: &mut impl FnMut(&Block)) -> Result<(), Error> {
        let ranks = u32::try_from(self.waiting.len()).unwrap_or(u32::MAX);
        for to in others(self.me, ranks) {
            self.waiting[to.0 as usize].push(EMPTY);
            self.push(to, receive)?;
        }
        let mut idle = 0;
        // Ends with the last blocks, or after `MAX_IDLE` steps in which none arrives.
        while self.ends + 1 < self.waiting.len() {
            let moved = self.pop(receive)?;
            count_idle(&mut idle, moved)?;
        }
        self.ends = 0;
        Ok(())
    }
}

/// Counts a step if no block has moved in it, up to the most.
fn count_idle(idle: &mut u64, moved: usize) -> Result<(), Error> {
    *idle = if moved == 0 { *idle + 1 } else { 0 };
    if *idle > MAX_IDLE { Err(OperationError::Undelivered.into()) } else { Ok(()) }
}
