//! Messages over one-sided operations: WRITEs into mailboxes of another rank's window, and atomics on a counter of
//! each mailbox, in the place of the immediates of RDMA.

use core::sync::atomic::Ordering::Acquire;

use probeline::dsm::Distribution;
use probeline::pipeline::next_line;
use probeline::transport::{
    Completion, OwnRead, Owner, PostError, RemoteWord, Request, Segment, Sizes, Slot, SlotRange,
    Token, read_own_window,
};

use super::super::Costs;
use crate::{Error, Timed};

/// The longest wait for a message.
const MAX_WAIT_NS: u64 = 600_000_000_000;
/// Virtual time after which a wait looks at its mailbox in any case.
const LOOK_NS: u64 = 1_000_000;

/// A READ, and all other operations.
const READ: Token = Token(1);
const SENT: Token = Token(0);

/// The places of mailboxes in each window. Computing rank `r` is owner `2 r`, and the home on its node owner `2 r + 1`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) ranks: usize,
    pub(super) pages: usize,
    pub(super) page_words: usize,
    pub(super) distribution: Distribution,
    /// Buffers for diffs, of each rank at each home, and the words of one.
    pub(super) buffers: usize,
    pub(super) buffer_words: usize,
}

/// Words of a request before its notices: its kind, the page or lock, and the number of the last barrier.
pub(super) const REQUEST_HEAD: usize = 3;

impl Layout {
    /// Words of a notice for each page, a bit.
    pub(super) fn notice_words(&self) -> usize {
        self.pages.div_ceil(64)
    }

    /// Returns the home of a page, and its number there.
    fn place(&self, page: usize) -> (usize, usize) {
        match self.distribution {
            Distribution::Block => (page / self.pages_each(), page % self.pages_each()),
            Distribution::Cyclic => (page % self.ranks, page / self.ranks),
        }
    }

    pub(super) fn home(&self, page: usize) -> usize {
        self.place(page).0
    }

    pub(super) fn pages_each(&self) -> usize {
        self.pages.div_ceil(self.ranks)
    }

    /// Counters of a rank's mailboxes at a home: of each buffer, and of its request.
    pub(super) fn boxes(&self) -> usize {
        self.buffers + 1
    }

    /// Returns the counter of a rank's mailbox at a home.
    pub(super) fn bell(&self, rank: usize, nth: usize) -> usize {
        rank * self.boxes() + nth
    }

    pub(super) fn buffer(&self, rank: usize, nth: usize) -> usize {
        let first = line(self.ranks * self.boxes());
        first + (rank * self.buffers + nth) * self.buffer_words
    }

    pub(super) fn request(&self, rank: usize) -> usize {
        self.buffer(self.ranks, 0) + rank * line(REQUEST_HEAD + self.notice_words())
    }

    /// Returns the counter of buffers that homes have emptied.
    pub(super) fn free(&self, nth: usize) -> usize {
        self.request(self.ranks) + nth
    }

    /// Returns the counter of answers.
    pub(super) fn answered(&self) -> usize {
        self.free(self.buffers)
    }

    /// Returns the counter of barriers that a rank has reached.
    pub(super) fn reached(&self, rank: usize) -> usize {
        self.answered() + 1 + rank
    }

    /// Returns the place of an answer: a page, or notices.
    pub(super) fn answer(&self) -> usize {
        line(self.reached(self.ranks))
    }

    /// Returns the place of a rank's notices for a barrier. No rank is two barriers ahead of another.
    pub(super) fn notices(&self, rank: usize, barrier: u64) -> usize {
        let first = self.answer() + line(self.page_words.max(self.notice_words()));
        first + (2 * rank + usize::from(!barrier.is_multiple_of(2))) * line(self.notice_words())
    }

    /// Slots: one to read the own window, one for requests and notices or for each rank's answers, one for each buffer.
    pub(super) fn slots(&self) -> usize {
        2 + self.buffers.max(self.ranks)
    }

    /// Returns the place of a page at its home.
    pub(super) fn page(&self, page: usize) -> usize {
        self.notices(self.ranks, 0) + self.place(page).1 * self.page_words
    }

    pub(super) fn sizes(&self) -> Sizes {
        let words = [
            self.buffer_words,
            self.page_words,
            REQUEST_HEAD + self.notice_words(),
            self.ranks * self.boxes(),
        ];
        let slot_words = words.into_iter().max().map_or(0, line);
        let window_words = self.page(0) + self.pages_each() * self.page_words;
        let slots = number(self.slots());
        Sizes {
            window_words: window_words as u64,
            slots,
            slot_words: number(slot_words),
            depth: 4 * slots,
        }
    }
}

fn line(words: usize) -> usize {
    usize::try_from(next_line(words as u64)).unwrap_or(usize::MAX)
}

#[allow(clippy::cast_possible_truncation, reason = "numbers of ranks, slots and words of slots")]
pub(super) fn number(count: usize) -> u32 {
    count as u32
}

/// An engine, and counters of what it has done. The transport bounds the waits for completions: it reports lost
/// owners. [`MAX_WAIT_NS`] bounds those for messages.
pub(super) struct Port<E> {
    pub(super) engine: E,
    pub(super) costs: Costs,
    /// Messages sent.
    pub(super) messages: u64,
    /// Times that messages were waited for.
    pub(super) waits: u64,
    own: Vec<u64>,
    has_read: bool,
}

/// A wait for a mailbox: when it has begun.
#[derive(Default)]
pub(super) struct Wait(Option<u64>);

impl<E: Timed> Port<E> {
    pub(super) fn new(engine: E, costs: Costs) -> Self {
        Self { engine, costs, messages: 0, waits: 0, own: Vec::new(), has_read: false }
    }

    /// Lets the modelled CPU work, and the others go on.
    pub(super) fn work(&mut self, ns: u64) {
        if ns > 0 {
            self.engine.pass(ns);
        }
    }

    /// Lets the modelled CPU copy or compare bytes.
    pub(super) fn copy(&mut self, bytes: usize) {
        self.work(self.costs.bytes_ns(bytes as u64));
    }

    fn poll(&mut self) -> Result<(), Error> {
        let mut out = [Completion::default(); 32];
        let count = self.engine.poll(&mut out)?;
        for completion in &out[..count] {
            completion.result?;
            self.has_read |= completion.token == READ;
        }
        Ok(())
    }

    /// Returns a slot to fill, after the WRITE before has left it.
    pub(super) fn stage(&mut self, slot: usize, words: usize) -> Result<&mut [u64], Error> {
        let at = SlotRange { slot: Slot(number(slot)), start: 0, words: number(words) };
        while self.engine.staged(at) == Err(PostError::Busy) {
            self.poll()?;
        }
        Ok(self.engine.staged(at)?)
    }

    fn post(&mut self, token: Token, request: Request) -> Result<(), Error> {
        while self.engine.post(token, request) == Err(PostError::Full) {
            self.poll()?;
        }
        Ok(())
    }

    /// Writes a slot to a mailbox, and then counts the message there.
    pub(super) fn send(
        &mut self,
        (slot, words): (usize, usize),
        to: Owner,
        (mailbox, bell): (usize, usize),
    ) -> Result<(), Error> {
        let from = SlotRange { slot: Slot(number(slot)), start: 0, words: number(words) };
        let start = RemoteWord { owner: to, index: mailbox as u64 };
        self.post(SENT, Request::Write { from, to: Segment { start, words: number(words) } })?;
        while !self.engine.caps().write_then_atomic && self.engine.in_flight() > 0 {
            self.poll()?;
        }
        self.ring(to, bell)
    }

    /// Counts a message, which may be all that there is to tell.
    pub(super) fn ring(&mut self, to: Owner, bell: usize) -> Result<(), Error> {
        let at = RemoteWord { owner: to, index: bell as u64 };
        self.post(SENT, Request::FetchAdd { at, addend: 1 })?;
        self.engine.kick();
        self.messages += 1;
        Ok(())
    }

    /// Reads words of the own window, which others write.
    pub(super) fn own(&mut self, first: usize, words: usize) -> Result<&[u64], Error> {
        let into = SlotRange { slot: Slot(0), start: 0, words: number(words) };
        self.has_read = false;
        self.own.clear();
        loop {
            match read_own_window(&mut self.engine, READ, first as u64, into) {
                Ok(OwnRead::Words(found)) => {
                    self.own.extend(found.iter().map(|word| word.load(Acquire)));
                    return Ok(&self.own);
                }
                Ok(OwnRead::Posted) => break,
                Err(PostError::Full) => self.poll()?,
                Err(error) => return Err(error.into()),
            }
        }
        self.land(into)
    }

    /// Reads words of another owner's window.
    pub(super) fn read(
        &mut self,
        owner: Owner,
        first: usize,
        words: usize,
    ) -> Result<&[u64], Error> {
        let into = SlotRange { slot: Slot(0), start: 0, words: number(words) };
        let start = RemoteWord { owner, index: first as u64 };
        self.has_read = false;
        self.own.clear();
        self.post(READ, Request::Read { from: Segment { start, words: number(words) }, into })?;
        self.messages += 1;
        self.land(into)
    }

    /// Waits for a READ.
    fn land(&mut self, into: SlotRange) -> Result<&[u64], Error> {
        while !self.has_read {
            self.poll()?;
        }
        self.own.extend_from_slice(self.engine.landed(into)?);
        Ok(&self.own)
    }

    /// Waits until a counter of the own window has this value.
    pub(super) fn wait_for(&mut self, bell: usize, count: u64) -> Result<(), Error> {
        let mut wait = Wait::default();
        while self.own(bell, 1)?[0] < count {
            self.idle(&mut wait)?;
        }
        self.waits += u64::from(wait.0.is_some());
        Ok(())
    }

    /// Lets others go on while nothing has come.
    pub(super) fn idle(&mut self, wait: &mut Wait) -> Result<(), Error> {
        let now_ns = self.engine.now_ns();
        if now_ns.saturating_sub(*wait.0.get_or_insert(now_ns)) > MAX_WAIT_NS {
            return Err(Error::Wrong("a rank or home has sent nothing for ten minutes".to_owned()));
        }
        // In virtual time a poll goes on to the next completion, beyond what may come before.
        let is_due = self.engine.in_flight() > self.engine.caps().depth / 2;
        if is_due || !self.engine.is_virtual() {
            self.poll()?;
        }
        self.engine.watch(LOOK_NS);
        Ok(())
    }
}
