//! Locks: requests of the modes other than [`Mode::Claims`] lock, unlock and overwrite a part or a
//! bucket.

use probeline_pipeline::{Error, Plain, Port, Stop};
use probeline_transport::{Owner, RemoteWord, Segment, SlotRange, Transport};

use super::{ATOMIC, Ended, Progress, STAGED, Stage, WRITE};
use crate::context::Context;
use crate::control::{Control, State};
use crate::layout::store_entry;
use crate::mode::{HeldLock, Mode, writer_of_bucket, writer_of_part, written_by};
use crate::outcome::Request;
use crate::search::{Kind, Next};

impl<K: Plain, V: Plain> Progress<K, V> {
    /// Returns whether the request needs a lock before it probes the present candidate.
    pub(super) fn must_enter(&self, request: &Request<V>, mode: Mode) -> bool {
        !self.is_inside
            && match mode {
                Mode::Claims | Mode::Unlocked => false,
                Mode::PartLocks => true,
                // Requests that write lock the bucket that they have chosen: they claim it.
                Mode::BucketLocks => matches!(request, Request::Get),
            }
    }

    /// Posts an attempt to lock the part or the bucket.
    pub(super) fn enter(
        &mut self,
        request: &Request<V>,
        context: &Context,
        port: &mut Port<'_, impl Transport>,
    ) -> Result<(), Stop> {
        let lock = self.lock(context);
        if matches!(request, Request::Get) {
            port.fetch_add(ATOMIC, lock, 1)?;
        } else {
            port.compare_and_swap(ATOMIC, lock, 0, written_by(context.me))?;
        }
        self.awaited |= 1 << ATOMIC;
        self.stage = Stage::Entered;
        Ok(())
    }

    /// Handles the result of an attempt to lock. A get whose attempt failed undoes its count.
    pub(super) fn entered(
        &mut self,
        request: &Request<V>,
        context: &mut Context,
        port: &mut Port<'_, impl Transport>,
    ) -> Result<Ended, Stop> {
        let (reads, old) = (matches!(request, Request::Get), self.old.0);
        self.is_inside = match (context.mode, reads) {
            (Mode::PartLocks, true) => writer_of_part(old).is_none(),
            (Mode::PartLocks, false) => old == 0,
            _ => self.old.state() != State::Claimed,
        };
        #[cfg(test)]
        if self.mutant == super::Mutant::EntersWithoutLock {
            self.is_inside = true;
        }
        self.stage = Stage::Probe;
        if self.is_inside {
            return Ok(None);
        }
        self.blocked_by = self.old;
        if reads {
            self.count_out(context, port)?;
            self.stage = Stage::Retreated;
            return Ok(None);
        }
        Ok(self.wait(request, context))
    }

    /// Tries again later.
    pub(super) fn wait(&mut self, request: &Request<V>, context: &mut Context) -> Ended {
        let next = self.search.again();
        self.follow(next, request, context)
    }

    /// Unlocks the part or the bucket.
    pub(super) fn leave(
        &mut self,
        request: &Request<V>,
        context: &Context,
        port: &mut Port<'_, impl Transport>,
    ) -> Result<(), Stop> {
        if matches!(request, Request::Get) {
            self.count_out(context, port)?;
        } else {
            self.add(self.lock(context), 0_u64.wrapping_sub(written_by(context.me)), port)?;
        }
        self.is_inside = false;
        Ok(())
    }

    fn count_out(
        &mut self,
        context: &Context,
        port: &mut Port<'_, impl Transport>,
    ) -> Result<(), Stop> {
        self.add(self.lock(context), u64::MAX, port)
    }

    pub(super) fn add(
        &mut self,
        at: RemoteWord,
        addend: u64,
        port: &mut Port<'_, impl Transport>,
    ) -> Result<(), Stop> {
        port.fetch_add(ATOMIC, at, addend)?;
        self.awaited |= 1 << ATOMIC;
        Ok(())
    }

    /// Returns the word of the part's lock, or of the present candidate's.
    fn lock(&self, context: &Context) -> RemoteWord {
        let place = self.place(context, self.search.nth());
        match context.mode {
            Mode::PartLocks => context.layout.part_lock(place.owner),
            _ => context.layout.control(place),
        }
    }

    /// Writes the entry over the target, control word and body at once.
    pub(super) fn overwrite(
        &mut self,
        key: &K,
        request: &Request<V>,
        context: &Context,
        port: &mut Port<'_, impl Transport>,
    ) -> Result<(), Stop> {
        let Some(value) = request.value() else { return Err(Error::Idle.into()) };
        let full = self.entry_control(request, context);
        self.write_over(full, Some((key.bytes(), value.bytes())), context, port)?;
        self.has_evicted = self.target.kind == Kind::Oldest;
        (self.ticket, self.old) = (full, full);
        self.stage = Stage::Written { publishes: true };
        Ok(())
    }

    /// Marks the key's bucket as dropped.
    pub(super) fn overwrite_as_dropped(
        &mut self,
        context: &Context,
        port: &mut Port<'_, impl Transport>,
    ) -> Result<(), Stop> {
        let dropped = self.dropped(self.target.seen, context);
        self.write_over(dropped, None, context, port)?;
        self.old = self.target.seen;
        self.stage = Stage::Removed;
        Ok(())
    }

    /// Writes a control word, and an entry if there is one.
    fn write_over(
        &mut self,
        control: Control,
        entry: Option<(&[u8], &[u8])>,
        context: &Context,
        port: &mut Port<'_, impl Transport>,
    ) -> Result<(), Stop> {
        port.reserve(1)?;
        let words = if entry.is_some() { context.layout.used_words } else { 1 };
        let staged = SlotRange { slot: port.slot(STAGED), start: 0, words };
        if let Some((first, body)) = port.staged(staged)?.split_first_mut() {
            *first = control.0;
            if let Some((key, value)) = entry {
                store_entry(key, value, body);
            }
        }
        let start = context.layout.control(self.place(context, self.target.nth));
        port.write(WRITE, staged, Segment { start, words })?;
        self.awaited |= 1 << WRITE;
        Ok(())
    }

    /// Notes which lock the request did not get.
    pub(super) fn note_held_lock(&self, context: &mut Context) {
        let part = self.place(context, self.search.nth()).owner;
        let holder = match context.mode {
            Mode::PartLocks => writer_of_part(self.blocked_by.0),
            _ => writer_of_bucket(self.blocked_by),
        };
        context.held_lock = Some(HeldLock { part: Owner(part), holder });
    }
}

/// Returns whether a search ended because it waited too long for a lock.
pub(super) fn is_blocked(next: Next, mode: Mode) -> bool {
    next == Next::Busy && mode.locks()
}
