//! Wide keys in a block of a batch: a line whose bucket has the tag of a key makes it a candidate,
//! whose entry is prefetched and compared some keys later. Both cache misses of a find thus overlap
//! with those of other keys.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Acquire;

use super::context::WideContext;
use super::direct::{Mapped, Wide};
use super::key::{Tagged, hash};
use crate::block::{BlockKeys, Checked, Key, MAX_CANDIDATES, Verdict};
use crate::bucket::Wanted;
use crate::layout::LINE_BUCKETS;
use crate::outcome::{Ended, Intent};
use crate::stats::Stats;
use probeline_transport::line::{Compare, Line};
use probeline_transport::prefetch_far;

/// The wide keys of a block.
pub(super) struct WideKeys<'b, 't, const W: usize> {
    pub(super) keys: &'b [[u64; W]],
    pub(super) mapped: &'b Mapped<'t, W>,
    pub(super) context: &'b mut WideContext,
    pub(super) candidates: Candidates<'t, W>,
}

/// Keys whose entries are prefetched, in the order in which they were added.
pub(super) struct Candidates<'t, const W: usize> {
    ring: [Candidate<'t, W>; MAX_CANDIDATES],
    added: usize,
    checked: usize,
}

#[derive(Clone, Copy)]
struct Candidate<'t, const W: usize> {
    entry: Option<&'t [AtomicU64; W]>,
    place: usize,
    lines: u64,
}

impl<'t, const W: usize> Candidates<'t, W> {
    pub(super) const NONE: Self = Self {
        ring: [Candidate { entry: None, place: 0, lines: 0 }; MAX_CANDIDATES],
        added: 0,
        checked: 0,
    };

    /// Returns false if there is no room.
    #[inline(always)]
    fn push(&mut self, candidate: Candidate<'t, W>) -> bool {
        let has_room = self.added - self.checked < MAX_CANDIDATES;
        if has_room {
            self.ring[self.added % MAX_CANDIDATES] = candidate;
            self.added += 1;
        }
        has_room
    }

    /// Takes the oldest one, if there are more than `left`.
    #[inline(always)]
    fn pop(&mut self, left: usize) -> Option<Candidate<'t, W>> {
        if self.added - self.checked <= left {
            return None;
        }
        self.checked += 1;
        Some(self.ring[(self.checked - 1) % MAX_CANDIDATES])
    }
}

impl<const W: usize> BlockKeys for WideKeys<'_, '_, W> {
    type Wanted = Tagged;
    // As many lines again are prefetched for entries.
    const AHEAD: usize = 16;

    #[inline(always)]
    fn len(&self) -> usize {
        self.keys.len()
    }

    #[inline(always)]
    fn wanted(&self, place: usize) -> Option<Tagged> {
        Some(self.context.entries.tagged(hash(self.keys.get(place)?)))
    }

    #[inline(always)]
    fn scan_line<C: Compare>(
        &mut self,
        key: Key<Tagged>,
        line: &Line,
        first: u32,
        mask: u8,
        intent: Intent,
    ) -> Verdict {
        let seen = C::see(line, key.wanted.mask(), key.wanted.compared());
        let (alike, empty) = (seen.wanted & mask, !seen.occupied & mask);
        if alike != 0 {
            return self.add_candidate(key, line, alike);
        }
        if empty == 0 {
            return Verdict::Passed;
        }
        if intent == Intent::Find {
            return Verdict::Decided(Ended::Absent);
        }
        self.claim(key, line, first, empty)
    }

    #[inline(always)]
    fn check_oldest(&mut self, left: usize) -> Option<Checked> {
        let Candidate { entry, place, lines } = self.candidates.pop(left)?;
        let is_found = match (entry, self.keys.get(place)) {
            (Some(entry), Some(key)) => self.context.is_equal(entry, key),
            _ => false,
        };
        Some(Checked { place, lines, is_found })
    }

    #[inline(always)]
    fn stats(&mut self) -> &mut Stats {
        &mut self.context.table.stats
    }
}

impl<const W: usize> WideKeys<'_, '_, W> {
    /// Prefetches the entry of the bucket whose bit is set in `alike`.
    #[inline(always)]
    fn add_candidate(&mut self, key: Key<Tagged>, line: &Line, alike: u8) -> Verdict {
        if !alike.is_power_of_two() {
            return Verdict::Undecided;
        }
        let word = line[alike.trailing_zeros() as usize % LINE_BUCKETS as usize].load(Acquire);
        let Some(entry) = self.mapped.entry_at(self.context.entries.entry_of(word)) else {
            return Verdict::Undecided;
        };
        prefetch_entry(entry);
        let Key { place, lines, .. } = key;
        match self.candidates.push(Candidate { entry: Some(entry), place, lines }) {
            true => Verdict::Candidate,
            false => Verdict::Undecided,
        }
    }

    #[inline(always)]
    fn claim(&mut self, key: Key<Tagged>, line: &Line, first: u32, empty: u8) -> Verdict {
        let Some(words) = self.keys.get(key.place) else { return Verdict::Undecided };
        let wide = Wide { words: &self.mapped, key: words, tagged: key.wanted };
        match wide.claim(self.context, line, first, empty) {
            // A block counts what it decides as found or as inserted.
            None | Some(Some(Ended::Full)) => Verdict::Undecided,
            Some(None) => Verdict::Passed,
            Some(Some(outcome)) => Verdict::Decided(outcome),
        }
    }
}

/// Prefetches the cache lines of an entry. One of a power of two words lies in whole lines, or in
/// one line; others may end in one line more.
#[inline(always)]
fn prefetch_entry<const W: usize>(entry: &[AtomicU64; W]) {
    entry.chunks(LINE_BUCKETS as usize).for_each(prefetch_far);
    if !W.is_power_of_two() {
        entry.last_chunk::<1>().into_iter().for_each(|last| prefetch_far(last));
    }
}

#[cfg(test)]
mod tests {
    use probeline_shm::Builder;
    use probeline_transport::Alone;
    use std::collections::HashSet;

    use crate::wide::key::{hash, next_state};
    use crate::{Outcome, WideConfig, WideOperation, WideTable};

    /// Returns a key that starts with `first` and has the hash of `[0, 0]`.
    fn collision(first: u64) -> [u64; 2] {
        let key = [first, next_state(first) ^ next_state(0)];
        assert_eq!(hash(&key), hash(&[0, 0]));
        key
    }

    /// Keys with one hash are candidates at each other's buckets: one alike, several alike, false
    /// ones, and more of them at once than the ring holds.
    #[test]
    fn distinguishes_keys_of_equal_hash() {
        let config = WideConfig::<2>::for_keys(1_000, 1);
        let engine = Builder::new(config.sizes(4)).open(&mut Alone).unwrap();
        let operations = [WideOperation::EMPTY; 4];
        let mut table = WideTable::open(engine, config, operations, &mut Alone).unwrap();
        let mut present = HashSet::new();
        for round in 1..=12_u64 {
            // Each round adds some keys, repeats all earlier ones, and has duplicates and others.
            let keys: Vec<[u64; 2]> = (0..round * 8)
                .flat_map(|nth| [collision(nth), [nth, round], collision(nth / 2)])
                .collect();
            let mut found = vec![false; keys.len()];
            table.find_batch(&keys, &mut found).unwrap();
            for (key, found) in keys.iter().zip(&found) {
                assert_eq!(*found, present.contains(key), "{key:?}");
            }
            let mut outcomes = vec![Outcome::Full; keys.len()];
            table.find_or_put_batch(&keys, &mut outcomes).unwrap();
            assert!(!outcomes.contains(&Outcome::Full));
            let inserted = outcomes.iter().filter(|end| **end == Outcome::Inserted).count();
            let before = present.len();
            present.extend(keys);
            assert_eq!(inserted, present.len() - before);
        }
        assert_eq!(table.len(&mut Alone).unwrap(), present.len() as u64);
    }
}
