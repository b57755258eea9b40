//! Acquiring a lock, and passing it on.

use probeline_pipeline::{Error, Next, Port, Step, Stop};
use probeline_transport::{PostError, Segment, Transport};

use super::{Outcome, Transfer, slot_words};
use crate::config::{HEAD_WORDS, part_of};
use crate::context::{Context, pieces};
use crate::directory::{TOLD_HEAD, TOLD_PAGES};
use crate::lock::{Hold, TAKE, Tickets};

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

    pub(super) fn advance<M: AsMut<[u64]>>(
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

    pub(super) fn on_completion<M: AsMut<[u64]>>(
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
    pub(super) in_flight: u32,
    is_passed_on: bool,
}

impl Publish {
    pub(crate) fn start(lock: u32) -> Transfer {
        Transfer::Publish(Self { lock, ..Self::default() })
    }

    pub(super) fn advance<M: AsMut<[u64]>>(
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
