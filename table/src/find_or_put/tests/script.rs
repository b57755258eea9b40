//! A transport that is controlled by the test, and a pipeline over it.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;
use std::collections::VecDeque;

use probeline_pipeline::Pipeline;
use probeline_transport::{
    AtomicScope, Caps, Completion, Fault, Geometry, Local, OpError, Owner, PostError, RemoteWord,
    Request, Segment, Slot, SlotError, Token, Transport,
};

use crate::cache::CacheEntry;
use crate::config::Config;
use crate::context::Context;
use crate::find_or_put::FindOrPut;
use crate::layout::Layout;
use crate::narrow::Operation;

pub(super) const C: u32 = 8;

/// A transport on which posts take effect and complete only when the test decides, in the order
/// that it decides.
pub(super) struct Script {
    caps: Caps,
    geometry: Geometry,
    pub(super) windows: Vec<Vec<AtomicU64>>,
    slots: Vec<Vec<u64>>,
    pub(super) posted: Vec<(Token, Request)>,
    pub(super) ended: VecDeque<(Completion, Request)>,
    /// The number of further posts to accept, and the error that refuses the next one.
    pub(super) refuse: Option<(u32, PostError)>,
    fault: Option<Fault>,
    /// Whether a poll without completions completes the last post, so that blocking calls return.
    pub(super) runs: bool,
}

impl Script {
    /// Lets the `nth` post in flight take effect and complete.
    pub(super) fn end(&mut self, nth: usize) {
        let (token, request) = self.posted.remove(nth);
        let word = |at: RemoteWord| &self.windows[at.owner.0 as usize][index(at.index)];
        let value = match request {
            Request::Read { from, into } => {
                for i in 0..from.words {
                    let at = RemoteWord { index: from.start.index + u64::from(i), ..from.start };
                    let value = word(at).load(SeqCst);
                    self.slots[into.slot.0 as usize][(into.start + i) as usize] = value;
                }
                0
            }
            Request::Write { .. } => unreachable!("the pipeline writes nothing"),
            Request::CompareAndSwap { at, expected, desired } => {
                match word(at).compare_exchange(expected, desired, SeqCst, SeqCst) {
                    Ok(old) | Err(old) => old,
                }
            }
            Request::FetchAdd { at, addend } => word(at).fetch_add(addend, SeqCst),
        };
        self.ended.push_back((Completion { token, result: Ok(value) }, request));
    }

    pub(super) fn fail(&mut self, nth: usize, error: OpError) {
        let (token, request) = self.posted.remove(nth);
        self.ended.push_back((Completion { token, result: Err(error) }, request));
    }

    pub(super) fn die(&mut self, fault: Fault) {
        self.fault = Some(fault);
        while !self.posted.is_empty() {
            self.fail(0, OpError::Flushed);
        }
    }

    fn is_busy(&self, slot: Slot) -> bool {
        let on_slot = |request: &Request| request.local().is_some_and(|local| local.slot == slot);
        self.posted.iter().any(|(_, request)| on_slot(request))
            || self.ended.iter().any(|(_, request)| on_slot(request))
    }
}

impl Transport for Script {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn in_flight(&self) -> u32 {
        u32::try_from(self.posted.len() + self.ended.len()).unwrap()
    }

    fn post(&mut self, token: Token, request: Request) -> Result<(), PostError> {
        self.geometry.check(&self.caps, &request)?;
        if self.fault.is_some() {
            return Err(PostError::Closed);
        }
        if self.in_flight() == self.caps.depth {
            return Err(PostError::Full);
        }
        match &mut self.refuse {
            Some((0, error)) => {
                let error = *error;
                self.refuse = None;
                return Err(error);
            }
            Some((more, _)) => *more -= 1,
            None => {}
        }
        self.posted.push((token, request));
        Ok(())
    }

    fn kick(&mut self) {}

    fn poll(&mut self, out: &mut [Completion]) -> Result<usize, Fault> {
        if self.runs && self.ended.is_empty() && !self.posted.is_empty() {
            self.end(self.posted.len() - 1);
        }
        let mut count = 0;
        for place in out {
            let Some((completion, _)) = self.ended.pop_front() else { break };
            *place = completion;
            count += 1;
        }
        match self.fault {
            Some(fault) if count == 0 && self.in_flight() == 0 => Err(fault),
            _ => Ok(count),
        }
    }

    fn landed(&self, at: Local) -> Result<&[u64], SlotError> {
        if self.is_busy(at.slot) {
            return Err(SlotError::Busy);
        }
        let slot = &self.slots[at.slot.0 as usize];
        slot.get(at.start as usize..(at.start + at.words) as usize).ok_or(SlotError::OutOfRange)
    }

    fn staged(&mut self, _: Local) -> Result<&mut [u64], SlotError> {
        unreachable!("the pipeline writes nothing")
    }

    fn window(&self) -> &[AtomicU64] {
        &self.windows[0]
    }

    fn direct(&self, _: Segment) -> Option<&[AtomicU64]> {
        None
    }
}

pub(super) type Scripted = Pipeline<Script, Vec<Operation>, Context<[CacheEntry; 0]>, FindOrPut>;

/// Creates a pipeline on `owners` parts of `part` buckets without headers, with a probe limit of
/// `chunks` chunks of 8 buckets.
pub(super) fn pipeline(
    owners: u32,
    part: u64,
    chunks: u32,
    operations: u32,
    depth: u32,
) -> Scripted {
    let window = || (0..part).map(|_| AtomicU64::new(0)).collect();
    let script = Script {
        caps: Caps {
            depth,
            atomics: AtomicScope::Device,
            words_per_op: C,
            word_reads_whole: true,
            write_then_atomic: false,
            names_lost_owners: true,
            needs_owner_progress: false,
            poll_may_wait: false,
        },
        geometry: Geometry {
            me: Owner(0),
            owners,
            window_words: part,
            slots: 2 * operations,
            slot_words: C,
        },
        windows: (0..owners).map(|_| window()).collect(),
        slots: vec![vec![0; C as usize]; 2 * operations as usize],
        posted: Vec::new(),
        ended: VecDeque::new(),
        refuse: None,
        fault: None,
        runs: false,
    };
    let config = Config { chunk_buckets: C, max_chunks: chunks, ..Config::paper(part) };
    let layout = Layout::new(owners, part, 0, config.probing);
    let context = Context::new(&script, layout, &config, []);
    Pipeline::new(script, context, vec![Operation::EMPTY; operations as usize]).unwrap()
}

fn index(index: u64) -> usize {
    usize::try_from(index).unwrap()
}
