//! Shared test code: seeds that can be replayed, inspection of tables, and jobs.
// Each test binary uses only a part of this module.
#![allow(dead_code)]

pub(crate) mod account;
pub(crate) mod drive;
pub(crate) mod extensions;
pub(crate) mod job;
pub(crate) mod kinds;

use core::sync::atomic::Ordering::Acquire;
use std::collections::BTreeSet;

use probeline_pipeline::OperationOf;
use probeline_table::{Bucket, CacheEntry, Keys, Layout, MAX_KEY, Operation, Probing, Set, Table};
use probeline_transport::Transport;

/// The error of a run, for the message of a failed test.
pub(crate) type Wrong = String;

/// A table with a cache, which may have no entries.
pub(crate) type CachedTable<T> = Table<T, Vec<Operation>, Vec<CacheEntry>>;

/// Returns storage for `operations` operations in flight.
pub(crate) fn storage(operations: u32) -> Vec<Operation> {
    vec![Operation::EMPTY; operations as usize]
}

/// Returns storage for a cache of `entries` entries.
pub(crate) fn cache(entries: usize) -> Vec<CacheEntry> {
    vec![CacheEntry::EMPTY; entries]
}

/// Returns the words of this owner's buckets.
pub(crate) fn own_words<T: Transport, S, K: Keys>(table: &Set<T, S, K>) -> Vec<u64>
where
    S: AsMut<[OperationOf<K>]>,
{
    let layout = table.layout();
    let first = usize::try_from(layout.first_word()).unwrap();
    let count = usize::try_from(layout.buckets_per_owner()).unwrap();
    let words = &table.transport().window()[first..first + count];
    words.iter().map(|word| word.load(Acquire)).collect()
}

/// Returns the home of `key` as an index in the ring, counted from owner 0's first bucket.
pub(crate) fn home(layout: &Layout, key: u64) -> usize {
    let at = layout.home(Bucket::new(key).unwrap());
    usize::try_from(u64::from(at.owner) * layout.buckets_per_owner() + at.index).unwrap()
}

/// Returns the probe order of `key` as indices in the ring, counted from owner 0's first bucket.
pub(crate) fn probe_order(layout: &Layout, key: u64) -> impl Iterator<Item = usize> + use<> {
    let (home, buckets) = (home(layout, key), usize::try_from(layout.buckets()).unwrap());
    let (probing, lines, rotation) = (layout.probing(), buckets / 8, home % 8);
    let stride = if probing == Probing::DoubleHash { stride(key, lines) } else { 1 };
    let (mut line, mut first) = (home / 8, home / 8);
    (0..buckets).map(move |nth| {
        if probing == Probing::Linear {
            return (home + nth) % buckets;
        }
        if nth > 0 && nth.is_multiple_of(8) {
            line = (line + stride) % lines;
            // If the strides return to the first line, continue one line further.
            if line == first {
                line = (line + 1) % lines;
                first = line;
            }
        }
        8 * line + (rotation + nth) % 8
    })
}

/// Returns the stride in lines: the second hash as a fraction of 2^63, but at least 1.
fn stride(key: u64, lines: usize) -> usize {
    let first = u128::from(Bucket::new(key).unwrap().hash());
    let second = (first * 0x9e37_79b9_7f4a_7c15) & u128::from(MAX_KEY);
    usize::try_from((second * lines as u128) >> 63).unwrap().max(1)
}

/// Returns the set of keys in the ring's words.
///
/// # Errors
/// A key that is in two buckets, or behind an empty bucket of its probe order (paper section 3.1).
pub(crate) fn content(layout: &Layout, ring: &[u64]) -> Result<BTreeSet<u64>, Wrong> {
    let mut set = BTreeSet::new();
    for (at, bucket) in ring
        .iter()
        .enumerate()
        .filter_map(|(at, &word)| Bucket::from_word(word).map(|bucket| (at, bucket)))
    {
        let key = bucket.key();
        if !set.insert(key) {
            return Err(format!("{key} is in two buckets, one of them {at}"));
        }
        let mut before = probe_order(layout, key).take_while(|&probe| probe != at);
        if let Some(empty) = before.find(|&probe| ring[probe] == 0) {
            return Err(format!("{key}, in bucket {at}, lies behind the empty one {empty}"));
        }
    }
    Ok(set)
}

/// Returns a different key for each `number` below 65536. Every fourth key has a word full of zero
/// bytes, in which a tear is hardest to detect. It shares its home with other keys that a tear
/// turns it into.
pub(crate) fn key(number: u64) -> u64 {
    if !number.is_multiple_of(4) {
        return number;
    }
    let n = number / 4;
    let ones = (0..7).filter(|byte| n >> (3 + byte) & 1 == 1).map(|byte| 1 << (8 * byte));
    let top = (n & 7) << 4 | n >> 10;
    Bucket::from_word(1 << 63 | top << 56 | ones.sum::<u64>()).unwrap().key()
}
