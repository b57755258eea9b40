//! The cache that needs no coherence, with keys of which some are wanted far more than others.

use probeline_table::{CacheEntry, Config};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand_distr::{Distribution, Zipf};
use serde::Serialize;

use super::Result;
use super::job::{BLOCKING, Job, Mean, OWNERS};
use super::nic::Turns;
use super::plan::{Scale, each};

/// How much more often the more wanted keys are wanted, as YCSB has it.
pub(crate) const ZIPF_EXPONENT: f64 = 0.99;
/// The load factor, in hundredths: as many keys as half of the buckets.
const LOAD: u64 = 50;
/// Keys by entries of a cache.
pub(crate) const KEYS_PER_ENTRY: [u64; 3] = [4, JUDGED, 64];
/// Those of the cache that is judged.
pub(crate) const JUDGED: u64 = 16;
/// Odd, so that it orders a power of two of keys anew: those wanted most were not put first, when
/// their home buckets were empty.
const SHUFFLE: u64 = 0x9e37_79b9_7f4a_7c15;

/// Tables with other data, all counted together: it matters which owner has the few data that are
/// wanted most.
pub(crate) const TABLES: usize = 5;
/// Seeds that a user gives are below 2 to this power.
const SEED_BITS: u32 = 20;

/// Finds with one cache, or with none.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct CacheRow {
    /// How many there are in each table.
    pub(crate) keys: u64,
    /// 0 without a cache.
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    pub(crate) find: Mean,
    /// The mean nanoseconds in each table.
    pub(crate) ns_by_table: [f64; TABLES],
}

pub(crate) fn run(scale: &Scale) -> Result<Vec<CacheRow>> {
    let keys = scale.buckets_per_owner * OWNERS * LOAD / 100;
    let mut caches = vec![0];
    caches.extend(KEYS_PER_ENTRY.map(|share| keys / share));
    let seeds: [u64; TABLES] = core::array::from_fn(|nth| scale.seed | (nth as u64) << SEED_BITS);
    let tables = each(&seeds, |&seed| {
        let wanted = wanted(keys, seed)?;
        caches.iter().map(|&entries| finds(&Scale { seed, ..*scale }, &wanted, entries)).collect()
    })?;
    let tables: &[Vec<Mean>; TABLES] = tables.as_array().ok_or("a table is missing")?;
    caches.iter().enumerate().map(|(at, &entries)| row(keys, entries, at, tables)).collect()
}

fn row(keys: u64, entries: u64, at: usize, tables: &[Vec<Mean>; TABLES]) -> Result<CacheRow> {
    let means: Vec<Mean> = tables.iter().filter_map(|means| means.get(at).copied()).collect();
    let means: &[Mean; TABLES] = means.as_array().ok_or("a cache is missing")?;
    let bytes = entries * size_of::<CacheEntry>() as u64;
    let ns_by_table = means.map(|mean| mean.ns);
    Ok(CacheRow { keys, entries, bytes, find: Mean::of_all(means), ns_by_table })
}

/// Which of so many keys are wanted one after the other, twice as often as there are keys.
fn wanted(keys: u64, seed: u64) -> Result<Vec<u64>> {
    let zipf = Zipf::new(keys as f64, ZIPF_EXPONENT)?;
    let mut rng = SmallRng::seed_from_u64(seed);
    let draws = (0..2 * keys).map(|_| {
        // A sample is a whole number from 1 to `keys`.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let rank = zipf.sample(&mut rng) as u64 - 1;
        rank.wrapping_mul(SHUFFLE) & (keys - 1)
    });
    Ok(draws.collect())
}

/// Finds what is wanted, the first half of which does not count.
fn finds(scale: &Scale, wanted: &[u64], entries: u64) -> Result<Mean> {
    let config = Config::paper(scale.buckets_per_owner);
    let mut job = Job::open(config, BLOCKING, usize::try_from(entries)?, Turns::Reads, scale)?;
    job.fill(LOAD)?;
    let data: Vec<u64> = wanted.iter().map(|&n| job.datum(n)).collect();
    let (first, counted) = data.split_at(data.len() / 2);
    job.find(first)?;
    job.find(counted)
}

fn without(rows: &[CacheRow]) -> Option<&CacheRow> {
    rows.iter().find(|row| row.entries == 0)
}

/// The mean of finds with a cache by that without.
pub(crate) fn ratio(rows: &[CacheRow], row: &CacheRow) -> Option<f64> {
    Some(row.find.ns / without(rows)?.find.ns)
}

/// The same in the table where it is least, and where it is most.
pub(crate) fn range(rows: &[CacheRow], row: &CacheRow) -> Option<(f64, f64)> {
    let without = without(rows)?.ns_by_table;
    let ratios = row.ns_by_table.iter().zip(without).map(|(with, without)| with / without);
    let ends = |(least, most): (f64, f64), ratio: f64| (least.min(ratio), most.max(ratio));
    ratios.map(|ratio| (ratio, ratio)).reduce(|all, (ratio, _)| ends(all, ratio))
}
