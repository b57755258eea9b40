//! Locks: requests of the modes other than [`Mode::Claims`] lock, unlock and overwrite a part or a
//! bucket.

use probeline_pipeline::{Plain, Stop};
use probeline_transport::{Owner, RemoteWord, Segment, SlotRange, Transport};

use super::{ATOMIC, Ended, Running, STAGED, Stage, WRITE};
use crate::control::State;
use crate::layout::store_entry;
use crate::mode::{HeldLock, Mode, writer_of_bucket, writer_of_part, written_by};
use crate::outcome::Request;
use crate::search::Kind;

impl<T: Transport, K: Plain, V: Plain> Running<'_, '_, T, K, V> {
    /// Returns whether the request needs a lock before it probes the present candidate.
    pub(super) fn must_lock(&self) -> bool {
        !self.progress.holds_lock
            && match self.context.mode {
                Mode::Claims | Mode::Unlocked => false,
                Mode::PartLocks => true,
                // Requests that write lock the bucket that they have chosen: they claim it.
                Mode::BucketLocks => matches!(self.request, Request::Get),
            }
    }

    /// Posts an attempt to lock the part or the bucket.
    pub(super) fn enter(&mut self) -> Result<(), Stop> {
        let lock = self.lock();
        if matches!(self.request, Request::Get) {
            self.add(lock, 1)?;
        } else {
            self.port.compare_and_swap(ATOMIC, lock, 0, written_by(self.context.me))?;
            self.progress.awaited |= 1 << ATOMIC;
        }
        self.progress.stage = Stage::LockPosted;
        Ok(())
    }

    /// Handles the result of an attempt to lock. A get whose attempt failed undoes its count.
    pub(super) fn entered(&mut self) -> Result<Ended, Stop> {
        let (reads, old) = (matches!(self.request, Request::Get), self.progress.old);
        self.progress.holds_lock = match (self.context.mode, reads) {
            (Mode::PartLocks, true) => writer_of_part(old.0).is_none(),
            (Mode::PartLocks, false) => old.0 == 0,
            _ => old.state() != State::Claimed,
        };
        #[cfg(test)]
        if self.progress.mutant == super::Mutant::EntersWithoutLock {
            self.progress.holds_lock = true;
        }
        if self.progress.holds_lock {
            self.progress.stage = Stage::Probe;
            return Ok(None);
        }
        self.progress.blocked_by = old;
        if reads {
            self.add(self.lock(), u64::MAX)?;
            self.progress.stage = Stage::LockUndone;
            return Ok(None);
        }
        Ok(self.wait())
    }

    /// Unlocks the part or the bucket.
    pub(super) fn leave(&mut self) -> Result<(), Stop> {
        let count = match self.request {
            Request::Get => 1,
            _ => written_by(self.context.me),
        };
        self.add(self.lock(), 0_u64.wrapping_sub(count))?;
        self.progress.holds_lock = false;
        Ok(())
    }

    pub(super) fn add(&mut self, at: RemoteWord, addend: u64) -> Result<(), Stop> {
        self.port.fetch_add(ATOMIC, at, addend)?;
        self.progress.awaited |= 1 << ATOMIC;
        Ok(())
    }

    /// Returns the word of the part's lock, or of the present candidate's.
    fn lock(&self) -> RemoteWord {
        let place = self.place(self.progress.search.nth());
        match self.context.mode {
            Mode::PartLocks => self.context.layout.part_lock(place.owner),
            _ => self.context.layout.control(place),
        }
    }

    /// Writes the entry over the target, control word and body at once; for a remove only the word
    /// that drops it.
    pub(super) fn overwrite(&mut self) -> Result<(), Stop> {
        let target = self.progress.target;
        let value = self.request.value();
        let (control, words, stage) = match value {
            Some(_) => (self.entry_control(), self.context.layout.used_words, Stage::Published),
            None => (self.dropped(target.seen), 1, Stage::Claimed),
        };
        self.port.reserve(1)?;
        let staged = SlotRange { slot: self.port.slot(STAGED), start: 0, words };
        if let Some((first, body)) = self.port.staged(staged)?.split_first_mut() {
            *first = control.0;
            if let Some(value) = value {
                store_entry(self.key.bytes(), value.bytes(), body);
            }
        }
        let start = self.context.layout.control(self.place(target.nth));
        self.port.write(WRITE, staged, Segment { start, words })?;
        self.progress.awaited |= 1 << WRITE;
        self.progress.has_evicted = value.is_some() && target.kind == Kind::Oldest;
        (self.progress.ticket, self.progress.stage) = (control, stage);
        // As if an atomic had found what it expects.
        self.progress.old = if value.is_some() { control } else { target.seen };
        Ok(())
    }

    /// Notes which lock the request did not get.
    pub(super) fn note_held_lock(&mut self) {
        let part = self.place(self.progress.search.nth()).owner;
        let blocked_by = self.progress.blocked_by;
        let holder = match self.context.mode {
            Mode::PartLocks => writer_of_part(blocked_by.0),
            _ => writer_of_bucket(blocked_by),
        };
        self.context.held_lock = Some(HeldLock { part: Owner(part), holder });
    }
}
