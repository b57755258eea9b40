//! Tables of both kinds behind one trait, with the width of keys chosen at run time.

use probeline::pipeline::{self, Kind, Open, OperationOf, Plain};
use probeline::table::{
    self, BatchError, Config, Ended, Intent, Keys, Narrow, Outcome, Stats, Tag, Wide, WideConfig,
};
use probeline::transport::Sizes;

use crate::job::Members;
use crate::operations::{self, Outcomes, Place, Run, Started, Submit, Told};
use crate::status::{Error, probeline_outcome};
use crate::structure::{self, Engine, Typed};
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
    fn for_each_local(&mut self, visit: &mut dyn FnMut(&[u8])) -> Result<(), Error>;
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
        0 => open_as::<Narrow>(members, config, config.sizes(operations), operations),
        1..=2 => open_wide::<2>(members, buckets, operations),
        3..=4 => open_wide::<4>(members, buckets, operations),
        5..=8 => open_wide::<8>(members, buckets, operations),
        9..=16 => open_wide::<16>(members, buckets, operations),
        17..=32 => open_wide::<32>(members, buckets, operations),
        _ => open_wide::<MAX_WORDS>(members, buckets, operations),
    }
}

fn open_wide<const W: usize>(
    members: &mut Members,
    (buckets, entries_per_owner): (Config, u64),
    operations: u32,
) -> Result<Box<dyn Set>, Error>
where
    [u64; W]: Plain,
{
    let config = WideConfig::<W> { buckets, entries_per_owner };
    open_as::<Wide<W>>(members, config, config.sizes(operations), operations)
}

fn open_as<K: Keys<Key: Plain> + Open + 'static>(
    members: &mut Members,
    config: K::Config,
    sizes: Sizes,
    operations: u32,
) -> Result<Box<dyn Set>, Error> {
    let open = table::Set::<_, _, K>::open;
    let table = structure::open(members, (sizes, operations), config, open)?;
    Ok(Typed::new(table, Vec::new(), operations))
}

/// Returns the key of at most as many words as a key has; the other words are 0.
fn key_of<K: Plain>(words: &[u64]) -> K {
    K::from_words(&mut words.iter().copied(), 0)
}

/// A table, and the keys of a batch in its form.
type Opened<K> = Typed<table::Set<Engine, Vec<OperationOf<K>>, K>, Vec<<K as Kind>::Key>>;

impl Told for Ended {
    fn told(&self) -> (probeline_outcome, Option<&[u8]>) {
        ((*self).into(), None)
    }
}

impl<K: Keys<Key: Plain> + 'static> Submit<probeline_table> for Opened<K> {
    fn submit(&mut self, tag: Tag, intent: Intent, key: &[u64], _: &[u8]) -> Started {
        pipeline::Structure::submit(&mut self.front, tag, &key_of(key), intent)
    }
}

impl<K: Keys<Key: Plain> + 'static> Run<probeline_table> for Opened<K> {
    fn run(&mut self, intent: Intent, key: &[u64], _: &[u8], _: Place<'_>) -> operations::Ended {
        Ok(self.front.call(&key_of(key), intent)?.into())
    }

    fn batch(
        &mut self,
        intent: Intent,
        keys: &[u64],
        _: &[u8],
        _: Place<'_>,
        outcomes: Outcomes<'_>,
    ) -> Result<(), Error> {
        let (table, staged) = (&mut self.front, &mut self.own);
        let words = (keys.len() / outcomes.len().max(1)).max(1);
        let blocks = keys.chunks(BLOCK * words).zip(outcomes.chunks_mut(BLOCK));
        for (keys, outcomes) in blocks {
            staged.clear();
            staged.extend(keys.chunks_exact(words).map(key_of::<K::Key>));
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

impl<K: Keys<Key: Plain> + 'static> Set for Opened<K> {
    fn for_each_local(&mut self, visit: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
        Ok(self.front.for_each_local(|key| visit(key.bytes()))?)
    }

    fn stats(&self) -> &Stats {
        self.front.stats()
    }
}
