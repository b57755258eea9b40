//! The state that all operations of a region share: memory, log of notices, the call in progress.

use core::hash::{Hash, Hasher};
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use core::sync::atomic::fence;

use bytemuck::{cast_slice, cast_slice_mut, try_from_bytes_mut};
use probeline_pipeline::{CollectiveError, Error, counters};
use probeline_transport::{Owner, Transport, store_bytes};

use crate::config::{HEAD_WORDS, Layout, reach};
use crate::directory::Role;
use crate::edit::Change;
use crate::lock::State;
use crate::memory::{Frame, Parts, copy};
use crate::notices::{Log, NOTICE_WORDS, Notice, ring_index};

counters! {
    /// Counters of a rank's region.
    pub struct Stats {
        /// Pages read from their homes.
        pub fetches,
        /// Changed pages sent to their homes: the diffs of the literature.
        pub diffs,
        /// WRITEs of changed words.
        pub writes,
        /// Changed words that were written.
        pub written_words,
        /// Words changed by a fetch-and-add, because other ranks may change the rest of the word.
        pub adds,
        /// Locks acquired.
        pub acquires,
        /// READs of a lock's word while another rank held it.
        pub lock_reads,
        /// Times that the changes of all edited pages were sent: the intervals of the literature, and edits of
        /// more pages than [`Config::edited_pages`](crate::Config::edited_pages).
        pub flushes,
        /// Barriers passed.
        pub barriers,
        /// Notices received. If a barrier sends them as bits, each page is one.
        pub notices,
        /// Times that this rank had more notices than [`Config::notices`](crate::Config::notices), or missed some of a
        /// lock's: then others drop all copies at the next lock, or this rank does. At a barrier they do so only if
        /// the region has more than 64 pages for each of the notices.
        pub overflows,
        /// Times that a call waited: for a page, or for the operations of a flush, a lock or a release.
        pub waits,
    }
}

impl Stats {
    /// Counts a change that is sent.
    #[inline(always)]
    pub(crate) fn count(&mut self, change: &Change) {
        match change {
            Change::Words(words) => {
                self.writes += 1;
                self.written_words += words.len() as u64;
            }
            Change::Part(..) => self.adds += 1,
        }
    }
}

/// The call of a region that is in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Task {
    None,
    /// The operation starts when one is free.
    Acquire {
        lock: u32,
    },
    Release {
        lock: u32,
    },
    /// The operation was started.
    Started,
    /// The changes of the first `next` edited pages were submitted, and `left` of them have not arrived. Then a lock
    /// may be released.
    Flush {
        next: u32,
        left: u32,
        release: Option<u32>,
    },
}

/// The state that all operations of a rank's region share.
#[derive(Clone, Debug)]
pub struct Context<M> {
    pub(crate) memory: M,
    pub(crate) layout: Layout,
    pub(crate) me: Owner,
    pub(crate) max_lock_reads: u32,
    pub(crate) log: Log,
    /// Pages that are edited.
    pub(crate) edited: u32,
    pub(crate) task: Task,
    /// The error of an operation: it is unknown what has arrived, so the region is closed.
    pub(crate) failed: Option<Error>,
    /// The number of the job's collective call that has opened the region, which tells regions apart.
    pub(crate) opened: u64,
    pub(crate) stats: Stats,
}

/// Leaves out the counters of operations, except for that of barriers: a scenario has fewer fetches and flushes than
/// `PER_POLL`.
impl<M: Hash> Hash for Context<M> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { memory, layout, me, max_lock_reads, log, edited, task, failed, opened, stats } =
            self;
        (memory, layout, me, max_lock_reads, log, edited, task).hash(state);
        (failed.is_some(), opened, stats.barriers).hash(state);
    }
}

impl<M: AsMut<[u64]>> Context<M> {
    pub(crate) fn new(memory: M, layout: Layout, me: Owner, max_lock_reads: u32) -> Self {
        let log = Log::new(me, layout.page_count);
        Self {
            memory,
            layout,
            me,
            max_lock_reads,
            log,
            edited: 0,
            task: Task::None,
            failed: None,
            opened: 0,
            stats: Stats::default(),
        }
    }

    /// Notes that the mirror has the pages whose home this rank is at their homes.
    pub(crate) fn keep_homes(&mut self) -> Result<(), Error> {
        let me = self.me;
        let (parts, layout, ..) = self.parts()?;
        for (page, frame) in (0..).zip(parts.frames) {
            if layout.page(page).is_some_and(|home| home.start.owner == me) {
                *frame = Frame::home(page);
            }
        }
        Ok(())
    }

    /// Returns the parts of the memory, the log and the counters.
    #[inline(always)]
    pub(crate) fn parts(&mut self) -> Result<(Parts<'_>, &Layout, &mut Log, &mut Stats), Error> {
        let Self { memory, layout, log, stats, .. } = self;
        Ok((Parts::new(memory.as_mut(), layout)?, layout, log, stats))
    }

    /// Brings a page to the mirror.
    pub(crate) fn take_page(
        &mut self,
        page: u32,
        load: impl FnOnce(&mut [u64]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (mut parts, layout, _, stats) = self.parts()?;
        let index = layout.frame(page);
        load(parts.frame_words(layout, index))?;
        let frame = parts.frames.get_mut(index).ok_or(Error::Window)?;
        if !frame.is_fetching() {
            *frame = Frame::fetching(page);
        }
        frame.end_fetch();
        stats.fetches += 1;
        Ok(())
    }

    /// Finds the changes of edited pages, if they are found by comparison.
    pub(crate) fn compare_edits(&mut self) -> Result<(), Error> {
        let edited = self.edited;
        if !self.layout.compares || edited == 0 {
            return Ok(());
        }
        let (mut parts, layout, ..) = self.parts()?;
        for nth in 0..edited {
            let (mut edit, page) = parts.edit(layout, nth)?;
            edit.compare(page);
        }
        Ok(())
    }

    /// Stores the changes of edited pages from number `first` on to their homes, up to one that the CPU does not
    /// address. Returns the number of the first one that it has not stored.
    pub(crate) fn send_direct(
        &mut self,
        transport: &impl Transport,
        first: u32,
    ) -> Result<u32, Error> {
        let edited = self.edited;
        let (mut parts, layout, log, stats) = self.parts()?;
        for nth in first..edited {
            let page = parts.edited_page(layout, nth)?;
            // With its changes a writer registers.
            if parts.must_register(Role::Writer, page) {
                return Ok(nth);
            }
            let is_home = parts.is_at_home(layout, page);
            let (edit, mine) = parts.edit(layout, nth)?;
            if is_home {
                let end = edit.end();
                #[cfg(test)]
                let end = if crate::model::is(crate::model::Mutant::HidesStores) { 0 } else { end };
                if end > 0 {
                    parts.note_changed(log, stats, page);
                }
                continue;
            }
            let Some(home) = reach(transport, layout.page(page)) else { return Ok(nth) };
            let mut next = 0;
            while let Some(change) = edit.next_change(mine, next) {
                next = change.words().end;
                stats.count(&change);
                match change {
                    Change::Words(words) => {
                        let from = cast_slice(mine.get(words.clone()).unwrap_or_default());
                        store_bytes(from, home.get(words).unwrap_or_default());
                    }
                    Change::Part(at, addend) => {
                        home.get(at).ok_or(Error::Window)?.fetch_add(addend, SeqCst);
                    }
                }
            }
            #[cfg(test)]
            let next = if crate::model::is(crate::model::Mutant::HidesStores) { 0 } else { next };
            if next > 0 {
                stats.diffs += 1;
                parts.note_changed(log, stats, page);
            }
        }
        Ok(edited)
    }

    /// Takes what the list of a lock says, which this rank holds from now on.
    pub(crate) fn take_list(&mut self, lock: u32, list: &[u64]) -> Result<(), Error> {
        let barriers = self.stats.barriers;
        see_homes();
        let (mut parts, layout, log, stats) = self.parts()?;
        let (head, notices) = list.split_at_checked(HEAD_WORDS as usize).ok_or(Error::Window)?;
        let notices = bytemuck::try_cast_slice::<_, Notice>(notices).unwrap_or_default();
        // A list from before the last barrier says nothing new.
        let total = match head {
            [epoch, total] if *epoch == barriers => *total,
            _ => 0,
        };
        let read = parts.locks.get(lock as usize).ok_or(Error::Window)?.read;
        let (log_start, log_end) = (log.start(), log.end());
        let missed = total.saturating_sub(read);
        if missed > notices.len() as u64 {
            let pages = layout.page_count;
            #[cfg(test)]
            let pages = if crate::model::is(crate::model::Mutant::KeepsCopies) { 0 } else { pages };
            parts.drop_copies(layout, 0, pages);
            log.forget(parts.log);
        }
        let first = total - missed.min(notices.len() as u64);
        let new = || (first..total).filter_map(|nth| notices.get(ring_index(nth, notices.len())));
        #[cfg(test)]
        let new = || new().filter(|_| !crate::model::is(crate::model::Mutant::SkipsNotices));
        for notice in new() {
            let seen = parts.seen.get(notice.writer()).copied().unwrap_or(u64::MAX);
            if log.is_own(*notice) || notice.interval() <= seen {
                continue;
            }
            stats.notices += 1;
            parts.drop_copies(layout, notice.first, notice.count);
            log.push(parts.log, *notice);
        }
        // An interval has several notices, all of which were in the list.
        for notice in new() {
            if let Some(seen) = parts.seen.get_mut(notice.writer()) {
                *seen = notice.interval().max(*seen);
            }
        }
        let from = if log.start() == log_start { log_end } else { log.end() };
        let state = parts.locks.get_mut(lock as usize).ok_or(Error::Window)?;
        state.receive(total, from, log.end());
        stats.acquires += 1;
        stats.overflows = log.overflows();
        Ok(())
    }

    /// Notes that this rank holds a lock, by which it has nothing new.
    pub(crate) fn take_lock(&mut self, lock: u32) -> Result<(), Error> {
        see_homes();
        if self.layout.has_directory {
            let (mut parts, layout, ..) = self.parts()?;
            parts.drop_written(layout);
        }
        let end = self.log.end();
        let state = self.lock_state(lock)?;
        state.receive(state.read, end, end);
        self.stats.acquires += 1;
        Ok(())
    }

    /// Returns whether a lock's list has all notices of this rank's log. With a directory the lists stay empty.
    pub(crate) fn has_published(&mut self, lock: u32) -> Result<bool, Error> {
        let (end, has_directory) = (self.log.end(), self.layout.has_directory);
        Ok(self.lock_state(lock)?.published == end || has_directory)
    }

    /// Writes to `list` what the list of a lock lacks, and ends this rank's interval. Returns the number of
    /// the first new notice and of the one behind the last.
    pub(crate) fn fill_list(&mut self, lock: u32, list: &mut [u64]) -> Result<(u64, u64), Error> {
        let barriers = self.stats.barriers;
        let (parts, _, log, _) = self.parts()?;
        let (head, notices) =
            list.split_at_mut_checked(HEAD_WORDS as usize).ok_or(Error::Window)?;
        let notices = bytemuck::try_cast_slice_mut::<_, Notice>(notices).unwrap_or_default();
        let state = parts.locks.get_mut(lock as usize).ok_or(Error::Window)?;
        let first = state.read;
        for (number, notice) in log.since(parts.log, state.published) {
            #[cfg(test)]
            if crate::model::hides(log.is_own(notice)) {
                continue;
            }
            if state.lacks(number) {
                let to = ring_index(state.read, notices.len());
                *notices.get_mut(to).ok_or(Error::Window)? = notice;
                state.read += 1;
            }
        }
        state.published = log.end();
        log.close_interval();
        copy(&[barriers, state.read], head)?;
        Ok((first, state.read))
    }

    /// Notes that the changes of all edited pages have arrived. Returns whether any page had changes.
    pub(crate) fn end_edits(&mut self) -> Result<bool, Error> {
        let edited = core::mem::take(&mut self.edited);
        if edited == 0 {
            return Ok(false);
        }
        let (mut parts, layout, _, stats) = self.parts()?;
        let mut has_edits = false;
        for nth in 0..edited {
            let edit = parts.edit(layout, nth)?.0;
            has_edits = has_edits || edit.end() > 0;
            let page = edit.page;
            if let Some(frame) = parts.frames.get_mut(layout.frame(page)) {
                frame.end_edit();
            }
        }
        stats.flushes += u64::from(has_edits);
        Ok(has_edits)
    }

    /// Returns this rank's state of a lock.
    ///
    /// # Errors
    /// [`Error::UnknownLock`] beyond the last lock.
    #[inline]
    pub(crate) fn lock_state(&mut self, lock: u32) -> Result<&mut State, Error> {
        let missing = Error::UnknownLock { lock, locks: self.layout.lock_count() };
        let words = self.layout.lock_words(lock).ok_or(missing)?;
        let state = self.memory.as_mut().get_mut(words).map(cast_slice_mut);
        state.and_then(|words| try_from_bytes_mut(words).ok()).ok_or(Error::Window)
    }

    /// Writes this rank's message of a barrier, before those of all ranks: the region, the numbers of the barrier and
    /// of notices, and the pages of each. A rank that has failed says so.
    pub(crate) fn fill_message(&mut self, has_failed: bool) -> Result<(), Error> {
        let (opened, barriers) = (self.opened, self.stats.barriers);
        let (parts, layout, log, _) = self.parts()?;
        let message = parts.messages.get_mut(..layout.message_words()).ok_or(Error::Window)?;
        let (head, pages) = message.split_at_mut_checked(MESSAGE_HEAD).ok_or(Error::Window)?;
        let mut count = 0;
        // A bit for each page where there is room, of which none is lost, or else runs of pages.
        let bits = pages.get_mut(..layout.bitmap_words());
        #[cfg(test)]
        let bits = bits.filter(|_| !crate::model::lists_runs());
        if let Some(bits) = bits {
            copy(parts.changed, bits)?;
            #[cfg(test)]
            if crate::model::is(crate::model::Mutant::SendsNoPages) {
                bits.fill(0);
            }
            count = BITMAP;
        } else {
            let own = log.since(parts.log, 0).filter(|(_, notice)| log.is_own(*notice));
            #[cfg(test)]
            let own = own.filter(|_| !crate::model::is(crate::model::Mutant::SendsNoPages));
            for ((_, notice), to) in own.zip(pages) {
                *to = u64::from(notice.first) << 32 | u64::from(notice.count);
                count += 1;
            }
        }
        parts.changed.fill(0);
        copy(&[opened, if has_failed { FAILED } else { barriers << 32 | count }], head)
    }

    /// Takes the messages of all others, after which this rank knows everything that was changed.
    ///
    /// # Errors
    /// [`CollectiveError::PartFailed`] of the first owner that has failed, [`CollectiveError::OtherBarrier`], or
    /// [`Error::Window`].
    pub(crate) fn take_messages(&mut self) -> Result<(), CollectiveError> {
        see_homes();
        let (me, opened, barriers) = (self.me, self.opened, self.stats.barriers);
        let (mut parts, layout, log, stats) = self.parts()?;
        let messages = core::mem::take(&mut parts.messages);
        let all = messages.chunks_exact(layout.message_words()).skip(1);
        for (owner, message) in (0..).map(Owner).zip(all) {
            let [region, head, pages @ ..] = message else { return Err(Error::Window.into()) };
            let is_here = *region == opened && *head >> 32 == barriers & u64::from(u32::MAX);
            if *head == FAILED {
                return Err(CollectiveError::PartFailed { owner });
            }
            if !is_here {
                return Err(CollectiveError::OtherBarrier { owner });
            }
            let count = if owner == me { 0 } else { *head & u64::from(u32::MAX) };
            if count == BITMAP {
                let words = pages.iter().take(layout.bitmap_words());
                for (first, word) in (0..).step_by(u64::BITS as usize).zip(words) {
                    let changed = (0..u64::BITS).filter(|bit| word >> bit & 1 != 0);
                    changed.for_each(|bit| parts.drop_copies(layout, first + bit, 1));
                    stats.notices += u64::from(word.count_ones());
                }
                continue;
            }
            for run in pages.iter().take(usize::try_from(count).unwrap_or(usize::MAX)) {
                #[allow(clippy::cast_possible_truncation, reason = "the halves")]
                parts.drop_copies(layout, (run >> 32) as u32, *run as u32);
                stats.notices += 1;
            }
        }
        log.clear();
        parts.seen.fill(0);
        let locks = parts.locks.iter_mut();
        #[cfg(test)]
        let locks = locks.filter(|_| !crate::model::is(crate::model::Mutant::KeepsLists));
        locks.for_each(crate::lock::State::forget_notices);
        stats.barriers += 1;
        Ok(())
    }
}

/// Lets later loads from homes in the mirror see what others have stored before they told this rank.
fn see_homes() {
    fence(Acquire);
}

/// Words of a barrier's message before its pages.
pub(crate) const MESSAGE_HEAD: usize = 2;
/// The number of notices of a message that has a bit for each page instead.
const BITMAP: u64 = u32::MAX as u64 - 1;
/// The second word of the message of a rank that has failed.
const FAILED: u64 = u64::MAX;

/// Returns the words of a list that hold the notices from number `first` to `end`: at most two ranges, from
/// the list's first word.
pub(crate) fn pieces(layout: &Layout, first: u64, end: u64) -> [(u32, u32); 2] {
    let capacity = u64::from(layout.notices);
    let start = first.checked_rem(capacity).unwrap_or_default();
    let until_wrap = (capacity - start).min(end - first);
    // At most the words of a list.
    #[allow(clippy::cast_possible_truncation)]
    let words = |count: u64| count as u32 * NOTICE_WORDS;
    let behind_head = |start: u64, count| (HEAD_WORDS + words(start), words(count));
    [behind_head(start, until_wrap), behind_head(0, end - first - until_wrap)]
}
