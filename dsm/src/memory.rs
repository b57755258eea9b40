//! The private memory of a rank: the mirror of the region, its edits, and what it knows of pages and locks.

use core::ops::Range;

use bytemuck::{Pod, Zeroable, try_cast_slice_mut};
use probeline_pipeline::Error;

use crate::config::Layout;
use crate::context::Stats;
use crate::directory::{Known, Role};
use crate::edit::Edit;
use crate::lock::State;
use crate::notices::{Log, Notice};

/// Action of an access on its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Usage {
    View,
    Edit,
    /// An edit of whole words that does not look at them.
    Overwrite,
}

/// A frame of the mirror, and the page in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Frame {
    page: u32,
    /// The flags below, and the number of the page's edit from 1 on; 0 if the frame is empty.
    state: u32,
}

/// The frame has the page.
const VALID: u32 = 1 << 31;
/// A READ of the page is in flight.
const FETCHING: u32 = 1 << 30;
/// Another rank has changed the page.
const STALE: u32 = 1 << 29;
/// The frame is the page's home, in which other ranks store what they change.
const HOME: u32 = 1 << 28;
const EDIT: u32 = (1 << 25) - 1;

impl Frame {
    const EMPTY: Self = Self { page: 0, state: 0 };

    /// Returns the frame of a page of which the mirror will have only what is edited, and nothing to view.
    pub(crate) fn overwritten(page: u32) -> Self {
        Self { page, state: STALE }
    }

    /// Notes that this rank has edited all of the page.
    pub(crate) fn set_overwritten(&mut self) {
        self.state = self.state & (EDIT | HOME) | VALID;
    }

    /// Returns the frame of a page whose home it is.
    pub(crate) fn home(page: u32) -> Self {
        Self { page, state: VALID | HOME }
    }

    pub(crate) fn is_home(self) -> bool {
        self.state & HOME != 0
    }

    pub(crate) fn fetching(page: u32) -> Self {
        Self { page, state: FETCHING }
    }

    /// Returns whether the frame has this page, as far as this rank knows of changes.
    #[inline]
    pub(crate) fn has(self, page: u32) -> bool {
        self.page == page && self.state & (VALID | STALE) == VALID
    }

    pub(crate) fn is_fetching(self) -> bool {
        self.state & FETCHING != 0
    }

    /// Returns the number of the page's edit, if it is edited.
    #[inline]
    pub(crate) fn edit(self) -> Option<u32> {
        (self.state & EDIT).checked_sub(1)
    }

    /// Returns whether the frame has changes to send before this access to a page.
    pub(crate) fn must_send_before(self, page: u32, usage: Usage) -> bool {
        let is_open = self.page == page && usage == Usage::Overwrite;
        self.edit().is_some() && !self.has(page) && !is_open
    }

    pub(crate) fn set_edit(&mut self, edit: u32) {
        self.state = self.state & !EDIT | (edit + 1);
    }

    /// Notes that the READ of the page has ended.
    pub(crate) fn end_fetch(&mut self) {
        *self = if self.state & STALE == 0 { Self { state: VALID, ..*self } } else { Self::EMPTY };
    }

    /// Notes that the changes of the page have arrived.
    pub(crate) fn end_edit(&mut self) {
        self.state &= !EDIT;
        if self.state & STALE != 0 {
            *self = Self::EMPTY;
        }
    }

    /// Notes that another rank has changed the page. Changes of this rank stay, and so does a home.
    fn drop_copy(&mut self) {
        if self.is_home() {
            return;
        }
        let is_in_use = self.state & FETCHING != 0 || self.edit().is_some();
        *self = if is_in_use { Self { state: self.state | STALE, ..*self } } else { Self::EMPTY };
    }
}

/// Copies words.
///
/// # Errors
/// [`Error::Window`] if the numbers of words differ, which they never do.
pub(crate) fn copy(from: &[u64], to: &mut [u64]) -> Result<(), Error> {
    if from.len() != to.len() {
        return Err(Error::Window);
    }
    to.copy_from_slice(from);
    Ok(())
}

/// Returns the words of a frame.
fn range_of(layout: &Layout, frame: usize) -> Range<usize> {
    let words = layout.page_words as usize;
    frame * words..(frame + 1) * words
}

/// The parts of the memory.
pub(crate) struct Parts<'m> {
    pub(crate) mirror: &'m mut [u64],
    /// For each edit, a place for the words of which a part is edited.
    twins: &'m mut [u64],
    pub(crate) frames: &'m mut [Frame],
    edits: &'m mut [u64],
    pub(crate) log: &'m mut [Notice],
    /// The last interval of each writer whose notices this rank has.
    pub(crate) seen: &'m mut [u64],
    pub(crate) locks: &'m mut [State],
    /// Notices that ranks send each other at a barrier.
    pub(crate) messages: &'m mut [u64],
    /// The pages that this rank has changed since the last barrier, a bit for each.
    pub(crate) changed: &'m mut [u64],
    known: &'m mut [u64],
}

impl<'m> Parts<'m> {
    /// Divides the memory.
    ///
    /// # Errors
    /// [`Error::Storage`] if it has become too short.
    #[inline(always)]
    pub(crate) fn new(memory: &'m mut [u64], layout: &Layout) -> Result<Self, Error> {
        let found = memory.len();
        let mut rest = memory;
        let parts = layout.parts.map(|words| {
            let (part, after) = core::mem::take(&mut rest).split_at_mut_checked(words)?;
            rest = after;
            Some(part)
        });
        let [
            Some(mirror),
            Some(twins),
            Some(frames),
            Some(edits),
            Some(log),
            Some(seen),
            Some(locks),
            Some(messages),
            Some(changed),
            Some(known),
        ] = parts
        else {
            let number = |words: usize| u32::try_from(words).unwrap_or(u32::MAX);
            let (found, expected) = (number(found), number(layout.memory_words()));
            return Err(Error::Storage { found, expected });
        };
        // All of them are words.
        let frames = try_cast_slice_mut(frames).unwrap_or_default();
        let log = try_cast_slice_mut(log).unwrap_or_default();
        let locks = try_cast_slice_mut(locks).unwrap_or_default();
        Ok(Self { mirror, twins, frames, edits, log, seen, locks, messages, changed, known })
    }

    /// Returns what this rank knows of the directory, if the region has one.
    #[inline]
    pub(crate) fn known(&mut self) -> Option<Known<'_>> {
        Known::new(self.known)
    }

    /// Returns whether this rank must register before it reads a page, or tells of its changes.
    #[inline]
    pub(crate) fn must_register(&mut self, role: Role, page: u32) -> bool {
        self.known().is_some_and(|known| !known.is(role, page))
    }

    /// Drops the copies of all pages that others have written.
    pub(crate) fn drop_written(&mut self, layout: &Layout) {
        let words = core::mem::take(&mut self.known);
        for page in Known::new(words).iter().flat_map(Known::written) {
            self.drop_copies(layout, page, 1);
        }
    }

    /// Returns the words of a frame in the mirror.
    #[inline]
    pub(crate) fn frame_words(&mut self, layout: &Layout, frame: usize) -> &mut [u64] {
        self.mirror.get_mut(range_of(layout, frame)).unwrap_or_default()
    }

    /// Returns the page of an edit.
    #[inline]
    pub(crate) fn edited_page(&self, layout: &Layout, nth: u32) -> Result<u32, Error> {
        let page = self.edits.get(nth as usize * layout.edit_words());
        page.and_then(|page| u32::try_from(*page).ok()).ok_or(Error::Window)
    }

    /// Returns whether the mirror has a page at its home.
    #[inline]
    pub(crate) fn is_at_home(&self, layout: &Layout, page: u32) -> bool {
        self.frames.get(layout.frame(page)).is_some_and(|frame| frame.is_home())
    }

    /// Returns an edit, and the words of its page in the mirror.
    #[inline]
    pub(crate) fn edit(&mut self, layout: &Layout, nth: u32) -> Result<(Edit<'_>, &[u64]), Error> {
        let range = |words: usize| nth as usize * words..(nth as usize + 1) * words;
        let words = self.edits.get_mut(range(layout.edit_words())).unwrap_or_default();
        let twin = self.twins.get_mut(range(layout.page_words as usize)).unwrap_or_default();
        let edit = Edit::new(words, twin, layout).ok_or(Error::Window)?;
        let frame = range_of(layout, layout.frame(edit.page));
        Ok((edit, self.mirror.get(frame).ok_or(Error::Window)?))
    }

    /// Begins an edit of a page.
    ///
    /// # Errors
    /// [`Error::Window`] if its words or the page's frame are missing, which cannot happen.
    #[inline]
    pub(crate) fn begin_edit(&mut self, layout: &Layout, nth: u32, page: u32) -> Result<(), Error> {
        let first = self.edits.get_mut(nth as usize * layout.edit_words());
        *first.ok_or(Error::Window)? = page.into();
        let (mut edit, words) = self.edit(layout, nth)?;
        edit.begin(words)?;
        self.frames.get_mut(layout.frame(page)).ok_or(Error::Window)?.set_edit(nth);
        Ok(())
    }

    /// Notes that this rank has changed a page, and that its home has the changes.
    #[inline]
    pub(crate) fn note_changed(&mut self, log: &mut Log, stats: &mut Stats, page: u32) {
        log.note_own(self.log, page);
        stats.overflows = log.overflows();
        if let Some(word) = self.changed.get_mut((page / u64::BITS) as usize) {
            *word |= 1 << (page % u64::BITS);
        }
    }

    /// Drops the copies of `count` pages from `first` on.
    pub(crate) fn drop_copies(&mut self, layout: &Layout, first: u32, count: u32) {
        let pages = first..first.saturating_add(count);
        if count >= layout.frames {
            let frames = self.frames.iter_mut();
            return frames.filter(|frame| pages.contains(&frame.page)).for_each(Frame::drop_copy);
        }
        for page in pages {
            let frame = self.frames.get_mut(layout.frame(page));
            if let Some(frame) = frame.filter(|frame| frame.page == page) {
                frame.drop_copy();
            }
        }
    }
}
