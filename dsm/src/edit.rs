//! The words of a page that this rank edits, and the one-sided operations that bring them to the home.

use core::ops::Range;

use probeline_pipeline::Error;
use probeline_transport::{LINE_WORDS, WORD_BYTES};

use crate::config::Layout;
use crate::memory::copy;

const BITS: usize = u64::BITS as usize;
/// Words that are compared at once. A page has a multiple of them.
const LINE: usize = LINE_WORDS as usize;

/// A part of what was edited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// These words were edited as a whole: a WRITE.
    Words(Range<usize>),
    /// A part of this word has changed, and others may change the rest of it: a fetch-and-add of this number.
    ///
    /// As only bytes differ that nobody else changes, the sum has the new values in them and carries nothing
    /// into the others, in whatever order several ranks add.
    Part(usize, u64),
}

impl Change {
    /// Returns the first word, and the one behind the last.
    #[inline(always)]
    pub(crate) fn words(&self) -> Range<usize> {
        match self {
            Self::Words(words) => words.clone(),
            Self::Part(at, _) => *at..at + 1,
        }
    }
}

/// An edited page: a bit for each word that was edited as a whole, and for each of which a part was.
#[derive(Debug)]
pub(crate) struct Edit<'m> {
    pub(crate) page: u32,
    /// Words that nobody else edits before this rank's next release.
    whole: &'m mut [u64],
    part: &'m mut [u64],
    /// The words of which a part was edited as they were before, at their places in the page, or all words. Without
    /// words if neither is needed.
    twin: &'m mut [u64],
    granule: usize,
    compares: bool,
}

impl<'m> Edit<'m> {
    /// Returns the words of an edit's bits and its page.
    pub(crate) fn words(page_words: usize) -> usize {
        1 + 2 * page_words.div_ceil(BITS)
    }

    pub(crate) fn new(
        words: &'m mut [u64],
        twin: &'m mut [u64],
        Layout { granule, compares, .. }: &Layout,
    ) -> Option<Self> {
        let (page, bits) = words.split_first_mut()?;
        let (whole, part) = bits.split_at_mut_checked(bits.len() / 2)?;
        let (page, granule, compares) = (u32::try_from(*page).ok()?, *granule, *compares);
        Some(Self { page, whole, part, twin, granule, compares })
    }

    /// Begins without edits of the page, which has these words.
    #[inline]
    pub(crate) fn begin(&mut self, page: &[u64]) -> Result<(), Error> {
        self.whole.fill(0);
        self.part.fill(0);
        if self.compares { copy(page, self.twin) } else { Ok(()) }
    }

    /// Notes that these bytes of the page will be edited, which has the words `page` before.
    #[inline]
    pub(crate) fn note(&mut self, bytes: Range<usize>, page: &[u64]) {
        let (start, end) = (bytes.start / WORD_BYTES, bytes.end.div_ceil(WORD_BYTES));
        #[cfg(test)]
        if crate::model::is(crate::model::Mutant::ClaimsGaps) && self.end() > 0 {
            set(self.whole, self.end()..start);
        }
        // Where words are not shared, a rank that edits one byte of a word may edit all of it.
        let is_shared = self.granule < WORD_BYTES;
        let is_part = |edge: usize| is_shared && !edge.is_multiple_of(WORD_BYTES);
        let (at_start, at_end) = (is_part(bytes.start), is_part(bytes.end));
        let whole = start + usize::from(at_start)..end - usize::from(at_end);
        set(self.whole, whole);
        for (is_part, at) in [(at_start, start), (at_end, end - 1)] {
            // Where pages are compared, the twin has all words.
            if is_part && !self.compares && !self.is_part(at) {
                set(self.part, at..at + 1);
                if let (Some(twin), Some(word)) = (self.twin.get_mut(at), page.get(at)) {
                    *twin = *word;
                }
            }
        }
    }

    /// Notes which words of the page differ from the twin, as a whole or in part.
    pub(crate) fn compare(&mut self, page: &[u64]) {
        // The lowest and the highest bit of each granule of a word.
        let lows = u64::MAX / (u64::MAX >> (u64::BITS as usize - 8 * self.granule));
        let highs = lows << (8 * self.granule - 1);
        let lines = page.as_chunks::<LINE>().0.iter().zip(self.twin.as_chunks::<LINE>().0);
        for (nth, (new, old)) in lines.enumerate().filter(|(_, (new, old))| new != old) {
            let (mut changed, mut kept) = (0_u64, 0_u64);
            for (bit, (new, old)) in new.iter().zip(old).enumerate() {
                let differs = new ^ old;
                // Whether one granule at least is equal.
                #[cfg(test)]
                let highs =
                    if crate::model::is(crate::model::Mutant::ComparesWords) { 0 } else { highs };
                let keeps = differs.wrapping_sub(lows) & !differs & highs;
                changed |= u64::from(differs != 0) << bit;
                kept |= u64::from(keeps != 0) << bit;
            }
            let (at, first) = (nth * LINE / BITS, nth * LINE % BITS);
            if let (Some(whole), Some(part)) = (self.whole.get_mut(at), self.part.get_mut(at)) {
                *whole |= (changed & !kept) << first;
                *part |= (changed & kept) << first;
            }
        }
    }

    fn is_part(&self, at: usize) -> bool {
        #[cfg(test)]
        if crate::model::is(crate::model::Mutant::RenewsTwin) {
            return false;
        }
        self.part.get(at / BITS).is_some_and(|bits| bits >> (at % BITS) & 1 != 0)
    }

    /// Returns the first change from word `from` on of the page, which now has these words.
    // Inlined: a change returned in memory would be loaded only after all earlier stores to homes.
    #[inline(always)]
    pub(crate) fn next_change(&self, page: &[u64], from: usize) -> Option<Change> {
        let mut from = from;
        #[cfg(test)]
        if crate::model::is(crate::model::Mutant::SendsPages) {
            return (from < page.len()).then_some(Change::Words(from..page.len()));
        }
        loop {
            let edited = |at| Some(self.whole.get(at)? | self.part.get(at)?);
            let first = find(from, edited)?;
            let gap = find(first, |at| self.whole.get(at).map(|bits| !bits));
            let end = gap.unwrap_or(page.len()).min(page.len());
            if end > first {
                return Some(Change::Words(first..end));
            }
            let (new, old) = (page.get(first)?, self.twin.get(first)?);
            #[cfg(test)]
            if crate::model::is(crate::model::Mutant::WritesParts) {
                return Some(Change::Words(first..first + 1));
            }
            if new != old {
                return Some(Change::Part(first, new.wrapping_sub(*old)));
            }
            from = first + 1;
        }
    }

    /// Returns the word behind the last edited one.
    pub(crate) fn end(&self) -> usize {
        let bits = |at: usize| self.whole.get(at).zip(self.part.get(at)).map_or(0, |(w, p)| w | p);
        let last = (0..self.whole.len()).rfind(|at| bits(*at) != 0);
        last.map_or(0, |at| (at + 1) * BITS - bits(at).leading_zeros() as usize)
    }
}

/// Sets the bits of a range.
fn set(bits: &mut [u64], range: Range<usize>) {
    if range.is_empty() {
        return;
    }
    let (first, last) = (range.start / BITS, (range.end - 1) / BITS);
    for (at, word) in bits.iter_mut().enumerate().take(last + 1).skip(first) {
        let from = if at == first { range.start % BITS } else { 0 };
        let until = if at == last { (range.end - 1) % BITS } else { BITS - 1 };
        *word |= u64::MAX << from & u64::MAX >> (BITS - 1 - until);
    }
}

/// Returns the first set bit from `from` on.
#[inline]
fn find(from: usize, bits: impl Fn(usize) -> Option<u64>) -> Option<usize> {
    let mut at = from / BITS;
    let mut left = bits(at)? & u64::MAX << (from % BITS);
    while left == 0 {
        at += 1;
        left = bits(at)?;
    }
    Some(at * BITS + left.trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    const WORDS: usize = 128;

    fn layout(granule: usize, compares: bool) -> Layout {
        let mut layout = Config { page_words: 128, ..Config::new(1) }.layout::<u64>(1);
        (layout.granule, layout.compares) = (granule, compares);
        layout
    }

    /// Edits a page of a rank in ranges of bytes, each to these bytes, and returns what it sends.
    fn changes(
        page: &mut [u64],
        has_twin: bool,
        edits: impl IntoIterator<Item = (Range<usize>, Vec<u8>)>,
    ) -> Vec<Change> {
        let mut words = vec![0; Edit::words(page.len())];
        let mut twin = vec![0; if has_twin { page.len() } else { 0 }];
        let layout = layout(if has_twin { 1 } else { 8 }, false);
        let mut edit = Edit::new(&mut words, &mut twin, &layout).unwrap();
        for (range, bytes) in edits {
            edit.note(range.clone(), page);
            bytemuck::cast_slice_mut::<_, u8>(page)[range].copy_from_slice(&bytes);
        }
        let mut from = 0;
        core::iter::from_fn(|| {
            let change = edit.next_change(page, from)?;
            from = change.words().end;
            assert!(from <= edit.end());
            Some(change)
        })
        .collect()
    }

    #[test]
    fn sends_differing_words_and_parts() {
        let ones = |range: Range<usize>| (range.clone(), vec![1; range.len()]);
        let mut page = [0; WORDS];
        let words = [Change::Words(3..7), Change::Words(60..70), Change::Words(127..128)];
        let edits = [24..40, 480..560, 40..56, 1016..1024].map(ones);
        assert_eq!(changes(&mut page, true, edits), words);
        // Two parts of a word, one of which stays as it is, and the whole of another one.
        let edits = [(8..10, vec![2, 0]), (12..24, vec![1; 12]), (36..38, vec![0; 2])];
        let parts = [Change::Part(1, 0x0101_0101_0000_0002), Change::Words(2..3)];
        assert_eq!(changes(&mut [0; WORDS], true, edits.clone()), parts);
        let words = [Change::Words(1..3), Change::Words(4..5)];
        assert_eq!(changes(&mut [0; WORDS], false, edits), words);
    }

    #[test]
    fn compare_finds_words_and_parts() {
        let parts = |granule: usize, new: u64| {
            let layout = layout(granule, true);
            let (mut words, mut twin) = (vec![0; Edit::words(WORDS)], vec![0x0101; WORDS]);
            let mut page = twin.clone();
            page[70] = new;
            let mut edit = Edit::new(&mut words, &mut twin, &layout).unwrap();
            edit.compare(&page);
            let first = edit.next_change(&page, 0);
            assert_eq!(first.is_some().then_some(71), Some(edit.end()).filter(|end| *end > 0));
            first
        };
        let (whole, part) = (Some(Change::Words(70..71)), |sum| Some(Change::Part(70, sum)));
        assert_eq!([1, 2, 4, 8].map(|granule| parts(granule, 0x0101)), [const { None }; 4]);
        let found = [1, 2, 4, 8].map(|granule| parts(granule, 0x0102));
        assert_eq!(found, [part(1), part(1), part(1), whole.clone()]);
        let found = [1, 2, 4].map(|granule| parts(granule, 0x0001_0000_0001_0101));
        let sum = 0x0001_0000_0001_0000;
        assert_eq!(found, [part(sum), part(sum), whole.clone()]);
        assert_eq!(parts(1, u64::MAX), whole);
    }
}
