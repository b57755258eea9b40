//! Tables of both kinds behind one trait, with the width of keys chosen at run time.

use probeline::pipeline::{self, Kind, Open, OperationOf};
use probeline::table::{
    self, BatchError, Config, Ended, Intent, Keys, Narrow, Outcome, Stats, Tag, Wide, WideConfig,
};
use probeline::transport::Sizes;

use crate::job::Members;
use crate::operations::{self, Outcomes, Place, Run, Started, Submit, Told};
use crate::status::{Error, probeline_outcome};
use crate::structure::{Engine, Typed};
use crate::table::probeline_table;

/// The widest key in words.
pub(crate) const MAX_WORDS: usize = 64;
/// Keys and results that a batch converts at once.
const BLOCK: usize = 1024;

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
pub(crate) trait Set: Run<probeline_table> {
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
    let buckets = (config, entries);
    match words {
        0 => open_as::<Narrow>(members, 1, config, config.sizes(operations), operations),
        1..=2 => open_wide::<2>(members, words, buckets, operations),
        3..=4 => open_wide::<4>(members, words, buckets, operations),
        5..=8 => open_wide::<8>(members, words, buckets, operations),
        9..=16 => open_wide::<16>(members, words, buckets, operations),
        17..=32 => open_wide::<32>(members, words, buckets, operations),
        _ => open_wide::<MAX_WORDS>(members, words, buckets, operations),
    }
}

fn open_wide<const W: usize>(
    members: &mut Members,
    words: usize,
    (buckets, entries_per_owner): (Config, u64),
    operations: u32,
) -> Result<Box<dyn Set>, Error> {
    let config = WideConfig::<W> { buckets, entries_per_owner };
    open_as::<Wide<W>>(members, words, config, config.sizes(operations), operations)
}

fn open_as<K: OfWords + Open + 'static>(
    members: &mut Members,
    words: usize,
    config: K::Config,
    sizes: Sizes,
    operations: u32,
) -> Result<Box<dyn Set>, Error> {
    let own = Own { words, keys: Vec::new() };
    Ok(Typed::open(members, (sizes, operations), own, |engine, storage, exchange| {
        table::Set::<_, _, K>::open(engine, config, storage, exchange)
    })?)
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

/// What a table needs whose keys have some words, up to those of its kind.
struct Own<K> {
    /// Words of a key, at least 1.
    words: usize,
    /// Keys of a batch in the form of the table.
    keys: Vec<K>,
}

type Opened<K> = Typed<table::Set<Engine, Vec<OperationOf<K>>, K>, Own<<K as Kind>::Key>>;

impl Told for Ended {
    fn told(&self) -> (probeline_outcome, Option<&[u8]>) {
        ((*self).into(), None)
    }
}

impl<K: OfWords + 'static> Submit<probeline_table> for Opened<K> {
    fn submit(&mut self, tag: Tag, intent: Intent, key: &[u64], _: &[u8]) -> Started {
        pipeline::Structure::submit(&mut self.front, tag, &K::key(key), intent)
    }
}

impl<K: OfWords + 'static> Run<probeline_table> for Opened<K> {
    fn run(&mut self, intent: Intent, key: &[u64], _: &[u8], _: Place<'_>) -> operations::Ended {
        Ok(self.front.call(&K::key(key), intent)?.into())
    }

    fn batch(
        &mut self,
        intent: Intent,
        keys: &[u64],
        _: &[u8],
        _: Place<'_>,
        outcomes: Outcomes<'_>,
    ) -> Result<(), Error> {
        let (table, Own { words, keys: staged }) = (&mut self.front, &mut self.own);
        let blocks = keys.chunks(BLOCK * *words).zip(outcomes.chunks_mut(BLOCK));
        for (keys, outcomes) in blocks {
            staged.clear();
            staged.extend(keys.chunks_exact(*words).map(K::key));
            match intent {
                Intent::FindOrPut => {
                    store(outcomes, Outcome::Full, |to| table.find_or_put_batch(staged, to))?;
                }
                Intent::Find => store(outcomes, false, |to| table.find_batch(staged, to))?,
            }
        }
        Ok(())
    }
}

impl<K: OfWords + 'static> Set for Opened<K> {
    fn for_each_local(&mut self, visit: &mut dyn FnMut(&[u64])) -> Result<(), Error> {
        let words = self.own.words;
        let visit = |key: &K::Key| visit(K::words(key).get(..words).unwrap_or_default());
        Ok(self.front.for_each_local(visit)?)
    }

    fn stats(&self) -> &Stats {
        self.front.stats()
    }
}
