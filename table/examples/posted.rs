//! Measures the cost of operations by READs and atomics, with everything in cache: over an engine
//! that executes them at the post, which shows the cost of the pipeline and of the operation's
//! state machine, and over shared memory.
//!
//! `cargo run --release -p probeline-table --example posted` prints nanoseconds an operation with
//! 32 in flight. `posted find|insert COUNT` runs that many over the first engine, for
//! `ci/posted-cost`, which counts their instructions.

use core::error::Error;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;
use core::task::{Context, Poll, Waker};
use std::time::Instant;

use probeline_table::{
    Config, Ended, Finished, Intent, Operation, Outcome, Probing, Shared, Table, Tag,
};
use probeline_transport::{
    Alone, AtomicScope, Caps, Completion, Fault, Geometry, Local, Owner, PostError, Request,
    Segment, Sizes, Token, Transport,
};

/// Operations in flight.
const WIDTH: u32 = 32;
/// 1 MiB.
const BUCKETS: u64 = 1 << 17;
/// Keys of a measurement, which fill the table from load factor 0.125 to 0.25.
const KEYS: u32 = 1 << 14;
const ROUNDS: usize = 21;

type Posted<T> = Table<T, Vec<Operation>>;
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

fn open<T: Transport>(
    engine: impl FnOnce(Sizes) -> Result<T, Failure>,
) -> Result<Posted<T>, Failure> {
    let mut config = Config::new(BUCKETS);
    config.probing = Probing::Lines;
    (config.chunk_buckets, config.max_chunks) = (8, 512);
    config.direct = false;
    let engine = engine(config.sizes(WIDTH))?;
    Ok(Table::open(engine, config, vec![Operation::EMPTY; WIDTH as usize], &mut Alone)?)
}

fn keys(numbers: core::ops::Range<u64>) -> Vec<u64> {
    numbers.map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1).collect()
}

/// Finds all keys by `submit` and `poll_into`.
fn submit_all<T: Transport>(table: &mut Posted<T>, keys: &[u64]) -> Result<(), Failure> {
    let mut out = [Finished::default(); WIDTH as usize];
    let (mut next, mut found) = (0, 0);
    while found < keys.len() {
        while next < keys.len() && table.has_room() {
            table.submit(Tag(next as u64), keys[next], Intent::Find)?;
            next += 1;
        }
        let finished = table.poll_into(&mut out)?;
        assert!(finished.iter().all(|one| one.result == Ok(Ended::Found)));
        found += finished.len();
    }
    Ok(())
}

/// Finds all keys by futures, polled in turn as an executor does.
fn await_all<T: Transport>(shared: &Shared<Posted<T>>, keys: &[u64]) {
    let mut context = Context::from_waker(Waker::noop());
    let mut left = keys.iter();
    let mut tasks: Vec<_> =
        left.by_ref().take(WIDTH as usize).map(|key| shared.find(*key)).collect();
    while !tasks.is_empty() {
        tasks.retain_mut(|task| {
            let Poll::Ready(found) = Pin::new(&mut *task).poll(&mut context) else { return true };
            assert!(found == Ok(true));
            let Some(key) = left.next() else { return false };
            *task = shared.find(*key);
            let _ = Pin::new(task).poll(&mut context);
            true
        });
    }
}

fn ns(start: Instant, operations: usize) -> f64 {
    start.elapsed().as_secs_f64() * 1e9 / operations as f64
}

/// Prints the medians of [`ROUNDS`] rounds.
fn measure<T: Transport>(
    name: &str,
    open: impl Fn() -> Result<Posted<T>, Failure>,
) -> Result<(), Failure> {
    let names = ["insert, batch", "find, batch", "find, poll loop", "find, futures"];
    let mut times = names.map(|_| Vec::new());
    let mut outcomes = vec![Outcome::Full; KEYS as usize];
    let mut found = vec![false; KEYS as usize];
    for _ in 0..ROUNDS {
        let mut table = open()?;
        let warm = keys(KEYS.into()..2 * u64::from(KEYS));
        table.find_or_put_batch(&warm, &mut outcomes)?;
        let keys = keys(0..KEYS.into());
        let start = Instant::now();
        table.find_or_put_batch(&keys, &mut outcomes)?;
        times[0].push(ns(start, keys.len()));
        let start = Instant::now();
        table.find_batch(&keys, &mut found)?;
        times[1].push(ns(start, keys.len()));
        assert!(found.iter().all(|found| *found));
        let start = Instant::now();
        submit_all(&mut table, &keys)?;
        times[2].push(ns(start, keys.len()));
        let shared = Shared::new(table);
        let start = Instant::now();
        await_all(&shared, &keys);
        times[3].push(ns(start, keys.len()));
    }
    for (what, times) in names.iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        println!("{name:>10}  {what:<16} {:>6.1} ns", times[ROUNDS / 2]);
    }
    Ok(())
}

/// Runs `count` operations whose instructions are counted.
fn count(what: &str, count: u64) -> Result<(), Failure> {
    let mut table = open(|sizes| Ok(Immediate::new(sizes)))?;
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
        [] => {
            measure("immediate", || open(|sizes| Ok(Immediate::new(sizes))))?;
            measure("shm", || {
                open(|sizes| Ok(probeline_shm::Builder::new(sizes).open(&mut Alone)?))
            })
        }
        [what, number] => count(what, number.parse()?),
        _ => Err("usage: posted [find|insert COUNT]".into()),
    }
}
