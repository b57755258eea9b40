//! Reading a page, and sending its changes.

use probeline_pipeline::{Error, Next, Port, Step};
use probeline_transport::{PostError, Transport};

use super::{Outcome, Transfer, slot_words};
use crate::config::part_of;
use crate::context::Context;
use crate::directory::{Role, TOLD_HEAD, TOLD_PAGES, holders};
use crate::edit::Change;
use crate::memory::copy;

/// The post id of the atomic by which a rank registers in the directory.
pub(super) const REGISTER: u8 = 1;

/// Reads a page, and registers as a reader of it beside that if there is a directory.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub struct Fetch {
    page: u32,
    posted: u32,
    pub(super) in_flight: u32,
    /// The acquires of this rank before the READ.
    acquires: u64,
}

impl Fetch {
    pub(crate) fn start(page: u32) -> Transfer {
        Transfer::Fetch(Self { page, ..Self::default() })
    }

    /// Takes what the directory's entry was before this rank has registered. If the rank has acquired a lock since it has
    /// begun the READ, this may have come before the changes of a writer that could not know of it.
    pub(super) fn registered<M: AsMut<[u64]>>(
        &mut self,
        word: u64,
        shared: &mut Context<M>,
    ) -> Result<(), Error> {
        let me = shared.me;
        let (mut parts, layout, _, stats) = shared.parts()?;
        let mut known = parts.known().ok_or(Error::Window)?;
        let is_written = known.register(Role::Reader, self.page, word, me);
        #[cfg(test)]
        let is_written = is_written && !crate::model::is(crate::model::Mutant::TrustsPrefetched);
        if is_written && stats.acquires != self.acquires {
            parts.drop_copies(layout, self.page, 1);
        }
        Ok(())
    }

    pub(super) fn advance<M: AsMut<[u64]>>(
        &mut self,
        shared: &mut Context<M>,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<Outcome> {
        if self.posted == 0 {
            let from = shared.layout.page(self.page).ok_or(PostError::OutOfRange)?;
            port.read(0, from, slot_words(port, 0, from.words))?;
            (self.posted, self.in_flight, self.acquires) = (1, 1, shared.stats.acquires);
        }
        if self.posted == 1 && shared.parts()?.0.must_register(Role::Reader, self.page) {
            let at = shared.layout.entry(self.page).ok_or(PostError::OutOfRange)?;
            port.fetch_add(REGISTER, at, Role::Reader.addend(shared.me))?;
            (self.posted, self.in_flight) = (2, self.in_flight + 1);
        }
        self.posted = 2;
        if self.in_flight > 0 {
            return Ok(Step::Wait);
        }
        let from = port.landed(slot_words(port, 0, shared.layout.page_words))?;
        shared.take_page(self.page, |into| copy(from, into))?;
        Ok(Step::Done(Outcome::Fetched))
    }
}

/// Sends the changes of an edited page: all its WRITEs and fetch-and-adds together.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub struct Send {
    edit: u32,
    /// The first word not sent.
    next: u32,
    pub(super) in_flight: u32,
    /// Whether there are changes: then the slot has the page from the first to the last one, unless the page is at its
    /// home.
    has_changes: bool,
    /// Whether the rank registers in the directory by this.
    registers: bool,
    /// The first rank to tell of it, and their number.
    told: (u32, u32),
    /// The atomics that tell them: one for each, and when these have arrived, which who is told may read at once,
    /// another one for each.
    tells: u32,
}

impl Send {
    pub(crate) fn start(edit: u32) -> Transfer {
        Transfer::Send(Self { edit, ..Self::default() })
    }

    #[allow(clippy::cast_possible_truncation, reason = "words of a page")]
    pub(super) fn advance<M: AsMut<[u64]>>(
        &mut self,
        shared: &mut Context<M>,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<Outcome> {
        let me = shared.me;
        let (mut parts, layout, log, stats) = shared.parts()?;
        let page = parts.edited_page(layout, self.edit)?;
        let must_register = !self.registers && parts.must_register(Role::Writer, page);
        let is_home = parts.is_at_home(layout, page);
        let (edit, mine) = parts.edit(layout, self.edit)?;
        let home = layout.page(page).ok_or(PostError::OutOfRange)?;
        if is_home {
            (self.next, self.has_changes) = (home.words, edit.end() > 0);
        }
        while let Some(change) = edit.next_change(mine, self.next as usize) {
            let words = change.words();
            if !self.has_changes {
                // No word can be staged while one before it is in flight.
                let all = words.start..edit.end().max(words.end);
                let slot = slot_words(port, all.start as u32, all.len() as u32);
                copy(mine.get(all).unwrap_or_default(), port.staged(slot)?)?;
                self.has_changes = true;
            }
            let to = part_of(home, words.start as u32, words.len() as u32);
            match change {
                Change::Words(_) => {
                    port.write(0, slot_words(port, words.start as u32, to.words), to)?;
                }
                Change::Part(_, addend) => port.fetch_add(0, to.start, addend)?,
            }
            stats.count(&change);
            self.next = words.end as u32;
            self.in_flight += 1;
        }
        self.next = home.words;
        if self.has_changes && must_register {
            let at = layout.entry(page).ok_or(PostError::OutOfRange)?;
            port.fetch_add(REGISTER, at, Role::Writer.addend(me))?;
            (self.registers, self.in_flight) = (true, self.in_flight + 1);
        }
        let (first, ranks) = self.told;
        while self.tells < 2 * ranks {
            let is_count = self.tells >= ranks;
            let arrives = self.tells == ranks && self.in_flight > 0;
            #[cfg(test)]
            let arrives = arrives && !crate::model::is(crate::model::Mutant::CountsEarly);
            if arrives {
                return Ok(Step::Wait);
            }
            let rank = first + if is_count { self.tells - ranks } else { self.tells };
            if rank != me.0 {
                let told = layout.told(rank).ok_or(PostError::OutOfRange)?;
                let byte = part_of(told, TOLD_HEAD + page / TOLD_PAGES, 1).start;
                let (at, addend) =
                    if is_count { (told.start, 1) } else { (byte, 1 << (8 * (page % TOLD_PAGES))) };
                port.fetch_add(0, at, addend)?;
                self.in_flight += 1;
            }
            self.tells += 1;
        }
        if self.in_flight > 0 {
            return Ok(Step::Wait);
        }
        if self.has_changes {
            stats.diffs += u64::from(!is_home);
            parts.note_changed(log, stats, page);
        }
        Ok(Step::Done(Outcome::Sent))
    }

    /// Takes what the directory's entry was before this rank has registered.
    pub(super) fn registered<M: AsMut<[u64]>>(
        &mut self,
        word: u64,
        shared: &mut Context<M>,
    ) -> Result<(), Error> {
        let (me, owners) = (shared.me, shared.layout.owners);
        let (mut parts, layout, ..) = shared.parts()?;
        let page = parts.edited_page(layout, self.edit)?;
        let mut known = parts.known().ok_or(Error::Window)?;
        let (first, end) = holders(word, known.is(Role::Reader, page).then_some(me), owners);
        known.register(Role::Writer, page, word, me);
        #[cfg(test)]
        if crate::model::tells_nobody(word) {
            return Ok(());
        }
        self.told = (first, end - first);
        Ok(())
    }
}
