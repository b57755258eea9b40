//! The machine of a region's operations: fetch a page, send its changes, acquire a lock, pass it on.

use probeline_pipeline::{Completed, Error, Machine, Next, Port, Run, Step, Stop};
use probeline_transport::{PostError, Segment, SlotRange, Transport};

use crate::config::{HEAD_WORDS, part_of};
use crate::context::{Context, pieces};
use crate::directory::{Role, TOLD_HEAD, TOLD_PAGES, holders};
use crate::edit::Change;
use crate::lock::{Hold, TAKE, Tickets};
use crate::memory::copy;

/// An operation of a region.
#[derive(Clone, Copy, Debug, Hash)]
pub enum Transfer {
    /// It has ended, or was not started.
    Idle,
    /// Read a page.
    Fetch(Fetch),
    /// Send the changes of an edited page to its home.
    Send(Send),
    /// Acquire a lock.
    Acquire(Acquire),
    /// Tell the next holder of a lock what has changed, and pass the lock on.
    Publish(Publish),
}

/// The outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The page is in the mirror.
    Fetched,
    /// The changes have arrived.
    Sent,
    /// The lock is held.
    Acquired,
    /// Another rank holds the lock.
    Waiting,
    /// The lock was passed on.
    Released,
}

impl Machine for Transfer {
    type Outcome = Outcome;
    const IDLE: Self = Self::Idle;
    const SLOTS: u32 = 1;
}

impl<M: AsMut<[u64]>> Run<Context<M>> for Transfer {
    #[inline]
    fn advance(
        &mut self,
        shared: &mut Context<M>,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<Outcome> {
        match self {
            Self::Idle => Err(Error::Idle.into()),
            Self::Fetch(fetch) => fetch.advance(shared, port),
            Self::Send(send) => send.advance(shared, port),
            Self::Acquire(acquire) => acquire.advance(shared, port),
            Self::Publish(publish) => publish.advance(shared, port),
        }
    }

    #[inline]
    fn on_completion(
        &mut self,
        completed: Completed,
        shared: &mut Context<M>,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<Outcome> {
        match self {
            Self::Idle => Err(Error::Idle.into()),
            Self::Fetch(fetch) => {
                fetch.in_flight -= 1;
                if completed.part == REGISTER {
                    fetch.registered(completed.word, shared)?;
                }
                fetch.advance(shared, port)
            }
            Self::Send(send) => {
                send.in_flight -= 1;
                if completed.part == REGISTER {
                    send.registered(completed.word, shared)?;
                }
                send.advance(shared, port)
            }
            Self::Acquire(acquire) => acquire.on_completion(completed.word, shared, port),
            Self::Publish(publish) => {
                publish.in_flight -= 1;
                publish.advance(shared, port)
            }
        }
    }
}

/// Returns words of the operation's slot.
fn slot_words(port: &Port<'_, impl Transport>, start: u32, words: u32) -> SlotRange {
    SlotRange { slot: port.slot(0), start, words }
}

/// The part of the atomic by which a rank registers in the directory.
const REGISTER: u8 = 1;

/// Reads a page, and registers as a reader of it beside that if there is a directory.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub struct Fetch {
    page: u32,
    posted: u32,
    in_flight: u32,
    /// The acquires of this rank before the READ.
    acquires: u64,
}

impl Fetch {
    pub(crate) fn start(page: u32) -> Transfer {
        Transfer::Fetch(Self { page, ..Self::default() })
    }

    /// Takes what the directory's entry was before this rank has registered. If the rank has acquired a lock since it has
    /// begun the READ, this may have come before the changes of a writer that could not know of it.
    fn registered<M: AsMut<[u64]>>(
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

    fn advance<M: AsMut<[u64]>>(
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
    in_flight: u32,
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
    fn advance<M: AsMut<[u64]>>(
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
    fn registered<M: AsMut<[u64]>>(
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

/// The next step of an [`Acquire`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Lock {
    Take,
    Poll,
    /// Where READs may tear a word, an atomic confirms what one has shown.
    Confirm,
    Read,
    /// How often this rank was told of pages that others have written.
    Told,
    /// Which pages they are, from this word of their bytes on.
    Bytes(u32),
}

/// Acquires a lock.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Acquire {
    lock: u32,
    lock_reads: u32,
    step: Lock,
}

impl Acquire {
    /// Takes a ticket, or goes on to wait with the one that the rank has.
    pub(crate) fn start(lock: u32, hold: Hold) -> Transfer {
        let step = if hold == Hold::None { Lock::Take } else { Lock::Poll };
        Transfer::Acquire(Self { lock, lock_reads: 0, step })
    }

    /// Continues an acquire from `word`, the lock's word before this rank's fetch-and-add. Returns `None` if this rank
    /// now holds the lock.
    pub(crate) fn with_ticket<M: AsMut<[u64]>>(
        lock: u32,
        word: u64,
        shared: &mut Context<M>,
    ) -> Result<Option<Transfer>, Error> {
        let mut acquire = Self { lock, lock_reads: 0, step: Lock::Take };
        Ok(acquire.next_step(word, shared)?.then_some(Transfer::Acquire(acquire)))
    }

    /// Chooses the next step from the lock's word. Returns false if the acquire is complete: this rank holds the lock,
    /// and no notices are unread.
    fn next_step<M: AsMut<[u64]>>(
        &mut self,
        word: u64,
        shared: &mut Context<M>,
    ) -> Result<bool, Error> {
        let has_directory = shared.layout.has_directory;
        let (tickets, state) = (Tickets::from_word(word), shared.lock_state(self.lock)?);
        if self.step == Lock::Take {
            state.ticket = tickets.next;
            state.set_hold(Hold::Waits);
        }
        if tickets.serving != state.ticket {
            self.step = Lock::Poll;
        } else if has_directory {
            self.step = Lock::Told;
        } else {
            let has_news = core::mem::replace(&mut state.stamp, tickets.stamp) != tickets.stamp;
            #[cfg(test)]
            let has_news = has_news && !crate::model::is(crate::model::Mutant::IgnoresStamps);
            if !has_news {
                shared.take_lock(self.lock)?;
                return Ok(false);
            }
            self.step = Lock::Read;
        }
        Ok(true)
    }

    fn advance<M: AsMut<[u64]>>(
        &mut self,
        shared: &mut Context<M>,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<Outcome> {
        let layout = &shared.layout;
        let tickets = layout.tickets(self.lock).ok_or(PostError::OutOfRange)?;
        match self.step {
            Lock::Take => port.fetch_add(0, tickets.start, TAKE)?,
            Lock::Confirm => port.fetch_add(0, tickets.start, 0)?,
            Lock::Poll => port.read(0, tickets, slot_words(port, 0, tickets.words))?,
            Lock::Told => {
                let told = layout.told(shared.me.0).ok_or(PostError::OutOfRange)?;
                port.fetch_add(0, told.start, 0)?;
            }
            Lock::Bytes(start) => {
                let from = self.bytes(shared, start)?;
                port.read(0, from, slot_words(port, 0, from.words))?;
            }
            Lock::Read => {
                let words = layout.list_words;
                let from = layout.list(self.lock, 0, words).ok_or(PostError::OutOfRange)?;
                port.read(0, from, slot_words(port, 0, words))?;
            }
        }
        Ok(Step::Wait)
    }

    fn on_completion<M: AsMut<[u64]>>(
        &mut self,
        word: u64,
        shared: &mut Context<M>,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<Outcome> {
        match self.step {
            Lock::Read => {
                let list = port.landed(slot_words(port, 0, shared.layout.list_words))?;
                shared.take_list(self.lock, list)?;
                return Ok(Step::Done(Outcome::Acquired));
            }
            Lock::Told | Lock::Bytes(_) => return self.take_told(word, shared, port),
            Lock::Take | Lock::Poll | Lock::Confirm => {}
        }
        let word = match self.step {
            Lock::Poll => *port.landed(slot_words(port, 0, 1))?.first().ok_or(Error::Window)?,
            _ => word,
        };
        let is_whole = self.step != Lock::Poll || port.caps().word_reads_whole;
        let ticket = shared.lock_state(self.lock)?.ticket;
        if !is_whole && Tickets::from_word(word).serving == ticket {
            self.step = Lock::Confirm;
            return self.advance(shared, port);
        }
        if !self.next_step(word, shared)? {
            return Ok(Step::Done(Outcome::Acquired));
        }
        if self.step == Lock::Poll {
            if self.lock_reads >= shared.max_lock_reads {
                return Ok(Step::Done(Outcome::Waiting));
            }
            self.lock_reads += 1;
            shared.stats.lock_reads += 1;
        }
        self.advance(shared, port)
    }

    /// Returns the words of a slot from word `start` of this rank's bytes on.
    fn bytes<M>(&self, shared: &Context<M>, start: u32) -> Result<Segment, PostError> {
        let told = shared.layout.told(shared.me.0).ok_or(PostError::OutOfRange)?;
        let left = told.words.saturating_sub(TOLD_HEAD + start);
        Ok(part_of(told, TOLD_HEAD + start, left.min(shared.layout.slot_words())))
    }

    /// Takes how often this rank was told of pages, or some of their bytes. The bytes may have more than the number
    /// says, which came first.
    fn take_told<M: AsMut<[u64]>>(
        &mut self,
        word: u64,
        shared: &mut Context<M>,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<Outcome> {
        let next = match self.step {
            Lock::Bytes(start) => {
                let words = self.bytes(shared, start)?.words;
                let bytes = port.landed(slot_words(port, 0, words))?;
                let (mut parts, ..) = shared.parts()?;
                let mut known = parts.known().ok_or(Error::Window)?;
                for (first, word) in (start * TOLD_PAGES..).step_by(TOLD_PAGES as usize).zip(bytes)
                {
                    let is_told = |page: &u32| word >> (8 * page) & 0xFF != 0;
                    (0..TOLD_PAGES)
                        .filter(is_told)
                        .for_each(|page| known.set_written(first + page));
                }
                start + words
            }
            _ => {
                let (mut parts, ..) = shared.parts()?;
                let known = parts.known().ok_or(Error::Window)?;
                if core::mem::replace(known.told, word) == word { u32::MAX } else { 0 }
            }
        };
        if next < shared.layout.page_count.div_ceil(TOLD_PAGES) {
            self.step = Lock::Bytes(next);
            return self.advance(shared, port);
        }
        shared.take_lock(self.lock)?;
        Ok(Step::Done(Outcome::Acquired))
    }
}

/// Writes what the list of a lock lacks, then passes the lock on.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub struct Publish {
    lock: u32,
    /// The new notices, once the slot has them.
    notices: Option<(u64, u64)>,
    /// The WRITEs posted, of the head and of two pieces of the ring.
    posted: u32,
    in_flight: u32,
    is_passed_on: bool,
}

impl Publish {
    pub(crate) fn start(lock: u32) -> Transfer {
        Transfer::Publish(Self { lock, ..Self::default() })
    }

    fn advance<M: AsMut<[u64]>>(
        &mut self,
        shared: &mut Context<M>,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<Outcome> {
        self.write_list(shared, port)?;
        // Not with the WRITEs, even where the transport orders them: if one fails, the atomic may not.
        let is_written = self.in_flight == 0;
        #[cfg(test)]
        let is_written = is_written || crate::model::is(crate::model::Mutant::PassesOnEarly);
        if !self.is_passed_on && is_written {
            let at = shared.layout.tickets(self.lock).ok_or(PostError::OutOfRange)?.start;
            let state = shared.lock_state(self.lock)?;
            let mut passed = *state;
            let has_notices = self.notices.is_some_and(|(first, end)| end > first);
            port.fetch_add(0, at, passed.pass_on(has_notices))?;
            *state = passed;
            self.is_passed_on = true;
            self.in_flight += 1;
        }
        Ok(if self.in_flight > 0 { Step::Wait } else { Step::Done(Outcome::Released) })
    }

    /// Posts the WRITEs of the list's new words.
    fn write_list<M: AsMut<[u64]>>(
        &mut self,
        shared: &mut Context<M>,
        port: &mut Port<'_, impl Transport>,
    ) -> Result<(), Stop> {
        let (first, end) = match self.notices {
            Some(notices) => notices,
            None if shared.has_published(self.lock)? => (0, 0),
            None => {
                let list = port.staged(slot_words(port, 0, shared.layout.list_words))?;
                shared.fill_list(self.lock, list)?
            }
        };
        self.notices = Some((first, end));
        let [newer, wrapped] = pieces(&shared.layout, first, end);
        let all = [(0, HEAD_WORDS), newer, wrapped];
        for (start, words) in all.into_iter().skip(self.posted as usize) {
            if end > first && words > 0 {
                let to = shared.layout.list(self.lock, start, words);
                let from = slot_words(port, start, words);
                port.write(0, from, to.ok_or(PostError::OutOfRange)?)?;
                self.in_flight += 1;
            }
            self.posted += 1;
        }
        Ok(())
    }
}
