//! Latency of READ and compare-and-swap by the transport, beside a plain C loop over the same MPI
//! calls in the same process and by turns; the owner is busy in MPI, as a rank at work is.
//!
//! usage, under mpirun with 2 ranks: mpi-latency LOOP_LIBRARY, which `check-mpi` builds of
//! `bench/rma_loop.c`. Says where the transport takes more than 1.15 of the loop's time, which is
//! what it aims at, and fails where it takes more than 1.6.

use core::error::Error;
use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::Ordering::Acquire;
use core::time::Duration;
use std::env;
use std::ffi::CString;
use std::time::Instant;

use transport::{
    Completion, Exchange, Local, Owner, PostError, RemoteWord, Segment, Slot, Token, Transport,
};
use ucx_shim::mpi::{Builder, Engine, World};

/// What the transport aims at, of the loop's time.
const AIM: f64 = 1.15;
/// What it may take. Within a process a READ is a call of 20 ns by some components, of which what
/// the contract asks for, a token, a slot kept busy and the depth, takes a third.
const MOST: f64 = 1.6;
/// Turns; an odd number, so that there is a middle one.
const TURNS: usize = 501;
/// How long a turn is to take at least: long beside a look at the clock, short beside a time slice.
const TURN: Duration = Duration::from_micros(200);
/// What a READ brings: a cache line.
const WORDS: u32 = 8;
/// What the rank that measures adds 1 to when it has done so.
const STOP: RemoteWord = RemoteWord { owner: Owner(1), index: 32 };
/// The longest wait for the other rank.
const LIMIT: Duration = Duration::from_secs(60);

type Result<T> = core::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let library = env::args().nth(1).ok_or("usage: mpi-latency LOOP_LIBRARY")?;
    let world = World::init(LIMIT)?;
    let mut members = world.members()?;
    if members.owners() != 2 {
        return Err("start it with 2 ranks".into());
    }
    let mut engine = Builder::new(64).slots(1, WORDS).open(&mut members)?;
    let plain = Loop::load(&library)?;
    let mut worst: f64 = 0.0;
    for (served, operation) in (0..).zip([Operation::Read, Operation::CompareAndSwap]) {
        if members.me() == Owner(0) {
            worst = worst.max(measure(&mut engine, &plain, operation)?);
            tell(&mut engine)?;
        } else {
            serve(&mut engine, served)?;
        }
        members.barrier()?;
    }
    plain.close()?;
    members.barrier()?;
    if worst > MOST {
        return Err(format!("{worst:.3} is more than {MOST} of the loop's time").into());
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

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operation {
    Read,
    CompareAndSwap,
}

/// Prints both times and gives their ratio: the median of those of neighbouring turns.
fn measure(engine: &mut Engine, plain: &Loop, operation: Operation) -> Result<f64> {
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
    let judged = if ratio <= AIM { "met" } else { "missed" };
    println!(
        "{}: {operation:?}: transport {our_ns:.1} ns, C loop {their_ns:.1} ns, ratio {ratio:.3}, \
         {AIM} {judged}",
        engine.facts().component
    );
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
    let from = Segment { start: at, words: WORDS };
    let into = Local { slot: Slot(0), start: 0, words: WORDS };
    for _ in 0..rounds {
        finish(engine, |engine| match operation {
            Operation::Read => engine.read(Token(0), from, into),
            Operation::CompareAndSwap => engine.compare_and_swap(Token(0), at, 0, 0),
        })?;
    }
    Ok(())
}

/// Posts one operation and polls for its end.
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
type Cas = unsafe extern "C" fn(c_int, c_int, *mut u64) -> c_int;
type Close = unsafe extern "C" fn() -> c_int;

/// `bench/rma_loop.c`, loaded.
struct Loop {
    read: Read,
    cas: Cas,
    close: Close,
}

impl Loop {
    /// Loads it and opens its window; both ranks do.
    fn load(path: &str) -> Result<Self> {
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
            let cas = transmute::<*mut c_void, Cas>(symbol(c"loop_cas")?);
            let close = transmute::<*mut c_void, Close>(symbol(c"loop_close")?);
            (open, Self { read, cas, close })
        };
        // SAFETY: MPI runs, and both ranks call it.
        judge(unsafe { open(64) })?;
        Ok(plain)
    }

    fn run(&self, operation: Operation, rounds: c_int) -> Result<()> {
        let mut words = [0_u64; WORDS as usize];
        // SAFETY: the window is open, and there is room for all words; both calls have done with
        // them when they return.
        judge(unsafe {
            match operation {
                Operation::Read => (self.read)(rounds, 1, WORDS.cast_signed(), words.as_mut_ptr()),
                Operation::CompareAndSwap => (self.cas)(rounds, 1, words.as_mut_ptr()),
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
