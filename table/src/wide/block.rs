//! A block of a batch by the CPU: home lines are prefetched for some keys ahead, then the entries
//! to which they refer, so that both cache misses of a find overlap with those of other keys.

use super::context::WideContext;
use super::direct::{Mapped, WordAccess, run};
use super::key::{Tagged, hash};
use crate::batch::{BatchResult, Results};
use crate::bucket::Wanted;
use crate::error::OperationError;
use crate::layout::LINE_BUCKETS;
use crate::line::{Compare, Line, Work, prefetch};
use crate::outcome::Intent;

/// Keys between the prefetch of a home line and that of its entries, and between the latter and
/// the comparison (`firmware-notes/prefetch-depth.md`).
const AHEAD: usize = 16;
/// Keys that were hashed and are not done. A power of two.
const RING: usize = 4 * AHEAD;

/// The keys of a block, and everything to run them with.
pub(super) struct WideBlock<'b, 'r, 't, R, const W: usize> {
    pub(super) keys: &'b [[u64; W]],
    /// The place of the first key's result.
    pub(super) first: usize,
    pub(super) results: &'b mut Results<'r, R>,
    pub(super) intent: Intent,
    pub(super) mapped: &'b Mapped<'t, W>,
    pub(super) context: &'b mut WideContext,
}

/// A key that was hashed, and its home line.
#[derive(Clone, Copy)]
struct Home<'t> {
    tagged: Tagged,
    line: Option<&'t Line>,
}

impl<R: BatchResult, const W: usize> Work for WideBlock<'_, '_, '_, R, W> {
    type Output = ();

    #[inline(always)]
    fn run<C: Compare>(self) {
        let mut homes = [Home { tagged: Tagged::ANY, line: None }; RING];
        for step in 0..self.keys.len() + 2 * AHEAD {
            if let Some(key) = self.keys.get(step) {
                homes[step % RING] = self.home(key);
            }
            if let Some(nth) = step.checked_sub(AHEAD)
                && nth < self.keys.len()
            {
                self.prefetch_entries::<C>(homes[nth % RING]);
            }
            if let Some(nth) = step.checked_sub(2 * AHEAD)
                && let Some(key) = self.keys.get(nth)
            {
                let tagged = homes[nth % RING].tagged;
                let outcome = run::<C, W>(&self.mapped, self.context, key, tagged, self.intent);
                self.results.put(self.first + nth, outcome.ok_or(OperationError::Window));
            }
        }
    }
}

impl<'t, R: BatchResult, const W: usize> WideBlock<'_, '_, 't, R, W> {
    #[inline(always)]
    fn home(&self, key: &[u64; W]) -> Home<'t> {
        let tagged = self.context.entries.tagged(hash(key));
        let line = self.mapped.line(self.context.table.layout.home_of(tagged.hashed()));
        if let Some(line) = line {
            prefetch(line);
        }
        Home { tagged, line }
    }

    #[inline(always)]
    fn prefetch_entries<C: Compare>(&self, Home { tagged, line }: Home<'t>) {
        let Some(line) = line else { return };
        let mut alike = C::see(line, tagged).wanted;
        while alike != 0 {
            let word = &line[alike.trailing_zeros() as usize % LINE_BUCKETS as usize];
            let word = word.load(core::sync::atomic::Ordering::Relaxed);
            if let Some(entry) = self.mapped.entry(self.context.entries.entry_of(word)) {
                entry.chunks(LINE_BUCKETS as usize).for_each(prefetch);
            }
            alike &= alike - 1;
        }
    }
}
