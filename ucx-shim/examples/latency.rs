//! Measures the latency of UCX as a transport beside `ucx_perftest` and a loop of the bare calls.
//!
//! ```text
//! latency [--at-most RATIO] [TRANSPORTS ...]       such as: latency posix,sysv,cma,self tcp
//! ```
//! The three take turns, one operation at a time. A row of the table shows the median of the
//! rounds' medians, and the medians of the rounds' ratios. Each counts from the end of one
//! operation to the end of the next, by the time stamp counter, into a ring of the size that
//! ucx_perftest has. The transport's time includes its checks, tokens, slots and peer watch; that of
//! ucx_perftest includes its bookkeeping; that of the bare loop includes the calls alone. The other
//! rank polls all the time, on another CPU if there are two. In the last column it is idle, and a
//! thread sleeps until peers need it.
//!
//! ucx_perftest's responder progresses as often as the client has operations to do, which takes
//! little time. Then it polls the word that the client's atomics change or, after READs, sleeps for
//! a millisecond between two tests. The figure is taken from the time in which it serves: see
//! [`perftest_arguments`]. It prints whole nanoseconds.
//!
//! Needs `ucx_perftest` (Debian: ucx-utils) and x86-64.

mod bare;
mod shared;

use core::arch::x86_64::_rdtsc;
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
    Completion, Exchange, Local, Owner, RemoteWord, Segment, Sizes, Slot, Token, Transport,
    WORD_BYTES,
};
use probeline_ucx_shim::ucx::{Atomics, Builder, Engine, Progress};
use shared::{MAX_WORDS, Operation, Result, median};

/// The number of rounds, odd for a median.
const ROUNDS: usize = 7;
const WARM_UP: u32 = 200;
/// The number of operations that count, the last ones, as in ucx_perftest.
const KEPT: usize = 2048;
/// The maximum number of operations of a round.
const OPERATIONS: usize = 300_000;
/// The time limit for joining and for leaving the job, longer than either takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time limit for the start of ucx_perftest.
const LISTENING: Duration = Duration::from_secs(10);
/// The maximum time of a measurement: without CPUs for both ranks, an operation over tcp takes
/// milliseconds.
const TIME_LIMIT: Duration = Duration::from_millis(100);
/// The word of rank 1 that is measured.
const AT: RemoteWord = RemoteWord { owner: Owner(1), index: 16 };
/// The word of rank 1 that rank 0 changes when it has finished.
const FINISHED: RemoteWord = RemoteWord { owner: Owner(1), index: 0 };

/// The test of ucx_perftest, its size, its operations, and the percentile that shows the latency
/// while the responder serves.
fn perftest_arguments(operation: Operation, over_tcp: bool) -> [String; 4] {
    let bytes = |words: u32| (words as usize * WORD_BYTES).to_string();
    let (test, size) = match operation {
        Operation::Read(words) => ("ucp_get", bytes(words)),
        Operation::CompareAndSwap => ("ucp_cswap", bytes(1)),
        Operation::FetchAdd => ("ucp_fadd", bytes(1)),
    };
    let (operations, percentile) = match (operation, over_tcp) {
        // The responder is not needed.
        (Operation::Read(_), false) => ("300000", "50"),
        // Few are served at once; the others wait for a test each millisecond.
        (Operation::Read(_), true) => ("300", "3"),
        // Later the responder polls the word.
        (_, false) => ("1500", "25"),
        (_, true) => ("1000", "50"),
    };
    [test.to_owned(), size, operations.to_owned(), percentile.to_owned()]
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
        worst = worst.max(compare(&mut job, tls, [cpu(0), cpu(1)])?);
    }
    job.finish(PATIENCE)?;
    if worst > at_most {
        return Err(format!("{worst:.2} is more than {at_most}").into());
    }
    Ok(())
}

/// Measures over one set of transports. In rank 0, the largest ratio that is judged.
fn compare(job: &mut Job, tls: &str, cpus: [CpuId; 2]) -> Result<f64> {
    let open = |job: &mut Job, progress| {
        let builder = Builder::new(Sizes::new(1024).with_slots(1, MAX_WORDS).with_depth(1))
            .tls(Some(tls))
            .atomics(Atomics::Cpu);
        builder.progress(progress).open(job)
    };
    let mut polled = open(job, Progress::Caller)?;
    let mut threaded = open(job, Progress::Thread)?;
    let slot = Local { slot: Slot(0), start: 0, words: MAX_WORDS };
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
                bare.tell_finished()?;
            } else {
                bare.poll_until_finished();
            }
            job.barrier()?;
            if first {
                ours.push(latency(operation, &mut polled)?);
                tell_finished(&mut polled)?;
            } else {
                poll_until_finished(&mut polled)?;
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

/// Prints a row, in nanoseconds. Returns the ratio that is judged.
fn report(over: &str, operation: Operation, rounds: [Vec<f64>; 4]) -> f64 {
    let [theirs, loops, ours, idle] = &rounds;
    let ratio =
        |those: &[f64]| median(&mut ours.iter().zip(those).map(|(a, b)| a / b).collect::<Vec<_>>());
    let ns = |rounds: &[f64]| median(&mut rounds.to_vec()) * 1e3;
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
    // There the figure of ucx_perftest is the sleep of its responder.
    let no_measure = over == "tcp" && matches!(operation, Operation::Read(_));
    ratio(if no_measure { loops } else { theirs })
}

/// The transport's median in microseconds, by a loop for each kind of operation, as ucx_perftest
/// has.
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

/// The median of the bare calls in microseconds.
fn bare_latency(operation: Operation, bare: &mut Bare) -> Result<f64> {
    match operation {
        Operation::Read(words) => measure(|| bare.read(words)),
        Operation::CompareAndSwap => measure(|| bare.compare_and_swap()),
        Operation::FetchAdd => measure(|| bare.fetch_add()),
    }
}

/// The median duration of `once` in microseconds.
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

/// Polls until the posted operation has completed.
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

fn tell_finished(engine: &mut Engine) -> Result<()> {
    engine.fetch_add(Token(0), FINISHED, 1)?;
    end(engine)
}

fn poll_until_finished(engine: &mut Engine) -> Result<()> {
    use core::sync::atomic::Ordering::{Acquire, Release};
    let mut none = [Completion::default()];
    while engine.window()[0].load(Acquire) == 0 {
        engine.poll(&mut none)?;
    }
    // One of these sends the answers for rank 0.
    for _ in 0..100_000 {
        engine.poll(&mut none)?;
    }
    engine.window()[0].store(0, Release);
    Ok(())
}

/// The latency that ucx_perftest prints, in microseconds.
fn perftest(operation: Operation, tls: &str, [first, second]: [CpuId; 2]) -> Result<f64> {
    // Below the ephemeral ports, and different for each process, because ports stay in use for a
    // while.
    let port = 20_000 + process::id() % 10_000;
    let [test, size, operations, percentile] = perftest_arguments(operation, tls == "tcp");
    let command = |cpu: CpuId| {
        let mut command = Command::new("ucx_perftest");
        command.args(["-p", &port.to_string(), "-c", &cpu.0.to_string()]);
        command.env("UCX_TLS", tls).env("UCX_ATOMIC_MODE", "cpu").stdin(Stdio::null());
        command
    };
    let mut server =
        Server(command(second).stdout(Stdio::null()).spawn().map_err(|error| {
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
    values.ok_or_else(|| format!("ucx_perftest printed no latency: {text}").into())
}

/// Waits until a process listens on `port`, for at most [`LISTENING`]. The server would take a
/// connection for that of the client.
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

/// A process that is killed when this is dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only if the process has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
