//! Claims: a write claims a bucket, writes its entry to it, and publishes the entry or gives the bucket
//! up. A remove only replaces the control word.

use probeline_pipeline::{Error, Plain, Stop};
use probeline_transport::{Segment, SlotRange, Transport};

#[cfg(test)]
use super::Mutant;
use super::{COMPARE, Ended, Running, STAGED, Stage, WRITE};
use crate::control::Control;
use crate::layout::store_entry;
use crate::mode::Mode;
use crate::outcome::{Outcome, Request, Written};
use crate::search::Kind;

impl<T: Transport, K: Plain, V: Plain> Running<'_, '_, T, K, V> {
    /// Claims the target, or marks it as dropped for a remove.
    #[inline(always)]
    pub(super) fn claim(&mut self) -> Result<(), Stop> {
        if self.context.mode.overwrites() {
            return self.overwrite();
        }
        let seen = self.progress.target.seen;
        let desired = if let Request::Remove = self.request {
            self.dropped(seen)
        } else {
            self.progress.ticket = self.context.ticket(self.progress.hash);
            self.progress.ticket
        };
        self.swap(seen, desired)?;
        self.progress.stage = Stage::Claimed;
        Ok(())
    }

    /// Continues after a claim, or searches again if another client was faster.
    #[inline(always)]
    pub(super) fn claimed(&mut self) -> Ended {
        let (target, old) = (self.progress.target, self.progress.old);
        if old == target.seen {
            if let Request::Remove = self.request {
                return Some(self.end(Written::Removed));
            }
            if target.kind == Kind::Oldest {
                self.context.stats.lost_entries += u64::from(self.progress.has_evicted);
                self.progress.has_evicted = true;
            }
            self.progress.stage = Stage::Write;
            return None;
        }
        self.progress.blocked_by = old;
        self.context.follow_writer(target.seen, old);
        self.context.stats.lost_claims += 1;
        // Only the count of readers differs: they still hold the bucket's lock.
        let is_read = self.context.mode.control(old.0) == target.seen;
        let next = match target.kind {
            _ if is_read => self.progress.search.again(),
            Kind::Empty => self.progress.search.again(),
            _ => self.progress.search.restart(),
        };
        let ended = self.follow(next);
        if is_read && ended.is_none() {
            self.progress.stage = Stage::Claim;
        }
        ended
    }

    /// Writes the entry to the claimed bucket. Along with it, publishes it or reads the control
    /// words of the other candidates.
    pub(super) fn write(&mut self) -> Result<(), Stop> {
        let target = self.progress.target;
        let compares = target.needs_comparison();
        let publishes = !compares && self.may_publish_early();
        let compared = if compares { self.progress.search.compared(self.goal()) } else { 0 };
        self.port.reserve(1 + u32::from(publishes) + compared)?;
        let Some(value) = self.request.value() else { return Err(Error::Idle.into()) };
        let body = self.context.layout.body(self.place(target.nth));
        let staged = SlotRange { slot: self.port.slot(STAGED), start: 0, words: body.words };
        store_entry(self.key.bytes(), value.bytes(), self.port.staged(staged)?);
        self.port.write(WRITE, staged, body)?;
        self.progress.awaited |= 1 << WRITE;
        self.progress.stage = Stage::Written;
        if publishes {
            self.replace_ticket(self.entry_control())?;
            self.progress.stage = Stage::Published;
        }
        (0..compared).try_for_each(|nth| self.compare(nth))
    }

    fn may_publish_early(&self) -> bool {
        #[cfg(test)]
        if self.progress.mutant == Mutant::PublishesEarly {
            return true;
        }
        self.port.caps().write_then_atomic
    }

    /// Posts a READ of a candidate's control word, or a fetch-and-add of 0 if a READ could tear it.
    fn compare(&mut self, nth: u32) -> Result<(), Stop> {
        let start = self.context.layout.control(self.place(nth));
        // At most MAX_CANDIDATES.
        #[allow(clippy::cast_possible_truncation)]
        let part = COMPARE + nth as u8;
        if self.words_are_whole() {
            let into = SlotRange { start: nth, ..self.landing(1) };
            self.port.read(part, Segment { start, words: 1 }, into)?;
        } else {
            self.port.fetch_add(part, start, 0)?;
        }
        self.progress.awaited |= 1 << part;
        Ok(())
    }

    /// Publishes the entry that is written, or gives the bucket up.
    pub(super) fn publish(&mut self) -> Result<(), Stop> {
        let gives_up = self.progress.target.needs_comparison() && self.has_conflict()?;
        let (desired, stage) = if gives_up {
            (self.dropped(self.progress.ticket), Stage::Released)
        } else {
            (self.entry_control(), Stage::Published)
        };
        self.replace_ticket(desired)?;
        self.progress.stage = stage;
        Ok(())
    }

    /// Returns whether another candidate may have an entry or a claim of the same key.
    fn has_conflict(&self) -> Result<bool, Stop> {
        let Self { progress, context, .. } = self;
        #[cfg(test)]
        if progress.mutant == Mutant::ComparesNothing {
            return Ok(false);
        }
        let count = progress.search.compared(self.goal());
        let compared = match self.words_are_whole() {
            true => self.port.landed(self.landing(count))?,
            false => &progress.compared,
        };
        let claimed = self.place(progress.target.nth);
        Ok((0..count).zip(compared).any(|(nth, now)| {
            let now = context.mode.control(*now);
            // In a small map two candidates may be the same bucket.
            self.place(nth) != claimed && progress.search.is_conflict(nth, now, progress.hash)
        }))
    }

    /// Ends a write whose entry was published, unless another client has taken the bucket.
    pub(super) fn published(&mut self) -> Outcome<()> {
        let (target, ticket, old) = (self.progress.target, self.progress.ticket, self.progress.old);
        if self.context.mode.control(old.0) != ticket {
            self.context.follow_writer(ticket, old);
            self.context.stats.stolen_claims += 1;
            self.context.stats.lost_entries += u64::from(target.kind == Kind::Key);
            return self.end(Written::Dropped);
        }
        self.context.clock.count();
        self.context.last_put = Some((self.place(target.nth), target.nth));
        let written = match target.kind {
            Kind::Key => Written::Updated,
            _ if core::mem::take(&mut self.progress.has_evicted) => Written::Evicted,
            _ => Written::Inserted,
        };
        self.end(written)
    }

    /// Searches again after a bucket was given up.
    pub(super) fn released(&mut self) -> Ended {
        self.context.stats.given_up += 1;
        let next = self.progress.search.restart();
        self.follow(next)
    }

    /// Posts the atomic that replaces the ticket. A lock's word also counts the clients that read and
    /// have not noticed the ticket yet, so nothing but an addition is sure to succeed.
    fn replace_ticket(&mut self, desired: Control) -> Result<(), Stop> {
        let ticket = self.progress.ticket;
        if self.context.mode != Mode::BucketLocks {
            return self.swap(ticket, desired);
        }
        let at = self.context.layout.control(self.place(self.progress.target.nth));
        self.add(at, desired.0.wrapping_sub(ticket.0))
    }

    /// Returns the control word that publishes the entry.
    pub(super) fn entry_control(&self) -> Control {
        let (hash, place) = (self.progress.hash, self.place(self.progress.target.nth));
        let value = self.request.value();
        let check = value.map_or(0, |value| self.context.check(hash, value.bytes(), place));
        Control::full(self.context.clock.age(), check)
    }
}
