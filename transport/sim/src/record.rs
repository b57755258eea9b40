//! An accepted operation, kept until it is reported and its effect is over.

use alloc::boxed::Box;
use alloc::vec;
use core::mem::take;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use probeline_transport::{OpError, Owner, RemoteWord, Request, Segment, Token};

use crate::faults::FaultInjector;
use crate::trace::digest;
use crate::{Config, Rng};

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Copies words of a window into a slot.
    Read,
    /// Copies words of a slot into a window.
    Write,
    /// Changes one word if it has the expected value.
    CompareAndSwap,
    /// Adds to one word.
    FetchAdd,
}

impl Kind {
    pub(crate) fn is_atomic(self) -> bool {
        matches!(self, Self::CompareAndSwap | Self::FetchAdd)
    }

    pub(crate) fn from_request(request: &Request) -> Self {
        match request {
            Request::Read { .. } => Self::Read,
            Request::Write { .. } => Self::Write,
            Request::CompareAndSwap { .. } => Self::CompareAndSwap,
            Request::FetchAdd { .. } => Self::FetchAdd,
        }
    }
}

/// An accepted operation: its request, its planned events and its words.
pub(crate) struct Record {
    pub(crate) owner: Owner,
    pub(crate) token: Token,
    pub(crate) request: Request,
    pub(crate) done_ns: u64,
    /// The position of its first event in the order of events.
    pub(crate) due: (u64, u64),
    /// The error of its completion, if it completes in error.
    pub(crate) error: Option<OpError>,
    /// The old value of the word, for an atomic.
    pub(crate) value: u64,
    /// Its completion has not been polled yet.
    pub(crate) unreported: bool,
    /// Its next event is in the heap.
    pub(crate) scheduled: bool,
    /// Its next event has no effect.
    pub(crate) cancelled: bool,
    /// Its next event is scheduled after the completion, as a fault.
    pub(crate) late: bool,
    /// The number of sampling events of a READ that are still to come.
    pub(crate) samples_left: u32,
    torn: bool,
    buffers: Buffers,
}

/// The memory of a record, allocated once.
#[derive(Default)]
struct Buffers {
    /// The words to write, or the words read so far.
    words: Box<[u64]>,
    /// The later sample of each word, if words may be torn.
    later: Box<[u64]>,
    /// The word indices of a scattered READ in sampling order, last first.
    order: Box<[u32]>,
}

impl Record {
    pub(crate) fn new(config: &Config) -> Self {
        let words = config.slot_words as usize;
        let buffer = |wanted: bool| vec![0; if wanted { words } else { 0 }].into_boxed_slice();
        let in_order = if config.scatter_reads { config.slot_words } else { 0 };
        let buffers = Buffers {
            words: buffer(true),
            later: buffer(config.tears()),
            order: (0..in_order).collect(),
        };
        let unused = Request::FetchAdd { at: RemoteWord::default(), addend: 0 };
        Self::with(Owner(0), (Token(0), unused), 0, buffers)
    }

    /// Returns a record without planned events.
    fn with(
        owner: Owner,
        (token, request): (Token, Request),
        done_ns: u64,
        buffers: Buffers,
    ) -> Self {
        Self {
            owner,
            token,
            request,
            done_ns,
            due: (0, 0),
            error: None,
            value: 0,
            unreported: true,
            scheduled: false,
            cancelled: false,
            late: false,
            samples_left: 0,
            torn: false,
            buffers,
        }
    }

    pub(crate) fn start(
        &mut self,
        owner: Owner,
        post: (Token, Request),
        done_ns: u64,
        payload: &[u64],
    ) {
        *self = Self::with(owner, post, done_ns, take(&mut self.buffers));
        self.buffers.words[..payload.len()].copy_from_slice(payload);
    }

    /// Sets the number of sampling events: one for each sweep, or one for each word and sweep if
    /// READs are scattered.
    pub(crate) fn plan_samples(&mut self, repeated: bool, torn: bool) {
        let sweeps = 1 + u32::from(repeated) + u32::from(torn);
        self.torn = torn;
        self.samples_left =
            if self.buffers.order.is_empty() { sweeps } else { sweeps * self.len() };
        // The previous READ in this record may have had another length.
        for (place, index) in (0..self.len()).zip(self.buffers.order.iter_mut()) {
            *index = place;
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        Kind::from_request(&self.request)
    }

    /// Returns the first word of a window that it accesses.
    pub(crate) fn word(&self) -> RemoteWord {
        self.request.remote().start
    }

    fn len(&self) -> u32 {
        self.request.remote().words
    }

    /// Draws the time of the next sample, `from_ns` at the earliest. The remaining samples share
    /// the remaining time at random.
    pub(crate) fn next_sample_ns(&self, from_ns: u64, rng: &mut Rng) -> u64 {
        let left_ns = self.done_ns.saturating_sub(from_ns);
        let share_ns = left_ns.saturating_mul(2) / (u64::from(self.samples_left) + 1);
        from_ns + rng.up_to(share_ns).min(left_ns)
    }

    /// Samples one word, or all, from `window`; returns the first sampled word and a digest.
    pub(crate) fn sample(&mut self, window: &[AtomicU64], rng: &mut Rng) -> (RemoteWord, u64) {
        self.samples_left -= 1;
        let start = self.word();
        let source = run(window, self.request.remote());
        if self.buffers.order.is_empty() {
            let into = if self.torn && self.samples_left == 0 {
                &mut self.buffers.later
            } else {
                &mut self.buffers.words
            };
            for (into, from) in into.iter_mut().zip(source) {
                *into = from.load(Acquire);
            }
            return (start, digest(&into[..source.len()]));
        }
        let last_sweep = self.samples_left < self.len();
        let index = self.draw_word(rng);
        let word = source[index as usize].load(Acquire);
        let into =
            if self.torn && last_sweep { &mut self.buffers.later } else { &mut self.buffers.words };
        into[index as usize] = word;
        (RemoteWord { index: start.index + u64::from(index), ..start }, word)
    }

    /// Draws a word not yet sampled in this sweep: one step of a Fisher-Yates shuffle.
    fn draw_word(&mut self, rng: &mut Rng) -> u32 {
        let unsampled = self.samples_left % self.len();
        let drawn = u32::try_from(rng.up_to(unsampled.into())).unwrap_or(0);
        self.buffers.order.swap(drawn as usize, unsampled as usize);
        self.buffers.order[unsampled as usize]
    }

    /// Applies a WRITE or an atomic to `window` and returns the old value of the first word.
    pub(crate) fn apply(&mut self, window: &[AtomicU64]) -> u64 {
        let target = run(window, self.request.remote());
        debug_assert_eq!(target.len(), self.len() as usize, "a post is checked");
        let Some(first) = target.first() else { return 0 };
        let old = match self.request {
            Request::Read { .. } => first.load(Acquire),
            Request::Write { .. } => {
                let old = first.load(Acquire);
                for (to, &word) in target.iter().zip(&self.buffers.words) {
                    to.store(word, Release);
                }
                old
            }
            Request::CompareAndSwap { expected, desired, .. } => {
                match first.compare_exchange(expected, desired, AcqRel, Acquire) {
                    Ok(old) | Err(old) => old,
                }
            }
            Request::FetchAdd { addend, .. } => first.fetch_add(addend, AcqRel),
        };
        self.value = old;
        old
    }

    /// Tears the words that changed between their two samples and returns their number.
    pub(crate) fn tear(&mut self, injector: &mut FaultInjector) -> u64 {
        if !self.torn {
            return 0;
        }
        let len = self.len() as usize;
        let mut torn = 0;
        for (word, &later) in self.buffers.words[..len].iter_mut().zip(&self.buffers.later) {
            if *word != later {
                *word = injector.tear(*word, later);
                torn += 1;
            }
        }
        torn
    }

    /// Returns the words that a READ has sampled.
    pub(crate) fn words(&self) -> &[u64] {
        &self.buffers.words[..self.len() as usize]
    }

    /// Returns the result that the completion carries.
    pub(crate) fn result(&self) -> Result<u64, OpError> {
        let value = if self.kind().is_atomic() { self.value } else { 0 };
        self.error.map_or(Ok(value), Err)
    }
}

/// Returns the words of `at` in its owner's window; empty if the range exceeds the window.
pub(crate) fn run(window: &[AtomicU64], at: Segment) -> &[AtomicU64] {
    let start = usize::try_from(at.start.index).unwrap_or(usize::MAX);
    window.get(start..start.saturating_add(at.words as usize)).unwrap_or(&[])
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use probeline_transport::{Slot, SlotRange};

    use super::*;

    fn read_of(words: u32, repeated: bool, config: &Config) -> Record {
        let mut record = Record::new(config);
        let from = Segment { start: RemoteWord { owner: Owner(0), index: 4 }, words };
        let into = SlotRange { slot: Slot(0), start: 0, words };
        record.start(Owner(0), (Token(1), Request::Read { from, into }), 1_000, &[]);
        record.plan_samples(repeated, config.tears());
        record
    }

    /// Every sweep of a scattered READ takes each word once, between post and completion.
    #[test]
    fn sweep_samples_every_word_once() {
        let config = Config { scatter_reads: true, slot_words: 16, ..Config::default() };
        let window: Vec<AtomicU64> = (0..32).map(AtomicU64::new).collect();
        let mut rng = Rng::new(1, 1);
        let mut orders = Vec::new();
        for _ in 0..50 {
            let mut record = read_of(13, true, &config);
            let mut now_ns = 0;
            for sweep in 0..2 {
                let mut seen = Vec::new();
                for _ in 0..13 {
                    now_ns = record.next_sample_ns(now_ns, &mut rng);
                    seen.push(record.sample(&window, &mut rng).0.index);
                }
                if sweep == 0 {
                    orders.push(seen.clone());
                }
                seen.sort_unstable();
                assert_eq!(seen, (4..17).collect::<Vec<u64>>());
            }
            assert!(now_ns <= 1_000);
            assert_eq!(record.samples_left, 0);
            assert_eq!(record.words(), (4..17).collect::<Vec<u64>>());
        }
        orders.sort_unstable();
        orders.dedup();
        assert_eq!(orders.len(), 50, "the order is drawn anew");
    }

    #[test]
    fn range_beyond_window_is_empty() {
        let window = [const { AtomicU64::new(0) }; 4];
        let at = |index| Segment { start: RemoteWord { owner: Owner(0), index }, words: 2 };
        assert_eq!([2, 3, u64::MAX].map(|index| run(&window, at(index)).len()), [2, 0, 0]);
    }
}
