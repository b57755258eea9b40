//! Runs operations by READs and atomics, 32 in flight, with everything in cache, over an engine that
//! executes them at the post: `posted find|insert COUNT`. `ci/posted-cost` counts their
//! instructions, which are those of the pipeline and of the operation's state machine.

use core::error::Error;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;

use probeline_table::{Config, Operation, Outcome, Probing, Table};
use probeline_transport::{
    Alone, AtomicScope, Caps, Completion, Fault, Geometry, Local, Owner, PostError, Request,
    Segment, Sizes, Token, Transport,
};

/// Operations in flight.
const WIDTH: u32 = 32;
/// 1 MiB.
const BUCKETS: u64 = 1 << 17;

type Failure = Box<dyn Error>;

/// An engine that executes an operation when it is posted.
struct Immediate {
    caps: Caps,
    geometry: Geometry,
    window: Vec<AtomicU64>,
    slots: Vec<u64>,
    done: [Completion; 256],
    posted: usize,
    polled: usize,
}

impl Immediate {
    fn new(sizes: Sizes) -> Self {
        let words = usize::try_from(sizes.window_words).unwrap_or(0);
        let caps = Caps {
            depth: sizes.depth.min(128),
            atomics: AtomicScope::Cpu,
            words_per_op: sizes.slot_words,
            word_reads_whole: true,
            write_then_atomic: true,
            names_lost_owners: true,
            needs_owner_progress: false,
            poll_may_wait: false,
        };
        Self {
            caps,
            geometry: sizes.geometry(Owner(0), 1),
            window: (0..words).map(|_| AtomicU64::new(0)).collect(),
            slots: vec![0; sizes.slots as usize * sizes.slot_words as usize],
            done: [Completion::default(); 256],
            posted: 0,
            polled: 0,
        }
    }

    fn slot(&self, at: Local) -> core::ops::Range<usize> {
        let start = at.slot.0 as usize * self.geometry.slot_words as usize + at.start as usize;
        start..start + at.words as usize
    }
}

impl Transport for Immediate {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    #[inline]
    fn in_flight(&self) -> u32 {
        u32::try_from(self.posted - self.polled).unwrap_or(u32::MAX)
    }

    #[inline(always)]
    fn post(&mut self, token: Token, request: Request) -> Result<(), PostError> {
        let words = self.direct(request.remote()).ok_or(PostError::OutOfRange)?;
        let old = match request {
            Request::Read { into, .. } => {
                let start = usize::try_from(request.remote().start.index).unwrap_or(usize::MAX);
                let slot = self.slot(into);
                let target = self.slots.get_mut(slot).ok_or(PostError::OutOfRange)?;
                let words = self.window.get(start..).unwrap_or_default();
                for (target, word) in target.iter_mut().zip(words) {
                    *target = word.load(SeqCst);
                }
                0
            }
            Request::Write { .. } => return Err(PostError::OutOfRange),
            Request::CompareAndSwap { expected, desired, .. } => {
                let (Ok(old) | Err(old)) =
                    words[0].compare_exchange(expected, desired, SeqCst, SeqCst);
                old
            }
            Request::FetchAdd { addend, .. } => words[0].fetch_add(addend, SeqCst),
        };
        self.done[self.posted % 256] = Completion { token, result: Ok(old) };
        self.posted += 1;
        Ok(())
    }

    fn kick(&mut self) {}

    #[inline]
    fn poll(&mut self, out: &mut [Completion]) -> Result<usize, Fault> {
        let count = out.len().min(self.posted - self.polled);
        for place in &mut out[..count] {
            *place = self.done[self.polled % 256];
            self.polled += 1;
        }
        Ok(count)
    }

    #[inline]
    fn landed(&self, at: Local) -> Result<&[u64], PostError> {
        self.slots.get(self.slot(at)).ok_or(PostError::OutOfRange)
    }

    #[inline]
    fn staged(&mut self, at: Local) -> Result<&mut [u64], PostError> {
        let slot = self.slot(at);
        self.slots.get_mut(slot).ok_or(PostError::OutOfRange)
    }

    fn window(&self) -> &[AtomicU64] {
        &self.window
    }

    #[inline]
    fn direct(&self, at: Segment) -> Option<&[AtomicU64]> {
        let start = usize::try_from(at.start.index).ok()?;
        self.window.get(start..start + at.words as usize)
    }
}

fn keys(numbers: core::ops::Range<u64>) -> Vec<u64> {
    numbers.map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1).collect()
}

/// Runs `count` operations whose instructions are counted.
fn count(what: &str, count: u64) -> Result<(), Failure> {
    let mut config = Config::new(BUCKETS);
    config.probing = Probing::Lines;
    (config.chunk_buckets, config.max_chunks) = (8, 512);
    config.direct = false;
    let engine = Immediate::new(config.sizes(WIDTH));
    let mut table =
        Table::open(engine, config, vec![Operation::EMPTY; WIDTH as usize], &mut Alone)?;
    let keys = keys(0..count);
    let mut outcomes = vec![Outcome::Full; keys.len()];
    table.find_or_put_batch(&keys, &mut outcomes)?;
    if what == "find" {
        table.find_batch(&keys, &mut vec![false; keys.len()])?;
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [what, number] => count(what, number.parse()?),
        _ => Err("usage: posted find|insert COUNT".into()),
    }
}
