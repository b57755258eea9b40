//! The states of a level: found by any rank, spread evenly over all of them by one-sided READs.

use core::mem;
use core::sync::atomic::Ordering::Release;

use probeline_transport::{
    Completion, Exchange, Local, Owner, RemoteWord, Segment, Slot, Token, Transport,
};

use crate::failure::Result;
use crate::means::MeansTable;
use crate::timed::Timed;

/// Words of each window behind the table, through which ranks take states from each other. A
/// level with more goes through them in rounds.
pub(super) const SHARE_WORDS: u64 = 1 << 16;
/// States that one READ brings: 4 KiB, from where on READs are bound by bandwidth.
pub(super) const READ_WORDS: u32 = 512;
/// READs in flight at most, each with a slot of its own: 32 KiB, what 10 GB/s bring in 3 us, which
/// is a roundtrip. The engine of a table takes as many where --in-flight is 2, its least.
pub(super) const READS: u32 = 8;

/// This rank's part of the present level, and what it found for the next.
pub(super) struct Frontier {
    present: Vec<u64>,
    next: Vec<u64>,
    first_word: u64,
    /// READs land in the slots from this one on.
    first_slot: u32,
    /// Where the READ in each slot lands; empty for a slot without one.
    landing: [Local; READS as usize],
}

impl Frontier {
    /// Shares states from `first_word` of each window on, and lets them land in [`READS`] slots
    /// from `first_slot` on.
    pub(super) fn new(first_word: u64, first_slot: u32) -> Self {
        let landing = core::array::from_fn(|_| Local { slot: Slot(0), start: 0, words: 0 });
        Self { present: Vec::new(), next: Vec::new(), first_word, first_slot, landing }
    }

    /// A state of the present level to expand.
    pub(super) fn pop(&mut self) -> Option<u64> {
        self.present.pop()
    }

    /// A state of the next level.
    pub(super) fn push(&mut self, state: u64) {
        self.next.push(state);
    }

    /// States of the current level that this rank has not expanded yet.
    pub(super) fn open(&self) -> u64 {
        self.present.len() as u64
    }

    /// States found for the next level here.
    pub(super) fn found(&self) -> u64 {
        self.next.len() as u64
    }

    /// Makes the next level the present one: of all its states, `found` by each rank, each rank
    /// takes an equal share, whoever found them. All ranks call it, and meet before they do so
    /// again.
    pub(super) fn spread<T: Timed>(
        &mut self,
        table: &mut MeansTable<T>,
        found: &[u64],
        exchange: &mut dyn Exchange,
    ) -> Result<()> {
        if found.len() == 1 {
            mem::swap(&mut self.present, &mut self.next);
            return Ok(());
        }
        let most = found.iter().max().copied().unwrap_or(0);
        for round in 0..most.div_ceil(SHARE_WORDS) {
            if round > 0 {
                // Until everybody has read, the words stay as they are.
                exchange.barrier()?;
            }
            let gone = round * SHARE_WORDS;
            let shown: Vec<u64> =
                found.iter().map(|count| count.saturating_sub(gone).min(SHARE_WORDS)).collect();
            self.show(table.transport(), gone);
            exchange.barrier()?;
            self.take(table, &shown, exchange.me())?;
        }
        self.next.clear();
        Ok(())
    }

    /// Puts the states from `gone` on where the others read them.
    fn show(&self, engine: &impl Transport, gone: u64) {
        let at = |word: u64| usize::try_from(word).unwrap_or(usize::MAX);
        let share = engine.window().iter().skip(at(self.first_word)).take(at(SHARE_WORDS));
        for (word, &state) in share.zip(self.next.iter().skip(at(gone))) {
            word.store(state, Release);
        }
    }

    /// Reads this rank's share of all states that are shown, some READs at a time.
    fn take<T: Timed>(
        &mut self,
        table: &mut MeansTable<T>,
        shown: &[u64],
        me: Owner,
    ) -> Result<()> {
        let mut reads = reads(shown, me, self.first_word).into_iter();
        let engine = table.transport_mut()?;
        let mut in_flight = 0;
        for (slot, from) in (0..READS).zip(reads.by_ref()) {
            self.post(engine, slot, from)?;
            in_flight += 1;
        }
        let mut ends = [Completion::default(); READS as usize];
        // Ends because an operation that the transport accepted does.
        while in_flight > 0 {
            let ended = engine.poll(&mut ends)?;
            for end in ends.iter().take(ended) {
                end.result?;
                let slot = u32::try_from(end.token.0)?;
                self.landed(engine, slot)?;
                match reads.next() {
                    Some(from) => self.post(engine, slot, from)?,
                    None => in_flight -= 1,
                }
            }
        }
        Ok(())
    }

    fn post(&mut self, engine: &mut impl Transport, nth: u32, from: Segment) -> Result<()> {
        let into = Local { slot: Slot(self.first_slot + nth), start: 0, words: from.words };
        if let Some(landing) = self.landing.get_mut(nth as usize) {
            *landing = into;
        }
        Ok(engine.read(Token(nth.into()), from, into)?)
    }

    fn landed(&mut self, engine: &impl Transport, nth: u32) -> Result<()> {
        if let Some(&landing) = self.landing.get(nth as usize) {
            self.present.extend_from_slice(engine.landed(landing)?);
        }
        Ok(())
    }
}

/// The READs that bring `me` its share of what each owner shows from `first_word` on.
fn reads(shown: &[u64], me: Owner, first_word: u64) -> Vec<Segment> {
    let (total, ranks) = (shown.iter().sum::<u64>(), shown.len() as u64);
    let (mut at, end) = (total * u64::from(me.0) / ranks, total * (u64::from(me.0) + 1) / ranks);
    let mut reads = Vec::new();
    let mut first = 0;
    for (owner, &count) in (0..).map(Owner).zip(shown) {
        while at < end && at < first + count {
            let words = (end - at).min(first + count - at).min(u64::from(READ_WORDS));
            let start = RemoteWord { owner, index: first_word + at - first };
            // At most READ_WORDS, which is a u32.
            let words = u32::try_from(words).unwrap_or(READ_WORDS);
            reads.push(Segment { start, words });
            at += u64::from(words);
        }
        first += count;
    }
    reads
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever each shows, all of it is taken once, and nobody takes more than one more than
    /// another.
    #[test]
    fn shares_are_even_and_all_there_is() {
        let shows = [&[0, 0][..], &[1, 0, 0], &[5000, 3, 0, 700], &[SHARE_WORDS; 3], &[7]];
        for shown in shows {
            let mut taken: Vec<(u32, u64)> = Vec::new();
            let mut most_and_least = (0, u64::MAX);
            for me in (0..).map(Owner).take(shown.len()) {
                let mut mine = 0;
                for Segment { start, words } in reads(shown, me, 100) {
                    assert!((1..=READ_WORDS).contains(&words));
                    let words = u64::from(words);
                    taken.extend((start.index..start.index + words).map(|at| (start.owner.0, at)));
                    mine += words;
                }
                most_and_least = (most_and_least.0.max(mine), most_and_least.1.min(mine));
            }
            assert!(most_and_least.0 - most_and_least.1 <= 1, "{shown:?}");
            let all = (0..).zip(shown).flat_map(|(of, &n)| (100..100 + n).map(move |at| (of, at)));
            assert_eq!(taken, all.collect::<Vec<_>>(), "{shown:?}");
        }
    }
}
