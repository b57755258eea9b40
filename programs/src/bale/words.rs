//! Words on all ranks, on which the ranks operate in batches: by one-sided operations, or by messages to the
//! ranks that have them.

use core::sync::atomic::Ordering::{Acquire, Release};

use probeline::containers::Distribution;
use probeline::containers::aggregator::{self, Aggregator};
use probeline::containers::array::{self, Array};
use probeline::transport::{Exchange, Owner, Sizes, Transport};

use crate::Error;
use crate::gather::others;

/// One-sided operations, or blocks of messages, in flight of a rank.
const IN_FLIGHT: u32 = 64;
/// Returns lanes for messages of 16 bytes: blocks of 8 KiB.
fn lanes() -> aggregator::Config {
    let (block, blocks) = if cfg!(test) { (6, 2) } else { (510, 8) };
    aggregator::Config { block, blocks, ..aggregator::Config::default() }
}

/// The operations by which a rank accesses words of other ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A one-sided operation on each word.
    Direct,
    /// Messages to the ranks that have the words, sent in blocks.
    Aggregated,
}

/// An operation on a word, whose result is the word before it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    Get,
    /// Adds modulo 2^64.
    Add(u64),
    /// Stores a word over 0.
    Claim(u64),
}

impl Action {
    fn message(self, place: u64) -> Message {
        let (kind, operand) = match self {
            Self::Get => (0, 0),
            Self::Add(addend) => (1, addend),
            Self::Claim(new) => (2, new),
        };
        [place << 2 | kind, operand]
    }

    fn from_message(message: Message) -> (u64, Self) {
        let [head, operand] = message;
        let action = match head & 3 {
            0 => Self::Get,
            1 => Self::Add(operand),
            _ => Self::Claim(operand),
        };
        (head >> 2, action)
    }
}

/// The place of a word in the part of its rank, with the kind of an action in the two lowest bits, and the
/// operand; or a result.
type Message = [u64; 2];

/// Words of all ranks, 0 at first: word `i` is on rank `i` modulo the number of ranks.
pub(super) enum Words<T> {
    Direct(Box<Array<T, Vec<array::Operation<u64>>, u64>>),
    Aggregated(Box<Parts<T>>),
}

/// Words of which each rank changes its own part alone.
pub(super) struct Parts<T> {
    messages: Aggregator<T, Vec<aggregator::Operation>, Message>,
    part: Part,
}

/// The words of this rank.
struct Part {
    words: Vec<u64>,
    /// The results for each rank, in the order of its messages; `None` if the batch returns none.
    results: Option<Vec<Vec<u64>>>,
}

impl Part {
    fn run(&mut self, from: Owner, message: Message) {
        let (place, action) = Action::from_message(message);
        let Some(word) = usize::try_from(place).ok().and_then(|at| self.words.get_mut(at)) else {
            return;
        };
        let before = *word;
        match action {
            Action::Get => {}
            Action::Add(addend) => *word = before.wrapping_add(addend),
            Action::Claim(new) if before == 0 => *word = new,
            Action::Claim(_) => {}
        }
        if let Some(of_rank) = self.results.as_mut().and_then(|all| all.get_mut(from.0 as usize)) {
            of_rank.push(before);
        }
    }
}

impl<T: Transport> Parts<T> {
    fn run_all(
        &mut self,
        indices: &[u64],
        action: impl Fn(usize) -> Action,
        store: Option<&mut dyn FnMut(usize, u64)>,
        exchange: &mut dyn Exchange,
    ) -> Result<(), Error> {
        let Self { messages, part } = self;
        let (me, ranks) = (exchange.me(), u64::from(exchange.owners()));
        let ranks_of = || vec![Vec::new(); exchange.owners() as usize];
        part.results = store.is_some().then(ranks_of);
        for (nth, index) in indices.iter().enumerate() {
            let (to, message) = (owner(*index, ranks), action(nth).message(index / ranks));
            match to == me {
                true => part.run(me, message),
                false => messages
                    .send_and_deliver(to, &message, |from, message| part.run(from, message))?,
            }
        }
        messages.flush(exchange, |from, message| part.run(from, message))?;
        let (Some(store), Some(mut results)) = (store, part.results.take()) else { return Ok(()) };
        // The operations whose results come from each rank, in the order of messages.
        let mut awaited: Vec<Vec<usize>> = vec![Vec::new(); results.len()];
        for (nth, index) in indices.iter().enumerate() {
            awaited[owner(*index, ranks).0 as usize].push(nth);
        }
        let mut awaited: Vec<_> = awaited.into_iter().map(Vec::into_iter).collect();
        let mut deliver = |from: Owner, [result, _]: Message| {
            if let Some(nth) = awaited.get_mut(from.0 as usize).and_then(Iterator::next) {
                store(nth, result);
            }
        };
        let own = core::mem::take(&mut results[me.0 as usize]);
        own.into_iter().for_each(|result| deliver(me, [result, 0]));
        for to in others(me, exchange.owners()) {
            for result in core::mem::take(&mut results[to.0 as usize]) {
                messages.send_and_deliver(to, &[result, 0], &mut deliver)?;
            }
        }
        Ok(messages.flush(exchange, deliver)?)
    }
}

/// Returns the rank that has a word.
#[allow(clippy::cast_possible_truncation, reason = "less than the number of ranks")]
pub(super) fn owner(index: u64, ranks: u64) -> Owner {
    Owner((index % ranks) as u32)
}

fn config(len: u64) -> array::Config {
    array::Config { distribution: Distribution::Cyclic, ..array::Config::new(len) }
}

/// Returns the sizes of an engine for this many words in a job of this many ranks.
pub(super) fn sizes(access: Access, len: u64, ranks: u32) -> Sizes {
    match access {
        Access::Direct => config(len).sizes::<u64>(ranks, IN_FLIGHT),
        Access::Aggregated => lanes().sizes::<Message>(ranks, IN_FLIGHT),
    }
}

impl<T: Transport> Words<T> {
    /// Opens words together with all other ranks. `engine` has [`sizes`].
    pub(super) fn open(
        access: Access,
        len: u64,
        engine: T,
        exchange: &mut dyn Exchange,
    ) -> Result<Self, Error> {
        let in_flight = IN_FLIGHT as usize;
        if access == Access::Direct {
            let operations = vec![array::Operation::EMPTY; in_flight];
            let array = Array::open(engine, config(len), operations, exchange)?;
            return Ok(Self::Direct(Box::new(array)));
        }
        let operations = vec![aggregator::Operation::EMPTY; in_flight];
        let messages = Aggregator::open(engine, lanes(), operations, exchange)?;
        let part = len.div_ceil(exchange.owners().into());
        let words = vec![0; usize::try_from(part).unwrap_or(usize::MAX)];
        Ok(Self::Aggregated(Box::new(Parts { messages, part: Part { words, results: None } })))
    }

    pub(super) fn transport(&self) -> &T {
        match self {
            Self::Direct(array) => array.transport(),
            Self::Aggregated(parts) => parts.messages.transport(),
        }
    }

    /// Runs an action on the word at each index, in any order, and passes its result to `store`; ranks send no
    /// results unless it `has_results`. Collective: all ranks call it, and none returns before all operations of all
    /// ranks have ended. A call does not both get and change the same word.
    #[inline]
    pub(super) fn run_all(
        &mut self,
        indices: &[u64],
        action: impl Fn(usize) -> Action,
        has_results: bool,
        mut store: impl FnMut(usize, u64),
        exchange: &mut dyn Exchange,
    ) -> Result<(), Error> {
        let array = match self {
            Self::Direct(array) => array,
            Self::Aggregated(parts) => {
                let store: &mut dyn FnMut(usize, u64) = &mut store;
                return parts.run_all(indices, action, has_results.then_some(store), exchange);
            }
        };
        let one_sided = |nth| {
            Some(match action(nth) {
                Action::Get => array::Action::Get,
                Action::Add(addend) => array::Action::Add(addend),
                Action::Claim(new) => array::Action::CompareAndSwap { expected: 0, new },
            })
        };
        let run = array.run_all(indices, one_sided, store);
        exchange.barrier()?;
        Ok(run?)
    }

    /// Stores what `word` returns for each place of this rank's part and the word there. Collective.
    pub(super) fn set_part(
        &mut self,
        word: impl Fn(u64, u64) -> u64,
        exchange: &mut dyn Exchange,
    ) -> Result<(), Error> {
        match self {
            Self::Direct(array) => {
                for (place, to) in (0..).zip(array.local_words()) {
                    to.store(word(place, to.load(Acquire)), Release);
                }
            }
            Self::Aggregated(parts) => {
                (0..).zip(&mut parts.part.words).for_each(|(place, to)| *to = word(place, *to));
            }
        }
        Ok(exchange.barrier()?)
    }

    /// Returns the word at a place of this rank's part.
    pub(super) fn word(&self, place: u64) -> u64 {
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        match self {
            Self::Direct(array) => {
                array.local_words().get(place).map_or(0, |word| word.load(Acquire))
            }
            Self::Aggregated(parts) => parts.part.words.get(place).copied().unwrap_or(0),
        }
    }

    /// Returns the words at these places of this rank's part.
    pub(super) fn part(&self, places: core::ops::Range<u64>) -> impl Iterator<Item = u64> + '_ {
        places.map(|place| self.word(place))
    }
}
