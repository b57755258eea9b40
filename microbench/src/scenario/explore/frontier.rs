//! The states of a level: found by any rank, spread evenly over all of them by one-sided READs.

use core::mem;
use core::sync::atomic::Ordering::Release;

use transport::{Completion, Exchange, Local, Owner, RemoteWord, Segment, Slot, Token, Transport};

use crate::failure::Result;
use crate::means::MeansTable;
use crate::timed::Timed;

/// Words of each window behind the table, through which ranks take states from each other. A
/// level with more goes through them in rounds.
pub(super) const SHARE_WORDS: u64 = 1 << 16;
/// States that one READ brings: 4 KiB, from where on READs are bound by bandwidth.
pub(super) const READ_WORDS: u32 = 512;

/// This rank's part of the present level, and what it found for the next.
pub(super) struct Frontier {
    present: Vec<u64>,
    next: Vec<u64>,
    first_word: u64,
    slot: Slot,
}

impl Frontier {
    /// Shares states from `first_word` of each window on, and lets them land in `slot`.
    pub(super) fn new(first_word: u64, slot: u32) -> Self {
        Self { present: Vec::new(), next: Vec::new(), first_word, slot: Slot(slot) }
    }

    /// A state of the present level to expand.
    pub(super) fn pop(&mut self) -> Option<u64> {
        self.present.pop()
    }

    /// A state of the next level.
    pub(super) fn push(&mut self, state: u64) {
        self.next.push(state);
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
            self.show(table.engine(), gone);
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

    /// Reads this rank's share of all states that are shown.
    fn take<T: Timed>(
        &mut self,
        table: &mut MeansTable<T>,
        shown: &[u64],
        me: Owner,
    ) -> Result<()> {
        let total: u64 = shown.iter().sum();
        let ranks = shown.len() as u64;
        let (mut at, end) =
            (total * u64::from(me.0) / ranks, total * (u64::from(me.0) + 1) / ranks);
        let engine = table.transport()?;
        let mut first = 0;
        for (owner, &count) in (0..).zip(shown) {
            while at < end && at < first + count {
                let words = (end - at).min(first + count - at).min(u64::from(READ_WORDS));
                let index = self.first_word + at - first;
                // At most READ_WORDS, which is a u32.
                let words = u32::try_from(words).unwrap_or(READ_WORDS);
                let start = RemoteWord { owner: Owner(owner), index };
                self.read(engine, Segment { start, words })?;
                at += u64::from(words);
            }
            first += count;
        }
        Ok(())
    }

    fn read(&mut self, engine: &mut impl Transport, from: Segment) -> Result<()> {
        let into = Local { slot: self.slot, start: 0, words: from.words };
        engine.read(Token(0), from, into)?;
        let mut end = [Completion::default()];
        // Ends because an operation that the transport accepted does.
        while engine.poll(&mut end)? == 0 {}
        end[0].result?;
        self.present.extend_from_slice(engine.landed(into)?);
        Ok(())
    }
}
