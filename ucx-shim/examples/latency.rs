//! READ, compare-and-swap and fetch-and-add, one at a time, beside `ucx_perftest` and a loop of the
//! bare calls over the same transports, by turns: medians of each round, their median, and the median
//! of the rounds' ratios, as rows of a table.
//!
//! ```text
//! latency [--at-most RATIO] [TRANSPORTS ...]       such as: latency posix,sysv,cma,self tcp
//! ```
//! All count from one operation's end to the next one's, by the time stamp counter, into a ring of as
//! many as ucx_perftest keeps: the call that posts, the progress until it ends, and the loop around.
//! Here that includes what makes a transport of it (checks, names, slots, the watch over the others),
//! in ucx_perftest its own accounts, and in the bare loop nothing else. The other rank polls all the
//! time, on a CPU of its own where there are two. The last column is with a thread that sleeps until
//! others ask, the other rank idle.
//!
//! ucx_perftest's responder progresses as often as the client has operations to do, which is soon
//! over. Behind that it polls the very word that the client's atomics change, or, after READs, sleeps
//! for a millisecond between two looks. What is taken of it is what it does while it serves: see
//! [`Operation::perftest`]. It prints whole nanoseconds.
//!
//! Wants `ucx_perftest` (Debian: ucx-utils) and x86-64.

mod bare;
mod landing;

use core::arch::x86_64::_rdtsc;
use core::error::Error;
use core::time::Duration;
use std::env;
use std::fs;
use std::process::{self, Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use bare::Bare;
use probeline_exchange::{Job, Limits, Options, join};
use probeline_pin::{Affinity, CpuId};
use probeline_transport::{
    Completion, Exchange, Local, Owner, RemoteWord, Segment, Slot, Token, Transport, WORD_BYTES,
};
use probeline_ucx_shim::ucx::{Atomics, Builder, Engine, Progress};

type Result<T> = core::result::Result<T, Box<dyn Error>>;

/// Odd, for a median.
const ROUNDS: usize = 7;
const WARM_UP: u32 = 200;
/// The last so many operations count, as in ucx_perftest.
const KEPT: usize = 2048;
/// Operations of a round, where they are fast.
const OPERATIONS: usize = 300_000;
/// Longer than any round takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// For ucx_perftest to begin.
const LISTENING: Duration = Duration::from_secs(10);
/// Without CPUs for both, an operation over tcp takes milliseconds.
const TIME_LIMIT: Duration = Duration::from_millis(100);
/// The word of rank 1 at which rank 0 works, that in which it says that it is through, and the one
/// that says that rank 1 has seen it.
const AT: RemoteWord = RemoteWord { owner: Owner(1), index: 16 };
const THROUGH: RemoteWord = RemoteWord { owner: Owner(1), index: 0 };

#[derive(Clone, Copy)]
enum Operation {
    /// Of so many words.
    Read(u32),
    CompareAndSwap,
    FetchAdd,
}

impl Operation {
    const ALL: [Self; 5] =
        [Self::Read(1), Self::Read(8), Self::Read(512), Self::CompareAndSwap, Self::FetchAdd];

    fn name(self) -> &'static str {
        match self {
            Self::Read(1) => "READ 8 B",
            Self::Read(8) => "READ 64 B",
            Self::Read(_) => "READ 4 KiB",
            Self::CompareAndSwap => "CAS",
            Self::FetchAdd => "FAA",
        }
    }

    /// The test of ucx_perftest, its size, its operations, and the percentile that tells how long
    /// one takes while the responder serves.
    fn perftest(self, over_tcp: bool) -> [String; 4] {
        let bytes = |words: u32| (words as usize * WORD_BYTES).to_string();
        let (test, size) = match self {
            Self::Read(words) => ("ucp_get", bytes(words)),
            Self::CompareAndSwap => ("ucp_cswap", bytes(1)),
            Self::FetchAdd => ("ucp_fadd", bytes(1)),
        };
        let (operations, percentile) = match (self, over_tcp) {
            // The responder is not needed.
            (Self::Read(_), false) => ("300000", "50"),
            // Few are served at once; the others wait for a look each millisecond.
            (Self::Read(_), true) => ("300", "3"),
            // Later the responder polls the word.
            (_, false) => ("1500", "25"),
            (_, true) => ("1000", "50"),
        };
        [test.to_owned(), size, operations.to_owned(), percentile.to_owned()]
    }
}

fn main() {
    if let Err(error) = run() {
        eprintln!("{error}");
        process::exit(1);
    }
}

fn run() -> Result<()> {
    let mut arguments: Vec<String> = env::args().skip(1).collect();
    let mut at_most = f64::INFINITY;
    if arguments.first().is_some_and(|first| first == "--at-most") {
        at_most = arguments.get(1).ok_or("--at-most takes a ratio")?.parse()?;
        arguments.drain(..2);
    }
    if arguments.is_empty() {
        arguments = ["posix,sysv,cma,self", "tcp"].map(str::to_owned).to_vec();
    }
    let affinity = Affinity::take()?;
    let cpus: Vec<CpuId> = affinity.allowed().iter().collect();
    let limits = Limits { rendezvous: PATIENCE, collective: 10 * PATIENCE };
    let mut job = join(Options { limits, ..Options::spawn(2) })?;
    let cpu = |rank: u32| cpus[rank as usize % cpus.len()];
    affinity.pin(cpu(job.me().0))?;
    let mut worst: f64 = 0.0;
    for tls in &arguments {
        worst = worst.max(beside(&mut job, tls, [cpu(0), cpu(1)])?);
    }
    job.finish(PATIENCE)?;
    if worst > at_most {
        return Err(format!("{worst:.2} is more than {at_most}").into());
    }
    Ok(())
}

/// One set of transports; in rank 0 the larger one of the two ratios, with rank 1 polling.
fn beside(job: &mut Job, tls: &str, cpus: [CpuId; 2]) -> Result<f64> {
    let open = |job: &mut Job, progress| {
        let builder =
            Builder::new(1024).slots(1, 512).depth(1).tls(Some(tls)).atomics(Atomics::Cpu);
        builder.progress(progress).open(job)
    };
    let mut polled = open(job, Progress::Caller)?;
    let mut threaded = open(job, Progress::Thread)?;
    let slot = Local { slot: Slot(0), start: 0, words: 512 };
    let mut bare = Bare::open(job, tls, polled.landed(slot)?)?;
    let first = job.me() == Owner(0);
    if first {
        println!("{}", threaded.info());
    }
    let mut worst: f64 = 0.0;
    for operation in Operation::ALL {
        let [mut theirs, mut loops, mut ours, mut idle] = [const { Vec::new() }; 4];
        for _ in 0..ROUNDS {
            if first {
                theirs.push(perftest(operation, tls, cpus)?);
            }
            job.barrier()?;
            if first {
                loops.push(bare_latency(operation, &mut bare)?);
                bare.tell_through()?;
            } else {
                bare.poll_until_through();
            }
            job.barrier()?;
            if first {
                ours.push(latency(operation, &mut polled)?);
                tell_through(&mut polled)?;
            } else {
                poll_until_through(&mut polled)?;
            }
            job.barrier()?;
            if first {
                idle.push(latency(operation, &mut threaded)?);
            }
            job.barrier()?;
        }
        if first {
            let over = if tls == "tcp" { "tcp" } else { "shared memory" };
            worst = worst.max(report(over, operation, [theirs, loops, ours, idle]));
        }
    }
    Ok(worst)
}

/// Prints a row, in nanoseconds; the ratio that is judged.
fn report(over: &str, operation: Operation, rounds: [Vec<f64>; 4]) -> f64 {
    let [theirs, loops, ours, idle] = &rounds;
    let ratio = |those: &[f64]| median(ours.iter().zip(those).map(|(a, b)| a / b).collect());
    let ns = |rounds: &[f64]| median(rounds.to_vec()) * 1e3;
    println!(
        "| {over} | {} | {:.1} | {:.0} | {:.2} | {:.1} | {:.2} | {:.1} |",
        operation.name(),
        ns(ours),
        ns(theirs),
        ratio(theirs),
        ns(loops),
        ratio(loops),
        ns(idle),
    );
    // There ucx_perftest shows its responder's naps.
    let no_measure = over == "tcp" && matches!(operation, Operation::Read(_));
    ratio(if no_measure { loops } else { theirs })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The transport's median in microseconds: a loop for each kind of operation, as ucx_perftest has, with
/// no call around it.
fn latency(operation: Operation, engine: &mut Engine) -> Result<f64> {
    match operation {
        Operation::Read(words) => {
            let from = Segment { start: AT, words };
            let into = Local { slot: Slot(0), start: 0, words };
            measure(
                #[inline(always)]
                || {
                    engine.read(Token(0), from, into)?;
                    end(engine)
                },
            )
        }
        Operation::CompareAndSwap => measure(
            #[inline(always)]
            || {
                engine.compare_and_swap(Token(0), AT, 0, 0)?;
                end(engine)
            },
        ),
        Operation::FetchAdd => measure(
            #[inline(always)]
            || {
                engine.fetch_add(Token(0), AT, 0)?;
                end(engine)
            },
        ),
    }
}

/// That of the bare calls.
fn bare_latency(operation: Operation, bare: &mut Bare) -> Result<f64> {
    match operation {
        Operation::Read(words) => measure(|| bare.read(words)),
        Operation::CompareAndSwap => measure(|| bare.compare_and_swap()),
        Operation::FetchAdd => measure(|| bare.fetch_add()),
    }
}

/// The median in microseconds.
fn measure(mut once: impl FnMut() -> Result<()>) -> Result<f64> {
    for _ in 0..WARM_UP {
        once()?;
    }
    let mut ticks = [0_u64; KEPT];
    let (mut done, start) = (0, Instant::now());
    let first = now();
    let mut before = first;
    while done < OPERATIONS {
        once()?;
        let after = now();
        ticks[done % KEPT] = after - before;
        before = after;
        done += 1;
        if done.is_multiple_of(1024) && start.elapsed() > TIME_LIMIT {
            break;
        }
    }
    let us_a_tick = start.elapsed().as_secs_f64() * 1e6 / (before - first) as f64;
    let kept = &mut ticks[..done.min(KEPT)];
    kept.sort_unstable();
    Ok(kept[kept.len() / 2] as f64 * us_a_tick)
}

/// Polls until what was posted has ended.
#[inline(always)]
fn end(engine: &mut Engine) -> Result<()> {
    let mut end = [Completion::default()];
    while engine.poll(&mut end)? == 0 {}
    end[0].result?;
    Ok(())
}

fn now() -> u64 {
    // SAFETY: reads a counter that every CPU of x86-64 has.
    unsafe { _rdtsc() }
}

fn tell_through(engine: &mut Engine) -> Result<()> {
    engine.fetch_add(Token(0), THROUGH, 1)?;
    end(engine)
}

fn poll_until_through(engine: &mut Engine) -> Result<()> {
    use core::sync::atomic::Ordering::{Acquire, Release};
    let mut none = [Completion::default()];
    while engine.window()[0].load(Acquire) == 0 {
        engine.poll(&mut none)?;
    }
    // What answers rank 0 leaves with one of these.
    for _ in 0..100_000 {
        engine.poll(&mut none)?;
    }
    engine.window()[0].store(0, Release);
    Ok(())
}

/// The latency that ucx_perftest prints, in microseconds.
fn perftest(operation: Operation, tls: &str, [first, second]: [CpuId; 2]) -> Result<f64> {
    // Below those that the system hands out, and another one for each process: they linger.
    let port = 20_000 + process::id() % 10_000;
    let [test, size, operations, percentile] = operation.perftest(tls == "tcp");
    let command = |cpu: CpuId| {
        let mut command = Command::new("ucx_perftest");
        command.args(["-p", &port.to_string(), "-c", &cpu.0.to_string()]);
        command.env("UCX_TLS", tls).env("UCX_ATOMIC_MODE", "cpu").stdin(Stdio::null());
        command
    };
    let mut server =
        Ending(command(second).stdout(Stdio::null()).spawn().map_err(|error| {
            format!("ucx_perftest: {error}; install ucx-utils (Debian, Ubuntu)")
        })?);
    await_listener(port)?;
    let client = command(first)
        .args(["localhost", "-t", &test, "-s", &size, "-O", "1", "-f", "-v"])
        .args(["-n", &operations, "-w", &WARM_UP.to_string(), "-R", &percentile])
        .output()?;
    server.0.wait()?;
    let text = String::from_utf8_lossy(&client.stdout);
    let values = text.lines().rev().find_map(|line| line.split(',').nth(1)?.trim().parse().ok());
    values.ok_or_else(|| format!("ucx_perftest said: {text}").into())
}

/// Waits until somebody listens on `port`, for [`LISTENING`] at most. Trying would be taken for the
/// client.
fn await_listener(port: u32) -> Result<()> {
    let listens = format!(":{port:04X} 00000000:0000 0A");
    let start = Instant::now();
    while !fs::read_to_string("/proc/net/tcp")?.contains(&listens) {
        if start.elapsed() > LISTENING {
            return Err(format!("ucx_perftest does not listen on port {port}").into());
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Ended when it is not needed any more.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        // Both fail only if it is not there any more.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
