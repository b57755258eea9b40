//! The kinds of tables, with keys that have numbers, for cases that run on each of them.

use core::cell::RefCell;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;
use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

use probeline_pipeline::{Open, OperationOf, Structure};
use probeline_sim::DirectAccess;
use probeline_table::{
    Bucket, CacheEntry, CollectiveError, Config, Ended, Finished, Intent, Keys, Narrow,
    OneRoundtrip, OperationError, PairCacheLine, Set, Stats, Tag, Tree, TreeConfig, Wide,
    WideConfig,
};
use probeline_transport::{Exchange, Sizes, Transport};

use super::account::{End, UNTOUCHED, ends};
use super::drive::{counts_operations, find_in_chunks, is_right};
use super::extensions::Setup;
use super::{Wrong, cache, content, key, own_words};

pub(crate) type NarrowKeys = Narrow<Vec<CacheEntry>>;
pub(crate) type WideKeys<const W: usize> = Wide<W>;
pub(crate) type TreeKeys<const W: usize> = Tree<W, Vec<PairCacheLine>>;

/// A table of kind `K`.
pub(crate) type Numbered<T, K> = Set<T, Vec<OperationOf<K>>, K>;

/// Attempts of an operation of the test that fails.
const TRIES: u32 = 100_000;

/// A kind of table, and a different key for each number below 65536.
pub(crate) trait Numbers: Keys<Config: Send + Sync> {
    /// The kind without a cache.
    type Plain: Keys<Key = Self::Key, Config = Self::Config, Machine = Self::Machine> + Open;

    /// Returns the parameters of a table with these buckets and, for wide keys, entries per owner.
    fn config(buckets: Config, entries: u64) -> Self::Config;
    fn sizes(config: &Self::Config, operations: u32) -> Sizes;
    fn key(config: &Self::Config, number: u64) -> Self::Key;
    fn number(config: &Self::Config, key: &Self::Key) -> u64;

    /// Adds a cache of this number of entries, if the kind has one.
    fn cached<T: Transport>(
        table: Set<T, Vec<OperationOf<Self::Plain>>, Self::Plain>,
        entries: usize,
    ) -> Numbered<T, Self>;

    /// Returns the numbers of the keys in the tables of all owners, after a check that each is there
    /// once; nothing if only a dead engine could read them. Operations had the keys of `tried`.
    fn content<T: Transport>(
        tables: &[RefCell<Numbered<T, Self>>],
        tried: BTreeSet<u64>,
    ) -> Result<Option<BTreeSet<u64>>, Wrong>;

    /// Removes the keys of the numbers that `keep` refuses, if the kind can.
    fn retain<T: Transport>(
        _table: &mut Numbered<T, Self>,
        _exchange: &mut dyn Exchange,
        _keep: impl Fn(u64) -> bool,
    ) -> Option<Result<u64, CollectiveError>> {
        None
    }

    /// Returns whether the key of a number is there, and whether it has room, where the words show
    /// that.
    fn find_in_chunks<T: Transport>(
        _tables: &[RefCell<Numbered<T, Self>>],
        _config: &Config,
        _number: u64,
    ) -> Option<(bool, bool)> {
        None
    }

    /// Returns whether the counters of one owner are possible, whose operations ended so often found,
    /// inserted, full, absent, and failed.
    fn is_right(stats: &Stats, ended: [u64; 5], _setup: &Setup, _access: DirectAccess) -> bool {
        counts_operations(stats, ended)
    }
}

/// Opens a table by itself.
pub(crate) fn new<T: Transport, K: Numbers>(
    transport: T,
    config: K::Config,
    operations: u32,
    cache_entries: usize,
) -> Numbered<T, K> {
    let storage = vec![OperationOf::<K::Plain>::EMPTY; operations as usize];
    K::cached(Set::new(transport, config, storage).unwrap(), cache_entries)
}

/// Opens a table together with all other owners.
pub(crate) fn open<T: Transport, K: Numbers>(
    transport: T,
    config: K::Config,
    operations: u32,
    exchange: &mut (impl Exchange + ?Sized),
) -> Numbered<T, K> {
    try_open(transport, config, operations, exchange).unwrap()
}

/// Opens a table with a small cache together with all other owners.
pub(crate) fn try_open<T: Transport, K: Numbers>(
    transport: T,
    config: K::Config,
    operations: u32,
    exchange: &mut (impl Exchange + ?Sized),
) -> Result<Numbered<T, K>, CollectiveError> {
    let storage = vec![OperationOf::<K::Plain>::EMPTY; operations as usize];
    Ok(K::cached(Set::open(transport, config, storage, exchange)?, 16))
}

/// Repeats an operation while it fails. Returns nothing when the engine is dead.
pub(crate) fn repeat<R>(mut call: impl FnMut() -> Result<R, OperationError>) -> Option<R> {
    for _ in 0..TRIES {
        match call() {
            Err(OperationError::Failed(_)) => {}
            result => return result.ok(),
        }
    }
    panic!("an operation fails again and again");
}

/// Runs an operation on the key of a number, as often as it takes.
pub(crate) fn call<T: Transport, K: Numbers>(
    table: &mut Numbered<T, K>,
    number: u64,
    intent: Intent,
) -> Option<Ended> {
    let key = K::key(table.config(), number);
    repeat(|| table.call(&key, intent))
}

/// Inserts the key of a number.
pub(crate) fn put<T: Transport, K: Numbers>(table: &mut Numbered<T, K>, number: u64) -> Option<()> {
    let ended = call(table, number, Intent::FindOrPut)?;
    assert_ne!(ended, Ended::Full, "the test's table is too small");
    Some(())
}

/// Returns whether the key of a number is there.
pub(crate) fn find<T: Transport, K: Numbers>(
    table: &mut Numbered<T, K>,
    number: u64,
) -> Option<bool> {
    call(table, number, Intent::Find).map(|ended| ended == Ended::Found)
}

/// The forms of call of [`run_in_form`].
pub(crate) const FORMS: u8 = 3;
pub(crate) const BATCH: u8 = 1;

/// Runs operations as blocking calls, as a [batch](BATCH), or submitted.
pub(crate) fn run_in_form<T: Transport, K: Numbers>(
    table: &mut Numbered<T, K>,
    keys: &[K::Key],
    form: u8,
    intent: Intent,
) -> Vec<End> {
    match (form, intent) {
        (0, _) => keys.iter().map(|key| table.call(key, intent)).collect(),
        (BATCH, Intent::FindOrPut) => {
            ends(keys.len(), |ends| table.find_or_put_batch(keys, ends)).unwrap()
        }
        (BATCH, Intent::Find) => ends(keys.len(), |ends| table.find_batch(keys, ends)).unwrap(),
        _ => {
            let (mut next, mut results) = (0, vec![Err(UNTOUCHED); keys.len()]);
            while next < keys.len() || table.in_flight() > 0 {
                while next < keys.len() && table.has_room() {
                    match Structure::submit(table, Tag(next as u64), &keys[next], intent) {
                        Ok(()) => next += 1,
                        Err(error) => assert_eq!(error, OperationError::Busy),
                    }
                }
                for end in table.poll_into(&mut [Finished::default(); 4]).unwrap() {
                    results[usize::try_from(end.tag.0).unwrap()] = end.result;
                }
            }
            results
        }
    }
}

/// Returns the numbers of the keys in this owner's part.
pub(crate) fn part<T: Transport, K: Numbers>(table: &mut Numbered<T, K>) -> Option<Vec<u64>> {
    let config = *table.config();
    repeat(|| {
        let mut part = Vec::new();
        table.for_each_local(|key| part.push(K::number(&config, key)))?;
        Ok(part)
    })
}

/// Returns those of the numbers whose keys are there, or nothing if the engine is dead.
fn find_all<T: Transport, K: Numbers>(
    table: &mut Numbered<T, K>,
    mut numbers: BTreeSet<u64>,
) -> Option<BTreeSet<u64>> {
    let mut is_dead = false;
    numbers.retain(|number| {
        let found = find(table, *number);
        is_dead |= found.is_none();
        found == Some(true)
    });
    (!is_dead).then_some(numbers)
}

/// Returns the words of all owners' buckets that are not empty.
fn occupied<T: Transport, K: Numbers>(tables: &[RefCell<Numbered<T, K>>]) -> Vec<u64> {
    tables.iter().flat_map(|table| own_words(&table.borrow())).filter(|word| *word != 0).collect()
}

impl Numbers for NarrowKeys {
    type Plain = Narrow;

    fn config(buckets: Config, _: u64) -> Config {
        buckets
    }

    fn sizes(config: &Config, operations: u32) -> Sizes {
        let sizes = config.sizes(operations);
        Sizes { window_words: config.first_word + config.words(), ..sizes }
    }

    fn key(_: &Config, number: u64) -> u64 {
        key(number)
    }

    fn number(_: &Config, found: &u64) -> u64 {
        static NUMBERS: LazyLock<HashMap<u64, u64>> =
            LazyLock::new(|| (0..1 << 16).map(|number| (key(number), number)).collect());
        NUMBERS[found]
    }

    fn cached<T: Transport>(
        table: Set<T, Vec<OperationOf<Narrow>>, Narrow>,
        entries: usize,
    ) -> Numbered<T, Self> {
        table.with_cache(cache(entries))
    }

    fn content<T: Transport>(
        tables: &[RefCell<Numbered<T, Self>>],
        _: BTreeSet<u64>,
    ) -> Result<Option<BTreeSet<u64>>, Wrong> {
        let ring: Vec<u64> = tables.iter().flat_map(|table| own_words(&table.borrow())).collect();
        let (content, config) = {
            let table = tables[0].borrow();
            (content(table.layout(), &ring)?, *table.config())
        };
        let local = |table: &RefCell<Numbered<T, Self>>| table.borrow().local().collect::<Vec<_>>();
        let local: Vec<u64> = tables.iter().flat_map(local).collect();
        if local.len() != content.len() || !local.iter().all(|key| content.contains(key)) {
            return Err("`local` differs from the words".into());
        }
        Ok(Some(content.iter().map(|key| Self::number(&config, key)).collect()))
    }

    fn retain<T: Transport>(
        table: &mut Numbered<T, Self>,
        exchange: &mut dyn Exchange,
        keep: impl Fn(u64) -> bool,
    ) -> Option<Result<u64, CollectiveError>> {
        let config = *table.config();
        Some(table.retain(exchange, |key| keep(Self::number(&config, &key))))
    }

    fn find_in_chunks<T: Transport>(
        tables: &[RefCell<Numbered<T, Self>>],
        config: &Config,
        number: u64,
    ) -> Option<(bool, bool)> {
        Some(find_in_chunks(tables, config, number))
    }

    fn is_right(stats: &Stats, ended: [u64; 5], setup: &Setup, access: DirectAccess) -> bool {
        counts_operations(stats, ended) && is_right(stats, setup, access != DirectAccess::None)
    }
}

impl<const W: usize> Numbers for WideKeys<W> {
    type Plain = Self;

    fn config(buckets: Config, entries: u64) -> WideConfig<W> {
        let buckets = Config { one_roundtrip: OneRoundtrip::Off, ..buckets };
        WideConfig { buckets, entries_per_owner: entries }
    }

    fn sizes(config: &WideConfig<W>, operations: u32) -> Sizes {
        config.sizes(operations)
    }

    /// Keys of near numbers differ in few words.
    fn key(_: &WideConfig<W>, number: u64) -> [u64; W] {
        let mut key = [7; W];
        key[0] = number % 3;
        key[W - 1] = number;
        key
    }

    fn number(config: &WideConfig<W>, key: &[u64; W]) -> u64 {
        assert_eq!(*key, Self::key(config, key[W - 1]));
        key[W - 1]
    }

    fn cached<T: Transport>(
        table: Set<T, Vec<OperationOf<Self>>, Self>,
        _: usize,
    ) -> Numbered<T, Self> {
        table
    }

    fn retain<T: Transport>(
        table: &mut Numbered<T, Self>,
        exchange: &mut dyn Exchange,
        keep: impl Fn(u64) -> bool,
    ) -> Option<Result<u64, CollectiveError>> {
        let config = *table.config();
        Some(table.retain(exchange, |key| keep(Self::number(&config, key))))
    }

    /// Each key that is found has a bucket, so it has only one if there are no more buckets than keys.
    fn content<T: Transport>(
        tables: &[RefCell<Numbered<T, Self>>],
        tried: BTreeSet<u64>,
    ) -> Result<Option<BTreeSet<u64>>, Wrong> {
        let Some(found) = find_all(&mut tables[0].borrow_mut(), tried) else { return Ok(None) };
        match occupied(tables).len() {
            count if count == found.len() => Ok(Some(found)),
            count => Err(format!("{count} buckets of {} keys", found.len())),
        }
    }
}

/// Returns the numbers below `limit` of the wide keys that are written in these words, at any place.
pub(crate) fn wide_keys_in<const W: usize>(words: &[AtomicU64], limit: u64) -> Vec<u64> {
    let config = WideKeys::<W>::config(Config::paper(8), 1);
    let words: Vec<u64> = words.iter().map(|word| word.load(Acquire)).collect();
    let number = |words: &[u64]| words[W - 1];
    let is_key = |words: &&[u64]| {
        number(words) < limit && **words == WideKeys::<W>::key(&config, number(words))
    };
    words.windows(W).filter(is_key).map(number).collect()
}

/// Returns the parts of a number in the bits of a key: their first bits and widths, in the number and in the
/// key.
fn bits_of_parts(key_bits: u32) -> [(u32, u32, u32); 3] {
    let middle = (key_bits - 4) / 2;
    let last = (key_bits - middle - 4).min(16);
    [(0, 0, 4), (4, middle, 4), (8, key_bits - last, last)]
}

impl<const W: usize> Numbers for TreeKeys<W> {
    type Plain = Tree<W>;

    fn config(buckets: Config, _: u64) -> TreeConfig {
        TreeConfig { buckets, key_bits: 64 * u32::try_from(W).unwrap() - 42 }
    }

    fn sizes(config: &TreeConfig, operations: u32) -> Sizes {
        config.sizes(operations)
    }

    /// Keys have parts in common, and bits up to the last.
    fn key(config: &TreeConfig, number: u64) -> [u64; W] {
        let mut key = [0; W];
        for (from, to, width) in bits_of_parts(config.key_bits) {
            for bit in (0..width).filter(|bit| number >> (from + bit) & 1 == 1) {
                key[(to + bit) as usize / 64] |= 1 << ((to + bit) % 64);
            }
        }
        key
    }

    fn number(config: &TreeConfig, key: &[u64; W]) -> u64 {
        let is_set = |bit: u32| key[bit as usize / 64] >> (bit % 64) & 1;
        let parts = bits_of_parts(config.key_bits).into_iter();
        let bits = parts.flat_map(|(from, to, width)| {
            (0..width).map(move |bit| is_set(to + bit) << (from + bit))
        });
        let number = bits.sum();
        assert_eq!(*key, Self::key(config, number));
        number
    }

    fn cached<T: Transport>(
        table: Set<T, Vec<OperationOf<Tree<W>>>, Tree<W>>,
        entries: usize,
    ) -> Numbered<T, Self> {
        table.with_cache(vec![PairCacheLine::EMPTY; entries.div_ceil(4)])
    }

    /// The counters are those of nodes.
    fn is_right(_: &Stats, _: [u64; 5], _: &Setup, _: DirectAccess) -> bool {
        true
    }

    /// Each pair has one bucket, and each key a root.
    fn content<T: Transport>(
        tables: &[RefCell<Numbered<T, Self>>],
        tried: BTreeSet<u64>,
    ) -> Result<Option<BTreeSet<u64>>, Wrong> {
        let Some(found) = find_all(&mut tables[0].borrow_mut(), tried) else { return Ok(None) };
        let words = occupied(tables);
        if words.iter().collect::<BTreeSet<_>>().len() < words.len() {
            return Err("a pair is there twice".into());
        }
        let pairs = words.into_iter().filter_map(Bucket::from_word).map(Bucket::key);
        match pairs.filter(|pair| pair >> 62 == 1).count() {
            roots if roots == found.len() => Ok(Some(found)),
            roots => Err(format!("{roots} roots of {} keys", found.len())),
        }
    }
}
