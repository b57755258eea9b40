//! The states of a level, as nodes of an [`Expander`](crate::petri::Expander): each was found by
//! one rank; one-sided READs distribute them evenly.

use core::mem;
use core::sync::atomic::Ordering::Release;

use probeline::table::Outcome;
use probeline::transport::{Exchange, Geometry, Owner, RemoteWord, Segment, Sizes};

use crate::timed::read_all;
use crate::{Error, Timed};

/// Words of each window, after the table, in which a rank exposes the states that it has found. A
/// larger level is exposed in rounds.
const SHARE_WORDS: u64 = 1 << 16;
/// States of one READ: 4 KiB, from which on bandwidth bounds the rate of READs.
const READ_WORDS: u32 = 512;
/// READs in flight, each with a slot of its own: 32 KiB, which a network of 10 GB/s transfers in a
/// roundtrip of 3 us.
pub(super) const READS: u32 = 8;
/// The part of an engine that a frontier uses: the last one. Its READs are not in flight together with operations
/// of the table, so an engine needs a depth of [`READS`] only.
pub(super) const SIZES: Sizes =
    Sizes { window_words: SHARE_WORDS, slots: READS, slot_words: READ_WORDS, depth: 0 };

/// This rank's part of the current level, and the states that it has found for the next one.
///
/// A node is the words of a state, the last one with the origin of the node.
pub(super) struct Frontier {
    /// Words of a node.
    words: usize,
    current: Vec<u64>,
    next: Vec<u64>,
    /// This rank's parts of all levels up to the current one, if they are kept.
    kept: Option<Vec<Vec<u64>>>,
}

impl Frontier {
    /// Keeps all levels if `keeps` says so.
    pub(super) fn new(words: usize, keeps: bool) -> Self {
        Self { words, current: Vec::new(), next: Vec::new(), kept: keeps.then(Vec::new) }
    }

    /// Takes this rank's parts of the levels up to the current one, without the origins of their
    /// nodes, which are above the low `last_bits` of the last word; none if they are not kept.
    pub(super) fn take_levels(&mut self, last_bits: u32) -> Vec<Vec<u64>> {
        let origin = u64::MAX.checked_shl(last_bits).unwrap_or(0);
        let mut levels = self.kept.take().unwrap_or_default();
        for last in levels
            .iter_mut()
            .flat_map(|level| level.iter_mut().skip(self.words - 1).step_by(self.words))
        {
            *last &= !origin;
        }
        levels
    }

    /// Returns the bytes of the states to expand and of those found for the next level.
    pub(super) fn bytes(&self) -> u64 {
        (self.current.len() + self.next.len()) as u64 * 8
    }

    pub(super) fn keeps_levels(&self) -> bool {
        self.kept.is_some()
    }

    #[inline]
    pub(super) fn pop<const W: usize>(&mut self) -> Option<[u64; W]> {
        let node = *self.current.last_chunk()?;
        self.current.truncate(self.current.len() - W);
        Some(node)
    }

    /// Puts back a node that was popped but not expanded.
    pub(super) fn put_back(&mut self, node: &[u64]) {
        self.current.extend_from_slice(node);
    }

    pub(super) fn push(&mut self, node: &[u64]) {
        self.next.extend_from_slice(node);
    }

    /// Adds the nodes whose outcome is `Inserted`. Returns their number.
    pub(super) fn push_inserted<const W: usize>(
        &mut self,
        nodes: &[[u64; W]],
        outcomes: &[Outcome],
    ) -> u64 {
        let first = self.next.len();
        self.next.extend_from_slice(nodes.as_flattened());
        let (added, _) = self.next.get_mut(first..).unwrap_or_default().as_chunks_mut();
        let mut inserted = 0;
        for (&node, &outcome) in nodes.iter().zip(outcomes) {
            // Always written, and kept if the state is new: no branch to predict.
            if let Some(place) = added.get_mut(inserted) {
                *place = node;
            }
            inserted += usize::from(outcome == Outcome::Inserted);
        }
        self.next.truncate(first + inserted * W);
        inserted as u64
    }

    pub(super) fn open(&self) -> u64 {
        (self.current.len() / self.words) as u64
    }

    pub(super) fn found(&self) -> u64 {
        (self.next.len() / self.words) as u64
    }

    /// Makes the next level the current one. `found` has the number of its states by rank; each
    /// rank takes an equal share of all of them. All ranks call it, with a collective call in
    /// between.
    pub(super) fn spread(
        &mut self,
        engine: &mut dyn Timed,
        found: &[u64],
        exchange: &mut dyn Exchange,
    ) -> Result<(), Error> {
        // The last words of each window, and the last slots.
        let Geometry { me, window_words, slots, .. } = *engine.geometry();
        let first_word = window_words - SHARE_WORDS;
        let words = self.words as u64;
        let share = SHARE_WORDS / words;
        let mut rounds = found.iter().max().map_or(0, |max| max.div_ceil(share));
        if found.len() == 1 {
            mem::swap(&mut self.current, &mut self.next);
            rounds = 0;
        }
        for round in 0..rounds {
            if round > 0 {
                // The words must not change before all ranks have read them.
                exchange.barrier()?;
            }
            let first = round * share;
            let exposed = found.iter().map(|count| count.saturating_sub(first).min(share));
            let exposed: Vec<u64> = exposed.collect();
            self.expose(engine, first_word, first * words);
            exchange.barrier()?;
            let reads = reads(&exposed, me, first_word, words);
            read_all(engine, slots - READS..slots, reads, |states| {
                self.current.extend_from_slice(states);
            })?;
        }
        self.next.clear();
        if let Some(kept) = &mut self.kept {
            kept.push(self.current.clone());
        }
        Ok(())
    }

    /// Stores this rank's states from this word on in the words that other ranks READ.
    fn expose(&self, engine: &dyn Timed, first_word: u64, from: u64) {
        let at = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let share = engine.window().iter().skip(at(first_word));
        let whole_states = at(SHARE_WORDS) / self.words * self.words;
        let states = self.next.get(at(from)..).unwrap_or_default();
        for (word, &of_state) in share.take(whole_states).zip(states) {
            word.store(of_state, Release);
        }
    }
}

/// Returns the READs of `me`'s share of the states that each owner exposes from `first_word` on, of
/// `words` words each, at most [`READ_WORDS`].
fn reads(exposed: &[u64], me: Owner, first_word: u64, words: u64) -> Vec<Segment> {
    let (total, ranks) = (exposed.iter().sum::<u64>(), exposed.len() as u64);
    let (mut at, end) = (total * u64::from(me.0) / ranks, total * (u64::from(me.0) + 1) / ranks);
    let mut reads = Vec::new();
    let mut first = 0;
    for (owner, &count) in (0..).map(Owner).zip(exposed) {
        while at < end && at < first + count {
            let states = (end - at).min(first + count - at).min(u64::from(READ_WORDS) / words);
            let start = RemoteWord { owner, index: first_word + (at - first) * words };
            // At most READ_WORDS, which is a u32.
            let words = u32::try_from(states * words).unwrap_or(READ_WORDS);
            reads.push(Segment { start, words });
            at += states;
        }
        first += count;
    }
    reads
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each state is in one share, and shares differ by at most one state.
    #[test]
    fn divides_evenly_and_completely() {
        let shows = [&[0, 0][..], &[1, 0, 0], &[5000, 3, 0, 700], &[SHARE_WORDS / 16; 3], &[7]];
        for (shown, words) in shows.into_iter().flat_map(|shown| [1, 3, 16].map(|w| (shown, w))) {
            let mut taken: Vec<(u32, u64)> = Vec::new();
            let mut max_and_min = (0, u64::MAX);
            for me in (0..).map(Owner).take(shown.len()) {
                let mut mine = 0;
                for Segment { start, words: read } in reads(shown, me, 100, words) {
                    assert!((1..=READ_WORDS).contains(&read));
                    let read = u64::from(read);
                    assert_eq!(read % words, 0);
                    taken.extend((start.index..start.index + read).map(|at| (start.owner.0, at)));
                    mine += read / words;
                }
                max_and_min = (max_and_min.0.max(mine), max_and_min.1.min(mine));
            }
            assert!(max_and_min.0 - max_and_min.1 <= 1, "{shown:?}");
            let all = (0..).zip(shown);
            let all = all.flat_map(|(of, &n)| (100..100 + n * words).map(move |at| (of, at)));
            assert_eq!(taken, all.collect::<Vec<_>>(), "{shown:?}");
        }
    }
}
