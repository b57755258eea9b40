//! Blocking gets, and blocking puts in the mode without locks, over a transport while nothing else of
//! the map is in flight: each post is awaited before the next, without storage, queues, and copies of
//! key and value.
//!
//! Only what most requests meet is decided here, as the machine decides it. Otherwise the request runs
//! as a machine, from its beginning: until then it has only read. A value is returned only if its check
//! matches, and a put here is one WRITE, so no order of effects is possible that the machine, which the
//! model check covers, does not have as well.

use probeline_pipeline::{Alone, Error};
use probeline_transport::{Local, Request as Post, Transport};

use crate::Operation;
use crate::context::Context;
use crate::control::{Control, State};
use crate::layout::{check, store_entry};
use crate::machine::{Access, LANDING, STAGED};
use crate::mode::Mode;
use crate::outcome::{Outcome, Request, Written};
use crate::plain::Plain;
use crate::search::Kind;

/// A request in progress.
pub(crate) struct Blocking<'r, T, S, K: Plain, V: Plain> {
    pub(crate) alone: Alone<'r, T, S, Context, Access<K, V>>,
    pub(crate) key: &'r [u8],
    pub(crate) hash: u64,
}

/// What a READ of a candidate has shown.
enum Shown {
    Empty,
    Key,
    Other,
    /// The machine decides.
    Unclear,
}

impl<T, S, K, V> Blocking<'_, T, S, K, V>
where
    T: Transport,
    S: AsMut<[Operation<K, V>]>,
    K: Plain,
    V: Plain,
{
    /// Runs a request. Returns `None` if a machine has to run it. After a hit `room` has the value.
    #[inline(always)]
    pub(crate) fn run(
        mut self,
        request: Request<&[u8]>,
        room: &mut [u8],
    ) -> Result<Option<Outcome<()>>, Error> {
        let ended = match (request, self.alone.parts().1.mode) {
            (Request::Get, Mode::Claims | Mode::Unlocked) => self.get(room),
            (Request::Put(value), Mode::Unlocked) => self.put(value),
            _ => Ok(None),
        };
        if ended.is_err() {
            self.alone.parts().1.stats.failed += 1;
        }
        ended
    }

    fn get(&mut self, room: &mut [u8]) -> Result<Option<Outcome<()>>, Error> {
        for nth in 0..self.alone.parts().1.layout.candidates {
            match self.look(nth, Some(&mut *room))? {
                Shown::Other => {}
                Shown::Key => {
                    self.alone.parts().1.stats.hits += 1;
                    return Ok(Some(Outcome::Hit(())));
                }
                Shown::Empty => {
                    self.alone.parts().1.stats.misses += 1;
                    return Ok(Some(Outcome::Miss));
                }
                Shown::Unclear => return Ok(None),
            }
        }
        // As in the machine: every candidate has an entry of another key.
        self.alone.parts().1.stats.misses += 1;
        Ok(Some(Outcome::Miss))
    }

    fn put(&mut self, value: &[u8]) -> Result<Option<Outcome<()>>, Error> {
        for nth in 0..self.alone.parts().1.layout.candidates {
            let kind = match self.look(nth, None)? {
                Shown::Other => continue,
                Shown::Key => Kind::Key,
                Shown::Empty => Kind::Empty,
                Shown::Unclear => return Ok(None),
            };
            return Ok(Some(Outcome::Written(self.overwrite(nth, kind, value)?)));
        }
        Ok(None)
    }

    /// Reads a candidate. With room, the value of the key is stored there.
    ///
    /// A get passes an entry of another key whose check does not match, as in the machine. So does a
    /// put without claims: it could not mark a destroyed entry as dropped, and any bucket that it
    /// takes later is right, because without claims a key may have two.
    #[inline(always)]
    fn look(&mut self, nth: u32, room: Option<&mut [u8]>) -> Result<Shown, Error> {
        let context = self.alone.parts().1;
        context.stats.looks += 1;
        let layout = context.layout;
        let place = layout.candidate(self.hash, nth);
        let from = layout.segment(place);
        let into = Local { slot: self.alone.slot(LANDING), start: 0, words: from.words };
        self.alone.run(Post::Read { from, into })?;
        let (control, body) = self.alone.landed(into)?.split_first().unwrap_or((&0, &[]));
        let control = Control(*control);
        match control.state() {
            State::Full => {}
            State::Empty => return Ok(Shown::Empty),
            State::Claimed | State::Dropped => return Ok(Shown::Unclear),
        }
        let (there, value) = layout.bytes.of::<K, V>().split(body);
        if there != self.key {
            return Ok(Shown::Other);
        }
        if !control.has_check(check(self.hash, value, place)) {
            return Ok(Shown::Unclear);
        }
        if let Some(room) = room
            && room.len() == value.len()
        {
            room.copy_from_slice(value);
        }
        Ok(Shown::Key)
    }

    /// Writes the entry with its control word.
    fn overwrite(&mut self, nth: u32, kind: Kind, value: &[u8]) -> Result<Written, Error> {
        let (key, hash) = (self.key, self.hash);
        let context = self.alone.parts().1;
        let place = context.layout.candidate(hash, nth);
        let full = Control::full(context.clock.age(), context.check(hash, value, place));
        let to = context.layout.segment(place);
        let from = Local { slot: self.alone.slot(STAGED), start: 0, words: to.words };
        let (control, body) = self.alone.staged(from)?.split_first_mut().ok_or(Error::Idle)?;
        *control = full.0;
        store_entry(key, value, body);
        self.alone.run(Post::Write { from, to })?;
        let context = self.alone.parts().1;
        context.clock.count();
        context.last_put = Some((place, nth));
        let written = if kind == Kind::Key { Written::Updated } else { Written::Inserted };
        context.stats.count(written, false);
        Ok(written)
    }
}
