//! The directory of a region: which ranks have read and written each page, in a word at its home.
//!
//! A rank adds itself to the readers of a page by a fetch-and-add when it first reads the page from its home, and to
//! the writers when it first sends changes of it. As an addend counts ranks and sums up their numbers, which
//! say who one alone is, nothing needs an atomic OR. What the atomic returns is the order of all that have registered:
//! who comes later knows of the writers before it, and a writer tells all that came before it, in a byte of their windows
//! for the page, and waits for that before it passes on a lock. So at an acquire a rank knows of each page that it has
//! whether another one has written it in any critical section before; if none has, it keeps its copy.

use probeline_transport::Owner;

/// The most ranks: a byte counts how many have told another one of a page.
pub(crate) const MAX_RANKS: u32 = 256;
/// Pages whose bytes share a word.
pub(crate) const TOLD_PAGES: u32 = 8;
/// Words of what a rank is told before the bytes of pages: how often it was told.
pub(crate) const TOLD_HEAD: u32 = 1;

/// Bits of the sum of numbers, from 1 on, below the count of ranks.
const SUM_BITS: u32 = 20;
/// Bits of the readers, below the writers.
const READER_BITS: u32 = 32;

/// Action of a rank on a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Reader,
    Writer,
}

impl Role {
    /// Returns the addend by which a rank registers.
    pub(crate) fn addend(self, rank: Owner) -> u64 {
        ((1 << SUM_BITS) | (u64::from(rank.0) + 1))
            << if self == Self::Writer { READER_BITS } else { 0 }
    }
}

/// The readers or the writers of a page.
#[derive(Clone, Copy)]
struct Ranks {
    count: u64,
    sum: u64,
}

impl Ranks {
    /// Returns the ranks of a page's word, except for this one if it has registered.
    fn others(word: u64, role: Role, me: Option<Owner>) -> Self {
        let word = word.wrapping_sub(me.map_or(0, |me| role.addend(me)));
        let half = if role == Role::Writer { word >> READER_BITS } else { word };
        let ranks = half & ((1 << READER_BITS) - 1);
        Self { count: ranks >> SUM_BITS, sum: ranks & ((1 << SUM_BITS) - 1) }
    }
}

/// Returns whether another rank is a writer, by a page's word in which this one is, if it has registered.
pub(crate) fn has_other_writer(word: u64, me: Option<Owner>) -> bool {
    Ranks::others(word, Role::Writer, me).count > 0
}

/// Returns the ranks, from the first to behind the last, that may have the page, by its word from before this rank has
/// registered as a writer; `me` if it was a reader.
pub(crate) fn holders(word: u64, me: Option<Owner>, owners: u32) -> (u32, u32) {
    let [readers, writers] =
        [(Role::Reader, me), (Role::Writer, None)].map(|(role, me)| Ranks::others(word, role, me));
    let one = readers.sum.max(writers.sum);
    match readers.count.max(writers.count) {
        0 => (0, 0),
        1 if readers.sum.min(writers.sum) == 0 || readers.sum == writers.sum => {
            let rank = u32::try_from(one - 1).unwrap_or(u32::MAX);
            (rank, rank + 1)
        }
        _ => (0, owners),
    }
}

/// Knowledge of a rank of pages and the directory, a bit for each page. Empty without a directory.
pub(crate) struct Known<'m> {
    /// How often this rank was told of pages, when it has last looked.
    pub(crate) told: &'m mut u64,
    readers: &'m mut [u64],
    writers: &'m mut [u64],
    /// The pages that another rank has written.
    written: &'m mut [u64],
}

impl<'m> Known<'m> {
    /// Returns the words of private memory for this number of pages.
    pub(crate) fn words(pages: u32) -> usize {
        1 + 3 * pages.div_ceil(u64::BITS) as usize
    }

    /// Returns `None` without a directory.
    pub(crate) fn new(words: &'m mut [u64]) -> Option<Self> {
        let (told, bits) = words.split_first_mut()?;
        let (readers, rest) = bits.split_at_mut_checked(bits.len() / 3)?;
        let (writers, written) = rest.split_at_mut_checked(rest.len() / 2)?;
        Some(Self { told, readers, writers, written })
    }

    /// Returns whether this rank has registered.
    pub(crate) fn is(&self, role: Role, page: u32) -> bool {
        let bits = if role == Role::Reader { &self.readers } else { &self.writers };
        bits.get((page / u64::BITS) as usize)
            .is_some_and(|word| word >> (page % u64::BITS) & 1 != 0)
    }

    /// Notes that this rank has registered, and what the page's word was before. Returns whether another rank is a
    /// writer.
    pub(crate) fn register(&mut self, role: Role, page: u32, word: u64, me: Owner) -> bool {
        let is_writer = self.is(Role::Writer, page);
        #[cfg(test)]
        let word = if crate::model::is(crate::model::Mutant::IgnoresWriters) { 0 } else { word };
        let is_written = has_other_writer(word, is_writer.then_some(me));
        if is_written {
            self.set_written(page);
        }
        set(if role == Role::Reader { self.readers } else { self.writers }, page);
        is_written
    }

    /// Notes that another rank has written a page.
    pub(crate) fn set_written(&mut self, page: u32) {
        set(self.written, page);
    }

    /// Returns the pages that others have written.
    pub(crate) fn written(&self) -> impl Iterator<Item = u32> {
        (0..).step_by(u64::BITS as usize).zip(self.written.iter()).flat_map(|(first, word)| {
            let mut left = *word;
            core::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros())?;
                left &= left - 1;
                Some(first + bit)
            })
        })
    }
}

fn set(bits: &mut [u64], page: u32) {
    if let Some(word) = bits.get_mut((page / u64::BITS) as usize) {
        *word |= 1 << (page % u64::BITS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Registers all ranks in both roles, and asks for the holders each time.
    #[test]
    fn word_names_sole_holder() {
        let mut word = 0;
        assert_eq!(holders(word, None, 9), (0, 0));
        word += Role::Reader.addend(Owner(3));
        assert_eq!(holders(word, None, 9), (3, 4));
        assert_eq!(holders(word, Some(Owner(3)), 9), (0, 0));
        assert!(!has_other_writer(word, None));
        word += Role::Writer.addend(Owner(3));
        assert_eq!(holders(word, None, 9), (3, 4));
        assert!(has_other_writer(word, None) && !has_other_writer(word, Some(Owner(3))));
        word += Role::Reader.addend(Owner(0));
        assert_eq!(holders(word, Some(Owner(0)), 9), (3, 4));
        assert_eq!(holders(word, None, 9), (0, 9));
        let mut writers = Role::Writer.addend(Owner(5)) + Role::Reader.addend(Owner(4));
        assert_eq!(holders(writers, None, 9), (0, 9));
        assert_eq!(holders(writers, Some(Owner(4)), 9), (5, 6));
        // The most that there can be carries nowhere.
        writers = (0..MAX_RANKS).map(|rank| Role::Reader.addend(Owner(rank))).sum();
        assert!(!has_other_writer(writers, None));
        assert_eq!(holders(writers, None, MAX_RANKS), (0, MAX_RANKS));
    }

    #[test]
    fn lists_written_pages() {
        let mut words = vec![0; Known::words(200)];
        let mut known = Known::new(&mut words).unwrap();
        [0, 63, 64, 199].into_iter().for_each(|page| known.set_written(page));
        known.register(Role::Reader, 70, Role::Writer.addend(Owner(1)), Owner(0));
        known.register(Role::Writer, 71, 0, Owner(0));
        known.register(Role::Reader, 71, Role::Writer.addend(Owner(0)), Owner(0));
        assert_eq!(known.written().collect::<Vec<_>>(), [0, 63, 64, 70, 199]);
        assert_eq!([70, 71].map(|page| known.is(Role::Reader, page)), [true, true]);
        assert_eq!([70, 71].map(|page| known.is(Role::Writer, page)), [false, true]);
    }
}
