//! The machine that sends or receives a block.

use core::sync::atomic::Ordering::Relaxed;

use probeline_pipeline::{Completed, Error, Machine, Next, Port, Run, Step, Stop, words};
use probeline_transport::{Owner, SlotRange, Transport};

use super::lanes::{Context, HEADER_WORDS, Header, State, header};
use crate::element::Direct;
use crate::hash;

/// Words that are copied from the window to a slot at once.
const COPIED_AT_ONCE: usize = 64;

/// Action of an operation on the lane to or from a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Add a message to the block that is filled for the rank, and send the block if it is full: `send` as
    /// one operation, for the model check.
    #[cfg(test)]
    Put(u64),
    /// Send the block that is filled for the rank if it is full, or as the last one of a flush.
    Send,
    /// Receive the next block from the rank.
    Receive,
}

/// The outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The block remains, because the lane is full or there is nothing to send.
    Kept,
    /// The block was sent.
    Sent,
    /// The lane is full, and the message was not taken.
    #[cfg(test)]
    Full,
    /// A block of this many messages, with this check, was received.
    Received(u32, u64),
    /// The next block is not there yet.
    Nothing,
}

/// The one-sided operation that is due, or in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Post {
    /// Read how many blocks the rank has taken.
    Credit,
    /// Write the block.
    Block,
    /// Wait until the block of this number is written.
    Written(u64),
    /// Read the next block from the rank.
    Next(u64),
    /// Tell the rank that the block was taken.
    Taken(Outcome),
}

/// An operation on the lane to or from `peer`.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Carry {
    pub(super) peer: Owner,
    pub(super) action: Action,
    post: Post,
}

impl Machine for Carry {
    type Outcome = Outcome;
    const IDLE: Self = Self { peer: Owner(0), action: Action::Receive, post: Post::Next(0) };
    const SLOTS: u32 = 1;
}

impl Carry {
    pub(super) fn new(peer: Owner, action: Action, context: &Context) -> Self {
        let post = match action {
            Action::Receive => Post::Next(context.lane(peer).received),
            _ if context.has_credit(peer) => Post::Block,
            _ => Post::Credit,
        };
        Self { peer, action, post }
    }

    /// Ends an operation whose block remains here.
    fn keep(&self, context: &mut Context) -> Outcome {
        context.lane_mut(self.peer).is_closed = false;
        #[cfg(test)]
        if matches!(self.action, Action::Put(_)) {
            return Outcome::Full;
        }
        Outcome::Kept
    }

    /// Copies the block that is filled to the operation's slot, and writes it to the lane.
    fn write(
        &mut self,
        context: &mut Context,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<Outcome> {
        let (peer, lane) = (self.peer, *context.lane(self.peer));
        let is_last = lane.ends_sent < context.detail.flushes;
        // Another operation has sent the block, or used the credit.
        if !(is_last || lane.filled >= context.detail.block) || !context.has_credit(peer) {
            return Ok(Step::Done(self.keep(context)));
        }
        port.reserve(1)?;
        let count = HEADER_WORDS + lane.filled * context.detail.message_words;
        let local = SlotRange { slot: port.slot(0), start: 0, words: count };
        let first = context.filled_at(peer);
        // The window and the slot are borrowed by turns.
        for start in (0..count as usize).step_by(COPIED_AT_ONCE) {
            let mut some = [0; COPIED_AT_ONCE];
            let len = COPIED_AT_ONCE.min(count as usize - start);
            let from = words(port.transport().window(), first + start as u64, len as u64)?;
            some.iter_mut().zip(from).for_each(|(to, word)| *to = word.load(Relaxed));
            let to = port.staged(local)?.iter_mut().skip(start);
            to.zip(some).take(len).for_each(|(to, word)| *to = word);
        }
        if let [check, filled, messages @ ..] = port.staged(local)? {
            *filled = Header { count: lane.filled, is_last }.word(lane.sent);
            let covered = core::iter::once(*filled).chain(messages.iter().copied());
            *check = hash::check(lane.sent, covered);
        }
        let mut to = context.block_at(peer, context.me, lane.sent);
        to.words = count;
        port.write(0, local, to)?;
        self.post = Post::Written(lane.sent);
        let place = context.place_bit(lane.sent);
        let lane = context.lane_mut(peer);
        (lane.filled, lane.is_closed, lane.sent) = (0, false, lane.sent + 1);
        lane.writing |= place;
        lane.ends_sent += u64::from(is_last);
        #[cfg(test)]
        self.put(context, port)?;
        Ok(Step::Wait)
    }

    /// Ends an operation that has looked for a block.
    fn looked(&self, outcome: Outcome, context: &mut Context) -> Step<Outcome> {
        context.lane_mut(self.peer).is_looking = false;
        Step::Done(outcome)
    }

    fn local(context: &Context, port: &Port<'_, impl Transport>) -> SlotRange {
        SlotRange { slot: port.slot(0), start: 0, words: context.detail.block_words }
    }

    /// Copies a block that a READ has brought to the own window, if it is complete.
    fn receive(
        &self,
        number: u64,
        context: &mut Context,
        port: &Port<'_, impl Transport>,
    ) -> Result<Option<Outcome>, Error> {
        let landed = port.landed(Self::local(context, port))?;
        let header = header(landed.iter().copied(), number, context);
        let Some(header) = header.filter(|_| number == context.lane(self.peer).received) else {
            return Ok(None);
        };
        let first = context.brought_at(self.peer);
        let to = words(port.transport().window(), first, context.detail.block_words.into())?;
        to.iter().zip(landed).for_each(|(to, word)| to.store(*word, Relaxed));
        let lane = context.lane_mut(self.peer);
        lane.receive(header);
        lane.held = header.count;
        Ok(landed.first().map(|check| Outcome::Received(header.count, *check)))
    }
}

impl Direct<State> for Carry {}

impl Run<Context> for Carry {
    fn advance(
        &mut self,
        context: &mut Context,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<Outcome> {
        #[cfg(test)]
        if self.put(context, port)? {
            return Ok(Step::Done(Outcome::Kept));
        }
        let (me, peer) = (context.me, self.peer);
        match self.post {
            Post::Credit => port.fetch_add(0, context.taken_word(peer, me), 0)?,
            Post::Block => return self.write(context, port),
            Post::Next(number) => {
                port.read(0, context.block_at(me, peer, number), Self::local(context, port))?;
            }
            Post::Taken(_) => port.fetch_add(0, context.taken_word(me, peer), 1)?,
            Post::Written(_) => return Err(Stop::from(Error::Idle)),
        }
        Ok(Step::Wait)
    }

    fn on_completion(
        &mut self,
        Completed { word, .. }: Completed,
        context: &mut Context,
        port: &mut Port<'_, impl Transport>,
    ) -> Next<Outcome> {
        self.post = match self.post {
            Post::Credit => {
                let taken = &mut context.lane_mut(self.peer).taken;
                *taken = word.max(*taken);
                Post::Block
            }
            Post::Next(number) => match self.receive(number, context, port)? {
                Some(outcome) => Post::Taken(outcome),
                None => return Ok(self.looked(Outcome::Nothing, context)),
            },
            Post::Taken(outcome) => return Ok(self.looked(outcome, context)),
            Post::Written(number) => {
                let place = context.place_bit(number);
                context.lane_mut(self.peer).writing &= !place;
                return Ok(Step::Done(Outcome::Sent));
            }
            Post::Block => return Err(Stop::from(Error::Idle)),
        };
        self.advance(context, port)
    }
}
