//! Tables of both kinds behind one trait, with the width of keys chosen at run time.

use core::mem::MaybeUninit;

use probeline::pipeline::{self, Open, OperationOf};
use probeline::table::{
    self, BatchError, Config, Ended, Finished, Intent, Keys, Narrow, OperationError, Outcome,
    Stats, Tag, Wide, WideConfig,
};
use probeline::transport::{Exchange, Sizes};

use crate::engine::Engine;
use crate::job::Members;
use crate::status::{Error, probeline_outcome};
use crate::structure::{Structure, structure};

/// The widest key in words.
pub(crate) const MAX_WORDS: usize = 64;
/// Keys and results that a batch converts at once.
const BLOCK: usize = 1024;

/// Room for the outcomes of a batch.
type Outcomes<'o> = &'o mut [MaybeUninit<probeline_outcome>];

/// Runs `batch` and stores its outcomes. Its results are `empty` at first.
fn store<A: Copy + Into<Ended>>(
    outcomes: Outcomes<'_>,
    empty: A,
    batch: impl FnOnce(&mut [A]) -> Result<(), BatchError>,
) -> Result<(), Error> {
    let mut results = [empty; BLOCK];
    let results = results.get_mut(..outcomes.len()).unwrap_or_default();
    batch(results)?;
    for (to, result) in outcomes.iter_mut().zip(results) {
        to.write((*result).into().into());
    }
    Ok(())
}

/// A set of keys of some words.
pub(crate) trait Set: Structure {
    fn call(&mut self, key: &[u64], intent: Intent) -> Result<Ended, Error>;
    /// `keys` has as many keys as `outcomes`, which are undefined after an error.
    fn batch(&mut self, keys: &[u64], intent: Intent, outcomes: Outcomes<'_>) -> Result<(), Error>;
    fn submit(&mut self, tag: Tag, key: &[u64], intent: Intent) -> Result<(), OperationError>;
    fn poll(&mut self, out: &mut [Finished]) -> Result<usize, OperationError>;
    fn for_each_local(&mut self, visit: &mut dyn FnMut(&[u64])) -> Result<(), Error>;
    fn stats(&self) -> &Stats;
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
        let sizes = self.config.sizes(self.operations);
        self.open::<Narrow>(self.config, sizes, 1, members)
    }

    fn open_wide<const W: usize>(self, members: &mut Members) -> Result<Box<dyn Set>, Error> {
        let buckets = self.config;
        let config = WideConfig::<W> { buckets, entries_per_owner: self.entries };
        let sizes = config.sizes(self.operations);
        self.open::<Wide<W>>(config, sizes, self.words, members)
    }

    fn open<K>(
        &self,
        config: K::Config,
        sizes: Sizes,
        words: usize,
        members: &mut Members,
    ) -> Result<Box<dyn Set>, Error>
    where
        K: OfWords + Open + 'static,
    {
        let engine = members.open(sizes)?;
        let operations = vec![OperationOf::<K>::EMPTY; self.operations as usize];
        let table = table::Set::open(engine, config, operations, members.exchange())?;
        Ok(Box::new(Sized::<K> { table, words, keys: Vec::new() }))
    }
}

/// A kind of keys that the words of a caller's key make.
trait OfWords: Keys {
    /// Returns the key of at most as many words as a key has; the other words are 0.
    fn key(words: &[u64]) -> Self::Key;

    /// Returns the words of a key.
    fn words(key: &Self::Key) -> &[u64];
}

impl OfWords for Narrow {
    fn key(words: &[u64]) -> u64 {
        // The caller gives as many words as keys have.
        words.first().copied().unwrap_or(u64::MAX)
    }

    fn words(key: &u64) -> &[u64] {
        core::slice::from_ref(key)
    }
}

impl<const W: usize> OfWords for Wide<W> {
    fn key(words: &[u64]) -> [u64; W] {
        let mut wide = [0; W];
        wide.iter_mut().zip(words).for_each(|(to, word)| *to = *word);
        wide
    }

    fn words(key: &[u64; W]) -> &[u64] {
        key
    }
}

/// A table whose keys have some words, up to those of its kind.
struct Sized<K: Keys> {
    table: Opened<K>,
    /// Words of a key, at least 1.
    words: usize,
    /// Keys of a batch in the form of the table.
    keys: Vec<K::Key>,
}

type Opened<K> = table::Set<Engine, Vec<OperationOf<K>>, K>;

structure!(Sized<K> [K: OfWords], table);

impl<K: OfWords> Set for Sized<K> {
    fn call(&mut self, key: &[u64], intent: Intent) -> Result<Ended, Error> {
        Ok(self.table.call(&K::key(key), intent)?)
    }

    fn batch(&mut self, keys: &[u64], intent: Intent, outcomes: Outcomes<'_>) -> Result<(), Error> {
        let blocks = keys.chunks(BLOCK * self.words).zip(outcomes.chunks_mut(BLOCK));
        for (keys, outcomes) in blocks {
            self.keys.clear();
            self.keys.extend(keys.chunks_exact(self.words).map(K::key));
            let (table, keys) = (&mut self.table, &self.keys);
            match intent {
                Intent::FindOrPut => {
                    store(outcomes, Outcome::Full, |to| table.find_or_put_batch(keys, to))?;
                }
                Intent::Find => store(outcomes, false, |to| table.find_batch(keys, to))?,
            }
        }
        Ok(())
    }

    fn submit(&mut self, tag: Tag, key: &[u64], intent: Intent) -> Result<(), OperationError> {
        pipeline::Structure::submit(&mut self.table, tag, &K::key(key), intent)
    }

    fn poll(&mut self, out: &mut [Finished]) -> Result<usize, OperationError> {
        self.table.poll_into(out).map(|out| out.len())
    }

    fn for_each_local(&mut self, visit: &mut dyn FnMut(&[u64])) -> Result<(), Error> {
        let words = self.words;
        let visit = |key: &K::Key| visit(K::words(key).get(..words).unwrap_or_default());
        Ok(self.table.for_each_local(visit)?)
    }

    fn stats(&self) -> &Stats {
        self.table.stats()
    }
}
