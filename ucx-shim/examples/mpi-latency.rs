//! Latency of READ, compare-and-swap and fetch-and-add by the transport, beside a plain C loop over
//! the same MPI calls in the same process and by turns, as rows of a table; the owner is busy in MPI,
//! as a rank at work is.
//!
//! usage, under mpirun with 2 ranks: mpi-latency LOOP_LIBRARY [AT_MOST], where `check-latency` builds
//! the library of `bench/rma_loop.c`. Fails where the transport takes more than `AT_MOST` of the loop's
//! time, 1.25 if nothing is said.

mod landing;

use core::error::Error;
use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::Ordering::Acquire;
use core::time::Duration;
use std::env;
use std::ffi::CString;
use std::time::Instant;

use landing::landing_like;
use probeline_transport::{
    Completion, Exchange, Local, Owner, PostError, RemoteWord, Segment, Slot, Token, Transport,
};
use probeline_ucx_shim::mpi::{Builder, Engine, World};

/// What it may take, also on a machine with other work: 1.15 is aimed at, and some components take
/// 20 ns for a READ, so that 3 ns are a seventh.
const MOST: f64 = 1.25;
/// Turns; an odd number, so that there is a middle one.
const TURNS: usize = 501;
/// How long a turn is to take at least: long beside a look at the clock, short beside a time slice.
const TURN: Duration = Duration::from_micros(200);
/// Words in the longest READ.
const WORDS: u32 = 512;
/// What is measured.
const OPERATIONS: [Operation; 5] = [
    Operation::Read(1),
    Operation::Read(8),
    Operation::Read(WORDS),
    Operation::CompareAndSwap,
    Operation::FetchAdd,
];
/// What the rank that measures adds 1 to when it has done so.
const STOP: RemoteWord = RemoteWord { owner: Owner(1), index: 800 };
/// The longest wait for the other rank.
const LIMIT: Duration = Duration::from_secs(60);

type Result<T> = core::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let library = env::args().nth(1).ok_or("usage: mpi-latency LOOP_LIBRARY [AT_MOST]")?;
    let at_most = env::args().nth(2).map_or(Ok(MOST), |ratio| ratio.parse())?;
    let world = World::init(LIMIT)?;
    let mut members = world.members()?;
    if members.owners() != 2 {
        return Err("start it with 2 ranks".into());
    }
    let mut engine = Builder::new(1024).slots(1, WORDS).open(&mut members)?;
    let slot = Local { slot: Slot(0), start: 0, words: WORDS };
    let mut plain = Loop::load(&library, engine.landed(slot)?)?;
    let mut worst: f64 = 0.0;
    for (served, operation) in (0..).zip(OPERATIONS) {
        if members.me() == Owner(0) {
            worst = worst.max(measure(&mut engine, &mut plain, operation)?);
            tell(&mut engine)?;
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

/// Lets the owner stop serving.
fn tell(engine: &mut Engine) -> Result<()> {
    finish(engine, |engine| engine.fetch_add(Token(0), STOP, 1))
}

/// Polls until told to stop, as an owner at work does, so that nobody waits for it.
fn serve(engine: &mut Engine, served: u64) -> Result<()> {
    let start = Instant::now();
    let at = usize::try_from(STOP.index)?;
    while engine.window()[at].load(Acquire) == served {
        engine.poll(&mut [Completion::default()])?;
        if start.elapsed() > LIMIT {
            return Err("the other rank never said that it has measured".into());
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Operation {
    /// Of so many words.
    Read(u32),
    CompareAndSwap,
    FetchAdd,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Read(1) => "READ 8 B",
            Self::Read(8) => "READ 64 B",
            Self::Read(_) => "READ 4 KiB",
            Self::CompareAndSwap => "CAS",
            Self::FetchAdd => "FAA",
        }
    }
}

/// Prints a row with both times and gives their ratio: the median of those of neighbouring turns.
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

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// As many operations by the transport, one at a time.
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

/// Posts one operation and polls for its end, within the loop as in C.
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

/// `bench/rma_loop.c`, loaded.
struct Loop {
    read: Read,
    cas: Atomic,
    fadd: Atomic,
    close: Close,
    /// Where READs land. Atomics have their words in it too, as the engine has them a page behind
    /// its slot.
    words: &'static mut [u64],
}

impl Loop {
    /// Loads it and opens its window; both ranks do. What it reads lands as in `slot`, which is the
    /// engine's.
    fn load(path: &str, slot: &[u64]) -> Result<Self> {
        let path = CString::new(path)?;
        // SAFETY: a string; the library has no code that runs when it is loaded.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        if library.is_null() {
            return Err(format!("cannot load {path:?}").into());
        }
        let symbol = |name: &CStr| {
            // SAFETY: a loaded library and a string.
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
            (open, Self { read, cas, fadd, close, words: landing_like(slot) })
        };
        // SAFETY: MPI runs, and both ranks call it.
        judge(unsafe { open(1024) })?;
        Ok(plain)
    }

    fn run(&mut self, operation: Operation, rounds: c_int) -> Result<()> {
        let words = self.words.as_mut_ptr();
        // SAFETY: the window is open, and there is room for all words; the calls have done with them
        // when they return.
        judge(unsafe {
            match operation {
                Operation::Read(count) => (self.read)(rounds, 1, count.cast_signed(), words),
                Operation::CompareAndSwap => (self.cas)(rounds, 1, words),
                Operation::FetchAdd => (self.fadd)(rounds, 1, words),
            }
        })
    }

    fn close(&self) -> Result<()> {
        // SAFETY: the window is open, and both ranks call it.
        judge(unsafe { (self.close)() })
    }
}

fn judge(code: c_int) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(format!("the C loop failed with MPI code {code}").into()) }
}
