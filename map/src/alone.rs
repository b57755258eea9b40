//! Blocking gets and puts over a transport while nothing else of the map is in flight: each post is
//! awaited before the next, without storage, queues, and copies of key and value.
//!
//! A put posts what the machine posts, in the same order, so no order of effects is possible that the
//! machine, which the model check covers, does not have as well.

use probeline_pipeline::{Alone, Error, Plain};
use probeline_transport::{PostError, Request as Post, SlotRange, Transport};

use crate::Operation;
use crate::context::Context;
use crate::control::Control;
use crate::hash::hash_of_bytes;
use crate::layout::{Place, check_seed, sized, store_entry};
use crate::machine::{Access, LANDING, STAGED};
use crate::mode::Mode;
use crate::outcome::{Outcome, Request, Written};
use crate::quick::{self, Quick};
use crate::search::{Kind, Seen, Target};

/// A request in progress.
pub(crate) struct Blocking<'r, T, S, K: Plain, V: Plain> {
    pub(crate) alone: Alone<'r, T, S, Context, Access<K, V>>,
    pub(crate) key: &'r [u8],
    pub(crate) hash: u64,
    /// The bucket probed last.
    pub(crate) present: Place,
}

impl<T, S, K, V> Blocking<'_, T, S, K, V>
where
    T: Transport,
    S: AsMut<[Operation<K, V>]>,
    K: Plain,
    V: Plain,
{
    /// Runs a request. Returns `None` if a machine has to run it: from its beginning, or because it
    /// waits for several posts at once. After a hit `room` has the value.
    #[inline(always)]
    pub(crate) fn run(
        &mut self,
        request: Request<&[u8]>,
        room: &mut [u8],
    ) -> Result<Option<Outcome<()>>, Error> {
        let (transport, context) = self.alone.parts();
        let is_quick = match (context.mode, request) {
            (Mode::Claims, Request::Get) | (Mode::Unlocked, _) => true,
            (Mode::Claims, _) => !context.claims_with_read && !transport.caps().write_then_atomic,
            _ => false,
        };
        if !is_quick {
            return Ok(None);
        }
        let ended = quick::run(self, request, room);
        if ended.is_err() {
            self.alone.parts().1.stats.failed += 1;
        }
        ended
    }

    /// Writes the entry from its first word on, a control word, or without one.
    #[inline(always)]
    fn write(&mut self, control: Option<Control>, value: &[u8]) -> Result<(), Error> {
        let key = sized::<K>(self.key);
        let layout = &self.alone.parts().1.layout;
        let to = match control {
            Some(_) => layout.segment(self.present),
            None => layout.body(self.present),
        };
        let from = SlotRange { slot: self.alone.slot(STAGED), start: 0, words: to.words };
        let staged = self.alone.staged(from)?;
        let body = match control {
            None => staged,
            Some(control) => {
                let (first, body) = staged.split_first_mut().ok_or(PostError::OutOfRange)?;
                *first = control.0;
                body
            }
        };
        store_entry(key, sized::<V>(value), body);
        self.alone.run(Post::Write { from, to })?;
        Ok(())
    }

    /// Posts a compare-and-swap of the control word. Returns whether it has replaced what was seen.
    #[inline(always)]
    fn swap(&mut self, seen: Control, desired: Control) -> Result<bool, Error> {
        let at = self.alone.parts().1.layout.control(self.present);
        let swap = Post::CompareAndSwap { at, expected: seen.0, desired: desired.0 };
        let old = Control(self.alone.run(swap)?);
        self.alone.parts().1.follow_writer(seen, old);
        Ok(old == seen)
    }
}

impl<T, S, K, V> Quick for Blocking<'_, T, S, K, V>
where
    T: Transport,
    S: AsMut<[Operation<K, V>]>,
    K: Plain,
    V: Plain,
{
    #[inline(always)]
    fn context(&mut self) -> &mut Context {
        self.alone.parts().1
    }

    /// Probes a candidate. A put without claims passes an entry of another key whose check does not
    /// match, as a get does: it could not mark a destroyed entry as dropped, and any bucket that it
    /// takes later is right, because without claims a key may have two.
    #[inline(always)]
    fn probe(
        &mut self,
        nth: u32,
        writes: bool,
        room: Option<&mut [u8]>,
    ) -> Result<(Control, Seen), Error> {
        let context = self.alone.parts().1;
        context.stats.bucket_reads += 1;
        let writes = writes && !context.mode.overwrites();
        let layout = context.layout;
        let place = layout.candidate(self.hash, nth);
        self.present = place;
        let from = layout.segment(place);
        let into = SlotRange { slot: self.alone.slot(LANDING), start: 0, words: from.words };
        self.alone.run(Post::Read { from, into })?;
        let (control, body) = self.alone.landed(into)?.split_first().unwrap_or((&0, &[]));
        let control = Control(*control);
        if let Some(seen) = Seen::unless_full(control, self.hash) {
            return Ok((control, seen));
        }
        let entry = layout.bytes.of::<K, V>().split(body);
        let (there, value) = entry.ok_or(PostError::OutOfRange)?;
        let is_key = there == sized::<K>(self.key);
        if !is_key && !writes {
            return Ok((control, Seen::Other));
        }
        let hash = if is_key { self.hash } else { hash_of_bytes(there, 0) };
        let check = hash_of_bytes(value, check_seed(hash, place));
        let seen = Seen::from_full(is_key, control.has_check(check));
        match room {
            Some(room) if seen == Seen::Key && room.len() == value.len() => {
                room.copy_from_slice(value);
            }
            _ => {}
        }
        if seen == Seen::Mixed {
            self.context().stats.failed_checks += 1;
        }
        Ok((control, seen))
    }

    #[inline(always)]
    fn store(&mut self, target: Target, value: &[u8]) -> Result<Option<Written>, Error> {
        let hash = self.hash;
        let check = hash_of_bytes(sized::<V>(value), check_seed(hash, self.present));
        let context = self.context();
        let full = Control::full(context.clock.age(), check);
        if context.mode.overwrites() {
            self.write(Some(full), value)?;
        } else {
            if target.needs_comparison() {
                return Ok(None);
            }
            let ticket = context.ticket(hash);
            if !self.swap(target.seen, ticket)? {
                self.context().stats.lost_claims += 1;
                return Ok(None);
            }
            self.write(None, value)?;
            if !self.swap(ticket, full)? {
                let stats = &mut self.context().stats;
                stats.stolen_claims += 1;
                stats.lost_entries += u64::from(target.kind == Kind::Key);
                return Ok(Some(Written::Dropped));
            }
        }
        let present = self.present;
        let context = self.context();
        context.clock.count();
        context.last_put = Some((present, target.nth));
        Ok(Some(target.kind.written()))
    }
}
