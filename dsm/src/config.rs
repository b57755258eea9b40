//! The parameters of a region, and what they need of windows, slots and private memory.

use core::ops::Range;
use core::sync::atomic::AtomicU64;

use bytemuck::Pod;
use probeline_pipeline::{ConfigError, Distribution, Parameter, Placement, next_line};
use probeline_transport::{
    AtomicScope, LINE_WORDS, Owner, RemoteWord, Segment, Sizes, Transport, WORD_BYTES,
};

use crate::context::MESSAGE_HEAD;
use crate::directory::{Known, MAX_RANKS, TOLD_HEAD, TOLD_PAGES};
use crate::edit::Edit;
use crate::lock::STATE_WORDS;
use crate::memory::Usage;
use crate::notices::NOTICE_WORDS;

/// The words of a lock before its list: the word of its tickets.
const TICKET_WORDS: u32 = 1;
/// The words of a list before its notices: the number of the last barrier, and of all notices since it.
pub(crate) const HEAD_WORDS: u32 = 2;
/// The most edits, whose numbers have 24 bits.
const MAX_EDITS: u32 = 1 << 24;

/// The parameters of a region. All owners give the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// The number of elements.
    pub elements: u64,
    /// Words of a page, a power of two from 8 (64 bytes) on.
    pub page_words: u32,
    /// The home of each page.
    pub distribution: Distribution,
    /// The number of locks.
    pub locks: u32,
    /// Pages that the private memory holds at once. If the region has more, page `p` is in frame `p` modulo this
    /// number, and no range of an access may have pages before and behind a multiple of it. Then the bytes of this
    /// many pages are a multiple of an element's.
    pub mirror_pages: u32,
    /// Pages that can be edited at once: those edited since the last release or barrier. An edit of another
    /// one sends the changes of all of them first.
    pub edited_pages: u32,
    /// Write notices that a rank keeps between two barriers, and that each lock carries; one notice is for any
    /// number of adjacent pages. If a rank needs more, others drop their copies of all pages, at a barrier only in
    /// regions of more than 64 pages for each notice.
    pub notices: u32,
    /// READs of a lock's word, at most, until [`acquire`](crate::Region::acquire) returns without the lock.
    pub max_lock_reads: u32,
    /// Whether two ranks may edit different elements of one word before they synchronise. Such words are
    /// changed by an atomic. It has no effect on elements of whole words.
    pub shares_words: bool,
    /// Whether a rank finds what it has changed by comparing each edited page with a copy of it from before, its
    /// twin. Then an edit of a range is only an edit of the elements that it changes. It may differ between ranks.
    pub compares: bool,
    /// Whether a directory at the homes says which ranks have read and written each page, instead of notices that locks
    /// carry. Then an acquire keeps the copies of pages that no other rank has ever written by a lock or before a
    /// barrier, and drops all others. For at most 256 ranks.
    pub directory: bool,
    /// Whether each rank's window has its whole private memory, at the same place on all ranks, in which a page whose home
    /// the rank is has its place: nothing of it is read or sent by this rank. Such regions are opened by
    /// [`Region::open_in_windows`](crate::Region::open_in_windows). For elements of whole words, or unless
    /// [`shares_words`](Self::shares_words), and neither with [`compares`](Self::compares) nor with fewer
    /// [`mirror_pages`](Self::mirror_pages) than the region has.
    pub in_windows: bool,
    /// The first word of each window that the region uses.
    pub first_word: u64,
}

impl Config {
    /// Pages of 4 KiB in blocks of consecutive ones, 16 locks, private memory for the whole region, all of whose
    /// pages can be edited at once, 63 notices.
    #[must_use]
    pub const fn new(elements: u64) -> Self {
        Self {
            elements,
            page_words: 512,
            distribution: Distribution::Block,
            locks: 16,
            mirror_pages: u32::MAX,
            edited_pages: u32::MAX,
            notices: 63,
            max_lock_reads: 1 << 26,
            shares_words: true,
            compares: false,
            directory: false,
            in_windows: false,
            first_word: 0,
        }
    }

    /// Returns the sizes of an engine for a region of `T` in a job of this many owners, for this many operations in
    /// flight. Its depth is twice that, because a release posts the runs of a page together.
    #[must_use]
    pub fn sizes<T: Pod>(&self, owners: u32, operations: u32) -> Sizes {
        let layout = self.layout::<T>(owners);
        Sizes {
            window_words: layout.end_word(),
            slots: operations,
            slot_words: layout
                .slot_words()
                .checked_next_multiple_of(LINE_WORDS)
                .unwrap_or(u32::MAX),
            depth: operations.saturating_mul(2).max(8),
        }
    }

    /// Returns the words of private memory that a rank gives to [`Region::open`](crate::Region::open).
    #[must_use]
    pub fn memory_words<T: Pod>(&self, owners: u32) -> usize {
        self.layout::<T>(owners).memory_words()
    }

    pub(crate) fn layout<T: Pod>(&self, owners: u32) -> Layout {
        let page_bytes = u64::from(self.page_words.max(1)) * WORD_BYTES as u64;
        let bytes = self.elements.saturating_mul(size_of::<T>() as u64);
        let pages = u32::try_from(bytes.div_ceil(page_bytes)).unwrap_or(u32::MAX);
        let frames = self.mirror_pages.min(pages);
        let first_word = next_line(self.first_word);
        let homes =
            Placement::new(pages.into(), self.page_words, first_word, self.distribution, owners);
        let list_words = if self.directory { 0 } else { list_words(self.notices) };
        let lock_words = list_words.saturating_add(TICKET_WORDS);
        let home_words = if self.in_windows { 0 } else { homes.part_words() };
        let first_lock = next_line(first_word.saturating_add(home_words));
        let locks = Placement::new(
            self.locks.max(1).into(),
            lock_words.checked_next_multiple_of(LINE_WORDS).unwrap_or(u32::MAX),
            first_lock,
            Distribution::Cyclic,
            owners,
        );
        // Beside each other, in regions that have a directory.
        let pages_if = if self.directory { pages } else { 0 };
        let told_words = pages_if.div_ceil(TOLD_PAGES) + TOLD_HEAD;
        let first_told = next_line(locks.first_word().saturating_add(locks.part_words()));
        let told =
            Placement::new(owners.into(), told_words, first_told, Distribution::Cyclic, owners);
        let first_entry = first_told.saturating_add(told_words.into());
        let entries = Placement::new(pages_if.into(), 1, first_entry, self.distribution, owners);
        // Elements of two, four or eight bytes and their multiples begin at multiples of them.
        let granule = 1 << size_of::<T>().trailing_zeros().min(WORD_BYTES.trailing_zeros());
        let layout = Layout {
            homes,
            locks,
            told,
            entries,
            list_words,
            page_words: self.page_words,
            page_count: pages,
            frames,
            edited_pages: self.edited_pages.min(frames),
            notices: self.notices,
            owners,
            granule: if self.shares_words { granule } else { WORD_BYTES },
            compares: self.compares,
            has_directory: self.directory,
            in_windows: self.in_windows,
            parts: [0; 10],
        };
        Layout { parts: layout.part_words(), ..layout }
    }

    pub(crate) fn check<T: Pod>(&self, transport: &impl Transport) -> Result<(), ConfigError> {
        if size_of::<T>() == 0 || align_of::<T>() > WORD_BYTES {
            let why = "choose elements that have a size and an alignment of at most 8 bytes";
            return Err(ConfigError::Invalid(why));
        }
        if !self.page_words.is_power_of_two() || self.page_words < LINE_WORDS {
            return Err(ConfigError::Invalid("page_words must be a power of two of at least 8"));
        }
        let owners = transport.geometry().owners;
        let layout = self.layout::<T>(owners);
        let ranges = [
            ("the number of elements", self.elements, usize::MAX as u64 / size_of::<T>() as u64),
            ("the number of pages", layout.page_count.into(), u64::from(u32::MAX) - 1),
            ("locks", self.locks.into(), 1 << 24),
            ("mirror_pages", layout.frames.into(), layout.page_count.into()),
            ("edited_pages", layout.edited_pages.into(), MAX_EDITS.into()),
            ("notices", self.notices.into(), 1 << 24),
            ("max_lock_reads", self.max_lock_reads.into(), u32::MAX.into()),
        ];
        for (what, found, max) in ranges {
            ConfigError::check_range(what, found, 1, max)?;
        }
        let turn = layout.page_bytes().saturating_mul(layout.frames as usize);
        if layout.frames < layout.page_count && !turn.is_multiple_of(size_of::<T>()) {
            let why = "mirror_pages, if fewer than all, must hold a whole number of elements: choose another number";
            return Err(ConfigError::Invalid(why));
        }
        if self.in_windows {
            if layout.granule < WORD_BYTES || self.compares {
                let why = "in_windows needs compares: false, and elements of whole words or shares_words: false";
                return Err(ConfigError::Invalid(why));
            }
            let all = layout.page_count.into();
            ConfigError::check_range("mirror_pages", layout.frames.into(), all, all)?;
        }
        layout.homes.check(transport, layout.slot_words())?;
        layout.locks.check(transport, layout.slot_words())?;
        if self.directory {
            let ranks = "the number of ranks of a region with a directory";
            ConfigError::check_range(ranks, owners.into(), 1, MAX_RANKS.into())?;
            layout.entries.check(transport, layout.slot_words())?;
        }
        Ok(())
    }

    /// Returns what all owners must have in common.
    pub(crate) fn parameters<T: Pod>(&self) -> [Parameter; 10] {
        [
            ("number of elements", self.elements),
            ("bytes of an element", size_of::<T>() as u64),
            ("page_words", self.page_words.into()),
            ("distribution (0 block, 1 cyclic)", self.distribution as u64),
            ("locks", self.locks.into()),
            ("notices", self.notices.into()),
            ("shares_words (0 no, 1 yes)", self.shares_words.into()),
            ("directory (0 no, 1 yes)", self.directory.into()),
            ("in_windows (0 no, 1 yes)", self.in_windows.into()),
            ("first_word", self.first_word),
        ]
    }
}

/// Returns these words, if the CPU's accesses to them are coherent with the transport's.
pub(crate) fn reach(transport: &impl Transport, at: Option<Segment>) -> Option<&[AtomicU64]> {
    let is_coherent = transport.caps().atomics == AtomicScope::Cpu;
    transport.direct(at?).filter(|_| is_coherent)
}

/// Returns `words` words of a segment from its word `start` on.
pub(crate) fn part_of(segment: Segment, start: u32, words: u32) -> Segment {
    let RemoteWord { owner, index } = segment.start;
    Segment { start: RemoteWord { owner, index: index + u64::from(start) }, words }
}

/// Index of the states of locks among [`Layout::parts`].
const LOCKS_PART: usize = 6;

/// Returns the words of a list of notices, its head included.
fn list_words(notices: u32) -> u32 {
    NOTICE_WORDS.saturating_mul(notices).saturating_add(HEAD_WORDS)
}

/// The places of pages and locks in the windows, and the parts of the private memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Layout {
    homes: Placement,
    locks: Placement,
    /// Notices of pages to each rank, and the directory's entries of pages.
    told: Placement,
    entries: Placement,
    /// The words of a list, its head included.
    pub(crate) list_words: u32,
    pub(crate) page_words: u32,
    pub(crate) page_count: u32,
    /// Pages that the mirror holds.
    pub(crate) frames: u32,
    pub(crate) edited_pages: u32,
    pub(crate) notices: u32,
    pub(crate) owners: u32,
    /// Bytes of the smallest unit that no two ranks change at once: 1, 2, 4 or 8.
    pub(crate) granule: usize,
    /// Whether changes are found by comparing pages with their twins.
    pub(crate) compares: bool,
    pub(crate) has_directory: bool,
    in_windows: bool,
    /// The words of each part of the private memory, in their order.
    pub(crate) parts: [usize; 10],
}

impl Layout {
    /// Returns the pages of a range of the region's bytes.
    #[inline]
    pub(crate) fn pages(&self, bytes: &Range<usize>) -> Range<u32> {
        let bits = self.page_bytes().trailing_zeros();
        // At most the pages of the region.
        #[allow(clippy::cast_possible_truncation)]
        let page = |byte: usize| (byte >> bits) as u32;
        if bytes.is_empty() { 0..0 } else { page(bytes.start)..page(bytes.end - 1) + 1 }
    }

    /// Returns what an access to a range of bytes does with a page of it: of words in part, an overwrite is an edit.
    #[inline]
    pub(crate) fn usage(&self, bytes: &Range<usize>, page: u32, usage: Usage) -> Usage {
        if usage != Usage::Overwrite {
            return usage;
        }
        let part = self.part_of_page(bytes, page);
        let is_whole = |edge: usize| edge.is_multiple_of(WORD_BYTES);
        if is_whole(part.start) && is_whole(part.end) { usage } else { Usage::Edit }
    }

    /// Returns the bytes of a page of which a range of the region's bytes has some.
    #[inline]
    pub(crate) fn part_of_page(&self, bytes: &Range<usize>, page: u32) -> Range<usize> {
        let first = page as usize * self.page_bytes();
        bytes.start.saturating_sub(first)..(bytes.end - first).min(self.page_bytes())
    }

    #[inline]
    pub(crate) fn page_bytes(&self) -> usize {
        self.page_words as usize * WORD_BYTES
    }

    /// Returns where the mirror has a range of the region's bytes. It has one turn of the region at a time, and is all
    /// of it by default.
    #[inline]
    pub(crate) fn in_mirror(&self, bytes: &Range<usize>) -> Range<usize> {
        let turn = self.frames as usize * self.page_bytes();
        let start = bytes.start;
        let base =
            if start < turn { 0 } else { start - start.checked_rem(turn).unwrap_or_default() };
        start - base..bytes.end - base
    }

    /// Returns the words of a page at its home.
    #[inline]
    pub(crate) fn page(&self, page: u32) -> Option<Segment> {
        let home = self.homes.segment(page.into())?;
        if !self.in_windows {
            return Some(home);
        }
        let start = RemoteWord { owner: home.start.owner, index: self.private_word() };
        let mirror = Segment { start, words: home.words };
        Some(part_of(mirror, page * self.page_words, home.words))
    }

    /// Returns the word of a lock's tickets.
    pub(crate) fn tickets(&self, lock: u32) -> Option<Segment> {
        Some(Segment { words: TICKET_WORDS, ..self.locks.segment(lock.into())? })
    }

    /// Returns `words` words of a lock's list, from its word `start` on.
    pub(crate) fn list(&self, lock: u32, start: u32, words: u32) -> Option<Segment> {
        Some(part_of(self.tickets(lock)?, TICKET_WORDS + start, words))
    }

    /// Returns the directory's entry of a page.
    pub(crate) fn entry(&self, page: u32) -> Option<RemoteWord> {
        Some(self.entries.segment(page.into())?.start)
    }

    /// Returns what a rank is told of pages: the number of times, then a byte for each page.
    pub(crate) fn told(&self, rank: u32) -> Option<Segment> {
        self.told.segment(rank.into())
    }

    /// Returns the private words of a lock's state.
    pub(crate) fn lock_words(&self, lock: u32) -> Option<Range<usize>> {
        let before: usize = self.parts.iter().take(LOCKS_PART).sum();
        let start = before + lock as usize * STATE_WORDS;
        (lock < self.lock_count()).then_some(start..start + STATE_WORDS)
    }

    pub(crate) fn lock_count(&self) -> u32 {
        u32::try_from(self.locks.len()).unwrap_or(u32::MAX)
    }

    /// Returns the frame of a page.
    #[inline(always)]
    pub(crate) fn frame(&self, page: u32) -> usize {
        (if page < self.frames { page } else { page % self.frames.max(1) }) as usize
    }

    pub(crate) fn slot_words(&self) -> u32 {
        self.page_words.max(self.list_words)
    }

    /// Returns the word of the window from which on it has the private memory, if it has.
    fn private_word(&self) -> u64 {
        let last = if self.has_directory { &self.entries } else { &self.locks };
        next_line(last.first_word().saturating_add(last.part_words()))
    }

    /// Returns the words of a rank's window that have its private memory.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] if the private memory is larger than a segment.
    pub(crate) fn private(&self, owner: Owner) -> Result<Segment, ConfigError> {
        let words = u32::try_from(self.memory_words()).map_err(|_| {
            ConfigError::Invalid("the private memory in a window has at most 2^32 words")
        })?;
        Ok(Segment { start: RemoteWord { owner, index: self.private_word() }, words })
    }

    fn end_word(&self) -> u64 {
        let words = if self.in_windows { self.memory_words() as u64 } else { 0 };
        self.private_word().saturating_add(words)
    }

    /// Returns the words of an edit.
    pub(crate) fn edit_words(&self) -> usize {
        Edit::words(self.page_words as usize)
    }

    fn part_words(&self) -> [usize; 10] {
        let page_words = self.page_words as usize;
        let (frames, edits) = (self.frames as usize, self.edited_pages as usize);
        let (owners, notices) = (self.owners as usize, self.notices as usize);
        [
            frames.saturating_mul(page_words),
            // Twins: of words that ranks may share, or of all.
            if self.granule < WORD_BYTES || self.compares {
                edits.saturating_mul(page_words)
            } else {
                0
            },
            frames,
            edits.saturating_mul(self.edit_words()),
            notices.saturating_mul(NOTICE_WORDS as usize),
            owners,
            self.lock_count() as usize * STATE_WORDS,
            (owners + 1).saturating_mul(self.message_words()),
            self.bitmap_words(),
            if self.has_directory { Known::words(self.page_count) } else { 0 },
        ]
    }

    pub(crate) fn memory_words(&self) -> usize {
        self.parts.iter().fold(0, |sum, words| sum.saturating_add(*words))
    }

    /// Returns the words of a bit for each page.
    pub(crate) fn bitmap_words(&self) -> usize {
        self.page_count.div_ceil(u64::BITS) as usize
    }

    /// Returns the words of a barrier's message.
    pub(crate) fn message_words(&self) -> usize {
        MESSAGE_HEAD.saturating_add(self.notices as usize)
    }
}
