//! The machine of a push or a pop.

use probeline_pipeline::{
    Completed, Error, Machine, Next, Plain, Port, Run, Step, Stop, fill_words,
};
use probeline_transport::{Owner, PostError, SlotRange, Transport};

use super::ring::{Context, Rings};
use crate::element::{Direct, check_value};
use crate::hash;
#[cfg(test)]
use crate::model::{self, Mutant};

/// Looks at a slot or a counter, or compare-and-swaps, of one operation.
pub(crate) const MAX_ATTEMPTS: u32 = if cfg!(test) { 3 } else { 64 };

/// Action of an operation on a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action<V> {
    /// Push a value.
    Push(V),
    /// Pop the oldest value.
    Pop,
    /// Take consecutive tickets, at most `in_flight`, for values to store; part of a batch.
    Take(u64),
    /// Store the value of a ticket that was taken; part of a batch.
    Store(u64, V),
    /// Read the value of a ticket, if its push has stored it; part of a batch.
    Load(u64),
    /// Move the head from a ticket past this many, at most the slots of a ring, if the head is at that ticket.
    Advance(u64, u64),
}

/// The outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome<V> {
    /// A push, or a part of a batch, has this ticket, the first of those taken. Of
    /// [`Action::Advance`], the ticket at which the head was.
    Pushed(u64),
    /// The ring had no room.
    Full,
    /// The value of a pop, or of a ticket.
    Popped(V),
    /// The ring was empty, or the ticket has no value yet.
    Empty,
}

/// The one-sided operation that is due, or in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Post {
    /// Look at the tail, which the client does not know.
    Tail,
    /// Look at the head, to decide whether there is room beyond this tail.
    Head(u64),
    /// Take the ticket.
    Ticket,
    /// Look at the head, until it has passed the last ticket of the slot.
    Room,
    /// Write the slot.
    Write,
    /// Read the slot.
    Slot,
    /// Let the head pass the ticket.
    Claim,
    /// Look at the tail, because the slot has no value of the ticket.
    End,
    /// Look at the head, because it may have passed the ticket.
    Behind,
}

/// An operation on the ring of `host`.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Access<V> {
    pub(super) host: Owner,
    pub(super) action: Action<V>,
    pub(super) post: Post,
    /// The ticket of a push; the head of a pop, as far as it knows.
    ticket: u64,
    attempts: u32,
}

impl<V: Plain> Machine for Access<V> {
    type Outcome = Outcome<V>;
    const IDLE: Self =
        Self { host: Owner(0), action: Action::Pop, post: Post::Tail, ticket: 0, attempts: 0 };
    const SLOTS: u32 = 1;
}

impl<V: Plain> Access<V> {
    /// Creates an operation, and decides its first post from what the client knows of the ring.
    pub(super) fn new(host: Owner, action: Action<V>, context: &Context) -> Result<Self, Error> {
        if let Action::Push(value) | Action::Store(_, value) = &action {
            check_value(value, context.detail.value_bytes)?;
        }
        if let Action::Advance(_, count) = action
            && count > context.slots()
        {
            return Err(PostError::OutOfRange.into());
        }
        let head = context.view(host).head;
        let ticket = match action {
            Action::Store(ticket, _) | Action::Load(ticket) | Action::Advance(ticket, _) => ticket,
            Action::Pop | Action::Push(_) | Action::Take(_) => head.unwrap_or_default(),
        };
        let mut access = Self { host, action, ticket, ..Self::IDLE };
        access.post = match action {
            Action::Push(_) | Action::Take(_) => access.before_ticket(context),
            Action::Pop if head.is_none() => Post::Behind,
            Action::Pop | Action::Load(_) => Post::Slot,
            Action::Store(..) => access.before_write(context)?,
            Action::Advance(..) => Post::Claim,
        };
        Ok(access)
    }

    /// Returns the tickets that the operation takes or passes.
    fn count(&self) -> u64 {
        match self.action {
            Action::Take(count) | Action::Advance(_, count) => count,
            _ => 1,
        }
    }

    /// Returns whether a ring with these counters has room for the values of the operation.
    fn has_room(&self, tail: u64, head: u64, context: &Context) -> bool {
        tail.saturating_sub(head).saturating_add(self.count()) <= context.detail.capacity
    }

    /// Takes the ticket, unless the ring may be full as far as the client knows.
    fn before_ticket(&self, context: &Context) -> Post {
        let Some(tail) = context.view(self.host).tail else { return Post::Tail };
        let head = context.view(self.host).head.unwrap_or_default();
        #[cfg(test)]
        if model::has(Mutant::UndoesTickets) {
            return Post::Ticket;
        }
        if self.has_room(tail, head, context) { Post::Ticket } else { Post::Head(tail) }
    }

    /// Writes the slot, unless its last value may not be popped yet.
    fn before_write(&mut self, context: &Context) -> Result<Post, Error> {
        #[cfg(test)]
        if model::has(Mutant::Overrun) {
            return Ok(Post::Write);
        }
        let head = context.view(self.host).head.unwrap_or_default();
        if self.ticket - head.min(self.ticket) < context.slots() {
            return Ok(Post::Write);
        }
        self.attempt(Error::Unfinished { ticket: self.ticket })?;
        Ok(Post::Room)
    }

    /// Counts an attempt.
    fn attempt(&mut self, error: Error) -> Result<(), Error> {
        self.attempts += 1;
        if self.attempts > MAX_ATTEMPTS { Err(error) } else { Ok(()) }
    }

    fn local(context: &Context, port: &Port<'_, impl Transport>) -> SlotRange {
        SlotRange { slot: port.slot(0), start: 0, words: context.placement.words() }
    }

    fn write(
        &self,
        value: &V,
        context: &Context,
        port: &mut Port<'_, impl Transport>,
    ) -> Result<(), Stop> {
        port.reserve(1)?;
        let from = Self::local(context, port);
        if let Some((check, words)) = port.staged(from)?.split_last_mut() {
            fill_words(value.bytes(), words);
            *check = hash::check(self.ticket, words.iter().copied());
        }
        port.write(0, from, context.slot(self.host, self.ticket))
    }

    /// Returns the value that a READ of the slot has brought, if it is that of the ticket.
    fn landed(
        &self,
        context: &Context,
        port: &Port<'_, impl Transport>,
    ) -> Result<Option<V>, Error> {
        let words = port.landed(Self::local(context, port))?;
        let Some((check, words)) = words.split_last() else { return Ok(None) };
        let value = || V::from_words(&mut words.iter().copied(), context.detail.value_bytes);
        Ok((*check == hash::check(self.ticket, words.iter().copied())).then(value))
    }

    /// Decides what follows a completion.
    fn after(
        &mut self,
        word: u64,
        context: &mut Context,
        port: &Port<'_, impl Transport>,
    ) -> Result<Step<Outcome<V>>, Error> {
        #[cfg(test)]
        if let Some(step) = self.undo(word, context) {
            return Ok(step);
        }
        let seen = match self.post {
            Post::Tail | Post::End => (Some(word), None),
            Post::Ticket => (Some(word + self.count()), None),
            Post::Head(_) | Post::Room | Post::Behind => (None, Some(word)),
            Post::Claim if word == self.ticket => (None, Some(word + self.count())),
            Post::Claim => (None, Some(word)),
            Post::Write | Post::Slot => (None, None),
        };
        context.saw(self.host, seen);
        self.post = match self.post {
            Post::Tail => self.before_ticket(context),
            Post::Head(tail) if !self.has_room(tail, word, context) => {
                return Ok(Step::Done(Outcome::Full));
            }
            Post::Head(_) => Post::Ticket,
            Post::Ticket => {
                self.ticket = word;
                if let Action::Take(_) = self.action {
                    return Ok(Step::Done(Outcome::Pushed(word)));
                }
                self.before_write(context)?
            }
            Post::Room => self.before_write(context)?,
            Post::Write => return Ok(Step::Done(Outcome::Pushed(self.ticket))),
            Post::Slot => match (self.landed(context, port)?, self.action) {
                (Some(value), Action::Load(_)) => return Ok(Step::Done(Outcome::Popped(value))),
                (None, Action::Load(_)) => return Ok(Step::Done(Outcome::Empty)),
                (Some(_), _) => Post::Claim,
                (None, _) => Post::End,
            },
            Post::Claim if matches!(self.action, Action::Advance(..)) => {
                return Ok(Step::Done(Outcome::Pushed(word)));
            }
            Post::Claim if word == self.ticket => {
                let value = self.landed(context, port)?;
                return Ok(Step::Done(value.map_or(Outcome::Empty, Outcome::Popped)));
            }
            Post::Claim => {
                self.attempt(Error::Contended { attempts: MAX_ATTEMPTS })?;
                self.ticket = word;
                Post::Slot
            }
            // The head was at the ticket at an earlier time, and is not beyond the tail.
            #[cfg(test)]
            Post::End
                if model::has(Mutant::EmptyFromStaleWords)
                    && context.view(self.host).tail
                        <= context.view(self.host).head.max(Some(word)) =>
            {
                return Ok(Step::Done(Outcome::Empty));
            }
            Post::End if word == self.ticket => return Ok(Step::Done(Outcome::Empty)),
            Post::End => Post::Behind,
            Post::Behind => {
                if word == self.ticket {
                    self.attempt(Error::Unfinished { ticket: word })?;
                }
                self.ticket = word;
                Post::Slot
            }
        };
        Ok(Step::Wait)
    }
}

impl<V: Plain> Direct<Rings> for Access<V> {}

impl<V: Plain> Run<Context> for Access<V> {
    fn advance(
        &mut self,
        context: &mut Context,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<Outcome<V>> {
        let [tail, head] = context.counters(self.host);
        match (self.post, self.action) {
            // An atomic returns the true word, whatever READs may show.
            (Post::Tail | Post::End, _) => port.fetch_add(0, tail, 0)?,
            (Post::Head(_) | Post::Room | Post::Behind, _) => port.fetch_add(0, head, 0)?,
            (Post::Ticket, _) => port.fetch_add(0, tail, self.count())?,
            (Post::Write, Action::Push(value) | Action::Store(_, value)) => {
                self.write(&value, context, port)?;
            }
            (Post::Slot | Post::Write, _) => {
                let slot = context.slot(self.host, self.ticket);
                port.read(0, slot, Self::local(context, port))?;
            }
            (Post::Claim, _) => {
                // The sum wraps only for a ticket that no head reaches; the compare-and-swap then fails.
                let next = self.ticket.wrapping_add(self.count());
                port.compare_and_swap(0, head, self.ticket, next)?;
            }
        }
        Ok(Step::Wait)
    }

    fn on_completion(
        &mut self,
        Completed { word, .. }: Completed,
        context: &mut Context,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<Outcome<V>> {
        let step = self.after(word, context, port)?;
        if let Step::Wait = step { self.advance(context, port) } else { Ok(step) }
    }
}
