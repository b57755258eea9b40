//! How requests of the modes other than [`Mode::Claims`] lock, unlock and overwrite a part or a
//! bucket.

use probeline_pipeline::{Error, Port, Stop};
use probeline_transport::{Local, Owner, RemoteWord, Segment, Transport};

use super::{ATOMIC, Access, Ended, STAGED, Stage, WRITE};
use crate::context::Context;
use crate::control::State;
use crate::layout::pack;
use crate::mode::{HeldLock, Mode, writer_of_bucket, writer_of_part, written_by};
use crate::outcome::{Outcome, Request};
use crate::plain::Plain;
use crate::search::{Kind, Next};

impl<K: Plain, V: Plain> Access<K, V> {
    /// Returns whether the request needs a lock before it looks at the present candidate.
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
    ) -> Result<Ended<V>, Stop> {
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
        self.stage = Stage::Look;
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
    pub(super) fn wait(&mut self, request: &Request<V>, context: &mut Context) -> Ended<V> {
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

    /// The word of the part's lock, or of the present candidate's.
    fn lock(&self, context: &Context) -> RemoteWord {
        let place = self.place(context, self.search.nth());
        match context.mode {
            Mode::PartLocks => context.layout.part_lock(place.owner),
            _ => context.layout.control(place),
        }
    }

    /// Returns the outcome that was kept while the request left the part.
    pub(super) fn left(
        &self,
        context: &Context,
        port: &Port<'_, impl Transport>,
    ) -> Result<Ended<V>, Stop> {
        Ok(Some(match self.kept {
            Outcome::Miss => Outcome::Miss,
            Outcome::Written(written) => Outcome::Written(written),
            Outcome::Hit(()) => {
                let landing = self.landing(port, context.layout.used_words);
                let mut words = port.landed(landing)?.iter().copied().skip(1);
                let (_, value): (K, V) = context.layout.bytes.unpack(&mut words);
                Outcome::Hit(value)
            }
        }))
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
        let words = core::iter::once(full.0).chain(pack(key.bytes())).chain(pack(value.bytes()));
        self.write_over(words, context.layout.used_words, context, port)?;
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
        self.write_over(core::iter::once(dropped.0), 1, context, port)?;
        self.old = self.target.seen;
        self.stage = Stage::Removed;
        Ok(())
    }

    fn write_over(
        &mut self,
        from: impl Iterator<Item = u64>,
        words: u32,
        context: &Context,
        port: &mut Port<'_, impl Transport>,
    ) -> Result<(), Stop> {
        port.reserve(1)?;
        let staged = Local { slot: port.slot(STAGED), start: 0, words };
        for (to, word) in port.staged(staged)?.iter_mut().zip(from) {
            *to = word;
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

/// Returns an outcome without the value of a hit, which the landing slot has.
pub(super) fn without_value<V>(outcome: &Outcome<V>) -> Outcome<()> {
    match outcome {
        Outcome::Hit(_) => Outcome::Hit(()),
        Outcome::Miss => Outcome::Miss,
        Outcome::Written(written) => Outcome::Written(*written),
    }
}
