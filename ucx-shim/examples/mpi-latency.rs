//! Measures the latency of MPI as a transport beside a C loop of the same MPI calls.
//!
//! usage, under mpirun with 2 ranks: mpi-latency LOOP_LIBRARY [AT_MOST]
//!
//! `check-latency` builds the library from `bench/rma_loop.c`. Both run in one process and take
//! turns; each operation is a row of a table. The owner polls, as a rank does that computes. Fails
//! if the transport takes more than `AT_MOST` of the loop's time, 1.25 by default.

mod shared;

use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::Ordering::Acquire;
use core::time::Duration;
use std::env;
use std::ffi::CString;
use std::time::Instant;

use probeline_transport::{
    Completion, Exchange, Local, Owner, PostError, RemoteWord, Segment, Sizes, Slot, Token,
    Transport,
};
use probeline_ucx_shim::mpi::{Builder, Engine, World};
use shared::{MAX_WORDS, Operation, Result, buffer_like, median};

/// The default of `AT_MOST`, which holds on a machine with other work too. The target is 1.15; some
/// components take 20 ns for a READ, of which 3 ns are 15%.
const DEFAULT_AT_MOST: f64 = 1.25;
/// The number of turns, odd for a median.
const TURNS: usize = 501;
/// The minimum duration of a turn: long compared to reading the clock, short compared to a time
/// slice.
const TURN: Duration = Duration::from_micros(200);
/// The word that rank 0 adds 1 to when it has measured an operation.
const STOP: RemoteWord = RemoteWord { owner: Owner(1), index: 800 };
/// The maximum time to wait for the other rank.
const LIMIT: Duration = Duration::from_secs(60);

fn main() -> Result<()> {
    let library = env::args().nth(1).ok_or("usage: mpi-latency LOOP_LIBRARY [AT_MOST]")?;
    let at_most = env::args().nth(2).map_or(Ok(DEFAULT_AT_MOST), |ratio| ratio.parse())?;
    let world = World::init(LIMIT)?;
    let mut members = world.members()?;
    if members.owners() != 2 {
        return Err("start it with 2 ranks".into());
    }
    let mut engine = Builder::new(Sizes::new(1024).with_slots(1, MAX_WORDS)).open(&mut members)?;
    let slot = Local { slot: Slot(0), start: 0, words: MAX_WORDS };
    let mut plain = Loop::load(&library, engine.landed(slot)?)?;
    let mut worst: f64 = 0.0;
    for (served, operation) in (0..).zip(Operation::ALL) {
        if members.me() == Owner(0) {
            worst = worst.max(measure(&mut engine, &mut plain, operation)?);
            tell_finished(&mut engine)?;
        } else {
            serve(&mut engine, served)?;
        }
        members.barrier()?;
    }
    plain.close()?;
    members.barrier()?;
    if worst > at_most {
        return Err(format!("{worst:.3} is more than {at_most} of the loop's time").into());
    }
    Ok(())
}

fn tell_finished(engine: &mut Engine) -> Result<()> {
    finish(engine, |engine| engine.fetch_add(Token(0), STOP, 1))
}

/// Polls until rank 0 has measured an operation, so that it does not wait for this rank.
fn serve(engine: &mut Engine, served: u64) -> Result<()> {
    let start = Instant::now();
    let at = usize::try_from(STOP.index)?;
    while engine.window()[at].load(Acquire) == served {
        engine.poll(&mut [Completion::default()])?;
        if start.elapsed() > LIMIT {
            return Err("the other rank did not finish in time".into());
        }
    }
    Ok(())
}

/// Prints a row with both medians. Returns the median of the ratios of successive turns.
fn measure(engine: &mut Engine, plain: &mut Loop, operation: Operation) -> Result<f64> {
    let mut rounds = 16;
    while time(|| plain.run(operation, rounds))? < TURN {
        rounds *= 2;
    }
    let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..TURNS {
        let their = time(|| plain.run(operation, rounds))?.as_secs_f64();
        let our = time(|| run(engine, operation, rounds))?.as_secs_f64();
        ours.push(our);
        theirs.push(their);
        ratios.push(our / their);
    }
    let each_ns = |times: &mut Vec<f64>| median(times) / f64::from(rounds) * 1e9;
    let (our_ns, their_ns, ratio) = (each_ns(&mut ours), each_ns(&mut theirs), median(&mut ratios));
    let (over, name) = (&engine.info().component, operation.name());
    println!("| {over} | {name} | {our_ns:.1} | {their_ns:.1} | {ratio:.2} |");
    Ok(ratio)
}

fn time(work: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed())
}

/// Executes `rounds` operations over the transport, one at a time.
fn run(engine: &mut Engine, operation: Operation, rounds: i32) -> Result<()> {
    let at = RemoteWord { owner: Owner(1), index: 0 };
    match operation {
        Operation::Read(words) => {
            let from = Segment { start: at, words };
            let into = Local { slot: Slot(0), start: 0, words };
            (0..rounds).try_for_each(|_| finish(engine, |engine| engine.read(Token(0), from, into)))
        }
        Operation::CompareAndSwap => (0..rounds)
            .try_for_each(|_| finish(engine, |engine| engine.compare_and_swap(Token(0), at, 0, 0))),
        Operation::FetchAdd => {
            (0..rounds).try_for_each(|_| finish(engine, |engine| engine.fetch_add(Token(0), at, 0)))
        }
    }
}

/// Posts one operation and polls until it has completed. Inlined into the loop, as in C.
#[inline(always)]
fn finish(
    engine: &mut Engine,
    post: impl FnOnce(&mut Engine) -> core::result::Result<(), PostError>,
) -> Result<()> {
    let mut end = [Completion::default()];
    post(engine)?;
    while engine.poll(&mut end)? == 0 {}
    end[0].result?;
    Ok(())
}

type Open = unsafe extern "C" fn(c_int) -> c_int;
type Read = unsafe extern "C" fn(c_int, c_int, c_int, *mut u64) -> c_int;
type Atomic = unsafe extern "C" fn(c_int, c_int, *mut u64) -> c_int;
type Close = unsafe extern "C" fn() -> c_int;

/// The loop of `bench/rma_loop.c`, loaded from its shared library.
struct Loop {
    read: Read,
    cas: Atomic,
    fadd: Atomic,
    close: Close,
    /// The buffer of READs, and of the words of atomics.
    words: &'static mut [u64],
}

impl Loop {
    /// Loads the library and opens its window; both ranks call it. READs land in a buffer like
    /// `slot` of the engine.
    fn load(path: &str, slot: &[u64]) -> Result<Self> {
        let path = CString::new(path)?;
        // SAFETY: a C string; the library runs no code when it is loaded.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        if library.is_null() {
            return Err(format!("cannot load {path:?}").into());
        }
        let symbol = |name: &CStr| {
            // SAFETY: a loaded library and a C string.
            let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
            if symbol.is_null() { Err(format!("{name:?} is missing")) } else { Ok(symbol) }
        };
        // SAFETY: the functions of `bench/rma_loop.c`, which have these types.
        let (open, plain) = unsafe {
            use core::mem::transmute;
            let open = transmute::<*mut c_void, Open>(symbol(c"loop_open")?);
            let read = transmute::<*mut c_void, Read>(symbol(c"loop_read")?);
            let cas = transmute::<*mut c_void, Atomic>(symbol(c"loop_cas")?);
            let fadd = transmute::<*mut c_void, Atomic>(symbol(c"loop_fadd")?);
            let close = transmute::<*mut c_void, Close>(symbol(c"loop_close")?);
            (open, Self { read, cas, fadd, close, words: buffer_like(slot) })
        };
        // SAFETY: MPI runs, and both ranks call it.
        check(unsafe { open(1024) })?;
        Ok(plain)
    }

    fn run(&mut self, operation: Operation, rounds: c_int) -> Result<()> {
        let words = self.words.as_mut_ptr();
        // SAFETY: the window is open, and the buffer has room for all words; the calls do not use
        // it after they return.
        check(unsafe {
            match operation {
                Operation::Read(count) => (self.read)(rounds, 1, count.cast_signed(), words),
                Operation::CompareAndSwap => (self.cas)(rounds, 1, words),
                Operation::FetchAdd => (self.fadd)(rounds, 1, words),
            }
        })
    }

    fn close(&self) -> Result<()> {
        // SAFETY: the window is open, and both ranks call it.
        check(unsafe { (self.close)() })
    }
}

fn check(code: c_int) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(format!("the C loop failed with MPI code {code}").into()) }
}
