//! Measures READ, WRITE, CAS and FAA on words of the next owner before a table uses them.

use core::hint::black_box;
use core::time::Duration;

use probeline::transport::{Completion, Local, Owner, RemoteWord, Segment, Token};
use probeline_limits::remote::WORDS;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::row::LatencyRow;
use super::{Bound, Limits, WARM_UP_SHARE, free_slot, measure};
use crate::failure::Result;
use crate::latency::Recorder;
use crate::progress::Progress;
use crate::timed::Timed;

/// Maximum rows: READs and WRITEs, a CAS and two FAAs.
pub(super) const ROWS: usize = 2 * WORDS.len() + 3;

/// The measurements and the words that they access.
pub(super) struct Raw<'a, T> {
    pub(super) engine: &'a mut T,
    pub(super) limits: Limits,
    /// Operations in each measurement.
    pub(super) operations: usize,
    pub(super) seed: u64,
    pub(super) progress: &'a mut Progress,
    /// The rows measured so far.
    pub(super) rows: Vec<LatencyRow>,
}

impl<T: Timed> Raw<'_, T> {
    /// Measures all operations, one kind after the other. The address of each operation depends on
    /// the result of the previous one (never in fact, but the CPU cannot know), so that they do not
    /// overlap.
    pub(super) fn rows(mut self) -> Result<Vec<LatencyRow>> {
        let peer = peer(self.engine.geometry().owners);
        let words = self.engine.geometry().window_words;
        let mut rng = SmallRng::seed_from_u64(self.seed);
        self.progress.during(0, "reading every window once", || {
            (0..self.engine.geometry().owners)
                .try_for_each(|owner| touch(self.engine, Owner(owner)))
        })?;
        for length in self.lengths() {
            let into = Local { slot: free_slot(), start: 0, words: length };
            // Segments start at any word, as chunks of the table do.
            let most = words - u64::from(length);
            self.measure(&format!("READ {} B", length * 8), |engine, last| {
                let index = after(last, rng.random_range(0..=most));
                read(engine, Segment { start: RemoteWord { owner: peer, index }, words: length })?;
                Ok(engine.landed(into)?.first().copied().unwrap_or(0))
            })?;
        }
        for length in self.lengths() {
            let from = Local { slot: free_slot(), start: 0, words: length };
            let most = words - u64::from(length);
            self.engine.staged(from)?.fill(1);
            self.measure(&format!("WRITE {} B", length * 8), |engine, last| {
                let start =
                    RemoteWord { owner: peer, index: after(last, rng.random_range(0..=most)) };
                engine.write(Token(0), from, Segment { start, words: length })?;
                finish(engine)
            })?;
        }
        let at = |index| RemoteWord { owner: peer, index };
        self.measure("CAS random word", |engine, last| {
            let index = after(last, rng.random_range(0..words));
            engine.compare_and_swap(Token(0), at(index), 0, 1)?;
            finish(engine)
        })?;
        self.measure("FAA random word", |engine, last| {
            let index = after(last, rng.random_range(0..words));
            engine.fetch_add(Token(0), at(index), 1)?;
            finish(engine)
        })?;
        self.measure("FAA one word", |engine, last| {
            engine.fetch_add(Token(0), at(after(last, 0)), 1)?;
            finish(engine)
        })?;
        Ok(self.rows)
    }

    /// Returns the lengths of [`WORDS`] that the windows and the engine permit.
    fn lengths(&self) -> impl Iterator<Item = u32> + use<T> {
        let window = self.engine.geometry().window_words;
        let most = self.engine.caps().words_per_op;
        WORDS.into_iter().filter(move |&words| words <= most && u64::from(words) <= window)
    }

    /// Measures `operation`, which receives the result of the previous one.
    fn measure(
        &mut self,
        name: &str,
        mut operation: impl FnMut(&mut T, u64) -> Result<u64>,
    ) -> Result<()> {
        let longest = Duration::from_nanos(self.limits.measurement_ns);
        self.progress.expecting(self.rows.len() as u64, name, longest);
        let mut last = 0;
        let next = |engine: &mut T, _| {
            last = operation(engine, last)?;
            Ok(())
        };
        let warm_up = self.operations / WARM_UP_SHARE;
        let bound = Bound { warm_up, limit_ns: self.limits.measurement_ns };
        let items = 0..warm_up + self.operations;
        let mut recorder = Recorder::new(self.limits.clock_ns)?;
        measure(&mut recorder, items, bound, self.engine, next, T::now_ns)?;
        self.rows.push(LatencyRow::new(name, recorder.latency()));
        Ok(())
    }
}

/// Returns the owner whose words these operations access.
pub(in crate::scenario) fn peer(owners: u32) -> Owner {
    Owner(1 % owners)
}

/// Reads into the free slot and waits for it.
pub(super) fn read<T: Timed>(engine: &mut T, from: Segment) -> Result<u64> {
    let into = Local { slot: free_slot(), start: 0, words: from.words };
    engine.read(Token(0), from, into)?;
    finish(engine)
}

/// Polls until the one operation in flight completes. The transport bounds the time.
pub(super) fn finish<T: Timed>(engine: &mut T) -> Result<u64> {
    let mut end = [Completion::default()];
    while engine.poll(&mut end)? == 0 {}
    Ok(end[0].result?)
}

/// Returns `index`, computed from `value`: the compiler and the CPU must wait for `value`.
pub(in crate::scenario) fn after(value: u64, index: u64) -> u64 {
    index + (black_box(0) & value)
}

/// Reads an owner's whole window once, so that no measurement includes page faults.
fn touch<T: Timed>(engine: &mut T, owner: Owner) -> Result<()> {
    let geometry = *engine.geometry();
    let mut index = 0;
    while index < geometry.window_words {
        let left = u32::try_from(geometry.window_words - index).unwrap_or(u32::MAX);
        let words = geometry.slot_words.min(left);
        read(engine, Segment { start: RemoteWord { owner, index }, words })?;
        index += u64::from(words);
    }
    Ok(())
}
