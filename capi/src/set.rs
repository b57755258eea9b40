//! Tables of both kinds behind one trait, with the width of keys chosen at run time.

use core::mem::MaybeUninit;

use probeline::table::{
    BatchError, Config, Ended, Finished, Intent, OperationError, Outcome, Stats, SubmitError,
    Table, Tag, WideConfig, WideOperation, WideTable,
};
use probeline::transport::Exchange;

use crate::engine::Engine;
use crate::job::Members;
use crate::status::{Error, probeline_outcome};

/// The widest key in words.
pub(crate) const MAX_WORDS: usize = 64;
/// Keys that are widened at once.
const BLOCK: usize = 512;
/// Results that a batch converts at once.
const RESULTS: usize = 1024;

/// Room for the outcomes of a batch.
type Outcomes<'o> = &'o mut [MaybeUninit<probeline_outcome>];

/// Runs `batch` for the keys and stores their outcomes. Its results are `empty` at first.
fn store<K, A: Copy + Into<Ended>>(
    keys: &[K],
    outcomes: Outcomes<'_>,
    empty: A,
    mut batch: impl FnMut(&[K], &mut [A]) -> Result<(), BatchError>,
) -> Result<(), Error> {
    let mut results = [empty; RESULTS];
    for (keys, outcomes) in keys.chunks(RESULTS).zip(outcomes.chunks_mut(RESULTS)) {
        let results = results.get_mut(..outcomes.len()).unwrap_or_default();
        batch(keys, results)?;
        for (to, result) in outcomes.iter_mut().zip(results) {
            to.write((*result).into().into());
        }
    }
    Ok(())
}

/// A set of keys of some words.
pub(crate) trait Set {
    fn call(&mut self, key: &[u64], intent: Intent) -> Result<Ended, Error>;
    /// `keys` has as many keys as `outcomes`, which are undefined after an error.
    fn batch(&mut self, keys: &[u64], intent: Intent, outcomes: Outcomes<'_>) -> Result<(), Error>;
    fn submit(&mut self, tag: Tag, key: &[u64], intent: Intent) -> Result<(), SubmitError>;
    fn poll(&mut self, out: &mut [Finished]) -> Result<usize, OperationError>;
    fn len(&mut self, exchange: &mut dyn Exchange) -> Result<u64, Error>;
    fn clear(&mut self, exchange: &mut dyn Exchange) -> Result<(), Error>;
    fn for_each_local(&mut self, visit: &mut dyn FnMut(&[u64])) -> Result<(), Error>;
    fn stats(&self) -> &Stats;
    fn into_engine(self: Box<Self>) -> Engine;
}

/// Opens a table of keys of `words` words, or of 63 bits if `words` is 0.
pub(crate) fn open(
    members: &mut Members,
    words: usize,
    config: Config,
    entries: u64,
    operations: u32,
) -> Result<Box<dyn Set>, Error> {
    let plan = Plan { config, entries, operations, words };
    match words {
        0 => plan.open_narrow(members),
        1..=2 => plan.open_wide::<2>(members),
        3..=4 => plan.open_wide::<4>(members),
        5..=8 => plan.open_wide::<8>(members),
        9..=16 => plan.open_wide::<16>(members),
        17..=32 => plan.open_wide::<32>(members),
        _ => plan.open_wide::<MAX_WORDS>(members),
    }
}

struct Plan {
    config: Config,
    entries: u64,
    operations: u32,
    words: usize,
}

impl Plan {
    fn open_narrow(self, members: &mut Members) -> Result<Box<dyn Set>, Error> {
        let engine = members.open(self.config.sizes(self.operations))?;
        let storage = vec![probeline::table::Operation::EMPTY; self.operations as usize];
        Ok(Box::new(Table::open(engine, self.config, storage, members.exchange())?))
    }

    fn open_wide<const W: usize>(self, members: &mut Members) -> Result<Box<dyn Set>, Error> {
        let buckets = self.config;
        let config = WideConfig::<W> { buckets, entries_per_owner: self.entries };
        let engine = members.open(config.sizes(self.operations))?;
        let storage = vec![WideOperation::EMPTY; self.operations as usize];
        let table = WideTable::open(engine, config, storage, members.exchange())?;
        Ok(Box::new(Wide { table, words: self.words, keys: Vec::new() }))
    }
}

impl Set for Table<Engine, Vec<probeline::table::Operation>> {
    fn call(&mut self, key: &[u64], intent: Intent) -> Result<Ended, Error> {
        let key = *key.first().ok_or_else(no_key)?;
        Ok(match intent {
            Intent::FindOrPut => self.find_or_put(key)?.into(),
            Intent::Find => self.find(key)?.into(),
        })
    }

    fn batch(&mut self, keys: &[u64], intent: Intent, outcomes: Outcomes<'_>) -> Result<(), Error> {
        match intent {
            Intent::FindOrPut => {
                store(keys, outcomes, Outcome::Full, |keys, to| self.find_or_put_batch(keys, to))
            }
            Intent::Find => store(keys, outcomes, false, |keys, to| self.find_batch(keys, to)),
        }
    }

    fn submit(&mut self, tag: Tag, key: &[u64], intent: Intent) -> Result<(), SubmitError> {
        // The caller gives as many words as keys have.
        Table::submit(self, tag, key.first().copied().unwrap_or(u64::MAX), intent)
    }

    fn poll(&mut self, out: &mut [Finished]) -> Result<usize, OperationError> {
        self.poll_into(out).map(|out| out.len())
    }

    fn len(&mut self, exchange: &mut dyn Exchange) -> Result<u64, Error> {
        Ok(Table::len(self, exchange)?)
    }

    fn clear(&mut self, exchange: &mut dyn Exchange) -> Result<(), Error> {
        Ok(Table::clear(self, exchange)?)
    }

    fn for_each_local(&mut self, visit: &mut dyn FnMut(&[u64])) -> Result<(), Error> {
        self.local().for_each(|key| visit(&[key]));
        Ok(())
    }

    fn stats(&self) -> &Stats {
        Table::stats(self)
    }

    fn into_engine(self: Box<Self>) -> Engine {
        self.into_transport()
    }
}

fn no_key() -> Error {
    Error::invalid("a key has no words")
}

/// A table of keys of at most `W` words; the other words are 0.
struct Wide<const W: usize> {
    table: WideTable<Engine, Vec<WideOperation<W>>, W>,
    /// Words of a key, 1 to W.
    words: usize,
    /// Widened keys of a batch.
    keys: Vec<[u64; W]>,
}

fn widened<const W: usize>(key: &[u64]) -> [u64; W] {
    let mut wide = [0; W];
    wide.iter_mut().zip(key).for_each(|(to, word)| *to = *word);
    wide
}

fn run<const W: usize>(
    table: &mut WideTable<Engine, Vec<WideOperation<W>>, W>,
    keys: &[[u64; W]],
    intent: Intent,
    outcomes: Outcomes<'_>,
) -> Result<(), Error> {
    match intent {
        Intent::FindOrPut => {
            store(keys, outcomes, Outcome::Full, |keys, to| table.find_or_put_batch(keys, to))
        }
        Intent::Find => store(keys, outcomes, false, |keys, to| table.find_batch(keys, to)),
    }
}

impl<const W: usize> Set for Wide<W> {
    fn call(&mut self, key: &[u64], intent: Intent) -> Result<Ended, Error> {
        let key = widened(key);
        Ok(match intent {
            Intent::FindOrPut => self.table.find_or_put(&key)?.into(),
            Intent::Find => self.table.find(&key)?.into(),
        })
    }

    fn batch(&mut self, keys: &[u64], intent: Intent, outcomes: Outcomes<'_>) -> Result<(), Error> {
        if self.words == W {
            return run(&mut self.table, keys.as_chunks().0, intent, outcomes);
        }
        let blocks = keys.chunks(BLOCK * self.words).zip(outcomes.chunks_mut(BLOCK));
        for (keys, outcomes) in blocks {
            self.keys.clear();
            self.keys.extend(keys.chunks_exact(self.words).map(widened));
            run(&mut self.table, &self.keys, intent, outcomes)?;
        }
        Ok(())
    }

    fn submit(&mut self, tag: Tag, key: &[u64], intent: Intent) -> Result<(), SubmitError> {
        self.table.submit(tag, &widened(key), intent)
    }

    fn poll(&mut self, out: &mut [Finished]) -> Result<usize, OperationError> {
        self.table.poll_into(out).map(|out| out.len())
    }

    fn len(&mut self, exchange: &mut dyn Exchange) -> Result<u64, Error> {
        Ok(self.table.len(exchange)?)
    }

    fn clear(&mut self, exchange: &mut dyn Exchange) -> Result<(), Error> {
        Ok(self.table.clear(exchange)?)
    }

    fn for_each_local(&mut self, visit: &mut dyn FnMut(&[u64])) -> Result<(), Error> {
        let words = self.words;
        let visit = |key: &[u64; W]| visit(key.get(..words).unwrap_or(key));
        Ok(self.table.for_each_local(visit)?)
    }

    fn stats(&self) -> &Stats {
        self.table.stats()
    }

    fn into_engine(self: Box<Self>) -> Engine {
        self.table.into_transport()
    }
}
