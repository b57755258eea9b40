//! Accesses to ranges of a region: their pages are brought to the mirror, and edits of them noted.

use core::ops::Range;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::fence;

use bytemuck::{Pod, cast_slice_mut, try_cast_slice, try_cast_slice_mut};
use probeline_pipeline::Error;
use probeline_transport::{Transport, WORD_BYTES, load_bytes};

use crate::config::{Layout, reach};
use crate::context::Task;
use crate::directory::Role;
use crate::memory::{Frame, Parts, Usage};
use crate::ranges::{Slices, are_apart, split};
use crate::region::{Operation, Region};
use crate::transfer::Fetch;

impl<T, E, S, M> Region<T, E, S, M>
where
    T: Pod,
    E: Transport,
    S: AsMut<[Operation]>,
    M: AsMut<[u64]>,
{
    /// Returns a range of elements as this rank may see them. Pages that it lacks are read, as many at once as
    /// there are operations; if it lacks none, it takes no operation.
    ///
    /// # Errors
    /// As for [`access`](Self::access).
    #[inline]
    pub fn view(&mut self, range: Range<usize>) -> Result<&[T], Error> {
        self.one(range, Usage::View).map(|view| &*view)
    }

    /// Returns a range of elements to change, all of them: no other rank may edit any of them before it has
    /// synchronised with this one. Others see the changes when they follow this rank's next release or barrier.
    ///
    /// # Errors
    /// As for [`access`](Self::access).
    #[inline]
    pub fn edit(&mut self, range: Range<usize>) -> Result<&mut [T], Error> {
        self.one(range, Usage::Edit)
    }

    /// Returns a range of elements to write, all of them, without a look at what they are: the pages that this rank
    /// lacks are not read. Until the caller has written them the elements have any values, and others receive
    /// these. It is an [`edit`](Self::edit) in all else; of words of which a part is in the range, it is an edit.
    ///
    /// ```
    /// # use probeline_dsm::{Config, Operation, Region};
    /// # let config = Config::new(10_000);
    /// # let engine = probeline_shm::Builder::new(config.sizes::<u64>(1, 4)).open(&mut probeline_transport::Alone)?;
    /// # let memory = vec![0; config.memory_words::<u64>(1)];
    /// # let job = &mut probeline_transport::Alone;
    /// # let mut region = Region::<u64, _, _, _>::open(engine, config, [Operation::EMPTY; 4], memory, job)?;
    /// region.overwrite(0..10_000)?.fill(1);
    /// assert_eq!(region.stats().fetches, 0);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`access`](Self::access).
    #[inline]
    pub fn overwrite(&mut self, range: Range<usize>) -> Result<&mut [T], Error> {
        self.one(range, Usage::Overwrite)
    }

    /// Returns one range, as [`access`](Self::access) does.
    #[inline]
    fn one(&mut self, range: Range<usize>, usage: Usage) -> Result<&mut [T], Error> {
        let bytes = self.bytes(&range)?;
        self.touch(&bytes, usage)?;
        let (mut parts, layout, ..) = self.pipeline.shared_mut().parts()?;
        if usage != Usage::View {
            note_edit(&mut parts, layout, &bytes, usage)?;
        }
        let bytes = layout.in_mirror(&bytes);
        let bytes = cast_slice_mut::<_, u8>(parts.mirror).get_mut(bytes).ok_or(Error::Overlap)?;
        Ok(try_cast_slice_mut(bytes).unwrap_or_default())
    }

    /// Brings the pages of a range of bytes to the mirror, and begins their edits.
    #[inline]
    pub(crate) fn touch(&mut self, bytes: &Range<usize>, usage: Usage) -> Result<(), Error> {
        let all = || core::iter::once((bytes, usage));
        // Pages of two turns of the mirror are refused even if all are present.
        if self.begin(all)?.is_some() || self.is_turned(bytes) { self.prepare(all) } else { Ok(()) }
    }

    /// Returns ranges of elements, some to view and some to edit, as [`view`](Self::view) and [`edit`](Self::edit) do.
    /// Those to edit are apart from all others. Blocks until their pages are present; the transport bounds the wait.
    ///
    /// # Errors
    /// [`Error::Index`] beyond the last element, [`Error::Range`], [`Error::Overlap`], [`Error::Pages`] if the memory
    /// has no room for all pages of the access at once, [`Error::InProgress`] while an acquire or release is in
    /// progress. Otherwise an operation failed, and the region refuses everything.
    #[inline]
    pub fn access<const R: usize, const W: usize>(
        &mut self,
        views: [Range<usize>; R],
        edits: [Range<usize>; W],
    ) -> Result<Slices<'_, T, R, W>, Error> {
        views.iter().chain(&edits).try_for_each(|range| self.bytes(range).map(drop))?;
        let views = views.each_ref().map(bytes_of::<T>);
        let edits = edits.each_ref().map(bytes_of::<T>);
        let all = || {
            let views = views.iter().map(|range| (range, Usage::View));
            views.chain(edits.iter().map(|range| (range, Usage::Edit)))
        };
        if self.begin(all)?.is_some()
            || views.iter().chain(&edits).any(|range| self.is_turned(range))
        {
            self.prepare(all)?;
        }
        let (mut parts, layout, ..) = self.pipeline.shared_mut().parts()?;
        let local = |range: &Range<usize>| layout.in_mirror(range);
        let bytes = (views.each_ref().map(local), edits.each_ref().map(local));
        if !are_apart(parts.mirror.len() * WORD_BYTES, &bytes.0, &bytes.1) {
            return Err(Error::Overlap);
        }
        for range in edits {
            note_edit(&mut parts, layout, &range, Usage::Edit)?;
        }
        let (views, edits) =
            split(cast_slice_mut(parts.mirror), bytes.0, bytes.1).ok_or(Error::Overlap)?;
        // Elements begin at multiples of their size, and turns at multiples of a line.
        let views = views.map(|bytes: &[u8]| try_cast_slice(bytes).unwrap_or_default());
        Ok((views, edits.map(|bytes| try_cast_slice_mut(bytes).unwrap_or_default())))
    }

    /// Returns whether a range of bytes that the region has crosses turns of the mirror.
    #[inline]
    fn is_turned(&self, bytes: &Range<usize>) -> bool {
        let layout = &self.pipeline.shared().layout;
        layout.in_mirror(bytes).end > layout.parts[0] * WORD_BYTES
    }

    /// Begins the edits of an access. If it has not, returns how many pages there is room for: of the mirror, or edited
    /// ones.
    #[inline]
    fn begin<'r, I>(&mut self, ranges: impl Fn() -> I) -> Result<Option<u32>, Error>
    where
        I: Iterator<Item = (&'r Range<usize>, Usage)>,
    {
        let context = self.pipeline.shared_mut();
        if context.task != Task::None || context.failed.is_some() {
            return Ok(Some(0));
        }
        let mut edited = context.edited;
        let (mut parts, layout, ..) = context.parts()?;
        let mut begin = |page, usage: Usage| {
            let Some(frame) = parts.frames.get_mut(layout.frame(page)) else {
                return Some(layout.frames);
            };
            if !frame.has(page) {
                let is_in_use = frame.is_fetching() || frame.must_send_before(page, usage);
                if usage != Usage::Overwrite || is_in_use {
                    return Some(layout.frames);
                }
                if frame.edit().is_none() && edited < layout.edited_pages {
                    *frame = Frame::overwritten(page);
                }
            }
            if usage == Usage::View || frame.edit().is_some() {
                return None;
            }
            if edited >= layout.edited_pages || parts.begin_edit(layout, edited, page).is_err() {
                return Some(layout.edited_pages);
            }
            edited += 1;
            None
        };
        let found = ranges().find_map(|(bytes, usage)| {
            let mut pages = layout.pages(bytes);
            pages.find_map(|page| begin(page, layout.usage(bytes, page, usage)))
        });
        context.edited = edited;
        Ok(found)
    }

    /// Brings the pages of an access to the mirror, and begins the edits.
    #[cold]
    fn prepare<'r, I>(&mut self, ranges: impl Fn() -> I + Copy) -> Result<(), Error>
    where
        I: Iterator<Item = (&'r Range<usize>, Usage)>,
    {
        self.check_idle()?;
        let layout = self.pipeline.shared().layout;
        let mut needed = 0_u32;
        for (bytes, _) in ranges() {
            let pages = layout.pages(bytes);
            needed = needed.saturating_add(pages.end - pages.start);
            let frames = layout.frames;
            let turn = |page: u32| page.checked_div(frames);
            if !pages.is_empty() && turn(pages.start) != turn(pages.end - 1) {
                let found = frames - pages.start.checked_rem(frames).unwrap_or_default();
                return Err(Error::Pages { needed, found });
            }
        }
        let pages = || {
            ranges().flat_map(|(bytes, usage)| {
                layout.pages(bytes).map(move |page| (page, layout.usage(bytes, page, usage)))
            })
        };
        self.send_before(pages())?;
        for (page, _) in pages().filter(|(_, usage)| *usage != Usage::Overwrite) {
            self.fetch(page)?;
        }
        for (page, _) in pages() {
            self.wait_for(page)?;
        }
        // Another page of the access may have displaced one.
        self.begin(ranges)?.map_or(Ok(()), |found| Err(Error::Pages { needed, found }))
    }

    /// Returns the region's bytes of a range of elements.
    #[inline]
    fn bytes(&self, range: &Range<usize>) -> Result<Range<usize>, Error> {
        if range.start > range.end {
            return Err(Error::Range { start: range.start as u64 });
        }
        if range.end > self.elements {
            return Err(Error::Index { index: range.end.saturating_sub(1) as u64 });
        }
        Ok(bytes_of::<T>(range))
    }

    /// Sends the changes of all edited pages if the access has no room beside them.
    fn send_before(&mut self, pages: impl Iterator<Item = (u32, Usage)>) -> Result<(), Error> {
        let (mut must_send, mut edits) = (false, 0_u32);
        for (page, usage) in pages {
            let frame = self.frame(page)?;
            must_send |= frame.must_send_before(page, usage);
            edits += u32::from(usage != Usage::View && frame.edit().is_none());
        }
        let context = self.pipeline.shared();
        let has_room = context.edited.saturating_add(edits) <= context.layout.edited_pages;
        if (must_send || !has_room) && context.edited > 0 {
            self.start_flush(None)?;
            self.finish()?;
        }
        Ok(())
    }

    /// Returns the frame of the mirror that is for a page, and may hold another one.
    pub(crate) fn frame(&mut self, page: u32) -> Result<Frame, Error> {
        let (parts, layout, ..) = self.pipeline.shared_mut().parts()?;
        parts.frames.get(layout.frame(page)).copied().ok_or(Error::Window)
    }

    /// Loads a page, or starts its READ, if the mirror lacks it.
    fn fetch(&mut self, page: u32) -> Result<(), Error> {
        self.wait_for(page)?;
        if self.frame(page)?.has(page) {
            return Ok(());
        }
        let (transport, context) = self.pipeline.parts();
        let must_register = context.parts()?.0.must_register(Role::Reader, page);
        if let Some(words) = reach(transport, context.layout.page(page)).filter(|_| !must_register)
        {
            // What was stored before this rank was told of it is loaded.
            fence(Acquire);
            context.take_page(page, |into| {
                load_bytes(words, cast_slice_mut(into));
                Ok(())
            })?;
            return self.notice_losses(|stats| stats.fetches);
        }
        while !self.pipeline.has_room() {
            self.progress()?;
        }
        let (parts, layout, ..) = self.pipeline.shared_mut().parts()?;
        if let Some(frame) = parts.frames.get_mut(layout.frame(page)) {
            *frame = Frame::fetching(page);
        }
        self.submit(Fetch::start(page))
    }

    fn wait_for(&mut self, page: u32) -> Result<(), Error> {
        if !self.frame(page)?.is_fetching() {
            return Ok(());
        }
        self.pipeline.shared_mut().stats.waits += 1;
        while self.frame(page)?.is_fetching() {
            self.progress()?;
        }
        Ok(())
    }

    /// Returns whether a view of the range finds all its pages in the mirror, as of the last completions that were taken:
    /// a later [`prefetch`](Self::prefetch) or [`poll`](Self::poll) takes those of READs in flight. False beyond the last
    /// element, and if the region has failed. It stays false while unsent changes are in frames that the range needs, and
    /// for a range that the mirror cannot hold at once: a view sends the changes, and refuses the range.
    ///
    /// ```
    /// # use probeline_dsm::{Config, Operation, Region};
    /// # let config = Config::new(10_000);
    /// # let engine = probeline_shm::Builder::new(config.sizes::<u64>(1, 4)).open(&mut probeline_transport::Alone)?;
    /// # let memory = vec![0; config.memory_words::<u64>(1)];
    /// # let job = &mut probeline_transport::Alone;
    /// # let mut region = Region::<u64, _, _, _>::open(engine, config, [Operation::EMPTY; 4], memory, job)?;
    /// for _ in 0..100 {
    ///     region.prefetch(0..5_000)?; // and the loop's other work
    ///     if region.has(0..5_000) {
    ///         break;
    ///     }
    /// }
    /// let elements = region.view(0..5_000)?; // waits for nothing if the region has them
    /// # assert_eq!(elements, [0; 5_000]);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn has(&mut self, range: Range<usize>) -> bool {
        let Ok(bytes) = self.bytes(&range) else { return false };
        let context = self.pipeline.shared_mut();
        let has_failed = context.failed.is_some();
        let Ok((parts, layout, ..)) = context.parts() else { return false };
        let has = |page| parts.frames.get(layout.frame(page)).is_some_and(|frame| frame.has(page));
        let has_all = !has_failed && layout.pages(&bytes).all(has);
        has_all && !self.is_turned(&bytes)
    }

    /// Starts the READs of pages that a later access needs, as many as there are free operations and free or
    /// unchanged frames. Does not wait: [`has`](Self::has) says whether the pages are here.
    ///
    /// # Errors
    /// As for [`access`](Self::access).
    pub fn prefetch(&mut self, range: Range<usize>) -> Result<(), Error> {
        self.check_idle()?;
        let bytes = self.bytes(&range)?;
        let layout = self.pipeline.shared().layout;
        // Later pages would displace the first ones.
        for page in layout.pages(&bytes).take(layout.frames as usize) {
            if !self.pipeline.has_room() {
                break;
            }
            let frame = self.frame(page)?;
            if !frame.is_fetching() && frame.edit().is_none() {
                self.fetch(page)?;
            }
        }
        self.progress()
    }
}

/// Returns the region's bytes of a range of its elements.
#[inline]
pub(crate) fn bytes_of<T>(range: &Range<usize>) -> Range<usize> {
    range.start * size_of::<T>()..range.end * size_of::<T>()
}

/// Notes which bytes of their pages will be edited, unless a comparison will find them.
#[inline]
fn note_edit(
    parts: &mut Parts<'_>,
    layout: &Layout,
    bytes: &Range<usize>,
    usage: Usage,
) -> Result<(), Error> {
    if layout.compares && usage == Usage::Edit {
        return Ok(());
    }
    for page in layout.pages(bytes) {
        let part = layout.part_of_page(bytes, page);
        let frame = parts.frames.get_mut(layout.frame(page)).ok_or(Error::Window)?;
        let is_whole = part.len() == layout.page_bytes();
        #[cfg(test)]
        let is_whole = is_whole || crate::model::is(crate::model::Mutant::KeepsOverwritten);
        if usage == Usage::Overwrite && is_whole {
            frame.set_overwritten();
        }
        let nth = frame.edit().ok_or(Error::Window)?;
        let (mut edit, words) = parts.edit(layout, nth)?;
        edit.note(part, words);
    }
    Ok(())
}
