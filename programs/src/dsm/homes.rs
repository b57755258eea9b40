//! Home-based lazy release consistency with active homes, as a baseline: ORIG and PIPE of Noronha and Panda, "Reducing
//! Diff Overhead in Software DSM Systems using RDMA Operations in InfiniBand" (2004).
//!
//! A rank copies a page before its first edit, and at a release or barrier sends the home a diff. ORIG sends a message
//! for each diff, PIPE packs the diffs of several pages. Every second process of the job is a home, the paper's thread
//! for requests: it answers faults, applies diffs and keeps locks. Where the text says nothing: homes are blocks of
//! consecutive pages as in a region, each lock stays with its manager, and barriers are all-to-all.
//!
//! The printed algorithms are repaired in four places, each named where it is.

mod diff;
mod home;
mod port;

use core::marker::PhantomData;
use core::ops::Range;

use bytemuck::{Pod, cast_slice, cast_slice_mut};
use probeline::dsm::Distribution;
use probeline::dsm::Stats;
use probeline::transport::{AtomicScope, Exchange, Sizes};

use self::diff::{Message, changed, runs};
use self::home::{ACQUIRE, FETCH, Home, LEAVE, RELEASE, home_owner, owner};
use self::port::{Layout, Port, REQUEST_HEAD, number};
use super::{Changed, Costs, Kernel, Measured, Shared};
use crate::{Error, Timed};

/// The buffers for diffs of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// Packed messages in flight: the pipeline depth.
    pub depth: u32,
    /// Bytes of one.
    pub bytes: u32,
    /// Whether diffs are packed (PIPE). Otherwise the same memory is divided into buffers of a diff each (ORIG).
    pub packs: bool,
    /// Whether ranks read pages from the windows of homes. Otherwise they ask homes for them.
    pub reads_pages: bool,
    /// How homes share the pages.
    pub distribution: Distribution,
}

impl Buffers {
    /// Returns the places of all mailboxes.
    fn layout(self, ranks: usize, elements_bytes: usize, page_words: usize) -> Layout {
        let (depth, words) = (self.depth as usize, self.bytes as usize / 8);
        // A page of which each second half word has changed: a run of one each; more is split.
        let one = (page_words + 4).next_multiple_of(8).min(words);
        Layout {
            ranks,
            pages: elements_bytes.div_ceil(8 * page_words),
            page_words,
            distribution: self.distribution,
            buffers: if self.packs { depth } else { depth * words / one },
            buffer_words: if self.packs { words } else { one },
        }
    }

    /// Returns the sizes of the engine of each process.
    pub(super) fn sizes<T>(self, owners: u32, elements: usize, page_words: u32) -> Sizes {
        self.layout(owners as usize / 2, elements * size_of::<T>(), page_words as usize).sizes()
    }
}

/// The state of a page as a rank knows it.
#[derive(Clone, Default)]
struct Page {
    is_valid: bool,
    /// The page before its edits since the last release.
    twin: Option<Vec<u64>>,
}

/// The memory of a rank, whose pages come from homes.
pub(super) struct Homes<'e, T, E> {
    port: Port<E>,
    exchange: &'e mut dyn Exchange,
    layout: Layout,
    buffers: Buffers,
    mirror: Vec<u64>,
    pages: Vec<Page>,
    /// Pages with a twin.
    edited: Vec<usize>,
    message: Message,
    /// The buffer that is filled next, and the messages sent from each.
    current: usize,
    sent: Vec<u64>,
    /// Pages changed since the last barrier by this rank, or by ranks whose notices it has; a bit each.
    changed: Vec<u64>,
    known: Vec<u64>,
    requests: u64,
    stats: Stats,
    of: PhantomData<T>,
}

/// Runs a program as a computing rank or as a home.
pub(super) fn run<T: Pod, E: Timed>(
    (buffers, page_words, costs): (Buffers, u32, Costs),
    kernel: &impl Kernel<T>,
    engine: E,
    exchange: &mut dyn Exchange,
) -> Result<super::Run, Error> {
    let owners = exchange.owners() as usize;
    if !owners.is_multiple_of(2) {
        let why = "every second rank is a home: give an even number of ranks";
        return Err(Error::Parameter(why.to_owned()));
    }
    if buffers.reads_pages && engine.caps().atomics == AtomicScope::Device {
        let why =
            "on this device a READ may miss what a home's CPU has stored: let ranks ask for pages";
        return Err(Error::Parameter(why.to_owned()));
    }
    let bytes = kernel.elements() * size_of::<T>();
    let layout = buffers.layout(owners / 2, bytes, page_words as usize);
    let me = exchange.me().0 as usize;
    let port = Port::new(engine, costs);
    if !me.is_multiple_of(2) {
        // Its engine lives until all have finished.
        let mut home = Home::new(port, layout, me / 2);
        let served = home.serve();
        let messages = super::finish(exchange, served)?;
        return Ok(super::Run { messages, ..Default::default() });
    }
    let homes = Homes {
        port,
        exchange,
        layout,
        buffers,
        mirror: vec![0; layout.pages * layout.page_words],
        // Windows and homes begin as zeros.
        pages: vec![Page { is_valid: true, twin: None }; layout.pages],
        edited: Vec::new(),
        message: Message::default(),
        current: 0,
        sent: vec![0; layout.buffers],
        changed: vec![0; layout.notice_words()],
        known: vec![0; layout.notice_words()],
        requests: 0,
        stats: Stats::default(),
        of: PhantomData,
    };
    super::run_kernel(costs, kernel, homes)
}

impl<T: Pod, E: Timed> Homes<'_, T, E> {
    /// Brings the pages of a range to the mirror, one after the other, as a program faults.
    fn fault(&mut self, range: &Range<usize>, is_edit: bool) -> Result<(), Error> {
        let bytes = range.start * size_of::<T>()..range.end * size_of::<T>();
        let page_bytes = self.layout.page_words * 8;
        for page in bytes.start / page_bytes..bytes.end.div_ceil(page_bytes) {
            if bytes.is_empty() {
                break;
            }
            if !self.pages[page].is_valid {
                self.fetch(page)?;
            }
            if is_edit && self.pages[page].twin.is_none() {
                let twin = self.mirror[self.words(page)].to_vec();
                self.pages[page].twin = Some(twin);
                self.port.copy(page_bytes);
                self.edited.push(page);
            }
        }
        Ok(())
    }

    fn words(&self, page: usize) -> Range<usize> {
        page * self.layout.page_words..(page + 1) * self.layout.page_words
    }

    fn fetch(&mut self, page: usize) -> Result<(), Error> {
        let (home, words) = (self.layout.home(page), self.words(page));
        self.port.copy(words.len() * 8);
        let found = if self.buffers.reads_pages {
            self.port.read(home_owner(home), self.layout.page(page), words.len())?
        } else {
            self.request(home, FETCH, page)?;
            self.port.wait_for(self.layout.answered(), self.requests)?;
            self.port.own(self.layout.answer(), words.len())?
        };
        self.mirror[words].copy_from_slice(found);
        self.pages[page].is_valid = true;
        self.stats.fetches += 1;
        Ok(())
    }

    /// Sends a request for a page or lock to the home on a node, after the answer to the last one.
    fn request(&mut self, node: usize, kind: u64, number: usize) -> Result<(), Error> {
        self.port.wait_for(self.layout.answered(), self.requests)?;
        let notices: &[u64] = if kind == RELEASE { &self.known } else { &[] };
        let words = REQUEST_HEAD + notices.len();
        let slot = self.port.stage(1, words)?;
        slot[..REQUEST_HEAD].copy_from_slice(&[kind, number as u64, self.stats.barriers]);
        slot[REQUEST_HEAD..].copy_from_slice(notices);
        let me = self.rank();
        let boxes = (self.layout.request(me), self.layout.bell(me, self.layout.buffers));
        self.requests += 1;
        self.port.send((1, words), home_owner(node), boxes)
    }

    /// Sends the diffs of all edited pages, and waits until they have been applied.
    fn flush(&mut self) -> Result<(), Error> {
        let mut edited = core::mem::take(&mut self.edited);
        if edited.is_empty() {
            return Ok(());
        }
        self.stats.flushes += 1;
        // Repair: the algorithm has one destination. Pages are grouped by home, the own one first.
        let (me, layout) = (self.rank(), self.layout);
        let turn = |page: &usize| (layout.home(*page) + layout.ranks - me) % layout.ranks;
        edited.sort_unstable_by_key(|page| (turn(page), *page));
        for group in edited.chunk_by(|one, next| turn(one) == turn(next)) {
            group.iter().try_for_each(|page| self.send_diff(*page))?;
            self.send_message(layout.home(group[0]))?;
        }
        // Repair: the algorithm does not wait for the last messages, and others would fetch old pages.
        (0..self.layout.buffers)
            .try_for_each(|nth| self.port.wait_for(self.layout.free(nth), self.sent[nth]))
    }

    fn send_diff(&mut self, page: usize) -> Result<(), Error> {
        let Some(twin) = self.pages[page].twin.take() else { return Ok(()) };
        let mut runs = runs(cast_slice(&twin), cast_slice(&self.mirror[self.words(page)]));
        self.port.copy(2 * twin.len() * 8 + runs.len() * 4);
        if runs.is_empty() {
            return Ok(());
        }
        for pages in [&mut self.changed, &mut self.known] {
            pages[page / 64] |= 1 << (page % 64);
        }
        self.stats.diffs += 1;
        self.stats.written_words += changed(&runs).div_ceil(2);
        let (home, room) = (self.layout.home(page), 2 * (self.layout.buffer_words - 1));
        let interval = number(usize::try_from(self.stats.flushes).unwrap_or_default());
        while !self.message.append(number(page), interval, &runs, room) {
            if self.message.records.is_empty() {
                // Repair: the algorithm never sends a diff longer than a buffer.
                runs = self.message.split(number(page), interval, &runs, room);
            }
            // Repair: step 8 goes on to the next page, and would skip this one, which had no room.
            self.send_message(home)?;
        }
        if self.buffers.packs { Ok(()) } else { self.send_message(home) }
    }

    /// Sends what is packed, when the home has emptied the buffer.
    fn send_message(&mut self, home: usize) -> Result<(), Error> {
        let records = core::mem::take(&mut self.message.records);
        if records.is_empty() {
            return Ok(());
        }
        let nth = self.current;
        self.port.wait_for(self.layout.free(nth), self.sent[nth])?;
        let words = 1 + records.len().div_ceil(2);
        let slot = self.port.stage(2 + nth, words)?;
        slot[0] = records.len() as u64;
        cast_slice_mut(&mut slot[1..])[..records.len()].copy_from_slice(&records);
        let me = self.rank();
        let boxes = (self.layout.buffer(me, nth), self.layout.bell(me, nth));
        self.port.send((2 + nth, words), home_owner(home), boxes)?;
        self.sent[nth] += 1;
        self.stats.writes += 1;
        self.current = (nth + 1) % self.layout.buffers;
        Ok(())
    }

    /// Drops the copies of pages that others have changed.
    fn obey(&mut self, notices: &[u64]) -> Result<(), Error> {
        let is_noted = |page: &usize| notices[page / 64] >> (page % 64) & 1 == 1;
        if self.edited.iter().any(is_noted) {
            // Changes of a page that is fetched again reach its home first.
            self.flush()?;
        }
        for page in (0..self.pages.len()).filter(is_noted) {
            self.stats.notices += 1;
            self.pages[page].is_valid = false;
        }
        Ok(())
    }
}

impl<T: Pod, E: Timed> Shared<T> for Homes<'_, T, E> {
    fn rank(&self) -> usize {
        self.exchange.me().0 as usize / 2
    }

    fn ranks(&self) -> usize {
        self.layout.ranks
    }

    fn view(&mut self, range: Range<usize>) -> Result<&[T], Error> {
        self.fault(&range, false)?;
        Ok(&cast_slice(&self.mirror)[range])
    }

    fn edit(&mut self, range: Range<usize>) -> Result<&mut [T], Error> {
        self.fault(&range, true)?;
        Ok(&mut cast_slice_mut(&mut self.mirror)[range])
    }

    fn change<const N: usize>(
        &mut self,
        views: [Range<usize>; N],
        edit: Range<usize>,
    ) -> Result<Changed<'_, T, N>, Error> {
        views.iter().try_for_each(|range| self.fault(range, false))?;
        self.fault(&edit, true)?;
        super::disjoint(cast_slice_mut(&mut self.mirror), views, edit)
    }

    fn locked(
        &mut self,
        lock: u32,
        change: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let lock = lock as usize;
        let manager = lock % self.layout.ranks;
        self.request(manager, ACQUIRE, lock)?;
        self.port.wait_for(self.layout.answered(), self.requests)?;
        let words = self.layout.notice_words();
        let notices = self.port.own(self.layout.answer(), words)?.to_vec();
        self.obey(&notices)?;
        // The next holder must know all that this rank knows.
        self.known.iter_mut().zip(&notices).for_each(|(all, new)| *all |= new);
        self.stats.acquires += 1;
        change(self)?;
        self.flush()?;
        self.request(manager, RELEASE, lock)
    }

    fn barrier(&mut self) -> Result<(), Error> {
        self.flush()?;
        self.stats.barriers += 1;
        let (me, words, barrier) = (self.rank(), self.layout.notice_words(), self.stats.barriers);
        self.port.stage(1, words)?.copy_from_slice(&self.changed);
        let others = (0..self.layout.ranks).filter(|rank| *rank != me);
        for rank in others.clone() {
            let boxes = (self.layout.notices(me, barrier), self.layout.reached(me));
            self.port.send((1, words), owner(rank), boxes)?;
        }
        for rank in others {
            self.port.wait_for(self.layout.reached(rank), barrier)?;
            let notices = self.port.own(self.layout.notices(rank, barrier), words)?.to_vec();
            self.obey(&notices)?;
        }
        self.changed.fill(0);
        self.known.fill(0);
        Ok(())
    }

    fn work(&mut self, flops: u64) {
        self.port.work(self.port.costs.flops_ns(flops));
    }
}

impl<T: Pod, E: Timed> Measured for Homes<'_, T, E> {
    fn now_ns(&self) -> u64 {
        self.port.engine.now_ns()
    }

    fn counts(&self) -> (Stats, u64) {
        (Stats { waits: self.port.waits, ..self.stats }, self.port.messages)
    }

    fn leave(&mut self) -> Result<(), Error> {
        for node in 0..self.layout.ranks {
            self.request(node, LEAVE, 0)?;
        }
        self.port.wait_for(self.layout.answered(), self.requests)
    }

    fn exchange(&mut self) -> &mut dyn Exchange {
        self.exchange
    }
}
